"""What a benchmark is still to do, and what that costs, before it starts; nothing is trained but a few steps to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from acclimate.study.benchmark import constant, entered, select
from acclimate.study.benchmark_recipe import Recipe
from acclimate.study.cost import Estimate, estimate_of, told_of_reading
from acclimate.study.jobs import missing
from acclimate.study.typeset import Section, page
from acclimate.study.wording import duration, si
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import Dataset
from acclimate.tasks.prepared import prepare


@dataclass(frozen=True)
class Planned:
    """A model on a dataset. settings: that are tried; tunings: fine-tunings left, given up ones too."""

    dataset: str
    model: str
    trained: int
    settings: int
    seeds: int
    tunings: int
    left: Estimate


@dataclass(frozen=True)
class Plan:
    """absent: dataset -> why it is not there; constants: datasets whose constant answer is left to test; verb, varied:
    whose plan it is, and what `Planned.settings` counts.
    """

    cells: tuple[Planned, ...]
    absent: dict[str, str]
    constants: int = 0
    verb: str = "blurb"
    varied: str = "settings"

    @property
    def seconds(self) -> float:
        return sum(cell.left.seconds for cell in self.cells)

    def as_text(self) -> str:
        rows = []
        for cell in self.cells:
            stages = cell.left.stages
            costs = si(sum(stage.tokens for stage in stages)), si(sum(stage.flops for stage in stages))
            about = f"{cell.dataset}, {cell.model}"
            counts = f"{cell.trained:,}", str(cell.settings), str(cell.seeds), str(cell.tunings)
            rows.append((about, *counts, *costs, duration(cell.left.seconds)))
        columns = ("", "train", self.varied, "seeds", "tunings", "tokens", "FLOP", "time")
        largest = max(cell.left.memory for cell in self.cells)
        disk = sum(cell.left.disk for cell in self.cells if cell.left.stages)
        lines = [
            f"Together {duration(self.seconds)} on this machine, memory {largest / 1e9:.1f} GB, disk "
            f"{disk / 1e9:.2f} GB. Tunings: fine-tunings that are left, those too that are given up on the way.",
            *told_of_reading([stage for cell in self.cells for stage in cell.left.stages]),
            *([f"Constant answers, each within seconds: {self.constants} left."] if self.constants else []),
            *(f"{name} is left out: {why}" for name, why in self.absent.items()),
        ]
        return page(f"acclimate {self.verb}, still to do", [Section("Plan", columns, tuple(rows), tuple(lines))])


def plan(
    recipe: Recipe, models: Sequence[str], data: Path, out: Path, *, datasets: Sequence[Dataset] = blurb.DATASETS
) -> Plan:
    """What `run_benchmark` would still do in `out`. Raises ValueError as it does; writes nothing there."""
    asked = select(recipe, models, data, datasets)
    cells: list[Planned] = []
    constants = 0
    for dataset, form in asked.forms:
        run = out / dataset.folder
        with TemporaryDirectory() as place:
            task = prepare(recipe.task(dataset, form), data, Path(place) / "data")
            race = recipe.race(dataset, form, task)
            constants += recipe.baseline and len(missing([constant(task)], run))
            for own in asked.contestants:
                left = estimate_of(entered(race, own, task), run)
                tunings = sum(stage.kind == "tuning" for stage in left.stages)
                counts = len(race.settings()), race.seeds, tunings
                cells.append(Planned(dataset.name, own.name, task.sizes["train"], *counts, left))
                race = replace(race, contestants=())  # the baseline is the same for all
    return Plan(tuple(cells), asked.absent, constants)
