"""Which fine-tuning serves encoders of several sizes on tasks of several kinds: scores on test, chosen on dev.

    python benchmarks/fine_tuning.py RUNS.jsonl --encoders small=DIR MiniLM=DIR --tasks arxiv=DIR ACL-ARC=DIR \
        --recipes papers robust robust,head=fresh robust,plan.rate=9e-5 --seeds 3
    python benchmarks/fine_tuning.py RUNS.jsonl --recipes papers robust --report benchmarks/reports/DATE-fine-tuning.md

DIR of a task    a folder that `acclimate data prepare` wrote
RECIPE           a preset of fine-tuning, then settings on top of it, with commas between them, or "loop", a plain loop
                 on train and dev, or "loop-no-dev" (plain_loop.py); all are compared with the first, and a report has
                 those that are stated

RUNS.jsonl gets a line for each run, named by encoder, its weights, task, recipe and seed. Runs that it has are not done
again, so the same command goes on with a run that was killed, or that another machine began. Seeds are the outermost
loop: an unfinished matrix is a matrix of fewer seeds. The frozen probe of each encoder and task stands beside them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import plain_loop
from page import head, processor, table, write

from acclimate.core import files, settings
from acclimate.core.types import unwatched
from acclimate.methods import finetune, probe
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.methods.tuning.looks import DEV, LEARNT, last_attempt
from acclimate.models.loading import identity
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.prepared import Prepared, open_prepared

PROBE = "probe"


@dataclass(frozen=True)
class Run:
    """What a line of the file is named by."""

    encoder: str
    weights: str  # identity of the encoder, cut to 12 digits
    task: str
    recipe: str
    seed: int


def recipe_named(text: str) -> FinetuneRecipe:
    preset, *stated = text.split(",")
    return settings.override(FinetuneRecipe.presets[preset], [f"preset={preset}", *stated])


def fine_tune(name: str, model: Path, task: Path, seed: int) -> dict[str, Any]:
    """Return the scores of a fine-tuning with this seed, tested."""
    if name in plain_loop.RECIPES:
        return plain_loop.run(name, model, task, seed)
    recipe = recipe_named(name)
    recipe = replace(recipe, model=str(model), task=task, plan=replace(recipe.plan, seed=seed))
    begun, seconds = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        score = finetune.evaluate(recipe, out)
        dev = files.read_record(last_attempt(out) / DEV)
        learnt = files.read_record(out / LEARNT)
        seconds = round(time.process_time() - seconds, 1)
    return {
        "dev": score.dev,
        "test": score.test,
        "learnt": learnt["learnt"],
        "again": learnt["again"],
        "steps": dev[-1][0],
        "tokens": score.finetuning.tokens,
        "processor seconds": seconds,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def run_probe(model: Path, folder: Path) -> dict[str, Any]:
    task, seconds = open_prepared(folder), time.process_time()
    found = probe.probe(str(model), task)
    tested = probe.test_probe(found.layer, str(model), task, by="benchmark", precision="float32", watch=unwatched)
    return {
        "dev": found.dev,
        "test": tested["test"],
        "constant": constant_on_dev(task),
        "read out": found.layer.read_out,
        "processor seconds": round(time.process_time() - seconds, 1),
    }


def read(path: Path) -> dict[Run, dict[str, Any]]:
    """Return the runs of the file. Raises ValueError for a line that was cut off."""
    done: dict[Run, dict[str, Any]] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines() if path.exists() else [], 1):
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number}: {error}. Remove this line: its run is done again") from error
        done[Run(**{name: values.pop(name) for name in Run.__dataclass_fields__})] = values
    return done


def append(path: Path, run: Run, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({**run.__dict__, **values, "processor": processor()})
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    print(line, flush=True)


def named(entries: list[str]) -> dict[str, Path]:
    return {name: Path(path) for name, _, path in (entry.partition("=") for entry in entries)}


def report(done: dict[Run, dict[str, Any]], recipes: list[str]) -> Iterator[str]:
    """The lines of the report: a table of scores, then each recipe against the first, over the seeds that both have."""
    first = recipes[0]
    rows, gains = [], {recipe: [] for recipe in recipes}
    for place in sorted({(run.encoder, run.weights, run.task) for run in done if run.recipe in recipes}):
        here = {run: values for run, values in done.items() if (run.encoder, run.weights, run.task) == place}
        probes = [100 * values["test"] for run, values in here.items() if run.recipe == PROBE]
        row = [place[0], place[2], f"{probes[0]:.1f}" if probes else ""]
        scores = {
            recipe: {run.seed: 100 * values["test"] for run, values in here.items() if run.recipe == recipe}
            for recipe in recipes
        }
        for recipe in recipes:
            runs = [values for run, values in here.items() if run.recipe == recipe]
            if not runs:
                row.append("")
                continue
            tests = [*scores[recipe].values()]
            spread = f" ± {statistics.stdev(tests):.1f}" if len(tests) > 1 else ""
            failed, again = sum(not each["learnt"] for each in runs), sum(each["again"] for each in runs)
            remarks = [f"{failed} learnt nothing"] * bool(failed) + [f"{again} made again"] * bool(again)
            steps = f"{statistics.mean(each['steps'] for each in runs):.0f} steps"
            row.append(f"{statistics.mean(tests):.1f}{spread} ({len(runs)}; {', '.join([steps, *remarks])})")
            if both := scores[recipe].keys() & scores[first].keys():
                mean, other = (statistics.mean(scores[name][seed] for seed in both) for name in (recipe, first))
                gains[recipe] += [(mean - other, mean - probed) for probed in probes]
        rows.append(row)
    yield table(["encoder", "task", PROBE, *recipes], rows)
    yield ""
    compared = [
        [
            recipe,
            str(len(pairs)),
            f"{statistics.mean(gain for gain, _ in pairs):+.1f}",
            f"{min(gain for gain, _ in pairs):+.1f}",
            f"{statistics.mean(over for _, over in pairs):+.1f}",
            f"{min(over for _, over in pairs):+.1f}",
        ]
        for recipe, pairs in gains.items()
        if pairs
    ]
    yield table(
        ["recipe", "cells", f"mean over {first}", f"least over {first}", "mean over the probe", "least over the probe"],
        compared,
    )


def refuse_another_preparation(done: dict[Run, dict[str, Any]], tasks: dict[str, Path]) -> None:
    """Raises ValueError where lines of a task's name are of other rows or of another metric than the task."""
    for name, folder in tasks.items():
        constant, data = constant_on_dev(task := open_prepared(folder)), data_of(task)
        for run, values in done.items():
            if run.task == name and (
                values.get("data", data) != data or not math.isclose(values.get("constant", constant), constant)
            ):
                raise ValueError(
                    f"{folder} differs in rows or metric from the task that {run} was run on. Give it another name"
                )


def data_of(task: Prepared) -> str:
    return settings.digest([task.hashes[part] for part in ("about", "train", "dev", "test")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--encoders", nargs="+", default=[])
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--recipes", nargs="+", default=["papers", "robust"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    done = read(given.runs)
    if given.report:
        write(given.report, [head(__doc__.splitlines()[0]), *report(done, given.recipes)])
        return
    for recipe in set(given.recipes) - plain_loop.RECIPES.keys():
        recipe_named(recipe)  # a misspelt setting is refused before anything runs
    models, tasks = named(given.encoders), named(given.tasks)
    refuse_another_preparation(done, tasks)
    weights = {encoder: identity(model)[:12] for encoder, model in models.items()}
    wanted = [(PROBE, 0), *((recipe, seed) for seed in range(given.seeds) for recipe in given.recipes)]
    for recipe, seed in wanted:
        for encoder, model in models.items():
            for task, folder in tasks.items():
                run = Run(encoder, weights[encoder], task, recipe, seed)
                if run not in done:
                    scores = run_probe(model, folder) if recipe == PROBE else fine_tune(recipe, model, folder, seed)
                    append(given.runs, run, {**scores, "data": data_of(open_prepared(folder))})


if __name__ == "__main__":
    main()
