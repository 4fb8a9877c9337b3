"""Run heads on the hidden states of a piece, whose rows may share lines.

Masked language modelling heads run at the masked positions only (`masked_logits`): at all positions the head of a small
model would cost more than its encoder. The encoder of a classifier reads the lines of training/pieces.py, and its head
reads each row alone (`classify`): with one row a line, a third of a step would be padding.

Shape suffixes: B sequences, T tokens of the longest, L lines, W width of a line in tokens, R rows, M masked positions,
D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from acclimate.core.types import MENTIONS
from acclimate.models.encoder import encoder_of, family
from acclimate.models.task_layers import OF_PLACES, pooling_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def _bert(model: Any, hidden_MD: Tensor) -> Tensor:
    logits_MV: Tensor = model.cls(hidden_MD)
    return logits_MV


def _roberta(model: Any, hidden_MD: Tensor) -> Tensor:
    logits_MV: Tensor = model.lm_head(hidden_MD)
    return logits_MV


def _distilbert(model: Any, hidden_MD: Tensor) -> Tensor:
    transformed_MD = model.vocab_layer_norm(model.activation(model.vocab_transform(hidden_MD)))
    logits_MV: Tensor = model.vocab_projector(transformed_MD)
    return logits_MV


def _electra(model: Any, hidden_MD: Tensor) -> Tensor:
    logits_MV: Tensor = model.generator_lm_head(model.generator_predictions(hidden_MD))
    return logits_MV


def _deberta(model: Any, hidden_MD: Tensor) -> Tensor:
    embeddings = model.get_input_embeddings()
    logits_MV: Tensor = model.cls(hidden_MD) if model.legacy else model.lm_predictions(hidden_MD, embeddings)
    return logits_MV


def _modernbert(model: Any, hidden_MD: Tensor) -> Tensor:
    logits_MV: Tensor = model.decoder(model.head(hidden_MD))
    return logits_MV


SPARSE_HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "bert": _bert,
    "camembert": _roberta,
    "deberta": _deberta,
    "deberta-v2": _deberta,
    "distilbert": _distilbert,
    "electra": _electra,
    "modernbert": _modernbert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
}


# The position of a row's first token. A family that is missing takes no mask of four dimensions (DeBERTa) or gives
# slightly other numbers under one (ModernBERT, whose local layers build theirs from it).
FIRST_POSITION: dict[str, Callable[[PreTrainedModel], int]] = {
    "bert": lambda model: 0,
    "electra": lambda model: 0,
    "distilbert": lambda model: 0,
    "camembert": lambda model: int(model.config.pad_token_id) + 1,
    "roberta": lambda model: int(model.config.pad_token_id) + 1,
    "xlm-roberta": lambda model: int(model.config.pad_token_id) + 1,
}


def has_sparse_head(model: PreTrainedModel) -> bool:
    """Return True if `masked_logits` computes the masked positions only; elsewhere it drops the rest."""
    return family(model) in SPARSE_HEADS


def keeps_rows_apart(model: PreTrainedModel) -> bool:
    """Return whether rows that share a line stay apart under `position_ids` and an (L, 1, W, W) attention mask."""
    return family(model) in FIRST_POSITION and model.config._attn_implementation == "sdpa"


def masked_logits(model: PreTrainedModel, piece: Mapping[str, Tensor], positions: Tensor) -> Tensor:
    """Return (M, V), the logits of a masked language model at some positions of a piece.

    piece      input_ids (B, T), and attention_mask, token_type_ids (B, T) as `inputs_of` takes them
    positions  (M,) int64 places in the piece laid flat, row after row: row * T + column
    """
    inputs = inputs_of(model, piece)
    if has_sparse_head(model):
        hidden_BTD = encoder_of(model)(**inputs).last_hidden_state
        return SPARSE_HEADS[family(model)](model, hidden_BTD.flatten(0, 1).index_select(0, positions))
    logits_BTV: Tensor = model(**inputs).logits
    return logits_BTV.flatten(0, 1).index_select(0, positions)


def hidden_and_masked_logits(
    model: PreTrainedModel, piece: Mapping[str, Tensor], positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Return (B, T, D), what the encoder hands to its heads, and the logits of `masked_logits`, from one pass."""
    inputs = inputs_of(model, piece)
    if has_sparse_head(model):
        hidden_BTD: Tensor = encoder_of(model)(**inputs).last_hidden_state
        return hidden_BTD, SPARSE_HEADS[family(model)](model, hidden_BTD.flatten(0, 1).index_select(0, positions))
    outputs = model(**inputs, output_hidden_states=True)
    return outputs.hidden_states[-1], outputs.logits.flatten(0, 1).index_select(0, positions)


def ends_and_masked_logits(
    model: PreTrainedModel, piece: Mapping[str, Tensor], positions: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (B, T, D), what enters the first layer, and what `hidden_and_masked_logits` returns, from one pass."""
    inputs = inputs_of(model, piece)
    if has_sparse_head(model):
        outputs = encoder_of(model)(**inputs, output_hidden_states=True)
        hidden_BTD = outputs.last_hidden_state
        logits_MV = SPARSE_HEADS[family(model)](model, hidden_BTD.flatten(0, 1).index_select(0, positions))
        return outputs.hidden_states[0], hidden_BTD, logits_MV
    outputs = model(**inputs, output_hidden_states=True)
    logits_MV = outputs.logits.flatten(0, 1).index_select(0, positions)
    return outputs.hidden_states[0], outputs.hidden_states[-1], logits_MV


def inputs_of(model: PreTrainedModel, piece: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return those arrays of a piece that the model's forward takes, without labels and the like.

    Token types go only to a model that knows two: RoBERTa has one, DistilBERT and ModernBERT none. Positions, which a
    piece has where rows share a line, are counted as the family counts them.
    """
    names = ["input_ids", "attention_mask"]
    if getattr(model.config, "type_vocab_size", 0) >= 2:
        names.append("token_type_ids")
    if pooling_of(model.config) in OF_PLACES:
        names.append(MENTIONS)
    inputs = {name: piece[name] for name in names if name in piece}
    name, width = family(model), piece["input_ids"].shape[1]
    if "position_ids" in piece:
        inputs["position_ids"] = piece["position_ids"] + FIRST_POSITION[name](model)
    elif name in FIRST_POSITION and width > model.config.max_position_embeddings:
        # all pieces of a step have lines of one width, which may be more than a row may have; only padding lies beyond
        first = FIRST_POSITION[name](model)
        places_W = torch.arange(width, device=piece["input_ids"].device) + first
        inputs["position_ids"] = places_W.clamp(max=model.config.max_position_embeddings - 1)[None]
    return inputs


@dataclass(frozen=True)
class RowPlaces:
    """Places of rows: token t of row r is at places_RT[r, t] of the lines laid flat, if there_RT[r, t]."""

    places_RT: Tensor
    there_RT: Tensor

    def alone(self, values_LW: Tensor, fill: int) -> Tensor:
        """Return (R, T), the value of each token, with each row on a separate line, padded."""
        return values_LW.flatten()[self.places_RT].masked_fill(~self.there_RT, fill)


def rows_of(piece: Mapping[str, Tensor]) -> RowPlaces | None:
    """Return where the rows of a piece lie; None if no rows share a line."""
    if "lengths" not in piece:
        return None
    firsts_R, lengths_R = piece["firsts"], piece["lengths"]
    columns_T = torch.arange(int(lengths_R.max()), device=firsts_R.device)
    there_RT = columns_T < lengths_R[:, None]
    return RowPlaces((firsts_R[:, None] + columns_T) * there_RT, there_RT)


def classify(model: PreTrainedModel, inputs: Mapping[str, Tensor], rows: RowPlaces) -> Any:
    """Return the output of a classifier for rows that share lines, as if each had a line to itself.

    inputs: of `inputs_of`, among them the lines' mask (L, 1, W, W). Only the encoder gets this one. The layers after it
    get the rows' mask (R, T) and hidden states (R, T, D).
    """
    encoder: Any = model.base_model
    lines = inputs["attention_mask"]

    def pack(_: Any, tensor: Any, named: dict[str, Any]) -> Any:
        return tensor, {**named, "attention_mask": lines}

    def unpack(_: Any, __: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state.flatten(0, 1)[rows.places_RT]  # (L, W, D) -> (R, T, D)
        if getattr(encoder, "pooler", None) is not None:
            output.pooler_output = encoder.pooler(output.last_hidden_state)
        return output

    hooks = encoder.register_forward_pre_hook(pack, with_kwargs=True), encoder.register_forward_hook(unpack)
    try:
        return model(**{**inputs, "attention_mask": rows.there_RT})
    finally:
        for hook in hooks:
            hook.remove()
