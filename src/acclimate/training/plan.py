"""How to optimise: steps, batch, rate and precision. Functions import torch, so that a race is planned without it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from acclimate.core.settings import AboveZero, BatchSize, Count, Positive, Range, check_ranges

if TYPE_CHECKING:
    import torch

COUPLED = 4_096  # tokens of a piece on a CPU whose rows are compared with each other

Precision = Literal["auto", "float32", "bfloat16", "float16"]
Schedule = Literal["linear", "constant", "stable"]


@dataclass(frozen=True)
class Plan:
    """How to optimise. A batch is the number of rows of a step, over all pieces and processes.

    The rate rises from 0 to `rate` over the first `warmup` (a share of the steps). What follows is its `schedule`:

    linear    it falls linearly to 0 at the end (Devlin et al., 2019)
    constant  it stays
    stable    it stays, and over the last `decay` (a share of the steps) falls to 0 as 1 - sqrt(share of these that are
              done) (Haegele et al., 2024, "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations")

    A plan with one of the last two may get more steps later; the steps done before the fall remain valid. Therefore
    their warm-up is counted in steps.
    """

    steps: Positive = 1000
    """Number of optimiser steps; ignored if `epochs` of the method is above 0."""
    batch: BatchSize = 32  # rows of one optimiser step, over all pieces and processes together
    rate: AboveZero = 1e-4  # peak learning rate
    warmup: Annotated[float, Range(least=0, most=1)] = 0.06
    """Share of the steps over which the rate rises from 0; `schedule` defines the rest."""
    weight_decay: Annotated[float, Range(least=0)] = 0.01
    """Weight decay of AdamW, on matrices; biases and normalisation are not decayed."""
    beta_1: Annotated[float, Range(least=0, below=1)] = 0.9  # AdamW's decay of the mean of gradients
    beta_2: Annotated[float, Range(least=0, below=1)] = 0.999  # AdamW's decay of the mean of squared gradients
    epsilon: AboveZero = 1e-6
    """Added by AdamW to the root of the squared gradients, to avoid a division by 0."""
    clip: Annotated[float, Range(least=0)] = 1.0
    """A gradient longer than this (L2 norm over all parameters) is scaled down to it; 0: no clipping."""
    precision: Precision = "auto"
    """Number format of matrix products; weights and optimiser are always float32. auto: bfloat16 where the device
    has it in hardware, else float16 with loss scaling on a CUDA device, else float32."""
    piece_tokens: Count = 0  # most tokens, padding included, that go through the model at once; 0: chosen by device
    compile: bool = False  # compile the model with torch.compile; faster on GPUs, not on CPUs
    seed: Count = 0  # seed of the order of rows, of masks, of dropout, and of new weights and heads
    schedule: Schedule = "linear"
    """Learning rate after the warm-up: falling linearly to 0, constant, or stable with a fall at the end."""
    decay: Annotated[float, Range(above=0, most=1)] = 0.1
    """Share of the steps, at the end, over which the rate of schedule "stable" falls."""
    warmup_steps: Count = 0
    """Length of the warm-up in steps; schedules constant and stable need it. 0: `warmup` sets the length."""
    recompute: bool = False
    """Save memory: keep only the input of each layer and compute its activations again in the backward pass."""
    shard: bool = False  # under torchrun, each process holds a part of the weights, gradients and optimiser state

    def __post_init__(self) -> None:
        check_ranges(self, "plan.")
        if self.schedule != "linear" and self.warmup and not self.warmup_steps:
            raise ValueError(
                f"plan.schedule = '{self.schedule}' allows runs to be extended, so the warm-up cannot be a share of "
                f"the steps, but plan.warmup = {self.warmup}. Set it in steps, such as plan.warmup_steps=100, or "
                "plan.warmup=0 for none"
            )

    def rate_at(self, step: int) -> float:
        """Return the rate of step number `step`, from 0. It is never 0 while a step is still to come."""
        rising = self.warmup_steps or round(self.warmup * self.steps)
        if self.schedule == "linear":  # slanted triangular
            if step < rising:
                return self.rate * (step + 1) / rising
            return self.rate * (self.steps - step) / max(1, self.steps - rising)
        rate = self.rate * (step + 1) / rising if step < rising else self.rate
        if step < self.settled:
            return rate
        return rate * (1 - math.sqrt((step - self.settled) / (self.steps - self.settled)))

    @property
    def settled(self) -> int:
        """Return the number of first steps that a longer plan, alike in all else, would take with the same rates."""
        if self.schedule == "linear":
            return 0
        return self.steps - round(self.decay * self.steps) if self.schedule == "stable" else self.steps


def device() -> torch.device:
    """Return the device that this process trains on: $ACCLIMATE_DEVICE, or else its CUDA GPU if it has one, or the CPU.

    So a Mac's GPU ("mps") has to be asked for. Raises ValueError for a device that is not there.
    """
    import torch

    devices = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = os.environ.get("ACCLIMATE_DEVICE") or ("cuda" if devices["cuda"] else "cpu")
    if not devices.get(chosen):
        has = " or ".join(name for name, available in devices.items() if available)
        raise ValueError(
            f"ACCLIMATE_DEVICE is '{chosen}', but PyTorch finds only {has} here. Set it to {has}, or unset it"
        )
    return torch.device("cuda", torch.cuda.current_device()) if chosen == "cuda" else torch.device(chosen)


def autocast_type(precision: Precision, where: torch.device) -> torch.dtype | None:
    """Return the type of matrix products under autocast, or None for float32.

    "auto" takes bfloat16 where the device multiplies it in hardware; emulated it is slower than float32. A CUDA device
    without it (V100, T4) gets float16; a Mac's GPU gets float32, in which it is exact.
    """
    import torch

    if precision != "auto":
        return {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]
    if where.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if where.type == "mps":
        return None
    capabilities = torch.cpu.get_capabilities()
    return torch.bfloat16 if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else None


def loss_scaler(plan: Plan, where: torch.device) -> torch.amp.GradScaler | None:
    """Return what scales the loss so that small gradients survive float16, or None for other types, which need none.

    Raises ValueError for a plan that shards: each process would see infinite gradients in its part alone.
    """
    import torch

    if autocast_type(plan.precision, where) is not torch.float16:
        return None
    if plan.shard:
        raise ValueError(
            "plan.shard divides the gradient between processes, which could not agree on the steps that float16 "
            "skips. Set plan.precision=float32, or shard=false"
        )
    return torch.amp.GradScaler(where.type)


def piece_tokens(plan: Plan, where: torch.device) -> int:
    """Return the plan's `piece_tokens`, or the device's: on a CPU so few that activations stay near the cache."""
    return plan.piece_tokens or (2_048 if where.type == "cpu" else 65_536)


def coupled_tokens(plan: Plan, where: torch.device) -> int:
    """Return the most tokens of a piece whose rows are compared with each other. In several pieces most rows go
    through the model twice (gradients.py), which costs more than leaving the cache, so it is larger than others.

    Neither memory nor the number of processes decides: dropout is drawn by piece, and the same plan gives the same run.
    """
    return max(piece_tokens(plan, where), 0 if plan.piece_tokens or where.type != "cpu" else COUPLED)


def move_to_device(module: torch.nn.Module) -> None:
    """Move a module to this process's device. transformers' own `to` hides its signature from type checkers."""
    module.to(device())
