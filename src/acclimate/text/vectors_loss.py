"""How well vectors fit text that they were not trained on: the mean loss of skip-gram with negative sampling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from acclimate.text.vectors import Vectors
from acclimate.text.vectors_files import open_bin
from acclimate.text.vectors_text import lines
from acclimate.text.vectors_training import Skipgram

_PIECE = 4096  # pairs


def skipgram_loss(path: Path, texts: Iterable[str], among: Mapping[str, int], settings: Skipgram) -> float:
    """Mean over pairs of -log s(u v) - sum over negatives n of log s(-u_n v), s the logistic function (section 3.1).

    among   words and how often they occur in the training text of the domain: they alone are read, sub-sampled by these
            counts, and drawn as negatives. Give words that all `.bin`s have, and the same for all: then windows,
            negatives and words left out are the same too, as they depend on texts, among and settings only.
    Raises ValueError where the file lacks a word of `among`, or no two of them meet in a window.
    """
    file = open_bin(path)
    if lacking := [word for word in among if word not in file.index]:
        raise ValueError(f"{path} has no row for {len(lacking):,} of the words, such as {lacking[0]!r}. Leave them out")
    words = list(among)
    pairs = _pairs(texts, words, np.array(list(among.values()), float), settings)
    if not len(pairs):
        raise ValueError("no two of the words meet in a window of the texts. Give more text")
    vectors, _ = Vectors(file).of(words)
    outputs = file.output_rows(np.array([file.index[word] for word in words]))
    total = 0.0
    for first in range(0, len(pairs), _PIECE):
        piece = pairs[first : first + _PIECE]
        scores = np.einsum("pd,pkd->pk", vectors[piece[:, 0]], outputs[piece[:, 1:]])
        scores[:, 0] *= -1
        total += float(np.logaddexp(0, scores.astype(float)).sum())
    return total / len(pairs)


def _pairs(texts: Iterable[str], words: list[str], counts: np.ndarray, settings: Skipgram) -> np.ndarray:
    """(P, 2 + negatives) a word, one of its window, and others drawn in proportion to the root of their counts."""
    random, index = np.random.default_rng(settings.seed), {word: number for number, word in enumerate(words)}
    shares, found = counts / counts.sum(), []
    kept = np.sqrt(settings.sample / shares) + settings.sample / shares
    for line in lines(texts, settings.lower):
        numbers = np.array([index[word] for word in line if word in index], np.int64)
        numbers = numbers[random.random(len(numbers)) < kept[numbers]]
        reaches = random.integers(1, settings.window + 1, len(numbers))
        for centre, reach in enumerate(reaches.tolist()):
            near = np.r_[max(centre - reach, 0) : centre, centre + 1 : min(centre + reach + 1, len(numbers))]
            found.append(np.stack([np.full(len(near), numbers[centre]), numbers[near]], axis=1))
    pairs = np.concatenate(found) if found else np.empty((0, 2), np.int64)
    roots = np.sqrt(counts) / np.sqrt(counts).sum()
    negatives = random.choice(len(words), (len(pairs), settings.negatives), p=roots)
    again = negatives == pairs[:, 1:2]
    while again.any():
        negatives[again] = random.choice(len(words), int(again.sum()), p=roots)
        again = negatives == pairs[:, 1:2]
    return np.concatenate([pairs, negatives], axis=1)
