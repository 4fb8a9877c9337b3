"""Which tokens of a row stand for the two mentions of a relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import MENTIONS, Batch, Example

if TYPE_CHECKING:
    from transformers import BatchEncoding

PAIR = 2  # mentions


def mention_places(
    examples: Sequence[Example], encoded: BatchEncoding, spans: Callable[[Example], Sequence[tuple[int, int]]]
) -> np.ndarray:
    """(B, 2, 2) from which token of its row each mention goes to which, the last excluded: all that it touches.

    encoded  the texts, with the characters of each token
    spans    where the mentions of an example stand in its text

    A mention that was cut off is the row's first token. Raises ValueError where an example has not two mentions.
    """
    places = np.tile(np.array([0, 1], dtype=np.int64), (len(examples), PAIR, 1))
    for row, example in enumerate(examples):
        stretches = spans(example)
        if len(stretches) != PAIR:
            raise ValueError(
                f"{example.id}: {len(stretches)} mentions are known of, but {PAIR} are needed to read them in place of "
                f"the first token. Leave pooling at 'first', or prepare the task from annotated relations"
            )
        offsets = np.asarray(encoded["offset_mapping"][row])
        in_text = np.array([sequence == 0 for sequence in encoded.sequence_ids(row)])
        for mention, (start, end) in enumerate(stretches):
            touched = np.flatnonzero(in_text & (offsets[:, 0] < end) & (offsets[:, 1] > start))
            if len(touched):
                places[row, mention] = touched[0], touched[-1] + 1
    return places


def cut_off(rows: Batch) -> int:
    """Of how many rows a mention was cut off."""
    return int((rows.rows[MENTIONS][:, :, 0] == 0).any(axis=1).sum())
