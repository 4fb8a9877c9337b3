"""Pairs by type of first task and type of target: what a type of target gains from a type of first task.

First tasks of one target share its test items and its baseline, so they are taken together, as one chain whose score is
their mean, and compared with the target alone by items and seeds. Targets have test items of their own: their
differences are put together as those of independent datasets (study/across.py). That one first model stands before
several targets is not reckoned with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from acclimate.study.across import mean_difference
from acclimate.study.intermediate_rows import Row
from acclimate.study.resampling import Resampled
from acclimate.study.significance import LEVEL, Comparison
from acclimate.study.wording import p_text, points


@dataclass(frozen=True, eq=False)
class Group:
    """All pairs of a type of first task and a type of target: the mean of their differences over targets, first tasks
    of one target taken together. pairs: how many.
    """

    first: str
    target: str
    pairs: int
    comparison: Comparison
    p_holm: float = 1.0

    @property
    def established(self) -> bool:
        return self.p_holm < LEVEL

    @property
    def clause(self) -> str:
        gains = "gains from" if self.comparison.difference > 0 else "loses by"
        p = p_text(self.p_holm)
        told = f"{points(self.comparison.difference, sign='+')} points on average, p {p if p[0] in '<>' else f'= {p}'}"
        return f"{self.target} {gains} {self.first} ({told})"


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """By type of first task and of target; pairs of a task with itself, and failed ones, left out."""
    found = []
    types = dict.fromkeys(row.type for row in rows)
    for target in types:
        for first in types:
            ours, theirs, pairs = [], [], 0
            for row in rows:
                there = [column.ran.drawn for column in row.columns if column.type == first and not column.same]
                drawn = [own for own in there if own is not None]
                if row.type == target and drawn and row.baseline.drawn:
                    ours.append(_mean(drawn))
                    theirs.append(row.baseline.drawn)
                    pairs += len(drawn)
            if ours:
                comparison = mean_difference(ours, theirs, [1 / len(ours)] * len(ours))
                found.append(Group(first, target, pairs, comparison))
    return found


def _mean(drawn: Sequence[Resampled]) -> Resampled:
    """Several chains of one target as one: their mean score, on the same items and seeds."""
    points_S = np.mean([own.points_S for own in drawn], axis=0)
    shares_Sn = np.mean([own.shares_Sn for own in drawn], axis=0)
    return replace(drawn[0], contestant="mean", points_S=points_S, shares_Sn=shares_Sn)
