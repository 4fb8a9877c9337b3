"""A model together with what is minimised.

Shape suffixes: M predicted positions of a piece, V vocabulary; of views: R rows of a piece, B of the step, V views of a
row, D numbers of a view.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.models.encoder import training_flops
from acclimate.models.heads import has_sparse_head, keeps_rows_apart, masked_logits
from acclimate.training.pieces import Piece, cut, in_order, pack, pad
from acclimate.training.plan import Plan, autocast_type, device, piece_tokens

VIEWS = "views"  # under this name `forward` of an objective that couples rows returns them


class Objective(nn.Module):
    """What a run minimises: sum over terms of `weights[term] * (sum of the term over the step) / counts[term]`.

    `forward` takes a piece of the step's batch and returns each term's *sum* over it; the loop divides by the count of
    the whole step, so that pieces, processes and padding never change the loss. Whatever has
    parameters is a child module.

    Where a row's loss depends on the other rows of the step, `couples_rows` is True. Then `views` says what rows are
    compared by, `compared` turns the views of all rows of the step into the sums of the terms that couple them, and
    `forward` returns the sums of the other terms, and the views under VIEWS.
    """

    weights: dict[str, float]
    couples_rows = False
    shares_lines = False  # True where the model keeps rows apart that share a line (training/pieces.py)

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, int]:
        """What each term is averaged over, for the whole step's batch."""

    @abstractmethod
    def forward(self, piece: Piece) -> dict[str, Tensor]:
        """Each term's sum over the piece, as float32 scalars."""

    def views(self, piece: Piece) -> Tensor:
        """(R, V, D) float32: what each row of the piece is compared by, in the order of its layout's rows.

        Where a step is cut, the loop calls this first, without gradient, and `forward` later, from the same state of
        the generator: there the views must draw their dropout as here, before anything else draws.
        """
        raise NotImplementedError

    def compared(self, views_BVD: Tensor) -> dict[str, Tensor]:
        """The sums of the terms that couple rows, over all rows of the step, in the batch's order; outside autocast.

        It has no parameters of its own: a projection belongs into `views`.
        """
        raise NotImplementedError

    @abstractmethod
    def flops(self, batch: Batch) -> float:
        """Floating point operations of training on the batch once, by formula (models/encoder.py)."""

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


# -------------------- measure
# The losses of an objective on batches that nobody trains on.


@torch.no_grad()
def measure(objective: Objective, batches: Iterable[Batch], plan: Plan | None = None) -> dict[str, float]:
    """Each term's mean over all batches, without dropout; the plan says in what precision, and in what pieces.

    The objective is left in evaluation mode. A term that no batch has anything for is 0.
    """
    plan, where = plan or Plan(), device()
    objective.to(where).eval()
    narrow = autocast_type(plan.precision, where)
    sums, counts = dict.fromkeys(objective.weights, 0.0), dict.fromkeys(objective.weights, 0)
    for batch in batches:
        layouts = (pack if objective.shares_lines else cut)(batch.lengths, piece_tokens(plan, where))
        views = []
        for layout in layouts:
            with torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
                terms = objective(pad(batch, layout, where))
            if objective.couples_rows:
                views.append(terms.pop(VIEWS))
            for term, value in terms.items():
                sums[term] += float(value)
        if objective.couples_rows:
            for term, value in objective.compared(in_order(views, layouts, len(batch))).items():
                sums[term] += float(value)
        for term, count in objective.counts(batch).items():
            counts[term] += count
    return {term: sums[term] / max(1, counts[term]) for term in sums}
