"""Stream titles and abstracts from PubMed's XML (text/safe_xml.py), and find those that later files supersede.

PubMed has yearly baseline files and update files. An article in a later file replaces the same article in an earlier
one. A list of deletions (`DeleteCitation`) removes articles that came before it. Of an article's versions the latest
counts (`PMID Version`, in a few journals). `superseded` applies these rules once all files are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acclimate.core.names import shown
from acclimate.text.jats import ROOTS, jats_articles
from acclimate.text.safe_xml import SafeParser, fed
from acclimate.text.untrusted import ReadLimits, RowValues, named, read_blocks

ARTICLES = frozenset({"PubmedArticle", "PubmedBookArticle"})
# (parent, element) -> what it holds; abstracts in other languages (OtherAbstract) and cited PMIDs have other parents
_PARTS = {
    ("MedlineCitation", "PMID"): "id",
    ("BookDocument", "PMID"): "id",
    ("Article", "ArticleTitle"): "title",
    ("BookDocument", "ArticleTitle"): "title",
    ("Abstract", "AbstractText"): "abstract",
    ("DeleteCitation", "PMID"): "deleted",
}
_DELETING = "DeleteCitation"
DELETED = -2  # in place of a document's number: a deletion
LEFT_OUT = -1  # likewise: a filter dropped the article, which replaces an older one nevertheless


@dataclass(frozen=True, slots=True)
class Citation:
    """An article of PubMed: its PMID, and its version, which is 1 unless the file states one."""

    pmid: int
    version: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """A list of deleted articles, in place of an article's values."""

    citations: tuple[Citation, ...]


def xml_articles(path: Path, field: str, limits: ReadLimits) -> Iterator[tuple[int, RowValues | Deletion]]:
    """Yield the articles of a file of PubMed (`pubmed_articles`) or PubMed Central (`jats_articles`)."""
    readers = jats_articles if _outermost(path, limits) in ROOTS else pubmed_articles
    yield from readers(path, field, limits)


def pubmed_articles(path: Path, field: str, limits: ReadLimits) -> Iterator[tuple[int, RowValues | Deletion]]:
    """Yield the first line of each article and its values, or why it has none; or the line and a Deletion.

    The values are `id`, `citation` (if the PMID is a number) and the text (as `field`): the title and the abstract's
    paragraphs, one a line, after their labels such as METHODS.
    Raises ValueError if the file is not well-formed XML, declares entities, or holds neither articles nor deletions.
    """
    reader = _ArticleReader(path, field, limits)
    if not (yield from fed(reader.parser, read_blocks(path, limits), reader.articles)):
        raise ValueError(
            f"{named(path)}: contains no PubmedArticle; its outermost element is {shown(reader.root)}. Supported "
            "XML is PubMed and JATS. Convert the file to .txt or .jsonl"
        )


class _ArticleReader:
    """Collects finished articles and deletions."""

    def __init__(self, path: Path, field: str, limits: ReadLimits) -> None:
        self.articles: list[tuple[int, RowValues | Deletion]] = []
        self.root = ""
        self._field, self._limits = field, limits
        self._open: list[str] = []
        self._line = 0
        self._parts: dict[str, list[str]] = {}
        self._version = ""  # of the last PMID
        self._deleted: list[Citation] = []
        self._text: list[str] | None = None  # of the open part; None between parts
        self._depth = 0  # depth of that part
        self._length = 0
        self.parser = SafeParser(
            named(path), longest=limits.line, start=self._start, end=self._end, characters=self._characters
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        if self._parts and (name in ARTICLES or name == _DELETING):
            raise self.parser.error(f"a {name} within another article or deletion. Fetch the file again")
        if name in ARTICLES:
            self._line, self._length = self.parser.line, 0
            self._parts = {"id": [], "title": [], "abstract": []}
        elif name == _DELETING:
            self._line, self._length, self._deleted = self.parser.line, 0, []
            self._parts = {"deleted": []}
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if self._text is None and _PARTS.get((parent, name)) in self._parts:
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

    def _article(self) -> RowValues:
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
            raise self.parser.error(f"an article of more than {self._limits.line:,} characters. Remove it")


def _citation(pmid: str, version: str) -> Citation | None:
    if not (pmid.isascii() and pmid.isdecimal() and len(pmid) < 18):
        return None
    return Citation(int(pmid), int(version) if version.isascii() and version.isdecimal() and len(version) < 9 else 1)


def _outermost(path: Path, limits: ReadLimits) -> str:
    """Return the name of the file's outermost element; "" if it has none."""
    texts: list[str] = []
    parser = SafeParser(
        named(path),
        longest=limits.line,
        start=lambda name, _: None if texts else texts.append(name),
        end=lambda name: None,
        characters=lambda text: None,
    )
    for _ in parser.feed(read_blocks(path, limits)):
        if texts:
            return texts[0]
    return ""


def superseded(pmids: np.ndarray, versions: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the replaced and of the deleted documents, both ascending.

    pmids, versions, numbers   (E,) int64, in the order of the files: an article and its document's number (or
                               LEFT_OUT), or a deletion (DELETED)
    Memory: some 60 bytes an article.
    """
    if not len(pmids):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((np.arange(len(pmids)), versions, pmids))
    pmids, versions, numbers = pmids[order], versions[order], numbers[order]
    last_of_version = np.append((pmids[1:] != pmids[:-1]) | (versions[1:] != versions[:-1]), True)
    # a version is deleted if its last entry is a deletion
    groups = np.cumsum(last_of_version) - last_of_version
    deleted = (numbers[last_of_version] == DELETED)[groups]
    stays = last_of_version & ~deleted
    # of the versions that are not deleted, only the latest of each article stays
    places = np.flatnonzero(stays)
    stays[places[:-1][pmids[places[1:]] == pmids[places[:-1]]]] = False
    documents = numbers >= 0
    return np.sort(numbers[documents & ~stays & ~deleted]), np.sort(numbers[documents & deleted])
