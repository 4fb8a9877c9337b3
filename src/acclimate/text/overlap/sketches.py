"""The sketches of kernels.py by NumPy, for texts that are too few to wait for a compiler.

Both give the same bytes. A text here is its normalised words, joined by single spaces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.core.mixing import mix
from acclimate.text.overlap.words import SHINGLE, normalised_words

FEW = 20_000_000  # characters that a process reads by NumPy; the loops of kernels.py read all others
_CHUNK = 1 << 16  # characters that are sketched at a time, so that arrays stay in the processor's cache
_MISSED = 5e-4  # largest probability that a pair of exactly the similarity `near` has no band in common
BINS = 256  # numbers of a sketch; the 8 upper bits of a hash choose one
# numba turns a signed and an unsigned operand into a float, so each constant that is combined with a hash is unsigned
FIRST, THIRTY_ONE = np.uint64(0xBF58476D1CE4E5B9), np.uint64(31)
PER_CHARACTER, PER_WORD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)
POWERS = tuple(np.uint64(pow(0xA0761D6478BD642F, power, 1 << 64)) for power in range(5))  # of a run of characters
NONE, ONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(1)
MANY = 16 * BINS  # if so many values leave a bin empty, most of them are repeats
TO_BIN, TO_ROUND, VALUE = np.uint64(56), np.uint64(47), np.uint64((1 << 47) - 1)
SPACE = 32
_READ = {"characters": 0}  # so far


def are_few(texts: Sequence[str]) -> bool:
    """Return whether NumPy reads these texts: as long as it has read at most FEW characters in this process."""
    size = sum(map(len, texts))
    few = _READ["characters"] + size <= FEW
    _READ["characters"] += size if few else 0
    return few


Sketches = tuple[np.ndarray, np.ndarray, np.ndarray]


def few_sketches(texts: Sequence[str], near: float) -> Sketches:
    """Return (D,) text hashes, 0 without words; (D, bands) band hashes, 0 for short texts; (D, BINS) bytes of the bins.

    With near = 0 there are no bands and no bins.
    """
    rows, arrays = room_for_sketches(len(texts), near)
    sketch_words([normalised_words(text) for text in texts], 0, rows, *arrays)
    return arrays


def room_for_sketches(size: int, near: float) -> tuple[int, Sketches]:
    """Return the bins of a band, and zeros for what `few_sketches` returns of `size` texts."""
    rows, sketched = bins_of_band(near) if near else BINS, size if near else 0
    bands, signatures = np.zeros((sketched, BINS // rows), np.uint64), np.zeros((sketched, BINS), np.uint8)
    return rows, (np.zeros(size, np.uint64), bands, signatures)


def bins_of_band(near: float) -> int:
    """Return the largest number of bins in a band (for few false candidates) that misses at most _MISSED."""
    # a pair of similarity s shares none of BINS / r bands of r bins with probability (1 - s^r)^(BINS / r)
    fitting = [rows for rows in range(1, BINS + 1) if (1 - near**rows) ** (BINS // rows) <= _MISSED]
    return max(fitting, default=1)


def least_of(near: float) -> int:
    """Return how many bins must agree: four standard deviations below the mean of a near-duplicate, at least 1."""
    return max(1, int(BINS * near - 4 * (BINS * near * (1 - near)) ** 0.5))


def sketch_words(
    texts: Sequence[str], run: int, rows: int, hashes: np.ndarray, bands: np.ndarray, signatures: np.ndarray
) -> None:
    """Do what `kernels.sketch_texts` does, whose docstring has the arguments."""
    chunks = np.cumsum([0, *map(len, texts)]) // _CHUNK
    for chunk in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(chunks[:-1])) + 1):
        if len(chunk):
            here = slice(chunk[0], chunk[-1] + 1)
            _sketch(texts[here], run, rows, hashes[here], bands[here], signatures[here])


def _sketch(
    texts: Sequence[str], run: int, rows: int, hashes: np.ndarray, bands: np.ndarray, signatures: np.ndarray
) -> None:
    symbols, begins = code_points(texts)
    spaces = symbols == SPACE
    spaces[begins[1:] - 1] = True
    after_space = np.append(True, spaces[:-1])
    first, last = np.flatnonzero(~spaces & after_space), np.flatnonzero(spaces & ~after_space)
    words = word_hashes(symbols, first, last)
    owners = np.searchsorted(begins, first, "right") - 1
    counts = np.bincount(owners, minlength=len(texts))
    ends = np.cumsum(counts)
    places, powers = np.arange(len(words)), _powers(PER_WORD, int(counts.max(initial=0)) + 1)
    full = np.flatnonzero(counts)
    if len(full):
        sums = np.add.reduceat(words * powers[ends[owners] - 1 - places], (ends - counts)[full])
        hashes[full] = np.maximum(mix(counts[full].astype(np.uint64) * powers[counts[full]] + sums), ONE)
    if not len(bands):
        return
    if run:
        places = places[places + run <= ends[owners]]
        owners = owners[places]
        values = mix(sum((words[places + word] * powers[run - 1 - word] for word in range(run)), np.uint64(0)))
    else:
        values = shingle_hashes(symbols)
        owners = np.repeat(np.arange(len(texts)), np.diff(begins))
        inside = np.arange(len(values)) + SHINGLE < begins[1:][owners[: len(values)]]
        values, owners = values[inside], owners[: len(values)][inside]
    counts = np.bincount(owners, minlength=len(texts))
    sketched = np.flatnonzero(counts)
    sketch = sketches(values, np.repeat(np.arange(len(sketched)), counts[sketched]), len(sketched))
    in_bands = sketch[:, : bands.shape[1] * rows].reshape(len(sketched), bands.shape[1], rows)
    keys = np.tile(np.arange(bands.shape[1], dtype=np.uint64), (len(sketched), 1))
    for place in range(rows):
        keys = mix(keys * PER_WORD + in_bands[:, :, place])
    bands[sketched], signatures[sketched] = np.maximum(keys, ONE), sketch.astype(np.uint8)


def word_hashes(symbols: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the hashes of words, uint64, none of them empty. first, last: where each begins and ends in `symbols`"""
    lengths = last - first
    begins = np.cumsum(lengths) - lengths
    powers = _powers(PER_CHARACTER, int(lengths.max(initial=0)) + 1)
    letters = np.repeat(first - begins, lengths) + np.arange(lengths.sum())
    values = symbols[letters] * powers[np.repeat(last, lengths) - letters]
    return np.asarray(mix(np.add.reduceat(values, begins)) if len(first) else values)


def code_points(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the code points of all texts, uint64, with a space behind each, and where each begins (D + 1)."""
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])
    joined = "".join(f"{text} " for text in texts).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(joined, np.uint32).astype(np.uint64), begins


def shingle_hashes(symbols: np.ndarray) -> np.ndarray:
    """Return the hashes of all runs of SHINGLE symbols."""
    if len(symbols) < SHINGLE:
        return symbols[:0]
    return np.asarray(mix(np.correlate(symbols, POWERS[::-1], "valid")))


def different_shingles(words: str) -> np.ndarray:
    """Return the hashes of the different runs of SHINGLE characters of a normalised text, ascending, uint64."""
    symbols = np.frombuffer(words.encode("utf-32-le", "surrogatepass"), np.uint32)
    return different(shingle_hashes(symbols.astype(np.uint64)))


def different(values: np.ndarray) -> np.ndarray:
    """Return the different values, ascending; for 100,000 values np.unique takes ten times as long."""
    ascending = np.sort(values)
    first = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


def similarity(one: np.ndarray, other: np.ndarray) -> float:
    """Return the Jaccard similarity of two sets of hashes, each ascending; 0 if both are empty."""
    together = np.concatenate([one, other])
    together.sort(kind="stable")  # merges the two
    shared = int(np.count_nonzero(together[1:] == together[:-1]))
    return shared / max(len(together) - shared, 1)


def sketches(values: np.ndarray, owners: np.ndarray, texts: int) -> np.ndarray:
    """Return the MinHash sketches (texts, BINS) of the texts' sets of values, as `kernels.sketch` does.

    owners  the text of each value; each has at least one
    """
    signatures = np.full((texts, BINS), NONE)
    turn, flat = 0, signatures.reshape(-1)
    while len(values):
        seed, base = mix(np.full(1, turn, np.uint64) + PER_CHARACTER), np.uint64(turn) << TO_ROUND
        hashes = (values ^ seed) * FIRST
        hashes ^= hashes >> THIRTY_ONE
        where = (hashes >> TO_BIN).astype(np.int64)
        if turn >= BINS:
            where[:] = turn - BINS
        takes = slice(None) if turn < BINS else signatures[owners, turn - BINS] == NONE
        np.minimum.at(flat, (owners * BINS + where)[takes], (base | (hashes & VALUE))[takes])  # MinHash
        empty = (signatures == NONE).any(1)[owners]
        values, owners, turn = values[empty], owners[empty], turn + 1
        if turn == 1 and np.bincount(owners).max(initial=0) > MANY:
            order = np.lexsort((values, owners))
            values, owners = values[order], owners[order]
            new = np.append(True, (np.diff(values) != 0) | (np.diff(owners) != 0))[: len(values)]
            values, owners = values[new], owners[new]
    return signatures


def _powers(base: np.uint64, count: int) -> np.ndarray:
    """Return (count,) base^0, base^1, ... modulo 2^64."""
    return np.cumprod(np.append(np.uint64(1), np.full(count - 1, base)), dtype=np.uint64)


def first_of_group(parents: np.ndarray, place: int) -> int:
    """Return the first text of the group that `place` belongs to so far, and shorten the path to it (union-find)."""
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place
