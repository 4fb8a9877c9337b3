"""TaCL and TaCO: go on with masked language modelling beside a contrast of tokens.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 9 and 10,
apply these two pretraining methods to a domain's text (footnote 14). The loss is L_MLM + weight * one of

    TaCL   mean over masked tokens i of -log e^(cos(s_i, t_i) / tau) / sum_j e^(cos(s_i, t_j) / tau)
    TaCO   mean over tokens i of -log e^(cos(g_i, g_p) / tau)
                                      / (e^(cos(g_i, g_p) / tau) + sum_k e^(cos(g_i, g_k) / tau))

TaCL (Su et al., 2022, "TaCL: Improving BERT Pre-training with Token-aware Contrastive Learning"): s are the last
hidden states of the masked text, t those that the untouched model, frozen, has of the text itself; j are all tokens of
the row. TaCO (Fu et al., 2022, "Contextual Representation Learning beyond Masked Language Modeling"): g is what context
adds to a token, its last hidden state minus its embedding; p is a token of the row less than `window` away, k are K
tokens of other rows; the mean is over the tokens i of a row, then over rows.

Shape suffixes: L lines, W width of a line in tokens, R rows of a piece, B rows of the step, T tokens of the longest
row, M predicted positions, D hidden, V vocabulary; of TaCO: A anchors of a row, K negatives of an anchor, P = 2A views.

Readings
  TaCL, as its authors published it (yxuansu/TaCL): tau .01, weight 1, dropout in the student only, i the tokens to be
  predicted, whether the mask, another token or the token itself stands there. Special tokens are among the j, padding
  is not.
  TaCO, as its authors' page states it (FUZHIYI/TACO): tau .07, K 50, window 5, weight 1, g of the masked text, in the
  pass of language modelling. Its model code was not available, and DGA's code marks TaCO as to be checked: TaCO's
  details are unverified. The embedding is what enters the first layer, positions and normalisation included.
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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.domain import Frozen, masked_pass, row_states, unmasked
from acclimate.methods.recipes.token_contrast import TokenContrastRecipe
from acclimate.models.encoder import encoder_of, training_flops
from acclimate.models.heads import ends_and_masked_logits, inputs_of
from acclimate.training.objective import VIEWS, MaskedLanguageLoss, Objective, masked_cross_entropy
from acclimate.training.pieces import Piece

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PAIRS = "pairs"  # of `Batch.rows`: (B, 2, A) each anchor's place in its row, and that of its positive
TEMPERATURES = {"tacl": 0.01, "taco": 0.07}


class TokenAwareContrast(Objective):
    """TaCL. Terms: `mlm`, as MaskedLanguageLoss has it, and `contrast`, averaged over the step's predicted tokens.

    teacher      another model of the same width and vocabulary, frozen here; it sees the unmasked text
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
        student_RTD, there_RT = row_states(student_LWD, piece)  # s
        teacher_RTD, _ = row_states(self.teacher.hidden_states(unmasked(piece)), piece)  # t
        with torch.autocast(student_RTD.device.type, enabled=False):
            cosine_RTT = unit(student_RTD) @ unit(teacher_RTD).transpose(1, 2)  # cos(s_i, t_j), [row, i, j]
            padding_R1T = ~there_RT[:, None, :]  # never a j
            logits_RTT = (cosine_RTT / self.temperature).masked_fill(padding_R1T, -torch.inf)
            # the class of a predicted token i is i itself; other tokens have none
            places_T = torch.arange(there_RT.shape[1], device=there_RT.device)
            target_RT = torch.where(_predicted(piece) & there_RT, places_T, NOT_PREDICTED)
            contrast = nn.functional.cross_entropy(
                logits_RTT.flatten(0, 1), target_RT.flatten(), ignore_index=NOT_PREDICTED, reduction="sum"
            )
        return {"mlm": mlm_sum, "contrast": contrast}

    def flops(self, batch: Batch) -> float:
        return self.language.flops(batch) + training_flops(self.teacher.model, batch.lengths, predicted=0) / 3


def _predicted(piece: Piece) -> Tensor:
    """(R, T) bool: True at a predicted token."""
    ids_LW = piece["input_ids"]
    places = piece["positions"][piece["labels"] != NOT_PREDICTED]
    predicted_LW = torch.zeros_like(ids_LW).flatten().index_fill(0, places, 1).view_as(ids_LW)
    predicted_RT1, _ = row_states(predicted_LW[:, :, None], piece)
    return predicted_RT1[:, :, 0] > 0


class TokenAlignment(Objective):
    """TaCO. Terms: `mlm`, as MaskedLanguageLoss has it, and `contrast`, averaged over the anchors of a row, then over
    rows. Batches have anchors and positives as `with_anchors` adds them.

    temperature  tau, above 0
    negatives    K, the number of negatives of an anchor; fewer where the step has fewer other rows
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
        added_LWD = hidden_LWD.float() - embedded_LWD.float()  # g
        return {"mlm": masked_cross_entropy(logits_MV, piece), VIEWS: _pair_states(added_LWD, piece)}

    def views(self, piece: Piece) -> Tensor:
        """(R, P, D) g of the row's anchors, then of their positives."""
        model = self.language.model
        outputs = encoder_of(model)(**inputs_of(model, piece), output_hidden_states=True)
        added_LWD = outputs.last_hidden_state.float() - outputs.hidden_states[0].float()  # g
        return _pair_states(added_LWD, piece)

    def compared(self, views_BPD: Tensor) -> dict[str, Tensor]:
        rows = len(views_BPD)
        anchors_BAD, positives_BAD = unit(views_BPD).chunk(2, dim=1)  # g_i, g_p
        # a row's negatives are the anchors of the K rows behind it in the step
        behind_K = torch.arange(1, min(self.negatives, rows - 1) + 1, device=views_BPD.device)
        others_BK = (torch.arange(rows, device=views_BPD.device)[:, None] + behind_K) % rows
        cosine_ABB = torch.einsum("bad,cad->abc", anchors_BAD, anchors_BAD)  # of a-th anchors with a-th anchors
        negatives_ABK = cosine_ABB.gather(2, others_BK.expand(cosine_ABB.shape[0], -1, -1))  # cos(g_i, g_k)
        positives_AB1 = (anchors_BAD * positives_BAD).sum(-1).T[:, :, None]  # cos(g_i, g_p)
        log_p_ABC = torch.cat([positives_AB1, negatives_ABK], dim=2).div(self.temperature).log_softmax(-1)  # C = 1 + K
        return {"contrast": -log_p_ABC[:, :, 0].mean(0).sum()}  # mean over anchors, sum over rows

    def flops(self, batch: Batch) -> float:
        """As masked language modelling; without the additional pass of a step that is cut into pieces."""
        return self.language.flops(batch)


def with_anchors(batch: Batch, *, anchors: int, window: int, seed: int) -> Batch:
    """Return the batch with rows["pairs"]: `anchors` tokens of each row, special ones included, drawn with replacement,
    and for each of them a positive, another token of the row less than `window` away. A pure function of batch and
    seed.
    """
    generator = np.random.default_rng([seed, zlib.crc32(batch.ids.tobytes())])
    last_B1 = batch.lengths[:, None] - 1
    anchors_BA = generator.integers(0, last_B1 + 1, (len(batch), anchors))
    first_BA = np.maximum(anchors_BA - window + 1, 0)
    final_BA = np.minimum(anchors_BA + window - 1, last_B1)
    # drawn from one place fewer than the window has, then moved past the anchor, so that it is never the anchor itself
    positives_BA = generator.integers(first_BA, np.maximum(final_BA, first_BA + 1))
    positives_BA = np.minimum(positives_BA + (positives_BA >= anchors_BA), last_B1)
    return replace(batch, rows={**batch.rows, PAIRS: np.stack([anchors_BA, positives_BA], axis=1)})


def _pair_states(added_LWD: Tensor, piece: Piece) -> Tensor:
    """(R, P, D) the states at each row's anchors, then at their positives."""
    places_RP = piece["firsts"][:, None] + piece[PAIRS].flatten(1)
    return added_LWD.flatten(0, 1)[places_RP]


def unit(states: Tensor) -> Tensor:
    """Return the states at length 1, in float32: their products are cosines."""
    return nn.functional.normalize(states.float(), dim=-1)


def adapt(recipe: TokenContrastRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does, without TaCL's teacher. Raises ValueError as that does."""
    temperature = TEMPERATURES[recipe.contrast] if recipe.temperature is None else recipe.temperature

    def aware(start: mlm.RunStart) -> TokenAwareContrast:
        return TokenAwareContrast(
            start.model, copy.deepcopy(start.model), temperature=temperature, weight=recipe.weight
        )

    def alignment(start: mlm.RunStart) -> TokenAlignment:
        return TokenAlignment(start.model, temperature=temperature, negatives=recipe.negatives, weight=recipe.weight)

    if recipe.contrast == "tacl":
        return mlm.adapt_with(recipe, out, aware, watch=watch)
    mark = partial(with_anchors, anchors=recipe.anchors, window=recipe.window, seed=recipe.plan.seed)
    return mlm.adapt_with(recipe, out, alignment, mark=mark, watch=watch)
