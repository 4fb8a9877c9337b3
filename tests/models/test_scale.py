import numpy as np
import pytest
import torch

from acclimate.models.classifier import load_classifier
from acclimate.models.scale import Scale, output_layer, scale_of


def test_a_head_without_a_last_linear_layer_cannot_predict_numbers(checkpoint):
    model = load_classifier(checkpoint, (), kind="score", seed=1)
    model.classifier = torch.nn.Linear(32, 1, bias=False)
    with pytest.raises(ValueError, match="does not end in a linear layer with a bias"):
        output_layer(model)


def test_the_scale_is_mean_and_standard_deviation():
    numbers = [1.0, 2.0, 6.0]
    scale = scale_of(numbers)
    assert scale == Scale(3.0, pytest.approx(np.sqrt(14 / 3)))
    again = scale.standardised(numbers)
    assert (again.mean(), again.std()) == pytest.approx((0, 1))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0.1] * 9, "all 9 training examples have the same number, 0.1"),
        ([1e9, 1e9 + 1], "mean 1e.09 and standard deviation 0.5, which float32 weights cannot resolve. Subtract"),
        ([1e308, -1e308], "cannot resolve"),
    ],
)
def test_numbers_that_float32_cannot_tell_apart_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        scale_of(numbers)
