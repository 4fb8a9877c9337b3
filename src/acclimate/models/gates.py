"""Gate the output or the gradient of the parts of an encoder for which DGA computes importance.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", Eq. 5 multiplies the output of
each attention head by a gate, and Eq. 9 its gradient. Table 3 does the same to other parts of a layer:

part          a gate multiplies                           its weights
heads         a head's values, before W_o joins them      the head's rows of W_q, W_k, W_v and of their biases, and its
                                                          columns of W_o; not W_o's bias, which belongs to no head
intermediate  a neuron between the two feed-forward       the neuron's row of the first one, and of its bias
              matrices
output        a number that the second one puts out,      the number's row of the second one, and of its bias
              before the residual is added
embeddings    a number of the embeddings' output          the number's column of each embedding matrix, and its place in
                                                          the normalisation

The second feed-forward matrix belongs to "output" alone, so no weight belongs to two parts. The normalisations of a
layer belong to none.

Shape suffixes: L layers, H heads, D hidden, G gates of a layer, N rows or columns of a matrix. Of a piece: L lines, W
width of a line in tokens, R rows, T tokens of the longest; K numbers that a gate multiplies, N = G K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from acclimate.models.dropout import DROPOUT_FIELDS
from acclimate.models.encoder import encoder_of, family
from acclimate.models.families import PLACES, GatedPart, ModuleNames
from acclimate.models.heads import rows_of
from acclimate.models.loading import configuration, reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Change = Callable[[Tensor, Tensor], Tensor]  # (values (L, W, G, K), factors that broadcast to them) -> values


@contextmanager
def gated(
    model: PreTrainedModel, gates: Mapping[GatedPart, Tensor], piece: Mapping[str, Tensor] | None = None
) -> Iterator[None]:
    """In the block, forward passes multiply each part by its gates (Ke et al., 2022, Eq. 5 and 11).

    gates  part -> gates of the shape that `gate_shape` says. With an axis (R,) before it, each row of a piece has its
           gates, and they get gradients row by row
    piece  the arrays of the piece that goes through the model; needed if gates are by row and rows share lines

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


def scale_gradients(model: PreTrainedModel, factors: Mapping[GatedPart, Tensor]) -> list[RemovableHandle]:
    """Multiply, in every backward pass from now on, the gradient of what `gated` would multiply (Ke et al., Eq. 9).

    Forward passes do not change. The gradients of the part's weights, except W_o, and of everything below change with
    it.

    factors  part -> factors of the shape that `gate_shape` says

    Return the hooks; their `remove` ends this. Raises ValueError for factors of another shape.
    """
    for part, values in factors.items():
        require_shape(model, part, values)
    return _hook(model, factors, _Scaled.apply, None)


def gate_shape(model: PreTrainedModel, part: GatedPart) -> tuple[int, int]:
    """Return the number of layers and of gates in each: heads (L, H); intermediate (L, I); output (L, D); embeddings
    (1, D), with D the width of the embeddings, which in ELECTRA may be less than that of its layers.

    Raises ValueError for a family that PLACES does not know.
    """
    layers = layers_of(model)
    if part == "heads":
        return len(layers), int(model.config.num_attention_heads)
    if part == "embeddings":
        norms = [module for module in embeddings_of(model).modules() if isinstance(module, nn.LayerNorm)]
        assert len(norms) == 1, f"{family(model)}: {len(norms)} normalisations in the embeddings"
        return 1, int(norms[0].normalized_shape[0])
    second = linear(layers[0], places_of(model).second)
    return len(layers), second.in_features if part == "intermediate" else second.out_features


def masked_weights(model: PreTrainedModel, part: GatedPart, factors: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the weights of a part (see the table above), each with its factors, which broadcast over it.

    factors  shaped as `gate_shape` says

    Raises ValueError for another shape.
    """
    require_shape(model, part, factors)
    if part == "embeddings":
        return _embedding_weights(model, factors[0])
    places, weights = places_of(model), []
    for layer, factors_G in zip(layers_of(model), factors, strict=True):
        if part == "heads":
            modules = dict(layer.named_modules())
            for name in (*places.into_heads, *(name for name in places.relative if name in modules)):
                weights += _rows(linear(layer, name), _column_factors(layer, places, factors_G))
        else:
            weights += _rows(linear(layer, places.first if part == "intermediate" else places.second), factors_G)
    return [*weights, *output_columns(model, factors)] if part == "heads" else weights


def output_columns(model: PreTrainedModel, factors_LH: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return each layer's W_o with the factors of its columns, which `masked_weights` of the heads also returns."""
    places = places_of(model)
    return [
        (linear(layer, places.out_of_heads).weight, _column_factors(layer, places, factors_H))
        for layer, factors_H in zip(layers_of(model), factors_LH, strict=True)
    ]


@torch.no_grad()
def heads_moved(before: PreTrainedModel, after: PreTrainedModel) -> Tensor:
    """(L, H) how far each head's weights are from where they were: |after - before| / |before|, in the L2 norm, of its
    rows of W_q, W_k, W_v and their biases and its columns of W_o.
    """
    layers, heads = gate_shape(before, "heads")
    numbers_LH = torch.arange(layers * heads, dtype=torch.float32).view(layers, heads)
    moved, length = torch.zeros(2, layers * heads, dtype=torch.float64).unbind()
    pairs = (masked_weights(model, "heads", numbers_LH) for model in (before, after))
    for (old, numbers), (new, _) in zip(*pairs, strict=True):
        head = numbers.expand_as(old).flatten().long()  # of each weight
        moved.index_add_(0, head, (new - old).double().square().flatten())
        length.index_add_(0, head, old.double().square().flatten())
    return (moved / length).sqrt().view(layers, heads)


def require_shape(model: PreTrainedModel, part: GatedPart, gates: Tensor, *, rows: bool = False) -> None:
    """Raise ValueError unless the gates have the shape of `gate_shape`; with `rows` an axis (R,) may come before it."""
    shape = gate_shape(model, part)
    if tuple(gates.shape) != shape and not (rows and tuple(gates.shape[1:]) == shape):
        raise ValueError(
            f"{part}: {tuple(gates.shape)} gates, but this model needs {shape}. Compute them for this model"
        )


def heads_known(model: str | Path) -> bool:
    """Return True if heads can be gated and dropout can be set in the checkpoint's family."""
    with reading(model) as where:
        kind = configuration(where).model_type
    return kind in PLACES and kind in DROPOUT_FIELDS


def layers_of(model: PreTrainedModel) -> Sequence[nn.Module]:
    """Return the encoder's layers, from the lowest."""
    return cast(Sequence[nn.Module], encoder_of(model).get_submodule(places_of(model).layers))


def places_of(model: PreTrainedModel) -> ModuleNames:
    """Return the names of the model's modules. Raises ValueError for a family that PLACES does not know."""
    if (name := family(model)) not in PLACES:
        raise ValueError(
            f"'{name}': acclimate does not know where the heads of this family are, so it cannot gate or mask them. "
            f"Use a model of one of these families: {', '.join(sorted(PLACES))}"
        )
    return PLACES[name]


def embeddings_of(model: PreTrainedModel) -> nn.Module:
    """Return the module of the embeddings: words, positions and token types, with their normalisation and dropout."""
    return encoder_of(model).get_submodule("embeddings")


def linear(layer: nn.Module, name: str) -> nn.Linear:
    """Return a linear map of a layer, by its name in ModuleNames."""
    return cast(nn.Linear, layer.get_submodule(name))


def _column_factors(layer: nn.Module, places: ModuleNames, factors_H: Tensor) -> Tensor:
    """Return (N,), each head's factor repeated for all its numbers, which lie side by side."""
    return factors_H.repeat_interleave(linear(layer, places.out_of_heads).in_features // len(factors_H))


def _rows(linear_map: nn.Linear, factors_N: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return a linear map's weight and bias with a factor for each row.

    A matrix that consists of several maps of N rows, one below the other, takes the factors once for each.
    """
    factors = factors_N.repeat(linear_map.out_features // len(factors_N))
    weights: list[tuple[Tensor, Tensor]] = [(linear_map.weight, factors[:, None])]
    return [*weights, (linear_map.bias, factors)] if linear_map.bias is not None else weights


def _embedding_weights(model: PreTrainedModel, factors_D: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the embeddings' weights with a factor for each column.

    Where a projection follows them (DeBERTa-v2), its rows have the factors.
    """
    pairs: list[tuple[Tensor, Tensor]] = []
    for module in embeddings_of(model).modules():
        if isinstance(module, nn.Linear):
            pairs += _rows(module, factors_D)
        else:
            weights = module.parameters(recurse=False)
            pairs += [(weight, factors_D) for weight in weights if weight.shape[-1] == len(factors_D)]
    return pairs


def _hook(
    model: PreTrainedModel, gates: Mapping[GatedPart, Tensor], change: Change, rows_LW: Tensor | None
) -> list[RemovableHandle]:
    handles = []
    for part, values in gates.items():
        for index, module in enumerate(_modules(model, part)):
            hook = _changed(values[..., index, :], change, rows_LW)
            if part in ("heads", "intermediate"):
                handles.append(module.register_forward_pre_hook(lambda _, inputs, hook=hook: hook(inputs[0])))
            else:
                handles.append(module.register_forward_hook(lambda _, __, output, hook=hook: hook(output)))
    return handles


class _Scaled(torch.autograd.Function):
    """Returns values unchanged in the forward pass, and multiplies their gradient in the backward pass."""

    @staticmethod
    def forward(context: Any, values: Tensor, factors: Tensor) -> Tensor:
        context.save_for_backward(factors)
        return values.view_as(values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = context.saved_tensors
        return gradients[0] * factors, None


def _changed(gates_G: Tensor, change: Change, rows_LW: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Return a function that applies one layer's gates, (G,) or (R, G), to values (L, W, N); K = N / G neighbouring
    numbers have one gate.
    """

    def hook(values_LWN: Tensor) -> Tensor:
        factors = gates_G.to(values_LWN)  # also to its type: under autocast float32 would widen all that follows
        if factors.dim() == 2:
            factors = factors[:, None] if rows_LW is None else factors[rows_LW]
        values_LWGK = values_LWN.reshape(*values_LWN.shape[:-1], gates_G.shape[-1], -1)
        return change(values_LWGK, factors[..., None]).flatten(-2)

    return hook


def _modules(model: PreTrainedModel, part: GatedPart) -> Sequence[nn.Module]:
    """Return one module a layer. Heads and intermediate neurons are gated at its input, other parts at its output."""
    if part == "embeddings":
        return [embeddings_of(model)]
    places = places_of(model)
    return [linear(layer, places.out_of_heads if part == "heads" else places.second) for layer in layers_of(model)]


def _rows_of_tokens(piece: Mapping[str, Tensor]) -> Tensor | None:
    """Return the (L, W) index of each token's row, 0 at padding; None if each row has a line for itself."""
    if (rows := rows_of(piece)) is None:
        return None
    rows_LW = torch.zeros_like(piece["input_ids"])
    row_RT = torch.arange(len(rows.there_RT), device=rows_LW.device)[:, None].expand_as(rows.there_RT)
    rows_LW.view(-1)[rows.places_RT[rows.there_RT]] = row_RT[rows.there_RT]
    return rows_LW
