"""The precision of a forward pass, and attention and dropout as a device computes them fast.

PyTorch's attention on a CPU is one fused kernel where nothing is dropped: its backward pass in bfloat16 takes three to
six times as long as the same products one after the other. Where attention weights are dropped it goes back to separate
products, and there, as in all dropout, drawing a random float32 for each number takes most of the time. Sixteen random
bits of NumPy's do as well, and take a third of the time.

Rows that share a line see themselves alone (training/pieces.py). Attention over the whole line would compute what the
mask then hides, so here it goes row by row: on a CPU by compiled loops (row_attention.py), and in a last layer for the
queries alone that are read (models/heads.py); on a GPU by the kernel of FlashAttention that takes where each row begins
(Dao, 2023, "FlashAttention-2"). That kernel also needs no plan for each new shape, which costs cuDNN's a millisecond of
the processor in every layer.

Shape suffixes: B rows, H heads, Q queries, K keys, D numbers of a head; T tokens of a piece, padding included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from acclimate.models.heads import ASKED
from acclimate.training.plan import Plan, autocast_type
from acclimate.training.row_attention import LEVELS, RowsOfCpu, attention_by_row

HIDDEN = -1e30  # score of a key that a query may not see; bfloat16 has it
ROWS = "rows_that_see_themselves"  # attribute of a mask
GRAIN = 8  # widths are multiples of it, so that there are few shapes, for which the CPU's kernels are made once
LONG = 4_096  # tokens of a row times numbers of a head, above which PyTorch's products are faster than loops
SPREAD = 128  # tokens: the longest row of a GPU's is stated as a multiple, so that compiled code meets few
FLASH_SIZES = range(8, 257, 8)  # numbers of a head that the kernel of FlashAttention takes

Replaced = Mapping[Callable[..., Any], Callable[..., Any]]  # torch's function -> ours
NONE: Replaced = MappingProxyType({})


def kernels(plan: Plan, where: torch.device, others: Replaced = NONE) -> AbstractContextManager[Any]:
    """In the block, compute attention, and on a CPU dropout, as below. others: further functions that are replaced"""
    ours = _ON_CPU if where.type == "cpu" else _ON_GPU
    replaced = {**(ours if attends_by_row(plan, where) else NONE), **others}
    return Kernels(replaced) if replaced else nullcontext()


def attends_by_row(plan: Plan, where: torch.device) -> bool:
    """Return whether the kernels of this file are used.

    On a CPU compiled code keeps PyTorch's, because the compiler makes kernels. On a GPU ours are those of 16 bits, for
    cards of NVIDIA's Ampere and later ones; compiled code calls them, too.
    """
    if where.type == "cpu":
        return not plan.compile
    if where.type != "cuda":
        return False
    return autocast_type(plan.precision, where) is not None and torch.cuda.get_device_capability(where) >= (8, 0)


@contextmanager
def arithmetic(plan: Plan, where: torch.device, others: Replaced = NONE) -> Iterator[None]:
    """In the block, compute matrix products in the plan's precision, and attention and dropout as in `kernels`."""
    narrow = autocast_type(plan.precision, where)
    with kernels(plan, where, others), torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
        yield


class Kernels(TorchFunctionMode):
    """In the block, some functions of torch are replaced. What they call is not."""

    def __init__(self, replaced: Replaced) -> None:
        super().__init__()
        self.replaced = replaced

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.replaced.get(function, function)(*args, **(kwargs or {}))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` with a share `p` of its numbers set to 0 and the others scaled up, as torch's dropout does.

    The share is rounded to a multiple of 1/65,536; the scale is that of the rounded share, so the mean stays.
    """
    dropped = round(p * LEVELS)
    if not training or inplace or not 0 < dropped < LEVELS:
        return functional.dropout(input, p, training, inplace)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-input.numel() // 4))
    stays = torch.from_numpy(words.view(np.uint16)[: input.numel()] >= dropped).view(input.shape)
    return input * (stays * (LEVELS / (LEVELS - dropped))).to(input.dtype)


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
    rows: RowsOfCpu | RowsOfGpu | None = getattr(attn_mask, ROWS, None)
    usual = query.dim() == 4 and not is_causal and not enable_gqa
    if usual and isinstance(rows, RowsOfGpu) and query.shape[-1] in FLASH_SIZES:
        return _attention_by_flash(query, key, value, rows, dropout_p=dropout_p, scale=scale)
    narrow = torch.is_autocast_enabled("cpu")
    slow = isinstance(rows, RowsOfCpu) or narrow or dropout_p  # in torch's kernel
    if not slow or not usual or query.device.type != "cpu":
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    kind = torch.get_autocast_dtype("cpu") if narrow else query.dtype
    query, key, value = query.to(kind), key.to(kind), value.to(kind)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    with torch.autocast("cpu", enabled=False):
        if isinstance(rows, RowsOfCpu):
            return _attention_by_length(query, key, value, rows, getattr(attn_mask, ASKED, None), dropout_p, scale)
        return _attention(query, key, value, attn_mask, dropout_p, scale)


def _attention(  # noqa: PLR0917
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, scale: float
) -> Tensor:
    """Return what `attention` does, of rows that have lines of their own."""
    if query.dtype == torch.float32 and not dropout_p and not torch.is_grad_enabled():
        return functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
    scores_BHQK = (query * scale).contiguous() @ key.contiguous().transpose(2, 3)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, HIDDEN)
        scores_BHQK = scores_BHQK.add_(mask.to(query.dtype))  # in place: no gradient needs the scores before
    weights_BHQK = scores_BHQK.softmax(-1)
    if dropout_p:
        weights_BHQK = dropout(weights_BHQK, dropout_p)
    return weights_BHQK @ value.contiguous()


def _attention_by_length(  # noqa: PLR0917
    query: Tensor, key: Tensor, value: Tensor, rows: RowsOfCpu, tokens_M: Tensor | None, dropout_p: float, scale: float
) -> Tensor:
    """Return what each row sees of itself, by compiled loops, which compute in float32. Long rows go by PyTorch where
    it is faster: in bfloat16, and by its fused kernel. tokens_M: as for `attention_by_row`
    """
    fused = not dropout_p and not torch.is_grad_enabled()
    long_R = rows.lengths_R * query.shape[-1] > LONG
    if tokens_M is not None or not (fused or query.dtype == torch.bfloat16) or not long_R.any():
        return attention_by_row(query, key, value, rows, tokens_M=tokens_M, dropout_p=dropout_p, scale=scale)
    others = RowsOfCpu(rows.firsts_R[~long_R], rows.lengths_R[~long_R])
    output = attention_by_row(query, key, value, others, tokens_M=None, dropout_p=dropout_p, scale=scale)
    lines, heads, width, size = query.shape
    firsts = rows.firsts_R[long_R]
    bounds = np.unique(np.concatenate([[0, lines * width], firsts, firsts + rows.lengths_R[long_R]]))
    flat = (tensor.transpose(1, 2).reshape(lines * width, heads, size) for tensor in (query, key, value, output))
    parts = []
    for first, *of_part in zip(
        bounds, *(torch.split(tensor, np.diff(bounds).tolist()) for tensor in flat), strict=False
    ):
        if first in firsts:
            q, k, v = (part.transpose(0, 1)[None] for part in of_part[:3])
            parts.append(_attention(q, k, v, None, dropout_p, scale)[0].transpose(0, 1))
        else:
            parts.append(of_part[3])
    return torch.cat(parts).view(lines, width, heads, size).transpose(1, 2)


def _attention_by_flash(
    query: Tensor, key: Tensor, value: Tensor, rows: RowsOfGpu, *, dropout_p: float, scale: float | None
) -> Tensor:
    """Return what each row sees of itself, computed on a GPU in the 16 bits of autocast."""
    lines, heads, width, size = query.shape
    kind = torch.get_autocast_dtype("cuda")
    q_TND, k_TND, v_TND = (
        tensor.to(kind).transpose(1, 2).reshape(lines * width, heads, size) for tensor in (query, key, value)
    )
    found_TND = _flash(q_TND, k_TND, v_TND, rows, dropout_p=dropout_p, scale=scale)
    return found_TND.view(lines, width, heads, size).transpose(1, 2)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, rows: RowsOfGpu, *, dropout_p: float, scale: float | None
) -> Tensor:
    """Return (T, H, D), what each row sees of itself. `torch.nn.attention.varlen` is the same, without dropout."""
    output: Tensor = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        rows.bounds,
        rows.bounds,
        rows.longest,
        rows.longest,
        dropout_p,
        False,
        False,
        scale=scale,
    )[0]
    return output


@dataclass(frozen=True)
class RowsOfGpu:
    """Where the rows of a piece lie in its lines laid flat; the padding behind them counts as one more row.

    bounds   (rows + 1,) int32, on the GPU: where each begins, and where the last one ends
    longest  tokens that none of them exceeds
    """

    bounds: Tensor
    longest: int


def block_diagonal(mask: Tensor, firsts_R: np.ndarray, lengths_R: np.ndarray) -> Tensor:
    """Let `attention` know that under this mask, (L, 1, W, W), each row sees itself alone. Return the mask.

    Whatever is computed from the mask is a tensor like others.

    firsts_R   where the first token of each row stands in the flattened (L * W)
    lengths_R  tokens of each row
    """
    if mask.device.type == "cpu":
        setattr(mask, ROWS, RowsOfCpu(firsts_R, lengths_R))
    else:
        setattr(mask, ROWS, rows_of_gpu(mask.shape[0] * mask.shape[2], firsts_R, lengths_R, mask.device))
    return mask


def rows_of_gpu(tokens: int, firsts_R: np.ndarray, lengths_R: np.ndarray, where: torch.device) -> RowsOfGpu:
    """Return where rows lie for FlashAttention. tokens: of the piece, padding included; the rest as `block_diagonal`"""
    bounds = np.unique(np.concatenate([[0, tokens], firsts_R, firsts_R + lengths_R])).astype(np.int32)
    return RowsOfGpu(torch.from_numpy(bounds).to(where), -(-int(np.diff(bounds).max()) // SPREAD) * SPREAD)


_ON_CPU: Replaced = {
    functional.scaled_dot_product_attention: attention,
    functional.dropout: dropout,
}
_ON_GPU: Replaced = {functional.scaled_dot_product_attention: attention}
