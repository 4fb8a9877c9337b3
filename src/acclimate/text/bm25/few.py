"""BM25 over at most BLOCK texts in Python and NumPy, while compiling would take longer than searching.

The index has the bytes that the loops of words.py and postings.py write, and a search finds what that of search.py
does: each score is the same sum, in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from acclimate.text.bm25.postings import (
    BLOCK,
    COARSE,
    FINE,
    FREQUENT,
    GROUP,
    LARGE,
    LARGE_CELL,
    LEAST_NORM,
    Arrays,
    Formula,
)
from acclimate.text.bm25.words import analysed_words
from acclimate.text.overlap.sketches import code_points, word_hashes

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 20_000_000  # characters that a process reads by Python, of documents and queries
FEW_PAIRS = 100_000_000  # (query, document) pairs, and those of words and documents, that a process reads by NumPy
_READ = {"characters": 0, "pairs": 0}  # so far


def take(unit: str, amount: int, most: int) -> bool:
    """Return whether this process reads so much by NumPy: as long as it has read at most `most` so far."""
    few = _READ[unit] + amount <= most
    _READ[unit] += amount if few else 0
    return few


def few_texts(columns: Iterable[pa.StringArray], documents: int) -> tuple[list[str] | None, Iterable[pa.StringArray]]:
    """Return all texts if they are few, else None; and the columns."""
    held: list[pa.StringArray] = []
    columns, size = iter(columns), 0
    for column in columns if documents <= BLOCK else ():
        held.append(column)
        size += column.nbytes
        if size > FEW:
            break
    else:
        if documents <= BLOCK and take("characters", size, FEW):
            return [text for column in held for text in column.to_pylist()], ()
    return None, chain(held, columns)


def write_few(texts: Sequence[str], directory: Path, analyzer: str, k1: float, b: float) -> dict[str, int]:
    """Do what `build.write_index` does, for at most BLOCK texts."""
    numbers: dict[str, int] = {}
    words = [
        np.array([numbers.setdefault(word, len(numbers)) for word in analysed_words(analyzer, text)], np.int64)
        for text in texts
    ]
    documents, lengths = len(texts), np.array([len(of_text) for of_text in words], np.uint32)
    owners = np.repeat(np.arange(documents), lengths)
    keys, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *words]) * BLOCK + owners, return_counts=True)
    word, document = keys // BLOCK, keys % BLOCK
    frequencies = np.bincount(word, minlength=len(numbers))
    formula = Formula(k1, b, len(owners) / max(documents, 1))
    saturations = saturation(counts, lengths[document], formula)
    often = frequencies * FREQUENT > documents
    rare, frequent = ~often[word], np.flatnonzero(often)
    rows, width = np.searchsorted(frequent, word[~rare]), -(-documents // GROUP) * GROUP
    places, in_rows, in_postings = rows * width + document[~rare], counts[~rare], counts[rare]
    bounds, cells = np.zeros(len(frequent) * width, np.uint8), np.zeros(len(frequent) * width, np.uint8)
    bounds[places] = _bounds(saturations[~rare], COARSE)
    cells[places] = np.minimum(in_rows, LARGE_CELL)
    held = frequencies[~often]
    tagged = (document[rare] << 16) | (_bounds(saturations[rare], FINE) << 4) | np.minimum(in_postings, LARGE)
    spelled = [word.encode("utf-8", "surrogatepass") for word in numbers]
    hashes = _hashes(list(numbers))
    slots = _slots(hashes)
    arrays = {
        "lengths": lengths,
        "frequencies": frequencies.astype(np.uint32),
        "entry_begins": np.cumsum([0, *~often]),
        "blocks": np.zeros(len(held), np.uint32),
        "begins": np.cumsum([0, *held]),
        "postings": tagged.astype(np.uint32),
        "large_at": np.flatnonzero(in_postings >= LARGE),
        "large": in_postings[in_postings >= LARGE].astype(np.uint32),
        "frequent": frequent.astype(np.uint32),
        "greatest": bounds.reshape(len(frequent), width).max(1, initial=0),
        "bounds": bounds,
        "peaks": bounds.reshape(-1, GROUP).max(1, initial=0),
        "cells": cells,
        "large_cells_at": places[in_rows >= LARGE_CELL],
        "large_cells": in_rows[in_rows >= LARGE_CELL].astype(np.uint32),
        "slots": slots,
        "hashes": hashes,
        "word_begins": np.cumsum([0, *map(len, spelled)]),
        "spellings": np.frombuffer(b"".join(spelled), np.uint8),
    }
    for name, array in arrays.items():
        array.tofile(directory / f"{name}.bin")
    sizes = {"documents": documents, "tokens": len(owners), "words": len(numbers), "frequent": len(frequent)}
    sizes |= {"spelling": len(arrays["spellings"]), "slots": len(slots), "postings": len(in_postings)}
    sizes |= {"entries": len(held), "large": len(arrays["large"]), "large_cells": len(arrays["large_cells"])}
    return sizes | {"groups": -(-documents // GROUP)}


def saturation(counts: np.ndarray, lengths: np.ndarray, formula: Formula) -> np.ndarray:
    """Return what postings.py returns of words that occur so often in documents of so many words, float64."""
    relative = formula.b * np.maximum(lengths, 1.0) / formula.average
    return np.asarray(counts / (counts + np.maximum(formula.k1 * (1 - formula.b + relative), LEAST_NORM)))


def _bounds(saturations: np.ndarray, steps: int) -> np.ndarray:
    return np.asarray(np.clip(np.ceil(saturations * steps), 1, steps), np.int64)


def _hashes(words: list[str]) -> np.ndarray:
    """Return the hashes of words.py."""
    symbols, begins = code_points(words)
    return word_hashes(symbols, begins[:-1], begins[1:] - 1)


def _slots(hashes: np.ndarray) -> np.ndarray:
    """Return the hash table of words.py."""
    size = 1 << (2 * len(hashes) + 1).bit_length()
    slots = [0] * size
    for number, first in enumerate((hashes & np.uint64(size - 1)).tolist(), 1):
        slot = first
        while slots[slot]:
            slot = (slot + 1) & (size - 1)
        slots[slot] = number
    return np.array(slots, np.uint32)


def read_few(
    queries: Sequence[str], analyzer: str, numbers: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what `words.read_queries` does. numbers: the vocabulary"""
    counted = [
        {numbers[word]: count for word, count in Counter(analysed_words(analyzer, query)).items() if word in numbers}
        for query in queries
    ]
    words = np.array([word for counts in counted for word in counts], np.uint32)
    counts = np.array([count for counts in counted for count in counts.values()], np.uint32)
    return np.cumsum([0, *map(len, counted)]), words, counts


def search_few(
    arrays: Arrays, formula: Formula, k: int, word_begins: np.ndarray, words: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what `search.search_queries` does, and what it counts. word_begins: of these queries"""
    parts: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    hits, read = [(np.zeros(0, np.uint32), np.zeros(0, np.float32))], 0
    for word in np.unique(words[word_begins[0] : word_begins[-1]]).tolist():
        documents, counts = postings_of(arrays, word)
        parts[word] = documents, saturation(counts, arrays.lengths[documents], formula)
    scored = 0
    for begin, end in zip(word_begins[:-1].tolist(), word_begins[1:].tolist(), strict=True):
        added = [
            (parts[word][0], weight * parts[word][1])
            for word, weight in zip(words[begin:end].tolist(), weights[begin:end].tolist(), strict=True)
        ]
        if not added:
            hits.append(hits[0])
            continue
        together = np.concatenate([documents for documents, _ in added])
        scores = np.bincount(together, np.concatenate([part for _, part in added]))  # adds in this order
        shared = np.flatnonzero(scores)
        rounded = scores[shared].astype(np.float32)
        read, scored = read + len(together), scored + len(shared)
        if len(shared) > k:
            best = rounded >= np.partition(rounded, len(shared) - k)[len(shared) - k]
            shared, rounded = shared[best], rounded[best]
        order = np.argsort(-rounded, kind="stable")[:k]
        hits.append((shared[order].astype(np.uint32), rounded[order]))
    sizes = np.array([len(documents) for documents, _ in hits[1:]], np.int64)
    documents, values = map(np.concatenate, zip(*hits, strict=True))
    return sizes, documents, values, np.array([read, 0, scored])


def parts_of_score(
    arrays: Arrays, formula: Formula, words: np.ndarray, weights: np.ndarray, document: int
) -> dict[int, float]:
    """Return the words that the document contains, and each one's part of its score."""
    parts = {}
    for word, weight in zip(words.tolist(), weights.tolist(), strict=True):
        documents, counts = postings_of(arrays, word)
        place = slice(*np.searchsorted(documents, [document, document + 1]))
        for part in saturation(counts[place], arrays.lengths[documents[place]], formula).tolist():
            parts[word] = weight * part
    return parts


def postings_of(arrays: Arrays, word: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the documents that contain the word, int64, ascending, and how often each does."""
    row = int(np.searchsorted(arrays.frequent, word))
    if row == len(arrays.frequent) or arrays.frequent[row] != word:
        entries = slice(arrays.entry_begins[word], arrays.entry_begins[word + 1])
        begins = arrays.begins[entries.start : entries.stop + 1]
        postings = arrays.postings[begins[0] : begins[-1]]
        starts = np.repeat(arrays.blocks[entries].astype(np.int64) * BLOCK, np.diff(begins))
        counts = (postings & np.uint32(LARGE)).astype(np.int64)
        at = begins[0] + np.flatnonzero(counts == LARGE)
        counts[at - begins[0]] = arrays.large[np.searchsorted(arrays.large_at, at)]
        return starts + (postings >> np.uint32(16)), counts
    documents, begin = len(arrays.lengths), 0
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, documents, BLOCK):
        width = min(BLOCK, -(-(documents - start) // GROUP) * GROUP)  # as `width_of`
        first = begin + row * width
        cells = arrays.cells[first : first + width]
        places = np.flatnonzero(cells)
        counts = cells[places].astype(np.int64)
        at = first + places[counts == LARGE_CELL]
        counts[counts == LARGE_CELL] = arrays.large_cells[np.searchsorted(arrays.large_cells_at, at)]
        parts.append((start + places, counts))
        begin += len(arrays.frequent) * width
    columns = zip(*parts, strict=True)
    places, counts = map(np.concatenate, columns)
    return places, counts
