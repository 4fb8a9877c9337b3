"""A race that has to end within a budget: what of its recipe is cut down to fit, and the words that say so.

First adapting is shortened, all of it by one factor, until it takes at most half of the budget; then seeds beyond
three, then settings are left out. Where that is not enough, contestants are left out, the last named first, then
adapting is shortened to LITTLE of the budget, and at last fine-tuning: with three seeds to a quarter of its steps, with
two to an eighth or FEWEST_STEPS, at last beside LEAST of adapting. What is fine-tuned too shortly says nothing about
any adapting. The contestants that are left all begin; as many go to the end as what is left pays for
(races/search.py). What is decided by the clock is written down, so that a race that was stopped goes on as planned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from acclimate.core.figures import listed
from acclimate.core.steps import finetuning_steps
from acclimate.methods import mlm
from acclimate.methods.baselines import BASELINE
from acclimate.methods.finetune import RETRY_STEPS, FinetuneRecipe
from acclimate.races.budget import BUSY, NO_LIMIT, RESERVE, Budget
from acclimate.races.outcome import FIRST_IMPRESSION
from acclimate.races.recipe import RaceRecipe, SearchRecipe, Setting, contestants_of
from acclimate.races.search import HALFWAY, tunings
from acclimate.reports.page import amount
from acclimate.reports.table import UNTOUCHED
from acclimate.training.plan import Plan

ADAPTING = 0.5  # share of the budget that adapting may take
LITTLE = 0.25  # the same where all else that can be left out is left out
LEAST = 0.1  # the same where the shortest fine-tuning does not fit beside that
LEAST_STEPS = 400  # below this a shortened run takes smaller batches instead of fewer steps
LEAST_BATCH = 8
SHORTEST = (0.5, 0.25, 0.125)  # shares of the steps of fine-tuning that are tried where nothing else fits
BEFORE_PLAN = 10.0  # seconds more that the next race may take until it is planned
FEWEST_STEPS = 30  # to which it is halved further; a fine-tuning of fewer steps learns nothing
FEWEST_LOOKS = 5  # at dev, of a fine-tuning that is shortened
LEAST_SHARE = 1e-4  # of the rows that the recipe states, to which adapting is shortened
ENOUGH = 3  # seeds that are worth more than other settings, contestants and steps: two establish next to nothing


@dataclass(frozen=True)
class CostOfJob:
    """What a job costs that is done once.

    contestants  those that need it; it is done if one of them races
    updates      of the amount, what its steps take however few rows they have
    steps        of its plan, if it can be shortened; batch: rows of a step
    """

    amount: float
    contestants: tuple[str, ...] = (UNTOUCHED,)
    updates: float = 0.0
    steps: int = 0
    batch: int = 1

    def shortened(self, share: float) -> float:
        """Return what the job takes with a share of its rows. Batches get smaller first, so steps fall less."""
        if share >= 1:
            return self.amount
        steps = _fewer_steps(self.steps, self.batch, share)[0] / self.steps if self.steps else share
        return steps * self.updates + share * (self.amount - self.updates)


@dataclass(frozen=True)
class Costs:
    """Estimated, in the budget's unit.

    adapting  the jobs before fine-tuning that can be shortened, without what they take however short they are
    fixed     that, and the other jobs that are done once
    tuning    contestant -> one of its fine-tunings in full; the untouched model first
    test      contestant -> one look of it at the test set
    start     contestant -> what goes before its first fine-tuning beside that: the probe that a head begins as
    apart     contestant -> of a fine-tuning in full, what it takes however few its steps are
    busy      how many times as long everything takes now as on the machine when idle, which all amounts include
    rows      corpus -> rows that its documents come to
    """

    adapting: tuple[CostOfJob, ...]
    fixed: tuple[CostOfJob, ...]
    tuning: Mapping[str, float]
    test: Mapping[str, float]
    start: Mapping[str, float] = field(default_factory=dict)
    apart: Mapping[str, float] = field(default_factory=dict)
    busy: float = 1.0
    rows: Mapping[Path, int] = field(default_factory=dict)

    def part(self, kept: Sequence[str], length: float = 1.0) -> Costs:
        """Return the costs if only these contestants race, with that share of the steps of fine-tuning."""
        adapting, fixed = (
            tuple(job for job in jobs if {*job.contestants} & {*kept}) for jobs in (self.adapting, self.fixed)
        )
        apart = {name: self.apart.get(name, 0.0) for name in kept}
        tuning = {name: apart[name] + length * (self.tuning[name] - apart[name]) for name in kept}
        test, start = ({name: of.get(name, 0.0) for name in kept} for of in (self.test, self.start))
        return replace(self, adapting=adapting, fixed=fixed, tuning=tuning, test=test, start=start, apart=apart)

    def before(self) -> tuple[float, float]:
        """Return what all of adapting takes, and all that is fixed."""
        return sum(job.amount for job in self.adapting), sum(job.amount for job in self.fixed)

    def shortened(self, most: float) -> tuple[float, float]:
        """Return the share of its rows with which adapting takes at most so much, and what it takes then.

        If even LEAST_SHARE of them takes more, it is that share.
        """

        def taken(share: float) -> float:
            return sum(job.shortened(share) for job in self.adapting)

        fits, share = LEAST_SHARE, 1.0
        for _ in range(40 if taken(share) > most else 0):
            middle = math.sqrt(fits * share)
            fits, share = (middle, share) if taken(middle) <= most else (fits, middle)
        share = share if taken(share) <= most else fits
        return share, taken(share)

    def dearest(self) -> list[str]:
        """Return the contestants: the untouched model, then those whose fine-tunings and tests cost most."""
        rivals = _rivals(self.tuning)
        return [UNTOUCHED, *sorted(rivals, key=lambda name: self.tuning[name] + self.test[name], reverse=True)]

    def searching(self, settings: Sequence[Setting], seeds: int, *, finalists: int = 2) -> float:
        """Return what the rounds of races/search.py and the tests after them take at most: dev decides which
        contestants reach the end, so the dearest ones are counted.
        """
        names = self.dearest()
        taken = tunings(names, settings, seeds, finalists)
        tests = seeds * sum(self.test[name] for name in names[:finalists])
        return tests + sum(taken[name] * self.tuning[name] + self.start.get(name, 0.0) for name in names)

    def pace(self, settings: Sequence[Setting], names: Sequence[str], taken: float) -> float:
        """Return how many times as long as planned the rounds before the last one took, at least 1.

        names: of the contestants; taken: by their fine-tunings so far, with what lay between them
        """
        shares, planned = tunings(names, settings, 1, 2), 0.0
        for number, name in enumerate(names):
            apart = self.apart.get(name, 0.0)
            share = shares[name] - (1 - HALFWAY if number < 2 else 0.0)  # two go on to the end in the last round
            planned += self.start.get(name, 0.0) + len(settings) * apart + share * (self.tuning[name] - apart)
        return max(1.0, taken / planned) if planned else 1.0

    def slowed(self, pace: float) -> Costs:
        """Return the costs where fine-tunings and tests take so many times as much."""
        tuning, test = ({name: pace * each for name, each in of.items()} for of in (self.tuning, self.test))
        return replace(self, tuning=tuning, test=test)

    def as_record(self) -> dict[str, Any]:
        """Return the costs as they are written down, of which `Costs.of_record` makes them again."""
        # without what shortening needs, because adapting is shortened once
        jobs = {kind: [[job.amount, *job.contestants] for job in getattr(self, kind)] for kind in ("adapting", "fixed")}
        return {**jobs, **{name: dict(getattr(self, name)) for name in ("tuning", "test", "start", "apart")}}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Costs:
        """Return the costs that `as_record` returned."""
        adapting, fixed = (
            tuple(CostOfJob(amount, tuple(names)) for amount, *names in record[kind]) for kind in ("adapting", "fixed")
        )
        # one that was written before there were the last two lacks them
        return cls(adapting, fixed, record["tuning"], record["test"], record.get("start", {}), record.get("apart", {}))


@dataclass(frozen=True)
class CutRecipe:
    """A recipe cut down to a budget.

    notes  in words, what was left out
    costs  of fine-tuning as long as it is now, with a second attempt if it may have one
    """

    recipe: RaceRecipe
    notes: tuple[str, ...]
    costs: Costs


NO_RETRY = (
    "A fine-tuning that learns nothing, or whose loss is not finite, gets no second attempt (finetune.retry), to fit "
    "the budget."
)


def check_listed(search: SearchRecipe) -> None:
    """Raises ValueError for a search that draws its settings, of which a budget can leave none out."""
    if search.common:
        raise ValueError(
            "search.common chooses one setting for all contestants, but a budget drops contestants before it is "
            "chosen. Leave one of them out"
        )
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
    text_rows: Mapping[str, int],
    rows: int = 0,
    spent: float = 0.0,
    besides: Sequence[str] = (),
) -> CutRecipe:
    """Return what of the recipe fits into the budget, of which `spent` is gone.

    costs      of all contestants that are fine-tuned; of those beside the untouched model the first ones stay longest
    text_rows  rows of text that each of `adapting_groups` sees
    rows       number of training rows; 0: unknown
    besides    contestants that are not fine-tuned, which stay

    Raises ValueError where not even two contestants with one setting, two seeds and the shortest fine-tuning fit,
    saying how much would do.
    """
    settings, names, busy = recipe.settings(), _rivals(costs.tuning), costs.busy > BUSY
    fewest_seeds, fewest = min(recipe.seeds, ENOUGH), min(1, len(names))
    plans = [(len(names), 1.0, ADAPTING, seeds, len(settings)) for seeds in range(recipe.seeds, fewest_seeds, -1)]
    plans += [(len(names), 1.0, ADAPTING, fewest_seeds, tried) for tried in range(len(settings), 0, -1)]
    plans += [(kept, 1.0, ADAPTING, fewest_seeds, 1) for kept in range(len(names) - 1, 0, -1)]
    plans.append((fewest, 1.0, LITTLE, fewest_seeds, 1))
    if recipe.search.epochs:  # each setting states its length
        plans.append((fewest, 1.0, LITTLE, 2, 1))
    else:
        plans += [(fewest, length, LITTLE, fewest_seeds, 1) for length in SHORTEST[:2]]
        plans += [(fewest, length, LITTLE, 2, 1) for length in _lengths(recipe.finetune, rows)[1:]]
    plans.append((fewest, plans[-1][1], LEAST, 2, 1))
    for kept, least_length, most, seeds, tried in plans:
        length = least_length
        part = costs.part([UNTOUCHED, *names[:kept]], length)
        adapting, fixed = part.before()
        share, shorter = part.shortened(most * budget.amount)
        cut = _cut(recipe, share, tried, seeds, text_rows)
        room = budget.usable - spent - fixed - shorter
        if part.searching(cut.settings(), seeds) <= room:
            if length < 1:  # then the longest that fits, up to twice as long
                taken = part.searching(cut.settings(), seeds)
                twice = costs.part([UNTOUCHED, *names[:kept]], 2 * length).searching(cut.settings(), seeds)
                length *= 1 + min(1.0, (room - taken) / (twice - taken) if twice > taken else 0.0)
            if kept < len(names):
                cut = replace(cut, contestants=(*names[:kept], *besides))
            cut = replace(cut, finetune=_shorter(cut.finetune, length))
            shortened = f"{share:.1%} of what the recipe states, which would take {budget.as_text(adapting)}"
            notes = _notes(recipe, cut, budget, shortened if share < 1 else "")
            whole = costs.part([UNTOUCHED, *names[:kept]]).searching(cut.settings(), max(seeds, fewest_seeds))
            enough = 1.05 * _enough(fixed + spent + whole, part, RESERVE[budget.unit], LITTLE)
            notes += _last_resorts(names, kept, cut, length, budget.as_text(enough))
            all_again = costs.part([UNTOUCHED, *names[:kept]], length * (1 + RETRY_STEPS))
            if cut.finetune.retry and all_again.searching(cut.settings(), seeds) > room:
                cut = replace(cut, finetune=replace(cut.finetune, retry=False))
                notes.append(NO_RETRY)
            if busy and len(notes) > 1:
                notes.append(f"The machine is busy: when idle it would do {costs.busy:.1f} times as much in this time.")
            attempts = 1 + RETRY_STEPS if cut.finetune.retry else 1
            return CutRecipe(cut, tuple(notes), costs.part([*costs.tuning], length * attempts))
    # part and its amounts are those of the last plan, the smallest
    least = fixed + spent + part.searching(settings[:1], 2)
    cuts = f", and fine-tuning with {length:.1%} of its steps" if length < 1 else ""
    enough = 1.05 * _enough(least, part, RESERVE[budget.unit], LEAST)
    enough += BEFORE_PLAN if budget.unit == "seconds" else 0.0
    stated = "fewer epochs (search.epochs), fewer training rows (--rows), " if recipe.search.epochs else ""
    idle = f". The machine is busy: when idle, {budget.as_text(enough / costs.busy)} would do" if busy else ""
    raise ValueError(
        f"a budget of {budget.stated} is too small: with one setting and two seeds{cuts}, fine-tuning "
        f"{listed([*part.tuning])} and what goes before takes about {budget.as_text(least)} here; adapting may take "
        f"{LEAST:.0%} of a budget, {RESERVE[budget.unit]:.0%} is kept back, and a little is added to be sure. Give a "
        f"--budget of at least {budget.as_text(enough)}, {stated}texts cut shorter (--max-tokens), or a smaller "
        f"--model. {NO_LIMIT}. Without a budget, --probe-only with 'contestants=[\"{BASELINE}\"]' adapts and "
        f"fine-tunes nothing{idle}"
    )


def _lengths(stated: FinetuneRecipe, rows: int) -> list[float]:
    """Return the shares of its steps to which fine-tuning is shortened, until FEWEST_STEPS are left."""
    lengths, steps = [*SHORTEST], finetuning_steps(stated, rows) if rows else 0
    while steps * lengths[-1] / 2 >= FEWEST_STEPS:
        lengths.append(lengths[-1] / 2)
    return lengths


def _rivals(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != UNTOUCHED]


def _shorter(stated: FinetuneRecipe, length: float) -> FinetuneRecipe:
    """Return the fine-tuning with a share of its steps, and fewer looks at dev."""
    if length >= 1:
        return stated
    plan = stated.plan if stated.epochs else replace(stated.plan, steps=max(1, round(stated.plan.steps * length)))
    # so short a fine-tuning would spend its time on looks
    fewest = FEWEST_LOOKS if length >= SHORTEST[-1] else 1
    looks = min(stated.looks, max(fewest, round(stated.looks * length)))
    least, most = round(stated.least_steps * length), stated.most_epochs * length
    return replace(stated, epochs=stated.epochs * length, least_steps=least, most_epochs=most, plan=plan, looks=looks)


def _last_resorts(names: Sequence[str], kept: int, cut: RaceRecipe, length: float, enough: str) -> list[str]:
    """Return in words what was left out because fewer seeds and settings were not enough.

    enough: the budget in which these contestants are fine-tuned in full
    """
    notes = []
    if kept < len(names):
        notes.append(
            f"Left out, to fit the budget: {listed(names[kept:])}. {listed(names[:kept])} race{'s' * (kept == 1)}."
        )
    if length < 1:
        few = "In so few steps an encoder often learns nothing"
        if length > SHORTEST[-1]:
            few = "More steps may change which is ahead"
        notes.append(
            f"To fit the budget, fine-tuning has {length:.1%} of its steps and {amount(cut.finetune.looks, 'look')} at "
            f"dev; --budget {enough} has all of them. {few}, {FIRST_IMPRESSION}"
        )
    return notes


def _enough(least: float, costs: Costs, reserve: float, share: float) -> float:
    """Return the smallest budget in which `least` fits beside adapting, which is shortened to that share of it."""
    shortened = least / (1 - reserve - share)
    return (least + costs.shortened(share * shortened)[1]) / (1 - reserve)


def affordable(budget: Budget, costs: Costs, names: Sequence[str], seeds: int, spent: float) -> int:
    """Return how many of these contestants the last round can have: each takes all seeds and tests; one seed is
    halfway. Dev decides which ones they are, so the dearest are counted.
    """
    left = budget.amount * (1 - RESERVE[budget.unit] / 2) - spent
    return max(2, sum(total <= left for total in last_round(costs, names, seeds)))


def last_round(costs: Costs, names: Sequence[str], seeds: int) -> list[float]:
    """Return what the last round takes with one of these contestants, with two, and so on, the dearest ones first."""
    part = costs.part(names)
    each = [seeds * (part.tuning[name] + part.test[name]) - HALFWAY * part.tuning[name] for name in part.dearest()]
    return [*accumulate(each)]


def pays_for_another(budget: Budget, costs: Costs, names: Sequence[str], seeds: int, spent: float) -> bool:
    """Return True if the rest of the budget pays for one seed more of these contestants, and for the tests of all."""
    left = budget.amount * (1 - RESERVE[budget.unit] / 2) - spent
    part = costs.part(names)
    return sum(part.tuning[name] + (seeds + 1) * part.test[name] for name in names) <= left


def _cut(recipe: RaceRecipe, share: float, tried: int, seeds: int, text_rows: Mapping[str, int]) -> RaceRecipe:
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
        **{name: _shortened(getattr(recipe, name), share, text_rows.get(name, 0)) for name in adapting_groups(recipe)},
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
    steps, batch = _fewer_steps(plan.steps, plan.batch, share)
    rate = plan.rate * math.sqrt(batch / plan.batch)
    return replace(plan, batch=batch, rate=rate, steps=steps)


def _fewer_steps(steps: int, batch: int, share: float) -> tuple[int, int]:
    """Return the steps, and the rows of each, in which a share of the rows is seen."""
    seen = steps * batch * share
    fewer = max(min(LEAST_STEPS, steps), round(steps * share))
    rows = min(batch, max(LEAST_BATCH, round(seen / fewer)))
    return max(1, round(seen / rows)), rows


def _notes(recipe: RaceRecipe, cut: RaceRecipe, budget: Budget, adapting: str) -> list[str]:
    notes = [f"The race had a budget of {budget.stated}."]
    if adapting:
        notes.append(f"Adapting was cut to {adapting}: what more of it would give is not known.")
    tried, stated = len(cut.settings()), len(recipe.settings())
    if tried < stated:
        names = "; ".join(setting.name for setting in cut.settings())
        notes.append(f"Of {stated} settings {tried} {'is' if tried == 1 else 'are'} tried, to fit the budget: {names}.")
    if cut.seeds < recipe.seeds:
        doctor = f"what the doctor says of detectable differences is for {recipe.seeds} seeds"
        few = ", and two seldom establish a difference" if cut.seeds == 2 else ""
        notes.append(f"{cut.seeds} seeds in place of {recipe.seeds}, to fit the budget; {doctor}{few}.")
    if cut.adapt_seeds < recipe.adapt_seeds:
        notes.append(f"{cut.adapt_seeds} adaptations in place of {recipe.adapt_seeds}, to fit the budget.")
    return notes
