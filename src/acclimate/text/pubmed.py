"""Titles and abstracts out of PubMed's XML, streamed (text/safe_xml.py), and which articles a file takes back.

An update file may hold an article that an earlier file has too, which then counts no more, and a list of those that
were deleted (`DeleteCitation`). Whoever reads several files says which articles stay (text/superseded.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acclimate.text.jsonlines import Values
from acclimate.text.packed import Limits, blocks, named
from acclimate.text.recognise import shown
from acclimate.text.safe_xml import SafeParser, fed

ARTICLES = frozenset({"PubmedArticle", "PubmedBookArticle"})
# (parent, element) -> what it holds. OtherAbstract, in another language, has another parent; so have cited PMIDs
_PARTS = {
    ("MedlineCitation", "PMID"): "id",
    ("BookDocument", "PMID"): "id",
    ("Article", "ArticleTitle"): "title",
    ("BookDocument", "ArticleTitle"): "title",
    ("Abstract", "AbstractText"): "abstract",
    ("DeleteCitation", "PMID"): "deleted",
}
_DELETING = "DeleteCitation"


@dataclass(frozen=True, slots=True)
class Citation:
    """An article of PubMed: its PMID, and which version of it, for a few have several; 1 where the file says none."""

    pmid: int
    version: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """What stands in place of an article's values where a file takes articles back that came before."""

    citations: tuple[Citation, ...]


def pubmed_articles(path: Path, field: str, limits: Limits) -> Iterator[tuple[int, Values | Deletion]]:
    """Line of its beginning, and `id`, `citation` and text (as `field`), of each article; or why it has none.

    The text is the title and the abstract's paragraphs, each on a line of its own, labels such as METHODS before them.
    `citation` is there where the PMID is a number. Where articles are deleted, a Deletion comes with the line.
    Raises ValueError where the file is not well-formed XML, declares entities, or holds neither.
    """
    reader = _Reader(path, field, limits)
    if not (yield from fed(reader.parser, blocks(path, limits), reader.articles)):
        raise ValueError(
            f"{named(path)}: holds no PubmedArticle; its outermost element is {shown(reader.root)}. Of XML only "
            f"PubMed's and articles in JATS are read: convert the file to .txt or .jsonl"
        )


class _Reader:
    """Collects the articles that have come to their end."""

    def __init__(self, path: Path, field: str, limits: Limits) -> None:
        self.articles: list[tuple[int, Values | Deletion]] = []
        self.root = ""
        self._field, self._limits = field, limits
        self._open: list[str] = []
        self._line = 0
        self._parts: dict[str, list[str]] = {}
        self._version = ""  # of the last PMID
        self._deleted: list[Citation] = []
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
        elif name == _DELETING:
            self._line, self._length, self._deleted = self.parser.line, 0, []
            self._parts = {"deleted": []}
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if self._text is None and (parent, name) in _PARTS and self._parts:
            label = attributes.get("Label", "")
            self._text = [f"{label}: "] if label and name == "AbstractText" else []
            self._depth = len(self._open)
            if name == "PMID":
                self._version = attributes.get("Version", "")

    def _end(self, name: str) -> None:
        if self._text is not None and len(self._open) == self._depth:
            part = _PARTS[(self._open[-2], name)]
            text = " ".join("".join(self._text).split())
            self._text = None
            if part != "deleted":
                self._parts[part].append(text)
            elif citation := _citation(text, self._version):
                self._deleted.append(citation)
        self._open.pop()
        if name in ARTICLES:
            self.articles.append((self._line, self._article()))
            self._parts = {}
        elif name == _DELETING:
            self.articles.append((self._line, Deletion(tuple(self._deleted))))
            self._parts = {}

    def _article(self) -> Values:
        text = "\n".join(part for part in (*self._parts["title"], *self._parts["abstract"]) if part)
        if not text:
            return "the article has neither title nor abstract"
        name = self._parts["id"][0] if self._parts["id"] else None
        citation = _citation(name or "", self._version)
        return {self._field: text, "id": name, **({"citation": citation} if citation else {})}

    def _characters(self, text: str) -> None:
        if self._text is None:
            return
        self._text.append(text)
        self._length += len(text)
        if self._length > self._limits.line:
            raise self.parser.error(f"an article of more than {self._limits.line:,} characters. Leave it out")


def _citation(pmid: str, version: str) -> Citation | None:
    if not (pmid.isascii() and pmid.isdecimal() and len(pmid) < 18):
        return None
    return Citation(int(pmid), int(version) if version.isascii() and version.isdecimal() and len(version) < 9 else 1)
