"""Go on with masked language modelling beside a contrast of tokens, as two ways of pretraining do: TaCL and TaCO.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 9 and 10,
take them to a domain's text (footnote 14). The loss is L_MLM + weight * one of (methods/token_contrast_loss.py)

    TaCL   -log e^(cos(s_i, t_i) / tau) / sum over j of e^(cos(s_i, t_j) / tau)            mean over masked tokens i
    TaCO   -log e^(cos(g_i, g_p) / tau) / (e^(cos(g_i, g_p) / tau) + sum over K of e^(cos(g_i, g_k) / tau))

TaCL (Su et al., 2022, "TaCL: Improving BERT Pre-training with Token-aware Contrastive Learning"): s are the last
hidden states of the masked text, t those that the untouched model, frozen, makes of the text itself; j are all tokens
of the row. TaCO (Fu et al., 2022, "Contextual Representation Learning beyond Masked Language Modeling"): g is what
context adds to a token, its last hidden state less its embedding; p is a token of the row less than `window` away, k
are K tokens of other rows; the mean is over the tokens i of a row, then over rows.

Readings
  TaCL, as its authors published it (yxuansu/TaCL): tau .01, weight 1, dropout in the student only, i the tokens to be
  predicted, whether the mask, another token or themselves stand there. Special tokens are among the j, padding is not.
  TaCO, as its authors' page states it (FUZHIYI/TACO): tau .07, K 50, window 5, weight 1, g of the masked text, in the
  pass of language modelling. Its model code was not at hand, and DGA's marks its own as to be checked: take TaCO's
  details for unverified. The embedding is what enters the first layer, positions and normalisation included.
Deviations
  TaCO: `anchors` tokens of each row are the i, drawn anew at every step, instead of all: the same mean, and the numbers
  by which rows are compared stay few (training/gradients.py). The k-th negative of a row's a-th anchor is the a-th
  anchor of the row k behind it in the step, so the negatives are tokens of 50 different rows. Near a row's ends p is
  drawn from what is there of the window; the authors' code takes any token of the row then, and a window of 2 to
  either side.
  DGA's released TaCL compares unmasked text with unmasked text, at the tokens that are *not* predicted, by dot products
  without tau. Its TaCO takes the negatives from the row itself, normalises over the sequence first, has no tau, and
  weights a sum over tokens by 1e-5. Neither is here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from acclimate.core.types import Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.domain import DomainRecipe
from acclimate.methods.token_contrast_loss import TokenAlignment, TokenAwareContrast, with_anchors

TEMPERATURES = {"tacl": 0.01, "taco": 0.07}


@dataclass(frozen=True)
class Recipe(DomainRecipe):
    """TaCL or TaCO, with the settings of DGA's section 4.2 and the contrasts' own."""

    contrast: Literal["tacl", "taco"] = "tacl"
    temperature: float | None = None  # tau; None: .01 for tacl, .07 for taco
    weight: float = 1.0  # of the second term
    window: int = 5  # taco: a positive is less than so many tokens away
    anchors: int = 16  # taco: tokens of a row that are compared
    negatives: int = 50  # taco: of other rows, for each of them; at most one of each

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "temperature": self.temperature is None or self.temperature > 0,
            "weight": self.weight > 0,
            "window": self.window >= 2,
            "anchors": self.anchors >= 1,
            "negatives": self.negatives >= 1,
        }
        for name, holds in rules.items():
            if not holds:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range")
        if self.contrast == "taco" and self.plan.batch < 2:
            raise ValueError("taco compares rows of a step with each other, but plan.batch = 1. Set it to at least 2")


def passes(recipe: Recipe) -> float:
    """Of the encoder in a step, in those of masked language modelling; TaCL's teacher has no way back."""
    return 4 / 3 if recipe.contrast == "tacl" else 1.0


def caching(recipe: Recipe) -> float:
    """Likewise, what is added where a step is cut into pieces: TaCO's views, without gradient."""
    return 0.0 if recipe.contrast == "tacl" else 1 / 3


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does; TaCL's teacher is not in it. Raises ValueError as that."""
    temperature = TEMPERATURES[recipe.contrast] if recipe.temperature is None else recipe.temperature

    def aware(start: mlm.Start) -> TokenAwareContrast:
        return TokenAwareContrast(
            start.model, copy.deepcopy(start.model), temperature=temperature, weight=recipe.weight
        )

    def alignment(start: mlm.Start) -> TokenAlignment:
        return TokenAlignment(start.model, temperature=temperature, negatives=recipe.negatives, weight=recipe.weight)

    if recipe.contrast == "tacl":
        return mlm.adapt_with(recipe, out, aware, watch=watch)
    mark = partial(with_anchors, anchors=recipe.anchors, window=recipe.window, seed=recipe.plan.seed)
    return mlm.adapt_with(recipe, out, alignment, mark=mark, watch=watch)
