"""What fine-tuning minimises and what a fine-tuned model predicts, for each kind of task.

Shape suffixes: B rows, C labels (1 for a score).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import Batch, Label, Watch, counted, unwatched
from acclimate.models.classifier import kind_of
from acclimate.models.flops import training_flops
from acclimate.models.heads import inputs_of
from acclimate.training.objective import Objective
from acclimate.training.pieces import Piece, cut, pad
from acclimate.training.plan import Plan, piece_tokens


def _cross_entropy(logits_BC: Tensor, label_B: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits_BC, label_B, reduction="sum")


def _binary_cross_entropy(logits_BC: Tensor, label_BC: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits_BC, label_BC.float(), reduction="sum")


def _squared_error(logits_BC: Tensor, number_B: Tensor) -> Tensor:
    return nn.functional.mse_loss(logits_BC.squeeze(-1), number_B.float(), reduction="sum")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sequence": _cross_entropy,
    "multilabel": _binary_cross_entropy,
    "score": _squared_error,
}
"""Kind of task -> (outputs in float32, `rows["label"]` of tasks/rows.py) -> the sum over a piece."""


class TaskLoss(Objective):
    """The loss of the kind that the model's config states, averaged over the step's rows; for several labels a row,
    over rows times labels.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.loss = LOSSES[kind_of(model)]
        self.weights = {"task": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"task": int(batch.rows["label"].size)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        logits_BC = self.model(**inputs_of(self.model, piece)).logits
        return {"task": self.loss(logits_BC.float(), piece["label"])}

    def flops(self, batch: Batch) -> float:
        return training_flops(self.model, batch.lengths, predicted=len(batch))


def _most_probable(logits_BC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    return [labels[int(code)] for code in logits_BC.argmax(-1)]


def _all_probable(logits_BC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    return [tuple(sorted(labels[int(code)] for code in np.flatnonzero(row > 0))) for row in logits_BC]


def _numbers(logits_BC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    return [float(number) for number in logits_BC[:, 0]]


PREDICTIONS: dict[str, Callable[[np.ndarray, Sequence[str]], list[Label]]] = {
    "sequence": _most_probable,
    "multilabel": _all_probable,
    "score": _numbers,
}


@torch.no_grad()
def predict(model: PreTrainedModel, rows: Batch, labels: Sequence[str], *, watch: Watch = unwatched) -> list[Label]:
    """What the model predicts for each row, in float32, by the kind that its config states: the most probable label;
    all labels that are more probable than not, which may be none; or the number that comes out.
    """
    where, training = model.device, model.training
    logits_BC = np.zeros((len(rows), len(labels) or 1), dtype=np.float32)
    model.train(False)
    pieces = cut(rows.lengths, piece_tokens(Plan(), where))
    for piece in counted(pieces, watch, "test", total=len(pieces), unit="pieces", every=1):
        logits_BC[piece.rows_R] = model(**inputs_of(model, pad(rows, piece, where))).logits.float().cpu().numpy()
    model.train(training)
    return PREDICTIONS[kind_of(model)](logits_BC, labels)
