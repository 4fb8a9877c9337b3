"""SimCSE and InfoWord: go on with masked language modelling beside a contrast of whole texts.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.1, baselines 7 and 8.
SimCSE (after Gao et al., 2021, Eq. 4) and InfoWord (after Kong et al., 2020, "A Mutual Information Maximization
Perspective of Language Representation Learning") minimise

    L_MLM + weight * mean over texts m of -log( e^(sim(a_m, b_m) / tau) / sum_j e^(sim(a_m, b_j) / tau) )

with the cosine as sim and the texts of the step as j (`dga.contrast`). In SimCSE a and b are the mean states of the
same text in two passes, which differ by dropout alone. In InfoWord a is the mean state of the masked text, and b is the
mean state of the masked tokens in a pass over the text itself: the whole against what is missing from it.

Shape suffixes: L lines, W width of a line in tokens, R rows of a piece, B rows of the step, D hidden, N tokens of a
batch, P predicted tokens of a piece.

Readings
  tau = .05 and weight 1 are those of DGA's contrast; the paper states neither for these baselines. A row is represented
  by the mean over its tokens, special ones included (footnote 13); SimCSE takes the first token or the pooler.
  SimCSE makes two passes over the unmasked text beside that of language modelling; InfoWord's a comes from the latter.
  InfoWord's span is all that is masked of a row, as in the released code of DGA; Kong et al. have an n-gram.
  InfoWord leaves out a row without a masked token, which has special tokens only.
Deviations
  The released code of DGA has two different texts as a positive pair in SimCSE; here it is one text twice.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from acclimate.core.types import NOT_PREDICTED, Batch, Checkpoint, Watch, unwatched
from acclimate.methods import mlm
from acclimate.methods.dga import contrast
from acclimate.methods.domain import check_passes_differ, hidden_states, masked_pass, row_means, unmasked
from acclimate.methods.recipes.sequence_contrast import SequenceContrastRecipe
from acclimate.models.encoder import training_flops
from acclimate.training.objective import VIEWS, MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class SequenceContrast(Objective):
    """Terms: `mlm`, as MaskedLanguageLoss has it, and `contrast`, averaged over the rows that have both a and b."""

    couples_rows = True

    def __init__(self, model: PreTrainedModel, *, temperature: float = 0.05, weight: float = 1.0) -> None:
        super().__init__()
        self.language = MaskedLanguageLoss(model)
        self.weights = {"mlm": 1.0, "contrast": weight}
        self.shares_lines = self.language.shares_lines
        self.temperature = temperature

    @abstractmethod
    def views(self, piece: Piece) -> Tensor:
        """(R, 2, D) a and b of each row; b is 0 for a row that has none."""

    def compared(self, views_B2D: Tensor) -> dict[str, Tensor]:
        return {"contrast": contrast(views_B2D[views_B2D[:, 1].any(-1)], self.temperature)}  # rows that have a b


class SimCse(SequenceContrast):
    """a and b: the mean states of the same text in two passes, which differ by dropout alone."""

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.language.counts(batch), "contrast": len(batch)}

    def views(self, piece: Piece) -> Tensor:
        text, model = unmasked(piece), self.language.model
        return torch.stack([row_means(hidden_states(model, text), text) for _ in range(2)], dim=1)  # a, b

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        views_R2D = self.views(piece)
        return {**self.language(piece), VIEWS: views_R2D}

    def flops(self, batch: Batch) -> float:
        return self.language.flops(batch) + 2 * training_flops(self.language.model, batch.lengths, predicted=0)


class InfoWord(SequenceContrast):
    """a: the mean state of the masked text. b: that of the masked tokens, in a pass over the text itself."""

    def counts(self, batch: Batch) -> dict[str, int]:
        predicted_N = batch.tokens["labels"] != NOT_PREDICTED
        rows = np.unique(np.repeat(np.arange(len(batch)), batch.lengths)[predicted_N])
        return {**self.language.counts(batch), "contrast": len(rows)}

    def views(self, piece: Piece) -> Tensor:
        return self._views(piece, hidden_states(self.language.model, piece))

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        mlm_sum, hidden_LWD = masked_pass(self.language.model, piece)
        return {"mlm": mlm_sum, VIEWS: self._views(piece, hidden_LWD)}

    def _views(self, piece: Piece, masked_LWD: Tensor) -> Tensor:
        text_LWD = hidden_states(self.language.model, unmasked(piece))
        return torch.stack([row_means(masked_LWD, piece), predicted_means(text_LWD, piece)], dim=1)  # a, b

    def flops(self, batch: Batch) -> float:
        return self.language.flops(batch) + training_flops(self.language.model, batch.lengths, predicted=0)


def predicted_means(hidden_LWD: Tensor, piece: Piece) -> Tensor:
    """(R, D) float32, the mean over the predicted tokens of each row; 0 where it has none."""
    places_P = piece["positions"][piece["labels"] != NOT_PREDICTED]
    rows_P = torch.searchsorted(piece["firsts"], places_P, right=True) - 1
    counts_R = torch.bincount(rows_P, minlength=len(piece["firsts"]))
    hidden_PD = hidden_LWD.flatten(0, 1)[places_P].float()
    sums_RD = hidden_PD.new_zeros(len(counts_R), hidden_PD.shape[1]).index_add(0, rows_P, hidden_PD)
    return sums_RD / counts_R.clamp(min=1)[:, None]


CONTRASTS: dict[str, type[SequenceContrast]] = {"simcse": SimCse, "infoword": InfoWord}


def adapt(recipe: SequenceContrastRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Train and write `out/checkpoint`, as `mlm.adapt` does.

    Raises ValueError as that does, and where the model has no dropout and SimCSE's two passes would be the same.
    """

    def objective(start: mlm.RunStart) -> Objective:
        if recipe.contrast == "simcse":
            check_passes_differ(start.model)
        return CONTRASTS[recipe.contrast](start.model, temperature=recipe.temperature, weight=recipe.weight)

    return mlm.adapt_with(recipe, out, objective, watch=watch)
