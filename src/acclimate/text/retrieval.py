"""Exact BM25 search over a corpus, for thousands of long queries at a time.

A document's score is the sum, over the different words of the query that it has, of

    count in the query * idf * tf / (tf + k1 * (1 - b + b * length / average length))
    idf = ln(1 + (N - n + .5) / (n + .5))        N documents, n of which have the word

as Lucene has it (BM25Similarity since release 8: no factor k1 + 1), in float64, word by word in the order in which they
first occur in the query, then rounded to float32. Order: score falling, then document number. Hence the same result, bit
by bit, on every run, with every number of threads and of shards.

Sources: Robertson and Zaragoza, The probabilistic relevance framework: BM25 and beyond (2009); Turtle and Flood, Query
evaluation: strategies and optimizations (1995), for upper bounds (MaxScore).
"""

from __future__ import annotations

import fcntl
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from acclimate.core.files import MANIFEST, DamagedError, new_directory, read_json, sha256_of, write_json
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.corpus import Corpus
from acclimate.text.retrieval_analysis import UNICODE, check_analyzer, fold_of, in_turn, packed_texts

if TYPE_CHECKING:
    from acclimate.text.retrieval_postings import Arrays, Formula

MOST = 10_000  # documents a query
_VERSION = 1
_FACTS = "index.json"
_HASHED = 1 << 30  # bytes
_QUERIES = 64  # that a thread takes at a time


@dataclass(frozen=True)
class Effort:
    """What a search took, summed over its queries.

    queries     all of them; without_hits: those of which the corpus has no word
    postings    (word, document) pairs that were read, and cells of frequent words' rows
    exhaustive  pairs there are: what a search that skips nothing reads
    scored      documents whose exact score was computed
    shortened   queries that were cut: always 0
    """

    queries: int = 0
    without_hits: int = 0
    postings: int = 0
    cells: int = 0
    exhaustive: int = 0
    scored: int = 0
    shortened: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.queries + other.queries,
            self.without_hits + other.without_hits,
            self.postings + other.postings,
            self.cells + other.cells,
            self.exhaustive + other.exhaustive,
            self.scored + other.scored,
            self.shortened + other.shortened,
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
        _check_k(k)
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
        from acclimate.text.overlap import processors
        from acclimate.text.retrieval_search import search_queries

        _check_k(k)
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

        return Arrays(*(_map(self.path, name) for name in Arrays._fields))

    @functools.cached_property
    def _vocabulary(self) -> tuple[np.ndarray, ...]:
        return tuple(_map(self.path, name, "c") for name in ("slots", "hashes", "word_begins", "spellings"))

    def _spelling(self, word: int) -> str:
        _, _, begins, spellings = self._vocabulary
        return spellings[begins[word] : begins[word + 1]].tobytes().decode("utf-8", "surrogatepass")

    def _read(self, queries: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Q + 1,) where each query's words begin; the words' numbers; how often each occurs in the query."""
        from acclimate.text.retrieval_words import read_queries

        packed = packed_texts(self.analyzer, queries)
        found: tuple[np.ndarray, np.ndarray, np.ndarray]
        found = read_queries(*packed, fold_of(self.analyzer), *self._vocabulary)
        return found

    def _weighed(
        self, queries: Sequence[str], statistics: Statistics | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `_read`, with the count by the idf in place of the count."""
        from acclimate.text.retrieval_search import LONGEST

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
                f"the statistics have {found:,} of {statistics.documents:,} documents with {spelling!r}, but {self.path} "
                f"alone has {own:,}. Add up the statistics of all shards, taken for these queries"
            )
        return found

    def _formula(self, statistics: Statistics | None) -> tuple[Formula, float]:
        """The formula, and by how much the bounds of this index may be off for it: 1 where its averages are the same."""
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


def merge(shards: Sequence[Hits], k: int) -> Hits:
    """The k best of what the same queries found in the shards of a corpus: exactly what one index of it finds.

    Each shard was searched with the whole corpus's statistics, its own `first`, and a k of this or more.
    Raises ValueError where there is no shard, or they were searched with different numbers of queries.
    """
    _check_k(k)
    if len({len(hits) for hits in shards}) != 1:
        raise ValueError(f"shards with results of {[len(hits) for hits in shards]} queries cannot be merged")
    queries = np.concatenate([np.repeat(np.arange(len(hits)), np.diff(hits.offsets)) for hits in shards])
    documents = np.concatenate([hits.documents for hits in shards])
    scores = np.concatenate([hits.scores for hits in shards])
    order = np.lexsort((documents, -scores, queries))
    offsets = np.searchsorted(queries[order], np.arange(len(shards[0]) + 1)).astype(np.int64)
    effort = sum((hits.effort for hits in shards), Effort())
    missing = int((np.diff(offsets) == 0).sum())
    effort = Effort(
        len(shards[0]), missing, effort.postings, effort.cells, effort.exhaustive, effort.scored, effort.shortened
    )
    return Hits(offsets, documents[order], scores[order], effort).cut(k)


def build_index(
    corpus: Corpus,
    path: Path,
    *,
    k1: float = 1.2,
    b: float = 0.75,
    analyzer: str = "words",
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Index:
    """Write the index of the corpus to `path`, or open the one that is there if it is whole and the same.

    Several processes may ask at once: one builds and the others wait. A build that was killed leaves nothing that is
    taken for an index. Memory: see `retrieval_build`.
    Raises ValueError where `path` holds anything else, or a setting is out of range.
    """
    from acclimate.text.overlap import processors
    from acclimate.text.retrieval_build import write_index

    if not (k1 > 0 and math.isfinite(k1) and 0 <= b <= 1):
        raise ValueError(f"k1 = {k1} and b = {b}: k1 must be above 0 and b between 0 and 1. 1.2 and .75 are usual")
    check_analyzer(analyzer)
    path = Path(path)
    wanted = {"corpus": corpus.hash, "analyzer": analyzer, "k1": float(k1), "b": float(b)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _to_be_built(path, wanted):
            return open_index(path)
        with new_directory(path) as directory:
            sizes = write_index(
                corpus.texts(),
                directory,
                analyzer,
                float(k1),
                float(b),
                threads=threads or processors(),
                watch=watch,
                total=len(corpus),
            )
            write_json(directory / _FACTS, {"version": _VERSION, "unicode": UNICODE, **wanted, **sizes})
    return open_index(path, hashed=0)


def _to_be_built(path: Path, wanted: dict[str, Any]) -> bool:
    """Whether there is no index at the path, or a damaged one of the same contents. Raises ValueError: something else."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return True
    if not (path / _FACTS).is_file():
        raise ValueError(f"{path} is there and holds no index: it has no {_FACTS}. Name another path, or remove it")
    try:
        found = _checked_facts(path, _HASHED)
    except DamagedError:
        return True
    if (found["version"], found["unicode"]) != (_VERSION, UNICODE):
        return True
    different = [f"{name} {found[name]} instead of {value}" for name, value in wanted.items() if found[name] != value]
    if different:
        raise ValueError(f"{path} holds another index: {', '.join(different)}. Name another path, or remove it")
    return False


def open_index(path: Path, *, hashed: int = _HASHED) -> Index:
    """The index at the path.

    Every file's size is checked, and the SHA-256 of those that fit into `hashed` bytes together, small ones first: a
    gigabyte by default, for half a second to a second; larger files are taken at their size.
    Raises DamagedError where a file is not the one written, ValueError where there is no index or one that this release,
    or this Python's Unicode, does not read.
    """
    path = Path(path)
    if not (path / _FACTS).is_file():
        raise ValueError(f"{path} holds no index: it has no {_FACTS}. Make one with build_index")
    facts = _checked_facts(path, hashed)
    if facts["version"] != _VERSION:
        raise ValueError(f"{path}: format {facts['version']}, but this release reads {_VERSION}. Build it anew")
    if facts["unicode"] != UNICODE:
        raise ValueError(
            f"{path} was built with the letters of Unicode {facts['unicode']}, but this Python knows those of {UNICODE}. "
            "Build it anew, or search it with the Python that built it"
        )
    names = ("corpus", "documents", "tokens", "words", "analyzer", "k1", "b")
    return Index(path, **{name: facts[name] for name in names})


def _checked_facts(path: Path, hashed: int) -> dict[str, Any]:
    """What index.json says. Raises DamagedError where a file is missing or not the one written."""
    if not (path / MANIFEST).is_file():
        raise DamagedError(f"{path} is incomplete: it has no {MANIFEST}. Remove it; it is built anew")
    manifest = read_json(path / MANIFEST)
    if sha256_of(path / _FACTS) != manifest.get(_FACTS):
        raise DamagedError(f"{path / _FACTS} is damaged: its content is not what {MANIFEST} lists. Remove {path}")
    facts: dict[str, Any] = read_json(path / _FACTS)
    if facts["version"] != _VERSION:
        return facts
    sizes = {name: _size(name, facts) * np.dtype(kind).itemsize for name, (kind, _) in _FILES.items()}
    for name, size in sorted(sizes.items(), key=lambda pair: pair[1]):
        file = path / f"{name}.bin"
        if not file.is_file():
            raise DamagedError(f"{file} is missing. Remove {path}; it is built anew")
        if file.stat().st_size != size:
            raise DamagedError(
                f"{file} has {file.stat().st_size:,} bytes instead of {size:,}. Remove {path}; it is built anew"
            )
        if size <= hashed:
            hashed -= size
            if sha256_of(file) != manifest.get(file.name):
                raise DamagedError(f"{file} is damaged: its content is not what {MANIFEST} lists. Remove {path}")
    return facts


# name: its kind, and how long it is by index.json: a sum of products of these
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


def _size(name: str, facts: dict[str, Any]) -> int:
    total = 0
    for product in _FILES[name][1].split(" + "):
        total += math.prod(int(factor) if factor.isdigit() else int(facts[factor]) for factor in product.split(" * "))
    return total


def _map(path: Path, name: str, mode: Literal["r", "c"] = "r") -> np.ndarray:
    """The file's array. c: one that could be written to, in memory only; the same type for numba as when it is built."""
    file = path / f"{name}.bin"
    kind = _FILES[name][0]
    if not file.stat().st_size:
        return np.zeros(0, kind) if mode == "c" else np.frombuffer(b"", kind)
    return np.asarray(np.memmap(file, kind, mode))  # a plain array: indexing numpy's memmap class costs microseconds


def _check_k(k: int) -> None:
    if not 1 <= k <= MOST:
        raise ValueError(f"k is {k:,}, but must be between 1 and {MOST:,}: the documents that each query is to find")
