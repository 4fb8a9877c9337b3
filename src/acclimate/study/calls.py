"""A job as whoever does it is told of it: what it needs is done already and stands there as directories.

A call is plain data that another process or machine can be sent. Whoever does it holds its mark, a locked file in
`running/` of the study's directory, so that two that meet do it once: the later one waits, and finds the result.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks
from acclimate.core.recorded import NotDoneError, check_may_work, recorded
from acclimate.core.types import Progress, Watch

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
    only read (core/recorded.py), the call ends as it did then.
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
