"""The index of reference texts: `build` makes it, and a compiled loop looks for its texts in others.

`scan_texts` finds them; the caller verifies the pairs whose sketches agree. Hashes only find candidates; code points
decide what is equal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from acclimate.core.compiled import compiled, mix, part
from acclimate.text.overlap.few import CANDIDATES, Grams, ScanResult, grams_of, texts_by_band
from acclimate.text.overlap.kernels import (
    MARK,
    OUT,
    SINGLE,
    SKIPPED,
    ZERO,
    agreeing,
    band_key,
    find_slot,
    hash_of_text,
    longest_text,
    lowest_bytes,
    normalise,
    read_words,
    same,
    shingle_hashes,
    sketch,
    sketch_texts,
)
from acclimate.text.overlap.sketches import BINS, ONE, PER_WORD, Sketches, bins_of_band, least_of, room_for_sketches
from acclimate.text.overlap.words import GRAM, SHINGLE
from acclimate.text.scripts import IGNORED, MARKS, SIGNS, UNSPACED, plain, words_in

TO_WORD, BIT = np.uint64(6), np.uint64(63)
_CAPITAL_SIGMA, _DOTTED_I = "\u03a3", "\u0130"
GramArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Packed(NamedTuple):
    """UTF-8 of all texts, and where each begins (D + 1)."""

    data: np.ndarray
    begins: np.ndarray


class ReferenceIndex(NamedTuple):
    """What `scan_texts` looks for: U texts with G different runs of GRAM words. A table's length is a power of two.

    symbols, text_begins         normalised code points of all texts, and where each begins (U + 1)
    exact_keys, exact_texts      hash table: text hash -> text
    gram_filter                  bits: a run whose bit is 0 is not in the table
    gram_keys, gram_numbers      hash table: run hash -> run
    gram_begins, gram_ends       (G,) where a run stands in `symbols`
    band_keys, band_numbers      hash table: band hash -> band; empty for near = 0
    band_begins, band_texts      the texts that have a band, band by band
    signatures                   (U, BINS) the lowest byte of every bin
    rows, least                  bins in a band; bins that must agree before a pair is verified
    """

    symbols: np.ndarray
    text_begins: np.ndarray
    exact_keys: np.ndarray
    exact_texts: np.ndarray
    gram_filter: np.ndarray
    gram_keys: np.ndarray
    gram_numbers: np.ndarray
    gram_begins: np.ndarray
    gram_ends: np.ndarray
    band_keys: np.ndarray
    band_numbers: np.ndarray
    band_begins: np.ndarray
    band_texts: np.ndarray
    signatures: np.ndarray
    rows: int
    least: int


class ManySearch:
    """What `few.FewSearch` is, with compiled loops, which several threads may run at a time."""

    def __init__(self, texts: Sequence[str], near: float) -> None:
        self._index, self.grams = build(texts, near)

    def look(self, texts: Sequence[str]) -> ScanResult:
        packed, exact = pack_texts(texts), np.empty(len(texts), np.int64)
        hit_room, pair_room = 1 << 12, 1 << 10
        while True:
            hits, pairs = np.empty((hit_room, 2), np.int64), np.empty((pair_room, 2), np.int64)
            hit_count, pair_count = scan_texts(*packed, folding_table(), self._index, exact, hits, pairs)
            if hit_count <= hit_room and pair_count <= pair_room:
                return ScanResult(exact, hits[:hit_count], pairs[:pair_count])
            hit_room, pair_room = max(hit_room, hit_count), max(pair_room, pair_count)

    def run(self, gram: int) -> str:
        """Return the words of a run."""
        points = self._index.symbols[self._index.gram_begins[gram] : self._index.gram_ends[gram]]
        return points.tobytes().decode("utf-32-le", "surrogatepass")


def build(texts: Sequence[str], near: float) -> tuple[ReferenceIndex, Grams]:
    """Return the index of texts, which must be normalised, different and not empty, and who has which run of words."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    # a writable copy, like the arrays of a scan: numba would compile the loops again for a read-only array
    symbols = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).copy()
    hashes, bands, signatures = many_sketches(texts, near)
    exact = _table(len(texts))
    fill_table(*exact, hashes)
    gram_arrays, grams = _number(texts, symbols, begins)
    keys, band_begins, band_texts = texts_by_band(bands)
    banded = _table(len(keys))
    fill_table(*banded, keys)
    rows, least = (bins_of_band(near), least_of(near)) if near else (BINS, 0)
    return ReferenceIndex(
        symbols, begins, *exact, *gram_arrays, *banded, band_begins, band_texts, signatures, rows, least
    ), grams


def _number(texts: Sequence[str], symbols: np.ndarray, begins: np.ndarray) -> tuple[GramArrays, Grams]:
    """Return the index's arrays of runs, and which texts have which run."""
    places = sum(text.count(" ") + 1 for text in texts)
    keys, numbers = _table(places)
    bits = np.zeros(max(len(keys) // 8, 1), np.uint64)  # 8 bits a slot, so at least 16 a run
    first, last = np.zeros(places, np.int64), np.zeros(places, np.int64)
    owners = np.zeros((places, 2), np.int64)
    count = placed = 0
    if texts:
        count, placed = number_grams(symbols, begins, keys, numbers, bits, first, last, owners)
    holders = grams_of(owners[:placed, 0], owners[:placed, 1], count, len(texts))
    return (bits, keys, numbers, first[:count].copy(), last[:count].copy()), holders


@compiled
def number_grams(
    symbols: Any, text_begins: Any, keys: Any, numbers: Any, bits: Any, begins: Any, ends: Any, owners: Any
) -> tuple[int, int]:
    """Number the different runs of GRAM words of all texts; return how many runs and how many places there are.

    keys, numbers, bits   the table and the filter, which this fills
    begins, ends          (places,) where run g first occurs, for each run
    owners                (places, 2) run and text of each place, text by text
    """
    longest = longest_text(text_begins)
    words, word_begins = np.empty(longest // 2 + 2, np.uint64), np.empty(longest // 2 + 2, np.int64)
    grams, places = 0, 0
    for text in range(len(text_begins) - 1):
        count = read_words(symbols, text_begins[text], text_begins[text + 1], words, word_begins)
        value = ZERO
        for word in range(count):
            value = value * PER_WORD + words[word]
            if word >= GRAM:
                value -= words[word - GRAM] * OUT
            if word < GRAM - 1:
                continue
            key, begin = max(mix(value), ONE), word_begins[word - GRAM + 1]
            slot, end = find_slot(keys, key), word_begins[word + 1] - 1
            while keys[slot] != ZERO:  # other words with the same hash follow one another
                number = numbers[slot]
                length = ends[number] - begins[number] if keys[slot] == key else -1
                if length == end - begin and same(symbols, begin, end, symbols, begins[number]):
                    break
                slot = (slot + 1) & (len(keys) - 1)
            if keys[slot] == ZERO:
                keys[slot], numbers[slot], begins[grams], ends[grams] = key, grams, begin, end
                bit = key >> TO_WORD
                bits[np.int64(bit & np.uint64(len(bits) - 1))] |= ONE << (key & BIT)
                grams += 1
            owners[places, 0], owners[places, 1] = numbers[slot], text
            places += 1
    return grams, places


def _table(entries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an empty hash table, at most half of which will be full."""
    size = 2 << max(entries, 1).bit_length()
    return np.zeros(size, np.uint64), np.zeros(size, np.int64)


@compiled
def fill_table(keys: Any, numbers: Any, entries: Any) -> None:
    """Put each entry into the hash table with its number; equal entries follow one another."""
    for number in range(len(entries)):
        slot = np.int64(entries[number] & np.uint64(len(keys) - 1))
        while keys[slot] != ZERO:
            slot = (slot + 1) & (len(keys) - 1)
        keys[slot], numbers[slot] = entries[number], number


@compiled
def scan_texts(data: Any, begins: Any, fold: Any, index: Any, exact: Any, hits: Any, pairs: Any) -> Any:
    """Look for the index's texts in D texts; return the numbers of hits and pairs, of which the arrays hold the first.

    data, begins   UTF-8 of all texts, and where each begins (D + 1)
    exact          (D,) the text of the index with the same words, or -1
    hits           (H, 2) text, run of the index; in order of their places
    pairs          (P, 2) text, text of the index whose sketches agree
    """
    longest = longest_text(begins)
    symbols, values = np.empty(longest + 2, np.uint32), np.empty(longest + 2, np.uint64)
    word_begins, signature = np.empty(longest // 2 + 2, np.int64), np.empty(BINS, np.uint64)
    # the last text, counted from 1, that was compared with each
    last_texts = np.zeros(len(index.text_begins), np.int64)
    hit_count, pair_count = np.int64(0), np.int64(0)
    for text in range(len(exact)):
        length = normalise(data, begins[text], begins[text + 1], fold, symbols)
        words = read_words(symbols, 0, length, values, word_begins)
        key = hash_of_text(values, words)
        exact[text] = find_exact(symbols, length, key, index) if words else -1
        hit_count = find_grams(text, symbols, values, word_begins, words, index, hits, hit_count)
        if index.least and length >= SHINGLE:
            sketch(values, shingle_hashes(symbols, 0, length, values), signature)
            pair_count = find_near(text, key, signature, index, last_texts, pairs, pair_count)
    return hit_count, pair_count


@part
def find_exact(symbols: Any, length: int, key: Any, index: Any) -> Any:
    slot = find_slot(index.exact_keys, key)
    while index.exact_keys[slot] != ZERO:
        text = index.exact_texts[slot]
        begin = index.text_begins[text]
        equal = index.exact_keys[slot] == key and index.text_begins[text + 1] - begin == length
        if equal and same(symbols, 0, length, index.symbols, begin):
            return text
        slot = (slot + 1) & (len(index.exact_keys) - 1)
    return np.int64(-1)


@part
def find_grams(
    text: int, symbols: Any, words: Any, word_begins: Any, count: int, index: Any, hits: Any, hit_count: Any
) -> Any:
    value, filter_mask = ZERO, np.uint64(len(index.gram_filter) - 1)
    for word in range(count):
        value = value * PER_WORD + words[word]
        if word >= GRAM:
            value -= words[word - GRAM] * OUT
        if word < GRAM - 1:
            continue
        key = max(mix(value), ONE)
        if not (index.gram_filter[np.int64((key >> TO_WORD) & filter_mask)] >> (key & BIT)) & ONE:
            continue
        begin, end = word_begins[word - GRAM + 1], word_begins[word + 1] - 1
        slot = find_slot(index.gram_keys, key)
        while index.gram_keys[slot] != ZERO:
            number = index.gram_numbers[slot]
            first = index.gram_begins[number]
            equal = index.gram_keys[slot] == key and index.gram_ends[number] - first == end - begin
            if equal and same(symbols, begin, end, index.symbols, first):
                if hit_count < len(hits):
                    hits[hit_count, 0], hits[hit_count, 1] = text, number
                hit_count += 1
                break
            slot = (slot + 1) & (len(index.gram_keys) - 1)
    return hit_count


@part
def find_near(text: int, key: Any, signature: Any, index: Any, last_texts: Any, pairs: Any, pair_count: Any) -> Any:
    """Note the candidates of one text. Which texts of a band come first depends on the text's hash,
    so where thousands are alike, each text of the index is a candidate of some.
    """
    lowest, candidates = np.empty(BINS, np.uint8), 0
    lowest_bytes(signature, lowest)
    for band in range(BINS // index.rows):
        number = number_of_band(signature, band, index)
        if number < 0:
            continue
        begin, size = index.band_begins[number], index.band_begins[number + 1] - index.band_begins[number]
        first = np.int64(key % np.uint64(size))
        for step in range(size):
            other = index.band_texts[begin + (first + step) % size]
            if last_texts[other] == text + 1:
                continue
            last_texts[other] = text + 1
            if agreeing(lowest, index.signatures[other]) >= index.least:
                if pair_count < len(pairs):
                    pairs[pair_count, 0], pairs[pair_count, 1] = text, other
                pair_count += 1
                candidates += 1
                if candidates == CANDIDATES:
                    return pair_count
    return pair_count


@part
def number_of_band(signature: Any, band: int, index: Any) -> Any:
    """Return the number of a sketch's band, -1 if none of the index's texts has it."""
    slot = find_slot(index.band_keys, band_key(signature, band, index.rows))
    return index.band_numbers[slot] if index.band_keys[slot] != ZERO else np.int64(-1)


def many_sketches(texts: Sequence[str], near: float) -> Sketches:
    """Return what `sketches.few_sketches` returns, by the compiled loop."""
    rows, arrays = room_for_sketches(len(texts), near)
    if texts:
        sketch_texts(*pack_texts(texts), folding_table(), 0, rows, *arrays)
    return arrays


def pack_texts(texts: Sequence[str], *, lower: bool = True) -> Packed:
    """Return the texts in UTF-8, made plain here if that needs more than one character: `folding_table` does the rest.

    lower  False: the case of letters stays
    """
    encoded = []
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        if not text.isascii() and any(sign in content for sign in SIGNS):
            content = plain(text, lower=lower).encode("utf-8", "surrogatepass")
        encoded.append(content)
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(texts)), out=begins[1:])
    return Packed(np.frombuffer(b"".join(encoded), np.uint8), begins)


@cache
def folding_table(*, divided: bool = False, lower: bool = True) -> np.ndarray:
    """Return (1,114,112,) uint32: how each code point is spelled in a word, 0 if it is not part of one.

    divided  True: letters of scripts without spaces have SINGLE added, and marks MARK, for `scripts.divided_words`
    Characters that change no word are SKIPPED.
    """
    points = "".join(map(chr, range(sys.maxunicode + 1)))
    # these two never get here, see `pack_texts`; without them every character has a lower case of one character
    spelled = points.replace(_CAPITAL_SIGMA, "\u03c3").replace(_DOTTED_I, "i").lower() if lower else points
    assert len(spelled) == len(points)
    table = np.zeros(len(points), np.uint32)
    numbers = np.frombuffer(spelled.encode("utf-32-le", "surrogatepass"), np.uint32)
    for run in words_in(spelled).finditer(spelled):
        table[run.start() : run.end()] = numbers[run.start() : run.end()]
    if divided:
        table[UNSPACED] |= SINGLE
        table[MARKS] |= MARK
    table[IGNORED] = SKIPPED
    return table
