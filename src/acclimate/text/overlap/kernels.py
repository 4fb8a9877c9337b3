"""Compiled loops over characters and words: numba functions on arrays that release Python's global lock.

`sketch_texts` turns each text into normalised code points (`normalise`), a hash for each word (`read_words`) and a
sketch of its runs of characters or words (`sketch`).

Sources: Dahlgaard, Knudsen and Thorup, Fast similarity sketching (FOCS 2017), whose sketch takes one pass over a long
text and still has no empty bins for a short one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.core.compiled import compiled, mix, part
from acclimate.text.overlap.sketches import (
    BINS,
    FIRST,
    MANY,
    NONE,
    ONE,
    PER_CHARACTER,
    PER_WORD,
    POWERS,
    SPACE,
    THIRTY_ONE,
    TO_BIN,
    TO_ROUND,
    VALUE,
    first_of_group,
)
from acclimate.text.overlap.words import GRAM, SHINGLE

OUT = np.uint64(pow(int(PER_WORD), GRAM, 1 << 64))  # removes the word before the window from a rolling hash
_, _C1, _C2, _C3, _C4 = POWERS
ZERO, _BYTE = np.uint64(0), np.uint64(255)
# added to the spelling of a letter that is a word with its marks, and to that of a mark; the spelling of no character
SINGLE, MARK, SKIPPED = np.uint32(1 << 31), np.uint32(1 << 30), np.uint32((1 << 32) - 1)


@compiled
def sketch_texts(
    data: Any, begins: Any, fold: Any, run: int, rows: int, hashes: Any, bands: Any, signatures: Any
) -> None:
    """Write the text hash (0: no words), the band hashes (0: too short) and the bins' lowest bytes of D texts.

    data, begins   UTF-8 of all texts, and where each begins (D + 1)
    run            number of words in a run: a text is the set of its runs; 0: the set of its runs of SHINGLE characters
    rows           bins in a band
    hashes         (D,); bands: (D, bands); signatures: (D, BINS). With 0 rows of both, only hashes are written
    """
    longest = longest_text(begins)
    symbols, values = np.empty(longest + 2, np.uint32), np.empty(longest + 2, np.uint64)
    word_begins, signature = np.empty(longest // 2 + 2, np.int64), np.empty(BINS, np.uint64)
    for text in range(len(hashes)):
        length = normalise(data, begins[text], begins[text + 1], fold, symbols)
        words = read_words(symbols, 0, length, values, word_begins)
        hashes[text] = hash_of_text(values, words) if words else ZERO
        if not len(bands):
            continue
        count = word_runs(values, words, run) if run else shingle_hashes(symbols, 0, length, values)
        if count:
            sketch(values, count, signature)
            for band in range(bands.shape[1]):
                bands[text, band] = band_key(signature, band, rows)
            lowest_bytes(signature, signatures[text])


@part
def normalise(data: Any, first: int, last: int, fold: Any, symbols: Any) -> int:
    """Write the code points of the UTF-8 text data[first:last] as `normalised_words` has them; return their number.

    With a divided table (`folding_table`), the words are those of `scripts.divided_words`.
    """
    count, gap, place, single = 0, False, first, -1  # single: the number of code points behind a SINGLE and its marks
    while place < last:
        byte = np.uint32(data[place])
        if byte < 0x80:
            point, size = byte, 1
        elif byte < 0xE0:
            point, size = ((byte & 0x1F) << 6) | (data[place + 1] & 0x3F), 2
        elif byte < 0xF0:
            point, size = ((byte & 0x0F) << 12) | ((data[place + 1] & 0x3F) << 6) | (data[place + 2] & 0x3F), 3
        else:
            point = ((byte & 0x07) << 18) | ((data[place + 1] & 0x3F) << 12)
            point, size = point | ((data[place + 2] & 0x3F) << 6) | (data[place + 3] & 0x3F), 4
        place += size
        symbol = fold[point]
        if symbol == 0:
            gap, single = count > 0, -1
        elif symbol < MARK:
            if gap:
                symbols[count] = SPACE
                count += 1
                gap = False
            symbols[count] = symbol
            count += 1
        elif symbol != SKIPPED:
            begins = symbol >= SINGLE
            attached = not begins and single == count
            if not attached and (gap or (begins and count > 0)):
                symbols[count] = SPACE
                count += 1
            symbols[count] = symbol & ~(SINGLE | MARK)
            count += 1
            gap = begins or attached
            single = count if gap else -1
    return count


@part
def read_words(symbols: Any, first: int, last: int, words: Any, begins: Any) -> int:
    """Write the hash and the beginning of each word in symbols[first:last]; return their number.

    begins[number] is the end + 1, as if another word followed.
    """
    count, value, begin = 0, ZERO, first
    for place in range(first, last + 1):
        if place == last or symbols[place] == SPACE:
            if place > begin:
                words[count], begins[count] = mix(value), begin
                count += 1
            value, begin = ZERO, place + 1
        else:
            value = (value + np.uint64(symbols[place])) * PER_CHARACTER
    begins[count] = last + 1
    return count


@part
def hash_of_text(words: Any, count: int) -> Any:
    value = np.uint64(count)
    for place in range(count):
        value = value * PER_WORD + words[place]
    return max(mix(value), ONE)  # 0 marks an empty slot of a table


@part
def shingle_hashes(symbols: Any, first: int, last: int, hashes: Any) -> int:
    """Write the hashes of all runs of SHINGLE symbols; return their number."""
    count = max(last - first - SHINGLE + 1, 0)
    for place in range(count):
        at = first + place
        value = np.uint64(symbols[at]) * _C4 + np.uint64(symbols[at + 1]) * _C3 + np.uint64(symbols[at + 2]) * _C2
        hashes[place] = mix(value + np.uint64(symbols[at + 3]) * _C1 + np.uint64(symbols[at + 4]))
    return count


@part
def word_runs(values: Any, words: int, run: int) -> int:
    """Put the hashes of all runs of `run` words in place of the words' hashes; return their number."""
    count = max(words - run + 1, 0)
    for place in range(count):  # in place: a run reads no earlier word
        value = ZERO
        for word in range(run):
            value = value * PER_WORD + values[place + word]
        values[place] = mix(value)
    return count


@part
def sketch(values: Any, count: int, signature: Any) -> None:
    """Write the MinHash sketch (BINS,) of a set: P(A and B agree in a bin) = Jaccard(A, B) = |A & B| / |A | B|.

    Each round hashes every shingle anew into one of the bins. A bin keeps the smallest hash of the first round that
    reaches it. Round BINS + i hashes all shingles into bin i, so that no bin stays empty.
    """
    for place in range(BINS):
        signature[place] = NONE
    empty = BINS
    for turn in range(2 * BINS if count else 0):
        seed, base = mix(np.uint64(turn) + PER_CHARACTER), np.uint64(turn) << TO_ROUND
        if turn < BINS or signature[turn - BINS] == NONE:
            for place in range(count):
                value = (values[place] ^ seed) * FIRST
                value ^= value >> THIRTY_ONE
                where = np.int64(value >> TO_BIN) if turn < BINS else turn - BINS
                value = base | (value & VALUE)  # the upper bits are the round, so earlier rounds are smaller
                empty -= signature[where] == NONE
                signature[where] = min(signature[where], value)  # MinHash
        if not empty:
            return
        if turn == 0 and count > MANY:
            count, _ = distinct(values, count)


@part
def distinct(values: Any, count: int) -> Any:
    """Move one of each value in values[:count] to the front; return their number, and a hash table of them."""
    size = 16
    while size < 2 * count:
        size *= 2
    table = np.zeros(size, np.uint64)
    number = 0
    for place in range(count):
        slot = find_slot(table, max(values[place], ONE))
        if table[slot] == ZERO:
            table[slot] = max(values[place], ONE)
            values[number] = values[place]
            number += 1
    return number, table


@part
def band_key(signature: Any, band: int, rows: int) -> Any:
    value = np.uint64(band)
    for place in range(band * rows, (band + 1) * rows):
        value = mix(value * PER_WORD + signature[place])
    return max(value, ONE)


@part
def lowest_bytes(signature: Any, bytes_of_bins: Any) -> None:
    for place in range(BINS):
        bytes_of_bins[place] = np.uint8(signature[place] & _BYTE)


@part
def agreeing(one: Any, other: Any) -> int:
    """Return how many of the BINS bytes are equal."""
    count = 0
    for place in range(BINS):
        count += one[place] == other[place]
    return count


@part
def find_slot(keys: Any, key: Any) -> Any:
    """Return the key's slot in a hash table, or the empty slot where it belongs."""
    mask = np.uint64(len(keys) - 1)
    slot = key & mask
    while keys[slot] != key and keys[slot] != ZERO:
        slot = (slot + ONE) & mask
    return np.int64(slot)


@part
def same(one: Any, first: int, last: int, other: Any, begin: int) -> bool:
    place = first
    while place < last and one[place] == other[begin + place - first]:
        place += 1
    return place == last


@part
def longest_text(begins: Any) -> int:
    longest = 0
    for text in range(len(begins) - 1):
        longest = max(longest, begins[text + 1] - begins[text])
    return longest


root = part(first_of_group)


@part
def shared_before(one: Any, other: Any, band: int) -> bool:
    """Return True if an earlier band is the same in both, so that the pair was already found."""
    place = 0
    while place < band and one[place] != other[place]:
        place += 1
    return place < band


@compiled
def band_pairs(
    order: Any, bands: Any, band: int, parents: Any, signatures: Any, least: int, cursor: Any, pairs: Any
) -> int:
    """Fill `pairs` with texts that share this band and no earlier one, from the cursor on; return their number.

    order      texts by rising band hash
    cursor     (2,) places in `order` of the next pair to compare, which this advances; len(order) at the end
    """
    pairs_found, one, other = 0, cursor[0], cursor[1]
    while one < len(order):
        first = order[one]
        key = bands[first, band]
        in_one_group = other == one + 1
        while key != ZERO and other < len(order) and bands[order[other], band] == key:
            second = order[other]
            other += 1
            if root(parents, first) == root(parents, second):
                continue
            in_one_group = False
            if shared_before(bands[first], bands[second], band):
                continue
            if agreeing(signatures[first], signatures[second]) >= least:
                pairs[pairs_found, 0], pairs[pairs_found, 1] = first, second
                pairs_found += 1
                if pairs_found == len(pairs):
                    cursor[0], cursor[1] = one, other
                    return pairs_found
        # where all later texts with this band are of its group, their pairs need no look: thousands may be alike
        one = other if in_one_group else one + 1
        other = one + 1
    cursor[0] = len(order)
    return pairs_found
