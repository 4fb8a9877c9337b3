"""What a race is planned with of methods/adversarial.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from acclimate.core.settings import Range
from acclimate.methods.method import Method, deferred
from acclimate.methods.recipes import mlm

SearchReading = Literal["paper", "released"]
StepSize = Annotated[float, Range(above=0)]
NoiseScale = Annotated[float, Range(above=0, hint=": at a delta of 0 s is at its least, and g is 0")]
Radius = Annotated[float, Range(least=0, hint=", where 0 stands for the reading's default")]
Ascents = Annotated[int, Range(least=1)]

PASSES = 2.0  # passes of a step, forward and backward: over the text, and over the perturbed text
ASCENT = 2 / 3  # of a pass: forward, and backward to the input without gradients of the weights


@dataclass(frozen=True)
class AdversarialRecipe(mlm.MlmRecipe):
    """ALUM from a checkpoint: the settings of mlm, and those of the perturbation."""

    weight: Annotated[float, Range(above=0, hint=", or take the method mlm")] = 10.0
    """Weight of the adversarial loss beside masked language modelling, alpha, above 0; the paper: 10."""
    step: StepSize = 1e-3
    """Length of a step of the search for the perturbation, eta, above 0, times the gradient divided by its largest
    number in the row; as released: times the gradient. The paper: 1e-3."""
    noise: NoiseScale = 1e-5
    """Standard deviation of the noise that the search starts from, sigma, above 0; the paper: 1e-5."""
    radius: Radius = 0.0
    """Largest change of a number of the input, epsilon; 0: 1e-5, or 1 for the released reading. The paper's 1e-5 has
    hardly any effect; try 1e-3 with `step` 1e-1."""
    ascents: Ascents = 1  # number of steps of the search, K, at least 1; the paper: 1
    reading: SearchReading = "paper"
    """What is perturbed and how: as the "paper" describes it, or as the "released" code does it."""


def passes(recipe: AdversarialRecipe) -> float:
    """Passes through the encoder a step."""
    return PASSES + recipe.ascents * ASCENT


METHOD = Method("adversarial", AdversarialRecipe, deferred("acclimate.methods.adversarial", "adapt"), passes=passes)
