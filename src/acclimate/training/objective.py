"""A model together with what is minimised.

Shape suffixes: M predicted positions of a piece, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.models.flops import training_flops
from acclimate.models.heads import has_sparse_head, keeps_rows_apart, masked_logits
from acclimate.training.pieces import Piece


class Objective(nn.Module):
    """What a run minimises: sum over terms of `weights[term] * (sum of the term over the step) / counts[term]`.

    `forward` takes a piece of the step's batch and returns each term's *sum* over it; the loop divides by the count of
    the whole step, so that pieces, processes and padding never change the loss. Whatever has
    parameters is a child module.
    """

    weights: dict[str, float]
    couples_rows = False  # True where a row's loss depends on other rows of the batch: such a batch is never cut
    shares_lines = False  # True where the model keeps rows apart that share a line (training/pieces.py)

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, int]:
        """What each term is averaged over, for the whole step's batch."""

    @abstractmethod
    def forward(self, piece: Piece) -> dict[str, Tensor]:
        """Each term's sum over the piece, as float32 scalars."""

    @abstractmethod
    def flops(self, batch: Batch) -> float:
        """Floating point operations of training on the batch once, by formula (models/flops.py)."""

    def rate_multiple(self, name: str) -> float:
        """How many times the plan's rate the parameter of this name learns at."""
        return 1.0

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
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": int(np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED))}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        logits_MV = masked_logits(self.model, piece, piece["positions"])
        return {"mlm": nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum")}

    def flops(self, batch: Batch) -> float:
        predicted = self.counts(batch)["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        return training_flops(self.model, batch.lengths, predicted=predicted)
