"""What a study of model choices is still to do, and what that costs, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from acclimate.study.benchmark import Contestant
from acclimate.study.benchmark_plan import Plan, Planned
from acclimate.study.choices import AlikeError, Arm, arms_of, select
from acclimate.study.choices_recipe import Recipe
from acclimate.study.cost import Estimate, estimate_of_jobs, together
from acclimate.study.entries import tested
from acclimate.study.jobs import missing
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe as Race
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import Dataset


def plan(
    study: str,
    recipe: Recipe,
    models: Sequence[str],
    data: Path,
    out: Path,
    *,
    datasets: Sequence[Dataset] = blurb.DATASETS,
) -> Plan:
    """What `choices.run_on_catalogue` would still do in `out`. Raises ValueError as it does; writes nothing there."""
    asked = select(study, recipe, models, data, datasets)
    cells = []
    absent = dict(asked.absent)
    for dataset, _ in asked.forms:
        with TemporaryDirectory() as place:
            try:
                arms = arms_of(recipe.chosen(study), recipe, dataset, data, Path(place))
            except AlikeError as error:
                if recipe.datasets:
                    raise
                absent[dataset.name] = str(error)
                continue
            for own in asked.contestants:
                left = _left(arms, recipe, own, out / dataset.folder)
                tunings = sum(stage.kind == "tuning" for stage in left.stages)
                trained = arms[0].task.sizes["train"]
                cells.append(Planned(dataset.name, own.name, trained, len(arms), recipe.seeds, tunings, left))
    return Plan(tuple(cells), absent, verb=f"grid {study}", varied="variants")


def _left(arms: Sequence[Arm], recipe: Recipe, own: Contestant, run: Path) -> Estimate:
    """The runs that are left, those on one reading of the dataset tried together."""
    found = []
    for place in dict.fromkeys(arm.task.path for arm in arms):
        alike = [arm for arm in arms if arm.task.path == place]
        materials = Materials(task=alike[0].task, model=own.where)
        jobs = [arm.tuned(own, materials, seed) for arm in alike for seed in range(recipe.seeds)]
        if recipe.split == "test":
            jobs += [tested(job, materials.task) for job in jobs]
        waiting = missing(jobs, run)
        given = [(job, 1.0) for job in waiting]
        found.append(estimate_of_jobs(given, Race(), materials, done=len(jobs) - len(waiting)))
    return together(found)
