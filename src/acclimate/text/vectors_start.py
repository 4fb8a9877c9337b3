"""What training begins from: rows of words, n-gram buckets and outputs, by number, from a file or drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from acclimate.text.vectors_files import NEGATIVE_SAMPLING, Bin, Vec, open_bin, open_vec
from acclimate.text.vectors_kernels import random_rows
from acclimate.text.vectors_training import Skipgram, ngrams

Rows = Callable[[np.ndarray], np.ndarray]  # (N,) numbers -> (N, dim) float32


@dataclass(frozen=True)
class Start:
    words: Sequence[str]
    index: Mapping[str, int]
    counts: np.ndarray  # (W,) int64
    read: int  # words of the text that it was trained on
    buckets: int
    word_rows: Rows
    bucket_rows: Rows
    output_rows: Rows
    new_rows: Rows  # of words that it lacks, numbered from W on
    trained: bool  # whether n-grams have rows that mean something, so that new words can begin as their mean


def open_file(path: Path) -> Bin | Vec:
    if not path.is_file():
        raise ValueError(f"{path} is not there. Give the path of a fastText .bin or .vec")
    return open_vec(path) if path.suffix == ".vec" else open_bin(path)


def start_from(path: Path | None, settings: Skipgram) -> Start:
    """Raises ValueError where the file cannot be gone on with under these settings."""
    if path is None:
        return _nothing(settings)
    file = open_file(path)
    return _from_bin(file, settings) if isinstance(file, Bin) else _from_vec(file, settings)


def _nothing(settings: Skipgram) -> Start:
    def words(numbers: np.ndarray) -> np.ndarray:
        return np.asarray(random_rows(numbers, settings.seed, settings.dim))

    def buckets(numbers: np.ndarray) -> np.ndarray:
        first = 1 << 32  # no word has such a number
        return np.asarray(random_rows(numbers + first, settings.seed, settings.dim))

    def outputs(numbers: np.ndarray) -> np.ndarray:
        return np.zeros((len(numbers), settings.dim), np.float32)

    count = settings.buckets if settings.longest else 0
    return Start([], {}, np.zeros(0, np.int64), 0, count, words, buckets, outputs, words, False)


def _from_bin(file: Bin, settings: Skipgram) -> Start:
    header = file.header
    if header.loss != NEGATIVE_SAMPLING:
        raise ValueError(
            f"{file.path} was not trained with negative sampling, so its output rows are not words'. "
            "Go on from a .bin of `-loss ns`"
        )
    for name in ("dim", "shortest", "longest", "buckets"):
        if (has := getattr(header, name)) != (set_to := getattr(settings, name)) and (name == "dim" or header.longest):
            raise ValueError(f"{file.path} has {name} {has:,}, the settings {set_to:,}. Set {name}={has}")
    if not header.longest and settings.longest:
        raise ValueError(f"{file.path} has no n-grams, the settings have. Set longest=0")
    rest = _nothing(settings)
    return Start(
        file.words,
        file.index,
        file.counts,
        file.read,
        header.buckets,
        file.word_rows,
        file.bucket_rows,
        file.output_rows,
        rest.new_rows,
        True,
    )


def _from_vec(file: Vec, settings: Skipgram) -> Start:
    if file.dim != settings.dim:
        asked = f"{file.path} has dim {file.dim:,}, the settings {settings.dim:,}"
        raise ValueError(f"{asked}. Set skipgram.dim={file.dim}")
    rest = _nothing(settings)

    def words(numbers: np.ndarray) -> np.ndarray:
        names = [file.words[number] for number in numbers.tolist()]
        begins, _ = ngrams(names, settings.shortest, settings.longest, settings.buckets)
        return np.asarray(file.word_rows(numbers) * (np.diff(begins) + 1).astype(np.float32)[:, None])

    unseen = np.zeros(len(file.words), np.int64)
    return replace(rest, words=file.words, index=file.index, counts=unseen, word_rows=words)
