"""Does a forecast hold? Two small races with the encoder that comes with acclimate: forecast first, then run for real.

OMP_NUM_THREADS=1 python benchmarks/forecast.py --data shared/data --work runs/forecast \\
    --out benchmarks/reports/2026-11-23-forecast.md

A race that has ended stands in runs/forecast/NAME.json, and is not run again: its forecast alone is made anew, with
the speeds that are kept or, with --try-again, tried. --only NAME runs one race. --model DIR --rows FILE times how long
`race --dry-run` takes to answer for a model and a labelled file.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from page import head, table, tell, write

import acclimate
from acclimate.core import files, settings
from acclimate.data.sources import Inputs
from acclimate.jobs.job import DIRECTORY, JOB, WALL, read_result
from acclimate.methods.finetune import WIDTH, FinetuneRecipe, plan_of
from acclimate.models.loading import EMBEDDED
from acclimate.races import race
from acclimate.races.contestants import enter
from acclimate.races.cost import estimate_of_jobs
from acclimate.races.estimates import shares_run
from acclimate.races.recipe import for_model
from acclimate.races.search import left_of
from acclimate.tasks.labelled import LabelledFiles
from acclimate.training import trials

SHORT = ["seeds=2", "search.rates=[1e-5, 3e-5]", "tapt.epochs=1", "tapt.plan.batch=32"]
SHORT += ["finetune.epochs=1", "finetune.least_steps=40", "finetune.most_epochs=20"]
RACES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "SciERC, 120 rows": (
        {"task": LabelledFiles(Path("SciERC"), max_tokens=48), "rows": 120},
        ['contestants=["TAPT", "TF-IDF"]', "adapt_seeds=2", "search.rates=[]"],
    ),
    "ACL-ARC, 150 rows": (
        {"task": LabelledFiles(Path("ACL-ARC"), max_tokens=48), "rows": 150},
        ['contestants=["TAPT", "random weights", "TF-IDF"]', "finetune.looks=8"],
    ),
}
KINDS = {"adapt": "adapting", "fine-tune": "fine-tuning", "test": "final tests", "probe": "probes"}
KINDS |= {"test probe": "probes", "baseline": "TF-IDF", "test baseline": "TF-IDF"}


WITHIN = 0.3  # of the run: what a forecast should keep to
ANSWER = 15  # seconds in which a dry run should answer
ANSWERED = 3  # times that this is tried


@dataclass(frozen=True)
class Forecast:
    """Processor seconds by the kinds of jobs, of all, of all if fine-tunings stop as soon as they may and if none does;
    wall seconds of all; processor seconds that the answer took.
    """

    by_kind: dict[str, float]
    processor: float
    least: float
    most: float
    wall: float
    answered: float


@dataclass(frozen=True)
class Taken:
    """Processor seconds by the kinds of jobs and of all, wall seconds of all, those of the forecast right before it
    (None: another commit made it); of each fine-tuning the share of its steps that it took; how many learnt nothing and
    were done a second time.
    """

    by_kind: dict[str, float]
    processor: float
    wall: float
    wall_forecast: float | None
    shares: list[float]
    again: int


def main() -> None:
    given = arguments()
    rows, kinds, notes = [], [], []
    for name, (about, more) in RACES.items():
        if given.only and not name.startswith(given.only):
            continue
        recipe = settings.override(for_model(), [*SHORT, *more, *given.settings])
        place, ended = given.work / name.partition(",")[0], given.work / f"{name.partition(',')[0]}.json"
        if not ended.exists():
            shutil.rmtree(place, ignore_errors=True)
        materials = race.materials_for(Inputs(place, models=(EMBEDDED,), data=given.data, **about), recipe)
        if given.try_again or not ended.exists():
            shutil.rmtree(files.cache() / trials.KEPT, ignore_errors=True)
        forecast = _forecast(recipe, materials)
        if not ended.exists():
            files.write_json(ended, {**_taken(recipe, materials, place), "wall_forecast": forecast.wall})
        results = [read_result(job) for job in sorted((place / DIRECTORY).glob("fine-tune-*"))]
        taken = Taken(
            **files.read_json(ended),
            shares=_shares(place, materials),
            again=sum(bool(result.get("again")) for result in results),
        )
        off = forecast.processor / taken.processor - 1
        wall = ("-", f"{taken.wall:,.0f}", "-")
        if taken.wall_forecast is not None:
            wall = (f"{taken.wall_forecast:,.0f}", wall[1], f"{taken.wall_forecast / taken.wall - 1:+.0%}")
        processor = (f"{forecast.processor:,.0f}", f"{forecast.least:,.0f} to {forecast.most:,.0f}")
        processor += (f"{taken.processor:,.0f}", f"{off:+.0%}")
        rows.append((name, *processor, *wall))
        for kind in dict.fromkeys([*KINDS.values(), "other"]):
            seconds = (f"{each.by_kind.get(kind, 0):,.1f}" for each in (forecast, taken))
            kinds.append((f"{name}: {kind}", *seconds))
        notes.append(_note(name, recipe.finetune, forecast, taken, off))
        tell(" | ".join(rows[-1]))
    if given.model:
        notes.append(_answers(given.model, given.rows))
    write(given.out, [
        head("A race's forecast against its run", facts=[("settings of both", " ".join([*SHORT, *given.settings])),
             ("threads", str(torch.get_num_threads()))]),
        "Seconds. Processor: what the race takes on the machine on its own with one thread; range: if each fine-tuning "
        "stops as soon as its patience allows, and if none stops early. Wall: on the machine as busy as it was right "
        "before the run, as forecast then. Off: the forecast against the run.\n",
        table(("race", "processor, forecast", "range", "processor, run", "off", "wall, forecast", "wall, run", "off"),
              rows),
        "\nBy kind of job, in seconds of processor; those of the run are its wall seconds, times the run's share of "
        "the processor.\n",
        table(("race: kind", "forecast", "run"), kinds),
        "\n".join(["", *notes]),
    ])  # fmt: skip


def _note(name: str, stated: Any, forecast: Forecast, taken: Taken, off: float) -> str:
    """Return what the comparison of one race says."""
    early = [share for share in taken.shares if share < 1]
    counted = shares_run(stated.patience, stated.looks)[1]
    within = "within" if abs(off) <= WITHIN else "not within"
    inside = "inside" if forecast.least <= taken.processor <= forecast.most else "outside"
    return (
        f"* {name}: the forecast is {within} {WITHIN:.0%} of the run in processor seconds ({off:+.0%}), and the run "
        f"lies {inside} the range. {len(early)} of {len(taken.shares)} fine-tunings stopped early; together they took "
        f"{mean(taken.shares):.0%} of their steps, where the forecast counted {counted:.0%} ({stated.looks} looks at "
        f"dev, patience {stated.patience}). {taken.again} learnt nothing and were done a second time, which a forecast "
        f"counts for random weights alone. Making the forecast took {forecast.answered:,.1f} seconds of processor."
    )


def _forecast(recipe: Any, materials: Any) -> Forecast:
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as nothing_done:
        jobs = left_of(enter(recipe, materials), Path(nothing_done))
    estimate = estimate_of_jobs(jobs, recipe, materials)
    alone = [stage.slowed(1 / estimate.busy) for stage in estimate.stages]
    by_kind: dict[str, float] = {}
    for (job, _), stage in zip(jobs, alone, strict=True):
        kind = KINDS.get(job.work.name, "other")
        by_kind[kind] = by_kind.get(kind, 0.0) + stage.seconds
    least, most = (_sum(getattr(stage, end) or stage for stage in alone) for end in ("least", "most"))
    return Forecast(by_kind, _sum(alone), least, most, _sum(estimate.stages), time.process_time() - begun)


def _sum(stages: Any) -> float:
    return sum(stage.seconds for stage in stages)


def _taken(recipe: Any, materials: Any, place: Path) -> dict[str, Any]:
    processor, wall = time.process_time(), time.perf_counter()
    race.run_race(recipe, materials, place, command="")
    took, walls = time.process_time() - processor, time.perf_counter() - wall
    by_kind: dict[str, float] = {}
    for job in (place / DIRECTORY).iterdir():
        if (job / WALL).exists():
            kind = KINDS.get(files.read_json(job / JOB)["work"], "other")
            by_kind[kind] = by_kind.get(kind, 0.0) + files.read_json(job / WALL)["seconds"] * took / walls
    return {"by_kind": by_kind, "processor": took, "wall": walls}


def _shares(place: Path, materials: Any) -> list[float]:
    """Return of each fine-tuning of a run the share of its steps that it took."""
    shares = []
    for job in sorted((place / DIRECTORY).glob("fine-tune-*")):
        stated = settings.from_mapping(FinetuneRecipe, files.read_json(job / JOB)["settings"]["recipe"])
        planned = plan_of(stated, materials.task.sizes["train"], WIDTH).steps
        shares.append(read_result(job)["steps"] / planned)
    return shares


def _answers(model: str, rows: Path) -> str:
    """Return how long `race --dry-run` takes to answer, the first time and the second, each ANSWERED times."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", acclimate.__path__[0]], check=True)  # as an installed one
    taken: list[list[tuple[float, float]]] = [[], []]
    loads = [os.getloadavg()[0]]
    for _ in range(ANSWERED):
        with tempfile.TemporaryDirectory() as cache:
            for times in taken:
                command = [sys.executable, "-m", "acclimate", "race", str(rows), "--model", model, "--dry-run"]
                before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                environment = {**os.environ, "ACCLIMATE_CACHE": cache}
                subprocess.run(command, check=True, capture_output=True, env=environment)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                times.append((processor, time.perf_counter() - begun))
        loads.append(os.getloadavg()[0])
    (first, wall), (second, wall_again) = ([*zip(*times, strict=True)] for times in taken)
    within = "within" if max(wall) <= ANSWER else "not within"
    again = "within" if max(wall_again) <= ANSWER else "not within"
    return (
        f"* `acclimate race {rows.name} --model {Path(model).name} --dry-run`, {ANSWERED} times each: the first time "
        f"it answers in {_each(first)} seconds of processor and {_each(wall)} of wall, the second time in "
        f"{_each(second)} and {_each(wall_again)}, at load averages of {min(loads):.1f} to {max(loads):.1f} on "
        f"{os.cpu_count()} cores. The first answer is {within} {ANSWER} seconds of wall each time, the second {again}."
    )


def _each(seconds: Sequence[float]) -> str:
    return ", ".join(f"{each:.1f}" for each in seconds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the benchmarks' datasets")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="", help="beginning of the name of one race")
    parser.add_argument("--try-again", action="store_true", help="try the speeds again, for forecasts of ended races")
    parser.add_argument("--model", default="", help="model for which the time to answer is measured")
    parser.add_argument("--rows", type=Path, help="labelled file for that")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("settings", nargs="*", help="settings of both races")
    return parser.parse_args()


if __name__ == "__main__":
    main()
