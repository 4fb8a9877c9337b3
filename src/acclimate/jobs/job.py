"""A job: work with a name made of all that its result depends on, a directory, and a result that is written once.

Everything that takes long is one. A study is a set of jobs, so running it again does only what is missing. A job does
not depend on where it runs (jobs/workers.py). This file has, in this order: a job and its name; the files of a study's
directory; running one job under its lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from filelock import FileLock, Timeout

from acclimate.core import clock, files, ranks, settings
from acclimate.core.door import is_python, option, python_call
from acclimate.core.types import Progress, Split, Watch

DIRECTORY = "jobs"
STUDY = "study.json"
PLAN = "plan.jsonl"
DECISIONS = "decisions.json"
RUNNING = "running"  # in the study's directory: a lock and a note for each job that runs
FORMAT = 6  # of a study's directory
# in a job's directory
JOB = "job.json"
RESULT = "result.json"
WALL = "wall.json"  # seconds that the work took, loading included; without the sessions that were killed
FAILED = "failed.json"  # the error of the last try; removed once the job is done
NOTE_EVERY = 1.0  # seconds between two notes of a job's progress
PATIENCE = 5.0  # seconds of waiting for another process before the watch gets a note

Result = dict[str, Any]
Function = Callable[..., Result]


@dataclass(frozen=True)
class Work:
    """A kind of job: its function, and all that names, budgets, forecasts and status need to know of it.

    name        short; the names of its jobs depend on it
    rule        raised where `do` comes to give other results with equal settings; the names of its jobs depend on it
    do          (out=, watch=, **arguments) -> a result that JSON can hold
    reads       splits whose rows the encoder reads without training, for a forecast (races/planning/forecast.py)
    trains      "encoder": it pretrains or adapts; "task": it fine-tunes; "": neither
    opens_test  True if it looks at the labels of the test set
    draws       True if its settings' recipe.plan.seed draws a contestant's encoder, so that all scores of that encoder
                rest on this draw; False for a pretraining from which all contestants start
    quick       True if it takes seconds and trains no encoder: a run that is refused after it leaves nothing behind
    """

    name: str
    do: Function
    reads: tuple[Split, ...] = ()
    trains: Literal["encoder", "task", ""] = ""
    opens_test: bool = False
    draws: bool = False
    quick: bool = False
    rule: int = 0


@dataclass(frozen=True)
class Job:
    """Work on given inputs: `work.do(out=, watch=, **settings, **places, **directories of needs)`.

    label     what people call it: "fine-tune TAPT, seed 1"
    settings  plain values that the result depends on
    contents  hashes of what the work reads from `places`; the paths themselves do not count
    needs     jobs whose directories the work reads, by argument name
    alone     True for work that one process does while others wait
    """

    label: str
    work: Work
    settings: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    needs: Mapping[str, Job] = field(default_factory=dict)
    alone: bool = False

    def depends_on(self) -> dict[str, Any]:
        """Return all that the result depends on, as it is written to `job.json`."""
        return {
            "work": self.work.name,
            **({"rule": self.work.rule} if self.work.rule else {}),
            "versions": dict(_versions()),
            "settings": dict(self.settings),
            "contents": dict(self.contents),
            "needs": {name: job.name for name, job in self.needs.items()},
        }

    @cached_property
    def name(self) -> str:
        """A readable part and 12 hex digits of the hash of `depends_on`."""
        stack = [*self.needs.values()]  # names of needs first: chains may be longer than Python's stack
        while stack:
            unnamed = [needed for needed in stack[-1].needs.values() if "name" not in vars(needed)]
            stack += unnamed
            if not unnamed:
                _ = stack.pop().name
        readable = re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")
        return f"{readable[:48]}-{settings.digest(self.depends_on())[:12]}"

    def directory(self, run: Path) -> Path:
        return run / DIRECTORY / self.name

    def call(self, run: Path) -> Call:
        """Return the job as plain data, to run once its needs are done."""
        directories = {name: needed.directory(run) for name, needed in self.needs.items()}
        arguments: dict[str, Any] = {**self.settings, **self.places, **directories}
        about = {"label": self.label, "quick": self.work.quick} | self.depends_on()
        needs = tuple(directories.values())
        tunes, place = self.work.trains == "task", self.directory(run)
        return Call(self.name, self.label, self.work.do, about, run, place, arguments, needs, self.alone, tunes)


@cache
def _versions() -> dict[str, str]:
    """Return the versions of packages, read once a process: each takes a file, and a study has thousands of jobs."""
    from acclimate.training.run import versions  # imports torch, which the commands that only look at a study avoid

    return versions()


def missing(jobs: Iterable[Job], run: Path) -> list[Job]:
    """Return the jobs without a result, and those of their needs that have none, in the order in which they run."""
    return with_needs(jobs, lambda job: is_done(job, run))


def with_needs(jobs: Iterable[Job], leave_out: Callable[[Job], bool] = lambda job: False) -> list[Job]:
    """Return the jobs and all their needs, each once, in the order in which they would run in a new study.

    leave_out: True for a job that is left out, with its needs
    """
    # depth first, needs before the jobs that need them; not recursive, as chains may be longer than Python's stack
    ordered: dict[str, Job] = {}
    names: set[str] = set()
    stack = [(job, False) for job in reversed([*jobs])]
    while stack:
        job, after = stack.pop()
        if after:
            ordered[job.name] = job
        elif job.name not in names:
            names.add(job.name)
            if not leave_out(job):
                stack.append((job, True))
                stack += ((needed, False) for needed in reversed([*job.needs.values()]))
    return list(ordered.values())


def is_done(job: Job, run: Path) -> bool:
    return (job.directory(run) / RESULT).exists()


def result_of(job: Job, run: Path) -> Result | None:
    """Return the job's result; None where it has not been done. Raises DamagedError as `read_result`."""
    place = job.directory(run)
    return read_result(place) if (place / RESULT).exists() else None


def read_result(place: Path) -> Result:
    """Return the result in the directory of a finished job.

    Raises DamagedError if the result, or a file of the job that no manifest inside it lists, is not what was written.
    """
    way_out = again(place)
    result: Result = files.read_record(place / RESULT, of=place.name, way_out=way_out)
    files.check_manifest(place, way_out=way_out)
    return result


def write_result(place: Path, result: Result) -> None:
    """Mark the job as finished: write its manifest, then its result."""
    files.seal_apart(place)
    files.write_record(place / RESULT, result, of=place.name)


def again(place: Path) -> str:
    """Return the way out of damage in a job's directory."""
    return f"Remove {place}: the command that started the study does this job again"


def claim(run: Path, called: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write the study's format to `run`, and begin its plan. called: as for `begin_plan`.

    Raises ValueError if `run` holds a study of another format.
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
    about: dict[str, Any] = {"format": 1, "acclimate": "0.1.0 or older"}
    if path.exists():
        begun = f'Write {{"format": {FORMAT}}} to it if this version began the study'
        about = files.read_object(path, names=("format",), way_out=f"{begun}, or choose another {option('out')}")
    if about.get("format") != FORMAT:
        raise ValueError(
            f"{run} was written by acclimate {about.get('acclimate')} in format {about.get('format')}, but this "
            f"version, {_versions()['acclimate']}, has format {FORMAT}. Choose another {option('out')}, or install "
            "that version to continue there"
        )


def decided(run: Path, key: str, decide: Callable[[], Any], *, records: bool = True) -> Any:
    """Return the decision of this key, which is made once a run and then read: JSON values, the same in all processes.

    All processes call `decide`, because it may train steps in which they wait for each other; the first one's answer
    counts. records: False in a dry run, which keeps no decision
    """
    path = run / DECISIONS
    way_out = f"Remove {path}, and give the same command again"
    record = files.read_record(path, way_out=way_out) if ranks.is_first() and path.exists() else {}
    decisions: dict[str, Any] = ranks.agree(record)
    if key not in decisions:
        decisions[key] = ranks.agree(decide())
        if records and ranks.is_first():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_record(path, decisions)
    return decisions[key]


def studies_in(out: Path) -> list[Path]:
    """Return the directories with jobs: `out`, or those of a study that has one for each dataset."""
    places = [out, *sorted(path for path in out.iterdir() if path.is_dir())] if out.is_dir() else []
    studies = [path for path in places if (path / PLAN).exists() or (path / STUDY).exists()]
    if not studies:
        raise ValueError(f"{out} contains no study. Name the {option('out')} of a race, of evaluate or of a study")
    return studies


@dataclass(frozen=True)
class PlannedJob:
    """A line of a plan. work: the name of the job's Work"""

    name: str
    label: str
    work: str
    needs: tuple[str, ...]


def begin_plan(run: Path, called: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write an empty plan in place of an earlier one, and remove notes and temporary files of processes that have died.

    called: key of a model in the labels -> the name that people are shown
    """
    run.mkdir(parents=True, exist_ok=True)
    forget_the_dead(run)
    files.remove_leftovers(run)
    files.write_text(run / PLAN, json.dumps({"called": dict(called)}) + "\n" if called else "")


def add_to_plan(jobs: Iterable[Job], run: Path) -> None:
    """Add to the plan the jobs that it lacks."""
    if not ranks.is_first():
        return
    in_plan = {planned.name for planned in read_plan(run)}
    lines = []
    for job in jobs:
        if job.name not in in_plan:
            in_plan.add(job.name)
            needs = [needed.name for needed in job.needs.values()]
            lines.append({"name": job.name, "label": job.label, "work": job.work.name, "needs": needs})
    if lines:
        run.mkdir(parents=True, exist_ok=True)
        files.append_line(run / PLAN, "\n".join(map(json.dumps, lines)))


def read_plan(run: Path) -> list[PlannedJob]:
    """Return the jobs of the study, each once, in the order in which they were planned; none where there is no plan."""
    lines = (line for line in _plan_lines(run) if "name" in line)
    return [PlannedJob(line["name"], line["label"], line["work"], tuple(line["needs"])) for line in lines]


def called_in(run: Path) -> dict[str, str]:
    """Return the names that `begin_plan` was given."""
    return {key: name for line in _plan_lines(run) for key, name in line.get("called", {}).items()}


def _plan_lines(run: Path) -> Iterator[dict[str, Any]]:
    path = run / PLAN
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else [], 1):
        if line.endswith(b"}"):  # else a kill cut it off
            try:
                yield json.loads(line)
            except ValueError as error:
                way_out = "Remove the file: the command that started the study writes it again"
                raise files.DamagedError(f"{path}:{number}: damaged: {error}. {way_out}") from error


@dataclass(frozen=True)
class Call:
    """A job whose needs are done, as plain data that another process or machine can be sent.

    about   what `job.json` says
    needs   directories of finished jobs that the work reads
    tunes   True if it fine-tunes
    python  True if a Python function started it, so that its messages write options as keywords
    """

    name: str
    label: str
    function: Function
    about: Mapping[str, Any]
    run: Path
    out: Path
    arguments: Mapping[str, Any]
    needs: tuple[Path, ...] = ()
    alone: bool = False
    tunes: bool = False
    python: bool = field(default_factory=is_python)


def do_call(call: Call, *, watch: Watch) -> Result:
    """Return the call's result: read it if it is written, else run the work and write it.

    Work that was stopped runs again in the same directory and goes on from what it left there. The process that runs a
    call holds its lock: a second process waits, and then reads the result.

    Raises DamagedError if a file of a job that it needs, weights among them, is not what was written.
    """
    if ranks.is_first():
        call.out.mkdir(parents=True, exist_ok=True)
    with _locked(call, watch) as noting:
        stored_result = read_result(call.out) if ranks.is_first() and (call.out / RESULT).exists() else None
        if (result := ranks.agree(stored_result)) is not None:
            return result
        if ranks.is_first():
            for needed in call.needs:
                files.check_manifest(needed, within=True, way_out=again(needed))
            files.write_json(call.out / JOB, call.about)
        ranks.agree(None)
        if call.alone and not ranks.is_first():
            return ranks.agree({})
        start = clock.seconds()
        result = call.function(out=call.out, watch=noting, **call.arguments)
        if ranks.is_first():
            files.write_record(call.out / WALL, {"seconds": clock.seconds() - start})
            (call.out / FAILED).unlink(missing_ok=True)
            write_result(call.out, result)
        return ranks.agree(result)


def try_call(call: Call, *, watch: Watch) -> Exception | None:
    """Run the call. Return None, or the error with which it failed, which is then also written to its directory."""
    try:
        with python_call() if call.python else contextlib.nullcontext():
            do_call(call, watch=watch)
    except Exception as error:
        note_failure(call, error)
        return error
    return None


def note_failure(call: Call, error: Exception) -> None:
    """Write the error to the call's directory: its first line, its kind, and the traceback."""
    if ranks.is_first():
        trace = "".join(traceback.format_exception(error))
        about = {"error": first_line(error), "kind": type(error).__name__, "at": time.time(), "traceback": trace}
        files.write_json(call.out / FAILED, about)


def failed_with(error: Exception, run: Path) -> bool:
    """True if the last try of a job in `run` failed with this error."""
    notes = (files.read_object(path, names=("error",)) for path in (run / DIRECTORY).glob(f"*/{FAILED}"))
    return any(first_line(error).endswith(noted["error"]) for noted in notes)  # a worker may put the kind before it


def first_line(error: BaseException) -> str:
    """Return the first line of the error, or its kind if it has no text: what a table shows."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextlib.contextmanager
def _locked(call: Call, watch: Watch) -> Iterator[Watch]:
    """Hold the call's lock. Yield a watch that names stages by the job's label and keeps a note of the progress.

    The note lies beside the lock, where `running` finds it.
    """

    def labelled(progress: Progress) -> Progress:
        # what is counted in documents prepares the work proper, such as making tokens
        label = f"{call.label}, {progress.stage}" if progress.unit == "documents" else call.label
        return replace(progress, stage=label)

    if not ranks.is_first():
        yield lambda progress: watch(labelled(progress))
        return
    path = call.run / RUNNING / f"{call.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"label": call.label, "process": os.getpid(), "machine": socket.gethostname(), "since": time.time()}
    noted = time.monotonic()

    def noting(progress: Progress) -> None:
        nonlocal noted
        named = labelled(progress)
        if time.monotonic() - noted >= NOTE_EVERY:
            noted = time.monotonic()
            progress_made = {"done": named.done, "total": named.total, "unit": named.unit}
            _write_note(path, {**about, "stage": named.stage, **progress_made})
        watch(named)

    try:
        lock = _acquired(path, PATIENCE)
    except Timeout:
        watch(Progress(call.label, 0, 0, "steps", {"note": "another process does this; waiting for it"}))
        lock = _acquired(path)
    try:
        _write_note(path, about)
        yield noting
    finally:
        _forget(path)  # while the lock is held: else another's note might be removed
        files.release(lock)


def _acquired(note_path: Path, seconds: float = -1) -> FileLock:
    """Return the lock beside a note, acquired. Raises Timeout where another process holds it for so long (-1: waits),
    and DiskError as `files.lock_named` does.
    """
    path = note_path.with_suffix(".lock")
    lock = FileLock(path, thread_local=False)
    with files.lock_named(path):
        lock.acquire(timeout=seconds)
    return lock


def _write_note(path: Path, about: Mapping[str, Any]) -> None:
    """Write a note whole or not at all, but do not flush it: it is of no use once the process has ended."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    os.replace(temporary, path)


def _forget(path: Path) -> None:
    for ending in (".json", ".tmp", ".lock"):
        path.with_suffix(ending).unlink(missing_ok=True)


def running(run: Path) -> dict[str, dict[str, Any]]:
    """Return name -> the note of each job that a living process runs. The lock of a process ends with the process."""
    notes: dict[str, dict[str, Any]] = {}
    for path in sorted((run / RUNNING).glob("*.json")):
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            try:
                files.release(_acquired(path, 0))
            except Timeout:
                notes[path.stem] = files.read_json(path)
    return notes


def forget_the_dead(run: Path) -> None:
    """Remove the notes of processes that have died."""
    for path in {path.with_suffix(".json") for path in (run / RUNNING).glob("*")}:
        with contextlib.suppress(Timeout):
            lock = _acquired(path, 0)
            _forget(path)
            files.release(lock)
