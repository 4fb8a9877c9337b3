"""The main job: which way of adapting a model to this domain gives the best model, by how much, at what cost?

Every contestant is the same encoder, untouched or adapted, and tries the same settings of fine-tuning with the same
steps and seeds. Choices look at dev only; the test set is opened once a contestant and seed, after everything else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.core.types import Cost, Progress, Score, Watch, label_of, unwatched
from acclimate.methods import finetune
from acclimate.study import budget as budgets
from acclimate.study import stages
from acclimate.study.budget import Budget, Costs
from acclimate.study.entries import Entries, enter, tested, tested_baseline
from acclimate.study.facts import adapting_jobs, facts_of
from acclimate.study.halving import DIVERGED, Arm, Found, Outcome, search
from acclimate.study.jobs import Job, begin, claim, do, missing
from acclimate.study.materials import Materials
from acclimate.study.outcome import WINNER, write_outcome
from acclimate.study.reach import beyond_reach
from acclimate.study.recipe import BASELINE, DICTIONARY, Recipe, baseline_of
from acclimate.study.significance import interval
from acclimate.study.wording import interval_text, metric_text
from acclimate.tasks.prepared import Prepared
from acclimate.training.checkpoint import CLOCK, spent
from acclimate.training.loop import NotFiniteError
from acclimate.training.run import CHECKPOINT

Estimator = Callable[[Recipe, Materials, Path], Costs]


@dataclass(frozen=True)
class Ended:
    """A race whose choices are made: what is left is to open the test set.

    tuned  contestant -> a fine-tuning a seed, with the setting that dev chose
    """

    entries: Entries
    found: Found
    tuned: Mapping[str, tuple[Job, ...]]
    notes: tuple[str, ...]

    def tests(self) -> dict[str, tuple[Job, ...]]:
        """Contestant -> its looks at the test set; the baseline, which has no seed, has one."""
        task = self.entries.materials.task
        tests = {name: tuple(tested(job, task) for job in jobs) for name, jobs in self.tuned.items()}
        if self.entries.baseline is not None:
            tests[self.entries.baseline.label] = (tested_baseline(self.entries.baseline, task),)
        return tests


def run_race(
    recipe: Recipe,
    materials: Materials,
    run: Path,
    *,
    command: str,
    budget: Budget | None = None,
    estimator: Estimator | None = None,
    watch: Watch = unwatched,
) -> None:
    """Run what is missing of the race in the directory `run`, then write the winner's checkpoint, scores and facts
    (study/outcome.py makes tables and the page of them).

    estimator: what the stages will cost, in the budget's unit; needed where there is a budget (study/cost.py has one).
    Raises HeldError where another process works in `run`, ValueError where the budget is too small.
    """
    with files.hold(run) if ranks.is_first() else nullcontext():
        claim(run)
        entries = enter(recipe, materials)
        notes: tuple[str, ...] = ()
        if entries.baseline is not None:
            _tell_baseline(do(entries.baseline, run, watch=watch), entries, watch)
        costs = None
        if budget is not None:
            assert estimator is not None
            entries, costs, notes = _fitted(entries, run, budget, estimator)
            for note in notes:
                watch(Progress("budget", 0, 0, "steps", {"note": note}))
        for job in entries.prepared():
            do(job, run, watch=watch)
        payable = _payable(entries, run, budget, costs) if budget is not None and costs is not None else None
        ended = searched(entries, run, payable, notes, watch)
        for jobs in ended.tests().values():
            for job in jobs:
                do(job, run, watch=watch)
        scores = scores_of(ended, run)
        name, seed = _winner(scores)
        if budget is not None and (taken := budget.spent(run)) > budget.amount:
            over = f"The race took {budget.told(taken)}: more than its budget of {budget.stated}."
            ended = replace(ended, notes=(*ended.notes, over))
        facts = facts_of(ended, run, command) | {"winner": name}
        if ranks.is_first():
            _hand_over(ended.tuned[name][seed], run, {"contestant": name, "seed": seed})
            write_outcome(run, scores, facts)
        ranks.agree(None)


def foreseen(recipe: Recipe, materials: Materials, *, budgeted: bool = False) -> list[tuple[Job, float]]:
    """Every job that a race comes to, in order, with the share of it that is done: below 1 where it is given up.

    Where dev decides who goes on: as if all arms were level and the first went on; as many as there will be, if not the
    same.
    """
    entries = enter(recipe, materials)
    tunings: dict[str, tuple[Job, float]] = {}

    def played(arm: Arm, seed: int, share: float) -> Outcome:
        job = entries.tuning(arm.contestant, arm.setting, seed)
        tunings[job.name] = (job, share)
        return Outcome(0.0, 0)

    found = search(
        [*entries.models],
        recipe.settings(),
        recipe.seeds,
        played,
        how=recipe.search.how,
        finalists=(lambda: 2) if budgeted else None,
        hopeless=lambda rival, untouched, seeds: False,
    )
    ended = Ended(entries, found, _tuned(entries, found), ())
    tests = (job for jobs in ended.tests().values() for job in jobs)
    return [*((job, 1.0) for job in entries.prepared()), *tunings.values(), *((job, 1.0) for job in tests)]


def left(recipe: Recipe, materials: Materials, run: Path, *, budgeted: bool = False) -> list[tuple[Job, float]]:
    """The jobs that a race would still do, each with the share of it that is done then."""
    shares = {job.name: (job, share) for job, share in foreseen(recipe, materials, budgeted=budgeted)}
    waiting = missing((job for job, _ in shares.values()), run)
    planned = [shares.get(job.name, (job, 1.0)) for job in waiting]
    return [(job, share) for job, share in planned if share == 1 or not (job.directory(run) / finetune.BEGUN).exists()]


def _tell_baseline(result: Mapping[str, Any], entries: Entries, watch: Watch) -> None:
    """The first score of a race, within seconds: on dev, for the test set stays sealed."""
    task, name = entries.materials.task, baseline_of(entries.materials.task.kind)
    gold = [example.label for example in task.examples("dev")]
    [first, second] = [dev_row(name, seed, result, gold, task) for seed in (0, 1)]
    told = f"{interval_text(interval([first, second], task.metric))} dev {metric_text(task.metric.name)}"
    watch(Progress(name, 1, 1, "fits", {"note": f"{told}, the score to beat"}))


def _fitted(
    entries: Entries, run: Path, budget: Budget, estimator: Estimator
) -> tuple[Entries, Costs, tuple[str, ...]]:
    """The entries cut down to the budget, as was decided when this race began."""
    recipe, materials = budgets.with_search(entries.recipe), entries.materials
    key = _race_of(entries, budget)

    def decide() -> dict[str, Any]:
        costs = estimator(recipe, materials, run)
        fitted = budgets.fit(
            recipe,
            budget,
            costs,
            contestants=len(entries.models),
            texts=materials.texts(),
            spent=budget.spent(run, searching=False),  # what was fine-tuned already is planned for again, not twice
        )
        return {
            "costs": vars(costs),
            "recipe": settings.to_mapping(fitted.recipe),
            "notes": fitted.notes,
        }

    plan = budgets.decided(run, f"fitted-{key}", decide)
    cut = settings.from_mapping(Recipe, plan["recipe"])
    return enter(cut, materials), Costs(**plan["costs"]), tuple(plan["notes"])


def _race_of(entries: Entries, budget: Budget) -> str:
    """What a decision is about, as 12 hex digits: recipe, budget, data, and the models with what they are made of."""
    models = {name: job.name if job else entries.materials.identity() for name, job in entries.models.items()}
    asked = [settings.to_mapping(entries.recipe), budget.stated, dict(entries.materials.task.hashes), models]
    return settings.digest(asked)[:12]


def _payable(entries: Entries, run: Path, budget: Budget, costs: Costs) -> Callable[[], int]:
    """How many contestants the last round can have, as was decided when this race came to it."""
    seeds = entries.recipe.seeds
    key = f"finalists-{_race_of(entries, budget)}"
    return lambda: int(budgets.decided(run, key, lambda: budgets.affordable(budget, costs, seeds, budget.spent(run))))


def searched(
    entries: Entries, run: Path, finalists: Callable[[], int] | None, notes: tuple[str, ...], watch: Watch
) -> Ended:
    """The fine-tunings that dev chose, everything before them done; the test set stays sealed."""
    recipe, task = entries.recipe, entries.materials.task
    gold = [example.label for example in task.examples("dev")]

    def job_of(arm: Arm, seed: int) -> Job:
        return entries.tuning(arm.contestant, arm.setting, seed)

    def played(arm: Arm, seed: int, share: float) -> Outcome:
        job = job_of(arm, seed)
        try:
            whole = share == 1
            result = do(job, run, watch=watch) if whole else begin(job, run, stages.begin, watch=watch, share=share)
        except NotFiniteError as error:
            watch(Progress("search", 0, 0, "steps", {"note": f"{arm.contestant}, {arm.setting.name}: {error}"}))
            return DIVERGED
        return Outcome(result["dev"], result["steps"])

    def dev_scores(arm: Arm, seeds: int) -> list[Score]:
        results = [do(job_of(arm, seed), run) for seed in range(seeds)]
        return [dev_row(arm.contestant, seed, result, gold, task) for seed, result in enumerate(results)]

    def hopeless(rival: Arm, untouched: Arm, seeds: int) -> bool:
        return beyond_reach(dev_scores(rival, seeds), dev_scores(untouched, seeds), task.metric)

    def give_up(arm: Arm) -> None:
        for seed in range(recipe.seeds):
            place = job_of(arm, seed).directory(run)
            if (place / finetune.BEGUN).exists():
                finetune.give_up(place)

    found = search(
        [*entries.models],
        recipe.settings(),
        recipe.seeds,
        played,
        how=recipe.search.how,
        finalists=finalists,
        hopeless=hopeless,
        give_up=give_up,
    )
    return Ended(entries, found, _tuned(entries, found), notes)


def _tuned(entries: Entries, found: Found) -> dict[str, tuple[Job, ...]]:
    seeds = range(entries.recipe.seeds)
    return {
        arm.contestant: tuple(entries.tuning(arm.contestant, arm.setting, seed) for seed in seeds)
        for arm in found.finalists
    }


def dev_row(name: str, seed: int, result: Mapping[str, Any], gold: Sequence[Any], task: Prepared) -> Score:
    """A row of what was predicted on dev, for the comparisons of significance.py."""
    ids = tuple(example.id for example in task.examples("dev"))
    predicted = tuple(label_of(label) for label in result["predicted_dev"])
    dev = result["dev"]
    return Score(name, task.name, task.metric.name, seed, dev, dev, ids, tuple(gold), predicted, Cost(), Cost())


def scores_of(ended: Ended, run: Path) -> list[Score]:
    """A row for each contestant and seed, of tests that are done."""
    scores, task = [], ended.entries.materials.task
    for name, tests in ended.tests().items():
        baseline = ended.entries.baseline
        if baseline is not None and name == baseline.label:
            result = do(tests[0], run) | {"dev": do(baseline, run)["dev"]}
            seconds = files.read_json(baseline.directory(run) / CLOCK)["seconds"]
            fitting = Cost(do(baseline, run)["tokens"], 0.0, seconds)
            # it has no seed: the same fit stands beside every seed of the others
            scores += [
                test_row(name, seed, result, task, adapting=Cost(), finetuning=fitting)
                for seed in range(ended.entries.recipe.seeds)
            ]
            continue
        adapting = sum((spent(job.directory(run)) for job in adapting_jobs(name, ended.entries)), Cost())
        for seed, (tuned, test) in enumerate(zip(ended.tuned[name], tests, strict=True)):
            result = do(test, run) | {"dev": do(tuned, run)["dev"]}
            finetuning = spent(tuned.directory(run))
            scores.append(test_row(name, seed, result, task, adapting=adapting, finetuning=finetuning))
    return scores


def test_row(
    name: str, seed: int, result: Mapping[str, Any], task: Prepared, *, adapting: Cost, finetuning: Cost
) -> Score:
    return Score(
        contestant=name,
        task=task.name,
        metric=task.metric.name,
        seed=seed,
        dev=result["dev"],
        test=result["test"],
        ids=tuple(result["ids"]),
        gold=tuple(label_of(label) for label in result["gold"]),
        predicted=tuple(label_of(label) for label in result["predicted"]),
        adapting=adapting,
        finetuning=finetuning,
    )


def _winner(scores: list[Score]) -> tuple[str, int]:
    """The encoder with the best mean on dev, and of its seeds the best on dev: the test set chooses nothing."""
    dev: dict[str, list[Score]] = {}
    for score in scores:
        if score.contestant not in (BASELINE, DICTIONARY):
            dev.setdefault(score.contestant, []).append(score)
    best = max(dev.values(), key=lambda own: sum(score.dev for score in own) / len(own))
    first = max(best, key=lambda score: score.dev)
    return first.contestant, first.seed


def _hand_over(tuned: Job, run: Path, who: Mapping[str, Any]) -> None:
    """The winner's checkpoint as `run/winner`, an ordinary directory that transformers loads."""
    source = tuned.directory(run) / CHECKPOINT
    with files.new_directory(run / WINNER) as temporary:
        for file in source.iterdir():
            if file.name != files.MANIFEST:
                shutil.copy(file, temporary / file.name)
        files.write_json(temporary / "race.json", dict(who))
