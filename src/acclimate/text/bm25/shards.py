"""BM25 over a corpus in shards, when it is too large for one index; it finds exactly what one index would find.

A shard is an ordinary index (text/bm25/build.py) of consecutive documents. A search takes three steps: every shard
counts the documents that contain the queries' words; with the sums, every shard scores as if it were the whole corpus;
the best hits of all shards are merged. Each step is a call on one shard, which this process or a task of a Ray cluster
carries out (core/machines.py).

    shards.json      corpus, analyzer, k1, b, where each shard begins, and the hash of these; written after all shards
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
from acclimate.core.machines import Pool, SerialPool
from acclimate.core.settings import digest
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.bm25.build import build_index, check_same, open_index
from acclimate.text.bm25.index import Effort, Hits, Index, Statistics, UnreadableError, check_k, merge
from acclimate.text.corpus import Corpus

if TYPE_CHECKING:
    import pyarrow as pa

FACTS = "shards.json"
_VERSION = 3
_QUERIES = 1024  # queries in a call at most
_HITS = 1 << 20  # hits that a call returns at most, 12 bytes each
_TOGETHER = 8  # calls whose hits are held until they are merged
_SHARED = "All machines of a cluster need corpus and index under the same path of a shared file system"


@dataclass(frozen=True)
class ShardedIndex:
    """The index of a corpus, in shards, used like an `Index`. `build_shards` makes it, `open_shards` opens it.

    pool  the processes that search (core/machines.py)
    """

    path: Path
    corpus: str
    analyzer: str
    k1: float
    b: float
    shards: tuple[Shard, ...]
    pool: Pool = field(default_factory=SerialPool)

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    def search(self, queries: Sequence[str], k: int, *, threads: int | None = None, watch: Watch = unwatched) -> Hits:
        """Return the k best documents of each query, exactly as one index of the whole corpus does.

        threads  for the search of a shard; None: as many as `pool` has

        The effort is the sum over all shards. Memory: the result, and 12 MB for each of a few calls.
        Raises what `Index.search` raises.
        """
        check_k(k)
        batch = min(_QUERIES, _HITS // k)
        batches = [tuple(queries[begin : begin + batch]) for begin in range(0, max(len(queries), 1), batch)]
        threads = threads or self.pool.threads
        calls = (
            ShardCall(shard, texts, statistics, k=k, threads=threads)
            for texts, statistics in zip(batches, self._statistics(batches), strict=True)
            for shard in self.shards
        )
        hits, parts, count = self.pool.map(search_shard, calls, home=number_of), [], 0
        for texts in batches:
            parts.append(_merged(itertools.islice(hits, len(self.shards)), k))
            count += len(texts)
            watch(Progress("search", count, len(queries), "queries"))
        return _joined(parts)

    def explain(self, query: str, document: int) -> list[tuple[str, float]]:
        """Return what `Index.explain` returns. document: its number in the corpus."""
        if not 0 <= document < self.documents:
            raise ValueError(f"{self.path} has no document {document:,}, only 0 to {self.documents - 1:,}")
        shard = self.shards[bisect_right(self.shards, document, key=lambda shard: shard.first) - 1]
        (statistics,) = self._statistics([(query,)])
        call = ShardCall(shard, (query,), statistics, document=document)
        (parts,) = self.pool.map(explain, [call], home=number_of)
        return parts

    def statistics(self, queries: Iterable[str]) -> Statistics:
        """Return the statistics of the whole corpus, with the frequencies of the queries' words."""
        texts = tuple(queries)
        return _summed(
            self.pool.map(count_statistics, (ShardCall(shard, texts) for shard in self.shards), home=number_of)
        )

    def _statistics(self, batches: Sequence[tuple[str, ...]]) -> Iterator[Statistics | None]:
        """Yield the statistics of the whole corpus for the words of each batch; None if there is only one shard."""
        if len(self.shards) == 1:
            yield from [None] * len(batches)
            return
        calls = (ShardCall(shard, texts) for texts in batches for shard in self.shards)
        counted = self.pool.map(count_statistics, calls, home=number_of)
        for _ in batches:
            yield _summed(itertools.islice(counted, len(self.shards)))


def build_shards(
    corpus: Corpus,
    path: Path,
    *,
    shards: int = 1,
    pool: Pool | None = None,
    k1: float = 1.2,
    b: float = 0.75,
    analyzer: str = "words",
    watch: Watch = unwatched,
) -> ShardedIndex:
    """Write the index of the corpus in shards with about equally many characters, or open the one that is there.

    A killed build resumes with the missing shards. A shard that is damaged, or that this release cannot read, is built
    again. Raises ValueError if `path` holds anything else, if a setting is out of range, or if there are fewer
    documents than shards.
    """
    pool, path = pool or SerialPool(), Path(path).resolve()
    settings = {"corpus": corpus.hash, "analyzer": analyzer, "k1": float(k1), "b": float(b), "shards": shards}
    begins_on_disk = known_begins(path, settings)
    begins = begins_on_disk or shard_begins(corpus, shards)
    path.mkdir(parents=True, exist_ok=True)
    sources = [
        Source(part, corpus.path.resolve(), k1, b, analyzer, pool.threads)
        for part in _parts(path, corpus.hash, begins, len(corpus))
    ]

    def build_here(source: Source) -> Shard:
        def watch_corpus(progress: Progress) -> None:
            if progress.unit == "documents":
                progress = replace(progress, done=source.part.first + progress.done, total=len(corpus))
            watch(progress)

        return build_part(source, watch_corpus)

    build = build_here if isinstance(pool, SerialPool) else build_part
    built = _watched(pool.map(build, sources, home=number_of), len(corpus), watch)
    if not begins_on_disk:
        facts = {"version": _VERSION, **settings, "documents": len(corpus), "begins": begins}
        write_json(path / FACTS, {**facts, "hash": digest(facts)})
    return ShardedIndex(path, corpus.hash, analyzer, float(k1), float(b), built, pool)


def open_shards(path: Path, *, pool: Pool | None = None) -> ShardedIndex:
    """Return the index in shards at the path, after the checks of `open_index` on each shard.

    Raises DamagedError if a shard is missing or altered, ValueError if there is no index in shards.
    """
    pool, path = pool or SerialPool(), Path(path).resolve()
    if not (path / FACTS).is_file():
        raise ValueError(f"{path} contains no index in shards: it has no {FACTS}. Create one with build_shards")
    facts = shard_facts(path)
    parts = _parts(path, facts["corpus"], facts["begins"], facts["documents"])
    opened = tuple(pool.map(open_part, parts, home=number_of))
    return ShardedIndex(path, facts["corpus"], facts["analyzer"], facts["k1"], facts["b"], opened, pool)


def shard_begins(corpus: Corpus, shards: int) -> list[int]:
    """Return the number of the first document of each shard, so that all have about equally many characters.

    Raises ValueError if there are fewer documents than shards.
    """
    import pyarrow.compute as pc

    if not 1 <= shards <= len(corpus):
        raise ValueError(
            f"{corpus.path} has {len(corpus):,} documents, too few for {shards:,} shards. Use fewer shards"
        )
    begins, documents, characters = [0], 0, 0
    for texts in corpus.texts():
        ends = characters + np.cumsum(pc.utf8_length(texts).to_numpy(zero_copy_only=False), dtype=np.int64)
        while len(begins) < shards and ends[-1] * shards >= (goal := corpus.characters * len(begins)):
            begins.append(documents + int(np.searchsorted(ends * shards, goal)) + 1)
        documents, characters = documents + len(texts), int(ends[-1])
    for number in range(1, shards):  # however long some documents are, no shard is empty
        begins[number] = min(max(begins[number], begins[number - 1] + 1), len(corpus) - shards + number)
    return begins


def _parts(path: Path, corpus: str, begins: list[int], documents: int) -> list[DocumentRange]:
    return [
        DocumentRange(number, path / f"shard-{number:05}", corpus, first, last)
        for number, (first, last) in enumerate(itertools.pairwise([*begins, documents]))
    ]


def _watched(shards: Iterator[Shard], documents: int, watch: Watch) -> tuple[Shard, ...]:
    results, count = [], 0
    for shard in shards:
        results.append(shard)
        count += shard.documents
        watch(Progress("index", count, documents, "documents"))
    return tuple(results)


def _summed(counted: Iterable[Statistics]) -> Statistics:
    return sum(counted, Statistics(0, 0, {}))


def _merged(hits_of_shards: Iterable[Hits], k: int) -> Hits:
    """Merge what the shards found for the same queries, a few shards at a time to save memory."""
    held: list[Hits] = []
    for hits in hits_of_shards:
        held.append(hits)
        if len(held) == _TOGETHER:
            held = [merge(held, k)]
    return held[0] if len(held) == 1 else merge(held, k)


def _joined(parts: Sequence[Hits]) -> Hits:
    """Concatenate the hits of consecutive batches of queries."""
    sizes = np.concatenate([np.diff(hits.offsets) for hits in parts])
    return Hits(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([hits.documents for hits in parts]),
        np.concatenate([hits.scores for hits in parts]),
        sum((hits.effort for hits in parts), Effort()),
    )


@dataclass(frozen=True)
class Shard:
    """An index of consecutive documents of a corpus, from number `first` on.

    sealed  the SHA-256 of the index's manifest, by which another machine knows that it sees the same files
    """

    number: int
    path: Path
    first: int
    documents: int
    tokens: int
    sealed: str


@dataclass(frozen=True)
class DocumentRange:
    """Documents `first` to `last` - 1 of a corpus, which become a shard.

    corpus  the hash of the whole corpus; path: where the shard lies
    """

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
    """The texts of a part, as `build_index` takes them (`IndexedTexts`), with the settings of the index."""

    part: DocumentRange
    corpus: Path
    k1: float
    b: float
    analyzer: str
    threads: int | None

    @property
    def number(self) -> int:
        return self.part.number

    @property
    def hash(self) -> str:
        return self.part.hash

    def texts(self) -> Iterator[pa.StringArray]:
        return Corpus(self.corpus).texts(self.part.first, self.part.last)

    def __len__(self) -> int:
        return self.part.last - self.part.first


@dataclass(frozen=True)
class ShardCall:
    """The arguments of `count_statistics`, `search_shard` and `explain`.

    statistics: of all shards; None if there is only one
    """

    shard: Shard
    queries: tuple[str, ...]
    statistics: Statistics | None = None
    k: int = 1
    document: int = 0
    threads: int | None = None

    @property
    def number(self) -> int:
        return self.shard.number


def number_of(call: DocumentRange | Source | ShardCall) -> int:
    return call.number


def build_part(source: Source, watch: Watch = unwatched) -> Shard:
    """Return the shard; build its index unless it is there and whole."""
    if not (source.corpus / "corpus.json").is_file() or Corpus(source.corpus).hash != source.part.corpus:
        raise ValueError(f"{socket.gethostname()} cannot access the corpus {source.corpus}. {_SHARED}")
    index = build_index(
        source,
        source.part.path,
        k1=source.k1,
        b=source.b,
        analyzer=source.analyzer,
        threads=source.threads,
        watch=watch,
    )
    return _shard(source.part, index)


def open_part(part: DocumentRange) -> Shard:
    if not part.path.is_dir():
        raise DamagedError(
            f"{part.path} is missing on {socket.gethostname()}. Build the index again to build only that part"
        )
    return _shard(part, open_index(part.path))


def _shard(part: DocumentRange, index: Index) -> Shard:
    if (index.corpus, index.documents) != (part.hash, part.last - part.first):
        raise DamagedError(
            f"{part.path} does not contain documents {part.first:,} to {part.last - 1:,}. Remove it and build again"
        )
    return Shard(part.number, part.path, part.first, index.documents, index.tokens, sha256_of(part.path / MANIFEST))


def count_statistics(call: ShardCall) -> Statistics:
    return _index(call.shard.path, call.shard.sealed).statistics(call.queries)


def search_shard(call: ShardCall) -> Hits:
    index = _index(call.shard.path, call.shard.sealed)
    return index.search(call.queries, call.k, threads=call.threads, statistics=call.statistics, first=call.shard.first)


def explain(call: ShardCall) -> list[tuple[str, float]]:
    """Explain the score of the call's document for its only query."""
    index = _index(call.shard.path, call.shard.sealed)
    return index.explain(call.queries[0], call.document - call.shard.first, statistics=call.statistics)


@functools.lru_cache(maxsize=64)
def _index(path: Path, sealed: str) -> Index:
    """Return the index, which stays open in this process. Its files were checked when the shards were opened."""
    manifest = path / MANIFEST
    if not manifest.is_file() or sha256_of(manifest) != sealed:
        raise ValueError(f"{socket.gethostname()} sees another version of {path}. {_SHARED}")
    return open_index(path, hashed=0)


def known_begins(path: Path, settings: dict[str, Any]) -> list[int]:
    """Return where the shards of an existing index begin; an empty list if it is missing, damaged or unreadable.

    Raises ValueError if `path` holds another index or anything else.
    """
    if not (path / FACTS).exists():
        prefixes = (".", "shard-")  # shards, locks, and the remains of a killed write
        if path.exists() and (not path.is_dir() or any(not file.name.startswith(prefixes) for file in path.iterdir())):
            raise ValueError(
                f"{path} already exists but contains no index in shards. Choose another path, or remove it"
            )
        return []
    try:
        facts = shard_facts(path)
    except (DamagedError, UnreadableError):
        return []
    check_same(path, facts, settings)
    begins: list[int] = facts["begins"]
    return begins


def shard_facts(path: Path) -> dict[str, Any]:
    """Return the content of shards.json. Raises DamagedError if it was altered, UnreadableError for another format."""
    facts: dict[str, Any] = read_json(path / FACTS)
    if facts.get("version") != _VERSION:
        raise UnreadableError(
            f"{path}: format {facts.get('version')}, but this release reads {_VERSION}. Build it again with "
            "build_shards"
        )
    if facts.pop("hash", "") != digest(facts):
        raise DamagedError(f"{path / FACTS} is damaged. Build the index again to keep the shards")
    return facts
