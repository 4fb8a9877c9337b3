"""transformers.Trainer, brought to train the same model on the same rows as ours, and timed alike."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from contestants import EPSILON, RATE, UNENDING, WEIGHT_DECAY, Contestant, Measurement, Setting, now, wait_for
from material import Material, model_of
from torch.utils.data import Sampler
from transformers import DataCollatorForLanguageModeling, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from acclimate.models.encoder import training_flops

STRATEGIES = {"grouped": "group_by_length", "sorted": "group_by_length"}  # rows -> Trainer's word; others: "random"


def measure_trainer(contestant: Contestant, setting: Setting, material: Material, *, seed: int) -> Measurement:
    """One measurement, from a fresh model on; the seed decides which rows come, in which order."""
    model = model_of(setting.size, material, seed=0, attention_dropout=contestant.attention_dropout)
    clock = _Clock(setting)
    kind = MaskedHeadTrainer if contestant.head == "masked" else CountingTrainer
    with tempfile.TemporaryDirectory() as directory:
        trainer = kind(
            model=model,
            rows=contestant.rows,
            args=trainer_arguments(
                directory,
                batch=setting.batch,
                steps=UNENDING,
                device=setting.device,
                bf16=contestant.precision == "bfloat16",
                torch_compile=setting.compile,
                seed=seed,
                lr_scheduler_type="constant",
                train_sampling_strategy=STRATEGIES.get(contestant.rows, "random"),
                dataloader_num_workers=setting.workers,
                dataloader_persistent_workers=setting.workers > 0,
            ),
            train_dataset=material.chunks if contestant.rows == "chunks" else material.rows,
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
    """Trainer that remembers how many tokens each step was given; the sums are read once it has ended.

    rows  "grouped" by Trainer's own strategy, or "sorted": batches of rows of like length out of all rows
    """

    def __init__(self, *, rows: str = "padded", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.remove_callback(PrinterCallback)
        self.rows = rows
        self.batches: list[_Inputs] = []

    def _get_train_sampler(self, *arguments: Any) -> Sampler | None:
        sampler = super()._get_train_sampler(*arguments)
        if self.rows == "sorted":
            lengths = np.array([len(row["input_ids"]) for row in self.train_dataset])
            sampler = np.random.default_rng(self.args.seed).permutation(len(lengths))
            sampler = sampler[np.argsort(lengths[sampler], kind="stable")].tolist()
        if self.rows in STRATEGIES and sampler is not None:
            return BatchesShuffled(sampler, self.args.train_batch_size, self.args.seed)
        return sampler

    def training_step(self, model: Any, inputs: dict[str, torch.Tensor], *arguments: Any, **more: Any) -> torch.Tensor:
        mask = inputs["attention_mask"]
        self.batches.append(_Inputs(mask.sum(1), mask.numel(), (inputs["labels"] >= 0).sum()))
        return super().training_step(model, inputs, *arguments, **more)


class MaskedHeadTrainer(CountingTrainer):
    """Trainer with what an expert adds in six lines: the language modelling head at the predicted positions alone."""

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], *arguments: Any, **more: Any) -> torch.Tensor:
        labels = inputs.pop("labels")
        hidden = model.base_model(**inputs).last_hidden_state
        predicted = labels >= 0
        logits = model.cls(hidden[predicted])
        return torch.nn.functional.cross_entropy(logits, labels[predicted])


class BatchesShuffled(Sampler[int]):
    """A sampler's batches as they are, in random order.

    Trainer's order goes from long rows to short ones, some 50 batches at a time: a few steps would see long rows only.
    """

    def __init__(self, sampler: Iterable[int], batch: int, seed: int) -> None:
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

    A step lasts from the end of the step before to its end, so the loading of its batch is inside; `waited` is the
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
            wait_for(self.setting.device)
            self.begun = now(self.setting.device)
        self.ended = time.perf_counter()
        if state.global_step > self.setting.warm_up:
            self.seen.steps += 1
            self.seen.seconds = now(self.setting.device) - self.begun
            if self.seen.seconds >= self.setting.seconds and self.seen.steps >= self.setting.least_steps:
                wait_for(self.setting.device)
                self.seen.seconds = now(self.setting.device) - self.begun
                control.should_training_stop = True
