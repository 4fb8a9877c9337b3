"""What the page tells beside the scores, as values: leakage, the search, looks at the test set, retrieved documents.

Each is made from an entry of a race's facts.json of the same keys (study/outcome.py). A key that is not a field here is
an error (TypeError), so nothing that a race wrote down is left out of its page unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acclimate.study.examination import Leak
from acclimate.study.tables import Row


@dataclass(frozen=True)
class Leakage:
    """All leaks that were found, and the scores without the `leaked` of `items` test items that train holds.

    rows, verdict   as on the rest of the page, on the other items; empty where no test item leaked, or too many did
    changed         in words, what is claimed on all items only or on the others only; empty where nothing is
    dropped         whether training rows that hold a test text were taken out before the race
    """

    leaks: Sequence[Leak]
    items: int
    leaked: int = 0
    rows: Sequence[Row] = ()
    verdict: str = ""
    changed: Sequence[str] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A setting of a contestant in one rung of the search: what it got, its mean dev score, and its fate."""

    contestant: str
    setting: str
    rung: int
    steps: int
    seeds: int
    dev: float
    kept: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Looks:
    """How often the labels of the test set were opened; `lines` say when and by whom, a line a look or a race."""

    in_this_run: int = 0
    earlier_runs: int = 0
    earlier_looks: int = 0
    lines: Sequence[str] = ()

    def warning(self) -> str:
        """A sentence where races before this one opened the same labels, else nothing."""
        if not self.earlier_runs:
            return ""
        times = f" {_times(self.earlier_looks)}" if self.earlier_looks else ""
        races = f"{self.earlier_runs:,} earlier race{'s' * (self.earlier_runs > 1)}"
        return (
            f"These test labels were opened{times} by {races} on this machine. A test set wears out: the more often it "
            "is looked at, the more the best score on it owes to luck."
        )

    def sentence(self) -> str:
        """What this race did."""
        return f"This race opened the labels of the test set {_times(self.in_this_run)}, after all choices were made."


@dataclass(frozen=True, slots=True)
class DocumentShown:
    """A document that a query brought, its place from 1. terms: words of both, with their parts of the score."""

    id: str
    source: str
    text: str
    rank: int
    score: float
    terms: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, slots=True)
class QueryShown:
    """A text of the task that was used as a query, and what it brought, best first."""

    id: str
    text: str
    documents: Sequence[DocumentShown]


def search_remark(search: Sequence[Trial]) -> str:
    """Whether every contestant had equally many settings tried, in a sentence; nothing where nothing was searched."""
    settings: dict[str, set[str]] = {}
    for trial in search:
        settings.setdefault(trial.contestant, set()).add(trial.setting)
    numbers = {name: len(own) for name, own in settings.items()}
    different = set(numbers.values())
    if different <= {1}:
        return ""
    if len(different) == 1:
        return f"Each contestant had {different.pop()} settings tried, with dev alone to choose among them."
    listed = ", ".join(f"{name} {number}" for name, number in numbers.items())
    return f"The contestants had unequal numbers of settings tried ({listed}): those with more had better chances."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
