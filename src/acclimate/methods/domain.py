"""What DGA and the methods that it is compared with share: their settings, and passes over the unmasked text.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", section 4.2: all methods adapt on
raw text of the domain with masked language modelling, for the same number of steps, and each adds another term.

Shape suffixes: L lines, W width of a line in tokens, R rows, T tokens of the longest row, D hidden, M predicted
positions, N tokens of a batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from acclimate.core.types import NOT_PREDICTED, TAGS, Batch
from acclimate.models.configuration import transformers_configuration
from acclimate.models.encoder import encoder_of
from acclimate.models.heads import hidden_and_masked_logits, inputs_of, rows_of
from acclimate.models.loading import quiet
from acclimate.training.objective import masked_cross_entropy
from acclimate.training.pieces import Piece

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

PREDICTED = ("labels", TAGS)  # fields of `Batch.tokens` that are NOT_PREDICTED where nothing is predicted


def has_dropout(model: PreTrainedModel) -> bool:
    """True if two passes of the model over the same text differ in training."""
    return any(module.p > 0 for module in encoder_of(model).modules() if isinstance(module, nn.Dropout))


def check_passes_differ(model: PreTrainedModel) -> None:
    """Raises ValueError where two passes of the model over the same text would not differ."""
    if not has_dropout(model):
        raise ValueError(
            "the method compares two passes over a text that differ only by dropout, but this "
            f"{model.config.model_type} has no dropout. Set dropout=0.1"
        )


def may_differ(config: PreTrainedConfig) -> bool:
    """True if two passes of a model of this config over the same text differ in training."""
    any_model: Any = transformers.AutoModel  # its class methods are untyped in transformers
    with torch.device("meta"), quiet():
        return has_dropout(any_model.from_config(transformers_configuration(config)))


def unmasked(piece: Piece) -> Piece:
    """Return the piece with the original tokens in place of the masked ones."""
    ids_LW, labels_M = piece["input_ids"], piece["labels"]
    there_M = labels_M != NOT_PREDICTED
    flat = ids_LW.flatten().index_put((piece["positions"][there_M],), labels_M[there_M])
    return {**piece, "input_ids": flat.view_as(ids_LW)}


def hidden_states(model: PreTrainedModel, piece: Piece) -> Tensor:
    """(L, W, D) the encoder's last hidden states."""
    hidden_LWD: Tensor = encoder_of(model)(**inputs_of(model, piece)).last_hidden_state
    return hidden_LWD


def masked_pass(model: PreTrainedModel, piece: Piece) -> tuple[Tensor, Tensor]:
    """L_MLM as a sum over the piece, and (L, W, D) the last hidden states, both of one pass over the masked text."""
    hidden_LWD, logits_MV = hidden_and_masked_logits(model, piece, piece["positions"])
    return masked_cross_entropy(logits_MV, piece), hidden_LWD


def row_states(hidden_LWD: Tensor, piece: Piece) -> tuple[Tensor, Tensor]:
    """(R, T, D) the states with one row a line, and (R, T) bool: True at a token, special ones included."""
    if (rows := rows_of(piece)) is not None:
        return hidden_LWD.flatten(0, 1)[rows.places_RT], rows.there_RT
    return hidden_LWD, piece.get("attention_mask", torch.ones_like(piece["input_ids"])) > 0


def row_means(hidden_LWD: Tensor, piece: Piece) -> Tensor:
    """(R, D) float32, the mean over each row's tokens, special ones included and padding left out."""
    hidden_RTD, there_RT = row_states(hidden_LWD.float(), piece)
    return (hidden_RTD * there_RT[:, :, None]).sum(1) / there_RT.sum(1, keepdim=True)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """(..., C), (..., C) -> (...) KL(softmax(p) || softmax(q)) in nats, float32."""
    log_p, log_q = p.float().log_softmax(-1), q.float().log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def appended(batch: Batch, ids: Sequence[int]) -> Batch:
    """Return the batch with these tokens behind each row; nothing is predicted at them."""
    ends = batch.offsets[1:]
    places = np.repeat(ends, len(ids))  # in the batch as it was, a place for each new token
    new_ids = np.tile(np.asarray(ids, np.int64), len(ends))
    return Batch(
        ids=np.insert(batch.ids, places, new_ids),
        offsets=batch.offsets + len(ids) * np.arange(len(batch.offsets)),
        tokens={
            name: np.insert(values_N, places, NOT_PREDICTED if name in PREDICTED else 0)
            for name, values_N in batch.tokens.items()
        },
        rows=batch.rows,
        names=batch.names,
        pad=batch.pad,
    )


class Frozen(nn.Module):
    """A teacher: a model without gradients and without dropout, whatever mode its parent is in."""

    made_anew = True  # saved states leave it out, because a resumed run loads it from the recipe's model again

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model.requires_grad_(False)
        self.train(False)

    def train(self, mode: bool = True) -> Frozen:
        return super().train(False)

    @torch.no_grad()
    def hidden_states(self, piece: Piece) -> Tensor:
        """(L, W, D) the last hidden states, without gradient."""
        return hidden_states(self.model, piece)
