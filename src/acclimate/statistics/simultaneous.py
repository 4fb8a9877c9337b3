"""Simultaneous intervals of the gains of several adapted contestants over one untouched model.

m contestants are compared with the same reference. Each difference has the variance and the degrees of freedom of
statistics/variance.py, adaptation.py or folds.py. All m intervals together cover the truth in 95%, and a difference is
established if its interval excludes 0. The adjusted p is below .05 exactly then.

Single-step, after Dunnett. Each interval is that of Student's t at a level c of its own. c is chosen so that m equally
correlated normal variables stay together within its quantile z with the probability 1 - level:

    1 - level = P(|Z_1| <= z, ..., |Z_m| <= z),   c = 2 Phi(-z),   Z_k = sqrt(r) Y + sqrt(1 - r) Y_k

    adjusted p = 1 - P(all |Z_k| <= z(p)),   z(p) = -Phi^-1(p / 2)

r is the mean correlation of the differences, which share the reference. It is estimated from runs and test items and
rounded down to GRID. A difference has its own variance, so r is not the .5 of equal variances: taken as .5, intervals
cover least where the reference varies least. Bonferroni's, at level / m, are 2 to 3% wider
(benchmarks/reports/2026-11-29-answers.md).

Two changes are made where the rules of variance.py do not keep their level; both only widen.

Degrees of freedom. Those of variance.py were chosen for the level of 5%. At a level of 1.7% and with three seeds they
reject up to 2.9% of equal contestants. With nu the degrees of freedom of the runs' part and n test items,

    x = (1 / freedom - 1 / (n - 1)) / (1 / nu - 1 / (n - 1))                  0: all from items, 1: all from runs
    1 / freedom' = 1 / freedom + (1 - (1 - x)^b - x) (1 / nu - 1 / (n - 1)),  b = 1 + 5 (LEVEL / c - 1) / nu^2

One contestant at 5% has b = 1: its simultaneous interval is the single one.

Few items. If fewer than FEWEST_ITEMS test items decide a difference, its variance is too small; two models that agree
on every one of 50 rows would differ by exactly 0. The missing items are added with the influence of a typical item:

    Var' = Var + max(0, FEWEST_ITEMS - effective items) u^2 / n^2,   u^2 = sum share^4 / sum share^2

u^2 is the largest of the difference's and both models' own; for accuracy it is about the square of one item.

References
  Dunnett (1955), A multiple comparison procedure for comparing several treatments with a control.
  Agresti and Coull (1998), Approximate is better than "exact" for interval estimation of binomial proportions.

Shape suffixes: m contestants, N runs, n test items. `...`: simulated studies side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from acclimate.statistics.adaptation import (
    RunLayout,
    adaptations_of,
    components_of_difference,
    is_shared,
    layout,
    pairs_of_runs,
)
from acclimate.statistics.folds import compare_of_repeats, components_of_rows
from acclimate.statistics.significance import FEWEST_ITEMS, FEWEST_SEEDS, compare_of, possible
from acclimate.statistics.variance import (
    LEVEL,
    Components,
    Resampled,
    Total,
    effective_items,
    half_width,
    p_value,
    quotient,
)
from acclimate.tasks.task import Values

STRICTER = 5.0  # factor in the exponent b, chosen so that three and five seeds keep level c for 2 to 6 contestants
GRID, MOST = 0.05, 0.95  # steps of the correlation, and the largest one
NODES = 200  # of the quadrature over the common part of the differences


@dataclass(frozen=True, slots=True)
class Gain:
    """What an adapted contestant scores above the untouched model, in units of the metric; negative: below.

    interval           simultaneous over all contestants of the race
    single             95% interval of this difference alone; within `interval`
    p                  adjusted for the number of contestants, times LEVEL / level for the level of the intervals; below
                       LEVEL exactly if `interval` excludes 0
    single_p           of this difference alone
    single_level       level c of `interval`, if it were of this difference alone
    components         its variance, with few items corrected as at the top of this file
    runs, adaptations  of the side with fewer; adaptations is 0 if none is named
    adaptation_share   share of the runs' variance that comes from adaptations, 0 to 1; 1 if each run has its own, whose
                       part then includes the seed's
    caution            as `Comparison.caution`
    """

    contestant: str
    difference: float
    interval: tuple[float, float]
    single: tuple[float, float]
    p: float
    single_p: float
    single_level: float
    components: Components
    runs: int
    adaptations: int = 0
    adaptation_share: float = 0.0
    caution: str = ""


def gains_of(
    contestants: Sequence[Resampled],
    reference: Resampled,
    *,
    folds: int = 0,
    comparisons: int = 0,
    level: float = LEVEL,
) -> tuple[Gain, ...]:
    """Return the gain of each contestant over the reference, in their order, with simultaneous intervals.

    contestants  without those that failed or learnt nothing; all scored on the items of the reference
    folds        of a cross-validation, in which repeats take the place of seeds; 0: one test set
    comparisons  contestants that the correction counts, if more than are in `contestants`: those eliminated earlier
    level        of all intervals together, such as what a sequential design spends on this evaluation

    Raises ValueError for a level outside 0 to LEVEL, and without folds for fewer than FEWEST_SEEDS runs of a side,
    from which no interval holds its coverage.
    """
    if not 0 < level <= LEVEL:
        raise ValueError(f"level={level}: pass a level above 0 and at most {LEVEL}")
    all_components = []
    for contestant in contestants:
        runs = _runs(contestant, reference)
        if not folds and runs < FEWEST_SEEDS:
            raise ValueError(
                f"{contestant.contestant!r} against {reference.contestant!r}: {runs} seeds. An answer needs at "
                f"least {FEWEST_SEEDS}. Show the scores of the runs, or run more seeds."
            )
        components = (
            components_of_rows(contestant.shares_Sn - reference.shares_Sn, folds=folds)
            if folds
            else components_of_difference(contestant, reference)
        )
        sides = contestant.shares_Sn.mean(axis=-2), reference.shares_Sn.mean(axis=-2)
        all_components.append(correct_few_items(components, *sides, most=1 - contestant.least))
    number = max(comparisons, len(contestants))
    correlation = float(_race_correlation(contestants, reference, all_components, paired=not folds))
    single = level_alone(number, correlation, level)

    gains = []
    for contestant, components in zip(contestants, all_components, strict=True):
        comparison = (
            compare_of_repeats(contestant, reference, folds=folds) if folds else compare_of(contestant, reference)
        )
        difference, least = comparison.difference, contestant.least
        p = float(adjusted_p(difference, components, number, correlation=correlation, level=level))
        gains.append(
            Gain(
                contestant.contestant,
                difference,
                interval=possible(difference, float(simultaneous_half_width(components, single)), least=least),
                single=possible(difference, float(half_width(components)), least=least),
                p=min(p * LEVEL / level, 1.0),
                single_p=float(p_value(difference, components)),
                single_level=single,
                components=components,
                runs=_runs(contestant, reference),
                adaptations=comparison.adaptations,
                adaptation_share=0.0 if folds else adaptation_share(contestant, reference),
                caution=comparison.caution,
            )
        )
    return tuple(gains)


def correct_few_items(components: Components, ours_n: Values, theirs_n: Values, *, most: float) -> Components:
    """Return the components with the items that are missing from FEWEST_ITEMS, by the rule at the top of this file.

    ours_n, theirs_n  (..., n) mean shares of both sides
    most              largest influence of an item where no prediction of any run differs: the range of the metric
    """
    missing = np.maximum(FEWEST_ITEMS - effective_items((ours_n - theirs_n)[..., None, :]), 0.0)
    typical = np.zeros(())
    for shares_n in (ours_n - theirs_n, ours_n, theirs_n):
        square_n = shares_n**2
        typical = np.maximum(typical, quotient((square_n**2).sum(axis=-1), square_n.sum(axis=-1)))
    typical = np.where(typical > 0, typical, most**2)
    return replace(components, items=np.asarray(components.items + missing * typical / ours_n.shape[-1] ** 2))


def simultaneous_half_width(components: Components, single_level: Values | float) -> Values:
    """(...,) half the width of the intervals at these levels of each alone, with the stricter degrees of freedom."""
    from scipy import special

    strict = strict_variance(components, single_level)
    return np.asarray(-special.stdtrit(strict.freedom, np.asarray(single_level) / 2) * np.sqrt(strict.variance))


def adjusted_p(
    difference: float, components: Components, comparisons: int, *, correlation: float = 0.0, level: float = LEVEL
) -> Values:
    """Return the p of one of so many differences: below the level exactly if its simultaneous interval excludes 0."""
    from scipy import special

    p = p_value(difference, strict_variance(components, level_alone(comparisons, correlation, level)))
    return p if comparisons == 1 else _together(-special.ndtri(p / 2), comparisons, correlation)


@cache
def level_alone(comparisons: int, correlation: float, level: float = LEVEL) -> float:
    """Return the level c of each of so many equally correlated differences that together err with `level`."""
    if comparisons == 1:
        return level
    from scipy import optimize, special

    z = optimize.brentq(lambda z: float(_together(z, comparisons, correlation)) - level, 0.5, 12.0, xtol=1e-14)
    return float(2 * special.ndtr(-z))


def _together(z: Values | float, comparisons: int, correlation: float) -> Values:
    """Return the probability that one of so many equally correlated normal variables is beyond z, of either sign."""
    from scipy import special

    common, step = np.linspace(-9.0, 9.0, NODES, retstep=True)
    weights = np.exp(-(common**2) / 2) * step / np.sqrt(2 * np.pi)
    near, far = np.sqrt(correlation) * common, np.sqrt(1 - correlation)
    beyond = special.ndtr((near - z) / far) + special.ndtr((-z - near) / far)
    inside = np.log1p(-np.minimum(beyond, 1.0 - 1e-15))
    return np.asarray(np.minimum(-(weights @ np.expm1(comparisons * inside)), 1.0))


def strict_variance(components: Components, single_level: Values | float) -> Total:
    """Return the variance with the degrees of freedom of this level, by the rule at the top of this file."""
    of_items, of_runs = 1.0 / (components.count - 1), 1.0 / components.seed_freedom
    inverse = 1.0 / components.freedom
    extent = np.maximum(of_runs - of_items, 0.0)
    x = np.clip(quotient(inverse - of_items, extent), 0.0, 1.0)
    exponent = 1.0 + STRICTER * (LEVEL / np.asarray(single_level) - 1.0) * of_runs**2
    return Total(components.variance, 1.0 / (inverse + (1.0 - (1.0 - x) ** exponent - x) * extent))


def mean_correlation(
    variance_m: Values, mean_mn: Values, points_mN: Values | None = None, shares_mNn: Values | None = None
) -> Values:
    """(...,) mean correlation of the differences' errors, rounded down to GRID; 0 for one difference.

    variance_m  (..., m) of each difference
    mean_mn     (..., m, n) mean shares of the difference
    points_mN   (..., m, N) differences of runs that all contestants share, and their shares (..., m, N, n); None: not
                the same runs, and what the runs have in common is then left out, which only widens intervals
    """
    number, count = mean_mn.shape[-2:]
    if number == 1:
        return np.zeros(mean_mn.shape[:-2])
    together = _covariance(mean_mn) / count
    if points_mN is not None and shares_mNn is not None:
        runs = points_mN.shape[-1]
        waver_mNn = shares_mNn - shares_mNn.mean(axis=-2, keepdims=True)
        waver = waver_mNn.reshape(*waver_mNn.shape[:-2], -1)
        # the residual is in both others
        residual = waver @ np.swapaxes(waver, -1, -2) / ((count - 1) * count * runs * (runs - 1))
        together = together + _covariance(points_mN) / runs - residual
    error_m = np.sqrt(variance_m)
    correlation = quotient(together, error_m[..., :, None] * error_m[..., None, :])
    mean = correlation[..., ~np.eye(number, dtype=bool)].mean(axis=-1)
    return np.asarray(GRID * np.floor(np.clip(mean, 0.0, MOST) / GRID + 1e-9))


def adaptation_share(contestant: Resampled, reference: Resampled) -> float:
    """Return the share of the runs' variance that comes from adaptations, as `Gain.adaptation_share`."""
    if not is_shared(contestant):
        return 1.0 if adaptations_of(contestant) > 1 else 0.0
    pairs = pairs_of_runs(contestant, reference)
    if pairs is None:
        pairs = contestant.points_S, contestant.shares_Sn, layout(contestant.adaptations, contestant.seeds)
    points_N, _, runs = pairs
    adaptation_N = np.array(runs.adaptation_N)
    members = [points_N[adaptation_N == number] for number in range(runs.adaptations)]
    spare_runs = len(points_N) - runs.adaptations
    within = sum(float(((member - member.mean()) ** 2).sum()) for member in members) / spare_runs / len(points_N)
    means = np.array([member.mean() for member in members])
    between = max(float(means.var(ddof=1)) / runs.adaptations - within, 0.0)
    return between / (within + between) if within + between > 0 else 0.0


def _runs(contestant: Resampled, reference: Resampled) -> int:
    return min(len(set(side.seeds)) for side in (contestant, reference))


def _race_correlation(
    contestants: Sequence[Resampled], reference: Resampled, components: Sequence[Components], *, paired: bool
) -> Values:
    variance_m = np.array([float(part.variance) for part in components])
    mean_mn = np.array([side.shares_Sn.mean(axis=0) - reference.shares_Sn.mean(axis=0) for side in contestants])
    pairs: list[tuple[Values, Values]] = []
    layouts: set[RunLayout | None] = set()
    for side in contestants:
        if is_shared(side) or is_shared(reference):
            pair = pairs_of_runs(side, reference)
            if pair is not None:
                pairs.append(pair[:2])
                layouts.add(pair[2])
        elif side.seeds == reference.seeds:
            pairs.append((side.points_S - reference.points_S, side.shares_Sn - reference.shares_Sn))
            layouts.add(None)
    if paired and len(pairs) == len(contestants) and len(layouts) == 1:
        return mean_correlation(variance_m, mean_mn, *(np.array(part) for part in zip(*pairs, strict=True)))
    return mean_correlation(variance_m, mean_mn)


def _covariance(values_mN: Values) -> Values:
    """(..., m, m) sample covariances over the last axis."""
    left_mN = values_mN - values_mN.mean(axis=-1, keepdims=True)
    return np.asarray(left_mN @ np.swapaxes(left_mN, -1, -2) / (values_mN.shape[-1] - 1))
