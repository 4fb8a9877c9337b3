"""The search of a race, its contestants entered: what it tries on dev, what it would try, and its rows of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks
from acclimate.core.types import Cost, Progress, Score, Watch, label_of
from acclimate.methods import finetune
from acclimate.study import stages
from acclimate.study.entries import Entries, enter, tested, tested_baseline
from acclimate.study.facts import adapting_jobs
from acclimate.study.halving import DIVERGED, EARLY, Ahead, Arm, Found, Hopeless, Outcome, Run, search
from acclimate.study.jobs import Job, begin, do, missing, with_needs
from acclimate.study.materials import Materials
from acclimate.study.reach import beyond_reach
from acclimate.study.recipe import Recipe
from acclimate.study.running import Part, attempts
from acclimate.study.study_plan import note
from acclimate.tasks.prepared import Prepared
from acclimate.training.checkpoint import CLOCK, spent
from acclimate.training.gradients import NotFiniteError


@dataclass(frozen=True)
class Ended:
    """A race whose choices are made: what is left is to open the test set.

    tuned  contestant -> a fine-tuning a seed, with the setting that dev chose
    begun  all fine-tunings that led there, those given up too; some of them may have no directory
    """

    entries: Entries
    found: Found
    tuned: Mapping[str, tuple[Job, ...]]
    notes: tuple[str, ...]
    begun: tuple[Job, ...] = ()

    def tests(self) -> dict[str, tuple[Job, ...]]:
        """Contestant -> its looks at the test set; the baseline, which has no seed, has one."""
        task = self.entries.materials.task
        tests = {name: tuple(tested(job, task) for job in jobs) for name, jobs in self.tuned.items()}
        if self.entries.baseline is not None:
            tests[self.entries.baseline.label] = (tested_baseline(self.entries.baseline, task),)
        return tests


def searched(
    entries: Entries, run: Path, finalists: Callable[[], int] | None, notes: tuple[str, ...], watch: Watch
) -> Ended:
    """The fine-tunings that dev chose, everything before them done; the test set stays sealed."""
    recipe, task = entries.recipe, entries.materials.task
    gold = [example.label for example in task.examples("dev")]

    begun: dict[str, Job] = {}
    wild: dict[str, NotFiniteError] = {}
    tried: set[tuple[str, float]] = set()

    def job_of(arm: Arm, seed: int) -> Job:
        job = entries.tuning(arm.contestant, arm.setting, seed)
        return begun.setdefault(job.name, job)

    def played(arm: Arm, seed: int, share: float) -> Outcome:
        ahead([(arm, seed, share)])
        job = job_of(arm, seed)
        try:
            if job.name in wild:
                raise wild[job.name]
            whole = share == 1
            result = do(job, run, watch=watch) if whole else begin(job, run, stages.begin, watch=watch, share=share)
        except NotFiniteError as error:
            watch(Progress("search", 0, 0, "steps", {"note": f"{arm.contestant}, {arm.setting.name}: {error}"}))
            return DIVERGED
        return Outcome(result["dev"], result["steps"])

    def ahead(runs: Sequence[tuple[Arm, int, float]]) -> None:
        asked = [(job_of(arm, seed), share) for arm, seed, share in runs]
        if ranks.world() > 1:  # whose processes stop together: each when it is asked for
            begun_only = [job for job, share in asked if share < 1]
            note(with_needs(job for job, share in asked if share == 1), run, parts=begun_only)
            return
        new = [(job, share) for job, share in asked if job.name not in wild and (job.name, share) not in tried]
        tried.update((job.name, share) for job, share in new)
        parts = [Part(job) if share == 1 else Part(job, stages.begin, {"share": share}) for job, share in new]
        failed = attempts(parts, run, watch=watch) if parts else {}
        wild.update({name: error for name, error in failed.items() if isinstance(error, NotFiniteError)})
        for error in failed.values():
            if not isinstance(error, NotFiniteError):
                raise error

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

    found = _found(entries, played, run, finalists=finalists, hopeless=hopeless, give_up=give_up, ahead=ahead)
    return Ended(entries, found, _tuned(entries, found), notes, tuple(begun.values()))


def foreseen(
    recipe: Recipe, materials: Materials, run: Path | None = None, *, budgeted: bool = False
) -> list[tuple[Job, float]]:
    """Every job that a race comes to, in order, with the share of it that is done: below 1 where it is given up."""
    return foreseen_of(enter(recipe, materials), run, budgeted=budgeted)


def foreseen_of(entries: Entries, run: Path | None = None, *, budgeted: bool = False) -> list[tuple[Job, float]]:
    """Every job that these entries come to, as `foreseen`.

    Where dev decides who goes on: as if all arms were level and the first went on; as many as there will be, if not the
    same. Where settings are drawn: with the trials that stand in the directory `run`, and none of the others given up.
    """
    tunings: dict[str, tuple[Job, float]] = {}

    def played(arm: Arm, seed: int, share: float) -> Outcome:
        job = entries.tuning(arm.contestant, arm.setting, seed)
        tunings[job.name] = (job, share)
        return Outcome(0.0, 0)

    def given_up(arm: Arm) -> None:
        job = entries.tuning(arm.contestant, arm.setting, 0)
        tunings.setdefault(job.name, (job, EARLY))  # of an earlier session: it began, so nothing of it is left

    found = _found(
        entries,
        played,
        run,
        writes=False,
        finalists=(lambda: 2) if budgeted else None,
        hopeless=lambda rival, untouched, seeds: False,
        give_up=given_up,
    )
    ended = Ended(entries, found, _tuned(entries, found), ())
    tests = (job for jobs in ended.tests().values() for job in jobs)
    return [*((job, 1.0) for job in entries.prepared()), *tunings.values(), *((job, 1.0) for job in tests)]


def left(recipe: Recipe, materials: Materials, run: Path, *, budgeted: bool = False) -> list[tuple[Job, float]]:
    """The jobs that a race would still do, each with the share of it that is done then."""
    return left_of(enter(recipe, materials), run, budgeted=budgeted)


def left_of(entries: Entries, run: Path, *, budgeted: bool = False) -> list[tuple[Job, float]]:
    """The jobs of these entries that are still to do, as `left`."""
    shares = {job.name: (job, share) for job, share in foreseen_of(entries, run, budgeted=budgeted)}
    waiting = missing((job for job, _ in shares.values()), run)
    planned = [shares.get(job.name, (job, 1.0)) for job in waiting]
    return [(job, share) for job, share in planned if share == 1 or not (job.directory(run) / finetune.BEGUN).exists()]


def _found(
    entries: Entries,
    played: Run,
    run: Path | None,
    *,
    finalists: Callable[[], int] | None,
    hopeless: Hopeless,
    give_up: Callable[[Arm], None],
    ahead: Ahead = lambda runs: None,
    writes: bool = True,
) -> Found:
    """The search that the recipe asks for; what it notes down is in the directory `run`."""
    names, recipe = [*entries.models], entries.recipe
    if not recipe.search.draws:
        given: dict[str, Any] = {"finalists": finalists, "hopeless": hopeless, "give_up": give_up, "ahead": ahead}
        return search(names, recipe.settings(), recipe.seeds, played, how=recipe.search.how, **given)
    from acclimate.study import optuna_journal, optuna_search  # they load Optuna, an extra

    return optuna_search.search(
        names,
        recipe,
        played,
        journal=run / optuna_journal.JOURNAL if run else None,
        known_as=lambda name: entries.tuning(name, recipe.setting(), 0).name,
        writes=writes,
        give_up=give_up,
        ahead=ahead,
    )


def _tuned(entries: Entries, found: Found) -> dict[str, tuple[Job, ...]]:
    seeds = range(entries.recipe.seeds)
    return {
        arm.contestant: tuple(entries.tuning(arm.contestant, arm.setting, seed) for seed in seeds)
        for arm in found.finalists
    }


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


def dev_row(name: str, seed: int, result: Mapping[str, Any], gold: Sequence[Any], task: Prepared) -> Score:
    """A row of what was predicted on dev, for the comparisons of significance.py."""
    ids = tuple(example.id for example in task.examples("dev"))
    predicted = tuple(label_of(label) for label in result["predicted_dev"])
    dev = result["dev"]
    return Score(name, task.name, task.metric.name, seed, dev, dev, ids, tuple(gold), predicted, Cost(), Cost())


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
