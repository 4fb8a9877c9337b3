"""What a race is planned with of methods/distil.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from acclimate.core.settings import Range
from acclimate.methods.method import Contestant, Method, deferred
from acclimate.methods.recipes.domain import SMALL, DomainRecipe

DistilledText = Literal["unmasked", "masked"]


@dataclass(frozen=True)
class DistilRecipe(DomainRecipe):
    """KD or AdaptedDeiT, with the settings of DGA's section 4.2."""

    teacher: Literal["kd", "deit"] = "kd"
    """What is compared with the frozen model: the last hidden state of every token (KD), or a distillation token with
    the mean of its row (AdaptedDeiT)."""
    text: DistilledText = "unmasked"
    """The text on which student and teacher are compared. "masked": the text of language modelling, at about 1.3
    instead of 2.3 times the cost of mlm."""
    weight: Annotated[float, Range(above=0, hint=", or take the method mlm")] = 1.0
    """Weight of the distillation loss beside masked language modelling, above 0; the paper: 1."""


def passes(recipe: DistilRecipe) -> float:
    """Passes through the encoder a step: a teacher's has no backward pass, and the student has another for unmasked
    text.
    """
    return 1 / 3 + (2.0 if recipe.text == "unmasked" else 1.0)


METHOD = Method(
    name="distil",
    recipe=DistilRecipe,
    adapt=deferred("acclimate.methods.distil", "adapt"),
    contestants=(
        Contestant("KD", "domain", {"teacher": "kd"}, small=DistilRecipe(**SMALL)),
        Contestant("AdaptedDeiT", "domain", {"teacher": "deit"}, small=DistilRecipe(**SMALL)),
    ),
    passes=passes,
    behind=lambda recipe: int(recipe.teacher == "deit"),  # the distillation token
)
