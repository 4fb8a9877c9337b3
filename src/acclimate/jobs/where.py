"""Where the jobs of a study run: in this process, in worker processes of this machine, or on a Ray cluster.

The command decides (`working`); a study does not depend on it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from acclimate.core import ranks
from acclimate.core.door import option
from acclimate.core.machines import processors
from acclimate.jobs.workers import THREADS, Processes, Workers, limit_threads


@dataclass(frozen=True)
class Where:
    """Where jobs run.

    workers    number of processes of this machine; 1: this process
    cluster    "auto" or HOST:PORT of a Ray cluster; "": none
    threads    of each job; 0: the processors of this machine divided by `workers`, those that libraries take if this
               process does the jobs; on a cluster 1
    gpu_share  share of a GPU that each job on a cluster claims; 0: none, so jobs also run on machines without a GPU
    """

    workers: int = 1
    cluster: str = ""
    threads: int = 0
    gpu_share: float = 0.0

    def check(self) -> None:
        """Raises ValueError for settings that contradict each other."""
        if self.workers < 1 or self.threads < 0 or self.gpu_share < 0:
            raise ValueError(f"{self} is out of range. Set workers to at least 1, threads and gpu_share to at least 0")
        if self.cluster and self.workers > 1:
            raise ValueError(
                f"{option('workers')} starts processes on this machine, {option('cluster')} on a cluster. "
                "Remove one of them"
            )
        if self.gpu_share and not self.cluster:
            raise ValueError(
                f"{option('gpu_share')} is the share of a GPU for each job on a cluster. Add {option('cluster')}, "
                "or remove it"
            )


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)


def current_workers() -> Workers | None:
    """Return the workers that run the jobs of studies; None: this process runs them, one after the other."""
    return _workers.get()


@contextlib.contextmanager
def working(where: Where) -> Iterator[None]:
    """Within the block, the jobs of studies run there.

    Raises ValueError under torchrun, whose processes share each job, and where no cluster answers.
    """
    where.check()
    if where.workers == 1 and not where.cluster:
        with _own_threads(where.threads):
            yield
        return
    if ranks.world() > 1:
        raise ValueError(
            f"the processes of torchrun share each job, but {option('workers')} and {option('cluster')} distribute "
            "whole jobs. Start it without torchrun, or remove the option"
        )
    with contextlib.ExitStack() as stack:
        workers: Workers
        if where.cluster:
            from acclimate.jobs.workers_ray import start_ray

            workers = stack.enter_context(
                start_ray(where.cluster, threads=where.threads or 1, gpu_share=where.gpu_share)
            )
        else:
            threads = where.threads or max(1, processors() // where.workers)
            workers = stack.enter_context(contextlib.closing(Processes(where.workers, threads)))
        before = _workers.set(workers)
        try:
            yield
        finally:
            _workers.reset(before)


@contextlib.contextmanager
def _own_threads(threads: int) -> Iterator[None]:
    """Within the block this process computes with so many threads at most; 0: as it is."""
    if not threads:
        yield
        return
    # libraries that are not loaded yet read the environment; numba refuses another value once it is loaded
    names = [name for name in THREADS if name != "NUMBA_NUM_THREADS" or "numba" not in sys.modules]
    before = {name: os.environ.get(name) for name in names}
    torch = sys.modules.get("torch")
    threads_before = torch.get_num_threads() if torch is not None else 0
    os.environ.update(dict.fromkeys(names, str(threads)))
    limit_threads(threads)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})
        if torch is not None:
            torch.set_num_threads(threads_before)
