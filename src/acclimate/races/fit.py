"""A race that has to end within a budget: what of its recipe is cut down to fit, and the words that say so.

First adapting is shortened, all of it by one factor, until it takes at most half of the budget; then seeds beyond
three, then settings, then seeds are left out (never below two). Where that is not enough, contestants are left out, the
last named first, and at last fine-tuning is shortened to SHORTEST of its steps. The contestants that are left all
begin; as many go to the end as what is left pays for (races/search.py). What is decided by the clock is written down,
so that a race that was stopped goes on as planned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acclimate.core.figures import listed
from acclimate.methods import mlm
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.races.budget import RESERVE, Budget
from acclimate.races.recipe import RaceRecipe, SearchRecipe, Setting, contestants_of
from acclimate.races.search import HALFWAY, tunings
from acclimate.reports.table import UNTOUCHED
from acclimate.training.plan import Plan

ADAPTING = 0.5  # share of the budget that adapting may take
LEAST_STEPS = 400  # below this a shortened run takes smaller batches instead of fewer steps
LEAST_BATCH = 8
SHORTEST = (0.5, 0.25, 0.125)  # shares of the steps of fine-tuning that are tried where nothing else fits
FEWEST_LOOKS = 5  # at dev, of a fine-tuning that is shortened
ENOUGH = 3  # seeds that are worth more than another setting


@dataclass(frozen=True)
class Costs:
    """Estimated, in the budget's unit.

    adapting  everything before fine-tuning that can be shortened
    fixed     everything else that is done once
    tuning    one fine-tuning in full, the mean over contestants
    test      one look at the test set
    """

    adapting: float
    fixed: float
    tuning: float
    test: float

    def searching(self, contestants: int, settings: Sequence[Setting], seeds: int, *, finalists: int = 2) -> float:
        """Return what the rounds of races/search.py and the tests after them take."""
        names = [UNTOUCHED, *(f"rival {number}" for number in range(1, contestants))]
        tests = min(finalists, contestants) * seeds * self.test
        return tunings(names, settings, seeds, finalists) * self.tuning + tests


@dataclass(frozen=True)
class CutRecipe:
    """A recipe cut down to a budget. notes: in words, what was left out"""

    recipe: RaceRecipe
    notes: tuple[str, ...]


def check_listed(search: SearchRecipe) -> None:
    """Raises ValueError for a search that draws its settings, of which a budget can leave none out."""
    if search.draws:
        raise ValueError(
            f"a budget leaves out settings until it fits, but search.how = '{search.how}' lists none: it draws them. "
            f"Leave out --budget and lower search.trials, or set search.how=halving"
        )


def cut_to_budget(
    recipe: RaceRecipe,
    budget: Budget,
    costs: Costs,
    *,
    contestants: int,
    texts: Mapping[str, int],
    spent: float = 0.0,
    names: Sequence[str] = (),
    besides: Sequence[str] = (),
) -> CutRecipe:
    """Return what of the recipe fits into the budget, of which `spent` is gone. contestants: number that are fine-tuned

    texts    documents that each of `adapting_groups` sees
    names    of the contestants beside the untouched model, the first ones stay longest; empty: none may be left out
    besides  contestants that are not fine-tuned, which stay

    Raises ValueError where not even two contestants with one setting, two seeds and the shortest fine-tuning fit,
    saying how much would do.
    """
    settings = recipe.settings()
    plans = [(len(names), 1.0, *both) for both in _tried(recipe.seeds, len(settings))]
    plans += [(kept, 1.0, 2, 1) for kept in range(len(names) - 1, 0, -1)]
    fewest = min(1, len(names))
    if not recipe.search.epochs:  # else each setting states its length
        plans += [(fewest, length, 2, 1) for length in SHORTEST]
    for kept, length, seeds, tried in plans:
        part = _of_part(costs, kept, len(names), length)
        share = min(1.0, ADAPTING * budget.amount / part.adapting) if part.adapting else 1.0
        racing = contestants - (len(names) - kept)
        cut = _cut(recipe, share, tried, seeds, texts)
        rest = budget.usable - spent - part.fixed - share * part.adapting
        if part.searching(racing, cut.settings(), seeds) <= rest:
            if kept < len(names):
                cut = replace(cut, contestants=(*names[:kept], *besides))
            cut = replace(cut, finetune=_shorter(cut.finetune, length))
            adapting = f"{share:.1%} of what the recipe states, which would take {budget.as_text(part.adapting)}"
            notes = _notes(recipe, cut, budget, adapting if share < 1 else "")
            return CutRecipe(cut, (*notes, *_last_resorts(names, kept, cut, length)))
    kept, length, _, _ = plans[-1]
    part = _of_part(costs, kept, len(names), length)
    racing = contestants - (len(names) - kept)
    least = part.fixed + spent + part.searching(racing, settings[:1], 2)
    cuts = f", and fine-tuning with {length:.1%} of its steps" if length < 1 else ""
    raise ValueError(
        f"a budget of {budget.stated} is too small: with one setting and two seeds{cuts}, fine-tuning {racing} "
        f"contestants and what goes before takes about {budget.as_text(least)} here, and adapting may take as much "
        f"again (half of the budget). Give --budget of at least "
        f"{budget.as_text(1.05 * _enough(least, part.adapting, RESERVE[budget.unit]))}, fewer training rows (--rows), "
        f"or --probe-only, which fine-tunes nothing"
    )


def _of_part(costs: Costs, kept: int, names: int, length: float) -> Costs:
    """Return the costs if so many of the contestants beside the untouched model are kept, at a share of the steps of
    fine-tuning. Most of what is fixed is of a model, such as its probe.
    """
    if names:
        costs = replace(costs, adapting=costs.adapting * kept / names, fixed=costs.fixed * (kept + 1) / (names + 1))
    return replace(costs, tuning=costs.tuning * length)


def _shorter(stated: FinetuneRecipe, length: float) -> FinetuneRecipe:
    """Return the fine-tuning with a share of its steps, and fewer looks at dev."""
    if length >= 1:
        return stated
    plan = stated.plan if stated.epochs else replace(stated.plan, steps=max(1, round(stated.plan.steps * length)))
    looks = min(stated.looks, max(FEWEST_LOOKS, round(stated.looks * length)))
    least, most = round(stated.least_steps * length), stated.most_epochs * length
    return replace(stated, epochs=stated.epochs * length, least_steps=least, most_epochs=most, plan=plan, looks=looks)


def _last_resorts(names: Sequence[str], kept: int, cut: RaceRecipe, length: float) -> list[str]:
    """Return in words what was left out because fewer seeds and settings were not enough."""
    notes = []
    if kept < len(names):
        notes.append(
            f"Left out, to fit the budget: {listed(names[kept:])}. {listed(names[:kept])} race{'s' * (kept == 1)}."
        )
    if length < 1:
        notes.append(
            f"Fine-tuning has {length:.1%} of its steps and {cut.finetune.looks} looks at dev, to fit the budget: "
            f"fewer than a sound verdict needs, so take this race as a first impression."
        )
    return notes


def _tried(seeds: int, settings: int) -> list[tuple[int, int]]:
    """Return (seeds, settings) to try, all of both first: seeds beyond ENOUGH go first, then settings, then seeds."""
    enough = min(seeds, ENOUGH)
    many = [(number, settings) for number in range(seeds, enough, -1)]
    return many + [(number, tried) for number in range(enough, 1, -1) for tried in range(settings, 0, -1)]


def _enough(least: float, adapting: float, reserve: float) -> float:
    """Return the smallest budget in which `least` fits beside adapting, which may be shortened to its share."""
    shortened = least / (1 - reserve - ADAPTING)
    return shortened if ADAPTING * shortened < adapting else (least + adapting) / (1 - reserve)


def affordable(budget: Budget, costs: Costs, seeds: int, spent: float) -> int:
    """Return how many contestants the last round can have: each takes all seeds and tests; one seed is halfway."""
    each = seeds * (costs.tuning + costs.test) - HALFWAY * costs.tuning
    left = budget.amount * (1 - RESERVE[budget.unit] / 2) - spent
    return max(2, int(left // each)) if each else 1_000


def _cut(recipe: RaceRecipe, share: float, tried: int, seeds: int, texts: Mapping[str, int]) -> RaceRecipe:
    """Return the recipe with a share of its adapting, fewer settings (the middle ones stay longest) and seeds."""
    values = {name: getattr(recipe.search, name) for name in ("rates", "epochs", "batches")}
    while math.prod(max(1, len(listed)) for listed in values.values()) > tried:
        name = max(values, key=lambda name: len(values[name]))
        listed = values[name]
        values[name] = listed[1:] if len(listed) % 2 else listed[:-1]
    search = replace(recipe.search, **values)
    return replace(
        recipe,
        seeds=seeds,
        adapt_seeds=min(recipe.adapt_seeds, seeds),
        search=search,
        **{name: _shortened(getattr(recipe, name), share, texts.get(name, 0)) for name in adapting_groups(recipe)},
    )


def adapting_groups(recipe: RaceRecipe) -> list[str]:
    """Return the groups of a race's settings that state how a model is pretrained or adapted."""
    found = (method.group(contestant) for method, contestant in contestants_of(recipe.methods).values())
    return ["pretrain", *dict.fromkeys(found)]


def _shortened(stated: Any, share: float, texts: int) -> Any:
    """Return the settings with a share of the steps or epochs.

    Where fewer than LEAST_STEPS would be left, batches get smaller instead, at a rate that falls as their root. texts:
    their number, where the recipe counts epochs
    """
    if share >= 1:
        return stated
    epochs = getattr(stated, "epochs", 0.0)
    plan = _fewer(mlm.with_steps(stated.plan, epochs, texts), share)
    if epochs:
        return replace(stated, epochs=epochs * share, plan=replace(plan, steps=stated.plan.steps))
    return replace(stated, plan=plan)


def _fewer(plan: Plan, share: float) -> Plan:
    if share >= 1:
        return plan
    seen = plan.steps * plan.batch * share
    steps = max(min(LEAST_STEPS, plan.steps), round(plan.steps * share))
    batch = min(plan.batch, max(LEAST_BATCH, round(seen / steps)))
    rate = plan.rate * math.sqrt(batch / plan.batch)
    return replace(plan, batch=batch, rate=rate, steps=max(1, round(seen / batch)))


def _notes(recipe: RaceRecipe, cut: RaceRecipe, budget: Budget, adapting: str) -> list[str]:
    notes = [f"The budget of the race: {budget.stated}."]
    if adapting:
        notes.append(f"Adapting was cut to {adapting}: what more of it would give is not known.")
    tried, stated = len(cut.settings()), len(recipe.settings())
    if tried < stated:
        names = "; ".join(setting.name for setting in cut.settings())
        notes.append(f"Of {stated} settings {tried} {'is' if tried == 1 else 'are'} tried, to fit the budget: {names}.")
    if cut.seeds < recipe.seeds:
        notes.append(f"{cut.seeds} seeds in place of {recipe.seeds}, to fit the budget.")
    if cut.adapt_seeds < recipe.adapt_seeds:
        notes.append(f"{cut.adapt_seeds} adaptations in place of {recipe.adapt_seeds}, to fit the budget.")
    return notes
