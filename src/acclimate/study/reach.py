"""Whether a rival can still catch up with the untouched model, judged by dev: what a race stops early for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.core.types import Score
from acclimate.study.significance import compare
from acclimate.tasks.task import Metric

RESAMPLES = 1_000
ALLOWANCE = 3.0  # standard errors over items, where one seed says nothing about the spread over seeds
CHUNK = 4_000_000  # entries of a block of weights


def beyond_reach(rival: Sequence[Score], untouched: Sequence[Score], metric: Metric) -> bool:
    """Whether the rival's expected score is below the untouched model's, by what dev has shown so far.

    rival, untouched: rows on dev of the same seeds. With two seeds or more: the 95% interval of the difference, over
    seeds and items, lies below 0. With one: the difference plus ALLOWANCE standard errors over items does.
    """
    if len(rival) > 1:
        return compare(rival, untouched, metric).high < 0
    [ours], [theirs] = rival, untouched
    ours_nK, theirs_nK = metric.statistics(ours.gold, ours.predicted), metric.statistics(theirs.gold, theirs.predicted)
    items = len(ours.gold)
    generator = np.random.default_rng(0)
    drawn: list[float] = []
    while len(drawn) < RESAMPLES:
        rows = min(RESAMPLES - len(drawn), max(1, CHUNK // items))
        weights_Rn = generator.multinomial(items, np.full(items, 1 / items), size=rows).astype(np.float64)
        drawn += list(metric.value(weights_Rn @ ours_nK) - metric.value(weights_Rn @ theirs_nK))
    return bool(ours.test - theirs.test + ALLOWANCE * np.std(drawn) < 0)
