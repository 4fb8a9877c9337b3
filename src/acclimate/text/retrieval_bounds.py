"""The first pass of a BM25 search: the few documents that may be among the first K, by upper bounds.

A bound is a whole number that is never below a document's score, in units of the query, and above it by no more than
`slack`. Bounds are added up block by block, rare words first. The sums of 64 documents whose greatest, with all that
the frequent words could add to one of them, stays below what K documents are known to reach are left as they are; to
the others the frequent words' rows are added, as long as that holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import part
from acclimate.text.retrieval_postings import BLOCK, COARSE, FINE, GROUP, width_of
from acclimate.text.retrieval_ranking import ALL, kth_greatest, longer, pruned

LONGEST = 100_000  # different words of a query


@part
def split_words(arrays: Any, words: Any, weights: Any, rares: Any, rows: Any) -> Any:
    """Turn the query's weights into whole numbers and its words into rare and frequent ones.

    rares   (words, 3) int64, filled: word, weight, entry it is at
    rows    (words, 3) int64, filled: row, weight, the most it can add, which falls
    Returns how many of each there are, and the slack.
    """
    scale = ((ALL >> 12) - 4.0 * len(words)) / weights.sum()
    rare = frequent = 0
    slack = np.float64(0.0)
    for place in range(len(words)):
        word = np.int64(words[place])
        row = np.searchsorted(arrays.frequent, words[place])
        if row < len(arrays.frequent) and arrays.frequent[row] == words[place]:
            weight = np.int64(np.ceil(weights[place] * scale * (FINE / COARSE)))
            most, at = weight * arrays.greatest[row], frequent
            while at > 0 and rows[at - 1, 2] < most:
                rows[at] = rows[at - 1]
                at -= 1
            rows[at, 0], rows[at, 1], rows[at, 2] = row, weight, most
            frequent += 1
            slack += weight + COARSE + 2
        else:
            weight = np.int64(np.ceil(weights[place] * scale))
            rares[rare, 0], rares[rare, 1], rares[rare, 2] = word, weight, arrays.entry_begins[word]
            rare += 1
            slack += weight + FINE + 2
    return rare, frequent, slack


@part
def add_rare(arrays: Any, rares: Any, rare: int, block: int, sums: Any) -> Any:
    """Add the bounds of the rare words' postings in the block; how many there are."""
    read = 0
    for at in range(rare):
        entry = rares[at, 2]
        if entry == arrays.entry_begins[rares[at, 0] + 1] or arrays.blocks[entry] != block:
            continue
        rares[at, 2] = entry + 1
        first, last, weight = arrays.begins[entry], arrays.begins[entry + 1], np.uint32(rares[at, 1])
        for place in range(first, last):
            posting = arrays.postings[place]
            sums[posting >> np.uint32(16)] += weight * ((posting >> np.uint32(4)) & np.uint32(0xFFF))
        read += last - first
    return read


@part
def greatest_of(sums: Any, size: int, greatest: Any) -> None:
    """The greatest sum of each group of `size`.

    Compared rather than with `max`, and in a loop whose length is not known when it is compiled: else it is not made
    of vector instructions and takes fifteen times as long.
    """
    for group in range(len(greatest)):
        mine, found = sums[group * size : (group + 1) * size], np.uint32(0)
        for place in range(len(mine)):
            value = mine[place]
            found = value if value > found else found
        greatest[group] = found


@part
def add_row(sums: Any, here: int, weight: Any, bounds: Any, begin: int) -> Any:
    """Add a frequent word's bounds to the sums of a group; the greatest of them then."""
    mine, row, found = sums[here : here + GROUP], bounds[begin : begin + GROUP], np.uint32(0)
    for place in range(GROUP):
        value = np.uint32(mine[place] + np.uint32(weight * row[place]))
        mine[place] = value
        found = value if value > found else found
    return found


@part
def most_of_rows(arrays: Any, rows: Any, frequent: int, start: int, groups: int, rest: Any) -> None:
    """rest[g]: the most that the frequent words add to a document of the block's group g."""
    rest[:groups] = 0
    for at in range(frequent):
        begin = len(arrays.frequent) * (start // GROUP) + rows[at, 0] * groups
        peaks, weight = arrays.peaks[begin : begin + groups], np.uint32(rows[at, 1])
        for group in range(groups):
            rest[group] += weight * peaks[group]


@part
def complete(
    arrays: Any, rows: Any, frequent: int, start: int, width: int, sums: Any, rest: Any, live: Any, cut: Any
) -> Any:
    """Add the frequent words' rows to the groups `live` of the block that begins at `start`, as long as they matter.

    rest  as `most_of_rows` left it; lowered by what was added
    Groups that stay below the cut are dropped from `live`; how many are left, and how many cells were read.
    """
    looked, groups, lives = 0, width // GROUP, len(live)
    for at in range(frequent):
        row, weight, kept = rows[at, 0], np.uint32(rows[at, 1]), 0
        first_cell, first_peak = (
            len(arrays.frequent) * start + row * width,
            len(arrays.frequent) * (start // GROUP) + row * groups,
        )
        for place in range(lives):
            group = live[place]
            peak = arrays.peaks[first_peak + group]
            if peak:
                here = group * GROUP
                rest[group] -= weight * peak
                looked += GROUP
                greatest = add_row(sums, here, weight, arrays.bounds, first_cell + here)
                if np.int64(greatest) + np.int64(rest[group]) < cut:
                    continue
            live[kept] = group
            kept += 1
        lives = kept
    return lives, looked


@part
def gather(sums: Any, live: Any, start: int, cut: Any, documents: Any, values: Any, found: int) -> int:
    """Append the documents of the groups whose sums reach the cut; how many there are then."""
    least = np.uint32(cut)
    for place in range(len(live)):
        here = live[place] * GROUP
        for at in range(here, here + GROUP):
            documents[found], values[found] = start + at, sums[at]
            found += sums[at] >= least  # no branch: it would be guessed wrong half of the time
    return found


@part
def chosen(greatest: Any, groups: int, least: Any, best: bool, live: Any) -> int:
    """Fill `live` with the groups whose greatest sum is `least` or more, or with the others; how many they are."""
    lives = 0
    for group in range(groups):
        if (greatest[group] >= least) == best:
            live[lives] = group
            lives += 1
    return lives


@part
def look_at(
    arrays: Any,
    rows: Any,
    frequent: int,
    start: int,
    width: int,
    sums: Any,
    greatest: Any,
    rest: Any,
    live: Any,
    documents: Any,
    values: Any,
    found: int,
    many: int,
    cut: Any,
    k: int,
    slack: Any,
    ratio: Any,
) -> Any:
    """Append the documents of the groups `live` that may be among the first K; some are dropped when they are many.

    many  candidates after which some are dropped
    Returns (documents, bounds, how many, many, cut, cells read).
    """
    looked = 0
    for begin in range(0, len(live), GROUP):
        kept = begin
        for place in range(begin, min(begin + GROUP, len(live))):
            if np.int64(greatest[live[place]]) + np.int64(rest[live[place]]) >= cut:
                live[kept] = live[place]
                kept += 1
        chunk = live[begin:kept]
        kept, cells = complete(arrays, rows, frequent, start, width, sums, rest, chunk, cut)
        looked += cells
        found = gather(sums, chunk[:kept], start, cut, documents, values, found)
        if found > many:
            found, reached = pruned(documents, values, found, k, slack, ratio)
            cut = max(cut, reached)
            if 2 * found > many + k:  # so many lie close to the K-th
                many = 2 * found
                size = max(many + GROUP * GROUP, len(documents))
                documents, values = longer(documents, size), longer(values, size)
    return documents, values, found, many, cut, looked


@part
def find_candidates(arrays: Any, words: Any, weights: Any, k: int, ratio: Any, sums: Any, room: Any) -> Any:
    """The documents that may be among the first K, ascending: (documents, bounds, how many, postings, cells read).

    words, weights   the query's; weights > 0
    sums     (BLOCK,) uint32, all 0, and so again afterwards
    room     (documents, bounds) arrays to return candidates in; longer ones where they were too short
    """
    rares, rows = np.empty((len(words), 3), np.int64), np.empty((len(words), 3), np.int64)
    rare, frequent, slack = split_words(arrays, words, weights, rares, rows)
    documents, values = room
    greatest, rest = np.zeros(BLOCK // GROUP, np.uint32), np.empty(BLOCK // GROUP, np.uint32)
    live = np.empty(BLOCK // GROUP, np.int64)
    found, many, cut, read, looked, ascending = 0, k + k // 2 + GROUP, np.int64(1), 0, 0, True
    count = len(arrays.lengths)
    for block in range((count + BLOCK - 1) // BLOCK):
        start, width = block * BLOCK, width_of(count, block)
        groups = width // GROUP
        touched = add_rare(arrays, rares, rare, block, sums)
        read += touched
        most_of_rows(arrays, rows, frequent, start, groups, rest)
        if touched:
            greatest_of(sums, len(sums) // len(greatest), greatest)
        else:
            greatest[:] = 0
        # where too little is known for a cut, the groups that look best come first
        least = kth_greatest(greatest, groups, k) if found < k <= groups else np.uint32(0)
        for turn in range(2 if least else 1):
            lives = chosen(greatest, groups, least, turn == 0, live)
            documents, values, found, many, cut, cells = look_at(
                arrays, rows, frequent, start, width, sums, greatest, rest, live[:lives], documents, values, found,
                many, cut, k, slack, ratio,
            )  # fmt: skip
            looked += cells
            if least and turn == 0:
                ascending = False
                if found > k:
                    found, reached = pruned(documents, values, found, k, slack, ratio)
                    cut = max(cut, reached)
        if touched or frequent:
            sums[:] = 0
    if found > k:
        found, cut = pruned(documents, values, found, k, slack, ratio)
    if not ascending:
        documents[:found].sort()
    return documents, values, found, read, looked
