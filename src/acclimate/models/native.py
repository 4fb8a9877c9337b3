"""Convert a classifier that reads a state by one linear layer into its family's own class in transformers.

A family's classifier puts a dense layer and an activation f between the state h of a text and the output layer:
BERT and RoBERTa have tanh, ELECTRA, DeBERTa and EuroBERT GELU, DistilBERT ReLU, ModernBERT GELU and a LayerNorm. The
weights below make them linear, so that the class of transformers computes the logits W h + b. Each row of W is divided
by its norm first; u is such a row.

tanh       f(e u h) / e = u h up to a factor of 1 - (e u h)^2 / 3, with e = 2^-13 or more
GELU, ReLU f(u h) - f(-u h) = u h for any f(x) = x g(x) with g(x) + g(-x) = 1; it takes two rows of the dense layer
LayerNorm  after GELU, the rows of weights 0 dominate the variance: one has the bias K, all others the bias of GELU's
           least value, -0.17. K makes their mean 0, so the norm only divides by their standard deviation. The rows of u
           are multiplied by K / 2^12 first, so that they change that deviation by a factor of 1 + (u h)^2 / 2^24

No table of families: every construction is tried and compared with the classifier on random tokens. It has to have the
same logits in float32. In float16 no logit may overflow, and bfloat16 may be as coarse as for the classifier itself.

Shape suffixes: B rows, T tokens, D hidden, C outputs.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoModelForSequenceClassification

from acclimate.models.light import bottleneck_of
from acclimate.models.task_layers import pooling_of, sequence_layer_of, set_pooling

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

SLOPE = 2.0**-13  # e of tanh, unless a row's norm divided by it would be too large for float16
SHARE = 2.0**-12  # of K, by which u is multiplied before a LayerNorm
LEAST = -0.7517916  # where GELU has its least value
MOST_WEIGHT = torch.finfo(torch.float16).max
# largest difference of logits, by which a probability changes by half of it at most; of a regression, as a share of the
# spread of its numbers
CLOSE = 1e-4
COARSE = 2.0**-7  # rounding of bfloat16, as a share of the largest logit
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
    native_config = copy.deepcopy(config)
    set_pooling(native_config, "pooler")
    if name := names[pooling_of(config)]:
        setattr(native_config, _FIELD, name)
    if hasattr(native_config, "classifier_bias"):
        native_config.classifier_bias = True
    candidate = _native_candidate(model, native_config)
    prefix = f"{candidate.base_model_prefix}."
    layers = [
        layer
        for name, layer in candidate.named_modules()
        if not name.startswith(prefix) or name.startswith(f"{prefix}pooler")
    ]
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    norms = [layer for layer in layers if isinstance(layer, nn.LayerNorm)]
    if len(linears) != 2 or len(norms) > 1 or linears[0].out_features != linears[1].in_features:
        return None
    for express in (_fill_through_tanh, _fill_through_difference):
        has_room = express(linears[0], linears[1], norms, weight_CD, bias_C)
        if has_room and linears[1].weight.abs().max() < MOST_WEIGHT and _same_logits(model, candidate):
            return candidate
    return None


def _native_candidate(model: PreTrainedModel, config: PreTrainedConfig) -> PreTrainedModel:
    auto: Any = AutoModelForSequenceClassification
    candidate: PreTrainedModel = auto.from_config(config, dtype=torch.float32)
    candidate.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    candidate.train(False)
    return candidate


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
        parameters.bias[: len(bias)] = bias


def _fill_through_tanh(
    dense: nn.Linear, output: nn.Linear, norms: list[nn.LayerNorm], weight_CD: Tensor, bias_C: Tensor
) -> bool:
    """Fill the layers; return False if they have no room."""
    count, width = weight_CD.shape
    if norms or dense.bias is None:
        return False
    unit_CD, norm_C = _rows(weight_CD)
    if count > width:  # the dense layer passes the state on
        unit_CD, output_CD = torch.eye(width, dtype=weight_CD.dtype), weight_CD
    else:
        output_CD = torch.diag(norm_C)
    most = max(float(output_CD.abs().max()), 1.0)
    slope = max(SLOPE, 2.0 ** math.ceil(math.log2(1.5 * most / MOST_WEIGHT)))
    _fill(dense, slope * unit_CD, torch.zeros(len(unit_CD)))
    _fill(output, output_CD / slope, bias_C)
    return True


def _fill_through_difference(
    dense: nn.Linear, output: nn.Linear, norms: list[nn.LayerNorm], weight_CD: Tensor, bias_C: Tensor
) -> bool:
    """Fill the layers; return False if they have no room."""
    count, width = len(weight_CD), dense.out_features
    fillers = width - 2 * count - len(norms)  # rows of weights 0 that no constant takes
    if fillers < len(norms) or dense.bias is None:
        return False
    unit_CD, norm_C = _rows(weight_CD)
    scale = 1.0
    for norm in norms:
        least = float(functional.gelu(torch.tensor(LEAST, dtype=torch.float64)))
        constant = -fillers * least
        unit_CD, scale = SHARE * constant * unit_CD, ((constant**2 + fillers * least**2) / width) ** 0.5
        scale /= SHARE * constant
        with torch.no_grad():
            dense.bias.fill_(LEAST)
            dense.bias[-1] = constant
            norm.weight.fill_(1.0)
            if norm.bias is not None:
                norm.bias.zero_()
    _fill(dense, torch.cat([unit_CD, -unit_CD]), torch.zeros(2 * count))
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
    candidate.to(cast(Any, model.device))

    def logits(classifier: PreTrainedModel, dtype: torch.dtype) -> Tensor:
        converted: Any = classifier if dtype == classifier.dtype else copy.deepcopy(classifier).to(cast(Any, dtype))
        return cast(Tensor, converted(**inputs).logits.float())

    expected_BC = logits(model, torch.float32)
    spread = expected_BC.std() if config.problem_type == "regression" else expected_BC.new_ones(())
    same = bool((expected_BC - logits(candidate, torch.float32)).abs().max() <= CLOSE * spread)
    for dtype in (torch.float16, torch.bfloat16) if same else ():
        errors = [(expected_BC - logits(classifier, dtype)).abs().max() for classifier in (model, candidate)]
        if not errors[0].isfinite():  # the encoder itself overflows
            continue
        coarse = 2 * errors[0] + COARSE * expected_BC.abs().max()
        same = same and bool(errors[1].isfinite() if dtype == torch.float16 else errors[1] <= coarse)
    model.train(training)
    return same
