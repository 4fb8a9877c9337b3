"""The arrays of a BM25 index, the loops that fill them, and the formula.

D documents in blocks of BLOCK, W words, P postings of rare words (D_f <= D / FREQUENT documents), F frequent words.
A word's postings lie together, ascending by document; a stretch of them in one block is an entry (E of them).
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numba
import numpy as np

from acclimate.text.overlap.kernels import BARE, Function, compiled, part

BLOCK = 1 << 16  # documents: a document's place in its block is 16 bits, and a block's sums stay in the cache
GROUP = 64  # documents of a block that are skipped together
FREQUENT = 16  # a word in more than 1/16 of the documents has a row of D bytes in place of postings
FINE, COARSE = 4095, 255  # steps of a bound: of a posting, and of a cell of a frequent word's row
LARGE, LARGE_CELL = 15, 255  # counts from these on stand in a list
_LEAST = 1e-300  # added to a count it changes nothing


class Arrays(NamedTuple):
    """An index as its loops take it.

    lengths         (D,) uint32 words of each document
    frequencies     (W,) uint32 documents that have the word
    entry_begins    (W + 1,) int64 a word's entries; none of a frequent word
    blocks          (E,) uint32 an entry's block
    begins          (E + 1,) int64 an entry's postings
    postings        (P,) uint32: place in the block (16 bits), bound (12 bits), count (4 bits; LARGE: or more)
    large_at        int64 ascending, postings whose count is LARGE or more
    large           uint32 their counts
    frequent        (F,) uint32 ascending, the frequent words
    greatest        (F,) uint8 the largest bound of each
    bounds          uint8, block by block, in a block row by row (F, `width_of`); 0: the document lacks the word
    peaks           uint8, the largest bound of each row in each GROUP of documents, laid out alike
    cells           uint8 counts, laid out as the bounds (LARGE_CELL: or more)
    large_cells_at, large_cells   as large_at and large
    """

    lengths: np.ndarray
    frequencies: np.ndarray
    entry_begins: np.ndarray
    blocks: np.ndarray
    begins: np.ndarray
    postings: np.ndarray
    large_at: np.ndarray
    large: np.ndarray
    frequent: np.ndarray
    greatest: np.ndarray
    bounds: np.ndarray
    peaks: np.ndarray
    cells: np.ndarray
    large_cells_at: np.ndarray
    large_cells: np.ndarray


class Run(NamedTuple):
    """The inverted index of some documents that follow one another in a block.

    numbers  (w,) uint32 words, ascending; begins, sizes: where the postings of each lie in
    places   uint16 documents, counted from the run's first, and counts uint32
    lengths  words of the run's documents
    """

    numbers: np.ndarray
    begins: np.ndarray
    sizes: np.ndarray
    places: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray


class Formula(NamedTuple):
    """BM25's settings; average: words of a document."""

    k1: float
    b: float
    average: float


def quick(function: Function) -> Function:
    """Compile as `part` does, with divisions that do not check for 0, so that several are done at once."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", **BARE)(function))


@quick
def norm_of(length: Any, formula: Any) -> Any:
    """Return what the count is weighed against in a document of this length.

    Above 0 for k1 = 0 too, lest it be 0 / 0.
    """
    return max(formula.k1 * (1 - formula.b + formula.b * max(length, 1.0) / formula.average), _LEAST)


@quick
def saturation(count: Any, norm: Any) -> Any:
    """Return what the count adds in units of the word's weight: 0 to 1 (Lucene's BM25: without a factor k1 + 1)."""
    return count / (count + norm)


@part
def width_of(documents: Any, block: Any) -> Any:
    """Cells of a row in the block: its documents, and as many empty ones as fill the last group."""
    return min(BLOCK, (documents - block * BLOCK + GROUP - 1) // GROUP * GROUP)


@part
def bound_of(count: Any, norm: Any, steps: int) -> Any:
    """Return the saturation in steps, rounded up; at least 1."""
    return min(max(np.int64(np.ceil(saturation(np.float64(count), norm) * steps)), 1), steps)


@part
def norms_of(lengths: Any, formula: Any) -> Any:
    found = np.empty(len(lengths), np.float64)
    for place in range(len(lengths)):
        found[place] = norm_of(np.float64(lengths[place]), formula)
    return found


@compiled
def place_postings(
    run: Any,
    first: int,
    block: int,
    formula: Any,
    rare: Any,
    low: int,
    high: int,
    ends: Any,
    entry_ends: Any,
    latest: Any,
    postings: Any,
    base: int,
    blocks: Any,
    begins: Any,
    entry_base: int,
    large_at: Any,
    large: Any,
    larges: int,
) -> Any:
    """Append a run's postings of the rare words low to high - 1 to theirs; how many large counts there are then.

    first              the place of the run's first document in the block
    ends, entry_ends   (W,) where each word's next posting and entry go
    latest             (W,) the block of each word's latest entry
    base, entry_base   where postings[0] and blocks[0] stand in the index
    """
    norms = norms_of(run.lengths, formula)
    word = np.searchsorted(run.numbers, np.uint32(low))
    while word < len(run.numbers) and run.numbers[word] < high:
        number = run.numbers[word]
        if rare[number]:
            to = ends[number]
            if latest[number] != block:
                latest[number] = block
                blocks[entry_ends[number] - entry_base], begins[entry_ends[number] - entry_base] = block, to
                entry_ends[number] += 1
            for pair in range(run.begins[word], run.begins[word] + run.sizes[word]):
                place, count = np.int64(run.places[pair]), np.int64(run.counts[pair])
                bound = bound_of(count, norms[place], FINE)
                if count >= LARGE:
                    large_at[larges], large[larges] = to, count
                    larges += 1
                postings[to - base] = np.uint32(((first + place) << 16) | (bound << 4) | min(count, LARGE))
                to += 1
            ends[number] = to
        word += 1
    return larges


@compiled
def place_cells(
    run: Any,
    first: int,
    formula: Any,
    frequent: Any,
    greatest: Any,
    bounds: Any,
    peaks: Any,
    cells: Any,
    base: int,
    large_at: Any,
    large: Any,
    larges: int,
) -> Any:
    """Write a run's counts into the rows (F, documents of the block) of the frequent words; as `place_postings`."""
    width, norms = bounds.shape[1], norms_of(run.lengths, formula)
    for row in range(len(frequent)):
        word = np.searchsorted(run.numbers, frequent[row])
        if word == len(run.numbers) or run.numbers[word] != frequent[row]:
            continue
        for pair in range(run.begins[word], run.begins[word] + run.sizes[word]):
            place, count = np.int64(run.places[pair]), np.int64(run.counts[pair])
            bound = bound_of(count, norms[place], COARSE)
            if count >= LARGE_CELL:
                large_at[larges], large[larges] = base + row * width + first + place, count
                larges += 1
            bounds[row, first + place], cells[row, first + place] = bound, min(count, LARGE_CELL)
            greatest[row] = max(greatest[row], bound)
            group = (first + place) // GROUP
            peaks[row, group] = max(peaks[row, group], bound)
    return larges
