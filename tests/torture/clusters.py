"""Faults of several processes that work together: torchrun's ranks, and the nodes of a Ray cluster on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.faults import Bench, Fault, Try
from torture.victims import ADAPT, OFTEN, RACE, RETRIEVE, UNDER_WAY, differences, results

SHARED_STEPS = 40  # of a training on two processes, in which there is time to be killed
ON_RAY = {"race": RACE, "retrieve": (*RETRIEVE, "--shards", "6")}
KINDS = ("task", "node", "command", "cluster")
SLOWEST = 900.0  # seconds of a race with workers, of which each loads what it needs; it takes 20 of a processor alone
PATIENCE = 150.0  # seconds that a command may take on a cluster that was harmed


def killed_ranks(bench: Bench, tries: int) -> Iterator[Try]:
    """Kill one of two processes that share a training, or both with their launcher, at random moments of its steps."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    adapt = [*(word for word in ADAPT if not word.startswith("plan.steps=")), f"plan.steps={SHARED_STEPS}"]
    for shard, share in (("false", tries - tries // 2), ("true", tries // 2)):
        command = [*launcher, "-m", "acclimate", *adapt, f"plan.shard={shard}"]
        place = bench.fresh("ranks")
        status, took = _launched(command, place)
        assert status == 0, f"left alone, the ranks end with status {status}"
        expected = results(place)
        kills = 0
        while kills < share:
            shutil.rmtree(place / "out")
            for _ in range(3):  # each goes on from what the one before has left
                whole = bench.random.random() < 0.5
                status, _ = _launched(command, place, kill=bench.random.uniform(0, took), whole=whole)
                if not status:
                    break
                kills += 1
                yield Try(how="killed")
                if kills == share:
                    break
            ended = _launched(command, place)[0] if status else 0
            differing = [] if ended else differences(expected, results(place))
            if ended or differing:
                yield Try(f"ranks, shard={shard}: status {ended}, other bytes in {differing[:4]} (kills)")


def _launched(command: list[str], place: Path, *, kill: float | None = None, whole: bool = False) -> tuple[int, float]:
    """Return the launcher's exit status, and the seconds from the first step to the end.

    kill: seconds after the first step at which a process is killed; whole: True to kill all of them and the launcher
    """
    log = place / "out" / "log.jsonl"
    before = log.stat().st_ino if log.exists() else None
    environment = os.environ | OFTEN | {"ACCLIMATE_CACHE": "cache"}
    with open(place / "said.txt", "wb") as said:
        running = subprocess.Popen(
            command, cwd=place, env=environment, stdout=said, stderr=said, start_new_session=True
        )
    while running.poll() is None and (not log.exists() or log.stat().st_ino == before):
        time.sleep(0.01)
    begun = time.monotonic()
    if kill is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(kill)
        workers = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if whole:
                os.killpg(running.pid, signal.SIGKILL)
            else:
                for worker in workers.read_text().split()[-1:]:  # none where they have ended by themselves
                    os.kill(int(worker), signal.SIGKILL)
    status = running.wait(120)
    if whole:  # torchrun's processes have sessions of their own, and end when their launcher has
        _wait_for_the_end(place)
    return status, time.monotonic() - begun


def _wait_for_the_end(place: Path) -> None:
    """Wait until no process works in the place. Raises TimeoutError after 30 seconds, which is what is promised."""
    for _ in range(300):
        inside = [link for link in Path("/proc").glob("[0-9]*/cwd") if _target(link) == str(place)]
        if not inside:
            return
        time.sleep(0.1)
    raise TimeoutError(f"processes outlive their launcher by 30 seconds: {inside}")


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # of a process that has just ended
        return ""


def killed_workers(bench: Bench, tries: int) -> Iterator[Try]:
    """Kill one of two processes that share the jobs of a race, or the command, at random moments."""
    command = [sys.executable, "-m", "acclimate", *RACE, "--workers", "2"]
    place = bench.fresh("workers")
    status, took = _with_workers(command, place)
    assert status == 0, f"left alone, the race with workers ends with status {status}"
    expected = results(place)
    for number in range(tries):
        _emptied(place)
        whole = number % 3 == 2
        moment = bench.random.uniform(0, took)
        status, _ = _with_workers(command, place, kill=moment, whole=whole, chosen=bench.random.random())
        if whole and status:
            status, _ = _with_workers(command, place)
        where = f"{'the command' if whole else 'a worker'} killed after {moment:.1f} of {took:.1f} s"
        if status:
            yield Try(f"{where}: status {status}: {(place / 'said.txt').read_text()[-800:]}")
        elif differing := differences(expected, results(place)):
            yield Try(f"{where}: other bytes in {differing[:4]}")
        else:
            yield Try(how=f"{'command' if whole else 'worker'} killed")


def _with_workers(
    command: list[str], place: Path, *, kill: float | None = None, whole: bool = False, chosen: float = 0.0
) -> tuple[int, float]:
    """Return the command's exit status, and the seconds that it took.

    kill: seconds after its first worker is there at which a worker is killed; whole: True to kill the command instead;
    chosen: which worker, from 0 to 1
    """
    with open(place / "said.txt", "wb") as said:
        environment = os.environ | OFTEN | {"ACCLIMATE_CACHE": "cache"}
        running = subprocess.Popen(command, cwd=place, env=environment, stdout=said, stderr=said)
    while running.poll() is None and not _workers_of(running.pid):
        time.sleep(0.02)
    begun = time.monotonic()
    if kill is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(kill)
        workers = _workers_of(running.pid)
        _kill([running.pid] if whole else workers[int(chosen * len(workers)) :][:1])
    try:
        status = running.wait(SLOWEST)
    finally:
        running.kill()
    _wait_for_the_end(place)  # a worker ends with what began it
    return status, time.monotonic() - begun


def _workers_of(process: int) -> list[int]:
    """Return the processes that a command began to share its jobs."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    except OSError:  # one has just ended
        return []


def killed_on_ray(bench: Bench, tries: int) -> Iterator[Try]:
    """Kill a task, a node with its object store, the command, or the whole cluster; then go on where that is needed."""
    from ray_nodes import two_nodes

    place = bench.fresh("ray")
    cache = {"ACCLIMATE_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as open_clusters:
        cluster = open_clusters.enter_context(two_nodes(**cache))
        alone: dict[str, tuple[dict[str, Any], float]] = {}
        for number in range(tries):
            name = [*ON_RAY][number % 2]
            kind = KINDS[number // 2 % len(KINDS)]
            if name not in alone:
                _emptied(place)
                run = _OnRay.begin(name, place, cluster.address)
                if run.ended_with() != 0:
                    raise RuntimeError(f"{name} on Ray, left alone: {run.said()}")
                alone[name] = results(place), run.seconds
            expected, took = alone[name]
            _emptied(place)
            run = _OnRay.begin(name, place, cluster.address)
            moment = bench.random.uniform(0, took)
            run.wait(moment)
            under_way = run.process.poll() is None
            kept = _finished(place)
            if kind == "task":
                _kill(_working(cluster))
            elif kind == "command":
                run.process.kill()
            else:
                _kill([_process(cluster.second, "raylet")])
                if kind == "cluster":
                    _kill([_process(cluster.head_node, each) for each in ("gcs_server", "raylet")])
            status = run.ended_with()
            where = f"{name}, {kind} killed after {moment:.1f} of {took:.1f} s"
            if status not in ((0,) if kind in ("task", "node") else (0, 1, 2, -9)) or "Traceback" in run.said():
                yield Try(f"{where}: status {status}: {run.said()[-1200:]}")
            if kind in ("node", "cluster"):
                open_clusters.close()
                cluster = open_clusters.enter_context(two_nodes(**cache))
            if status:
                run = _OnRay.begin(name, place, cluster.address)
                if run.ended_with() != 0:
                    yield Try(f"{where}, then given again: {run.said()[-1200:]}")
                    continue
            differing = differences(expected, results(place))
            again = [path for path, made in kept.items() if _finished(place).get(path) != made]
            wrong = f"other bytes in {differing[:4]}" if differing else f"done twice: {again[:4]}" if again else ""
            how = f"{kind} killed" if under_way else "ended before"
            yield Try(f"{where}: {wrong}" if wrong else "", how)


@dataclass
class _OnRay:
    """A command that runs on a cluster."""

    process: subprocess.Popen[bytes]
    place: Path
    begun: float
    seconds: float = 0.0

    @classmethod
    def begin(cls, name: str, place: Path, address: str) -> _OnRay:
        command = [sys.executable, "-m", "acclimate", *ON_RAY[name], "--cluster", address]
        environment = os.environ | OFTEN | {"ACCLIMATE_CACHE": str(place / "cache")}
        with open(place / "said.txt", "wb") as said:
            process = subprocess.Popen(command, cwd=place, env=environment, stdout=said, stderr=said)
        return cls(process, place, time.monotonic())

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def ended_with(self) -> int | None:
        """Return the exit status; None if it hangs."""
        self.wait(PATIENCE)
        status = self.process.poll()
        if status is None:
            self.process.kill()
            self.process.wait()
        self.seconds = time.monotonic() - self.begun
        return status

    def said(self) -> str:
        return (self.place / "said.txt").read_text(errors="replace")


def _emptied(place: Path) -> None:
    for name in ("out", "cache"):
        shutil.rmtree(place / name, ignore_errors=True)
    (place / "cache").mkdir()


def _finished(place: Path) -> dict[str, int]:
    """Return path -> time of the results and shards that are finished."""
    found = [*(place / "out").glob("jobs/*/result.json"), *(place / "out").rglob("shard*/*")]
    return {str(path): path.stat().st_mtime_ns for path in found if not UNDER_WAY.search(str(path))}


def _working(cluster: Any) -> list[int]:
    """Return a process of the cluster that does a task now; [] if none does."""
    raylets = {_process(node, "raylet") for node in (cluster.head_node, cluster.second)}
    for line in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(line.read_text().rpartition(")")[2].split()[1])
            if parent in raylets and line.with_name("cmdline").read_bytes().startswith((b"ray::_task", b"ray::_call")):
                return [int(line.parent.name)]
    return []


def _process(node: Any, kind: str) -> int:
    """Return the number of a node's process, such as its raylet, which holds the object store."""
    return int(node.all_processes[kind][0].process.pid)


def _kill(processes: Sequence[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


FAULTS = (
    Fault(
        "kill-ranks",
        "`kill -9` of one of two processes of torchrun, or of both with their launcher, replicated and sharded",
        "No process outlives its launcher by 30 s; the same command goes on and ends with the same bytes",
        50,
        killed_ranks,
    ),
    Fault(
        "kill-workers",
        "`kill -9` of one of the two processes that share the jobs of a race (`--workers 2`), or of the command",
        "Without a worker it ends with the same bytes; after the command is killed no worker outlives it by 30 s, and "
        "the same command ends with the same bytes",
        24,
        killed_workers,
    ),
    Fault(
        "kill-ray",
        "On a Ray cluster of two nodes a task, a node with its object store, the command or the whole cluster is "
        "killed, in a race and in a retrieval of six shards",
        "Without a task or a node it ends with the same bytes; after the others the same command does. "
        "Nothing that was finished is done again",
        24,
        killed_on_ray,
    ),
)
