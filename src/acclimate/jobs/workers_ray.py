"""Runs the jobs of a study as tasks of a Ray cluster, whose machines all see the study's directory under one path.

If a task's process or machine dies, Ray starts it again elsewhere, and the job goes on from what it left on disk.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate import __version__
from acclimate.core.machines import machines_for, workers
from acclimate.core.types import Progress, Watch
from acclimate.jobs.job import Call, note_failure, running, try_call
from acclimate.jobs.workers import TRIES, DiedError, EndedCall, RemoteError, limit_threads, sendable

if TYPE_CHECKING:
    import ray

LOOK_EVERY = 5.0  # seconds between two looks at the progress of tasks


@contextlib.contextmanager
def start_ray(cluster: str, *, threads: int, gpu_share: float) -> Iterator[RayWorkers]:
    """Workers that run calls as tasks of the cluster at HOST:PORT, or "auto".

    Raises ValueError if no cluster answers, or if none of its machines has what a task claims.
    """
    with workers(cluster):
        machines_for(threads, gpu_share)
        tasks = RayWorkers(threads, gpu_share)
        try:
            yield tasks
        finally:
            tasks.close()


class RayWorkers:
    """Runs calls as tasks of the connected cluster, each with `threads` processors and a share of a GPU."""

    def __init__(self, threads: int, gpu_share: float) -> None:
        import ray

        claim: dict[str, Any] = {"num_cpus": threads, "max_retries": TRIES}
        if gpu_share:
            claim["num_gpus"] = gpu_share
        self.threads = threads
        self.remote = ray.remote(_task).options(**claim)
        self.tasks: dict[ray.ObjectRef[Any], tuple[Call, Watch]] = {}
        self.looked = time.monotonic()

    @property
    def slots(self) -> int:
        """Twice the number of tasks that the cluster can run at once, so that no processor is idle."""
        import ray

        return 2 * max(1, int(ray.cluster_resources().get("CPU", 0)) // self.threads)

    def start(self, call: Call, watch: Watch) -> None:
        needs = tuple(needed.resolve() for needed in call.needs)
        # absolute paths, because other processes have other working directories
        sent = replace(
            call,
            run=call.run.resolve(),
            out=call.out.resolve(),
            needs=needs,
            arguments={
                name: value.resolve() if isinstance(value, Path) and value.exists() else value
                for name, value in call.arguments.items()
            },
        )
        self.tasks[self.remote.remote(sent, self.threads, __version__)] = (call, watch)

    def ended(self) -> list[EndedCall]:
        import ray

        while True:
            ready, _ = ray.wait([*self.tasks], num_returns=1, timeout=LOOK_EVERY)
            if ready or time.monotonic() - self.looked >= LOOK_EVERY:
                self._look()
            if ready:
                return [self._ended(task) for task in ready]

    def _ended(self, task: ray.ObjectRef[Any]) -> EndedCall:
        import ray

        call, watch = self.tasks.pop(task)
        try:
            error, trace = ray.get(task)
        except ray.exceptions.RayTaskError as raised:  # raised before the call began: the machine lacks something
            error, trace = raised.cause, ""
        except ray.exceptions.RayError as death:
            error, trace = DiedError(f"{call.label} died on the cluster, and Ray did not restart it: {death}"), ""
        if error is not None and not trace:
            call.out.mkdir(parents=True, exist_ok=True)
            note_failure(call, error)
        if error is None:
            watch(Progress(call.label, 1, 1, "jobs"))
        elif trace:
            error.__cause__ = RemoteError(f"\n{trace}")
        return call.name, error

    def _look(self) -> None:
        """Pass the progress in the notes of running tasks to their watches."""
        self.looked = time.monotonic()
        watches = {call.name: (call.run, watch) for call, watch in self.tasks.values()}
        for run in {run for run, _ in watches.values()}:
            for name, mark in running(run).items():
                if name in watches and "done" in mark:
                    watches[name][1](Progress(mark["stage"], mark["done"], mark["total"], mark["unit"]))

    def close(self) -> None:
        import ray

        for task in self.tasks:
            ray.cancel(task, force=True)
        self.tasks.clear()


def _task(call: Call, threads: int, version: str) -> tuple[Exception | None, str]:
    """Run the call on a machine of the cluster; return its error as `sendable` gives it."""
    place = f"{socket.gethostname()}, process {os.getpid()}"
    if version != __version__:
        raise ValueError(
            f"{place} has acclimate {__version__}, but the command runs {version}. Install the same version"
        )
    if not call.run.is_dir():
        raise ValueError(f"{place} cannot access {call.run}. All machines of a cluster need the study's directory")
    limit_threads(threads)
    return sendable(try_call(call, watch=lambda progress: None))
