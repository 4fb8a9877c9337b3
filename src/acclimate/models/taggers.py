"""Classifiers of words that look at more than one word: layers between an encoder and the tags.

layer        what stands on the encoder's hidden states
linear       a linear layer: transformers' own AutoModelForTokenClassification
bilstm       an LSTM in both directions over all tokens of a row, then the linear layer (Gu et al., 2021, Table 10)
crf          the linear layer, and a conditional random field over the tags of the words (models/crf.py)
bilstm-crf   both (Lample et al., 2016; Huang et al., 2015)

transformers has no class for the last three, so one is made for each family. In config.json it is
`<Family>ForTagSequences`, with the layer as `tag_layer` and, where a CRF predicts sequences of its tags' scheme only,
`tag_transitions`. transformers' AutoModel loads the encoder from such a checkpoint; `classifier.load_finetuned` loads
all of it. These layers are float32 under autocast too.

Shape suffixes: B rows, T tokens of the longest, D hidden.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

from acclimate.models.crf import ConditionalRandomField
from acclimate.models.own_heads import (
    FamilyClasses,
    draw_output_layer,
    encoder_alone,
    family_base,
    head_dropout,
    named_for_family,
)

Layer = Literal["linear", "bilstm", "crf", "bilstm-crf"]
Transitions = Literal["any", "scheme"]  # what a CRF may predict: any tag after any, or what the tags' scheme allows
CRF_LAYERS: tuple[Layer, ...] = ("crf", "bilstm-crf")
ENDING = "ForTagSequences"  # how the names of the classes end
_FIELDS = {"tag_layer": "linear", "tag_transitions": "any"}  # of config.json, and what they are where they are missing


def layer_of(config: PreTrainedConfig) -> Layer:
    """ "linear" where the classifier of a config is one of transformers' own."""
    layer: Layer = getattr(config, "tag_layer", "linear")
    return layer


def transitions_of(config: PreTrainedConfig) -> Transitions:
    transitions: Transitions = getattr(config, "tag_transitions", "any")
    return transitions


def set_layer(config: PreTrainedConfig, layer: Layer, transitions: Transitions = "any") -> None:
    """Say in a config, in place, which layer the tagger to be made of it has, and what it may predict.

    Raises ValueError for transitions that are chosen among where there is no CRF.
    """
    if transitions != "any" and layer not in CRF_LAYERS:
        raise ValueError(
            f"transitions='{transitions}' is for a CRF, but the layer is '{layer}', which predicts each word's tag on "
            f"its own. Take one of {', '.join(CRF_LAYERS)}, or leave transitions out"
        )
    for (field, missing), value in zip(_FIELDS.items(), (layer, transitions), strict=True):
        if value != missing:
            setattr(config, field, value)
        elif hasattr(config, field):
            delattr(config, field)


def crf_of(model: PreTrainedModel) -> ConditionalRandomField | None:
    """The conditional random field of a classifier that has one."""
    field: ConditionalRandomField | None = getattr(model, "crf", None)
    return field


@cache
def _class_for(kind: Any) -> Any:
    """The class of a family's taggers, by the class of its configs."""
    parent: Any = family_base(kind)

    class ForTagSequences(parent):  # type: ignore[misc]
        config_class = kind

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            setattr(self, self.base_model_prefix, encoder_alone(config))
            layer, half = layer_of(config), config.hidden_size // 2
            recurrent = layer.startswith("bilstm")
            self.lstm = nn.LSTM(config.hidden_size, half, batch_first=True, bidirectional=True) if recurrent else None
            self.dropout = nn.Dropout(head_dropout(config))
            self.classifier = nn.Linear(2 * half if recurrent else config.hidden_size, config.num_labels)
            self.crf = ConditionalRandomField(config.num_labels) if layer in CRF_LAYERS else None
            self.post_init()
            draw_output_layer(self.classifier, config)

        def forward(self, **inputs: Tensor) -> TokenClassifierOutput:
            hidden_BTD = self.base_model(**inputs).last_hidden_state
            with torch.autocast(hidden_BTD.device.type, enabled=False):
                hidden_BTD = hidden_BTD.float()
                if self.lstm is not None:
                    hidden_BTD = _both_ways(self.lstm, hidden_BTD, inputs.get("attention_mask"))
                return TokenClassifierOutput(logits=self.classifier(self.dropout(hidden_BTD)))

    return named_for_family(ForTagSequences)


def _both_ways(lstm: nn.LSTM, hidden_BTD: Tensor, mask_BT: Tensor | None) -> Tensor:
    """(B, T, D) the LSTM's states from both sides of the real tokens; 0 in the padding.

    mask_BT: 1 on real tokens, which come first; None: there is no padding.
    """
    if mask_BT is None:
        states_BTD: Tensor = lstm(hidden_BTD)[0]
        return states_BTD
    lengths = mask_BT.sum(1).cpu()
    packed, _ = lstm(pack_padded_sequence(hidden_BTD, lengths, batch_first=True, enforce_sorted=False))
    padded, _ = pad_packed_sequence(packed, batch_first=True, total_length=hidden_BTD.shape[1])
    return padded


SequenceTaggers = FamilyClasses(_class_for)
