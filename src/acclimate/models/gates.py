"""Gates on the parts of an encoder, by hooks: on what a part hands on, or on the gradient of that.

models/parts.py says what the parts are, and where their gates lie.

Shape suffixes: L lines, W width of a line in tokens, R rows, T tokens of the longest, G gates of a layer, K numbers
that each multiplies, N = G K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from acclimate.models.lines import rows_of
from acclimate.models.parts import Part, embeddings_of, layers_of, linear, places_of, require_shape

Change = Callable[[Tensor, Tensor], Tensor]  # values (L, W, G, K), factors that broadcast to them -> values


@contextmanager
def gated(
    model: PreTrainedModel, gates: Mapping[Part, Tensor], piece: Mapping[str, Tensor] | None = None
) -> Iterator[None]:
    """In the block, forward passes multiply each part by its gates (Ke et al., 2022, Eq. 5 and 11).

    gates  part -> what `parts.gate_shape` says; or, with an axis (R,) before that, gates for each row of a piece, whose
           gradients are then row by row
    piece  which rows lie on which lines: needed for gates of rows that may share lines

    Raises ValueError for gates of another shape.
    """
    for part, values in gates.items():
        require_shape(model, part, values, rows=True)
    handles = _hook(model, gates, torch.mul, None if piece is None else _rows_of_tokens(piece))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def scale_gradients(model: PreTrainedModel, kept: Mapping[Part, Tensor]) -> list[RemovableHandle]:
    """From now on passes leave what `gated` would multiply as it is, and multiply its gradient, on its way to what made
    it: the part's weights, but for W_o, and all that lies below.

    kept  part -> factors, as `parts.gate_shape` says

    Returns the hooks. Raises ValueError for factors of another shape.
    """
    for part, values in kept.items():
        require_shape(model, part, values)
    return _hook(model, kept, _Scaled.apply, None)


class _Scaled(torch.autograd.Function):
    """The values as they are; their gradient times factors."""

    @staticmethod
    def forward(context: Any, values: Tensor, factors: Tensor) -> Tensor:
        context.save_for_backward(factors)
        return values.view_as(values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = context.saved_tensors
        return gradients[0] * factors, None


def _hook(
    model: PreTrainedModel, gates: Mapping[Part, Tensor], change: Change, rows_LW: Tensor | None
) -> list[RemovableHandle]:
    handles = []
    for part, values in gates.items():
        for index, module in enumerate(_modules(model, part)):
            hook = _changed(values[..., index, :], change, rows_LW)
            if part in ("heads", "intermediate"):
                handles.append(module.register_forward_pre_hook(lambda _, given, hook=hook: hook(given[0])))
            else:
                handles.append(module.register_forward_hook(lambda _, __, said, hook=hook: hook(said)))
    return handles


def _changed(gates_G: Tensor, change: Change, rows_LW: Tensor | None) -> Callable[[Tensor], Tensor]:
    """What one layer's gates, (G,) or (R, G), make of values (L, W, N): a gate is of K side by side."""

    def hook(values_LWN: Tensor) -> Tensor:
        factors = gates_G.to(values_LWN)  # its type too: under autocast float32 would widen all that follows
        if factors.dim() == 2:
            factors = factors[:, None] if rows_LW is None else factors[rows_LW]
        values_LWGK = values_LWN.reshape(*values_LWN.shape[:-1], gates_G.shape[-1], -1)
        return change(values_LWGK, factors[..., None]).flatten(-2)

    return hook


def _modules(model: PreTrainedModel, part: Part) -> Sequence[nn.Module]:
    """One a layer: heads and intermediate neurons are gated where these read them, the others where they come out."""
    if part == "embeddings":
        return [embeddings_of(model)]
    places = places_of(model)
    return [linear(layer, places.out_of_heads if part == "heads" else places.second) for layer in layers_of(model)]


def _rows_of_tokens(piece: Mapping[str, Tensor]) -> Tensor | None:
    """(L, W) which row each token is of, 0 at padding; None where each row has a line to itself."""
    if (rows := rows_of(piece)) is None:
        return None
    rows_LW = torch.zeros_like(piece["input_ids"])
    row_RT = torch.arange(len(rows.there_RT), device=rows_LW.device)[:, None].expand_as(rows.there_RT)
    rows_LW.view(-1)[rows.places_RT[rows.there_RT]] = row_RT[rows.there_RT]
    return rows_LW
