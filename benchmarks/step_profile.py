"""Where the time of a step of masked language modelling goes, by operation: ours beside transformers.Trainer.

python benchmarks/step_profile.py --corpus general_corpus.jsonl.zst --out benchmarks/reports/DATE-step-profile.md

The profiler reads the clock, so the machine must be idle.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
import transformers
from contestants import UNENDING, Contestant, matrix_peak, our_plan
from material import LONGEST, Material, lengths_line, model_of, prepare
from page import head, table, write
from peer import STRATEGIES, MaskedHeadTrainer, trainer_arguments
from torch.profiler import ProfilerActivity, profile
from transformers import DataCollatorForLanguageModeling, TrainerCallback

from acclimate.text.streams import masked_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss

# a row of the table -> the profiler's names that belong to it; a name belongs to the first row that it fits
KINDS: dict[str, tuple[str, ...]] = {
    "products of linear layers": ("aten::addmm*", "aten::mm", "mkldnn::_linear*", "aten::mkldnn*", "aten::linear"),
    "products of attention": ("aten::bmm", "aten::baddbmm*", "aten::_scaled_dot_product*"),
    "softmax": ("aten::*softmax*",),
    "dropout": ("aten::bernoulli_", "aten::*dropout*", "aten::random_"),
    "GELU": ("aten::gelu*",),
    "layer normalisation": ("aten::native_layer_norm*",),
    "optimiser, norm of the gradient": ("Optimizer*", "aten::_fused_adamw_", "aten::_foreach*", "aten::linalg_*norm"),
    "additions and products by element": ("aten::add*", "aten::mul*", "aten::div*", "aten::sub*", "aten::where"),
    "sums": ("aten::sum",),
    "copies, casts, gathers, zeros": (
        *("aten::copy_", "aten::cat", "aten::fill_", "aten::zero_", "aten::index*", "aten::embedding*", "aten::empty*"),
        *("aten::masked_fill*", "aten::clone", "aten::contiguous", "aten::_to_copy", "aten::resize_"),
    ),
}
OTHER = "all else: Python, batches, checks"


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    sections = []
    with tempfile.TemporaryDirectory() as directory:
        material = prepare(given.corpus, Path(directory), texts=given.texts, vocabulary=30_522, sentences=0)
        for precision in ("float32", "bfloat16"):
            peak = matrix_peak(precision, "cpu", seconds=2.0)
            ours = of_ours(Contestant("acclimate", "pieces", precision), material, given)
            theirs = of_trainer(Contestant("Trainer", "grouped", precision, head="masked"), material, given)
            rows = [(kind, *(f"{taken[kind]:.1f}" for taken in (ours, theirs))) for kind in [*KINDS, OTHER]]
            rows.append(("**a token**", f"**{ours.total():.0f}**", f"**{theirs.total():.0f}**"))
            products = ours["products of linear layers"] + ours["products of attention"]  # microseconds a token
            rate = given.operations / products * 1e6
            sections += [
                f"## {precision}",
                table(("microseconds a real token", "acclimate", "Trainer grouped with a masked head"), rows),
                f"Matrix peak: {peak / 1e9:.0f} GFLOP/s in a product of two square matrices. Ours needs "
                f"{given.operations / 1e6:.0f} MFLOP of products a token, and has {rate / 1e9:.0f} GFLOP/s in them.",
            ]
        facts = [("rows", lengths_line(material.rows))]
    write(given.out, [head(f"A step of {given.size} by operation", facts=facts), HOW.format(**vars(given)), *sections])


HOW = """## What is measured

{steps} steps of {batch} texts at their natural length, one thread, after 3 to warm up, under PyTorch's profiler, which
reads the clock. Each operation has the time spent in itself, without what it calls; padding's share is in it, because
times are by real tokens. Dropout of ours is a compiled loop that the profiler does not see: it stands with all else.
"""


def of_ours(contestant: Contestant, material: Material, given: argparse.Namespace) -> Counter[str]:
    model = model_of(given.size, material, seed=0, attention_dropout=contestant.attention_dropout)
    objective = MaskedLanguageLoss(model)
    plan = our_plan(given.batch, UNENDING, contestant.precision, warmup=0.0)
    stream = masked_stream(material.training, batch=given.batch, longest=LONGEST, seed=0, whole_words=False)
    steps = train(objective, stream, plan, adamw(objective, plan))
    for _ in range(3):
        next(steps)
    tokens, seconds, flops = 0, 0.0, 0.0
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(given.steps):
            step = next(steps)
            tokens, seconds, flops = tokens + step.tokens, seconds + step.seconds, flops + step.flops
    steps.close()
    given.operations = flops / tokens
    return by_kind(seen, tokens, seconds)


def of_trainer(contestant: Contestant, material: Material, given: argparse.Namespace) -> Counter[str]:
    model = model_of(given.size, material, seed=0, attention_dropout=contestant.attention_dropout)
    clock = _Profiled(given.steps)
    with tempfile.TemporaryDirectory() as directory:
        trainer = MaskedHeadTrainer(
            model=model,
            rows=contestant.rows,
            args=trainer_arguments(
                directory,
                batch=given.batch,
                steps=UNENDING,
                device="cpu",
                bf16=contestant.precision == "bfloat16",
                lr_scheduler_type="constant",
                train_sampling_strategy=STRATEGIES[contestant.rows],
            ),
            train_dataset=material.rows,
            data_collator=DataCollatorForLanguageModeling(material.tokenizer, mlm_probability=0.15),
            callbacks=[clock],
        )
        trainer.train()
    counted = trainer.batches[3 : 3 + given.steps]
    return by_kind(clock.seen, sum(int(inputs.lengths.sum()) for inputs in counted), clock.seconds)


class _Profiled(TrainerCallback):
    """Profiles some steps after the third, then ends the training."""

    def __init__(self, steps: int) -> None:
        self.last, self.seconds = 3 + steps, 0.0
        self.seen = profile(activities=[ProfilerActivity.CPU])

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == 3:
            self.seen.start()
            self.begun = time.perf_counter()
        elif state.global_step == self.last:
            self.seconds = time.perf_counter() - self.begun
            self.seen.stop()
            control.should_training_stop = True


def by_kind(seen: profile, tokens: int, seconds: float) -> Counter[str]:
    """Microseconds a token of each kind of operation."""
    taken: Counter[str] = Counter()
    for operation in seen.key_averages():
        for kind, names in KINDS.items():
            if any(fnmatch(operation.key, name) for name in names):
                taken[kind] += operation.self_cpu_time_total / tokens
                break
    taken[OTHER] = seconds * 1e6 / tokens - taken.total()
    return taken


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--size", default="6x384", help="layers x hidden width")
    parser.add_argument("--texts", type=int, default=3_000, help="how many of the corpus to use")
    parser.add_argument("--batch", type=int, default=16, help="rows of a step")
    parser.add_argument("--steps", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
