"""The state of torch's random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator with `seed` in the block, and restore its state after it.

    torch.manual_seed would also seed every accelerator, whose state is not restored.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
