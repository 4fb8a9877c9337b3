"""Which fine-tuning serves encoders of several sizes on tasks of several kinds: scores on test, chosen on dev.

    python benchmarks/fine_tuning.py OUT --encoders small=DIR MiniLM=DIR --tasks docstrings=DIR ACL-ARC=DIR \
        --recipes papers robust robust,head=fresh robust,plan.rate=9e-5 --seeds 3
    python benchmarks/fine_tuning.py OUT --report benchmarks/reports/DATE-fine-tuning.md

DIR of a task    a folder that `acclimate data prepare` wrote
RECIPE           a preset of fine-tuning, then settings on top of it, with commas between them; all are compared with
                 the first

Each run leaves OUT/runs/ENCODER/TASK/RECIPE/SEED.json. Runs that are there are not done again, so the same command goes
on with a run that was killed. Seeds are the outermost loop: an unfinished matrix is a matrix of fewer seeds. The frozen
probe of each encoder and task stands beside them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from page import head, table, write

from acclimate.core import files, settings
from acclimate.core.types import unwatched
from acclimate.methods import finetune, probe
from acclimate.methods.baselines import constant_on_dev
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.tasks.prepared import open_prepared

PROBE = "probe"


def recipe_named(text: str) -> FinetuneRecipe:
    preset, *stated = text.split(",")
    return settings.override(FinetuneRecipe.presets[preset], [f"preset={preset}", *stated])


def fine_tune(name: str, model: Path, task: Path, seed: int, place: Path) -> None:
    """Fine-tune with this seed, test, and write the scores to `place`."""
    recipe = recipe_named(name)
    recipe = replace(recipe, model=str(model), task=task, plan=replace(recipe.plan, seed=seed))
    out = place.with_suffix("")
    begun, seconds = time.perf_counter(), time.process_time()
    score = finetune.evaluate(recipe, out)
    dev = files.read_record(finetune.last_attempt(out) / finetune.DEV)
    learnt = files.read_record(out / finetune.LEARNT)
    record(
        place,
        {
            "dev": score.dev,
            "test": score.test,
            "learnt": learnt["learnt"],
            "again": learnt["again"],
            "steps": dev[-1][0],
            "looks": [value for _, value in dev],
            "tokens": score.finetuning.tokens,
            "processor seconds": time.process_time() - seconds,
            "seconds": time.perf_counter() - begun,
        },
    )
    shutil.rmtree(out)


def run_probe(model: Path, folder: Path, place: Path) -> None:
    task, seconds = open_prepared(folder), time.process_time()
    found = probe.probe(str(model), task)
    tested = probe.test_probe(found.layer, str(model), task, by="benchmark", precision="float32", watch=unwatched)
    record(
        place,
        {
            "dev": found.dev,
            "test": tested["test"],
            "constant": constant_on_dev(task),
            "read out": found.layer.read_out,
            "processor seconds": time.process_time() - seconds,
        },
    )


def record(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, values)


def named(entries: list[str]) -> dict[str, Path]:
    return {name: Path(path) for name, _, path in (entry.partition("=") for entry in entries)}


def report(out: Path) -> Iterator[str]:
    """The lines of the report: a table of scores, then each recipe against the first."""
    order = json.loads((out / "asked.json").read_text())
    rows, gains = [], {recipe: [] for recipe in order["recipes"]}
    for encoder in order["encoders"]:
        for task in order["tasks"]:
            place = out / "runs" / encoder / task
            if not (place / f"{PROBE}.json").exists():
                continue
            probed = files.read_json(place / f"{PROBE}.json")
            row = [encoder, task, f"{100 * probed['test']:.1f}"]
            means: dict[str, float] = {}
            for recipe in order["recipes"]:
                done = [files.read_json(path) for path in sorted((place / recipe).glob("*.json"))]
                if not done:
                    row.append("")
                    continue
                tests = [100 * each["test"] for each in done]
                means[recipe] = statistics.mean(tests)
                spread = f" ± {statistics.stdev(tests):.1f}" if len(tests) > 1 else ""
                failed = sum(not each["learnt"] for each in done)
                again = sum(each["again"] for each in done)
                remarks = [f"{failed} learnt nothing"] * bool(failed) + [f"{again} made again"] * bool(again)
                steps = statistics.mean(each["steps"] for each in done)
                row.append(
                    f"{means[recipe]:.1f}{spread} ({len(done)}; {steps:.0f} steps{''.join(', ' + r for r in remarks)})"
                )
            for recipe, mean in means.items():
                if order["recipes"][0] in means:
                    gains[recipe].append((mean - means[order["recipes"][0]], mean - 100 * probed["test"]))
            rows.append(row)
    yield table(["encoder", "task", "probe", *order["recipes"]], rows)
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
    first = order["recipes"][0]
    yield table(
        ["recipe", "cells", f"mean over {first}", f"least over {first}", "mean over the probe", "least over the probe"],
        compared,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoders", nargs="+", default=[])
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--recipes", nargs="+", default=["papers", "robust"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    if given.report:
        write(given.report, [head(__doc__.splitlines()[0]), *report(given.out)])
        return
    encoders, tasks = named(given.encoders), named(given.tasks)
    for recipe in given.recipes:
        recipe_named(recipe)  # a misspelt setting is refused before anything runs
    record(given.out / "asked.json", {"encoders": [*encoders], "tasks": [*tasks], "recipes": given.recipes})
    for encoder, model in encoders.items():
        for task, folder in tasks.items():
            place = given.out / "runs" / encoder / task / f"{PROBE}.json"
            if not place.exists():
                run_probe(model, folder, place)
                print(encoder, task, PROBE, place.read_text(), flush=True)
    for seed in range(given.seeds):
        for encoder, model in encoders.items():
            for task, folder in tasks.items():
                for recipe in given.recipes:
                    place = given.out / "runs" / encoder / task / recipe / f"{seed}.json"
                    if not place.exists():
                        fine_tune(recipe, model, folder, seed, place)
                        print(encoder, task, recipe, seed, place.read_text(), flush=True)


if __name__ == "__main__":
    main()
