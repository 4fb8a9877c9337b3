"""Which setting each contestant gets, and which contestants go on. All try the same settings, and dev alone decides.

A candidate is a contestant with a setting. All candidates have the same seeds, so that they are compared in pairs.

grid     every candidate is trained in full with every seed; each contestant keeps the setting with the best mean
halving  most candidates leave after short runs (Jamieson and Talwalkar, Non-stochastic best arm identification and
         hyperparameter optimization, AISTATS 2016), in rounds:

A round trains the first part of a whole run, at the whole run's rates, and the next round continues from there. So no
step is paid for twice, and a candidate is judged on its way to the end. (A short run with its own schedule would end at
a rate of 0: low rates have learnt nothing by then, and look poor.)

All contestants reach the end. Each setting is trained in full with one seed; where there are more than
FEW settings, they first run to EARLY, after which each contestant keeps its best third. The best two settings of each
contestant get a second seed, and the better of them the other seeds. With `extend`, where the best rate of a contestant
is the lowest or highest that was tried, all contestants try one more beyond it, EXTENSIONS times at most.

The better candidate has the higher mean dev score; of equal ones the lower dev loss, then more steps, then the higher
rate, so that the slowest setting does not win the ties. A candidate whose mean does not beat the best constant answer
comes after all that do, and such candidates are ranked by their dev loss, which falls before any answer changes. The
last place among several that go on is for the one with the least loss of these: it may only be slower than the others.
With `common` a candidate stands on dev as the mean over all contestants with its setting, so all choose the same one.
No candidate leaves before its warm-up and LEAST more steps.

Where Optuna draws the settings, races/optuna.py has the rounds before the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files, ranks
from acclimate.core.figures import metric_text
from acclimate.core.types import Cost, Progress, Score, Watch, label_of, unwatched
from acclimate.data.materials import Fold, Materials
from acclimate.jobs.job import DIRECTORY, Job, add_to_plan, first_line, missing, result_of, with_needs
from acclimate.jobs.run import FirstShare, LackingError, do_all, done
from acclimate.methods import finetune
from acclimate.models.encoder import configuration_of
from acclimate.races.contestants import MEASURED, Entries, enter, tested, tested_baseline
from acclimate.races.outcome import Trial
from acclimate.races.recipe import ALL, RaceRecipe, Setting, Way
from acclimate.races.work import checkpoint_of
from acclimate.reports.page import amount
from acclimate.reports.table import FROZEN, UNTOUCHED, interval_text
from acclimate.statistics.significance import interval
from acclimate.tasks.prepared import Prepared
from acclimate.training.gradients import NotFiniteError

EARLY = 0.25  # shares of the steps
LEAST = 100  # steps after the warm-up before which no candidate leaves
FEW = 3
EXTENSIONS = 2


@dataclass(frozen=True)
class Candidate:
    contestant: str
    setting: Setting


@dataclass(frozen=True)
class DevResult:
    """What one fine-tuning, or its first part, scored on dev: the best score, the least loss, and the steps it took.

    lost    why there is no score
    learnt  False of a fine-tuning in full that learnt nothing
    """

    dev: float
    steps: int
    lost: str = ""
    loss: float = math.inf
    learnt: bool = True

    @property
    def diverged(self) -> bool:
        """True if the candidate has lost, whatever the others score."""
        return bool(self.lost)


DIVERGED = DevResult(-1.0, 0, "its training diverged")  # the loss was no number any more
FAILED = DevResult(-1.0, 0, "a job of its contestant failed")
Tune = Callable[[Candidate, int, float], DevResult]  # (candidate, seed, share of the steps): on from where it stood
Ahead = Callable[[Sequence[tuple[Candidate, int, float]]], None]  # may do these runs at once, before they are asked for


@dataclass(frozen=True, order=True)
class DevStanding:
    """How a candidate stands on dev, means over its seeds; the better candidate is the larger value.

    learnt  True if the score beats the best constant answer
    ranked  the score of a candidate that has learnt; of the others the same number
    """

    learnt: bool
    ranked: float
    less_loss: float
    steps: int
    rate: float
    dev: float = field(compare=False)


@dataclass(frozen=True)
class SearchResult:
    """The candidates that reached the end with every seed, the untouched model first, and the record.

    note     the search in a sentence; "" where there was nothing to search
    edge     a warning where the best rate of a finalist lies at an end of those tried; else ""
    stopped  why it ended early; "" where it did not
    seeds    number of them that each finalist has; 0: as many as the recipe states
    """

    finalists: tuple[Candidate, ...]
    record: tuple[Trial, ...]
    note: str
    stopped: str = ""
    seeds: int = 0
    edge: str = ""


def search(
    names: Sequence[str],
    settings: Sequence[Setting],
    seeds: int,
    tune: Tune,
    *,
    how: Way,
    give_up: Callable[[Candidate], None] = lambda candidate: None,
    ahead: Ahead = lambda runs: None,
    constant: float = -math.inf,
    first_cut: float = EARLY,
    beyond: Callable[[Sequence[Setting], Setting], Setting | None] = lambda settings, best: None,
    extend: bool = False,
    common: bool = False,
) -> SearchResult:
    """Try every contestant in `names` (the untouched model among them) with every setting.

    give_up    is called with each candidate that leaves
    ahead      is called with all runs of a round before `tune` is, and may do them at once
    constant   dev score without reading a text (finetune.without_reading)
    first_cut  share of the steps before which no candidate leaves, at least EARLY
    beyond     returns the setting beyond the best one, where that lies at an end of the settings
    extend     True if that one is tried too; only where `how` is halving
    common     True if all contestants get the same setting
    """
    rounds = Rounds(tune, give_up, ahead, constant, common=common)
    candidates = [Candidate(name, setting) for name in names for setting in settings]
    if how == "grid" or len(settings) == 1:
        means = rounds.run_all(candidates, range(seeds), 1.0)
        last = rounds.sound(untouched_first(best_of_each(means)))
        rounds.record_round(means, last, "the best setting of its contestant", "another setting did better")
        note = f"{len(candidates)} combinations of contestant and setting, each in full with {amount(seeds, 'seed')}."
        edge = at_an_end(last, partial(beyond, settings))
        return SearchResult(tuple(last), tuple(rounds.record), note if len(settings) > 1 else "", edge=edge)
    if len(settings) > FEW and first_cut < 1:
        means = rounds.run_all(candidates, range(1), first_cut)
        candidates = [candidate for name in names for candidate in rounds.best_of(name, means, 1 / 3)]
        rounds.record_round(
            means, candidates, "in the best third", f"not in the best third after {first_cut:.0%} of the steps"
        )
    means = rounds.run_all(candidates, range(1), 1.0)
    tried = list(settings)
    for _ in range(EXTENSIONS if extend else 0):
        asked = [beyond(tried, candidate.setting) for candidate in best_of_each(means)]
        outward = dict.fromkeys(setting for setting in asked if setting is not None)
        if not outward:
            break
        tried += outward
        means |= rounds.run_all([Candidate(name, setting) for name in names for setting in outward], range(1), 1.0)
    level = [candidate for name in names for candidate in ranked(name, means)[:2]]
    rounds.record_round(
        {candidate: means[candidate] for candidate in means if candidate not in level},
        [],
        "",
        "two other settings did better",
    )
    means = rounds.run_all(level, range(min(2, seeds)), 1.0)
    chosen = untouched_first(best_of_each(means))
    rounds.record_round(means, chosen, "goes on with all seeds", "another setting did better")
    ended = last_round(rounds, chosen, seeds)
    return replace(ended, edge=at_an_end(ended.finalists, partial(beyond, tried)))


def at_an_end(chosen: Sequence[Candidate], outermost: Callable[[Setting], object]) -> str:
    """Return a warning that names the candidates whose rate lies at an end of those tried; "" if there are none.

    outermost: returns something true for a setting with such a rate
    """
    named = [f"{each.contestant} ({each.setting.name})" for each in chosen if outermost(each.setting)]
    if not named:
        return ""
    return f"The best rate lies at an end of those tried: {', '.join(named)}. One beyond may be better."


def last_round(rounds: Rounds, chosen: list[Candidate], seeds: int) -> SearchResult:
    """Run all seeds of the candidates, and return the result of the search."""
    rounds.run_all(chosen, range(seeds), 1.0)
    sound = rounds.sound(chosen)
    means = {candidate: rounds.mean(candidate) for candidate in chosen}
    rounds.record_round(means, sound, "reached the end", "its training diverged")
    note = (
        f"{len(rounds.runs)} fine-tunings; {len(sound)} of the contestants reached the end with "
        f"{amount(seeds, 'seed')}."
    )
    return SearchResult(tuple(sound), tuple(rounds.record), note, "", seeds)


class Rounds:
    """The runs so far and the record of them."""

    def __init__(
        self,
        tune: Tune,
        give_up: Callable[[Candidate], None],
        ahead: Ahead = lambda runs: None,
        constant: float = -math.inf,
        *,
        common: bool = False,
    ) -> None:
        self.tune, self.give_up, self.ahead, self.constant, self.common = tune, give_up, ahead, constant, common
        self.runs: dict[tuple[Candidate, int, float], DevResult] = {}
        self.record: list[Trial] = []
        self.rung = 0
        self.share = 0.0  # of the round that is on

    def run_all(self, candidates: Sequence[Candidate], seeds: range, share: float) -> dict[Candidate, DevStanding]:
        """Run the candidates up to a share of their steps, seed by seed, and return what dev says of each."""
        self.share = share
        self.foresee(candidates, seeds, share)
        for seed in seeds:
            for candidate in candidates:
                if (candidate, seed, share) not in self.runs:
                    self.runs[candidate, seed, share] = self.tune(candidate, seed, share)
        seen = {each: [self.runs[each, seed, share] for seed in seeds] for each in candidates}
        if not self.common:
            return {candidate: self.standing(candidate, outcomes) for candidate, outcomes in seen.items()}
        by_setting: dict[Setting, list[DevResult]] = {}
        for candidate, outcomes in seen.items():
            by_setting.setdefault(candidate.setting, []).extend(each for each in outcomes if each is not FAILED)
        return {each: self.standing(each, by_setting[each.setting] or seen[each]) for each in candidates}

    def standing(self, candidate: Candidate, outcomes: Sequence[DevResult]) -> DevStanding:
        dev, loss = (float(np.mean([getattr(each, name) for each in outcomes])) for name in ("dev", "loss"))
        learnt = dev > self.constant
        rate = candidate.setting.recipe.plan.rate
        return DevStanding(learnt, dev if learnt else self.constant, -loss, outcomes[0].steps, rate, dev)

    def best_of(self, name: str, means: Mapping[Candidate, DevStanding], share: float) -> list[Candidate]:
        """Return the best share of a contestant's candidates. Where these have all learnt something and others have
        not, the last of several makes room for the one with the least loss of those: it may only be slower.
        """
        candidates = ranked(name, means)
        number = math.ceil(len(candidates) * share)
        best, later = candidates[:number], [each for each in candidates[number:] if not means[each].learnt]
        later = [each for each in later if math.isfinite(means[each].less_loss)]  # not one that diverged or failed
        if len(best) > 1 and later and means[best[-1]].learnt:
            best[-1] = later[0]
        return best

    def foresee(self, candidates: Sequence[Candidate], seeds: range, share: float) -> None:
        """Announce those of the runs that are still to be made, so that they can be done at once."""
        self.ahead(
            [
                (candidate, seed, share)
                for seed in seeds
                for candidate in candidates
                if (candidate, seed, share) not in self.runs
            ]
        )

    def mean(self, candidate: Candidate) -> DevStanding:
        """Return how a candidate stands, over all its seeds in full."""
        return self.standing(
            candidate, [seen for (who, _, share), seen in self.runs.items() if who == candidate and share == 1]
        )

    def sound(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those of which no run in full diverged. Raises ValueError where one of the untouched model did."""
        wild = {who for (who, _, share), seen in self.runs.items() if seen.lost and share == 1}
        for candidate in candidates:
            if candidate in wild and candidate.contestant == UNTOUCHED:
                raise ValueError(
                    f"the untouched model's training diverges with {candidate.setting.name}, its best setting on dev. "
                    f"Lower search.rates, or finetune.plan.rate"
                )
        return [candidate for candidate in candidates if candidate not in wild]

    def record_round(
        self, means: Mapping[Candidate, DevStanding], kept: Sequence[Candidate], why: str, why_not: str
    ) -> None:
        """Add a trial to the record for each candidate of a round that has ended; those that leave are given up."""
        for candidate, standing in means.items():
            runs = [outcome for (who, _, part), outcome in self.runs.items() if (who, part) == (candidate, self.share)]
            stays = candidate in kept
            words = next((outcome.lost for outcome in runs if outcome.lost), why if stays else why_not)
            self.record.append(
                Trial(
                    candidate.contestant,
                    candidate.setting.name,
                    self.rung,
                    runs[0].steps,
                    len(runs),
                    standing.dev,
                    stays,
                    words,
                )
            )
            if not stays:
                self.give_up(candidate)
        self.rung += 1


def ranked(name: str, means: Mapping[Candidate, DevStanding]) -> list[Candidate]:
    """Return the candidates of a contestant, the best first."""
    candidates = [candidate for candidate in means if candidate.contestant == name]
    return sorted(candidates, key=lambda candidate: means[candidate], reverse=True)


def best_of_each(means: Mapping[Candidate, Any]) -> list[Candidate]:
    """Return each contestant's best candidate (the first of equals), in the order of the contestants' scores."""
    best: dict[str, Candidate] = {}
    for candidate, standing in means.items():
        if candidate.contestant not in best or standing > means[best[candidate.contestant]]:
            best[candidate.contestant] = candidate
    return sorted(best.values(), key=lambda candidate: means[candidate], reverse=True)


def untouched_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: candidate.contestant != UNTOUCHED)


@dataclass(frozen=True)
class FineTuned:
    """The fine-tunings that a search chose; the test set is still sealed.

    search  what it tried
    tuned   contestant -> a fine-tuning for each seed, with the setting that dev chose
    begun   contestant -> all fine-tunings that the search began, given up or not; some of them may have no directory
    failed  contestant -> why it is out, where one of its jobs failed
    notes   what a budget left out, and what could not be measured
    rounds  number of complete rounds; None: it is no race in rounds
    """

    entries: Entries
    search: SearchResult
    tuned: Mapping[str, tuple[Job, ...]]
    begun: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rounds: int | None = None

    def tests(self) -> dict[str, tuple[Job, ...]]:
        """Return contestant -> its look at the test set with each seed; those of what is not fine-tuned are one job."""
        task, seeds = self.entries.materials.task, len(self.entries.seeds)
        tests = {name: tuple(tested(job, task) for job in jobs) for name, jobs in self.tuned.items()}
        if self.entries.baseline is not None:
            tests[self.entries.baseline.label] = (tested_baseline(self.entries.baseline, task),) * seeds
        if self.entries.frozen is not None:
            tests[FROZEN] = (tested(self.entries.frozen, task),) * seeds
        return tests


def fit_simple(entries: Entries, run: Path, watch: Watch) -> tuple[Entries, dict[str, str]]:
    """Fit the contestants that are not fine-tuned, and show their scores on dev, the first of a race.

    Returns the entries, without those that failed, and of these name -> why.
    """
    task, simple = entries.materials.task, entries.simple
    errors = do_all(simple.values(), run, watch=watch)
    lost = reasons_of({name: [job] for name, job in simple.items()}, errors)
    if lost:
        entries = without_lost(entries, lost)
    if FROZEN in lost and entries.recipe.contestants in (None, (ALL,)):  # nobody asked for it
        watch(Progress(FROZEN, 0, 0, "fits", {"note": f"left out: {lost.pop(FROZEN)}"}))
    if entries.materials.fold is not None:  # a few dev rows of one fold say nothing to a reader
        return entries, lost
    gold = [example.label for example in task.examples("dev")]
    for name, job in entries.simple.items():
        fitted = done(job, run)
        scores = [dev_row(name, seed, fitted, gold, task) for seed in (0, 1)]
        points = f"{100 * scores[0].dev:.1f}" if len(gold) < 2 else interval_text(interval(scores, task.metric))
        score = f"{points} dev {metric_text(task.metric.name)}"
        worth = "a score to beat" if fitted.get("learnt", True) else "no better than a constant answer or guesses"
        watch(Progress(name, 1, 1, "fits", {"note": f"{score}, {worth}"}))
    return entries, lost


def without_lost(entries: Entries, names: Collection[str]) -> Entries:
    """Return the entries without those of these contestants that are not fine-tuned."""
    baseline = entries.baseline if entries.baseline is None or entries.baseline.label not in names else None
    return replace(entries, baseline=baseline, frozen=None if FROZEN in names else entries.frozen)


def make_models(entries: Entries, run: Path, watch: Watch) -> tuple[Entries, dict[str, str], list[str]]:
    """Make the contestants' models, probe them, and measure their losses on held-out text and how far their embeddings
    moved; show what the probes score on dev. A probe that fails has no score; its contestant races all the same.

    Returns the entries whose models are there, contestant -> why it failed, and in words what could not be measured.
    Raises the error of the untouched model.
    """
    errors = do_all(entries.prepared(), run, watch=watch)
    if entries.materials.fold is None:
        metric = metric_text(entries.materials.task.metric.name)
        for job in (job for jobs in entries.probes.values() for job in jobs):
            if (fitted := result_of(job, run)) is not None:
                score = f"{100 * fitted['dev']:.1f} dev {metric} of its probe"
                watch(Progress(job.label, 1, 1, "fits", {"note": score}))
    base = entries.models.get(UNTOUCHED)
    for error in errors.values():
        if base is not None and errors.get(base.name) is error:
            raise error
    failed = reasons_of(
        {name: [model, *entries.further.get(name, ())] for name, model in entries.models.items()}, errors
    )
    models = {name: job for name, job in entries.models.items() if name not in failed}
    measured = {name: getattr(entries, name) for name in MEASURED}
    kept_of: dict[str, Any] = {
        measure: {name: jobs for name, jobs in by_model.items() if not any(job.name in errors for job in jobs)}
        for measure, by_model in measured.items()
    }
    notes = [
        f"Not measured: {job.label}: {first_line(errors[job.name])}."
        for by_model in measured.values()
        for jobs in by_model.values()
        for job in jobs
        if job.name in errors and not isinstance(errors[job.name], LackingError)
    ]
    probes = {name: jobs for name, jobs in entries.probes.items() if name not in failed}
    kept = replace(entries, models=models, probes=probes, **kept_of)
    return kept, failed, notes


def reasons_of(jobs: Mapping[str, Sequence[Job | None]], errors: Mapping[str, Exception]) -> dict[str, str]:
    """Return name -> why one of its jobs was not done: the first failure among the jobs that they need."""
    found = {}
    for name, models in jobs.items():
        needed = with_needs([job for job in models if job is not None])
        if lost := next((each for each in needed if each.name in errors), None):
            found[name] = f"{lost.label}: {first_line(errors[lost.name])}"
    return found


def searched(entries: Entries, run: Path, *, watch: Watch = unwatched) -> FineTuned:
    """Do the search, and return the fine-tunings that dev chose; the test set stays sealed.

    A contestant one of whose jobs fails is out, and the others go on; a candidate whose training diverges has lost.
    Raises the error of the untouched model's jobs, and of a model that is alone.
    """
    begun: dict[str, dict[str, Job]] = {}
    wild: dict[str, NotFiniteError] = {}
    out: dict[str, str] = {}
    tried: set[tuple[str, float]] = set()

    def job_of(candidate: Candidate, seed: int) -> Job:
        job = entries.tuning(candidate.contestant, candidate.setting, seed)
        return begun.setdefault(candidate.contestant, {}).setdefault(job.name, job)

    def fail(candidate: Candidate, job: Job, error: Exception) -> None:
        if candidate.contestant == UNTOUCHED or len(entries.models) == 1:
            raise error
        if candidate.contestant not in out:
            out[candidate.contestant] = f"{job.label}: {first_line(error)}"
            watch(
                Progress(
                    "search", 0, 0, "steps", {"note": f"{candidate.contestant} failed: {out[candidate.contestant]}"}
                )
            )

    def tune(candidate: Candidate, seed: int, share: float) -> DevResult:
        ahead([(candidate, seed, share)])
        if candidate.contestant in out:
            return FAILED
        job = job_of(candidate, seed)
        try:
            if job.name in wild:
                raise wild[job.name]
            seen = done(job if share == 1 else FirstShare(job, share), run, watch=watch)
        except NotFiniteError as error:
            watch(
                Progress(
                    "search", 0, 0, "steps", {"note": f"{candidate.contestant}, {candidate.setting.name}: {error}"}
                )
            )
            return DIVERGED
        return DevResult(seen["dev"], seen["steps"], loss=seen["loss"], learnt=seen.get("learnt", True))

    def ahead(runs: Sequence[tuple[Candidate, int, float]]) -> None:
        asked = [
            (candidate, job_of(candidate, seed), share)
            for candidate, seed, share in runs
            if candidate.contestant not in out
        ]
        if ranks.world() > 1:  # whose processes stop together: each when it is asked for
            begun_only = [job for _, job, share in asked if share < 1]
            add_to_plan(with_needs(job for _, job, share in asked if share == 1), run, parts=begun_only)
            return
        new = [each for each in asked if each[1].name not in wild and (each[1].name, each[2]) not in tried]
        tried.update((job.name, share) for _, job, share in new)
        parts = [job if share == 1 else FirstShare(job, share) for _, job, share in new]
        errors = do_all(parts, run, watch=watch) if parts else {}
        wild.update({name: error for name, error in errors.items() if isinstance(error, NotFiniteError)})
        for candidate, job, _ in new:
            if job.name in errors and job.name not in wild:
                lost = next(each for each in with_needs([job]) if each.name in errors)
                fail(candidate, lost, errors[lost.name])

    def give_up(candidate: Candidate) -> None:
        for seed in range(len(entries.seeds)):
            place = job_of(candidate, seed).directory(run)
            if (place / finetune.BEGUN).exists():
                finetune.give_up(place)

    found = _found(entries, tune, run, give_up=give_up, ahead=ahead)
    found = replace(
        found, finalists=tuple(candidate for candidate in found.finalists if candidate.contestant not in out)
    )
    entries, lost = fit_simple(_as_ended(entries, found), run, unwatched)  # its score to beat was shown
    out = {**_diverged(found, entries.materials.fold), **out, **lost}
    every = {name: tuple(jobs.values()) for name, jobs in begun.items()}
    return FineTuned(entries, found, _tuned(entries, found), every, out, tuple(filter(None, [found.edge])))


def rates_in_use(entries: Entries, run: Path) -> dict[str, str]:
    """Return contestant -> in words the peak rates that it is fine-tuned with, of those whose models are there."""
    recipes, rates = [setting.recipe for setting in entries.recipe.settings()], {}
    for name in entries.models if entries.fine_tunes else ():
        job, given = entries.model(name, entries.seeds[0]), entries.given.get(name, entries.materials).model
        model = given if job is None else checkpoint_of(job.directory(run))
        assert model is not None
        if job is None or (Path(model) / "config.json").is_file():
            rates[name] = finetune.rates_text(recipes, configuration_of(model).hidden_size)
    return rates


def _diverged(found: SearchResult, fold: Fold | None) -> dict[str, str]:
    """Return the contestants that are not among the finalists because their best candidate diverged -> why."""
    best: dict[str, Trial] = {}
    for trial in found.record:
        last = best.setdefault(trial.contestant, trial)
        if (trial.rung, trial.dev) > (last.rung, last.dev):
            best[trial.contestant] = trial
    ended = {candidate.contestant for candidate in found.finalists}
    place = f" on {fold}" if fold else ""
    return {
        name: f"{DIVERGED.lost}{place} at {trial.setting}"
        for name, trial in best.items()
        if name not in ended and trial.why.endswith(DIVERGED.lost)
    }


def foreseen_of(entries: Entries, run: Path | None = None) -> list[tuple[Job, float]]:
    """Return every job of a race in order, with the share of it that is done: below 1 where it is given up.

    The dev scores of fine-tunings in the directory `run` are known. Of others equal scores are assumed: the number of
    jobs is right, and which ones they are is a guess. No rate beyond those listed is foreseen by a guess.
    Where Optuna draws settings, the trials in the directory `run` count, and none of the others is given up.
    """
    tunings: dict[str, tuple[Job, float]] = {}
    guessed: list[Job] = []

    def tune(candidate: Candidate, seed: int, share: float) -> DevResult:
        job = entries.tuning(candidate.contestant, candidate.setting, seed)
        tunings[job.name] = (job, share)
        if (seen := outcome_in(run, job, share)) is not None:
            return seen
        guessed.append(job)
        return DevResult(0.0, 0)

    def given_up(candidate: Candidate) -> None:
        job = entries.tuning(candidate.contestant, candidate.setting, 0)
        tunings.setdefault(job.name, (job, EARLY))  # of an earlier session: it began, so nothing of it is left

    found = _found(
        entries,
        tune,
        run,
        writes=False,
        judges=run is not None and (run / DIRECTORY).exists(),
        give_up=given_up,
        extends=lambda: not guessed,
    )
    ended = FineTuned(_as_ended(entries, found), found, _tuned(entries, found))
    looks = [*ended.tests().values(), *entries.probe_tests().values()]
    tests = {job.name: (job, 1.0) for jobs in looks for job in jobs}  # one of the baseline
    return [*((job, 1.0) for job in entries.prepared()), *tunings.values(), *tests.values()]


def outcome_in(run: Path | None, job: Job, share: float) -> DevResult | None:
    """Return what a fine-tuning scored on dev by a share of its steps; None where the directory `run` does not say."""
    if run is None:
        return None
    if share == 1:
        seen = result_of(job, run)
        if seen is None:
            return None
        return DevResult(seen["dev"], seen["steps"], loss=seen["loss"], learnt=seen["learnt"])
    begun = job.directory(run) / finetune.BEGUN
    parts: dict[str, list[float]] = files.read_record(begun) if begun.exists() else {}
    shares = {int(steps): best for steps, best in parts.items()}
    if len(shares) != 1:  # of several parts the one that is meant depends on the task's rows
        return None
    [(steps, (dev, loss))] = shares.items()
    return DevResult(dev, steps, loss=loss)


def left(recipe: RaceRecipe, materials: Materials, run: Path) -> list[tuple[Job, float]]:
    """Return the jobs that a race would still do, each with the share of it that would be done."""
    return left_of(enter(recipe, materials), run)


def left_of(entries: Entries, run: Path) -> list[tuple[Job, float]]:
    """Return the jobs of these entries that are still to do, as `left`."""
    return left_among(foreseen_of(entries, run), run)


def left_among(foreseen: Sequence[tuple[Job, float]], run: Path) -> list[tuple[Job, float]]:
    """Return those of the jobs of `foreseen_of` that are still to do, and those of their needs that are."""
    shares = {job.name: (job, share) for job, share in foreseen}
    waiting = missing((job for job, _ in shares.values()), run)
    planned = [shares.get(job.name, (job, 1.0)) for job in waiting]
    return [(job, share) for job, share in planned if share == 1 or not (job.directory(run) / finetune.BEGUN).exists()]


def _found(
    entries: Entries,
    tune: Tune,
    run: Path | None,
    *,
    give_up: Callable[[Candidate], None],
    ahead: Ahead = lambda runs: None,
    writes: bool = True,
    judges: bool = True,
    extends: Callable[[], bool] = lambda: True,
) -> SearchResult:
    """Do the search that the recipe states; none where nothing is fine-tuned.

    run     the directory for what it keeps
    judges  False if all scores are the same guess, so that the best constant answer need not be known
    """
    if not entries.fine_tunes:
        return SearchResult((), (), "")
    names, recipe, task = [*entries.models], entries.recipe, entries.materials.task
    given: dict[str, Any] = {"give_up": give_up, "ahead": ahead}
    if judges:  # early on, a sample of dev is read, on which another answer may score more
        looked = finetune.dev_sample_of(recipe.finetune, task)
        whole = task.examples("dev")
        given["constant"] = max(finetune.without_reading(recipe.finetune, task, read) for read in (whole, looked))
    given["first_cut"] = first_cut(recipe, task.sizes["train"])
    if not recipe.search.draws:

        def beyond(tried: Sequence[Setting], best: Setting) -> Setting | None:
            return recipe.beyond(tried, best) if extends() else None

        given["beyond"] = beyond
        given |= {"how": recipe.search.how, "extend": recipe.search.extend, "common": recipe.search.common}
        return search(names, recipe.settings(), len(entries.seeds), tune, **given)
    from acclimate.races import optuna  # they load Optuna, an extra

    return optuna.search_with_optuna(
        names,
        recipe,
        tune,
        journal=run / optuna.JOURNAL if run else None,
        known_as=lambda name: entries.tuning(name, recipe.setting(), 0).name,
        seeds=len(entries.seeds),
        writes=writes,
        **given,
    )


def _as_ended(entries: Entries, found: SearchResult) -> Entries:
    """Return the entries with the seeds that the search ended with, and a baseline that tries as many settings as the
    untouched model did.
    """
    if found.seeds > len(entries.seeds):
        entries = replace(entries, recipe=replace(entries.recipe, seeds=found.seeds))
    tried = {trial.setting for trial in found.record if trial.contestant == next(iter(entries.models))}
    return entries.with_trials(len(tried)) if tried else entries


def first_cut(recipe: RaceRecipe, rows: int) -> float:
    """Return the share of the steps, at least EARLY, by which each setting has warmed up and done LEAST steps more."""
    shares = [EARLY]
    for setting in recipe.settings():
        plan = finetune.plan_of(setting.recipe, rows, finetune.WIDTH)
        shares.append(((plan.warmup_steps or plan.warmup * plan.steps) + LEAST) / plan.steps)
    return min(1.0, max(shares))


def _tuned(entries: Entries, found: SearchResult) -> dict[str, tuple[Job, ...]]:
    seeds = range(len(entries.seeds))
    return {
        candidate.contestant: tuple(entries.tuning(candidate.contestant, candidate.setting, seed) for seed in seeds)
        for candidate in found.finalists
    }


def dev_row(name: str, seed: int, result: Mapping[str, Any], gold: Sequence[Any], task: Prepared) -> Score:
    """Return what a fine-tuning, or the baseline, scored on dev."""
    ids = tuple(example.id for example in task.examples("dev"))
    found = {**result, "test": result["dev"], "ids": ids, "gold": gold, "predicted": result["predicted_dev"]}
    return test_row(name, seed, found, task, adapting=Cost(), finetuning=Cost())


def test_row(
    name: str, seed: int, result: Mapping[str, Any], task: Prepared, *, adapting: Cost, finetuning: Cost
) -> Score:
    """Return what a fine-tuning, or the baseline, scored on test. result: with the score on dev as `dev`"""
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
        learnt=result.get("learnt", True),
        again=result.get("again", False),
    )
