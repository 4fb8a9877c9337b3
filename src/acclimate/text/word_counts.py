"""Counts of the words of a text of any size, in memory that is bounded: what grows with a corpus is rare words.

When more words than may be kept have been met, the rarest are dropped until half as many are left (lossy counting:
Manku and Motwani, 2002, "Approximate Frequency Counts over Data Streams"). Among equally rare ones a hash decides, so
what is kept is drawn from the whole text and not from its end: words that occur once are most of them, and in a script
without spaces, where a "word" is half a sentence, nearly all.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

import numpy as np


class WordCounts:
    """How often words were met; `most` different ones are kept at any time.

    counts   word -> how often, exact for a word that was never dropped, else less than that
    dropped  occurrences that were counted and then dropped; 0: nothing is left out
    """

    def __init__(self, most: int) -> None:
        if most < 2:
            raise ValueError(f"{most} words are to be kept; keep 2 or more")
        self.counts: Counter[str] = Counter()
        self.dropped = 0
        self._most = most

    def add(self, words: Iterable[str]) -> None:
        """Count the words, of one text or a few: memory is bounded between two calls."""
        self.counts.update(words)
        if len(self.counts) > self._most:
            self._drop(self._most // 2)

    def ordered(self) -> list[tuple[str, int]]:
        """Words and their counts, the most frequent first, equal ones in the order of their code points."""
        return sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))

    def _drop(self, kept: int) -> None:
        words, values = [*self.counts], np.fromiter(self.counts.values(), np.int64, len(self.counts))
        least = np.partition(values, len(values) - kept)[len(values) - kept]
        keep, tied = values > least, np.flatnonzero(values == least)
        order = sorted(tied.tolist(), key=lambda place: (zlib.crc32(words[place].encode()), words[place]))
        keep[order[: kept - int(keep.sum())]] = True
        self.dropped += int(values[~keep].sum())
        self.counts = Counter({words[place]: int(values[place]) for place in np.flatnonzero(keep).tolist()})
