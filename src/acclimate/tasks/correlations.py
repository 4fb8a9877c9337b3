"""Correlations of predicted with gold numbers, as functions of sums over the items; 0 where one side does not vary.

Shape suffixes: n items, b of them at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.core.types import Label
from acclimate.tasks.sums import divided, means, ratio
from acclimate.tasks.task import Values

NO_SPREAD = 1e-12  # of a second moment: what rounding leaves of a variance that is 0
BLOCK = 1_000_000  # comparisons of two items at a time: 8 MB


def moments(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 6) for Pearson's correlation: 1, x, y, x^2, y^2 and x y of the two numbers.

    Both are first moved to a mean of 0 and scaled to at most 1, which changes no correlation and keeps the digits that
    the difference of sums would lose. Raises ValueError for what is no finite number.
    """
    x_n, y_n = (_centred(side) for side in _numbers(gold, predicted))
    return np.stack([np.ones_like(x_n), x_n, y_n, x_n * x_n, y_n * y_n, x_n * y_n], axis=1)


def pearson(sums: Values) -> Values:
    """(..., 6) -> (...): Pearson's r."""
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    x_spread, y_spread = xx - divided(x * x, count), yy - divided(y * y, count)
    varies = (x_spread > NO_SPREAD * xx) & (y_spread > NO_SPREAD * yy)
    # square roots first: a product of tiny spreads vanishes
    bottom = np.sqrt(np.where(varies, x_spread, 0.0)) * np.sqrt(np.where(varies, y_spread, 0.0))
    return np.clip(divided(xy - divided(x * y, count), bottom), -1.0, 1.0)


def pseudo_values(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for Spearman's correlation: each item's pseudo-value, and 1.

    Ranks depend on the sample, so Spearman's rho is no function of sums. Its jackknife pseudo-values,
    n rho - (n - 1) rho without the item, are numbers of an item; moved by a constant, so that their mean is rho. Then
    the value of the sample is exact, and so is the part that each item has in it when it is left out; a resample that
    draws items again is approximated to first order. (Ranks taken once would not be: at a correlation of .9 their
    standard error is 6% too small.) Costs n^2 comparisons. Raises ValueError for what is no finite number.
    """
    sides = [_ranks(side) for side in _numbers(gold, predicted)]
    count = len(gold)
    whole = _cosine(*(ranks_n - (count + 1) / 2 for ranks_n in sides))
    without_n = np.zeros(count)
    step = max(1, BLOCK // max(count, 1))
    for begin in range(0, count, step):
        rows_b = np.arange(begin, min(begin + step, count))
        left = []
        for ranks_n in sides:
            # who ranks above the item moves down by one, who ties with it by a half; the mean is then n / 2
            moved_bn = ranks_n - np.heaviside(ranks_n - ranks_n[rows_b, None], 0.5) - count / 2
            moved_bn[np.arange(len(rows_b)), rows_b] = 0.0
            left.append(moved_bn)
        without_n[rows_b] = _cosine(*left)
    pseudo_n = count * whole - (count - 1) * without_n
    return means(pseudo_n + whole - pseudo_n.sum() / max(count, 1))


def spearman(sums: Values) -> Values:
    """(..., 2) -> (...): the mean of the pseudo-values."""
    return np.clip(ratio(sums), -1.0, 1.0)


def moments_and_pseudo_values(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 8) for the mean of Pearson's and Spearman's correlations."""
    return np.concatenate([moments(gold, predicted), pseudo_values(gold, predicted)], axis=1)


def pearson_and_spearman(sums: Values) -> Values:
    """(..., 8) -> (...): the mean of the two, as GLUE averages them for STS-B."""
    return (pearson(sums[..., :6]) + spearman(sums[..., 6:])) / 2


def _numbers(gold: Sequence[Label], predicted: Sequence[Label]) -> tuple[Values, Values]:
    for side, labels in (("gold", gold), ("predicted", predicted)):
        for label in labels:
            if isinstance(label, str | tuple) or not np.isfinite(label):
                raise ValueError(
                    f"the {side} label {label!r} is no finite number, which a correlation needs; correct it"
                )
    return np.array(gold, dtype=np.float64), np.array(predicted, dtype=np.float64)


def _centred(values_n: Values) -> Values:
    """(n,) numbers less their mean, divided by the largest that is left."""
    # by a power of two, which rounds nothing: sums of huge numbers would overflow, squares of tiny ones vanish
    values_n = np.ldexp(values_n, -int(np.frexp(values_n)[1].max(initial=-1074)))
    centred_n = values_n - values_n.sum() / max(len(values_n), 1)
    largest = float(np.abs(centred_n).max(initial=0.0))
    # what rounding leaves of a constant is no spread
    return centred_n / largest if largest > NO_SPREAD else np.zeros_like(centred_n)


def _ranks(values_n: Values) -> Values:
    """(n,) ranks from 1, the mean of theirs for equal numbers."""
    _, inverse_n, counts = np.unique(values_n, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse_n]


def _cosine(x: Values, y: Values) -> Values:
    """(..., n) and (..., n) -> (...): 0 where one of them is 0 throughout."""
    return divided((x * y).sum(axis=-1), np.sqrt((x * x).sum(axis=-1)) * np.sqrt((y * y).sum(axis=-1)))
