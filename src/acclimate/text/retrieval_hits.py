"""What a BM25 search found and took, what it must know of a whole corpus, and how the results of shards are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

MOST = 10_000  # documents a query


@dataclass(frozen=True)
class Effort:
    """What a search took, summed over its queries.

    queries     all of them; without_hits: those of which the corpus has no word
    postings    (word, document) pairs that were read, and cells of frequent words' rows
    exhaustive  pairs there are: what a search that skips nothing reads
    scored      documents whose exact score was computed
    """

    queries: int = 0
    without_hits: int = 0
    postings: int = 0
    cells: int = 0
    exhaustive: int = 0
    scored: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.queries + other.queries,
            self.without_hits + other.without_hits,
            self.postings + other.postings,
            self.cells + other.cells,
            self.exhaustive + other.exhaustive,
            self.scored + other.scored,
        )


@dataclass(frozen=True)
class Hits:
    """What Q queries found, H documents together: query q's are those at offsets[q] to offsets[q + 1], best first.

    offsets    (Q + 1,) int64
    documents  (H,) int64, the document's number in the corpus, from 0
    scores     (H,) float32, falling within a query; of equal ones the smaller document number comes first
    """

    offsets: np.ndarray
    documents: np.ndarray
    scores: np.ndarray
    effort: Effort = field(default_factory=Effort)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """The query's documents and their scores."""
        where = slice(self.offsets[query], self.offsets[query + 1])
        return self.documents[where], self.scores[where]

    def cut(self, k: int) -> Hits:
        """What searching with the smaller k finds; the effort stays that of the search."""
        check_k(k)
        sizes = np.minimum(np.diff(self.offsets), k)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        where = np.repeat(self.offsets[:-1] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Hits(offsets, self.documents[where], self.scores[where], self.effort)


@dataclass(frozen=True)
class Statistics:
    """What BM25 must know of a whole corpus: documents, their words, and how many documents have a word.

    Of shards, they add up to those of the corpus.
    """

    documents: int
    tokens: int
    frequencies: dict[str, int]

    def __add__(self, other: Statistics) -> Statistics:
        frequencies = dict(self.frequencies)
        for word, count in other.frequencies.items():
            frequencies[word] = frequencies.get(word, 0) + count
        return Statistics(self.documents + other.documents, self.tokens + other.tokens, frequencies)


def merge(shards: Sequence[Hits], k: int) -> Hits:
    """The k best of what the same queries found in the shards of a corpus: exactly what one index of it finds.

    Each shard was searched with the whole corpus's statistics, its own `first`, and a k of this or more.
    Raises ValueError where there is no shard, or they were searched with different numbers of queries.
    """
    check_k(k)
    if len({len(hits) for hits in shards}) != 1:
        raise ValueError(f"shards with results of {[len(hits) for hits in shards]} queries cannot be merged")
    queries = np.concatenate([np.repeat(np.arange(len(hits)), np.diff(hits.offsets)) for hits in shards])
    documents = np.concatenate([hits.documents for hits in shards])
    scores = np.concatenate([hits.scores for hits in shards])
    order = np.lexsort((documents, -scores, queries))
    offsets = np.searchsorted(queries[order], np.arange(len(shards[0]) + 1)).astype(np.int64)
    effort = sum((hits.effort for hits in shards), Effort())
    effort = replace(effort, queries=len(shards[0]), without_hits=int((np.diff(offsets) == 0).sum()))
    return Hits(offsets, documents[order], scores[order], effort).cut(k)


def check_k(k: int) -> None:
    """Raises ValueError where k is not between 1 and 10,000."""
    if not 1 <= k <= MOST:
        raise ValueError(f"k={k}: a query retrieves 1 to {MOST:,} documents. TLM's paper has 50, 500 and 5,000")
