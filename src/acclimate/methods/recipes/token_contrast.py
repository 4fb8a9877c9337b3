"""What a race is planned with of methods/contrast/token_contrast.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from acclimate.core.settings import Range
from acclimate.methods.method import Contestant, Method, deferred
from acclimate.methods.recipes.domain import SMALL, DomainRecipe


@dataclass(frozen=True)
class TokenContrastRecipe(DomainRecipe):
    """TaCL or TaCO, with the settings of DGA's section 4.2 and each contrast's."""

    contrast: Literal["tacl", "taco"] = "tacl"
    """What is compared: masked tokens with a frozen model's states of them (TaCL), or the effect of context on tokens
    of a row (TaCO)."""
    temperature: Annotated[float | None, Range(above=0)] = None
    """Temperature of the contrastive loss, tau, above 0: cosines are divided by it. None: .01 for tacl, .07 for taco,
    as in the authors' code."""
    weight: Annotated[float, Range(above=0, hint=", or take the method mlm")] = 1.0
    """Weight of the contrastive loss beside masked language modelling, above 0; the authors: 1."""
    window: Annotated[int, Range(least=2)] = 5
    """For taco: a positive is less than this number of tokens away, at least 2; the authors: 5."""
    anchors: Annotated[int, Range(least=1)] = 16  # for taco: number of compared tokens per row, at least 1
    negatives: Annotated[int, Range(least=1)] = 50
    """For taco: K, number of negatives of an anchor, each from another row; fewer where a step has fewer rows; the
    authors: 50."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contrast == "taco" and self.plan.batch < 2:
            raise ValueError("taco compares the rows of a step, but plan.batch = 1. Set plan.batch to at least 2")


def passes(recipe: TokenContrastRecipe) -> float:
    """Passes through the encoder a step; a teacher has no backward pass."""
    return 4 / 3 if recipe.contrast == "tacl" else 1.0


METHOD = Method(
    name="token_contrast",
    recipe=TokenContrastRecipe,
    adapt=deferred("acclimate.methods.contrast.token_contrast", "adapt"),
    contestants=(
        Contestant(
            "TaCL",
            "domain",
            {"contrast": "tacl"},
            unread=("window", "anchors", "negatives"),
            small=TokenContrastRecipe(**SMALL),
        ),
        Contestant("TaCO", "domain", {"contrast": "taco"}, small=TokenContrastRecipe(**SMALL)),
    ),
    passes=passes,
)
