"""The workers that run jobs: this process, or worker processes of this machine. Those of Ray are in workers_ray.py.

A worker process starts when a job finds none free, gets a share of the processors, and runs one job after the other. It
ends with the process that started it, however that ends, because two commands must not write into one run.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from acclimate.core.types import Progress, Watch
from acclimate.jobs.job import Call, first_line, note_failure, try_call

TRIES = 3  # times that a job is started if its process dies
SEND_EVERY = 0.1  # seconds between two messages of a job's progress; notes and looks at dev are always sent
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")  # read on import


class DiedError(ChildProcessError):
    """The process or the machine that ran a job died, as often as the job was tried."""


class RemoteError(RuntimeError):
    """An error of another process that cannot be pickled, in words."""


EndedCall = tuple[str, Exception | None]  # a call's name, and the error with which it ended


class Workers(Protocol):
    """Runs calls.

    slots  number of calls that may run at once
    """

    @property
    def slots(self) -> int: ...

    def start(self, call: Call, watch: Watch) -> None:
        """Start a call; at most `slots` may run at once."""
        ...

    def ended(self) -> list[EndedCall]:
        """Wait until a call has ended, and pass progress to the watches meanwhile; return the calls that have ended."""
        ...

    def close(self) -> None:
        """End the calls that run, wherever they stand. Others may start afterwards."""
        ...


class ThisProcess:
    """Runs calls in this process, one after the other."""

    slots = 1

    def __init__(self) -> None:
        self.done: list[EndedCall] = []

    def start(self, call: Call, watch: Watch) -> None:
        self.done.append((call.name, try_call(call, watch=watch)))

    def ended(self) -> list[EndedCall]:
        calls, self.done = self.done, []
        return calls

    def close(self) -> None:
        self.done.clear()


def limit_threads(threads: int) -> None:
    """Lower torch's number of threads to at most this, if torch is loaded."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(min(threads, torch.get_num_threads()))


def sendable(error: Exception | None) -> tuple[Exception | None, str]:
    """Return the error in a form that another process can load, and its traceback as text."""
    if error is None:
        return None, ""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # a class may refuse to be made again from its arguments
        return RemoteError(f"{type(error).__name__}: {first_line(error)}"), trace
    return error, trace


@dataclass
class _Process:
    """A worker process, this end of its pipe, and the call that it runs, if any."""

    process: SpawnProcess
    pipe: Connection
    call: Call | None = None
    watch: Watch | None = None


class Processes:
    """Runs calls in `number` processes of this machine with `threads` threads each. `close` ends them at once."""

    def __init__(self, number: int, threads: int) -> None:
        self.slots, self.threads = number, threads
        self.pool: list[_Process] = []
        self.deaths: Counter[str] = Counter()

    def start(self, call: Call, watch: Watch) -> None:
        worker = next((process for process in self.pool if process.call is None), None) or self._new()
        worker.call, worker.watch = call, watch
        content = pickle.dumps(call)
        with contextlib.suppress(BrokenPipeError):  # the worker has died: `ended` notices
            worker.pipe.send_bytes(content)

    def ended(self) -> list[EndedCall]:
        calls: list[EndedCall] = []
        while not calls:
            busy = {worker.pipe: worker for worker in self.pool if worker.call is not None}
            for pipe in wait([*busy]):
                assert isinstance(pipe, Connection)
                calls += self._heard(busy[pipe])
        return calls

    def _heard(self, worker: _Process) -> list[EndedCall]:
        """Handle the worker's next message, or its death. Return the call if it has ended."""
        call, watch = worker.call, worker.watch
        assert call is not None
        assert watch is not None
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):  # the second where it died in the middle of a message
            return self._died(worker, call, watch)
        if isinstance(message, Progress):
            watch(message)
            return []
        worker.call = worker.watch = None
        error, trace = message
        if error is not None:
            error.__cause__ = RemoteError(f"\n{trace}")
        return [(call.name, error)]

    def _died(self, worker: _Process, call: Call, watch: Watch) -> list[EndedCall]:
        """Start the call again, which goes on from what it left; after TRIES deaths, return it as failed."""
        worker.process.join()
        self.pool.remove(worker)
        self.deaths[call.name] += 1
        status = worker.process.exitcode
        how = signal.Signals(-status).name if status is not None and status < 0 else f"exit status {status}"
        if self.deaths[call.name] < TRIES:
            watch(Progress(call.label, 0, 0, "steps", {"note": f"its process died ({how}); another one continues"}))
            self.start(call, watch)
            return []
        error = DiedError(
            f"the process of {call.label} died {TRIES} times, the last time from {how}. Is there enough memory?"
        )
        call.out.mkdir(parents=True, exist_ok=True)
        note_failure(call, error)
        return [(call.name, error)]

    def _new(self) -> _Process:
        """Start a process that waits for calls. Its environment limits threads, which libraries read when they load."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.threads))
        before = {name: os.environ.get(name) for name in THREADS}
        try:
            for name, value in before.items():  # a smaller number that the user set stays
                most = int(value) if value and value.isdecimal() and int(value) else self.threads
                os.environ[name] = str(min(most, self.threads))
            process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                os.environ.update({name: value} if value is not None else {})
        theirs.close()
        worker = _Process(process, ours)
        self.pool.append(worker)
        return worker

    def close(self) -> None:
        for worker in self.pool:
            worker.process.terminate()
        for worker in self.pool:
            worker.process.join()
            worker.pipe.close()
        self.pool.clear()


def serve(pipe: Connection, threads: int) -> None:
    """Run the calls that come through the pipe until it is closed: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all; the parent decides when workers end
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            content = pipe.recv_bytes()
        except EOFError:
            return
        try:
            call = pickle.loads(content)
            limit_threads(threads)
            error = try_call(call, watch=_throttled(pipe))
        except Exception as failure:  # a call that cannot be loaded, or a failure that cannot be written
            error = failure
        pipe.send(sendable(error))


def _throttled(pipe: Connection) -> Watch:
    sent = 0.0

    def watch(progress: Progress) -> None:
        nonlocal sent
        now = time.monotonic()
        if now - sent >= SEND_EVERY or progress.done == progress.total or progress.values.keys() & {"note", "dev"}:
            sent = now
            pipe.send(progress)

    return watch


def _end_with_parent() -> None:
    """End this process when its parent ends, however: nothing could receive the result any more."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
