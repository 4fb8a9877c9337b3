"""Make streams of batches: the batch of a step depends only on the seed and the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from acclimate.core import machines
from acclimate.core.types import Batch, Stream
from acclimate.text.masking import Replacement, mask_words
from acclimate.text.rows import Rows, masked_segments
from acclimate.text.tokens import Tokens

# The purpose of a generator is the last number of its seed. 0 is not used: numpy pads seeds with zeros, so [seed, n]
# equals [seed, n, 0].
_STEP_MASKS, _EVALUATION_MASKS, _EVALUATION_SAMPLE, _ROW_MASKS, _BESIDE = 1, 2, 3, 4, 5
MASKED_WORDS = "masked_words"  # of each row
_TOKEN_BYTES = 50  # of a batch in work and the next one: ids and labels as int64, and what masks are drawn with
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
    """Return rows for masked language modelling: every segment of the corpus once an epoch, in a new order each epoch.

    batch    rows of a step; an epoch that ends within a step is followed by the next one
    longest  tokens of a row at most, special tokens included
    rate     share of the tokens to predict, or a function from the step to that share
    masked, random  shares of the predicted tokens that become the mask and a random token

    Batches carry tokens["labels"] and the names `document 17` (the place of the document in the corpus, from 0).
    Raises ValueError if a setting is out of range, and if a batch cannot fit this machine's memory.
    """
    _require_rows(batch)
    rows = masked_segments(tokens, longest=longest, whole_words=whole_words, masked=masked, random=random)
    _require_memory(batch, rows.mean_tokens)
    return sampled_rows(rows, even(batch), seed=seed, rate=rate)


def sampled_rows(
    rows: Rows, window: Window, *, seed: int, rate: float | Callable[[int], float], beside: int = 0
) -> Stream:
    """Return batches of a corpus's rows, every row once an epoch, in a new order each epoch.

    rate    share of the tokens to predict, or a function from the step to that share
    beside  the number of this stream if several run under one seed; each has a different order and different masks

    A step with an empty window gives a batch without rows.
    """
    stream_number = [_BESIDE + beside] if beside else []
    numbers = _epoch_order(len(rows), seed, *stream_number)

    def stream(step: int) -> Batch:
        generator = np.random.default_rng([seed, step, _STEP_MASKS, *stream_number])
        return rows(numbers(*window(step)), rate=rate(step) if callable(rate) else rate, generator=generator)

    return stream


def even(batch: int, first_step: int = 0) -> Window:
    """Return the window of `batch` rows at every step from `first_step` on."""
    return lambda step: ((step - first_step) * batch, (step + 1 - first_step) * batch)


def shares(batch: int, share: float, first_step: int = 0) -> tuple[Window, Window]:
    """Return the windows of two texts that share each batch; `share` is that of the second text.

    The share holds over the run: if it is not a whole number of rows, steps have one row of the second more or less.
    """

    def second_rows(step: int) -> int:
        return math.floor((step - first_step) * batch * share)

    def first_rows(step: int) -> int:
        return (step - first_step) * batch - second_rows(step)

    return (
        lambda step: (first_rows(step), first_rows(step + 1)),
        lambda step: (second_rows(step), second_rows(step + 1)),
    )


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
    """Return every segment once, in order, with masks that depend on the seed but not on the size of a batch.

    With whole words each row has in rows[MASKED_WORDS] how many words are predicted (`Segments.masked_words`).

    segments_at_most  if there are more segments, sample this many, by the seed
    All batches are in memory, about 25 bytes a token: give `segments_at_most` for a large corpus.
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
    if whole_words:
        rows = replace(rows, rows={**rows.rows, MASKED_WORDS: segments.masked_words(chosen, rows)})
    return [rows.take(np.arange(first, min(first + batch, len(rows)))) for first in range(0, len(rows), batch)]


def rows_stream(rows: Batch, *, batch: int, seed: int) -> Stream:
    """Return encoded rows for fine-tuning, each once an epoch, in a new order each epoch.

    rows   all rows of the training set, with their labels and names
    batch  rows of a step; an epoch that ends within a step is followed by the next one
    Raises ValueError if there are no rows, and if a batch cannot fit this machine's memory.
    """
    _require_rows(batch)
    _require_memory(batch, len(rows.ids) / max(1, len(rows)))
    rows_of_step = _rows_of_step(len(rows), batch, seed)

    def stream(step: int) -> Batch:
        return rows.take(rows_of_step(step))

    return stream


def paired_rows_stream(rows: Batch, partners: Sequence[Sequence[int]], *, batch: int, seed: int) -> Stream:
    """Return `batch` of the first rows a step, each followed by one of its partners, which the seed draws.

    partners  of each of the first rows, the places of its partners among all rows; each row is read once an epoch
    Raises as `rows_stream` does.
    """
    _require_rows(batch)
    _require_memory(2 * batch, len(rows.ids) / max(1, len(rows)))
    rows_of_step = _rows_of_step(len(partners), batch, seed)

    def stream(step: int) -> Batch:
        draws, first = np.random.default_rng((seed, step)), rows_of_step(step)
        second = [partners[row][int(draws.integers(len(partners[row])))] for row in first]
        return rows.take(np.stack([first, np.array(second)], axis=1).ravel())

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
    """Return the rows of `rows_stream` for masked language modelling, with new masks at every step.

    word_starts  (N,) bool, True if a token begins a word, to mask whole words; None: mask single tokens

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
    """Return rho_1 external batches, then one internal batch, and so on (TLM, section 3.1)."""
    if rho_1 < 0:
        raise ValueError(f"rho_1 is {rho_1}, but it counts batches. Set it to 0 or more")

    def stream(step: int) -> Batch:
        turn, place = divmod(step, rho_1 + 1)
        return internal(turn) if place == rho_1 else external(step - turn)

    return stream


def side_by_side(streams: Sequence[Stream]) -> Stream:
    """Return a stream whose batches have the rows of all streams."""
    return lambda step: joined([stream(step) for stream in streams])


def followed_by(first: Stream, second: Stream, *, at: int) -> Stream:
    """Return the first stream before step `at`, the second from there on; both get the number of the step."""
    return lambda step: first(step) if step < at else second(step)


def joined(batches: Sequence[Batch]) -> Batch:
    """Return one batch of all rows; batches without rows may lack the fields of the others."""
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


def _require_rows(batch: int, name: str = "batch") -> None:
    if batch < 1:
        raise ValueError(f"{name} is {batch}, but it counts rows. Set it to 1 or more")


def _require_memory(batch: int, tokens: float) -> None:
    """Raise ValueError if the rows of a step cannot fit this machine's memory. tokens: of a row, the mean"""
    rows = f"a batch of {batch:,} rows, with {tokens:,.0f} tokens each on average, needs {{}} GB of memory"
    machines.require_memory(_TOKEN_BYTES * tokens * batch, rows, "Lower plan.batch")


def _rows_of_step(count: int, batch: int, seed: int) -> Callable[[int], np.ndarray]:
    """Return a function from the step to (batch,) row numbers."""
    numbers, window = _epoch_order(count, seed), even(batch)
    return lambda step: numbers(*window(step))


def _epoch_order(count: int, seed: int, *stream_number: int) -> Callable[[int, int], np.ndarray]:
    """Return (first, last) -> (last - first,) row numbers, from the permutations of all epochs in turn."""
    if count < 1:
        raise ValueError("there are no rows for batches")

    @lru_cache(maxsize=2)  # a step at the end of an epoch needs two
    def permutation(epoch: int) -> np.ndarray:
        return np.random.default_rng([seed, epoch, *stream_number]).permutation(count)

    def numbers(first: int, last: int) -> np.ndarray:
        parts = [np.zeros(0, np.int64)]
        for epoch in range(first // count, -(-last // count)):
            begin = epoch * count
            parts.append(permutation(epoch)[max(first - begin, 0) : last - begin])
        return np.concatenate(parts)

    return numbers
