"""Titles and abstracts out of PubMed's XML, streamed (text/untrusted.py), and which articles a file takes back.

An update file may hold an article that an earlier file has too, which then counts no more, and a list of those that
were deleted (`DeleteCitation`). Whoever reads several files says which articles stay (text/pubmed.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acclimate.text.untrusted import Limits, SafeParser, Values, blocks, fed, named, shown

# Running text out of articles in JATS, the XML of PubMed Central's full texts, streamed (text/untrusted.py).
#
# Kept are the title, the abstract and the body: headings and paragraphs, lists included. Left out is what is no running
# text or not the authors' own: tables, figures with their captions, formulas, footnotes, references and the marks that
# point to them, supplements, acknowledgements and all else behind the body; abstracts that are a picture or a teaser;
# translations (`trans-abstract`, `sub-article`), reviews and answers printed with the article (`response`).

ROOTS = frozenset({"article", "pmc-articleset"})
_TITLE = ("article", "front", "article-meta", "title-group", "article-title")
_ABSTRACT = ("article", "front", "article-meta", "abstract")
_ID = ("article", "front", "article-meta", "article-id")
_PARAGRAPHS = frozenset({"title", "p", "article-title", "term", "verse-line", "subtitle"})
_PICTURES = {
    "table-wrap",
    "table-wrap-group",
    "table-wrap-foot",
    "table",
    "fig",
    "fig-group",
    "graphic",
    "inline-graphic",
    "media",
}
_FORMULAS = {
    "disp-formula",
    "disp-formula-group",
    "inline-formula",
    "tex-math",
    "math",
    "chem-struct",
    "chem-struct-wrap",
}
_NOTES = {
    "fn",
    "fn-group",
    "label",
    "object-id",
    "ref-list",
    "ref",
    "back",
    "floats-group",
    "author-notes",
    "kwd-group",
}
_BESIDE = {"supplementary-material", "inline-supplementary-material", "sub-article", "response", "code", "preformat"}
_LEFT_OUT = frozenset(_PICTURES | _FORMULAS | _NOTES | _BESIDE)
_OTHER_ABSTRACTS = frozenset({"graphical", "teaser", "toc", "key-points", "highlights", "author-highlights"})
_NAMES = {"pmc": "pmc", "pmcid": "pmc", "pmcaid": "", "pmid": "pmid", "doi": "doi"}
_BETWEEN = re.compile(r"(?:[\s,;\u2010-\u2015-]|and)*")  # what stands between the marks of several references
_EMPTY = re.compile(r"\s*(?:\[(?:[\s,;\u2010-\u2015-]|and)*\]|\((?:[\s,;\u2010-\u2015-]|and|see|e\.g\.)*\))")
_BEFORE = re.compile(r"\s+(?=[.,;:!?)\]])")


def jats_articles(path: Path, field: str, limits: Limits) -> Iterator[tuple[int, Values]]:
    """Line of its beginning, and `id` and text (as `field`), of each article; or why it has none.

    The text is a line for each heading and paragraph. The id is that of PubMed Central (PMC123), or else the PMID, or
    else the DOI. Raises ValueError where the file is not well-formed XML, declares entities, or holds no article.
    """
    reader = _JatsReader(path, field, limits)
    if not (yield from fed(reader.parser, blocks(path, limits), reader.articles)):
        raise ValueError(
            f"{named(path)}: holds no article; its outermost element is {shown(reader.root)}. Leave it out"
        )


class _JatsReader:
    """Collects the articles that have come to their end."""

    def __init__(self, path: Path, field: str, limits: Limits) -> None:
        self.articles: list[tuple[int, Values]] = []
        self.root = ""
        self._field, self._limits = field, limits
        self._open: list[str] = []  # elements around the place, those around the article left out
        self._line = self._length = 0
        self._ids: dict[str, str] = {}
        self._lines: list[str] = []  # of the article's text
        self._text: list[str] = []  # of the line that is not over yet
        self._skipped = 0  # depth of the outermost element that is left out; 0 where none is
        self._kind = ""  # of the id that is being read
        self._marks = False  # whether marks of references were left out of the line
        self._raised: list[int] = []  # for each open <sup>, where in the line it began
        self.parser = SafeParser(
            named(path), longest=limits.line, start=self._start, end=self._end, characters=self._characters
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        name = name.rpartition(":")[2]
        if not self._open:
            if name != "article":
                return
            self._line, self._length, self._ids, self._lines = self.parser.line, 0, {}, []
        self._open.append(name)
        if self._skipped:
            return
        if _left_out(name, attributes):
            self._skipped = len(self._open)
            self._marks |= name == "xref"
        elif self._at(_ID):
            self._kind, self._text = _NAMES.get(attributes.get("pub-id-type", ""), ""), []
        elif self._inside():
            if name in _PARAGRAPHS:
                self._end_line()
            elif name == "sup":
                self._raised.append(len(self._text))
            elif name == "break":
                self._text.append(" ")

    def _end(self, name: str) -> None:
        if not self._open:
            return
        name = self._open[-1]
        if self._skipped:
            if len(self._open) == self._skipped:
                self._skipped = 0
                if name not in ("xref", "label"):
                    self._text.append(" ")
        elif self._at(_ID):
            self._keep_id("".join(self._text).strip())
        elif self._inside():
            if name in _PARAGRAPHS:
                self._end_line()
            elif name == "sup" and self._raised:
                begun = self._raised.pop()
                if self._marks and _BETWEEN.fullmatch("".join(self._text[begun:])):
                    del self._text[begun:]
        self._open.pop()
        if not self._open:
            self.articles.append((self._line, self._article()))

    def _characters(self, text: str) -> None:
        if self._skipped or not self._open or not (self._inside() or self._at(_ID)):
            return
        self._text.append(text)
        self._length += len(text)
        if self._length > self._limits.line:
            raise self.parser.error(f"an article of more than {self._limits.line:,} characters. Leave it out")

    def _at(self, path: tuple[str, ...]) -> bool:
        return len(self._open) == len(path) and tuple(self._open) == path

    def _inside(self) -> bool:
        """Return whether what stands here is text of the article."""
        return self._open[1:2] == ["body"] or any(
            tuple(self._open[: len(path)]) == path for path in (_TITLE, _ABSTRACT)
        )

    def _keep_id(self, found: str) -> None:
        if self._kind == "pmc" and found:
            found = f"PMC{found.upper().removeprefix('PMC')}"
        if self._kind and found:
            self._ids.setdefault(self._kind, found)
        self._text = []

    def _end_line(self) -> None:
        line = " ".join("".join(self._text).split())
        if self._marks:
            line = _BEFORE.sub("", _EMPTY.sub("", line))
        if line:
            self._lines.append(line)
        self._text, self._marks, self._raised = [], False, []

    def _article(self) -> Values:
        self._end_line()
        if not self._lines:
            return "the article has neither title nor abstract nor body"
        name = next((self._ids[kind] for kind in ("pmc", "pmid", "doi") if kind in self._ids), None)
        return {self._field: "\n".join(self._lines), "id": name}


def _left_out(name: str, attributes: dict[str, str]) -> bool:
    if name == "xref":
        return attributes.get("ref-type") == "bibr"
    if name == "abstract":
        return attributes.get("abstract-type", "") in _OTHER_ABSTRACTS
    return name in _LEFT_OUT


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


# Articles out of XML: PubMed's (text/pubmed.py) or PubMed Central's (text/pubmed.py), whichever the file holds.


def xml_articles(path: Path, field: str, limits: Limits) -> Iterator[tuple[int, Values | Deletion]]:
    """Yield the articles of `pubmed_articles` or `jats_articles`. Raises ValueError as they do."""
    readers = jats_articles if _outermost(path, limits) in ROOTS else pubmed_articles
    yield from readers(path, field, limits)


def _outermost(path: Path, limits: Limits) -> str:
    """Return the name of the file's outermost element, "" where there is none."""
    found: list[str] = []
    parser = SafeParser(
        named(path),
        longest=limits.line,
        start=lambda name, _: None if found else found.append(name),
        end=lambda name: None,
        characters=lambda text: None,
    )
    for _ in parser.feed(blocks(path, limits)):
        if found:
            return found[0]
    return ""


# Which articles of PubMed's files stay, once all files are read: the baseline and the updates after it.
#
# The rule of the files themselves: an article that comes again replaces the one before, a list of deletions takes away
# what came before it, and of an article's versions the latest counts (`PMID Version`, of a few journals only).

DELETED = -2  # in place of a document's number
LEFT_OUT = -1  # an article that a filter dropped: it replaces an older one all the same


def superseded(pmids: np.ndarray, versions: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of documents that a later article replaced, and of those that were deleted; both ascending.

    pmids, versions, numbers   (E,) int64, in the order of the files: an article and its document's number (or
                               LEFT_OUT), or a deletion (DELETED)
    Memory: some 60 bytes an article.
    """
    if not len(pmids):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((np.arange(len(pmids)), versions, pmids))
    pmids, versions, numbers = pmids[order], versions[order], numbers[order]
    last_of_version = np.append((pmids[1:] != pmids[:-1]) | (versions[1:] != versions[:-1]), True)
    # whether the version, in the end, is deleted: told by the last that is said of it
    groups = np.cumsum(last_of_version) - last_of_version
    deleted = (numbers[last_of_version] == DELETED)[groups]
    stays = last_of_version & ~deleted
    # of the versions that stay, only the latest of each article does
    kept = np.flatnonzero(stays)
    stays[kept[:-1][pmids[kept[1:]] == pmids[kept[:-1]]]] = False
    documents = numbers >= 0
    return np.sort(numbers[documents & ~stays & ~deleted]), np.sort(numbers[documents & deleted])
