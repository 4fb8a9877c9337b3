"""How to optimise: steps, batch, rate and precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class Plan:
    """How to optimise. A batch is the number of rows of a step, over all pieces and processes.

    The rate rises from 0 to `rate` over the first `warmup` (a share of the steps) and falls linearly to 0 at the end.
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
        }
        for name, holds in rules.items():
            if not holds:
                raise ValueError(f"plan.{name} = {getattr(self, name)} is out of range")

    def rate_at(self, step: int) -> float:
        """The rate of step number `step`, from 0: slanted triangular, never 0 while a step is still to come."""
        rising = round(self.warmup * self.steps)
        if step < rising:
            return self.rate * (step + 1) / rising
        return self.rate * (self.steps - step) / max(1, self.steps - rising)


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
