"""How long fine-tuning and adapting are in a race whose time is short.

A fine-tuning has its full length if one of each contestant fits into the budget, else as much of it as fits: at least
FEWEST_EPOCHS epochs and FEWEST_STEPS steps. Adapting has ADAPTING of the budget at most: first it is done once for all
rounds, then it is shortened. If the shortest fine-tunings of all contestants do not fit, the last contestants do not
count: by forecast the first round ends before them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acclimate.core.steps import finetuning_steps, steps_of_epochs
from acclimate.methods.recipes import mlm
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.races.recipe import RaceRecipe, contestants_of
from acclimate.reports.table import UNTOUCHED
from acclimate.training.plan import Plan

ADAPTING = 0.25  # share of the budget that adapting may take
LITTLE = 0.05  # share of the budget below which adapting is not worth a contestant's place
# times the forecast of seconds that the first round may take, on an idle and on a busy machine
SLACK, BUSY_SLACK = 1.2, 1.5
FEWEST_EPOCHS = 3  # of a fine-tuning
FEWEST_STEPS = 100
FEWEST_LOOKS = 5  # at dev, of a fine-tuning that is shortened
LEAST_STEPS = 400  # below this a shortened adaptation takes smaller batches instead of fewer steps
LEAST_BATCH = 8


@dataclass(frozen=True)
class CostOfJob:
    """What a job costs that is done once. contestants: those that need it; it is done if one of them races"""

    amount: float
    contestants: tuple[str, ...] = (UNTOUCHED,)


@dataclass(frozen=True)
class RoundCosts:
    """What the first round costs by forecast, in the budget's unit.

    adapting  the jobs before fine-tuning that can be shortened; fixed: the other jobs that are done once
    tuning    contestant -> its fine-tuning in full, the untouched model first; of several settings, all of them
    test      contestant -> one look at the test set
    rows      corpus -> rows that its documents come to
    """

    adapting: tuple[CostOfJob, ...]
    fixed: tuple[CostOfJob, ...]
    tuning: Mapping[str, float]
    test: Mapping[str, float]
    rows: Mapping[Path, int] = field(default_factory=dict)

    def select(self, names: Sequence[str]) -> RoundCosts:
        """Return the costs if only these contestants race."""
        adapting = tuple(job for job in self.adapting if {*job.contestants} & {*names})
        fixed = tuple(job for job in self.fixed if {*job.contestants} & {*names})
        tuning, test = ({name: of[name] for name in names} for of in (self.tuning, self.test))
        return replace(self, adapting=adapting, fixed=fixed, tuning=tuning, test=test)

    @property
    def adapting_total(self) -> float:
        """What adapting takes in full."""
        return sum(job.amount for job in self.adapting)

    @property
    def tuning_total(self) -> float:
        """What all fine-tunings take in full."""
        return sum(self.tuning.values())

    @property
    def fixed_total(self) -> float:
        """What the other jobs take that are done once."""
        return sum(job.amount for job in self.fixed)


@dataclass(frozen=True)
class Lengths:
    """How long fine-tuning and adapting are.

    contestants   number of contestants whose first round fits by forecast; 0: not even that of the untouched model
    tuning        share of the steps of fine-tuning; adapting: share of the rows of adapting
    adaptations   number of adaptations of each contestant at most; 0: as many as the recipe states
    first, later  what the first round takes, and each later one, by forecast; of as many contestants as fit, at least
                  the untouched model
    untouched     of the first round, what the untouched model's fine-tuning takes; adapted: what adapting takes; rest:
                  what follows the untouched model's jobs beside adapting and tests; tests: what its looks at the test
                  set take
    rows          group of settings -> rows of text that adapting with these settings sees
    budget        into which this fits, as it was stated
    """

    contestants: int = 1
    tuning: float = 1.0
    adapting: float = 1.0
    adaptations: int = 1
    first: float = 0.0
    later: float = 0.0
    untouched: float = 0.0
    adapted: float = 0.0
    rest: float = 0.0
    tests: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)
    budget: str = ""

    def slower(self, seconds: float, remainder: float, amount: float) -> Lengths:
        """Return the lengths with less adapting, if it would not fit at the pace of the untouched model's fine-tuning.

        seconds    that this fine-tuning took
        remainder  seconds that are left after it for training
        amount     of the budget; adapting keeps LITTLE of it
        """
        if self.contestants < 2 or not self.adapted or not self.untouched:
            return self
        pace = max(1.0, seconds / self.untouched)
        share = (remainder / SLACK - pace * self.rest) / (pace * self.adapted)
        share = max(share, min(1.0, LITTLE * amount / self.adapted))
        if share >= 1:
            return self
        adapted = share * self.adapted
        first = self.first - self.adapted + adapted
        later = min(self.later, first - adapted)  # of several adaptations one is left
        return replace(
            self,
            adapting=share * self.adapting,
            adaptations=1,
            first=pace * first,
            later=pace * later,
            untouched=pace * self.untouched,
            adapted=pace * adapted,
            rest=pace * self.rest,
        )


def lengths_within(
    amount: float,
    remainder: float,
    costs: RoundCosts,
    *,
    least: float,
    most: float = 1.0,
    adaptations: int,
    slack: float = 1.0,
) -> Lengths:
    """Return what fits with the slack. If more contestants fit without it, they get the shortest fine-tuning.

    amount       of the budget; remainder: what is left of it
    costs        of the contestants in the order in which they race, the untouched model first
    least, most  share of its steps that a fine-tuning has
    adaptations  number of adaptations that are wanted
    slack        times the forecast that the round may take
    """
    if slack > 1:
        options: dict[str, Any] = {"least": least, "adaptations": adaptations}
        lengths = lengths_within(amount, remainder / slack, costs, most=most, **options)
        shortest = lengths_within(amount, remainder, costs, most=least, **options)
        return shortest if shortest.contestants > lengths.contestants else lengths
    names = [*costs.tuning]
    for count in range(len(names), 0, -1):
        part = costs.select(names[:count])
        tests = sum(part.test.values())
        whole, quarter = part.adapting_total, ADAPTING * amount
        room = min(quarter, remainder - part.fixed_total - tests - least * part.tuning_total)
        if room < min(whole, LITTLE * amount):
            continue
        share = min(1.0, room / whole) if whole else 1.0
        adapting = share * whole
        tuning, again = most, adaptations
        if part.tuning_total:
            tuning = min(most, (remainder - part.fixed_total - tests - adapting) / part.tuning_total)
        if whole:
            again = 1 if share < 1 else max(1, min(adaptations, int(quarter / whole)))
        first = part.fixed_total + adapting + tuning * part.tuning_total + tests
        later = first if again > 1 else first - adapting - part.fixed_total
        untouched = tuning * part.tuning[names[0]]
        own = sum(job.amount for job in part.fixed if names[0] in job.contestants)
        rest = first - untouched - adapting - own - tests
        return Lengths(count, tuning, share, again, first, later, untouched, adapting, rest, tests)
    alone = costs.select(names[:1])
    tests = sum(alone.test.values())
    return Lengths(0, least, first=alone.fixed_total + tests + least * alone.tuning_total, tests=tests)


def least_share(recipe: FinetuneRecipe, rows: int) -> float:
    """Return the share of its steps that a fine-tuning on so many rows has at least."""
    fewest = max(steps_of_epochs(FEWEST_EPOCHS, rows, recipe.plan.batch), FEWEST_STEPS)
    return min(1.0, fewest / finetuning_steps(recipe, rows))


def shorter_race(recipe: RaceRecipe, lengths: Lengths) -> RaceRecipe:
    """Return the recipe with fine-tunings and adaptations of that length."""
    groups = {
        name: _shorter_adapting(getattr(recipe, name), lengths.adapting, lengths.rows.get(name, 0))
        for name in adapting_groups(recipe)
    }
    adaptations = min(lengths.adaptations or recipe.adapt_seeds, recipe.adapt_seeds)
    return replace(recipe, adapt_seeds=adaptations, finetune=_shorter_tuning(recipe.finetune, lengths.tuning), **groups)


def adapting_groups(recipe: RaceRecipe) -> list[str]:
    """Return the groups of a race's settings that state how a model is pretrained or adapted."""
    groups = (method.group(contestant) for method, contestant in contestants_of(recipe.methods).values())
    return ["pretrain", *dict.fromkeys(groups)]


def _shorter_tuning(recipe: FinetuneRecipe, share: float) -> FinetuneRecipe:
    """Return the fine-tuning with a share of its steps, and fewer looks at dev."""
    if share >= 1:
        return recipe
    plan = recipe.plan if recipe.epochs else replace(recipe.plan, steps=max(1, round(recipe.plan.steps * share)))
    looks = min(recipe.looks, max(FEWEST_LOOKS, round(recipe.looks * share)))
    least, most = round(recipe.least_steps * share), recipe.most_epochs * share
    return replace(recipe, epochs=recipe.epochs * share, least_steps=least, most_epochs=most, plan=plan, looks=looks)


def _shorter_adapting(recipe: Any, share: float, rows: int) -> Any:
    """Return the settings with a share of the steps or epochs.

    Where fewer than LEAST_STEPS would be left, batches get smaller instead, at a rate that falls as their root. rows:
    of text, where the recipe counts epochs
    """
    if share >= 1:
        return recipe
    epochs = getattr(recipe, "epochs", 0.0)
    plan = _fewer(mlm.with_steps(recipe.plan, epochs, rows), share)
    if epochs:
        return replace(recipe, epochs=epochs * share, plan=replace(plan, steps=recipe.plan.steps))
    return replace(recipe, plan=plan)


def _fewer(plan: Plan, share: float) -> Plan:
    """Return the plan with the steps, and the rows of each, in which a share of the rows is seen."""
    rows = plan.steps * plan.batch * share
    steps = max(min(LEAST_STEPS, plan.steps), round(plan.steps * share))
    batch = min(plan.batch, max(LEAST_BATCH, round(rows / steps)))
    rate = plan.rate * math.sqrt(batch / plan.batch)
    return replace(plan, batch=batch, rate=rate, steps=max(1, round(rows / batch)))
