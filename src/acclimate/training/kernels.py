"""The precision of a forward pass, and attention and dropout as a CPU computes them fast.

PyTorch's attention on a CPU is one fused kernel where nothing is dropped: its backward pass in bfloat16 takes three to
six times as long as the same products one after the other. Where attention weights are dropped it goes back to separate
products, and there, as in all dropout, drawing a random float32 for each number takes most of the time. Sixteen random
bits do as well, and a compiled loop draws and compares them in one pass: a tenth of what the passes take in PyTorch.

Shape suffixes: B rows, H heads, Q queries, K keys, D numbers of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from acclimate.core.compiled import compiled, mix
from acclimate.training.plan import Plan, autocast_type

LEVELS = 2**16  # of the random numbers that decide what is dropped
LANES = 4  # such numbers in a word of 64 bits
STRIDE = np.uint64(0x9E3779B97F4A7C15)  # between the states of splitmix64
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # bytes of a number -> whole numbers as wide
HIDDEN = -1e30  # score of a key that a query may not see; bfloat16 has it


def kernels(plan: Plan, where: torch.device) -> AbstractContextManager[Any]:
    """In the block, compute attention and dropout on a CPU as below. Compiled code keeps PyTorch's: the compiler makes
    kernels itself.
    """
    return CpuKernels() if where.type == "cpu" and not plan.compile else nullcontext()


@contextmanager
def arithmetic(plan: Plan, where: torch.device) -> Iterator[None]:
    """In the block, compute matrix products in the plan's precision, and attention and dropout as in `kernels`."""
    narrow = autocast_type(plan.precision, where)
    with kernels(plan, where), torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
        yield


class CpuKernels(TorchFunctionMode):
    """In the block, `scaled_dot_product_attention` and `dropout` of torch are those of this file."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _REPLACED.get(function, function)(*args, **(kwargs or {}))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` with a share `p` of its numbers set to 0 and the others scaled up, as torch's dropout does.

    The share is rounded to a multiple of 1/65,536; the scale is that of the rounded share, so the mean stays.
    """
    if not training or inplace or not 0 < p < 1:
        return functional.dropout(input, p, training, inplace)
    return input * factors(input, p)


def factors(like: Tensor, p: float) -> Tensor:
    """Return a tensor of the shape and type of `like`: 0 for a share `p` of the places, 1 / (1 - p) for the others."""
    places, dropped = like.numel(), round(p * LEVELS)
    if not 0 < dropped < LEVELS:
        return functional.dropout(torch.ones_like(like), p)
    bits = BITS[like.element_size()]
    stays = torch.full((), LEVELS / (LEVELS - dropped), dtype=like.dtype).view(bits)
    drawn = torch.empty(-(-places // LANES) * LANES, dtype=like.dtype)
    seed = torch.empty((), dtype=torch.int64).random_(-(2**63), None)
    fill(drawn.view(bits).numpy(), seed.numpy().view(np.uint64)[()], np.uint16(dropped), stays.numpy()[()])
    return drawn[:places].view(like.shape)


@compiled
def fill(numbers: Any, seed: Any, least: Any, stays: Any) -> None:
    """Write `stays` to each place whose 16 random bits are at least `least`, and 0 to the others.

    numbers  whole numbers, of which there is a multiple of LANES
    seed     of splitmix64, of which each word of 64 bits serves LANES places
    """
    for word in range(len(numbers) // LANES):
        drawn = mix(seed + np.uint64(word + 1) * STRIDE)
        for lane in range(LANES):
            numbers[LANES * word + lane] = stays if np.uint16(drawn >> np.uint64(16 * lane)) >= least else 0


def attention(  # noqa: PLR0917  torch's signature
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query key^T scale + mask) value, (B, H, Q, D), as torch's scaled_dot_product_attention does.

    query  (B, H, Q, D); key, value  (B, H, K, D)
    attn_mask  booleans, True where a query sees a key, or numbers to add to the scores; it broadcasts to (B, H, Q, K)
    """
    narrow = torch.is_autocast_enabled("cpu")
    if not (narrow or dropout_p) or is_causal or enable_gqa or query.dim() != 4 or query.device.type != "cpu":
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    kind = torch.get_autocast_dtype("cpu") if narrow else query.dtype
    query, key, value = query.to(kind), key.to(kind), value.to(kind)
    with torch.autocast("cpu", enabled=False):
        scores_BHQK = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(2, 3)
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                attn_mask = torch.zeros(attn_mask.shape, dtype=kind).masked_fill_(~attn_mask, HIDDEN)
            scores_BHQK = scores_BHQK.add_(attn_mask.to(kind))  # in place: no gradient needs the scores before
        weights_BHQK = scores_BHQK.softmax(-1)
        if dropout_p:
            weights_BHQK = dropout(weights_BHQK, dropout_p)
        return weights_BHQK @ value


_REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.scaled_dot_product_attention: attention,
    functional.dropout: dropout,
}
