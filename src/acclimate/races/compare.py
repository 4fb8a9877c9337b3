"""Compares the cells of a study: intervals, tests and Holm's correction, the same for every study.

Intervals and tests count seeds and test items (statistics/significance.py); beside each stands the t test over seeds
alone. Means over tasks are those of statistics/means.py. Every metric of a cell comes out of the same predictions. A
cell of which half of the runs or more learnt nothing has a score, and is compared with nothing. Of a probe, which has
no seed, items alone are chance, and adaptations where the encoder was adapted several times. Scores by cross-validation
have the interval and test of statistics/folds.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import Cost
from acclimate.reports.table import UNTOUCHED
from acclimate.statistics.folds import compare_of_repeats, interval_of_repeats
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.significance import (
    FEWEST_SEEDS,
    LEVEL,
    Comparison,
    Interval,
    compare_of,
    holm,
    interval_of,
    resample,
)
from acclimate.statistics.simultaneous import Gain
from acclimate.statistics.variance import Resampled
from acclimate.tasks.metrics import metric_named

if TYPE_CHECKING:
    from acclimate.races.outcome import CellResult

MAIN = ""  # stands for the task's main metric, whatever its name is

Key = tuple[str, str, str]  # a cell's model, row and column


@dataclass(frozen=True)
class Against:
    """A cell or mean, and what it is compared with: of several references the one with the highest score.

    name    what comparisons of this kind are against, as a heading has it: "untouched", "as many steps"
    family  in words, which comparisons Holm's correction counts together: those with equal words
    """

    key: Key
    references: tuple[Key, ...]
    name: str
    family: str


@dataclass(frozen=True)
class Mean:
    """A mean over tasks. parts: the cells of each task, which are first taken together as their mean.

    weights  of the parts, in the same order; their sum is 1
    whole    True: there is no mean where one of the cells failed; False: it is that of the others, equally weighted
    shown    False for what only stands as a reference of comparisons
    metric   by which metric of the cells; of a cell that has it as its main metric, by that one
    """

    key: Key
    parts: tuple[tuple[Key, ...], ...]
    weights: tuple[float, ...]
    whole: bool = True
    shown: bool = True
    metric: str = MAIN


@dataclass(frozen=True, eq=False)
class Contrast:
    """A comparison that was made. metric: MAIN or a name.

    p_adjusted    p corrected for the comparisons of its family: by Holm's method, or by the simultaneous interval of an
                  adapted contestant of a race (`with_gains`)
    p_seeds_holm  Holm's p of the t test over seeds; None if no seed differs, and of means
    """

    against: Against
    reference: Key
    metric: str
    comparison: Comparison
    p_adjusted: float
    p_seeds_holm: float | None = None

    @property
    def established(self) -> bool:
        """True if the corrected p is below .05."""
        return self.p_adjusted < LEVEL

    @property
    def said(self) -> str:
        """Return "better", "worse" or "not established", by the corrected test."""
        if not self.established:
            return "not established"
        return "better" if self.comparison.difference > 0 else "worse"


@dataclass(frozen=True, eq=False)
class Compared:
    """Results by key (of a cell or a mean) and metric. There is none of what failed."""

    draws: Mapping[tuple[Key, str], Resampled]
    intervals: Mapping[tuple[Key, str], Interval]
    contrasts: tuple[Contrast, ...]

    def main_contrasts(self, name: str) -> list[Contrast]:
        """Return the comparisons of this name by the main metrics."""
        return [contrast for contrast in self.contrasts if contrast.against.name == name and contrast.metric == MAIN]

    def contrast(self, key: Key, name: str, metric: str = MAIN) -> Contrast | None:
        """Return the comparison of this cell that has this name; None if it was not made."""
        return self._contrasts_by_place.get((key, name, metric))

    @cached_property
    def _contrasts_by_place(self) -> dict[tuple[Key, str, str], Contrast]:
        return {(contrast.against.key, contrast.against.name, contrast.metric): contrast for contrast in self.contrasts}

    def count(self, family: str) -> int:
        """Return the number of comparisons of one metric that Holm's correction counts together."""
        return sum(contrast.against.family == family and contrast.metric == MAIN for contrast in self.contrasts)


def compare(cells: Mapping[Key, CellResult], against: Sequence[Against], means: Sequence[Mean] = ()) -> Compared:
    """Return all comparisons of `against` between cells that did not fail and that learnt something, by every metric of
    their tasks.

    Raises ValueError where two cells that are compared were not scored on the same items.
    """
    draws = _draws(cells)
    untaught = {key for key, cell in cells.items() if not cell.learnt}
    intervals = {at: _interval(drawn, cells[at[0]]) for at, drawn in draws.items()}
    by_key = {mean.key: mean for mean in means}
    for mean in means:
        parts = _parts(mean, cells, draws)
        resamples = [part for part in parts if part]
        if resamples and len(resamples) == len(parts):
            intervals[mean.key, MAIN] = mean_interval(resamples, mean.weights)
        elif resamples and not mean.whole:
            intervals[mean.key, MAIN] = mean_interval(resamples, [1 / len(resamples)] * len(resamples))
    compared_parts = {mean.key: _parts(mean, cells, draws, without=untaught) for mean in means}

    comparisons: list[tuple[Against, Key, str, Comparison]] = []
    for name in dict.fromkeys(metric for _, metric in draws):
        for pairing in against:
            references = [key for key in pairing.references if (key, name) in intervals and key not in untaught]
            if (pairing.key, name) not in intervals or pairing.key in untaught or not references:
                continue
            reference = max(references, key=lambda key: intervals[key, name].mean)
            if pairing.key in by_key:
                comparison = _mean_comparison(
                    by_key[pairing.key], compared_parts[pairing.key], compared_parts[reference]
                )
            else:
                one, other = cells[pairing.key], cells[reference]
                if one.scores[0].ids != other.scores[0].ids:
                    raise ValueError(
                        f"{one.row} and {other.row} have scores on different items of {one.column}, so they cannot be "
                        "compared. Score both on the same items"
                    )
                comparison = _difference(one, draws[pairing.key, name], draws[reference, name])
            if comparison is not None:
                comparisons.append((pairing, reference, name, comparison))
    return Compared(draws, intervals, tuple(_corrected(comparisons)))


def with_gains(compared: Compared, gains: Sequence[Gain]) -> Compared:
    """Return the comparisons, those of the gains with their intervals and p, which are corrected for all gains."""
    gain_by_row = {gain.contestant: gain for gain in gains}

    def adjusted(contrast: Contrast) -> Contrast:
        gain = gain_by_row.get(contrast.against.key[1])
        if gain is None or contrast.against.name != UNTOUCHED or contrast.metric != MAIN:
            return contrast
        (low, high), p = gain.single, gain.single_p
        return replace(contrast, comparison=replace(contrast.comparison, low=low, high=high, p=p), p_adjusted=gain.p)

    return replace(compared, contrasts=tuple(map(adjusted, compared.contrasts)))


def scores_alone(cells: Mapping[Key, CellResult]) -> Compared:
    """Return the mean of each cell by every metric, with the range of its runs and no comparison."""
    intervals: dict[tuple[Key, str], Interval] = {}
    for key, cell in cells.items():
        for metric in map(metric_named, cell.task.metrics if cell.scores and not cell.failed else ()):
            name = MAIN if metric.name == cell.task.metric else metric.name
            runs = [metric.compute(score.gold, score.predicted) for score in cell.scores]
            intervals[key, name] = Interval(sum(runs) / len(runs), min(runs), max(runs), range_of_runs=True)
    return Compared({}, intervals, ())


def _draws(cells: Mapping[Key, CellResult]) -> dict[tuple[Key, str], Resampled]:
    """Return the scores of each cell that did not fail, by every metric of its task, with each item's influence."""
    equal_runs = _equal_runs(cells.values())
    draws: dict[tuple[Key, str], Resampled] = {}
    for key, cell in cells.items():
        if cell.failed:
            continue
        for metric in map(metric_named, cell.task.metrics):
            name = MAIN if metric.name == cell.task.metric else metric.name
            anew = [
                replace(score, metric=metric.name, test=metric.compute(score.gold, score.predicted))
                for score in cell.scores
            ]
            if len(anew) == 1 and cell.probe and not cell.task.folds:
                anew = [replace(anew[0], seed=number) for number in range(equal_runs)]
            [draws[key, name]] = resample(anew, metric).values()
    return draws


def _interval(drawn: Resampled, cell: CellResult) -> Interval:
    if folds := cell.task.folds:
        return interval_of_repeats(drawn, folds=folds)
    interval = interval_of(drawn)
    return replace(interval, caution=_name_adaptations(interval.caution)) if cell.probe else interval


def _difference(cell: CellResult, drawn: Resampled, reference: Resampled) -> Comparison:
    """Return the comparison of a cell, whose scores are `drawn`, with those of another cell."""
    if folds := cell.task.folds:
        return compare_of_repeats(drawn, reference, folds=folds)
    comparison = compare_of(drawn, reference)
    return _probe_comparison(comparison, len(cell.scores)) if cell.probe else comparison


def _equal_runs(cells: Iterable[CellResult]) -> int:
    """Return for how many equal runs the one score of a probe stands, which no seed changes: as many as other probes
    have adaptations, or FEWEST_SEEDS. Nothing varies between equal runs, so chance is that of items alone, and where
    the other side has several adaptations, each is compared with the same score.
    """
    most = max((len(cell.scores) for cell in cells if cell.probe), default=1)
    return most if most > 1 else FEWEST_SEEDS


def _probe_comparison(comparison: Comparison, adaptations: int) -> Comparison:
    """Return the comparison of two probes without what is said of seeds. adaptations: that the first one rests on"""
    test = "Student's t over paired test items"
    if adaptations == 1:
        return replace(comparison, test=test, p_seeds=None, p_permutation=None, seeds=1)
    return replace(comparison, test=f"{test} and adaptations", caution=_name_adaptations(comparison.caution))


def _name_adaptations(caution: str) -> str:
    """Return the caution with the word for what varies between the runs of a probe."""
    return caution.replace("seeds", "adaptations")


def _corrected(comparisons: Sequence[tuple[Against, Key, str, Comparison]]) -> Iterable[Contrast]:
    """Return the comparisons with Holm's p over each family and metric; likewise of the t tests over seeds."""
    families: dict[tuple[str, str], list[int]] = {}
    for number, (against, _, metric, _) in enumerate(comparisons):
        families.setdefault((against.family, metric), []).append(number)
    p_adjusted: dict[int, float] = {}
    p_seeds: dict[int, float] = {}
    for numbers in families.values():
        p_adjusted |= zip(numbers, holm([comparisons[at][3].p for at in numbers]), strict=True)
        several = [(at, p) for at in numbers if (p := comparisons[at][3].p_seeds) is not None]
        p_seeds |= zip([at for at, _ in several], holm([p for _, p in several]), strict=True)
    return (Contrast(*one, p_adjusted[at], p_seeds.get(at)) for at, one in enumerate(comparisons))


def _parts(
    mean: Mean,
    cells: Mapping[Key, CellResult],
    draws: Mapping[tuple[Key, str], Resampled],
    without: Collection[Key] = (),
) -> list[Resampled | None]:
    """Return the mean of each part's cells, on the same items and seeds; None where it, or one of them, is missing."""
    means: list[Resampled | None] = []
    for part in mean.parts:
        names = {key: MAIN if cells[key].task.metric == mean.metric else mean.metric for key in part}
        draws_of_part = [draws[at] for at in names.items() if at in draws and at[0] not in without]
        if not draws_of_part or (mean.whole and len(draws_of_part) < len(part)):
            means.append(None)
            continue
        if len(draws_of_part) == 1 == len(part):
            means.append(draws_of_part[0])
            continue
        points_S = np.mean([drawn.points_S for drawn in draws_of_part], axis=0)
        shares_Sn = np.mean([drawn.shares_Sn for drawn in draws_of_part], axis=0)
        means.append(replace(draws_of_part[0], contestant="mean", points_S=points_S, shares_Sn=shares_Sn))
    return means


def _mean_comparison(
    mean: Mean, ours: Sequence[Resampled | None], theirs: Sequence[Resampled | None]
) -> Comparison | None:
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one is not None and other is not None]
    if not pairs or (mean.whole and len(pairs) < len(ours)):
        return None
    weights = mean.weights if len(pairs) == len(ours) else [1 / len(pairs)] * len(pairs)
    return mean_difference([one for one, _ in pairs], [other for _, other in pairs], weights)


def mean_cost(costs: Iterable[Cost]) -> Cost:
    """Return the mean of what several runs took; a cost of 0 if there were none."""
    several = list(costs)
    total, count = sum(several, Cost()), max(1, len(several))
    return Cost(round(total.tokens / count), total.flops / count, total.seconds / count)
