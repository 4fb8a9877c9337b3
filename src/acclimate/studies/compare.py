"""Contestants judged by every metric that is reported of a task, out of one set of predictions: what studies with
several contestants and seeds have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from textwrap import fill
from typing import Any

import numpy as np

from acclimate.core.figures import listed, metric_text, p_text, points, si
from acclimate.core.types import Cost, Score, Split
from acclimate.race.verdict import remarks
from acclimate.report import table as forgetting
from acclimate.report.table import WIDTH, Losses, Row, aligned, difference_text, interval_text
from acclimate.statistics.significance import LEVEL, Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.tasks.task import Metric

# -------------------- grid page
# What a grid came to: a table in plain text, and its scores as JSON has them.


_LEGEND = (
    "Points on dev with 95% intervals over seeds and items; differences are from {first}. Epochs: over the task's\n"
    "rows in stage 1. FLOP: of stage 1, as computed; paper's: 6 x tokens x parameters, every row at full length."
)


def grid_text(table: Sequence[Row], facts: Mapping[str, Mapping[str, Any]], general: Losses) -> str:
    """facts: variant -> what its first stage left (methods/tlm.py::COST), empty where it has none. general: losses on
    general text, those of variants that go on from a model.
    """
    losses = forgetting.beside([row.contestant for row in table], general)
    costs = []
    for row in table:
        stage_1 = facts[row.contestant]
        epochs, flops = (f"{stage_1['internal_epochs']:.1f}", si(stage_1["paper_flops"])) if stage_1 else ("-", "-")
        costs.append([epochs, si(row.adapting.flops), flops, *([str(losses[row.contestant])] if losses else [])])
    head = ["epochs", "FLOP", "paper's", *([forgetting.HEADING] if losses else [])]
    legend = [_LEGEND.format(first=table[0].contestant)]
    legend += [fill(f"General loss: {forgetting.MEANING}", WIDTH)] if losses else []
    return "\n\n".join([compared(table, "dev", head, costs), "\n".join(legend), said(table, "dev")])


def compared(table: Sequence[Row], split: Split, head: Sequence[str], costs: Sequence[Sequence[str]]) -> str:
    """Each variant's score with the difference from the first, and what it cost, in columns of these names."""
    columns = ["", f"{split} {metric_text(table[0].metric)}", "each seed", "difference", "p (Holm)", *head]
    body = [
        [
            row.contestant,
            interval_text(row.score),
            " ".join(points(score) for score in row.scores),
            difference_text(row.comparison),
            p_text(row.p_holm),
            *own,
        ]
        for row, own in zip(table, costs, strict=True)
    ]
    return aligned(columns, body)


def said(table: Sequence[Row], split: Split) -> str:
    """Which differences the corrected test bears out, in a sentence, and what to mind of it."""
    return "\n".join(fill(line, WIDTH) for line in [_established(table, split), *remarks(table)])


def records(scores: Sequence[Score], split: Split, **more: str) -> list[dict[str, Any]]:
    """The scores for a file: `score` is that on the items of `split`; `dev` beside it where that is another one."""
    found = []
    for score in scores:
        own = asdict(score)
        value = own.pop("test")
        if split == "dev":
            own.pop("dev")
        found.append({"variant": own.pop("contestant"), **more, "split": split, "score": value, **own})
    return found


def _established(table: Sequence[Row], split: Split) -> str:
    first, *others = table
    sides = {"better": 1, "worse": -1}
    clear = [row for row in others if row.p_holm is not None and row.p_holm < LEVEL and row.comparison is not None]
    clauses = []
    for word, sign in sides.items():
        names = [row.contestant for row in clear if row.comparison is not None and sign * row.comparison.difference > 0]
        if names:
            clauses.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} {word} than {first.contestant}")
    if not clauses:
        return "No difference is established: all of them may be chance."
    return f"On {split}, {'; '.join(clauses)}." + ("" if len(clear) == len(others) else " The rest may be chance.")


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
