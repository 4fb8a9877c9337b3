"""The loops of `retrieval` that find words and number them, compiled by numba like those of `overlap_kernels`.

A word is a run of code points that a table `fold` (U+0000 to U+10FFFF, uint32) does not map to 0; what it maps them to
is the word's spelling, kept in UTF-8. Words are found by hash and compared by spelling, so no two are ever mixed up.

A function is called for a text, never for a word: each call counts references to its arrays, which takes longer than to
read a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import ZERO, compiled, mix, part

_PER_CHARACTER, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(1)


@part
def spell(data: Any, first: int, last: int, fold: Any, spellings: Any, ends: Any, values: Any) -> int:
    """Spell the words of the UTF-8 text data[first:last] one after the other; how many there are.

    ends    where word w begins (ends[w]) and ends (ends[w + 1]) in `spellings`
    values  the words' hashes
    """
    count, begin, end, value, place = 0, 0, 0, ZERO, first
    ends[0] = 0
    while place <= last:
        if place == last:  # as if a character that belongs to no word followed
            symbol = np.uint32(0)
            place += 1
        else:
            lead = np.uint32(data[place])
            if lead < 0x80:
                symbol = fold[lead]
                place += 1
            else:
                if lead < 0xE0:
                    point, size = ((lead & 0x1F) << 6) | (data[place + 1] & 0x3F), 2
                elif lead < 0xF0:
                    point, size = ((lead & 0x0F) << 12) | ((data[place + 1] & 0x3F) << 6) | (data[place + 2] & 0x3F), 3
                else:
                    point = ((lead & 0x07) << 18) | ((data[place + 1] & 0x3F) << 12)
                    point, size = point | ((data[place + 2] & 0x3F) << 6) | (data[place + 3] & 0x3F), 4
                symbol = fold[point]
                place += size
        if symbol == 0:
            if end > begin:
                values[count] = mix(value)
                count += 1
                ends[count] = end
                begin, value = end, ZERO
            continue
        value = (value + np.uint64(symbol)) * _PER_CHARACTER
        if symbol < 0x80:
            spellings[end] = symbol
            end += 1
        elif symbol < 0x800:
            spellings[end], spellings[end + 1] = 0xC0 | (symbol >> 6), 0x80 | (symbol & 0x3F)
            end += 2
        elif symbol < 0x10000:
            spellings[end], spellings[end + 1] = 0xE0 | (symbol >> 12), 0x80 | ((symbol >> 6) & 0x3F)
            spellings[end + 2] = 0x80 | (symbol & 0x3F)
            end += 3
        else:
            spellings[end], spellings[end + 1] = 0xF0 | (symbol >> 18), 0x80 | ((symbol >> 12) & 0x3F)
            spellings[end + 2], spellings[end + 3] = 0x80 | ((symbol >> 6) & 0x3F), 0x80 | (symbol & 0x3F)
            end += 4
    return count


@part
def find_words(
    slots: Any,
    hashes: Any,
    begins: Any,
    spellings: Any,
    words: Any,
    new: Any,
    ends: Any,
    values: Any,
    count: int,
    numbers: Any,
) -> Any:
    """The number in a vocabulary of each of `count` words, -1 where it is not in it; how many words it has then.

    slots, hashes, begins, spellings   the vocabulary: a hash table of numbers + 1, and each word's hash and spelling
    words                 how many it has: words that it lacks are added. -1: none is
    new, ends, values     the words' spellings, where they begin (count + 1), and hashes
    """
    mask = np.uint64(len(slots) - 1)
    for place in range(count):
        value, first = values[place], ends[place]
        size = ends[place + 1] - first
        slot = value & mask
        while True:
            number = np.int64(slots[slot]) - 1
            if number < 0:
                break
            if hashes[number] == value and begins[number + 1] - begins[number] == size:
                begin, at = begins[number], 0
                while at < size and spellings[begin + at] == new[first + at]:
                    at += 1
                if at == size:
                    break
            slot = (slot + _ONE) & mask
        if number < 0 <= words:
            begin, number = begins[words], words
            for at in range(size):
                spellings[begin + at] = new[first + at]
            hashes[number], begins[number + 1] = value, begin + size
            words += 1
            slots[slot] = words
        numbers[place] = number
    return words


@part
def refilled(hashes: Any, words: int, size: int) -> Any:
    """A table of `size` slots with all words in it."""
    slots = np.zeros(size, np.uint32)
    mask = np.uint64(size - 1)
    for word in range(words):
        slot = hashes[word] & mask
        while slots[slot] != 0:
            slot = (slot + _ONE) & mask
        slots[slot] = word + 1
    return slots


@compiled
def number_words(
    slots: Any, hashes: Any, begins: Any, spellings: Any, words: int, new: Any, ends: Any, values: Any, numbers: Any
) -> Any:
    """As `find_words`. The arrays have room for all new words, the slots for twice as many."""
    return find_words(slots, hashes, begins, spellings, words, new, ends, values, len(values), numbers)


@compiled
def refill(hashes: Any, words: int, size: int) -> Any:
    return refilled(hashes, words, size)
