"""Scale outputs. A model learns numbers in standard deviations and predicts them in original units; the outputs of
classes are divided by a temperature (statistics/calibration.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FARTHEST = 1e5  # standard deviations that a mean may lie from 0; beyond that float32 outputs are too coarse


@dataclass(frozen=True)
class Scale:
    """The mean and standard deviation of the numbers to predict. Models learn (number - mean) / deviation, because
    rates and initial weights suit outputs of about 1.
    """

    mean: float
    deviation: float

    @property
    def back(self) -> Scale:
        """Return the inverse scale: its `fold` undoes the `fold` of this one."""
        return Scale(-self.mean / self.deviation, 1 / self.deviation)

    def standardised(self, numbers: npt.ArrayLike) -> np.ndarray:
        """Return (n,) float64: the numbers in standard deviations from the mean."""
        return (np.asarray(numbers, dtype=np.float64) - self.mean) / self.deviation


def scale_of(numbers: npt.ArrayLike) -> Scale:
    """Return the scale of these numbers. Raises ValueError if all are equal, or float32 weights cannot resolve them."""
    values = np.asarray(numbers, dtype=np.float64)
    if values.min() == values.max():
        raise ValueError(
            f"all {len(values):,} training examples have the same number, {values[0]:g}, so nothing can be learned. "
            "Check the column of the labels"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(np.mean(values)), float(np.std(values))
    largest = float(np.finfo(np.float32).max) / FARTHEST
    if not (math.isfinite(mean) and deviation < largest and abs(mean) < min(largest, FARTHEST * deviation)):
        raise ValueError(
            f"the numbers to predict have mean {mean:g} and standard deviation {deviation:g}, which float32 weights "
            "cannot resolve. Subtract a constant from them, or divide them by one"
        )
    return Scale(mean, deviation)


@contextmanager
def folded(model: PreTrainedModel, scale: Scale | None) -> Iterator[None]:
    """Let the model predict original units within the block; restore its weights bit by bit afterwards."""
    if scale is None:
        yield
        return
    layer = output_layer(model)
    before = [(parameter, parameter.detach().clone()) for parameter in (layer.weight, layer.bias)]
    fold(model, scale)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in before:
                parameter.copy_(value)


@torch.no_grad()
def fold(model: PreTrainedModel, scale: Scale) -> None:
    """Change the output layer of a model that predicts standardised numbers, so that it predicts original units."""
    layer = output_layer(model)
    layer.weight.mul_(scale.deviation)
    layer.bias.mul_(scale.deviation).add_(scale.mean)


@torch.no_grad()
def shift(model: PreTrainedModel, by_C: np.ndarray) -> None:
    """Add a number to each output of a model, (C,), in the biases of its output layer."""
    bias = output_layer(model).bias
    bias.add_(torch.from_numpy(by_C).to(bias))


@torch.no_grad()
def divide_outputs(model: PreTrainedModel, divisor: float) -> None:
    """Divide each output of a classifier, in the weights and biases of its output layer."""
    for parameter in _output_layers(model)[-1].parameters():
        parameter.div_(divisor)


def output_layer(model: PreTrainedModel) -> nn.Linear:
    """Return the last linear layer of the head. Raises ValueError if there is none or it has no bias."""
    layers = _output_layers(model)
    if not layers or layers[-1].bias is None:
        raise ValueError(
            f"the head of '{model.config.model_type}' does not end in a linear layer with a bias, which is needed "
            "to scale numbers, base rates and thresholds. Use another model"
        )
    return layers[-1]


def _output_layers(model: PreTrainedModel) -> list[nn.Linear]:
    """Return the linear layers of the head that are as wide as its outputs."""
    encoder = f"{model.base_model_prefix}."
    return [
        layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
        and not name.startswith(encoder)
        and layer.out_features == model.config.num_labels
    ]
