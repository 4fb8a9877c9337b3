"""Classifiers whose rows share lines in the encoder, and stand alone before the head.

Training examples are short and of very different length: of a step with one to a line, a third is padding. So the
encoder gets lines as training/pieces.py packs them, and the head the hidden states of each row on a line of its own.

Shape suffixes: L lines, W width of a line in tokens, R rows, T tokens of the longest, D hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel


@dataclass(frozen=True)
class Rows:
    """Where the rows of a piece lie: token t of row r at places_RT[r, t] of the lines laid flat, if there_RT[r, t]."""

    places_RT: Tensor
    there_RT: Tensor

    def alone(self, values_LW: Tensor, fill: int) -> Tensor:
        """(R, T) a value a token, each row on a line of its own, filled up."""
        return values_LW.flatten()[self.places_RT].masked_fill(~self.there_RT, fill)


def rows_of(piece: Mapping[str, Tensor]) -> Rows | None:
    """None where no rows share a line."""
    if "lengths" not in piece:
        return None
    firsts_R, lengths_R = piece["firsts"], piece["lengths"]
    columns_T = torch.arange(int(lengths_R.max()), device=firsts_R.device)
    there_RT = columns_T < lengths_R[:, None]
    return Rows((firsts_R[:, None] + columns_T) * there_RT, there_RT)


def classify(model: PreTrainedModel, inputs: Mapping[str, Tensor], rows: Rows) -> Any:
    """What a classifier says of rows that share lines, as if each had been on a line of its own.

    inputs: as `heads.inputs_of` gives them, the mask of the lines (L, 1, W, W) among them. The encoder alone gets that
    one; all that stands on it gets the mask of the rows (R, T) and the hidden states (R, T, D).
    """
    encoder: Any = model.base_model
    lines = inputs["attention_mask"]

    def pack(_: Any, given: Any, named: dict[str, Any]) -> Any:
        return given, {**named, "attention_mask": lines}

    def unpack(_: Any, __: Any, said: Any) -> Any:
        said.last_hidden_state = said.last_hidden_state.flatten(0, 1)[rows.places_RT]
        if getattr(encoder, "pooler", None) is not None:
            said.pooler_output = encoder.pooler(said.last_hidden_state)
        return said

    hooks = encoder.register_forward_pre_hook(pack, with_kwargs=True), encoder.register_forward_hook(unpack)
    try:
        return model(**{**inputs, "attention_mask": rows.there_RT})
    finally:
        for hook in hooks:
            hook.remove()
