"""What TaCL and TaCO minimise (methods/token_contrast.py): L_MLM and a contrast of tokens.

Shape suffixes: L lines, W width of a line in tokens, R rows of a piece, B of the step, T tokens of the longest, M
predicted positions, D hidden, A anchors of a row, K negatives of an anchor, V views of a row (2A).
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods.domain import Frozen, by_row, masked_pass, unmasked
from acclimate.models.encoder import encoder_of
from acclimate.models.flops import training_flops
from acclimate.models.heads import ends_and_masked_logits, inputs_of
from acclimate.training.objective import VIEWS, MaskedLanguageLoss, Objective
from acclimate.training.pieces import Piece

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
