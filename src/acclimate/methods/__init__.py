"""The methods by name. Nothing else in the package names one: what it needs to know stands in `Method`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acclimate.core.types import Checkpoint
from acclimate.methods import (
    adversarial,
    dga,
    distil,
    extend,
    finetune,
    light,
    mlm,
    scratch,
    sequence_contrast,
    stilt,
    tapter,
    tlm,
    token_contrast,
)


def _one(recipe: Any) -> float:
    return 1.0


def _none(recipe: Any) -> float:
    return 0.0


@dataclass(frozen=True)
class Method:
    """A way of adapting an encoder.

    recipe  the dataclass of its settings
    adapt   (recipe, out, *, watch) -> Checkpoint: runs it, or goes on with a run that was stopped
    passes  (recipe) -> passes through the encoder a step, in those of masked language modelling
    caching (recipe) -> passes that are added where a step is cut into pieces (gradient caching)
    """

    name: str
    recipe: type[Any]
    adapt: Callable[..., Checkpoint]
    passes: Callable[[Any], float] = _one
    caching: Callable[[Any], float] = _none


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("adversarial", adversarial.AdversarialRecipe, adversarial.adapt, adversarial.passes),
        Method("dga", dga.DgaRecipe, dga.adapt, dga.passes, dga.caching),
        Method("distil", distil.DistilRecipe, distil.adapt, distil.passes),
        Method("extend", extend.ExtendRecipe, extend.adapt),
        Method("finetune", finetune.FinetuneRecipe, finetune.adapt),
        Method("light", light.LightRecipe, light.adapt, light.passes),
        Method("mlm", mlm.MlmRecipe, mlm.adapt),
        Method("scratch", scratch.ScratchRecipe, scratch.adapt),
        Method(
            "sequence_contrast",
            sequence_contrast.SequenceContrastRecipe,
            sequence_contrast.adapt,
            sequence_contrast.passes,
            sequence_contrast.caching,
        ),
        Method("stilt", stilt.StiltRecipe, stilt.adapt),
        Method("tapter", tapter.TapterRecipe, tapter.adapt),
        Method("tlm", tlm.TlmRecipe, tlm.adapt),
        Method(
            "token_contrast",
            token_contrast.TokenContrastRecipe,
            token_contrast.adapt,
            token_contrast.passes,
            token_contrast.caching,
        ),
    )
}
