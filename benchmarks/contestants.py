"""Who trains, under which settings, what is counted; and ours, measured (transformers.Trainer is in peer.py).

A measurement takes some steps of warm-up, then counts whole steps until its time is over: whatever a step needs, from
the next batch's data to the optimiser, is inside. Tokens are real ones, special tokens included; padding never counts.
Seconds are those of `now`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from material import LONGEST, Material, model_of

from acclimate.text.streams import masked_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.plan import Plan

RATE = 1e-4
WEIGHT_DECAY = 0.01
EPSILON = 1e-6
UNENDING = 1_000_000  # steps: a measurement stops long before


@dataclass(frozen=True)
class Contestant:
    """Who trains, on which rows, in which precision. Dropout of hidden states is 0.1 throughout.

    head  where Trainer computes the language modelling head: at all positions, as it does by itself, or at those that
          are predicted, as six lines of `compute_loss` make it
    """

    who: Literal["acclimate", "Trainer"]
    rows: Literal["pieces", "padded", "grouped", "sorted", "chunks"]
    precision: Literal["float32", "bfloat16"]
    attention_dropout: float = 0.1
    head: Literal["everywhere", "masked"] = "everywhere"

    @property
    def name(self) -> str:
        short = {"float32": "fp32", "bfloat16": "bf16"}[self.precision]
        rows = "" if self.who == "acclimate" else f" {self.rows}"
        rows += " with a masked head" if self.head == "masked" else ""
        return f"{self.who}{rows}, {short}, attention dropout {self.attention_dropout:g}"


@dataclass(frozen=True)
class Setting:
    """What is the same for all contestants of a table."""

    size: str
    batch: int
    seconds: float
    least_steps: int
    warm_up: int
    device: str
    compile: bool
    workers: int = 0  # of Trainer's data loader


@dataclass
class Measurement:
    """Sums over the steps that were counted. waited: seconds between asking for a batch and having it."""

    steps: int = 0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    flops: float = 0.0

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    @property
    def padding(self) -> float:
        return 1 - self.tokens / self.positions

    @property
    def waiting(self) -> float:
        return self.waited / self.seconds

    @property
    def flops_a_second(self) -> float:
        return self.flops / self.seconds


def now(device: str) -> float:
    """Return the processor seconds of this process, which other work on the machine hardly changes; on a GPU those of
    the clock.
    """
    return time.process_time() if device == "cpu" else time.perf_counter()


def measure_ours(contestant: Contestant, setting: Setting, material: Material, *, seed: int) -> Measurement:
    """One measurement, from a fresh model on; the seed decides which rows come, in which order."""
    model = model_of(setting.size, material, seed=0, attention_dropout=contestant.attention_dropout)
    objective = MaskedLanguageLoss(model)
    plan = our_plan(setting.batch, UNENDING, contestant.precision, warmup=0.0, compiled=setting.compile)
    stream = masked_stream(material.training, batch=setting.batch, longest=LONGEST, seed=seed, whole_words=False)
    steps = train(objective, stream, plan, adamw(objective, plan))
    for _ in range(setting.warm_up):
        next(steps)
    seen = Measurement()
    begun = now(setting.device)
    while seen.seconds < setting.seconds or seen.steps < setting.least_steps:
        step = next(steps)  # the norm of the gradient has been read, so the GPU is at most an update behind
        seen.steps += 1
        seen.tokens += step.tokens
        seen.positions += step.tokens + step.padded
        seen.waited += step.waited
        seen.flops += step.flops
        seen.seconds = now(setting.device) - begun
    wait_for(setting.device)
    seen.seconds = now(setting.device) - begun
    steps.close()
    return seen


def our_plan(batch: int, steps: int, precision: str, *, warmup: float, compiled: bool = False, **more: Any) -> Plan:
    return Plan(
        steps=steps,
        batch=batch,
        warmup=warmup,
        weight_decay=WEIGHT_DECAY,
        epsilon=EPSILON,
        precision=precision,  # type: ignore[arg-type]
        compile=compiled,
        **{"rate": RATE} | more,
    )


def wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def matrix_peak(precision: str, device: str, *, seconds: float) -> float:
    """The most operations a second over repeated products of two square matrices, with the threads now set."""
    width = 8192 if device == "cuda" else 2048
    first, second = (torch.randn(width, width, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    best, end = 0.0, time.perf_counter() + seconds
    first @ second
    while not best or time.perf_counter() < end:
        wait_for(device)
        begun = now(device)
        for _ in range(3):
            first @ second
        wait_for(device)
        best = max(best, 3 * 2 * width**3 / (now(device) - begun))
    return best


def median(values: list[float]) -> float:
    return float(np.median(values))
