"""Find texts that contain a reference text or a part of it. So leaks of dev and test texts are found.

exact      the same words in the same order (`compared_words`)
near       character 5-grams of the normalised texts with a Jaccard similarity of at least `near`: candidates by MinHash
           and locality-sensitive hashing, each verified by the exact similarity
13-gram    a common run of 13 words (the rule of GPT-3's and later contamination checks)

A word is what `scripts.words_in` finds: letters, digits, underscores and marks. In scripts without spaces (Chinese,
Japanese, Thai) a word reaches from one punctuation mark to the next. There 13 words are some 13 clauses, so only long
shared runs are found; exact and near-duplicates are found as in other scripts. A text without words matches no other.

Few texts are searched by NumPy (few.py). From FEW characters on compiled loops do the same (search.py): importing numba
takes a third of a second, and compiling them takes ten.

Sources: Broder, On the resemblance and containment of documents (1997); Lee et al., Deduplicating training data makes
language models better (ACL 2022); Brown et al., Language models are few-shot learners (2020, appendix C).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from acclimate.core.machines import map_threads, processors
from acclimate.text.overlap.few import CANDIDATES, FewSearch, Grams, ScanResult
from acclimate.text.overlap.sketches import are_few, different_shingles, few_sketches, similarity
from acclimate.text.overlap.words import compared_words, normalised_words, with_signs

if TYPE_CHECKING:
    from acclimate.text.overlap.search import ManySearch

MOST = 100  # different reference texts that are reported for one scanned text
FEW_REFERENCES = 1_000_000  # characters of references that NumPy looks for; compiled loops look for more
HALF = 0.5  # of a reference's runs of 13 words
HOLDERS = 1000  # texts with one run of words that are looked at
_BATCH = 1 << 20  # characters that a thread takes at a time
_EXCERPT = 160  # characters
_KEPT = 8192  # references whose shingles are cached, some 8 bytes a character
NamedTexts = Sequence[tuple[str, str]]
MatchKind = Literal["exact", "near", "13-gram"]
KINDS: tuple[MatchKind, ...] = ("exact", "near", "13-gram")  # from the strongest on
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


class Matches(list[Match]):
    """The matches of one scanned text.

    complete  False if a limit was reached, so that others may be missing. A missing reference of which the text shares
              less than half of the runs does not count.
    """

    complete = True


class References:
    """Texts to look for in others, indexed once.

    Memory: some 20 bytes a character of the references and 3 KB a reference; while scanning, some 20 MB a thread,
    however much is scanned (a text of more than a million characters takes 20 bytes a character).
    """

    def __init__(self, texts: Iterable[tuple[str, str]], *, near: float = 0.8) -> None:
        """Index the texts, (id, text) pairs. near: least Jaccard similarity of a near-duplicate; 0 looks for none.

        Raises ValueError unless `near` is between 0 and 1.
        """
        check_similarity(near)
        self._least = near
        self._ids: list[str] = []
        owners: dict[str, list[int]] = {}  # texts with the same words are indexed once
        for number, (name, text) in enumerate(texts):
            self._ids.append(name)
            words = compared_words(text)
            if words:
                owners.setdefault(words, []).append(number)
        self._owners = list(owners.values())
        self._texts = list(owners)
        self._size = sum(map(len, self._texts))
        self._searches: dict[bool, FewSearch | ManySearch] = {}
        self._shingles = lru_cache(_KEPT)(lambda reference: different_shingles(self._texts[reference]))

    def scan(
        self, texts: Iterable[tuple[str, str]], *, threads: int | None = None, most: int = MOST
    ) -> Iterator[Matches]:
        """Yield the matches of each scanned text, in the order of the texts; most lists are empty.

        texts     (id, text) pairs, read ahead by a few million characters
        threads   None: as many as this process may use. The result does not depend on it.
        most      different reference texts that are reported for one scanned text

        A list names a reference at most once. Exact matches come first, then near ones, then shared runs, each by
        falling similarity, then in the references' order. References with the same words are always reported together.
        If more than `most` different references match a text, the strongest is reported, and then those that matched
        no earlier text: so a paragraph that all texts share costs little, and yet every reference is reported for some
        text.

        A text is compared with candidates for near-duplicates until `most` are found, and with 1,000 at most. At most
        1,000 texts that share a run of words are examined. Similar texts get others. If a limit was reached, the list
        is not `complete`.
        """
        reported = np.zeros(len(self._texts), bool)
        for batch, search, result in map_threads(_look, self._searched(texts), threads or processors()):
            yield from self._matches(batch, search, result, reported, most)

    def _searched(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[NamedTexts, FewSearch | ManySearch]]:
        """Yield the texts in batches, each with what looks for the references there."""
        for batch in _batches(texts):
            few = self._size <= FEW_REFERENCES and are_few([text for _, text in batch])
            if few not in self._searches:
                if few:
                    self._searches[few] = FewSearch(self._texts, self._least)
                else:
                    from acclimate.text.overlap.search import ManySearch  # loads numba

                    self._searches[few] = ManySearch(self._texts, self._least)
            yield batch, self._searches[few]

    def _matches(
        self, batch: NamedTexts, search: FewSearch | ManySearch, result: ScanResult, reported: np.ndarray, most: int
    ) -> Iterator[Matches]:
        numbers = np.arange(len(batch) + 1)
        hit_ends = np.searchsorted(result.hits[:, 0], numbers)
        pair_ends = np.searchsorted(result.pairs[:, 0], numbers)
        has_match = (result.exact >= 0) | (np.diff(hit_ends) > 0) | (np.diff(pair_ends) > 0)
        for number, (name, text) in enumerate(batch):
            if not has_match[number]:
                yield Matches()
                continue
            exact = int(result.exact[number])
            evidence = {exact: (0, 1.0, -1)} if exact >= 0 else {}
            near = result.pairs[pair_ends[number] : pair_ends[number + 1], 1]
            runs = result.hits[hit_ends[number] : hit_ends[number + 1], 1]
            by_runs, all_runs = self._shared_runs(text, runs, search.grams)
            alike, all_alike = self._near_duplicates(text, near[near != exact], most)
            # a stronger kind replaces a weaker one
            matches = self._ordered(name, text, by_runs | alike | evidence, search, reported, most)
            matches.complete &= all_runs and all_alike
            yield matches

    def _near_duplicates(self, text: str, candidates: np.ndarray, most: int) -> tuple[dict[int, Evidence], bool]:
        """Return at most `most` near-duplicates of one text, and whether all candidates were compared."""
        if not len(candidates):
            return {}, True
        pieces, alike = different_shingles(compared_words(text)), dict[int, Evidence]()
        for compared, reference in enumerate(candidates.tolist()):
            if len(alike) == most:
                return alike, compared == len(candidates)
            if (share := similarity(pieces, self._shingles(reference))) >= self._least:
                alike[reference] = (1, share, -1)
        return alike, len(candidates) < CANDIDATES - 1  # one of them may have been the text with the same words

    def _shared_runs(self, text: str, runs: np.ndarray, grams: Grams) -> tuple[dict[int, Evidence], bool]:
        """Return the indexed texts that share runs with one text, and whether all of them were examined.

        runs: its shared runs, in order of place
        """
        # the holders of each crowded run from the same text on, cyclically, so that runs which a text has are counted
        pivot, complete = -1, True
        shared, first = Counter[int](), dict[int, int]()
        for run in reversed(dict.fromkeys(runs.tolist())):
            holders = grams.texts[grams.begins[run] : grams.begins[run + 1]]
            if len(holders) > HOLDERS:
                complete = False
                pivot = pivot if pivot >= 0 else zlib.crc32(text.encode(errors="replace")) % len(self._texts)
                holders = holders.take(np.searchsorted(holders, pivot) + np.arange(HOLDERS), mode="wrap")
            references = holders.tolist()
            shared.update(references)
            first.update(dict.fromkeys(references, run))
        return {
            reference: (2, count / int(grams.counts[reference]), first[reference])
            for reference, count in shared.items()
        }, complete

    def _ordered(
        self,
        name: str,
        text: str,
        evidence: dict[int, Evidence],
        search: FewSearch | ManySearch,
        reported: np.ndarray,
        most: int,
    ) -> Matches:
        """Return the ordered matches of one text, and mark their reference texts in `reported`."""
        matches = sorted((kind, -similarity, reference) for reference, (kind, similarity, _) in evidence.items())
        first, others = matches[:1], sorted(matches[1:], key=lambda match: bool(reported[match[2]]))
        complete = all(KINDS[kind] == "13-gram" and -negative < HALF for kind, negative, _ in others[most - 1 :])
        if len(matches) > most:
            matches = [*first, *others[: most - 1]]
        reported[[reference for _, _, reference in matches]] = True
        order = sorted(
            (kind, negative, other, reference)
            for kind, negative, reference in matches
            for other in self._owners[reference]
        )
        wholly = any(KINDS[kind] != "13-gram" for kind, *_ in order)
        beginning = normalised_words(text[: 4 * _EXCERPT])[:_EXCERPT] if wholly else ""
        ordered = Matches(
            Match(
                KINDS[kind],
                name,
                self._ids[other],
                -negative,
                search.run(evidence[reference][2])[:_EXCERPT] if KINDS[kind] == "13-gram" else beginning,
            )
            for kind, negative, other, reference in order
        )
        ordered.complete = complete
        return ordered


def _look(searched: tuple[NamedTexts, FewSearch | ManySearch]) -> tuple[NamedTexts, FewSearch | ManySearch, ScanResult]:
    batch, search = searched
    return batch, search, search.look([with_signs(text) for _, text in batch])


def text_hashes(texts: Sequence[str]) -> np.ndarray:
    """Return (D,) uint64, equal for the same words, for other words with probability 2^-64; 0 for no words."""
    if are_few(texts):
        return few_sketches(texts, 0.0)[0]
    from acclimate.text.overlap.search import many_sketches  # loads numba

    return many_sketches(texts, 0.0)[0]


def check_similarity(near: float) -> None:
    """Raise ValueError unless `near` is a Jaccard similarity."""
    if not 0 <= near <= 1:
        raise ValueError(
            f"near is {near}, but a Jaccard similarity is between 0 and 1. Set 0 for no search; 0.8 is usual."
        )


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for scanned in texts:
        batch.append(scanned)
        size += len(scanned[1]) + 1
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
