"""How many steps a number of epochs takes."""

from __future__ import annotations

import math
from typing import Any


def steps_of_epochs(epochs: float, rows: float, batch: int) -> int:
    """Return the steps that `epochs` passes over `rows` rows take, at least 1."""
    return max(1, math.ceil(epochs * rows / batch))


def finetuning_steps(recipe: Any, rows: int) -> int:
    """Return the steps of a fine-tuning on this number of rows. recipe: a FinetuneRecipe or its stand-in

    If `epochs` is 0, these are `plan.steps`; else those of the epochs, at least `least_steps`, but at most those of
    `most_epochs`, where 0 is no limit.
    """
    batch: int = recipe.plan.batch
    if not recipe.epochs:
        return int(recipe.plan.steps)
    most = steps_of_epochs(recipe.most_epochs, rows, batch) if recipe.most_epochs else math.inf
    return int(min(max(steps_of_epochs(recipe.epochs, rows, batch), recipe.least_steps), most))
