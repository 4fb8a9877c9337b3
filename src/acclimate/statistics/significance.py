"""Is the difference real? Intervals and tests that count both sources of chance: the seeds and the test items.

`interval` and `compare` answer for expected scores, over new seeds and new test sets of this size. spread.py says where
the variance comes from, docs/statistics.md what all figures mean and how far a simulation bears them out.

Shape suffixes: S seeds, n test items.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from acclimate.core.types import Score
from acclimate.statistics.variance import (
    LEVEL,
    Resampled,
    Spread,
    bearing,
    bounds,
    half_width,
    p_value,
    resample,
    shift,
    spread_of,
    unpaired,
)
from acclimate.tasks.task import Metric, Values

__all__ = ["LEVEL", "Comparison", "Interval", "compare", "compare_of", "holm", "interval", "interval_of", "resample"]

FEWEST_BEARING = 10  # items; with fewer, the simulation found intervals that cover too seldom or too often
FEWEST_SEEDS = 3
MOST_FLIPS = 16  # seeds whose signs are flipped in every way
EQUAL = 1e-12  # differences of means that rounding tells apart
BARELY_KNOWN = 1e6  # degrees of freedom beyond which a Student variable is a normal one


@dataclass(frozen=True, slots=True)
class Interval:
    """95% interval of the expected score over seeds and test items, in units of the metric.

    caution  why it may not keep its 95%, in words, a line each reason; "" where the simulation bears it out
    """

    mean: float
    low: float
    high: float
    caution: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A contestant against a reference on the same test items; differences are in units of the metric.

    Of means over datasets (across.py) only names, means, low, high, p, test and caution are known.

    low, high      95% interval of the expected difference, for this pair alone (not widened for other contestants), as
                   far as two scores can differ
    p              two-sided, of the hypothesis that the expected scores over seeds and test items are equal
    p_seeds        the t test over seeds alone, these test items taken as all there are; None where no seed differs
    test           what p comes from, in words
    p_permutation  the share of all ways to flip the signs of the paired seeds' differences that give a mean as large,
                   these test items taken as all there are: with S seeds never below 2 / 2^S. None where seeds are
                   not paired, and beyond MOST_FLIPS of them
    improvement    the probability that it scores higher than the reference for one new seed on one new test set of this
                   size, with its 95% interval; None where nothing varies
    variance_...   of the difference: the seeds' part, the items' part, and how much of the seeds' part is rest, which
                   more items would shrink too. With items and seeds, for statistics/power.py
    caution        why p and the interval may not keep their level, in words, a line each reason; "" where the
                   simulation bears them out
    """

    contestant: str
    reference: str
    mean: float
    reference_mean: float
    low: float
    high: float
    p: float
    p_seeds: float | None
    test: str
    p_permutation: float | None = None
    improvement: float | None = None
    improvement_low: float = 0.0
    improvement_high: float = 1.0
    variance_seeds: float = 0.0
    variance_items: float = 0.0
    variance_rest: float = 0.0
    items: int = 0
    seeds: int = 0
    caution: str = ""

    @property
    def difference(self) -> float:
        return self.mean - self.reference_mean


def interval(scores: Sequence[Score], metric: Metric) -> Interval:
    """95% interval of one contestant's expected score, over seeds and over test sets of this size.

    Raises ValueError for fewer than two seeds (their spread would be unknown), for several contestants, and for scores
    that were not computed on the same test items or by this metric.
    """
    return interval_of(*resample(_one_contestant(scores), metric).values())


def compare(scores: Sequence[Score], reference: Sequence[Score], metric: Metric) -> Comparison:
    """Test that two contestants' expected scores, over seeds and over test sets of this size, are equal.

    Always paired over test items. Paired over seeds too where both have the same seeds; otherwise the seeds' variances
    add up, with Welch's degrees of freedom. Raises ValueError as `interval` does.
    """
    scores, reference = _one_contestant(scores), _one_contestant(reference)
    if scores[0].contestant == reference[0].contestant:
        raise ValueError(f"{scores[0].contestant!r} is compared with itself; pass the scores of two contestants.")
    draws = resample([*scores, *reference], metric)
    return compare_of(draws[scores[0].contestant], draws[reference[0].contestant])


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given: all below .05 are rejected with family-wise error of at most 5%.

    Source: Holm, A simple sequentially rejective multiple test procedure (1979). Needs no independence of the tests.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(p) for p in corrected]


def interval_of(resampled: Resampled) -> Interval:
    """The interval of `interval`, from resampled scores."""
    mean = resampled.points_S.mean()
    low, high = bounds(mean, spread_of(resampled.points_S, resampled.shares_Sn), least=resampled.least)
    return Interval(float(mean), float(low), float(high), cautions(len(resampled.seeds), resampled.shares_Sn))


def compare_of(contestant: Resampled, reference: Resampled) -> Comparison:
    """The comparison of `compare`, from scores on the same test items."""
    ours_S, theirs_S = contestant.points_S, reference.points_S
    mean, reference_mean = float(ours_S.mean()), float(theirs_S.mean())
    difference = mean - reference_mean
    paired = contestant.seeds == reference.seeds
    spread = spread_of_difference(contestant, reference)
    low, high = possible(difference, float(half_width(spread)), least=contestant.least)
    shares_1n = contestant.shares_Sn.mean(axis=0, keepdims=True) - reference.shares_Sn.mean(axis=0, keepdims=True)
    likely, likely_low, likely_high = improvement(difference, spread, min(len(ours_S), len(theirs_S)))
    return Comparison(
        contestant.contestant,
        reference.contestant,
        mean,
        reference_mean,
        low=low,
        high=high,
        p=float(p_value(difference, spread)),
        p_seeds=_t_test(ours_S, theirs_S, paired),
        test=f"Student's t over paired test items and {'paired' if paired else 'unpaired'} seeds",
        p_permutation=permutation(ours_S - theirs_S) if paired else None,
        improvement=likely,
        improvement_low=likely_low,
        improvement_high=likely_high,
        variance_seeds=float(spread.seeds),
        variance_items=float(spread.items),
        variance_rest=float(spread.rest),
        items=spread.count,
        seeds=min(len(ours_S), len(theirs_S)),
        caution=cautions(min(len(ours_S), len(theirs_S)), shares_1n),
    )


def possible(difference: float, half: float, *, least: float) -> tuple[float, float]:
    """Ends of the interval, none beyond what two scores from `least` to 1 can differ by."""
    return max(difference - half, least - 1), min(difference + half, 1 - least)


def spread_of_difference(contestant: Resampled, reference: Resampled) -> Spread:
    """Of two contestants' means, on the same test items; paired over seeds where both have the same."""
    if contestant.seeds == reference.seeds:
        return spread_of(contestant.points_S - reference.points_S, contestant.shares_Sn - reference.shares_Sn)
    return unpaired((contestant.points_S, contestant.shares_Sn), (reference.points_S, reference.shares_Sn))


def permutation(differences_S: Values) -> float | None:
    """Two-sided p of the mean, by every way to flip signs; None beyond MOST_FLIPS differences.

    The same as scipy.stats.permutation_test of paired samples where all permutations are taken.
    """
    if len(differences_S) > MOST_FLIPS:
        return None
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=len(differences_S))))
    means = np.abs(signs @ differences_S)
    return float(np.mean(means >= means[0] * (1 - EQUAL)))


def improvement(difference: float, spread: Spread, seeds: int) -> tuple[float | None, float, float]:
    """P(the contestant scores higher) for one new seed each on one new test set, and its 95% interval.

    The difference of one pair is taken for normal, with the seeds' whole variance in place of that of their mean. The
    interval is that of the mean over the standard deviation, from the noncentral Student distribution.
    """
    alone = float(np.maximum(spread.seeds, spread.rest)) * seeds + float(spread.items)
    if alone == 0:
        return None, 0.0, 1.0
    error, freedom = float(np.sqrt(spread.variance)), min(float(spread.freedom), BARELY_KNOWN)
    ratio = float(np.clip(difference / error, -BARELY_KNOWN, BARELY_KNOWN))
    ends = (error * shift(ratio, freedom, tail) for tail in (1 - LEVEL / 2, LEVEL / 2))
    likely, low, high = (float(special.ndtr(x / np.sqrt(alone))) for x in (difference, *ends))
    return likely, low, high


def cautions(seeds: int, shares_Sn: Values) -> str:
    """What the simulation (docs/statistics.md) found the figures not to bear."""
    told = []
    if float(bearing(shares_Sn)) < FEWEST_BEARING:
        told.append(
            f"It hangs on fewer than {FEWEST_BEARING} of the {shares_Sn.shape[-1]:,} test items, too few for its "
            "interval and p to hold; more items, or more of rare labels, would mend that."
        )
    if seeds < FEWEST_SEEDS:
        told.append(
            f"{seeds} seeds hardly tell their luck: up to 8% of equal contestants are told apart at 5%. "
            f"Take {FEWEST_SEEDS}."
        )
    return "\n".join(told)


def _t_test(ours_S: np.ndarray, theirs_S: np.ndarray, paired: bool) -> float | None:
    """The t test over seeds; Welch's where the seeds are not shared. None where it would divide by zero."""
    spread = np.ptp(ours_S - theirs_S) if paired else np.ptp(ours_S) + np.ptp(theirs_S)
    if spread < 1e-12:
        return None
    result = stats.ttest_rel(ours_S, theirs_S) if paired else stats.ttest_ind(ours_S, theirs_S, equal_var=False)
    return float(result.pvalue)


def _one_contestant(scores: Sequence[Score]) -> Sequence[Score]:
    names = sorted({score.contestant for score in scores})
    if len(names) != 1:
        raise ValueError(f"expected the scores of one contestant, got those of {names}; call once for each.")
    return scores
