"""Classifiers of a text that read other states of it than the encoder's at its first token.

pooling         what of the text is read
first           its first token; of an LSTM the state of each direction once it has read the whole row: at the first
                token one of them has read no more than that token
mentions        of each of two mentions the largest value, in each dimension, of the states of its tokens
starts          of each of two mentions the state of its first token, which is its opening marker where it has one

sequence_layer  which states
linear          the encoder's
bilstm          those of an LSTM in both directions over all tokens of the row (Gu et al., 2021, Table 10)

Two mentions are put side by side. A linear layer after dropout reads the result (Gu et al., Table 12). The encoder's
state at the first token is what transformers' own AutoModelForSequenceClassification reads. For all else it has no
class, so one is made for each family, out of the family's encoder. In config.json it is `<Family>ForPooledStates`, with
`mention_pooling` and `sequence_layer`. transformers' AutoModel loads the encoder from such a checkpoint;
`classifier.load_finetuned` loads all of it.

Shape suffixes: B rows, T tokens of the longest, D hidden, C labels, 2 mentions.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.modeling_outputs import SequenceClassifierOutput

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

Pooling = Literal["first", "mentions", "starts"]
SequenceLayer = Literal["linear", "bilstm"]
COUNT = 2  # mentions
_FIELDS = {"mention_pooling": "first", "sequence_layer": "linear"}  # of config.json, and what they are where missing


def pooling_of(config: PreTrainedConfig) -> Pooling:
    """What the classifier of a config reads: "first" where it is one of transformers' own."""
    pooling: Pooling = getattr(config, "mention_pooling", "first")
    return pooling


def sequence_layer_of(config: PreTrainedConfig) -> SequenceLayer:
    layer: SequenceLayer = getattr(config, "sequence_layer", "linear")
    return layer


def set_pooling(config: PreTrainedConfig, pooling: Pooling, layer: SequenceLayer = "linear") -> None:
    """Say in a config, in place, what the classifier to be made of it reads."""
    for (field, missing), value in zip(_FIELDS.items(), (pooling, layer), strict=True):
        if value != missing:
            setattr(config, field, value)
        elif hasattr(config, field):
            delattr(config, field)


def pooled(states_BTD: Tensor, places_B22: Tensor, pooling: Pooling) -> Tensor:
    """(B, 2 D): what stands for the first mention, then for the second.

    places_B22: from which token each mention goes to which, the last excluded.
    """
    if pooling == "starts":
        starts_B2D = places_B22[:, :, :1].expand(-1, -1, states_BTD.shape[-1])
        return states_BTD.gather(1, starts_B2D).flatten(1)
    columns_T = torch.arange(states_BTD.shape[1], device=states_BTD.device)
    within_B2T = (columns_T >= places_B22[:, :, :1]) & (columns_T < places_B22[:, :, 1:])
    outside_B2T1 = ~within_B2T[..., None]
    states_B2TD = states_BTD[:, None].masked_fill(outside_B2T1, torch.finfo(states_BTD.dtype).min)
    return states_B2TD.amax(2).flatten(1)


@cache
def _class_for(kind: Any) -> Any:
    """The class of a family's classifiers, by the class of its configs."""
    parent: Any = family_base(kind)

    class ForPooledStates(parent):  # type: ignore[misc]
        config_class = kind

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            setattr(self, self.base_model_prefix, encoder_alone(config))
            self.lstm = bidirectional(config) if sequence_layer_of(config) == "bilstm" else None
            self.dropout = nn.Dropout(head_dropout(config))
            width = 2 * self.lstm.hidden_size if self.lstm else config.hidden_size
            vectors = 1 if pooling_of(config) == "first" else COUNT
            self.classifier = nn.Linear(vectors * width, config.num_labels)
            self.post_init()
            draw_output_layer(self.classifier, config)

        def forward(self, mentions: Tensor | None = None, **inputs: Tensor) -> SequenceClassifierOutput:
            states_BTD = self.base_model(**inputs).last_hidden_state
            summary_BD = states_BTD[:, 0]
            if self.lstm is not None:
                states_BTD, summary_BD = both_ways(self.lstm, states_BTD, inputs.get("attention_mask"))
            pooling = pooling_of(self.config)
            if pooling != "first":
                assert mentions is not None
                summary_BD = pooled(states_BTD, mentions, pooling)
            return SequenceClassifierOutput(logits=self.classifier(self.dropout(summary_BD)))

    return named_for_family(ForPooledStates)


PooledClassifiers = FamilyClasses(_class_for)
