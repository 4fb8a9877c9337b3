"""A BM25 index on disk: how it is searched, and which files it consists of.

text/bm25/build.py defines the score, and builds and opens an index.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from acclimate.core.files import MANIFEST, DamagedError, read_json, sha256_of
from acclimate.core.machines import map_threads, processors
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.bm25.words import UNICODE, fold_of, packed_texts

if TYPE_CHECKING:
    from acclimate.text.bm25.postings import Arrays, Formula

VERSION = 3  # raised whenever a file, its layout or its content changes
FACTS = "index.json"
MOST = 10_000  # documents that a query retrieves at most
_QUERIES = 32  # queries that a thread takes at a time
# file: its kind of number, and its length as a sum of products of facts of index.json
_FILES: dict[str, tuple[type[np.generic], str]] = {
    "lengths": (np.uint32, "documents"),
    "frequencies": (np.uint32, "words"),
    "entry_begins": (np.int64, "words + 1"),
    "blocks": (np.uint32, "entries"),
    "begins": (np.int64, "entries + 1"),
    "postings": (np.uint32, "postings"),
    "large_at": (np.int64, "large"),
    "large": (np.uint32, "large"),
    "frequent": (np.uint32, "frequent"),
    "greatest": (np.uint8, "frequent"),
    "bounds": (np.uint8, "frequent * groups * 64"),
    "peaks": (np.uint8, "frequent * groups"),
    "cells": (np.uint8, "frequent * groups * 64"),
    "large_cells_at": (np.int64, "large_cells"),
    "large_cells": (np.uint32, "large_cells"),
    "slots": (np.uint32, "slots"),
    "hashes": (np.uint64, "words"),
    "word_begins": (np.int64, "words + 1"),
    "spellings": (np.uint8, "spelling"),
}


@dataclass(frozen=True)
class Index:
    """A BM25 index on disk, memory-mapped. `build_index` makes it, `open_index` opens it.

    corpus     the hash of the corpus
    documents  number of documents; tokens: number of their words; words: of different words
    analyzer   how texts and queries become words (`text/bm25/words.py::ANALYZERS`)
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
        """Return the k best documents of each query, or all that share a word with it if those are fewer.

        threads     None: as many as this process may use. The result does not depend on it.
        statistics  of the whole corpus if this index is a shard of it; they must cover the queries' words
        first       number of the shard's first document in that corpus
        Raises ValueError where k is not between 1 and 10,000, or a query has more than 100,000 different words.
        """
        from acclimate.text.bm25.few import FEW_PAIRS, search_few, take
        from acclimate.text.bm25.postings import BLOCK
        from acclimate.text.bm25.search import search_queries

        check_k(k)
        offsets, words, weights = self._weighed(queries, statistics)
        formula, ratio = self._formula(statistics)
        counted = np.zeros(3, np.int64)
        chunk = max(1, min(_QUERIES, (1 << 18) // k))
        exhaustive = int(self._arrays.frequencies[words].sum(dtype=np.int64))
        few = self.documents <= BLOCK and take("pairs", exhaustive + len(queries) * self.documents, FEW_PAIRS)

        def work(begin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            counts, end = np.zeros(3, np.int64), min(begin + chunk, len(queries))
            if few:
                return search_few(self._arrays, formula, k, offsets[begin : end + 1], words, weights)
            hits = search_queries(self._arrays, formula, ratio, k, offsets, words, weights, begin, end, counts)
            return (*hits, counts)

        parts = []
        for part in map_threads(work, range(0, len(queries), chunk), threads or processors()):
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
            exhaustive=exhaustive,
            scored=int(counted[2]),
        )
        return Hits(np.cumsum(sizes), documents, scores, effort)

    def explain(self, query: str, document: int, *, statistics: Statistics | None = None) -> list[tuple[str, float]]:
        """Return the words of the query that the document contains, each with its part of the score, largest first.

        document  its number in this index, from 0
        Raises ValueError where there is no such document.
        """
        from acclimate.text.bm25.few import parts_of_score

        if not 0 <= document < self.documents:
            raise ValueError(f"{self.path} has no document {document:,}, only 0 to {self.documents - 1:,}")
        _, words, weights = self._weighed([query], statistics)
        formula, _ = self._formula(statistics)
        parts = parts_of_score(self._arrays, formula, words, weights, document)
        contributions = [(self._spelling(word), part) for word, part in parts.items()]
        return sorted(contributions, key=lambda pair: (-pair[1], pair[0]))

    def statistics(self, queries: Iterable[str] | None = None) -> Statistics:
        """Return the statistics of this index, with the frequencies of the queries' words (None: of all its words)."""
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
        from acclimate.text.bm25.postings import Arrays

        return Arrays(*(map_array(self.path, name) for name in Arrays._fields))

    @functools.cached_property
    def _vocabulary(self) -> tuple[np.ndarray, ...]:
        return tuple(map_array(self.path, name, "c") for name in ("slots", "hashes", "word_begins", "spellings"))

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        """Each word of the vocabulary -> its number."""
        return {self._spelling(word): word for word in range(self.words)}

    def _spelling(self, word: int) -> str:
        _, _, begins, spellings = self._vocabulary
        return spellings[begins[word] : begins[word + 1]].tobytes().decode("utf-8", "surrogatepass")

    def _read(self, queries: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where each query's words begin (Q + 1), their numbers, and how often each occurs in the query."""
        from acclimate.text.bm25.few import FEW, read_few, take
        from acclimate.text.bm25.postings import BLOCK
        from acclimate.text.bm25.words import read_queries

        if self.documents <= BLOCK and take("characters", sum(map(len, queries)), FEW):
            return read_few(queries, self.analyzer, self._numbers)
        packed = packed_texts(self.analyzer, queries)
        read: tuple[np.ndarray, np.ndarray, np.ndarray] = read_queries(
            *packed, fold_of(self.analyzer), *self._vocabulary
        )
        return read

    def _weighed(
        self, queries: Sequence[str], statistics: Statistics | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what `_read` returns, but with the word's weight, count * idf, in place of its count."""
        from acclimate.text.bm25.search import LONGEST

        offsets, words, counts = self._read(queries)
        if len(words) and (longest := int(np.diff(offsets).max())) > LONGEST:
            raise ValueError(
                f"query {int(np.diff(offsets).argmax())} has {longest:,} different words, more than "
                f"{LONGEST:,}. Shorten it"
            )
        different, places = np.unique(words, return_inverse=True)
        if statistics is None:
            documents, frequencies = self.documents, self._arrays.frequencies[different].tolist()
        else:
            documents = statistics.documents
            frequencies = [self._frequency(word, statistics) for word in different.tolist()]
        # idf = ln(1 + (N - n + .5) / (n + .5)), by Python's log: numpy's may differ between machines in the last bit
        idf = np.array([math.log(1 + (documents - n + 0.5) / (n + 0.5)) for n in frequencies], np.float64)
        return offsets, words, idf[places] * counts

    def _frequency(self, word: int, statistics: Statistics) -> int:
        spelling = self._spelling(word)
        corpus_frequency, frequency = statistics.frequencies.get(spelling, 0), int(self._arrays.frequencies[word])
        if not frequency <= corpus_frequency <= statistics.documents:
            raise ValueError(
                f"the statistics have {corpus_frequency:,} of {statistics.documents:,} documents with {spelling!r}, "
                f"but {self.path} alone has {frequency:,}. Use the sum of the statistics of all shards for these "
                "queries"
            )
        return corpus_frequency

    def _formula(self, statistics: Statistics | None) -> tuple[Formula, float]:
        """Return the formula, and the factor (1 or less) by which this index's bounds may be off under it.

        The bounds were computed with the index's average length; statistics of a whole corpus have another.
        """
        from acclimate.text.bm25.postings import Formula

        mean_length = self.tokens / max(self.documents, 1)
        average = mean_length if statistics is None else statistics.tokens / max(statistics.documents, 1)
        if mean_length == average or not mean_length:
            return Formula(self.k1, self.b, max(average, 1e-9)), 1.0
        longest = float(self._longest)
        fixed = 1 + self.k1 * (1 - self.b)
        off = (fixed + self.k1 * self.b * longest / mean_length) / (fixed + self.k1 * self.b * longest / average)
        return Formula(self.k1, self.b, average), min(off, 1 / off)

    @functools.cached_property
    def _longest(self) -> int:
        return int(self._arrays.lengths.max(initial=0))


@dataclass(frozen=True)
class Effort:
    """How much work a search did, summed over its queries.

    queries     number of queries; without_hits: of those that share no word with the corpus
    postings    (word, document) pairs that the search read; cells: of frequent words' rows
    exhaustive  pairs that a search without skipping reads
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
    """The H documents that Q queries found: those of query q at offsets[q] to offsets[q + 1], best first.

    offsets    (Q + 1,) int64
    documents  (H,) int64, the document's number in the corpus, from 0
    scores     (H,) float32, falling within a query; of equal scores the smaller document number comes first
    """

    offsets: np.ndarray
    documents: np.ndarray
    scores: np.ndarray
    effort: Effort = field(default_factory=Effort)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def documents_for(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the query's documents and their scores."""
        where = slice(self.offsets[query], self.offsets[query + 1])
        return self.documents[where], self.scores[where]

    def cut(self, k: int) -> Hits:
        """Return what a search with this smaller k finds; the effort stays that of the search that was done."""
        check_k(k)
        sizes = np.minimum(np.diff(self.offsets), k)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        where = np.repeat(self.offsets[:-1] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Hits(offsets, self.documents[where], self.scores[where], self.effort)


@dataclass(frozen=True)
class Statistics:
    """What BM25 needs to know of a whole corpus: its documents, their words, and how many documents contain a word.

    The statistics of shards add up to those of the corpus.
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
    """Return the k best of what the same queries found in the shards of a corpus: exactly what one index finds.

    Each shard must have been searched with the whole corpus's statistics, with its `first`, and with this k or more.
    Raises ValueError if there is no shard, or if the shards were searched with different numbers of queries.
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
    """Raise ValueError unless k is between 1 and 10,000."""
    if not 1 <= k <= MOST:
        raise ValueError(f"k={k}: a query retrieves 1 to {MOST:,} documents. 50 to 5,000 are usual")


class UnreadableError(ValueError):
    """An index is whole, but this release or this Python's version of Unicode cannot read it."""


def checked_facts(path: Path, hashed: int) -> dict[str, Any]:
    """Return the content of index.json after checking all files.

    hashed  bytes of files whose SHA-256 is checked, small files first; the size of every file is checked
    Raises DamagedError if a file is missing or altered, UnreadableError for another format or Unicode.
    """
    if not (path / MANIFEST).is_file():
        raise DamagedError(f"{path} is incomplete: it has no {MANIFEST}. Remove it; then it is built again")
    manifest = read_json(path / MANIFEST)
    if sha256_of(path / FACTS) != manifest.get(FACTS):
        raise DamagedError(f"{path / FACTS} is damaged: its content differs from what {MANIFEST} lists. Remove {path}")
    facts: dict[str, Any] = read_json(path / FACTS)
    if facts.get("version") != VERSION:
        raise UnreadableError(
            f"{path}: format {facts.get('version')}, but this release reads {VERSION}. Build it again with build_index"
        )
    if facts["unicode"] != UNICODE:
        raise UnreadableError(
            f"{path} was built with Unicode {facts['unicode']}, but this Python has Unicode {UNICODE}. Build it "
            "again, or search it with the Python that built it"
        )
    sizes = {name: _size(name, facts) * np.dtype(kind).itemsize for name, (kind, _) in _FILES.items()}
    for name, size in sorted(sizes.items(), key=lambda pair: pair[1]):
        file = path / f"{name}.bin"
        if not file.is_file():
            raise DamagedError(f"{file} is missing. Remove {path}; then it is built again")
        if file.stat().st_size != size:
            raise DamagedError(
                f"{file} has {file.stat().st_size:,} bytes instead of {size:,}. Remove {path}; then it is built again"
            )
        if size <= hashed:
            hashed -= size
            if sha256_of(file) != manifest.get(file.name):
                raise DamagedError(f"{file} is damaged: its content differs from what {MANIFEST} lists. Remove {path}")
    return facts


def _size(name: str, facts: dict[str, Any]) -> int:
    total = 0
    for product in _FILES[name][1].split(" + "):
        total += math.prod(int(factor) if factor.isdigit() else int(facts[factor]) for factor in product.split(" * "))
    return total


def map_array(path: Path, name: str, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """Return the file's array, memory-mapped.

    mode  "c" for an array that may be written to in memory: numba then compiles one version for it and for the arrays
          of an index that is being built
    """
    file = path / f"{name}.bin"
    kind = _FILES[name][0]
    if not file.stat().st_size:
        return np.zeros(0, kind) if mode == "c" else np.frombuffer(b"", kind)
    return np.asarray(np.memmap(file, kind, mode))  # a plain array: indexing numpy's memmap class costs microseconds
