"""ALUM: masked language modelling under adversarial perturbations of the input.

Liu et al. (2020), "Adversarial Training for Large Neural Language Models" (arXiv 2004.08994), Algorithm 1; Gu et al.
(2021) tried it in the pretraining of PubMedBERT (Table 9). A step of ALUM minimises

    L_MLM + weight * mean over predicted tokens of KL(P || Q) + KL(Q || P)                     (Algorithm 1, line 8)

with P the prediction from the text, and Q the prediction from its embeddings plus the perturbation, at most `radius`
large, by which the two differ most (methods/perturbation.py).

Shape suffixes: M predicted positions of a piece, V vocabulary, R rows.

Readings
  The words' embeddings are perturbed, before positions and normalisation, each number by at most `radius`, 1e-5.
  `step` is multiplied with the gradient divided by its largest number in the row, as in SMART (Jiang et al., 2020):
  near the text the gradient is as small as the noise, and a thousandth of it moves nothing.
  All passes of a step are under the same dropout, because otherwise the term would measure dropout, and in float32,
  because bfloat16 cannot represent changes this small.
  The gradient goes through P and Q, and through Q into the words' embeddings too. The perturbation counts as given.
  The noise depends on the row as it is masked, so it differs in each epoch.
  reading = "released" is the released code (mt-dnn, alum/adv_masked_lm.py): what the embeddings give the first layer is
  changed, by 1 in each token's largest number, noise and step together; the embeddings get no gradient of that pass;
  each KL trains one of its two sides; each pass has another dropout. (Its script leaves --adv_opt at 0, with which
  nothing is perturbed.)
  Gu et al. state no setting of it but the masking: 5 to 25%, in steps of 5.
Deviations
  The released code takes the gradient of a mean over all predicted tokens of a batch; here the mean is over those of a
  row, so a row's perturbation does not depend on which others share its batch. The released code skips a batch whose
  gradient is not finite; here the loop stops and names the texts. Its curriculum (plain pretraining first) is a run of
  mlm before this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.domain import divergence
from acclimate.methods.perturbation import Perturbation, row_of_tokens, rows_in, symmetric
from acclimate.methods.recipes.adversarial import ASCENT, PASSES, AdversarialRecipe, SearchReading
from acclimate.models.heads import masked_logits
from acclimate.training.objective import MaskedLanguageLoss, Objective, masked_cross_entropy
from acclimate.training.pieces import Piece

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class AdversarialLoss(Objective):
    """ALUM. Terms: `mlm`, as MaskedLanguageLoss has it, and `adversarial`, KL(P || Q) + KL(Q || P), averaged over the
    predicted positions.

    Under the reading "paper" the gradient of the second term reaches the weights through P and Q; under "released" that
    of each KL only through the second of its two.

    weight  alpha, of the second term; ALUM has 10 in pretraining; the other settings are those of Perturbation

    Raises ValueError for settings out of range, and where the family has no place that the reading perturbs.
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
        reading: SearchReading = "paper",
    ) -> None:
        super().__init__()
        if weight <= 0:
            raise ValueError(f"weight = {weight} is out of range. Set it above 0, or use MaskedLanguageLoss")
        self.language = MaskedLanguageLoss(model)
        self.weights = {"mlm": 1.0, "adversarial": weight}
        self.shares_lines = self.language.shares_lines
        self.perturbation = Perturbation(step, noise, radius, ascents, reading)
        self.perturbation.place(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        predicted = self.language.counts(batch)["mlm"]
        return {"mlm": predicted, "adversarial": predicted}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        paper, positions_M = self.perturbation.reading == "paper", piece["positions"]
        predicted_M = piece["labels"] != NOT_PREDICTED

        def logits() -> Tensor:
            return masked_logits(self.language.model, piece, positions_M).float()

        def both_ways(p_MV: Tensor, q_MV: Tensor) -> Tensor:
            if paper:
                return (symmetric(p_MV, q_MV) * predicted_M).sum()  # KL(P || Q) + KL(Q || P)
            both_M = divergence(p_MV.detach(), q_MV) + divergence(q_MV.detach(), p_MV)  # KL(P || Q) + KL(Q || P)
            return (both_M * predicted_M).sum()

        def ascent(p_MV: Tensor, q_MV: Tensor) -> Tensor:
            if paper:
                return both_ways(p_MV, q_MV)
            return (divergence(p_MV, q_MV) * _shares(piece, positions_M, predicted_M)).sum()

        p_MV, adversarial = self.perturbation.compare(self.language.model, piece, logits, both_ways, ascent=ascent)
        return {"mlm": masked_cross_entropy(p_MV, piece), "adversarial": adversarial}  # Algorithm 1, line 8

    def flops(self, batch: Batch) -> float:
        return (PASSES + self.perturbation.ascents * ASCENT) * self.language.flops(batch)


def _shares(piece: Piece, positions_M: Tensor, predicted_M: Tensor) -> Tensor:
    """(M,) 1 / the number of predicted tokens in the position's row; 0 at a position that only fills the piece up."""
    row_M = row_of_tokens(piece).flatten()[positions_M]
    counts_R = torch.zeros(rows_in(piece) + 1, device=row_M.device).index_add(0, row_M, predicted_M.float())
    return predicted_M / counts_R[row_M].clamp(min=1)


def adapt(recipe: AdversarialRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does.

    Raises ValueError as that does, and where reading="released" has no place to perturb in the model's family.
    """

    def objective(start: mlm.RunStart) -> AdversarialLoss:
        return AdversarialLoss(
            start.model,
            weight=recipe.weight,
            step=recipe.step,
            noise=recipe.noise,
            radius=recipe.radius,
            ascents=recipe.ascents,
            reading=recipe.reading,
        )

    return mlm.adapt_with(recipe, out, objective, watch=watch)
