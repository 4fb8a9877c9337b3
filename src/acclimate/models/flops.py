"""Floating point operations of training, by formula: multiplications and additions of matrix products, nothing else.

Kaplan et al. (2020), 2.1: 6 operations a weight and token (2 forward, 4 backward), plus attention's own products, which
grow with the square of the length. Embedding look-ups, normalisation, softmax and the optimiser are left out (together
a few per cent of a 12-layer model), as is what DeBERTa adds for relative positions; ModernBERT's local attention is
counted as if it were global.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn
from transformers import PreTrainedModel


def weights_by_part(
    model: PreTrainedModel, among: Callable[[nn.Parameter], bool] = lambda weight: True
) -> tuple[int, int]:
    """(weights met by every token, weights met by every prediction), matrices only, of those that are asked for.

    A pooler counts to the predictions: it sees one token a row.
    """
    body = head = 0
    base = model.base_model_prefix + "."
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.LSTM):
            own = (weight for weight in module.parameters(recurse=False) if weight.dim() > 1 and among(weight))
            weights = sum(weight.numel() for weight in own)
            if name.startswith(base) and "pooler" not in name:
                body += weights
            else:
                head += weights
    return body, head


def training_flops(model: PreTrainedModel, lengths: np.ndarray, *, predicted: int) -> float:
    """Operations of one forward and backward pass over rows of these lengths.

    lengths: (B,) tokens of each row. predicted: how many positions (or rows, for a classifier) the head sees.
    """
    body, head = weights_by_part(model)
    layers, hidden = model.config.num_hidden_layers, model.config.hidden_size
    squares = float(np.sum(np.asarray(lengths, dtype=np.float64) ** 2))
    # queries times keys and weights times values: 2 products of 2 T T D operations a layer, and twice that backwards
    attention = 12.0 * layers * hidden * squares
    return float(6.0 * (body * float(np.sum(lengths)) + head * predicted) + attention)
