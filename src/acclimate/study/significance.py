"""Is the difference real? Intervals and tests that count both sources of chance: the seeds and the test items.

The scores of S seeds on n test items are crossed draws, y_si = mean + seed_s + item_i + rest_si, so that their average
has variance seed/S + item/n + rest/(S n). Resampling items alone takes the seeds at hand for all there are; drawing S
seeds with replacement understates their part by (S - 1)/S and gives 3 seeds the tails of a normal. Here

    seeds  = sample variance of the seeds' scores / S                  estimates seed/S + rest/(S n)
    items  = bootstrap variance, over items, of the mean of all seeds  estimates item/n + rest/(S n)
    rest   = bootstrap variance of score - mean of all seeds, summed over seeds / (S (S - 1))       rest/(S n)

and the error is distributed as sqrt(items - rest) Normal + sqrt(seeds) Student(S - 1): both see `rest`, it counts once.
The seeds' variance comes from S values, hence Student; the items' comes from hundreds.

Sources: Owen, The pigeonhole bootstrap (Annals of Applied Statistics 2007), for the variances of crossed factors under
resampling; the sum of a normal and a Student variable is the Behrens-Fisher distribution with one infinite degree of
freedom (Fisher 1935); Bouthillier et al., Accounting for variance in machine learning benchmarks (MLSys 2021), for why
both must count. tests/study/test_significance.py simulates coverage, false positives and power.

Shape suffixes: S seeds, R resamples, n test items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from acclimate.core.types import Score
from acclimate.tasks.task import Metric

LEVEL = 0.05
RESAMPLES = 2_000
CHUNK = 4_000_000  # entries of a block of weights: 32 MB, whatever the size of the test set


@dataclass(frozen=True, slots=True)
class Resampled:
    """The scores of one contestant on the test set as it is, and on R resamples of its items that all seeds share."""

    contestant: str
    seeds: tuple[int, ...]
    points_S: np.ndarray
    draws_SR: np.ndarray


@dataclass(frozen=True, slots=True)
class Interval:
    """95% interval of the expected score over seeds and test items, in units of the metric."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A contestant against a reference on the same test items; differences are in units of the metric.

    low, high  95% interval of the expected difference, for this pair alone (not widened for the number of contestants)
    p          two-sided, of the hypothesis that the expected scores over seeds and test items are equal
    p_seeds    the t test over seeds alone, these test items taken as all there are; None where no seed differs
    test       what p comes from, in words
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

    @property
    def difference(self) -> float:
        return self.mean - self.reference_mean


def interval(scores: Sequence[Score], metric: Metric, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """95% interval of one contestant's expected score, over seeds and over test sets of this size.

    Raises ValueError for fewer than two seeds (their spread would be unknown), for several contestants, and for scores
    that were not computed on the same test items or by this metric.
    """
    return interval_of(*resample(_one_contestant(scores), metric, resamples=resamples, seed=seed).values())


def compare(
    scores: Sequence[Score], reference: Sequence[Score], metric: Metric, *, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Test that two contestants' expected scores, over seeds and over test sets of this size, are equal.

    Always paired over test items. Paired over seeds too where both have the same seeds; otherwise the seeds' variances
    add up, with Welch's degrees of freedom. Raises ValueError as `interval` does.
    """
    scores, reference = _one_contestant(scores), _one_contestant(reference)
    if scores[0].contestant == reference[0].contestant:
        raise ValueError(f"{scores[0].contestant!r} is compared with itself; pass the scores of two contestants.")
    draws = resample([*scores, *reference], metric, resamples=resamples, seed=seed)
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


def resample(
    scores: Sequence[Score], metric: Metric, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Resampled]:
    """Every contestant's scores on the same R bootstrap resamples of the test items (drawn in blocks of CHUNK)."""
    _check(scores)
    coded = [metric.encode(score.gold, score.predicted) for score in scores]
    items = len(scores[0].gold)

    def weighted(weights_Rn: np.ndarray) -> np.ndarray:
        return np.array([metric.weighted(gold, predicted, weights_Rn, classes) for gold, predicted, classes in coded])

    points = weighted(np.ones((1, items), dtype=np.int64))[:, 0]
    for score, point in zip(scores, points, strict=True):
        if abs(score.test - point) > 1e-6:
            raise ValueError(
                f"{score.contestant!r}, seed {score.seed}: the score says {score.test:.6f}, but {metric.name} of its "
                f"predictions is {point:.6f}. Pass the metric that the task was scored with."
            )
    generator = np.random.default_rng(seed)
    blocks = []
    chunk = max(1, CHUNK // items)
    for rows in [chunk] * (resamples // chunk) + [resamples % chunk] * (resamples % chunk > 0):
        drawn = generator.integers(0, items, size=(rows, items)) + np.arange(rows)[:, None] * items
        blocks.append(weighted(np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items)))
    draws = np.concatenate(blocks, axis=1)
    return {name: _select(scores, name, points, draws) for name in dict.fromkeys(score.contestant for score in scores)}


def interval_of(resampled: Resampled) -> Interval:
    """The interval of `interval`, from resampled scores. Cut at 1, the best that any metric gives, and at -1."""
    points_S, draws_SR = resampled.points_S, resampled.draws_SR
    seeds, rest = _seeds_variance(points_S), _rest_variance(draws_SR)
    items = max(float(draws_SR.mean(axis=0).var(ddof=1)) - rest, 0.0)
    mean, half = float(points_S.mean()), half_width(items, seeds, len(points_S) - 1)
    return Interval(mean, max(mean - half, -1.0), min(mean + half, 1.0))


def compare_of(contestant: Resampled, reference: Resampled) -> Comparison:
    """The comparison of `compare`, from scores on the same resamples."""
    ours_S, theirs_S = contestant.points_S, reference.points_S
    mean, reference_mean = float(ours_S.mean()), float(theirs_S.mean())
    draws_R = contestant.draws_SR.mean(axis=0) - reference.draws_SR.mean(axis=0)
    paired = contestant.seeds == reference.seeds
    if paired:
        seeds, freedom = _seeds_variance(ours_S - theirs_S), float(len(ours_S) - 1)
        rest = _rest_variance(contestant.draws_SR - reference.draws_SR)
    else:
        parts = np.array([_seeds_variance(ours_S), _seeds_variance(theirs_S)])
        freedoms = np.array([len(ours_S) - 1, len(theirs_S) - 1])
        seeds = float(parts.sum())
        # Welch and Satterthwaite; without any spread over seeds the degrees of freedom multiply a zero
        freedom = float(seeds**2 / (parts**2 / freedoms).sum()) if seeds > 0 else float(freedoms.sum())
        rest = _rest_variance(contestant.draws_SR) + _rest_variance(reference.draws_SR)
    items = max(float(draws_R.var(ddof=1)) - rest, 0.0)
    half = half_width(items, seeds, freedom)
    return Comparison(
        contestant.contestant,
        reference.contestant,
        mean,
        reference_mean,
        low=mean - reference_mean - half,
        high=mean - reference_mean + half,
        p=two_sided(mean - reference_mean, items, seeds, freedom),
        p_seeds=_t_test(ours_S, theirs_S, paired),
        test=f"Behrens-Fisher over paired test items and {'paired' if paired else 'unpaired'} seeds",
    )


def two_sided(difference: float, items: float, seeds: float, freedom: float) -> float:
    """P(|sqrt(items) Normal + sqrt(seeds) Student(freedom)| >= |difference|).

    A Student variable is a normal one whose variance is freedom/chi-square, so the sum is a mixture of normals: an
    integral over the logarithm of chi-square/freedom, on which the trapezoid rule converges exponentially.
    """
    if difference == 0.0:
        return 1.0
    # the log has mean 0 and standard deviation sqrt(2/freedom), its left tail falls as exp(freedom/2 log u)
    log_u = np.linspace(-80.0, 40.0, 8_001) / np.sqrt(freedom)
    density = np.exp(0.5 * freedom * (log_u - np.exp(log_u) + 1.0))
    spread = np.sqrt(items + seeds * np.exp(-log_u))
    distance = np.divide(abs(difference), spread, out=np.full_like(spread, np.inf), where=spread > 0)
    return float(min(1.0, 2.0 * np.sum(density * ndtr(-distance)) / np.sum(density)))


def half_width(items: float, seeds: float, freedom: float, *, level: float = LEVEL) -> float:
    """Half the width of the (1 - level) interval: the difference whose two-sided p is `level`."""
    spread = float(np.sqrt(items + seeds))
    if spread == 0.0:
        return 0.0
    widest = 1.5 * spread * float(stats.t.isf(level / 2, freedom))
    narrowest = 1e-9 * spread
    return float(brentq(lambda x: two_sided(x, items, seeds, freedom) - level, narrowest, widest, xtol=1e-12))


def _seeds_variance(points_S: np.ndarray) -> float:
    return float(points_S.var(ddof=1)) / len(points_S)


def _rest_variance(draws_SR: np.ndarray) -> float:
    """What is left of the seeds' scores on a resample once their mean is taken away, as a variance of the mean."""
    seeds = len(draws_SR)
    rest_SR = draws_SR - draws_SR.mean(axis=0)
    return float(rest_SR.var(axis=1, ddof=1).sum()) / (seeds * (seeds - 1))


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


def _check(scores: Sequence[Score]) -> None:
    """Same task, same test items in the same order, each contestant with two different seeds or more."""
    first = scores[0]
    seeds: dict[str, list[int]] = {}
    for score in scores:
        if (score.task, score.metric, score.ids, score.gold) != (first.task, first.metric, first.ids, first.gold):
            raise ValueError(
                f"{score.contestant!r}, seed {score.seed} and {first.contestant!r}, seed {first.seed} were not tested "
                f"alike: task, metric, ids and gold labels must be the same, in the same order."
            )
        seeds.setdefault(score.contestant, []).append(score.seed)
    for contestant, own in seeds.items():
        if len(set(own)) != len(own) or len(own) < 2:
            raise ValueError(f"{contestant!r} has the seeds {own}; give it two or more, each once (a race asks for 3).")


def _select(scores: Sequence[Score], contestant: str, points: np.ndarray, draws: np.ndarray) -> Resampled:
    """A contestant's rows by rising seed, so that equal seeds of two contestants stand side by side."""
    own = sorted((i for i, score in enumerate(scores) if score.contestant == contestant), key=lambda i: scores[i].seed)
    return Resampled(contestant, tuple(scores[i].seed for i in own), points[own], draws[own])
