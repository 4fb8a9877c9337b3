"""Define what every method's loss must offer to the training loop, and the loss of masked language models.

Shape suffixes: M predicted positions of a piece, V vocabulary; of views: R rows of a piece, B of the step, V views of a
row, D numbers of a view.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.models.encoder import training_flops
from acclimate.models.heads import has_sparse_head, keeps_rows_apart, masked_logits
from acclimate.training.kernels import arithmetic, attends_by_row
from acclimate.training.pieces import Layout, Piece, order_rows, pack, pad, pieces_of_rows
from acclimate.training.plan import Plan, device, piece_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VIEWS = "views"  # under this name `forward` of an objective that couples rows returns them


class Objective(nn.Module):
    """What a run minimises: sum over terms of `weights[term] * (sum of the term over the step) / counts[term]`.

    `forward` takes a piece of the step's batch and returns each term's *sum* over it; the loop divides by the count of
    the whole step, so that pieces, processes and padding never change the loss. Everything that has parameters (a
    projection, a head, a teacher) is a child module.

    `couples_rows` is True where the loss of a row depends on the other rows of the step. Then `views` returns the
    vectors that rows are compared by, `compared` turns the views of all rows of the step into the sums of the coupled
    terms, and `forward` returns the sums of the other terms and, under VIEWS, the views.
    """

    weights: dict[str, float]
    couples_rows = False
    shares_lines = False  # True where the model keeps rows apart that share a line (training/pieces.py)
    stacks = False  # True where it has `sums_by_run`

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, int]:
        """Return the number of items that each term is averaged over, in the whole batch of the step."""

    @abstractmethod
    def forward(self, piece: Piece) -> dict[str, Tensor]:
        """Return each term's sum over the piece, as float32 scalars."""

    def sums_by_run(self, piece: Piece, runs: int) -> dict[str, Tensor]:
        """Return (S,), what `forward` returns, for each of S equal parts of the piece (training/stacked.py).

        It is called only where `stacks` is True.
        """
        raise NotImplementedError

    def views(self, piece: Piece) -> Tensor:
        """Return (R, V, D) float32, the vectors that each row is compared by, in the order of the layout's rows.

        If a step has several pieces, the loop calls this first, without gradient, and `forward` later, from the same
        state of the generator. So `forward` must draw the dropout of its views before it draws anything else.
        """
        raise NotImplementedError

    def compared(self, views_BVD: Tensor) -> dict[str, Tensor]:
        """Return the sums of the coupled terms over all rows of the step, in the batch's order; outside autocast.

        It may not use parameters, which would get no gradient here: a projection belongs into `views`.
        """
        raise NotImplementedError

    @abstractmethod
    def flops(self, batch: Batch) -> float:
        """Return the floating point operations of training on the batch once, by formula (models/encoder.py)."""

    def rate_multiple(self, name: str) -> float:
        """Return the factor by which the rate of the parameter of this name differs from the plan's."""
        return 1.0

    def on_gradients(self) -> None:
        """Change the step's whole gradient; the loop calls this once a step, before clipping."""

    def on_update(self) -> None:
        """Change the weights after the optimiser moved them; the loop calls this once a step."""


def masked_cross_entropy(logits_MV: Tensor, piece: Piece) -> Tensor:
    """Return L_MLM as a sum over the predicted positions of the piece, a float32 scalar, in nats.

    logits_MV  what the language modelling head gives at `piece["positions"]`
    """
    return nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum")


class MaskedLanguageLoss(Objective):
    """The mean of -log p(w_m | the text with m masked) over the masked positions of a step (Devlin et al., 2019, 3.1).

    For the families of models/heads.py the head runs at the masked positions only; at all positions it would take most
    of the time of a small model.
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
        return {"mlm": masked_cross_entropy(logits_MV, piece)}

    def flops(self, batch: Batch) -> float:
        predicted = self.counts(batch)["mlm"] if has_sparse_head(self.model) else len(batch.ids)
        return training_flops(self.model, batch.lengths, predicted=predicted)


def cut(objective: Objective, lengths: np.ndarray, plan: Plan, where: torch.device) -> list[Layout]:
    """Return the layouts of pieces of at most `piece_tokens`, whose rows share lines if the objective allows it.

    lengths: (B,) tokens of each row
    """
    most = piece_tokens(plan, where)
    if objective.shares_lines:
        return pack(lengths, most, by_row=attends_by_row(plan, where))
    return pieces_of_rows(lengths, most)


@torch.no_grad()
def measure(objective: Objective, batches: Iterable[Batch], plan: Plan | None = None) -> dict[str, float]:
    """Return each term's mean over held-out batches, without dropout, in the plan's precision and pieces.

    The objective is left in evaluation mode. A term that counts nothing in any batch is 0.
    """
    plan, where = plan or Plan(), device()
    objective.to(where).eval()
    sums, counts = dict.fromkeys(objective.weights, 0.0), dict.fromkeys(objective.weights, 0)
    for batch in batches:
        layouts = cut(objective, batch.lengths, plan, where)
        views = []
        for layout in layouts:
            with arithmetic(plan, where):
                terms = objective(pad(batch, layout, where))
            if objective.couples_rows:
                views.append(terms.pop(VIEWS))
            for term, value in terms.items():
                sums[term] += float(value)
        if objective.couples_rows:
            for term, value in objective.compared(order_rows(views, layouts, len(batch))).items():
                sums[term] += float(value)
        for term, count in objective.counts(batch).items():
            counts[term] += count
    return {term: sums[term] / max(1, counts[term]) for term in sums}
