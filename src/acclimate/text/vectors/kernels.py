"""The compiled loops of word vectors: n-grams, random first rows, and skip-gram training.

Sources: Bojanowski et al. (2017), Enriching word vectors with subword information, section 3; Mikolov et al. (2013),
Distributed representations of words and phrases, sections 2.2 (negative sampling) and 2.3 (sub-sampling).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from acclimate.core.compiled import compiled, mix

LONGEST_LINE = 1024  # words; longer lines are cut, as in the official tool
# sums may be taken in any order, but NaN and infinity are kept, so that the loss shows that training diverged
ANY_ORDER = {"reassoc", "contract", "arcp", "nsz", "afn"}
WHOLE = 1 << 32  # a probability p is stored as p * WHOLE and compared with 32 random bits

_STEP = np.uint64(0x9E3779B97F4A7C15)
_32, _40, _LOW = np.uint64(32), np.uint64(40), np.uint64(0xFFFFFFFF)
_BASIS, _PRIME = np.uint32(2166136261), np.uint32(16777619)


@compiled
def subwords(data: Any, ends: Any, shortest: int, longest: int, buckets: int) -> Any:
    """Return where the buckets of each word's n-grams begin, (W + 1,) int64, and all buckets, int32.

    data, ends   UTF-8 of the words with "<" and ">" around each, and where each word ends (W,)
    An n-gram has `shortest` to `longest` characters. Its bucket is the FNV-1a hash of its bytes, taken as signed.
    """
    begins = np.zeros(len(ends) + 1, np.int64)
    buckets_of_ngrams = np.empty(len(data) * max(longest - shortest + 1, 0), np.int32)
    count, first = 0, 0
    for word in range(len(ends)):
        last = ends[word]
        for begin in range(first, last):
            if data[begin] & 0xC0 == 0x80:  # not the first byte of a character
                continue
            value, end, size = _BASIS, begin, 0
            while end < last and size < longest:
                size += 1
                while True:
                    byte = np.uint32(data[end])
                    if byte >= 0x80:
                        byte |= np.uint32(0xFFFFFF00)
                    value = np.uint32((value ^ byte) * _PRIME)
                    end += 1
                    if end == last or data[end] & 0xC0 != 0x80:
                        break
                if size >= shortest and not (size == 1 and (begin == first or end == last)):
                    buckets_of_ngrams[count] = value % np.uint32(buckets)
                    count += 1
        begins[word + 1] = count
        first = last
    return begins, buckets_of_ngrams[:count].copy()


@compiled
def random_vectors(numbers: Any, seed: int, dim: int) -> Any:
    """Return (R, dim) uniform in ±1/dim; a row depends on its number and the seed only."""
    rows = np.empty((len(numbers), dim), np.float32)
    scale = np.float32(2.0**-23 / dim)
    for place in range(len(numbers)):
        state = mix(np.uint64(seed) * _STEP + np.uint64(numbers[place]))
        for column in range(dim):
            state += _STEP
            rows[place, column] = (np.float32(mix(state) >> _40) - np.float32(2.0**23)) * scale
    return rows


@partial(compiled, fastmath=ANY_ORDER)
def train_lines(
    numbers: Any,
    end: int,
    begins: Any,
    rows: Any,
    echoes: Any,
    inputs: Any,
    outputs: Any,
    probabilities: Any,
    limits: Any,
    others: Any,
    window: int,
    negatives: int,
    rate: float,
    slope: float,
    seed: int,
) -> Any:
    """Train skip-gram with negative sampling on lines of text, in place; return (pairs, the sum of their losses).

    For a word with vector h, the mean of its input rows, a word c of its window, and negatives n ~ noise:

        loss = -log sigmoid(h . u_c) - sum over n of log sigmoid(-h . u_n)

    The loss is NaN if a row that was used is not finite.

    numbers           the words' numbers, -1 at the end of a line; end: the number of the word "</s>", or -1
    begins, rows      the input rows of word w are rows[begins[w] : begins[w + 1]]
    echoes            (V,) sum over w's different rows of (times the row occurs) ** 2, divided by its number of rows
    inputs, outputs   (R, dim), (V, dim) float32: h is a mean of `inputs`, u_w is outputs[w]
    probabilities     (V,) uint64, the probability that sub-sampling keeps a word, times WHOLE
    limits, others    (V,) the negatives' distribution, as an alias table
    rate, slope       the rate of the first number, and by how much it falls with each number

    The official tool adds a pair's gradient to all rows of the word and takes their mean again for the next pair. Here
    h itself moves by `echoes` times the gradient, and the rows get the sum after the last pair. The result is the same
    up to rounding, with a sixth of the memory traffic.
    """
    dim = inputs.shape[1]
    hidden, change, total = np.empty(dim, np.float32), np.empty(dim, np.float32), np.empty(dim, np.float32)
    line = np.empty(LONGEST_LINE, np.int32)
    state = mix(np.uint64(seed))
    words, vocabulary = np.uint64(window), np.uint64(len(probabilities))
    count, read, pairs, loss = 0, 0, 0, 0.0
    for place in range(len(numbers)):
        number = numbers[place] if numbers[place] >= 0 else end
        if number >= 0:
            read += 1
            state += _STEP
            if mix(state) >> _32 < probabilities[number]:
                line[count] = number
                count += 1
        if numbers[place] >= 0 and read < LONGEST_LINE and place + 1 < len(numbers):
            continue
        speed: Any = np.float32(rate - slope * place)
        for centre in range(count):
            word = line[centre]
            first, last = begins[word], begins[word + 1]
            share, echo = np.float32(1.0 / (last - first)), echoes[word]
            hidden[:] = 0
            total[:] = 0
            for at in range(first, last):
                row = rows[at]
                for column in range(dim):
                    hidden[column] += inputs[row, column]
            for column in range(dim):
                hidden[column] *= share  # h = mean of the word's rows (Bojanowski et al., section 3.2)
            state += _STEP
            # uniform in 1 to window: near words are taken more often
            reach = 1 + np.int64(((mix(state) >> _32) * words) >> _32)
            leftmost: Any = max(centre - reach, 0)
            rightmost: Any = min(centre + reach + 1, count)
            for context in range(leftmost, rightmost):
                if context == centre:
                    continue
                target = np.int64(line[context])
                change[:] = 0
                likelihood: Any = 1.0
                for turn in range(negatives + 1):
                    chosen = target
                    while turn > 0 and chosen == target:
                        state += _STEP
                        value = mix(state)
                        chosen = np.int64(((value >> _32) * vocabulary) >> _32)
                        if (value & _LOW) >= limits[chosen]:
                            chosen = np.int64(others[chosen])
                    score: Any = np.float32(0)
                    for column in range(dim):
                        score += hidden[column] * outputs[chosen, column]  # h . u
                    # 1 - sigmoid(h . u_c) for the word of the window, 1 - sigmoid(-h . u_n) for a negative
                    wrong = np.float32(1) / (np.float32(1) + math.exp(score if turn == 0 else -score))
                    likelihood *= np.float32(1) - wrong
                    step = speed * wrong if turn == 0 else -speed * wrong  # -rate * d loss / d (h . u)
                    for column in range(dim):
                        change[column] += step * outputs[chosen, column]
                        outputs[chosen, column] += step * hidden[column]
                for column in range(dim):
                    total[column] += change[column]
                    hidden[column] += echo * change[column]
                loss -= math.log(max(likelihood, 1e-30))
                pairs += 1
            for at in range(first, last):
                row = rows[at]
                for column in range(dim):
                    inputs[row, column] += total[column]
        count, read = 0, 0
    return pairs, loss
