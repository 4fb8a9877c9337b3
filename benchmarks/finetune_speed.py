"""Fine-tuning: steps a second and the score on dev, ours beside transformers.Trainer, on BLURB's datasets.

python benchmarks/finetune_speed.py --model MODEL --data DIR --out benchmarks/reports/DATE-finetune-speed.md
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from contestants import EPSILON, WEIGHT_DECAY, Contestant, median, now
from page import head, spread, table, tell, write
from peer import STRATEGIES, CountingTrainer, trainer_arguments
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding, TrainerCallback
from turns import ladder

from acclimate.core.types import TAGS, Batch
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.methods.tuning.head import training_rows
from acclimate.models.classifier import labels_of, load_classifier
from acclimate.models.loading import load_tokenizer
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import dataset_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.rows import encode_rows
from acclimate.tasks.task import sampled
from acclimate.text.streams import rows_stream
from acclimate.training.loop import Step, adamw, train
from acclimate.training.plan import Plan, device

OURS = [Contestant("acclimate", "pieces", "bfloat16"), Contestant("acclimate", "pieces", "float32")]
THEIRS = [
    Contestant("Trainer", "padded", "bfloat16"),
    Contestant("Trainer", "padded", "float32"),
    Contestant("Trainer", "grouped", "bfloat16"),
    Contestant("Trainer", "grouped", "float32"),
    Contestant("Trainer", "sorted", "bfloat16"),
    Contestant("Trainer", "sorted", "float32"),
]
DUELS = [(OURS[0], THEIRS[place]) for place in (0, 2, 4, 1)] + [(OURS[1], THEIRS[place]) for place in (1, 3, 5)]
LADDERS = [(*THEIRS[place::2], OURS[place]) for place in range(2)]  # from a Trainer that knows no trick to ours
SCORED = (OURS[0], THEIRS[0])  # these train to the end, the others for --short steps
WARMUP = 0.1


@dataclass(frozen=True)
class Work:
    """What all contestants train on, and how."""

    task: Prepared
    model: str
    tokenizer: Any
    rows: Batch
    dev: Batch
    batch: int
    steps: int
    rate: float
    compile: bool


@dataclass
class Run:
    """One training: the steps that were counted, the seconds that they took, and the score on dev where it ended."""

    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0
    positions: int = 0
    dev: float = float("nan")

    @property
    def speed(self) -> float:
        return self.steps / self.seconds


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as directory:
        sections = [_section(name, given, Path(directory)) for name in given.datasets.split(",")]
    where = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {given.threads} threads"
    where += ", torch.compile for both" if given.compile else ""
    facts = [("device", where), ("model", Path(given.model).name)]
    write(given.out, [head("Speed of fine-tuning", facts=facts), _method(given), *sections])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a directory or hub id")
    parser.add_argument("--data", type=Path, required=True, help="folder that `acclimate data fetch blurb` filled")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--datasets", default="BC5-chem,ChemProt", help="names, separated by commas")
    parser.add_argument("--rows", type=int, default=1_000, help="of each train set")
    parser.add_argument("--dev-rows", type=int, default=1_000, help="of each dev set")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16, help="rows of a step")
    parser.add_argument("--epochs", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--rounds", type=int, default=3, help="how often all have their turn, each with another seed")
    parser.add_argument("--short", type=int, default=40, help="steps of those that are timed only")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before the clock starts")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--compile", action="store_true", help="torch.compile for both (give a longer warm-up)")
    parser.add_argument("--contestants", default="*", help="only those whose names fit one of these patterns, by ;")
    return parser.parse_args()


def _section(name: str, given: argparse.Namespace, directory: Path) -> str:
    work = prepared(name, given, directory / name)
    pairs = [each for pair in zip(OURS, THEIRS, strict=False) for each in pair] + THEIRS[len(OURS) :]
    turns = [each for each in pairs if any(fnmatch(_name(each), wanted) for wanted in given.contestants.split(";"))]
    runs: dict[Contestant, list[Run]] = {each: [] for each in turns}
    for seed in range(given.rounds):
        for each in turns if seed % 2 == 0 else turns[::-1]:
            steps = work.steps if each in SCORED else min(given.short, work.steps)
            train_one = _ours if each.who == "acclimate" else _theirs
            done, model = train_one(each, work, steps, given.warm_up, seed)
            if steps == work.steps:
                done.dev = _dev_score(model, work)
            runs[each].append(done)
            tell(f"{name}, round {seed + 1}: {_name(each)}: {done.speed:.2f} steps/s, dev {done.dev:.4f}")
    lengths = work.rows.lengths
    shape = (
        f"{len(work.rows):,} rows of {lengths.mean():.1f} tokens on average (10th, 50th and 90th percentile "
        f"{', '.join(f'{value:.0f}' for value in np.percentile(lengths, (10, 50, 90)))}; longest {lengths.max()}), "
        f"{work.steps:,} steps of {work.batch} rows, rate {work.rate:g}; scored on {len(work.task.examples('dev')):,} "
        f"rows of dev, {work.task.metric.name}."
    )
    return "\n\n".join(
        [f"## {name}", shape, _speeds(runs), "### Ours by theirs", _duels(runs), *_ladders(runs), _scores(runs)]
    )


def prepared(name: str, given: argparse.Namespace, directory: Path) -> Work:
    """Return the dataset, read and encoded for the model. given: arguments of this program"""
    task = dataset_named(name, blurb.DATASETS).task()
    sizes = {"train": given.rows, "dev": given.dev_rows}

    def read(root: Path, split: Any) -> list[Any]:
        examples = task.read(root, split)
        return sampled(examples, sizes[split], 0) if split in sizes else examples

    ready = prepare(replace(task, read=read, max_tokens=given.max_tokens), given.data, directory)
    tokenizer = load_tokenizer(given.model)
    rows, _ = training_rows(ready, tokenizer)
    dev = encode_rows(ready.examples("dev"), tokenizer, ready.max_tokens, ready.kind)
    steps = max(1, round(given.epochs * len(ready.examples("train")) / given.batch))
    return Work(ready, given.model, tokenizer, rows, dev, given.batch, steps, given.rate, given.compile)


def classifier(work: Work, seed: int) -> Any:
    recipe = FinetuneRecipe.presets["papers"]
    return load_classifier(
        work.model,
        work.task.labels,
        kind=work.task.kind,
        seed=seed,
        dropout=recipe.dropout,
        hidden_dropout=recipe.dropout,
    )


def steps_of(model: Any, contestant: Contestant, work: Work, seed: int) -> Iterator[Step]:
    """Yield the steps of our loop that train the classifier."""
    objective = TaskLoss(model)
    plan = Plan(
        steps=work.steps,
        batch=work.batch,
        rate=work.rate,
        warmup=WARMUP,
        weight_decay=WEIGHT_DECAY,
        epsilon=EPSILON,
        precision=contestant.precision,
        compile=work.compile,
        seed=seed,
    )
    return train(objective, rows_stream(work.rows, batch=work.batch, seed=seed), plan, adamw(objective, plan))


def _ours(contestant: Contestant, work: Work, steps: int, warm_up: int, seed: int) -> tuple[Run, Any]:
    model = classifier(work, seed)
    where = device().type
    done, begun = Run(), now(where)
    for step in steps_of(model, contestant, work, seed):
        if step.number == warm_up:
            begun = now(where)
        elif step.number > warm_up:
            done.steps += 1
            done.tokens += step.tokens
            done.positions += step.tokens + step.padded
            done.seconds = now(where) - begun
        if step.number == steps:
            break
    return done, model


def _theirs(contestant: Contestant, work: Work, steps: int, warm_up: int, seed: int) -> tuple[Run, Any]:
    model = classifier(work, seed)
    clock = _Clock(steps, warm_up)
    trainer = trained(model, contestant, work, seed, clock)
    for inputs in trainer.batches[warm_up:steps]:
        clock.done.tokens += int(inputs.lengths.sum())
        clock.done.positions += inputs.positions
    return clock.done, model


def trained(model: Any, contestant: Contestant, work: Work, seed: int, clock: TrainerCallback) -> CountingTrainer:
    """Train the classifier by Trainer until the clock ends it, and return the trainer."""
    collate = DataCollatorForTokenClassification if work.task.kind == "tokens" else DataCollatorWithPadding
    with tempfile.TemporaryDirectory() as directory:
        trainer = CountingTrainer(
            model=model,
            rows=contestant.rows,
            args=trainer_arguments(
                directory,
                batch=work.batch,
                steps=work.steps,
                device=device().type,
                bf16=contestant.precision == "bfloat16",
                torch_compile=work.compile,
                learning_rate=work.rate,
                lr_scheduler_type="linear",
                warmup_steps=round(WARMUP * work.steps),
                seed=seed,
                train_sampling_strategy=STRATEGIES.get(contestant.rows, "random"),
            ),
            train_dataset=list(_features(work.rows)),
            data_collator=collate(work.tokenizer),
            callbacks=[clock],
        )
        trainer.train()
    return trainer


@dataclass
class _Clock(TrainerCallback):
    steps: int
    warm_up: int
    done: Run = field(default_factory=Run)
    begun: float = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if state.global_step == self.warm_up:
            self.begun = now(device().type)
        elif state.global_step > self.warm_up:
            self.done.steps += 1
            self.done.seconds = now(device().type) - self.begun
        if state.global_step == self.steps:
            control.should_training_stop = True


def _features(rows: Batch) -> Iterator[dict[str, Any]]:
    """The very rows that ours trains on, as transformers' collators take them."""
    for row in range(len(rows)):
        part = slice(rows.offsets[row], rows.offsets[row + 1])
        ids = rows.ids[part].tolist()
        label = rows.tokens[TAGS][part].tolist() if TAGS in rows.tokens else int(rows.rows["label"][row])
        yield {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": label}


def _dev_score(model: Any, work: Work) -> float:
    said = predict(model, work.dev, labels_of(model))
    return float(work.task.score([example.label for example in work.task.examples("dev")], said))


def _name(contestant: Contestant) -> str:
    return contestant.name.rpartition(", ")[0]


def _speeds(runs: dict[Contestant, list[Run]]) -> str:
    rows = [
        (
            _name(each),
            spread([run.speed for run in runs[each]], ".2f"),
            spread([run.tokens / run.seconds for run in runs[each]]),
            f"{median([1 - run.tokens / run.positions for run in runs[each]]):.1%}",
            sum(run.steps for run in runs[each]),
        )
        for each in sorted(runs, key=[*OURS, *THEIRS].index)
    ]
    return table(("contestant", "steps/s: median (least to most)", "real tokens/s", "padding", "steps"), rows)


def _duels(runs: dict[Contestant, list[Run]]) -> str:
    rows = []
    for ours, theirs in DUELS:
        if ours in runs and theirs in runs:
            pairs = zip(runs[ours], runs[theirs], strict=True)
            ratios = [mine.tokens / mine.seconds / (other.tokens / other.seconds) for mine, other in pairs]
            rows.append((_name(ours), _name(theirs), spread(ratios, ".2f")))
    return table(("ours", "theirs", "real tokens/s by real tokens/s within a round: median (least to most)"), rows)


def _ladders(runs: dict[Contestant, list[Run]]) -> list[str]:
    whole = [names for names in LADDERS if all(each in runs for each in names)]
    speeds = [{_name(each): [run.tokens / run.seconds for run in runs[each]] for each in names} for names in whole]
    return ["### What closes the gap", *map(ladder, speeds)] if speeds else []


def _scores(runs: dict[Contestant, list[Run]]) -> str:
    rows = [
        (_name(each), f"{np.mean(found):.2f}", f"{np.std(found, ddof=1) if len(found) > 1 else float('nan'):.2f}", said)
        for each in SCORED
        if each in runs
        for found in [[100 * run.dev for run in runs[each]]]
        for said in [", ".join(f"{value:.2f}" for value in found)]
    ]
    return table(("trained to the end", "dev: mean", "standard deviation over seeds", "seeds"), rows)


def _method(given: argparse.Namespace) -> str:
    return f"""## What is measured

Both train the same classifier (the same checkpoint, the same head for the same seed) on the very same encoded rows,
{given.batch} a step, with fused AdamW, the rate rising over {WARMUP:.0%} of the steps and falling to 0, gradients
clipped at 1, dropout .1. *Trainer* is `transformers.Trainer` without logging, saving or reporting: *padded* to the
longest row of the batch, as it does by itself; *grouped*, with `train_sampling_strategy="group_by_length"`, its
batches in random order; or *sorted*, as an expert would have it: batches of rows of like length out of all rows.
bf16 is autocast; weights and optimiser stay in float32. Ours packs the rows of a step into
lines that several of them share (`src/acclimate/training/pieces.py`). The clock starts after {given.warm_up} steps. In
each of {given.rounds} rounds all have one turn, every second round in reverse order; a round has one seed. Whoever is
scored trains to the end, the others {given.short} steps. Seconds are the processor's on a CPU, the clock's on a GPU.
The scores on dev are of one and the same prediction code."""


if __name__ == "__main__":
    main()
