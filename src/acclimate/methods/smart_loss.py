"""What fine-tuning with SMART minimises: the task's loss plus how far outputs move where the input is perturbed.

Jiang et al. (2020), "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models through Principled
Regularized Optimization", Eq. 1 and 2 (smoothness-inducing adversarial regularisation):

    L(theta) + lambda_s * mean over rows of max over |x' - x| <= epsilon of l_s( f(x'), f(x) )

Readings
  l_s is the symmetric KL of what is predicted: of a row's labels; of each label apart where a row may have several; of
  the tags of each tagged word; of both ends of an answer. For a number it is the squared difference, in the standard
  deviations in which that is learnt. It is averaged over what the task's loss is averaged over.
  The search for x' is methods/perturbation.py's, with eta for the gradient divided by its largest number of the row.
Deviations
  A CRF's distribution is over whole sequences of tags, for which the paper has no l_s: that is refused.
  The paper's other part, Bregman proximal points, is not here; nor is it in the released code.

Shape suffixes: B rows, T tokens of the longest, C labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.adversarial_loss import ASCENT, PASSES
from acclimate.methods.perturbation import Perturbation, symmetric
from acclimate.methods.task_loss import TaskLoss, outputs_of, target_in_rows
from acclimate.models.classifier import kind_of
from acclimate.models.taggers import CRF_LAYERS, Layer, crf_of
from acclimate.training.objective import Objective
from acclimate.training.pieces import Piece

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
