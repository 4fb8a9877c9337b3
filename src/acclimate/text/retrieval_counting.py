"""The loops of `retrieval` that count the words of texts, compiled by numba like those of `overlap_kernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import compiled, longest_of, part
from acclimate.text.retrieval_words import find_words, refilled, spell


@part
def count_words(
    numbers: Any,
    count: int,
    text: int,
    seen: Any,
    where: Any,
    sizes: Any,
    pair_words: Any,
    pair_counts: Any,
    pairs: int,
) -> int:
    """Append the pairs (word, times) of a text, in the order in which the words first occur; how many pairs there are.

    seen, where   the last text that had a word, counted from 1, and its pair there
    sizes         how many texts have the word
    """
    for place in range(count):
        word = numbers[place]
        if word < 0:
            continue
        if seen[word] == text + 1:
            pair_counts[where[word]] += 1
        else:
            seen[word], where[word] = text + 1, pairs
            sizes[word] += 1
            pair_words[pairs], pair_counts[pairs] = word, 1
            pairs += 1
    return pairs


@part
def sort_pairs(pair_begins: Any, pair_words: Any, pair_counts: Any, sizes: Any, words: int) -> Any:
    """The pairs word after word: (texts, counts)."""
    places, counts = np.empty(pair_begins[-1], np.uint16), np.empty(pair_begins[-1], np.uint32)
    ends, total = np.empty(words, np.int64), np.int64(0)
    for word in range(words):
        ends[word] = total
        total += sizes[word]
    for text in range(len(pair_begins) - 1):
        for pair in range(pair_begins[text], pair_begins[text + 1]):
            word = pair_words[pair]
            places[ends[word]], counts[ends[word]] = text, pair_counts[pair]
            ends[word] += 1
    return places, counts


@part
def longer(array: Any, size: int) -> Any:
    grown = np.zeros(size, array.dtype)
    grown[: len(array)] = array
    return grown


@compiled
def invert(data: Any, text_begins: Any, fold: Any) -> Any:
    """An inverted index of D texts in UTF-8, at most 65,536; W different words in the order in which they first occur.

    Returns
    hashes     (W,) uint64
    begins     (W + 1,) int64, where each word's spelling begins in
    spellings  uint8
    sizes      (W,) int64 how many texts have the word
    places     uint16 those texts, ascending, word after word
    counts     uint32 how often each has it
    lengths    (D,) uint32 words of each text
    """
    texts, size, longest = len(text_begins) - 1, text_begins[-1] - text_begins[0], longest_of(text_begins)
    # lower case is at most half as long again (U+023A)
    spelled, spellings = np.empty(longest + longest // 2 + 8, np.uint8), np.empty(size + size // 2 + 8, np.uint8)
    ends, values = np.empty(longest // 2 + 2, np.int64), np.empty(longest // 2 + 2, np.uint64)
    numbers = np.empty(longest // 2 + 2, np.int64)
    room, words, pairs = 1 << 13, 0, 0
    slots, hashes, begins = np.zeros(2 * room, np.uint32), np.empty(room, np.uint64), np.zeros(room + 1, np.int64)
    seen, where, sizes = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64)
    pair_words, pair_counts = np.empty(size // 2 + texts, np.uint32), np.empty(size // 2 + texts, np.uint32)
    pair_begins, lengths = np.zeros(texts + 1, np.int64), np.zeros(texts, np.uint32)
    for text in range(texts):
        count = spell(data, text_begins[text], text_begins[text + 1], fold, spelled, ends, values)
        if words + count > room:
            while words + count > room:
                room *= 2
            slots, hashes, begins = refilled(hashes, words, 2 * room), longer(hashes, room), longer(begins, room + 1)
            seen, where, sizes = longer(seen, room), longer(where, room), longer(sizes, room)
        words = find_words(slots, hashes, begins, spellings, words, spelled, ends, values, count, numbers)
        pairs = count_words(numbers, count, text, seen, where, sizes, pair_words, pair_counts, pairs)
        lengths[text], pair_begins[text + 1] = count, pairs
    places, counts = sort_pairs(pair_begins, pair_words, pair_counts, sizes, words)
    return (
        hashes[:words].copy(),
        begins[: words + 1].copy(),
        spellings[: begins[words]].copy(),
        sizes[:words].copy(),
        places,
        counts,
        lengths,
    )


@compiled
def read_queries(data: Any, text_begins: Any, fold: Any, slots: Any, hashes: Any, begins: Any, spellings: Any) -> Any:
    """The different words of each of Q texts that are in the vocabulary, in the order in which they first occur.

    Returns where those of each text begin (Q + 1), the words' numbers, and how often each occurs in its text.
    """
    texts, size, longest = len(text_begins) - 1, text_begins[-1] - text_begins[0], longest_of(text_begins)
    spelled = np.empty(longest + longest // 2 + 8, np.uint8)
    ends, values = np.empty(longest // 2 + 2, np.int64), np.empty(longest // 2 + 2, np.uint64)
    numbers = np.empty(longest // 2 + 2, np.int64)
    known = len(hashes)
    seen, where, sizes = np.zeros(known, np.int64), np.zeros(known, np.int64), np.zeros(known, np.int64)
    word_begins, pairs = np.zeros(texts + 1, np.int64), 0
    words, counts = np.empty(size // 2 + texts, np.uint32), np.empty(size // 2 + texts, np.uint32)
    for text in range(texts):
        count = spell(data, text_begins[text], text_begins[text + 1], fold, spelled, ends, values)
        find_words(slots, hashes, begins, spellings, -1, spelled, ends, values, count, numbers)
        pairs = count_words(numbers, count, text, seen, where, sizes, words, counts, pairs)
        word_begins[text + 1] = pairs
    return word_begins, words[:pairs].copy(), counts[:pairs].copy()
