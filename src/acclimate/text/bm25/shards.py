"""BM25 over a corpus in shards, for more than one process or machine can hold: exactly what one index of it finds.

A shard is a run of documents with an ordinary index (text/bm25/build.py). First every shard counts the documents that
have the queries' words; with the sums, every shard scores as if it were the whole corpus; the best of all are merged.
Each of these is a call on one shard (text/bm25/shards.py), done by whatever does the work (core/machines.py): this
process, or tasks of a Ray cluster.

    shards.json      corpus, analyzer, k1, b, and where each shard begins, with their hash; there once all shards are
    shard-00000/     an index
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import socket
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core.files import MANIFEST, DamagedError, read_json, sha256_of, write_json
from acclimate.core.machines import Here, Work
from acclimate.core.settings import digest
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.bm25.build import Effort, Hits, Index, Statistics, build_index, merge, open_index
from acclimate.text.bm25.index import UnreadableError, check_k
from acclimate.text.corpus import Corpus

if TYPE_CHECKING:
    import pyarrow as pa


# The facts of an index in shards (text/bm25/shards.py), with their hash: read only where they are what was written.

FACTS = "shards.json"
_VERSION = 2


def write_facts(path: Path, stated: dict[str, Any]) -> None:
    facts = {"version": _VERSION, **stated}
    write_json(path / FACTS, {**facts, "hash": digest(facts)})


def known_begins(path: Path, wanted: dict[str, Any]) -> list[int]:
    """Return where the shards of the index begin that is there; empty where there is none, or it has to be cut anew.

    Raises ValueError where `path` holds anything else.
    """
    if not (path / FACTS).exists():
        known = (".", "shard-")  # shards, locks, and what a kill left of a write
        if path.exists() and (not path.is_dir() or any(not file.name.startswith(known) for file in path.iterdir())):
            raise ValueError(f"{path} is there and holds no index in shards. Name another path, or remove it")
        return []
    try:
        facts = facts_of(path)
    except (DamagedError, UnreadableError):
        return []
    different = [f"{name} {facts[name]} instead of {value}" for name, value in wanted.items() if facts[name] != value]
    if different:
        raise ValueError(f"{path} holds another index: {', '.join(different)}. Name another path, or remove it")
    begins: list[int] = facts["begins"]
    return begins


def facts_of(path: Path) -> dict[str, Any]:
    """Return what shards.json says. Raises DamagedError where it was changed, UnreadableError for another format."""
    facts: dict[str, Any] = read_json(path / FACTS)
    if facts.get("version") != _VERSION:
        raise UnreadableError(
            f"{path}: format {facts.get('version')}, but this release reads {_VERSION}. Build it anew with build_shards"
        )
    if facts.pop("hash", "") != digest(facts):
        raise DamagedError(f"{path / FACTS} is damaged. Build the index again; the shards are kept")
    return facts


# What a shard of an index (text/bm25/shards.py) is asked, as functions that run on any machine which sees its files.

_SHARED = "All machines of a cluster need corpus and index under the same path of a file system that they share"


@dataclass(frozen=True)
class Shard:
    """An index of the corpus's documents from number `first` on. sealed: the SHA-256 of its manifest."""

    number: int
    path: Path
    first: int
    documents: int
    tokens: int
    sealed: str


@dataclass(frozen=True)
class Run:
    """Documents `first` to before `last` of the corpus with the hash, and the path of their index."""

    number: int
    path: Path
    corpus: str
    first: int
    last: int

    @property
    def hash(self) -> str:
        """64 hex digits."""
        return hashlib.sha256(f"{self.corpus} {self.first} {self.last}".encode()).hexdigest()


@dataclass(frozen=True)
class Source:
    """A run, where its texts are and how they are to be indexed: the `Texts` that `build_index` takes."""

    run: Run
    corpus: Path
    k1: float
    b: float
    analyzer: str
    threads: int | None

    @property
    def number(self) -> int:
        return self.run.number

    @property
    def hash(self) -> str:
        return self.run.hash

    def texts(self) -> Iterator[pa.StringArray]:
        return Corpus(self.corpus).texts(self.run.first, self.run.last)

    def __len__(self) -> int:
        return self.run.last - self.run.first


@dataclass(frozen=True)
class Task:
    """Queries for a shard; the statistics are of all shards, and None where the shard is the whole corpus."""

    shard: Shard
    queries: tuple[str, ...]
    statistics: Statistics | None = None
    k: int = 1
    document: int = 0
    threads: int | None = None

    @property
    def number(self) -> int:
        return self.shard.number


def number_of(asked: Run | Source | Task) -> int:
    return asked.number


def build_run(source: Source, watch: Watch = unwatched) -> Shard:
    """Build the index, unless it is there and whole."""
    if not (source.corpus / "corpus.json").is_file() or Corpus(source.corpus).hash != source.run.corpus:
        raise ValueError(f"{socket.gethostname()} does not see the corpus {source.corpus}. {_SHARED}")
    index = build_index(
        source,
        source.run.path,
        k1=source.k1,
        b=source.b,
        analyzer=source.analyzer,
        threads=source.threads,
        watch=watch,
    )
    return _shard(source.run, index)


def open_run(run: Run) -> Shard:
    if not run.path.is_dir():
        raise DamagedError(f"{run.path} is missing on {socket.gethostname()}. Build the index again; the rest is kept")
    return _shard(run, open_index(run.path))


def _shard(run: Run, index: Index) -> Shard:
    if (index.corpus, index.documents) != (run.hash, run.last - run.first):
        raise DamagedError(
            f"{run.path} is not of documents {run.first:,} to {run.last - 1:,}. Remove it and build again"
        )
    return Shard(run.number, run.path, run.first, index.documents, index.tokens, sha256_of(run.path / MANIFEST))


def count(task: Task) -> Statistics:
    return _index(task.shard.path, task.shard.sealed).statistics(task.queries)


def search(task: Task) -> Hits:
    index = _index(task.shard.path, task.shard.sealed)
    return index.search(task.queries, task.k, threads=task.threads, statistics=task.statistics, first=task.shard.first)


def explain(task: Task) -> list[tuple[str, float]]:
    """Of the first query; the document by its number in the corpus."""
    index = _index(task.shard.path, task.shard.sealed)
    return index.explain(task.queries[0], task.document - task.shard.first, statistics=task.statistics)


@functools.lru_cache(maxsize=64)
def _index(path: Path, sealed: str) -> Index:
    """Return the index, kept open in this process. Its files were checked when the shards were built or opened."""
    manifest = path / MANIFEST
    if not manifest.is_file() or sha256_of(manifest) != sealed:
        raise ValueError(f"{socket.gethostname()} does not see {path} as it was opened. {_SHARED}")
    return open_index(path, hashed=0)


_QUERIES = 1024  # of a call at most
_HITS = 1 << 20  # that a call brings back at most, 12 bytes each
_TOGETHER = 8  # calls whose hits are held until they are merged


@dataclass(frozen=True)
class Shards:
    """The index of a corpus, in shards. Made by `build_shards`, opened by `open_shards`; used like an `Index`.

    work  what does the searching
    """

    path: Path
    corpus: str
    analyzer: str
    k1: float
    b: float
    shards: tuple[Shard, ...]
    work: Work = field(default_factory=Here)

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    def search(self, queries: Sequence[str], k: int, *, threads: int | None = None, watch: Watch = unwatched) -> Hits:
        """Return the k best documents of each query: those of one index of the whole corpus, bit by bit.

        threads  of a shard's search; None: those of the work

        The effort is that of all shards together. In memory are the result and the hits of some calls, 12 MB each.
        Raises as `Index.search` does.
        """
        check_k(k)
        batch = min(_QUERIES, _HITS // k)
        batches = [tuple(queries[begin : begin + batch]) for begin in range(0, max(len(queries), 1), batch)]
        threads = threads or self.work.threads
        tasks = (
            Task(shard, texts, statistics, k=k, threads=threads)
            for texts, statistics in zip(batches, self._statistics(batches), strict=True)
            for shard in self.shards
        )
        found, parts, done = self.work.map(search, tasks, home=number_of), [], 0
        for texts in batches:
            parts.append(_merged(itertools.islice(found, len(self.shards)), k))
            done += len(texts)
            watch(Progress("search", done, len(queries), "queries"))
        return _joined(parts)

    def explain(self, query: str, document: int) -> list[tuple[str, float]]:
        """Do what `Index.explain` does; the document is given by its number in the corpus."""
        if not 0 <= document < self.documents:
            raise ValueError(f"there is no document {document:,} in {self.path}: it has 0 to {self.documents - 1:,}")
        shard = self.shards[bisect_right(self.shards, document, key=lambda each: each.first) - 1]
        (statistics,) = self._statistics([(query,)])
        task = Task(shard, (query,), statistics, document=document)
        (parts,) = self.work.map(explain, [task], home=number_of)
        return parts

    def statistics(self, queries: Iterable[str]) -> Statistics:
        """Of the whole corpus, with the frequencies of the queries' words."""
        texts = tuple(queries)
        return _summed(self.work.map(count, (Task(shard, texts) for shard in self.shards), home=number_of))

    def _statistics(self, batches: Sequence[tuple[str, ...]]) -> Iterator[Statistics | None]:
        """Of the whole corpus, with the frequencies of each batch's words; None where one shard is the whole."""
        if len(self.shards) == 1:
            yield from [None] * len(batches)
            return
        tasks = (Task(shard, texts) for texts in batches for shard in self.shards)
        counted = self.work.map(count, tasks, home=number_of)
        for _ in batches:
            yield _summed(itertools.islice(counted, len(self.shards)))


def build_shards(
    corpus: Corpus,
    path: Path,
    *,
    shards: int = 1,
    work: Work | None = None,
    k1: float = 1.2,
    b: float = 0.75,
    analyzer: str = "words",
    watch: Watch = unwatched,
) -> Shards:
    """Write the index of the corpus in so many shards of about equally many characters, or open the one that is there.

    What is whole stays: a build that was killed goes on with the shards that are missing, and a shard that is damaged,
    or that this release does not read, is built again. Raises ValueError where `path` holds anything else, a setting is
    out of range, or there are fewer documents than shards.
    """
    work, path = work or Here(), Path(path).resolve()
    wanted = {"corpus": corpus.hash, "analyzer": analyzer, "k1": float(k1), "b": float(b), "shards": shards}
    known = known_begins(path, wanted)
    begins = known or cut(corpus, shards)
    path.mkdir(parents=True, exist_ok=True)
    sources = [
        Source(run, corpus.path.resolve(), k1, b, analyzer, work.threads)
        for run in _runs(path, corpus.hash, begins, len(corpus))
    ]

    def build_here(source: Source) -> Shard:
        def told(progress: Progress) -> None:
            if progress.unit == "documents":
                progress = replace(progress, done=source.run.first + progress.done, total=len(corpus))
            watch(progress)

        return build_run(source, told)

    build = build_here if isinstance(work, Here) else build_run
    found = _watched(work.map(build, sources, home=number_of), len(corpus), watch)
    if not known:
        write_facts(path, {**wanted, "documents": len(corpus), "begins": begins})
    return Shards(path, corpus.hash, analyzer, float(k1), float(b), found, work)


def open_shards(path: Path, *, work: Work | None = None, watch: Watch = unwatched) -> Shards:
    """Return the index in shards at the path, each shard checked as `open_index` does.

    Raises DamagedError where a shard is missing or not the one written, ValueError where there is no index in shards.
    """
    work, path = work or Here(), Path(path).resolve()
    if not (path / FACTS).is_file():
        raise ValueError(f"{path} holds no index in shards: it has no {FACTS}. Make one with build_shards")
    facts = facts_of(path)
    runs = _runs(path, facts["corpus"], facts["begins"], facts["documents"])
    found = _watched(work.map(open_run, runs, home=number_of), facts["documents"], watch)
    return Shards(path, facts["corpus"], facts["analyzer"], facts["k1"], facts["b"], found, work)


def cut(corpus: Corpus, shards: int) -> list[int]:
    """Return the number of the document with which each shard begins, so that all have about equally many characters.

    Raises ValueError where there are fewer documents than shards.
    """
    import pyarrow.compute as pc

    if not 1 <= shards <= len(corpus):
        raise ValueError(f"{corpus.path} has {len(corpus):,} documents and cannot be cut into {shards:,} shards")
    begins, documents, characters = [0], 0, 0
    for texts in corpus.texts():
        ends = characters + np.cumsum(pc.utf8_length(texts).to_numpy(zero_copy_only=False), dtype=np.int64)
        while len(begins) < shards and ends[-1] * shards >= (goal := corpus.characters * len(begins)):
            begins.append(documents + int(np.searchsorted(ends * shards, goal)) + 1)
        documents, characters = documents + len(texts), int(ends[-1])
    for number in range(1, shards):  # each has a document, however long some documents are
        begins[number] = min(max(begins[number], begins[number - 1] + 1), len(corpus) - shards + number)
    return begins


def _runs(path: Path, corpus: str, begins: list[int], documents: int) -> list[Run]:
    return [
        Run(number, path / f"shard-{number:05}", corpus, first, last)
        for number, (first, last) in enumerate(itertools.pairwise([*begins, documents]))
    ]


def _watched(shards: Iterator[Shard], documents: int, watch: Watch) -> tuple[Shard, ...]:
    found, done = [], 0
    for shard in shards:
        found.append(shard)
        done += shard.documents
        watch(Progress("index", done, documents, "documents"))
    return tuple(found)


def _summed(counted: Iterable[Statistics]) -> Statistics:
    return sum(counted, Statistics(0, 0, {}))


def _merged(found: Iterable[Hits], k: int) -> Hits:
    """Return what the shards found for the same queries, merged some at a time."""
    held: list[Hits] = []
    for hits in found:
        held.append(hits)
        if len(held) == _TOGETHER:
            held = [merge(held, k)]
    return held[0] if len(held) == 1 else merge(held, k)


def _joined(parts: Sequence[Hits]) -> Hits:
    """Return what was found for one batch of queries after the other."""
    sizes = np.concatenate([np.diff(hits.offsets) for hits in parts])
    return Hits(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([hits.documents for hits in parts]),
        np.concatenate([hits.scores for hits in parts]),
        sum((hits.effort for hits in parts), Effort()),
    )
