"""Whatever takes long is a job: a name made of all that its result depends on, a directory of its own, a result written
once.

A study is a set of jobs. Doing it again does only what is missing, and the jobs do not know where they run.
"""

from __future__ import annotations

import contextlib
import fcntl
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
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.core.replay import NotDoneError, check_may_work, recorded
from acclimate.core.types import Progress, Watch, unwatched

# -------------------- calls
# A job as whoever does it is told of it: what it needs is done already and stands there as directories.
#
# A call is plain data that another process or machine can be sent. Whoever does it holds its mark, a locked file in
# `running/` of the study's directory, so that two that meet do it once: the later one waits, and finds the result.


RESULT = "result.json"
WALL = "wall.json"  # seconds that the work took, loading included; of a session that was killed, none
JOB = "job.json"
FAILED = "failed.json"  # the error of the last try; gone once the job, or the part of it that is asked for, is done
RUNNING = "running"  # directory of the study: a locked file for each job that is under way
TOLD_EVERY = 1.0  # seconds between two lines in a mark
PATIENCE = 5.0  # seconds that another may hold a mark before whoever waits says so

Work = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """about: what `job.json` says; more: arguments of `part`, a first part of the work that writes no result.

    part: None where the whole work is to be done.
    """

    name: str
    label: str
    work: Work
    about: Mapping[str, Any]
    run: Path
    out: Path
    arguments: Mapping[str, Any]
    alone: bool = False
    part: Work | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def perform(call: Call, *, watch: Watch) -> dict[str, Any]:
    """The call's result, or that of its part: read where somebody has written it, else worked out and written once.

    Work that is stopped is called again on the same directory and goes on from what it left there. Where a study is
    only read (core/replay.py), the call ends as it did then.
    """
    if recorded() is not None:
        return _as_recorded(call, watch)
    if ranks.is_first():
        call.out.mkdir(parents=True, exist_ok=True)
    with _marked(call, watch) as telling:
        if call.part is None and (result := ranks.agree(read_result(call.out))) is not None:
            return result
        if ranks.is_first():
            files.write_json(call.out / JOB, call.about)
        ranks.agree(None)
        if call.part is not None:
            begun = call.part(out=call.out, watch=telling, **call.arguments, **call.more)
            if ranks.is_first():
                (call.out / FAILED).unlink(missing_ok=True)
            return ranks.agree(begun)
        if call.alone and not ranks.is_first():
            return ranks.agree({})
        start = time.monotonic()
        result = call.work(out=call.out, watch=telling, **call.arguments)
        if ranks.is_first():
            files.write_json(call.out / WALL, {"seconds": time.monotonic() - start})
            (call.out / FAILED).unlink(missing_ok=True)
            files.write_json(call.out / RESULT, result)
        return ranks.agree(result)


def attempt(call: Call, *, watch: Watch) -> Exception | None:
    """The error with which the call ended, written down in its directory; None where it is done."""
    try:
        perform(call, watch=watch)
    except NotDoneError:
        raise
    except Exception as error:
        if recorded() is None:
            note_failure(call, error)
        return error
    return None


def _as_recorded(call: Call, watch: Watch) -> dict[str, Any]:
    """What the call gave in a study that has ended; raises what it raised.

    What began and has neither a result nor a failure is a setting of a search that diverged. Raises NotDoneError for
    what never began.
    """
    if call.part is None and (result := read_result(call.out)) is not None:
        return result
    if call.part is not None and not (call.out / FAILED).exists():
        with contextlib.suppress(NotDoneError):
            return call.part(out=call.out, watch=watch, **call.arguments, **call.more)
    if not (call.out / JOB).exists():
        check_may_work(call.label)
    from acclimate.training.gradients import NotFiniteError  # with torch

    failed = files.read_json(call.out / FAILED) if (call.out / FAILED).exists() else {}
    if failed.get("kind", NotFiniteError.__name__) == NotFiniteError.__name__:
        raise NotFiniteError(failed.get("error", f"{call.label} diverged"))
    raise RuntimeError(failed["error"])


def note_failure(call: Call, error: Exception) -> None:
    """Write the error down in the call's directory: its first line, its kind, and where it was raised."""
    if ranks.is_first():
        trace = "".join(traceback.format_exception(error))
        about = {"error": first_line(error), "kind": type(error).__name__, "at": time.time(), "traceback": trace}
        files.write_json(call.out / FAILED, about)


def first_line(error: BaseException) -> str:
    """What a table says of an error."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def read_result(out: Path) -> dict[str, Any] | None:
    """What the job of the directory came to; None where it has not been done."""
    path = out / RESULT
    return files.read_json(path) if path.exists() else None


@contextlib.contextmanager
def _marked(call: Call, watch: Watch) -> Iterator[Watch]:
    """The call's mark, held; and the watch, told the job's label, what it is told standing in the mark."""

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
    told = time.monotonic()

    def telling(progress: Progress) -> None:
        nonlocal told
        named = labelled(progress)
        if time.monotonic() - told >= TOLD_EVERY:
            told = time.monotonic()
            _write(handle, {**about, "stage": named.stage, **_extent(named)})
        watch(named)

    handle = _held(path, call, watch)
    try:
        _write(handle, about)
        yield telling
    finally:
        try:
            path.unlink(missing_ok=True)  # before it is let go: else another's might be removed
        finally:
            os.close(handle)


def _extent(progress: Progress) -> dict[str, Any]:
    return {"done": progress.done, "total": progress.total, "unit": progress.unit}


def _held(path: Path, call: Call, watch: Watch) -> int:
    """The mark's open file, locked; waits for whoever has it."""
    begun, said = time.monotonic(), False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            if not said and time.monotonic() - begun > PATIENCE:
                said = True
                watch(Progress(call.label, 0, 0, "steps", {"note": "another process does this; waiting for it"}))
            time.sleep(0.1)
            continue
        if files.is_at(handle, path):  # else its holder removed it between our opening and locking it
            return handle
        os.close(handle)


def _write(handle: int, about: Mapping[str, Any]) -> None:
    """In place and in one piece, over all that stood there: whoever reads meanwhile sees the older or the newer."""
    size = max(1024, os.fstat(handle).st_size)
    os.pwrite(handle, json.dumps(about, ensure_ascii=False).encode().ljust(size), 0)


def running(run: Path) -> dict[str, dict[str, Any]]:
    """Name -> the mark of each job that somebody is at; those of the dead, whose locks ended with them, left out."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((run / RUNNING).glob("*.json")):
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                with contextlib.suppress(ValueError):  # what is no JSON is being written
                    found[path.stem] = json.loads(file.read())
    return found


def forget_the_dead(run: Path) -> None:
    """Remove the marks that nobody holds."""
    for path in (run / RUNNING).glob("*.json"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError), open(path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # on NFS only of a file that is open for writing
            path.unlink()


# -------------------- study plan
# The plan of a study: a line of `plan.jsonl` for each job that it came to, with what that needs.
#
# It is made anew where a study claims its directory, and grows while the study finds out what it will do. It loads no
# torch.


PLAN = "plan.jsonl"


@dataclass(frozen=True)
class Planned:
    """A job of a plan. work: what it is an example of; part: whether a first part of it is asked for, not its end."""

    name: str
    label: str
    work: str
    needs: tuple[str, ...]
    part: bool = False


def begin_plan(run: Path, called: Mapping[str, str] = MappingProxyType({})) -> None:
    """A plan without jobs in place of an earlier study's; marks that nobody holds are removed.

    called: what stands in labels for a model -> what people call it
    """
    if recorded() is not None:
        return
    run.mkdir(parents=True, exist_ok=True)
    forget_the_dead(run)
    files.write_text(run / PLAN, json.dumps({"called": dict(called)}) + "\n" if called else "")


def note(jobs: Iterable[Job], run: Path, *, parts: Iterable[Job] = ()) -> None:
    """Add those of the jobs, and of those of which a first part is asked for, that the plan has not."""
    if not ranks.is_first() or recorded() is not None:
        return
    known = {(own.name, own.part) for own in _lines(run)}
    lines = []
    for asked, part in ((jobs, False), (parts, True)):
        for job in asked:
            if (job.name, part) not in known:
                known.add((job.name, part))
                needs = [needed.name for needed in job.needs.values()]
                work = f"{job.work.__module__}.{job.work.__qualname__}"
                lines.append({"name": job.name, "label": job.label, "work": work, "needs": needs, "part": part})
    if lines:
        run.mkdir(parents=True, exist_ok=True)
        files.append_line(run / PLAN, "\n".join(map(json.dumps, lines)))


def read_plan(run: Path) -> list[Planned]:
    """The jobs of the study, each once, in the order in which they were planned; none where there is no plan."""
    found: dict[str, Planned] = {}
    for own in _lines(run):
        if own.name not in found or not own.part:  # of a job that went on to its end, the end counts
            found[own.name] = own
    return list(found.values())


def called_in(run: Path) -> dict[str, str]:
    """As `begin_plan` was told."""
    return {key: name for told in _told(run) for key, name in told.get("called", {}).items()}


def _lines(run: Path) -> Iterator[Planned]:
    for told in _told(run):
        if "name" in told:
            yield Planned(told["name"], told["label"], told["work"], tuple(told["needs"]), told["part"])


def _told(run: Path) -> Iterator[dict[str, Any]]:
    path = run / PLAN
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.endswith("}"):  # else of a kill
            yield json.loads(line)


def studies_in(out: Path) -> list[Path]:
    """The directories with jobs: `out`, or those of a study that has one for each dataset."""
    places = [out, *sorted(path for path in out.iterdir() if path.is_dir())] if out.is_dir() else []
    found = [path for path in places if (path / PLAN).exists() or (path / "study.json").exists()]
    if not found:
        raise ValueError(f"{out} holds no study. Name the --out of a race, evaluate, grid or blurb")
    return found


DIRECTORY = "jobs"
STUDY = "study.json"
DECISIONS = "decisions.json"
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


def decided(run: Path, key: str, decide: Callable[[], Any]) -> Any:
    """The decision of that key as it was made once in this run: JSON values, the same for all processes.

    All processes decide, for it may take training steps in which they wait for each other; the first one's counts.
    """
    path = run / DECISIONS
    known: dict[str, Any] = ranks.agree(files.read_json(path) if ranks.is_first() and path.exists() else {})
    if key not in known:
        known[key] = ranks.agree(decide())
        if ranks.is_first():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_json(path, known)
    return known[key]
