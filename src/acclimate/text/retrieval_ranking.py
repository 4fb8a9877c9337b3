"""The loops of a BM25 search that find the K-th greatest of bounds, drop what lies below it, and sort hits."""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import part

ALL = 1 << 31  # what a query's bounds add up to at most
_ROUNDING = 1 << 9  # of ALL: more than float32 can tell apart


@part
def kth_greatest(values: Any, count: int, k: int) -> Any:
    """The k-th greatest of values[:count], uint32, without its two lowest bits; 1 <= k <= count."""
    known, mask = np.uint32(0), np.uint32(0)
    left = k
    shift = 22
    sizes = np.zeros(1024, np.int64)
    while True:
        sizes[:] = 0
        for place in range(count):
            if values[place] & mask == known:
                sizes[(values[place] >> np.uint32(shift)) & np.uint32(1023)] += 1
        digit = 1023
        while sizes[digit] < left:
            left -= sizes[digit]
            digit -= 1
        known = np.uint32(known | (np.uint32(digit) << np.uint32(shift)))
        mask = np.uint32(mask | (np.uint32(1023) << np.uint32(shift)))
        if shift == 2:
            return known
        shift -= 10


@part
def cut_of(reached: Any, slack: Any, ratio: Any) -> Any:
    """The bound below which no document is among the first K, where K documents have bounds of `reached` or more."""
    return max(np.int64(np.floor((np.float64(reached) - slack) * ratio)) - _ROUNDING, 1)


@part
def pruned(documents: Any, values: Any, count: int, k: int, slack: Any, ratio: Any) -> Any:
    """Drop what cannot be among the first K; how many are left, and the cut."""
    cut = cut_of(kth_greatest(values, count, k), slack, ratio)
    kept, least = 0, np.uint32(cut)
    for place in range(count):
        document, value = documents[place], values[place]
        documents[kept], values[kept] = document, value
        kept += value >= least
    return kept, cut


@part
def longer(array: Any, size: int) -> Any:
    grown = np.empty(size, array.dtype)
    grown[: len(array)] = array
    return grown


@part
def sort_hits(documents: Any, scores: Any, count: int) -> None:
    """By score falling; equal ones stay in their order. Radix sort: numba's own takes several times as long."""
    keys, order = np.empty(count, np.uint32), np.arange(count)
    bits = scores[:count].view(np.uint32)
    for place in range(count):
        keys[place] = ~bits[place]  # scores are positive, so their bits ascend with them
    other = np.empty(count, np.int64)
    sizes = np.empty(2049, np.int64)
    for shift in (0, 11, 22):
        sizes[:] = 0
        for place in range(count):
            sizes[((keys[place] >> np.uint32(shift)) & np.uint32(2047)) + 1] += 1
        for digit in range(2047):
            sizes[digit + 1] += sizes[digit]
        for place in range(count):
            digit = (keys[order[place]] >> np.uint32(shift)) & np.uint32(2047)
            other[sizes[digit]] = order[place]
            sizes[digit] += 1
        order, other = other, order
    old_documents, old_scores = documents[:count].copy(), scores[:count].copy()
    for place in range(count):
        documents[place], scores[place] = old_documents[order[place]], old_scores[order[place]]
