"""The rule that turns the intervals of a race into one of five answers.

With d the difference to the untouched model, [L, U] its simultaneous interval and [l, u] its single one, of each of m
contestants, the first line that holds is the answer:

    harmful               every U < 0: each adapted contestant is established as worse
    no gain that matters  every U < margin, although not every U < 0
    helped                some L > 0; the contestant named is the one with the largest d of those
    probably              0 is outside [l, u] of the leader, the contestant with the largest d
    not settled           otherwise

The order decides these cases:

* A gain of .3 [.1, .6] points is established but is below a margin of 1 point. It is "no gain that matters": the
  simpler untouched model is then the one to use, and a headline of "helped" would contradict that.
* One contestant is established as worse while another is open: "harmful" would be wrong as soon as the other gains.
  So the answer is "no gain that matters" if the other cannot gain the margin, and "not settled" if it can.
* With a margin of 0, "no gain that matters" cannot occur: every U < 0 is "harmful".
* "probably" has the sign of the leader's difference. With one contestant, whose intervals are equal, it occurs only
  in a race that continues until it is settled.

If all contestants are equal to the untouched model, "helped" and "harmful" occur in at most 5% together, because both
need a simultaneous interval that misses the truth. The same holds for "no gain that matters" if a true gain is the
margin or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from acclimate.tasks.task import Values

Kind = Literal["helped", "harmful", "no gain that matters", "probably", "not settled"]
SETTLED: frozenset[Kind] = frozenset({"helped", "harmful", "no gain that matters"})
MARGIN = 0.01  # 1 point: the smallest gain that matters


@dataclass(frozen=True, slots=True)
class Ends:
    """Lower and upper ends of intervals, each (..., m)."""

    low: Values
    high: Values


def answer_kind(
    difference: Values, interval: Ends, single: Ends, *, margin: float = MARGIN
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.intp]]:
    """(...,) the answer, a `Kind`, and (...,) the place of the contestant that it names.

    difference  (..., m) of each contestant and the untouched model
    interval    simultaneous; single: each alone
    """
    leader = difference.argmax(axis=-1)
    above = interval.low > 0
    some_above = above.any(axis=-1)
    best_above = np.where(above, difference, -np.inf).argmax(axis=-1)
    highest = interval.high.max(axis=-1)
    outside = (single.low > 0) | (single.high < 0)
    names: list[Kind] = ["harmful", "no gain that matters", "helped", "probably"]
    conditions = [highest < 0, highest < margin, some_above]
    conditions.append(np.take_along_axis(outside, leader[..., None], axis=-1)[..., 0])
    kind = np.select(conditions, list(map(np.str_, names)), default=np.str_("not settled"))
    return kind, np.where(kind == "helped", best_above, leader)


def is_settled(interval: Ends, *, margin: float = MARGIN) -> npt.NDArray[np.bool_]:
    """(...,) whether the answer of these simultaneous intervals is one of SETTLED."""
    return np.asarray((interval.high.max(axis=-1) < margin) | (interval.low.max(axis=-1) > 0))
