"""The BM25 index as it is searched; what a score is says text/retrieval.py, which makes and opens it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.threads import in_turn, processors
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.retrieval_analysis import fold_of, packed_texts
from acclimate.text.retrieval_files import mapped
from acclimate.text.retrieval_hits import Effort, Hits, Statistics, check_k

if TYPE_CHECKING:
    from acclimate.text.retrieval_postings import Arrays, Formula

_QUERIES = 32  # that a thread takes at a time


@dataclass(frozen=True)
class Index:
    """A BM25 index on disk, memory-mapped. Made by `build_index`, opened by `open_index`.

    corpus     the hash of the corpus
    documents  how many; tokens: their words; words: different ones
    analyzer   how texts become words, queries as well (`retrieval_analysis.ANALYZERS`)
    """

    path: Path
    corpus: str
    documents: int
    tokens: int
    words: int
    analyzer: str
    k1: float
    b: float

    def search(
        self,
        queries: Sequence[str],
        k: int,
        *,
        threads: int | None = None,
        statistics: Statistics | None = None,
        first: int = 0,
        watch: Watch = unwatched,
    ) -> Hits:
        """The k best documents of each query; fewer where fewer have a word of it.

        threads     None: as many as this process may use. The result does not depend on it.
        statistics  of the corpus that this index is a shard of; they must have the queries' words. None: its own
        first       number of the shard's first document in that corpus
        Raises ValueError where k is not between 1 and 10,000, or a query has more than 100,000 different words.
        """
        from acclimate.text.retrieval_search import search_queries

        check_k(k)
        offsets, words, weights = self._weighed(queries, statistics)
        formula, ratio = self._formula(statistics)
        counted = np.zeros(3, np.int64)
        chunk = max(1, min(_QUERIES, (1 << 18) // k))

        def work(begin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            mine, end = np.zeros(3, np.int64), min(begin + chunk, len(queries))
            found = search_queries(self._arrays, formula, ratio, k, offsets, words, weights, begin, end, mine)
            return (*found, mine)

        parts = []
        for part in in_turn(work, range(0, len(queries), chunk), threads or processors()):
            parts.append(part)
            watch(Progress("search", min(len(parts) * chunk, len(queries)), len(queries), "queries"))
            counted += part[3]
        sizes = np.concatenate([np.zeros(1, np.int64), *(part[0] for part in parts)])
        documents = np.concatenate([np.zeros(0, np.uint32), *(part[1] for part in parts)]).astype(np.int64) + first
        scores = np.concatenate([np.zeros(0, np.float32), *(part[2] for part in parts)])
        effort = Effort(
            queries=len(queries),
            without_hits=int((sizes[1:] == 0).sum()),
            postings=int(counted[0]),
            cells=int(counted[1]),
            exhaustive=int(self._arrays.frequencies[words].sum(dtype=np.int64)),
            scored=int(counted[2]),
        )
        return Hits(np.cumsum(sizes), documents, scores, effort)

    def explain(self, query: str, document: int, *, statistics: Statistics | None = None) -> list[tuple[str, float]]:
        """The query's words that the document has, each with its part of the score; the largest part first.

        document  its number in this index, from 0
        Raises ValueError where there is no such document.
        """
        from acclimate.text.retrieval_search import score_document

        if not 0 <= document < self.documents:
            raise ValueError(f"there is no document {document:,} in {self.path}: it has 0 to {self.documents - 1:,}")
        _, words, weights = self._weighed([query], statistics)
        formula, _ = self._formula(statistics)
        parts = score_document(self._arrays, formula, words, weights, document)
        found = [(self._spelling(int(word)), float(part)) for word, part in zip(words, parts, strict=True) if part > 0]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def statistics(self, queries: Iterable[str] | None = None) -> Statistics:
        """Of this index, with the frequencies of all its words, or of those of the queries: all that a search needs."""
        if queries is None:
            counts = self._arrays.frequencies.tolist()
            frequencies = {self._spelling(word): count for word, count in enumerate(counts)}
        else:
            _, numbers, _ = self._read(list(queries))
            frequencies = {
                self._spelling(word): int(self._arrays.frequencies[word]) for word in np.unique(numbers).tolist()
            }
        return Statistics(self.documents, self.tokens, frequencies)

    @functools.cached_property
    def _arrays(self) -> Arrays:
        from acclimate.text.retrieval_postings import Arrays

        return Arrays(*(mapped(self.path, name) for name in Arrays._fields))

    @functools.cached_property
    def _vocabulary(self) -> tuple[np.ndarray, ...]:
        return tuple(mapped(self.path, name, "c") for name in ("slots", "hashes", "word_begins", "spellings"))

    def _spelling(self, word: int) -> str:
        _, _, begins, spellings = self._vocabulary
        return spellings[begins[word] : begins[word + 1]].tobytes().decode("utf-8", "surrogatepass")

    def _read(self, queries: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Q + 1,) where each query's words begin; the words' numbers; how often each occurs in the query."""
        from acclimate.text.retrieval_counting import read_queries

        packed = packed_texts(self.analyzer, queries)
        found: tuple[np.ndarray, np.ndarray, np.ndarray] = read_queries(
            *packed, fold_of(self.analyzer), *self._vocabulary
        )
        return found

    def _weighed(
        self, queries: Sequence[str], statistics: Statistics | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `_read`, with the count by the idf in place of the count."""
        from acclimate.text.retrieval_bounds import LONGEST

        offsets, words, counts = self._read(queries)
        if len(words) and (longest := int(np.diff(offsets).max())) > LONGEST:
            raise ValueError(
                f"query {int(np.diff(offsets).argmax())} has {longest:,} different words, more than {LONGEST:,}. Cut it"
            )
        different, places = np.unique(words, return_inverse=True)
        if statistics is None:
            documents, frequencies = self.documents, self._arrays.frequencies[different].tolist()
        else:
            documents = statistics.documents
            frequencies = [self._frequency(word, statistics) for word in different.tolist()]
        # Python's log for each word: numpy's may differ in the last bit from machine to machine
        idf = np.array([math.log(1 + (documents - n + 0.5) / (n + 0.5)) for n in frequencies], np.float64)
        return offsets, words, idf[places] * counts

    def _frequency(self, word: int, statistics: Statistics) -> int:
        spelling = self._spelling(word)
        found, own = statistics.frequencies.get(spelling, 0), int(self._arrays.frequencies[word])
        if not own <= found <= statistics.documents:
            raise ValueError(
                f"the statistics have {found:,} of {statistics.documents:,} documents with {spelling!r}, but "
                f"{self.path} alone has {own:,}. Add up the statistics of all shards, taken for these queries"
            )
        return found

    def _formula(self, statistics: Statistics | None) -> tuple[Formula, float]:
        """The formula, and by how much this index's bounds may be off for it: 1 where the average is the same."""
        from acclimate.text.retrieval_postings import Formula

        own = self.tokens / max(self.documents, 1)
        average = own if statistics is None else statistics.tokens / max(statistics.documents, 1)
        if own == average or not own:
            return Formula(self.k1, self.b, max(average, 1e-9)), 1.0
        longest = float(self._longest)
        fixed = 1 + self.k1 * (1 - self.b)
        off = (fixed + self.k1 * self.b * longest / own) / (fixed + self.k1 * self.b * longest / average)
        return Formula(self.k1, self.b, average), min(off, 1 / off)

    @functools.cached_property
    def _longest(self) -> int:
        return int(self._arrays.lengths.max(initial=0))
