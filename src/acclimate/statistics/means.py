"""Weighted means over datasets, such as a benchmark's score: intervals, and the test that two models have equal ones.

Each dataset has different test items and fine-tuned models, so their scores are independent. For weights w_d

    Var = sum over d of w_d^2 Var_d                                          Var_d: statistics/variance.py
    1 / freedom = sum over d of (w_d^2 Var_d / Var)^2 / freedom_d            Satterthwaite (1946)

A difference of two models is taken on each dataset, paired over its items as `compare` pairs them. The interval of a
mean score combines the datasets' intervals, which are not symmetric, by the method of variance estimates recovery:

    low  = mean - sqrt(sum of w_d^2 (score_d - low_d)^2)
    high = mean + sqrt(sum of w_d^2 (high_d - score_d)^2)

with low_d and high_d from the t quantile of `freedom`. For one dataset this is the dataset's interval. Not
covered: which datasets the benchmark chose, and the seed of the model's pretraining.

References
  Satterthwaite (1946), An approximate distribution of estimates of variance components.
  Zou and Donner (2008), Construction of confidence limits about effect measures, Statistics in Medicine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.statistics.adaptation import adaptations_of, components_of_difference, components_of_score
from acclimate.statistics.significance import Comparison, Interval, cautions, possible
from acclimate.statistics.variance import Resampled, bounds, half_width, p_value, weighted
from acclimate.tasks.task import Values


def mean_interval(scores: Sequence[Resampled], weights: Sequence[float]) -> Interval:
    """Return the 95% interval of a model's weighted mean score, over seeds and test items of these datasets.

    scores   the model's scores on each dataset (`resample`), which may differ in metric and seeds
    weights  of the datasets in the same order; their sum is 1
    """
    _check(weights)
    means = [float(score.points_S.mean()) for score in scores]
    components = [components_of_score(score) for score in scores]
    freedom = weighted(components, weights).freedom
    squares = np.zeros(2)
    for score, mean, component, weight in zip(scores, means, components, weights, strict=True):
        ends = bounds(np.array(mean), component, least=score.least, freedom=freedom)
        squares += (weight * (np.array(ends) - mean)) ** 2
    mean = float(np.dot(weights, means))
    low, high = mean + np.array([-1.0, 1.0]) * np.sqrt(squares)
    caution = _caution(scores, [score.shares_Sn for score in scores], weights)
    return Interval(mean, float(low), float(high), caution, _fewest(scores))


def mean_difference(
    scores: Sequence[Resampled], references: Sequence[Resampled], weights: Sequence[float]
) -> Comparison:
    """Test that two models have the same expected weighted mean over datasets, with the 95% interval of the difference.

    scores, references  those of either model, as for `mean_interval`, on the same test items; paired over seeds on the
                        datasets where both have the same seeds

    The Comparison's fields about single seeds and variance components keep their defaults.
    """
    _check(weights)
    pairs = list(zip(scores, references, strict=True))
    total = weighted([components_of_difference(ours, theirs) for ours, theirs in pairs], weights)
    mean, reference_mean = (
        float(np.dot(weights, [score.points_S.mean() for score in side])) for side in (scores, references)
    )
    difference, half = mean - reference_mean, float(half_width(total))
    low, high = possible(difference, half, least=float(np.dot(weights, [score.least for score in scores])))
    shares = [_mean_share_1n(ours) - _mean_share_1n(theirs) for ours, theirs in pairs]
    return Comparison(
        scores[0].contestant,
        references[0].contestant,
        mean,
        reference_mean,
        low=low,
        high=high,
        p=float(p_value(difference, total)),
        p_seeds=None,
        test=f"Student's t over paired test items and the seeds of {len(pairs)} datasets",
        caution=_caution([*scores, *references], shares, weights),
        adaptations=_fewest([*scores, *references]),
    )


def _check(weights: Sequence[float]) -> None:
    assert abs(sum(weights) - 1) < 1e-9, f"weights of a mean sum to 1, not to {sum(weights)}"


def _mean_share_1n(score: Resampled) -> Values:
    return np.asarray(score.shares_Sn.mean(axis=0, keepdims=True))


def _fewest(scores: Sequence[Resampled]) -> int:
    """Return the least number of adaptations of those that were adapted, 0 if none was."""
    return min((number for score in scores if (number := adaptations_of(score))), default=0)


def _caution(scores: Sequence[Resampled], shares: Sequence[Values], weights: Sequence[float]) -> str:
    """Return the cautions about all items of all datasets together, each with its influence on the weighted mean."""
    influences = [weight * part.mean(axis=0) / part.shape[-1] for part, weight in zip(shares, weights, strict=True)]
    return cautions(min(len(set(score.seeds)) for score in scores), np.concatenate(influences)[None])
