"""Your study: does a model fine-tune better at another rate? Dry run, statistics, tables and page come with it.

python examples/own_study.py MODEL train.csv OUT [KEY=VALUE ...]
"""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from acclimate.core import settings
from acclimate.data.gather import Inputs, gather
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.races.compare import Against
from acclimate.races.design import Cell, Design, fine_tunings, scored
from acclimate.races.planning.dry_run import dry_run
from acclimate.races.recipe import RaceRecipe
from acclimate.races.run import run
from acclimate.races.tables import write
from acclimate.reading.labelled_files import LabelledFiles


@dataclass(frozen=True)
class RatesRecipe:
    """Fine-tuning at several rates, all else the same."""

    seeds: int = 3  # runs of each rate
    rates: tuple[float, ...] = (1e-5, 3e-5, 1e-4)  # the others are compared with the first
    finetune: FinetuneRecipe = field(default_factory=FinetuneRecipe)  # all other settings


def design(recipe: RatesRecipe, inputs: Inputs) -> Design:
    race = RaceRecipe(seeds=recipe.seeds, contestants=(), finetune=recipe.finetune)
    materials = gather(inputs, inputs.labelled(), seeds=recipe.seeds, comparisons=len(recipe.rates) - 1)
    cells = []
    for rate in recipe.rates:
        stated = replace(recipe.finetune, plan=replace(recipe.finetune.plan, rate=rate))
        tuned = fine_tunings(f"fine-tune at {rate:g}", stated, None, materials, seeds=recipe.seeds)
        costs = {"tuning": {seed: [job] for seed, job in tuned.items()}}
        looks = scored(tuned, materials.task, "test")  # the test set is opened after all training
        cells.append(Cell(f"rate {rate:g}", materials.task.name, looks, costs, materials))
    first, *others = cells
    return Design(
        name="rates",
        title=f"{materials.task.name}: rates of fine-tuning",
        source="No paper's table.",
        cells=tuple(cells),
        against=tuple(Against(cell.key, (first.key,), first.row, "all rates but the first") for cell in others),
        axes=("rate", "task"),
        race=race,
        examination=materials.examination,
    )


model, train, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
recipe = settings.override(RatesRecipe(), sys.argv[4:])
study = design(recipe, Inputs(out, LabelledFiles(train=train), models=(model,)))
print(dry_run(study, out).as_text())
print(write(run(study, out), out))
