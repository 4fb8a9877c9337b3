"""What TAPTER's study came to, as text, CSV and a page: scores as in its Table 2, differences with both tests, costs.

Text and page give scores and differences in points (the metric times 100); CSV gives them unrounded, in units of the
metric, tokens, FLOP and seconds.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from acclimate.core.types import Cost, Score, Split
from acclimate.study.benchmark_page import write_sections
from acclimate.study.significance import LEVEL, Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.study.typeset import Section, page
from acclimate.study.wording import (
    cautioned,
    difference_text,
    duration,
    interval_text,
    listed,
    metric_text,
    p_text,
    points,
    si,
)
from acclimate.tasks.task import Metric

SOURCE = "The study: Nishida, Nishida and Yoshida (2021), Tables 2 and 3."


@dataclass(frozen=True)
class Pair:
    """A contestant against one before it. seeds: the t test over seeds alone, as the paper's; None where none differs.

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


@dataclass(frozen=True)
class TwoStages:
    """trained, trained_first: training rows; first: the first stage's task, "" where there is none; first_costs: of a
    seed, by contestant; metric: the task's own; judged: by every metric that is reported of it.
    """

    task: str
    model: str
    metric: str
    split: Split
    trained: int
    first: str
    trained_first: int
    first_costs: Mapping[str, Cost]
    judged: tuple[Judged, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As tapter.txt has it."""
        return two_stages_text(self)


def judged(scores: Sequence[Score], metric: Metric) -> Judged:
    """What these predictions come to by the metric, whichever they were scored by before.

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
    compared = [compare_of(draws[later], draws[earlier]) for earlier, later in combinations(draws, 2)]
    corrected = holm([each.p for each in compared])
    tested = [each.p_seeds for each in compared if each.p_seeds is not None]
    by_seeds = iter(holm(tested))
    pairs = tuple(
        Pair(each, p, None if each.p_seeds is None else next(by_seeds))
        for each, p in zip(compared, corrected, strict=True)
    )
    return Judged(metric.name, tuple(cells), pairs)


def two_stages_text(found: TwoStages) -> str:
    """The tables for a terminal, at most 110 columns wide."""
    return page(_title(found), _sections(found))


def write_page(path: Path, found: TwoStages) -> None:
    write_sections(path, _sections(found), title="Two stages", heading=_title(found), source=SOURCE)


def two_stages_csv(found: TwoStages) -> str:
    """A line for each metric and contestant; the differences are from every contestant before it, in columns of its
    name. Lists are separated by spaces.
    """
    names = [cell.contestant for cell in found.judged[0].cells]
    told = ("difference", "low", "high", "p", "p_holm", "p_seeds", "p_seeds_holm", "p_permutation")
    stages = ("adapting", "first", "finetuning")
    head = ["task", "first_task", "model", "split", "metric", "contestant", "mean", "sd", "low", "high", "seeds"]
    head += ["scores", *(f"against_{name}_{part}" for name in names[:-1] for part in told)]
    head += [f"{stage}_{unit}" for stage in stages for unit in ("tokens", "flops", "seconds")]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    for each in found.judged:
        pairs = {(own.comparison.contestant, own.comparison.reference): own for own in each.pairs}
        for cell in each.cells:
            score = cell.score
            line: list[object] = [found.task, found.first, found.model, found.split, each.metric, cell.contestant]
            line += [score.mean, cell.spread, score.low, score.high]
            line += [" ".join(map(str, values)) for values in (cell.seeds, cell.points)]
            for name in names[:-1]:
                line += _differences(pairs.get((cell.contestant, name))) or [None] * len(told)
            costs = (cell.adapting, found.first_costs[cell.contestant], cell.finetuning)
            writer.writerow([*line, *(value for cost in costs for value in (cost.tokens, cost.flops, cost.seconds))])
    return file.getvalue()


def _differences(pair: Pair | None) -> list[float | None]:
    if pair is None:
        return []
    own = pair.comparison
    return [own.difference, own.low, own.high, own.p, pair.p_holm, own.p_seeds, pair.seeds_holm, own.p_permutation]


def _title(found: TwoStages) -> str:
    stages = f"{found.first}, then {found.task}" if found.first else found.task
    return f"{stages}: {found.model}"


def _sections(found: TwoStages) -> list[Section]:
    return [_scores(found), _pairs(found), _seeds(found), _costs(found)]


def _scores(found: TwoStages) -> Section:
    rows = []
    for cells in zip(*(each.cells for each in found.judged), strict=True):
        told = [text for cell in cells for text in (interval_text(cell.score), points(cell.spread))]
        rows.append((cells[0].contestant, *told))
    columns = [text for each in found.judged for text in (metric_text(each.metric), "sd")]
    first = f" after {found.trained_first:,} of {found.first}" if found.first else ""
    seeds = len(found.judged[0].cells[0].seeds)
    lines = [
        f"Points on {found.split}, means over {seeds} seeds with 95% intervals over seeds and test items; sd: standard "
        f"deviation over seeds. Trained on {found.trained:,} rows{first}. All metrics are of the same predictions.",
        *found.notes,
    ]
    return Section(f"Scores on {found.split}", ("", *columns), tuple(rows), tuple(lines))


def _pairs(found: TwoStages) -> Section:
    rows = []
    cautions: dict[str, list[str]] = {}
    for each in found.judged:
        for pair in each.pairs:
            own = pair.comparison
            about = f"{metric_text(each.metric)}: {own.contestant} against {own.reference}"
            tests = (own.p, pair.p_holm, own.p_seeds, pair.seeds_holm)
            rows.append((about, difference_text(own), *map(p_text, tests)))
            for caution in own.caution.splitlines():
                cautions.setdefault(caution, []).append(about)
    lines = [
        "p: that the expected scores over seeds and test items are equal; p, t: the paper's test, paired t over seeds, "
        "which takes these test items for all there are. Holm: over the pairs of a metric.",
        _verdict(found),
        *(cautioned(listed(names), len(names), caution) for caution, names in cautions.items()),
    ]
    columns = ("", "difference", "p", "p (Holm)", "p, t", "p, t (Holm)")
    return Section("Differences", columns, tuple(rows), tuple(lines))


def _verdict(found: TwoStages) -> str:
    """Which differences of the task's own metric the corrected test over seeds and items bears out."""
    [own] = [each for each in found.judged if each.metric == found.metric]
    clear = [pair for pair in own.pairs if pair.p_holm < LEVEL]
    told = [
        f"{pair.comparison.contestant} is {'better' if pair.comparison.difference > 0 else 'worse'} than "
        f"{pair.comparison.reference}"
        for pair in clear
    ]
    rest = "" if len(clear) == len(own.pairs) else " The rest may be chance." if clear else " All may be chance."
    return f"By {metric_text(own.metric)}, {listed(told) if told else 'no difference is established'}.{rest}"


def _seeds(found: TwoStages) -> Section:
    rows = [
        (f"{metric_text(each.metric)}, {cell.contestant}", " ".join(points(value) for value in cell.points))
        for each in found.judged
        for cell in each.cells
    ]
    return Section("Each seed", ("", "seeds, ascending"), tuple(rows))


def _costs(found: TwoStages) -> Section:
    rows = []
    for cell in found.judged[0].cells:
        costs = (cell.adapting, found.first_costs[cell.contestant], cell.finetuning)
        told = [text for cost in costs for text in (si(cost.flops, "FLOP"), duration(cost.seconds))]
        rows.append((cell.contestant, *told))
    lines = ("Adapting once; first stage and tuning a seed, the mean over seeds.",)
    columns = ("", "adapting", "time", "first stage", "time", "tuning", "time")
    return Section("Costs", columns, tuple(rows), lines)


def mean_cost(costs: Iterable[Cost]) -> Cost:
    """Of what several runs took; nothing where there were none."""
    own = list(costs)
    total, count = sum(own, Cost()), max(1, len(own))
    return Cost(round(total.tokens / count), total.flops / count, total.seconds / count)
