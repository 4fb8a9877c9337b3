"""How far a study is: done, running, failed, waiting, and the time left. Reads names and small files; no torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from acclimate.core import files
from acclimate.core.figures import duration
from acclimate.jobs.job import DIRECTORY, FAILED, JOB, RESULT, WALL, Planned, called_in, read_plan, running, studies_in

State = Literal["done", "running", "failed", "diverged", "waiting", "begun"]
DIVERGED = "NotFiniteError"  # as training/gradients.py, which loads torch, calls it
BEGUN = "begun.json"  # as methods/finetune.py, which loads torch, calls it
SHOWN = 20  # jobs of a state that are named


@dataclass(frozen=True)
class Standing:
    """A job of a study. seconds: that it took, or has been at; told: how far it is, or why it failed or waits."""

    study: str
    job: Planned
    state: State
    seconds: float = 0.0
    told: str = ""

    @property
    def label(self) -> str:
        return f"{self.study}: {self.job.label}" if self.study else self.job.label


@dataclass(frozen=True)
class Status:
    """seconds_left: as the finished jobs of the same kind took; None where no job of a kind has ended yet."""

    standings: tuple[Standing, ...]
    seconds_left: float | None
    workers: int

    def of(self, state: State) -> list[Standing]:
        return [own for own in self.standings if own.state == state]

    def as_text(self) -> str:
        counts = {state: len(self.of(state)) for state in ("done", "running", "failed", "waiting")}
        lines = [f"{len(self.standings)} jobs: " + ", ".join(f"{number} {state}" for state, number in counts.items())]
        if diverged := self.of("diverged"):
            lines[0] += f", {len(diverged)} diverged"
        if begun := self.of("begun"):
            lines[0] += f", {len(begun)} begun to be compared"
        for state in ("running", "failed", "diverged", "waiting"):
            found = self.of(state)
            lines += [f"  {state}  {own.label}{f': {own.told}' if own.told else ''}" for own in found[:SHOWN]]
            lines += [f"  {state}  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        if counts["failed"]:
            lines.append("What failed is tried again by the command that started the study.")
        if counts["waiting"] or counts["running"]:
            lines.append(self._left())
        return "\n".join(lines)

    def _left(self) -> str:
        if self.seconds_left is None:
            return "Time left: unknown, because no job of these kinds has ended yet."
        by = f" by {self.workers} at once" if self.workers > 1 else ""
        idle = "" if self.of("running") else "; nothing runs now"
        return f"Time left{by}: {duration(self.seconds_left)}, as finished jobs of the same kinds took{idle}."


def status_of(out: Path) -> Status:
    """Of the study in the directory, or of all in its folders. Raises ValueError where there is none."""
    standings: list[Standing] = []
    studies = studies_in(out)
    for run in studies:
        standings += _standings("" if run == out else run.name, run)
    workers = max(1, sum(own.state == "running" for own in standings))
    return Status(tuple(standings), _seconds_left(standings, workers), workers)


def _standings(study: str, run: Path) -> list[Standing]:
    marks = running(run)
    planned = read_plan(run)
    unplanned = sorted(marks.keys() - {job.name for job in planned})  # of a search that draws as it goes
    planned += _found([run / DIRECTORY / name / JOB for name in unplanned] if planned else _left_by(run))
    called = called_in(run)
    planned = [replace(job, label=_with_names(job.label, called)) for job in planned]
    states = {job.name: _state(job, run / DIRECTORY / job.name, marks) for job in planned}
    labels = {job.name: job.label for job in planned}
    found = []
    for job in planned:
        state, place = states[job.name], run / DIRECTORY / job.name
        if state == "done":
            wall = place / WALL
            seconds = float(files.read_json(wall)["seconds"]) if wall.exists() else 0.0
            found.append(Standing(study, job, state, seconds))
        elif state == "running":
            mark = marks[job.name]
            found.append(Standing(study, job, state, time.time() - mark["since"], _at(mark)))
        elif state in ("failed", "diverged"):
            found.append(Standing(study, job, state, told=str(files.read_json(place / FAILED)["error"])))
        else:
            needs = [labels.get(name, name) for name in job.needs if states.get(name, "done") != "done"]
            told = f"for {needs[0]}{f' and {len(needs) - 1} more' if len(needs) > 1 else ''}" if needs else ""
            found.append(Standing(study, job, state, told=told))
    return found


def _with_names(label: str, called: Mapping[str, str]) -> str:
    for key, name in called.items():
        label = label.replace(key, name)
    return label


def _state(job: Planned, place: Path, marks: Mapping[str, Any]) -> State:
    if (place / RESULT).exists():
        return "done"
    if job.name in marks:
        return "running"
    if (place / FAILED).exists():
        return "diverged" if files.read_json(place / FAILED)["kind"] == DIVERGED else "failed"
    return "begun" if job.part and (place / BEGUN).exists() else "waiting"


def _at(mark: Mapping[str, Any]) -> str:
    """Which process is how far, since when."""
    total = f" of {mark['total']:,}" if mark.get("total") else ""
    far = f"{mark['done']:,}{total} {mark['unit']}, " if "done" in mark else ""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(mark["since"]))
    return f"{far}since {since}, by process {mark['process']} on {mark['machine']}"


def _left_by(run: Path) -> list[Path]:
    return sorted((run / DIRECTORY).glob(f"*/{JOB}"))


def _found(abouts: Iterable[Path]) -> list[Planned]:
    """The jobs that left word of what they are; none of one that has only just begun."""
    found = []
    for path in abouts:
        if not path.exists():
            continue
        about = files.read_json(path)
        found.append(Planned(path.parent.name, about["label"], about["work"], tuple(about["needs"].values())))
    return found


def _kinds(job: Planned) -> tuple[object, object]:
    """The kinds of a job: first the same work on what the same jobs left, then the same work."""
    return (job.work, job.needs), job.work


def _seconds_left(standings: Iterable[Standing], workers: int) -> float | None:
    """None where a kind has no finished job, as of a job that nobody has done yet nothing says how long it takes."""
    took: dict[object, list[float]] = {}
    waiting: list[Standing] = []
    for own in standings:
        if own.state == "done":
            for kind in _kinds(own.job):
                took.setdefault(kind, []).append(own.seconds)
        elif own.state not in ("begun", "diverged"):
            waiting.append(own)
    left = 0.0
    for own in waiting:
        alike = next((took[kind] for kind in _kinds(own.job) if kind in took), None)
        if alike is None:
            return None
        left += max(0.0, sum(alike) / len(alike) - own.seconds)
    return left / workers
