"""How the files of a BM25 index are made of texts, in bounded memory: runs on disk (`retrieval_runs`), then a merge.

In memory are first what `retrieval_runs` says, then some 60 bytes a word and one part of the merge: of the rare words
16 million postings (4 bytes each, 12 more where those of a word and block begin), of the frequent ones 64 MB of rows,
and the pages of the runs that are read for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import Progress, Watch
from acclimate.text.retrieval_postings import BLOCK, FREQUENT, GROUP, Formula, place_cells, place_postings
from acclimate.text.retrieval_runs import RUNS, Counts, Spilled, Vocabulary, append, open_run, power, spill

if TYPE_CHECKING:
    import pyarrow as pa

_PART = 1 << 24  # postings of a part of the merge
_CELLS = 1 << 25  # of the rows that are made at a time; two bytes each


def write_index(
    columns: Iterable[pa.StringArray],
    directory: Path,
    analyzer: str,
    k1: float,
    b: float,
    *,
    threads: int,
    watch: Watch,
    total: int,
) -> dict[str, int]:
    """Write the arrays of `retrieval_postings.Arrays` and of the vocabulary; returns how long they are.

    total  documents, for the watch
    """
    vocabulary, counts = Vocabulary(), Counts()
    spilled = spill(columns, directory, analyzer, vocabulary, counts, threads=threads, watch=watch, total=total)
    documents, words = sum(run.texts for run in spilled), vocabulary.words
    tokens = int(np.fromfile(directory / "lengths.bin", np.uint32).sum(dtype=np.int64))
    frequencies = counts.frequencies[:words]
    frequencies.astype(np.uint32).tofile(directory / "frequencies.bin")
    vocabulary.write(directory)
    formula = Formula(k1, b, tokens / max(documents, 1))
    often = frequencies * FREQUENT > documents
    frequent = np.flatnonzero(often).astype(np.uint32)
    entries, held = np.where(often, 0, counts.entries[:words]), np.where(often, 0, frequencies)
    sizes = {"documents": documents, "tokens": tokens, "words": words, "frequent": len(frequent)}
    sizes |= {"spelling": int(vocabulary.begins[words]), "slots": power(2 * (words + 1))}
    del vocabulary, counts, frequencies
    watch(Progress("index: merge", 0, words, "words"))
    sizes |= _merge(directory, spilled, formula, held, entries, watch)
    sizes |= _rows(directory, spilled, formula, frequent, documents)
    (directory / RUNS).unlink()
    return sizes


def _merge(
    directory: Path, spilled: list[Spilled], formula: Formula, held: np.ndarray, entries: np.ndarray, watch: Watch
) -> dict[str, int]:
    """Write the postings of the rare words, a part of the vocabulary at a time."""
    words, rare = len(held), held > 0
    begins = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
    entry_begins = np.concatenate([[0], np.cumsum(entries)]).astype(np.int64)
    entry_begins.tofile(directory / "entry_begins.bin")
    ends, entry_ends, latest = begins[:-1].copy(), entry_begins[:-1].copy(), np.full(words, -1, np.int64)
    larges = low = 0
    with contextlib.ExitStack() as stack:
        names = ("postings", "blocks", "begins", "large_at", "large")
        files = [stack.enter_context(open(directory / f"{name}.bin", "wb")) for name in names]
        while low < words:
            high = min(max(int(np.searchsorted(begins, begins[low] + _PART, "right")) - 1, low + 1), words)
            postings = np.empty(begins[high] - begins[low], np.uint32)
            blocks = np.empty(entry_begins[high] - entry_begins[low], np.uint32)
            places = np.empty(len(blocks), np.int64)
            large_at, large = np.empty(len(postings), np.int64), np.empty(len(postings), np.uint32)
            found = 0
            for run in spilled:
                found = place_postings(
                    open_run(directory, run), run.first % BLOCK, run.first // BLOCK, formula, rare, low, high,
                    ends, entry_ends, latest, postings, begins[low], blocks, places, entry_begins[low], large_at, large,
                    found,
                )  # fmt: skip
            order = np.argsort(large_at[:found])
            arrays: list[np.ndarray] = [postings, blocks, places, large_at[:found][order], large[:found][order]]
            for file, array in zip(files, arrays, strict=True):
                append(file, array)
            larges, low = larges + found, high
            watch(Progress("index: merge", low, words, "words"))
        append(files[2], begins[-1:])
    return {"postings": int(begins[-1]), "entries": int(entry_begins[-1]), "large": larges}


def _rows(
    directory: Path, spilled: list[Spilled], formula: Formula, frequent: np.ndarray, documents: int
) -> dict[str, int]:
    """Write the rows of the frequent words: a block of documents after the other, in each some rows at a time."""
    greatest, larges = np.zeros(len(frequent), np.uint8), 0
    frequent.tofile(directory / "frequent.bin")
    with contextlib.ExitStack() as stack:
        names = ("bounds", "peaks", "cells", "large_cells_at", "large_cells")
        files = [stack.enter_context(open(directory / f"{name}.bin", "wb")) for name in names]
        for start in range(0, documents, BLOCK):
            width = min(BLOCK, -(-(documents - start) // GROUP) * GROUP)  # `width_of`
            runs = [run for run in spilled if start <= run.first < start + BLOCK]
            most, together = sum(run.postings for run in runs), max(1, _CELLS // width)
            for low in range(0, len(frequent), together):
                part = slice(low, low + together)
                rows = len(frequent[part])
                bounds, cells = np.zeros((rows, width), np.uint8), np.zeros((rows, width), np.uint8)
                peaks = np.zeros((rows, width // GROUP), np.uint8)
                large_at, large, found = np.empty(most, np.int64), np.empty(most, np.uint32), 0
                for run in runs:
                    found = place_cells(
                        open_run(directory, run), run.first - start, formula, frequent[part], greatest[part], bounds,
                        peaks, cells, len(frequent) * start + low * width, large_at, large, found,
                    )  # fmt: skip
                order = np.argsort(large_at[:found])
                arrays: tuple[np.ndarray, ...] = (bounds, peaks, cells, large_at[:found][order], large[:found][order])
                for file, array in zip(files, arrays, strict=True):
                    append(file, array)
                larges += found
    greatest.tofile(directory / "greatest.bin")
    return {"large_cells": larges, "groups": -(-documents // GROUP)}
