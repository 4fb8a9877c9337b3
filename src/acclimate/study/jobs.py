"""Whatever takes long is a job: a name made of all that its result depends on, a directory of its own, a result written
once.

A study is a set of jobs. Doing it again does only what is missing, and the jobs do not know where they run.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.training.run import versions

logger = logging.getLogger(__name__)

RESULT = "result.json"
WALL = "wall.json"  # seconds that the work took, loading included; of a session that was killed, none
JOB = "job.json"
DIRECTORY = "jobs"
STUDY = "study.json"
FORMAT = 3  # of what lies in a study's directory; 1: before the test labels were sealed; 2: short runs were jobs


@dataclass(frozen=True)
class Job:
    """A call `work(out=..., watch=..., **settings, **places, **directories of needs) -> a result that JSON can hold`.

    label     what people call it: "fine-tune TAPT, seed 1"
    settings  plain values that the result depends on
    contents  hashes of whatever the work reads from `places`; the paths themselves do not count
    needs     jobs whose directories the work reads, by argument name
    alone     True for work that one process does while others wait
    """

    label: str
    work: Callable[..., dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    needs: Mapping[str, Job] = field(default_factory=dict)
    alone: bool = False

    def depends_on(self) -> dict[str, Any]:
        """All that the result depends on, as it is written to `job.json`."""
        return {
            "work": f"{self.work.__module__}.{self.work.__qualname__}",
            "versions": versions(),
            "settings": dict(self.settings),
            "contents": dict(self.contents),
            "needs": {name: job.name for name, job in self.needs.items()},
        }

    @property
    def name(self) -> str:
        """A readable part and 12 hex digits of the hash of `depends_on`."""
        readable = re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")
        return f"{readable[:48]}-{settings.digest(self.depends_on())[:12]}"

    def directory(self, run: Path) -> Path:
        return run / DIRECTORY / self.name


def claim(run: Path) -> None:
    """Write down in `run` what format it has. Raises ValueError where a study of another format is there already."""
    check_format(run)
    if ranks.is_first() and not (run / STUDY).exists():
        run.mkdir(parents=True, exist_ok=True)
        files.write_json(run / STUDY, {"format": FORMAT, "acclimate": versions()["acclimate"]})


def check_format(run: Path) -> None:
    """Raises ValueError where `run` holds a study that another version of acclimate wrote in another format."""
    path = run / STUDY
    if not path.exists() and not (run / DIRECTORY).exists():
        return
    found = files.read_json(path) if path.exists() else {"format": 1, "acclimate": "0.1.0 or older"}
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{run} was written by acclimate {found.get('acclimate')} in format {found.get('format')}; this version, "
            f"{versions()['acclimate']}, has format {FORMAT}. Choose another --out, or go on with that version"
        )


def do(job: Job, run: Path, *, watch: Watch = unwatched) -> dict[str, Any]:
    """The job's result: read where it was written before, else its needs done first and then the work.

    Work that is stopped is called again on the same directory and goes on from what it left there.
    """
    if (result := ranks.agree(_written(job, run))) is not None:
        return result
    out = _ready(job, run, watch)
    if job.alone and not ranks.is_first():
        return ranks.agree({})
    begun = time.monotonic()
    result = job.work(**_arguments(job, run, watch))
    if ranks.is_first():
        files.write_json(out / WALL, {"seconds": time.monotonic() - begun})
        files.write_json(out / RESULT, result)
    return ranks.agree(result)


def begin(
    job: Job, run: Path, work: Callable[..., dict[str, Any]], *, watch: Watch = unwatched, **more: Any
) -> dict[str, Any]:
    """What `work` gives, called in the job's directory with the job's arguments and more: a first part of the job,
    which leaves there what the job's own work goes on from.
    """
    _ready(job, run, watch)
    return ranks.agree(work(**_arguments(job, run, watch), **more))


def _ready(job: Job, run: Path, watch: Watch) -> Path:
    """The job's directory, once all it needs is done and what it is stands there."""
    for needed in job.needs.values():
        do(needed, run, watch=watch)
    out = job.directory(run)
    if ranks.is_first():
        out.mkdir(parents=True, exist_ok=True)
        files.write_json(out / JOB, {"label": job.label} | job.depends_on())
    ranks.agree(None)
    return out


def _arguments(job: Job, run: Path, watch: Watch) -> dict[str, Any]:
    def labelled(progress: Progress) -> None:
        # what is counted in documents prepares the work proper, such as making tokens
        label = f"{job.label}, {progress.stage}" if progress.unit == "documents" else job.label
        watch(replace(progress, stage=label))

    directories = {name: needed.directory(run) for name, needed in job.needs.items()}
    return {"out": job.directory(run), "watch": labelled, **job.settings, **job.places, **directories}


def missing(jobs: Iterable[Job], run: Path) -> list[Job]:
    """Those of the jobs, and of what they need, that have no result yet, in the order in which they would be done."""
    return _with_needs(jobs, lambda job: _written(job, run) is not None)


def with_needs(jobs: Iterable[Job]) -> list[Job]:
    """The jobs and what they need, each once, in the order in which they would be done in a new run."""
    return _with_needs(jobs, lambda job: False)


def _with_needs(jobs: Iterable[Job], done: Callable[[Job], bool]) -> list[Job]:
    found: dict[str, Job] = {}

    def visit(job: Job) -> None:
        if job.name in found or done(job):
            return
        for needed in job.needs.values():
            visit(needed)
        found[job.name] = job

    for job in jobs:
        visit(job)
    return list(found.values())


def _written(job: Job, run: Path) -> dict[str, Any] | None:
    path = job.directory(run) / RESULT
    return files.read_json(path) if path.exists() else None
