"""The model of a race to use: the one rule that terminal, page, card, predict and ship follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from acclimate.core.figures import points
from acclimate.races.outcome import CellResult, best_on_dev
from acclimate.reports.table import UNTOUCHED

ROUNDING = 1e-9  # difference of two dev scores that is none


@dataclass(frozen=True)
class Use:
    """The choice that dev makes.

    contestant  to use in production; "" if no contestant is better than a constant answer
    encoder     the best encoder on dev, used or not; "" if no encoder learnt the task
    reason      a sentence
    """

    contestant: str
    encoder: str
    reason: str


def choose(results: Sequence[CellResult], margin: float) -> Use:
    """Return the contestant to use: the best on dev, or a simpler one that is at most `margin` points worse there.

    The baseline is the simplest, then the untouched model, then the adaptation with the fewest FLOPs. Equally simple
    contestants are ranked by dev, then by their order. A contestant is no candidate if it failed, learnt nothing or has
    no dev score. Probes are none either. The test set chooses nothing.
    """
    candidates = [each for each in results if each.scores and not each.probe and math.isfinite(_dev(each))]
    candidates = [each for each in candidates if each.learnt and not each.failed]
    scores = {each.row: _dev(each) for each in candidates}
    best, encoder = best_on_dev(candidates), best_on_dev([each for each in candidates if each.encoder])
    if best is None:
        return Use("", "", "")
    near = [each for each in candidates if scores[best.row] - scores[each.row] <= margin / 100 + ROUNDING]
    used = min(near, key=lambda each: (*_simplicity(each), -scores[each.row]))
    dev, least = points(scores[used.row]), f"{margin:g} point{'s' * (margin != 1)}"
    if encoder is None:
        tuned = any(each.encoder and not each.probe for each in results)
        why = "no encoder of this race has learnt the task" if tuned else "nothing was fine-tuned"
        reason = f"{used.row} is used, because {why}."
    elif len(candidates) == 1:
        reason = ""
    elif scores[used.row] >= scores[best.row] - ROUNDING:
        reason = f"{_named(used)} has the best dev score, {dev} points."
    else:
        reason = (
            f"{_named(used)} is simpler than {_named(best)} and at most {least} worse on dev: {dev} against "
            f"{points(scores[best.row])} points."
        )
    return Use(used.row, encoder.row if encoder else "", reason[:1].upper() + reason[1:])


def encoder_to_train(results: Sequence[CellResult], margin: float) -> str:
    """Return the encoder that a cross-validation trains on the usual split: the one to use, or else the best one; ""
    if no encoder learnt the task.
    """
    choice = choose(results, margin)
    used = [result for result in results if result.row == choice.contestant and result.encoder]
    return choice.contestant if used else choice.encoder


def _named(result: CellResult) -> str:
    return "the untouched model" if result.row == UNTOUCHED else result.row


def _dev(result: CellResult) -> float:
    """Return the mean dev score over seeds, or over repeats of a cross-validation."""
    return sum(score.dev for score in result.scores) / len(result.scores)


def _simplicity(result: CellResult) -> tuple[int, float]:
    """Return a key that is smaller for a simpler contestant. FLOPs are the same on every machine, seconds are not."""
    if not result.encoder:
        return 0, 0.0
    if result.row == UNTOUCHED:
        return 1, 0.0
    return 2, sum(score.adapting.flops for score in result.scores) / len(result.scores)
