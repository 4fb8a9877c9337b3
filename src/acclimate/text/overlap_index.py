"""The arrays that the compiled loops of `overlap_kernels` and `overlap_search` take, made of texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from acclimate.text.overlap_kernels import BINS, read_texts
from acclimate.text.overlap_search import Index, fill_table, number_grams

_MISSED = 5e-4  # the largest probability that a pair of just the similarity asked for has no band in common
_CAPITAL_SIGMA, _DOTTED_I = "\u03a3", "\u0130"


GramArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Packed(NamedTuple):
    """UTF-8 of all texts, and where each begins (D + 1)."""

    data: np.ndarray
    begins: np.ndarray


class Grams(NamedTuple):
    """Which of U texts have a run of words: those of run g are texts[begins[g] : begins[g + 1]], each once."""

    begins: np.ndarray
    texts: np.ndarray
    counts: np.ndarray  # (U,) different runs of a text


def pack(texts: Sequence[str]) -> Packed:
    encoded = [_lowered(text).encode("utf-8", "surrogatepass") for text in texts]
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(texts)), out=begins[1:])
    return Packed(np.frombuffer(b"".join(encoded), np.uint8), begins)


def _lowered(text: str) -> str:
    """Lower case only where it depends on more than a character (the final sigma) or makes two of one."""
    return text if text.isascii() or not (_CAPITAL_SIGMA in text or _DOTTED_I in text) else text.lower()


@cache
def fold() -> np.ndarray:
    """(1,114,112,) uint32: every code point in lower case; 0 where that belongs to no word."""
    points = "".join(map(chr, range(sys.maxunicode + 1)))
    # these two never get here, see `_lowered`; without them every character has a lower case of one character
    lowered = points.replace(_CAPITAL_SIGMA, "\u03c3").replace(_DOTTED_I, "i").lower()
    assert len(lowered) == len(points)
    found = np.zeros(len(points), np.uint32)
    numbers = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), np.uint32)
    for run in re.finditer(r"\w+", lowered):
        found[run.start() : run.end()] = numbers[run.start() : run.end()]
    return found


def rows_of(near: float) -> int:
    """Bins in a band: the most (and so the fewest false candidates) with which a near-duplicate is hardly missed."""
    fitting = [rows for rows in range(1, BINS + 1) if (1 - near**rows) ** (BINS // rows) <= _MISSED]
    return max(fitting, default=1)


def least_of(near: float) -> int:
    """Bins that must agree, four standard deviations below what is expected of a near-duplicate; at least one."""
    return max(1, int(BINS * near - 4 * (BINS * near * (1 - near)) ** 0.5))


def sketches(texts: Sequence[str], near: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(D,) text hashes, 0 without words; (D, bands) band hashes, 0 for texts too short; (D, BINS) bytes of the bins.

    near = 0: no bands and no bins.
    """
    size = len(texts) if near else 0
    rows = rows_of(near) if near else BINS
    hashes = np.zeros(len(texts), np.uint64)
    bands, signatures = np.zeros((size, BINS // rows), np.uint64), np.zeros((size, BINS), np.uint8)
    if texts:
        read_texts(*pack(texts), fold(), rows, hashes, bands, signatures)
    return hashes, bands, signatures


def build(texts: Sequence[str], near: float) -> tuple[Index, Grams]:
    """The index of normalised texts, all different and none empty."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    # a copy can be written to, like the arrays of a scan: for numba that is another type, and another compilation
    symbols = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).copy()
    hashes, bands, signatures = sketches(texts, near)
    exact = _table(len(texts))
    fill_table(*exact, hashes)
    gram_arrays, grams = _number(texts, symbols, begins)
    keys, band_begins, band_texts = _grouped(bands)
    banded = _table(len(keys))
    fill_table(*banded, keys)
    rows, least = (rows_of(near), least_of(near)) if near else (BINS, 0)
    return Index(
        symbols, begins, *exact, *gram_arrays, *banded, band_begins, band_texts, signatures, rows, least
    ), grams


def _table(entries: int) -> tuple[np.ndarray, np.ndarray]:
    """An empty hash table, at most half of which will be full."""
    size = 2 << max(entries, 1).bit_length()
    return np.zeros(size, np.uint64), np.zeros(size, np.int64)


def _number(texts: Sequence[str], symbols: np.ndarray, begins: np.ndarray) -> tuple[GramArrays, Grams]:
    """The index's arrays of runs, and who has them."""
    places = sum(text.count(" ") + 1 for text in texts)
    keys, numbers = _table(places)
    bits = np.zeros(max(len(keys) // 8, 1), np.uint64)  # 8 bits a slot, so at least 16 a run
    first, last = np.zeros(places, np.int64), np.zeros(places, np.int64)
    owners = np.zeros((places, 2), np.int64)
    found = placed = 0
    if texts:
        found, placed = number_grams(symbols, begins, keys, numbers, bits, first, last, owners)
    pairs = np.sort(owners[:placed, 0] * max(len(texts), 1) + owners[:placed, 1])
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # np.unique took five times as long
    gram, text = np.divmod(pairs, max(len(texts), 1))
    holders = Grams(np.searchsorted(gram, np.arange(found + 1)), text, np.bincount(text, minlength=len(texts)))
    return (bits, keys, numbers, first[:found].copy(), last[:found].copy()), holders


def _grouped(bands: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different band hashes; where the texts of each begin; texts, those of one band together."""
    text, band = np.nonzero(bands)
    order = np.argsort(bands[text, band], kind="stable")
    keys, begins = np.unique(bands[text, band][order], return_index=True)
    return keys, np.append(begins, len(order)).astype(np.int64), text[order].astype(np.int64)
