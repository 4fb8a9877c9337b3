"""PubMedBERT's Table 7 at a small size: general and own vocabulary, word pieces and whole words masked, from scratch;
and going on from a general model, with its vocabulary and with 1,000 words of the domain more. All of equal compute in
tokens, fine-tuned on tasks with several seeds.

python benchmarks/scratch_square.py --domain domain/ --general general/ --data blurb --task NCBI-disease \\
    --task ChemProt --task rct=folder/ --work runs/square --out benchmarks/reports/$(date -I)-square.md vocabulary=8000

A task is a dataset of `--data`, or NAME=FOLDER with train.jsonl, dev.jsonl and test.jsonl. The same command goes on
where it was stopped. Settings are those of `scratch`; `--tune` those of a race (finetune.*, search.*).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from page import head, table, tell, write

from acclimate.core import files, settings
from acclimate.core.types import Progress, Score
from acclimate.data.inputs import Raw
from acclimate.data.materials import Materials, corpus_at
from acclimate.methods import extend, scratch
from acclimate.race import race
from acclimate.race.outcome import read_scores
from acclimate.race.race import run_race
from acclimate.race.recipe import RaceRecipe, heeded
from acclimate.report.table import difference_text, interval_text
from acclimate.statistics.significance import compare, interval
from acclimate.tasks.labelled import Own
from acclimate.tasks.metrics import metric_named
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan

GENERAL = "general text"
GOES_ON, HALVES = "goes on from general text", "half general, then half domain"
EXTENDED = "goes on from general text, vocabulary extended"
OWN, OTHER = "own vocabulary", "general vocabulary"
PIECES, WORDS = "word pieces", "whole words"
SQUARE = tuple(f"{vocabulary}, {masking}" for vocabulary in (OTHER, OWN) for masking in (PIECES, WORDS))
BEST = f"{OWN}, {WORDS}"
SHAPE = ("layers", "hidden", "heads", "size", "architecture", "initializer_range")
LEARNING = ("vocabulary", "lower", "kind")
MODELS = (*SQUARE, GOES_ON, EXTENDED, HALVES, GENERAL)
# what the paper finds (Table 7; section 3.2 for the last two): the first is better than the second
ORDERINGS = (
    (f"{OTHER}, {WORDS}", f"{OTHER}, {PIECES}"),
    (f"{OWN}, {WORDS}", f"{OWN}, {PIECES}"),
    (f"{OWN}, {PIECES}", f"{OTHER}, {PIECES}"),
    (f"{OWN}, {WORDS}", f"{OTHER}, {WORDS}"),
    (BEST, GOES_ON),
    (BEST, HALVES),
    (EXTENDED, GOES_ON),  # not in the paper
)
STATED = scratch.ScratchRecipe(
    vocabulary=8_000,
    layers=2,
    hidden=128,
    heads=2,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.08,
    tokens=20_000_000,
    plan=Plan(batch=64, rate=2e-3, warmup=0.1),
)


@dataclass(frozen=True)
class Texts:
    domain: Path
    general: Path
    heldout: Path


def main() -> None:
    given = arguments()
    texts = _texts(given)
    stated = settings.override(STATED, given.settings)
    usual = RaceRecipe(seeds=given.seeds, contestants=())  # a race's own settings for small models
    tuned = heeded(settings.override(usual, given.tune), usual)
    made = {name: _pretrained(name, stated, texts, given.work) for name in given.models}
    scores = {
        name: {task: _scored(given, tuned, name, path, task) for task in given.task} for name, path in made.items()
    }
    facts = [
        ("settings", " ".join(given.settings)),
        ("fine-tuning", f"{tuned.seeds} seeds, {' '.join(given.tune)}"),
        ("tokens of each model, stated", f"{stated.tokens:,}"),
    ]
    write(
        given.out,
        [
            head("Vocabulary and masking from scratch", facts=facts),
            _pretraining(made),
            _results(scores),
            _orderings(scores),
        ],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", default=[], help="of scratch, key=value")
    parser.add_argument("--domain", type=Path, required=True, help="raw text of the domain")
    parser.add_argument("--general", type=Path, required=True, help="raw text of no domain")
    parser.add_argument("--heldout", type=Path, help="domain text that nobody trains on, for the losses")
    parser.add_argument("--task", action="append", required=True, help="a dataset of --data, or NAME=FOLDER")
    parser.add_argument("--data", type=Path, help="the folder of the datasets")
    parser.add_argument("--rows", type=int, default=0, help="so many training rows of a task at most; 0: all")
    parser.add_argument("--tune", action="append", default=[], help="a setting of fine-tuning, key=value")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--work", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    return parser.parse_intermixed_args()


def _texts(given: argparse.Namespace) -> Texts:
    """As corpora; without --heldout nothing is looked at."""
    named = {name: getattr(given, name) for name in ("domain", "general", "heldout")}
    return Texts(**{name: corpus_at(at, given.work / name).path if at else Path() for name, at in named.items()})


def _pretrained(name: str, stated: scratch.ScratchRecipe, texts: Texts, work: Path) -> Path:
    """The directory of the model of this name, made with all that it needs; what is there already is taken."""
    out = work / "models" / name.replace(", ", "-").replace(" ", "-")
    tell(f"pretraining: {name}")
    watch = partial(_tell, name)
    recipe = replace(stated, corpus=texts.domain, dev=texts.heldout)
    general = partial(_pretrained, GENERAL, stated, texts, work)
    if name == GENERAL:
        recipe = replace(recipe, corpus=texts.general)
    elif name == GOES_ON:
        recipe = _from(general(), recipe)
    elif name == EXTENDED:
        words = extend.ExtendRecipe(model=str(general() / "checkpoint"), corpus=texts.domain)
        extend.adapt(words, work / "models" / "extended", watch=watch)
        recipe = _from(work / "models" / "extended", recipe)
    elif name == HALVES:
        half = replace(recipe, tokens=recipe.tokens // 2)
        first = replace(half, corpus=texts.general, tokenizer=str(general() / "checkpoint"), **_usual(*LEARNING))
        scratch.adapt(first, work / "models" / "half-general", watch=watch)
        recipe = _from(work / "models" / "half-general", half)
    else:
        vocabulary, masking = name.split(", ")
        recipe = replace(recipe, whole_words=masking == WORDS)
        if vocabulary == OTHER:
            recipe = replace(recipe, tokenizer=str(general() / "checkpoint"), **_usual(*LEARNING))
    scratch.adapt(recipe, out, watch=watch)
    return out


def _from(model: Path, recipe: scratch.ScratchRecipe) -> scratch.ScratchRecipe:
    return replace(recipe, model=str(model / "checkpoint"), **_usual(*SHAPE, *LEARNING))


def _usual(*names: str) -> dict[str, Any]:
    """The defaults of what is not read where a vocabulary or a model is given."""
    return {field.name: field.default for field in fields(scratch.ScratchRecipe) if field.name in names}


def _scored(given: argparse.Namespace, tuned: RaceRecipe, name: str, model: Path, task: str) -> list[Score]:
    """Of each seed, under the model's name."""
    called, _, folder = task.partition("=")
    run = given.work / "tasks" / called / model.name
    tell(f"fine-tuning on {called}: {name}")
    chosen = {"model": str(model / "checkpoint"), "rows": given.rows}
    if folder:
        splits = {split: Path(folder) / f"{split}.jsonl" for split in ("train", "dev", "test")}
        found: Materials = race.materials_of(Own(**splits), Raw(), run, tuned, **chosen)
    else:
        found = race.materials_of(Own(train=Path(called)), Raw(), run, tuned, **chosen, data=given.data)
    run_race(tuned, found, run, command="benchmark")
    return [replace(score, contestant=name) for score in read_scores(run) if score.contestant == "untouched"]


def _pretraining(made: Mapping[str, Path]) -> str:
    rows = []
    for name, path in made.items():
        log = read_log(path)
        looks = files.read_json(path / "curve.json") if (path / "curve.json").exists() else []
        dev = f"{looks[0]['dev']['mlm']:.3f} to {looks[-1]['dev']['mlm']:.3f}" if looks else "-"
        cost = (f"{sum(line['tokens'] for line in log):,}", f"{sum(line['flops'] for line in log):.3g}")
        rows.append((name, f"{len(log):,}", *cost, f"{np.mean([line['loss.mlm'] for line in log[-20:]]):.3f}", dev))
    columns = ("model", "steps", "tokens", "FLOP", "loss, last 20 steps", "held-out loss")
    note = "Losses are in nats a predicted piece: they compare models of one vocabulary only.\n"
    return f"## Pretraining\n\n{note}\n{table(columns, rows)}\n"


def _results(scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> str:
    """Test scores, mean over seeds with 95% interval, and the mean over tasks."""
    rows = []
    for name, own in scores.items():
        each = {task: interval(found, _metric(found)) for task, found in own.items()}
        mean = 100 * np.mean([found.mean for found in each.values()])
        rows.append((name, *(interval_text(found) for found in each.values()), f"{mean:.2f}"))
    tasks = [task.partition("=")[0] for task in next(iter(scores.values()))]
    return f"## Test scores\n\n{table(('model', *tasks, 'mean'), rows)}\n"


def _orderings(scores: Mapping[str, Mapping[str, Sequence[Score]]]) -> str:
    """Which of the paper's orderings appear: differences by task, paired over test items and seeds."""
    rows = []
    for better, worse in [pair for pair in ORDERINGS if scores.keys() >= {*pair}]:
        found = {
            task: compare(scores[better][task], scores[worse][task], _metric(own))
            for task, own in scores[worse].items()
        }
        mean = 100 * np.mean([each.difference for each in found.values()])
        rows.append((f"{better} - {worse}", *(difference_text(each) for each in found.values()), f"{mean:+.2f}"))
    tasks = [task.partition("=")[0] for task in next(iter(scores.values()))]
    note = (
        "In the paper each of these differences is above 0, but for an extended vocabulary, which it does not have.\n"
    )
    return f"## The paper's orderings\n\n{note}\n{table(('difference', *tasks, 'mean'), rows)}\n"


def _metric(scores: Sequence[Score]) -> Any:
    return metric_named(scores[0].metric)


def _tell(name: str, progress: Progress) -> None:
    if progress.unit == "steps" and progress.done and progress.done % 200 == 0:
        tell(f"{name}: {progress.done:,} of {progress.total:,} steps, loss {progress.values['loss']:.3f}")


if __name__ == "__main__":
    main()
