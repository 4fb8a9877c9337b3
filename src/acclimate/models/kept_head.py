"""Fine-tuning that goes on from a fine-tuned checkpoint, head and all, on another dataset of the same kind.

Wiese, Weissenborn and Neves, "Neural Domain Adaptation for Biomedical Question Answering", CoNLL 2017: SQuAD, then
BioASQ. It works where both heads are one: the same kind, outputs that stand for the same in the same order, the same
layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from acclimate.models.classifier import PROBLEM_TYPES, kind_in, load_finetuned, outputs_of_kind
from acclimate.models.dropout import set_dropout
from acclimate.models.pooling import Pooling, SequenceLayer, pooling_of, sequence_layer_of
from acclimate.models.taggers import Layer, Transitions, layer_of, set_layer, transitions_rate_of


@dataclass(frozen=True)
class Head:
    """What must be the same of two heads. kind: "" where there is none; outputs: what they stand for, in order."""

    kind: str
    outputs: tuple[str, ...]
    pooling: Pooling = "first"
    sequence_layer: SequenceLayer = "linear"
    tag_layer: Layer = "linear"
    tag_transitions_rate: float = 1.0

    def __str__(self) -> str:
        if not self.kind:
            return "no head"
        usual = vars(Head(self.kind, self.outputs))
        own = [f", {name} {value!r}" for name, value in vars(self).items() if value != usual[name]]
        return f"a head for kind '{self.kind}' with outputs ({', '.join(self.outputs)}){''.join(own)}"


def head_in(config: PreTrainedConfig) -> Head:
    """The head of a checkpoint, by its config."""
    kind = kind_in(config)
    names: Any = config.id2label
    stated = tuple(names[index] for index in range(len(names)))
    return Head(
        kind,
        outputs_of_kind(kind, stated),
        pooling_of(config),
        sequence_layer_of(config),
        layer_of(config),
        transitions_rate_of(config),
    )


def load_with_head(
    model: str | Path,
    labels: Sequence[str],
    *,
    kind: str,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    hidden_dropout: float | None = None,
    pooling: Pooling = "first",
    sequence_layer: SequenceLayer = "linear",
    layer: Layer = "linear",
    transitions: Transitions = "any",
    transitions_rate: float = 1.0,
) -> PreTrainedModel:
    """A fine-tuned checkpoint as it is, in float32 and evaluation mode. The arguments are those of `load_classifier`.

    Raises ValueError where its head is another one than that of a task of this kind with these labels, and as
    `load_finetuned` does.
    """
    asked = Head(kind, outputs_of_kind(kind, labels), pooling, sequence_layer, layer, transitions_rate)

    def ready(config: PreTrainedConfig) -> None:
        if (found := head_in(config)) != asked:
            raise ValueError(
                f"{model}: it has {found}, but the task needs {asked}. Set head='fresh', or give a checkpoint that was "
                f"fine-tuned for the same, labels in the same order"
            )
        config.problem_type = PROBLEM_TYPES.get(kind)  # with one output and no problem stated it is a regression
        set_layer(config, layer, transitions, transitions_rate)
        set_dropout(config, attention=attention_dropout, hidden=hidden_dropout, head=dropout)

    return load_finetuned(model, ready=ready)
