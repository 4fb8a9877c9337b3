"""The loops that search a BM25 index, compiled like those of `overlap_kernels`.

Two passes, both exact. The first finds the documents that may be among the first K (`retrieval_bounds`): K and a few.
The second computes their scores in float64, each in the order of the query's words, so that nothing depends on how the
work was cut. Order: score as float32 falling, then document.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import compiled, part
from acclimate.text.retrieval_bounds import find_candidates
from acclimate.text.retrieval_postings import BLOCK, GROUP, LARGE, LARGE_CELL, norm_of, quick, saturation, width_of
from acclimate.text.retrieval_ranking import longer, sort_hits


@part
def large_of(at: Any, counts: Any, place: int) -> Any:
    return np.int64(counts[np.searchsorted(at, place)])


@part
def add_scores(arrays: Any, words: Any, weights: Any, formula: Any, documents: Any, scores: Any, slots: Any) -> int:
    """scores[d] of the documents, ascending; slots: (BLOCK,) uint32, all 0, and so again afterwards. Postings read."""
    count, begin, read = len(documents), 0, 0
    entries, rows, norms = np.empty(len(words), np.int64), np.empty(len(words), np.int64), np.empty(count, np.float64)
    for place in range(count):
        norms[place] = norm_of(np.float64(arrays.lengths[documents[place]]), formula)
    for at in range(len(words)):
        entries[at] = arrays.entry_begins[words[at]]
        row = np.searchsorted(arrays.frequent, words[at])
        rows[at] = row if row < len(arrays.frequent) and arrays.frequent[row] == words[at] else -1
    while begin < count:
        block = np.int64(documents[begin]) // BLOCK
        start = block * BLOCK
        width = width_of(len(arrays.lengths), block)
        end = begin
        while end < count and documents[end] < start + BLOCK:
            slots[documents[end] - start] = end - begin + 1
            end += 1
        mine, my_norms, my_scores = documents[begin:end], norms[begin:end], scores[begin:end]
        for at in range(len(words)):
            if rows[at] >= 0:
                add_cells(arrays, rows[at], weights[at], start, width, mine, my_norms, my_scores)
                continue
            last = arrays.entry_begins[words[at] + 1]
            while entries[at] < last and arrays.blocks[entries[at]] < block:
                entries[at] += 1
            if entries[at] < last and arrays.blocks[entries[at]] == block:
                read += add_postings(arrays, entries[at], weights[at], start, mine, my_norms, my_scores, slots)
        for place in range(len(mine)):
            slots[mine[place] - start] = 0
        begin = end
    return read


@part
def add_postings(
    arrays: Any, entry: Any, weight: Any, start: Any, documents: Any, norms: Any, scores: Any, slots: Any
) -> Any:
    """Add a rare word's parts in a block; postings read. slots: the place of each document, from 1, or 0.

    By bisection where documents are few, else by going through the postings. Nothing that is done for a posting is a
    function of its own: called with `arrays`, it halved the queries a second at K = 5000.
    """
    first, last, postings, steps = arrays.begins[entry], arrays.begins[entry + 1], arrays.postings, 2
    while (last - first) >> steps:
        steps += 1
    if len(documents) * steps * 4 >= last - first:
        for at in range(first, last):
            slot = np.int64(slots[postings[at] >> np.uint32(16)])
            if slot:
                times = np.int64(postings[at] & np.uint32(15))
                if times == LARGE:
                    times = large_of(arrays.large_at, arrays.large, at)
                scores[slot - 1] += weight * saturation(np.float64(times), norms[slot - 1])
        return last - first
    for place in range(len(documents)):
        sought = np.uint32((documents[place] - start) << 16)
        low, high = first, last
        while low < high:
            middle = (low + high) >> 1
            if postings[middle] < sought:
                low = middle + 1
            else:
                high = middle
        if low < last and postings[low] >> np.uint32(16) == sought >> np.uint32(16):
            times = np.int64(postings[low] & np.uint32(15))
            if times == LARGE:
                times = large_of(arrays.large_at, arrays.large, low)
            scores[place] += weight * saturation(np.float64(times), norms[place])
    return len(documents) * steps


@quick
def add_cells(
    arrays: Any, row: Any, weight: Any, start: Any, width: int, documents: Any, norms: Any, scores: Any
) -> None:
    """Add a frequent word's parts. A document that lacks it gets a part of 0, which is quicker than to look."""
    begin = len(arrays.frequent) * start + row * width
    cells = arrays.cells[begin : begin + width]
    at = np.searchsorted(arrays.large_cells_at, begin)
    if at < len(arrays.large_cells_at) and arrays.large_cells_at[at] < begin + width:
        for place in range(len(documents)):
            times = np.int64(cells[documents[place] - start])
            if times == LARGE_CELL:
                times = large_of(arrays.large_cells_at, arrays.large_cells, begin + documents[place] - start)
            scores[place] += weight * saturation(np.float64(times), norms[place])
        return
    for place in range(len(documents)):
        scores[place] += weight * saturation(np.float64(cells[documents[place] - start]), norms[place])


@compiled
def search_queries(
    arrays: Any,
    formula: Any,
    ratio: Any,
    k: int,
    word_begins: Any,
    words: Any,
    weights: Any,
    first: int,
    last: int,
    counted: Any,
) -> Any:
    """The first K documents of queries first to last - 1: (how many of each, documents, scores).

    word_begins, words, weights   of all queries; the weight is the word's idf by its count
    ratio      how much a bound may be off because the index was built with another average length: 1, or less
    counted    (3,) int64: postings read, cells read, documents scored; added to
    """
    sums, slots = np.zeros(BLOCK, np.uint32), np.zeros(BLOCK, np.uint32)
    size = k + k // 2 + GROUP + GROUP * GROUP + 1
    room = (np.empty(size, np.uint32), np.empty(size, np.uint32))
    sizes = np.zeros(last - first, np.int64)
    documents, scores = np.empty(4 * k + 1, np.uint32), np.empty(4 * k + 1, np.float32)
    found = 0
    for query in range(first, last):
        begin, end = word_begins[query], word_begins[query + 1]
        if begin == end:
            continue
        mine, my_weights = words[begin:end], weights[begin:end]
        free, bounds, held, read, looked = find_candidates(arrays, mine, my_weights, k, ratio, sums, room)
        room, candidates = (free, bounds), free[:held]
        exact = np.zeros(held, np.float64)
        read += add_scores(arrays, mine, my_weights, formula, candidates, exact, slots)
        rounded = exact.astype(np.float32)
        sort_hits(candidates, rounded, held)
        kept = min(held, k)
        if found + kept > len(documents):
            documents, scores = longer(documents, 2 * (found + kept)), longer(scores, 2 * (found + kept))
        documents[found : found + kept], scores[found : found + kept] = candidates[:kept], rounded[:kept]
        found += kept
        sizes[query - first] = kept
        counted[0] += read
        counted[1] += looked
        counted[2] += held
    return sizes, documents[:found].copy(), scores[:found].copy()


@compiled
def score_document(arrays: Any, formula: Any, words: Any, weights: Any, document: int) -> Any:
    """(words,) each word's part of the document's score."""
    slots, one = np.zeros(BLOCK, np.uint32), np.full(1, document, np.uint32)
    parts = np.zeros(len(words), np.float64)
    for at in range(len(words)):
        add_scores(arrays, words[at : at + 1], weights[at : at + 1], formula, one, parts[at : at + 1], slots)
    return parts
