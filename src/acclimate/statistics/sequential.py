"""The level of each evaluation on the test set, if a race continues until it is settled.

Such a race is evaluated after each round from FIRST on, and each evaluation may end it. So each gets a part of the
significance (alpha spending, Lan and DeMets 1983). The parts depend on the number of rounds S alone and there is no
last round. Neither a budget nor a resumed race changes them. Spent by round S:

    spent(S) = SPENT (1 - (FIRST - 1) / S)

The level of round S is 2 Phi(-z_S). A Brownian motion B is seen at the times FIRST, ..., S. It first leaves
|B(s)| < z_s sqrt(s) at S with the probability spent(S) - spent(S - 1). A difference whose
variance comes from seeds alone is such a motion. Test rows are the same in all rounds, so with them evaluations agree
more, and err less often in all. Student's t is used at the level of the normal distribution (Jennison and Turnbull
2000, chapter 4.4). Over all evaluations it then errs up to 1.25 times as often, so 4% are spent in place of 5%.

Intervals at these levels are repeated confidence intervals: those of all rounds together hold the truth in 95%.
Simulated: benchmarks/reports/2026-11-29-until-settled.md.

References
  Armitage, McPherson and Rowe (1969), Repeated significance tests on accumulating data, for the recursion.
  Lan and DeMets (1983), Discrete sequential boundaries for clinical trials.
  Jennison and Turnbull (1989), Interim analyses: the repeated confidence interval approach.
  Jennison and Turnbull (2000), Group sequential methods with applications to clinical trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, islice

import numpy as np

from acclimate.statistics.significance import FEWEST_SEEDS

FIRST = FEWEST_SEEDS  # round of the first evaluation
SPENT = 0.04  # by all evaluations; chosen by simulation so that together they err in at most 5%
NODES, DENSER = 24, 4  # of the quadrature: so many, and so many more for each unit of the limit


def spent(rounds: int) -> float:
    """Return the significance that the evaluations have spent by the end of this round."""
    return SPENT * (1.0 - (FIRST - 1) / rounds) if rounds >= FIRST else 0.0


@cache
def evaluation_level(rounds: int) -> float:
    """Return the level of the evaluation after so many rounds. Raises ValueError for fewer than FIRST."""
    if rounds < FIRST:
        raise ValueError(f"rounds={rounds}: the first evaluation is after {FIRST} rounds")
    return [*islice(levels_of(spent), rounds - FIRST + 1)][-1]


def levels_of(spending: Callable[[int], float]) -> Iterator[float]:
    """Yield the level of each evaluation, from round FIRST on, by the equation at the top of this file.

    spending: number of rounds -> significance that is spent by then, rising
    """
    from scipy import optimize, special

    points, weights = np.zeros(1), np.ones(1)  # the motion within its last limit, and its density times a weight
    scale = np.sqrt(FIRST)  # of its next step
    for rounds in count(FIRST):

        def beyond(
            limit: float, points: np.ndarray = points, weights: np.ndarray = weights, scale: float = scale
        ) -> float:
            outside = special.ndtr((points - limit) / scale) + special.ndtr((-limit - points) / scale)
            return float(weights @ outside)

        part = spending(rounds) - spending(rounds - 1)
        limit = optimize.brentq(lambda limit, part=part: beyond(limit) - part, 0.0, 40.0 * rounds, xtol=1e-10)
        yield float(2.0 * special.ndtr(-limit / np.sqrt(rounds)))
        nodes, node_weights = np.polynomial.legendre.leggauss(NODES + int(DENSER * limit))
        steps = (limit * nodes[:, None] - points) / scale
        density = np.exp(-(steps**2) / 2) @ weights / (scale * np.sqrt(2 * np.pi))
        points, weights, scale = limit * nodes, density * node_weights * limit, 1.0
