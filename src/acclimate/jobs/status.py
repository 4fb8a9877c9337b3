"""The status of a study: which jobs are done, running, failed or waiting, and the time left. It imports no torch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from acclimate.core import files
from acclimate.core.figures import duration
from acclimate.jobs.job import (
    DIRECTORY,
    FAILED,
    JOB,
    RESULT,
    WALL,
    PlannedJob,
    called_in,
    read_plan,
    running,
    studies_in,
)

State = Literal["done", "running", "failed", "diverged", "waiting"]
DIVERGED = "NotFiniteError"  # as core/types.py calls it
SHOWN = 20  # jobs of each state that are listed by name


@dataclass(frozen=True)
class JobStatus:
    """The state of one job.

    study    the folder of its study, or "" if the directory holds one study
    seconds  time that it took, or has taken so far
    detail   its progress, the error with which it failed, or the jobs that it waits for
    """

    study: str
    job: PlannedJob
    state: State
    seconds: float = 0.0
    detail: str = ""

    @property
    def label(self) -> str:
        return f"{self.study}: {self.job.label}" if self.study else self.job.label


@dataclass(frozen=True)
class Status:
    """The state of every job of one study or several.

    seconds_left  estimated from finished jobs of the same kind; None if a kind has no finished job yet
    workers       number of jobs that run at once now, at least 1
    """

    standings: tuple[JobStatus, ...]
    seconds_left: float | None
    workers: int

    def jobs_in(self, state: State) -> list[JobStatus]:
        return [standing for standing in self.standings if standing.state == state]

    def as_document(self) -> dict[str, Any]:
        """Return what `--json` prints. seconds_left is null if it is unknown."""
        jobs = []
        for one in self.standings:
            about: dict[str, Any] = {"study": one.study, "name": one.job.name, "label": one.job.label}
            jobs.append(about | {"state": one.state, "seconds": one.seconds, "detail": one.detail})
        counts = Counter(one.state for one in self.standings)
        return {"counts": counts, "seconds_left": self.seconds_left, "workers": self.workers, "jobs": jobs}

    def as_text(self) -> str:
        counts = {state: len(self.jobs_in(state)) for state in ("done", "running", "failed", "waiting")}
        jobs = f"{len(self.standings)} job{'s' * (len(self.standings) != 1)}"
        lines = [f"{jobs}: {', '.join(f'{number} {state}' for state, number in counts.items())}"]
        if diverged := self.jobs_in("diverged"):
            lines[0] += f", {len(diverged)} diverged"
        for state in ("running", "failed", "diverged", "waiting"):
            of_state = self.jobs_in(state)
            lines += [f"  {state}  {': '.join(filter(None, (one.label, one.detail)))}" for one in of_state[:SHOWN]]
            lines += [f"  {state}  and {len(of_state) - SHOWN} more"] if len(of_state) > SHOWN else []
        if counts["failed"]:
            lines.append("Give the command that started the study again to retry failed jobs.")
        if counts["waiting"] or counts["running"]:
            lines.append(self._left())
        return "\n".join(lines)

    def _left(self) -> str:
        if self.seconds_left is None:
            return "Time left: unknown, because no job of these kinds has ended yet."
        by = f" by {self.workers} at once" if self.workers > 1 else ""
        idle = "" if self.jobs_in("running") else "; nothing runs now"
        return f"Time left{by}: {duration(self.seconds_left)}, estimated from finished jobs of the same kinds{idle}."


def status_of(out: Path) -> Status:
    """Return the status of the study in `out`, or of all studies in its folders. Raises ValueError if there is none."""
    standings = [job for run in studies_in(out) for job in _standings("" if run == out else run.name, run)]
    workers = max(1, sum(standing.state == "running" for standing in standings))
    return Status(tuple(standings), _seconds_left(standings, workers), workers)


def _standings(study: str, run: Path) -> list[JobStatus]:
    marks = running(run)
    planned = read_plan(run) or _found((run / DIRECTORY).glob(f"*/{JOB}"))
    called = called_in(run)
    planned = [replace(job, label=_with_names(job.label, called)) for job in planned]
    states = {job.name: _state(job, run / DIRECTORY / job.name, marks) for job in planned}
    labels = {job.name: job.label for job in planned}
    standings = []
    for job in planned:
        state, place = states[job.name], run / DIRECTORY / job.name
        if state == "done":
            wall = place / WALL
            seconds = float(files.read_record(wall)["seconds"]) if wall.exists() else 0.0
            standings.append(JobStatus(study, job, state, seconds))
        elif state == "running":
            mark = marks[job.name]
            standings.append(JobStatus(study, job, state, time.time() - mark["since"], _running_text(mark)))
        elif state in ("failed", "diverged"):
            error = str(files.read_object(place / FAILED, names=("error",))["error"])
            standings.append(JobStatus(study, job, state, detail=error))
        else:
            needs = [labels.get(name, name) for name in job.needs if states.get(name, "done") != "done"]
            waits = f"for {needs[0]}{f' and {len(needs) - 1} more' if len(needs) > 1 else ''}" if needs else ""
            standings.append(JobStatus(study, job, state, detail=waits))
    return standings


def _with_names(label: str, called: Mapping[str, str]) -> str:
    for key, name in called.items():
        label = label.replace(key, name)
    return label


def _state(job: PlannedJob, place: Path, marks: Mapping[str, Any]) -> State:
    if (place / RESULT).exists():
        return "done"
    if job.name in marks:
        return "running"
    if (place / FAILED).exists():
        return "diverged" if files.read_object(place / FAILED, names=("kind",))["kind"] == DIVERGED else "failed"
    return "waiting"


def _running_text(mark: Mapping[str, Any]) -> str:
    """Return the progress of a running job, since when it runs, and in which process on which machine."""
    total = f" of {mark['total']:,}" if mark.get("total") else ""
    progress = f"{mark['done']:,}{total} {mark['unit']}, " if "done" in mark else ""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(mark["since"]))
    return f"{progress}since {since}, by process {mark['process']} on {mark['machine']}"


def _found(abouts: Iterable[Path]) -> list[PlannedJob]:
    """Return the jobs that these files describe."""
    planned = []
    for path in sorted(abouts):
        about = files.read_object(path, names=("label", "work", "needs"))
        planned.append(PlannedJob(path.parent.name, about["label"], about["work"], tuple(about["needs"].values())))
    return planned


def _kinds(job: PlannedJob) -> tuple[object, object]:
    """Return the kinds of a job, the narrower first: the same work with the same needs, then the same work."""
    return (job.work, job.needs), job.work


def _seconds_left(standings: Iterable[JobStatus], workers: int) -> float | None:
    """Estimated seconds until all jobs are done, with `workers` at once; None if a kind has no finished job yet."""
    seconds: dict[object, list[float]] = {}
    waiting: list[JobStatus] = []
    for standing in standings:
        if standing.state == "done":
            for kind in _kinds(standing.job):
                seconds.setdefault(kind, []).append(standing.seconds)
        elif standing.state != "diverged":
            waiting.append(standing)
    seconds_left = 0.0
    for standing in waiting:
        alike = next((seconds[kind] for kind in _kinds(standing.job) if kind in seconds), None)
        if alike is None:
            return None
        seconds_left += max(0.0, sum(alike) / len(alike) - standing.seconds)
    return seconds_left / workers
