"""What ALUM minimises (methods/adversarial.py): L_MLM plus how far its predictions move where the input is perturbed.

Shape suffixes: M predicted positions of a piece, V vocabulary, R rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.perturbation import Perturbation, Reading, row_of_tokens, rows_in, symmetric
from acclimate.models.heads import masked_logits
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

PASSES = 2.0  # forward and backward: over the text, and over the text perturbed
ASCENT = 2 / 3  # of one of these: forward, and back to the input without the weights' gradients


class AdversarialLoss(Objective):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `adversarial`: KL(P || Q) + KL(Q || P), averaged over the
    predicted positions, with P the prediction from the text and Q that from its embeddings perturbed, so that within
    reach the two differ most (methods/perturbation.py, whose settings these are).

    Under the reading "paper" the gradient of the second term reaches the weights by P and Q, under "released" each KL's
    by the second of its two alone.

    weight  alpha, of the second term; ALUM has 10 in pretraining

    Raises ValueError for settings out of range, and where the reading's place of perturbation is not known.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        weight: float = 10.0,
        step: float = 1e-3,
        noise: float = 1e-5,
        radius: float = 0.0,
        ascents: int = 1,
        reading: Reading = "paper",
    ) -> None:
        super().__init__()
        if weight <= 0:
            raise ValueError(f"weight = {weight} is out of range: above 0, or take MaskedLanguageLoss")
        self.language = MaskedLanguageLoss(model)
        self.weights = {"mlm": 1.0, "adversarial": weight}
        self.shares_lines = self.language.shares_lines
        self.perturbation = Perturbation(step, noise, radius, ascents, reading)
        self.perturbation.place(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        predicted = self.language.counts(batch)["mlm"]
        return {"mlm": predicted, "adversarial": predicted}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        labels_M, positions_M, model = piece["labels"], piece["positions"], self.language.model
        there_M = labels_M != NOT_PREDICTED
        paper = self.perturbation.reading == "paper"

        def say() -> Tensor:
            return masked_logits(model, piece, positions_M).float()

        def both_ways(said_MV: Tensor, other_MV: Tensor) -> Tensor:
            if paper:
                return (symmetric(said_MV, other_MV) * there_M).sum()
            forth_M = _divergence(said_MV.detach(), other_MV) + _divergence(other_MV.detach(), said_MV)
            return (forth_M * there_M).sum()

        def ascended(said_MV: Tensor, other_MV: Tensor) -> Tensor:
            if paper:
                return both_ways(said_MV, other_MV)
            return (_divergence(said_MV, other_MV) * _shares(piece, positions_M, there_M)).sum()

        logits_MV, moved = self.perturbation.searched(model, piece, say, ascended=ascended, distance=both_ways)
        return {"mlm": nn.functional.cross_entropy(logits_MV, labels_M, reduction="sum"), "adversarial": moved}

    def flops(self, batch: Batch) -> float:
        return (PASSES + self.perturbation.ascents * ASCENT) * self.language.flops(batch)


def _divergence(logits_MV: Tensor, others_MV: Tensor) -> Tensor:
    """(M,) KL(softmax(logits) || softmax(others)) in nats."""
    log_p, log_q = logits_MV.log_softmax(-1), others_MV.log_softmax(-1)
    return nn.functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)


def _shares(piece: Piece, positions_M: Tensor, there_M: Tensor) -> Tensor:
    """(M,) what a predicted position is of its row's: 1 by their number; 0 where none is predicted."""
    row_M = row_of_tokens(piece).flatten()[positions_M]
    counts_R = torch.zeros(rows_in(piece) + 1, device=row_M.device).index_add(0, row_M, there_M.float())
    return there_M / counts_R[row_M].clamp(min=1)
