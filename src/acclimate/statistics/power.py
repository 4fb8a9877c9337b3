"""Power: the smallest true difference that a comparison detects with a given probability, before or after training.

The difference of two contestants' means over S shared seeds and n test items has the variance components

    Var = (item + residual / S) / n + seed / S        of which the seeds' part is  seed / S + residual / (S n)

item: variance over items of what is the same for all seeds; residual: over items and seeds; seed: over seeds. The
difference is detected if Student's t, with the degrees of freedom of statistics/variance.py, exceeds its critical value
at the level of Holm's first step, .05 / comparisons. The smallest difference detected with probability `power` is then

    d sqrt(Var),  where a noncentral t with noncentrality d exceeds the critical value with probability `power`

Assumed: paired seeds, a normal mean, and that the power of Holm's later steps is left out. Simulated races confirm it
(tests/statistics/test_power.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from acclimate.core.types import Score
from acclimate.statistics.significance import Comparison, compare
from acclimate.statistics.variance import CHUNK, LEVEL, Components, noncentrality
from acclimate.tasks.task import Metric

STEADY = 0.3  # share of two contestants' disagreement that is the same for all seeds: a guess
MORE_SEEDS = (5, 10)  # numbers of seeds that advice mentions
NORMAL = 1e6  # degrees of freedom from which Student's t is computed as a normal variable
RESAMPLES = 1_000
ALLOWANCE = 3.0  # standard errors over items that stand in for the unknown variance over seeds where there is one seed


@dataclass(frozen=True, slots=True)
class PowerDesign:
    """A comparison to be made, or made again with more items or seeds.

    item_variance      of the difference over items, the same for all seeds; divided by the items
    residual_variance  over items and seeds; divided by items times seeds
    seed_variance      over seeds, the same for all items; divided by the seeds. Twice that of one contestant
    comparisons        contestants that are compared with the untouched model: Holm's first step divides .05 by it
    power              probability with which the difference is to be detected

    Variances are of one item's difference with one seed, in squared units of the metric.
    """

    items: int
    seeds: int
    item_variance: float
    residual_variance: float
    seed_variance: float
    comparisons: int = 1
    power: float = 0.8

    def detectable(self, *, items: int | None = None, seeds: int | None = None) -> float:
        """The smallest true difference detected with `power`, in units of the metric, for these items and seeds.

        It can be larger than 1 less the score, and then no possible improvement is detected with this power.
        """
        items, seeds = items or self.items, seeds or self.seeds
        for name, number in (("items", items), ("seeds", seeds)):
            if number < 2:
                raise ValueError(f"{name}={number}: there is no variance over fewer than two")
        residual = self.residual_variance / (items * seeds)
        seen = np.array([self.seed_variance / seeds + residual, self.item_variance / items, seeds - 1, residual])
        components = Components(seen[0:1], seen[1:2], seen[2:3], items, seen[3:4])
        freedom = min(float(components.freedom[0]), NORMAL)
        critical = float(stats.t.isf(LEVEL / self.comparisons / 2, freedom))
        return noncentrality(critical, freedom, 1 - self.power) * float(np.sqrt(components.variance[0]))

    def advice(self) -> str:
        """Two sentences: the smallest detectable difference, and what twice the test items or more seeds make of it."""
        now, twice = self.detectable(), self.detectable(items=2 * self.items)
        more = [number for number in MORE_SEEDS if number > self.seeds]
        seeds = " and ".join(f"with {number} to {100 * self.detectable(seeds=number):.1f}" for number in more)
        smallest = f"{100 * now:.1f} points is the smallest difference that {self.items:,} test items and {self.seeds} "
        smallest += f"seeds find with a probability of {self.power:.0%}"
        if self.comparisons > 1:
            smallest += f", {self.comparisons} comparisons counted"
        gains = f"Twice the test items would bring it to {100 * twice:.1f} points"
        return f"{smallest}. {gains}{'; more seeds, ' + seeds if more else ''}."


def guessed(
    items: int,
    seeds: int,
    *,
    score: float = 0.8,
    disagreement: float | None = None,
    steady: float = STEADY,
    seed_spread: float = 0.01,
    comparisons: int = 1,
    power: float = 0.8,
) -> PowerDesign:
    """The PowerDesign of a comparison of two contestants, for a metric that is a mean over items or nearly so.

    score         expected score, from 0 to 1
    disagreement  share of the items that exactly one of two contestants gets right, with one seed each. None: half that
                  of two independent contestants, score (1 - score), because both are one model fine-tuned on the same
                  rows and mostly fail on the same items
    steady        share of that disagreement which is the same for all seeds
    seed_spread   standard deviation over seeds of a contestant's score on an infinite test set. One point is a guess;
                  with few training rows it is more, as a race on dev shows

    Raises ValueError for a share outside 0 to 1, no comparison, and fewer than two items or seeds.
    """
    shares = {"score": score, "disagreement": disagreement or 0.0, "steady": steady, "power": power}
    wrong = [f"{name}={value}" for name, value in shares.items() if not 0 <= value <= 1]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: a share lies between 0 and 1; 80% is 0.8")
    if comparisons < 1:
        raise ValueError(f"comparisons={comparisons}: count the contestants other than the untouched model, 1 at least")
    among = score * (1 - score) if disagreement is None else disagreement
    return PowerDesign(items, seeds, steady * among, (1 - steady) * among, 2 * seed_spread**2, comparisons, power)


def measured(comparison: Comparison, *, comparisons: int = 1, power: float = 0.8) -> PowerDesign:
    """The PowerDesign of the same comparison made again, with the variance components that it found.

    The seed variance is 0 if by chance the residual was estimated as larger than the seeds' whole part.
    """
    items, seeds = comparison.items, comparison.seeds
    return PowerDesign(
        items,
        seeds,
        item_variance=comparison.variance_items * items,
        residual_variance=comparison.variance_residual * items * seeds,
        seed_variance=max(comparison.variance_seeds - comparison.variance_residual, 0.0) * seeds,
        comparisons=comparisons,
        power=power,
    )


def beyond_reach(rival: Sequence[Score], untouched: Sequence[Score], metric: Metric) -> bool:
    """True if the rival's expected score is below the untouched model's, by their scores on dev with the same seeds.

    With two seeds or more: the 95% interval of the difference over seeds and items lies below 0. With one: the
    difference plus ALLOWANCE standard errors over items, by a bootstrap of the items, lies below 0.
    """
    if len(rival) > 1:
        return compare(rival, untouched, metric).high < 0
    [ours], [theirs] = rival, untouched
    ours_nK, theirs_nK = metric.statistics(ours.gold, ours.predicted), metric.statistics(theirs.gold, theirs.predicted)
    items = len(ours.gold)
    generator = np.random.default_rng(0)
    differences: list[float] = []
    while len(differences) < RESAMPLES:
        rows = min(RESAMPLES - len(differences), max(1, CHUNK // items))
        weights_Rn = generator.multinomial(items, np.full(items, 1 / items), size=rows).astype(np.float64)
        differences += list(metric.value(weights_Rn @ ours_nK) - metric.value(weights_Rn @ theirs_nK))
    return bool(ours.test - theirs.test + ALLOWANCE * np.std(differences) < 0)
