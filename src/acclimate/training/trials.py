"""How fast this machine trains and reads with a model: short trials, and their results, which are kept for next time.

A trial trains one small step and one larger step, and reads a few rows: about half a second of processor time each. The
difference between the two steps is the time a token, and what is left of the small one is the time of an update.

Where one thread computes, a trial counts the processor time of the program, so that other programs on a busy machine do
not change it. The time that the system takes to hand out memory is left out: a trial is the first to touch its memory,
which on a virtual machine can take longer than the step itself, while a training keeps its memory from step to step.
With several threads a trial counts seconds, divided by how busy the machine is, which is not exact: so the load is kept
beside the result, and it is tried again once the machine is less busy. A kept result is for an idle machine; a forecast
multiplies it by `busy()`.
"""

from __future__ import annotations

import contextlib
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from acclimate.core import files, machines, ranks, settings
from acclimate.core.types import Batch
from acclimate.models.encoder import configuration_of
from acclimate.training.loop import adamw, train
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, device

FIRST = 256  # tokens of the small step
MOST = 6_144  # tokens of the larger step at most: a few pieces of a CPU, after which the speed is that of a full step
SHORT = 0.1  # processor seconds, below which the system may not tell which were its own: it looks once a tick
SPENT = 0.4  # seconds that the larger step, and reading, may take; with twice as many forecasts spread as far
SPIN = 0.25  # seconds in which `busy` computes
OF_LATE = 60.0  # seconds for which `busy_of_late` keeps what it found
KEPT = "speeds"  # folder in core.files.cache()
LOADED = 1.25  # times as long as on the idle machine: a result from more than that is tried again when that is less
FORMAT = 6  # of a kept result: raise it where what a trial measures, or a field of it, changes
_last_busy: list[tuple[float, float]] = []  # when `busy_of_late` last asked, and the answer


@dataclass(frozen=True)
class Speed:
    """What training or reading takes on this machine when idle.

    seconds  a token
    flops    a token
    step     seconds of an update, however many tokens its batch has
    """

    seconds: float
    flops: float
    step: float = 0.0


def trained_speed(objective: Objective, rows: Callable[[int], Batch], plan: Plan) -> Speed:
    """Return the speed of training. The model is changed, so throw it away. rows: number -> a batch of so many rows"""
    plan = replace(plan, steps=1, compile=False)
    optimiser = adamw(objective, plan)

    def step(batch: Batch) -> tuple[float, float, int]:
        with clock() as taken:
            [done] = train(objective, lambda _: batch, plan, optimiser)
        return taken(), done.flops, done.tokens

    width = float(np.mean(rows(64).lengths))
    few = max(2, round(FIRST / width))
    small = rows(few)
    step(small)  # allocates memory and the optimiser's state
    small_seconds, small_flops, small_tokens = step(small)
    # all processes of torchrun share the larger step too
    many = ranks.agree(max(2 * few, round(min(MOST, SPENT / max(small_seconds, 1e-4) * small_tokens) / width)))
    sample = rows(256)
    flops = objective.flops(sample) / len(sample.ids)
    seconds, large_flops, _ = step(rows(many))
    a_flop = (seconds - small_seconds) / (large_flops - small_flops)
    if a_flop <= 0:  # the clock was disturbed
        return Speed(seconds / large_flops * flops, flops)
    return Speed(a_flop * flops, flops, max(0.0, small_seconds - a_flop * small_flops))


def read_speed(read: Callable[[Batch], Any], rows: Batch, flops: float, *, whole: bool) -> Speed:
    """Return the speed of `read`, which takes rows. flops: of training on a token, of which reading takes a third

    whole: True if `read` needs all rows at once
    """
    few = rows if whole else rows.take(np.arange(min(4, len(rows))))
    if not whole:
        read(few)  # compiles loops, the first time on this machine
    with clock() as warming:
        read(few)
    many = round(SPENT / max(warming(), 1e-4) * len(few))
    some = rows if whole else rows.take(np.arange(min(len(rows), max(len(few), many))))
    with clock() as taken:
        read(some)
    return Speed(taken() / len(some.ids), flops / 3)


@contextlib.contextmanager
def clock() -> Iterator[Callable[[], float]]:
    """Yield a function that returns, after the block, the seconds that it would take on this machine when idle."""
    alone = device().type == "cpu" and torch.get_num_threads() == 1
    load = 1.0 if alone or device().type != "cpu" else busy()
    wall, own, both = time.perf_counter(), _own(), time.process_time()
    ended: list[float] = []
    yield lambda: ended[0]
    if device().type == "cuda":
        torch.cuda.synchronize()
    if alone:
        together = time.process_time() - both
        ended.append(together if together < SHORT else _own() - own)
    else:
        ended.append((time.perf_counter() - wall) / load)


def _own() -> float:
    """Return the processor seconds that this process has computed, without those of the system for it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def busy() -> float:
    """Return how many times as long a computation takes here now as on the machine when idle, at least 1."""
    if device().type != "cpu":
        return 1.0
    wall, processor = time.perf_counter(), time.thread_time()
    while time.perf_counter() - wall < SPIN:
        pass
    return max(1.0, (time.perf_counter() - wall) / max(time.thread_time() - processor, 1e-6))


def busy_of_late() -> float:
    """Return `busy()` as it was found within the last minute, so that a plan and the dry run of it agree."""
    if not _last_busy or time.monotonic() - _last_busy[-1][0] > OF_LATE:
        _last_busy[:] = [(time.monotonic(), busy())]
    return _last_busy[-1][1]


def kept(about: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Return what was measured for `about` on this machine, and True if it was kept from an earlier time.

    Beside what `measure` returns it has "memory", the bytes of `peak_memory` when the trial had ended.

    about: what decides the speed beside processor, threads, device, processes and the version of PyTorch, plain values
    """
    where = device()
    machine = {
        "machine": [platform.node(), platform.machine(), machines.processors()],
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else where.type,
        "threads": torch.get_num_threads(),
        "processes": ranks.world(),  # they share the machine, and each step
        "torch": torch.__version__,
        "format": FORMAT,
    }
    asked = {**machine, **about}
    path = files.cache() / KEPT / f"{settings.digest(asked)[:16]}.json"
    found: dict[str, Any] | None = None
    load: float | None = None
    if ranks.is_first() and path.exists():
        with contextlib.suppress(files.DamagedError):
            kept_before = files.read_object(path, names=("measured", "busy"))
            if kept_before["busy"] <= LOADED or (load := _load()) * LOADED >= kept_before["busy"]:
                found = dict(kept_before["measured"])
    found = ranks.agree(found)  # all processes of torchrun measure, or none
    if found is not None:
        return found, True
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    load = _load() if load is None else load
    measured = {**measure(), "memory": peak_memory()}
    with contextlib.suppress(OSError):  # a forecast works without a cache
        if ranks.is_first():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_json(path, {"of": asked, "measured": measured, "busy": load})
    return measured, False


def _load() -> float:
    """Return how busy the machine is, as far as it changes what a trial shows: 1 where trials count processor time."""
    return 1.0 if torch.get_num_threads() == 1 else busy()


def peak_memory() -> float:
    """Return the most bytes in use: on a GPU in tensors since the trial began, else in this process so far."""
    if device().type == "cuda":
        return float(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def in_steps(length: float) -> float:
    """Return a length of rows in steps of a quarter octave, so that tasks of like lengths share a trial."""
    return float(round(2 ** (round(4 * np.log2(max(length, 1.0))) / 4), 1))


def model_key(model: str | Path) -> str:
    """Return what of a model decides its speed: a digest of its configuration, without names and labels.

    Dropout counts: at 0 nothing is drawn, and attention takes another kernel.
    """
    stated = configuration_of(model).to_dict()
    ignored = ("_name_or_path", "transformers_version", "id2label", "label2id", "architectures")
    return settings.digest({name: str(value) for name, value in stated.items() if name not in ignored})[:16]
