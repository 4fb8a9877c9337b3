"""What DGA and the methods that it is compared with share: settings, and the passages of a step as they were.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.2: all adapt on raw text
of the domain with masked language modelling, for equally many steps, and add something to it.

Shape suffixes: L lines, W width of a line in tokens, R rows, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core.types import NOT_PREDICTED, Batch
from acclimate.methods import mlm
from acclimate.models.encoder import encoder_of
from acclimate.models.heads import inputs_of
from acclimate.models.lines import rows_of
from acclimate.training.pieces import Piece
from acclimate.training.plan import Plan


@dataclass(frozen=True)
class DomainRecipe(mlm.Recipe):
    """Masked language modelling with section 4.2's settings as defaults: 2,500 steps of 256 sequences of 164 tokens at
    rate 1e-4. What it leaves open is as in the released code: 10% warm-up, no decay, sub-words masked at 15%.
    """

    max_tokens: int = 164
    epochs: float = 0.0
    plan: Plan = field(default_factory=lambda: Plan(steps=2_500, batch=256, rate=1e-4, warmup=0.1, weight_decay=0.0))


def unmasked(piece: Piece) -> Piece:
    """The piece with the tokens that the text has at the predicted positions."""
    ids_LW, labels_M = piece["input_ids"], piece["labels"]
    there_M = labels_M != NOT_PREDICTED
    flat = ids_LW.flatten().index_put((piece["positions"][there_M],), labels_M[there_M])
    return {**piece, "input_ids": flat.view_as(ids_LW)}


def hidden_states(model: PreTrainedModel, piece: Piece) -> Tensor:
    """(L, W, D) what the encoder hands to its heads."""
    hidden_LWD: Tensor = encoder_of(model)(**inputs_of(model, piece)).last_hidden_state
    return hidden_LWD


def row_means(hidden_LWD: Tensor, piece: Piece) -> Tensor:
    """(R, D) float32: of each row, the mean over its tokens, special ones included and padding left out."""
    hidden_LWD = hidden_LWD.float()
    if (rows := rows_of(piece)) is not None:
        there_RT = rows.there_RT
        hidden_RTD = hidden_LWD.flatten(0, 1)[rows.places_RT]
    elif "attention_mask" in piece:
        there_RT, hidden_RTD = piece["attention_mask"] > 0, hidden_LWD
    else:
        return hidden_LWD.mean(1)
    return (hidden_RTD * there_RT[:, :, None]).sum(1) / there_RT.sum(1, keepdim=True)


def appended(batch: Batch, ids: Sequence[int]) -> Batch:
    """The batch with these tokens behind each row; nothing is predicted at them."""
    ends = batch.offsets[1:]
    more = np.repeat(ends, len(ids))

    def put(values: np.ndarray, fill: np.ndarray | int) -> np.ndarray:
        return np.insert(values, more, np.tile(fill, len(ends)) if isinstance(fill, np.ndarray) else fill)

    return Batch(
        ids=put(batch.ids, np.asarray(ids, np.int64)),
        offsets=batch.offsets + len(ids) * np.arange(len(batch.offsets)),
        tokens={name: put(values, NOT_PREDICTED) for name, values in batch.tokens.items()},
        rows=batch.rows,
        names=batch.names,
        pad=batch.pad,
    )


class Frozen(nn.Module):
    """A model that no loss moves: without gradients, and without dropout whatever is said of its parent."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model.requires_grad_(False)
        self.train(False)

    def train(self, mode: bool = True) -> Frozen:
        return super().train(False)

    @torch.no_grad()
    def hidden_states(self, piece: Piece) -> Tensor:
        """(L, W, D) as the function of that name."""
        return hidden_states(self.model, piece)
