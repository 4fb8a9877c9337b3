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

from dataclasses import dataclass
from pathlib import Path

from acclimate.core.types import Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.adversarial_loss import ASCENT, PASSES, AdversarialLoss
from acclimate.methods.perturbation import Perturbation, Reading


@dataclass(frozen=True)
class Recipe(mlm.Recipe):
    """ALUM from a checkpoint, beside what mlm has."""

    weight: float = 10.0  # alpha, of the second term
    step: float = 1e-3  # eta, of the ascent
    noise: float = 1e-5  # sigma, where the ascent starts
    radius: float = 0.0  # epsilon, the most that a number is changed by; 0: 1e-5, or 1 as released
    ascents: int = 1  # K
    reading: Reading = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight <= 0:
            raise ValueError(f"weight = {self.weight} is out of range: above 0, or take the method mlm")
        Perturbation(self.step, self.noise, self.radius, self.ascents, self.reading)


def passes(recipe: Recipe) -> float:
    """Of the encoder in a step, in those of masked language modelling."""
    return PASSES + recipe.ascents * ASCENT


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
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
