"""How far a mean over S seeds on n test items lies from its expectation: variance, degrees of freedom, intervals.

The scores of S seeds on n test items are crossed draws, y_si = mean + seed_s + item_i + rest_si, so that their average
has variance seed/S + item/n + rest/(S n). Resampling items alone takes the seeds at hand for all there are. Here

    seeds  = sample variance of the seeds' scores / S                    estimates seed/S + rest/(S n)
    items  = variance over items of the mean of the seeds' shares / n    estimates item/n + rest/(S n)
    rest   = variance of a seed's shares around that mean, / (S n)       estimates rest/(S n)

and the variance is max(seeds, rest) + max(items - rest, 0): both see `rest`, it counts once. What seeds add is no less
than rest, and where two or three agree better, they do by luck; without the first max the variance would come out below
that of the items alone. Shares are the jackknife's (resampling.py), which for a mean are the items' scores themselves.
The error over the variance's square root is taken for a Student variable, with

    1 / freedom = share^(2 - PULL share / (S - 1)) / (S - 1) + (1 - share)^2 / (n - 1)
    share       = seeds / variance * min(1, seeds / rest)^((S - 2) / 2)

PULL = 0 is Satterthwaite's rule, which with three seeds finds differences in up to 7.8% of equal contestants at 5%, as
the share itself comes from three values. 4.5 keeps that within 4.5 and 5.4% whatever the share, from three seeds on,
where there is no rest and the items' part is known. The last factor is there because rest, where it stands in for the
seeds, is known from n (S - 1) values. With much rest and no luck of the seeds, three find differences in as few as
1.8%: seeds that agree too well no longer make up for those that agree too little (tests/statistics/test_variance.py
integrates; benchmarks/significance.py does the rest).

The jackknife costs one pass over the items for any metric that is a function of sums (task.Metric), has no random
numbers in it, and gives each item's share in the score of each seed, from which the part of the seeds and the part of
the items are told apart. The bootstrap of seeds and items together stands here by its name because papers use it; with
few seeds it is wrong (docs/statistics.md shows by how much), so nothing is decided by it.

Sources: Clark, The language-as-fixed-effect fallacy (1973) for seeds and items crossed (there: subjects and words);
Satterthwaite, An approximate distribution of estimates of variance components (1946); Wilson, Probable inference
(1927) with the sample size that gives the same variance, as surveys use it (Dean and Pagano 2015); Fisher (1921) for
r; Efron and Stein, The jackknife estimate of variance (Annals of Statistics 1981); Owen, The pigeonhole bootstrap
(Annals of Applied Statistics 2007); Bouthillier et al., Accounting for variance in machine learning benchmarks
(2021).

Shape suffixes: S seeds, n test items, R resamples, K numbers an item. `...`: studies side by side, in simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats
from scipy.optimize import brentq

from acclimate.core.types import Score
from acclimate.tasks.task import Metric, Values

RESAMPLES = 2_000
CHUNK = 4_000_000  # entries of a block: 32 MB, whatever the size of the test set and the number of classes


@dataclass(frozen=True, slots=True)
class Resampled:
    """One contestant's scores, and what each test item does to them.

    points_S   the score of each seed
    shares_Sn  n - 1 times what leaving out item i changes, less the mean of these: each seed's sum to 0
    least      the lowest value that the metric can take
    """

    contestant: str
    seeds: tuple[int, ...]
    points_S: Values
    shares_Sn: Values
    least: float


def resample(scores: Sequence[Score], metric: Metric) -> dict[str, Resampled]:
    """Every contestant's scores with each test item left out once, by rising seed.

    Raises ValueError for scores that were not computed on the same test items or by this metric, for fewer than two
    seeds of a contestant (their spread would be unknown), for a seed that occurs twice, and for fewer than two items.
    """
    _check(scores)
    grouped: dict[str, list[Score]] = {}
    for score in sorted(scores, key=lambda score: score.seed):
        grouped.setdefault(score.contestant, []).append(score)
    drawn = {}
    for name in dict.fromkeys(score.contestant for score in scores):
        parts = [jackknife(statistics_of(score, metric), metric.value) for score in grouped[name]]
        points_S, shares_Sn = (np.array(side) for side in zip(*parts, strict=True))
        drawn[name] = Resampled(name, tuple(score.seed for score in grouped[name]), points_S, shares_Sn, metric.least)
    return drawn


def jackknife(statistics_nK: Values, value: Callable[[Values], Values]) -> tuple[Values, Values]:
    """(...,) values of the items' sums and (..., n) shares of the items, for statistics (..., n, K).

    The variance of the shares over n estimates the variance of the value over test sets of n items.
    """
    sums_K = statistics_nK.sum(axis=-2, keepdims=True)
    count = statistics_nK.shape[-2]
    rows = max(1, CHUNK * count // max(statistics_nK.size, 1))
    blocks = [value(sums_K - statistics_nK[..., begin : begin + rows, :]) for begin in range(0, count, rows)]
    left_n = np.concatenate(blocks, axis=-1)
    return value(sums_K[..., 0, :]), (count - 1) * (left_n.mean(axis=-1, keepdims=True) - left_n)


def statistics_of(score: Score, metric: Metric) -> Values:
    """(n, K) of a score's predictions. Raises ValueError where the metric is not the one that gave the score."""
    statistics_nK = metric.statistics(score.gold, score.predicted)
    point = float(metric.value(statistics_nK.sum(axis=0)))
    if abs(score.test - point) > 1e-6:
        raise ValueError(
            f"{score.contestant!r}, seed {score.seed}: the score says {score.test:.6f}, but {metric.name} of its "
            f"predictions is {point:.6f}. Pass the metric that the task was scored with."
        )
    return statistics_nK


def hierarchical_bootstrap(
    scores: Sequence[Score],
    reference: Sequence[Score],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(low, high, p) of the difference, by drawing seeds and test items with replacement, both in pairs.

    Too sure with few seeds: S seeds drawn from S vary (S - 1) / S as much as new ones would, and 3 seeds get no tails.
    Raises ValueError as `resample` does, and where the two have not the same seeds.
    """
    _check([*scores, *reference])
    ours, theirs = (sorted(own, key=lambda score: score.seed) for own in (scores, reference))
    if [score.seed for score in ours] != [score.seed for score in theirs]:
        raise ValueError("the bootstrap over seeds needs the same seeds for both contestants; call compare instead.")
    pairs = [[statistics_of(score, metric) for score in pair] for pair in zip(ours, theirs, strict=True)]
    generator, items, number = np.random.default_rng(seed), len(scores[0].gold), len(pairs)
    drawn = []
    rows = max(1, CHUNK // items)
    for size in [rows] * (resamples // rows) + [resamples % rows] * (resamples % rows > 0):
        weights_Rn = generator.multinomial(items, np.full(items, 1 / items), size=size).astype(np.float64)
        gains_RS = np.stack([metric.value(weights_Rn @ a) - metric.value(weights_Rn @ b) for a, b in pairs], axis=1)
        drawn.append(np.take_along_axis(gains_RS, generator.integers(number, size=(size, number)), axis=1).mean(axis=1))
    gains_R = np.concatenate(drawn)
    low, high = np.quantile(gains_R, [0.025, 0.975])
    beyond = 1 + min(int(np.sum(gains_R <= 0)), int(np.sum(gains_R >= 0)))
    return float(low), float(high), min(1.0, 2.0 * beyond / (resamples + 1))


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
    if len(first.gold) < 2:
        raise ValueError(f"{len(first.gold)} test item: its luck cannot be told from the model; give two or more.")


LEVEL = 0.05
PULL = 4.5
ALMOST = 1e-9  # how near a correlation comes to 1 before Fisher's z of it is no number any more


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance of a mean over seeds and items, by where it comes from. Each (...,).

    seeds  part of the seeds, the rest included; it has `luck` degrees of freedom
    items  part of the items alone, at least 0
    luck   degrees of freedom of the seeds
    count  n
    rest   of the seeds' part, what more items would take away
    """

    seeds: Values
    items: Values
    luck: Values
    count: int
    rest: Values

    @property
    def variance(self) -> Values:
        return np.asarray(np.maximum(self.seeds, self.rest) + self.items)

    @property
    def freedom(self) -> Values:
        """Degrees of freedom of the variance."""
        agreeing = _part(self.seeds, np.maximum(self.seeds, self.rest))
        share = _part(self.seeds, self.variance) * agreeing ** ((self.luck - 1.0) / 2)
        of_seeds = share ** (2.0 - PULL * share / self.luck) / self.luck
        return np.asarray(1.0 / (of_seeds + (1.0 - share) ** 2 / (self.count - 1)))


@dataclass(frozen=True, slots=True)
class Sum:
    """Variance of a weighted sum of independent means, and its degrees of freedom. Each (...,)."""

    variance: Values
    freedom: Values


def spread_of(points_S: Values, shares_Sn: Values) -> Spread:
    """The spread of the mean of the scores (..., S), from the items' shares in them (..., S, n)."""
    number, count = shares_Sn.shape[-2:]
    mean_n = shares_Sn.mean(axis=-2)
    seeds = points_S.var(axis=-1, ddof=1) / number
    rest = rest_of(shares_Sn)
    items = mean_n.var(axis=-1, ddof=1) / count - rest
    return Spread(seeds, np.maximum(items, 0.0), np.full_like(seeds, number - 1.0), count, rest)


def unpaired(first: tuple[Values, Values], second: tuple[Values, Values]) -> Spread:
    """The spread of a difference of means over seeds that are not shared, on items that are: (scores, shares) each."""
    one, other = spread_of(*first), spread_of(*second)
    seeds, count = one.seeds + other.seeds, one.count
    # Welch and Satterthwaite; without any spread over seeds the degrees of freedom multiply a zero
    squares = one.seeds**2 / one.luck + other.seeds**2 / other.luck
    luck = np.where(squares > 0, _part(seeds**2, squares), one.luck + other.luck)
    mean_n = first[1].mean(axis=-2) - second[1].mean(axis=-2)
    rest = one.rest + other.rest
    items = mean_n.var(axis=-1, ddof=1) / count - rest
    return Spread(seeds, np.maximum(items, 0.0), luck, count, rest)


def summed(spreads: Sequence[Spread], weights: Sequence[float]) -> Sum:
    """The spread of a weighted sum of independent means, with Satterthwaite's degrees of freedom."""
    parts = [weight**2 * spread.variance for spread, weight in zip(spreads, weights, strict=True)]
    variance = np.sum(parts, axis=0)
    # without any spread the degrees of freedom multiply a zero
    shares = [np.where(variance > 0, _part(part, variance), 1 / len(parts)) for part in parts]
    inverse = np.sum([share**2 / spread.freedom for share, spread in zip(shares, spreads, strict=True)], axis=0)
    return Sum(variance, np.asarray(1.0 / inverse))


def rest_of(shares_Sn: Values) -> Values:
    """(...,) what is left of the seeds' shares once their mean is taken away, as a variance of the mean."""
    number, count = shares_Sn.shape[-2:]
    left_Sn = shares_Sn - shares_Sn.mean(axis=-2, keepdims=True)
    return np.asarray(left_Sn.var(axis=-1, ddof=1).sum(axis=-1) / (count * number * (number - 1)))


def p_value(difference: npt.ArrayLike, spread: Spread | Sum) -> Values:
    """Two-sided; 1 where nothing differs, 0 where a difference has no spread at all."""
    error = np.sqrt(spread.variance)
    ratio = np.divide(np.abs(difference), error, out=np.full_like(error, np.inf), where=error > 0)
    return np.where(np.asarray(difference) == 0, 1.0, 2.0 * stats.t.sf(ratio, spread.freedom))


def half_width(spread: Spread | Sum, *, level: float = LEVEL) -> Values:
    """Half the width of the (1 - level) interval of a difference: the difference whose p is `level`."""
    return np.asarray(stats.t.isf(level / 2, spread.freedom) * np.sqrt(spread.variance))


def bounds(
    mean: Values, spread: Spread, *, least: float, level: float = LEVEL, freedom: Values | None = None
) -> tuple[Values, Values]:
    """Ends of the (1 - level) interval of a score that lies between `least` and 1, and of whose ends it stays short.

    From 0 to 1: Wilson's interval for a share, of as many items as would give this variance (all n where it is 0). A
    correlation: on Fisher's scale. Of a part of a sum, `freedom` is that of the sum.
    """
    quantile = stats.t.isf(level / 2, spread.freedom if freedom is None else freedom)
    if least < 0:
        inside = np.clip(mean, -1 + ALMOST, 1 - ALMOST)
        half = quantile * np.sqrt(spread.variance) / (1 - inside**2)
        ends = np.tanh(np.arctanh(inside) - half), np.tanh(np.arctanh(inside) + half)
        return np.minimum(ends[0], mean), np.maximum(ends[1], mean)
    both = np.clip(mean * (1 - mean), 0.0, None)
    known = (both > 0) & (spread.variance > 0)
    number = np.where(known, _part(both, spread.variance), spread.count)
    pull = quantile**2 / number
    middle = (mean + pull / 2) / (1 + pull)
    half = np.sqrt(quantile**2 * both / number + pull**2 / 4) / (1 + pull)
    return np.clip(middle - half, 0.0, mean), np.clip(middle + half, mean, 1.0)


def bearing(shares_Sn: Values) -> Values:
    """(...,) how many items would bear this spread if each bore as much: n, less the more it hangs on a few; 0 of none.

    The mean of the seeds' shares has this kurtosis: (sum of squares)^2 / sum of fourth powers.
    """
    square_n = shares_Sn.mean(axis=-2) ** 2
    return np.asarray(_part(square_n.sum(axis=-1) ** 2, (square_n**2).sum(axis=-1)))


def shift(ratio: float, freedom: float, tail: float) -> float:
    """The mean d with P((Normal(d, 1) / sqrt(chi-square / freedom)) <= ratio) = tail: of a noncentral Student variable.

    An integral over the logarithm of chi-square / freedom, on which the trapezoid rule converges exponentially, and a
    root. (SciPy 1.17 has it as special.nctdtrinc, which does not return for some ordinary values.)
    """
    # the logarithm has mean 0 and standard deviation sqrt(2 / freedom), its left tail falls as exp(freedom / 2 log u)
    log_u = np.linspace(-80.0, 40.0, 2_001) / np.sqrt(freedom)
    density = np.exp(0.5 * freedom * (log_u - np.exp(log_u) + 1.0))
    likely = density > 1e-16
    density, middle = density[likely] / density[likely].sum(), ratio * np.exp(0.5 * log_u[likely])
    low, high = float(middle.min()) - 10.0, float(middle.max()) + 10.0
    return float(brentq(lambda d: float(density @ special.ndtr(middle - d)) - tail, low, high, xtol=1e-10))


def _part(top: Values, bottom: Values) -> Values:
    """Elementwise quotient; 0 where the denominator is 0."""
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom > 0)
