"""Make the classifier that is trained jointly with a masked language model, and write both as one checkpoint.

The classifier is Linear(D, D), GELU, Linear(D, C) on the first position, without pooler or dropout; for tagged words,
Linear(D, C) on every position. BERT and RoBERTa have other classifiers in transformers. ELECTRA has these two, and its
encoder is BERT's under other names. So the checkpoint is an ELECTRA whose embeddings are as wide as its hidden states:
it has the same weights and computes the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from acclimate.core.prompt import FIELD
from acclimate.core.randomness import seeded
from acclimate.models.classifier import PROBLEM_TYPES, SCORE, SPAN, TOKENS
from acclimate.models.encoder import encoder_of, family
from acclimate.models.families import first_position
from acclimate.models.light import attach_adapters, bottleneck_of
from acclimate.models.loading import configuration, reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ALIKE = ("bert", "camembert", "electra", "roberta", "xlm-roberta")  # families whose encoder has ELECTRA's form
_TAKEN_OVER = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
)


def new_joint_head(model: PreTrainedModel, kind: str, labels: Sequence[str], *, seed: int) -> nn.Sequential:
    """Return the classifier with random weights of the model's `initializer_range` and zero biases.

    The same arguments give the same weights. Raises ValueError for kind "span" (answers to questions), which no paper
    trains jointly with a language model.
    """
    if kind == SPAN:
        raise ValueError(
            "a classifier for kind 'span' cannot be trained jointly with language modelling. Adapt first, then "
            "fine-tune"
        )
    hidden, outputs = model.config.hidden_size, len(labels) or 1
    with seeded(seed):
        before = () if kind == TOKENS else (nn.Linear(hidden, hidden), nn.GELU())
        head = nn.Sequential(*before, nn.Linear(hidden, outputs))
        for layer in head:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=model.config.initializer_range)
                nn.init.zeros_(layer.bias)
    return head


def require_alike(model: str | Path) -> None:
    """Raise ValueError if the checkpoint's encoder cannot be written as an ELECTRA."""
    with reading(model) as where:
        name = configuration(where).model_type
    if name not in ALIKE:
        raise ValueError(
            f"transformers has no classifier for a '{name}' that was trained jointly. Set stage_2=true, or start "
            f"from one of: {', '.join(ALIKE)}"
        )


@torch.no_grad()
def as_classifier(model: PreTrainedModel, head: nn.Sequential, kind: str, labels: Sequence[str]) -> PreTrainedModel:
    """Return an ELECTRA that computes what the encoder of `model` and the classifier compute, in float32 and evaluation
    mode.

    The family must be one of ALIKE.
    """
    assert family(model) in ALIKE, family(model)
    outputs = (SCORE,) if kind == "score" else tuple(labels)
    # RoBERTa's positions begin behind the padding's id
    skipped = first_position(family(model), model.config.pad_token_id)
    dimensions: Any = {name: getattr(model.config, name) for name in _TAKEN_OVER}
    config = transformers.ElectraConfig(
        **dimensions,
        embedding_size=getattr(model.config, "embedding_size", model.config.hidden_size),
        max_position_embeddings=model.config.max_position_embeddings - skipped,
        classifier_dropout=0.0,
        id2label=dict(enumerate(outputs)),
        label2id={label: index for index, label in enumerate(outputs)},
        problem_type=PROBLEM_TYPES.get(kind),
    )
    if prompt := getattr(model.config, FIELD, 0):
        setattr(config, FIELD, prompt)
    with seeded(0):
        tagger = transformers.ElectraForTokenClassification
        text_classifier = transformers.ElectraForSequenceClassification
        classifier = (tagger if kind == TOKENS else text_classifier)(config)
        if bottleneck := bottleneck_of(model.config):
            attach_adapters(classifier, bottleneck)
    weights = {f"electra.{name}": value for name, value in encoder_of(model).state_dict().items()}
    weights = {name: value for name, value in weights.items() if not name.startswith("electra.pooler.")}
    positions = "electra.embeddings.position_embeddings.weight"
    weights[positions] = weights[positions][skipped:]
    names = {"0": ""} if kind == TOKENS else {"0": "dense.", "2": "out_proj."}
    for name, value in head.state_dict().items():
        layer, _, part = name.partition(".")
        weights[f"classifier.{names[layer]}{part}"] = value
    classifier.load_state_dict(weights)
    classifier.train(False)
    return classifier
