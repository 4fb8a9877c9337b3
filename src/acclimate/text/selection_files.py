"""The files of a selection (text/selection.py): how they are written, a query at a time, and mapped.

In the folder, integers and floats are little-endian:

    selection.json   k, how, counts, hash of the corpus
    documents.bin    (D,) int64 the union's documents, by their number in the corpus
    ranks.bin        (D,) uint16 their best ranks, rising, from 1
    offsets.bin      (Q + 1,) int64 where a query's rows begin
    rows.*.bin       (R,) a row for each document that a query brought, in rank order: documents uint32, ranks uint16,
                     scores float32; 10 bytes a row
    similar.bin      ranks, rising, of documents that were retrieved and dropped for being like a better one
    queries.arrow    (Q,) id and text, as searched for
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from acclimate.core.files import read_json, write_json

FACTS = "selection.json"
OFFSETS, INTEGER, RANK = "offsets.bin", np.dtype("<i8"), np.dtype("<u2")
DOCUMENTS, RANKS, SIMILAR = "documents.bin", "ranks.bin", "similar.bin"
QUERIES = "queries.arrow"
ROWS: dict[str, np.dtype[Any]] = {"documents": np.dtype("<u4"), "ranks": RANK, "scores": np.dtype("<f4")}
_VERSION = 1

Query = tuple[str, str]  # id, text


class Rows:
    """The rows' files in a folder, open for writing."""

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self._directory = directory
        self._ends = [0]
        self._files: dict[str, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Rows:
        for name in ROWS:
            self._files[name] = self._stack.enter_context(open(self._directory / f"rows.{name}.bin", "wb"))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        (self._directory / OFFSETS).write_bytes(np.array(self._ends, INTEGER).tobytes())

    def add(self, documents: np.ndarray, ranks: np.ndarray, scores: np.ndarray) -> None:
        """Of one query."""
        for (name, kind), values in zip(ROWS.items(), (documents, ranks, scores), strict=True):
            self._files[name].write(values.astype(kind).tobytes())
        self.count += len(documents)
        self._ends.append(self.count)

    def add_some(self, columns: dict[str, np.ndarray], kept: np.ndarray, offsets: np.ndarray) -> None:
        """The kept ones of several queries. offsets: where their rows begin, from any place on."""
        for name, kind in ROWS.items():
            self._files[name].write(columns[name][kept].astype(kind, copy=False).tobytes())
        self._ends += (self.count + np.cumsum(sums(kept, offsets))).tolist()
        self.count = self._ends[-1]


def finish(
    directory: Path,
    rows: Rows,
    facts: Mapping[str, Any],
    *,
    documents: np.ndarray,
    ranks: np.ndarray,
    similar: np.ndarray,
) -> None:
    """Write what is known once all rows are written and closed. similar: ranks, in any order."""
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


def facts_of(path: Path) -> dict[str, Any]:
    file = path / FACTS
    if not file.is_file():
        raise ValueError(f"{path} holds no selection: it has no {FACTS}. Make one with `acclimate retrieve`")
    facts: dict[str, Any] = read_json(file)
    if facts.get("version") != _VERSION:
        raise ValueError(f"{file}: format {facts.get('version')}, but this release reads {_VERSION}. Retrieve anew")
    return facts


def sums(kept: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n,) how many are kept between each of the n + 1 offsets, which count from any place on."""
    until = np.concatenate([[0], np.cumsum(kept)])
    return np.diff(until[offsets - offsets[0]])


def mapped(file: Path, kind: np.dtype[Any], count: int) -> np.ndarray:
    found = file.stat().st_size if file.is_file() else -1
    if found != count * kind.itemsize:
        raise ValueError(
            f"{file} does not have its {count * kind.itemsize:,} bytes. Remove {file.parent}; retrieve anew"
        )
    # numpy maps no empty file; a plain array, for indexing numpy's memmap class costs microseconds
    return np.asarray(np.memmap(file, kind, "r")) if count else np.empty(0, kind)
