"""Training of word vectors with n-grams, in the order of the data.

1. `number_words` turns the text into lines of numbered words, in a temporary file.
2. `parts` says which rows each word's vector is the mean of: its row and those of its n-grams' buckets.
3. `start_from` gives the first rows of words, buckets and outputs, from a file or at random.
4. `train_rows` moves them: skip-gram with negative sampling, on threads that share the rows without locks.

Settings and their meaning are fastText's. With one thread the same seed gives the same bits. Several threads sometimes
overwrite one another's updates (Recht et al., 2011, Hogwild), so their runs differ a little.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from acclimate.core.machines import map_threads, processors
from acclimate.core.types import Progress, Watch, counted, unwatched
from acclimate.text.vectors.files import END, NEGATIVE_SAMPLING, Bin, Vec, open_bin, open_vec
from acclimate.text.vectors.kernels import WHOLE, random_vectors, subwords, train_lines
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.words import word_spans

_LINE_END, _LEFT_OUT = -1, -2
_BLOCK = 1 << 20  # numbers that are held before they are written
# Numbers that a thread takes at a time: a hundredth of the text, within these bounds. A chunk keeps the rates of its
# place in the text, so a delayed thread would train a large chunk of a short text late and at outdated rates.
_CHUNK, _LEAST_CHUNK = 20_000, 1_000  # at most, at least
_LANES = 16  # the length of a row is a multiple of this, so that vector instructions cover all of it


@dataclass(frozen=True)
class NumberedText:
    """A text as numbers of its V words, the most frequent first; "</s>" is one of them if enough lines end."""

    words: list[str]
    counts: np.ndarray  # (V,) int64
    numbers: np.ndarray  # (N,) int32, the text without rare words, -1 at the end of a line; in a temporary file
    read: int  # words of the text, including line ends and rare words


def number_words(
    texts: Iterable[str], folder: Path, *, min_count: int, lower: bool, watch: Watch = unwatched
) -> NumberedText:
    """Number the words of the texts that occur at least `min_count` times. folder: for the temporary file.

    Raises ValueError if fewer than two words are left.
    """
    index, counts = {END: 0}, np.zeros(1, np.int64)
    with tempfile.TemporaryFile(dir=folder) as file:
        pending = array("i")
        for words in lines_of_words(counted(texts, watch, "words", unit="texts"), lower):
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
            raise ValueError("the texts contain no words to train vectors on. Give other texts")
        numbers = np.memmap(file, np.int32, "r+", shape=(read,))
    names = list(index)
    chosen = counts >= min_count
    if chosen[1:].sum() < 2:
        raise ValueError(
            f"vectors need two words, but {chosen[1:].sum()} of {len(index) - 1:,} different words "
            f"({read - counts[0]:,} in total) occur at least {min_count} times. Lower min_count, or give more text"
        )
    order = np.flatnonzero(chosen)[np.argsort(-counts[chosen], kind="stable")]
    renumbered = np.full(len(names) + 1, _LEFT_OUT, np.int32)
    renumbered[order] = np.arange(len(order))
    renumbered[_LINE_END] = _LINE_END  # the last one
    size = _renumber(numbers, renumbered)
    return NumberedText([names[number] for number in order], counts[order], numbers[:size], read)


def lines_of_words(texts: Iterable[str], lower: bool) -> Iterable[list[str]]:
    """Yield the words (`words.word_spans`) of each line that has any."""
    for text in texts:
        for line in (text.lower() if lower else text).replace("\0", " ").split("\n"):
            if words := [line[first:last] for first, last in word_spans(line)]:
                yield words


def _counted(pending: array[int], counts: np.ndarray, words: int) -> np.ndarray:
    """Return the counts plus those of the pending numbers; a line's end counts as word 0."""
    numbers = np.maximum(np.frombuffer(pending, np.int32), 0)
    total = np.bincount(numbers, minlength=words)
    total[: len(counts)] += counts
    return total


def _renumber(numbers: np.ndarray, renumbered: np.ndarray) -> int:
    """Renumber the text in place and drop rare words; return its new length."""
    size = 0
    for first in range(0, len(numbers), _BLOCK):
        block = renumbered[numbers[first : first + _BLOCK]]
        block = block[block != _LEFT_OUT]
        numbers[size : size + len(block)] = block
        size += len(block)
    return size


@dataclass(frozen=True)
class WordRows:
    """The rows of which each of V words is the mean: row w, and row V + b for each n-gram in bucket `buckets[b]`."""

    begins: np.ndarray  # (V + 1,) int64: the rows of word w are rows[begins[w] : begins[w + 1]]
    rows: np.ndarray  # int32
    buckets: np.ndarray  # (B,) int64, ascending: the buckets that the words use

    @property
    def echoes(self) -> np.ndarray:
        """Return (V,) float32: how far a word's mean moves if each row moves by 1 for every time it occurs."""
        sizes = np.diff(self.begins)
        words = np.repeat(np.arange(len(sizes)), sizes)
        span = len(sizes) + len(self.buckets)
        pairs, times = np.unique(words * span + self.rows, return_counts=True)
        return (np.bincount(pairs // span, times.astype(float) ** 2) / sizes).astype(np.float32)


def parts(words: list[str], shortest: int, longest: int, buckets: int) -> WordRows:
    ends, ngram_buckets = ngrams(words, shortest, longest, buckets)
    touched, places = np.unique(ngram_buckets, return_inverse=True)
    numbers = np.arange(len(words), dtype=np.int32)
    rows = np.insert((places + len(words)).astype(np.int32), ends[:-1], numbers)
    return WordRows(ends + np.arange(len(words) + 1), rows, touched.astype(np.int64))


def ngrams(words: list[str], shortest: int, longest: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the buckets of each word's n-grams begin (W + 1,), and all buckets; "</s>" has none."""
    spelt = [b"" if word == "</s>" else f"<{word}>".encode("utf-8", "surrogateescape") for word in words]
    if not longest:
        return np.zeros(len(words) + 1, np.int64), np.empty(0, np.int32)
    data, ends = np.frombuffer(b"".join(spelt), np.uint8), np.cumsum([len(word) for word in spelt], dtype=np.int64)
    begins, ngram_buckets = subwords(data, ends, shortest, longest, buckets)
    return begins, ngram_buckets


VectorsOf = Callable[[np.ndarray], np.ndarray]  # (N,) numbers -> (N, dim) float32


@dataclass(frozen=True)
class InitialVectors:
    """The words, counts and rows with which training begins."""

    words: Sequence[str]
    index: Mapping[str, int]
    counts: np.ndarray  # (W,) int64
    read: int  # words of the text that it was trained on
    buckets: int
    word_rows: VectorsOf
    bucket_rows: VectorsOf
    output_rows: VectorsOf
    new_rows: VectorsOf  # first rows of words that are not in `words`, numbered from W on
    trained: bool  # True if buckets have trained rows, so that new words can begin as their mean


def start_from(path: Path | None, settings: Skipgram) -> InitialVectors:
    """Return the rows of a `.bin` or `.vec`, or random ones. Raises ValueError if they do not fit the settings."""
    if path is None:
        return _nothing(settings)
    file = open_file(path)
    return _from_bin(file, settings) if isinstance(file, Bin) else _from_vec(file, settings)


def open_file(path: Path) -> Bin | Vec:
    if not path.is_file():
        raise ValueError(f"{path} does not exist. Give the path of a fastText .bin or .vec")
    return open_vec(path) if path.suffix == ".vec" else open_bin(path)


def _nothing(settings: Skipgram) -> InitialVectors:
    def words(numbers: np.ndarray) -> np.ndarray:
        return np.asarray(random_vectors(numbers, settings.seed, settings.dim))

    def buckets(numbers: np.ndarray) -> np.ndarray:
        first = 1 << 32  # above the number of any word
        return np.asarray(random_vectors(numbers + first, settings.seed, settings.dim))

    def outputs(numbers: np.ndarray) -> np.ndarray:
        return np.zeros((len(numbers), settings.dim), np.float32)

    count = settings.buckets if settings.longest else 0
    return InitialVectors([], {}, np.zeros(0, np.int64), 0, count, words, buckets, outputs, words, False)


def _from_bin(file: Bin, settings: Skipgram) -> InitialVectors:
    header = file.header
    if header.loss != NEGATIVE_SAMPLING:
        raise ValueError(
            f"{file.path} was not trained with negative sampling, so its output rows do not belong to words. "
            "Continue from a .bin of `-loss ns`"
        )
    for name in ("dim", "shortest", "longest", "buckets"):
        if (has := getattr(header, name)) != (set_to := getattr(settings, name)) and (name == "dim" or header.longest):
            raise ValueError(f"{file.path} has {name} {has:,}, but the settings have {set_to:,}. Set {name}={has}")
    if not header.longest and settings.longest:
        raise ValueError(f"{file.path} has no n-grams, but the settings have. Set longest=0")
    base = _nothing(settings)
    return InitialVectors(
        file.words,
        file.index,
        file.counts,
        file.read,
        header.buckets,
        file.word_rows,
        file.bucket_rows,
        file.output_rows,
        base.new_rows,
        True,
    )


def _from_vec(file: Vec, settings: Skipgram) -> InitialVectors:
    if file.dim != settings.dim:
        difference = f"{file.path} has dim {file.dim:,}, but the settings have {settings.dim:,}"
        raise ValueError(f"{difference}. Set skipgram.dim={file.dim}")
    base = _nothing(settings)

    def words(numbers: np.ndarray) -> np.ndarray:
        names = [file.words[number] for number in numbers.tolist()]
        begins, _ = ngrams(names, settings.shortest, settings.longest, settings.buckets)
        return np.asarray(file.word_rows(numbers) * (np.diff(begins) + 1).astype(np.float32)[:, None])

    unseen = np.zeros(len(file.words), np.int64)
    return replace(base, words=file.words, index=file.index, counts=unseen, word_rows=words)


def room(rows: int, dim: int) -> np.ndarray:
    """Return float32 zeros of (rows, dim rounded up); the added columns stay 0 in training."""
    return np.zeros((rows, -(-dim // _LANES) * _LANES), np.float32)


def train_rows(
    text: NumberedText,
    end: int,
    parts: WordRows,
    *,
    inputs: np.ndarray,
    outputs: np.ndarray,
    rate: float,
    settings: Skipgram,
    watch: Watch = unwatched,
) -> None:
    """Train the rows in place by `train_lines`, on chunks of lines.

    end    the number of "</s>", or -1
    rate   at the first word; it falls to 0 in proportion to the words read
    Raises ValueError if the rows do not stay finite.
    """
    numbers = text.numbers
    probabilities = retention(text.counts, text.read, settings.sample) * WHOLE
    limits, others = alias_table(negative_distribution(text.counts))
    cuts = _cuts(numbers)
    total = settings.epochs * len(numbers)
    begins_and_rows = end, parts.begins, parts.rows, parts.echoes, inputs, outputs
    arrays = (*begins_and_rows, probabilities.astype(np.uint64), limits, others)
    slope = rate / total

    def work(chunk: int) -> tuple[int, int, float]:
        epoch, place = divmod(chunk, len(cuts) - 1)
        first, last = cuts[place], cuts[place + 1]
        now = rate - slope * (epoch * len(numbers) + first)
        seed = (settings.seed << 32) + chunk
        chunk_numbers = np.asarray(numbers[first:last])
        pairs, loss = train_lines(chunk_numbers, *arrays, settings.window, settings.negatives, now, slope, seed)
        return int(epoch * len(numbers) + last), pairs, loss

    threads = settings.threads or processors()
    for count, pairs, loss in map_threads(work, range(settings.epochs * (len(cuts) - 1)), threads):
        if not math.isfinite(loss):
            raise _diverged(rate, count, total)
        values = {"loss": loss / pairs} if pairs else {}
        watch(Progress("vectors", count, total, "words", values))
    if not all(np.isfinite([rows.min(), rows.max()]).all() for rows in (inputs, outputs)):
        raise _diverged(rate, total, total)


def _diverged(rate: float, count: int, total: int) -> ValueError:
    return ValueError(
        f"the vectors are not finite after {count:,} of {total:,} words: the rate of {rate:g} is too high. "
        f"Lower skipgram.rate, to {rate / 10:g} say"
    )


def _cuts(numbers: np.ndarray) -> np.ndarray:
    """Return where each chunk of whole lines begins, and the end of the last."""
    ends = np.flatnonzero(numbers == -1) + 1
    size = min(_CHUNK, max(_LEAST_CHUNK, len(numbers) // 100))
    places = np.searchsorted(ends, np.arange(size, len(numbers), size))
    return np.unique(np.concatenate([[0], ends[places], [len(numbers)]]))


def retention(counts: np.ndarray, read: int, sample: float) -> np.ndarray:
    """Return (V,) the probabilities with which sub-sampling keeps a word, where t is `sample`.

    f is the word's share of the `read` words of the text, rare words included, as in the official tool; Mikolov et al.
    have the first term only.
    """
    shares = counts / read
    return np.minimum(np.sqrt(sample / shares) + sample / shares, 1)  # min(sqrt(t / f) + t / f, 1)


def negative_distribution(counts: np.ndarray) -> np.ndarray:
    """Return (V,) the distribution of negatives, in proportion to the square roots of the counts."""
    roots = np.sqrt(counts)
    return np.asarray(roots / roots.sum())


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (V,) uint64 limits and (V,) int32 others, by which v is sampled in proportion to its weight.

    Sample v uniformly and 32 bits; take others[v] if the bits reach limits[v], else v (Walker, 1977; Vose, 1991).
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
