"""Load encoders with a head for a labelled task, as transformers' Auto classes know them.

kind          problem_type in config.json      outputs
sequence      single_label_classification      one a label; the largest is predicted
multilabel    multi_label_classification       one a label; each that is over 0 (probability .5) is predicted
score         regression                       one, the number itself in the user's units
tokens        none                             at each token one a tag; a word's are those at its first piece
span          none                             at each token two: how well an answer begins, and how well it ends there

The first three are AutoModelForSequenceClassification's, the others are AutoModelForTokenClassification's and
AutoModelForQuestionAnswering's. Classifiers that read other states than the encoder's at the first token, and taggers
with more than a linear layer, are classes of models/task_layers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
import transformers
from torch import nn

from acclimate.core.randomness import seeded
from acclimate.models.dropout import set_dropout
from acclimate.models.formats import OutputLayer, Pooling, SequenceLayer
from acclimate.models.loading import configuration, load_weights, reading
from acclimate.models.task_layers import (
    ENDING,
    PooledClassifiers,
    SequenceTaggers,
    layer_of,
    pooling_of,
    sequence_layer_of,
    set_layer,
    set_pooling,
    transitions_rate_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

PROBLEM_TYPES: dict[str, Literal["regression", "single_label_classification", "multi_label_classification"]] = {
    "sequence": "single_label_classification",
    "multilabel": "multi_label_classification",
    "score": "regression",
}
TOKENS = "tokens"
SPAN = "span"
KINDS = (*PROBLEM_TYPES, TOKENS, SPAN)
SCORE = "score"  # what config.json calls the one output of a regression
ENDS = ("start", "end")  # and the two of a span

# ends of architectures' names, and their kinds; all others classify sequences. ForMentionPairs is an old name of
# ForPooledStates
_CLASSIFIERS = ("ForSequenceClassification", "ForPooledStates", "ForMentionPairs")
_ENDINGS = {"ForTokenClassification": TOKENS, ENDING: TOKENS, "ForQuestionAnswering": SPAN}
_AUTO = {TOKENS: "AutoModelForTokenClassification", SPAN: "AutoModelForQuestionAnswering"}


def load_classifier(
    model: str | Path,
    labels: Sequence[str],
    *,
    seed: int,
    kind: str = "sequence",
    dropout: float | None = None,
    attention_dropout: float | None = None,
    hidden_dropout: float | None = None,
    pooler: Literal["fresh", "kept"] = "fresh",
    pooling: Pooling = "pooler",
    sequence_layer: SequenceLayer = "linear",
    layer: OutputLayer = "linear",
    transitions_rate: float = 1.0,
) -> PreTrainedModel:
    """Return an encoder with a fresh head for these labels, in float32 and evaluation mode; a score has one output, a
    span two, and neither has labels.

    The head is a function of the architecture, the number of labels and `seed` alone: every checkpoint of one
    architecture starts from the same head, and a head trained for another task is not taken over. ModernBERT's dense
    layer before the output, which its masked language model shares, is kept.

    pooler   "fresh" draws BERT's pooler with the head, because masked language models are saved without it: the
             untouched model would start with a trained layer that its adapted rivals lack. "kept" takes the
             checkpoint's where it has one.
    pooling, sequence_layer: what the head reads of a text (models/task_layers.py)
    layer, transitions_rate: of a tagger (models/task_layers.py)
    dropout  the head's, before its output layer; a dropout of None leaves what the checkpoint says

    Torch's generator is left as it was found.

    Raises ValueError for labels that are missing or occur twice, for a kind that has no such head, and as
    `load_masked_language_model` does.
    """
    if kind not in KINDS:
        raise ValueError(f"a task of kind '{kind}' cannot be fine-tuned. These kinds can: {', '.join(KINDS)}")
    for name, value, usual in (("pooling", pooling, "pooler"), ("sequence_layer", sequence_layer, "linear")):
        if kind in _AUTO and value != usual:
            raise ValueError(f"{name}='{value}' applies to labels of whole texts, not to kind '{kind}'. Remove it")
    if kind != TOKENS and layer != "linear":
        raise ValueError(f"layer='{layer}' applies to tags, not to kind '{kind}'. Remove it")
    auto = _auto(kind, pooling, sequence_layer, layer)
    outputs = outputs_of_kind(kind, labels)
    if not outputs or len(set(outputs)) < len(outputs):
        raise ValueError(
            f"A classifier needs labels without duplicates, but these were given: {', '.join(outputs) or 'none'}."
        )
    with reading(model) as where:
        config = configuration(where)
        head_is_shared = any(name.endswith("ForMaskedLM") for name in config.architectures or ())
        config.id2label = dict(enumerate(outputs))
        config.label2id = {label: index for index, label in enumerate(outputs)}
        config.problem_type = PROBLEM_TYPES.get(kind)  # whatever task the checkpoint was trained on before
        set_pooling(config, pooling, sequence_layer)
        set_layer(config, layer, transitions_rate)
        set_dropout(config, attention=attention_dropout, hidden=hidden_dropout, head=dropout)
        with seeded(seed):
            untrained = auto.from_config(config, dtype=torch.float32)
        loaded, absent = load_weights(auto, where, config, seed)
    encoder, values = f"{loaded.base_model_prefix}.", untrained.state_dict()
    with torch.no_grad():
        for name, weight in loaded.named_parameters():
            in_head, in_pooler = not name.startswith(encoder), name.startswith(f"{encoder}pooler.")
            if name in absent or (in_head and not head_is_shared) or (in_pooler and pooler == "fresh"):
                weight.copy_(values[name])
    return loaded


def load_finetuned(
    model: str | Path, *, ready: Callable[[PreTrainedConfig], None] = lambda config: None
) -> PreTrainedModel:
    """Return a classifier with the head and the labels it was saved with, in float32 and evaluation mode.

    ready: looks at the config and may set dropout in it, before the weights are read

    Raises ValueError where weights of the head are missing, and as `load_masked_language_model` does.
    """
    with reading(model) as where:
        config = configuration(where)
        ready(config)
        auto = _auto(kind_in(config), pooling_of(config), sequence_layer_of(config), layer_of(config))
        loaded, absent = load_weights(auto, where, config, seed=0)
    if absent:
        raise ValueError(
            f"{where}: contains no fine-tuned classifier. These weights are missing or differ in shape from "
            f"config.json: {', '.join(sorted(absent))}. Fine-tune it first."
        )
    return loaded


def register(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str], *, seed: int) -> None:
    """Let the tokenizer keep these strings whole; those that it did not know get rows of the embeddings.

    The new rows are random, drawn from `seed` as the family draws its embeddings.
    """
    tokenizer.add_tokens([transformers.AddedToken(token, special=True, normalized=False) for token in tokens])
    if len(tokenizer) > cast(nn.Embedding, model.get_input_embeddings()).num_embeddings:
        with seeded(seed):
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def classifier_kind(model: PreTrainedModel) -> str:
    """Return the kind of task of a classifier, by its class and config; without a problem type, one label a text."""
    if kind := _kind_of(type(model).__name__):
        return kind
    kinds = {problem: kind for kind, problem in PROBLEM_TYPES.items()}
    return kinds[model.config.problem_type or PROBLEM_TYPES["sequence"]]


def kind_in(config: PreTrainedConfig) -> str:
    """Return the kind of task that a checkpoint's head is for, by its config; "" for a head that is not known."""
    names = config.architectures or ()
    if kind := next(filter(None, map(_kind_of, names)), ""):
        return kind
    if not any(name.endswith(_CLASSIFIERS) for name in names):
        return ""
    kinds = {problem: kind for kind, problem in PROBLEM_TYPES.items()}
    unstated = "regression" if config.num_labels == 1 else PROBLEM_TYPES["sequence"]  # as transformers has it
    problem = config.problem_type or unstated
    if not isinstance(problem, str) or problem not in kinds:
        raise ValueError(
            f"{Path(config.name_or_path or '') / 'config.json'}: problem_type is {problem!r}; supported are "
            f"{', '.join(kinds)}. Restore the file, or save the model there again"
        )
    return kinds[problem]


def outputs_of_kind(kind: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return what the outputs of a head stand for, in their order."""
    return {"score": (SCORE,), SPAN: ENDS}.get(kind, tuple(labels))


def _auto(kind: str, pooling: Pooling, sequence_layer: SequenceLayer, layer: OutputLayer) -> Any:
    if layer != "linear":
        return SequenceTaggers
    if pooling != "pooler" or sequence_layer != "linear":
        return PooledClassifiers
    return getattr(transformers, _AUTO.get(kind, "AutoModelForSequenceClassification"))


def _kind_of(architecture: str) -> str:
    """Return the kind that the name of a class says; "" for a sequence classifier, whose config says it."""
    return next((kind for ending, kind in _ENDINGS.items() if architecture.endswith(ending)), "")


def labels_of(model: PreTrainedModel) -> tuple[str, ...]:
    """Return what a classifier's outputs stand for, in their order; () for a score and for a span."""
    names: Any = model.config.id2label
    return () if classifier_kind(model) in ("score", SPAN) else tuple(names[index] for index in range(len(names)))


@dataclass(frozen=True)
class Head:
    """What two heads must share so that fine-tuning can go on from one of them. kind: "" if there is no head.

    Wiese, Weissenborn and Neves, "Neural Domain Adaptation for Biomedical Question Answering", CoNLL 2017: SQuAD, then
    BioASQ. It works if both have the same kind, outputs of the same meaning in the same order, and the same layers.
    """

    kind: str
    outputs: tuple[str, ...]
    pooling: Pooling = "pooler"
    sequence_layer: SequenceLayer = "linear"
    tag_layer: OutputLayer = "linear"
    tag_transitions_rate: float = 1.0

    def __str__(self) -> str:
        if not self.kind:
            return "no head"
        usual = vars(Head(self.kind, self.outputs))
        special = [f", {name} {value!r}" for name, value in vars(self).items() if value != usual[name]]
        return f"a head for kind '{self.kind}' with outputs ({', '.join(self.outputs)}){''.join(special)}"


def head_in(config: PreTrainedConfig) -> Head:
    """Return the head of a checkpoint, by its config."""
    kind = kind_in(config)
    names: Any = config.id2label
    labels = tuple(names[index] for index in range(len(names)))
    return Head(
        kind,
        outputs_of_kind(kind, labels),
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
    pooling: Pooling = "pooler",
    sequence_layer: SequenceLayer = "linear",
    layer: OutputLayer = "linear",
    transitions_rate: float = 1.0,
) -> PreTrainedModel:
    """Return a fine-tuned checkpoint as it is, in float32 and evaluation mode.

    The arguments are those of `load_classifier`.

    Raises ValueError where its head is another one than that of a task of this kind with these labels, and as
    `load_finetuned` does.
    """
    task_head = Head(kind, outputs_of_kind(kind, labels), pooling, sequence_layer, layer, transitions_rate)

    def ready(config: PreTrainedConfig) -> None:
        if (head := head_in(config)) != task_head:
            raise ValueError(
                f"{model}: it has {head}, but the task needs {task_head}. Set head='fresh', or give a checkpoint "
                "that was fine-tuned for the same labels in the same order"
            )
        config.problem_type = PROBLEM_TYPES.get(kind)  # with one output and no problem stated it is a regression
        set_layer(config, layer, transitions_rate)
        set_dropout(config, attention=attention_dropout, hidden=hidden_dropout, head=dropout)

    return load_finetuned(model, ready=ready)
