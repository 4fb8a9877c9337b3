"""Contestants judged by every metric that is reported of a task, out of one set of predictions: what studies with
several contestants and seeds have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from acclimate.core.types import Cost, Score
from acclimate.study.significance import Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.tasks.task import Metric


@dataclass(frozen=True)
class Pair:
    """A contestant against one before it. seeds: the t test over seeds alone; None where none differs.

    p_holm, seeds_holm  over all pairs of one metric
    """

    comparison: Comparison
    p_holm: float
    seeds_holm: float | None


@dataclass(frozen=True)
class Cell:
    """A contestant by one metric. points: of each seed, ascending; spread: their standard deviation (S - 1)."""

    contestant: str
    seeds: tuple[int, ...]
    points: tuple[float, ...]
    spread: float
    score: Interval
    adapting: Cost
    finetuning: Cost


@dataclass(frozen=True)
class Judged:
    """All contestants by one metric, the untouched model first."""

    metric: str
    cells: tuple[Cell, ...]
    pairs: tuple[Pair, ...]


def judged(scores: Sequence[Score], metric: Metric, *, against: Sequence[str] | None = None) -> Judged:
    """What these predictions come to by the metric, whichever they were scored by before.

    against: contestants that those behind them are compared with; None: all

    Raises ValueError where they cannot be compared (see significance.compare).
    """
    anew = [replace(own, metric=metric.name, test=metric.compute(own.gold, own.predicted)) for own in scores]
    draws = resample(anew, metric)
    cells = []
    for name, drawn in draws.items():
        own = [score for score in anew if score.contestant == name]
        values = tuple(float(value) for value in drawn.points_S)
        costs = (mean_cost(score.adapting for score in own), mean_cost(score.finetuning for score in own))
        spread = float(np.std(values, ddof=1))
        cells.append(Cell(name, drawn.seeds, values, spread, interval_of(drawn), *costs))
    compared = [
        compare_of(draws[later], draws[earlier])
        for earlier, later in combinations(draws, 2)
        if against is None or earlier in against
    ]
    corrected = holm([each.p for each in compared])
    tested = [each.p_seeds for each in compared if each.p_seeds is not None]
    by_seeds = iter(holm(tested))
    pairs = tuple(
        Pair(each, p, None if each.p_seeds is None else next(by_seeds))
        for each, p in zip(compared, corrected, strict=True)
    )
    return Judged(metric.name, tuple(cells), pairs)


def mean_cost(costs: Iterable[Cost]) -> Cost:
    """Of what several runs took; nothing where there were none."""
    own = list(costs)
    total, count = sum(own, Cost()), max(1, len(own))
    return Cost(round(total.tokens / count), total.flops / count, total.seconds / count)
