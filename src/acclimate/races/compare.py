"""Compares the cells of a study: intervals, tests and Holm's correction, the same for every study and race.

Intervals and tests count seeds and test items (statistics/significance.py); beside each stands the t test over seeds
alone. Means over tasks are those of statistics/means.py. Every metric of a cell comes out of the same predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core.types import Cost, Score
from acclimate.reports.table import UNTOUCHED, GeneralLoss, Row
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.significance import LEVEL, Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.statistics.variance import Resampled
from acclimate.tasks.task import Metric

if TYPE_CHECKING:  # none of which is called: comparing loads no torch
    from acclimate.races.design import Against, Cell, Design, Key, Mean
    from acclimate.races.report import Trial
    from acclimate.races.search import Ended

MAIN = ""  # stands for the task's main metric, whatever its name is


@dataclass(frozen=True, eq=False)
class Ran:
    """What a cell came to.

    scores  of the seeds that are there, ascending; failed: why one is not, "" where all are
    costs   stage -> the mean over seeds of what it took
    facts   column of the tables -> value
    """

    cell: Cell
    scores: tuple[Score, ...]
    failed: str
    costs: Mapping[str, Cost]
    facts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Contrast:
    """A comparison that was made. metric: MAIN or a name; p_seeds_holm: None where no seed differs, and of means."""

    against: Against
    reference: Key
    metric: str
    comparison: Comparison
    p_holm: float
    p_seeds_holm: float | None = None

    @property
    def established(self) -> bool:
        return self.p_holm < LEVEL

    @property
    def said(self) -> str:
        """What the corrected test bears out."""
        if not self.established:
            return "not established"
        return "better" if self.comparison.difference > 0 else "worse"


@dataclass(frozen=True, eq=False)
class Compared:
    """By key (of a cell or a mean) and metric. Of what failed nothing is there."""

    draws: Mapping[tuple[Key, str], Resampled]
    intervals: Mapping[tuple[Key, str], Interval]
    contrasts: tuple[Contrast, ...]

    def of(self, key: Key, name: str, metric: str = MAIN) -> Contrast | None:
        """The comparison of this cell that goes by this name."""
        return self._by_place.get((key, name, metric))

    @cached_property
    def _by_place(self) -> dict[tuple[Key, str, str], Contrast]:
        return {(each.against.key, each.against.name, each.metric): each for each in self.contrasts}

    def count(self, family: str) -> int:
        """Comparisons that Holm's correction counts together, of a metric."""
        return sum(each.against.family == family and each.metric == MAIN for each in self.contrasts)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The cell that dev chose, tested. whole, alone: FLOP of all that was tried, and of the chosen cell by itself."""

    ran: Ran
    tried: int
    whole: float
    alone: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a study came to.

    losses  name -> row -> loss on held-out text
    trials  search -> its record; ended: search -> all that it came to
    """

    design: Design
    ran: Mapping[Key, Ran]
    losses: Mapping[str, Mapping[str, GeneralLoss]] = field(default_factory=dict)
    trials: Mapping[Key, Sequence[Trial]] = field(default_factory=dict)
    chosen: Chosen | None = None
    ended: Mapping[Key, Ended] = field(default_factory=dict)

    @cached_property
    def compared(self) -> Compared:
        """The comparisons that the design asks for, made when they are first asked for."""
        return compare(self.ran, self.design.against, self.design.means, self.design.metrics)

    @property
    def failed(self) -> dict[Key, str]:
        """Cell -> why it has no score."""
        return {key: ran.failed for key, ran in self.ran.items() if ran.failed}

    def interval(self, key: Key, metric: str = MAIN) -> Interval | None:
        return self.compared.intervals.get((key, metric))


def compare(
    ran: Mapping[Key, Ran],
    against: Sequence[Against],
    means: Sequence[Mean] = (),
    metrics: Callable[[Metric], Sequence[Metric]] = lambda metric: (metric,),
) -> Compared:
    """All comparisons of `against` between cells that did not fail, by every metric of their tasks.

    Raises ValueError where two cells that are compared were not scored on the same items.
    """
    draws: dict[tuple[Key, str], Resampled] = {}
    for key, cell in ran.items():
        if cell.failed:
            continue
        main = cell.cell.task.metric
        for metric in metrics(main):
            name = MAIN if metric.name == main.name else metric.name
            anew = [
                replace(score, metric=metric.name, test=metric.compute(score.gold, score.predicted))
                for score in cell.scores
            ]
            [draws[key, name]] = resample(anew, metric).values()
    intervals = {at: interval_of(drawn) for at, drawn in draws.items()}
    taken = {mean.key: _parts(mean, draws) for mean in means}
    by_key = {mean.key: mean for mean in means}
    for key, parts in taken.items():
        there = [part for part in parts if part]
        if there and len(there) == len(parts):
            intervals[key, MAIN] = mean_interval(there, by_key[key].weights)
        elif there and not by_key[key].whole:
            intervals[key, MAIN] = mean_interval(there, [1 / len(there)] * len(there))

    made: list[tuple[Against, Key, str, Comparison]] = []
    for name in dict.fromkeys(metric for _, metric in draws):
        for asked in against:
            references = [key for key in asked.references if (key, name) in intervals]
            if (asked.key, name) not in intervals or not references:
                continue
            reference = max(references, key=lambda key: intervals[key, name].mean)
            if asked.key in by_key:
                found = _of_means(by_key[asked.key], taken[asked.key], taken[reference])
            else:
                _check_items(ran[asked.key], ran[reference])
                found = compare_of(draws[asked.key, name], draws[reference, name])
            if found is not None:
                made.append((asked, reference, name, found))
    return Compared(draws, intervals, tuple(_corrected(made)))


def rows(outcome: Outcome) -> list[Row]:
    """A row for each contestant of a race that has a score: the untouched model first, then by falling mean score,
    equal means by name.
    """
    made = []
    for key, ran in outcome.ran.items():
        if ran.failed:
            continue
        contrast = outcome.compared.of(key, UNTOUCHED)
        row = Row(
            contestant=ran.cell.row,
            task=ran.scores[0].task,
            metric=ran.scores[0].metric,
            seeds=tuple(score.seed for score in ran.scores),
            scores=tuple(score.test for score in ran.scores),
            dev=tuple(score.dev for score in ran.scores),
            score=outcome.compared.intervals[key, MAIN],
            comparison=contrast.comparison if contrast else None,
            p_holm=contrast.p_holm if contrast else None,
            adapting=ran.costs.get("adapting", Cost()),
            finetuning=ran.costs.get("tuning", Cost()),
        )
        made.append(row)
    return sorted(made, key=lambda row: (row.comparison is not None, -row.score.mean, row.contestant))


def best_on_dev(several: Iterable[Ran]) -> Ran | None:
    """The one with the best mean on dev, the first of equals; None where all failed. The test set chooses nothing."""
    there = [ran for ran in several if ran.scores and not ran.failed]
    return max(there, key=lambda ran: sum(score.dev for score in ran.scores) / len(ran.scores), default=None)


def _corrected(made: Sequence[tuple[Against, Key, str, Comparison]]) -> Iterable[Contrast]:
    """Holm's correction over the comparisons of one family and metric; likewise of the t tests over seeds."""
    families: dict[tuple[str, str], list[int]] = {}
    for number, (against, _, metric, _) in enumerate(made):
        families.setdefault((against.family, metric), []).append(number)
    p_holm: dict[int, float] = {}
    p_seeds: dict[int, float] = {}
    for numbers in families.values():
        p_holm |= zip(numbers, holm([made[at][3].p for at in numbers]), strict=True)
        several = [(at, p) for at in numbers if (p := made[at][3].p_seeds) is not None]
        p_seeds |= zip([at for at, _ in several], holm([p for _, p in several]), strict=True)
    return (Contrast(*one, p_holm[at], p_seeds.get(at)) for at, one in enumerate(made))


def _parts(mean: Mean, draws: Mapping[tuple[Key, str], Resampled]) -> list[Resampled | None]:
    """Of each part the mean of its cells, on the same items and seeds; None where it, or one of them, is not there."""
    found: list[Resampled | None] = []
    for part in mean.parts:
        there = [draws[key, MAIN] for key in part if (key, MAIN) in draws]
        if not there or (mean.whole and len(there) < len(part)):
            found.append(None)
            continue
        if len(there) == 1 == len(part):
            found.append(there[0])
            continue
        points_S = np.mean([drawn.points_S for drawn in there], axis=0)
        shares_Sn = np.mean([drawn.shares_Sn for drawn in there], axis=0)
        found.append(replace(there[0], contestant="mean", points_S=points_S, shares_Sn=shares_Sn))
    return found


def _of_means(mean: Mean, ours: Sequence[Resampled | None], theirs: Sequence[Resampled | None]) -> Comparison | None:
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one is not None and other is not None]
    if not pairs or (mean.whole and len(pairs) < len(ours)):
        return None
    weights = mean.weights if len(pairs) == len(ours) else [1 / len(pairs)] * len(pairs)
    return mean_difference([one for one, _ in pairs], [other for _, other in pairs], weights)


def _check_items(one: Ran, other: Ran) -> None:
    if one.scores[0].ids != other.scores[0].ids:
        raise ValueError(
            f"{one.cell.row} and {other.cell.row} were not scored on the same items of {one.cell.column}: they cannot "
            f"be compared"
        )


def mean_cost(costs: Iterable[Cost]) -> Cost:
    """Of what several runs took; nothing where there were none."""
    several = list(costs)
    total, count = sum(several, Cost()), max(1, len(several))
    return Cost(round(total.tokens / count), total.flops / count, total.seconds / count)
