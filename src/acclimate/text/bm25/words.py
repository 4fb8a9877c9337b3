"""How BM25 splits texts into words, and the compiled loops that number and count the words.

A word is one of `scripts.divided_words`. The table `fold` (U+0000 to U+10FFFF, uint32) maps a code point to its
spelling in a word, or to 0 between words. Words are kept in UTF-8. The loops look words up by hash and then compare
their spellings, so two words are never confused.

Each loop is called for a whole text: a call counts references to its arrays, which takes longer than reading a word.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core.compiled import compiled, mix, part
from acclimate.text.overlap.kernels import MARK, SINGLE, SKIPPED, ZERO, longest_text
from acclimate.text.overlap.sketches import ONE, PER_CHARACTER
from acclimate.text.scripts import SIGNS, divided_words, plain

if TYPE_CHECKING:
    import pyarrow as pa

    from acclimate.text.overlap.search import Packed

ANALYZERS = {
    "words": "scripts.divided_words(scripts.plain(text))",
    "cased": "scripts.divided_words(scripts.plain(text, lower=False))",
}
UNICODE = unicodedata.unidata_version  # decides what is a letter; an index is searched with the version that built it


def check_analyzer(name: str) -> None:
    """Raise ValueError if no analyzer has this name."""
    if name not in ANALYZERS:
        near = difflib.get_close_matches(name, ANALYZERS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no analyzer is named {name!r}. Choose one of {', '.join(map(repr, ANALYZERS))}.{meant}")


def analysed_words(analyzer: str, text: str) -> list[str]:
    """Return the words of a text by the analyzer's definition, which the compiled loops follow."""
    check_analyzer(analyzer)
    return divided_words(plain(text, lower=analyzer == "words"))


def fold_of(analyzer: str) -> np.ndarray:
    """Return (1,114,112,) uint32: how each code point is spelled in a word, or 0 if it is not part of a word."""
    from acclimate.text.overlap.search import folding_table

    check_analyzer(analyzer)
    return folding_table(divided=True, lower=analyzer == "words")


def packed_texts(analyzer: str, texts: Sequence[str]) -> Packed:
    """Return the texts in UTF-8; made plain here only if that depends on more than one character."""
    from acclimate.text.overlap.search import pack_texts

    return pack_texts(texts, lower=analyzer == "words")


def packed_column(analyzer: str, column: pa.StringArray) -> Packed:
    """Return `packed_texts` of an Arrow column, usually straight from its buffers."""
    from acclimate.text.overlap.search import Packed

    _, offsets, values = column.buffers()
    begins = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(values, np.uint8)[begins[0] : begins[-1]] if values is not None else np.empty(0, np.uint8)
    content = data.tobytes()
    if any(sign in content for sign in SIGNS):
        return packed_texts(analyzer, column.to_pylist())
    return Packed(data, begins - begins[0])


def column_batches(columns: Iterable[pa.StringArray], size: int, block: int) -> Iterator[list[pa.StringArray]]:
    """Cut and gather the columns into batches of about `size` bytes; none crosses a multiple of `block` texts."""
    gathered: list[pa.StringArray] = []
    texts = held = 0  # texts so far in all batches; bytes in this one
    for column in columns:
        place = 0
        while place < len(column):
            piece = column.slice(place, min(len(column) - place, block - texts % block))
            gathered.append(piece)
            place, texts, held = place + len(piece), texts + len(piece), held + piece.nbytes
            if held >= size or texts % block == 0:
                yield gathered
                gathered, held = [], 0
    if gathered:
        yield gathered


@compiled
def invert(data: Any, text_begins: Any, fold: Any) -> Any:
    """Return an inverted index of D texts in UTF-8 (at most 65,536) with W different words, in order of occurrence.

    It consists of these arrays:
    hashes     (W,) uint64
    begins     (W + 1,) int64 where each word's spelling begins in
    spellings  uint8
    sizes      (W,) int64 how many texts contain the word
    places     uint16 those texts, ascending, word after word
    counts     uint32 how often the word occurs in each of them
    lengths    (D,) uint32 words of each text
    """
    texts, size, longest = len(text_begins) - 1, text_begins[-1] - text_begins[0], longest_text(text_begins)
    # lower case is at most half as long again in UTF-8 (U+023A)
    spelled, spellings = np.empty(longest + longest // 2 + 8, np.uint8), np.empty(size + size // 2 + 8, np.uint8)
    ends, values = np.empty(longest // 2 + 2, np.int64), np.empty(longest // 2 + 2, np.uint64)
    numbers = np.empty(longest // 2 + 2, np.int64)
    room, words, pairs = 1 << 13, 0, 0
    slots, hashes, begins = np.zeros(2 * room, np.uint32), np.empty(room, np.uint64), np.zeros(room + 1, np.int64)
    last_texts, where, sizes = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64)
    pair_words, pair_counts = np.empty(size // 2 + texts, np.uint32), np.empty(size // 2 + texts, np.uint32)
    pair_begins, lengths = np.zeros(texts + 1, np.int64), np.zeros(texts, np.uint32)
    for text in range(texts):
        count = spell(data, text_begins[text], text_begins[text + 1], fold, spelled, ends, values)
        if words + count > room:
            while words + count > room:
                room *= 2
            slots, hashes, begins = refilled(hashes, words, 2 * room), longer(hashes, room), longer(begins, room + 1)
            last_texts, where, sizes = longer(last_texts, room), longer(where, room), longer(sizes, room)
        words = find_words(slots, hashes, begins, spellings, words, spelled, ends, values, count, numbers)
        pairs = count_in_documents(numbers, count, text, last_texts, where, sizes, pair_words, pair_counts, pairs)
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
    """Look up the different words of each of Q texts in the vocabulary; words that it lacks are left out.

    Returns where each text's words begin (Q + 1), the words' numbers in the order in which they first occur, and how
    often each occurs in its text.
    """
    texts, size, longest = len(text_begins) - 1, text_begins[-1] - text_begins[0], longest_text(text_begins)
    spelled = np.empty(longest + longest // 2 + 8, np.uint8)
    ends, values = np.empty(longest // 2 + 2, np.int64), np.empty(longest // 2 + 2, np.uint64)
    numbers = np.empty(longest // 2 + 2, np.int64)
    room = len(hashes)
    last_texts, where, sizes = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64)
    word_begins, pairs = np.zeros(texts + 1, np.int64), 0
    words, counts = np.empty(size // 2 + texts, np.uint32), np.empty(size // 2 + texts, np.uint32)
    for text in range(texts):
        count = spell(data, text_begins[text], text_begins[text + 1], fold, spelled, ends, values)
        find_words(slots, hashes, begins, spellings, -1, spelled, ends, values, count, numbers)
        pairs = count_in_documents(numbers, count, text, last_texts, where, sizes, words, counts, pairs)
        word_begins[text + 1] = pairs
    return word_begins, words[:pairs].copy(), counts[:pairs].copy()


@compiled
def number_hashes(
    slots: Any, hashes: Any, begins: Any, spellings: Any, words: int, new: Any, ends: Any, values: Any, numbers: Any
) -> Any:
    """Call `find_words`. The arrays must have room for all new words, the slots for twice as many."""
    return find_words(slots, hashes, begins, spellings, words, new, ends, values, len(values), numbers)


@compiled
def refill(hashes: Any, words: int, size: int) -> Any:
    return refilled(hashes, words, size)


@part
def spell(data: Any, first: int, last: int, fold: Any, spellings: Any, ends: Any, values: Any) -> int:
    """Write the words of the UTF-8 text data[first:last] one after the other; return their number.

    ends    where word w begins (ends[w]) and ends (ends[w + 1]) in `spellings`
    values  the words' hashes
    """
    count, begin, end, value, place = 0, 0, 0, ZERO, first
    single, single_value = -1, ZERO  # where the last SINGLE with its marks ended in `data`, and its hash so far
    ends[0] = 0
    while place <= last:
        if place == last:  # end the last word, as a character between words would
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
                if symbol >= MARK:  # as `normalise` does
                    place += size
                    if symbol == SKIPPED:
                        single = place if single == place - size else single
                        continue
                    attached = symbol < SINGLE and single == place - size
                    if attached:  # its word is open again
                        count -= 1
                        begin, value = ends[count], single_value
                    elif symbol >= SINGLE and end > begin:
                        values[count] = mix(value)
                        count += 1
                        ends[count] = end
                        begin, value = end, ZERO
                    closes = attached or symbol >= SINGLE
                    symbol &= ~(SINGLE | MARK)
                    value = (value + np.uint64(symbol)) * PER_CHARACTER
                    end = write(symbol, spellings, end)
                    if closes:
                        values[count] = mix(value)
                        count += 1
                        ends[count] = end
                        single, single_value = place, value
                        begin, value = end, ZERO
                    continue
                place += size
        if symbol == 0:
            if end > begin:
                values[count] = mix(value)
                count += 1
                ends[count] = end
                begin, value = end, ZERO
            continue
        value = (value + np.uint64(symbol)) * PER_CHARACTER
        if symbol < 0x80:
            spellings[end] = symbol
            end += 1
        else:
            end = write(symbol, spellings, end)
    return count


@part
def write(symbol: Any, spellings: Any, end: int) -> int:
    """Write a code point from U+0080 on in UTF-8; return where it ends."""
    if symbol < 0x800:
        spellings[end], spellings[end + 1] = 0xC0 | (symbol >> 6), 0x80 | (symbol & 0x3F)
        return end + 2
    if symbol < 0x10000:
        spellings[end], spellings[end + 1] = 0xE0 | (symbol >> 12), 0x80 | ((symbol >> 6) & 0x3F)
        spellings[end + 2] = 0x80 | (symbol & 0x3F)
        return end + 3
    spellings[end], spellings[end + 1] = 0xF0 | (symbol >> 18), 0x80 | ((symbol >> 12) & 0x3F)
    spellings[end + 2], spellings[end + 3] = 0x80 | ((symbol >> 6) & 0x3F), 0x80 | (symbol & 0x3F)
    return end + 4


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
    """Write the number of each of `count` words in a vocabulary to `numbers`; return the size of the vocabulary.

    slots, hashes, begins, spellings   the vocabulary: a hash table of numbers + 1, and each word's hash and spelling
    words                 its size: words that it lacks are added. With -1 it stays as it is, and they get the number -1
    new, ends, values     the words' spellings, where they begin (count + 1), and their hashes
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
            slot = (slot + ONE) & mask
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
    """Return a hash table of `size` slots that holds all words."""
    slots = np.zeros(size, np.uint32)
    mask = np.uint64(size - 1)
    for word in range(words):
        slot = hashes[word] & mask
        while slots[slot] != 0:
            slot = (slot + ONE) & mask
        slots[slot] = word + 1
    return slots


@part
def count_in_documents(
    numbers: Any,
    count: int,
    text: int,
    last_texts: Any,
    where: Any,
    sizes: Any,
    pair_words: Any,
    pair_counts: Any,
    pairs: int,
) -> int:
    """Append the pairs (word, count) of a text, in the order of first occurrence; return the number of pairs.

    last_texts, where   the last text with the word, counted from 1, and the word's pair there
    sizes               how many texts contain the word
    """
    for place in range(count):
        word = numbers[place]
        if word < 0:
            continue
        if last_texts[word] == text + 1:
            pair_counts[where[word]] += 1
        else:
            last_texts[word], where[word] = text + 1, pairs
            sizes[word] += 1
            pair_words[pairs], pair_counts[pairs] = word, 1
            pairs += 1
    return pairs


@part
def sort_pairs(pair_begins: Any, pair_words: Any, pair_counts: Any, sizes: Any, words: int) -> Any:
    """Return the pairs sorted by word, then text, as (texts, counts)."""
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
