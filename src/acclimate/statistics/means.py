"""Weighted means over datasets, such as a benchmark's score: intervals, and the test that two models have equal ones.

Each dataset has different test items and fine-tunings. Where these start from one checkpoint, which is then taken as it
is, the datasets' scores are independent. For weights w_d

    Var = sum over d of w_d^2 Var_d                                          Var_d: statistics/variance.py
    1 / freedom = sum over d of (w_d^2 Var_d / Var)^2 / freedom_d            Satterthwaite (1946)

Where the model was adapted several times, each adaptation is fine-tuned on all datasets, which share its luck. The runs
are then paired over datasets: run k of the mean is the sum of w_d times run k of dataset d, which has the same seed and
adaptation, and Var is that of these runs (statistics/adaptation.py), with as many adaptations as one dataset has. The
items' part is the sum over datasets as above. Where the datasets' runs are no such pairs, because they have different
seeds or adaptations, the parts over adaptations and seeds are taken to be wholly shared, which is the most that they
can be: their standard deviations add up.

A difference of two models is taken on each dataset, paired over its items as `compare` pairs them. The interval of a
mean score combines the datasets' intervals, which are not symmetric, by the method of variance estimates recovery:

    low  = mean - sqrt(sum of w_d^2 (score_d - low_d)^2)
    high = mean + sqrt(sum of w_d^2 (high_d - score_d)^2)

with low_d and high_d from the t quantile of `freedom`. For one dataset this is the dataset's interval. Where runs are
paired over datasets, both widths are multiplied by the ratio of the standard deviations, paired and not. Not covered:
which datasets the benchmark chose, and adapting where there is one adaptation.

References
  Satterthwaite (1946), An approximate distribution of estimates of variance components.
  Zou and Donner (2008), Construction of confidence limits about effect measures, Statistics in Medicine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.statistics.adaptation import (
    RunLayout,
    adaptations_of,
    components_of_difference,
    components_of_runs,
    components_of_score,
    layout,
    pairs_of_runs,
)
from acclimate.statistics.significance import Comparison, Interval, cautions, possible
from acclimate.statistics.variance import Components, Resampled, Total, bounds, half_width, p_value, quotient, weighted
from acclimate.tasks.task import Values


def mean_interval(scores: Sequence[Resampled], weights: Sequence[float]) -> Interval:
    """Return the 95% interval of a model's weighted mean score, over seeds and test items of these datasets.

    scores   the model's scores on each dataset (`resample`), which may differ in metric and seeds
    weights  of the datasets in the same order; their sum is 1
    """
    _check(weights)
    means = [float(score.points_S.mean()) for score in scores]
    components = [components_of_score(score) for score in scores]
    total, apart = _total(components, [_runs(score) for score in scores], weights), weighted(components, weights)
    wider = float(total.variance / apart.variance) if apart.variance > 0 else 1.0
    squares = np.zeros(2)
    for score, mean, component, weight in zip(scores, means, components, weights, strict=True):
        ends = bounds(np.array(mean), component, least=score.least, freedom=total.freedom)
        squares += (weight * (np.array(ends) - mean)) ** 2
    mean = float(np.dot(weights, means))
    low, high = mean + np.array([-1.0, 1.0]) * np.sqrt(wider * squares)
    caution = _caution(scores, [score.shares_Sn for score in scores], weights)
    return Interval(mean, float(low), float(high), caution, _fewest(scores))


def mean_difference(
    scores: Sequence[Resampled], references: Sequence[Resampled], weights: Sequence[float]
) -> Comparison:
    """Test that two models have the same expected weighted mean over datasets, with the 95% interval of the difference.

    scores, references  those of either model, as for `mean_interval`, on the same test items; paired over seeds on the
                        datasets where both have the same seeds, and over datasets where there are several adaptations

    The Comparison's fields about single seeds and variance components keep their defaults.
    """
    _check(weights)
    pairs = list(zip(scores, references, strict=True))
    components = [components_of_difference(ours, theirs) for ours, theirs in pairs]
    total = _total(components, [_runs(ours, theirs) for ours, theirs in pairs], weights)
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


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of one dataset, of a model or of the difference of two.

    names  (seed, adaptation) of each run; None if the runs of two models are no pairs
    """

    points_N: Values
    shares_Nn: Values
    layout: RunLayout | None
    names: tuple[tuple[int, int], ...] | None


def _runs(score: Resampled, reference: Resampled | None = None) -> _Runs | None:
    """Return the runs of a model, or of its differences from a reference; None if neither was adapted several times."""
    leading = max((score, reference or score), key=adaptations_of)
    if adaptations_of(leading) < 2:
        return None
    names = tuple(zip(leading.seeds, leading.adaptations, strict=True))
    if reference is None:
        return _Runs(score.points_S, score.shares_Sn, layout(score.adaptations, score.seeds), names)
    pairs = pairs_of_runs(score, reference)
    return _Runs(score.points_S, score.shares_Sn, None, None) if pairs is None else _Runs(*pairs, names)


def _total(components: Sequence[Components], runs: Sequence[_Runs | None], weights: Sequence[float]) -> Total:
    """Return the variance of the weighted mean. components, runs: of each dataset"""
    adapted = [dataset for dataset in runs if dataset is not None]
    if not adapted or len(components) == 1:
        return weighted(components, weights)
    names = adapted[0].names
    if names is None or len(adapted) < len(runs) or any(dataset.names != names for dataset in adapted):
        return _wholly_shared(components, weights)
    counts = [dataset.shares_Nn.shape[-1] for dataset in adapted]
    whole = sum(counts)
    # scaled so that the items' squares over whole (whole - 1) are the datasets' over n (n - 1), times w^2
    scales = [
        weight * np.sqrt(whole * (whole - 1) / (count * (count - 1)))
        for weight, count in zip(weights, counts, strict=True)
    ]
    points_N = np.sum([weight * dataset.points_N for weight, dataset in zip(weights, adapted, strict=True)], axis=0)
    shares_Nn = np.concatenate(
        [scale * dataset.shares_Nn for scale, dataset in zip(scales, adapted, strict=True)], axis=-1
    )
    parts = np.array(
        [(weight**2) * float(component.items) for weight, component in zip(weights, components, strict=True)]
    )
    shares = quotient(parts, parts.sum()) if parts.sum() > 0 else np.full(len(parts), 1 / len(parts))
    item_freedom = np.asarray(1.0 / np.sum(shares**2 / (np.array(counts) - 1)))  # Satterthwaite's, over datasets
    assert adapted[0].layout is not None
    shared = components_of_runs(points_N, shares_Nn, adapted[0].layout, item_freedom=item_freedom)
    return Total(shared.variance, shared.freedom)


def _wholly_shared(components: Sequence[Components], weights: Sequence[float]) -> Total:
    """Return the variance of a weighted mean if chance over adaptations and seeds is the same on all datasets."""
    pairs = list(zip(weights, components, strict=True))
    deviations = [weight * np.sqrt(np.maximum(component.seeds, component.residual)) for weight, component in pairs]
    chance = np.sum(deviations, axis=0) ** 2
    items = np.sum([weight**2 * component.items for weight, component in pairs], axis=0)
    return Total(chance + items, np.min([component.freedom for component in components], axis=0))


def _check(weights: Sequence[float]) -> None:
    assert abs(sum(weights) - 1) < 1e-9, f"the weights of a mean must sum to 1, not {sum(weights)}"


def _mean_share_1n(score: Resampled) -> Values:
    return np.asarray(score.shares_Sn.mean(axis=0, keepdims=True))


def _fewest(scores: Sequence[Resampled]) -> int:
    """Return the least number of adaptations of those that were adapted, 0 if none was."""
    return min((number for score in scores if (number := adaptations_of(score))), default=0)


def _caution(scores: Sequence[Resampled], shares: Sequence[Values], weights: Sequence[float]) -> str:
    """Return the cautions about all items of all datasets together, each with its influence on the weighted mean."""
    influences = [weight * part.mean(axis=0) / part.shape[-1] for part, weight in zip(shares, weights, strict=True)]
    return cautions(min(len(set(score.seeds)) for score in scores), np.concatenate(influences)[None])
