"""The one training loop, a generator: whatever else a run does (log, evaluate, save, stop) is the caller's own code."""

from __future__ import annotations

import ctypes
import math
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed._composable.replicate import replicate

from acclimate.core import ranks
from acclimate.core.types import Batch, Cost, Stream
from acclimate.training.gradients import WAY_OUT, NotFiniteError, accumulate, pieces_of, texts_of
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, device, piece_tokens
from acclimate.training.shards import clip, end, is_sharded, recomputed, shard, whole

# -------------------- memory
# Memory that the C library keeps between steps: on a CPU a tenth of a step of a small model was page faults.
#
# glibc hands blocks above some 32 MB back to the system when they are freed, and gets them anew, page by page and
# zeroed,
# in the next step: the gradient of a word embedding is one. Kept, they are there at once. A process then holds what it
# held at its peak until it ends, which a training process does anyway.


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt(3)
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """For the rest of this process, free memory is reused before it is given back. False where there is no glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return bool(library.mallopt(_MMAP_MAX, 0)) and bool(library.mallopt(_TRIM_THRESHOLD, _MOST))


@dataclass(frozen=True)
class Step:
    """What one optimiser step did. losses are means over the step; the first line of figures is the same on every run,
    the second is the clock's.
    """

    number: int  # steps finished, from 1
    loss: float
    losses: dict[str, float]
    gradient: float  # L2 norm before clipping
    rate: float
    tokens: int
    flops: float
    padded: int  # tokens of padding that went through the model beside the real ones
    seconds: float
    waited: float  # of these, seconds spent waiting for the batch
    documents: Sequence[str] = field(default=(), repr=False)  # names of the rows
    # what only a run knows that keeps a log (training/checkpoint.py)
    spike: float = 0.0  # deviations of the loss above its running median where it jumped (training/checkpoint.py)
    spent: Cost = field(default_factory=Cost)  # on all steps so far, over all sessions


def adamw(objective: Objective, plan: Plan) -> torch.optim.AdamW:
    """AdamW over every trainable parameter; biases and normalisation (vectors) are not decayed, as in BERT.

    A group's "multiple" is that of its parameters' rate (`Objective.rate_multiple`). Where the plan shards, the
    objective is cut over the processes first: what is optimised are the parts.
    """
    if plan.shard:
        shard(objective)
    trainable = [(name, parameter) for name, parameter in objective.named_parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = []
    for multiple in sorted({objective.rate_multiple(name) for name, _ in trainable}):
        alike = [parameter for name, parameter in trainable if objective.rate_multiple(name) == multiple]
        groups += [
            {"params": [p for p in alike if p.ndim >= 2], "weight_decay": plan.weight_decay, "multiple": multiple},
            {"params": [p for p in alike if p.ndim < 2], "weight_decay": 0.0, "multiple": multiple},
        ]
    betas = (plan.beta_1, plan.beta_2)
    return torch.optim.AdamW(groups, lr=plan.rate, betas=betas, eps=plan.epsilon, fused=True)


def train(
    objective: Objective, stream: Stream, plan: Plan, optimiser: torch.optim.Optimizer, *, start: int = 0
) -> Iterator[Step]:
    """Train from step `start` to `plan.steps`, yielding after each step.

    The objective and the optimiser are changed in place and belong to the caller between steps; an objective that is
    sharded, by `adamw`, is to be looked at in `training.shards.whole`, and is whole again behind the last step. Dropout
    is seeded by (plan.seed, step, piece), so a run needs no generator state to go on as if it had never stopped, and
    pieces fall to processes without changing the noise. Under torchrun each process trains on its share of the step's
    pieces. Where the objective couples rows, each is compared with all others of the step, however that is cut.

    Raises NotFiniteError where a loss or gradient is not finite, before the weights move.
    """
    where = device()
    if where.type == "cpu":
        keep_freed_memory()
    objective.to(where)
    if ranks.world() > 1 and not is_sharded(objective):
        replicate(objective)
    if plan.compile:
        objective.compile(dynamic=True)
    ahead = ThreadPoolExecutor(1, thread_name_prefix="stream")
    with ahead, recomputed(objective) if plan.recompute else nullcontext():
        waiting = ahead.submit(stream, start) if start < plan.steps else None
        for step in range(start, plan.steps):
            begun = time.perf_counter()
            assert waiting is not None
            batch = waiting.result()
            waited = time.perf_counter() - begun
            waiting = ahead.submit(stream, step + 1) if step + 1 < plan.steps else None

            pieces = pieces_of(objective, batch, piece_tokens(plan, where))
            losses = accumulate(objective, batch, pieces, plan, step=step, where=where)
            norm = _update(objective, optimiser, plan, step, batch)
            yield Step(
                number=step + 1,
                loss=sum(objective.weights[term] * value for term, value in losses.items()),
                losses=losses,
                gradient=norm,
                rate=plan.rate_at(step),
                tokens=len(batch.ids),
                flops=objective.flops(batch),
                padded=sum(piece.tokens for piece in pieces) - len(batch.ids),
                seconds=time.perf_counter() - begun,
                waited=waited,
                documents=batch.names,
            )
    end(objective)


def _update(objective: Objective, optimiser: torch.optim.Optimizer, plan: Plan, step: int, batch: Batch) -> float:
    """Move the weights by the gradient that is on them; its norm before clipping."""
    _call(objective, "on_gradients", gradients=True)
    trainable = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    norm = clip(trainable, plan.clip or math.inf)
    if not math.isfinite(norm):
        raise NotFiniteError(f"step {step + 1}: the gradient is {norm}. {texts_of(batch)} {WAY_OUT}")
    for group in optimiser.param_groups:
        group["lr"] = plan.rate_at(step) * group.get("multiple", 1.0)
    optimiser.step()
    optimiser.zero_grad()
    _call(objective, "on_update")
    return norm


def _call(objective: Objective, hook: str, *, gradients: bool = False) -> None:
    """A hook of the objective, which finds it whole. That is gathered only for one that does something."""
    does = getattr(type(objective), hook) is not getattr(Objective, hook)
    with whole(objective, gradients=gradients) if does else nullcontext():
        getattr(objective, hook)()
