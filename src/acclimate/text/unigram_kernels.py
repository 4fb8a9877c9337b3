"""The loops over words of `unigram`, compiled by numba. Legend and edges: text/unigram.py."""

from __future__ import annotations

from math import exp, inf, log
from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import compiled, longest_of, part


@part
def _logsum(one: Any, other: Any) -> Any:
    """log(exp(one) + exp(other))."""
    if one < other:
        one, other = other, one
    return one if other == -inf else one + np.log1p(exp(other - one))


@part
def _best(
    first: int, last: int, without: int, start_E: Any, piece_E: Any, begins_C1: Any, scores_P: Any, best: Any, by: Any
) -> Any:
    """The score of the most probable path from one place to another, -inf for none; by[n]: the edge to first + n.

    without: a piece that must not be the whole path; -1 for none
    """
    best[0] = 0.0
    for place in range(first + 1, last + 1):
        score, edge = -inf, -1
        for each in range(begins_C1[place], begins_C1[place + 1]):
            start = start_E[each]
            if start < first or (piece_E[each] == without and start == first and place == last):
                continue
            reached = best[start - first] + scores_P[piece_E[each]]
            if reached > score:
                score, edge = reached, each
        best[place - first], by[place - first] = score, edge
    return best[last - first]


@compiled
def expected_counts(
    begins_W1: np.ndarray,
    counts_W: np.ndarray,
    start_E: np.ndarray,
    piece_E: np.ndarray,
    begins_C1: np.ndarray,
    scores_P: np.ndarray,
) -> np.ndarray:
    """(P,) how often each piece is expected to be met, over all segmentations of all words (the E step)."""
    expected_P = np.zeros(len(scores_P))
    longest = longest_of(begins_W1)
    ahead, behind = np.empty(longest + 1), np.empty(longest + 1)
    for word in range(len(counts_W)):
        first, last = begins_W1[word], begins_W1[word + 1]
        ahead[0] = 0.0
        for place in range(first + 1, last + 1):
            total = -inf
            for each in range(begins_C1[place], begins_C1[place + 1]):
                total = _logsum(total, ahead[start_E[each] - first] + scores_P[piece_E[each]])
            ahead[place - first] = total
            behind[place - first - 1] = -inf
        behind[last - first] = 0.0
        for place in range(last, first, -1):
            for each in range(begins_C1[place], begins_C1[place + 1]):
                start, score = start_E[each] - first, scores_P[piece_E[each]]
                behind[start] = _logsum(behind[start], score + behind[place - first])
                share = exp(ahead[start] + score + behind[place - first] - ahead[last - first])
                expected_P[piece_E[each]] += counts_W[word] * share
    return expected_P


@compiled
def path_counts(
    begins_W1: np.ndarray,
    counts_W: np.ndarray,
    start_E: np.ndarray,
    piece_E: np.ndarray,
    begins_C1: np.ndarray,
    scores_P: np.ndarray,
) -> np.ndarray:
    """(P,) how often each piece is met in the most probable segmentations of all words."""
    met_P = np.zeros(len(scores_P))
    longest = longest_of(begins_W1)
    best, by = np.empty(longest + 1), np.empty(longest + 1, np.int64)
    for word in range(len(counts_W)):
        first, last = begins_W1[word], begins_W1[word + 1]
        _best(first, last, -1, start_E, piece_E, begins_C1, scores_P, best, by)
        place = last
        while place > first:
            edge = by[place - first]
            met_P[piece_E[edge]] += counts_W[word]
            place = start_E[edge]
    return met_P


@compiled
def losses(
    where_P: np.ndarray,
    length_P: np.ndarray,
    start_E: np.ndarray,
    piece_E: np.ndarray,
    begins_C1: np.ndarray,
    scores_P: np.ndarray,
    met_P: np.ndarray,
) -> np.ndarray:
    """(P,) how much less probable the words would be, by the word, were a piece replaced by its best segmentation.

    -inf where the piece is never met, or less probable than that segmentation; inf where there is none.
    """
    total = met_P.sum()
    loss_P = np.empty(len(scores_P))
    best, by = np.empty(length_P.max() + 1), np.empty(length_P.max() + 1, np.int64)
    for piece in range(len(scores_P)):
        first, last, met = where_P[piece], where_P[piece] + length_P[piece], met_P[piece]
        if length_P[piece] == 1:
            loss_P[piece] = inf
            continue
        other = _best(first, last, piece, start_E, piece_E, begins_C1, scores_P, best, by)
        if other == -inf:
            loss_P[piece] = inf
        elif met == 0 or other >= scores_P[piece]:
            loss_P[piece] = -inf
        else:
            parts, summed, place = 0, 0.0, last
            while place > first:
                edge = by[place - first]
                summed += log(met_P[piece_E[edge]] + met)
                parts += 1
                place = start_E[edge]
            instead = summed - parts * log(total + met * (parts - 1))
            loss_P[piece] = met / total * (log(met / total) - instead)
    return loss_P
