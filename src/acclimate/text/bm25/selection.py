"""Select what queries retrieve from a corpus: the union of their best documents, and which query retrieved which.

A document's rank in the union is its best rank over the queries. Documents are ordered by that rank, then by their
number in the corpus. A rank does not depend on k, so the selection with a smaller k is the beginning of the one with a
larger k, and `Selection.cut` need not search.

`select` makes a selection by searching; `sample_like` draws one of the same size, at random or by DSIR (dsir.py). The
folder of a selection holds (integers and floats are little-endian):

    selection.json   k, how, counts, hash of the corpus
    documents.bin    (D,) int64 documents of the union, by their number in the corpus
    ranks.bin        (D,) uint16 their best ranks, rising, from 1
    offsets.bin      (Q + 1,) int64 where a query's rows begin
    rows.*.bin       (R,) a row for each document that a query found, in rank order: documents uint32, ranks uint16,
                     scores float32; 10 bytes a row
    similar.bin      uint16 ranks, rising, of documents that were dropped because they resemble a better one
    queries.arrow    (Q,) id and text of the queries
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from acclimate.core.files import MANIFEST, check_manifest, new_directory, read_json, write_json
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.bm25.index import MOST, check_k

if TYPE_CHECKING:
    from acclimate.text.bm25.index import Index
    from acclimate.text.bm25.shards import ShardedIndex

FACTS = "selection.json"
OFFSETS, INTEGER, RANK = "offsets.bin", np.dtype("<i8"), np.dtype("<u2")
DOCUMENTS, RANKS, SIMILAR = "documents.bin", "ranks.bin", "similar.bin"
QUERIES = "queries.arrow"
ROWS: dict[str, np.dtype[Any]] = {"documents": np.dtype("<u4"), "ranks": RANK, "scores": np.dtype("<f4")}
BATCH = 256  # queries that are searched at a time
_BLOCK = 1 << 20  # rows that are copied at a time
_UNSEEN = np.iinfo(RANK).max  # rank of a document that no query has found
_VERSION = 1

Query = tuple[str, str]  # id, text
Dropping = Callable[[np.ndarray], np.ndarray]  # documents in order -> (D,) bool: True if one before it is alike


def select(
    index: Index | ShardedIndex,
    queries: Sequence[Query],
    path: Path,
    *,
    k: int,
    left_out: np.ndarray | None = None,
    dropping: Dropping | None = None,
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Selection:
    """Search for all queries and write the union of their best k documents, with the rank and score of each.

    left_out   (documents of the corpus,) bool: documents that are treated as if the corpus did not have them; only
               the others get ranks. If a query's first 10,000 hits hold fewer than k others, it finds fewer
    dropping   decides which documents of the union, in order, to drop; the ranks of the others do not change

    Memory: three bytes a document of the corpus, and the hits of BATCH queries. Raises ValueError unless k is between
    1 and 10,000 and some query hits a document.
    """
    check_k(k)
    if index.documents > np.iinfo(ROWS["documents"]).max:
        raise ValueError(
            f"a selection supports at most 2^32 documents, but the corpus has {index.documents:,}. Divide it"
        )
    skipped = np.zeros(index.documents, bool) if left_out is None else left_out
    assert len(skipped) == index.documents
    best = np.full(index.documents, _UNSEEN, RANK)
    facts = {"how": "bm25", "k": k, "corpus": index.corpus, "queries": len(queries)}
    with new_directory(path) as directory:
        raw = directory / "raw" if dropping else directory
        raw.mkdir(exist_ok=True)
        unhit = 0
        with RowWriter(raw) as rows:
            for begin in range(0, len(queries), BATCH):
                texts = [text for _, text in queries[begin : begin + BATCH]]
                watch(Progress("retrieving", begin, len(queries), "queries"))
                for documents, scores, hit in _best(index, texts, k, skipped, threads):
                    ranks = np.arange(1, len(documents) + 1, dtype=RANK)
                    best[documents] = np.minimum(best[documents], ranks)
                    rows.add(documents, ranks, scores)
                    unhit += not hit
            watch(Progress("retrieving", len(queries), len(queries), "queries"))
        documents = np.flatnonzero(best < _UNSEEN)
        documents = documents[np.argsort(best[documents], kind="stable")]
        if not len(documents):
            unmatched = "none of their words occurs in the corpus"
            reason = unmatched if unhit == len(queries) else "all matching documents were excluded"
            raise ValueError(
                f"the {len(queries):,} queries retrieve no documents: {reason}. Give other queries or another corpus"
            )
        write_queries(directory, queries)
        facts["unhit"] = unhit
        if dropping is None:
            none = np.empty(0, RANK)
            finish_selection(directory, rows, facts, documents=documents, ranks=best[documents], similar=none)
        else:
            _drop(directory, raw, facts, documents=documents, best=best, dropped=dropping(documents))
    return open_selection(path)


def sample_like(
    like: Selection,
    documents: int,
    path: Path,
    *,
    seed: int,
    log_weights: np.ndarray | None = None,
    left_out: np.ndarray | None = None,
    dropping: Dropping | None = None,
) -> Selection:
    """Write a sample as large as `like`: its random control, or by DSIR (dsir.py) with the weights of documents.

    documents            number of documents of the corpus
    log_weights          (documents,) log w_i; None: all alike, so that no query matters. Those of -inf are not sampled
    left_out, dropping   as in `select`

    The i-th sampled document gets the rank of the i-th document of `like`, so that cuts of both have equal sizes.
    Raises ValueError if fewer documents are left than `like` has.
    """
    eligible = np.arange(documents) if left_out is None else np.flatnonzero(~left_out)
    generator = np.random.default_rng(seed)
    if log_weights is None:
        order = generator.permutation(eligible)
    else:
        eligible = eligible[np.isfinite(log_weights[eligible])]
        noisy = log_weights[eligible] + generator.gumbel(size=len(eligible))  # dsir.py, (e)
        order = eligible[np.argsort(-noisy, kind="stable")]
    size = looked = len(like)
    while True:
        candidates = order[:looked]
        flags = dropping(candidates) if dropping else np.zeros(len(candidates), bool)
        lacking = size - int(np.count_nonzero(~flags))
        if lacking <= 0 or looked >= len(order):
            break
        looked += 2 * lacking
    sampled = candidates[~flags][:size]
    if len(sampled) < size:
        raise ValueError(f"a sample of {size:,} documents is not possible: only {len(sampled):,} remain. Lower k")
    before = np.cumsum(~flags)[flags]  # number of documents kept before each dropped one
    dropped = like.ranks[before[before < size]]
    how = "random" if log_weights is None else "dsir"
    facts = {"how": how, "k": like.k, "corpus": like.corpus, "queries": 0, "unhit": 0}
    with new_directory(path) as directory:
        with RowWriter(directory) as rows:
            pass
        write_queries(directory, [])
        finish_selection(directory, rows, facts, documents=sampled, ranks=like.ranks, similar=dropped)
    return open_selection(path)


def _best(
    index: Index | ShardedIndex, texts: Sequence[str], k: int, skipped: np.ndarray, threads: int | None
) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """Return the best k documents of each text that are not skipped, their scores, and whether the text hit anything.

    Searches for more than k, and for twice as many again as long as too few of a text's hits are left.
    """
    most = min(MOST, index.documents)
    depth = min(most, k + min(int(skipped.sum()), max(8, k // 8)))
    best: dict[int, tuple[np.ndarray, np.ndarray, bool]] = {}
    pending = list(range(len(texts)))
    while pending:
        hits = index.search([texts[place] for place in pending], depth, threads=threads)
        short = []
        for number, place in enumerate(pending):
            documents, scores = hits.documents_for(number)
            indices = np.flatnonzero(~skipped[documents])[:k]
            best[place] = documents[indices].astype(np.int64), scores[indices], len(documents) > 0
            if len(indices) < k and len(documents) == depth < most:
                short.append(place)
        pending, depth = short, min(most, 2 * depth)
    return [best[place] for place in range(len(texts))]


def _drop(
    directory: Path, raw: Path, facts: dict[str, Any], *, documents: np.ndarray, best: np.ndarray, dropped: np.ndarray
) -> None:
    """Write the selection in `raw` to `directory` without the dropped documents, and remove `raw`."""
    gone = np.zeros(len(best), bool)
    gone[documents[dropped]] = True
    write_facts(raw, {**facts, "rows": (raw / "rows.documents.bin").stat().st_size // ROWS["documents"].itemsize})
    with RowWriter(directory) as rows:
        for columns, offsets in Selection(raw, facts["k"]).blocks():
            rows.add_some(columns, ~gone[columns["documents"]], offsets)
    shutil.rmtree(raw)
    numbers = documents[~dropped]
    similar = best[documents[dropped]]
    finish_selection(directory, rows, facts, documents=numbers, ranks=best[numbers], similar=similar)


@dataclass(frozen=True)
class Selection:
    """The folder that `select` or `sample_like` wrote, or its first k ranks. Arrays are memory-mapped.

    Raises ValueError on first use if `path` holds no selection, or one of another format version.
    """

    path: Path
    k: int

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.documents)

    @property
    def how(self) -> str:
        return str(self._facts["how"])

    @property
    def corpus(self) -> str:
        """Hash of the corpus in which the documents have their numbers."""
        return str(self._facts["corpus"])

    @property
    def queries(self) -> int:
        """Number of queries; 0 for a sample."""
        return int(self._facts["queries"])

    @property
    def unhit(self) -> int:
        """Number of queries that share no word with the corpus."""
        return int(self._facts["unhit"])

    @property
    def similar(self) -> int:
        """Number of documents that were retrieved and then dropped because they resemble an earlier one."""
        return len(self._similar)

    @cached_property
    def documents(self) -> np.ndarray:
        """(D,) int64 numbers in the corpus, from 0, best rank first."""
        return map_numbers(self.path / DOCUMENTS, INTEGER, self._facts["documents"])[: len(self.ranks)]

    @cached_property
    def ranks(self) -> np.ndarray:
        """(D,) uint16 best ranks, rising, from 1."""
        return self._first(map_numbers(self.path / RANKS, RANK, self._facts["documents"]))

    def cut(self, k: int) -> Selection:
        """Return the selection that the same queries make with this k. It neither searches nor writes."""
        if not 1 <= k <= self.k:
            raise ValueError(
                f"k={k}: {self.path} was made with k={self.k}, so only smaller selections can be taken from it. "
                f"Choose 1 to {self.k}, or retrieve again"
            )
        return Selection(self.path, k)

    def query(self, number: int) -> Query:
        """Return id and text of a query."""
        row = self._queries.slice(number, 1).to_pylist()[0]
        return row["id"], row["text"]

    def documents_for(self, query: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return documents (int64), ranks and scores of what a query retrieved, best first.

        The ranks have gaps where documents were dropped because they resemble others.
        """
        rows = slice(*self._offsets[query : query + 2].tolist())
        count = len(self._first(self._rows["ranks"][rows]))
        documents, ranks, scores = (self._rows[name][rows][:count] for name in ROWS)
        return documents.astype(np.int64), ranks, scores

    def counts(self) -> np.ndarray:
        """Return (Q,) the number of documents that each query retrieved."""
        parts = [sums(columns["ranks"] <= self.k, offsets) for columns, offsets in self.blocks()]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def blocks(self) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """Yield all rows, those of some queries at a time, and where each query's rows begin; ranks over k included."""
        first = 0
        while first < self.queries:
            end = int(np.searchsorted(self._offsets, self._offsets[first] + _BLOCK, "right")) - 1
            last = min(max(end, first + 1), self.queries)
            offsets = self._offsets[first : last + 1]
            rows = slice(*offsets[[0, -1]].tolist())
            yield {name: column[rows] for name, column in self._rows.items()}, offsets - offsets[0]
            first = last

    def write(self, path: Path) -> Selection:
        """Write a copy without the ranks over k, and return it."""
        with new_directory(path) as directory:
            with RowWriter(directory) as rows:
                for columns, offsets in self.blocks():
                    rows.add_some(columns, columns["ranks"] <= self.k, offsets)
            write_queries(directory, [self.query(number) for number in range(self.queries)])
            facts = {name: self._facts[name] for name in ("how", "corpus", "queries", "unhit")} | {"k": self.k}
            columns = {"documents": self.documents, "ranks": self.ranks, "similar": self._similar}
            finish_selection(directory, rows, facts, **columns)
        return open_selection(path)

    def _first(self, ranks: np.ndarray) -> np.ndarray:
        """Return the part of rising ranks that is not over k."""
        return ranks[: np.searchsorted(ranks, self.k, "right")]

    @cached_property
    def _similar(self) -> np.ndarray:
        return self._first(map_numbers(self.path / SIMILAR, RANK, self._facts["similar"]))

    @cached_property
    def _offsets(self) -> np.ndarray:
        return map_numbers(self.path / OFFSETS, INTEGER, self.queries + 1)

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        return {
            name: map_numbers(self.path / f"rows.{name}.bin", kind, self._facts["rows"]) for name, kind in ROWS.items()
        }

    @cached_property
    def _queries(self) -> pa.Table:
        with pa.memory_map(str(self.path / QUERIES)) as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return read_facts(self.path)


def open_selection(path: Path) -> Selection:
    """Return the selection in this folder after checking the hash of every file (up to a second a gigabyte).

    Raises ValueError if there is none, or one of another format version, DamagedError if a file was altered.
    """
    k = int(read_facts(path)["k"])
    check_manifest(path)
    return Selection(path, k)


class RowWriter:
    """Writes the files of the rows in a folder."""

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self._directory = directory
        self._ends = [0]
        self._files: dict[str, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> RowWriter:
        for name in ROWS:
            self._files[name] = self._stack.enter_context(open(self._directory / f"rows.{name}.bin", "wb"))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        (self._directory / OFFSETS).write_bytes(np.array(self._ends, INTEGER).tobytes())

    def add(self, documents: np.ndarray, ranks: np.ndarray, scores: np.ndarray) -> None:
        """Write the rows of one query."""
        for (name, kind), values in zip(ROWS.items(), (documents, ranks, scores), strict=True):
            self._files[name].write(values.astype(kind).tobytes())
        self.count += len(documents)
        self._ends.append(self.count)

    def add_some(self, columns: dict[str, np.ndarray], flags: np.ndarray, offsets: np.ndarray) -> None:
        """Write the flagged rows of several queries. offsets: where the rows of each begin, counted from any number."""
        for name, kind in ROWS.items():
            self._files[name].write(columns[name][flags].astype(kind, copy=False).tobytes())
        self._ends += (self.count + np.cumsum(sums(flags, offsets))).tolist()
        self.count = self._ends[-1]


def finish_selection(
    directory: Path,
    rows: RowWriter,
    facts: Mapping[str, Any],
    *,
    documents: np.ndarray,
    ranks: np.ndarray,
    similar: np.ndarray,
) -> None:
    """Write the other files, after all rows are written and closed. similar: ranks, in any order."""
    for name, values, kind in (
        (DOCUMENTS, documents, INTEGER),
        (RANKS, ranks, RANK),
        (SIMILAR, np.sort(similar), RANK),
    ):
        (directory / name).write_bytes(values.astype(kind).tobytes())
    write_facts(directory, {**facts, "documents": len(documents), "rows": rows.count, "similar": len(similar)})


def write_facts(directory: Path, facts: Mapping[str, Any]) -> None:
    write_json(directory / FACTS, {"version": _VERSION, **facts})


def write_queries(directory: Path, queries: Sequence[Query]) -> None:
    columns = {
        name: pa.array([query[place] for query in queries], pa.string()) for place, name in enumerate(("id", "text"))
    }
    table = pa.table(columns)
    with pa.OSFile(str(directory / QUERIES), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 13)


def read_facts(path: Path) -> dict[str, Any]:
    file = path / FACTS
    if not file.is_file() and (path / MANIFEST).exists():
        check_manifest(path, names=(FACTS,))
    if not file.is_file():
        raise ValueError(f"{path} contains no selection: it has no {FACTS}. Create one with `acclimate data retrieve`")
    if (path / MANIFEST).exists():  # while the selection is being written there is none
        check_manifest(path, names=(FACTS,))
    facts: dict[str, Any] = read_json(file)
    if facts.get("version") != _VERSION:
        raise ValueError(f"{file}: format {facts.get('version')}, but this release reads {_VERSION}. Retrieve again")
    return facts


def sums(flags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return (n,) how many flags are set between each of the n + 1 offsets; the first offset may be any number."""
    until = np.concatenate([[0], np.cumsum(flags)])
    return np.diff(until[offsets - offsets[0]])


def map_numbers(file: Path, kind: np.dtype[Any], count: int) -> np.ndarray:
    size = file.stat().st_size if file.is_file() else -1
    if size != count * kind.itemsize:
        raise ValueError(
            f"{file} does not have {count * kind.itemsize:,} bytes. Remove {file.parent}, and retrieve again"
        )
    # numpy cannot map an empty file; a plain array, because indexing numpy's memmap class costs microseconds
    return np.asarray(np.memmap(file, kind, "r")) if count else np.empty(0, kind)
