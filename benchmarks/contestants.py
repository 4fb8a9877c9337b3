"""Ours and transformers.Trainer, brought to train the same model on the same rows, and timed alike.

A measurement takes some steps of warm-up, then counts whole steps until its time is over: whatever a step needs, from
the next batch's data to the optimiser, is inside. Tokens are real ones, special tokens included; padding never counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from material import LONGEST, Material, chunks_of, model_of, rows_of
from torch.utils.data import Sampler
from transformers import DataCollatorForLanguageModeling, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from acclimate.models.flops import training_flops
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
    """Who trains, on which rows, in which precision. Dropout of hidden states is 0.1 throughout."""

    who: Literal["acclimate", "Trainer"]
    rows: Literal["pieces", "padded", "grouped", "chunks"]
    precision: Literal["float32", "bfloat16"]
    attention_dropout: float = 0.1

    @property
    def name(self) -> str:
        short = {"float32": "fp32", "bfloat16": "bf16"}[self.precision]
        rows = "" if self.who == "acclimate" else f" {self.rows}"
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


def measure(contestant: Contestant, setting: Setting, material: Material, *, seed: int) -> Measurement:
    """One measurement, from a fresh model on; the seed decides which rows come, in which order."""
    if contestant.who == "acclimate":
        return _measure_ours(contestant, setting, material, seed)
    return _measure_trainer(contestant, setting, material, seed)


def _measure_ours(contestant: Contestant, setting: Setting, material: Material, seed: int) -> Measurement:
    model = model_of(setting.size, material, seed=0, attention_dropout=contestant.attention_dropout)
    objective = MaskedLanguageLoss(model)
    plan = our_plan(setting.batch, UNENDING, contestant.precision, warmup=0.0, compiled=setting.compile)
    stream = masked_stream(material.training, batch=setting.batch, longest=LONGEST, seed=seed, whole_words=False)
    steps = train(objective, stream, plan, adamw(objective, plan))
    for _ in range(setting.warm_up):
        next(steps)
    seen = Measurement()
    begun = time.perf_counter()
    while seen.seconds < setting.seconds or seen.steps < setting.least_steps:
        step = next(steps)  # the norm of the gradient has been read, so the GPU is at most an update behind
        seen.steps += 1
        seen.tokens += step.tokens
        seen.positions += step.tokens + step.padded
        seen.waited += step.waited
        seen.flops += step.flops
        seen.seconds = time.perf_counter() - begun
    _wait_for(setting.device)
    seen.seconds = time.perf_counter() - begun
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


def _measure_trainer(contestant: Contestant, setting: Setting, material: Material, seed: int) -> Measurement:
    rows = rows_of(material.training)
    model = model_of(setting.size, material, seed=0, attention_dropout=contestant.attention_dropout)
    clock = _Clock(setting)
    with tempfile.TemporaryDirectory() as directory:
        trainer = CountingTrainer(
            model=model,
            args=trainer_arguments(
                directory,
                batch=setting.batch,
                steps=UNENDING,
                device=setting.device,
                bf16=contestant.precision == "bfloat16",
                torch_compile=setting.compile,
                seed=seed,
                lr_scheduler_type="constant",
                train_sampling_strategy="group_by_length" if contestant.rows == "grouped" else "random",
                dataloader_num_workers=setting.workers,
                dataloader_persistent_workers=setting.workers > 0,
            ),
            train_dataset=chunks_of(rows) if contestant.rows == "chunks" else rows,
            data_collator=DataCollatorForLanguageModeling(material.tokenizer, mlm_probability=0.15),
            callbacks=[clock],
        )
        trainer.train()
    seen = clock.seen
    # counted as ours: matrix products on real tokens and masked positions, however many positions the peer computes
    for inputs in trainer.batches[setting.warm_up :][: seen.steps]:
        lengths = inputs.lengths.cpu().numpy()
        seen.tokens += int(lengths.sum())
        seen.positions += inputs.positions
        seen.flops += training_flops(model, lengths, predicted=int(inputs.predicted))
    return seen


def trainer_arguments(directory: str, *, batch: int, steps: int, device: str, **more: Any) -> TrainingArguments:
    """Trainer at its fastest: fused AdamW, nothing logged, saved or reported, no columns looked for."""
    settings: dict[str, Any] = {
        "per_device_train_batch_size": batch,
        "max_steps": steps,
        "learning_rate": RATE,
        "weight_decay": WEIGHT_DECAY,
        "adam_epsilon": EPSILON,
        "max_grad_norm": 1.0,
        "optim": "adamw_torch_fused",
        "use_cpu": device == "cpu",
        "dataloader_pin_memory": device != "cpu",
        "logging_strategy": "no",
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "seed": 0,
    }
    return TrainingArguments(output_dir=directory, **settings | more)


@dataclass(frozen=True)
class _Inputs:
    lengths: torch.Tensor  # (B,) real tokens of each row
    positions: int
    predicted: torch.Tensor


class CountingTrainer(Trainer):
    """Trainer that remembers how many tokens each step was given; the sums are read once it has ended."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.remove_callback(PrinterCallback)
        self.batches: list[_Inputs] = []

    def _get_train_sampler(self, *arguments: Any) -> Sampler | None:
        sampler = super()._get_train_sampler(*arguments)
        if self.args.train_sampling_strategy == "group_by_length" and sampler is not None:
            return BatchesShuffled(sampler, self.args.train_batch_size, self.args.seed)
        return sampler

    def training_step(self, model: Any, inputs: dict[str, torch.Tensor], *arguments: Any, **more: Any) -> torch.Tensor:
        mask = inputs["attention_mask"]
        self.batches.append(_Inputs(mask.sum(1), mask.numel(), (inputs["labels"] >= 0).sum()))
        return super().training_step(model, inputs, *arguments, **more)


class BatchesShuffled(Sampler[int]):
    """A sampler's batches as they are, in random order.

    Trainer's own goes from long rows to short ones, some 50 batches at a time: a few steps would see long rows only.
    """

    def __init__(self, sampler: Sampler[int], batch: int, seed: int) -> None:
        rows = list(sampler)
        starts = np.random.default_rng(seed).permutation(range(0, len(rows), batch))
        self.rows = [row for start in starts for row in rows[start : start + batch]]

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class _Clock(TrainerCallback):
    """Counts the steps between the end of warm-up and the first step that ends after `seconds`.

    A step lasts from the end of the step before to its own end, so the loading of its batch is inside; `waited` is the
    part before its beginning.
    """

    setting: Setting
    seen: Measurement = field(default_factory=Measurement)
    begun: float = 0.0
    ended: float = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step >= self.setting.warm_up:
            self.seen.waited += time.perf_counter() - self.ended

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == self.setting.warm_up:
            _wait_for(self.setting.device)
            self.begun = time.perf_counter()
        self.ended = time.perf_counter()
        if state.global_step > self.setting.warm_up:
            self.seen.steps += 1
            self.seen.seconds = self.ended - self.begun
            if self.seen.seconds >= self.setting.seconds and self.seen.steps >= self.setting.least_steps:
                _wait_for(self.setting.device)
                self.seen.seconds = time.perf_counter() - self.begun
                control.should_training_stop = True


def _wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def matrix_peak(precision: str, device: str, *, seconds: float = 1.0) -> float:
    """The most operations a second over repeated products of two square matrices, with the threads now set."""
    width = 8192 if device == "cuda" else 2048
    first, second = (torch.randn(width, width, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    best, end = 0.0, time.perf_counter() + seconds
    first @ second
    while time.perf_counter() < end:
        _wait_for(device)
        begun = time.perf_counter()
        for _ in range(3):
            first @ second
        _wait_for(device)
        best = max(best, 3 * 2 * width**3 / (time.perf_counter() - begun))
    return best


def median(values: list[float]) -> float:
    return float(np.median(values))
