"""Whatever takes long is a job: a name made of all that its result depends on, a directory of its own, a result written
once.

A study is a set of jobs. Doing it again does only what is missing, and the jobs do not know where they run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.core.recorded import recorded
from acclimate.core.types import Watch, unwatched
from acclimate.study import calls
from acclimate.study.calls import Call, Work, perform, read_result
from acclimate.study.study_plan import begin_plan

RESULT, WALL, JOB = calls.RESULT, calls.WALL, calls.JOB
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
            "versions": dict(study.versions if (study := recorded()) else _versions()),
            "settings": dict(self.settings),
            "contents": dict(self.contents),
            "needs": {name: job.name for name, job in self.needs.items()},
        }

    @cached_property
    def name(self) -> str:
        """A readable part and 12 hex digits of the hash of `depends_on`."""
        _name(self.needs.values())
        readable = re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")
        return f"{readable[:48]}-{settings.digest(self.depends_on())[:12]}"

    def directory(self, run: Path) -> Path:
        return run / DIRECTORY / self.name

    def call(self, run: Path, part: Work | None = None, **more: Any) -> Call:
        """The job as it is done once its needs are. part: a first part of it, called with more arguments."""
        directories = {name: needed.directory(run) for name, needed in self.needs.items()}
        arguments = {**self.settings, **self.places, **directories}
        about = {"label": self.label} | self.depends_on()
        out = self.directory(run)
        return Call(self.name, self.label, self.work, about, run, out, arguments, self.alone, part, more)


def _name(jobs: Iterable[Job]) -> None:
    """Have the jobs' names made, those of what they need first: chains may be longer than Python's stack."""
    stack = [*jobs]
    while stack:
        unnamed = [needed for needed in stack[-1].needs.values() if "name" not in vars(needed)]
        stack += unnamed
        if not unnamed:
            _ = stack.pop().name


@cache
def _versions() -> dict[str, str]:
    """Read once: of each package a file is opened, and a study has thousands of jobs."""
    from acclimate.training.run import versions  # with torch, which who only looks at a study does without

    return versions()


def claim(run: Path, called: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write down in `run` what format it has, and begin its plan, in whose labels models are called so.

    Raises ValueError where a study of another format is there already.
    """
    check_format(run)
    if not ranks.is_first():
        return
    begin_plan(run, called)
    if not (run / STUDY).exists():
        files.write_json(run / STUDY, {"format": FORMAT, "acclimate": _versions()["acclimate"]})


def check_format(run: Path) -> None:
    """Raises ValueError where `run` holds a study that another version of acclimate wrote in another format."""
    path = run / STUDY
    if not path.exists() and not (run / DIRECTORY).exists():
        return
    found = files.read_json(path) if path.exists() else {"format": 1, "acclimate": "0.1.0 or older"}
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{run} was written by acclimate {found.get('acclimate')} in format {found.get('format')}; this version, "
            f"{_versions()['acclimate']}, has format {FORMAT}. Choose another --out, or go on with that version"
        )


def do(job: Job, run: Path, *, watch: Watch = unwatched) -> dict[str, Any]:
    """The job's result: read where it was written before, else its needs done first and then the work.

    Work that is stopped is called again on the same directory and goes on from what it left there.
    """
    if (result := ranks.agree(result_of(job, run))) is not None:
        return result
    _do_needs(job, run, watch)
    return perform(job.call(run), watch=watch)


def begin(job: Job, run: Path, work: Work, *, watch: Watch = unwatched, **more: Any) -> dict[str, Any]:
    """What `work` gives, called in the job's directory with the job's arguments and more: a first part of the job,
    which leaves there what the job's own work goes on from.
    """
    _do_needs(job, run, watch)
    return perform(job.call(run, work, **more), watch=watch)


def _do_needs(job: Job, run: Path, watch: Watch) -> None:
    for needed in _with_needs(job.needs.values(), lambda needed: ranks.agree(is_done(needed, run))):
        do(needed, run, watch=watch)


def missing(jobs: Iterable[Job], run: Path) -> list[Job]:
    """Those of the jobs, and of what they need, that have no result yet, in the order in which they would be done."""
    return _with_needs(jobs, lambda job: is_done(job, run))


def with_needs(jobs: Iterable[Job]) -> list[Job]:
    """The jobs and what they need, each once, in the order in which they would be done in a new run."""
    return _with_needs(jobs, lambda job: False)


def _with_needs(jobs: Iterable[Job], done: Callable[[Job], bool]) -> list[Job]:
    """A walk with a stack of its own: chains may be longer than Python's."""
    found: dict[str, Job] = {}
    seen: set[str] = set()
    stack = [(job, False) for job in reversed([*jobs])]
    while stack:
        job, after = stack.pop()
        if after:
            found[job.name] = job
        elif job.name not in seen:
            seen.add(job.name)
            if not done(job):
                stack.append((job, True))
                stack += ((needed, False) for needed in reversed([*job.needs.values()]))
    return list(found.values())


def is_done(job: Job, run: Path) -> bool:
    """Whether the job's result is written."""
    return (job.directory(run) / RESULT).exists()


def result_of(job: Job, run: Path) -> dict[str, Any] | None:
    """What the job came to; None where it has not been done."""
    return read_result(job.directory(run))
