"""What a shard of an index (text/shards.py) is asked, as functions that run on any machine which sees its files."""

from __future__ import annotations

import functools
import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from acclimate.core.files import MANIFEST, DamagedError, sha256_of
from acclimate.core.types import Watch, unwatched
from acclimate.text.corpus import Corpus
from acclimate.text.retrieval import Hits, Index, Statistics, build_index, open_index

if TYPE_CHECKING:
    import pyarrow as pa

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
    """The index, kept open in this process. Its files were checked when the shards were built or opened."""
    manifest = path / MANIFEST
    if not manifest.is_file() or sha256_of(manifest) != sealed:
        raise ValueError(f"{socket.gethostname()} does not see {path} as it was opened. {_SHARED}")
    return open_index(path, hashed=0)
