"""fastText's files: the `.bin` (version 11 or 12), which is memory-mapped and written as a stream, and the text `.vec`.

A `.bin` holds, little-endian: two int32, magic and version; the settings (`Header`); the dictionary (int32 entries,
words and labels; int64 words of the text; int64 -1: not pruned; then each entry as its bytes, a 0, an int64 count and
an int8 kind); a byte 0: not quantised, int64 rows and columns and the float32 values of the input matrix, first the
words' rows and then those of the n-gram buckets; the same of the output matrix, a row a word.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acclimate.core.files import new_file

END = "</s>"  # the word that stands for the end of a line; it has no n-grams
SKIPGRAM, NEGATIVE_SAMPLING = 2, 2  # the official tool's model sg and loss ns
_MAGIC, _VERSION, _SUPERVISED = 793712314, 12, 3
_COUNTS, _ENTRY, _MATRIX = struct.Struct("<3i2q"), struct.Struct("<qb"), struct.Struct("<?2q")


class Header(NamedTuple):
    """The settings that a `.bin` holds, in its order."""

    dim: int
    window: int
    epochs: int
    min_count: int
    negatives: int
    word_ngrams: int
    loss: int
    model: int
    buckets: int
    shortest: int  # characters of an n-gram, "<" and ">" included
    longest: int
    rate_every: int
    sample: float


_HEADER = struct.Struct("<12id")
_AGAIN = "Fetch or write it again"


@dataclass(frozen=True)
class Bin:
    """An open `.bin`. W words, B buckets."""

    path: Path
    header: Header
    words: Sequence[str]  # bytes that are not UTF-8 are kept as lone surrogates
    counts: np.ndarray  # (W,) int64
    read: int  # words of the text that it was trained on
    inputs: np.ndarray  # (W + B, dim) float32, mapped
    outputs: np.ndarray  # (W, dim) float32, mapped

    @property
    def dim(self) -> int:
        return self.header.dim

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def word_rows(self, numbers: np.ndarray) -> np.ndarray:
        """(N, dim) input rows of these words."""
        return np.asarray(self.inputs[numbers])

    def bucket_rows(self, numbers: np.ndarray) -> np.ndarray:
        """(N, dim) input rows of these n-gram buckets."""
        return np.asarray(self.inputs[numbers + len(self.words)])

    def output_rows(self, numbers: np.ndarray) -> np.ndarray:
        """(N, dim) output rows of these words."""
        return np.asarray(self.outputs[numbers])


def open_bin(path: Path) -> Bin:
    """Open a `.bin`. Raises ValueError unless it holds whole, unquantised word vectors."""
    if not (size := path.stat().st_size):
        raise ValueError(f"{path} is empty. {_AGAIN}")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            magic, version = struct.unpack_from("<2i", data, 0)
            if magic != _MAGIC or version not in (11, 12):
                raise ValueError(
                    f"{path} is not a fastText .bin of version 11 or 12 (it begins with {magic}, {version}). Train "
                    "vectors of an older version again; a text file of vectors must be named .vec"
                )
            header = Header(*_HEADER.unpack_from(data, 8))
            if header.model == _SUPERVISED:
                raise ValueError(
                    f"{path} is a supervised model (a classifier), whose vectors distinguish its labels. Give "
                    "vectors that `fasttext skipgram` or `fasttext cbow` trained"
                )
            place = 8 + _HEADER.size
            entries, words, _, read, pruned = _COUNTS.unpack_from(data, place)
            if pruned != -1:
                raise ValueError(f"{path} is pruned (quantised). Give the .bin that the .ftz was made from")
            if not 0 <= words <= entries <= size or header.dim < 1 or header.buckets < 0:
                raise ValueError(
                    f"{path} is damaged: it states {words:,} words among {entries:,} entries, {header.dim:,} "
                    f"dimensions and {header.buckets:,} buckets. {_AGAIN}"
                )
            names, counts, place = _entries(data, place + _COUNTS.size, entries, words)
            inputs = _matrix(path, data, place, words + header.buckets, header.dim)
            outputs = _matrix(path, data, place + _MATRIX.size + inputs.nbytes, None, header.dim)
        except (struct.error, IndexError) as error:
            raise ValueError(f"{path} is truncated: its tables need more than {size:,} bytes. {_AGAIN}") from error
    return Bin(path, header, names, counts, read, inputs, outputs)


def _entries(data: mmap.mmap, place: int, entries: int, words: int) -> tuple[list[str], np.ndarray, int]:
    """Return the words, their counts, and the end of the dictionary; labels, after the words, are left out."""
    names, counts = [], np.empty(words, np.int64)
    for number in range(entries):
        end = data.find(b"\0", place)
        if end < 0:
            raise IndexError
        count, _ = _ENTRY.unpack_from(data, end + 1)
        if number < words:
            names.append(data[place:end].decode("utf-8", "surrogateescape"))
            counts[number] = count
        place = end + 1 + _ENTRY.size
    return names, counts, place


def _matrix(path: Path, data: mmap.mmap, place: int, rows: int | None, columns: int) -> np.ndarray:
    """Return the matrix at `place`, memory-mapped. rows: the number it must have; None for any number."""
    quantised, height, width = _MATRIX.unpack_from(data, place)
    if quantised:
        raise ValueError(f"{path} is quantised. Give the .bin that it was made from")
    place += _MATRIX.size
    if width != columns or height < 0 or (rows is not None and height != rows):
        raise ValueError(
            f"{path} is damaged: a matrix is {height:,} x {width} instead of {rows or height:,} x {columns}. {_AGAIN}"
        )
    if (end := place + 4 * height * width) > len(data):
        raise ValueError(f"{path} is truncated: it has {len(data):,} bytes, but needs at least {end:,}. {_AGAIN}")
    return np.memmap(path, "<f4", "r", place, (height, width))


def write_bin(
    path: Path,
    header: Header,
    words: Sequence[str],
    counts: np.ndarray,
    read: int,
    *,
    inputs: Iterable[np.ndarray],
    outputs: Iterable[np.ndarray],
) -> None:
    """Write a `.bin`, whole or not at all. inputs, outputs: the matrices of `Bin` in float32 blocks (any, dim)."""
    with new_file(path) as file:
        file.write(struct.pack("<2i", _MAGIC, _VERSION) + _HEADER.pack(*header))
        file.write(_COUNTS.pack(len(words), len(words), 0, read, -1))
        for word, count in zip(words, counts.tolist(), strict=True):
            file.write(word.encode("utf-8", "surrogateescape") + b"\0" + _ENTRY.pack(count, 0))
        for blocks, rows in ((inputs, len(words) + header.buckets), (outputs, len(words))):
            file.write(_MATRIX.pack(False, rows, header.dim))
            for block in blocks:
                file.write(np.ascontiguousarray(block, "<f4").data)


@dataclass(frozen=True)
class Vec:
    """An open text `.vec`: words and vectors, without n-grams and output rows. Rows are read on demand."""

    path: Path
    dim: int
    index: Mapping[str, int]
    places: np.ndarray  # (W + 1,) int64, where each line begins

    @cached_property
    def words(self) -> Sequence[str]:
        return list(self.index)

    def word_rows(self, numbers: np.ndarray) -> np.ndarray:
        """(N, dim) float32 vectors of these words."""
        rows = np.empty((len(numbers), self.dim), np.float32)
        with open(self.path, "rb") as file:
            for place, number in enumerate(numbers.tolist()):
                file.seek(self.places[number])
                values = file.readline().partition(b" ")[2].split()
                if len(values) != self.dim:
                    raise ValueError(
                        f"{self.path}:{self._line(number)}: the word {self.words[number]!r} has {len(values)} values; "
                        f"the first line says {self.dim}. {_AGAIN}"
                    )
                try:
                    rows[place] = np.array(values, np.float32)
                except ValueError as error:
                    raise self._no_number(number, str(error)) from error
                if not np.isfinite(rows[place]).all():
                    raise self._no_number(number, "not finite")
        return rows

    def _no_number(self, number: int, fault: str) -> ValueError:
        return ValueError(
            f"{self.path}:{self._line(number)}: a value of the word {self.words[number]!r} is no number ({fault}). "
            f"{_AGAIN}"
        )

    def _line(self, number: int) -> int:
        """Return the number of the word's line in the file, from 1."""
        with open(self.path, "rb") as file:
            return 1 + sum(1 for end in accumulate(map(len, file)) if end <= self.places[number])

    def bucket_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return no rows: a `.vec` has no n-grams."""
        assert not len(numbers)
        return np.empty((0, self.dim), np.float32)


def open_vec(path: Path) -> Vec:
    """Open a `.vec`. Raises ValueError if the first line is not "words dim", or if lines are missing."""
    index: dict[str, int] = {}
    with open(path, "rb") as file:
        first = file.readline()
        try:
            words, dim = map(int, first.split())
            if words < 0 or dim < 1:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{path}:1: {first[:60].decode(errors='replace').strip()!r} must be the number of words and the "
                "number of dimensions. Add that line"
            ) from None
        place = len(first)
        places: list[int] = []
        for line in file:
            word = line.rstrip(b"\r\n").partition(b" ")[0].decode("utf-8", "surrogateescape")
            if index.setdefault(word, len(places)) == len(places):  # the first of two lines for a word counts
                places.append(place)
            place += len(line)
            words -= 1
    if words > 0:
        raise ValueError(f"{path} is truncated: {words:,} of its words are missing. {_AGAIN}")
    return Vec(path, dim, index, np.array(places, np.int64))


def number_blocks(total: int, dim: int) -> Iterator[np.ndarray]:
    """Yield the numbers 0 to total - 1 in blocks whose rows take 16 MB."""
    size = max(1, math.ceil((1 << 22) / dim))
    for first in range(0, total, size):
        yield np.arange(first, min(first + size, total))
