"""What classifiers are built on that transformers has no class for: the encoder of a family, found by its config.

Such a class is made for each family as transformers makes its own: `<Family><what it is>`, below the family's base
class, with the encoder under the family's own name, so that AutoModel loads the encoder from its checkpoints.

Shape suffixes: B rows, T tokens of the longest, D hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel

from acclimate.models.dropout import DROPOUT_FIELDS


class FamilyClasses:
    """Makes and loads models of which each family has a class, as transformers' Auto classes do theirs."""

    def __init__(self, class_for: Callable[[Any], Any]) -> None:
        """class_for: of the class of a family's configs."""
        self._class_for = class_for

    def from_config(self, config: Any, **settings: Any) -> PreTrainedModel:
        made: PreTrainedModel = self._class_for(type(config))._from_config(config, **settings)
        return made

    def from_pretrained(self, where: str, *, config: Any, **settings: Any) -> Any:
        return self._class_for(type(config)).from_pretrained(where, config=config, **settings)


def family_base(kind: Any) -> Any:
    """What all models of a family inherit, by the class of its configs."""
    encoder: Any = MODEL_MAPPING[kind]
    return next(base for base in encoder.__mro__[1:] if issubclass(base, PreTrainedModel))


def encoder_alone(config: PreTrainedConfig) -> Any:
    """The encoder of a config, without a pooler: nothing would train it."""
    encoder: Any = MODEL_MAPPING[type(config)]
    made = encoder(config)
    if getattr(made, "pooler", None) is not None:
        made.pooler = None
    return made


def named_for_family(made: Any) -> Any:
    """The class, with the family's name before its own."""
    encoder: Any = MODEL_MAPPING[made.config_class]
    made.__name__ = made.__qualname__ = encoder.__name__.removesuffix("Model") + made.__name__
    return made


def head_dropout(config: PreTrainedConfig) -> float:
    """Before the output layer; as in transformers' own classifiers, that of hidden states where none is stated."""
    fields = DROPOUT_FIELDS.get(config.model_type, {})
    stated = (getattr(config, field, None) for part in ("head", "hidden") for field in fields.get(part, ()))
    return next((float(value) for value in stated if value is not None), 0.0)


def draw_output_layer(layer: nn.Linear, config: PreTrainedConfig) -> None:
    """As the family draws its weights."""
    nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
    nn.init.zeros_(layer.bias)


def bidirectional(config: PreTrainedConfig) -> nn.LSTM:
    """An LSTM over the encoder's hidden states; both directions together are as wide, or of an odd width one less."""
    hidden = config.hidden_size
    return nn.LSTM(hidden, hidden // 2, batch_first=True, bidirectional=True)


def both_ways(lstm: nn.LSTM, hidden_BTD: Tensor, mask_BT: Tensor | None) -> tuple[Tensor, Tensor]:
    """(B, T, D) the LSTM's states from both sides of the real tokens, 0 in the padding; (B, D) the state of each
    direction once it has read the whole row. Float32 under autocast too.

    mask_BT: 1 on real tokens, which come first; None: there is no padding.
    """
    with torch.autocast(hidden_BTD.device.type, enabled=False):
        hidden_BTD = hidden_BTD.float()
        if mask_BT is None:
            states_BTD, (last_2BD, _) = lstm(hidden_BTD)
            return states_BTD, last_2BD.transpose(0, 1).flatten(1)
        lengths = mask_BT.sum(1).cpu()
        packed = pack_padded_sequence(hidden_BTD, lengths, batch_first=True, enforce_sorted=False)
        states, (last_2BD, _) = lstm(packed)
        padded_BTD, _ = pad_packed_sequence(states, batch_first=True, total_length=hidden_BTD.shape[1])
        return padded_BTD, last_2BD.transpose(0, 1).flatten(1)
