"""Load encoders of transformers, make them with random weights, save them, and compute what training them costs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import transformers
from torch import nn

from acclimate.core import machines
from acclimate.core.prompt import FIELD
from acclimate.core.randomness import seeded
from acclimate.models.configuration import Architecture, Shape, longest_of_config
from acclimate.models.dropout import set_dropout
from acclimate.models.formats import save_weights
from acclimate.models.light import attach_adapters, bottleneck_of
from acclimate.models.loading import configuration, load_weights, quiet, reading

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


_NEW = {  # classes of transformers, of a config and of a model
    "bert": ("BertConfig", "BertForMaskedLM"),
    "modernbert": ("ModernBertConfig", "ModernBertForMaskedLM"),
}
_MODERNBERT_ENDS = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id")


def load_masked_language_model(
    model: str | PathLike[str],
    *,
    attention_dropout: float | None = None,
    hidden_dropout: float | None = None,
    seed: int = 0,
) -> PreTrainedModel:
    """Return an encoder with its masked language modelling head, in float32 and evaluation mode.

    If the checkpoint has no head, the head's weights are random, from `seed`; the state of torch's generator does not
    change. A dropout of None keeps the checkpoint's value.

    Raises ValueError if the checkpoint cannot be found or read, has only pickled weights, or lacks weights of the
    encoder.
    """
    with reading(model) as where:
        config = configuration(where)
        set_dropout(config, attention=attention_dropout, hidden=hidden_dropout)
        loaded, _ = load_weights(transformers.AutoModelForMaskedLM, where, config, seed)
    return loaded


def random_twin(model: str | PathLike[str], *, seed: int) -> PreTrainedModel:
    """Return a masked language model of a checkpoint's architecture with random weights, in float32 and evaluation
    mode.

    The same config and seed give the same weights. Only the config is read; torch's generator keeps its state.
    """
    with reading(model) as where, seeded(seed):
        config = configuration(where)
        kind: Any = transformers.AutoModelForMaskedLM  # its class methods are untyped in transformers
        twin: PreTrainedModel = kind.from_config(config, dtype=torch.float32)
        if bottleneck := bottleneck_of(config):
            attach_adapters(twin, bottleneck)
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
    architecture: Architecture = "bert",
    ends: tuple[int, int] | None = None,
) -> PreTrainedModel:
    """Return a BERT or ModernBERT with random weights and its masked language modelling head, in evaluation mode.

    longest            number of positions, in tokens
    pad                id of the padding token
    intermediate       width of the feed-forward layers; by default 4 * hidden, or 1.5 * hidden for a ModernBERT, whose
                       layers have three matrices instead of two
    initializer_range  standard deviation of the weights
    ends               ids of the tokens that begin and end a row, which a ModernBERT's config states

    The same arguments give the same weights; torch's generator keeps its state.

    Raises ValueError unless `hidden` is a multiple of `heads` (for a ModernBERT, whose rotary positions turn pairs of
    numbers, of 2 * heads) and `pad` an id of the vocabulary.
    """
    if not 0 <= pad < vocabulary_size:
        raise ValueError(
            f"pad is {pad}, but a vocabulary of {vocabulary_size} tokens has the ids 0 to {vocabulary_size - 1}."
        )
    config = new_configuration(
        Shape(layers, hidden, heads, intermediate),
        architecture,
        longest=longest,
        attention_dropout=attention_dropout,
        hidden_dropout=hidden_dropout,
        vocab_size=vocabulary_size,
        pad_token_id=pad,
        initializer_range=initializer_range,
        **(dict(zip(_MODERNBERT_ENDS, ends * 2, strict=True)) if ends and architecture == "modernbert" else {}),
    )
    with seeded(seed):
        model: PreTrainedModel = getattr(transformers, _NEW[architecture][1])(config)
    model.train(False)
    return model


def new_configuration(
    shape: Shape,
    architecture: Architecture,
    *,
    longest: int,
    attention_dropout: float,
    hidden_dropout: float,
    **others: Any,
) -> PreTrainedConfig:
    """Return the config of `new_encoder`. others: further fields, by transformers' names."""
    multiple = shape.heads if architecture == "bert" else 2 * shape.heads
    if shape.hidden % multiple:
        raise ValueError(
            f"hidden is {shape.hidden}, which {shape.heads} heads cannot divide evenly. Make it a multiple of "
            f"{multiple}."
        )
    hidden, vocabulary = shape.hidden, others.get("vocab_size", 0)
    weights = vocabulary * hidden + shape.layers * (4 * hidden**2 + 2 * hidden * (shape.intermediate or 4 * hidden))
    what = f"an encoder with layers={shape.layers:,} and hidden={hidden:,} has {weights:,} weights, which take {{}} GB"
    machines.require_memory(4 * weights, what, "Lower hidden or layers")
    width = 4 * shape.hidden if architecture == "bert" else 3 * shape.hidden // 2
    config: PreTrainedConfig = getattr(transformers, _NEW[architecture][0])(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=width if shape.intermediate is None else shape.intermediate,
        max_position_embeddings=longest,
        **others,
    )
    set_dropout(config, attention=attention_dropout, hidden=hidden_dropout)
    return config


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, directory: str | Path) -> None:
    """Write model and tokenizer as safetensors and JSON, which the Auto classes of transformers load or refuse.

    The same weights and vocabulary give the same bytes in every file, wherever they were loaded from and whatever the
    tokenizer was used for. Not atomic: write into a temporary directory and rename that.
    """
    plain = copy.deepcopy(tokenizer)
    # Without this, the files would record how the tokenizer was found, and the padding and truncation of its last call.
    for trace in ("is_local", "local_files_only"):
        plain.init_kwargs.pop(trace, None)
    if plain.is_fast:
        plain.backend_tokenizer.no_padding()
        plain.backend_tokenizer.no_truncation()
    with quiet():
        save_weights(model, directory)
        plain.save_pretrained(directory)


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return the encoder without its head, or the model itself if it has no head."""
    return cast("PreTrainedModel", model.base_model)


def word_embeddings(model: PreTrainedModel) -> torch.Tensor:
    """Return the (V, D) parameter of the word embeddings, before positions and normalisation."""
    return cast(torch.Tensor, cast(Any, model).get_input_embeddings().weight)


def family(model: PreTrainedModel) -> str:
    """Return the architecture's name in transformers, such as "bert" or "deberta-v2"."""
    return str(model.config.model_type)


def require_room(model: PreTrainedModel, tokens: int, name: str = "max_tokens") -> None:
    """Raise ValueError if the model cannot read rows of this many tokens and its prompt (models/light.py) after them.

    name  of the setting that states `tokens`, for the message
    """
    longest, prompt = longest_of_config(model.config), int(getattr(model.config, FIELD, 0))
    if longest is not None and tokens > longest:
        beside = f" beside its prompt of {prompt}" if prompt else ""
        raise ValueError(
            f"{name} = {tokens}, but the model reads at most {longest} tokens{beside}. Lower {name} to {longest}"
        )


def training_flops(model: PreTrainedModel, lengths: np.ndarray, *, predicted: int) -> float:
    """Return the floating point operations of one forward and backward pass, by formula.

    lengths    (B,) tokens of each row
    predicted  number of positions (for a classifier, of rows) that the head reads

    Kaplan et al. (2020), 2.1: 6 operations a weight and token (2 forward, 4 backward), plus attention's products,
    which grow with the square of the length. Only matrix products count: embedding look-ups, normalisation, softmax and
    the optimiser are a few per cent of a 12-layer model. What DeBERTa adds for relative positions is left out too, and
    ModernBERT's local attention counts as if it were global.
    """
    body, head = weights_by_part(model)
    layers, hidden = model.config.num_hidden_layers, model.config.hidden_size
    squares = float(np.sum(np.asarray(lengths, dtype=np.float64) ** 2))
    # queries times keys and weights times values: 2 products of 2 T T D operations a layer, and twice that backwards
    attention = 12.0 * layers * hidden * squares
    return float(6.0 * (body * float(np.sum(lengths)) + head * predicted) + attention)


def weights_by_part(
    model: PreTrainedModel, among: Callable[[nn.Parameter], bool] = lambda weight: True
) -> tuple[int, int]:
    """Return two numbers of weights: those that each token is multiplied by, and those that each prediction is.

    Only matrices for which `among` is True count. A pooler counts to the predictions, because it reads one token a row.
    """
    body = head = 0
    base = model.base_model_prefix + "."
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.LSTM):
            matrices = (weight for weight in module.parameters(recurse=False) if weight.dim() > 1 and among(weight))
            weights = sum(weight.numel() for weight in matrices)
            if name.startswith(base) and "pooler" not in name:
                body += weights
            else:
                head += weights
    return body, head
