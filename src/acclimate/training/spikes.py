"""Losses that jump: found as they come, told, and left to whoever watches. No step is ever skipped for it.

A spike is a loss more than FAR deviations above the running median, both of the WINDOW steps before it. The deviation
is 1.4826 times the median distance from the median, which is the standard deviation where losses are normal, and which
the spikes themselves do not widen. All of it on the logarithm of the loss: the losses of a model that is fine-tuned lie
close to 0 with a long tail, and it has no more spikes than another.

OLMo 2 counts as spikes what is 7 standard deviations from a running mean of 1,000 steps ("2 OLMo 2 Furious", 2025); a
median and a shorter window find one in a run whose loss still falls.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

WINDOW = 50  # steps
LEAST = 30  # steps before anything is called a spike
FAR = 7.0
NARROWEST = 0.01  # deviation, about 1% of a loss: of losses that are all but the same, nothing less is worth a word
SMALLEST = 1e-6  # losses below count as this


class Spikes:
    """The losses of a run's last steps. before: those of the steps that were done in earlier sessions, in order."""

    def __init__(self, before: Iterable[float] = ()) -> None:
        self.logarithms: deque[float] = deque(map(_logarithm, before), maxlen=WINDOW)

    def add(self, loss: float) -> float:
        """How many deviations the loss of the next step is above the median, if it is a spike; else 0."""
        own, found = _logarithm(loss), 0.0
        if len(self.logarithms) >= LEAST:
            before = np.array(self.logarithms)
            median = float(np.median(before))
            deviation = max(NARROWEST, 1.4826 * float(np.median(np.abs(before - median))))
            found = (own - median) / deviation
        self.logarithms.append(own)
        return found if found > FAR else 0.0


def _logarithm(loss: float) -> float:
    return math.log(max(loss, SMALLEST))
