"""What a vocabulary is learnt from: the characters and words of a corpus, read once and counted in bounded memory.

A word here is a run of letters, digits and underscores, or of other visible characters, with the space before it if one
stands there: no tokenizer's pieces reach over its ends.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import Progress, Watch, counted
from acclimate.text.word_counts import WordCounts

if TYPE_CHECKING:
    from acclimate.text.vocabulary import Documents

LONGEST = 200  # characters of a word that is learnt from: what is longer is data, such as a sequence of bases
_WORD = re.compile(r" ?(?:\w+|[^\w\s]+)")
_BATCH_CHARACTERS = 1 << 20


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a corpus brought.

    points  (1,114,112,) int64: how often each code point occurs, after normalisation
    words   a word that a space goes before is another than the same one without
    long    occurrences of words that were left out as too long
    """

    points: np.ndarray
    words: WordCounts
    long: int

    def alphabet(self, most: int) -> list[str]:
        """The most frequent visible characters, by code point; ties go to the lower one."""
        present = [point for point in np.flatnonzero(self.points).tolist() if not chr(point).isspace()]
        frequent = sorted(present, key=lambda point: (-self.points[point], point))[:most]
        return [chr(point) for point in sorted(frequent)]

    def left_out(self) -> str:
        """A sentence on the words that are not learnt from; "" where all are."""
        total = sum(self.words.counts.values()) + self.words.dropped + self.long
        sentences = []
        if self.words.dropped:
            dropped = f"{self.words.dropped:,} of {total:,} words of the text ({self.words.dropped / total:.2%})"
            sentences.append(f"The rarest are left out, so that memory is bounded: {dropped}.")
        if self.long:
            sentences.append(f"Words of more than {LONGEST} characters are left out: {self.long:,}.")
        return " ".join(sentences)


def survey(
    corpus: Documents, normalise: Callable[[str], str], *, most: int, short: bool, stage: str, watch: Watch
) -> Survey:
    """Count characters and words of the normalised texts.

    most   different words that are kept in memory
    short  leave words of more than LONGEST characters out
    """
    points, words, long = np.zeros(sys.maxunicode + 1, np.int64), WordCounts(most), 0
    for some in texts(corpus, watch, stage):
        normal = [normalise(text) for text in some]
        codes = np.frombuffer("\n".join(normal).encode("utf-32-le"), np.uint32)
        points += np.bincount(codes, minlength=len(points))
        for text in normal:
            found = words_of(text)
            if short and found and max(map(len, found)) > LONGEST:
                kept = [word for word in found if len(word) <= LONGEST]
                found, long = kept, long + len(found) - len(kept)
            words.add(found)
    done = Survey(points, words, long)
    if told := done.left_out():
        watch(Progress(stage, len(corpus), len(corpus), "documents", {"note": told}))
    return done


def words_of(text: str) -> list[str]:
    """The words of a normalised text, as this module has them."""
    return _WORD.findall(" " + " ".join(text.split()))


def kept_texts(
    corpus: Documents, normalise: Callable[[str], str], kept: Survey, stage: str, watch: Watch
) -> Iterator[list[str]]:
    """The normalised texts with a blank in place of each word that the survey did not keep."""
    counts = kept.words.counts
    for some in texts(corpus, watch, stage):
        yield ["".join([word if word in counts else " " for word in words_of(normalise(text))]) for text in some]


def texts(corpus: Documents, watch: Watch, stage: str) -> Iterator[list[str]]:
    """The texts in order, a list of about a million characters at a time."""
    pending: list[str] = []
    waiting = 0
    for document in counted(corpus.documents(), watch, stage, total=len(corpus)):
        pending.append(document.text)
        waiting += len(document.text)
        if waiting >= _BATCH_CHARACTERS:
            yield pending
            pending, waiting = [], 0
    if pending:
        yield pending
