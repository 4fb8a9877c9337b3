"""The variance of a mean score over S seeds and n test items: its estimate, degrees of freedom, intervals and p values.

Model. Seeds and test items are crossed random effects (Clark, 1973, with subjects and words): the score of seed s on
item i is y_si = mu + seed_s + item_i + residual_si, so the mean over both has the variance

    Var = Var(seed) / S + Var(item) / n + Var(residual) / (S n)

A test over the items alone would leave out the first summand. Three mean squares estimate the parts:

    seeds     sample variance of the seeds' scores / S                      Var(seed) / S + Var(residual) / (S n)
    items     sample variance over items of the seeds' mean share / n       Var(item) / n + Var(residual) / (S n)
    residual  sample variance of the shares about that mean / (S n)         Var(residual) / (S n)

    Var = max(seeds, residual) + max(items - residual, 0)

The residual is in both of the first two, so it is subtracted once. The first max is for two or three seeds that agree
by chance better than their residuals allow: without it Var would be below that of the items alone.

An item's share in a seed's score is its jackknife influence value, which for a mean over items is the item's score less
the mean. It costs one pass over the items for any metric that is a function of sums (`Metric`), and no random numbers.

Degrees of freedom. The mean's error / sqrt(Var) is compared with Student's t with `freedom` degrees of freedom:

    1 / freedom = share^(2 - 4.5 share / (S - 1)) / (S - 1) + (1 - share)^2 / (n - 1)
    share       = seeds / Var * min(1, seeds / residual)^((S - 2) / 2)

With the exponent 2 and without the last factor this is Satterthwaite's rule, which for three seeds rejects in up to
7.8% of null cases at the 5% level, because `share` is estimated from three scores. We chose the exponent's slope, 4.5:
with it the rate is 4.5 to 5.4% at any share, for three seeds or more without residual variance. The last factor is
there because the residual, where it replaces `seeds`, has n (S - 1) degrees of freedom. With a large residual and no
seed variance the rate falls to 1.8% for three seeds (tests/statistics/test_variance.py integrates these rates,
benchmarks/significance.py simulates the rest).

Assumed: seeds and test items are independent draws; the mean is about normal. Limits: docs/evidence/statistics.md.

References
  Clark (1973), The language-as-fixed-effect fallacy.
  Satterthwaite (1946), An approximate distribution of estimates of variance components.
  Efron and Stein (1981), The jackknife estimate of variance, Annals of Statistics.
  Wilson (1927), Probable inference; Dean and Pagano (2015), for its use with an effective sample size.
  Fisher (1921), On the "probable error" of a coefficient of correlation.
  Bouthillier et al. (2021), Accounting for variance in machine learning benchmarks.

Shape suffixes: S seeds, n test items, K numbers an item. `...`: simulated studies side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from acclimate.core.types import Score
from acclimate.tasks.task import Metric, Values

LEVEL = 0.05  # of tests; intervals have a confidence of 1 - LEVEL
SLOPE = 4.5  # of the exponent in the rule for the degrees of freedom
ROUNDING = 1e-6  # of a score
NEAR_1 = 1e-9  # correlations are cut off this far from 1 and -1, where Fisher's z is infinite
CHUNK = 4_000_000  # numbers in a block: 32 MB, whatever the size of the test set and the number of classes


@dataclass(frozen=True, slots=True)
class Resampled:
    """One contestant's scores, and the influence of each test item on them.

    points_S     the score of each seed
    shares_Sn    jackknife influence values: (n - 1) (mean of the scores without one item - score without item i); those
                 of a seed sum to 0
    least        the lowest value that the metric can take
    adaptations  the adaptation that each run started from (statistics/adaptation.py); () if the model was not adapted
    """

    contestant: str
    seeds: tuple[int, ...]
    points_S: Values
    shares_Sn: Values
    least: float
    adaptations: tuple[int, ...] = ()


def resample(scores: Sequence[Score], metric: Metric) -> dict[str, Resampled]:
    """Return contestant -> its scores, by rising seed and adaptation, and the influence of each test item on them.

    Raises ValueError for scores that were not computed on the same test items or by this metric, for a contestant with
    fewer than two seeds, for a seed that occurs twice with one adaptation, for a contestant of which only some runs
    were adapted, and for fewer than two items.
    """
    _check(scores)
    by_contestant: dict[str, list[Score]] = {}
    for score in scores:
        by_contestant.setdefault(score.contestant, []).append(score)
    resampled = {}
    for name, unsorted in by_contestant.items():
        rows = sorted(unsorted, key=lambda score: (score.seed, score.adaptation or 0))
        pairs = [jackknife(statistics_of(score, metric), metric.value) for score in rows]
        points_S, shares_Sn = (np.array(side) for side in zip(*pairs, strict=True))
        adaptations = tuple(score.adaptation for score in rows if score.adaptation is not None)
        if adaptations and len(adaptations) < len(rows):
            raise ValueError(
                f"{name!r}: {len(adaptations)} of its {len(rows)} runs name an adaptation. Either all or none must."
            )
        seeds = tuple(score.seed for score in rows)
        resampled[name] = Resampled(name, seeds, points_S, shares_Sn, metric.least, adaptations)
    return resampled


def jackknife(statistics_nK: Values, value: Callable[[Values], Values]) -> tuple[Values, Values]:
    """(...,) the values of the summed statistics, and (..., n) the items' jackknife influence values.

    statistics_nK  (..., n, K) K numbers an item
    value          the metric, a function of their sums over items

    The influence values' variance divided by n estimates the variance of the value over test sets of n items.
    """
    sums_K = statistics_nK.sum(axis=-2, keepdims=True)
    count = statistics_nK.shape[-2]
    rows = max(1, CHUNK * count // max(statistics_nK.size, 1))
    blocks = [value(sums_K - statistics_nK[..., begin : begin + rows, :]) for begin in range(0, count, rows)]
    left_n = np.concatenate(blocks, axis=-1)
    return value(sums_K[..., 0, :]), (count - 1) * (left_n.mean(axis=-1, keepdims=True) - left_n)


def statistics_of(score: Score, metric: Metric) -> Values:
    """(n, K) the metric's numbers for each test item.

    Raises ValueError if the score was computed by another metric, or is outside the metric's range, at which intervals
    are cut off.
    """
    statistics_nK = metric.statistics(score.gold, score.predicted)
    point = float(metric.value(statistics_nK.sum(axis=0)))
    if abs(score.test - point) > ROUNDING:
        raise ValueError(
            f"{score.contestant!r}, seed {score.seed}: the score says {score.test:.6f}, but {metric.name} of its "
            f"predictions is {point:.6f}. Pass the metric that the task was scored with."
        )
    if not metric.least - ROUNDING <= point <= 1 + ROUNDING:
        raise ValueError(
            f"{score.contestant!r}, seed {score.seed}: {metric.name} is {point:.6g}, outside its range from "
            f"{metric.least:g} to 1. Set `least` of the metric to its lowest value, and divide it by its highest one."
        )
    return statistics_nK


@dataclass(frozen=True, slots=True)
class Components:
    """The variance of a mean over seeds and test items, in its components. Each (...,), in squared units of the metric.

    seeds         Var(seed) / S + Var(residual) / (S n)
    items         Var(item) / n, at least 0
    seed_freedom  degrees of freedom of `seeds`
    count         n
    residual      Var(residual) / (S n)

    Where adapting was run several times, statistics/adaptation.py sets these too, and `seeds` includes the adaptations:
    whole_freedom  degrees of freedom of the variance, in place of the rule at the top of this file
    one_run        variance of one new run (another adaptation and seed), test items left out
    """

    seeds: Values
    items: Values
    seed_freedom: Values
    count: int
    residual: Values
    whole_freedom: Values | None = None
    one_run: Values | None = None

    @property
    def variance(self) -> Values:
        return np.asarray(np.maximum(self.seeds, self.residual) + self.items)

    @property
    def freedom(self) -> Values:
        """Degrees of freedom of the variance, by the rule at the top of this file."""
        if self.whole_freedom is not None:
            return self.whole_freedom
        below_residual = quotient(self.seeds, np.maximum(self.seeds, self.residual))  # min(1, seeds / residual)
        share = quotient(self.seeds, self.variance) * below_residual ** ((self.seed_freedom - 1.0) / 2)
        inverse = share ** (2.0 - SLOPE * share / self.seed_freedom) / self.seed_freedom
        return np.asarray(1.0 / (inverse + (1.0 - share) ** 2 / (self.count - 1)))


@dataclass(frozen=True, slots=True)
class Total:
    """The variance of a weighted sum of independent means, and its degrees of freedom. Each (...,)."""

    variance: Values
    freedom: Values


def components_of(points_S: Values, shares_Sn: Values) -> Components:
    """Return the variance components of the mean score, from the scores (..., S) and the items' shares (..., S, n)."""
    number, count = shares_Sn.shape[-2:]
    seeds = points_S.var(axis=-1, ddof=1) / number
    residual = residual_of(shares_Sn)
    items = shares_Sn.mean(axis=-2).var(axis=-1, ddof=1) / count - residual
    return Components(seeds, np.maximum(items, 0.0), np.full_like(seeds, number - 1.0), count, residual)


def unpaired(first: tuple[Values, Values], second: tuple[Values, Values]) -> Components:
    """Return the components of the difference of two means on the same items that do not share their seeds.

    Each side is (scores, shares). The seeds' parts add up, with the degrees of freedom of Welch and Satterthwaite.
    """
    one, other = components_of(*first), components_of(*second)
    seeds, residual, count = one.seeds + other.seeds, one.residual + other.residual, one.count
    # where no score varies over seeds, any degrees of freedom do: they are of a component that is 0
    squares = one.seeds**2 / one.seed_freedom + other.seeds**2 / other.seed_freedom
    freedom = np.where(squares > 0, quotient(seeds**2, squares), one.seed_freedom + other.seed_freedom)
    mean_n = first[1].mean(axis=-2) - second[1].mean(axis=-2)
    items = mean_n.var(axis=-1, ddof=1) / count - residual
    return Components(seeds, np.maximum(items, 0.0), freedom, count, residual)


def weighted(components: Sequence[Components], weights: Sequence[float]) -> Total:
    """Return the variance of a weighted sum of independent means, sum of w^2 Var, with Satterthwaite's freedom."""
    parts = [weight**2 * component.variance for component, weight in zip(components, weights, strict=True)]
    variance = np.sum(parts, axis=0)
    # where nothing varies, any degrees of freedom do: they are of a variance that is 0
    shares = [np.where(variance > 0, quotient(part, variance), 1 / len(parts)) for part in parts]
    inverse = np.sum([share**2 / part.freedom for share, part in zip(shares, components, strict=True)], axis=0)
    return Total(variance, np.asarray(1.0 / inverse))


def residual_of(shares_Sn: Values) -> Values:
    """(...,) Var(residual) / (S n), from what each seed's shares differ by from the seeds' mean shares."""
    number, count = shares_Sn.shape[-2:]
    left_Sn = shares_Sn - shares_Sn.mean(axis=-2, keepdims=True)
    return np.asarray(left_Sn.var(axis=-1, ddof=1).sum(axis=-1) / (count * number * (number - 1)))


def p_value(difference: npt.ArrayLike, variance: Components | Total) -> Values:
    """(...,) the two-sided p of Student's t; 1 where the difference is 0, and 0 where it is not but nothing varies."""
    from scipy import special

    error = np.sqrt(variance.variance)
    ratio = np.divide(np.abs(difference), error, out=np.full_like(error, np.inf), where=error > 0)
    return np.where(np.asarray(difference) == 0, 1.0, 2.0 * special.stdtr(variance.freedom, -ratio))


def half_width(variance: Components | Total, *, level: float = LEVEL) -> Values:
    """(...,) half the width of a difference's (1 - level) interval, which is the difference whose p is `level`."""
    from scipy import special

    return np.asarray(-special.stdtrit(variance.freedom, level / 2) * np.sqrt(variance.variance))


def bounds(
    mean: Values, components: Components, *, least: float, level: float = LEVEL, freedom: Values | None = None
) -> tuple[Values, Values]:
    """Return the ends of the (1 - level) interval of an expected score, both within the metric's range, `least` to 1.

    A score from 0 to 1: Wilson's interval for a proportion of `mean (1 - mean) / variance` items, the effective sample
    size; of all n where the variance is 0. A correlation, from -1 to 1: symmetric on Fisher's scale, arctanh r.

    freedom  degrees of freedom to take in place of the components'; for one summand of a weighted sum, those of the sum
    """
    from scipy import special

    quantile = -special.stdtrit(components.freedom if freedom is None else freedom, level / 2)
    if least < 0:
        inside = np.clip(mean, -1 + NEAR_1, 1 - NEAR_1)
        half = quantile * np.sqrt(components.variance) / (1 - inside**2)  # d arctanh(r) / dr = 1 / (1 - r^2)
        ends = np.tanh(np.arctanh(inside) - half), np.tanh(np.arctanh(inside) + half)
        return np.minimum(ends[0], mean), np.maximum(ends[1], mean)
    binomial = np.clip(mean * (1 - mean), 0.0, None)
    estimated = (binomial > 0) & (components.variance > 0)
    size = np.where(estimated, quotient(binomial, components.variance), components.count)  # effective sample size
    pull = quantile**2 / size
    middle = (mean + pull / 2) / (1 + pull)
    half = np.sqrt(quantile**2 * binomial / size + pull**2 / 4) / (1 + pull)
    return np.clip(middle - half, 0.0, mean), np.clip(middle + half, mean, 1.0)


def effective_items(shares_Sn: Values) -> Values:
    """(...,) the number of items that the mean score depends on: (sum of share^2)^2 / sum of share^4.

    It is n if all mean shares are of one size, less the more a few exceed the others, and 0 if all are 0.
    """
    square_n = shares_Sn.mean(axis=-2) ** 2
    return np.asarray(quotient(square_n.sum(axis=-1) ** 2, (square_n**2).sum(axis=-1)))


def noncentrality(ratio: float, freedom: float, tail: float) -> float:
    """Return the noncentrality d for which P(T <= ratio) = tail, T = Normal(d, 1) / sqrt(u), u = chi-square / freedom.

    It is the root of an integral over log u, on which the trapezoid rule converges exponentially. (SciPy 1.17 has
    special.nctdtrinc, which does not return for some ordinary values.)
    """
    from scipy import special
    from scipy.optimize import brentq

    # log u has about mean 0 and standard deviation sqrt(2 / freedom); its left tail falls as exp(freedom / 2 log u)
    log_u = np.linspace(-80.0, 40.0, 2_001) / np.sqrt(freedom)
    density = np.exp(0.5 * freedom * (log_u - np.exp(log_u) + 1.0))
    likely = density > 1e-16
    density, middle = density[likely] / density[likely].sum(), ratio * np.exp(0.5 * log_u[likely])
    low, high = float(middle.min()) - 10.0, float(middle.max()) + 10.0
    return float(brentq(lambda d: float(density @ special.ndtr(middle - d)) - tail, low, high, xtol=1e-10))


def _check(scores: Sequence[Score]) -> None:
    """Raises ValueError unless all scores are of one task and the same items, with two seeds or more a contestant."""
    first = scores[0]
    seeds: dict[str, list[int]] = {}
    runs: dict[str, set[tuple[int, int | None]]] = {}
    for score in scores:
        if (score.task, score.metric, score.ids, score.gold) != (first.task, first.metric, first.ids, first.gold):
            raise ValueError(
                f"{score.contestant!r}, seed {score.seed} and {first.contestant!r}, seed {first.seed} have "
                "different test sets: task, metric, ids and gold labels must be equal, in the same order."
            )
        seeds.setdefault(score.contestant, []).append(score.seed)
        runs.setdefault(score.contestant, set()).add((score.seed, score.adaptation))
    for contestant, seeds_of in seeds.items():
        if len(runs[contestant]) != len(seeds_of) or len(seeds_of) < 2:
            raise ValueError(
                f"{contestant!r} has the seeds {seeds_of}. Give at least two different seeds (a race needs 3)."
            )
    if len(first.gold) < 2:
        raise ValueError(f"{len(first.gold)} test item has no variance over items. Give at least two.")


def quotient(top: Values, bottom: Values) -> Values:
    """Elementwise quotient; 0 where the denominator is 0."""
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom > 0)
