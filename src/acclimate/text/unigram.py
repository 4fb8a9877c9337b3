"""The pieces of a unigram language model, from counts of words: the same counts give the same pieces and scores.

Kudo (2018), "Subword Regularization", section 3.2: begin with many frequent substrings; estimate the probability of
each by EM over all segmentations of all words; drop those whose loss hurts the likelihood least; until `size` are left.
What the paper leaves open is as in SentencePiece: seeds end where what follows them varies, two rounds of EM before
each cut to three quarters, digamma(count) in place of its logarithm, a piece's loss from its second best segmentation.

The trainer of `tokenizers` does the same, but over words in the order of a randomly seeded hash table: every run gives
other scores and other pieces. Hence this one, whose sums are taken in one order.

Shape suffixes: C characters of all words one after the other, W words, P pieces, E edges. An edge is an occurrence of a
piece in a word: it leads from the place before its first character to the one after its last, places counted over all
words; edges are sorted by where they end.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from math import exp, inf, log
from typing import Any

import numpy as np
from scipy.special import digamma

from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.overlap.kernels import compiled, longest_of, part

# -------------------- unigram kernels
# The loops over words of `unigram`, compiled by numba. Legend and edges: text/unigram.py.


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


CHARACTERS = 2_000_000  # of the different words that are learnt from, the most frequent first: some 600 MB of memory
SEEDS = 1_000_000  # pieces to begin with
LONGEST = 16  # characters of a piece
ROUNDS = 2  # of EM before pieces are dropped
KEPT = 0.75  # share of the pieces that a cut leaves
LEAST = 0.5  # expected count of a piece that stays


@dataclass(frozen=True, eq=False)
class Lattice:
    """The words as graphs of their pieces.

    begins_W1     (W + 1,) int64 places where words begin, and the end
    counts_W      (W,) float64
    start_E, piece_E  (E,) int32
    begins_C1     (C + 2,) int64: edges begins_C1[place] to before begins_C1[place + 1] end at a place
    where_P, length_P  a place where the piece stands, and its characters
    """

    begins_W1: np.ndarray
    counts_W: np.ndarray
    start_E: np.ndarray
    piece_E: np.ndarray
    begins_C1: np.ndarray
    where_P: np.ndarray
    length_P: np.ndarray

    def only(self, kept_P: np.ndarray) -> Lattice:
        """The same with these pieces alone, numbered anew in their order."""
        number_P = np.cumsum(kept_P, dtype=np.int32) - 1
        kept_E = kept_P[self.piece_E]
        before = np.concatenate([[0], np.cumsum(kept_E)])
        return replace(
            self,
            start_E=self.start_E[kept_E],
            piece_E=number_P[self.piece_E[kept_E]],
            begins_C1=before[self.begins_C1],
            where_P=self.where_P[kept_P],
            length_P=self.length_P[kept_P],
        )


def train_unigram(
    words: Sequence[tuple[str, int]], alphabet: Sequence[str], *, size: int, space: str, watch: Watch = unwatched
) -> list[tuple[str, float]]:
    """At most `size` pieces and their log probabilities, the most probable first; all of the alphabet are among them.

    words   with their counts, the most frequent first; what lies beyond CHARACTERS is not read, nor are characters that
            are not in the alphabet
    space   begins words that a space goes before; it may stand before anything, while letters, digits and all else do
            not stand in one piece
    """
    parts = _parts(words, alphabet, space)
    text = "".join(word for word, _ in parts)
    lattice = _lattice(text, parts, alphabet)
    characters = len(alphabet)  # the first pieces: these stay
    desired = max(int(1.1 * size), characters)
    scores_P = np.full(len(lattice.where_P), -np.log(len(lattice.where_P)))
    seeds = len(scores_P)
    while True:
        for _ in range(ROUNDS):
            lattice, scores_P = _estimated(lattice, scores_P, characters)
        gone = max(seeds - desired, 1)
        watch(Progress("pieces", min(seeds - len(scores_P), gone), gone, "pieces"))
        if len(scores_P) <= desired:
            break
        kept_P = _kept(lattice, scores_P, characters, max(desired, int(KEPT * len(scores_P))))
        lattice, scores_P = lattice.only(kept_P), scores_P[kept_P]
    spelt = [text[where : where + length] for where, length in zip(lattice.where_P, lattice.length_P, strict=True)]
    pieces = [*alphabet, *spelt[characters:]]
    ranked = sorted(range(characters, len(pieces)), key=lambda number: (-scores_P[number], pieces[number]))
    chosen = [*range(characters), *ranked[: size - characters]]
    learnt = [(pieces[number], float(scores_P[number])) for number in chosen]
    return sorted(learnt, key=lambda each: (-each[1], each[0]))


def _parts(words: Sequence[tuple[str, int]], alphabet: Sequence[str], space: str) -> list[tuple[str, int]]:
    """What no piece reaches over, with its counts: runs of letters, of digits or of others, a space before or not."""
    kinds = {character: _kind(character) for character in alphabet}
    counts: dict[str, int] = {}
    read = 0
    for word, count in words:
        if read >= CHARACTERS:
            break
        bare = word.removeprefix(space)
        first = word[: len(word) - len(bare)]
        for kind, run in groupby(bare, key=kinds.get):
            part = first + "".join(run)
            first = ""
            if kind is not None:
                read += len(part) if part not in counts else 0
                counts[part] = counts.get(part, 0) + count
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _kind(character: str) -> str:
    category = unicodedata.category(character)[0]
    return {"L": "letter", "M": "letter", "N": "digit"}.get(category, "other")


def _lattice(text: str, parts: Sequence[tuple[str, int]], alphabet: Sequence[str]) -> Lattice:
    """The alphabet and the most frequent substrings, by length times count, and where they stand."""
    begins_W1 = np.array([*accumulate((len(word) for word, _ in parts), initial=0)], np.int64)
    counts_W = np.array([count for _, count in parts], np.float64)
    lengths_W = np.diff(begins_W1)
    count_C, room_C = np.repeat(counts_W, lengths_W), np.repeat(begins_W1[1:], lengths_W) - np.arange(len(text))
    number = {character: place for place, character in enumerate(alphabet)}
    symbols_C = np.fromiter((number[character] for character in text), np.int64, len(text))
    starts, ranks, where = [np.arange(len(text))], [symbols_C], [np.zeros(len(alphabet), np.int64)]
    weights: list[np.ndarray] = []
    open_: list[np.ndarray] = []
    for length in range(2, LONGEST + 1):
        frequent = np.ones(len(text), bool) if length == 2 else (weights[-1] >= 2)[ranks[-1]]
        goes_on = frequent & (room_C[starts[-1]] >= length)
        at = starts[-1][goes_on]
        key = ranks[-1][goes_on] * len(alphabet) + symbols_C[at + length - 1]
        unique, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        weight = np.bincount(inverse, count_C[at], minlength=len(unique))
        if weights:  # a substring that is always followed by the same character is no seed
            most = np.zeros(len(weights[-1]))
            np.maximum.at(most, unique // len(alphabet), weight)
            open_.append(weights[-1] > most)
        starts.append(at)
        ranks.append(inverse)
        where.append(at[first])
        weights.append(weight)
    open_.append(np.ones(len(weights[-1]), bool))
    taken = _seeds(weights, open_)
    chosen = [np.ones(len(alphabet), bool), *taken]
    return _edges(begins_W1, counts_W, starts=starts, ranks=ranks, where=where, taken=chosen)


def _seeds(weights: Sequence[np.ndarray], open_: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Which substrings of two characters, of three, ... are pieces to begin with."""
    worth = np.concatenate([weight * length for length, weight in enumerate(weights, 2)])
    possible = np.concatenate([(weight >= 2) & ends for weight, ends in zip(weights, open_, strict=True)])
    ranked = np.argsort(np.where(possible, -worth, np.inf), kind="stable")[: min(SEEDS, int(possible.sum()))]
    chosen = np.zeros(len(worth), bool)
    chosen[ranked] = True
    return np.split(chosen, np.cumsum([len(weight) for weight in weights])[:-1])


def _edges(
    begins_W1: np.ndarray,
    counts_W: np.ndarray,
    *,
    starts: Sequence[np.ndarray],
    ranks: Sequence[np.ndarray],
    where: Sequence[np.ndarray],
    taken: Sequence[np.ndarray],
) -> Lattice:
    """starts, ranks: of each length, the places and which substring stands there; where, taken: of each substring."""
    start, end, piece, before = [], [], [], 0
    for length, (at, rank, chosen) in enumerate(zip(starts, ranks, taken, strict=True), 1):
        there = chosen[rank]
        start.append(at[there].astype(np.int32))
        end.append((at[there] + length).astype(np.int32))
        piece.append((before + np.cumsum(chosen) - 1)[rank[there]].astype(np.int32))
        before += int(chosen.sum())
    end_E = np.concatenate(end)
    order = np.argsort(end_E, kind="stable")
    per_place = np.bincount(end_E, minlength=int(begins_W1[-1]) + 1)
    return Lattice(
        begins_W1,
        counts_W,
        np.concatenate(start)[order],
        np.concatenate(piece)[order],
        np.concatenate([[0], np.cumsum(per_place)]),
        np.concatenate([places[chosen] for places, chosen in zip(where, taken, strict=True)]),
        np.concatenate([np.full(int(chosen.sum()), length) for length, chosen in enumerate(taken, 1)]),
    )


def _estimated(lattice: Lattice, scores_P: np.ndarray, characters: int) -> tuple[Lattice, np.ndarray]:
    """A round of EM: pieces that are hardly ever expected are gone, the others have new scores."""
    expected_P = expected_counts(
        lattice.begins_W1, lattice.counts_W, lattice.start_E, lattice.piece_E, lattice.begins_C1, scores_P
    )
    expected_P[:characters] = np.maximum(expected_P[:characters], LEAST)
    kept_P = expected_P >= LEAST
    expected_P = expected_P[kept_P]
    return lattice.only(kept_P), digamma(expected_P) - digamma(expected_P.sum())


def _kept(lattice: Lattice, scores_P: np.ndarray, characters: int, most: int) -> np.ndarray:
    """(P,) bool: at most `most` pieces, those without which the words would be least probable, and the characters."""
    met_P = path_counts(
        lattice.begins_W1, lattice.counts_W, lattice.start_E, lattice.piece_E, lattice.begins_C1, scores_P
    )
    loss_P = losses(
        lattice.where_P, lattice.length_P, lattice.start_E, lattice.piece_E, lattice.begins_C1, scores_P, met_P
    )
    loss_P[:characters] = np.inf
    order = np.argsort(-loss_P, kind="stable")[:most]
    kept_P = np.zeros(len(scores_P), bool)
    kept_P[order] = loss_P[order] > -np.inf
    return kept_P
