"""The parts of an encoder that DGA tells apart: where they are in each family, and which weights make them.

Ke et al. (2022), "Adapting a Language Model While Preserving its General Knowledge", Eq. 5 multiplies the output of
each attention head by a gate of its own, and Eq. 9 its gradient. Table 3 does the same to other parts of a layer:

    part          a gate multiplies                         its weights
    heads         a head's values, before W_o joins them    the head's rows of W_q, W_k, W_v and of their biases, and
                                                            its columns of W_o; not W_o's bias, which is no head's
    intermediate  a neuron between the two feed-forward     the neuron's row of the first one, and of its bias
                  matrices
    output        a number that the second one hands over,  the number's row of the second one, and of its bias
                  before the residual is added
    embeddings    a number of the embeddings' output        the number's column of each embedding matrix, and its place
                                                            in the normalisation

Columns of the second feed-forward matrix count to "output", whose rows they cross: so no weight is of two parts. What
else lies in a layer (the normalisations) is of no part.

Shape suffixes: L layers, H heads, D hidden, G gates of a layer, N rows or columns of a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.models.dropout import DROPOUT_FIELDS
from acclimate.models.encoder import encoder_of, family
from acclimate.models.loading import configuration, reading

Part = Literal["heads", "intermediate", "output", "embeddings"]  # H, I, O, E of Table 3
PARTS: tuple[Part, ...] = ("heads", "intermediate", "output", "embeddings")


@dataclass(frozen=True)
class Places:
    """What a family calls its layers in the encoder, and in a layer its linear maps."""

    layers: str
    into_heads: tuple[str, ...]
    out_of_heads: str
    first: str  # of the two feed-forward ones
    second: str
    relative: tuple[str, ...] = ()  # into heads too, in some models of the family


_BERT = Places(
    layers="encoder.layer",
    into_heads=("attention.self.query", "attention.self.key", "attention.self.value"),
    out_of_heads="attention.output.dense",
    first="intermediate.dense",
    second="output.dense",
)
PLACES: dict[str, Places] = {
    "bert": _BERT,
    "camembert": _BERT,
    "deberta-v2": replace(
        _BERT,
        into_heads=("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        relative=("attention.self.pos_query_proj", "attention.self.pos_key_proj"),
    ),
    "distilbert": Places(
        layers="transformer.layer",
        into_heads=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        out_of_heads="attention.out_lin",
        first="ffn.lin1",
        second="ffn.lin2",
    ),
    "electra": _BERT,
    # W_q, W_k and W_v are one matrix, one below the other; the first feed-forward one has two rows a neuron
    "modernbert": Places("layers", ("attn.Wqkv",), "attn.Wo", "mlp.Wi", "mlp.Wo"),
    "mpnet": replace(
        _BERT,
        into_heads=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        out_of_heads="attention.attn.o",
    ),
    "roberta": _BERT,
    "xlm-roberta": _BERT,
}


def heads_known(model: str | Path) -> bool:
    """Whether the family of a checkpoint is one whose heads can be gated, and whose dropout can be set."""
    with reading(model) as where:
        kind = configuration(where).model_type
    return kind in PLACES and kind in DROPOUT_FIELDS


def gate_shape(model: PreTrainedModel, part: Part) -> tuple[int, int]:
    """(layers, gates of a layer): heads (L, H); intermediate (L, I); output (L, D); embeddings (1, D), where D is what
    the embeddings hand over (ELECTRA's may be narrower than its layers).

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


def masked_weights(model: PreTrainedModel, part: Part, kept: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The weights of a part, each with the factors of `kept` that broadcast over it. The table above says which.

    kept  as `gate_shape` says

    Raises ValueError for another shape.
    """
    require_shape(model, part, kept)
    if part == "embeddings":
        return _embedding_weights(model, kept[0])
    places, found = places_of(model), []
    for layer, kept_G in zip(layers_of(model), kept, strict=True):
        if part == "heads":
            there = dict(layer.named_modules())
            for name in (*places.into_heads, *(name for name in places.relative if name in there)):
                found += _rows(linear(layer, name), _of_columns(layer, places, kept_G))
        else:
            found += _rows(linear(layer, places.first if part == "intermediate" else places.second), kept_G)
    return [*found, *output_columns(model, kept)] if part == "heads" else found


def output_columns(model: PreTrainedModel, kept_LH: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Each layer's W_o with the factors of its columns, as `masked_weights` has them among others."""
    places = places_of(model)
    return [
        (linear(layer, places.out_of_heads).weight, _of_columns(layer, places, kept_H))
        for layer, kept_H in zip(layers_of(model), kept_LH, strict=True)
    ]


def require_shape(model: PreTrainedModel, part: Part, gates: Tensor, *, rows: bool = False) -> None:
    """Raises ValueError unless the gates are shaped as `gate_shape` says, or have that for each row, where they may."""
    shape = gate_shape(model, part)
    if tuple(gates.shape) != shape and not (rows and tuple(gates.shape[1:]) == shape):
        raise ValueError(f"{part}: {tuple(gates.shape)} gates, but this model has {shape}. Compute them for this model")


def places_of(model: PreTrainedModel) -> Places:
    """Raises ValueError for a family that PLACES does not know."""
    if (name := family(model)) not in PLACES:
        raise ValueError(
            f"'{name}': where the heads of this family are is not known, so they cannot be gated or masked. Take a "
            f"model of one of these families: {', '.join(PLACES)}"
        )
    return PLACES[name]


def layers_of(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The encoder's layers, from the lowest."""
    return cast(Sequence[nn.Module], encoder_of(model).get_submodule(places_of(model).layers))


def embeddings_of(model: PreTrainedModel) -> nn.Module:
    """Words, positions and token types, with their normalisation and dropout."""
    return encoder_of(model).get_submodule("embeddings")


def linear(layer: nn.Module, name: str) -> nn.Linear:
    """A linear map of a layer, by its name in Places."""
    return cast(nn.Linear, layer.get_submodule(name))


def _of_columns(layer: nn.Module, places: Places, kept_H: Tensor) -> Tensor:
    """(N,) each head's factor for all its numbers, which lie side by side."""
    return kept_H.repeat_interleave(linear(layer, places.out_of_heads).in_features // len(kept_H))


def _rows(of: nn.Linear, kept_N: Tensor) -> list[tuple[Tensor, Tensor]]:
    """A linear map's weights with a factor a row. One that holds several maps of N rows has one below the other."""
    kept = kept_N.repeat(of.out_features // len(kept_N))
    found: list[tuple[Tensor, Tensor]] = [(of.weight, kept[:, None])]
    return [*found, (of.bias, kept)] if of.bias is not None else found


def _embedding_weights(model: PreTrainedModel, kept_D: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Where a projection stands between the matrices and the output (DeBERTa-v2), its rows count instead of theirs."""
    found: list[tuple[Tensor, Tensor]] = []
    for module in embeddings_of(model).modules():
        if isinstance(module, nn.Linear):
            found += _rows(module, kept_D)
        else:
            found += [(own, kept_D) for own in module.parameters(recurse=False) if own.shape[-1] == len(kept_D)]
    return found
