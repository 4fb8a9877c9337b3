"""Classifiers of words that look at more than one word: layers between an encoder and the tags.

layer        what stands on the encoder's hidden states
linear       a linear layer: transformers' own AutoModelForTokenClassification
bilstm       an LSTM in both directions over all tokens of a row, then the linear layer (Gu et al., 2021, Table 10)
crf          the linear layer, and a conditional random field over the tags of the words (models/crf.py)
bilstm-crf   both (Lample et al., 2016; Huang et al., 2015)

transformers has no class for the last three, so one is made for each family. In config.json it is
`<Family>ForTagSequences`, with the layer as `tag_layer`; of a CRF also with `tag_transitions`, where it predicts
sequences of its tags' scheme only, and with `tag_transitions_rate`. transformers' AutoModel loads the encoder from such
a checkpoint; `classifier.load_finetuned` loads all of it. These layers are float32 under autocast too.

Shape suffixes: B rows, T tokens of the longest, D hidden.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

from acclimate.models.crf import ConditionalRandomField
from acclimate.models.own_heads import (
    FamilyClasses,
    bidirectional,
    both_ways,
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
# of config.json, and what they are where they are missing
_FIELDS: dict[str, Any] = {"tag_layer": "linear", "tag_transitions": "any", "tag_transitions_rate": 1.0}


def layer_of(config: PreTrainedConfig) -> Layer:
    """ "linear" where the classifier of a config is one of transformers' own."""
    layer: Layer = getattr(config, "tag_layer", "linear")
    return layer


def transitions_of(config: PreTrainedConfig) -> Transitions:
    transitions: Transitions = getattr(config, "tag_transitions", "any")
    return transitions


def transitions_rate_of(config: PreTrainedConfig) -> float:
    return float(getattr(config, "tag_transitions_rate", 1.0))


def set_layer(
    config: PreTrainedConfig, layer: Layer, transitions: Transitions = "any", transitions_rate: float = 1.0
) -> None:
    """Say in a config, in place, which layer the tagger to be made of it has, what it may predict, and how fast a CRF
    learns (models/crf.py).

    Raises ValueError for settings of a CRF where there is none.
    """
    for name, value, without in (("transitions", transitions, "any"), ("transitions_rate", transitions_rate, 1.0)):
        if value != without and layer not in CRF_LAYERS:
            raise ValueError(
                f"{name}={value!r} is for a CRF, but the layer is '{layer}', which predicts each word's tag on its "
                f"own. Take one of {', '.join(CRF_LAYERS)}, or leave {name} out"
            )
    for (field, missing), stated in zip(_FIELDS.items(), (layer, transitions, transitions_rate), strict=True):
        if stated != missing:
            setattr(config, field, stated)
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
            layer, rate = layer_of(config), transitions_rate_of(config)
            self.lstm = bidirectional(config) if layer.startswith("bilstm") else None
            self.dropout = nn.Dropout(head_dropout(config))
            width = 2 * self.lstm.hidden_size if self.lstm else config.hidden_size
            self.classifier = nn.Linear(width, config.num_labels)
            self.crf = ConditionalRandomField(config.num_labels, rate=rate) if layer in CRF_LAYERS else None
            self.post_init()
            draw_output_layer(self.classifier, config)

        def forward(self, **inputs: Tensor) -> TokenClassifierOutput:
            hidden_BTD = self.base_model(**inputs).last_hidden_state
            with torch.autocast(hidden_BTD.device.type, enabled=False):
                hidden_BTD = hidden_BTD.float()
                if self.lstm is not None:
                    hidden_BTD, _ = both_ways(self.lstm, hidden_BTD, inputs.get("attention_mask"))
                return TokenClassifierOutput(logits=self.classifier(self.dropout(hidden_BTD)))

    return named_for_family(ForTagSequences)


SequenceTaggers = FamilyClasses(_class_for)
