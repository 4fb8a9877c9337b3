"""The mean score of repeated cross-validation: its interval, and the test that two contestants have the same.

K folds, R times divided anew: each of the n rows is predicted R times, by models trained on the n (K - 1) / K rows of
the other folds. What is estimated is the expected score of a model trained on so many rows, over training sets, seeds
and test rows. No unbiased estimate of the mean's variance exists (Bengio and Grandvalet, 2004), as the K R training
sets overlap and each row is in K - 1 of K of them. Two estimates are here, and neither uses a test set.

By folds (Nadeau and Bengio, 2003, section 4, for J random splits; Bouckaert and Frank, 2004, for repeated K folds):

    Var = (1 / J + n_test / n_train) S^2      J = K R scores of folds, S^2 their sample variance, n_test / n_train =
    t with J - 1 degrees of freedom           1 / (K - 1)

By rows, which is what `row_interval` and a race with --folds do: the metric is computed on all n predictions of a
repeat, and its jackknife gives each row its share in it (variance.py).

    Var = K / (K - 1) v / n       v: variance over rows of a repeat's shares, the mean over repeats
    t with n - 1 degrees of freedom

It is the first one for R without end, where 1 / J is 0, if S^2 comes from rows: a fold of n / K rows has S^2 = v K / n,
and Var = 1 / (K - 1) v K / n. The first term, 1 / J, is for test sets that are drawn independently; those of K folds
never overlap. It is narrower, by 40% with one repeat and 10% with three, and needs no score of a fold, which macro-F1
and correlations do not have on ten rows. More repeats make the mean better, but v does not say by how much, so the
interval stays as wide and covers more often: take FEWEST_REPEATS or more.

A score from 0 to 1 has Wilson's interval of as many effective rows as have this variance, a correlation Fisher's
(variance.py::bounds). For two contestants with the same folds, v is of the differences of their shares.
`interval_of_repeats` and `compare_of_repeats` do so from resampled scores, in which a repeat takes the place of a seed.

Simulated, K = 5, R = 1 to 5, n = 50 to 200, learners stable and not: benchmarks/reports/2026-11-23-folds.md.

References
  Nadeau and Bengio (2003), Inference for the generalization error, Machine Learning 52.
  Bengio and Grandvalet (2004), No unbiased estimator of the variance of K-fold cross-validation, JMLR 5.
  Bouckaert and Frank (2004), Evaluating the replicability of significance tests for comparing learning algorithms.

Shape suffixes: R repeats, K folds, n rows; S, seeds, are repeats here. `...`: simulated studies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.core.types import Label
from acclimate.statistics.adaptation import adaptations_of
from acclimate.statistics.significance import FEWEST_SEEDS, Comparison, Interval, cautions, possible
from acclimate.statistics.variance import Components, Resampled, bounds, half_width, jackknife, p_value
from acclimate.tasks.task import Metric, Values

FEWEST_REPEATS = 3  # with fewer, simulated intervals cover too seldom on 50 rows


def row_interval(
    gold: Sequence[Label], predicted: Sequence[Sequence[Label]], metric: Metric, *, folds: int
) -> Interval:
    """Return the 95% interval of the expected score of a model trained on (folds - 1) / folds of the rows.

    gold       (n,) labels of all rows
    predicted  R repeats of (n,) labels, each row predicted by the model that was trained on the other folds

    Raises ValueError for no repeat, fewer than two folds, and fewer rows than folds.
    """
    _check(len(predicted), len(gold), folds)
    pairs = [jackknife(metric.statistics(gold, labels), metric.value) for labels in predicted]
    points_R, shares_Rn = (np.array(side) for side in zip(*pairs, strict=True))
    repeats = tuple(range(len(predicted)))
    return interval_of_repeats(Resampled("", repeats, points_R, shares_Rn, metric.least), folds=folds)


def interval_of_repeats(resampled: Resampled, *, folds: int) -> Interval:
    """Return what `row_interval` does, from resampled scores of all rows, a score for each repeat."""
    shares_Rn, mean = resampled.shares_Sn, resampled.points_S.mean()
    low, high = bounds(mean, components_of_rows(shares_Rn, folds=folds), least=resampled.least)
    return Interval(float(mean), float(low), float(high), _cautions(shares_Rn), adaptations_of(resampled))


def compare_of_repeats(contestant: Resampled, reference: Resampled, *, folds: int) -> Comparison:
    """Test that two contestants have the same expected score, from resampled scores of the same repeats and folds.

    There is no test over repeats alone, and no probability that one new run scores higher: repeats have the same rows.
    """
    mean, reference_mean = float(contestant.points_S.mean()), float(reference.points_S.mean())
    shares_Rn = contestant.shares_Sn - reference.shares_Sn
    components = components_of_rows(shares_Rn, folds=folds)
    low, high = possible(mean - reference_mean, float(half_width(components)), least=contestant.least)
    return Comparison(
        contestant.contestant,
        reference.contestant,
        mean,
        reference_mean,
        low=low,
        high=high,
        p=float(p_value(mean - reference_mean, components)),
        p_seeds=None,
        test="Student's t over paired rows of a repeated cross-validation",
        variance_items=float(components.items),
        items=components.count,
        seeds=len(contestant.seeds),
        caution=_cautions(shares_Rn),
        adaptations=min(filter(None, map(adaptations_of, (contestant, reference))), default=0),
    )


def _cautions(shares_Rn: Values) -> str:
    """Return why interval and p may be unreliable, one reason a line."""
    repeats = shares_Rn.shape[-2]
    # the caution of too few seeds is not for repeats, whose variance is over rows
    reasons = [reason for reason in [cautions(FEWEST_SEEDS, shares_Rn)] if reason]
    if repeats < FEWEST_REPEATS:
        reasons.append(
            f"Repeats of the cross-validation: {repeats}. In simulations on 50 rows, intervals of one repeat "
            f"covered in as few as 90%. Use at least {FEWEST_REPEATS}."
        )
    return "\n".join(reasons)


def components_of_rows(shares_Rn: Values, *, folds: int) -> Components:
    """Return the variance by rows, from shares (..., R, n) or from the differences of two contestants' shares.

    All of it stands as the items' part; `p_value` and `half_width` of variance.py take it.
    """
    count = shares_Rn.shape[-1]
    alone = shares_Rn.var(axis=-1, ddof=1).mean(axis=-1) / count
    nothing = np.zeros_like(alone)
    return Components(nothing, folds / (folds - 1) * alone, np.ones_like(alone), count, nothing)


def _check(repeats: int, rows: int, folds: int) -> None:
    if repeats < 1:
        raise ValueError("no repeat of the cross-validation. Give the predictions of at least one")
    if not 2 <= folds <= rows:
        raise ValueError(f"folds={folds}: choose 2 to {rows}, the number of rows")
