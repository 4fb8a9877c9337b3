"""Exact BM25 search over a corpus, for thousands of long queries at a time.

A document's score is the sum, over the different words of the query that it has, of

    count in the query * idf * tf / (tf + k1 * (1 - b + b * length / average length))
    idf = ln(1 + (N - n + .5) / (n + .5))        N documents, n of which have the word

This is Lucene's formula (BM25Similarity since release 8: no factor k1 + 1). The sum is taken in float64, in the order
in which the words first occur in the query, and then rounded to float32. Documents are ordered by falling score, then
by number. So the result is the same, bit by bit, on every run and with any number of threads and shards.

An index is built in bounded memory, in two passes. The first writes the inverted index of each batch of texts to a file
of runs (`spill`); it holds the vocabulary, some 100 bytes a word, and some 60 MB a thread. The second merges the runs:
postings for rare words (`_merge`), a row with a cell for each document for frequent words (`_rows`). It holds some 60
bytes a word and one part of the merge: 16 million postings (4 bytes each, and 12 for each entry) or 64 MB of rows. Few
texts take neither pass: few.py makes the same files at once.

Sources: Robertson and Zaragoza, The probabilistic relevance framework: BM25 and beyond (2009); Turtle and Flood, Query
evaluation: strategies and optimizations (1995), for upper bounds (MaxScore).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np

from acclimate.core.files import DamagedError, locked, new_directory, write_json
from acclimate.core.machines import map_threads, processors
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.bm25.few import few_texts, write_few
from acclimate.text.bm25.index import FACTS, VERSION, Index, UnreadableError, checked_facts
from acclimate.text.bm25.postings import BLOCK, FREQUENT, GROUP, Formula, PostingsRun, place_cells, place_postings
from acclimate.text.bm25.words import (
    UNICODE,
    check_analyzer,
    column_batches,
    fold_of,
    invert,
    number_hashes,
    packed_column,
    refill,
)

if TYPE_CHECKING:
    import pyarrow as pa

RUNS = "runs.tmp"
_HASHED = 1 << 30  # bytes of files whose hash is checked when an index is opened
_BATCH = 1 << 22  # bytes of text that become a run
_PART = 1 << 24  # postings that are merged at a time
_CELLS = 1 << 25  # cells of the rows that are made at a time; two bytes each


class IndexedTexts(Protocol):
    """What is indexed: a corpus or a part of it. hash: 64 hex digits that identify its content."""

    @property
    def hash(self) -> str: ...
    def texts(self) -> Iterator[pa.StringArray]: ...
    def __len__(self) -> int: ...


def build_index(
    corpus: IndexedTexts,
    path: Path,
    *,
    k1: float = 1.2,
    b: float = 0.75,
    analyzer: str = "words",
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Index:
    """Write the index of the corpus to `path`, or open the one that is there if it is whole and has these settings.

    Several processes may call this at once: one builds and the others wait. A killed build leaves no index behind. A
    damaged index, and one that this release cannot read, is replaced.
    Raises ValueError if `path` holds anything else, or if a setting is out of range.
    """
    if not (0 <= k1 < math.inf and 0 <= b <= 1):
        raise ValueError(f"k1 = {k1} and b = {b}: k1 must be 0 or more and b between 0 and 1. 1.2 and .75 are usual")
    check_analyzer(analyzer)
    if len(corpus) >= 1 << 32:
        raise ValueError(
            f"{len(corpus):,} documents: an index has at most 2^32 - 1 documents. Divide the corpus into shards"
        )
    path = Path(path)
    settings = {"corpus": corpus.hash, "analyzer": analyzer, "k1": float(k1), "b": float(b)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        facts = _facts_of(path, settings)
        if facts is None:
            options: dict[str, Any] = {"threads": threads or processors(), "watch": watch, "total": len(corpus)}
            with new_directory(path) as directory:
                sizes = write_index(corpus.texts(), directory, analyzer, float(k1), float(b), **options)
                facts = {"version": VERSION, "unicode": UNICODE, **settings, **sizes}
                write_json(directory / FACTS, facts)
    return _opened(path, facts)


def open_index(path: Path, *, hashed: int = _HASHED) -> Index:
    """Return the index at the path, after a check of the size of every file.

    hashed  bytes of files whose SHA-256 is checked too, small files first; a gigabyte takes half a second to a second
    Raises DamagedError if a file was altered, ValueError if there is no index or this release cannot read it.
    """
    path = Path(path)
    if not (path / FACTS).is_file():
        raise ValueError(f"{path} contains no index: it has no {FACTS}. Create one with build_index")
    return _opened(path, checked_facts(path, hashed))


def _facts_of(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facts of the index at the path; None if it is missing, damaged or unreadable.

    Raises ValueError if the path holds another index or anything else.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    if not (path / FACTS).is_file():
        raise ValueError(
            f"{path} already exists but contains no index: it has no {FACTS}. Choose another path, or remove it"
        )
    try:
        facts = checked_facts(path, _HASHED)
    except (DamagedError, UnreadableError):
        return None
    check_same(path, facts, settings)
    return facts


def check_same(path: Path, facts: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises ValueError if the index at the path was built with other settings than these."""
    different = [f"{name} {facts[name]} instead of {value}" for name, value in settings.items() if facts[name] != value]
    if different:
        raise ValueError(f"{path} contains another index: {', '.join(different)}. Choose another path, or remove it")


def _opened(path: Path, facts: dict[str, Any]) -> Index:
    names = ("corpus", "documents", "tokens", "words", "analyzer", "k1", "b")
    return Index(path, **{name: facts[name] for name in names})


def write_index(
    columns: Iterable[pa.StringArray],
    directory: Path,
    analyzer: str,
    k1: float,
    b: float,
    *,
    threads: int,
    watch: Watch,
    total: int,
) -> dict[str, int]:
    """Write the arrays of `postings.Arrays` and of the vocabulary; return their lengths by name.

    total  number of documents
    """
    texts, columns = few_texts(columns, total)
    if texts is not None:
        written = write_few(texts, directory, analyzer, k1, b)
        watch(Progress("index", total, total, "documents"))
        return written
    vocabulary, counts = WordTable(), WordTally()
    spilled = spill(columns, directory, analyzer, vocabulary, counts, threads=threads, watch=watch, total=total)
    documents, words = sum(run.texts for run in spilled), vocabulary.words
    tokens = int(np.fromfile(directory / "lengths.bin", np.uint32).sum(dtype=np.int64))
    frequencies = counts.frequencies[:words]
    frequencies.astype(np.uint32).tofile(directory / "frequencies.bin")
    vocabulary.write(directory)
    formula = Formula(k1, b, tokens / max(documents, 1))
    often = frequencies * FREQUENT > documents
    frequent = np.flatnonzero(often).astype(np.uint32)
    entries, held = np.where(often, 0, counts.entries[:words]), np.where(often, 0, frequencies)
    sizes = {"documents": documents, "tokens": tokens, "words": words, "frequent": len(frequent)}
    sizes |= {"spelling": int(vocabulary.begins[words]), "slots": power(2 * (words + 1))}
    del vocabulary, counts, frequencies
    watch(Progress("index: merge", 0, words, "words"))
    sizes |= _merge(directory, spilled, formula, held, entries, watch)
    sizes |= _rows(directory, spilled, formula, frequent, documents)
    (directory / RUNS).unlink()
    return sizes


def spill(
    columns: Iterable[pa.StringArray],
    directory: Path,
    analyzer: str,
    vocabulary: WordTable,
    counts: WordTally,
    *,
    threads: int,
    watch: Watch,
    total: int,
) -> list[Spilled]:
    """Write the runs to RUNS and the documents' lengths to lengths.bin; add to the vocabulary and the counts.

    total  number of documents, for the watch
    """
    fold = fold_of(analyzer)

    def work(gathered: list[pa.StringArray]) -> tuple[np.ndarray, ...]:
        packed = [packed_column(analyzer, column) for column in gathered]
        starts = np.cumsum([0] + [int(texts.begins[-1]) for texts in packed])
        begins = np.concatenate([texts.begins[:-1] + start for texts, start in zip(packed, starts[:-1], strict=True)])
        data = packed[0].data if len(packed) == 1 else np.concatenate([texts.data for texts in packed])
        inverted: tuple[np.ndarray, ...] = invert(data, np.append(begins, starts[-1]).astype(np.int64), fold)
        return inverted

    runs, texts = [], 0
    with open(directory / RUNS, "wb") as file, open(directory / "lengths.bin", "wb") as lengths:
        for hashes, begins, spellings, sizes, places, times, part_lengths in map_threads(
            work, column_batches(columns, _BATCH, BLOCK), threads
        ):
            numbers = vocabulary.number(hashes, begins, spellings)
            counts.add(vocabulary.words, numbers, sizes, texts // BLOCK)
            order, starts = np.argsort(numbers), np.cumsum(sizes) - sizes
            runs.append(Spilled(file.tell(), len(numbers), len(places), len(part_lengths), texts))
            for array in (starts[order], sizes[order], numbers[order].astype(np.uint32), times, part_lengths, places):
                append(file, array)
            file.write(b"\0" * (-file.tell() % 8))
            append(lengths, part_lengths)
            texts += len(part_lengths)
            watch(Progress("index", texts, total, "documents"))
    return runs


class WordTable:
    """All words, numbered in the order in which they first occur: a hash table that grows."""

    def __init__(self) -> None:
        self.words = 0
        self.slots = np.zeros(1 << 17, np.uint32)
        self.hashes = np.empty(1 << 16, np.uint64)
        self.begins = np.zeros((1 << 16) + 1, np.int64)
        self.spellings = np.empty(1 << 20, np.uint8)

    def number(self, hashes: np.ndarray, begins: np.ndarray, spellings: np.ndarray) -> np.ndarray:
        """Return the numbers of words; words that are new are added."""
        needed = self.words + len(hashes)
        if 2 * needed > len(self.slots):
            self.slots = refill(self.hashes, self.words, power(2 * needed))
        self.hashes, self.begins = _room(self.hashes, needed), _room(self.begins, needed + 1)
        self.spellings = _room(self.spellings, int(self.begins[self.words]) + len(spellings))
        numbers = np.empty(len(hashes), np.int64)
        self.words = number_hashes(
            self.slots, self.hashes, self.begins, self.spellings, self.words, spellings, begins, hashes, numbers
        )
        return numbers

    def write(self, directory: Path) -> None:
        refill(self.hashes, self.words, power(2 * (self.words + 1))).tofile(directory / "slots.bin")
        self.hashes[: self.words].tofile(directory / "hashes.bin")
        self.begins[: self.words + 1].tofile(directory / "word_begins.bin")
        self.spellings[: self.begins[self.words]].tofile(directory / "spellings.bin")


@dataclass
class WordTally:
    """Counts of each word while the runs are written: its documents, its entries, the block of its latest entry."""

    frequencies: np.ndarray = field(default_factory=lambda: np.zeros(1 << 16, np.int64))
    entries: np.ndarray = field(default_factory=lambda: np.zeros(1 << 16, np.int64))
    latest: np.ndarray = field(default_factory=lambda: np.full(1 << 16, -1, np.int64))

    def add(self, words: int, numbers: np.ndarray, sizes: np.ndarray, block: int) -> None:
        self.frequencies, self.entries = _room(self.frequencies, words, 0), _room(self.entries, words, 0)
        self.latest = _room(self.latest, words, -1)
        self.frequencies[numbers] += sizes
        self.entries[numbers] += self.latest[numbers] != block
        self.latest[numbers] = block


@dataclass(frozen=True, slots=True)
class Spilled:
    """A run in the file: where it begins, how many words, postings and texts it has, the number of its first text."""

    at: int
    words: int
    postings: int
    texts: int
    first: int


def _merge(
    directory: Path, spilled: list[Spilled], formula: Formula, held: np.ndarray, entries: np.ndarray, watch: Watch
) -> dict[str, int]:
    """Write the postings of the rare words, a part of the vocabulary at a time; return the lengths of the arrays."""
    words, rare = len(held), held > 0
    begins = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
    entry_begins = np.concatenate([[0], np.cumsum(entries)]).astype(np.int64)
    entry_begins.tofile(directory / "entry_begins.bin")
    ends, entry_ends, latest = begins[:-1].copy(), entry_begins[:-1].copy(), np.full(words, -1, np.int64)
    larges = low = 0
    with contextlib.ExitStack() as stack:
        names = ("postings", "blocks", "begins", "large_at", "large")
        files = [stack.enter_context(open(directory / f"{name}.bin", "wb")) for name in names]
        while low < words:
            high = min(max(int(np.searchsorted(begins, begins[low] + _PART, "right")) - 1, low + 1), words)
            postings = np.empty(begins[high] - begins[low], np.uint32)
            blocks = np.empty(entry_begins[high] - entry_begins[low], np.uint32)
            places = np.empty(len(blocks), np.int64)
            large_at, large = np.empty(len(postings), np.int64), np.empty(len(postings), np.uint32)
            placed = 0
            for run in spilled:
                placed = place_postings(
                    open_run(directory, run), run.first % BLOCK, run.first // BLOCK, formula, rare, low, high,
                    ends, entry_ends, latest, postings, begins[low], blocks, places, entry_begins[low], large_at, large,
                    placed,
                )  # fmt: skip
            order = np.argsort(large_at[:placed])
            arrays: list[np.ndarray] = [postings, blocks, places, large_at[:placed][order], large[:placed][order]]
            for file, array in zip(files, arrays, strict=True):
                append(file, array)
            larges, low = larges + placed, high
            watch(Progress("index: merge", low, words, "words"))
        append(files[2], begins[-1:])
    return {"postings": int(begins[-1]), "entries": int(entry_begins[-1]), "large": larges}


def _rows(
    directory: Path, spilled: list[Spilled], formula: Formula, frequent: np.ndarray, documents: int
) -> dict[str, int]:
    """Write the rows of the frequent words block by block, in each some rows at a time; return the arrays' lengths."""
    greatest, larges = np.zeros(len(frequent), np.uint8), 0
    frequent.tofile(directory / "frequent.bin")
    with contextlib.ExitStack() as stack:
        names = ("bounds", "peaks", "cells", "large_cells_at", "large_cells")
        files = [stack.enter_context(open(directory / f"{name}.bin", "wb")) for name in names]
        for start in range(0, documents, BLOCK):
            width = min(BLOCK, -(-(documents - start) // GROUP) * GROUP)  # as `width_of`
            runs = [run for run in spilled if start <= run.first < start + BLOCK]
            most, together = sum(run.postings for run in runs), max(1, _CELLS // width)
            for low in range(0, len(frequent), together):
                part = slice(low, low + together)
                rows = len(frequent[part])
                bounds, cells = np.zeros((rows, width), np.uint8), np.zeros((rows, width), np.uint8)
                peaks = np.zeros((rows, width // GROUP), np.uint8)
                large_at, large, placed = np.empty(most, np.int64), np.empty(most, np.uint32), 0
                for run in runs:
                    placed = place_cells(
                        open_run(directory, run), run.first - start, formula, frequent[part], greatest[part], bounds,
                        peaks, cells, len(frequent) * start + low * width, large_at, large, placed,
                    )  # fmt: skip
                order = np.argsort(large_at[:placed])
                arrays: tuple[np.ndarray, ...] = (bounds, peaks, cells, large_at[:placed][order], large[:placed][order])
                for file, array in zip(files, arrays, strict=True):
                    append(file, array)
                larges += placed
    greatest.tofile(directory / "greatest.bin")
    return {"large_cells": larges, "groups": -(-documents // GROUP)}


def open_run(directory: Path, spilled: Spilled) -> PostingsRun:
    """Return the run, memory-mapped."""
    file, at, arrays = directory / RUNS, spilled.at, []
    for kind, size in (
        (np.int64, spilled.words),
        (np.int64, spilled.words),
        (np.uint32, spilled.words),
        (np.uint32, spilled.postings),
        (np.uint32, spilled.texts),
        (np.uint16, spilled.postings),
    ):
        arrays.append(_mapped(file, kind, at, size))
        at += size * np.dtype(kind).itemsize
    begins, sizes, numbers, counts, lengths, places = arrays
    return PostingsRun(numbers, begins, sizes, places, counts, lengths)


def _mapped(file: Path, kind: type[np.generic], at: int, size: int) -> np.ndarray:
    return np.asarray(np.memmap(file, kind, "r", at, (size,))) if size else np.frombuffer(b"", kind)


def append(file: BinaryIO, array: np.ndarray) -> None:
    file.write(array.data)


def power(size: int) -> int:
    """Return the smallest power of two that is `size` or more, and at least 2."""
    return 1 << max(size - 1, 1).bit_length()


def _room(array: np.ndarray, size: int, value: int | None = None) -> np.ndarray:
    """Return the array with room for at least `size` numbers; new places hold the value."""
    if size <= len(array):
        return array
    grown = np.empty(max(size, len(array) * 3 // 2), array.dtype)
    grown[: len(array)] = array
    if value is not None:
        grown[len(array) :] = value
    return grown
