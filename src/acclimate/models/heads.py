"""Run heads on the hidden states of a piece, whose rows may share lines.

Masked language modelling heads run at the masked positions only (`masked_logits`): at all positions the head of a small
model would cost more than its encoder. After the attention of the last layer no position meets another, and all but
these are left out (`select_in_last_layer`): three quarters of what the weights of a BERT's layer are multiplied with,
and on a CPU the queries of the others as well, a twelfth.
The encoder of a classifier reads the lines of training/pieces.py, and its head reads each row alone
(`output_by_row`): with one row a line, a third of a step would be padding.

Shape suffixes: B sequences, T tokens of the longest, L lines, W width of a line in tokens, R rows, M masked or other
positions, D hidden, V vocabulary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from acclimate.core.types import MENTIONS
from acclimate.models.encoder import encoder_of, family
from acclimate.models.families import first_position
from acclimate.models.formats import OF_PLACES
from acclimate.models.task_layers import pooling_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def _distilbert(model: Any, hidden_MD: Tensor) -> Tensor:
    transformed_MD = model.vocab_layer_norm(model.activation(model.vocab_transform(hidden_MD)))
    logits_MV: Tensor = model.vocab_projector(transformed_MD)
    return logits_MV


def _deberta(model: Any, hidden_MD: Tensor) -> Tensor:
    embeddings = model.get_input_embeddings()
    logits_MV: Tensor = model.cls(hidden_MD) if model.legacy else model.lm_predictions(hidden_MD, embeddings)
    return logits_MV


# family -> (model, hidden_MD) -> logits_MV
SPARSE_HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "bert": lambda model, hidden_MD: model.cls(hidden_MD),
    "distilbert": _distilbert,
    "electra": lambda model, hidden_MD: model.generator_lm_head(model.generator_predictions(hidden_MD)),
    "modernbert": lambda model, hidden_MD: model.decoder(model.head(hidden_MD)),
    **dict.fromkeys(("camembert", "roberta", "xlm-roberta"), lambda model, hidden_MD: model.lm_head(hidden_MD)),
    **dict.fromkeys(("deberta", "deberta-v2"), _deberta),
}


# Families whose rows can share lines. DeBERTa takes no mask of four dimensions. ModernBERT gives slightly other numbers
# under one, from which its local layers build theirs.
SHARES_LINES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")


@dataclass(frozen=True)
class LayerNames:
    """A family's names of its layers, and in a layer of two modules.

    after  the first one that gets nothing but states (L, W, D) of positions that meet no other from there on
    query  the linear map that makes the queries of attention, of families whose rows can share lines (SHARES_LINES)
    """

    layers: str
    after: str
    query: str | None = None


# ModernBERT is missing: it adds to the states outside of its modules.
_BERT = LayerNames("encoder.layer", "attention.output", "attention.self.query")
POSITIONWISE: dict[str, LayerNames] = {
    **dict.fromkeys(("bert", "camembert", "electra", "roberta", "xlm-roberta"), _BERT),
    **dict.fromkeys(("deberta", "deberta-v2"), LayerNames("encoder.layer", "attention.output")),
    "distilbert": LayerNames("transformer.layer", "sa_layer_norm", "attention.q_lin"),
}
ASKED = "positions_that_are_read"  # attribute of a mask: the queries that attention has to answer; others may get 0


Read = Literal["first", "tagged", "all"]  # tokens of a row that a classifier's head reads
_REGISTERING = threading.Lock()


def has_sparse_head(model: PreTrainedModel) -> bool:
    """Return True if `masked_logits` computes the masked positions only; elsewhere it drops the rest."""
    return family(model) in SPARSE_HEADS


def keeps_rows_apart(model: PreTrainedModel) -> bool:
    """Return whether rows that share a line stay apart under `position_ids` and an (L, 1, W, W) attention mask."""
    return family(model) in SHARES_LINES and model.config._attn_implementation == "sdpa"


def masked_logits(model: PreTrainedModel, piece: Mapping[str, Tensor], positions: Tensor) -> Tensor:
    """Return (M, V), the logits of a masked language model at some positions of a piece.

    piece      input_ids (B, T), and attention_mask, token_type_ids (B, T) as `inputs_of` takes them
    positions  (M,) int64 places in the piece laid flat, row after row: row * T + column
    """
    if has_sparse_head(model):
        return SPARSE_HEADS[family(model)](model, states_at(model, piece, positions))
    logits_BTV: Tensor = model(**inputs_of(model, piece)).logits
    return logits_BTV.flatten(0, 1).index_select(0, positions)


def states_and_masked_logits(
    model: PreTrainedModel, piece: Mapping[str, Tensor], places: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Return (N, D), the last hidden states at N places, and the logits of `masked_logits`, from one pass."""
    if not has_sparse_head(model):
        hidden_BTD, logits_MV = hidden_and_masked_logits(model, piece, positions)
        return hidden_BTD.flatten(0, 1).index_select(0, places), logits_MV
    states = states_at(model, piece, torch.cat([places, positions]))
    return states[: len(places)], SPARSE_HEADS[family(model)](model, states[len(places) :])


def states_at(model: PreTrainedModel, piece: Mapping[str, Tensor], positions: Tensor) -> Tensor:
    """Return (M, D), the last hidden states at some positions of a piece; arguments as of `masked_logits`."""
    inputs = inputs_of(model, piece)
    if not can_select(model):
        hidden_BTD: Tensor = encoder_of(model)(**inputs).last_hidden_state
        return hidden_BTD.flatten(0, 1).index_select(0, positions)
    hooks = select_in_last_layer(model, piece, positions)
    try:
        hidden_1MD: Tensor = encoder_of(model)(**inputs).last_hidden_state
    finally:
        for hook in hooks:
            hook.remove()
    return hidden_1MD[0]


def can_select(model: PreTrainedModel) -> bool:
    """Return whether `select_in_last_layer` can be used: for the families of POSITIONWISE, but not in code that is
    being compiled, which would be cut where a hook is registered, and not where layers are followed by a convolution.
    """
    convolved = getattr(model.config, "conv_kernel_size", 0)  # of some DeBERTas
    return family(model) in POSITIONWISE and not convolved and not torch.compiler.is_compiling()


def select_in_last_layer(
    model: PreTrainedModel, piece: Mapping[str, Tensor], positions: Tensor
) -> list[RemovableHandle]:
    """Compute the last layer, after its attention, at some positions alone, until the returned hooks are removed.

    The encoder's last hidden states are then (1, M, D). On a CPU, where attention goes row by row if rows share lines,
    these positions alone have a query.

    positions  (M,) places in the piece laid flat; a place may stand there more than once
    """
    names = POSITIONWISE[family(model)]
    last: Any = attrgetter(names.layers)(encoder_of(model))[-1]
    hooks = [_registered(attrgetter(names.after)(last).register_forward_pre_hook, _select(positions))]
    if names.query is None or "position_ids" not in piece or positions.device.type != "cpu":
        return hooks
    query_positions = torch.unique(positions)  # each once, or its gradient would count twice
    shape = piece["input_ids"].shape

    def spread(_: Any, __: Any, queries_1MO: Tensor) -> Tensor:
        flat = queries_1MO.new_zeros(shape.numel(), queries_1MO.shape[-1])
        return flat.index_copy(0, query_positions, queries_1MO[0]).view(*shape, -1)

    def mark_masks(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        def mark_mask(value: Any) -> Any:
            if not isinstance(value, Tensor) or value.dim() != 4:
                return value  # not the mask, (L, 1, W, W)
            mask = value.view_as(value)
            vars(mask).update(vars(value), **{ASKED: query_positions})
            return mask

        return tuple(map(mark_mask, arguments)), {name: mark_mask(value) for name, value in named.items()}

    query = attrgetter(names.query)(last)
    return [
        *hooks,
        _registered(query.register_forward_pre_hook, _select(query_positions)),
        _registered(query.register_forward_hook, spread),
        _registered(last.register_forward_pre_hook, mark_masks, with_kwargs=True),
    ]


def _select(positions: Tensor) -> Callable[[Any, tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """Return a hook that takes these positions out of what a module is given, (L, W, D) -> (1, M, D)."""
    return lambda _, inputs: tuple(states.flatten(0, 1).index_select(0, positions)[None] for states in inputs)


def _registered(register: Callable[..., RemovableHandle], hook: Callable[..., Any], **how: Any) -> RemovableHandle:
    """Register a hook. Without gradients it acts in this thread alone: several may predict with one model at a time.

    With them it acts in all, because layers may run again in a thread of the backward pass (`plan.recompute`).
    """
    if torch.is_grad_enabled():
        return register(hook, **how)
    thread = threading.get_ident()

    def run_in_thread(*arguments: Any) -> Any:
        return hook(*arguments) if threading.get_ident() == thread else None

    with _REGISTERING:  # torch counts hooks without a lock
        return register(run_in_thread, **how)


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
        inputs["position_ids"] = piece["position_ids"] + first_position(name, model.config.pad_token_id)
    elif name in SHARES_LINES and width > model.config.max_position_embeddings:
        # all pieces of a step have lines of one width, which may be more than a row may have; only padding lies beyond
        first = first_position(name, model.config.pad_token_id)
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
    firsts_R, lengths_R, columns_T = piece["firsts"], piece["lengths"], piece["columns"]
    there_RT = columns_T < lengths_R[:, None]
    return RowPlaces((firsts_R[:, None] + columns_T) * there_RT, there_RT)


def output_by_row(model: PreTrainedModel, piece: Mapping[str, Tensor], *, read: Read) -> Any:
    """Return the output of a classifier or an encoder for the rows of a piece, as if each had a line to itself.

    Only the encoder gets the mask of the lines, (L, 1, W, W), where rows share them. What comes after it gets the rows'
    mask (R, T) and hidden states (R, T, D).

    read  what is read after it. "first": each row's first token; the hidden states are (R, 1, D). "tagged": tokens with
          a tag; the states of others are 0. Nothing else is computed of the last layer.
    """
    inputs, rows = inputs_of(model, piece), rows_of(piece)
    encoder: Any = model.base_model
    lines = inputs.get("attention_mask")
    selected = read != "all" and can_select(model)
    if rows is not None:
        inputs = {**inputs, "attention_mask": rows.there_RT}
    elif not selected:
        return model(**inputs)

    def pack(_: Any, tensor: Any, named: dict[str, Any]) -> Any:
        return tensor, {**named, "attention_mask": lines}

    def unpack(_: Any, __: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        if selected and read == "tagged":  # (1, M, D) -> (L, W, D)
            ids_LW = piece["input_ids"]
            flat = hidden.new_zeros(ids_LW.numel(), hidden.shape[-1]).index_copy(0, piece["tagged"], hidden[0])
            hidden = flat.view(*ids_LW.shape, -1)
        if selected and read == "first":
            hidden = hidden.transpose(0, 1)  # (1, R, D) -> (R, 1, D)
        elif rows is not None:
            hidden = hidden.flatten(0, 1)[rows.places_RT]  # (L, W, D) -> (R, T, D)
        output.last_hidden_state = hidden
        if getattr(encoder, "pooler", None) is not None:
            output.pooler_output = encoder.pooler(hidden)
        return output

    hooks = [
        _registered(encoder.register_forward_pre_hook, pack, with_kwargs=True),
        _registered(encoder.register_forward_hook, unpack),
    ]
    if selected:
        hooks += select_in_last_layer(model, piece, piece["firsts" if read == "first" else "tagged"])
    try:
        return model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
