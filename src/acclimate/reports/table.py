"""The row of a contestant, from which verdict, plots and model card are made, and figures as text for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acclimate.core.figures import percent, points
from acclimate.core.types import Cost
from acclimate.statistics.significance import Comparison, Interval

UNTOUCHED = "untouched"
FROZEN = "frozen"  # the untouched encoder as it is, with the layer of its probe as head
COMBINED = "TF-IDF + encoder"  # one linear model on the terms of TF-IDF and on the untouched encoder's states
UNADAPTED = (FROZEN, COMBINED)  # contestants that read the untouched encoder as it is
ALONE = "model"  # its name in print where it runs alone, as in evaluate, where it may be an adapted model
HEADING = "general loss"
MEANING = (
    "masked language modelling on general text that no model was trained on, nats per masked sub-word, with the "
    "same masks for all models; in brackets the increase by adapting, which is forgetting."
)

DOMAIN_HEADING = "domain loss"
DOMAIN_MEANING = (
    "masked language modelling on domain text that no model adapted on, nats per masked sub-word, with the same "
    "masks for all models; in brackets the difference from before adapting."
)
BeforeAndAfter = Mapping[str, tuple[float, float]]  # contestant -> loss before and after adapting


@dataclass(frozen=True, slots=True)
class ContestantRow:
    """The scores of one contestant on one task.

    seeds, scores, dev    number, test score and dev score of each seed, in the same order, in units of the metric
    score                 mean over seeds with its 95% interval
    comparison, p_adjusted    with the untouched model; None for the untouched model itself
    adapting, finetuning  mean cost of one checkpoint over seeds
    """

    contestant: str
    task: str
    metric: str
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    dev: tuple[float, ...]
    score: Interval
    comparison: Comparison | None
    p_adjusted: float | None
    adapting: Cost
    finetuning: Cost


def interval_text(interval: Interval) -> str:
    """Return the mean and its interval, as `72.1 [70.0, 74.2]`; of few runs the mean alone."""
    if interval.range_of_runs:
        return points(interval.mean)
    return f"{points(interval.mean)} [{points(interval.low)}, {points(interval.high)}]"


def difference_text(comparison: Comparison | None) -> str:
    if comparison is None:
        return "-"
    low, high = (points(value, sign="+") for value in (comparison.low, comparison.high))
    return f"{points(comparison.difference, sign='+')} [{low}, {high}]"


def chance_text(comparison: Comparison | None) -> str:
    """Return the probability of improvement with its 95% interval, in percent: `93% [81, 99]`; `-` if there is none."""
    if comparison is None or comparison.improvement is None:
        return "-"
    low, high = (percent(value)[:-1] for value in (comparison.improvement_low, comparison.improvement_high))
    return f"{percent(comparison.improvement)} [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class GeneralLoss:
    """A contestant's loss on held-out general text, and how much higher it is than before adapting; None: not measured.

    No model here was pretrained or adapted on this text, and it is not retrieved. All models of one vocabulary get the
    same masks. A model that the user gave may have seen the text in its pretraining: its loss is then lower than on new
    text, and part of the difference is text that it had memorised.
    """

    loss: float | None = None
    difference: float | None = None

    def __str__(self) -> str:
        """Return `2.95 (+0.12)`; for the untouched model the loss only; `-` if it was not measured."""
        if self.loss is None:
            return "-"
        return f"{self.loss:.2f}" + ("" if self.difference is None else f" ({round(self.difference, 2) + 0.0:+.2f})")


def adaptations_note(number: int) -> str:
    """Return a sentence, after a space, that figures are means over so many adaptations; "" for fewer than 2."""
    return f" Means over {number} adaptations." if number > 1 else ""


def general_loss_column(contestants: Sequence[str], losses: BeforeAndAfter) -> dict[str, GeneralLoss]:
    """Return contestant -> its loss, for the column beside the scores; empty if none was measured.

    If the first contestant has no measured loss, it is the model that the others adapted, and gets the loss before.
    """
    if not losses:
        return {}
    before, _ = next(iter(losses.values()))
    measured = {name: GeneralLoss(after, after - start) for name, (start, after) in losses.items()}
    return {contestants[0]: GeneralLoss(before), **dict.fromkeys(contestants[1:], GeneralLoss()), **measured}
