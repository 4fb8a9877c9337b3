"""Groups of the same text, exactly or nearly: `overlap.duplicate_groups`, `overlap.repeats`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from acclimate.core.threads import processors
from acclimate.text.overlap import jaccard, normalised, shingles
from acclimate.text.overlap_index import least_of, rows_of, sketches
from acclimate.text.overlap_kernels import BINS, ZERO, agreeing, compiled, part

_BATCH = 2000  # texts that a thread takes at a time
_ROOM = 1 << 12  # pairs that are verified before more are looked for
_KEPT = 256  # texts whose sets of shingles are at hand


def groups(texts: Sequence[str], near: float) -> list[int]:
    parents = np.arange(len(texts))
    bands, signatures = _read(texts, near, parents)
    if near:
        _join_near(texts, bands, signatures, parents, near)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(parents, place), len(numbers)) for place in range(len(texts))]


def repeated(texts: Sequence[str], near: float) -> np.ndarray:
    """A text points to an earlier one that it is like: one pointer is enough, and none ever leads to a later text."""
    parents = np.arange(len(texts))
    bands, signatures = _read(texts, near, parents)
    if near:
        _point_back(texts, bands, signatures, parents, near)
    return np.asarray(parents != np.arange(len(texts)))


def _read(texts: Sequence[str], near: float, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bands and signatures of the texts, those of equal ones but the first left out; equal ones are joined."""
    bands = np.zeros((len(texts), BINS // rows_of(near) if near else 0), np.uint64)
    signatures = np.zeros((len(texts), BINS if near else 0), np.uint8)
    hashes = np.zeros(len(texts), np.uint64)

    def read(first: int) -> None:
        here = slice(first, first + _BATCH)
        hashes[here], bands_here, signatures_here = sketches(texts[here], near)
        if near:
            bands[here], signatures[here] = bands_here, signatures_here

    with ThreadPoolExecutor(processors()) as pool:
        list(pool.map(read, range(0, len(texts), _BATCH)))
    _join_equal(texts, hashes, parents)
    if near:
        bands[parents != np.arange(len(texts))] = 0  # one of each group of equal texts stands for all
    return bands, signatures


def _join_equal(texts: Sequence[str], hashes: np.ndarray, parents: np.ndarray) -> None:
    order = np.argsort(hashes, kind="stable")
    cuts = np.flatnonzero(np.diff(hashes[order])) + 1
    for run in np.split(order, cuts):
        if len(run) > 1:
            first: dict[str, int] = {}
            for place in run.tolist():
                words = normalised(texts[place]) or texts[place].strip()
                parents[place] = first.setdefault(words, place)


def _join_near(
    texts: Sequence[str], bands: np.ndarray, signatures: np.ndarray, parents: np.ndarray, near: float
) -> None:
    @lru_cache(_KEPT)
    def pieces(place: int) -> set[str]:
        return shingles(normalised(texts[place]))

    for one, other in _candidates(bands, signatures, parents, least_of(near)):
        roots = root(parents, one), root(parents, other)
        if roots[0] != roots[1] and jaccard(pieces(one), pieces(other)) >= near:
            parents[max(roots)] = min(roots)


def _point_back(
    texts: Sequence[str], bands: np.ndarray, signatures: np.ndarray, parents: np.ndarray, near: float
) -> None:
    @lru_cache(_KEPT)
    def pieces(place: int) -> set[str]:
        return shingles(normalised(texts[place]))

    for one, other in _candidates(bands, signatures, parents, least_of(near)):
        first, later = min(one, other), max(one, other)
        # no pair is left out that counts: a text that points nowhere has a root of its own
        if parents[later] == later and jaccard(pieces(first), pieces(later)) >= near:
            parents[later] = first


def _candidates(
    bands: np.ndarray, signatures: np.ndarray, parents: np.ndarray, least: int
) -> Iterator[tuple[int, int]]:
    """Pairs with a band in common and sketches that agree, each once, but for those that are in one group already."""
    pairs, cursor = np.empty((_ROOM, 2), np.int64), np.empty(2, np.int64)
    for band in range(bands.shape[1]):
        order = np.argsort(bands[:, band], kind="stable")
        cursor[:] = 0, 1
        while cursor[0] < len(order):
            found = band_pairs(order, bands, band, parents, signatures, least, cursor, pairs)
            yield from pairs[:found].tolist()


@compiled
def root(parents: Any, place: int) -> int:
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


@part
def shared_before(one: Any, other: Any, band: int) -> bool:
    """Whether an earlier band is the same in both, so that they have met."""
    place = 0
    while place < band and one[place] != other[place]:
        place += 1
    return place < band


@compiled
def band_pairs(
    order: Any, bands: Any, band: int, parents: Any, signatures: Any, least: int, cursor: Any, pairs: Any
) -> int:
    """Fill `pairs` with texts of one band, but of no earlier one, going on from the cursor; their number.

    order      texts by rising band hash
    cursor     (2,) the places in `order` of the pair to look at next, moved on here; len(order) at the end
    """
    found, one, other = 0, cursor[0], cursor[1]
    while one < len(order):
        first = order[one]
        key = bands[first, band]
        while key != ZERO and other < len(order) and bands[order[other], band] == key:
            second = order[other]
            other += 1
            if root(parents, first) == root(parents, second) or shared_before(bands[first], bands[second], band):
                continue
            if agreeing(signatures[first], signatures[second]) >= least:
                pairs[found, 0], pairs[found, 1] = first, second
                found += 1
                if found == len(pairs):
                    cursor[0], cursor[1] = one, other
                    return found
        one += 1
        other = one + 1
    cursor[0] = len(order)
    return found
