"""A model together with what is minimised.

Shape suffixes: M predicted positions of a piece, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.models.flops import training_flops
from acclimate.models.heads import masked_logits

Piece = dict[str, Tensor]


class Objective(nn.Module):
    """What a run minimises: sum over terms of `weights[term] * (sum of the term over the step) / counts[term]`.

    `forward` takes a piece of the step's batch and returns each term's *sum* over it; the loop divides by the count of
    the whole step, so that pieces, processes and padding never change the loss. `models` are the parts that a
    checkpoint of the run is made from; whatever has parameters is a child module.
    """

    weights: dict[str, float]
    couples_rows = False  # True where a row's loss depends on other rows of the batch: such a batch is never cut

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, int]:
        """What each term is averaged over, for the whole step's batch."""

    @abstractmethod
    def forward(self, piece: Piece) -> dict[str, Tensor]:
        """Each term's sum over the piece, as float32 scalars."""

    @abstractmethod
    def flops(self, batch: Batch) -> float:
        """Floating point operations of training on the batch once, by formula (models/flops.py)."""

    def on_gradients(self) -> None:
        """Once a step, on the step's whole gradient, before clipping."""

    def on_update(self) -> None:
        """Once a step, after the optimiser moved the weights."""


class MaskedLanguageLoss(Objective):
    """-log p(w_m | the text with m masked), averaged over the masked positions of the step (Devlin et al., 2019, 3.1).

    The head sees the masked positions only, which for the families of models/heads.py is most of the cost of a small
    model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.weights = {"mlm": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED))}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        logits_MV = masked_logits(self.model, piece, piece["positions"])
        return {"mlm": nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum")}

    def flops(self, batch: Batch) -> float:
        return training_flops(self.model, batch.lengths, predicted=self.counts(batch)["mlm"])


def pad(batch: Batch, where: torch.device) -> Piece:
    """The rows put together as tensors, each padded to the longest.

    input_ids       (B, T) int64
    attention_mask  (B, T) int64, 1 on real tokens; left out where no row is padded
    labels          (M,) int64, those of the predicted positions only, and
    positions       (M,) int64, where these stand in the flattened (B * T)
    every other field of `batch.tokens` as (B, T), filled with 0; every field of `batch.rows` as it is
    """
    lengths = batch.lengths
    rows, longest = len(batch), int(lengths.max())
    real = np.arange(longest) < lengths[:, None]

    def put(values: np.ndarray, fill: int) -> np.ndarray:
        table = np.full((rows, longest), fill, dtype=np.int64)
        table[real] = values
        return table

    arrays = {"input_ids": put(batch.ids, batch.pad)}
    if not real.all():
        arrays["attention_mask"] = real.astype(np.int64)
    for name, values in batch.tokens.items():
        if name == "labels":
            table = put(values, NOT_PREDICTED).reshape(-1)
            arrays["positions"] = np.flatnonzero(table != NOT_PREDICTED)
            arrays["labels"] = table[arrays["positions"]]
        else:
            arrays[name] = put(values, 0)
    arrays.update(batch.rows)
    return {name: torch.from_numpy(values).to(where, non_blocking=True) for name, values in arrays.items()}


def cut(lengths: np.ndarray, piece_tokens: int) -> list[np.ndarray]:
    """Row indices of each piece: rows sorted by length, cut into the fewest pieces of at most `piece_tokens` tokens,
    padding included, of about equal token count.

    A row longer than `piece_tokens` is a piece of its own. lengths: (B,) tokens of each row.
    """
    order = np.argsort(-lengths, kind="stable")
    longest = lengths[order]

    def pieces(most: int) -> list[int]:
        starts, row = [], 0
        while row < len(order):
            starts.append(row)
            row += max(1, most // int(longest[row]))  # rows are sorted: the first of a piece is its longest
        return starts

    fewest = len(pieces(piece_tokens))
    low, high = max(1, int(longest[0])), max(piece_tokens, int(longest[0]))
    while low < high:  # the smallest limit that needs no more pieces makes them about equal
        middle = (low + high) // 2
        low, high = (low, middle) if len(pieces(middle)) <= fewest else (middle + 1, high)
    return np.split(order, pieces(high)[1:])
