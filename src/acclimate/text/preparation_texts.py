"""The documents of all parts of a preparation, by number, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from acclimate.core.types import Document
from acclimate.text.near_duplicates import Sketches, grams, similarity
from acclimate.text.preparation_parts import Part

_OPENED = 8  # parts whose texts are at hand


class Texts:
    """Numbers count from 0 over the parts in their order, as `near_duplicates.Store` has it.

    lengths  (D,) int64 characters; begins  (parts + 1,) the number of each part's first document
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self.lengths = np.concatenate([np.empty(0, np.int64), *(part.array("lengths") for part in parts)])
        self.begins = np.cumsum([0, *(len(part.array("lengths")) for part in parts)])
        # kept open: opening a part for each document would take a millisecond
        self._opened = lru_cache(_OPENED)(lambda part: _Reader(parts[part].path))

    def sketches(self) -> list[Sketches]:
        return self._sketches

    @cached_property
    def _sketches(self) -> list[Sketches]:
        return [part.sketches() for part in self._parts]

    def citations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `superseded` takes them."""
        found = [np.empty((0, 3), np.int64)]
        for part, begin in zip(self._parts, self.begins.tolist(), strict=False):
            own = np.array(part.array("citations"))
            own[own[:, 2] >= 0, 2] += begin
            found.append(own)
        pmids, versions, numbers = np.concatenate(found).T
        return pmids, versions, numbers

    def document(self, number: int) -> Document:
        part = int(np.searchsorted(self.begins, number, side="right")) - 1
        return self._opened(part)(int(number - self.begins[part]))

    def text(self, number: int) -> str:
        return self.document(number).text

    def alike(self, one: int, other: int) -> str:
        return f"{similarity(grams(self.text(one)), grams(self.text(other))):.2f} like {self.document(one).id}"


class _Reader:
    """Documents of a part by number, mapped."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path / "corpus" / "documents.arrow")))
        sizes = [self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches)]
        self._begins = np.cumsum([0, *sizes])

    def __call__(self, number: int) -> Document:
        batch = int(np.searchsorted(self._begins, number, side="right")) - 1
        row = int(number - self._begins[batch])
        columns = self._file.get_batch(batch)
        return Document(*(columns.column(name)[row].as_py() for name in ("id", "text", "source")))
