"""Where the time of a step goes, by operation: ours beside transformers.Trainer.

python benchmarks/step_profile.py --corpus general_corpus.jsonl.zst --out benchmarks/reports/DATE-step-profile.md
python benchmarks/step_profile.py --finetune BC5-chem --data blurb --model MODEL --out ...

The profiler reads the clock, so the machine must be idle.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import finetune_speed
import torch
import transformers
from contestants import UNENDING, Contestant, matrix_peak, our_plan
from material import LONGEST, lengths_line, model_of, prepare
from page import head, table, write
from peer import STRATEGIES, CountingTrainer, MaskedHeadTrainer, trainer_arguments
from torch.profiler import ProfilerActivity, profile
from transformers import DataCollatorForLanguageModeling, TrainerCallback
from turns import median_ratio, timed

from acclimate.text.streams import masked_stream
from acclimate.training.loop import Step, adamw, train
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
ROUNDS = 30  # steps in which it is measured what is left to save
OTHER = "all else: Python, batches, checks"


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as directory:
        if given.finetune:
            sections, rows, what = of_fine_tuning(given, Path(directory))
        else:
            sections, rows, what = of_pretraining(given, Path(directory))
    title = head(f"A step of {what} by operation", facts=[("rows", lengths_line(rows))])
    write(given.out, [title, HOW.format(**vars(given)), *sections])


HOW = """## What is measured

{steps} steps of {batch} texts at their natural length, one thread, after 3 to warm up, under PyTorch's profiler, which
reads the clock. Each operation has the time spent in itself, without what it calls; padding's share is in it, because
times are by real tokens. Dropout of ours is a compiled loop that the profiler does not see: it stands with all else.
"""


def of_pretraining(given: argparse.Namespace, place: Path) -> tuple[list[str], Any, str]:
    """Return a section for each precision, the rows and what is trained: masked language modelling."""
    assert given.corpus is not None, "--corpus FILE, or --finetune DATASET"
    material = prepare(given.corpus, place, texts=given.texts, vocabulary=30_522, sentences=0)

    def ours(precision: str) -> Iterator[Step]:
        contestant = Contestant("acclimate", "pieces", precision)
        model = model_of(given.size, material, seed=0, attention_dropout=contestant.attention_dropout)
        objective = MaskedLanguageLoss(model)
        plan = our_plan(given.batch, UNENDING, precision, warmup=0.0)
        stream = masked_stream(material.training, batch=given.batch, longest=LONGEST, seed=0, whole_words=False)
        return train(objective, stream, plan, adamw(objective, plan))

    def theirs(precision: str, clock: TrainerCallback) -> CountingTrainer:
        contestant = Contestant("Trainer", "grouped", precision, head="masked")
        trainer = MaskedHeadTrainer(
            model=model_of(given.size, material, seed=0, attention_dropout=contestant.attention_dropout),
            rows=contestant.rows,
            args=trainer_arguments(
                str(place / precision),
                batch=given.batch,
                steps=UNENDING,
                device="cpu",
                bf16=precision == "bfloat16",
                lr_scheduler_type="constant",
                train_sampling_strategy=STRATEGIES[contestant.rows],
            ),
            train_dataset=material.rows,
            data_collator=DataCollatorForLanguageModeling(material.tokenizer, mlm_probability=0.15),
            callbacks=[clock],
        )
        trainer.train()
        return trainer

    return by_precision(ours, theirs, "Trainer grouped with a masked head", given.steps), material.rows, given.size


def of_fine_tuning(given: argparse.Namespace, place: Path) -> tuple[list[str], Any, str]:
    """Return the same of fine-tuning on a dataset of BLURB."""
    assert given.model is not None, "--finetune DATASET needs --data DIR and --model MODEL"
    asked = argparse.Namespace(**{**vars(given), "rows": 1_000, "dev_rows": 20, "max_tokens": LONGEST})
    asked.epochs, asked.rate, asked.compile = 5.0, 2e-4, False
    work = finetune_speed.prepared(given.finetune, asked, place)

    def ours(precision: str) -> Iterator[Step]:
        contestant = Contestant("acclimate", "pieces", precision)
        return finetune_speed.steps_of(finetune_speed.classifier(work, 0), contestant, work, 0)

    def theirs(precision: str, clock: TrainerCallback) -> CountingTrainer:
        contestant = Contestant("Trainer", "sorted", precision)
        return finetune_speed.trained(finetune_speed.classifier(work, 0), contestant, work, 0, clock)

    rows = [{"input_ids": range(length)} for length in work.rows.lengths]
    what = f"{Path(given.model).name} on {given.finetune}"
    return [*by_precision(ours, theirs, "Trainer sorted", given.steps), _bounds(work)], rows, what


def _bounds(work: finetune_speed.Work) -> str:
    """Return a section on what is left to save: steps without the training of word embeddings, or without dropout.

    Both are other trainings. They bound what a cheaper way to do the same could save.
    """

    def frozen(model: Any) -> None:
        model.get_input_embeddings().weight.requires_grad_(False)

    def without_dropout(model: Any) -> None:
        model.config.attention_probs_dropout_prob = 0.0
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0

    changes: dict[str, Callable[[Any], None]] = {
        "as it is": lambda model: None,
        "word embeddings frozen": frozen,
        "no dropout": without_dropout,
    }
    runs: dict[str, Iterator[Step]] = {}
    for name, change in changes.items():
        model = finetune_speed.classifier(work, 0)
        change(model)
        runs[name] = finetune_speed.steps_of(model, Contestant("acclimate", "pieces", "bfloat16"), work, 0)
    clocks = timed(runs, rounds=ROUNDS, warm_up=3)
    taken = {
        name: [1e6 * seconds / tokens for seconds, tokens in zip(clock.processor, clock.tokens, strict=True)]
        for name, clock in clocks.items()
    }
    whole = taken["as it is"]
    rows = [(name, f"{median(each):.0f}", median_ratio(whole, each)) for name, each in taken.items()]
    return "\n\n".join(
        [
            "## What is left to save in bfloat16",
            f"Ours, {ROUNDS} steps of each in turns, processor seconds. Without the training of word "
            "embeddings, or without dropout, it is another training: no way to do the same can save more than that.",
            table(("", "microseconds a token", "as it is by this, within a round [95%]"), rows),
        ]
    )


def by_precision(
    ours: Callable[[str], Iterator[Step]],
    theirs: Callable[[str, TrainerCallback], CountingTrainer],
    called: str,
    steps: int,
) -> list[str]:
    """Return a section for each precision. ours: precision -> steps; theirs: precision and clock -> what has trained"""
    sections = []
    for precision in ("float32", "bfloat16"):
        peak = matrix_peak(precision, "cpu", seconds=2.0)
        mine, operations = of_ours(ours(precision), steps)
        clock = _Profiled(steps)
        counted = theirs(precision, clock).batches[3 : 3 + steps]
        other = by_kind(clock.seen, sum(int(inputs.lengths.sum()) for inputs in counted), clock.seconds)
        rows = [(kind, *(f"{taken[kind]:.1f}" for taken in (mine, other))) for kind in [*KINDS, OTHER]]
        rows.append(("**a token**", f"**{mine.total():.0f}**", f"**{other.total():.0f}**"))
        products = mine["products of linear layers"] + mine["products of attention"]  # microseconds a token
        sections += [
            f"## {precision}",
            table(("microseconds a real token", "acclimate", called), rows),
            f"Matrix peak: {peak / 1e9:.0f} GFLOP/s in a product of two square matrices. With all of its last layer, "
            f"of which it computes what is read, ours would need {operations / 1e6:.0f} MFLOP of products a token, "
            f"and has {operations / products / 1e3:.0f} GFLOP/s by that. At the peak they would take "
            f"{operations / peak * 1e6:.0f} microseconds.",
        ]
    return sections


def of_ours(steps: Iterator[Step], number: int) -> tuple[Counter[str], float]:
    """Return what so many steps after the third take by kind, microseconds a token, and their FLOPs a token."""
    for _ in range(3):
        next(steps)
    tokens, seconds, flops = 0, 0.0, 0.0
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(number):
            step = next(steps)
            tokens, seconds, flops = tokens + step.tokens, seconds + step.seconds, flops + step.flops
    return by_kind(seen, tokens, seconds), flops / tokens


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
    parser.add_argument("--corpus", type=Path, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--finetune", default="", metavar="DATASET", help="of BLURB, in place of language modelling")
    parser.add_argument("--data", type=Path, help="folder that `acclimate data fetch blurb` filled")
    parser.add_argument("--model", help="to fine-tune")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--size", default="6x384", help="layers x hidden width")
    parser.add_argument("--texts", type=int, default=3_000, help="how many of the corpus to use")
    parser.add_argument("--batch", type=int, default=16, help="rows of a step")
    parser.add_argument("--steps", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
