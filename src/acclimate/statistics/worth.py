"""What adapting is worth in labels, from the learning curves of the untouched and of an adapted model.

A learning curve is the expected score of a model that learns from n labelled rows, over samples of n rows, over seeds
and over test items. With N rows in all, and f_better the curve that is higher at N and f_other the lower one, the
estimate is the number of labels with which the better model scores as the other one does with all:

    labels = f_better^-1(f_other(N))                gain = log2(N / labels), negative where untouched is the better one

Both curves end at N, so nothing is extrapolated. At one gain less than 0 adapting costs labels; at gain 1 it is worth
as much as labelling twice as many rows.

Estimate. Scores are measured at K sizes n_1 < ... < n_K = N, for R draws of nested subsets (reading/splitting.py), the
same for both models. Their means over draws m_k are made monotone by isotonic regression,

    f(n_k) = max over i <= k of min over j >= k of the mean of m_i ... m_j

and f is linear in log n between sizes. f^-1(y) is the least n with f(n) >= y. Where y lies below f(n_1) it is n_1, and
the truth may be fewer labels: `Worth.beyond`.

Interval: percentiles of B bootstrap replicates of all means m_ck (c: the model). A replicate adds to the means

    draws   t sum over r of z_r (s_ckr - m_ck) / sqrt(R (R - 1))     z_r standard normal, the same for all c and k
    items   sum over i of z_i share_cki / n_items                     share: jackknife influence (variance.py)
    rows    t (u_c), of the covariance  n_(K-1) / (N - n_(K-1)) (C_(K-1) - C_K), the same for all k

It is a bootstrap with normal multipliers (Wu, 1986): for sums it has the covariance of resampling draws and items, and
it does not leave out rare classes. t is sqrt((R - 1) / chi-square with R - 1 degrees of freedom), one for each
replicate, as the covariances come from R draws. The last part is chance over which N rows were labelled. All draws are
subsets of the same N rows, so they do not show it at N; subsets of n rows show it by the rule of the jackknife that
deletes N - n rows (Shao and Wu, 1989). C_k is the covariance over draws of the two models' scores at size n_k. That of
C_K, where all draws have the same rows, comes from the seeds alone. Negative eigenvalues count as 0.

Simulated: tests/statistics/test_worth.py and benchmarks/learning_curve.py.

References
  Shao and Wu (1989), A general theory for jackknife variance estimation, Annals of Statistics 17.
  Wu (1986), Jackknife, bootstrap and other resampling methods in regression analysis, Annals of Statistics 14.
  Barlow et al. (1972), Statistical Inference under Order Restrictions: the max-min formula.

Shape suffixes: C two models, untouched first; K sizes; R draws; n test items; B replicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from acclimate.statistics.variance import LEVEL
from acclimate.tasks.task import Values

REPLICATES = 4_000
FEWEST_DRAWS = 3
ROUNDING = 1e-9  # in gains


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Worth:
    """What adapting is worth in labels.

    rows    sizes at which the curves were measured, ascending; the last is the number of all labels, N
    gain    log2(N / labels): how often the labels would have to be doubled to be worth as much; negative: to be halved
    rises   how much each curve rises from the least to the largest size, untouched first
    """

    rows: tuple[int, ...]
    gain: Range
    rises: tuple[Range, Range]

    @property
    def most(self) -> float:
        """The largest gain that these sizes can show, log2(N / n_1), less what rounding may take from it."""
        return float(np.log2(self.rows[-1] / self.rows[0])) - ROUNDING

    @property
    def informative(self) -> bool:
        """False if the interval has every gain that these sizes can show, so that they say nothing."""
        return self.gain.low > -self.most or self.gain.high < self.most

    @property
    def established(self) -> bool:
        """True if the interval does not contain 0: one of the models needs fewer labels."""
        return self.gain.low > 0 or self.gain.high < 0

    @property
    def beyond(self) -> bool:
        """True if the better model scores higher with the least labels than the other one with all."""
        return abs(self.gain.value) >= self.most

    @property
    def labels(self) -> Range:
        """The labels with which the better model scores as the other one does with all. An end above N means that the
        better model may need more than all; one at n_1 that it may need fewer.
        """
        sign, whole = (1 if self.gain.value >= 0 else -1), self.rows[-1]
        fewest, most = sorted(whole * 2.0 ** (-sign * end) for end in (self.gain.low, self.gain.high))
        return Range(float(whole * 2.0 ** -abs(self.gain.value)), float(fewest), float(most))


def worth_in_labels(rows: Sequence[int], points_CKR: Values, shares_CKn: Values, *, seed: int = 0) -> Worth:
    """Return what adapting is worth in labels, with its 95% interval.

    rows        K sizes, ascending; the last one is all
    points_CKR  scores of the untouched and of the adapted model; draw r has the same rows for both
    shares_CKn  jackknife influence of each test item (variance.py::jackknife), the mean over draws

    Raises ValueError for fewer than two sizes, fewer than FEWEST_DRAWS draws, or sizes that do not ascend.
    """
    draws = points_CKR.shape[-1]
    if len(rows) < 2 or any(first >= second for first, second in pairwise(rows)):
        raise ValueError(f"rows = {list(rows)}: give at least two sizes, ascending")
    if draws < FEWEST_DRAWS:
        raise ValueError(f"{draws} draws of the labels, but an interval needs at least {FEWEST_DRAWS}")
    replicates_BCK = _replicates(rows, points_CKR, shares_CKn, np.random.default_rng(seed))
    means_CK = points_CKR.mean(axis=-1)
    ends = 100 * LEVEL / 2, 100 - 100 * LEVEL / 2

    def percentile_range(value: float, replicates_B: Values) -> Range:
        low, high = np.percentile(replicates_B, ends)
        return Range(value, float(low), float(high))

    gain = percentile_range(float(gains(rows, means_CK[None])[0]), gains(rows, replicates_BCK))
    rise_C, rise_BC = means_CK[:, -1] - means_CK[:, 0], replicates_BCK[:, :, -1] - replicates_BCK[:, :, 0]
    untouched, adapted = (percentile_range(float(rise_C[model]), rise_BC[:, model]) for model in (0, 1))
    return Worth(tuple(rows), gain, (untouched, adapted))


def gains(rows: Sequence[int], means_BCK: Values) -> Values:
    """(B,) log2(N / labels) of each pair of curves, by isotonic regression and interpolation on log labels."""
    curves_BCK = isotonic(means_BCK)
    size_K = np.log2(np.asarray(rows, float))
    ends_BC = curves_BCK[..., -1]
    adapted_is_better_B = ends_BC[:, 1] > ends_BC[:, 0]
    better_BK = np.where(adapted_is_better_B[:, None], curves_BCK[:, 1], curves_BCK[:, 0])
    found_B = size_K[-1] - _reaches(size_K, better_BK, ends_BC.min(axis=-1))
    found_B = np.where(ends_BC[:, 0] == ends_BC[:, 1], 0.0, found_B)
    return np.where(adapted_is_better_B, found_B, -found_B)


def isotonic(means_K: Values) -> Values:
    """(..., K) the least-squares fit that never falls, of equal weights: the max-min formula."""
    sizes = means_K.shape[-1]
    sums = np.concatenate([np.zeros((*means_K.shape[:-1], 1)), means_K.cumsum(axis=-1)], axis=-1)
    fitted = np.empty_like(means_K)
    for k in range(sizes):
        least = [
            np.min([(sums[..., j + 1] - sums[..., i]) / (j + 1 - i) for j in range(k, sizes)], axis=0)
            for i in range(k + 1)
        ]
        fitted[..., k] = np.max(least, axis=0)
    return fitted


def _reaches(size_K: Values, curve_BK: Values, level_B: Values) -> Values:
    """(B,) the least size at which each curve, linear between sizes, reaches its level; the first size at least."""
    above_BK = curve_BK >= level_B[:, None]
    after_B = np.where(above_BK.any(axis=-1), above_BK.argmax(axis=-1), len(size_K) - 1)
    before_B = np.maximum(after_B - 1, 0)
    at_B = np.arange(len(curve_BK))
    low_B, high_B = curve_BK[at_B, before_B], curve_BK[at_B, after_B]
    share_B = np.divide(level_B - low_B, high_B - low_B, out=np.ones_like(low_B), where=high_B > low_B)
    reached = size_K[before_B] + np.clip(share_B, 0, 1) * (size_K[after_B] - size_K[before_B])
    return np.asarray(reached)


def _replicates(rows: Sequence[int], points_CKR: Values, shares_CKn: Values, generator: np.random.Generator) -> Values:
    """(B, C, K) replicates of the means, as the top of this file has them."""
    models, sizes, draws = points_CKR.shape
    items = shares_CKn.shape[-1]
    means_CK = points_CKR.mean(axis=-1)
    left_CKR = points_CKR - means_CK[..., None]
    scale_B = np.sqrt((draws - 1) / generator.chisquare(draws - 1, REPLICATES))

    over_draws = generator.standard_normal((REPLICATES, draws)) @ left_CKR.reshape(-1, draws).T
    over_draws *= scale_B[:, None] / np.sqrt(draws * (draws - 1))

    covariance = shares_CKn.reshape(-1, items) @ shares_CKn.reshape(-1, items).T / items**2
    over_items = generator.standard_normal((REPLICATES, models * sizes)) @ _root(covariance).T

    before, whole = (left_CKR[:, k] @ left_CKR[:, k].T / (draws - 1) for k in (-2, -1))
    of_rows = rows[-2] / (rows[-1] - rows[-2]) * (before - whole)
    over_rows = scale_B[:, None] * (generator.standard_normal((REPLICATES, models)) @ _root(of_rows).T)

    replicates = means_CK + (over_draws + over_items).reshape(REPLICATES, models, sizes) + over_rows[..., None]
    return np.asarray(replicates)


def _root(covariance: Values) -> Values:
    """Return a matrix A with A A' = covariance, in which negative eigenvalues count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))
