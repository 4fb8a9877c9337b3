"""Means over datasets, such as a benchmark's score: their intervals, and the test that two models have the same.

Datasets have test items and trained models of their own, so that the variance of a weighted sum is the sum of
weight^2 variance, and its degrees of freedom are Satterthwaite's, from those of each dataset (spread.py):

    1 / freedom = sum of (weight^2 variance of the dataset / variance)^2 / freedom of the dataset

A difference of two models is taken on each dataset, over the same items, as `compare` does. The interval of a mean has
the ends of the datasets' own intervals, with the quantile of these degrees of freedom, put together as independent
errors are: sqrt(sum of (weight (score - end))^2) away from the mean. Of one dataset both are its own. They say nothing
of what was not drawn: which datasets the benchmark has, and the model's pretraining.

Source of the ends: Zou and Donner, Construction of confidence limits about effect measures (Statistics in Medicine
2008), who call it recovering variance estimates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.statistics.significance import Comparison, Interval, cautions, possible, spread_of_difference
from acclimate.statistics.variance import Resampled, bounds, half_width, p_value, spread_of, summed
from acclimate.tasks.task import Values


def mean_interval(draws: Sequence[Resampled], weights: Sequence[float]) -> Interval:
    """The 95% interval of one model's weighted mean score over datasets; over seeds and test items, not over datasets.

    draws    the model's scores on each dataset (resampling.resample), which may have different metrics and seeds
    weights  of the datasets, in step; their sum is 1
    """
    _check(weights)
    means = [float(own.points_S.mean()) for own in draws]
    spreads = [spread_of(own.points_S, own.shares_Sn) for own in draws]
    freedom = summed(spreads, weights).freedom
    squares = np.zeros(2)
    for own, mean, spread, weight in zip(draws, means, spreads, weights, strict=True):
        ends = bounds(np.array(mean), spread, least=own.least, freedom=freedom)
        squares += (weight * (np.array(ends) - mean)) ** 2
    mean = float(np.dot(weights, means))
    low, high = mean + np.array([-1.0, 1.0]) * np.sqrt(squares)
    return Interval(mean, float(low), float(high), _caution(draws, [own.shares_Sn for own in draws], weights))


def mean_difference(
    draws: Sequence[Resampled], references: Sequence[Resampled], weights: Sequence[float]
) -> Comparison:
    """Test that two models have the same expected weighted mean over datasets, with the 95% interval of the difference.

    draws, references  as for `mean_interval`, of either model, on the same test items; paired over seeds on each
                       dataset where both have the same
    Of the Comparison, what is said of single seeds is left at None or 0.
    """
    _check(weights)
    pairs = list(zip(draws, references, strict=True))
    spreads = [spread_of_difference(ours, theirs) for ours, theirs in pairs]
    total = summed(spreads, weights)
    mean, reference_mean = (
        float(np.dot(weights, [own.points_S.mean() for own in side])) for side in (draws, references)
    )
    difference, half = mean - reference_mean, float(half_width(total))
    least = float(np.dot(weights, [own.least for own in draws]))
    low, high = possible(difference, half, least=least)
    shares = [_mean_1n(ours) - _mean_1n(theirs) for ours, theirs in pairs]
    return Comparison(
        draws[0].contestant,
        references[0].contestant,
        mean,
        reference_mean,
        low=low,
        high=high,
        p=float(p_value(difference, total)),
        p_seeds=None,
        test=f"Student's t over paired test items and the seeds of {len(pairs)} datasets",
        caution=_caution([*draws, *references], shares, weights),
    )


def _check(weights: Sequence[float]) -> None:
    assert abs(sum(weights) - 1) < 1e-9, f"weights of a mean sum to 1, not to {sum(weights)}"


def _mean_1n(own: Resampled) -> Values:
    return np.asarray(own.shares_Sn.mean(axis=0, keepdims=True))


def _caution(draws: Sequence[Resampled], shares: Sequence[Values], weights: Sequence[float]) -> str:
    """As of one dataset: of all items together, each by what it does to the mean."""
    parts = [weight * own.mean(axis=0) / own.shape[-1] for own, weight in zip(shares, weights, strict=True)]
    return cautions(min(len(own.seeds) for own in draws), np.concatenate(parts)[None])
