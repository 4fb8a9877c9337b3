"""What a race is planned with of methods/contrast/sequence_contrast.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from acclimate.core.settings import Range
from acclimate.methods.method import Contestant, Method, deferred
from acclimate.methods.method import check_dropout as check_stated
from acclimate.methods.recipes.domain import NOISY, SMALL_NOISY, DomainRecipe, check_noise

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class SequenceContrastRecipe(DomainRecipe):
    """SimCSE or InfoWord, with the settings of DGA's section 4.2."""

    contrast: Literal["simcse", "infoword"] = "simcse"
    """What is compared: a text with itself under other dropout (SimCSE), or a masked text with the tokens that were
    masked in it (InfoWord)."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Temperature of the contrastive loss, tau, above 0: cosines are divided by it; the paper: .05."""
    weight: Annotated[float, Range(above=0, hint=", or take the method mlm")] = 1.0
    """Weight of the contrastive loss beside masked language modelling, above 0; the paper: 1."""


def passes(recipe: SequenceContrastRecipe) -> float:
    """Passes through the encoder a step."""
    return 3.0 if recipe.contrast == "simcse" else 2.0


def check(recipe: SequenceContrastRecipe, config: PreTrainedConfig, group: str) -> None:
    """Raises ValueError where SimCSE's two passes of a model of this config would be one and the same."""
    check_stated(recipe, config, group)
    if recipe.contrast == "simcse":
        check_noise(recipe, config, group)


_SMALL, _USUAL = SequenceContrastRecipe(**SMALL_NOISY), SequenceContrastRecipe(**NOISY)
METHOD = Method(
    name="sequence_contrast",
    recipe=SequenceContrastRecipe,
    adapt=deferred("acclimate.methods.contrast.sequence_contrast", "adapt"),
    contestants=(
        Contestant("SimCSE", "domain", {"contrast": "simcse"}, small=_SMALL, usual=_USUAL),
        Contestant("InfoWord", "domain", {"contrast": "infoword"}, small=_SMALL, usual=_USUAL),
    ),
    passes=passes,
    check=check,
)
