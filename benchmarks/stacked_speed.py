"""Fine-tunings whose steps one device computes together (training/stacked.py), beside the same ones after each other.

    python benchmarks/stacked_speed.py --runs 2,4,8 --out benchmarks/reports/DATE-stacked-speed.md

Encoders and rows are random, for speeds alone. On a CPU set --layers, --hidden, --tokens and --steps to less.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from page import head, spread, table, tell, write
from transformers import BertConfig, BertForSequenceClassification

from acclimate.core.types import Batch
from acclimate.methods.task_loss import TaskLoss
from acclimate.text.streams import rows_stream
from acclimate.training.loop import adamw, train
from acclimate.training.plan import Plan, device
from acclimate.training.side_by_side import Run, SideBySide

LABELS = 4
ROWS = 1_000  # of the training set


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    vocabulary: int
    tokens: int
    dropout: float
    plan: Plan

    def objective(self) -> TaskLoss:
        config = BertConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=max(1, self.hidden // 32),
            intermediate_size=4 * self.hidden,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            num_labels=LABELS,
            problem_type="single_label_classification",
        )
        return TaskLoss(BertForSequenceClassification(config))

    def rows(self) -> Batch:
        """Rows of half to one and a half times `tokens` tokens."""
        generator = np.random.default_rng(0)
        lengths = generator.integers(self.tokens // 2, self.tokens * 3 // 2 + 1, ROWS)
        ids = generator.integers(5, self.vocabulary, lengths.sum())
        labels = generator.integers(0, LABELS, ROWS)
        return Batch(ids, np.concatenate([[0], np.cumsum(lengths)]), rows={"label": labels})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default="2,4,8", help="numbers of fine-tunings, separated by commas")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--vocabulary", type=int, default=30_000)
    parser.add_argument("--tokens", type=int, default=64, help="of a row on average")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--steps", type=int, default=100, help="of each fine-tuning in a turn")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before the clock starts")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    plan = Plan(steps=10**6, batch=options.batch, rate=1e-5, precision=options.precision)
    shape = Shape(options.layers, options.hidden, options.vocabulary, options.tokens, options.dropout, plan)
    lines = []
    for runs in map(int, options.runs.split(",")):
        alone, together = [], []
        for turn in range(options.turns):
            pair = [(alone, steps_after_each_other), (together, steps_side_by_side)]
            for speeds, measure in pair if turn % 2 else pair[::-1]:
                speeds.append(measure(shape, runs, warm_up=options.warm_up, steps=options.steps))
            tell(f"{runs} runs: {alone[-1]:.1f} steps per second after each other, {together[-1]:.1f} together")
        ratios = [b / a for a, b in zip(alone, together, strict=True)]
        lines.append([runs, spread(alone, ".1f"), spread(together, ".1f"), spread(ratios, ".2f")])
    where = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {options.threads} threads"
    facts = [("device", where), ("encoder", f"{options.layers}x{options.hidden}"), ("batch", str(options.batch))]
    text = "Steps per second of all runs together: median of the turns, and least to most."
    names = ["runs", "after each other", "together", "together by after each other"]
    write(options.out, [head("Fine-tunings in a stack", facts=facts), text, table(names, lines)])


def steps_after_each_other(shape: Shape, runs: int, *, warm_up: int, steps: int) -> float:
    """Return the steps per second of all runs."""
    rows, seconds = shape.rows(), 0.0
    for seed in range(runs):
        objective, stream = shape.objective(), rows_stream(rows, batch=shape.plan.batch, seed=seed)
        training = train(objective, stream, shape.plan, adamw(objective, shape.plan))
        for _ in range(warm_up):
            next(training)
        begun = time.perf_counter()
        for _ in range(steps):
            next(training)
        seconds += time.perf_counter() - begun
        training.close()
    return runs * steps / seconds


def steps_side_by_side(shape: Shape, runs: int, *, warm_up: int, steps: int) -> float:
    """Return the steps per second of all runs."""
    rows, side_by_side = shape.rows(), SideBySide()

    def fine_tune(_: Run, seed: int) -> None:
        objective = shape.objective()
        stream = rows_stream(rows, batch=shape.plan.batch, seed=seed)
        for _ in train(objective, stream, shape.plan, adamw(objective, shape.plan)):
            pass

    for seed in range(runs):
        side_by_side.start(partial(fine_tune, seed=seed))
    for _ in range(warm_up):
        side_by_side.advance()
    begun = time.perf_counter()
    for _ in range(steps):
        side_by_side.advance()
    seconds = time.perf_counter() - begun
    side_by_side.close()
    return runs * steps / seconds


if __name__ == "__main__":
    main()
