"""Go on with masked language modelling beside a contrast of tokens, as two ways of pretraining do: TaCL and TaCO.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 9 and 10,
take them to a domain's text (footnote 14). The loss is L_MLM + weight * one of (methods/token_contrast.py)

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
import zlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.domain import SMALL, DomainRecipe, Frozen, by_row, masked_pass, unmasked
from acclimate.methods.method import Contestant, Method
from acclimate.models.encoder import encoder_of, training_flops
from acclimate.models.heads import ends_and_masked_logits, inputs_of
from acclimate.training.objective import VIEWS, MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

# -------------------- token contrast loss
# What TaCL and TaCO minimise (methods/token_contrast.py): L_MLM and a contrast of tokens.
#
# Shape suffixes: L lines, W width of a line in tokens, R rows of a piece, B of the step, T tokens of the longest, M
# predicted positions, D hidden, A anchors of a row, K negatives of an anchor, V views of a row (2A).


PAIRS = "pairs"  # of `Batch.rows`: (B, 2, A) an anchor's place in its row, and that of its positive


class TokenAwareContrast(Objective):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `contrast`, TaCL's: means over the step's predicted tokens.

    teacher      another model of the same width and vocabulary, frozen here; it reads the text without masks
    temperature  tau, above 0
    """

    def __init__(
        self, model: PreTrainedModel, teacher: PreTrainedModel, *, temperature: float = 0.01, weight: float = 1.0
    ) -> None:
        super().__init__()
        self.language, self.teacher = MaskedLanguageLoss(model), Frozen(teacher)
        self.temperature = temperature
        self.weights = {"mlm": 1.0, "contrast": weight}
        self.shares_lines = self.language.shares_lines

    def counts(self, batch: Batch) -> dict[str, int]:
        predicted = self.language.counts(batch)["mlm"]
        return {"mlm": predicted, "contrast": predicted}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        mlm_sum, student_LWD = masked_pass(self.language.model, piece)
        student_RTD, there_RT = by_row(student_LWD, piece)
        teacher_RTD, _ = by_row(self.teacher.hidden_states(unmasked(piece)), piece)
        with torch.autocast(student_RTD.device.type, enabled=False):
            similarity_RTT = _directions(student_RTD) @ _directions(teacher_RTD).transpose(1, 2)
            scores_RTT = (similarity_RTT / self.temperature).masked_fill(~there_RT[:, None, :], -torch.inf)
            places_T = torch.arange(there_RT.shape[1], device=there_RT.device)
            own_RT = torch.where(_predicted(piece) & there_RT, places_T, NOT_PREDICTED)
            contrast = nn.functional.cross_entropy(
                scores_RTT.flatten(0, 1), own_RT.flatten(), ignore_index=NOT_PREDICTED, reduction="sum"
            )
        return {"mlm": mlm_sum, "contrast": contrast}

    def flops(self, batch: Batch) -> float:
        return self.language.flops(batch) + training_flops(self.teacher.model, batch.lengths, predicted=0) / 3


class TokenAlignment(Objective):
    """Terms `mlm`, as MaskedLanguageLoss has it, and `contrast`, TaCO's, averaged over the anchors of a row, then over
    rows. Batches carry anchors and positives as `with_anchors` puts them there.

    temperature  tau, above 0
    negatives    of each anchor; fewer where the step has not as many other rows
    """

    couples_rows = True

    def __init__(
        self, model: PreTrainedModel, *, temperature: float = 0.07, negatives: int = 50, weight: float = 1.0
    ) -> None:
        super().__init__()
        self.language = MaskedLanguageLoss(model)
        self.temperature, self.negatives = temperature, negatives
        self.weights = {"mlm": 1.0, "contrast": weight}
        self.shares_lines = self.language.shares_lines

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.language.counts(batch), "contrast": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        embedded_LWD, hidden_LWD, logits_MV = ends_and_masked_logits(self.language.model, piece, piece["positions"])
        mlm_sum = nn.functional.cross_entropy(logits_MV.float(), piece["labels"], reduction="sum")
        return {"mlm": mlm_sum, VIEWS: _at_pairs(hidden_LWD.float() - embedded_LWD.float(), piece)}

    def views(self, piece: Piece) -> Tensor:
        """(R, 2A, D) what context adds to the anchors, then to their positives."""
        model = self.language.model
        outputs = encoder_of(model)(**inputs_of(model, piece), output_hidden_states=True)
        return _at_pairs(outputs.last_hidden_state.float() - outputs.hidden_states[0].float(), piece)

    def compared(self, views_BVD: Tensor) -> dict[str, Tensor]:
        rows = len(views_BVD)
        anchors_BAD, positives_BAD = _directions(views_BVD).chunk(2, dim=1)
        steps_K = torch.arange(1, min(self.negatives, rows - 1) + 1, device=views_BVD.device)
        others_BK = (torch.arange(rows, device=views_BVD.device)[:, None] + steps_K) % rows
        similarity_ABB = torch.einsum("bad,cad->abc", anchors_BAD, anchors_BAD)
        negatives_ABK = similarity_ABB.gather(2, others_BK.expand(similarity_ABB.shape[0], -1, -1))
        positives_AB1 = (anchors_BAD * positives_BAD).sum(-1).T[:, :, None]
        log_ABK = torch.cat([positives_AB1, negatives_ABK], dim=2).div(self.temperature).log_softmax(-1)
        return {"contrast": -log_ABK[:, :, 0].mean(0).sum()}

    def flops(self, batch: Batch) -> float:
        """As masked language modelling; the pass more that a step takes where it is cut is left out."""
        return self.language.flops(batch)


def with_anchors(batch: Batch, *, anchors: int, window: int, seed: int) -> Batch:
    """The batch with rows["pairs"]: of each row `anchors` tokens, special ones included, drawn with replacement, and
    for each another token of the row less than `window` away. A pure function of batch and seed.
    """
    generator = np.random.default_rng([seed, zlib.crc32(batch.ids.tobytes())])
    last_B1 = batch.lengths[:, None] - 1
    anchors_BA = generator.integers(0, last_B1 + 1, (len(batch), anchors))
    first_BA = np.maximum(anchors_BA - window + 1, 0)
    final_BA = np.minimum(anchors_BA + window - 1, last_B1)
    positives_BA = generator.integers(first_BA, np.maximum(final_BA, first_BA + 1))  # one fewer: the anchor is left out
    positives_BA = np.minimum(positives_BA + (positives_BA >= anchors_BA), last_B1)
    return replace(batch, rows={**batch.rows, PAIRS: np.stack([anchors_BA, positives_BA], axis=1)})


def _at_pairs(added_LWD: Tensor, piece: Piece) -> Tensor:
    """(R, 2A, D) of each row, the states at its anchors, then at their positives."""
    places_RV = piece["firsts"][:, None] + piece[PAIRS].flatten(1)
    return added_LWD.flatten(0, 1)[places_RV]


def _predicted(piece: Piece) -> Tensor:
    """(R, T) bool: where a token is predicted."""
    found_M = piece["positions"][piece["labels"] != NOT_PREDICTED]
    flat = torch.zeros_like(piece["input_ids"]).flatten().index_fill(0, found_M, 1)
    predicted_RT1, _ = by_row(flat.view_as(piece["input_ids"])[:, :, None], piece)
    return predicted_RT1[:, :, 0] > 0


def _directions(states: Tensor) -> Tensor:
    """The states at length 1, in float32."""
    return nn.functional.normalize(states.float(), dim=-1)


TEMPERATURES = {"tacl": 0.01, "taco": 0.07}


@dataclass(frozen=True)
class TokenContrastRecipe(DomainRecipe):
    """TaCL or TaCO, with the settings of DGA's section 4.2 and the contrasts' own."""

    contrast: Literal["tacl", "taco"] = "tacl"
    """Of masked tokens with what a frozen model makes of them, or of what context adds to tokens of a row."""
    temperature: float | None = None  # tau; None: .01 for tacl, .07 for taco
    weight: float = 1.0  # of the second term
    window: int = 5  # taco: a positive is less than so many tokens away
    anchors: int = 16  # taco: tokens of a row that are compared
    negatives: int = 50  # taco: of each of them, from as many other rows; fewer where a step has fewer rows

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


def passes(recipe: TokenContrastRecipe) -> float:
    """Of the encoder in a step, in those of masked language modelling; TaCL's teacher has no way back."""
    return 4 / 3 if recipe.contrast == "tacl" else 1.0


def caching(recipe: TokenContrastRecipe) -> float:
    """Likewise, what is added where a step is cut into pieces: TaCO's views, without gradient."""
    return 0.0 if recipe.contrast == "tacl" else 1 / 3


def adapt(recipe: TokenContrastRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
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


METHOD = Method(
    name="token_contrast",
    recipe=TokenContrastRecipe,
    adapt=adapt,
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
    caching=caching,
)
