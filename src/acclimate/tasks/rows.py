"""Labelled examples as the token rows that a model reads, and their labels as what a loss reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import Batch, Example
from acclimate.tasks.task import Kind

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> Batch:
    """The texts of all examples as one batch, in their order, each cut to `max_tokens` (of a pair, the longer text is
    cut first). Labels are not looked at: `labelled` adds them.
    """
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
        names=[example.id for example in examples],
        pad=int(tokenizer.pad_token_id or 0),
    )


def labelled(rows: Batch, examples: Sequence[Example], kind: Kind, labels: Sequence[str]) -> Batch:
    """The rows with the examples' labels as `rows["label"]`:

    sequence    (B,) int64, indices into `labels`
    multilabel  (B, labels) float32, 1 where the row has the label
    score       (B,) float64, the numbers as they are

    Raises ValueError for a label that is not among them, or is not of the kind.
    """
    index = {label: number for number, label in enumerate(labels)}
    if kind == "sequence":
        codes = [_index(example, example.label, index) for example in examples]
        return _with(rows, np.asarray(codes, dtype=np.int64))
    if kind == "multilabel":
        hot = np.zeros((len(examples), len(labels)), dtype=np.float32)
        for row, example in enumerate(examples):
            if not isinstance(example.label, tuple):
                raise ValueError(f"{example.id}: label {example.label!r} is not a tuple of labels")
            hot[row, [_index(example, label, index) for label in example.label]] = 1
        return _with(rows, hot)
    if kind == "score":
        for example in examples:
            if isinstance(example.label, str | tuple):
                raise ValueError(f"{example.id}: label {example.label!r} is not a number")
        return _with(rows, np.asarray([example.label for example in examples], dtype=np.float64))
    raise ValueError(f"a task of kind '{kind}' cannot be fine-tuned; these can: sequence, multilabel, score")


def _index(example: Example, label: object, index: dict[str, int]) -> int:
    if not isinstance(label, str) or label not in index:
        raise ValueError(f"{example.id}: label {label!r} is not among {', '.join(index)}")
    return index[label]


def _with(rows: Batch, values: np.ndarray) -> Batch:
    return replace(rows, rows={**rows.rows, "label": values})
