"""Time to equal dev score: a search over three rates, ours and with a transformers.Trainer that an expert set up.

    python benchmarks/time_to_score.py RUNS.jsonl --tasks arxiv=DIR ACL-ARC=DIR --out REPORT.md

DIR is a folder that `acclimate data prepare` wrote, of a task with one label a row. RUNS.jsonl gets a line for each
search, with every look at dev; searches that it has are not done again, so the same command goes on with a run that was
killed. Seeds are the outermost loop. The report has the seeds of which both sides are there.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import permutations, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers as hf
from contestants import median, now
from fine_tuning import Run, append, data_of, named, read, refuse_another_preparation
from page import head, table, write
from peer import trainer_arguments

from acclimate.core.types import Progress, Split
from acclimate.methods.finetune import FinetuneRecipe, adapt, plan_of
from acclimate.models.loading import embedded, identity, load_tokenizer
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import encode_rows
from acclimate.training.plan import autocast_type, device

SIDES = OURS, THEIRS = "ours", "Trainer"
PRESET, RATES = FinetuneRecipe(), (1e-5, 3e-5, 9e-5)
Add = Callable[[float, int, float], None]  # (rate, step, score): keeps a look at dev that has just ended
ORDERS = list(permutations(RATES))  # the first is the order in which both search
COLUMNS = ("Trainer", "seed", "dev: Trainer", "ours", "s to Trainer's dev: Trainer", "ours", "ours by theirs")
COLUMNS = (*COLUMNS, "over six orders: median (least to most)", "s in all: Trainer", "ours")
METHOD = f"""Both search the rates {", ".join(f"{rate:g}" for rate in RATES)}, times (768 / width)^2, in this order,
with {PRESET.plan.batch} rows a step, one thread and, where the processor has it, bf16 autocast. A rate has
{PRESET.looks} looks at all of dev at most. *Ours* is the preset `robust`: its head begins as a probe, and a rate ends
after {PRESET.patience} looks without a better score. *Trainer* has a fresh head, rows grouped by length, fused AdamW,
10% warm-up and a linear fall, for as many steps as ours takes at most, and saves and logs nothing. Seconds are the
processor's of a process that does one search (on a GPU the clock's), without its first imports: loading, tokenising and
looks are inside, and of ours the probe and its files. The target is the best score of Trainer's search with the same
seed. Scores are those of looks, times 100. The sides take turns at going first. With *patience* Trainer's rates end as
ours do. *Over six orders*: the ratio as if the same rates had been tried in each order, from the same looks; what a
search does once, before its first rate, comes first in each."""


class Look(NamedTuple):
    """A look at dev. seconds: of the processor, or on a GPU of the clock, since the search began"""

    rate: float
    step: int
    seconds: float
    dev: float


@dataclass
class Due(hf.TrainerCallback):
    """Lets Trainer evaluate at these steps."""

    steps: set[int]

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Ask for an evaluation where one is due."""
        control.should_evaluate = state.global_step in self.steps


def search(side: str, model: str, folder: Path, seed: int) -> dict[str, Any]:
    """Return all looks, and the seconds. For a process of its own: ours keeps rows and probes for later."""
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    where = device().type
    looks, begun = [], now(where)

    def add(rate: float, step: int, dev: float) -> None:
        looks.append(Look(rate, step, now(where) - begun, dev))

    (search_ours if side == OURS else search_theirs)(model, folder, seed, add)
    return {"seconds": now(where) - begun, "looks": looks}


def search_ours(model: str, folder: Path, seed: int, add: Add) -> None:
    """Fine-tune as acclimate does by default, with each rate."""
    for plan in [replace(PRESET.plan, rate=rate, seed=seed) for rate in RATES]:

        def watch(progress: Progress, rate: float = plan.rate) -> None:
            if "dev" in progress.values:
                add(rate, progress.done, progress.values["dev"])

        with tempfile.TemporaryDirectory() as out:
            adapt(replace(PRESET, model=model, task=folder, plan=plan), Path(out) / "run", watch=watch)


def search_theirs(model: str, folder: Path, seed: int, add: Add) -> None:
    """Fine-tune with Trainer on the same rows, with each rate, for as many steps as ours takes at most."""
    task, tokenizer = open_prepared(folder), load_tokenizer(model)
    train, dev = (features(task, split, tokenizer) for split in ("train", "dev"))

    def scored(found: hf.EvalPrediction) -> dict[str, float]:
        gold, said = ([task.labels[code] for code in codes] for codes in (found.label_ids, found.predictions.argmax(1)))
        add(rate, trainer.state.global_step, task.score(gold, said))
        return {}

    for rate in RATES:
        hf.set_seed(seed)
        classifier = hf.AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(task.labels))
        plan = plan_of(replace(PRESET, plan=replace(PRESET.plan, rate=rate)), len(train), classifier.config.hidden_size)
        due = {round(plan.steps * (look + 1) / PRESET.looks) for look in range(PRESET.looks)}
        more = {"learning_rate": plan.rate, "warmup_steps": round(plan.warmup * plan.steps), "seed": seed}
        more |= {"train_sampling_strategy": "group_by_length", "per_device_eval_batch_size": 32}
        more |= {"bf16": autocast_type("auto", device()) is torch.bfloat16}
        with tempfile.TemporaryDirectory() as out:
            trainer = hf.Trainer(
                model=classifier,
                args=trainer_arguments(out, batch=plan.batch, steps=plan.steps, device=device().type, **more),
                data_collator=hf.DataCollatorWithPadding(tokenizer),
                train_dataset=train,
                eval_dataset=dev,
                compute_metrics=scored,
                callbacks=[Due(due)],
            )
            trainer.remove_callback(hf.PrinterCallback)
            trainer.train()


def features(task: Prepared, split: Split, tokenizer: Any) -> list[dict[str, Any]]:
    """Return the very rows that ours reads, as transformers' collator takes them."""
    rows = encode_rows(examples := task.examples(split), tokenizer, task.max_tokens)
    return [
        {"input_ids": ids.tolist(), "attention_mask": [1] * len(ids), "labels": task.labels.index(str(example.label))}
        for ids, example in zip(np.split(rows.ids, rows.offsets[1:-1]), examples, strict=True)
    ]


def with_patience(looks: Sequence[Look]) -> list[Look]:
    """Return the looks as if each rate had ended after as many without a better score as end ours."""
    kept, spared = [], 0.0
    for rate in RATES:
        of_rate = [look for look in looks if look.rate == rate]
        best = end = 0
        while end < len(of_rate) and end - best <= PRESET.patience:
            best = end if of_rate[end].dev > of_rate[best].dev else best
            end += 1
        kept += [look._replace(seconds=look.seconds - spared) for look in of_rate[:end]]
        spared += of_rate[-1].seconds - of_rate[end - 1].seconds
    return kept


def reordered(looks: Sequence[Look], rates: Sequence[float]) -> list[Look]:
    """Return the looks as if the rates had been tried in this order; what is done once comes before the first."""
    parts, begun = {}, 0.0
    for rate in RATES:
        of_rate = [look for look in looks if look.rate == rate]
        parts[rate] = [look._replace(seconds=look.seconds - begun) for look in of_rate]
        begun = of_rate[-1].seconds
    once = max(0.0, parts[RATES[0]][0].seconds - parts[RATES[1]][0].seconds)
    parts[RATES[0]] = [look._replace(seconds=look.seconds - once) for look in parts[RATES[0]]]
    found, begun = [], once
    for rate in rates:
        found += [look._replace(seconds=begun + look.seconds) for look in parts[rate]]
        begun = found[-1].seconds
    return found


def seconds_to(target: float, looks: Sequence[Look]) -> float:
    """Return the seconds until a look reaches the target; infinite if none does."""
    return min([look.seconds for look in looks if look.dev >= target] or [math.inf])


def shown(value: float, form: str) -> str:
    return "never" if math.isinf(value) else format(value, form)


def section(name: str, pairs: dict[int, list[dict[str, Any]]]) -> str:
    """Return the table of a task. pairs: seed -> the line of ours, and of theirs"""
    rows: list[Sequence[object]] = []
    for title, shorten in (("to the end", list), ("patience", with_patience)):
        for seed, lines in sorted(pairs.items()):
            ours, theirs = ([Look(*look) for look in line["looks"]] for line in lines)
            theirs = shorten(theirs)
            best, target = (max(look.dev for look in looks) for looks in (ours, theirs))
            both = [[seconds_to(target, reordered(looks, rates)) for looks in (theirs, ours)] for rates in ORDERS]
            ratios = [mine / other for other, mine in both]
            scores = f"{100 * target:.2f}", f"{100 * best:.2f}", *(shown(seconds, ".0f") for seconds in both[0])
            middle, least, most = (shown(value, ".2f") for value in (median(ratios), min(ratios), max(ratios)))
            over = f"{middle} ({least} to {most})"
            ends = f"{theirs[-1].seconds:.0f}", f"{lines[0]['seconds']:.0f}"
            rows.append((title, seed, *scores, shown(ratios[0], ".2f"), over, *ends))
    return f"## {name}\n\n{table(COLUMNS, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--model", default=str(embedded()), help="a directory; else the encoder that acclimate brings")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no search begins")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    given, begun = parser.parse_args(), time.perf_counter()
    seeds, tasks, done = range(given.seeds), named(given.tasks), read(given.runs)
    refuse_another_preparation(done, tasks)
    encoder = Path(given.model).name, identity(given.model)[:12]
    for seed, name, turn in product(seeds, tasks, range(2)):
        run = Run(*encoder, name, SIDES[(seed + turn) % 2], seed)
        if run not in done and time.perf_counter() - begun < 60 * given.minutes:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                found = fresh.submit(search, run.recipe, given.model, tasks[name], seed).result()
            done[run] = {**found, "data": data_of(open_prepared(tasks[name]))}
            append(given.runs, run, done[run])
    parts = [head("Time to equal dev score", facts=[("encoder", encoder[0])]), f"## What is measured\n\n{METHOD}\n"]
    for name in tasks:
        both = {n: [done[run] for side in SIDES if (run := Run(*encoder, name, side, n)) in done] for n in seeds}
        parts.append(section(name, {seed: lines for seed, lines in both.items() if len(lines) == 2}))
    write(given.out, parts)


if __name__ == "__main__":
    main()
