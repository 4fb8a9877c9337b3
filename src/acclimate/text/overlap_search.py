"""The loops that look for indexed texts in others, compiled like those of `overlap_kernels`.

Hashes only ever find candidates: code points are compared before anything is called equal. Pairs whose sketches agree
are left to the caller to verify.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from acclimate.text.overlap_kernels import (
    BINS,
    GRAM,
    ONE,
    OUT,
    PER_WORD,
    SHINGLE,
    ZERO,
    agreeing,
    band_key,
    compiled,
    find,
    hash_of_text,
    longest_of,
    lowest_bytes,
    mix,
    normalise,
    part,
    read_words,
    same,
    shingles,
    sketch,
)

CANDIDATES = 1000  # pairs of one text, so that a batch of short texts like many others stays small
TO_WORD, BIT = np.uint64(6), np.uint64(63)


class Index(NamedTuple):
    """What `scan` looks for: U texts with G different runs of GRAM words. A table's length is a power of two.

    symbols, text_begins         normalised code points of all texts, and where each begins (U + 1)
    exact_keys, exact_texts      hash table: text hash -> text
    gram_filter                  bits: a run whose bit is 0 is not in the table
    gram_keys, gram_numbers      hash table: run hash -> run
    gram_begins, gram_ends       (G,) where a run stands in `symbols`
    band_keys, band_numbers      hash table: band hash -> band; empty where near-duplicates are not asked for
    band_begins, band_texts      the texts that have a band, band by band
    signatures                   (U, BINS) the lowest byte of every bin
    rows, least                  bins in a band; bins that must agree before a pair is worth a verification
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


@compiled
def number_grams(
    symbols: Any, text_begins: Any, keys: Any, numbers: Any, bits: Any, begins: Any, ends: Any, owners: Any
) -> tuple[int, int]:
    """Number the different runs of GRAM words of all texts; how many there are, and how many places they stand at.

    keys, numbers, bits   the table and the filter, filled here
    begins, ends          (places,) where a run first stands, by its number
    owners                (places, 2) run and text of each place, text by text
    """
    longest = longest_of(text_begins)
    words, word_begins = np.empty(longest // 2 + 2, np.uint64), np.empty(longest // 2 + 2, np.int64)
    found, places = 0, 0
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
            slot, end = find(keys, key), word_begins[word + 1] - 1
            while keys[slot] != ZERO:  # other words of the same hash stand behind one another
                number = numbers[slot]
                length = ends[number] - begins[number] if keys[slot] == key else -1
                if length == end - begin and same(symbols, begin, end, symbols, begins[number]):
                    break
                slot = (slot + 1) & (len(keys) - 1)
            if keys[slot] == ZERO:
                keys[slot], numbers[slot], begins[found], ends[found] = key, found, begin, end
                bit = key >> TO_WORD
                bits[np.int64(bit & np.uint64(len(bits) - 1))] |= ONE << (key & BIT)
                found += 1
            owners[places, 0], owners[places, 1] = numbers[slot], text
            places += 1
    return found, places


@compiled
def fill_table(keys: Any, numbers: Any, entries: Any) -> None:
    """Put each entry into the table under its own number; equal ones stand behind one another."""
    for number in range(len(entries)):
        slot = np.int64(entries[number] & np.uint64(len(keys) - 1))
        while keys[slot] != ZERO:
            slot = (slot + 1) & (len(keys) - 1)
        keys[slot], numbers[slot] = entries[number], number


@compiled
def scan(data: Any, begins: Any, fold: Any, index: Any, exact: Any, hits: Any, pairs: Any) -> Any:
    """Look for the index's texts in D texts; how many hits and pairs there are (those past the arrays' ends get lost).

    data, begins   UTF-8 of all texts, and where each begins (D + 1)
    exact          (D,) the text of the index with the same words, or -1
    hits           (H, 2) text, run of the index; in order of their places
    pairs          (P, 2) text, text of the index whose sketches agree
    """
    longest = longest_of(begins)
    symbols, values = np.empty(longest + 2, np.uint32), np.empty(longest + 2, np.uint64)
    word_begins, signature = np.empty(longest // 2 + 2, np.int64), np.empty(BINS, np.uint64)
    seen = np.zeros(len(index.text_begins), np.int64)  # the last text that was compared, counted from 1
    hit_count, pair_count = np.int64(0), np.int64(0)
    for text in range(len(exact)):
        length = normalise(data, begins[text], begins[text + 1], fold, symbols)
        words = read_words(symbols, 0, length, values, word_begins)
        exact[text] = find_exact(symbols, length, hash_of_text(values, words), index) if words else -1
        hit_count = find_grams(text, symbols, values, word_begins, words, index, hits, hit_count)
        if index.least and length >= SHINGLE:
            sketch(values, shingles(symbols, 0, length, values), signature)
            pair_count = find_near(text, signature, index, seen, pairs, pair_count)
    return hit_count, pair_count


@part
def find_exact(symbols: Any, length: int, key: Any, index: Any) -> Any:
    slot = find(index.exact_keys, key)
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
    text: int, symbols: Any, words: Any, word_begins: Any, count: int, index: Any, hits: Any, found: Any
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
        slot = find(index.gram_keys, key)
        while index.gram_keys[slot] != ZERO:
            number = index.gram_numbers[slot]
            first = index.gram_begins[number]
            equal = index.gram_keys[slot] == key and index.gram_ends[number] - first == end - begin
            if equal and same(symbols, begin, end, index.symbols, first):
                if found < len(hits):
                    hits[found, 0], hits[found, 1] = text, number
                found += 1
                break
            slot = (slot + 1) & (len(index.gram_keys) - 1)
    return found


@part
def find_near(text: int, signature: Any, index: Any, seen: Any, pairs: Any, found: Any) -> Any:
    lowest, told = np.empty(BINS, np.uint8), 0
    lowest_bytes(signature, lowest)
    for band in range(BINS // index.rows):
        slot = find(index.band_keys, band_key(signature, band, index.rows))
        if index.band_keys[slot] == ZERO:
            continue
        number = index.band_numbers[slot]
        for place in range(index.band_begins[number], index.band_begins[number + 1]):
            other = index.band_texts[place]
            if seen[other] == text + 1:
                continue
            seen[other] = text + 1
            if agreeing(lowest, index.signatures[other]) >= index.least:
                if found < len(pairs):
                    pairs[found, 0], pairs[found, 1] = text, other
                found += 1
                told += 1
                if told == CANDIDATES:
                    return found
    return found
