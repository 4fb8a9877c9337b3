"""Where the jobs of a study run: here, in processes of this machine, or as tasks of a Ray cluster.

The verb says where (`working`), the study does not know. Processes: study/worker_processes.py; Ray:
study/workers_ray.py.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from acclimate.core import ranks
from acclimate.core.threads import processors
from acclimate.core.types import Watch
from acclimate.study.calls import Call, attempt, first_line

TRIES = 3  # of a job whose process dies under it


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
        self.done.append((call.name, attempt(call, watch=watch)))

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
            from acclimate.study.workers_ray import on_ray

            workers = stack.enter_context(on_ray(where.cluster, threads=where.threads or 1, gpu_share=where.gpu_share))
        else:
            from acclimate.study.worker_processes import Processes

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
