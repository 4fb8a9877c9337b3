"""Streams of batches: the batch of a step depends on the seed and the step alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from acclimate.core.types import Batch, Stream
from acclimate.text.masking import Replacement, mask_words
from acclimate.text.rows import Rows, masked_segments
from acclimate.text.tokens import Tokens

# What a generator is for, last in its seed. None is 0: numpy pads seeds with zeros, so [seed, n] equals [seed, n, 0].
_STEP_MASKS, _EVALUATION_MASKS, _EVALUATION_SAMPLE, _ROW_MASKS, _BESIDE = 1, 2, 3, 4, 5

Window = Callable[[int], tuple[int, int]]  # step -> the first of its rows and the one after its last, over all epochs


def masked_stream(
    tokens: Tokens,
    *,
    batch: int,
    longest: int,
    seed: int,
    rate: float | Callable[[int], float] = 0.15,
    whole_words: bool = True,
    masked: float = 0.8,
    random: float = 0.1,
) -> Stream:
    """Return rows for masked language modelling: every segment of the corpus once an epoch, each epoch in an order of
    its own.

    batch    rows of a step; an epoch that ends within a step is followed by the next one
    longest  tokens of a row at most, special tokens included
    rate     share of the tokens to predict, or a function from the step to that share
    masked, random  shares of the predicted tokens that become the mask and a random token

    Batches carry tokens["labels"] and the names `document 17` (the place of the document in the corpus, from 0).
    Raises ValueError where a setting is out of range.
    """
    _require_rows(batch)
    rows = masked_segments(tokens, longest=longest, whole_words=whole_words, masked=masked, random=random)
    return sampled(rows, even(batch), seed=seed, rate=rate)


def even(batch: int, first_step: int = 0) -> Window:
    """Return a stream with this many rows at every step from `first_step` on."""
    return lambda step: ((step - first_step) * batch, (step + 1 - first_step) * batch)


def sampled(rows: Rows, window: Window, *, seed: int, rate: float | Callable[[int], float], beside: int = 0) -> Stream:
    """Batches of rows that a corpus has, every one of them once an epoch, each epoch in an order of its own.

    rate    share of the tokens to predict, or a function from the step to that share
    beside  of streams that go side by side under one seed, the number of this one: order and masks are its own

    A step whose window is empty gives a batch without rows.
    """
    stream_number = [_BESIDE + beside] if beside else []
    numbers = _in_epochs(len(rows), seed, *stream_number)

    def stream(step: int) -> Batch:
        generator = np.random.default_rng([seed, step, _STEP_MASKS, *stream_number])
        return rows(numbers(*window(step)), rate=rate(step) if callable(rate) else rate, generator=generator)

    return stream


def evaluation_batches(
    tokens: Tokens,
    *,
    batch: int,
    longest: int,
    seed: int,
    rate: float = 0.15,
    whole_words: bool = True,
    segments_at_most: int | None = None,
) -> list[Batch]:
    """Return every segment once, in the corpus's order, with masks that depend on the seed and not on the size of a
    batch.

    segments_at_most  take so many segments at random (by the seed) where there are more
    All is kept in memory, about 25 bytes a token: give `segments_at_most` for a large corpus.
    """
    _require_rows(batch)
    segments = masked_segments(tokens, longest=longest, whole_words=whole_words)
    count = len(segments)
    chosen = np.arange(count)
    if segments_at_most is not None and segments_at_most < count:
        _require_rows(segments_at_most, "segments_at_most")
        generator = np.random.default_rng([seed, 0, _EVALUATION_SAMPLE])
        chosen = np.sort(generator.choice(count, segments_at_most, replace=False))
    rows = segments(chosen, rate=rate, generator=np.random.default_rng([seed, 0, _EVALUATION_MASKS]))
    return [rows.take(np.arange(first, min(first + batch, len(rows)))) for first in range(0, len(rows), batch)]


def rows_stream(rows: Batch, *, batch: int, seed: int) -> Stream:
    """Return rows that are already encoded, each once an epoch, each epoch in an order of its own; for fine-tuning.

    rows   all rows of the training set, with their labels and names
    batch  rows of a step; an epoch that ends within a step is followed by the next one
    Raises ValueError where there are no rows.
    """
    _require_rows(batch)
    rows_of_step = _rows_of_step(len(rows), batch, seed)

    def stream(step: int) -> Batch:
        return rows.take(rows_of_step(step))

    return stream


def masked_rows_stream(
    rows: Batch,
    *,
    batch: int,
    seed: int,
    replacement: Replacement,
    rate: float = 0.15,
    word_starts: np.ndarray | None = None,
) -> Stream:
    """Return the rows of `rows_stream` with tokens masked, anew at every step: labelled rows for masked language
    modelling.

    word_starts  (N,) bool, where a token of the rows begins a word: whole words are masked; None: single tokens

    Batches carry tokens["labels"] beside what the rows have. Raises as `rows_stream` and `mask_words` do.
    """
    starts = np.ones(len(rows.ids), bool) if word_starts is None else word_starts
    plain = rows_stream(replace(rows, tokens={**rows.tokens, "word_starts": starts}), batch=batch, seed=seed)

    def stream(step: int) -> Batch:
        chosen = plain(step)
        ids, labels = mask_words(
            chosen.ids,
            chosen.offsets,
            word_starts=chosen.tokens["word_starts"],
            rate=rate,
            replacement=replacement,
            generator=np.random.default_rng([seed, step, _ROW_MASKS]),
            whole_words=word_starts is not None,
        )
        others = {name: values for name, values in chosen.tokens.items() if name != "word_starts"}
        return replace(chosen, ids=ids, tokens={**others, "labels": labels})

    return stream


def interleaved(external: Stream, internal: Stream, *, rho_1: int) -> Stream:
    """rho_1 external batches, then one internal batch, and again (TLM, section 3.1); each stream in its own order."""
    if rho_1 < 0:
        raise ValueError(f"rho_1 is {rho_1}, but it counts batches. Set it to 0 or more")

    def stream(step: int) -> Batch:
        turn, place = divmod(step, rho_1 + 1)
        return internal(turn) if place == rho_1 else external(step - turn)

    return stream


def _require_rows(batch: int, name: str = "batch") -> None:
    if batch < 1:
        raise ValueError(f"{name} is {batch}, but it counts rows. Set it to 1 or more")


def _rows_of_step(count: int, batch: int, seed: int) -> Callable[[int], np.ndarray]:
    """Step -> (batch,) row numbers."""
    numbers, window = _in_epochs(count, seed), even(batch)
    return lambda step: numbers(*window(step))


def _in_epochs(count: int, seed: int, *own: int) -> Callable[[int, int], np.ndarray]:
    """(first, last) -> (last - first,) row numbers: a window of the permutations of all epochs, one after the other."""
    if count < 1:
        raise ValueError("there are no rows to make batches of")

    @lru_cache(maxsize=2)  # a step at the end of an epoch needs two
    def permutation(epoch: int) -> np.ndarray:
        return np.random.default_rng([seed, epoch, *own]).permutation(count)

    def numbers(first: int, last: int) -> np.ndarray:
        parts = [np.zeros(0, np.int64)]
        for epoch in range(first // count, -(-last // count)):
            begin = epoch * count
            parts.append(permutation(epoch)[max(first - begin, 0) : last - begin])
        return np.concatenate(parts)

    return numbers


# Streams put together: rows of several texts in one batch, a run in parts.


def shares(batch: int, share: float, first_step: int = 0) -> tuple[Window, Window]:
    """Windows of two texts whose rows make a batch together: of the second there are this share of all rows.

    The share holds over the run: where it is no whole number of rows, steps have one row of the second more or less.
    """

    def of_second(step: int) -> int:
        return math.floor((step - first_step) * batch * share)

    def of_first(step: int) -> int:
        return (step - first_step) * batch - of_second(step)

    return (
        lambda step: (of_first(step), of_first(step + 1)),
        lambda step: (of_second(step), of_second(step + 1)),
    )


def side_by_side(streams: Sequence[Stream]) -> Stream:
    """Batches of the rows of all streams, one after the other."""
    return lambda step: joined([stream(step) for stream in streams])


def in_turn(first: Stream, second: Stream, *, at: int) -> Stream:
    """Return the first stream before step `at`, the second from there on; both are asked by the number of the step."""
    return lambda step: first(step) if step < at else second(step)


def joined(batches: Sequence[Batch]) -> Batch:
    """One batch of the rows of all; those without rows need not have the fields of the others."""
    filled = [batch for batch in batches if len(batch)]
    first, *others = filled
    assert all(
        batch.tokens.keys() == first.tokens.keys() and batch.rows.keys() == first.rows.keys() for batch in others
    )
    lengths = np.concatenate([batch.lengths for batch in filled])
    return Batch(
        ids=np.concatenate([batch.ids for batch in filled]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        tokens={name: np.concatenate([batch.tokens[name] for batch in filled]) for name in first.tokens},
        rows={name: np.concatenate([batch.rows[name] for batch in filled]) for name in first.rows},
        names=[name for batch in filled for name in batch.names],
        pad=first.pad,
    )
