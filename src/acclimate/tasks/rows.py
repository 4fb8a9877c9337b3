"""Labelled examples as the token rows that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import Batch, Example

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, labels: Sequence[str], max_tokens: int
) -> Batch:
    """All examples as one batch, in their order, each cut to `max_tokens` (of a pair, the longer text is cut first).

    rows["label"] is (B,) int64, indices into `labels`. Raises ValueError for a label that is not among them.
    """
    index = {label: number for number, label in enumerate(labels)}
    for example in examples:
        if example.label not in index:
            raise ValueError(f"{example.id}: label {example.label!r} is not among {', '.join(labels)}")
    texts = [example.text for example in examples]
    pairs = [example.pair or "" for example in examples] if any(example.pair for example in examples) else None
    encoded = tokenizer(texts, pairs, truncation=True, max_length=max_tokens, return_attention_mask=False)
    rows = encoded["input_ids"]
    tokens = {}
    if "token_type_ids" in encoded and pairs is not None:
        tokens["token_type_ids"] = np.concatenate(
            [np.asarray(row, dtype=np.int64) for row in encoded["token_type_ids"]]
        )
    return Batch(
        ids=np.concatenate([np.asarray(row, dtype=np.int64) for row in rows]),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        tokens=tokens,
        rows={"label": np.asarray([index[example.label] for example in examples], dtype=np.int64)},
        names=[example.id for example in examples],
        pad=int(tokenizer.pad_token_id or 0),
    )
