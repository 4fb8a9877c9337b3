"""Masked language modelling: do ours and transformers.Trainer learn alike? Held-out loss by step, several seeds each.

python benchmarks/mlm_curve.py --corpus general_corpus.jsonl.zst --out benchmarks/reports/2026-11-20-mlm-curve.md
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from contestants import our_plan
from material import LONGEST, Material, how, lengths_line, model_of, prepare
from page import head, table, tell, write
from peer import CountingTrainer, trainer_arguments
from transformers import DataCollatorForLanguageModeling, TrainerCallback

from acclimate.core.types import Batch
from acclimate.text.streams import evaluation_batches, masked_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pack, pad
from acclimate.training.plan import device

WARM_UP = 0.06
OURS, THEIRS, BEST = "acclimate, fp32", "Trainer padded, fp32", "acclimate, bf16, no attention dropout"

Curve = dict[int, float]  # steps done -> held-out loss


def main() -> None:
    given = arguments()
    if given.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # ours takes a GPU wherever it sees one
    torch.set_num_threads(given.threads)
    transformers.logging.set_verbosity_error()
    points = {max(1, round(given.steps * share)) for share in (0.1, 0.25, 0.5, 0.75, 1)}
    curves: dict[str, list[Curve]] = {OURS: [], THEIRS: [], BEST: []}
    tokens: dict[str, list[int]] = {name: [] for name in curves}
    with tempfile.TemporaryDirectory() as directory:
        material = prepare(given.corpus, Path(directory), texts=given.texts, vocabulary=given.vocabulary)
        batches = evaluation_batches(
            material.heldout, batch=64, longest=LONGEST, seed=0, whole_words=False, segments_at_most=given.heldout
        )
        for seed in range(given.seeds):
            for name in (OURS, THEIRS, BEST):
                begun = time.monotonic()
                run = _trainer if name == THEIRS else _ours
                curve, seen = run(given, material, batches, points, seed, best=name == BEST)
                curves[name].append(curve)
                tokens[name].append(seen)
                tell(f"seed {seed}: {name}: loss {curve[given.steps]:.4f} in {time.monotonic() - begun:.0f} s")
        facts = [
            ("training", f"BERT {given.size}, {given.steps} steps of {given.batch} rows, rate {given.rate:g}"),
            ("rows", lengths_line(material.rows)),
            ("vocabulary", f"{len(material.tokenizer):,} word pieces, learnt from these texts"),
            ("seeds", str(given.seeds)),
        ]
    write(
        given.out,
        [head("Loss curves of masked language modelling", facts=facts), _method(given), _found(curves, tokens)],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--size", default="2x128", help="layers x hidden width")
    parser.add_argument(
        "--texts", type=int, default=20_000, help="how many of the corpus to use; a twentieth is held out"
    )
    parser.add_argument("--vocabulary", type=int, default=8_000, help="word pieces")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--heldout", type=int, default=1_000, help="rows to evaluate on at most")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    return parser.parse_args()


def _ours(
    given: argparse.Namespace, material: Material, batches: list[Batch], points: set[int], seed: int, *, best: bool
) -> tuple[Curve, int]:
    """The held-out loss at the points, and the real tokens trained on."""
    model = model_of(given.size, material, seed=seed, attention_dropout=0.0 if best else 0.1)
    precision = "bfloat16" if best else "float32"
    plan = our_plan(given.batch, given.steps, precision, warmup=WARM_UP, rate=given.rate, seed=seed)
    stream = masked_stream(material.training, batch=given.batch, longest=LONGEST, seed=seed, whole_words=False)
    objective = MaskedLanguageLoss(model)
    curve, tokens = {}, 0
    for step in train(objective, stream, plan, adamw(objective, plan)):
        tokens += step.tokens
        if step.number in points:
            curve[step.number] = heldout_loss(model, batches)
    return curve, tokens


def _trainer(
    given: argparse.Namespace, material: Material, batches: list[Batch], points: set[int], seed: int, **_: Any
) -> tuple[Curve, int]:
    model = model_of(given.size, material, seed=seed)
    evaluation = _Evaluation(model, batches, points)
    with tempfile.TemporaryDirectory() as directory:
        trainer = CountingTrainer(
            model=model,
            args=trainer_arguments(
                directory,
                batch=given.batch,
                steps=given.steps,
                device=given.device,
                learning_rate=given.rate,
                lr_scheduler_type="linear",
                warmup_steps=round(WARM_UP * given.steps),
                seed=seed,
            ),
            train_dataset=material.rows,
            data_collator=DataCollatorForLanguageModeling(material.tokenizer, mlm_probability=0.15),
            callbacks=[evaluation],
        )
        trainer.train()
    return evaluation.curve, int(sum(inputs.lengths.sum() for inputs in trainer.batches))


@dataclass
class _Evaluation(TrainerCallback):
    model: torch.nn.Module
    batches: list[Batch]
    points: set[int]
    curve: Curve = field(default_factory=dict)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step in self.points:
            self.curve[state.global_step] = heldout_loss(self.model, self.batches)


@torch.no_grad()
def heldout_loss(model: Any, batches: list[Batch]) -> float:
    """Mean loss, in nats a masked sub-word, in fp32 and without dropout; the model is left in training mode."""
    objective = MaskedLanguageLoss(model).eval()
    total = count = 0.0
    for batch in batches:
        count += objective.counts(batch)["mlm"]
        for piece in pack(batch.lengths, 2_048):
            total += float(objective(pad(batch, piece, device()))["mlm"])
    model.train()
    return total / count


def _found(curves: dict[str, list[Curve]], tokens: dict[str, list[int]]) -> str:
    rows = []
    for point in sorted(curves[OURS][0]):
        values = {name: np.array([curve[point] for curve in found]) for name, found in curves.items()}
        difference = values[OURS] - values[THEIRS]
        cells = [f"{loss.mean():.4f} +- {_deviation(loss):.4f}" for loss in values.values()]
        noise = _noise(values[OURS], values[THEIRS])
        rows.append((point, *cells, f"{difference.mean():+.4f} +- {_deviation(difference):.4f}", f"{noise:.4f}"))
    names = ("steps", *curves, "ours - Trainer in fp32, seed by seed", "seed noise")
    counted = ", ".join(f"{name} {np.mean(seen):,.0f}" for name, seen in tokens.items())
    title = "## Held-out loss, nats a masked sub-word"
    return f"{title}\n\n{table(names, rows)}\n\nReal tokens trained on, a seed: {counted}."


def _noise(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Standard error of a difference of means over the seeds."""
    return float(np.sqrt((_deviation(ours) ** 2 + _deviation(theirs) ** 2) / len(ours)))


def _deviation(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _method(given: argparse.Namespace) -> str:
    return f"""## What is measured

{how(3)}

Ours and `transformers.Trainer` (padded to the longest row of the batch) start from the same random weights for each
seed and train on the same rows, each in another random order: {given.steps} steps, 15% of the sub-words predicted
(80/10/10), dropout 0.1 of hidden states and attention, AdamW with weight decay 0.01, gradients clipped at 1, the rate
rising over the first {WARM_UP:.0%} of the steps and falling linearly to 0 (Trainer's first step has rate 0, ours has
not:
Trainer is a step behind while the rate rises). The last contestant is ours at its fastest settings, bf16 autocast
without attention dropout. All are evaluated on the same held-out rows under the same masks, in
fp32. +- is the standard deviation over seeds; *seed noise* the standard error of the difference between the means of
two contestants whose seeds differ."""


if __name__ == "__main__":
    main()
