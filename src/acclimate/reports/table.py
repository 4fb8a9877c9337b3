"""The outcome of a race as rows, and the rows as text and CSV.

Text gives scores and differences in points (the metric times 100) and costs in readable units; CSV gives
everything unrounded, in units of the metric, tokens, FLOP and seconds.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from acclimate.core.figures import duration, metric_text, p_text, percent, points, si
from acclimate.core.types import Cost, Score
from acclimate.statistics.significance import Comparison, Interval, compare_of, holm, interval_of, resample
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.task import Metric

UNTOUCHED = "untouched"
ALONE = "model"  # what people read in its place where it runs alone, as in evaluate, and may be an adapted one
WIDTH = 110
HEADING = "general loss"
MEANING = (
    "masked language modelling on general text that no model here was trained on, nats a masked sub-word, the same "
    "masks for all; in brackets how much higher than before adapting: what was forgotten."
)

Losses = Mapping[str, tuple[float, float]]  # contestant -> before and after adapting


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant on one task.

    seeds, scores, dev   in step: each seed's number, test score and dev score, in units of the metric
    score                mean over seeds with its 95% interval
    comparison, p_holm   with the untouched model; None for the untouched model itself
    adapting, finetuning mean over seeds of what one checkpoint took
    """

    contestant: str
    task: str
    metric: str
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    dev: tuple[float, ...]
    score: Interval
    comparison: Comparison | None
    p_holm: float | None
    adapting: Cost
    finetuning: Cost

    @property
    def dev_mean(self) -> float:
        return float(np.mean(self.dev))


def rows(scores: Sequence[Score], metric: Metric, *, untouched: str = UNTOUCHED) -> list[Row]:
    """A row for each contestant: the untouched model first, then by falling mean score, equal means by name.

    p_holm corrects for all comparisons with the untouched model together. Raises ValueError where no contestant is
    called `untouched` and where the scores cannot be compared (see significance.compare).
    """
    names = list(dict.fromkeys(score.contestant for score in scores))
    if untouched not in names:
        raise ValueError(
            f"no contestant is called {untouched!r}; there are {names}. Name the reference with untouched=."
        )
    draws = resample(scores, metric)
    rivals = [name for name in names if name != untouched]
    comparisons = {name: compare_of(draws[name], draws[untouched]) for name in rivals}
    corrected = dict(zip(rivals, holm([comparisons[name].p for name in rivals]), strict=True))
    built = []
    for name in names:
        seeds_of = sorted((score for score in scores if score.contestant == name), key=lambda score: score.seed)
        built.append(
            Row(
                contestant=name,
                task=seeds_of[0].task,
                metric=metric.name,
                seeds=tuple(score.seed for score in seeds_of),
                scores=tuple(score.test for score in seeds_of),
                dev=tuple(score.dev for score in seeds_of),
                score=interval_of(draws[name]),
                comparison=comparisons.get(name),
                p_holm=corrected.get(name),
                adapting=_mean_cost([score.adapting for score in seeds_of]),
                finetuning=_mean_cost([score.finetuning for score in seeds_of]),
            )
        )
    return sorted(built, key=lambda row: (row.comparison is not None, -row.score.mean, row.contestant))


def without(scores: Sequence[Score], ids: Collection[str]) -> list[Score]:
    """The scores on the test items that are not among `ids`, computed anew from their predictions; dev and costs stay.

    Raises ValueError where fewer than two items are left: a score of one says nothing.
    """
    left = []
    for score in scores:
        kept = [i for i, id in enumerate(score.ids) if id not in ids]
        if len(kept) < 2:
            raise ValueError(
                f"{len(kept)} of {len(score.ids)} test items are left without the {len(ids)} to leave out; a score "
                "needs two at least. Take them out of the training data instead."
            )
        gold, predicted = (tuple(labels[i] for i in kept) for labels in (score.gold, score.predicted))
        value = metric_named(score.metric).compute(gold, predicted)
        named = tuple(score.ids[i] for i in kept)
        left.append(replace(score, ids=named, gold=gold, predicted=predicted, test=value))
    return left


def as_text(rows: Sequence[Row], *, general: Losses = MappingProxyType({})) -> str:
    """Two aligned tables of at most 110 columns: the result, and what stands behind it (dev, each seed). A row that is
    alone is that of the model: nothing says that it is untouched.

    general: losses on general text; without any, no column for them.
    """
    if len(rows) == 1:
        rows = [replace(rows[0], contestant=ALONE)]
    losses = beside([row.contestant for row in rows], general)
    head = [
        "",
        f"test {metric_text(rows[0].metric)}",
        "against untouched" if len(rows) > 1 else "",
        "p (Holm)",
        "tokens",
        "FLOP",
        "adapting",
        "tuning",
    ]
    result = [
        [
            row.contestant,
            interval_text(row.score),
            difference_text(row.comparison),
            p_text(row.p_holm),
            si(row.adapting.tokens),
            si(row.adapting.flops),
            duration(row.adapting.seconds),
            duration(row.finetuning.seconds),
        ]
        for row in rows
    ]
    behind = [
        [
            row.contestant,
            points(row.dev_mean),
            chance_text(row.comparison),
            *([str(losses[row.contestant])] if losses else []),
            " ".join(points(score) for score in row.scores)
            if len(row.scores) <= 10
            else f"{len(row.scores)} seeds, {points(min(row.scores))} to {points(max(row.scores))}",
        ]
        for row in rows
    ]
    legend = (
        "Points with 95% intervals over seeds and test items. Tokens, FLOP and adapting: what adapting took; tuning: "
        "fine-tuning, a seed. Improves: the probability that it scores higher than the untouched model for a new seed "
        "and test set."
    )
    legend += f" General loss: {MEANING}" if losses else ""
    measured = [HEADING] if losses else []
    details = aligned(["", "dev", "improves", *measured, "test score of each seed"], behind)
    return "\n".join([aligned(head, result), "", *textwrap.wrap(legend, WIDTH), "", details, ""])


def as_csv(
    rows: Sequence[Row], *, pretraining: Mapping[str, Cost] | None = None, general: Losses = MappingProxyType({})
) -> str:
    """Unrounded figures, a line for each contestant; seeds and their scores are lists separated by spaces.

    pretraining: contestant -> what the model took that it rests on, once for all that do; None: no columns for it.
    general: losses on general text; without any, no columns for them.
    """
    named = ("adapting", "finetuning", *(["pretraining"] if pretraining is not None else []))
    stages = [f"{stage}_{unit}" for stage in named for unit in ("tokens", "flops", "seconds")]
    differences = ["difference", "difference_low", "difference_high", "p", "p_holm", "p_seeds", "p_permutation"]
    differences += ["improvement", "improvement_low", "improvement_high"]
    head = ["contestant", "task", "metric", "mean", "low", "high", "seeds", "scores", "dev", *differences, *stages]
    losses = beside([row.contestant for row in rows], general)
    head += ["general_loss", "general_loss_difference"] if losses else []
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        other = row.comparison
        against: list[float | None] = [None] * len(differences)
        if other is not None:
            against = [other.difference, other.low, other.high, other.p, row.p_holm, other.p_seeds]
            against += [other.p_permutation, other.improvement, other.improvement_low, other.improvement_high]
        lists = [" ".join(map(str, values)) for values in (row.seeds, row.scores)]
        taken = [row.adapting, row.finetuning]
        taken += [pretraining.get(row.contestant, Cost())] if pretraining is not None else []
        costs = [value for cost in taken for value in (cost.tokens, cost.flops, cost.seconds)]
        score = row.score
        start = [row.contestant, row.task, row.metric, score.mean, score.low, score.high]
        measured = [losses[row.contestant].loss, losses[row.contestant].difference] if losses else []
        writer.writerow([*start, *lists, row.dev_mean, *against, *costs, *measured])
    return file.getvalue()


def aligned(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left and figures to the right; long names run on into further lines."""
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    widths[0] = max(8, min(widths[0], WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1)))
    lines = []
    for line in (head, *body):
        first, *more = textwrap.wrap(line[0], widths[0]) or [""]
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        lines += ["  ".join(cells), *more]
        if line is head:
            lines.append("-" * len(lines[0]))
    return "\n".join(lines)


def _mean_cost(costs: Sequence[Cost]) -> Cost:
    total = sum(costs, Cost())
    return Cost(round(total.tokens / len(costs)), total.flops / len(costs), total.seconds / len(costs))


def interval_text(interval: Interval) -> str:
    return f"{points(interval.mean)} [{points(interval.low)}, {points(interval.high)}]"


def difference_text(comparison: Comparison | None) -> str:
    if comparison is None:
        return "-"
    low, high = (points(value, sign="+") for value in (comparison.low, comparison.high))
    return f"{points(comparison.difference, sign='+')} [{low}, {high}]"


def chance_text(comparison: Comparison | None) -> str:
    """The probability of improvement with its 95% interval, in percent: `93% [81, 99]`; `-` where there is none."""
    if comparison is None or comparison.improvement is None:
        return "-"
    low, high = (percent(value)[:-1] for value in (comparison.improvement_low, comparison.improvement_high))
    return f"{percent(comparison.improvement)} [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class GeneralLoss:
    """A contestant's loss on held-out general text, and how much higher it is than before adapting; None: not measured.

    The text is in nothing that is pretrained on, adapted on or retrieved here, and the masks are the same for all
    models of one vocabulary. A model that was given may have read it where it was pretrained: then its loss is lower
    than on new text, and part of the difference is text that it knew by heart.
    """

    loss: float | None = None
    difference: float | None = None

    def __str__(self) -> str:
        """`2.95 (+0.12)`; the untouched model's alone; `-` for what was not measured."""
        if self.loss is None:
            return "-"
        return f"{self.loss:.2f}" + ("" if self.difference is None else f" ({round(self.difference, 2) + 0.0:+.2f})")


def beside(contestants: Sequence[str], losses: Losses) -> dict[str, GeneralLoss]:
    """Contestant -> its loss, for the column beside the scores; empty where none was measured.

    The first contestant, where it has no loss of its own, is the model that the others adapted.
    """
    if not losses:
        return {}
    before, _ = next(iter(losses.values()))
    measured = {name: GeneralLoss(after, after - start) for name, (start, after) in losses.items()}
    return {contestants[0]: GeneralLoss(before), **dict.fromkeys(contestants[1:], GeneralLoss()), **measured}
