"""Text as `vectors` trains on it: lines of numbered words, in a file of their own."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acclimate.core.types import Watch, counted, unwatched
from acclimate.text.vectors_files import END
from acclimate.text.words import word_spans

_LINE_END, _LEFT_OUT = -1, -2
_BLOCK = 1 << 20  # numbers


@dataclass(frozen=True)
class Numbered:
    """V words, the most frequent first, "</s>" among them where lines enough end."""

    words: list[str]
    counts: np.ndarray  # (V,) int64
    numbers: np.ndarray  # (N,) int32, the text, words left out; -1 where a line ends; mapped to a file without a name
    read: int  # words of the text, line ends and words that are left out included


def lines(texts: Iterable[str], lower: bool) -> Iterable[list[str]]:
    """The words (`words.word_spans`) of each line of the texts that has any."""
    for text in texts:
        for line in (text.lower() if lower else text).replace("\0", " ").split("\n"):
            if words := [line[first:last] for first, last in word_spans(line)]:
                yield words


def number_words(
    texts: Iterable[str],
    folder: Path,
    *,
    min_count: int,
    lower: bool,
    watch: Watch = unwatched,
) -> Numbered:
    """Number the words of the texts that occur `min_count` times. folder: where the file may lie.

    Raises ValueError where fewer than two words are left.
    """
    index, counts = {END: 0}, np.zeros(1, np.int64)
    with tempfile.TemporaryFile(dir=folder) as file:
        pending = array("i")
        for words in lines(counted(texts, watch, "words", unit="texts"), lower):
            pending.extend([index.setdefault(word, len(index)) for word in words])
            pending.append(_LINE_END)
            if len(pending) >= _BLOCK:
                counts = _counted(pending, counts, len(index))
                pending.tofile(file)
                pending = array("i")
        counts = _counted(pending, counts, len(index))
        pending.tofile(file)
        file.flush()
        read = int(counts.sum())
        if not read:
            raise ValueError("the texts have no words to train vectors on. Give texts that have some")
        numbers = np.memmap(file, np.int32, "r+", shape=(read,))
    names = list(index)
    chosen = counts >= min_count
    if chosen[1:].sum() < 2:
        raise ValueError(
            f"of {len(index) - 1:,} different words ({read - counts[0]:,} in all) {chosen[1:].sum()} occur {min_count} "
            "times or more, and vectors need two. Lower min_count, or give more text"
        )
    order = np.flatnonzero(chosen)[np.argsort(-counts[chosen], kind="stable")]
    renumbered = np.full(len(names) + 1, _LEFT_OUT, np.int32)
    renumbered[order] = np.arange(len(order))
    renumbered[_LINE_END] = _LINE_END  # the last one
    size = _renumber(numbers, renumbered)
    return Numbered([names[number] for number in order], counts[order], numbers[:size], read)


def _counted(pending: array[int], counts: np.ndarray, words: int) -> np.ndarray:
    """The counts and those of the pending numbers; a line's end counts as the word 0."""
    numbers = np.maximum(np.frombuffer(pending, np.int32), 0)
    total = np.bincount(numbers, minlength=words)
    total[: len(counts)] += counts
    return total


def _renumber(numbers: np.ndarray, renumbered: np.ndarray) -> int:
    """Number the text anew where it is; how many numbers are left."""
    size = 0
    for first in range(0, len(numbers), _BLOCK):
        block = renumbered[numbers[first : first + _BLOCK]]
        block = block[block != _LEFT_OUT]
        numbers[size : size + len(block)] = block
        size += len(block)
    return size
