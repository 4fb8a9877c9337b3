"""Several processes that share one run, started by `torchrun`: their numbers, and what they send each other.

With one process every function is trivial.
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
    """Return which of them this one is, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """Return whether this process is the one that writes files and speaks."""
    return rank() == 0


def start() -> None:
    """Join the other processes that torchrun started (gloo on a CPU, NCCL on GPUs); alone, nothing happens."""
    if world() == 1:
        return
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # others wait while the first makes tokens or a vocabulary, which may take hours
    patience = timedelta(days=7)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=patience)


def stop() -> None:
    """Leave the group."""
    if world() == 1:
        return
    import torch.distributed as dist

    if dist.is_initialized():
        # Objectives that trained hold the group, in cycles. Were it still there when Python ends, its threads would ask
        # for a lock that is never released, and abort the process. What torch remembers of sharded ones holds it too.
        from torch.distributed.tensor.debug import _clear_sharding_prop_cache

        _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
        gc.collect()
        dist.destroy_process_group()


def agree(value: T) -> T:
    """Return the first process's value, in every process. Value: what pickle takes; used for small plain data only."""
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
    """Element by element, the sum over all processes."""
    if world() == 1:
        return values
    import torch
    import torch.distributed as dist

    device = "cuda" if torch.cuda.is_available() else "cpu"
    numbers = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(numbers)
    return [float(number) for number in numbers]


def added(values: Tensor) -> Tensor:
    """Element by element, the sum over all processes of a tensor that each has on its device; without gradient."""
    if world() == 1:
        return values
    import torch.distributed as dist

    values = values.contiguous()
    dist.all_reduce(values)
    return values


def first_then_all(make: Callable[[], T]) -> T:
    """Call `make` in the first process alone, then in the others: for what is built once and then found on the disk."""
    if is_first():
        value = make()
        agree(None)
        return value
    agree(None)
    return make()
