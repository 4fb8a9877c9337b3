"""The main job: which way of adapting a model to this domain gives the best model, by how much, at what cost?

Every contestant is the same encoder, untouched or adapted, and tries the same settings of fine-tuning with the same
steps and seeds. Choices look at dev only; the test set is opened once a contestant and seed, after everything else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.core.types import Progress, Score, Watch, unwatched
from acclimate.study import budget as budgets
from acclimate.study.budget import Budget, Costs
from acclimate.study.contestants import BASELINE, DICTIONARY
from acclimate.study.entries import Entries, enter
from acclimate.study.facts import facts_of
from acclimate.study.jobs import Job, claim
from acclimate.study.materials import Materials
from acclimate.study.outcome import WINNER, write_outcome
from acclimate.study.recipe import Recipe, baseline_of
from acclimate.study.running import do_each, done
from acclimate.study.searching import dev_row, scores_of, searched
from acclimate.study.significance import interval
from acclimate.study.wording import interval_text, metric_text
from acclimate.training.run import CHECKPOINT

Estimator = Callable[[Recipe, Materials, Path], Costs]


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
        if budget is not None:
            budgets.with_search(recipe)  # raises, before anything is done, where the two do not go together
        entries = enter(recipe, materials)
        notes: tuple[str, ...] = ()
        if entries.baseline is not None:
            _tell_baseline(done(entries.baseline, run, watch=watch), entries, watch)
        costs = None
        if budget is not None:
            assert estimator is not None
            entries, costs, notes = _fitted(entries, run, budget, estimator)
            for note in notes:
                watch(Progress("budget", 0, 0, "steps", {"note": note}))
        do_each(entries.prepared(), run, watch=watch)
        payable = _payable(entries, run, budget, costs) if budget is not None and costs is not None else None
        ended = searched(entries, run, payable, notes, watch)
        do_each([job for jobs in ended.tests().values() for job in jobs], run, watch=watch)
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
