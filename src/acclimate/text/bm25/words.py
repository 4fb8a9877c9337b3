"""How `retrieval` makes words of a text, by name, and the UTF-8 that its compiled loops take."""

from __future__ import annotations

import difflib
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.text.overlap.kernels import ZERO, compiled, longest_of, mix, part

if TYPE_CHECKING:
    import pyarrow as pa

    from acclimate.text.overlap.search import Packed


ANALYZERS = {
    "words": r"re.findall(r'\w+', text.lower())",
    "cased": r"re.findall(r'\w+', text)",
}
UNICODE = unicodedata.unidata_version  # whose letters Python knows; an index is searched with those it was built with
_SPECIAL = ("\u03a3".encode(), "\u0130".encode())  # lower case depends on the neighbours, or is two characters


def check_analyzer(name: str) -> None:
    """Raises ValueError where there is no such analyzer."""
    if name not in ANALYZERS:
        near = difflib.get_close_matches(name, ANALYZERS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no analyzer {name!r}; there are {', '.join(map(repr, ANALYZERS))}.{meant}")


def words_of(analyzer: str, text: str) -> list[str]:
    """Return the definition, which the compiled loops follow."""
    check_analyzer(analyzer)
    return re.findall(r"\w+", text.lower() if analyzer == "words" else text)


@cache
def fold_of(analyzer: str) -> np.ndarray:
    """(1,114,112,) uint32: each code point's spelling, 0 where it belongs to no word."""
    check_analyzer(analyzer)
    if analyzer == "words":
        from acclimate.text.overlap.search import fold

        return fold()
    points = "".join(map(chr, range(sys.maxunicode + 1)))
    found = np.zeros(len(points), np.uint32)
    for run in re.finditer(r"\w+", points):
        found[run.start() : run.end()] = np.arange(run.start(), run.end())
    return found


def packed_texts(analyzer: str, texts: Sequence[str]) -> Packed:
    """UTF-8 of all texts, lowered where that depends on more than a character."""
    from acclimate.text.overlap.search import Packed, pack

    if analyzer == "words":
        return pack(texts)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    begins = np.concatenate([[0], np.cumsum([len(each) for each in encoded])]).astype(np.int64)
    return Packed(np.frombuffer(b"".join(encoded), np.uint8), begins)


def packed_column(analyzer: str, column: pa.StringArray) -> Packed:
    """Return the same of an Arrow column, without making strings of it as a rule."""
    from acclimate.text.overlap.search import Packed

    _, offsets, content = column.buffers()
    begins = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8)[begins[0] : begins[-1]] if content is not None else np.empty(0, np.uint8)
    if analyzer == "words" and any(data.tobytes().find(each) >= 0 for each in _SPECIAL):
        return packed_texts(analyzer, column.to_pylist())
    return Packed(data, begins - begins[0])


def batches(columns: Iterable[pa.StringArray], size: int, block: int) -> Iterator[list[pa.StringArray]]:
    """Columns cut and gathered to about `size` bytes; a batch ends where `block` texts are full."""
    gathered: list[pa.StringArray] = []
    texts = held = 0  # texts from the first on; bytes gathered
    for column in columns:
        place = 0
        while place < len(column):
            taken = column.slice(place, min(len(column) - place, block - texts % block))
            gathered.append(taken)
            place, texts, held = place + len(taken), texts + len(taken), held + taken.nbytes
            if held >= size or texts % block == 0:
                yield gathered
                gathered, held = [], 0
    if gathered:
        yield gathered


# The loops of `retrieval` that find words and number them, compiled by numba like those of overlap/kernels.py.
#
# A word is a run of code points that a table `fold` (U+0000 to U+10FFFF, uint32) does not map to 0; what it maps them
# to is the word's spelling, kept in UTF-8. Words are found by hash and compared by spelling, so no two are ever mixed
# up.
#
# A function is called for a text, never for a word: each call counts references to its arrays, which takes longer than
# to read a word.

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
    """Return the number in a vocabulary of each of `count` words, -1 where it is not in it; how many words it has then.

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
    """Return a table of `size` slots with all words in it."""
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
    """Do what `find_words` does. The arrays have room for all new words, the slots for twice as many."""
    return find_words(slots, hashes, begins, spellings, words, new, ends, values, len(values), numbers)


@compiled
def refill(hashes: Any, words: int, size: int) -> Any:
    return refilled(hashes, words, size)


# The loops of `retrieval` that count the words of texts, compiled by numba like those of overlap/kernels.py.


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
    """Return the pairs word after word: (texts, counts)."""
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
    """Return an inverted index of D texts in UTF-8, at most 65,536; W different words in the order in which they first
    occur.

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
    """Return the different words of each of Q texts that are in the vocabulary, in the order in which they first occur.

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
