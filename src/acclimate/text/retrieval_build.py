"""How the files of a BM25 index are made of texts, in bounded memory: runs on disk, then a merge.

In memory are the vocabulary (some 100 bytes a word, 4 more for each block of 65,536 documents that one run at a time
touches), a few batches of texts with their inverted indexes (some 60 MB a thread) and one part of the merge (some 64 MB
and the pages of its runs).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from acclimate.core.types import Progress, Watch
from acclimate.text.retrieval_analysis import batches, fold_of, in_turn, packed_column
from acclimate.text.retrieval_postings import (
    BLOCK,
    FREQUENT,
    GROUP,
    Formula,
    Run,
    place_cells,
    place_postings,
)
from acclimate.text.retrieval_words import invert, number_words, refill

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1 << 22  # bytes of text
_PART = 1 << 24  # postings of a part of the merge
_RUNS = "runs.tmp"


class _Vocabulary:
    """Words by number, in the order in which they first occur."""

    def __init__(self) -> None:
        self.words = 0
        self.slots = np.zeros(1 << 17, np.uint32)
        self.hashes = np.empty(1 << 16, np.uint64)
        self.begins = np.zeros((1 << 16) + 1, np.int64)
        self.spellings = np.empty(1 << 20, np.uint8)

    def number(self, hashes: np.ndarray, begins: np.ndarray, spellings: np.ndarray) -> np.ndarray:
        """The numbers of words, new ones included."""
        needed = self.words + len(hashes)
        if 2 * needed > len(self.slots):
            self.slots = refill(self.hashes, self.words, _power(2 * needed))
        self.hashes, self.begins = _room(self.hashes, needed), _room(self.begins, needed + 1)
        self.spellings = _room(self.spellings, int(self.begins[self.words]) + len(spellings))
        numbers = np.empty(len(hashes), np.int64)
        self.words = number_words(
            self.slots, self.hashes, self.begins, self.spellings, self.words, spellings, begins, hashes, numbers
        )
        return numbers

    def write(self, directory: Path) -> None:
        refill(self.hashes, self.words, _power(2 * (self.words + 1))).tofile(directory / "slots.bin")
        self.hashes[: self.words].tofile(directory / "hashes.bin")
        self.begins[: self.words + 1].tofile(directory / "word_begins.bin")
        self.spellings[: self.begins[self.words]].tofile(directory / "spellings.bin")


@dataclass
class _Spilled:
    """Where a run lies in the file: words, postings, documents; its first document."""

    at: int
    words: int
    postings: int
    texts: int
    first: int


@dataclass
class _Counts:
    """Of each word, whatever is counted while the runs are written."""

    frequencies: np.ndarray = field(default_factory=lambda: np.zeros(1 << 16, np.int64))
    entries: np.ndarray = field(default_factory=lambda: np.zeros(1 << 16, np.int64))
    latest: np.ndarray = field(default_factory=lambda: np.full(1 << 16, -1, np.int64))

    def add(self, words: int, numbers: np.ndarray, sizes: np.ndarray, block: int) -> None:
        self.frequencies, self.entries = _room(self.frequencies, words, 0), _room(self.entries, words, 0)
        self.latest = _room(self.latest, words, -1)
        self.frequencies[numbers] += sizes
        self.entries[numbers] += self.latest[numbers] != block
        self.latest[numbers] = block


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
    """Write the arrays of `retrieval_postings.Arrays` and of the vocabulary; returns how long they are.

    total  documents, for the watch
    """
    vocabulary, counts, runs = _Vocabulary(), _Counts(), directory / _RUNS
    with open(runs, "wb") as file, open(directory / "lengths.bin", "wb") as lengths:
        spilled = list(_spill(columns, file, lengths, vocabulary, counts, analyzer, threads, watch, total))
    documents, words = sum(run.texts for run in spilled), vocabulary.words
    tokens = int(np.fromfile(directory / "lengths.bin", np.uint32).sum(dtype=np.int64)) if documents else 0
    frequencies = counts.frequencies[:words]
    frequencies.astype(np.uint32).tofile(directory / "frequencies.bin")
    vocabulary.write(directory)
    formula = Formula(k1, b, tokens / max(documents, 1))
    frequent = np.flatnonzero(frequencies * FREQUENT > documents).astype(np.uint32)
    entries = np.where(frequencies * FREQUENT > documents, 0, counts.entries[:words])
    held = np.where(frequencies * FREQUENT > documents, 0, frequencies)
    sizes = {"documents": documents, "tokens": tokens, "words": words, "frequent": len(frequent)}
    sizes |= {"spelling": int(vocabulary.begins[words]), "slots": _power(2 * (words + 1))}
    del vocabulary, counts
    watch(Progress("index: merge", 0, words, "words"))
    sizes |= _merge(directory, spilled, formula, held, entries, watch)
    sizes |= _rows(directory, spilled, formula, frequent, documents)
    runs.unlink()
    return sizes


def _spill(
    columns: Iterable[pa.StringArray],
    file: BinaryIO,
    lengths: BinaryIO,
    vocabulary: _Vocabulary,
    counts: _Counts,
    analyzer: str,
    threads: int,
    watch: Watch,
    total: int,
) -> Iterator[_Spilled]:
    """Write the runs one after the other."""
    fold = fold_of(analyzer)

    def work(gathered: list[pa.StringArray]) -> tuple[np.ndarray, ...]:
        packed = [packed_column(analyzer, column) for column in gathered]
        starts = np.cumsum([0] + [int(each.begins[-1]) for each in packed])
        begins = np.concatenate([each.begins[:-1] + start for each, start in zip(packed, starts[:-1], strict=True)])
        data = packed[0].data if len(packed) == 1 else np.concatenate([each.data for each in packed])
        made: tuple[np.ndarray, ...] = invert(data, np.append(begins, starts[-1]).astype(np.int64), fold)
        return made

    texts = 0
    for hashes, begins, spellings, sizes, places, times, run_lengths in in_turn(
        work, batches(columns, _BATCH, BLOCK), threads
    ):
        numbers = vocabulary.number(hashes, begins, spellings)
        counts.add(vocabulary.words, numbers, sizes, texts // BLOCK)
        order = np.argsort(numbers)
        starts = np.cumsum(sizes) - sizes
        spilled = _Spilled(file.tell(), len(numbers), len(places), len(run_lengths), texts)
        for array in (starts[order], sizes[order], numbers[order].astype(np.uint32), times, run_lengths, places):
            _append(file, array)
        file.write(b"\0" * (-file.tell() % 8))
        _append(lengths, run_lengths)
        texts += len(run_lengths)
        yield spilled
        watch(Progress("index", texts, total, "documents"))


def _open(file: Path, spilled: _Spilled) -> Run:
    """The run, mapped."""
    at, found = spilled.at, []
    for kind, size in (
        (np.int64, spilled.words),
        (np.int64, spilled.words),
        (np.uint32, spilled.words),
        (np.uint32, spilled.postings),
        (np.uint32, spilled.texts),
        (np.uint16, spilled.postings),
    ):
        found.append(_mapped(file, kind, at, size))
        at += size * np.dtype(kind).itemsize
    begins, sizes, numbers, counts, lengths, places = found
    return Run(numbers, begins, sizes, places, counts, lengths)


def _mapped(file: Path, kind: type[np.generic], at: int, size: int) -> np.ndarray:
    return np.asarray(np.memmap(file, kind, "r", at, (size,))) if size else np.frombuffer(b"", kind)


def _merge(
    directory: Path, spilled: list[_Spilled], formula: Formula, held: np.ndarray, entries: np.ndarray, watch: Watch
) -> dict[str, int]:
    """Write the postings of the rare words, a part of the vocabulary at a time."""
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
            found = 0
            for run in spilled:
                found = place_postings(
                    _open(directory / _RUNS, run), run.first % BLOCK, run.first // BLOCK, formula, rare, low, high,
                    ends, entry_ends, latest, postings, begins[low], blocks, places, entry_begins[low], large_at, large,
                    found,
                )  # fmt: skip
            order = np.argsort(large_at[:found])
            arrays: list[np.ndarray] = [postings, blocks, places, large_at[:found][order], large[:found][order]]
            for file, array in zip(files, arrays, strict=True):
                _append(file, array)
            larges, low = larges + found, high
            watch(Progress("index: merge", low, words, "words"))
        _append(files[2], begins[-1:])
    return {"postings": int(begins[-1]), "entries": int(entry_begins[-1]), "large": larges}


def _rows(
    directory: Path, spilled: list[_Spilled], formula: Formula, frequent: np.ndarray, documents: int
) -> dict[str, int]:
    """Write the rows of the frequent words, a block of documents at a time."""
    greatest, larges = np.zeros(len(frequent), np.uint8), 0
    frequent.tofile(directory / "frequent.bin")
    with contextlib.ExitStack() as stack:
        names = ("bounds", "peaks", "cells", "large_cells_at", "large_cells")
        files = [stack.enter_context(open(directory / f"{name}.bin", "wb")) for name in names]
        for start in range(0, documents, BLOCK):
            width = min(BLOCK, -(-(documents - start) // GROUP) * GROUP)  # `width_of`
            bounds, cells = np.zeros((len(frequent), width), np.uint8), np.zeros((len(frequent), width), np.uint8)
            peaks = np.zeros((len(frequent), width // GROUP), np.uint8)
            runs = [run for run in spilled if start <= run.first < start + BLOCK]
            most = sum(run.postings for run in runs)
            large_at, large, found = np.empty(most, np.int64), np.empty(most, np.uint32), 0
            for run in runs:
                found = place_cells(
                    _open(directory / _RUNS, run), run.first - start, formula, frequent, greatest, bounds, peaks, cells,
                    len(frequent) * start, large_at, large, found,
                )  # fmt: skip
            order = np.argsort(large_at[:found])
            arrays: tuple[np.ndarray, ...] = (bounds, peaks, cells, large_at[:found][order], large[:found][order])
            for file, array in zip(files, arrays, strict=True):
                _append(file, array)
            larges += found
    greatest.tofile(directory / "greatest.bin")
    return {"large_cells": larges, "groups": -(-documents // GROUP)}


def _append(file: BinaryIO, array: np.ndarray) -> None:
    file.write(array.data)


def _power(size: int) -> int:
    return 1 << max(size - 1, 1).bit_length()


def _room(array: np.ndarray, size: int, value: int | None = None) -> np.ndarray:
    """The array with room for `size`, the new places holding the value."""
    if size <= len(array):
        return array
    grown = np.empty(max(size, len(array) * 3 // 2), array.dtype)
    grown[: len(array)] = array
    if value is not None:
        grown[len(array) :] = value
    return grown
