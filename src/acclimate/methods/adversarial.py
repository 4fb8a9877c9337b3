"""Go on with masked language modelling under adversarial perturbations of the input: ALUM.

Liu et al. (2020), "Adversarial Training for Large Neural Language Models" (arXiv 2004.08994), Algorithm 1; Gu et al.
(2021) tried it in the pretraining of PubMedBERT (Table 9). The loss of a step is

    L_MLM + weight * mean over predicted tokens of KL(P || Q) + KL(Q || P)

with P the prediction from the text and Q that from its embeddings moved, within `radius`, to where the two differ most:
by one step up the gradient from a little noise (methods/perturbation.py).

Readings
  What is perturbed are the words' embeddings, before positions and normalisation, of which no number is changed by more
  than `radius`, 1e-5. `step` is of the gradient divided by its largest number in the row, as in Jiang et al. (SMART),
  on which ALUM builds: near the text the gradient is as small as the noise, and a thousandth of it moves nothing.
  All passes of a step are under the same dropout, else the term would be what dropout does, and in float32.
  The gradient goes through P and Q, and through Q into the words' embeddings too.
  reading = "released" is the released code (mt-dnn, alum/adv_masked_lm.py): what the embeddings hand to the first layer
  is changed, by 1 in each token's largest number, noise and step together; the embeddings get no gradient of that pass;
  each KL teaches one of its two sides; each pass has a dropout of its own.
  Gu et al. state no setting of it but the masking: 5 to 25%, in steps of 5.
Deviations
  The released code takes the gradient of a mean over all predicted tokens of a batch, here of each row's: no row's
  perturbation depends on which others share its batch. A batch whose gradient is not finite is passed over there; here
  the loop stops and names the texts. Its curriculum (plain pretraining first) is a run of mlm before this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.method import Method
from acclimate.methods.perturbation import Perturbation, Reading, row_of_tokens, rows_in, symmetric
from acclimate.methods.task_loss import TaskLoss, outputs_of, target_in_rows
from acclimate.models.classifier import kind_of
from acclimate.models.heads import masked_logits
from acclimate.models.task_layers import CRF_LAYERS, Layer, crf_of
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

# -------------------- adversarial loss
# What ALUM minimises (methods/adversarial.py): L_MLM plus how far its predictions move where the input is perturbed.
#
# Shape suffixes: M predicted positions of a piece, V vocabulary, R rows.


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


@dataclass(frozen=True)
class AdversarialRecipe(mlm.MlmRecipe):
    """ALUM from a checkpoint, beside what mlm has."""

    weight: float = 10.0  # alpha, of the second term
    step: float = 1e-3
    """Of the ascent (η), times the gradient divided by its largest number in the row; as released: times the
    gradient."""
    noise: float = 1e-5  # standard deviation of the noise that the ascent starts from (σ)
    radius: float = 0.0
    """The most that a number of the input is changed by (ε); 0: 1e-5, or 1 as released. The paper's 1e-5 changes next
    to nothing; try 1e-3 with `step` 1e-1."""
    ascents: int = 1  # steps of the search (K)
    reading: Reading = "paper"  # the search as the paper has it, or the released code

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight <= 0:
            raise ValueError(f"weight = {self.weight} is out of range: above 0, or take the method mlm")
        Perturbation(self.step, self.noise, self.radius, self.ascents, self.reading)


def passes(recipe: AdversarialRecipe) -> float:
    """Of the encoder in a step, in those of masked language modelling."""
    return PASSES + recipe.ascents * ASCENT


def adapt(recipe: AdversarialRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does.

    Raises ValueError as that does, and where reading="released" does not know where a family's embeddings come out.
    """

    def objective(start: mlm.Start) -> AdversarialLoss:
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


# -------------------- smart loss
# What fine-tuning with SMART minimises: the task's loss plus how far outputs move where the input is perturbed.
#
# Jiang et al. (2020), "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models through
# Principled
# Regularized Optimization", Eq. 1 and 2 (smoothness-inducing adversarial regularisation):
#
# L(theta) + lambda_s * mean over rows of max over |x' - x| <= epsilon of l_s( f(x'), f(x) )
#
# Readings
# l_s is the symmetric KL of what is predicted: of a row's labels; of each label apart where a row may have several; of
# the tags of each tagged word; of both ends of an answer. For a number it is the squared difference, in the standard
# deviations in which that is learnt. It is averaged over what the task's loss is averaged over.
# The search for x' is methods/perturbation.py's, with eta for the gradient divided by its largest number of the row.
# Deviations
# A CRF's distribution is over whole sequences of tags, for which the paper has no l_s: that is refused.
# The paper's other part, Bregman proximal points, is not here; nor is it in the released code.
#
# Shape suffixes: B rows, T tokens of the longest, C labels.


SETTINGS = {"smart_step": 1e-3, "smart_noise": 1e-5, "smart_radius": 1e-5, "smart_ascents": 1}


def _of_labels(said_BC: Tensor, other_BC: Tensor, piece: Piece) -> Tensor:
    return symmetric(said_BC, other_BC).sum()


def _of_each_label(said_BC: Tensor, other_BC: Tensor, piece: Piece) -> Tensor:
    # of two probabilities p and q of a label with logits a and b, both directions of KL add up to (p - q) (a - b)
    return ((said_BC.sigmoid() - other_BC.sigmoid()) * (said_BC - other_BC)).sum()


def _of_numbers(said_B1: Tensor, other_B1: Tensor, piece: Piece) -> Tensor:
    return (said_B1 - other_B1).square().sum()


def _of_tags(said_BTC: Tensor, other_BTC: Tensor, piece: Piece) -> Tensor:
    return (symmetric(said_BTC, other_BTC) * (target_in_rows(piece) != NOT_PREDICTED)).sum()


def _of_ends(said_BT2: Tensor, other_BT2: Tensor, piece: Piece) -> Tensor:
    return symmetric(said_BT2.transpose(1, 2), other_BT2.transpose(1, 2)).sum()


DISTANCES: dict[str, Callable[[Tensor, Tensor, Piece], Tensor]] = {
    "sequence": _of_labels,
    "multilabel": _of_each_label,
    "score": _of_numbers,
    "tokens": _of_tags,
    "span": _of_ends,
}
"""Kind of task -> the sum of l_s over a piece, from what the head says in float32 of the two inputs."""


class SmartLoss(Objective):
    """Terms `task`, as TaskLoss has it, and `smooth`: l_s, averaged over the same.

    weight     lambda_s
    head_rate  as in TaskLoss; what else there is, Perturbation says

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
    ) -> None:
        super().__init__()
        if weight <= 0:
            raise ValueError(f"weight = {weight} is out of range: above 0, or take TaskLoss")
        if crf_of(model) is not None:
            raise ValueError("SMART compares the tags of words, but this model's CRF predicts whole sentences")
        self.task = TaskLoss(model, head_rate=head_rate)
        self.distance = DISTANCES[kind_of(model)]
        self.weights = {"task": 1.0, "smooth": weight}
        self.shares_lines = self.task.shares_lines
        self.perturbation = Perturbation(step, noise, radius, ascents)

    def rate_multiple(self, name: str) -> float:
        return self.task.rate_multiple(name.removeprefix("task."))

    def counts(self, batch: Batch) -> dict[str, int]:
        count = self.task.counts(batch)["task"]
        return {"task": count, "smooth": count}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        def distance(said: Tensor, other: Tensor) -> Tensor:
            return self.distance(said, other, piece)

        outputs, moved = self.perturbation.searched(
            self.task.model,
            piece,
            lambda: outputs_of(self.task.model, piece),
            ascended=distance,
            distance=distance,
        )
        return {"task": self.task.of(outputs, piece), "smooth": moved}

    def flops(self, batch: Batch) -> float:
        return (PASSES + self.perturbation.ascents * ASCENT) * self.task.flops(batch)


class Smoothed(Protocol):
    """What a recipe says of SMART."""

    @property
    def smart(self) -> float: ...
    @property
    def tag_layer(self) -> Layer: ...


def check_smart(recipe: Smoothed) -> None:
    """Raises ValueError for settings out of range, or for none of SMART's, and with a CRF."""
    if recipe.smart < 0:
        raise ValueError(f"smart = {recipe.smart} is out of range: at least 0, where 0 leaves SMART out")
    for name, default in SETTINGS.items():
        value = getattr(recipe, name)
        if value <= 0:
            raise ValueError(f"{name} = {value} is out of range: above 0")
        if value != default and not recipe.smart:
            raise ValueError(f"{name} = {value} is for SMART, but smart is 0. Set smart to 1, or leave {name} out")
    if recipe.smart and recipe.tag_layer in CRF_LAYERS:
        raise ValueError(
            f"smart = {recipe.smart} compares the tags of words, but with tag_layer = '{recipe.tag_layer}' whole "
            "sentences are predicted. Set tag_layer to linear or bilstm, or leave smart out"
        )


METHOD = Method("adversarial", AdversarialRecipe, adapt, passes=passes)
