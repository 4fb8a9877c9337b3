"""What ranking intermediate tasks gave, and what follows from it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from acclimate.study.significance import LEVEL
from acclimate.study.transfer_check import Checked
from acclimate.study.transfer_predictors import MEAN, PREDICTORS
from acclimate.study.typeset import amount


@dataclass(frozen=True)
class Row:
    """A candidate. leaks: its training rows whose text stands in dev or test of the target; values: by predictor."""

    name: str
    kind: str
    rows: int
    seen: int
    leaks: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Pass:
    """Of an encoder over a task's rows."""

    name: str
    rows: int
    tokens: int
    flops: float
    seconds: float


@dataclass(frozen=True)
class Recommendation:
    """Candidates for a target. checked: None without a matrix; measured: the differences that this has for the target;
    measured_p: after Holm's correction, of those that it says were tested.
    """

    model: str
    target: str
    kind: str
    target_rows: int
    candidates: tuple[Row, ...]
    checked: tuple[Checked, ...] | None
    measured: Mapping[str, float]
    measured_p: Mapping[str, float]
    passes: tuple[Pass, ...]
    notes: tuple[str, ...]

    @property
    def ranked(self) -> list[Row]:
        """The candidates, best mean rank first."""
        return sorted(self.candidates, key=lambda row: -row.values[MEAN])

    def first_by(self, predictor: str) -> list[str]:
        """The candidates that the predictor puts first; several where they are equal."""
        there = [row for row in self.candidates if not math.isnan(row.values[predictor])]
        best = max((row.values[predictor] for row in there), default=None)
        return [row.name for row in there if row.values[predictor] == best]

    @property
    def verdict(self) -> str:
        """Which to take, or that nothing says so."""
        if self.measured:
            best = max(self.measured, key=lambda name: self.measured[name])
            count = amount(len(self.measured), "candidate")
            if self.measured[best] <= 0:
                return f"Take none: the matrix has {count} for {self.target}, and none of them gave more than none."
            gave = f"of {count} that the matrix has for {self.target}"
            if (p := self.measured_p.get(best)) is None:
                return (
                    f"Take {best}: {gave} it gave most, {points(self.measured[best])} points; the matrix does not say "
                    f"whether by chance. What was measured comes before what is predicted."
                )
            if p < LEVEL:
                return (
                    f"Take {best}: {gave} it gave most, {points(self.measured[best])} points, p {p:.3f} after Holm. "
                    f"What was measured comes before what is predicted."
                )
            return (
                f"Nothing is established: {gave}, {best} gave most, {points(self.measured[best])} points, which may be "
                f"chance (p {p:.2f} after Holm; the best of several is high by luck)."
            )
        votes = self._votes()
        told = "; ".join(f"{name} by {', '.join(own)}" for name, own in votes.items())
        if proven := [each for each in self.checked or () if each.established]:
            best_of = max(proven, key=lambda each: each.rho)
            names = " or ".join(self.first_by(best_of.predictor))
            return (
                f"Take {names}: first by '{best_of.predictor}', which ranks as was measured better than chance does "
                f"(mean rho {best_of.rho:.2f}, p {best_of.p_holm:.3f} after Holm)."
            )
        tested = (
            "no predictor ranks as was measured better than chance does"
            if self.checked is not None
            else ("no predictor was tested on measured differences (--matrix)")
        )
        most = max(votes.values(), key=len)
        agree = 2 * len(most) > sum(map(len, votes.values()))
        if agree:
            name = next(name for name, own in votes.items() if own is most)
            return f"Nothing is established: {tested}. Most of them name {name}, to be tried first: {told}."
        return f"Nothing is established: {tested}, and they disagree: {told}."

    def _votes(self) -> dict[str, list[str]]:
        """Candidate -> the predictors that look at the target and put it alone first; else "several alike"."""
        votes: dict[str, list[str]] = {}
        for name in self.candidates[0].values:
            if name != MEAN and PREDICTORS[name].aims:
                first = self.first_by(name)
                votes.setdefault(first[0] if len(first) == 1 else "several alike", []).append(name)
        return votes

    def csv(self) -> str:
        """A line a candidate, best mean rank first."""
        lines = []
        for row in self.ranked:
            line: dict[str, Any] = {"model": self.model, "target": self.target, "candidate": row.name}
            line |= {
                "kind": row.kind,
                "training_rows": row.rows,
                "rows_seen": row.seen,
                "rows_in_dev_or_test": row.leaks,
            }
            line |= {name.replace(" ", "_"): _blank(value) for name, value in row.values.items()}
            lines.append({**line, "measured_difference": self.measured.get(row.name, "")})
        file = io.StringIO()
        writer = csv.DictWriter(file, [*lines[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        return file.getvalue()

    def record(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        found = asdict(self)
        for row in found["candidates"]:
            row["values"] = {name: _blank(value, None) for name, value in row["values"].items()}
        told = {name: predictor.told for name, predictor in PREDICTORS.items()}
        return {**found, "predictors": told, "verdict": self.verdict}


def _blank(value: float, instead: Any = "") -> Any:
    return instead if math.isnan(value) else value


def points(difference: float) -> str:
    return f"{100 * difference:+.2f}"
