"""Groups of the same text, exactly or nearly: `overlap.duplicate_groups`, `overlap.repeats`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from acclimate.core.machines import in_turn, processors
from acclimate.text.overlap.kernels import BINS, ZERO, agreeing, compiled, part
from acclimate.text.overlap.search import least_of, rows_of, sketches

# -------------------- overlap
# Texts that stand in two places: the same, nearly the same, or with a run of words in common.
#
# exact      the same words in the same order (`normalised`)
# near       character 5-grams of the normalised texts with a Jaccard similarity of at least `near`: candidates by
# MinHash and locality-sensitive hashing, each verified by the exact similarity
# 13-gram    a run of 13 words in common (the rule of GPT-3's and later contamination checks)
#
# A word is what `\w+` matches: letters, digits, underscores of any script. Writing without spaces (Chinese, Japanese)
# is
# one word from one punctuation mark to the next, so that 13 words are some 13 clauses there: exact and near-duplicates
# are found as ever, shared runs only where long. A text without any word is like no other.
#
# Sources: Broder, On the resemblance and containment of documents (1997); Lee et al., Deduplicating training data makes
# language models better (ACL 2022); Brown et al., Language models are few-shot learners (2020, appendix C).


GRAM = 13  # words that two texts must share in a row before that counts as copied
SHINGLE = 5  # characters of the pieces whose sets near-duplicates share
MOST = 100  # different texts of those that match one scanned text that are told
WORD = re.compile(r"\w+")
_BATCH = 1 << 20  # characters that a thread takes at a time
_EXCERPT = 160
Batch = Sequence[tuple[str, str]]
Kind = Literal["exact", "near", "13-gram"]
KINDS: tuple[Kind, ...] = ("exact", "near", "13-gram")  # from the strongest on
Told = dict[int, tuple[int, float, int]]  # indexed text -> number of the kind, similarity, first shared run (or -1)


@dataclass(frozen=True, slots=True)
class Match:
    """A scanned text that holds a reference text, or a part of it.

    kind         the strongest that holds, in the order exact, near, 13-gram
    id           of the scanned text
    reference    id of the reference text
    similarity   1 for exact; the Jaccard similarity for near; for 13-gram the share of the reference's different runs
                 of 13 words that the scanned text has
    excerpt      normalised: the first shared run of 13 words, or the beginning of the text; at most 160 characters
    """

    kind: Kind
    id: str
    reference: str
    similarity: float
    excerpt: str


def normalised(text: str) -> str:
    """Words in lower case, one space between them: equal for texts that differ in layout and punctuation only."""
    return " ".join(WORD.findall(text.lower()))


class References:
    """Texts to look for in others, indexed once.

    Memory: some 20 bytes a character of the references and 3 KB a reference; while scanning, some 20 MB a thread,
    however much is scanned (a text of more than a million characters takes 20 bytes a character).
    """

    def __init__(self, texts: Iterable[tuple[str, str]], *, near: float = 0.8) -> None:
        """texts: (id, text) pairs. near: least Jaccard similarity of a near-duplicate, at most 1; 0 to look for none.

        Raises ValueError for another `near`. The first use in a process loads the compiled loops (compiles them, where
        no earlier process did).
        """
        from acclimate.text.overlap.search import build

        _check(near)
        self._least = near
        self._ids: list[str] = []
        owners: dict[str, list[int]] = {}  # the same words are indexed once, whatever the number of texts with them
        for number, (name, text) in enumerate(texts):
            self._ids.append(name)
            words = normalised(text)
            if words:
                owners.setdefault(words, []).append(number)
        self._owners = list(owners.values())
        self._texts = list(owners)
        self._index, self._grams = build(self._texts, near)

    def scan(
        self, texts: Iterable[tuple[str, str]], *, threads: int | None = None, most: int = MOST
    ) -> Iterator[list[Match]]:
        """The matches of each scanned text, in the order of the texts; mostly empty lists.

        texts     (id, text) pairs, read ahead by a few million characters
        threads   None: as many as this process may use. The result does not depend on it.
        most      different texts among the references that are told of one scanned text

        A reference appears at most once in a list, exact ones first, then near ones, then shared runs; by falling
        similarity, then in the references' order. References with the same words are told together, however many they
        are. Where more than `most` different ones match a text, the strongest is told and then those that matched no
        text before it, so that a paragraph that all texts share costs little and yet every reference is told of sooner
        or later. No more than 1,000 candidates of one text are compared.
        """
        reported = np.zeros(len(self._texts), bool)
        for batch, found in in_turn(self._look, _batches(texts), threads or processors()):
            yield from self._matches(batch, found, reported, most)

    def _look(self, batch: Batch) -> tuple[Batch, Found]:
        """The batch and what the compiled loops find in it. Runs in several threads at a time."""
        from acclimate.text.overlap.search import fold, pack, scan

        packed = pack([text for _, text in batch])
        exact = np.empty(len(batch), np.int64)
        hit_room, pair_room = 1 << 12, 1 << 10
        while True:
            hits, pairs = np.empty((hit_room, 2), np.int64), np.empty((pair_room, 2), np.int64)
            hit_count, pair_count = scan(*packed, fold(), self._index, exact, hits, pairs)
            if hit_count <= hit_room and pair_count <= pair_room:
                return batch, Found(exact, hits[:hit_count], pairs[:pair_count])
            hit_room, pair_room = max(hit_room, hit_count), max(pair_room, pair_count)

    def _matches(self, batch: Batch, found: Found, reported: np.ndarray, most: int) -> Iterator[list[Match]]:
        numbers = np.arange(len(batch) + 1)
        hit_ends = np.searchsorted(found.hits[:, 0], numbers)
        pair_ends = np.searchsorted(found.pairs[:, 0], numbers)
        some = (found.exact >= 0) | (np.diff(hit_ends) > 0) | (np.diff(pair_ends) > 0)
        for number, (name, text) in enumerate(batch):
            if not some[number]:
                yield []
                continue
            exact = int(found.exact[number])
            kept = {exact: (0, 1.0, -1)} if exact >= 0 else {}
            near = found.pairs[pair_ends[number] : pair_ends[number + 1], 1]
            runs = found.hits[hit_ends[number] : hit_ends[number + 1], 1]
            # a stronger kind replaces a weaker one
            kept = self._runs(runs) | self._near(text, near[near != exact]) | kept
            yield self._told(name, text, kept, reported, most)

    def _near(self, text: str, candidates: np.ndarray) -> Told:
        if not len(candidates):
            return {}
        own = shingles(normalised(text))
        similar = {one: jaccard(own, shingles(self._texts[one])) for one in candidates.tolist()}
        return {one: (1, similarity, -1) for one, similarity in similar.items() if similarity >= self._least}

    def _runs(self, grams: np.ndarray) -> Told:
        """grams: the shared runs of one text, by their places."""
        if not len(grams):
            return {}
        own = np.array(list(dict.fromkeys(grams.tolist())))
        begins, ends = self._grams.begins[own], self._grams.begins[own + 1]
        counts = ends - begins
        # the places from begins[i] to ends[i], for one i after the other
        holders = self._grams.texts[np.arange(counts.sum()) + np.repeat(ends - np.cumsum(counts), counts)]
        texts, places, shared = np.unique(holders, return_index=True, return_counts=True)
        shares = shared / self._grams.counts[texts]
        first = np.repeat(own, counts)[places]
        return {
            one: (2, share, gram)
            for one, share, gram in zip(texts.tolist(), shares.tolist(), first.tolist(), strict=True)
        }

    def _told(self, name: str, text: str, kept: Told, reported: np.ndarray, most: int) -> list[Match]:
        """The matches of one text in their order; `reported`: which different texts were told before, added to."""
        told = sorted((kind, -similarity, one) for one, (kind, similarity, _) in kept.items())
        if len(told) > most:
            told = [told[0], *sorted(told[1:], key=lambda each: bool(reported[each[2]]))[: most - 1]]
        reported[[one for _, _, one in told]] = True
        order = sorted((kind, negative, other, one) for kind, negative, one in told for other in self._owners[one])
        return [
            Match(KINDS[kind], name, self._ids[other], -negative, self._excerpt(text, kept[one]))
            for kind, negative, other, one in order
        ]

    def _excerpt(self, text: str, told: tuple[int, float, int]) -> str:
        kind, _, gram = told
        if KINDS[kind] != "13-gram":
            return normalised(text[: 4 * _EXCERPT])[:_EXCERPT]
        points = self._index.symbols[self._index.gram_begins[gram] : self._index.gram_ends[gram]]
        return points[:_EXCERPT].tobytes().decode("utf-32-le", "surrogatepass")


class Found(NamedTuple):
    """What `overlap_search.scan` finds in a batch."""

    exact: np.ndarray
    hits: np.ndarray
    pairs: np.ndarray


def shingles(words: str) -> set[str]:
    """The different runs of SHINGLE characters of a normalised text."""
    return {words[place : place + SHINGLE] for place in range(len(words) - SHINGLE + 1)}


def jaccard(one: set[str], other: set[str]) -> float:
    """Size of the intersection by that of the union; 0 where both are empty."""
    shared = len(one & other)
    return shared / max(len(one) + len(other) - shared, 1)


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for name, text in texts:
        batch.append((name, text))
        size += len(text) + 1
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _check(near: float) -> None:
    if not 0 <= near <= 1:
        raise ValueError(
            f"near is {near}, but a Jaccard similarity lies between 0 and 1; 0 looks for none, 0.8 is usual."
        )


def duplicate_groups(texts: Sequence[str], *, near: float = 0.8) -> list[int]:
    """A number for each text, equal for texts that are the same, exactly or nearly, also by way of others between them.

    Numbers count from 0 in the order in which the groups begin. near = 0: exactly the same only. A text without any
    word is the same as none other, unless they are equal but for white space around them.
    Memory: some 600 bytes a text, besides the texts.
    """

    _check(near)
    return groups(texts, near)


def repeats(texts: Sequence[str], *, near: float = 0.8) -> np.ndarray:
    """(D,) bool: whether a text is the same as one before it, exactly or nearly.

    What is said of a text depends on those before it only. near = 0: exactly the same only. A text without any word is
    the same as none other, unless they are equal but for white space around them.
    Memory: some 600 bytes a text, besides the texts.
    """

    _check(near)
    return repeated(texts, near)


def text_hashes(texts: Sequence[str]) -> np.ndarray:
    """(D,) uint64: equal for texts with the same words, and with a chance of 2^-64 for others; 0 without any word."""
    from acclimate.text.overlap.search import sketches

    return sketches(texts, 0.0)[0]


def duplicate_pairs(pairs: Sequence[tuple[str, str | None]], *, near: float = 0.8) -> list[int]:
    """`duplicate_groups` of texts that may come in pairs: the same where both are, in either order."""
    if not any(second for _, second in pairs):
        return duplicate_groups([first for first, _ in pairs], near=near)
    found = duplicate_groups([text or "" for pair in pairs for text in pair], near=near)
    numbers: dict[tuple[int, int], int] = {}
    both = (sorted(found[place : place + 2]) for place in range(0, len(found), 2))
    return [numbers.setdefault((low, high), len(numbers)) for low, high in both]


_GROUP_BATCH = 2000  # texts that a thread takes at a time
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
        here = slice(first, first + _GROUP_BATCH)
        hashes[here], bands_here, signatures_here = sketches(texts[here], near)
        if near:
            bands[here], signatures[here] = bands_here, signatures_here

    with ThreadPoolExecutor(processors()) as pool:
        list(pool.map(read, range(0, len(texts), _GROUP_BATCH)))
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
