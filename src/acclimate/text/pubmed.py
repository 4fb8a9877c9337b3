"""Titles and abstracts out of PubMed's XML, streamed.

Only what stands in the file is read: no document type is fetched, no entity expanded. A file that declares entities is
refused, for PubMed's do not, and a few lines of them can unfold into gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from acclimate.text.jsonlines import Values
from acclimate.text.packed import Limits, blocks, named
from acclimate.text.recognise import printable, shown

ARTICLES = frozenset({"PubmedArticle", "PubmedBookArticle"})
_DEEPEST = 200  # elements within each other; PubMed's are a dozen deep
# (parent, element) -> what it holds. OtherAbstract, in another language, has another parent; so have cited PMIDs
_PARTS = {
    ("MedlineCitation", "PMID"): "id",
    ("BookDocument", "PMID"): "id",
    ("Article", "ArticleTitle"): "title",
    ("BookDocument", "ArticleTitle"): "title",
    ("Abstract", "AbstractText"): "abstract",
}
_FED = 1 << 16  # bytes at a time


def pubmed_articles(path: Path, field: str, limits: Limits) -> Iterator[tuple[int, Values]]:
    """Line of its beginning, and `id` and text (as `field`), of each article; or why it has none.

    The text is the title and the abstract's paragraphs, each on a line of its own, labels such as METHODS before them.
    Raises ValueError where the file is not well-formed XML, declares entities, or holds no article.
    """
    reader = _Reader(path, field, limits)
    found = False
    for block in blocks(path, limits):
        for start in range(0, len(block), _FED):
            reader.feed(block[start : start + _FED])
            found |= bool(reader.articles)
            yield from reader.articles
            reader.articles.clear()
    reader.feed(b"", last=True)
    yield from reader.articles
    if not found and not reader.articles:
        raise ValueError(
            f"{named(path)}: holds no PubmedArticle; its outermost element is {shown(reader.root)}. Of XML only "
            f"PubMed's is read: convert the file to .txt or .jsonl"
        )


class _RefusedError(ValueError):
    """What the file is refused for, in words for a person."""


class _Reader:
    """Takes bytes and collects the articles that have come to their end."""

    def __init__(self, path: Path, field: str, limits: Limits) -> None:
        self.articles: list[tuple[int, Values]] = []
        self.root = ""
        self._path, self._field, self._limits = path, field, limits
        self._fed = 0
        self._open: list[str] = []
        self._line = 0
        self._parts: dict[str, list[str]] = {}
        self._text: list[str] | None = None  # of the part that is open, None between parts
        self._depth = 0  # at which that part began
        self._length = 0
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._skipped
        self._parser = parser

    def feed(self, content: bytes, *, last: bool = False) -> None:
        """Raises ValueError where the content is not well-formed, or something in it never ends."""
        self._fed += len(content)
        try:
            self._parser.Parse(content, last)
        except expat.ExpatError as error:
            raise self._error(
                f"not well-formed XML at column {error.offset + 1} ({expat.ErrorString(error.code)}). Fetch the file "
                f"again",
                error.lineno,
            ) from error
        except _RefusedError:
            raise
        except (LookupError, ValueError) as error:  # from looking up the encoding that the file says it has
            raise self._error(f"cannot be decoded ({printable(str(error))}). Convert it to UTF-8") from error
        if self._fed - self._parser.CurrentByteIndex > self._limits.line:
            raise self._error(f"more than {self._limits.line:,} bytes without an end of tag. Fetch the file again")

    def _error(self, what: str, line: int | None = None) -> _RefusedError:
        return _RefusedError(f"{named(self._path)}:{line or self._parser.CurrentLineNumber}: {what}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        if name in ARTICLES:
            self._line, self._length = self._parser.CurrentLineNumber, 0
            self._parts = {"id": [], "title": [], "abstract": []}
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise self._error(f"{len(self._open)} elements within each other. This is none of PubMed's files")
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
            raise self._error(f"an article of more than {self._limits.line:,} characters. Leave it out")

    def _entity(self, name: str, *_: object) -> NoReturn:
        raise self._error(
            f"declares the entity {shown(name)}, which PubMed's files never do: entities can unfold into gigabytes or "
            f"read other files. Nothing was unfolded; take the declaration out"
        )

    def _skipped(self, name: str, _: bool) -> NoReturn:
        raise self._error(f"uses the entity {shown(name)}, which nothing in the file says the meaning of. Write it out")
