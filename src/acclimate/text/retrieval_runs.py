"""The first half of building a BM25 index: batches of texts become inverted indexes, one after the other in a file.

In memory are the vocabulary (some 100 bytes a word with what is counted of it) and a few batches of texts with their
inverted indexes (some 60 MB a thread).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from acclimate.core.threads import in_turn
from acclimate.core.types import Progress, Watch
from acclimate.text.retrieval_analysis import batches, fold_of, packed_column
from acclimate.text.retrieval_counting import invert
from acclimate.text.retrieval_postings import BLOCK, Run
from acclimate.text.retrieval_words import number_words, refill

if TYPE_CHECKING:
    import pyarrow as pa

RUNS = "runs.tmp"
_BATCH = 1 << 22  # bytes of text


class Vocabulary:
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
            self.slots = refill(self.hashes, self.words, power(2 * needed))
        self.hashes, self.begins = _room(self.hashes, needed), _room(self.begins, needed + 1)
        self.spellings = _room(self.spellings, int(self.begins[self.words]) + len(spellings))
        numbers = np.empty(len(hashes), np.int64)
        self.words = number_words(
            self.slots, self.hashes, self.begins, self.spellings, self.words, spellings, begins, hashes, numbers
        )
        return numbers

    def write(self, directory: Path) -> None:
        refill(self.hashes, self.words, power(2 * (self.words + 1))).tofile(directory / "slots.bin")
        self.hashes[: self.words].tofile(directory / "hashes.bin")
        self.begins[: self.words + 1].tofile(directory / "word_begins.bin")
        self.spellings[: self.begins[self.words]].tofile(directory / "spellings.bin")


@dataclass(frozen=True, slots=True)
class Spilled:
    """A run in the file: where it begins, how many words, postings and texts it has, the number of its first text."""

    at: int
    words: int
    postings: int
    texts: int
    first: int


@dataclass
class Counts:
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


def spill(
    columns: Iterable[pa.StringArray],
    directory: Path,
    analyzer: str,
    vocabulary: Vocabulary,
    counts: Counts,
    *,
    threads: int,
    watch: Watch,
    total: int,
) -> list[Spilled]:
    """Write the runs to RUNS and the documents' lengths to lengths.bin; the vocabulary and the counts are added to.

    total  documents, for the watch
    """
    fold = fold_of(analyzer)

    def work(gathered: list[pa.StringArray]) -> tuple[np.ndarray, ...]:
        packed = [packed_column(analyzer, column) for column in gathered]
        starts = np.cumsum([0] + [int(each.begins[-1]) for each in packed])
        begins = np.concatenate([each.begins[:-1] + start for each, start in zip(packed, starts[:-1], strict=True)])
        data = packed[0].data if len(packed) == 1 else np.concatenate([each.data for each in packed])
        made: tuple[np.ndarray, ...] = invert(data, np.append(begins, starts[-1]).astype(np.int64), fold)
        return made

    found, texts = [], 0
    with open(directory / RUNS, "wb") as file, open(directory / "lengths.bin", "wb") as lengths:
        for hashes, begins, spellings, sizes, places, times, own in in_turn(
            work, batches(columns, _BATCH, BLOCK), threads
        ):
            numbers = vocabulary.number(hashes, begins, spellings)
            counts.add(vocabulary.words, numbers, sizes, texts // BLOCK)
            order, starts = np.argsort(numbers), np.cumsum(sizes) - sizes
            found.append(Spilled(file.tell(), len(numbers), len(places), len(own), texts))
            for array in (starts[order], sizes[order], numbers[order].astype(np.uint32), times, own, places):
                append(file, array)
            file.write(b"\0" * (-file.tell() % 8))
            append(lengths, own)
            texts += len(own)
            watch(Progress("index", texts, total, "documents"))
    return found


def open_run(directory: Path, spilled: Spilled) -> Run:
    """The run, mapped."""
    file, at, found = directory / RUNS, spilled.at, []
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


def append(file: BinaryIO, array: np.ndarray) -> None:
    file.write(array.data)


def power(size: int) -> int:
    """The smallest power of two that is `size` or more, and at least 2."""
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
