"""The processes of one run, which `torchrun` starts: their number, and the values that they exchange.

In a run of one process the functions return at once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def world() -> int:
    """Return how many processes share this run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Return the number of this process, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """Return True in the process that writes files and prints."""
    return rank() == 0


def start() -> None:
    """Join the group of processes that torchrun started, with NCCL on GPUs and gloo on CPUs."""
    if world() == 1:
        return
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # the other processes wait while the first makes tokens or a vocabulary, which may take hours
    patience = timedelta(days=7)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=patience)


def stop() -> None:
    """Leave the group."""
    if world() == 1:
        return
    import torch.distributed as dist

    if dist.is_initialized():
        # Trained objectives refer to the group, in cycles, and so does torch's cache of sharded ones. If the group
        # still exists when Python ends, its threads ask for a lock that is never released, and abort the process.
        from torch.distributed.tensor.debug import _clear_sharding_prop_cache

        _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
        gc.collect()
        dist.destroy_process_group()


def agree(value: T) -> T:
    """Return the first process's value in every process. It is sent with pickle: pass small plain data only."""
    if world() == 1:
        return value
    import torch.distributed as dist

    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0)
    result: T = box[0]
    return result


def wait() -> None:
    """Wait until all processes have called this."""
    if world() == 1:
        return
    import torch.distributed as dist

    dist.barrier()


def total(values: list[float]) -> list[float]:
    """Return the sums over all processes, element by element."""
    if world() == 1:
        return values
    import torch
    import torch.distributed as dist

    device = "cuda" if torch.cuda.is_available() else "cpu"
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
