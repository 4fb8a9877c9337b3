"""What a matrix of pairs is still to do, and what that costs, before it starts; nothing is trained but a few steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from acclimate.study import stages
from acclimate.study.benchmark import Contestant, contestants_of
from acclimate.study.benchmark_plan import Plan, Planned
from acclimate.study.cost import Estimate, estimate_of_jobs
from acclimate.study.entries import tested
from acclimate.study.intermediate import STUDY, check_lengths, lines_of
from acclimate.study.intermediate_data import Given, given
from acclimate.study.intermediate_recipe import Recipe
from acclimate.study.jobs import Job, missing, with_needs
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe as Race
from acclimate.tasks.prepared import Prepared


def plan(recipe: Recipe, models: Sequence[str], data: Path | None, out: Path) -> Plan:
    """What `run_matrix` would still do in `out`: a line for each model and dataset that is trained on.

    Raises ValueError as it does; writes nothing there.
    """
    contestants = contestants_of(models)
    with TemporaryDirectory() as place:
        found = given(recipe, data, Path(place))
        check_lengths(recipe, contestants, found)
        cells = [cell for own in contestants for cell in _cells(recipe, own, found, out)]
    return Plan(tuple(cells), dict(found.absent), verb=f"grid {STUDY}", varied="cells")


def _cells(recipe: Recipe, own: Contestant, found: Given, out: Path) -> list[Planned]:
    lines = lines_of(recipe, own, found)
    jobs = [
        tested(job, line.target.task) if recipe.split == "test" else job
        for line in lines
        for arm in line.all_arms()
        for job in arm.tuned
    ]
    everything, waiting = with_needs(jobs), missing(jobs, out)
    cells = []
    for member, line in zip(found.members, lines, strict=True):
        parts = [(member.name, member.task)]
        parts += [(f"{member.name}, before {name}", task) for name, task in member.parts.items()]
        for at, (name, task) in enumerate(parts):
            if any(task.path == other.path for _, other in parts[:at]):
                continue
            left = _left(everything, waiting, task, own)
            tunings = sum(stage.kind == "tuning" for stage in left.stages)
            there = len(line.arms) if task is member.task else 0
            cells.append(Planned(name, own.name, task.sizes["train"], there, recipe.seeds, tunings, left))
    return cells


def _left(everything: Sequence[Job], waiting: Sequence[Job], task: Prepared, own: Contestant) -> Estimate:
    """Of the jobs on this reading of a dataset, those that are left."""
    there = [job for job in everything if job.places.get("task") == task.path]
    asked = [(job, 1.0) for job in waiting if job.places.get("task") == task.path]
    assert all(job.work in (stages.fine_tune, stages.test) for job in there)
    return estimate_of_jobs(asked, Race(), Materials(task=task, model=own.where), done=len(there) - len(asked))
