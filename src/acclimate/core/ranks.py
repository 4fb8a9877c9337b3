"""The processes of one run, which `torchrun` starts: their number, and the values that they exchange.

In a run of one process the functions return at once.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from acclimate.core import settings

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

PATIENCE = timedelta(days=7)  # others wait while the first makes tokens or a vocabulary, which may take hours
STEP_SECONDS = 100.0  # the same within a step, where all do the same; $ACCLIMATE_STEP_SECONDS sets another
BEATS = 20  # signs of life in STEP_SECONDS that a process may miss before the others take it for lost
ANSWER_SECONDS = 5.0  # within which all that wait say so
STATED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # by torchrun, for each process
_waiting: list[Any] = []  # the group for waits of PATIENCE, once `start` was called
_living: list[threading.Thread] = []  # gives signs of life, until `stop` sets the next
_heard = [0]  # number of times that the store of the keys has answered
_ended = threading.Event()
_ENDED = b"ended"  # the last sign


def world() -> int:
    """Return how many processes share this run. Raises ValueError if WORLD_SIZE is no number from 1."""
    return _number("WORLD_SIZE", 1, least=1)


def rank() -> int:
    """Return the number of this process, from 0. Alone it is 0: schedulers may set RANK without WORLD_SIZE."""
    return _number("RANK", 0, least=0) if world() > 1 else 0


def _number(name: str, default: int, *, least: int) -> int:
    text = os.environ.get(name, "") or str(default)
    if not text.isdecimal() or int(text) < least:
        raise ValueError(
            f"{name}={text} in the environment is not a whole number of at least {least}. Unset it, or use torchrun"
        )
    return int(text)


def is_first() -> bool:
    """Return True in the process that writes files and prints."""
    return rank() == 0


def start() -> None:
    """Join the group of processes that torchrun started, with NCCL on GPUs and gloo on CPUs.

    If torchrun ends, however, this process ends within seconds; and if another process gives no sign of life for
    $ACCLIMATE_STEP_SECONDS, even where it may work for hours, this one names it and ends.

    Raises ValueError if the environment states several processes but not all that torchrun states, where there are more
    of them than GPUs, and where one is lost while they start.
    """
    if world() == 1:
        return
    lost = [name for name in STATED if not os.environ.get(name)]
    if lost or rank() >= world():
        what = f"{', '.join(lost)} not set" if lost else f"RANK={rank()} too large"
        raise ValueError(
            f"WORLD_SIZE={world()} in the environment means that this is one of several processes, but {what}. "
            "Start them with torchrun, or unset WORLD_SIZE and RANK to run in one process"
        )
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    if _uses_gpus():
        place, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if place >= gpus:
            raise ValueError(
                f"process {place + 1} of this machine has no GPU: PyTorch finds {gpus}. Start at most {gpus} with "
                "torchrun --nproc-per-node, or set ACCLIMATE_DEVICE=cpu"
            )
        torch.cuda.set_device(place)
    if os.environ.get("TORCHELASTIC_RUN_ID"):  # started by torchrun; a shell may end before what it started
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    patience = timedelta(seconds=max(1.0, settings.from_environment("ACCLIMATE_STEP_SECONDS", STEP_SECONDS)))
    try:
        dist.init_process_group("nccl" if _uses_gpus() else "gloo", timeout=patience)
        _waiting[:] = [dist.new_group(backend="gloo", timeout=PATIENCE)]
    except dist.DistError as error:
        raise ValueError(
            f"process {rank()} of {world()} lost another process at start-up. Stop all of them, and start torchrun "
            f"again. PyTorch says: {str(error).partition(chr(10))[0]}"
        ) from error
    _ended.clear()
    pause = patience.total_seconds() / BEATS
    _living[:] = [
        threading.Thread(target=_live, args=(_store(patience), pause), daemon=True),
        threading.Thread(target=_watch_store, args=(pause,), daemon=True),
    ]
    for thread in _living:
        thread.start()


def _uses_gpus() -> bool:
    """Return whether the processes train on CUDA GPUs, as training.plan.device chooses."""
    import torch

    return torch.cuda.is_available() and os.environ.get("ACCLIMATE_DEVICE") in {None, "", "cuda"}


def _store(patience: timedelta) -> Any:
    """Return a connection to the store of keys that all processes share."""
    import torch.distributed as dist

    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*place, is_master=False, timeout=patience)  # type: ignore[attr-defined]


def _live(store: Any, pause: float) -> None:
    """Give a sign of life after each pause until `stop`; end this process, naming them, where others miss BEATS signs.

    A process that is stopped or whose machine is lost gives none; one that works does, from this thread. Pauses are
    counted, not seconds: all processes may have been stopped together.
    """
    keys = {number: f"acclimate lives {number}" for number in range(world())}
    signs, missed = dict.fromkeys(keys, b""), dict.fromkeys(keys, 0)
    beat = 0
    try:
        while not _ended.wait(pause):
            beat += 1
            store.set(keys[rank()], str(beat))
            for number, key in keys.items():
                sign = store.get(key) if store.check([key]) else b""
                missed[number] = missed[number] + 1 if sign == signs[number] != _ENDED else 0
                signs[number] = sign
            _heard[0] += 1
            if lost := [number for number in keys if missed[number] >= BEATS]:
                _end_without([number for number in keys if number not in lost], lost)
        store.set(keys[rank()], _ENDED)
    except RuntimeError as gone:  # the process that keeps the store has ended
        logging.getLogger(__name__).info(f"the store of the processes: {gone}")


def _watch_store(pause: float) -> None:
    """End this process, saying so, where the store of the keys has given no answer for BEATS pauses.

    The process that keeps it, the first unless torchrun does, has then ended or is stopped, or its machine is lost: a
    question to the store may wait for ever, so it cannot count what it misses. Where that process has come to its end,
    so does this one before the pauses are over, and calls `stop`.
    """
    heard, missed = _heard[0], 0
    while not _ended.wait(pause):
        missed = missed + 1 if _heard[0] == heard else 0
        heard = _heard[0]
        if missed >= BEATS:
            _end_without([rank()], [] if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else [0])


def _end_without(waiting: Sequence[int], others: Sequence[int]) -> None:
    print(f"acclimate: {_without_answer(waiting, others)}", file=sys.stderr, flush=True)
    os._exit(2)


def _end_with(launcher: int) -> None:
    """End this process once its parent is another than the launcher, which has ended then."""
    while os.getppid() == launcher:
        time.sleep(1.0)
    os._exit(1)


def unanswered(error: RuntimeError) -> Exception:
    """Return the error to raise where one came from torch: ValueError, naming the ranks, if others did not answer."""
    lost = ("timed out", "connection closed", "connection reset", "broken pipe")
    if world() == 1 or not any(words in str(error).lower() for words in lost):
        return error
    waiting, others = [rank()], []
    try:
        store = _store(timedelta(seconds=ANSWER_SECONDS))
        store.set(f"acclimate waits {rank()}", "")
        time.sleep(ANSWER_SECONDS)
        waiting = [number for number in range(world()) if store.check([f"acclimate waits {number}"])]
        others = [number for number in range(world()) if number not in waiting]
    except RuntimeError as unreachable:
        # the process that keeps the store has ended, so which did not answer is unknown
        logging.getLogger(__name__).info(f"the store of the processes: {unreachable}")
    return ValueError(_without_answer(waiting, others))


def _without_answer(waiting: Sequence[int], others: Sequence[int]) -> str:
    """Return what is said of processes that wait for others, and the way out. others: empty if they are unknown"""
    return (
        f"Process {', '.join(map(str, waiting))} of {world()} received no answer from process "
        f"{', '.join(map(str, others)) or 'another'}. Stop the remaining processes, and give the same command again "
        "to continue from the last state. If steps are slow, increase ACCLIMATE_STEP_SECONDS"
    )


def stop() -> None:
    """Leave the group."""
    if world() == 1:
        return
    import torch.distributed as dist

    _ended.set()
    for thread in _living:  # its last sign is not to be cut off
        thread.join(ANSWER_SECONDS)
    if dist.is_initialized():
        # Trained objectives refer to the group, in cycles, and so does torch's cache of sharded ones. If the group
        # still exists when Python ends, its threads ask for a lock that is never released, and abort the process.
        from torch.distributed.tensor.debug import _clear_sharding_prop_cache

        _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
        gc.collect()
        _waiting.clear()
        dist.destroy_process_group()


def agree(value: T) -> T:
    """Return the first process's value in every process. It is sent with pickle: pass small plain data only."""
    if world() == 1:
        return value
    import torch.distributed as dist

    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0, group=_group())
    result: T = box[0]
    return result


def _group() -> Any:
    """Return the group whose processes may wait for hours; None, all, where another than `start` made the group."""
    return _waiting[0] if _waiting else None


def require_same(what: str, values: Mapping[str, Any]) -> None:
    """Raise ValueError in all processes, naming what differs, unless all state the same values: plain data."""
    if world() == 1:
        return
    import torch.distributed as dist

    statements: list[Any] = [None] * world()
    dist.all_gather_object(statements, dict(values), group=_group())
    first = statements[0]
    for number, others in enumerate(statements):
        differing = [name for name in {**first, **others} if first.get(name) != others.get(name)]
        if differing:
            name = differing[0]
            more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
            raise ValueError(
                f"{what}: the processes differ: {name} is {first.get(name)!r} in rank 0, but "
                f"{others.get(name)!r} in rank {number}{more}. Use the same command, files and versions for all of "
                "them"
            )


def wait() -> None:
    """Wait until all processes have called this."""
    if world() == 1:
        return
    import torch.distributed as dist

    dist.barrier(group=_group())


def total(values: list[float]) -> list[float]:
    """Return the sums over all processes, element by element."""
    if world() == 1:
        return values
    import torch
    import torch.distributed as dist

    device = "cuda" if _uses_gpus() else "cpu"
    numbers = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(numbers)
    return [float(number) for number in numbers]


def added(values: Tensor) -> Tensor:
    """Return the tensor's sums over all processes, element by element, on this process's device; without gradient."""
    if world() == 1:
        return values
    import torch.distributed as dist

    values = values.contiguous()
    dist.all_reduce(values)
    return values


def first_then_all(make: Callable[[], T]) -> T:
    """Return `make()`, called first in the first process alone, then in the others, which find its files on disk."""
    if is_first():
        value = make()
        agree(None)
        return value
    agree(None)
    return make()
