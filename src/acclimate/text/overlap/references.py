"""Find texts that contain a reference text or a part of it. So leaks of dev and test texts are found.

exact      the same words in the same order (`normalised_words`)
near       character 5-grams of the normalised texts with a Jaccard similarity of at least `near`: candidates by MinHash
           and locality-sensitive hashing, each verified by the exact similarity
13-gram    a common run of 13 words (the rule of GPT-3's and later contamination checks)

A word is what `\\w+` matches: letters, digits and underscores of any script. In scripts without spaces (Chinese,
Japanese) a word reaches from one punctuation mark to the next. There 13 words are some 13 clauses, so only long shared
runs are found; exact and near-duplicates are found as in other scripts. A text without words matches no other.

The compiled loops are in overlap/search.py, which is imported only when it is used: importing numba takes a third of a
second.

Sources: Broder, On the resemblance and containment of documents (1997); Lee et al., Deduplicating training data makes
language models better (ACL 2022); Brown et al., Language models are few-shot learners (2020, appendix C).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np

from acclimate.core.machines import map_threads, processors
from acclimate.text.overlap.words import normalised_words

if TYPE_CHECKING:
    from acclimate.text.overlap.search import Holders, Shingles

MOST = 100  # different reference texts that are reported for one scanned text
_BATCH = 1 << 20  # characters that a thread takes at a time
_EXCERPT = 160  # characters
_KEPT = 8192  # references whose shingles are cached, some 8 bytes a character
NamedTexts = Sequence[tuple[str, str]]
Scanned = TypeVar("Scanned", tuple[str, str], tuple[str, str, int])
Item = tuple[int, int, int]  # number, bit of its group, label
GROUPS = tuple(1 << bit for bit in range(8))
MatchKind = Literal["exact", "near", "13-gram"]
KINDS: tuple[MatchKind, ...] = ("exact", "near", "13-gram")  # from the strongest on
_KINDS_OF_COVER: tuple[MatchKind, ...] = (*KINDS, "13-gram")  # as overlap/search.py numbers them
Evidence = tuple[int, float, int]  # number of the kind, similarity, first shared run or -1


@dataclass(frozen=True, slots=True)
class Match:
    """A scanned text that contains a reference text or a part of it.

    kind         the strongest that applies; exact is stronger than near, near than 13-gram
    id           of the scanned text
    reference    id of the reference text
    similarity   1 for exact; the Jaccard similarity for near; for 13-gram the share of the reference's different runs
                 of 13 words that the scanned text contains
    excerpt      normalised: the first shared run of 13 words, or the beginning of the text; at most 160 characters
    """

    kind: MatchKind
    id: str
    reference: str
    similarity: float
    excerpt: str


class References:
    """Texts to look for in others, indexed once.

    Memory: some 20 bytes a character of the references and 3 KB a reference; while scanning, some 20 MB a thread,
    however much is scanned (a text of more than a million characters takes 20 bytes a character). A cover takes 8 bytes
    a character of the references more, and for each thread up to 2 KB a reference.
    """

    def __init__(self, texts: Iterable[tuple[str, str]], *, near: float = 0.8) -> None:
        """Index the texts, (id, text) pairs. near: least Jaccard similarity of a near-duplicate; 0 looks for none.

        Raises ValueError unless `near` is between 0 and 1. The first use in a process loads the compiled loops, or
        compiles them if no earlier process did.
        """
        from acclimate.text.overlap.kernels import different_shingles
        from acclimate.text.overlap.search import build

        check_similarity(near)
        self._least = near
        self._ids: list[str] = []
        owners: dict[str, list[int]] = {}  # texts with the same words are indexed once
        for number, (name, text) in enumerate(texts):
            self._ids.append(name)
            words = normalised_words(text)
            if words:
                owners.setdefault(words, []).append(number)
        self._owners = list(owners.values())
        self._texts = list(owners)
        self._index, self._grams = build(self._texts, near)
        self._shingles = lru_cache(_KEPT)(lambda reference: different_shingles(self._texts[reference]))

    def scan(
        self, texts: Iterable[tuple[str, str]], *, threads: int | None = None, most: int = MOST
    ) -> Iterator[list[Match]]:
        """Yield the matches of each scanned text, in the order of the texts; most lists are empty.

        texts     (id, text) pairs, read ahead by a few million characters
        threads   None: as many as this process may use. The result does not depend on it.
        most      different reference texts that are reported for one scanned text

        A list names a reference at most once. Exact matches come first, then near ones, then shared runs, each by
        falling similarity, then in the references' order. References with the same words are always reported together.
        If more than `most` different references match a text, the strongest is reported, and then those that matched
        no earlier text: so a paragraph that all texts share costs little, and yet every reference is reported for some
        text. At most 1,000 candidates of a text are compared.
        """
        reported = np.zeros(len(self._texts), bool)
        for batch, result in map_threads(self._look, _batches(texts), threads or processors()):
            yield from self._matches(batch, result, reported, most)

    def cover(
        self,
        texts: Iterable[tuple[str, str, int]],
        items: Mapping[str, Sequence[Item]],
        *,
        share: float,
        threads: int | None = None,
    ) -> Iterator[list[Match]]:
        """Yield matches of each scanned text with items, a cover of all its matches, in the order of the texts.

        texts    (id, text, label) triples, read ahead by a few million characters. A label is an integer of at least 0.
        items    id of a reference text -> the items that hold it. A label below 0 is one that no text has.
        share    of an item's runs of 13 words: matches with less count as a kind of their own, the weakest
        threads  None: as many as this process may use. The result does not depend on it.

        A match is left out if it is no news: if the text has one as strong with another item of the group, and an
        earlier text has one as strong with the item, and one with the item's label if this text has it. So what these
        matches say of the strongest kind of a text in a group, and of an item, with texts of its label and with all, is
        what all matches would say, and thousands of texts that are nearly alike take seconds. Time grows faster than
        the texts where few of them settle what is known of the items: where an item finds no text of its label among
        those alike, and where thousands share runs of words.

        Of a text at most 1,000 candidates are compared that prove not to be nearly the same; shared runs of the others
        are found even so.

        The reference of a match is the number of its item. The order of a text's matches is that of `scan`, with those
        that share less than `share` last. Raises ValueError for an item of an unknown reference, and for a group that
        is no single bit.
        """
        from acclimate.text.overlap.search import ALL_KINDS, SAME_LABEL, Shingles, different_shingles_of_texts

        holders, numbers = self._holders(items)
        known = np.zeros(len(numbers), np.uint8)
        hashes, begins = different_shingles_of_texts(self._index.symbols, self._index.text_begins)
        look = partial(self._look_for, shingles=Shingles(hashes, begins, self._least), holders=holders, share=share)
        for batch, every, similar in map_threads(look, _batches(texts), threads or processors()):
            labels = np.array([label for _, _, label in batch], np.int64)
            # a batch knows nothing of those before it: what is known of an item from them is no news
            bits_F = ALL_KINDS << every[:, 2] & ALL_KINDS  # as `reported.items` has them
            bits_F |= (labels[every[:, 0]] == holders.labels[every[:, 1]]) * bits_F << SAME_LABEL
            news_F = (every[:, 4] > 0) | (known[every[:, 1]] & bits_F != bits_F)
            np.bitwise_or.at(known, every[:, 1], bits_F.astype(np.uint8))
            matches, similarities = every[news_F], similar[news_F]
            order = np.lexsort((numbers[matches[:, 1]], -similarities, matches[:, 2], matches[:, 0]))
            ordered = zip(matches[order].tolist(), similarities[order].tolist(), strict=True)
            of_texts = {text: list(those) for text, those in itertools.groupby(ordered, key=lambda match: match[0][0])}
            for place, (name, scanned, _) in enumerate(batch):
                those = of_texts.get(place, ())
                beginning = _beginning(scanned) if those else ""
                yield [
                    Match(
                        _KINDS_OF_COVER[kind],
                        name,
                        str(numbers[item]),
                        similarity,
                        beginning if gram < 0 else self._run(gram),
                    )
                    for (_, item, kind, gram, _), similarity in those
                ]

    def _holders(self, items: Mapping[str, Sequence[Item]]) -> tuple[Holders, np.ndarray]:
        """Return the items of each indexed text, and their numbers."""
        from acclimate.text.overlap.search import Holders

        if unknown := items.keys() - set(self._ids):
            raise ValueError(f"no reference has the id {min(unknown)!r}. An item is held by a reference.")
        for _, group, _ in itertools.chain.from_iterable(items.values()):
            if group not in GROUPS:
                raise ValueError(f"{group} is no group. Give a single bit, one of {', '.join(map(str, GROUPS))}.")
        held = [[item for owner in owners for item in items.get(self._ids[owner], ())] for owners in self._owners]
        every = np.array([item for of_text in held for item in of_text], np.int64).reshape(-1, 3)
        begins, groups = np.cumsum([0, *map(len, held)]), every[:, 1].astype(np.uint8)
        of_texts, bands = np.zeros(len(held), np.uint8), np.zeros(0, np.uint8)
        np.bitwise_or.at(of_texts, np.repeat(np.arange(len(held)), np.diff(begins)), groups)
        if len(self._index.band_texts):
            bands = np.bitwise_or.reduceat(of_texts[self._index.band_texts], self._index.band_begins[:-1])
        numbers, _, labels = every.T.copy()
        return Holders(begins, groups, labels, bands), numbers

    def _look_for(
        self, batch: Sequence[tuple[str, str, int]], *, shingles: Shingles, holders: Holders, share: float
    ) -> tuple[Sequence[tuple[str, str, int]], np.ndarray, np.ndarray]:
        """Return the batch and what `cover_texts` finds in it. Several threads run this at a time."""
        from acclimate.text.overlap.search import cover_texts, folding_table, pack_texts

        packed = pack_texts([text for _, text, _ in batch])
        labels = np.array([label for _, _, label in batch], np.int64)
        matches, similarities = cover_texts(
            *packed, folding_table(), labels, self._index, self._grams, shingles, holders, share
        )
        return batch, matches, similarities

    def _look(self, batch: NamedTexts) -> tuple[NamedTexts, ScanResult]:
        """Return the batch and what the compiled loops find in it. Several threads run this at a time."""
        from acclimate.text.overlap.search import folding_table, pack_texts, scan_texts

        packed = pack_texts([text for _, text in batch])
        exact = np.empty(len(batch), np.int64)
        hit_room, pair_room = 1 << 12, 1 << 10
        while True:
            hits, pairs = np.empty((hit_room, 2), np.int64), np.empty((pair_room, 2), np.int64)
            hit_count, pair_count = scan_texts(*packed, folding_table(), self._index, exact, hits, pairs)
            if hit_count <= hit_room and pair_count <= pair_room:
                return batch, ScanResult(exact, hits[:hit_count], pairs[:pair_count])
            hit_room, pair_room = max(hit_room, hit_count), max(pair_room, pair_count)

    def _matches(self, batch: NamedTexts, result: ScanResult, reported: np.ndarray, most: int) -> Iterator[list[Match]]:
        numbers = np.arange(len(batch) + 1)
        hit_ends = np.searchsorted(result.hits[:, 0], numbers)
        pair_ends = np.searchsorted(result.pairs[:, 0], numbers)
        has_match = (result.exact >= 0) | (np.diff(hit_ends) > 0) | (np.diff(pair_ends) > 0)
        for number, (name, text) in enumerate(batch):
            if not has_match[number]:
                yield []
                continue
            exact = int(result.exact[number])
            evidence = {exact: (0, 1.0, -1)} if exact >= 0 else {}
            near = result.pairs[pair_ends[number] : pair_ends[number + 1], 1]
            runs = result.hits[hit_ends[number] : hit_ends[number + 1], 1]
            # a stronger kind replaces a weaker one
            evidence = self._shared_runs(runs) | self._near_duplicates(text, near[near != exact]) | evidence
            yield self._ordered(name, text, evidence, reported, most)

    def _near_duplicates(self, text: str, candidates: np.ndarray) -> dict[int, Evidence]:
        if not len(candidates):
            return {}
        from acclimate.text.overlap.kernels import different_shingles, similarity

        pieces = different_shingles(normalised_words(text))
        similar = {reference: similarity(pieces, self._shingles(reference)) for reference in candidates.tolist()}
        return {reference: (1, share, -1) for reference, share in similar.items() if share >= self._least}

    def _shared_runs(self, grams: np.ndarray) -> dict[int, Evidence]:
        """Return the indexed texts that share runs with one text. grams: its shared runs, in order of place."""
        if not len(grams):
            return {}
        different = np.array(list(dict.fromkeys(grams.tolist())))
        begins, ends = self._grams.begins[different], self._grams.begins[different + 1]
        counts = ends - begins
        # the places from begins[i] to ends[i], for one i after the other
        holders = self._grams.texts[np.arange(counts.sum()) + np.repeat(ends - np.cumsum(counts), counts)]
        texts, places, shared = np.unique(holders, return_index=True, return_counts=True)
        shares = shared / self._grams.counts[texts]
        first = np.repeat(different, counts)[places]
        return {
            reference: (2, share, gram)
            for reference, share, gram in zip(texts.tolist(), shares.tolist(), first.tolist(), strict=True)
        }

    def _ordered(
        self, name: str, text: str, evidence: dict[int, Evidence], reported: np.ndarray, most: int
    ) -> list[Match]:
        """Return the ordered matches of one text, and mark their reference texts in `reported`."""
        matches = sorted((kind, -similarity, reference) for reference, (kind, similarity, _) in evidence.items())
        if len(matches) > most:
            matches = [matches[0], *sorted(matches[1:], key=lambda match: bool(reported[match[2]]))[: most - 1]]
        reported[[reference for _, _, reference in matches]] = True
        order = sorted(
            (kind, negative, other, reference)
            for kind, negative, reference in matches
            for other in self._owners[reference]
        )
        beginning = _beginning(text)
        return [
            Match(
                KINDS[kind],
                name,
                self._ids[other],
                -negative,
                self._run(evidence[reference][2]) if KINDS[kind] == "13-gram" else beginning,
            )
            for kind, negative, other, reference in order
        ]

    def _run(self, gram: int) -> str:
        """Return the beginning of a shared run."""
        points = self._index.symbols[self._index.gram_begins[gram] : self._index.gram_ends[gram]]
        return points[:_EXCERPT].tobytes().decode("utf-32-le", "surrogatepass")


class ScanResult(NamedTuple):
    """What `scan_texts` of overlap/search.py finds in a batch; its docstring has the shapes."""

    exact: np.ndarray
    hits: np.ndarray
    pairs: np.ndarray


def text_hashes(texts: Sequence[str]) -> np.ndarray:
    """Return (D,) uint64, equal for the same words, for other words with probability 2^-64; 0 for no words."""
    from acclimate.text.overlap.search import character_sketches

    return character_sketches(texts, 0.0)[0]


def check_similarity(near: float) -> None:
    """Raise ValueError unless `near` is a Jaccard similarity."""
    if not 0 <= near <= 1:
        raise ValueError(
            f"near is {near}, but a Jaccard similarity lies between 0 and 1; 0 looks for none, 0.8 is usual."
        )


def _beginning(text: str) -> str:
    return normalised_words(text[: 4 * _EXCERPT])[:_EXCERPT]


def _batches(texts: Iterable[Scanned]) -> Iterator[list[Scanned]]:
    batch: list[Scanned] = []
    size = 0
    for scanned in texts:
        batch.append(scanned)
        size += len(scanned[1]) + 1
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
