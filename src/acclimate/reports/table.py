"""A contestant's row, which verdict, plots and model card are made of, and how figures stand in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.core.figures import percent, points
from acclimate.core.types import Cost
from acclimate.statistics.significance import Comparison, Interval

UNTOUCHED = "untouched"
ALONE = "model"  # what people read in its place where it runs alone, as in evaluate, and may be an adapted one
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
