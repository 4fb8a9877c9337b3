"""Skip-gram with negative sampling over numbered text, on threads that share the rows without locks.

Settings and their meaning are fastText's. With one thread the same seed gives the same bits; with several, threads
overwrite one another's updates now and then (Recht et al., 2011, Hogwild), so that no two runs are quite the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from acclimate.core.threads import in_turn, processors
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.text.vectors_kernels import WHOLE, subwords, train_lines
from acclimate.text.vectors_text import Numbered

# Numbers that a thread takes at a time. A chunk's rates are those of its place: a thread that was held up would write a
# large share of a short text late, at rates long past. So a chunk is a hundredth of the text, within these bounds.
_CHUNK, _LEAST_CHUNK = 20_000, 1_000  # at most, at least
_LANES = 16  # rows are as long as a multiple of this, so that no part of a row is left to scalar code


@dataclass(frozen=True)
class Skipgram:
    """Skip-gram with negative sampling and n-grams; the defaults are the official tool's, but for `dim` (there 100)."""

    dim: int = 300
    epochs: int = 5
    min_count: int = 5  # how often a word must occur in the text to take part
    rate: float | None = None  # falls to 0, in proportion to the words read; None: .05, going on from a .bin .025
    window: int = 5  # words to either side at most; how many is drawn anew for each word, 1 to this
    negatives: int = 5  # for each word of the window, drawn in proportion to the square root of their counts
    shortest: int = 3  # characters of an n-gram, "<" and ">" included
    longest: int = 6  # likewise; 0: no n-grams
    buckets: int = 2_000_000  # rows that n-grams share, by hash
    sample: float = 1e-4  # words above this share of the text are left out at random
    lower: bool = False  # lower-case the text first
    seed: int = 0
    threads: int = 0  # 0: as many as there are processors

    def __post_init__(self) -> None:
        for name in ("dim", "epochs", "min_count", "window", "negatives", "rate", "sample"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be above 0")
        if self.longest and not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"n-grams of {self.shortest} to {self.longest} characters: shortest must be 1 or more, and at most "
                "longest. Set longest=0 for none"
            )
        if self.longest and not 0 < self.buckets < 1 << 31:
            raise ValueError(f"buckets is {self.buckets:,}; it must be 1 to 2,147,483,647. Set longest=0 for none")
        if not 0 <= self.seed < 1 << 31:
            raise ValueError(f"seed is {self.seed}; it must be 0 to 2,147,483,647")
        if self.threads < 0:
            raise ValueError(f"threads is {self.threads}; it must be 0 (one a processor) or more")


@dataclass(frozen=True)
class Parts:
    """What each of V words is the mean of: row w, its own, and V + b, where `buckets[b]` is a bucket of its n-grams."""

    begins: np.ndarray  # (V + 1,) int64
    rows: np.ndarray  # int32
    buckets: np.ndarray  # (B,) int64, ascending: those that any of the words touches

    @property
    def echoes(self) -> np.ndarray:
        """(V,) float32: how far a word's mean moves when each of its rows moves by 1 for every time it occurs."""
        sizes = np.diff(self.begins)
        words = np.repeat(np.arange(len(sizes)), sizes)
        span = len(sizes) + len(self.buckets)
        pairs, times = np.unique(words * span + self.rows, return_counts=True)
        return (np.bincount(pairs // span, times.astype(float) ** 2) / sizes).astype(np.float32)


def parts(words: list[str], shortest: int, longest: int, buckets: int) -> Parts:
    ends, found = ngrams(words, shortest, longest, buckets)
    touched, places = np.unique(found, return_inverse=True)
    numbers = np.arange(len(words), dtype=np.int32)
    rows = np.insert((places + len(words)).astype(np.int32), ends[:-1], numbers)
    return Parts(ends + np.arange(len(words) + 1), rows, touched.astype(np.int64))


def ngrams(words: list[str], shortest: int, longest: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the buckets of each word's n-grams begin (W + 1,), and all of them; "</s>" has none."""
    spelt = [b"" if word == "</s>" else f"<{word}>".encode("utf-8", "surrogateescape") for word in words]
    if not longest:
        return np.zeros(len(words) + 1, np.int64), np.empty(0, np.int32)
    data, ends = np.frombuffer(b"".join(spelt), np.uint8), np.cumsum([len(one) for one in spelt], dtype=np.int64)
    begins, found = subwords(data, ends, shortest, longest, buckets)
    return begins, found


def room(rows: int, dim: int) -> np.ndarray:
    """(rows, dim rounded up) float32 zeros; the columns added stay 0 in training."""
    return np.zeros((rows, -(-dim // _LANES) * _LANES), np.float32)


def train(
    text: Numbered,
    end: int,
    parts: Parts,
    *,
    inputs: np.ndarray,
    outputs: np.ndarray,
    rate: float,
    settings: Skipgram,
    watch: Watch = unwatched,
) -> None:
    """Move the rows, in place, as `train_lines` does.

    text   its numbers and counts; end: the number of "</s>", or -1
    rate   that of the first word
    Raises ValueError where the rows do not stay finite.
    """
    numbers = text.numbers
    kept = retention(text.counts, text.read, settings.sample) * WHOLE
    limits, others = alias_table(noise(text.counts))
    cuts = _cuts(numbers)
    total = settings.epochs * len(numbers)
    arrays = (end, parts.begins, parts.rows, parts.echoes, inputs, outputs, kept.astype(np.uint64), limits, others)
    slope = rate / total

    def work(chunk: int) -> tuple[int, int, float]:
        epoch, place = divmod(chunk, len(cuts) - 1)
        first, last = cuts[place], cuts[place + 1]
        now = rate - slope * (epoch * len(numbers) + first)
        seed = (settings.seed << 32) + chunk
        drawn = (settings.window, settings.negatives, now, slope, seed)
        pairs, loss = train_lines(np.asarray(numbers[first:last]), *arrays, *drawn)
        return int(epoch * len(numbers) + last), pairs, loss

    threads = settings.threads or processors()
    for done, pairs, loss in in_turn(work, range(settings.epochs * (len(cuts) - 1)), threads):
        if not math.isfinite(loss):
            raise _diverged(rate, done, total)
        values = {"loss": loss / pairs} if pairs else {}
        watch(Progress("vectors", done, total, "words", values))
    if not all(np.isfinite([rows.min(), rows.max()]).all() for rows in (inputs, outputs)):
        raise _diverged(rate, total, total)


def _diverged(rate: float, done: int, total: int) -> ValueError:
    return ValueError(
        f"the vectors are not finite after {done:,} of {total:,} words: the rate of {rate:g} is too high. "
        f"Lower skipgram.rate, to {rate / 10:g} say"
    )


def retention(counts: np.ndarray, read: int, sample: float) -> np.ndarray:
    """(V,) probabilities that sub-sampling leaves a word in: sqrt(t / f) + t / f, at most 1, t being `sample`.

    f is the word's share of the `read` words of the text, those that are too rare to take part included, as in the tool
    (Mikolov et al. have the first term only).
    """
    shares = counts / read
    return np.minimum(np.sqrt(sample / shares) + sample / shares, 1)


def noise(counts: np.ndarray) -> np.ndarray:
    """(V,) the distribution of negatives: in proportion to the square roots of the counts."""
    roots = np.sqrt(counts)
    return np.asarray(roots / roots.sum())


def _cuts(numbers: np.ndarray) -> np.ndarray:
    """Where chunks of whole lines begin, and the end."""
    ends = np.flatnonzero(numbers == -1) + 1
    size = min(_CHUNK, max(_LEAST_CHUNK, len(numbers) // 100))
    places = np.searchsorted(ends, np.arange(size, len(numbers), size))
    return np.unique(np.concatenate([[0], ends[places], [len(numbers)]]))


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V,) uint64 limits, (V,) int32 others: draw v and 32 bits; take others[v] if they reach limits[v], else v.

    Walker (1977), by Vose's (1991) way to build it: v then comes up in proportion to its weight.
    """
    heights = (weights * (len(weights) / weights.sum())).tolist()
    others = np.arange(len(heights), dtype=np.int32)
    low, high = ([v for v, height in enumerate(heights) if (height < 1) == below] for below in (True, False))
    limits = np.full(len(heights), WHOLE, np.uint64)
    while low and high:
        under, over = low.pop(), high[-1]
        limits[under], others[under] = int(heights[under] * WHOLE), over
        heights[over] -= 1 - heights[under]
        if heights[over] < 1:
            low.append(high.pop())
    return limits, others
