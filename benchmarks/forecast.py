"""Does a forecast hold? Two small races with the encoder that comes with acclimate: forecast first, then run for real.

OMP_NUM_THREADS=1 python benchmarks/forecast.py --data shared/data --work runs/forecast \\
    --out benchmarks/reports/2026-11-23-forecast.md

A race that has ended stands in runs/forecast/NAME.json, and is not run again; --only NAME runs one race.
"""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from page import head, table, tell, write

from acclimate.core import files, settings
from acclimate.data.sources import Inputs
from acclimate.jobs.job import DIRECTORY, JOB, WALL
from acclimate.models.loading import EMBEDDED
from acclimate.races import race
from acclimate.races.contestants import enter
from acclimate.races.cost import estimate_of_jobs
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


@dataclass(frozen=True)
class Taken:
    """Seconds: of a forecast or a run, by the kinds of jobs; processor and wall seconds of all; to make the answer."""

    by_kind: dict[str, float]
    processor: float
    wall: float
    answered: float


def main() -> None:
    given = arguments()
    rows, kinds, notes = [], [], []
    for name, (about, more) in RACES.items():
        if given.only and not name.startswith(given.only):
            continue
        ended = given.work / f"{name.partition(',')[0]}.json"
        if ended.exists():
            both = files.read_json(ended)
            forecast, taken = Taken(**both["forecast"]), Taken(**both["taken"])
            _add(name, forecast, taken, (rows, kinds, notes))
            continue
        recipe = settings.override(for_model(), [*SHORT, *more, *given.settings])
        place = given.work / name.partition(",")[0]
        shutil.rmtree(place, ignore_errors=True)
        materials = race.materials_for(Inputs(place, models=(EMBEDDED,), data=given.data, **about), recipe)
        shutil.rmtree(files.cache() / trials.KEPT, ignore_errors=True)  # so that the forecast tries them
        forecast = _forecast(recipe, materials, place)
        taken = _taken(recipe, materials, place)
        files.write_json(ended, {"forecast": vars(forecast), "taken": vars(taken)})
        _add(name, forecast, taken, (rows, kinds, notes))
    write(given.out, [
        head("A race's forecast against its run", facts=[("settings of both", " ".join([*SHORT, *given.settings])),
             ("threads", str(torch.get_num_threads()))]),
        "Seconds. Processor: what the race takes on the machine on its own with one thread. Wall: on the machine as "
        "busy as it was when the forecast was made. Off: the forecast against the run.\n",
        table(("race", "processor, forecast", "processor, run", "off", "wall, forecast", "wall, run", "off"), rows),
        "\nBy kind of job, in seconds of processor; those of the run are its wall seconds, times the run's share of "
        "the processor.\n",
        table(("race: kind", "forecast", "run"), kinds),
        "\n".join(["", *notes]),
    ])  # fmt: skip


def _add(name: str, forecast: Taken, taken: Taken, page: tuple[list[Any], list[Any], list[str]]) -> None:
    """Add the race to the page: to the rows of both tables, and to the notes."""
    rows, kinds, notes = page
    off = (forecast.processor / taken.processor - 1, forecast.wall / taken.wall - 1)
    processor = (f"{forecast.processor:,.0f}", f"{taken.processor:,.0f}", f"{off[0]:+.0%}")
    rows.append((name, *processor, f"{forecast.wall:,.0f}", f"{taken.wall:,.0f}", f"{off[1]:+.0%}"))
    for kind in dict.fromkeys([*KINDS.values(), "other"]):
        kinds.append((f"{name}: {kind}", f"{forecast.by_kind.get(kind, 0):,.1f}", f"{taken.by_kind.get(kind, 0):,.1f}"))
    notes.append(f"* {name}: the forecast took {forecast.answered:,.1f} seconds of processor, trials included")
    tell(" | ".join(rows[-1]))


def _forecast(recipe: Any, materials: Any, place: Path) -> Taken:
    begun = time.process_time()
    jobs = left_of(enter(recipe, materials), place)
    estimate = estimate_of_jobs(jobs, recipe, materials)
    alone = [replace(stage, seconds=stage.seconds / estimate.busy) for stage in estimate.stages]
    by_kind: dict[str, float] = {}
    for (job, _), stage in zip(jobs, alone, strict=True):
        kind = KINDS.get(job.work.name, "other")
        by_kind[kind] = by_kind.get(kind, 0.0) + stage.seconds
    return Taken(by_kind, _sum(alone), _sum(estimate.stages), time.process_time() - begun)


def _sum(stages: Any) -> float:
    return sum(stage.seconds for stage in stages)


def _taken(recipe: Any, materials: Any, place: Path) -> Taken:
    processor, wall = time.process_time(), time.perf_counter()
    race.run_race(recipe, materials, place, command="")
    took, walls = time.process_time() - processor, time.perf_counter() - wall
    by_kind: dict[str, float] = {}
    for job in (place / DIRECTORY).iterdir():
        if (job / WALL).exists():
            kind = KINDS.get(files.read_json(job / JOB)["work"], "other")
            by_kind[kind] = by_kind.get(kind, 0.0) + files.read_json(job / WALL)["seconds"] * took / walls
    return Taken(by_kind, took, walls, 0.0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the benchmarks' datasets")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="", help="beginning of the name of one race")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("settings", nargs="*", help="settings of both races")
    return parser.parse_args()


if __name__ == "__main__":
    main()
