"""What a race can find: the smallest true difference that stands out from luck, before anything is trained or after.

Two contestants' difference, averaged over S shared seeds on n test items, has the variance

    (persistent + passing / S) / n  +  2 spread^2 / S          of which the seeds see  2 spread^2 / S + passing / (S n)

persistent: items that one of the two gets right whatever the seed; passing: items that change hands from seed to seed.
It is found where Student's t, with the degrees of freedom of statistics/variance.py, passes the level that
Holm's first step
leaves: .05 over the number of comparisons. tests/statistics/test_power.py compares that with simulated races.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from acclimate.core.types import Score
from acclimate.statistics.significance import Comparison, compare
from acclimate.statistics.variance import LEVEL, Spread, shift
from acclimate.tasks.task import Metric

STEADY = 0.3
MORE_SEEDS = (5, 10)
MOST_FREEDOM = 1e6  # beyond it a Student variable is a normal one
RESAMPLES = 1_000
ALLOWANCE = 3.0  # standard errors over items, where one seed says nothing about the spread over seeds
CHUNK = 4_000_000  # entries of a block of weights


@dataclass(frozen=True, slots=True)
class Design:
    """A comparison to be made, or made again with more items or seeds. Variances are of one difference, squared units.

    persistent  over items, the same for all seeds; divided by the items
    passing     over items, anew for each seed; divided by items and seeds
    luck        over seeds, the same for all items: 2 spread^2; divided by the seeds
    comparisons how many contestants are compared with the untouched model: Holm's first step divides by it
    power       the probability with which the difference shall be found
    """

    items: int
    seeds: int
    persistent: float
    passing: float
    luck: float
    comparisons: int = 1
    power: float = 0.8

    def detectable(self, *, items: int | None = None, seeds: int | None = None) -> float:
        """The smallest true difference found with `power`, in units of the metric; with other items or seeds if given.

        Where it is more than the score lacks to 1, no difference is.
        """
        items, seeds = items or self.items, seeds or self.seeds
        for name, number in (("items", items), ("seeds", seeds)):
            if number < 2:
                raise ValueError(f"{name}={number}: luck cannot be told from a difference; it takes two at least")
        rest = self.passing / (items * seeds)
        parts = np.array([self.luck / seeds + rest, self.persistent / items, seeds - 1, rest])
        spread = Spread(parts[0:1], parts[1:2], parts[2:3], items, parts[3:4])
        freedom = min(float(spread.freedom[0]), MOST_FREEDOM)
        needed = float(stats.t.isf(LEVEL / self.comparisons / 2, freedom))
        return shift(needed, freedom, 1 - self.power) * float(np.sqrt(spread.variance[0]))

    def advice(self) -> str:
        """What would make it smaller, in two sentences: twice the test items, and more seeds."""
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
) -> Design:
    """The comparison of two contestants of about this score, for a metric that is a mean over items or nearly so.

    score         expected, from 0 to 1
    disagreement  share of the items that one of two contestants gets right and the other wrong, one seed of each. None:
                  half of what two that know nothing of each other would, score (1 - score): contestants are one model
                  fine-tuned on the same rows, and mostly fail on the same items
    steady        share of that disagreement which is the same whatever the seed. A guess: most items that change hands
                  between two contestants also do between two seeds of one
    seed_spread   standard deviation of a contestant's score over seeds, were the test set endless. A point is a guess:
                  with few training rows it is more, and a race on dev tells

    Raises ValueError for a share outside 0 to 1, no comparison, and fewer than two items or seeds.
    """
    shares = {"score": score, "disagreement": disagreement or 0.0, "steady": steady, "power": power}
    wrong = [f"{name}={value}" for name, value in shares.items() if not 0 <= value <= 1]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: a share lies between 0 and 1; 80% is 0.8")
    if comparisons < 1:
        raise ValueError(f"comparisons={comparisons}: count the contestants other than the untouched model, 1 at least")
    among = score * (1 - score) if disagreement is None else disagreement
    return Design(items, seeds, steady * among, (1 - steady) * among, 2 * seed_spread**2, comparisons, power)


def measured(comparison: Comparison, *, comparisons: int = 1, power: float = 0.8) -> Design:
    """The same comparison made again, from what it found.

    Where chance made what passes from seed to seed larger than all that seeds do together, their luck is 0.
    """
    found, items, seeds = comparison, comparison.items, comparison.seeds
    return Design(
        items,
        seeds,
        persistent=found.variance_items * items,
        passing=found.variance_rest * items * seeds,
        luck=max(found.variance_seeds - found.variance_rest, 0.0) * seeds,
        comparisons=comparisons,
        power=power,
    )


def beyond_reach(rival: Sequence[Score], untouched: Sequence[Score], metric: Metric) -> bool:
    """Whether the rival's expected score is below the untouched model's, by what dev has shown so far.

    rival, untouched: rows on dev of the same seeds. With two seeds or more: the 95% interval of the difference, over
    seeds and items, lies below 0. With one: the difference plus ALLOWANCE standard errors over items does.
    """
    if len(rival) > 1:
        return compare(rival, untouched, metric).high < 0
    [ours], [theirs] = rival, untouched
    ours_nK, theirs_nK = metric.statistics(ours.gold, ours.predicted), metric.statistics(theirs.gold, theirs.predicted)
    items = len(ours.gold)
    generator = np.random.default_rng(0)
    drawn: list[float] = []
    while len(drawn) < RESAMPLES:
        rows = min(RESAMPLES - len(drawn), max(1, CHUNK // items))
        weights_Rn = generator.multinomial(items, np.full(items, 1 / items), size=rows).astype(np.float64)
        drawn += list(metric.value(weights_Rn @ ours_nK) - metric.value(weights_Rn @ theirs_nK))
    return bool(ours.test - theirs.test + ALLOWANCE * np.std(drawn) < 0)
