"""Encoders as transformers knows them: loaded, made from nothing, saved, counted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from acclimate.models.dropout import DROPOUT_FIELDS, set_dropout
from acclimate.models.loading import (
    configuration,
    own_memory,
    quiet,
    reading,
    require_encoder,
    require_safetensors,
    seeded,
)

__all__ = [
    "dropout_known",
    "encoder_of",
    "family",
    "load_classifier",
    "load_finetuned",
    "load_masked_language_model",
    "load_tokenizer",
    "longest_input",
    "new_encoder",
    "random_twin",
    "save_model",
    "set_dropout",
]

# Any: their class methods are untyped in transformers.
_MaskedLanguageModel: Any = AutoModelForMaskedLM
_SequenceClassifier: Any = AutoModelForSequenceClassification


def load_tokenizer(model: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint directory or hub id. Raises ValueError where there is none."""
    with reading(model) as where:
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False)
        except ValueError as error:
            raise ValueError(f"{where}: holds no tokenizer that transformers can read: {error}") from error
    # Where the files are missing, transformers makes up a tokenizer that takes every word for unknown.
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ValueError(f"{where}: holds no tokenizer with a vocabulary. Save one there (tokenizer.json).")
    return tokenizer


def load_masked_language_model(
    model: str | Path,
    *,
    attention_dropout: float | None = None,
    hidden_dropout: float | None = None,
    seed: int = 0,
) -> PreTrainedModel:
    """An encoder with its masked language modelling head, in float32 and evaluation mode.

    The weights of a head that the checkpoint lacks are drawn under `seed`; torch's generator is left as it was found.
    A dropout of None leaves what the checkpoint says.

    Raises ValueError where the checkpoint cannot be found or read, holds pickled weights only, or lacks weights of the
    encoder.
    """
    with reading(model) as where:
        config = configuration(where)
        set_dropout(config, attention=attention_dropout, hidden=hidden_dropout)
        loaded, _ = _load(_MaskedLanguageModel, where, config, seed)
    return loaded


def load_classifier(
    model: str | Path,
    labels: Sequence[str],
    *,
    seed: int,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    hidden_dropout: float | None = None,
    pooler: Literal["fresh", "kept"] = "fresh",
) -> PreTrainedModel:
    """An encoder with a fresh head for these labels, in float32 and evaluation mode.

    The head is a function of the architecture, the number of labels and `seed` alone: every checkpoint of one
    architecture starts from the same head, and a head trained for another task is not taken over. ModernBERT's dense
    layer before the output, which its masked language model shares, is kept.

    pooler   "fresh" draws BERT's pooler with the head, because masked language models are saved without it: the
             untouched model would start with a trained layer that its adapted rivals lack. "kept" takes the
             checkpoint's where it has one.
    dropout  the head's, before its output layer; a dropout of None leaves what the checkpoint says

    Torch's generator is left as it was found.

    Raises ValueError for labels that are missing or occur twice, and as `load_masked_language_model` does.
    """
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(f"A classifier needs labels, each once, but these were given: {', '.join(labels) or 'none'}.")
    with reading(model) as where:
        config = configuration(where)
        head_is_shared = any(name.endswith("ForMaskedLM") for name in config.architectures or ())
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: index for index, label in enumerate(labels)}
        config.problem_type = None  # of a task that the checkpoint may have been trained on before
        set_dropout(config, attention=attention_dropout, hidden=hidden_dropout, head=dropout)
        with seeded(seed):
            untrained = _SequenceClassifier.from_config(config, dtype=torch.float32)
        loaded, absent = _load(_SequenceClassifier, where, config, seed)
    encoder, values = f"{loaded.base_model_prefix}.", untrained.state_dict()
    with torch.no_grad():
        for name, weight in loaded.named_parameters():
            in_head, in_pooler = not name.startswith(encoder), name.startswith(f"{encoder}pooler.")
            if name in absent or (in_head and not head_is_shared) or (in_pooler and pooler == "fresh"):
                weight.copy_(values[name])
    return loaded


def dropout_known(model: str | Path) -> bool:
    """Whether it is known which settings of the model's family are its dropout (models/dropout.py)."""
    with reading(model) as where:
        return configuration(where).model_type in DROPOUT_FIELDS


def longest_input(model: str | Path) -> int | None:
    """Tokens that a model can read at once, as far as its config says."""
    with reading(model) as where:
        config = configuration(where)
    positions = getattr(config, "max_position_embeddings", None)
    if positions and config.model_type in ("roberta", "camembert", "xlm-roberta"):
        return int(positions) - int(config.pad_token_id) - 1  # they count positions from behind the padding's id
    return int(positions) if positions else None


def load_finetuned(model: str | Path) -> PreTrainedModel:
    """A classifier with the head and the labels it was saved with, in float32 and evaluation mode.

    Raises ValueError where weights of the head are missing, and as `load_masked_language_model` does.
    """
    with reading(model) as where:
        loaded, absent = _load(_SequenceClassifier, where, configuration(where), seed=0)
    if absent:
        raise ValueError(
            f"{where}: holds no fine-tuned classifier, for these weights are missing or have another shape than "
            f"config.json says: {', '.join(sorted(absent))}. Fine-tune it first."
        )
    return loaded


def random_twin(model: str | Path, *, seed: int) -> PreTrainedModel:
    """A masked language model of a checkpoint's architecture with random weights, in float32 and evaluation mode.

    Same config and seed, same weights; torch's generator is left as it was found. Only the config is read.
    """
    with reading(model) as where, seeded(seed):
        twin: PreTrainedModel = _MaskedLanguageModel.from_config(configuration(where), dtype=torch.float32)
    twin.train(False)
    return twin


def new_encoder(
    *,
    layers: int,
    hidden: int,
    heads: int,
    vocabulary_size: int,
    longest: int,
    pad: int,
    seed: int,
    intermediate: int | None = None,
    attention_dropout: float = 0.1,
    hidden_dropout: float = 0.1,
    initializer_range: float = 0.02,
) -> BertForMaskedLM:
    """A BERT with random weights and its masked language modelling head, in evaluation mode.

    intermediate is the width of the feed-forward layers, 4 * hidden by default; longest the number of positions, in
    tokens; pad the id of the padding token; initializer_range the standard deviation of the weights. Same arguments,
    same weights; torch's generator is left as it was found.

    Raises ValueError unless `hidden` is a multiple of `heads` and `pad` an id of the vocabulary.
    """
    if hidden % heads:
        raise ValueError(f"hidden is {hidden}, which {heads} heads cannot share evenly: make it a multiple of {heads}.")
    if not 0 <= pad < vocabulary_size:
        raise ValueError(f"pad is {pad}, which is no id of a vocabulary of {vocabulary_size} tokens.")
    config = BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden if intermediate is None else intermediate,
        max_position_embeddings=longest,
        pad_token_id=pad,
        initializer_range=initializer_range,
    )
    set_dropout(config, attention=attention_dropout, hidden=hidden_dropout)
    with seeded(seed):
        model = BertForMaskedLM(config)
    model.train(False)
    return model


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, directory: str | Path) -> None:
    """Writes model and tokenizer as transformers does (safetensors and JSON), to be loaded by its Auto classes.

    Same weights and vocabulary, same bytes in every file, wherever they were loaded from and whatever the tokenizer was
    used for. Not atomic: write into a temporary directory and rename that.
    """
    plain = copy.deepcopy(tokenizer)
    # How the tokenizer was found, and the padding and truncation of its last call, would be written with it.
    for trace in ("is_local", "local_files_only"):
        plain.init_kwargs.pop(trace, None)
    if plain.is_fast:
        plain.backend_tokenizer.no_padding()
        plain.backend_tokenizer.no_truncation()
    with quiet():
        model.save_pretrained(directory)
        plain.save_pretrained(directory)


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder without its head; the model itself where it has none."""
    return cast(PreTrainedModel, model.base_model)


def family(model: PreTrainedModel) -> str:
    """The architecture's name in transformers, such as "bert" or "deberta-v2"."""
    return str(model.config.model_type)


def _load(kind: Any, where: str, config: PreTrainedConfig, seed: int) -> tuple[PreTrainedModel, set[str]]:
    """A model of an Auto class, and the names of its weights that the checkpoint lacks or has in another shape.

    Those are drawn under `seed`, and none may belong to the encoder.
    Nothing is said about attention: transformers takes SDPA where the family has it, and its plain code elsewhere.
    """
    require_safetensors(where)
    with seeded(seed):
        model, report = kind.from_pretrained(
            where,
            config=config,
            dtype=torch.float32,  # transformers would keep the checkpoint's
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # they are judged below, together with the missing ones
            output_loading_info=True,
        )
    absent = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    require_encoder(model, absent, where)
    own_memory(model)
    return model, absent
