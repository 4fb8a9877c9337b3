"""Find texts of one list that are equal or nearly equal: their groups (`duplicate_groups`) or repeats (`repeats`).

`_read` joins equal texts first. For near-duplicates, pairs whose sketches agree are found: few by NumPy, many by the
compiled loop `band_pairs`. A pair counts only if its similarity, of the hashes of all its runs of characters, is high
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from acclimate.core.machines import processors
from acclimate.text.overlap.references import check_similarity
from acclimate.text.overlap.sketches import (
    BINS,
    are_few,
    bins_of_band,
    different_shingles,
    few_sketches,
    first_of_group,
    least_of,
    similarity,
)
from acclimate.text.overlap.words import normalised_words, with_signs

_BATCH = 2000  # texts that a thread takes at a time
_ROOM = 1 << 12  # pairs that are found before they are verified
_FEW = 1 << 16  # pairs with a band in common that NumPy compares; a compiled loop compares all others
_KEPT = 8192  # texts whose shingles are cached, some 8 bytes a character


def duplicate_groups(texts: Sequence[str], *, near: float = 0.8) -> list[int]:
    """Return the number of each text's group: texts that are the same, directly or through a chain of other texts.

    near  least Jaccard similarity of near-duplicates; 0 joins only texts with the same words

    Groups are numbered from 0 in order of their first text. Texts without words are the same only if they are equal
    but for white space around them. Memory: some 600 bytes a text, besides the texts.
    """
    parents, candidates, alike = _compared(texts, near)
    for one, other in candidates:
        roots = first_of_group(parents, one), first_of_group(parents, other)
        if roots[0] != roots[1] and alike(one, other):
            parents[max(roots)] = min(roots)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(first_of_group(parents, place), len(numbers)) for place in range(len(texts))]


def repeats(texts: Sequence[str], *, near: float = 0.8) -> np.ndarray:
    """Return (D,) bool, True for a text that is the same as one before it. Arguments: `duplicate_groups`.

    The answer for a text depends only on the texts before it. Memory: some 600 bytes a text, besides the texts.
    """
    parents, candidates, alike = _compared(texts, near)
    # a text points to an earlier text that it resembles; one pointer is enough, and none leads to a later text
    for one, other in candidates:
        first, later = min(one, other), max(one, other)
        # `band_pairs` skips no pair that counts: a text that points nowhere shares its root with no earlier text
        if parents[later] == later and alike(first, later):
            parents[later] = first
    return np.asarray(parents != np.arange(len(texts)))


def duplicate_pairs(pairs: Sequence[tuple[str, str | None]], *, near: float = 0.8, ordered: bool = False) -> list[int]:
    """Return the group of each text or pair of texts; pairs are the same if both texts are.

    ordered  False: a pair is the same as that of its texts in the other order
    """
    if not any(second for _, second in pairs):
        return duplicate_groups([first for first, _ in pairs], near=near)
    groups = duplicate_groups([text or "" for pair in pairs for text in pair], near=near)
    numbers: dict[tuple[int, ...], int] = {}
    group_pairs = (groups[place : place + 2] for place in range(0, len(groups), 2))
    return [numbers.setdefault(tuple(pair if ordered else sorted(pair)), len(numbers)) for pair in group_pairs]


def _compared(
    texts: Sequence[str], near: float
) -> tuple[np.ndarray, Iterator[tuple[int, int]], Callable[[int, int], bool]]:
    """Return (D,) the places of equal texts' firsts, pairs that may be alike, and the exact test of a pair.

    The pairs are found one after the other, in view of what the caller has joined in the first array by then.
    """
    check_similarity(near)
    texts = [with_signs(text) for text in texts]
    parents = np.arange(len(texts))
    bands, signatures = _read(texts, near, parents)
    return parents, _candidates(bands, signatures, parents, near), _similarity_test(texts, near)


def _read(texts: Sequence[str], near: float, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join equal texts in `parents`; return bands (D, bands), 0 for repeats of an equal text, and bins (D, BINS).

    With near = 0 there are no bands and no bins.
    """
    bands = np.zeros((len(texts), BINS // bins_of_band(near) if near else 0), np.uint64)
    signatures = np.zeros((len(texts), BINS if near else 0), np.uint8)
    hashes = np.zeros(len(texts), np.uint64)

    if are_few(texts):
        sketches = few_sketches
    else:
        from acclimate.text.overlap.search import many_sketches as sketches  # loads numba

    def read(first: int) -> None:
        chunk = slice(first, first + _BATCH)
        hashes[chunk], bands_here, signatures_here = sketches(texts[chunk], near)
        if near:
            bands[chunk], signatures[chunk] = bands_here, signatures_here

    with ThreadPoolExecutor(processors()) as pool:
        list(pool.map(read, range(0, len(texts), _BATCH)))

    order = np.argsort(hashes, kind="stable")
    cuts = np.flatnonzero(np.diff(hashes[order])) + 1
    for run in np.split(order, cuts):
        if len(run) > 1:  # equal hashes only find candidates
            firsts: dict[str, int] = {}
            for place in run.tolist():
                words = normalised_words(texts[place]) or texts[place].strip()
                parents[place] = firsts.setdefault(words, place)
    if near:
        bands[parents != np.arange(len(texts))] = 0  # the first of equal texts stands for all
    return bands, signatures


def _similarity_test(texts: Sequence[str], near: float) -> Callable[[int, int], bool]:
    """Return a function that tests the similarity of two texts by place. It caches shingles of recent texts."""

    @lru_cache(_KEPT)
    def pieces(place: int) -> np.ndarray:
        hashes: np.ndarray = different_shingles(normalised_words(texts[place]))
        return hashes

    def alike(one: int, other: int) -> bool:
        return similarity(pieces(one), pieces(other)) >= near

    return alike


def _candidates(
    bands: np.ndarray, signatures: np.ndarray, parents: np.ndarray, near: float
) -> Iterator[tuple[int, int]]:
    """Yield each pair with a common band and sketches that agree once, unless both are already in one group."""
    least, few = least_of(near), _FEW
    pairs, cursor = np.empty((_ROOM, 2), np.int64), np.empty(2, np.int64)
    for band in range(bands.shape[1]):
        order = np.argsort(bands[:, band], kind="stable")
        keys = bands[order, band]
        firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        sizes = np.diff(firsts, append=len(keys))
        several = (sizes > 1) & (keys[firsts] > 0)  # key 0: the text has no bands
        few -= int((sizes * (sizes - 1))[several].sum()) // 2
        if few >= 0:
            yield from _few_pairs(order[np.repeat(several, sizes)], bands, band, signatures, least)
            continue
        from acclimate.text.overlap.kernels import band_pairs  # loads numba

        cursor[:] = 0, 1
        while cursor[0] < len(order):
            count = band_pairs(order, bands, band, parents, signatures, least, cursor, pairs)
            yield from pairs[:count].tolist()


def _few_pairs(
    order: np.ndarray, bands: np.ndarray, band: int, signatures: np.ndarray, least: int
) -> Iterator[tuple[int, int]]:
    """Yield what `band_pairs` finds, whatever the groups are. order: texts with this band in common, side by side"""
    for step in range(1, len(order)):
        one, other = order[:-step], order[step:]
        together = bands[one, band] == bands[other, band]
        if not together.any():
            return
        one, other = one[together], other[together]
        new = ~(bands[one, :band] == bands[other, :band]).any(1)  # no earlier band found the pair
        one, other = one[new], other[new]
        alike = (signatures[one] == signatures[other]).sum(1) >= least
        yield from zip(one[alike].tolist(), other[alike].tolist(), strict=True)
