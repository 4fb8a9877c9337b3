"""ALUM: masked language modelling under adversarial perturbations of the input. And SMART, the same for fine-tuning.

Liu et al. (2020), "Adversarial Training for Large Neural Language Models" (arXiv 2004.08994), Algorithm 1; Gu et al.
(2021) tried it in the pretraining of PubMedBERT (Table 9). A step of ALUM minimises

    L_MLM + weight * mean over predicted tokens of KL(P || Q) + KL(Q || P)                     (Algorithm 1, line 8)

with P the prediction from the text, and Q the prediction from its embeddings plus the perturbation, at most `radius`
large, by which the two differ most (methods/perturbation.py).

Jiang et al. (2020), "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models through Principled
Regularized Optimization", is what ALUM builds on. Fine-tuning with `smart` (methods/finetune.py) minimises

    L_task + lambda_s * mean over rows of max over |x' - x| <= epsilon of l_s( f(x'), f(x) )            (Eq. 1 and 2)

Shape suffixes: M predicted positions of a piece, V vocabulary, R rows; of SMART: B rows, T tokens of the longest row, C
labels.

Readings of ALUM
  The words' embeddings are perturbed, before positions and normalisation, each number by at most `radius`, 1e-5.
  `step` is multiplied with the gradient divided by its largest number in the row, as in SMART: near the text the
  gradient is as small as the noise, and a thousandth of it moves nothing.
  All passes of a step are under the same dropout, because otherwise the term would measure dropout, and in float32,
  because bfloat16 cannot represent changes this small.
  The gradient goes through P and Q, and through Q into the words' embeddings too. The perturbation counts as given.
  The noise depends on the row as it is masked, so it differs in each epoch.
  reading = "released" is the released code (mt-dnn, alum/adv_masked_lm.py): what the embeddings give the first layer is
  changed, by 1 in each token's largest number, noise and step together; the embeddings get no gradient of that pass;
  each KL trains one of its two sides; each pass has another dropout. (Its script leaves --adv_opt at 0, with which
  nothing is perturbed.)
  Gu et al. state no setting of it but the masking: 5 to 25%, in steps of 5.
Readings of SMART
  l_s is the symmetric KL of the predictions: of a row's labels; of each label by itself where a row may have several;
  of the tags of each tagged word; of both ends of an answer. For a number it is the squared difference, in the standard
  deviations in which that is learnt. It is averaged over what the task's loss is averaged over.
  x' is searched as methods/perturbation.py does under "paper".
Deviations of ALUM
  The released code takes the gradient of a mean over all predicted tokens of a batch; here the mean is over those of a
  row, so a row's perturbation does not depend on which others share its batch. The released code skips a batch whose
  gradient is not finite; here the loop stops and names the texts. Its curriculum (plain pretraining first) is a run of
  mlm before this one.
Deviations of SMART
  A CRF's distribution is over whole sequences of tags, for which the paper has no l_s: that is refused.
  The paper's other part, Bregman proximal points, is not here; nor is it in the released code. That code (mt-dnn,
  mt_dnn/perturbation.py) also divides the gradient token by token; here it is divided row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.domain import divergence
from acclimate.methods.perturbation import Perturbation, row_of_tokens, rows_in, symmetric
from acclimate.methods.recipes.adversarial import ASCENT, PASSES, AdversarialRecipe, SearchReading
from acclimate.methods.task_loss import TaskLoss, outputs_of, target_in_rows
from acclimate.models.classifier import classifier_kind
from acclimate.models.heads import masked_logits
from acclimate.models.task_layers import crf_of
from acclimate.training.looks import HeldOutLooks
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


def adapt(
    recipe: AdversarialRecipe, out: Path, *, watch: Watch = unwatched, looks: HeldOutLooks | None = None
) -> Checkpoint:
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

    return mlm.adapt_with(recipe, out, objective, watch=watch, looks=looks)


def _label_distance(a_BC: Tensor, b_BC: Tensor, piece: Piece) -> Tensor:
    return symmetric(a_BC, b_BC).sum()


def _multilabel_distance(a_BC: Tensor, b_BC: Tensor, piece: Piece) -> Tensor:
    # of two probabilities p and q of a label with logits a and b, both directions of KL add up to (p - q) (a - b)
    return ((a_BC.sigmoid() - b_BC.sigmoid()) * (a_BC - b_BC)).sum()


def _number_distance(a_B1: Tensor, b_B1: Tensor, piece: Piece) -> Tensor:
    return (a_B1 - b_B1).square().sum()


def _tag_distance(a_BTC: Tensor, b_BTC: Tensor, piece: Piece) -> Tensor:
    return (symmetric(a_BTC, b_BTC) * (target_in_rows(piece) != NOT_PREDICTED)).sum()


def _end_distance(a_BT2: Tensor, b_BT2: Tensor, piece: Piece) -> Tensor:
    return symmetric(a_BT2.transpose(1, 2), b_BT2.transpose(1, 2)).sum()


DISTANCES: dict[str, Callable[[Tensor, Tensor, Piece], Tensor]] = {
    "sequence": _label_distance,
    "multilabel": _multilabel_distance,
    "score": _number_distance,
    "tokens": _tag_distance,
    "span": _end_distance,
}
"""Kind of task -> the sum of l_s over a piece, from the outputs (float32) for the two inputs."""


class SmartLoss(Objective):
    """SMART. Terms: `task`, as TaskLoss has it, and `smooth`, l_s, averaged over the same.

    weight     lambda_s
    head_rate, layer_decay  as in TaskLoss; the other settings are those of Perturbation

    Raises ValueError for settings out of range, and for a model with a CRF.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        weight: float = 1.0,
        step: float = 1e-3,
        noise: float = 1e-5,
        radius: float = 1e-5,
        ascents: int = 1,
        head_rate: float = 1.0,
        layer_decay: float = 1.0,
    ) -> None:
        super().__init__()
        if weight <= 0:
            raise ValueError(f"weight = {weight} is out of range: above 0, or take TaskLoss")
        if crf_of(model) is not None:
            raise ValueError("SMART compares the tags of words, but this model's CRF predicts whole sentences")
        self.task = TaskLoss(model, head_rate=head_rate, layer_decay=layer_decay)
        self.distance = DISTANCES[classifier_kind(model)]
        self.weights = {"task": 1.0, "smooth": weight}
        self.shares_lines = self.task.shares_lines
        self.perturbation = Perturbation(step, noise, radius, ascents)
        self.perturbation.place(model)

    def rate_multiple(self, name: str) -> float:
        return self.task.rate_multiple(name.removeprefix("task."))

    def counts(self, batch: Batch) -> dict[str, int]:
        count = self.task.counts(batch)["task"]
        return {"task": count, "smooth": count}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        model = self.task.model
        outputs, smooth = self.perturbation.compare(
            model,
            piece,
            lambda: outputs_of(model, piece),
            lambda clean, perturbed: self.distance(clean, perturbed, piece),
        )
        return {"task": self.task.compute(outputs, piece), "smooth": smooth}  # Eq. 1: L_task + lambda_s l_s

    def flops(self, batch: Batch) -> float:
        return (PASSES + self.perturbation.ascents * ASCENT) * self.task.flops(batch)
