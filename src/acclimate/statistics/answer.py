"""The answer of a race: did adapting help, how certain is it, and what limits it.

`answer_of` compares each adapted contestant with the untouched model (statistics/simultaneous.py), applies the rule of
statistics/answer_rule.py and adds what limits the answer (statistics/limits.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from acclimate.statistics.answer_rule import MARGIN, SETTLED, Ends, Kind, answer_kind
from acclimate.statistics.limits import Limits, limits_of
from acclimate.statistics.simultaneous import Gain, gains_of
from acclimate.statistics.variance import LEVEL, Resampled

MOST_MARGIN = 0.5  # a margin above 50 points would call any gain too small


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a race; differences are in units of the metric, not in points.

    contestant  that the answer names: of "helped" the best that is established, otherwise the leader
    difference  of the contestant and the untouched model
    interval    its simultaneous 95% interval, which never contradicts `kind`
    single      its 95% interval alone, not corrected for the number of contestants
    p           adjusted for the number of contestants and of evaluations; below .05 exactly if `interval` excludes 0
    margin      smallest gain that matters
    gains       of every adapted contestant, the named one included
    limits      which source of variance limits the answer, and what removes it
    """

    kind: Kind
    contestant: str
    difference: float
    interval: tuple[float, float]
    single: tuple[float, float]
    p: float
    margin: float
    gains: tuple[Gain, ...]
    limits: Limits

    @property
    def settled(self) -> bool:
        """True if more runs are not needed: helped, harmful or no gain that matters."""
        return self.kind in SETTLED

    @property
    def caution(self) -> str:
        """Reasons why intervals may be unreliable, one per line, each once; "" if there is none."""
        return "\n".join(dict.fromkeys(reason for gain in self.gains for reason in gain.caution.splitlines()))


def answer_of(
    contestants: Sequence[Resampled],
    reference: Resampled,
    *,
    folds: int = 0,
    margin: float = MARGIN,
    comparisons: int = 0,
    level: float = LEVEL,
) -> Answer | None:
    """Return the answer of a race whose adapted contestants have these scores; None if there is no such contestant.

    contestants  without those that failed or learnt nothing
    folds        of a cross-validation, in which repeats take the place of seeds; 0: one test set
    margin       smallest gain that matters, from 0 to .5
    comparisons  contestants that the correction counts, if more than are in `contestants`: those eliminated earlier
    level        of all intervals together, such as what a sequential design spends on this evaluation

    Raises ValueError for a margin outside its range, and as `gains_of` does.
    """
    if not 0 <= margin <= MOST_MARGIN:
        raise ValueError(f"margin={margin}: pass a gain from 0 to {MOST_MARGIN}; 1 point is .01")
    if not contestants:
        return None
    gains = gains_of(contestants, reference, folds=folds, comparisons=comparisons, level=level)
    kinds, places = answer_kind(
        np.array([gain.difference for gain in gains]),
        Ends(*np.array([gain.interval for gain in gains]).T),
        Ends(*np.array([gain.single for gain in gains]).T),
        margin=margin,
    )
    kind = cast(Kind, str(kinds))
    place = int(places)
    named = gains[place]
    limits = limits_of(gains, place, margin=margin)
    return Answer(
        kind, named.contestant, named.difference, named.interval, named.single, named.p, margin, gains, limits
    )
