"""Is a difference real? Intervals and tests of expected scores, over both sources of chance: seeds and test items.

`interval` and `compare` are for the expected score over new seeds and new test sets of the same size. Their variance
is that of statistics/variance.py, and their p is of Student's t with the degrees of freedom given there.
docs/evidence/statistics.md says what every figure means, and how far a simulation confirms it.

Shape suffixes: S seeds, n test items.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.core.types import Score
from acclimate.statistics.adaptation import (
    adaptations_of,
    components_of_difference,
    components_of_score,
    is_shared,
    pairs_of_runs,
)
from acclimate.statistics.variance import (
    LEVEL,
    Components,
    Resampled,
    bounds,
    effective_items,
    half_width,
    noncentrality,
    p_value,
    resample,
)
from acclimate.tasks.task import Metric, Values

__all__ = ["LEVEL", "Comparison", "Interval", "compare", "compare_of", "holm", "interval", "interval_of", "resample"]

DECIDE = "test items decide the result"  # in a caution on few items
FEWEST_ITEMS = 10  # effective items; with fewer, simulated intervals cover too seldom or too often
FEWEST_SEEDS = 3  # with two, up to 8% of null cases are rejected at 5%
MOST_SPREAD = 0.05  # standard deviation of a correlation over seeds; above it, simulated intervals cover too seldom
MOST_FLIPS = 16  # seeds, up to which the permutation test takes all sign flips
EQUAL = 1e-12  # relative difference of two means that rounding alone can make
NORMAL = 1e6  # degrees of freedom from which Student's t is computed as a normal variable
ONE_ADAPTATION = "depends on one adaptation: another adaptation may give another difference"


@dataclass(frozen=True, slots=True)
class Interval:
    """95% interval of the expected score over seeds and test items, in units of the metric.

    caution      reasons why its coverage may not be 95%, one a line; "" if there is none
    adaptations  number of adaptations that the runs rest on; 1: the interval is for this adapted checkpoint only; 0:
                 the model was not adapted, or the scores do not say
    range_of_runs  True if low and high are the lowest and the highest score of few runs: then it is no interval
    """

    mean: float
    low: float
    high: float
    caution: str = ""
    adaptations: int = 0
    range_of_runs: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The test of a contestant against a reference on the same test items; differences are in units of the metric.

    A comparison of means over datasets (statistics/means.py) has names, means, low, high, p, test and caution only.

    low, high      95% interval of the expected difference, not widened for the number of comparisons; cut off at the
                   largest difference that two scores can have
    p              two-sided p of the null hypothesis that both have the same expected score over seeds and test items
    p_seeds        p of the t test over seeds alone, for these test items only; None if no score varies over seeds, and
                   where runs share adaptations
    test           the name of the test that `p` is of
    p_permutation  p of the exact sign-flip test over paired seeds, for these test items only: the share of the 2^S sign
                   patterns whose mean is as large, so at least 2 / 2^S. None if seeds are not paired or more than
                   MOST_FLIPS, where runs share adaptations, and where neither score varies over seeds
    improvement    probability that it scores higher than the reference with one new seed each on one new test set of
                   this size, with its 95% interval; None if nothing varies
    variance_...   the variance components of the difference (`Components`), which with `items` and `seeds` are what
                   statistics/power.py starts from
    adaptations    number of adaptations that the side with fewer rests on, of the sides that were adapted; 0: neither
                   was, or the scores do not say
    caution        reasons why p and interval may not have their level, one a line; "" if there is none
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
    variance_residual: float = 0.0
    items: int = 0
    seeds: int = 0
    caution: str = ""
    adaptations: int = 0

    @property
    def difference(self) -> float:
        return self.mean - self.reference_mean

    @property
    def one_adaptation(self) -> str:
        """The end of a sentence about the difference, if a side rests on one adaptation; "" otherwise.

        Chance over adaptations is then in neither interval nor p: it cannot be estimated from one draw.
        """
        return ONE_ADAPTATION if self.adaptations == 1 else ""

    @property
    def few_items(self) -> str:
        """The end of a sentence about the difference, if too few test items decide it; "" otherwise."""
        return f"fewer than {FEWEST_ITEMS} items decide it" if DECIDE in self.caution else ""


def interval(scores: Sequence[Score], metric: Metric) -> Interval:
    """Return the 95% interval of one contestant's expected score, over seeds and over test sets of this size.

    Raises ValueError for fewer than two seeds, for several contestants, and for scores that were not computed on the
    same test items or by this metric.
    """
    return interval_of(*resample(_one_contestant(scores), metric).values())


def compare(scores: Sequence[Score], reference: Sequence[Score], metric: Metric) -> Comparison:
    """Test that two contestants have the same expected score, over seeds and over test sets of this size.

    The test is paired over test items, and over seeds too if both have the same seeds; otherwise the seeds' variances
    add up, with Welch's degrees of freedom. Where a contestant has several adaptations, they are a source of chance too
    (statistics/adaptation.py). Raises ValueError as `interval` does, and if adaptations share some of their seeds only.
    """
    scores, reference = _one_contestant(scores), _one_contestant(reference)
    if scores[0].contestant == reference[0].contestant:
        raise ValueError(f"{scores[0].contestant!r} is compared with itself. Pass the scores of two contestants.")
    draws = resample([*scores, *reference], metric)
    return compare_of(draws[scores[0].contestant], draws[reference[0].contestant])


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected by Holm's step-down procedure, in the order given.

        corrected_(k) = max over j <= k of min(1, (m - j + 1) p_(j)),   p_(1) <= ... <= p_(m)

    Rejecting those below .05 has a family-wise error of at most 5%, whether or not the tests are independent.
    Reference: Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(p) for p in corrected]


def interval_of(resampled: Resampled) -> Interval:
    """As `interval`, from resampled scores."""
    mean = resampled.points_S.mean()
    low, high = bounds(mean, components_of_score(resampled), least=resampled.least)
    caution = cautions(len(set(resampled.seeds)), resampled.shares_Sn)
    return Interval(float(mean), float(low), float(high), caution, adaptations_of(resampled))


def compare_of(contestant: Resampled, reference: Resampled) -> Comparison:
    """As `compare`, from the resampled scores of two contestants on the same test items."""
    ours_S, theirs_S = contestant.points_S, reference.points_S
    mean, reference_mean = float(ours_S.mean()), float(theirs_S.mean())
    difference = mean - reference_mean
    adaptations = [number for side in (contestant, reference) if (number := adaptations_of(side))]
    shared = is_shared(contestant) or is_shared(reference)
    in_pairs = pairs_of_runs(contestant, reference) is not None if shared else contestant.seeds == reference.seeds
    seeds = min(len(set(contestant.seeds)), len(set(reference.seeds)))
    components = components_of_difference(contestant, reference)
    low, high = possible(difference, float(half_width(components)), least=contestant.least)
    one_score = difference != 0 and not np.ptp(ours_S) and not np.ptp(theirs_S)  # as often as there are seeds
    shares_1n = contestant.shares_Sn.mean(axis=0, keepdims=True) - reference.shares_Sn.mean(axis=0, keepdims=True)
    spread = max(float(points_S.std(ddof=1)) for points_S in (ours_S, theirs_S)) if contestant.least < 0 else 0.0
    likely, likely_low, likely_high = improvement(difference, components, seeds)
    return Comparison(
        contestant.contestant,
        reference.contestant,
        mean,
        reference_mean,
        low=low,
        high=high,
        p=float(p_value(difference, components)),
        p_seeds=None if shared else _t_test(ours_S, theirs_S, in_pairs),
        test=f"Student's t over paired test items and {'paired' if in_pairs else 'unpaired'} seeds"
        + (" of several adaptations" if shared else ""),
        p_permutation=permutation(ours_S - theirs_S) if in_pairs and not shared and not one_score else None,
        improvement=likely,
        improvement_low=likely_low,
        improvement_high=likely_high,
        variance_seeds=float(components.seeds),
        variance_items=float(components.items),
        variance_residual=float(components.residual),
        items=components.count,
        seeds=seeds,
        caution=cautions(seeds, shares_1n, adaptations=min(adaptations, default=0), spread=spread),
        adaptations=min(adaptations, default=0),
    )


def possible(difference: float, half: float, *, least: float) -> tuple[float, float]:
    """difference -/+ half, cut off at the largest difference that two scores from `least` to 1 can have."""
    return max(difference - half, least - 1), min(difference + half, 1 - least)


def permutation(differences_S: Values) -> float | None:
    """Return the two-sided p of the mean difference among all 2^S sign flips; None above MOST_FLIPS differences.

    It equals scipy.stats.permutation_test of paired samples with all permutations. Assumed: under the null hypothesis
    each seed's difference is as likely to be positive as negative.
    """
    if len(differences_S) > MOST_FLIPS:
        return None
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=len(differences_S))))
    means = np.abs(signs @ differences_S)
    return float(np.mean(means >= means[0] * (1 - EQUAL)))


def improvement(difference: float, components: Components, seeds: int) -> tuple[float | None, float, float]:
    """P(the contestant scores higher), for one new seed each on one new test set, and its 95% interval.

        P = Phi(difference / sqrt(S max(seeds, residual) + items))

    Where there are several adaptations, one new run of another adaptation takes the place of the new seed.
    Assumed: the difference of one such pair is normal. The interval is that of the standardised difference, from the
    noncentral t distribution. Returns (None, 0, 1) if nothing varies.
    """
    if components.one_run is None:
        one_run = float(np.maximum(components.seeds, components.residual)) * seeds
    else:
        one_run = float(components.one_run)
    alone = one_run + float(components.items)
    if alone == 0:
        return None, 0.0, 1.0
    from scipy import special

    error, freedom = float(np.sqrt(components.variance)), min(float(components.freedom), NORMAL)
    ratio = float(np.clip(difference / error, -NORMAL, NORMAL))
    ends = (error * noncentrality(ratio, freedom, tail) for tail in (1 - LEVEL / 2, LEVEL / 2))
    likely, low, high = (float(special.ndtr(x / np.sqrt(alone))) for x in (difference, *ends))
    return likely, low, high


def cautions(seeds: int, shares_Sn: Values, *, adaptations: int = 0, spread: float = 0.0) -> str:
    """Return why interval and p may be unreliable, one reason a line, or ""; simulated in docs/evidence/statistics.md.

    adaptations: as of `Comparison`
    spread: standard deviation over seeds of a correlation
    """
    reasons = []
    if float(effective_items(shares_Sn)) < FEWEST_ITEMS:
        reasons.append(
            f"Fewer than {FEWEST_ITEMS} of the {shares_Sn.shape[-1]:,} {DECIDE}: too few for a "
            "reliable interval and p value. Add test items, above all of rare labels."
        )
    if seeds < FEWEST_SEEDS:
        reasons.append(
            f"{seeds} seeds are too few for reliable p values: in simulations, up to 8% of comparisons of equal "
            f"contestants had p < .05. Use at least {FEWEST_SEEDS} seeds."
        )
    if spread > MOST_SPREAD:
        reasons.append(
            f"The correlation of one contestant has a standard deviation of {100 * spread:.0f} points over seeds. In "
            f"simulations, up to 11% of comparisons of equal contestants had p < .05 above {100 * MOST_SPREAD:.0f} "
            "points. Train longer or at a lower rate until seeds agree."
        )
    if adaptations == 2:
        reasons.append(
            "2 adaptations of a contestant are too few: a difference must reach up to 12.7 standard errors, but "
            "4.3 with 3 adaptations. Use adapt_seeds=3 or more."
        )
    return "\n".join(reasons)


def _t_test(ours_S: np.ndarray, theirs_S: np.ndarray, paired: bool) -> float | None:
    """p of the t test over seeds, Welch's if they are not paired; None if no score varies, when t is undefined."""
    from scipy import stats  # takes six tenths of a second, which a command that tests nothing must not wait for

    extent = np.ptp(ours_S - theirs_S) if paired else np.ptp(ours_S) + np.ptp(theirs_S)
    if extent < 1e-12:
        return None
    result = stats.ttest_rel(ours_S, theirs_S) if paired else stats.ttest_ind(ours_S, theirs_S, equal_var=False)
    return float(result.pvalue)


def _one_contestant(scores: Sequence[Score]) -> Sequence[Score]:
    names = sorted({score.contestant for score in scores})
    if len(names) != 1:
        raise ValueError(f"expected the scores of one contestant, but got those of {names}. Call it once for each.")
    return scores
