"""What queries retrieve from a corpus: the union of their best documents, and which query brought which.

A document's rank in the union is its best rank over the queries. Documents stand in the order of that rank and, where
it is equal, of their number in the corpus. A rank does not depend on how many are asked for, so the selection with a
smaller K is the beginning of the one with a larger: `Selection.cut` searches nothing.

What lies in its folder says text/selection_files.py, how it is made text/selecting.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from acclimate.core.files import check, new_directory
from acclimate.text.selection_files import (
    DOCUMENTS,
    INTEGER,
    OFFSETS,
    QUERIES,
    RANK,
    RANKS,
    ROWS,
    SIMILAR,
    Query,
    Rows,
    facts_of,
    finish,
    mapped,
    sums,
    write_queries,
)

_BLOCK = 1 << 20  # rows that are copied at a time


@dataclass(frozen=True, slots=True)
class Bringing:
    """A query, by its number, that brought a document."""

    query: int
    rank: int
    score: float


@dataclass(frozen=True)
class Selection:
    """The folder that `select` or `draw` wrote, or its first k ranks. Arrays are memory-mapped.

    Raises ValueError on first use where `path` holds no selection, or one of another format version.
    """

    path: Path
    k: int

    def __len__(self) -> int:
        """Documents."""
        return len(self.documents)

    @property
    def how(self) -> str:
        return str(self._facts["how"])

    @property
    def corpus(self) -> str:
        """Hash of the corpus that the documents' numbers are of."""
        return str(self._facts["corpus"])

    @property
    def queries(self) -> int:
        """How many there were; 0 of a random selection."""
        return int(self._facts["queries"])

    @property
    def unhit(self) -> int:
        """Queries of which no word occurs in the corpus."""
        return int(self._facts["unhit"])

    @property
    def similar(self) -> int:
        """Documents that were retrieved too and dropped for being like one that stands before them."""
        return len(self._similar)

    @cached_property
    def documents(self) -> np.ndarray:
        """(D,) int64 numbers in the corpus, from 0, best rank first."""
        return mapped(self.path / DOCUMENTS, INTEGER, self._facts["documents"])[: len(self.ranks)]

    @cached_property
    def ranks(self) -> np.ndarray:
        """(D,) uint16 best ranks, rising, from 1."""
        return self._first(mapped(self.path / RANKS, RANK, self._facts["documents"]))

    def cut(self, k: int) -> Selection:
        """The selection that the same queries with this k make; nothing is searched for or written."""
        if not 1 <= k <= self.k:
            raise ValueError(
                f"k={k}: {self.path} was made with k={self.k}, and only a smaller selection can be cut from it. Give "
                f"1 to {self.k}, or retrieve anew"
            )
        return Selection(self.path, k)

    def query(self, number: int) -> Query:
        """Id and text of a query, as it was searched for."""
        row = self._queries.slice(number, 1).to_pylist()[0]
        return row["id"], row["text"]

    def of(self, query: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Documents (int64), ranks and scores of what a query brought, best first.

        The ranks of documents that were dropped for being like others are missing among the ranks.
        """
        rows = slice(*self._offsets[query : query + 2].tolist())
        kept = len(self._first(self._rows["ranks"][rows]))
        documents, ranks, scores = (self._rows[name][rows][:kept] for name in ROWS)
        return documents.astype(np.int64), ranks, scores

    def counts(self) -> np.ndarray:
        """(Q,) documents that each query brought."""
        parts = [sums(columns["ranks"] <= self.k, offsets) for columns, offsets in self.blocks()]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def brought_by(self, document: int) -> list[Bringing]:
        """The queries that brought a document, best rank first. Looks through all rows, 4 bytes of each."""
        rows = np.flatnonzero(self._rows["documents"] == document)
        queries = np.searchsorted(self._offsets, rows, "right") - 1
        ranks, scores = self._rows["ranks"][rows], self._rows["scores"][rows]
        found = map(Bringing, queries.tolist(), ranks.tolist(), scores.tolist())
        return sorted((each for each in found if each.rank <= self.k), key=lambda each: (each.rank, each.query))

    def blocks(self) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """All rows, of some queries at a time, and where each query's begin among them; ranks over k are there too."""
        first = 0
        while first < self.queries:
            end = int(np.searchsorted(self._offsets, self._offsets[first] + _BLOCK, "right")) - 1
            last = min(max(end, first + 1), self.queries)
            offsets = self._offsets[first : last + 1]
            rows = slice(*offsets[[0, -1]].tolist())
            yield {name: column[rows] for name, column in self._rows.items()}, offsets - offsets[0]
            first = last

    def write(self, path: Path) -> Selection:
        """A copy, without the ranks that were cut off."""
        with new_directory(path) as directory:
            with Rows(directory) as rows:
                for columns, offsets in self.blocks():
                    rows.add_some(columns, columns["ranks"] <= self.k, offsets)
            write_queries(directory, [self.query(number) for number in range(self.queries)])
            facts = {name: self._facts[name] for name in ("how", "corpus", "queries", "unhit")} | {"k": self.k}
            columns = {"documents": self.documents, "ranks": self.ranks, "similar": self._similar}
            finish(directory, rows, facts, **columns)
        return open_selection(path)

    def _first(self, ranks: np.ndarray) -> np.ndarray:
        """Of rising ranks those that are not cut off."""
        return ranks[: np.searchsorted(ranks, self.k, "right")]

    @cached_property
    def _similar(self) -> np.ndarray:
        return self._first(mapped(self.path / SIMILAR, RANK, self._facts["similar"]))

    @cached_property
    def _offsets(self) -> np.ndarray:
        return mapped(self.path / OFFSETS, INTEGER, self.queries + 1)

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        return {name: mapped(self.path / f"rows.{name}.bin", kind, self._facts["rows"]) for name, kind in ROWS.items()}

    @cached_property
    def _queries(self) -> pa.Table:
        with pa.memory_map(str(self.path / QUERIES)) as file, pa.ipc.open_file(file) as reader:
            return reader.read_all()

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return facts_of(self.path)


def open_selection(path: Path) -> Selection:
    """The selection in this folder; all its files are hashed, a gigabyte in half a second to a second.

    Raises ValueError where there is none, or one of another format version, DamagedError where a file is not the one
    written.
    """
    k = int(facts_of(path)["k"])
    check(path)
    return Selection(path, k)
