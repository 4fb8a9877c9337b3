"""What a task is judged by: accuracy and F1 of single-label classification, over counts.

Every metric exists twice, from the same formula: over lists of labels, and over integer weights of the examples for
many resamples at once, which is what a bootstrap needs. Where a denominator is 0 the value is 0 (scikit-learn's
`zero_division=0`); macro-F1 is the mean over the classes that occur, in the gold labels or among the predictions.

Shape suffixes: n examples, R resamples, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from acclimate.tasks.task import UNCOUNTED, Codes, Metric, Values, encode


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The fraction of examples whose prediction is the gold label."""
    gold_n, predicted_n, _ = encode(gold, predicted)
    return float(np.mean(gold_n == predicted_n))


def micro_f1(gold: Sequence[str], predicted: Sequence[str], *, ignore: frozenset[str] = frozenset()) -> float:
    """F1 over all decisions together. It equals accuracy unless labels are ignored (scikit-learn's `labels=` the rest).

    An ignored label is a decision not to decide: predicting it costs recall, missing it costs precision.
    """
    gold_n, predicted_n, _ = encode(gold, predicted, ignore=ignore)
    hits = np.sum((gold_n == predicted_n) & (gold_n != UNCOUNTED))
    decisions = np.sum(gold_n != UNCOUNTED) + np.sum(predicted_n != UNCOUNTED)
    return float(_ratio(2.0 * hits, decisions))


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The unweighted mean of the classes' F1: a rare class counts as much as a frequent one."""
    gold_n, predicted_n, classes = encode(gold, predicted)
    gold_C = np.bincount(gold_n, minlength=classes)
    predicted_C = np.bincount(predicted_n, minlength=classes)
    hits_C = np.bincount(gold_n[gold_n == predicted_n], minlength=classes)
    return float(_macro_f1(hits_C, gold_C, predicted_C))


def weighted_accuracy(gold: Codes, predicted: Codes, weights: npt.NDArray[np.integer], classes: int) -> Values:
    """(R,) accuracy under weights (R, n); `classes` is there for the common signature."""
    return _ratio(weights @ (gold == predicted).astype(np.float64), weights.sum(axis=1))


def weighted_micro_f1(gold: Codes, predicted: Codes, weights: npt.NDArray[np.integer], classes: int) -> Values:
    """(R,) micro-F1 under weights (R, n); `classes` is there for the common signature."""
    hits = (gold == predicted) & (gold != UNCOUNTED)
    decisions = (gold != UNCOUNTED).astype(np.float64) + (predicted != UNCOUNTED)
    return _ratio(2.0 * (weights @ hits.astype(np.float64)), weights @ decisions)


def weighted_macro_f1(gold: Codes, predicted: Codes, weights: npt.NDArray[np.integer], classes: int) -> Values:
    """(R,) macro-F1 under weights (R, n), in each row over the classes that occur in that row."""
    # doubles take the product to BLAS and hold these counts exactly
    weights_Rn = weights.astype(np.float64)
    gold_nC = gold[:, None] == np.arange(classes)
    predicted_nC = predicted[:, None] == np.arange(classes)
    counts = weights_Rn @ np.hstack([gold_nC & predicted_nC, gold_nC, predicted_nC]).astype(np.float64)
    hits_RC, gold_RC, predicted_RC = np.split(counts, 3, axis=1)
    return _macro_f1(hits_RC, gold_RC, predicted_RC)


def _macro_f1(hits: npt.NDArray[np.number], gold: npt.NDArray[np.number], predicted: npt.NDArray[np.number]) -> Values:
    """(...,) from counts (..., C)."""
    f1 = _ratio(2.0 * hits, gold + predicted)
    return _ratio(f1.sum(axis=-1), np.count_nonzero(gold + predicted, axis=-1))


def _ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Values:
    """Elementwise quotient; 0 where the denominator is 0."""
    bottom = np.asarray(denominator, dtype=np.float64)
    top = np.asarray(numerator, dtype=np.float64)
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom != 0)


def micro_f1_without(*labels: str) -> Metric:
    """Micro-F1 over all classes but these, as relation extraction reports it for a negative class."""
    ignore = frozenset(labels)
    name = f"micro_f1 without {', '.join(sorted(ignore))}"
    return Metric(name, partial(micro_f1, ignore=ignore), weighted_micro_f1, ignore)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", accuracy, weighted_accuracy),
        Metric("micro_f1", micro_f1, weighted_micro_f1),
        Metric("macro_f1", macro_f1, weighted_macro_f1),
    )
}
