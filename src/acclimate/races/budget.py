"""What a race may cost, as a user states it: a time, a number of FLOPs or a sum of money.

Read before torch is imported, so that a budget that is not understood is refused at once.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from acclimate.core import files
from acclimate.core.figures import duration, si
from acclimate.jobs.job import DIRECTORY, JOB, RESULT, WALL

RESERVE = {"seconds": 0.1, "flops": 0.02}  # share kept back for what no estimate sees

_SPELT = {
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
_TIMES = {name: seconds for seconds, names in _SPELT.items() for name in names}
_FLOPS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_WAYS = "Write it as 20min, 1.5h, 3PFLOP, 2e15flop or 5usd@2.50/h"


@dataclass(frozen=True)
class Budget:
    """stated: as the user wrote it."""

    amount: float
    unit: Literal["seconds", "flops"]
    stated: str

    def told(self, amount: float) -> str:
        """An amount of the budget's unit, as people write it."""
        return duration(amount) if self.unit == "seconds" else si(amount, "FLOP")

    def spent(self, run: Path, *, searching: bool = True) -> float:
        """Return what the jobs of a run have taken so far. searching: True if fine-tunings and tests count too.

        Jobs of works that races do not have, such as those of a study in the same directory, always count.
        """
        # these import torch
        from acclimate.races.work import WORKS
        from acclimate.training import checkpoint

        total = 0.0
        for job in sorted((run / DIRECTORY).glob("*")):
            if not (job / JOB).exists():
                continue
            work = WORKS.get(files.read_json(job / JOB)["work"])
            if not searching and work is not None and (work.trains == "task" or work.opens_test):
                continue
            if self.unit == "flops":
                if (job / RESULT).exists():
                    total += files.read_json(job / RESULT).get("flops", 0.0)
                elif (job / checkpoint.LOG).exists():  # begun, and given up or still to go on with
                    total += checkpoint.spent(job).flops
            else:  # of a job that was killed and gone on with, the clock of its training has the sessions before too
                clocks = [job / name for name in (WALL, checkpoint.CLOCK) if (job / name).exists()]
                total += max((float(files.read_json(clock)["seconds"]) for clock in clocks), default=0.0)
        return total

    @property
    def usable(self) -> float:
        """What may be planned with."""
        return self.amount * (1 - RESERVE[self.unit])


def parse_budget(text: str) -> Budget:
    """20min, 90s, 1.5h, 5min 20s; 3e15flop, 3PFLOP; 5usd@2.50/h (any currency: money divided by its price an hour).

    Raises ValueError for anything else and for amounts that are not above 0.
    """
    plain = text.strip().lower().replace(" ", "")
    number = r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)"
    spelt = "|".join(sorted(_TIMES, key=len, reverse=True))
    amount, unit = 0.0, ""
    if found := re.fullmatch(rf"{number}([a-z]+)", plain):
        value, name = float(found[1]), found[2]
        if name in _TIMES:
            amount, unit = value * _TIMES[name], "seconds"
        elif name.removesuffix("s").endswith("flop") and name.removesuffix("s").removesuffix("flop") in _FLOPS:
            amount, unit = value * _FLOPS[name.removesuffix("s").removesuffix("flop")], "flops"
    elif re.fullmatch(rf"(?:{number}(?:{spelt}))+", plain):
        parts = re.findall(rf"{number}({spelt})", plain)
        amount, unit = sum(float(value) * _TIMES[name] for value, name in parts), "seconds"
    elif found := re.fullmatch(rf"[$€£]?{number}(?:[a-z]{{3}})?@[$€£]?{number}(?:[a-z]{{3}})?/h", plain):
        price = float(found[2])
        amount, unit = (float(found[1]) / price * 3600 if price else 0.0), "seconds"
    if not unit:
        raise ValueError(f"budget '{text}' is not understood. {_WAYS}")
    if not 0 < amount < math.inf:
        raise ValueError(f"budget '{text}' must be above 0 and finite. {_WAYS}")
    return Budget(amount, "seconds" if unit == "seconds" else "flops", text.strip())
