"""Find texts that repeat an earlier text, exactly or nearly, among more texts than fit into memory.

    exact   the same words in the same order, whatever their case and the punctuation between them.
            Compared by a 64-bit hash, so two different texts are taken for equal with a probability of 2^-64
    near    the sets of runs of GRAM words have a Jaccard similarity of at least `near`. In scripts without spaces each
            letter counts as a word (`scripts.divided_words`). MinHash finds candidates: texts whose sketches of 256
            numbers agree in a whole band (at most one near-duplicate in 2,000 is missed) and in about as many numbers
            as `near` implies. Each candidate is verified on the texts themselves

Within a band, a text is compared with the first COMPARED others only: more texts share a band only if all are alike.
The answer for a text depends only on the texts before it, and not on the order of the work. Sketches lie on disk. One
band at a time is in memory, a part of it at a time if it takes more than is allowed.

Sources: Broder, On the resemblance and containment of documents (1997); Lee et al., Deduplicating training data makes
language models better (ACL 2022), for runs of five words and a similarity of .8; overlap/kernels.py has the sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import numpy as np

from acclimate.text.overlap.sketches import BINS, are_few, bins_of_band, least_of, sketch_words
from acclimate.text.overlap.words import jaccard
from acclimate.text.scripts import divided_words, plain

GRAM = 5  # words
COMPARED = 32  # texts of a band with which a text is compared
A_TEXT = 24  # bytes of memory that a pass takes for each of its texts
_KEPT = 512  # texts whose runs are cached


class Store(Protocol):
    """The sketches of all texts, in any number of parts, and the texts."""

    def sketches(self) -> Sequence[Sketches]: ...

    def text(self, number: int) -> str: ...


class Sketches(NamedTuple):
    """What is kept of D texts.

    hashes      (D,) uint64; 0 for a text without words
    bands       (bands, D) uint64, band by band, since they are read one at a time; 0 for fewer than GRAM words
    signatures  (D, BINS) uint8
    """

    hashes: np.ndarray
    bands: np.ndarray
    signatures: np.ndarray


def sketches(texts: Sequence[str], near: float) -> Sketches:
    """Return the sketches of the texts; with near = 0 only their hashes."""
    size = len(texts) if near else 0
    hashes, bands = np.zeros(len(texts), np.uint64), np.zeros((size, bands_of(near)), np.uint64)
    signatures = np.zeros((size, BINS), np.uint8)
    rows = bins_of_band(near) if near else BINS
    if are_few(texts):
        sketch_words([" ".join(divided_words(plain(text))) for text in texts], GRAM, rows, hashes, bands, signatures)
    elif texts:
        from acclimate.text.overlap.kernels import sketch_texts  # loads numba
        from acclimate.text.overlap.search import folding_table, pack_texts

        sketch_texts(*pack_texts(texts), folding_table(divided=True), GRAM, rows, hashes, bands, signatures)
    return Sketches(hashes, np.ascontiguousarray(bands.T), signatures)


def bands_of(near: float) -> int:
    """Return the number of bands of a sketch; 0 for near = 0."""
    return BINS // bins_of_band(near) if near else 0


def exact_repeats(store: Store, present: np.ndarray, memory: int) -> np.ndarray:
    """Return (D,) int64: the number of the first text with the same words, -1 for that first text itself.

    present  (D,) bool: False for texts to ignore
    memory   bytes that a pass may take, besides 8 for each text
    """
    first = np.full(len(present), -1, np.int64)
    for numbers in _alike(lambda part: part.hashes, store.sketches(), present, memory):
        first[numbers[1:]] = numbers[0]
    return first


def near_repeats(store: Store, present: np.ndarray, near: float, memory: int) -> np.ndarray:
    """Return (D,) int64: the number of an earlier text that is nearly the same, or -1. Arguments: `exact_repeats`."""
    parts = store.sketches()
    begins = np.cumsum([0, *(len(part.hashes) for part in parts)])
    earlier = np.full(len(present), -1, np.int64)
    least = least_of(near)
    failed: set[tuple[int, int]] = set()

    @lru_cache(_KEPT)
    def runs(number: int) -> set[tuple[str, ...]]:
        return grams(store.text(number))

    @lru_cache(COMPARED * 8)
    def signature(number: int) -> np.ndarray:
        part = int(np.searchsorted(begins, number, side="right")) - 1
        return np.asarray(parts[part].signatures[number - begins[part]])

    def same(one: int, other: int) -> bool:
        if (one, other) in failed or int((signature(one) == signature(other)).sum()) < least:
            return False
        if jaccard(runs(one), runs(other)) >= near:
            return True
        if len(failed) < _KEPT * _KEPT:
            failed.add((one, other))
        return False

    for band in range(bands_of(near)):
        for numbers in _alike(partial(_band, band), parts, present, memory):
            for place, number in enumerate(numbers[1:].tolist(), 1):
                if earlier[number] < 0:
                    before = numbers[: min(place, COMPARED)].tolist()
                    earlier[number] = next((one for one in before if same(one, number)), -1)
    return earlier


def grams(text: str) -> set[tuple[str, ...]]:
    """Return the different runs of GRAM words."""
    words = divided_words(plain(text))
    return {tuple(words[place : place + GRAM]) for place in range(len(words) - GRAM + 1)}


def _alike(
    keys_of: Callable[[Sketches], np.ndarray], parts: Sequence[Sketches], present: np.ndarray, memory: int
) -> Iterator[np.ndarray]:
    """Yield the ascending numbers of the texts that share a key, for each key that several texts have.

    Keys are spread evenly over 64 bits, so each pass takes the keys of an equal part of that range.
    """
    passes = max(1, -(-len(present) * A_TEXT // memory))
    width = (1 << 64) // passes + 1
    for turn in range(passes):
        low, high = max(turn * width, 1), min((turn + 1) * width, 1 << 64) - 1  # key 0: the text has none
        keys, numbers, begin = [], [], 0
        for part in parts:
            part_keys = np.asarray(keys_of(part))
            in_range = (
                (part_keys >= np.uint64(low)) & (part_keys <= np.uint64(high)) & present[begin : begin + len(part_keys)]
            )
            keys.append(part_keys[in_range])
            numbers.append(np.flatnonzero(in_range) + begin)
            begin += len(part_keys)
        yield from _runs(np.concatenate([np.empty(0, np.uint64), *keys]), np.concatenate([np.empty(0, int), *numbers]))


def _runs(keys: np.ndarray, numbers: np.ndarray) -> Iterator[np.ndarray]:
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], numbers[order]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, int)
    ends = np.append(begins[1:], len(keys))
    for run in np.flatnonzero(ends - begins > 1).tolist():
        yield numbers[begins[run] : ends[run]]


def _band(row: int, part: Sketches) -> np.ndarray:
    keys: np.ndarray = part.bands[row]
    return keys
