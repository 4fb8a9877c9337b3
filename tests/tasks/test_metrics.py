from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from acclimate.tasks.metrics import METRICS, micro_f1_without
from acclimate.tasks.task import Metric

NAMES = np.array(["none", "cause", "treat", "prevent", "diagnose"])


def labels(seed: int, count: int = 200) -> tuple[list[str], list[str]]:
    """Gold and predicted labels that agree in about half of the cases; "diagnose" is rare."""
    random = np.random.default_rng(seed)
    gold = random.choice(5, size=count, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    predicted = np.where(random.random(count) < 0.5, gold, random.choice(5, size=count))
    return NAMES[gold].tolist(), NAMES[predicted].tolist()


def authority(metric: Metric, gold: list[str], predicted: list[str]) -> float:
    """The same by scikit-learn."""
    if metric.name == "accuracy":
        return float(accuracy_score(gold, predicted))
    kept = sorted((set(gold) | set(predicted)) - metric.ignore)
    average = metric.name.split("_")[0]
    return float(f1_score(gold, predicted, labels=kept, average=average, zero_division=0))


EVERY = [*METRICS.values(), micro_f1_without("none"), micro_f1_without("none", "cause")]
CASES = {
    "mixed": labels(0),
    "one class, all right": (["treat"] * 5, ["treat"] * 5),
    "one class, all wrong": (["treat"] * 5, ["cause"] * 5),
    "a class never predicted": (["treat", "cause", "cause"], ["cause", "cause", "cause"]),
    "a class predicted but never gold": (["cause", "cause", "treat"], ["cause", "prevent", "treat"]),
    "one example": (["treat"], ["treat"]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_metrics_equal_scikit_learn(metric: Metric, case: str) -> None:
    gold, predicted = CASES[case]
    assert metric.compute(gold, predicted) == pytest.approx(authority(metric, gold, predicted), abs=1e-12)


def test_micro_f1_of_ignored_labels_only_is_zero() -> None:
    assert micro_f1_without("none").compute(["none"] * 3, ["none"] * 3) == 0.0


def test_micro_f1_equals_accuracy_where_nothing_is_ignored() -> None:
    gold, predicted = labels(3)
    assert METRICS["micro_f1"].compute(gold, predicted) == pytest.approx(METRICS["accuracy"].compute(gold, predicted))


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_weighted_equals_computing_on_repeated_examples(metric: Metric) -> None:
    # few examples, so that resamples lack whole classes
    gold, predicted = labels(1, count=12)
    weights = np.random.default_rng(2).multinomial(12, np.full(12, 1 / 12), size=50)
    gold_codes, predicted_codes, classes = metric.encode(gold, predicted)
    values = metric.weighted(gold_codes, predicted_codes, weights, classes)
    expected = [metric.compute(np.repeat(gold, row).tolist(), np.repeat(predicted, row).tolist()) for row in weights]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_a_resample_of_weight_zero_is_zero(metric: Metric) -> None:
    gold_codes, predicted_codes, classes = metric.encode(*labels(1, count=4))
    assert metric.weighted(gold_codes, predicted_codes, np.zeros((2, 4), dtype=int), classes).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_metrics_refuse_nothing_and_unequal_numbers(metric: Metric) -> None:
    with pytest.raises(ValueError, match="no examples"):
        metric.compute([], [])
    with pytest.raises(ValueError, match="2 gold labels, but 1 predictions"):
        metric.compute(["cause", "treat"], ["cause"])


def test_metrics_travel_to_other_processes() -> None:
    for metric in EVERY:
        assert pickle.loads(pickle.dumps(metric)).compute(*labels(0)) == metric.compute(*labels(0))
