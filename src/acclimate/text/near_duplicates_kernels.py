"""The loop over words of `near_duplicates`, compiled as those of `overlap_kernels` are."""

from __future__ import annotations

from typing import Any

import numpy as np

from acclimate.text.overlap_kernels import (
    BINS,
    PER_WORD,
    ZERO,
    band_key,
    compiled,
    hash_of_text,
    longest_of,
    lowest_bytes,
    mix,
    normalise,
    read_words,
    sketch,
)

GRAM = 5  # words


@compiled
def sketch_texts(data: Any, begins: Any, fold: Any, rows: int, hashes: Any, bands: Any, signatures: Any) -> None:
    """As `overlap_kernels.read_texts`, of runs of GRAM words instead of runs of characters.

    data, begins   UTF-8 of all texts, and where each begins (D + 1)
    hashes         (D,); bands (D, bands); signatures (D, BINS); both of no rows at all: not asked for
    """
    longest = longest_of(begins)
    symbols, values = np.empty(longest + 2, np.uint32), np.empty(longest + 2, np.uint64)
    word_begins, signature = np.empty(longest // 2 + 2, np.int64), np.empty(BINS, np.uint64)
    for text in range(len(hashes)):
        length = normalise(data, begins[text], begins[text + 1], fold, symbols)
        words = read_words(symbols, 0, length, values, word_begins)
        hashes[text] = hash_of_text(values, words) if words else ZERO
        if len(bands) and words >= GRAM:
            count = words - GRAM + 1
            for place in range(count):  # in place: a run reads its own word and later ones only
                value = ZERO
                for word in range(GRAM):
                    value = value * PER_WORD + values[place + word]
                values[place] = mix(value)
            sketch(values, count, signature)
            for band in range(bands.shape[1]):
                bands[text, band] = band_key(signature, band, rows)
            lowest_bytes(signature, signatures[text])
