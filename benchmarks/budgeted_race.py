"""Does a budgeted race find the full grid's best encoder? Both for real, in separate directories, on labelled files.

python benchmarks/budgeted_race.py --model runs/base/checkpoint --task papers=papers/ --task chemistry=chemistry/ \\
    --work runs/budget --out benchmarks/reports/2026-11-20-budgeted-race.md

A task is a folder with train.csv, dev.csv and test.csv and, in `corpus/`, raw text of the domain.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from page import head, table, tell, write

from acclimate.core import settings
from acclimate.core.figures import si
from acclimate.data.inputs import Raw, gather
from acclimate.jobs.job import RESULT
from acclimate.races.budget import Budget
from acclimate.races.cost import costs_of
from acclimate.races.race import run_race
from acclimate.races.recipe import RaceRecipe, for_model
from acclimate.races.report import RaceReport, write_race_pages
from acclimate.tasks.labelled import LabelledFiles

COLUMNS = (
    "task",
    "race",
    "best encoder",
    "its setting",
    "dev",
    "test",
    "against the grid's",
    "training",
    "of the grid's",
    "seconds, of the grid's",
    "fine-tunings",
)


@dataclass(frozen=True)
class Ended:
    """One race. test: of the best encoder, the mean over seeds; flops, seconds: of all its jobs; tunings: in full."""

    report: RaceReport
    setting: str
    dev: float
    test: float
    flops: float
    seconds: float
    tunings: int


def main() -> None:
    given = arguments()
    logging.basicConfig(level=logging.WARNING)
    recipe = settings.override(for_model(), given.settings)
    rows, verdicts = [], []
    for name, folder in (task.split("=", 1) for task in given.task):
        grid = _race(given, name, Path(folder), replace(recipe, search=replace(recipe.search, how="grid")), None)
        budget = Budget(given.share * grid.flops, "flops", f"{given.share * grid.flops:.3g}flop")
        halved = _race(given, name, Path(folder), replace(recipe, search=replace(recipe.search, how="halving")), budget)
        rows += [_row(name, "grid", grid, grid), _row(name, f"budget, {given.share:.0%}", halved, grid)]
        verdicts.append(f"* {name}, grid: {grid.report.verdict}\n* {name}, budget: {halved.report.verdict}")
        tell("\n".join(" | ".join(map(str, row)) for row in rows[-2:]))
    facts = [
        ("contestants", f"untouched, {', '.join(recipe.names(domain=True, general=False))}"),
        ("settings and seeds", f"{len(recipe.settings())} and {recipe.seeds}"),
        ("settings", " ".join(given.settings)),
    ]
    write(
        given.out,
        [
            head("A budgeted race against the full grid", facts=facts),
            "Test scores are means over the seeds of the encoder that dev chose, in points. Training is adapting and "
            "fine-tuning, in FLOP by formula, which other work on the machine does not change; seconds are those of "
            "all jobs. Fine-tunings: those that went to the end.\n",
            table(COLUMNS, rows),
            "\n## What the races say\n",
            *verdicts,
        ],
    )


def _race(given: argparse.Namespace, name: str, folder: Path, recipe: RaceRecipe, budget: Budget | None) -> Ended:
    run = given.work / name / ("grid" if budget is None else "budget")
    files = {split: folder / f"{split}.csv" for split in ("train", "dev", "test")}
    labelled = LabelledFiles(
        **files, text=given.text, label=given.label, metric=given.metric, max_tokens=given.max_tokens
    )
    corpus = folder / "corpus"
    materials = gather(run, labelled, Raw(domain=corpus if corpus.is_dir() else None), model=given.model)
    estimator = costs_of("flops") if budget else None
    run_race(recipe, materials, run, command="benchmark", budget=budget, estimator=estimator)
    report = write_race_pages(run)
    name = report.facts.encoder
    best = [score for score in report.outcome.scores if score.contestant == name]
    chosen = [trial.setting for trial in report.outcome.trials if trial.contestant == name and trial.kept]
    return Ended(
        report=report,
        setting=chosen[-1] if chosen else recipe.settings()[0].name,
        dev=float(np.mean([score.dev for score in best])),
        test=float(np.mean([score.test for score in best])),
        flops=Budget(1, "flops", "").spent(run),
        seconds=Budget(1, "seconds", "").spent(run),
        tunings=len(list((run / "jobs").glob(f"fine-tune*/{RESULT}"))),
    )


def _row(task: str, race: str, budgeted: Ended, grid: Ended) -> list[Any]:
    return [
        task,
        race,
        budgeted.report.facts.encoder,
        budgeted.setting,
        f"{100 * budgeted.dev:.1f}",
        f"{100 * budgeted.test:.1f}",
        f"{100 * (budgeted.test - grid.test):+.1f}",
        si(budgeted.flops, "FLOP"),
        f"{budgeted.flops / grid.flops:.0%}",
        f"{budgeted.seconds / grid.seconds:.0%}",
        budgeted.tunings,
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--work", type=Path, required=True, help="where the races run; the same again goes on there")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.33, help="budget, as a share of what the grid took")
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--metric", default="")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("settings", nargs="*", help="settings of the race, key=value")
    return parser.parse_args()


if __name__ == "__main__":
    main()
