"""Classifiers that read two mentions of a text in place of its first token.

pooling   what stands for a mention
mentions  the largest value, in each dimension, of the hidden states of its tokens
starts    the hidden state of its first token, which is its opening marker where it has one

The two are put side by side, and a linear layer after dropout reads them (Gu et al., 2021, Table 12). transformers has
no such class, so one is made for each family, out of the family's encoder. In config.json it is
`<Family>ForMentionPairs`, with the pooling as `mention_pooling`. transformers' AutoModel loads the encoder from such a
checkpoint; `classifier.load_finetuned` loads all of it.

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
    draw_output_layer,
    encoder_alone,
    family_base,
    head_dropout,
    named_for_family,
)

Pooling = Literal["first", "mentions", "starts"]
FIELD = "mention_pooling"  # of config.json
COUNT = 2  # mentions


def pooling_of(config: PreTrainedConfig) -> Pooling:
    """What the classifier of a config reads: "first" where it is one of transformers' own."""
    pooling: Pooling = getattr(config, FIELD, "first")
    return pooling


def set_pooling(config: PreTrainedConfig, pooling: Pooling) -> None:
    """Say in a config, in place, what the classifier to be made of it reads."""
    if pooling != "first":
        setattr(config, FIELD, pooling)
    elif hasattr(config, FIELD):
        delattr(config, FIELD)


def pooled(hidden_BTD: Tensor, places_B22: Tensor, pooling: Pooling) -> Tensor:
    """(B, 2 D): what stands for the first mention, then for the second.

    places_B22: from which token each mention goes to which, the last excluded.
    """
    if pooling == "starts":
        starts_B2D = places_B22[:, :, :1].expand(-1, -1, hidden_BTD.shape[-1])
        return hidden_BTD.gather(1, starts_B2D).flatten(1)
    columns_T = torch.arange(hidden_BTD.shape[1], device=hidden_BTD.device)
    within_B2T = (columns_T >= places_B22[:, :, :1]) & (columns_T < places_B22[:, :, 1:])
    outside_B2T1 = ~within_B2T[..., None]
    hidden_B2TD = hidden_BTD[:, None].masked_fill(outside_B2T1, torch.finfo(hidden_BTD.dtype).min)
    return hidden_B2TD.amax(2).flatten(1)


@cache
def _class_for(kind: Any) -> Any:
    """The class of a family's classifiers, by the class of its configs."""
    parent: Any = family_base(kind)

    class ForMentionPairs(parent):  # type: ignore[misc]
        config_class = kind

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            setattr(self, self.base_model_prefix, encoder_alone(config))
            self.dropout = nn.Dropout(head_dropout(config))
            self.classifier = nn.Linear(COUNT * config.hidden_size, config.num_labels)
            self.post_init()
            draw_output_layer(self.classifier, config)

        def forward(self, mentions: Tensor, **inputs: Tensor) -> SequenceClassifierOutput:
            hidden_BTD = self.base_model(**inputs).last_hidden_state
            representation = pooled(hidden_BTD, mentions, pooling_of(self.config))
            return SequenceClassifierOutput(logits=self.classifier(self.dropout(representation)))

    return named_for_family(ForMentionPairs)


MentionClassifiers = FamilyClasses(_class_for)
