"""Run independent calls: one after the other in this process, in threads or processes, or as tasks of a Ray cluster.

A function that is mapped on a cluster is defined in a module, takes one value and returns one. It reads and writes
files that all machines see, and can be called again: if a process or machine dies, Ray calls it on another one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from acclimate import __version__

if TYPE_CHECKING:
    import ray


Input = TypeVar("Input")
Output = TypeVar("Output")
Home = Callable[[Input], int]  # items with the same number go to one machine, which then has their files in memory


class Pool(Protocol):
    """A place where functions are called.

    threads  number of threads that a call may use; None: as many as its process may
    """

    @property
    def threads(self) -> int | None: ...

    def map(
        self, function: Callable[[Input], Output], items: Iterable[Input], *, home: Home[Input] | None = None
    ) -> Iterator[Output]:
        """Yield the function's result for each item, in order; raise what it raises."""
        ...


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Raise ValueError if this machine has fewer bytes. what: "a batch of 9 rows takes {} GB"; way_out: a sentence"""
    if needed > (memory_size := memory()):
        raise ValueError(
            f"{what.format(f'{needed / 1e9:,.1f}')}. This machine has {memory_size / 1e9:,.1f} GB. {way_out}"
        )


def memory() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextlib.contextmanager
def workers(cluster: str = "") -> Iterator[Pool]:
    """Yield the place where calls are done: this process ("") or a Ray cluster (HOST:PORT, or "auto": this machine's).

    A process that is already connected to Ray stays connected. Raises ValueError if Ray is not installed, and if no
    cluster answers.
    """
    if not cluster:
        yield SerialPool()
        return
    try:
        import ray
    except ImportError as error:
        raise ValueError("a cluster needs Ray, which is not installed: pip install 'acclimate[ray]'") from error
    if ray.is_initialized():
        yield RayPool()
        return
    try:
        _knock(cluster)
        ray.init(cluster, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ray.exceptions.RayError) as error:
        raise ValueError(
            f"no Ray cluster responds at {cluster!r}: {str(error).rstrip('.')}. Start one with `ray start --head`, "
            "and run this on one of its machines"
        ) from error
    try:
        yield RayPool()
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class SerialPool:
    """Calls in this process, each when its result is needed."""

    threads: int | None = None

    def map(
        self, function: Callable[[Input], Output], items: Iterable[Input], *, home: Home[Input] | None = None
    ) -> Iterator[Output]:
        return map(function, items)


@dataclass(frozen=True)
class RayPool:
    """Calls as tasks of the Ray cluster that this process is connected to. Each task uses `threads` processors.

    Ray's object store holds at most two tasks a processor, those that wait and those whose results are not yet taken.
    """

    threads: int = 1

    def map(
        self, function: Callable[[Input], Output], items: Iterable[Input], *, home: Home[Input] | None = None
    ) -> Iterator[Output]:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # each living machine as often as the number of tasks that it can do at once, in turns
        places = [
            (place, node["NodeID"])
            for node in machines_for(self.threads)
            for place in range(int(node["Resources"]["CPU"]) // self.threads)
        ]
        machines = [machine for _, machine in sorted(places)]
        call, task_options = ray.remote(_call), {"num_cpus": self.threads, "name": function.__name__}
        waiting: deque[ray.ObjectRef[Any]] = deque()
        try:
            for item in items:
                if home is not None:  # soft: if that machine has died, Ray takes another one
                    machine = machines[home(item) % len(machines)]
                    task_options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(machine, soft=True)
                waiting.append(call.options(**task_options).remote(function, item, __version__))
                if len(waiting) >= 2 * len(machines):
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        finally:
            for task in waiting:
                ray.cancel(task)


def _knock(cluster: str) -> None:
    """Raise OSError if nothing listens there (Ray would take minutes to say so), ValueError for a wrong address."""
    if cluster == "auto":
        return
    host, _, port = cluster.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(
            f"cluster {cluster!r} is not an address. Give auto, or HOST:PORT as printed by `ray start --head`"
        )
    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def machines_for(threads: int, gpu_share: float = 0.0) -> list[dict[str, Any]]:
    """Return Ray's records of the living machines that can do a task with this many processors and this GPU share.

    Raises ValueError if there is none: Ray would wait for one without end.
    """
    import ray

    least = {"CPU": threads, "GPU": gpu_share}
    nodes = [node for node in ray.nodes() if node["Alive"]]
    able = [node for node in nodes if all(node["Resources"].get(name, 0) >= least[name] for name in least)]
    if not able:
        gpu = f" and {gpu_share:g} GPU" if gpu_share else ""
        lacking = f"no machine of the Ray cluster has {threads} processors{gpu}"
        raise ValueError(f"{lacking}. See `ray status`. Request less, or add a machine")
    return able


def _call(function: Callable[[Input], Output], item: Input, version: str) -> Output:
    """Call the function on a machine of the cluster. Raises ValueError if another acclimate is installed there."""
    if version != __version__:
        raise ValueError(
            f"{socket.gethostname()} has acclimate {__version__}, but the command runs {version}. Install the "
            "same version"
        )
    return function(item)


def _result(task: ray.ObjectRef[Any]) -> Any:
    """Return a task's result, or raise what its function raised. Raises ChildProcessError if Ray gave the task up."""
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise ChildProcessError(
            f"a task on the Ray cluster died and Ray did not restart it: {error}. Finished work is kept. Give the "
            "same command again to continue"
        ) from error


def map_processes(work: Callable[[Input], Output], items: Iterable[Input], processes: int) -> Iterator[Output]:
    """Yield the result of each item, in order, from processes of this machine, for work that holds Python's lock.

    At most two items a process are in progress or waiting.

    work       a function of a module, or a `functools.partial` of one; its arguments are sent to other processes
    processes  1: this process, item by item. More: new processes, because a fork could wait without end for a lock that
               a thread of this one holds. A script that calls this must guard its start (`if __name__ == "__main__":`)
    """
    if processes <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Output]] = deque()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > processes + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"one of {processes} processes died during its work, perhaps because memory ran out. Use fewer "
                "processes, and give the same command again to continue"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def map_threads(work: Callable[[Input], Output], items: Iterable[Input], threads: int) -> Iterator[Output]:
    """Yield the result of each item, in order, from threads, for compiled loops that release Python's lock.

    At most two items a thread are in progress or waiting.
    """
    waiting: deque[Future[Output]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
