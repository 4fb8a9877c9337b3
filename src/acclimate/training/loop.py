"""The one training loop. It is a generator: the caller logs, evaluates, saves and stops between the steps.

    optimiser = adamw(objective, plan)
    for step in train(objective, stream, plan, optimiser):
        ...

One step, with the file that does each part:

    batch = stream(step)                           the rows of the step, a function of its number   (text/, tasks/)
    pieces = layouts_of(objective, batch, plan)    the rows, laid out in pieces of few tokens       (pieces.py)
    losses = accumulate(objective, batch, pieces)  the gradient of the whole step                   (gradients.py)
                                                   or of the steps of several runs                  (stacked.py)
    clip(...), optimiser.step()                    the weights move                                 (here)
"""

from __future__ import annotations

import ctypes
import math
import platform
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.distributed._composable.replicate import replicate

from acclimate.core import clock, machines, ranks
from acclimate.core.types import Cost, NotFiniteError, Stream
from acclimate.training.gradients import config_of, layouts_of, name_texts, way_out
from acclimate.training.kernels import kernels
from acclimate.training.objective import Objective
from acclimate.training.pieces import Layout
from acclimate.training.plan import Plan, device, loss_scaler
from acclimate.training.shards import clip, end, is_sharded, recomputed, shard, unsharded
from acclimate.training.stacked import GRADIENT

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # parameters of mallopt(3)
MOST_BYTES = 2**31 - 1
LARGEST = 31 * 2**20  # bytes of a block after which glibc keeps most of what is freed


@dataclass(frozen=True)
class Step:
    """The losses, size and cost of one optimiser step. A loss is the mean over the whole step."""

    # these are the same whenever the run is repeated
    number: int  # steps finished, from 1
    loss: float  # the weighted sum of `losses`
    losses: dict[str, float]  # of each term
    gradient: float  # L2 norm before clipping
    rate: float
    tokens: int  # real ones
    flops: float
    padded: int  # tokens of padding that went through the model beside the real ones
    # these are measured by the clock
    seconds: float
    waited: float  # of these, seconds spent waiting for the batch
    documents: Sequence[str] = field(default=(), repr=False)  # names of the rows
    skipped: bool = False  # the weights stayed as they were, because the gradient overflowed in float16
    # a run that keeps a log fills these in (training/checkpoint.py)
    spike: float = 0.0  # deviations of the loss above its running median where it jumped
    spent: Cost = field(default_factory=Cost)  # on all steps so far, over all sessions
    skips: int = 0  # steps skipped so far, over all sessions


def adamw(objective: Objective, plan: Plan) -> torch.optim.AdamW:
    """Return AdamW over the trainable parameters. Vectors (biases, normalisation) are not decayed, as in BERT.

    The "multiple" of a group times the plan's rate is the rate of its parameters (`Objective.rate_multiple`). If the
    plan shards, this cuts the objective over the processes first, because the optimiser moves the parts.
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
    objective: Objective,
    stream: Stream,
    plan: Plan,
    optimiser: torch.optim.Optimizer,
    *,
    start: int = 0,
    scaler: torch.amp.GradScaler | None = None,
) -> Iterator[Step]:
    """Train from step `start` to `plan.steps` and yield after each step.

    The loop changes the objective and the optimiser in place; the caller may use them between two steps, a sharded
    objective only within `training.shards.unsharded`. After the last step the objective is whole for good.

    Dropout is seeded by (plan.seed, step, piece), so a run resumes from the number of its step alone. Under torchrun
    the processes share the pieces of a step, and neither loss nor noise depends on how many there are.

    In float16 the loss is scaled up before the backward pass, and the gradient down after it. Where the gradient is
    infinite even so, the step is skipped, in all processes alike, because they have the same gradient: the optimiser
    stays as it was, and the scale is halved. A step that is skipped has a number and its batch is not read again.

    scaler  state of the loss scale of a run that goes on; None: a new one, if the precision needs one

    Raises NotFiniteError where a loss or a gradient is not finite, before the weights move, and ValueError before the
    first step where a piece cannot fit this machine's memory.
    """
    where = device()
    scaler = loss_scaler(plan, where) if scaler is None else scaler
    if where.type == "cpu":
        keep_freed_memory()
    objective.to(where)
    if ranks.world() > 1 and not is_sharded(objective) and replicate.state(objective) is None:  # a trial goes on
        replicate(objective)
    if plan.compile:
        objective.compile(dynamic=True)

    ahead = ThreadPoolExecutor(1, thread_name_prefix="stream")  # makes the next batch while the model has this one
    with ahead, recomputed(objective, partial(kernels, plan, where)) if plan.recompute else nullcontext():
        waiting = ahead.submit(stream, start) if start < plan.steps else None
        for step in range(start, plan.steps):
            begun = clock.seconds()
            assert waiting is not None
            batch = waiting.result()
            waited = clock.seconds() - begun
            waiting = ahead.submit(stream, step + 1) if step + 1 < plan.steps else None

            # the gradient of the whole step: each term's sum over all pieces, divided once by its count
            pieces = layouts_of(objective, batch, plan, where)
            if step == start and where.type == "cpu":
                _require_memory(objective, pieces)
            losses = GRADIENT.get()(objective, batch, pieces, plan, step=step, where=where, scaler=scaler)
            if scaler is not None:
                scaler.unscale_(optimiser)
            _call_hook(objective, "on_gradients", gradients=True)

            trainable = [parameter for parameter in objective.parameters() if parameter.requires_grad]
            norm = clip(trainable, plan.clip or math.inf)
            skipped = scaler is not None and not math.isfinite(norm) and scaler.get_scale() > 1
            if not math.isfinite(norm) and not skipped:
                raise NotFiniteError(
                    f"step {step + 1}: the gradient is {norm}. {name_texts(batch)} {way_out(objective, step)}"
                )

            for group in optimiser.param_groups:
                group["lr"] = plan.rate_at(step) * group.get("multiple", 1.0)
            if scaler is None:
                optimiser.step()
            else:
                if not skipped:
                    scaler.step(optimiser)
                scaler.update()
            optimiser.zero_grad()
            if not skipped:
                _call_hook(objective, "on_update")

            yield Step(
                number=step + 1,
                loss=sum(objective.weights[term] * value for term, value in losses.items()),
                losses=losses,
                gradient=norm,
                rate=plan.rate_at(step),
                tokens=len(batch.ids),
                flops=objective.flops(batch),
                padded=sum(piece.tokens for piece in pieces) - len(batch.ids),
                skipped=skipped,
                seconds=clock.seconds() - begun,
                waited=waited,
                documents=batch.names,
            )
    end(objective)


def _require_memory(objective: Objective, pieces: Sequence[Layout]) -> None:
    """Raise ValueError if the outputs of the layers alone, of the largest piece, cannot fit this machine's memory."""
    config = config_of(objective)
    if config is None:
        return
    tokens = max(piece.tokens for piece in pieces)
    needed = 4 * tokens * config.hidden_size * config.num_hidden_layers
    what = f"a piece of {tokens:,} tokens needs {{}} GB of memory for the outputs of the layers"
    machines.require_memory(needed, what, "Lower plan.piece_tokens, or plan.batch")


def _call_hook(objective: Objective, hook: str, *, gradients: bool = False) -> None:
    """Call the hook on whole weights. Gathering sharded ones costs, so it is left out for a hook that does nothing."""
    does_something = getattr(type(objective), hook) is not getattr(Objective, hook)
    with unsharded(objective, gradients=gradients) if does_something else nullcontext():
        getattr(objective, hook)()


def keep_freed_memory() -> bool:
    """Make the C library reuse freed memory for the rest of this process. Return False where it is not glibc.

    glibc gives freed blocks above some 32 MB back to the system and gets them again in the next step, page by page and
    zeroed; the gradient of a word embedding is one. On a CPU those page faults took a tenth of a small model's step.
    The price: the process holds its peak until it ends, which a training process does anyway.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return bool(library.mallopt(MMAP_MAX, 0)) and bool(library.mallopt(TRIM_THRESHOLD, MOST_BYTES))


def keep_some_freed_memory() -> None:
    """Make glibc reuse some 64 MB of freed memory, unless the process has set a limit itself.

    A program that predicts has its own wishes about memory, so `keep_freed_memory` is not for it. But glibc itself
    keeps twice the largest block that was ever freed, if that has at most 32 MB: so this frees one, which was never
    touched. Page faults took a tenth of the time of predicting with MiniLM. Another C library is none the wiser.
    """
    torch.empty(LARGEST, dtype=torch.uint8)
