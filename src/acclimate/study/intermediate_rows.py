"""What was run of a matrix of pairs, as values: a row a target, a column a first task or a control."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from acclimate.core.types import Cost
from acclimate.study.resampling import Resampled
from acclimate.study.significance import Interval, interval_of


@dataclass(frozen=True, eq=False)
class Ran:
    """What one fine-tuning, or chain of them, came to over its seeds.

    seeds   (seed, dev, score) of those that are there; drawn: None where one is not, for the reason in `failed`
    steps   of the first task and of the target
    first   what the fine-tuning on the first task took, which several cells share; own: that on the target; of a seed,
            the mean over seeds
    jobs    the names of the jobs, a seed each, in whose directories predictions and checkpoints lie
    constant  what one answer to every item scores (study/outcome.py::constant_score)
    """

    name: str
    seeds: tuple[tuple[int, float, float], ...]
    drawn: Resampled | None
    failed: str
    steps: tuple[int, int]
    first: Cost
    own: Cost
    jobs: tuple[str, ...]
    constant: float = 0.0

    @cached_property
    def interval(self) -> Interval | None:
        return interval_of(self.drawn) if self.drawn else None


@dataclass(frozen=True, eq=False)
class Column:
    """A cell as it was run. type: of the first task; "" for the control of more steps.

    control  as many steps on the target alone; None where nobody asked, or this is one
    leaking  training rows of the first task that hold an item of the target's dev or test set
    same     the target twice
    """

    name: str
    type: str
    ran: Ran
    control: Ran | None = None
    leaking: int = 0
    same: bool = False


@dataclass(frozen=True, eq=False)
class Row:
    """A target. trained: its training rows; columns: in the matrix's order, controls among them."""

    name: str
    type: str
    metric: str
    trained: int
    baseline: Ran
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> float:
        """The highest mean score of all that was run on the target; NaN where nothing was."""
        ran = (self.baseline, *(own.ran for own in self.columns))
        return max((own.interval.mean for own in ran if own.interval), default=float("nan"))
