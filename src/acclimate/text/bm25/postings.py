"""The arrays of a BM25 index, BM25's formula, and the loops that fill the arrays.

D documents in blocks of BLOCK, W words, P postings of rare words (D_f <= D / FREQUENT documents), F frequent words.
A word's postings lie together, ascending by document; those in one block make an entry (E entries).
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numba
import numpy as np

from acclimate.core.compiled import BARE, Kernel, compiled, part

BLOCK = 1 << 16  # documents: a place in a block takes 16 bits, and a block's sums stay in the processor's cache
GROUP = 64  # documents of a block that a search skips together
FREQUENT = 16  # a word in more than 1/16 of the documents has a row of D bytes in place of postings
FINE, COARSE = 4095, 255  # steps of a bound: in a posting, and in a frequent word's row
LARGE, LARGE_CELL = 15, 255  # counts from here on stand in a separate list: of a posting, of a cell
LEAST_NORM = 1e-300  # too small to change a count that it is added to


class Arrays(NamedTuple):
    """The arrays of an index, as the compiled loops take them.

    lengths         (D,) uint32 words of each document
    frequencies     (W,) uint32 documents that contain the word
    entry_begins    (W + 1,) int64 where a word's entries begin; a frequent word has none
    blocks          (E,) uint32 an entry's block
    begins          (E + 1,) int64 where an entry's postings begin
    postings        (P,) uint32: place in the block (16 bits), bound (12 bits), count (4 bits; LARGE: or more)
    large_at        int64 ascending, postings whose count is LARGE or more
    large           uint32 their counts
    frequent        (F,) uint32 the frequent words, ascending
    greatest        (F,) uint8 the largest bound of each
    bounds          uint8, block by block, each block as rows (F, `width_of`); 0: the document lacks the word
    peaks           uint8, the largest bound of each row in each GROUP of documents, in the same layout
    cells           uint8 counts in the layout of the bounds (LARGE_CELL: or more)
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


class PostingsRun(NamedTuple):
    """The inverted index of consecutive documents of one block.

    numbers  (w,) uint32 words, ascending; begins, sizes: where the postings of each lie in `places` and `counts`
    places   uint16 documents, counted from the run's first; counts: uint32
    lengths  uint32 words of each document of the run
    """

    numbers: np.ndarray
    begins: np.ndarray
    sizes: np.ndarray
    places: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray


class Formula(NamedTuple):
    """BM25's settings; average: the mean number of words of a document."""

    k1: float
    b: float
    average: float


def quick(function: Kernel) -> Kernel:
    """Compile as `part` does, but without checks for division by 0, so that divisions are vectorised."""
    return cast(Kernel, numba.njit(nogil=True, error_model="numpy", **BARE)(function))


@quick
def norm_of(length: Any, formula: Any) -> Any:
    """Return k1 * (1 - b + b * length / average), against which BM25 weighs the count of a word in a document.

    It is above 0 for k1 = 0 too, so that `saturation` never divides 0 by 0.
    """
    return max(formula.k1 * (1 - formula.b + formula.b * max(length, 1.0) / formula.average), LEAST_NORM)


@quick
def saturation(count: Any, norm: Any) -> Any:
    """Return what a word that occurs `count` times adds to the score, in units of its weight: 0 to 1."""
    return count / (count + norm)  # tf / (tf + k1 * (1 - b + b * length / average)); no factor k1 + 1, as in Lucene


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
    """Append a run's postings of the rare words low to high - 1; return the number of large counts so far.

    first              the place of the run's first document in the block
    ends, entry_ends   (W,) where the next posting and entry of each word go
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
    """Write a run's counts into the rows (F, documents of the block) of the frequent words.

    Arguments and return value are those of `place_postings`.
    """
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


@part
def norms_of(lengths: Any, formula: Any) -> Any:
    norms = np.empty(len(lengths), np.float64)
    for place in range(len(lengths)):
        norms[place] = norm_of(np.float64(lengths[place]), formula)
    return norms


@part
def bound_of(count: Any, norm: Any, steps: int) -> Any:
    """Return the saturation in steps, rounded up; at least 1."""
    return min(max(np.int64(np.ceil(saturation(np.float64(count), norm) * steps)), 1), steps)


@part
def width_of(documents: Any, block: Any) -> Any:
    """Return the cells of a row in the block: one for each document, and empty ones that fill the last group."""
    return min(BLOCK, (documents - block * BLOCK + GROUP - 1) // GROUP * GROUP)
