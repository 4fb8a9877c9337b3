"""Titles and abstracts out of PubMed's XML, streamed (text/safe_xml.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from acclimate.text.jsonlines import Values
from acclimate.text.packed import Limits, blocks, named
from acclimate.text.recognise import shown
from acclimate.text.safe_xml import SafeParser

ARTICLES = frozenset({"PubmedArticle", "PubmedBookArticle"})
# (parent, element) -> what it holds. OtherAbstract, in another language, has another parent; so have cited PMIDs
_PARTS = {
    ("MedlineCitation", "PMID"): "id",
    ("BookDocument", "PMID"): "id",
    ("Article", "ArticleTitle"): "title",
    ("BookDocument", "ArticleTitle"): "title",
    ("Abstract", "AbstractText"): "abstract",
}


def pubmed_articles(path: Path, field: str, limits: Limits) -> Iterator[tuple[int, Values]]:
    """Line of its beginning, and `id` and text (as `field`), of each article; or why it has none.

    The text is the title and the abstract's paragraphs, each on a line of its own, labels such as METHODS before them.
    Raises ValueError where the file is not well-formed XML, declares entities, or holds no article.
    """
    reader = _Reader(path, field, limits)
    found = False
    for _ in reader.parser.feed(blocks(path, limits)):
        found |= bool(reader.articles)
        yield from reader.articles
        reader.articles.clear()
    if not found:
        raise ValueError(
            f"{named(path)}: holds no PubmedArticle; its outermost element is {shown(reader.root)}. Of XML only "
            f"PubMed's is read: convert the file to .txt or .jsonl"
        )


class _Reader:
    """Collects the articles that have come to their end."""

    def __init__(self, path: Path, field: str, limits: Limits) -> None:
        self.articles: list[tuple[int, Values]] = []
        self.root = ""
        self._field, self._limits = field, limits
        self._open: list[str] = []
        self._line = 0
        self._parts: dict[str, list[str]] = {}
        self._text: list[str] | None = None  # of the part that is open, None between parts
        self._depth = 0  # at which that part began
        self._length = 0
        self.parser = SafeParser(
            named(path), longest=limits.line, start=self._start, end=self._end, characters=self._characters
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        if name in ARTICLES:
            self._line, self._length = self.parser.line, 0
            self._parts = {"id": [], "title": [], "abstract": []}
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if self._text is None and (parent, name) in _PARTS and self._parts:
            label = attributes.get("Label", "")
            self._text = [f"{label}: "] if label and name == "AbstractText" else []
            self._depth = len(self._open)

    def _end(self, name: str) -> None:
        if self._text is not None and len(self._open) == self._depth:
            part = _PARTS[(self._open[-2], name)]
            self._parts[part].append(" ".join("".join(self._text).split()))
            self._text = None
        self._open.pop()
        if name in ARTICLES:
            self.articles.append((self._line, self._article()))
            self._parts = {}

    def _article(self) -> Values:
        text = "\n".join(part for part in (*self._parts["title"], *self._parts["abstract"]) if part)
        if not text:
            return "the article has neither title nor abstract"
        return {self._field: text, "id": self._parts["id"][0] if self._parts["id"] else None}

    def _characters(self, text: str) -> None:
        if self._text is None:
            return
        self._text.append(text)
        self._length += len(text)
        if self._length > self._limits.line:
            raise self.parser.error(f"an article of more than {self._limits.line:,} characters. Leave it out")
