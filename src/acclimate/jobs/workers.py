"""Where the jobs of a study run: here, in processes of this machine, or as tasks of a Ray cluster.

The verb says where (`working`), the study does not know. Processes are started anew, each for the first job that none
is free for, with its share of the processors, and do one job after the other. They end with the process that started
them, however that ends: two must not write into one run. Tasks of Ray are in jobs/workers_ray.py.
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
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from acclimate.core import ranks
from acclimate.core.machines import processors
from acclimate.core.types import Progress, Watch
from acclimate.jobs.job import Call, first_line, note_failure, try_call

TRIES = 3  # of a job whose process dies under it
TOLD_EVERY = 0.1  # seconds between two things that a process tells of a job, but for notes and looks at dev
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")  # read when loaded


class DiedError(ChildProcessError):
    """The process or the machine that did a job died under it, again and again."""


class RemoteError(RuntimeError):
    """An error of another process that could not be sent as it is."""


@dataclass(frozen=True)
class Where:
    """workers    processes of this machine; 1: this one
    cluster    "" for none; else auto or HOST:PORT of a Ray cluster
    threads    of each job; 0: this machine's processors over workers; on a cluster 1
    gpu_share  of a GPU that each job on a cluster claims; 0: none, so that it runs where there is none
    """

    workers: int = 1
    cluster: str = ""
    threads: int = 0
    gpu_share: float = 0.0

    def check(self) -> None:
        """Raises ValueError for what makes no sense together."""
        if self.workers < 1 or self.threads < 0 or self.gpu_share < 0:
            raise ValueError(f"{self} is out of range: workers at least 1, threads and gpu_share at least 0")
        if self.cluster and self.workers > 1:
            raise ValueError("--workers are processes of this machine, --cluster has its own. Leave one out")
        if self.gpu_share and not self.cluster:
            raise ValueError("--gpu-share is what a job on a cluster claims of a GPU: give --cluster, or leave it out")
        if self.threads and not self.cluster and self.workers == 1:
            raise ValueError("--threads is of each of several workers; of this process OMP_NUM_THREADS says it")


Ended = tuple[str, Exception | None]  # a call's name, and the error with which it ended


class Workers(Protocol):
    """Whoever does calls.

    slots  how many calls may be under way
    """

    @property
    def slots(self) -> int: ...

    def start(self, call: Call, watch: Watch) -> None:
        """Have a call done; not more than `slots` at once."""
        ...

    def ended(self) -> list[Ended]:
        """Calls that have ended, one at least; waits for it, and tells their watches meanwhile."""
        ...


class Here:
    """This process, call by call."""

    slots = 1

    def __init__(self) -> None:
        self.done: list[Ended] = []

    def start(self, call: Call, watch: Watch) -> None:
        self.done.append((call.name, try_call(call, watch=watch)))

    def ended(self) -> list[Ended]:
        done, self.done = self.done, []
        return done


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)


def elsewhere() -> Workers | None:
    """Who does the jobs of studies; None: this process, one after the other."""
    return _workers.get()


@contextlib.contextmanager
def working(where: Where) -> Iterator[None]:
    """Within the block, studies have their jobs done there.

    Raises ValueError under torchrun, whose processes share each job, and where no cluster answers.
    """
    where.check()
    if where == Where():
        yield
        return
    if ranks.world() > 1:
        raise ValueError("torchrun's processes do each job together; --workers and --cluster share jobs out. Leave one")
    with contextlib.ExitStack() as stack:
        workers: Workers
        if where.cluster:
            from acclimate.jobs.workers_ray import on_ray

            workers = stack.enter_context(on_ray(where.cluster, threads=where.threads or 1, gpu_share=where.gpu_share))
        else:
            threads = where.threads or max(1, processors() // where.workers)
            workers = stack.enter_context(contextlib.closing(Processes(where.workers, threads)))
        before = _workers.set(workers)
        try:
            yield
        finally:
            _workers.reset(before)


def limit_threads(threads: int) -> None:
    """Of torch, where the call has loaded it."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(min(threads, torch.get_num_threads()))


def sendable(error: Exception | None) -> tuple[Exception | None, str]:
    """The error as another process can load it, and where it was raised."""
    if error is None:
        return None, ""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class makes of its arguments
        return RemoteError(f"{type(error).__name__}: {first_line(error)}"), trace
    return error, trace


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
            error = try_call(call, watch=_throttled(pipe))
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
