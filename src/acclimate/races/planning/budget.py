"""The budget of a race, as a user states it: a time, a number of FLOPs or a sum of money; and the clock it goes by.

This file imports no torch, so that a budget that is not understood is refused at once.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.figures import duration, si
from acclimate.jobs.job import DIRECTORY, JOB, RESULT, WALL, read_result

if TYPE_CHECKING:
    from acclimate.races.recipe import RaceRecipe

SESSIONS = "sessions.json"  # in the directory of a race: seconds of its sessions that have ended

_SPELT = {
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
_TIMES = {name: seconds for seconds, names in _SPELT.items() for name in names}
_FLOPS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_begun: dict[Path, float] = {}  # directory of a race that this process runs -> when it began
_WAYS = "Write it as 20min, 1.5h, 3PFLOP, 2e15flop or 5usd@2.50/h. Write none for no limit"
USUAL = "1h"  # the budget of a race for which none is stated
NONE = "none"  # states that a race has no budget


@dataclass(frozen=True)
class Budget:
    """An amount of seconds or FLOPs. text: the budget as the user wrote it."""

    amount: float
    unit: Literal["seconds", "flops"]
    text: str

    def as_text(self, amount: float) -> str:
        """Return an amount of the budget's unit as text, such as `20 min` or `3.0 PFLOP`."""
        return duration(amount) if self.unit == "seconds" else si(amount, "FLOP")

    def spent(self, run: Path) -> float:
        """Return what a run has taken so far: FLOPs of training, or the time of its sessions. Of sessions that were
        killed only what their jobs trained is known.
        """
        # these import torch
        from acclimate.jobs.where import current_workers
        from acclimate.training import checkpoint

        total = 0.0
        for job in sorted((run / DIRECTORY).glob("*")):
            if not (job / JOB).exists():
                continue
            if self.unit == "seconds":
                total += seconds_of_job(job)
            elif (job / RESULT).exists():
                total += read_result(job).get("flops", 0.0)
            elif (job / checkpoint.LOG).exists():  # begun, and not finished yet
                total += checkpoint.spent(job).flops
        if self.unit == "flops":
            return total
        workers = current_workers()
        return max(total / (workers.slots if workers is not None else 1), seconds_of(run))

    def left(self, run: Path) -> float:
        """Return what a run has left of the budget."""
        return self.amount - self.spent(run)


def seconds_of_job(job: Path) -> float:
    """Return what the job in this directory took in all sessions: the clock of a training counts those killed too."""
    from acclimate.training import checkpoint  # imports torch

    clocks = [job / name for name in (WALL, checkpoint.CLOCK) if (job / name).exists()]
    return max((float(files.read_record(clock)["seconds"]) for clock in clocks), default=0.0)


@contextmanager
def clocked(run: Path) -> Iterator[None]:
    """Count the time of the block as a session of the run, if a job did anything in it.

    A block within a block counts once. Of a session that is killed only what its jobs trained is known.
    """
    place = run.resolve()
    if place in _begun:
        yield
        return
    _begun[place] = time.monotonic()
    before = _last_change(run)
    try:
        yield
    finally:
        seconds = seconds_of(run)
        del _begun[place]
        if _last_change(run) > before:
            files.write_record(run / SESSIONS, {"seconds": seconds})


def seconds_of(run: Path) -> float:
    """Return how long the sessions of the run have lasted, the one that is on included."""
    return _ended(run) + session_of(run)


def session_of(run: Path) -> float:
    """Return how long the session of the run that is on in this process has lasted; 0.0 if there is none."""
    place = run.resolve()
    return time.monotonic() - _begun[place] if place in _begun else 0.0


def _last_change(run: Path) -> int:
    """Return when a job of the run last wrote a file, in nanoseconds; 0 if there is no job."""
    return max((job.stat().st_mtime_ns for job in (run / DIRECTORY).glob("*")), default=0)


def _ended(run: Path) -> float:
    way_out = f"Remove {run / SESSIONS}: the seconds of earlier sessions are then not counted"
    return float(files.read_record(run / SESSIONS, way_out=way_out)["seconds"]) if (run / SESSIONS).exists() else 0.0


def check_budget(text: str | None) -> None:
    """Raises ValueError for a text that states neither a budget nor that there is none."""
    if text is not None and not states_none(text):
        parse_budget(text)


def budget_or_usual(
    text: str | None, recipe: RaceRecipe, *, probe_only: bool = False
) -> tuple[Budget | None, tuple[str, ...]]:
    """Return the budget of a race, None if it has none, and a note if the user did not state it.

    text: as the user stated it; None: the race has the budget USUAL, unless it takes no budget. Raises ValueError as
    `check_budget` does.
    """
    check_budget(text)
    if text is not None:
        return (None if states_none(text) else parse_budget(text)), ()
    if probe_only:
        return None, ()
    if recipe.folds:
        return None, ("no limit, because cross-validation does not support budgets",)
    return parse_budget(USUAL), (f"{USUAL}, the default; {option('budget', NONE)} removes the limit",)


def states_none(text: str) -> bool:
    return text.strip().lower() == NONE


def parse_budget(text: str) -> Budget:
    """Return the budget that a text states: 20min, 90s, 1.5h, 5min 20s; 3e15flop, 3PFLOP; 5usd@2.50/h.

    The last is a sum of money in any currency and the price of an hour. Raises ValueError for any other text and for
    amounts that are not above 0.
    """
    plain = text.strip().lower().replace(" ", "")
    number = r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)"
    spelt = "|".join(sorted(_TIMES, key=len, reverse=True))
    amount, unit = 0.0, ""
    if match := re.fullmatch(rf"{number}([a-z]+)", plain):
        value, name = float(match[1]), match[2]
        if name in _TIMES:
            amount, unit = value * _TIMES[name], "seconds"
        elif name.removesuffix("s").endswith("flop") and name.removesuffix("s").removesuffix("flop") in _FLOPS:
            amount, unit = value * _FLOPS[name.removesuffix("s").removesuffix("flop")], "flops"
    elif re.fullmatch(rf"(?:{number}(?:{spelt}))+", plain):
        parts = re.findall(rf"{number}({spelt})", plain)
        amount, unit = sum(float(value) * _TIMES[name] for value, name in parts), "seconds"
    elif match := re.fullmatch(rf"[$€£]?{number}(?:[a-z]{{3}})?@[$€£]?{number}(?:[a-z]{{3}})?/h", plain):
        price = float(match[2])
        amount, unit = (float(match[1]) / price * 3600 if price else 0.0), "seconds"
    if not unit:
        raise ValueError(f"budget '{text}' is not understood. {_WAYS}")
    if not 0 < amount < math.inf:
        raise ValueError(f"budget '{text}' must be above 0 and finite. {_WAYS}")
    return Budget(amount, "seconds" if unit == "seconds" else "flops", text.strip())
