"""Read and filter raw text in parts, from which text/preparation.py chooses the documents of a corpus.

Files are grouped into units of some size, which several processes may read at once. A unit is written as one or more
parts, each a folder that is written whole or not at all; the last part says that it is the last. A stopped unit resumes
after its last part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core.files import check_manifest, new_directory, read_json, write_json
from acclimate.core.types import Document, Watch, counted, unwatched
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import DocumentRows, Separated, document_of, document_rows
from acclimate.text.language import UNKNOWN, language
from acclimate.text.overlap.near_duplicates import Sketches, sketches
from acclimate.text.pubmed import DELETED, LEFT_OUT, Citation, Deletion

UNIT = 64 << 20  # bytes of files after which a unit ends
PART = 32 << 20  # characters after which a part ends
EXAMPLES = 3  # examples of each kind that a part lists
_EXCERPT = 160  # characters
_BATCH = 1 << 20  # characters whose sketches are made at a time
_ARRAYS = ("hashes", "bands", "signatures", "lengths", "citations")


@dataclass(frozen=True)
class Filters:
    """Conditions that a document must meet; 0 and "" are no condition. White space separates words."""

    language: str = ""
    least_words: int = 0
    most_words: int = 0
    least_characters: int = 0
    most_characters: int = 0

    def against(self, text: str, language_found: str) -> tuple[str, str] | None:
        """Return the filter that rejects a text in this language and what it found, or None if the text stays."""
        if not text.strip():
            return "empty", "white space"
        words, characters = len(text.split()), len(text)
        if words < self.least_words or characters < self.least_characters:
            return "short", f"{words:,} words, {characters:,} characters"
        if 0 < self.most_words < words or 0 < self.most_characters < characters:
            return "long", f"{words:,} words, {characters:,} characters"
        if self.language and language_found not in (self.language, UNKNOWN):
            return "language", language_found
        return None


@dataclass(frozen=True)
class Unit:
    """Files that are read in turn, each with the folder from which its documents are named."""

    number: int
    files: tuple[tuple[Path, Path], ...]


@dataclass
class FilterCounts:
    """Documents and characters of each kind; examples: kind -> the first as [id, what was found, excerpt]."""

    documents: dict[str, int] = field(default_factory=dict)
    characters: dict[str, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[list[str]]] = field(default_factory=dict)

    def add(self, kind: str, characters: int, example: tuple[str, str, str] | None = None) -> None:
        """Count a document. example: its id, what was found, its text."""
        self.documents[kind] = self.documents.get(kind, 0) + 1
        self.characters[kind] = self.characters.get(kind, 0) + characters
        listed = self.examples.setdefault(kind, []) if example else []
        if example and len(listed) < EXAMPLES:
            listed.append([example[0], example[1], " ".join(example[2][: 4 * _EXCERPT].split())[:_EXCERPT]])

    def merge(self, other: FilterCounts) -> None:
        for name in ("documents", "characters", "languages"):
            mine = getattr(self, name)
            for kind, count in getattr(other, name).items():
                mine[kind] = mine.get(kind, 0) + count
        for kind, listed in other.examples.items():
            examples = self.examples.setdefault(kind, [])
            examples += listed[: EXAMPLES - len(examples)]


@dataclass(frozen=True)
class CorpusPart:
    """A part on disk. corpus: the documents that passed the filters, or None if none did."""

    path: Path

    @property
    def facts(self) -> dict[str, Any]:
        check_manifest(self.path)
        facts: dict[str, Any] = read_json(self.path / "part.json")
        return facts

    @property
    def corpus(self) -> Corpus | None:
        return Corpus(self.path / "corpus") if (self.path / "corpus").exists() else None

    def array(self, name: str) -> np.ndarray:
        check_manifest(self.path, names=(f"{name}.npy",))
        file = self.path / f"{name}.npy"
        array: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
        return array

    def sketches(self) -> Sketches:
        return Sketches(*(self.array(name) for name in ("hashes", "bands", "signatures")))


def units(files: Sequence[tuple[Path, Path]]) -> list[Unit]:
    """Group the files into units. files: in order, each with the folder from which its documents are named."""
    units_found: list[Unit] = []
    waiting: list[tuple[Path, Path]] = []
    size = 0
    for file, above in files:
        waiting.append((file, above))
        size += os.stat(file).st_size
        if size >= UNIT:
            units_found.append(Unit(len(units_found), tuple(waiting)))
            waiting, size = [], 0
    if waiting:
        units_found.append(Unit(len(units_found), tuple(waiting)))
    return units_found


def parts_of_unit(unit: int, folder: Path) -> list[CorpusPart]:
    """Return the existing parts of the unit, in order."""
    return [CorpusPart(path) for path in sorted(folder.glob(f"{unit:06}-*"))]


def read_unit(
    unit: Unit,
    *,
    folder: Path,
    filters: Filters,
    near: float,
    column: str,
    separated: Separated,
    watch: Watch = unwatched,
) -> int:
    """Write the missing parts of the unit, and return the number of its parts.

    column  the field, or column, that holds the text
    Raises ValueError, as `read_documents` does, for a file that cannot be read.
    """
    parts = parts_of_unit(unit.number, folder)
    facts = parts[-1].facts if parts else {"last": False, "rows": 0}
    if facts["last"]:
        return len(parts)
    rows = chain.from_iterable(document_rows(file, above, separated, column) for file, above in unit.files)
    for _ in islice(rows, facts["rows"]):
        pass
    number, row_count, last = len(parts), int(facts["rows"]), False
    reported = counted(rows, watch, "reading", unit="documents")
    while not last:
        reading = _Reading(reported, filters, near, column)
        with new_directory(folder / f"{unit.number:06}-{number:06}") as directory:
            reading.write(directory, row_count)
        row_count, last, number = row_count + reading.rows, reading.last, number + 1
    return number


class _Reading:
    """Reads and writes one part."""

    def __init__(self, rows: DocumentRows, filters: Filters, near: float, column: str) -> None:
        self.rows = 0
        self.last = True
        self._given, self._filters, self._near, self._column = rows, filters, near, column
        self._counts = FilterCounts()
        self._sketched: list[Sketches] = [sketches([], near)]
        self._lengths: list[int] = []
        self._texts: list[str] = []  # texts without sketches so far
        self._waiting = 0  # their characters
        self._citations: list[tuple[int, int, int]] = []

    def write(self, directory: Path, before: int) -> None:
        """Read the rows of the part and write its files. before: rows of the unit's earlier parts."""
        documents = self._documents()
        if (first := next(documents, None)) is not None:
            write_corpus(chain([first], documents), directory / "corpus")
        self._sketch()
        hashes, bands, signatures = zip(*self._sketched, strict=True)
        arrays = [np.concatenate(hashes), np.concatenate(bands, axis=1), np.concatenate(signatures)]
        arrays += [np.array(self._lengths, np.int64), np.array(self._citations, np.int64).reshape(-1, 3)]
        for name, values in zip(_ARRAYS, arrays, strict=True):
            np.save(directory / f"{name}.npy", values, allow_pickle=False)
        counts = {name: getattr(self._counts, name) for name in ("documents", "characters", "languages", "examples")}
        write_json(directory / "part.json", {"rows": before + self.rows, "last": self.last, "counts": counts})

    def _documents(self) -> Iterator[Document]:
        """Yield the documents that stay, until the part is large enough."""
        characters = 0
        for place, values in self._given:
            self.rows += 1
            if isinstance(values, Deletion):
                self._citations += [(citation.pmid, citation.version, DELETED) for citation in values.citations]
                continue
            document = document_of(place, values, self._column)
            citation = None if isinstance(values, str) else values.get("citation")
            characters += len(document.text) if isinstance(document, Document) else 0
            if isinstance(document, str):
                self._counts.add("rejected", 0, (place, document, ""))
            elif self._stays(document, citation):
                yield document
            if characters >= PART:
                self.last = False
                return

    def _stays(self, document: Document, citation: Citation | None) -> bool:
        text = document.text
        language_found = language(text)
        self._counts.add("read", len(text))
        self._counts.languages[language_found] = self._counts.languages.get(language_found, 0) + 1
        against = self._filters.against(text, language_found)
        if citation is not None:
            self._citations.append((citation.pmid, citation.version, LEFT_OUT if against else len(self._lengths)))
        if against:
            self._counts.add(against[0], len(text), (document.id, against[1], text))
            return False
        self._lengths.append(len(text))
        self._texts.append(text)
        self._waiting += len(text)
        if self._waiting >= _BATCH:
            self._sketch()
        return True

    def _sketch(self) -> None:
        self._sketched.append(sketches(self._texts, self._near))
        self._texts, self._waiting = [], 0


def total_counts(parts: Iterable[CorpusPart]) -> FilterCounts:
    """Return the counts of all parts together."""
    total = FilterCounts()
    for part in parts:
        total.merge(replace(FilterCounts(), **part.facts["counts"]))
    return total
