"""Streams put together: rows of several texts in one batch, a run in parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from acclimate.core.types import Batch, Stream
from acclimate.text.streams import Window


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
    """The first stream before step `at`, the second from there on; both are asked by the number of the step."""
    return lambda step: first(step) if step < at else second(step)


def joined(batches: Sequence[Batch]) -> Batch:
    """One batch of the rows of all; those without rows need not have the fields of the others."""
    own = [batch for batch in batches if len(batch)]
    first, *others = own
    assert all(
        batch.tokens.keys() == first.tokens.keys() and batch.rows.keys() == first.rows.keys() for batch in others
    )
    lengths = np.concatenate([batch.lengths for batch in own])
    return Batch(
        ids=np.concatenate([batch.ids for batch in own]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        tokens={name: np.concatenate([batch.tokens[name] for batch in own]) for name in first.tokens},
        rows={name: np.concatenate([batch.rows[name] for batch in own]) for name in first.rows},
        names=[name for batch in own for name in batch.names],
        pad=first.pad,
    )
