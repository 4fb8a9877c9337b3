"""Processes of this machine that do the jobs of a study.

They are started anew, each for the first job that none is free for, with its share of the processors, and do one job
after the other. They end with the process that started them, however that ends: two must not write into one run.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from acclimate.core.types import Progress, Watch
from acclimate.study.calls import Call, attempt, note_failure
from acclimate.study.workers import TRIES, DiedError, Ended, RemoteError, limit_threads, sendable

TOLD_EVERY = 0.1  # seconds between two things that a process tells of a job, but for notes and looks at dev
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")  # read when loaded


@dataclass
class _Process:
    """A worker: its process, our end of its pipe, and what it is at."""

    process: SpawnProcess
    pipe: Connection
    call: Call | None = None
    watch: Watch | None = None


class Processes:
    """So many processes of this machine, each with so many threads. `close` ends them, whatever they are at."""

    def __init__(self, number: int, threads: int) -> None:
        self.slots, self.threads = number, threads
        self.pool: list[_Process] = []
        self.deaths: Counter[str] = Counter()
        self.undone: list[Ended] = []

    def start(self, call: Call, watch: Watch) -> None:
        worker = next((each for each in self.pool if each.call is None), None)
        if worker is None:
            worker = self._new()
        worker.call, worker.watch = call, watch
        content = pickle.dumps(call)
        with contextlib.suppress(BrokenPipeError):  # it died meanwhile: `ended` sees that
            worker.pipe.send_bytes(content)

    def ended(self) -> list[Ended]:
        done: list[Ended] = []
        while not done:
            busy = {worker.pipe: worker for worker in self.pool if worker.call is not None}
            for pipe in wait([*busy]):
                assert isinstance(pipe, Connection)
                done += self._heard(busy[pipe])
        return done

    def _heard(self, worker: _Process) -> list[Ended]:
        """The next thing that the worker says, or that it died."""
        call, watch = worker.call, worker.watch
        assert call is not None
        assert watch is not None
        try:
            told = worker.pipe.recv()
        except (EOFError, OSError):  # the second where it died in the middle of a message
            return self._died(worker, call, watch)
        if isinstance(told, Progress):
            watch(told)
            return []
        worker.call = worker.watch = None
        error, trace = told
        if error is not None:
            error.__cause__ = RemoteError(f"\n{trace}")
        return [(call.name, error)]

    def _died(self, worker: _Process, call: Call, watch: Watch) -> list[Ended]:
        """Another goes on from what it left, unless that has been tried often."""
        worker.process.join()
        self.pool.remove(worker)
        self.deaths[call.name] += 1
        how = _signal_name(worker.process.exitcode)
        if self.deaths[call.name] < TRIES:
            watch(Progress(call.label, 0, 0, "steps", {"note": f"its process died ({how}); another goes on"}))
            self.start(call, watch)
            return []
        error = DiedError(f"the process of {call.label} died {TRIES} times, the last time of {how}: too little memory?")
        call.out.mkdir(parents=True, exist_ok=True)
        note_failure(call, error)
        return [(call.name, error)]

    def _new(self) -> _Process:
        """A process that waits for its first call, in whose environment its threads stand before torch is loaded."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.threads))
        before = {name: os.environ.get(name) for name in THREADS}
        try:
            for name, value in before.items():  # who states fewer gets fewer
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


def _signal_name(status: int | None) -> str:
    return signal.Signals(-status).name if status is not None and status < 0 else f"exit status {status}"


def serve(pipe: Connection, threads: int) -> None:
    """Do the calls that come through the pipe until it is closed; the life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all; the one that started us says what becomes of us
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
            error = attempt(call, watch=_throttled(pipe))
        except Exception as failure:  # of what cannot be loaded here, or not be written down
            error = failure
        pipe.send(sendable(error))


def _throttled(pipe: Connection) -> Watch:
    told = 0.0

    def watch(progress: Progress) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= TOLD_EVERY or progress.done == progress.total or progress.values.keys() & {"note", "dev"}:
            told = now
            pipe.send(progress)

    return watch


def _end_with_parent() -> None:
    """However it ends: nobody would hear of what we do, and the next one begins it again."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
