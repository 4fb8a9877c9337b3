"""Convert a classifier that reads a state by one linear layer into its family's own class in transformers.

A family's classifier puts a dense layer and an activation f between the state h of a text and the output layer:
BERT and RoBERTa have tanh, ELECTRA, DeBERTa and EuroBERT GELU, DistilBERT ReLU, ModernBERT GELU and a LayerNorm. The
weights below make them linear, so that the class of transformers computes the logits W h + b. Each row of W is divided
by its norm first; u is such a row.

tanh       f(e u h) / e = u h up to a factor of 1 - (e u h)^2 / 3, with e = 2^-13
GELU, ReLU f(u h) - f(-u h) = u h for any f(x) = x g(x) with g(x) + g(-x) = 1; it takes two rows of the dense layer
LayerNorm  after GELU, one further row with weight 0 and bias K = 2^12 dominates the variance, so that the norm divides
           by K sqrt(D - 1) / D up to a factor of 1 - 2 |u h| / (D K); its mean cancels in the difference of two rows

No table of families: every construction is tried and compared with the classifier on random tokens.

Shape suffixes: B rows, T tokens, D hidden, C outputs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoModelForSequenceClassification

from acclimate.models.light import bottleneck_of
from acclimate.models.task_layers import pooling_of, sequence_layer_of, set_pooling

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

SLOPE = 2.0**-13  # e of tanh
CONSTANT = 2.0**12  # K of a LayerNorm
CLOSE = 5e-5  # largest difference of logits; of a regression, as a share of the spread of its numbers
_FIELD = "classifier_pooling"
# families whose config states which state the classifier reads -> its values; all others read the first state
_NAMES = {"modernbert": {"first": "cls", "mean": "mean"}, "eurobert": {"first": "bos", "mean": "mean"}}
_OTHERS = {"first": ""}


def native_classifier(model: PreTrainedModel) -> PreTrainedModel | None:
    """Return the classifier of transformers with the same logits, in evaluation mode; None if the family's class cannot
    have them.

    model: a classifier of models/task_layers.py that reads the first state or the mean of all states by a linear layer
    """
    config = model.config
    names = _NAMES.get(config.model_type, _OTHERS)
    readable = pooling_of(config) in names and sequence_layer_of(config) == "linear" and not bottleneck_of(config)
    if not readable or type(config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        return None
    weight_CD, bias_C = (parameter.detach().double() for parameter in cast(Any, model).classifier.parameters())
    plain = copy.deepcopy(config)
    set_pooling(plain, "pooler")
    if name := names[pooling_of(config)]:
        setattr(plain, _FIELD, name)
    if hasattr(plain, "classifier_bias"):
        plain.classifier_bias = True
    candidate = _with_encoder_of(model, plain)
    layers = _head_layers(candidate)
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    norms = [layer for layer in layers if isinstance(layer, nn.LayerNorm)]
    if len(linears) != 2 or len(norms) > 1 or linears[0].out_features != linears[1].in_features:
        return None
    for express in (_through_tanh, _through_difference):
        if express(linears[0], linears[1], norms, weight_CD, bias_C) and _same_logits(model, candidate):
            return candidate
    return None


def _with_encoder_of(model: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    auto: Any = AutoModelForSequenceClassification
    candidate: PreTrainedModel = auto.from_config(config, dtype=torch.float32)
    candidate.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    candidate.train(False)
    return candidate


def _head_layers(model: PreTrainedModel) -> list[nn.Module]:
    """Return the layers between the encoder's states and the logits, in the order in which the class names them."""
    prefix = f"{model.base_model_prefix}."
    return [
        layer
        for name, layer in model.named_modules()
        if not name.startswith(prefix) or name.startswith(f"{prefix}pooler")
    ]


def _rows(weight_CD: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows divided by their norms, (C, D), and the norms, (C,); a row of zeros keeps norm 1."""
    norm_C = weight_CD.norm(dim=1)
    norm_C = torch.where(norm_C > 0, norm_C, 1.0)
    return weight_CD / norm_C[:, None], norm_C


def _fill(layer: nn.Module, weight: Tensor, bias: Tensor) -> None:
    with torch.no_grad():
        parameters = cast(nn.Linear, layer)
        parameters.weight.zero_()
        parameters.weight[: weight.shape[0], : weight.shape[1]] = weight
        parameters.bias.zero_()
        parameters.bias[: len(bias)] = bias


def _through_tanh(
    dense: nn.Linear, output: nn.Linear, norms: list[nn.LayerNorm], weight_CD: Tensor, bias_C: Tensor
) -> bool:
    """Fill the layers; return False if they have no room."""
    count, hidden = weight_CD.shape
    if norms or dense.bias is None:
        return False
    if count > hidden:
        identity_DD = torch.eye(hidden, dtype=weight_CD.dtype)
        _fill(dense, SLOPE * identity_DD, torch.zeros(hidden))
        _fill(output, weight_CD / SLOPE, bias_C)
        return True
    unit_CD, norm_C = _rows(weight_CD)
    _fill(dense, SLOPE * unit_CD, torch.zeros(count))
    _fill(output, torch.diag(norm_C / SLOPE), bias_C)
    return True


def _through_difference(
    dense: nn.Linear, output: nn.Linear, norms: list[nn.LayerNorm], weight_CD: Tensor, bias_C: Tensor
) -> bool:
    """Fill the layers; return False if they have no room."""
    count = len(weight_CD)
    if 2 * count + len(norms) > dense.out_features or dense.bias is None:
        return False
    unit_CD, norm_C = _rows(weight_CD)
    _fill(dense, torch.cat([unit_CD, -unit_CD]), torch.zeros(2 * count))
    scale = 1.0
    for norm in norms:
        width = dense.out_features
        scale = CONSTANT * (width - 1) ** 0.5 / width
        with torch.no_grad():
            dense.bias[-1] = CONSTANT
            norm.weight.fill_(1.0)
            if norm.bias is not None:
                norm.bias.zero_()
    _fill(output, scale * torch.cat([torch.diag(norm_C), -torch.diag(norm_C)], dim=1), bias_C)
    return True


@torch.no_grad()
def _same_logits(model: PreTrainedModel, candidate: PreTrainedModel) -> bool:
    generator = torch.Generator().manual_seed(0)
    config = model.config
    length = min(16, getattr(config, "max_position_embeddings", 16) - 2)
    ids_BT = torch.randint(0, config.vocab_size, (4, length), generator=generator)
    if config.pad_token_id is not None:  # positions of some families depend on it
        ids_BT[ids_BT == config.pad_token_id] = (config.pad_token_id + 1) % config.vocab_size
    mask_BT = torch.ones_like(ids_BT)
    mask_BT[1, length // 2 :] = 0
    inputs = {"input_ids": ids_BT.to(model.device), "attention_mask": mask_BT.to(model.device)}
    training = model.training
    model.train(False)
    expected_BC, logits_BC = model(**inputs).logits, candidate.to(cast(Any, model.device))(**inputs).logits
    model.train(training)
    spread = expected_BC.std() if config.problem_type == "regression" else expected_BC.new_ones(())
    return bool((expected_BC - logits_BC).abs().max() <= CLOSE * spread)
