"""How well vectors fit text that they were not trained on: the mean loss of skip-gram with negative sampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from acclimate.text.vectors.files import open_bin
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.training import lines_of_words, negative_distribution, retention
from acclimate.text.vectors.vectors import Vectors

_PIECE = 4096  # pairs


def skipgram_loss(path: Path, texts: Iterable[str], among: Mapping[str, int], settings: Skipgram) -> float:
    """Mean over pairs of -log s(u v) - sum over negatives n of log s(-u_n v), s the logistic function (section 3.1).

    among   words and how often they occur in the training text of the domain: they alone are read, sub-sampled by these
            counts, and drawn as negatives. Give words that all `.bin`s have, and the same for all: then windows,
            negatives and words left out are the same too, as they depend on texts, among and settings only.
    Raises ValueError where `among` has fewer than two words with a count, the file lacks one of them, or no two of them
    meet in a window.
    """
    file = open_bin(path)
    if lacking := [word for word in among if word not in file.index]:
        raise ValueError(f"{path} has no row for {len(lacking):,} of the words, such as {lacking[0]!r}. Remove them")
    if sum(count > 0 for count in among.values()) < 2:
        raise ValueError(f"{list(among)[:5]} are fewer than two words that occur, and negatives need two. Give more")
    words = list(among)
    vectors, _ = Vectors(file).look_up(words)
    outputs = file.output_rows(np.array([file.index[word] for word in words]))
    total, pairs = 0.0, 0
    for piece in _pieces(texts, words, np.array(list(among.values()), float), settings):
        scores = np.einsum("pd,pkd->pk", vectors[piece[:, 0]], outputs[piece[:, 1:]])
        scores[:, 0] *= -1
        total += float(np.logaddexp(0, scores.astype(float)).sum())
        pairs += len(piece)
    if not pairs:
        raise ValueError("the words meet in a window of the texts. Give more text")
    return total / pairs


def _pieces(texts: Iterable[str], words: list[str], counts: np.ndarray, settings: Skipgram) -> Iterator[np.ndarray]:
    """(P, 2 + negatives) a word, one of its window, and others drawn as in training; P is `_PIECE` or a little more."""
    random, waiting, size = np.random.default_rng(settings.seed + 1), [], 0
    chances = negative_distribution(counts)
    for near in _pairs(texts, words, counts, settings):
        waiting.append(near)
        size += len(near)
        if size >= _PIECE:
            yield _with_negatives(np.concatenate(waiting), chances, settings.negatives, random)
            waiting, size = [], 0
    if size:
        yield _with_negatives(np.concatenate(waiting), chances, settings.negatives, random)


def _pairs(texts: Iterable[str], words: list[str], counts: np.ndarray, settings: Skipgram) -> Iterator[np.ndarray]:
    """(P, 2) a word and each of its window, word after word."""
    random, index = np.random.default_rng(settings.seed), {word: number for number, word in enumerate(words)}
    kept = retention(counts, int(counts.sum()), settings.sample)
    for line in lines_of_words(texts, settings.lower):
        numbers = np.array([index[word] for word in line if word in index], np.int64)
        numbers = numbers[random.random(len(numbers)) < kept[numbers]]
        reaches = random.integers(1, settings.window + 1, len(numbers))
        for centre, reach in enumerate(reaches.tolist()):
            near = np.r_[max(centre - reach, 0) : centre, centre + 1 : min(centre + reach + 1, len(numbers))]
            yield np.stack([np.full(len(near), numbers[centre]), numbers[near]], axis=1)


def _with_negatives(pairs: np.ndarray, chances: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    negatives = random.choice(len(chances), (len(pairs), count), p=chances)
    again = negatives == pairs[:, 1:2]
    while again.any():
        negatives[again] = random.choice(len(chances), int(again.sum()), p=chances)
        again = negatives == pairs[:, 1:2]
    return np.concatenate([pairs, negatives], axis=1)
