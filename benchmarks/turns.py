"""Training runs that take steps by turns in one process, so that whatever the machine does meets them all alike."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from page import spread, table, tell

from acclimate.training.loop import Step
from acclimate.training.plan import autocast_type, device

GAP = 0.05  # logarithm of a ratio of speeds, below which shares of it say nothing


@dataclass
class Clock:
    """Of each counted step: processor seconds of the whole process, seconds on the wall, tokens."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def timed(running: Mapping[str, Iterator[Step]], *, rounds: int, warm_up: int) -> dict[str, Clock]:
    """A step of each run, round after round, in turned order every second one; the first rounds are not counted."""
    clocks = {name: Clock() for name in running}
    for turn in range(warm_up + rounds):
        for name in running if turn % 2 else [*running][::-1]:
            processor, wall = time.process_time(), time.perf_counter()
            step = next(running[name])
            taken = time.process_time() - processor, time.perf_counter() - wall
            if turn >= warm_up:
                clocks[name].processor.append(taken[0])
                clocks[name].wall.append(taken[1])
                clocks[name].tokens.append(step.tokens)
        if (turn + 1) % 10 == 0:
            tell(f"{turn + 1} of {warm_up + rounds} rounds")
    return clocks


def ratio_interval(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """The median of first by second within a round, and its 95% interval by 2,000 bootstrap samples of the rounds."""
    ratios = np.array(first) / np.array(second)
    drawn = np.random.default_rng(0).choice(ratios, (2_000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)


def median_ratio(first: list[float], second: list[float], form: str = ".3f") -> str:
    """`ratio_interval` as text."""
    median, low, high = ratio_interval(first, second)
    return f"{median:{form}} [{low:{form}}, {high:{form}}]"


def ladder(speeds: Mapping[str, Sequence[float]]) -> str:
    """A table of what each contestant gains by the one before it, and how much of the gap from first to last that is.

    speeds  name -> its speed in each round. A share is one of the logarithm of the ratio, which adds up in a round;
            there are none where the gap of some round is below GAP
    """
    names = [*speeds]
    whole = np.log(np.divide(speeds[names[-1]], speeds[names[0]]))
    rows = []
    for before, name in [*pairwise(names), (names[0], names[-1])]:
        ratios = np.divide(speeds[name], speeds[before])
        shares = spread(np.log(ratios) / whole, ".0%") if abs(whole).min() >= GAP else "-"
        rows.append((before, name, spread(ratios, ".2f"), shares))
    named = "share of the gap from first to last, of its logarithm"
    return table(("from", "to", "times as fast within a round: median (least to most)", named), rows)


def precision_name(precision: str) -> str:
    """What a plan's precision comes to on this machine."""
    narrow = autocast_type(precision, device())
    return "float32" if narrow is None else str(narrow).removeprefix("torch.")
