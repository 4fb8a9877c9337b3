"""How to optimise: steps, batch, rate and precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]
Schedule = Literal["linear", "constant", "stable"]


@dataclass(frozen=True)
class Plan:
    """How to optimise. A batch is the number of rows of a step, over all pieces and processes.

    The rate rises from 0 to `rate` over the first `warmup` (a share of the steps). What follows is its `schedule`:

    linear    it falls linearly to 0 at the end (Devlin et al., 2019)
    constant  it stays
    stable    it stays, and over the last `decay` (a share of the steps) falls to 0 as 1 - sqrt(share of these that are
              done) (Haegele et al., 2024, "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations")

    A plan of the last two may get more steps later, and those that were done before the fall are still right. Therefore
    their warm-up is counted in steps.
    """

    steps: int = 1000
    batch: int = 32
    rate: float = 1e-4
    warmup: float = 0.06
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip: float = 1.0  # longest gradient (L2 over all parameters); 0 leaves it as it is
    precision: Precision = "auto"  # of matrix products; weights and optimiser are float32 always
    piece_tokens: int = 0  # most tokens, padding included, that go through the model at once; 0: by device
    compile: bool = False  # torch.compile; pays on GPUs, not on CPUs
    seed: int = 0
    schedule: Schedule = "linear"  # of the rate behind its warm-up, as above
    decay: float = 0.1  # share of the steps, at the end, over which the rate of "stable" falls
    warmup_steps: int = 0  # where it is not 0, of the warm-up, in place of `warmup`
    recompute: bool = False  # of a layer only the input is kept: its activations are computed again on the way back
    shard: bool = False  # of several processes each holds a part of weights, gradients and the optimiser's state

    def __post_init__(self) -> None:
        rules = {
            "steps": self.steps >= 1,
            "batch": self.batch >= 1,
            "rate": self.rate > 0,
            "warmup": 0 <= self.warmup <= 1,
            "weight_decay": self.weight_decay >= 0,
            "beta_1": 0 <= self.beta_1 < 1,
            "beta_2": 0 <= self.beta_2 < 1,
            "epsilon": self.epsilon > 0,
            "clip": self.clip >= 0,
            "piece_tokens": self.piece_tokens >= 0,
            "decay": 0 < self.decay <= 1,
            "warmup_steps": self.warmup_steps >= 0,
        }
        for name, holds in rules.items():
            if not holds:
                raise ValueError(f"plan.{name} = {getattr(self, name)} is out of range")

        if self.schedule != "linear" and self.warmup and not self.warmup_steps:
            raise ValueError(
                f"plan.schedule = '{self.schedule}' is for runs that may get longer, so the warm-up cannot be a share "
                f"of the steps, as plan.warmup = {self.warmup} is. Give it in steps, such as plan.warmup_steps=100; or "
                "plan.warmup=0 for none"
            )

    def rate_at(self, step: int) -> float:
        """The rate of step number `step`, from 0; never 0 while a step is still to come."""
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
        """How many of its steps, from the first, a plan that differs in having more of them would take alike."""
        if self.schedule == "linear":
            return 0
        return self.steps - round(self.decay * self.steps) if self.schedule == "stable" else self.steps


def device() -> torch.device:
    """Where this process trains: its GPU if it has one, else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def autocast_type(precision: Precision, where: torch.device) -> torch.dtype | None:
    """The type of matrix products under autocast, or None for float32.

    "auto" takes bfloat16 where the device multiplies it in hardware: otherwise it is emulated and slower than float32.
    """
    if precision == "float32":
        return None
    if where.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        capabilities = torch.cpu.get_capabilities()
        fast = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return torch.bfloat16 if fast or precision == "bfloat16" else None


def piece_tokens(plan: Plan, where: torch.device) -> int:
    """The plan's `piece_tokens`, or what suits the device: few enough on a CPU that activations stay near the cache."""
    return plan.piece_tokens or (65_536 if where.type == "cuda" else 2_048)
