"""The loops over characters of `overlap`: plain functions on arrays, compiled by numba, free of Python's lock.

A text becomes its normalised code points (`normalise`), a hash for each word (`read_words`) and a sketch (`sketch`).

Sources: Dahlgaard, Knudsen and Thorup, Fast similarity sketching (FOCS 2017), for sketches that take one pass over a
long text and yet have no empty bins for a short one; the finaliser `mix` is that of Steele's splitmix64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
GRAM = 13  # words
SHINGLE = 5  # characters
BINS = 256  # of a sketch; a bin is chosen by the 8 upper bits of a hash
BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # a sixth less time to compile

# numba makes a float of a signed and an unsigned operand, so every constant that meets a hash is unsigned
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)
_PER_CHARACTER, PER_WORD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)
OUT = np.uint64(pow(0xD1342543DE82EF95, GRAM, 1 << 64))  # takes the word before the window out of a rolling hash
_C1, _C2, _C3, _C4 = (np.uint64(pow(0xA0761D6478BD642F, power, 1 << 64)) for power in range(1, 5))
_NONE, ZERO, ONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(1)
_TO_BIN, _TO_ROUND, _VALUE, _BYTE = np.uint64(56), np.uint64(47), np.uint64((1 << 47) - 1), np.uint64(255)
_SPACE = 32
_MANY = 16 * BINS  # shingles, after which a sketch with an empty bin means that few of them differ


def compiled(function: Function, *, fastmath: bool | set[str] = False) -> Function:
    """To be called from Python: compiled on its first call, and kept on disk where there is a place to write to.

    A cached function is renewed when its file changes; after a change of this file, `touch` those that import it.
    fastmath: numba's; "reassoc" lets sums be taken in any order, as vector instructions do.
    """
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, fastmath=fastmath)(function))
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        # a read-only home: every process compiles anew
        return cast(Function, numba.njit(nogil=True, fastmath=fastmath)(function))


def part(function: Function) -> Function:
    """Compiled with the functions that call it, and for them only: a call from Python would crash."""
    return cast(Function, numba.njit(nogil=True, **BARE)(function))


@part
def mix(value: Any) -> Any:
    """64 bits, each of which depends on all bits of the value."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


@part
def normalise(data: Any, first: int, last: int, fold: Any, symbols: Any) -> int:
    """Write the code points of `normalised` of the UTF-8 text data[first:last]; return their number."""
    count, gap, place = 0, False, first
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
            gap = count > 0
        else:
            if gap:
                symbols[count] = _SPACE
                count += 1
                gap = False
            symbols[count] = symbol
            count += 1
    return count


@part
def read_words(symbols: Any, first: int, last: int, words: Any, begins: Any) -> int:
    """Write each word's hash and beginning in symbols[first:last], and last the end + 1; return their number."""
    count, value, begin = 0, ZERO, first
    for place in range(first, last + 1):
        if place == last or symbols[place] == _SPACE:
            if place > begin:
                words[count], begins[count] = mix(value), begin
                count += 1
            value, begin = ZERO, place + 1
        else:
            value = (value + np.uint64(symbols[place])) * _PER_CHARACTER
    begins[count] = last + 1
    return count


@part
def longest_of(begins: Any) -> int:
    longest = 0
    for text in range(len(begins) - 1):
        longest = max(longest, begins[text + 1] - begins[text])
    return longest


@part
def hash_of_text(words: Any, count: int) -> Any:
    value = np.uint64(count)
    for place in range(count):
        value = value * PER_WORD + words[place]
    return max(mix(value), ONE)  # 0 is an empty slot of a table


@part
def find(keys: Any, key: Any) -> Any:
    """Return the key's slot in a table, or the empty one where it belongs."""
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
def agreeing(one: Any, other: Any) -> int:
    """Return how many of the BINS bytes are equal."""
    count = 0
    for place in range(BINS):
        count += one[place] == other[place]
    return count


@part
def shingles(symbols: Any, first: int, last: int, found: Any) -> int:
    """Write the hashes of all runs of SHINGLE symbols; return their number."""
    count = max(last - first - SHINGLE + 1, 0)
    for place in range(count):
        at = first + place
        value = np.uint64(symbols[at]) * _C4 + np.uint64(symbols[at + 1]) * _C3 + np.uint64(symbols[at + 2]) * _C2
        found[place] = mix(value + np.uint64(symbols[at + 3]) * _C1 + np.uint64(symbols[at + 4]))
    return count


@part
def distinct(values: Any, count: int) -> int:
    """Move the different ones of values[:count] to the front; return their number."""
    size = 16
    while size < 2 * count:
        size *= 2
    table = np.zeros(size, np.uint64)
    kept = 0
    for place in range(count):
        slot = find(table, max(values[place], ONE))
        if table[slot] == ZERO:
            table[slot] = max(values[place], ONE)
            values[kept] = values[place]
            kept += 1
    return kept


@part
def sketch(values: Any, count: int, signature: Any) -> None:
    """(BINS,) a sample of the shingles: two sets agree in a bin with a probability equal to their Jaccard similarity.

    In each round every shingle falls into a bin anew, and a bin keeps the smallest of those of its first round. From
    round BINS on, a round fills one bin for certain.
    """
    for place in range(BINS):
        signature[place] = _NONE
    empty = BINS
    for turn in range(2 * BINS if count else 0):
        seed, base = mix(np.uint64(turn) + _PER_CHARACTER), np.uint64(turn) << _TO_ROUND
        if turn < BINS or signature[turn - BINS] == _NONE:
            for place in range(count):
                value = (values[place] ^ seed) * _FIRST
                value ^= value >> _31
                where = np.int64(value >> _TO_BIN) if turn < BINS else turn - BINS
                value = base | (value & _VALUE)
                empty -= signature[where] == _NONE
                signature[where] = min(signature[where], value)
        if not empty:
            return
        if turn == 0 and count > _MANY:
            count = distinct(values, count)


@part
def band_key(signature: Any, band: int, rows: int) -> Any:
    value = np.uint64(band)
    for place in range(band * rows, (band + 1) * rows):
        value = mix(value * PER_WORD + signature[place])
    return max(value, ONE)


@part
def lowest_bytes(signature: Any, found: Any) -> None:
    for place in range(BINS):
        found[place] = np.uint8(signature[place] & _BYTE)


@compiled
def read_texts(data: Any, begins: Any, fold: Any, rows: int, hashes: Any, bands: Any, signatures: Any) -> None:
    """The text hash (0: no words), the band hashes (0: too short) and the bins' lowest bytes of D texts.

    data, begins   UTF-8 of all texts, and where each begins (D + 1)
    hashes         (D,); bands (D, BINS // rows); signatures (D, BINS); both of no rows at all: not asked for
    """
    longest = longest_of(begins)
    symbols, values = np.empty(longest + 2, np.uint32), np.empty(longest + 2, np.uint64)
    word_begins, signature = np.empty(longest // 2 + 2, np.int64), np.empty(BINS, np.uint64)
    for text in range(len(hashes)):
        length = normalise(data, begins[text], begins[text + 1], fold, symbols)
        words = read_words(symbols, 0, length, values, word_begins)
        hashes[text] = hash_of_text(values, words) if words else ZERO
        if len(bands) and length >= SHINGLE:
            sketch(values, shingles(symbols, 0, length, values), signature)
            for band in range(bands.shape[1]):
                bands[text, band] = band_key(signature, band, rows)
            lowest_bytes(signature, signatures[text])
