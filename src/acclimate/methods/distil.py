"""Go on with masked language modelling while a frozen copy of the model, its teacher, holds representations in place.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 5 and 6.
KD (after Hinton et al., 2015) and AdaptedDeiT (after DeiT: Touvron et al., 2021) minimise

    L_MLM + weight * mean of KL(softmax(t) || softmax(s))                        softmax over the D features

with s, t of student and teacher: in KD the last hidden state of every token; in AdaptedDeiT s is the state of a
distillation token that stands behind each row, and t the mean of the teacher's states of that row (footnote 13).

Readings
  KD's KL is that of teacher to student, at temperature 1, with weight 1, a mean over all tokens of the step, special
  ones included. The teacher reads without dropout.
  Both read the text `unmasked`, as in the released code: one more pass of the student. `masked` compares them on the
  masked text, in the pass of language modelling itself; the paper does not say which.
  AdaptedDeiT has no released code, and the paper no formula: the same KL as KD's, so that the two differ in what is
  matched alone. The teacher reads the row without the token. The token is behind the row, where it moves no position,
  and in every pass of the student, as in DeiT; it begins as BERT draws weights.
Deviations
  The released code takes KD's softmax over the tokens of a sequence (dim=1), not over features.
  The distillation token is a vector of the objective, not a piece of the vocabulary: nothing predicts it, and the
  checkpoint is as without it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from acclimate.core.types import Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.distil_loss import DistillationToken, KnowledgeDistillation, Text, with_distillation_token
from acclimate.methods.domain import DomainRecipe
from acclimate.models.encoder import longest_input
from acclimate.training.objective import Objective


@dataclass(frozen=True)
class Recipe(DomainRecipe):
    """KD or AdaptedDeiT, with the settings of DGA's section 4.2."""

    teacher: Literal["kd", "deit"] = "kd"
    text: Text = "unmasked"  # that student and teacher are compared on; "masked": in the pass of language modelling
    weight: float = 1.0  # of the second term

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight <= 0:
            raise ValueError(f"weight = {self.weight} is out of range: above 0, or take the method mlm")


def passes(recipe: Recipe) -> float:
    """Of the encoder in a step, in those of masked language modelling; the teacher's has no way back."""
    return 1 / 3 + (2.0 if recipe.text == "unmasked" else 1.0)


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does; neither teacher nor distillation token is in it.

    Raises ValueError as that does, and where the model cannot read a distillation token behind rows of `max_tokens`.
    """

    def objective(start: mlm.Start) -> Objective:
        teacher = copy.deepcopy(start.model)
        if recipe.teacher == "kd":
            return KnowledgeDistillation(start.model, teacher, text=recipe.text, weight=recipe.weight)
        return DistillationToken(start.model, teacher, text=recipe.text, weight=recipe.weight, seed=recipe.plan.seed)

    if recipe.teacher == "kd":
        return mlm.adapt_with(recipe, out, objective, watch=watch)
    most = longest_input(recipe.model) if recipe.model else None
    if most and recipe.max_tokens >= most:
        raise ValueError(
            f"{recipe.model} reads {most} tokens at once, too few for {recipe.max_tokens} and a distillation token. "
            f"Set max_tokens to at most {most - 1}"
        )
    return mlm.adapt_with(recipe, out, objective, mark=with_distillation_token, watch=watch)
