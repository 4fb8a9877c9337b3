"""Which setting each contestant gets: it tries every one with the first seed, and the best on dev runs the other seeds.

The better candidate, a contestant with a setting, has the higher dev score; of equal ones the lower dev loss, then more
steps, then the higher rate, so that the slowest setting does not win the ties. A candidate that does not beat the best
constant answer comes after all that do, and such candidates are ranked by their dev loss, which falls before any answer
changes. With `search.common` settings are compared by their means over all contestants, so all choose the same one.

races/rounds.py trains the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from acclimate.core.types import NotFiniteError
from acclimate.jobs.job import Job, result_of
from acclimate.methods.recipes import finetune
from acclimate.races.contestants import Entries, tested
from acclimate.races.outcome import Trial
from acclimate.races.recipe import RaceRecipe, Setting
from acclimate.reports.page import amount
from acclimate.reports.table import UNTOUCHED


@dataclass(frozen=True)
class Candidate:
    contestant: str
    setting: Setting


def candidates_of(entries: Entries) -> list[Candidate]:
    """Return every contestant that is fine-tuned with every setting."""
    settings = entries.recipe.settings() if entries.fine_tunes else ()
    return [Candidate(name, setting) for name in entries.models for setting in settings]


@dataclass(frozen=True)
class DevResult:
    """What one fine-tuning scored on dev, its loss there, and the steps it took. lost: why there is no score"""

    dev: float
    steps: int
    loss: float = math.inf
    lost: str = ""


DIVERGED = DevResult(-1.0, 0, lost="its training diverged")  # the loss was no number any more
FAILED = DevResult(-1.0, 0, lost="a job of its contestant failed")  # or was not done yet


@dataclass(frozen=True)
class DevScores:
    """What fine-tunings scored on dev, and which setting is best by it.

    result    returns what a candidate scored with the seed of this number
    constant  dev score without reading a text (finetune.without_reading)
    common    True if all contestants get the same setting
    """

    result: Callable[[Candidate, int], DevResult]
    constant: float = -math.inf
    common: bool = False

    def best(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return each contestant's best candidate with the first seed (the first of equals): the untouched model, then
        the others by falling score.
        """
        results = {candidate: [self.result(candidate, 0)] for candidate in candidates}
        if self.common:
            by_setting: dict[Setting, list[DevResult]] = {}
            for candidate, [result] in results.items():
                by_setting.setdefault(candidate.setting, []).extend([result] if result is not FAILED else [])
            results = {candidate: by_setting[candidate.setting] or own for candidate, own in results.items()}
        standings = {candidate: self._standing(candidate, several) for candidate, several in results.items()}
        best: dict[str, Candidate] = {}
        for candidate, standing in standings.items():
            if candidate.contestant not in best or standing > standings[best[candidate.contestant]]:
                best[candidate.contestant] = candidate
        ranked = sorted(best.values(), key=lambda candidate: standings[candidate], reverse=True)
        return sorted(ranked, key=lambda candidate: candidate.contestant != UNTOUCHED)

    def _standing(self, candidate: Candidate, results: Sequence[DevResult]) -> tuple[float, float, int, float]:
        """Return how good a candidate is by the mean of its results; the better one is the larger value."""
        dev, loss = mean_of(results, "dev"), mean_of(results, "loss")
        return max(dev, self.constant), -loss, results[0].steps, candidate.setting.recipe.plan.rate

    def sound(self, candidates: Sequence[Candidate], seeds: int) -> list[Candidate]:
        """Return those of which no run diverged. Raises ValueError if one of the untouched model did."""
        wild = [
            candidate for candidate in candidates if any(self.result(candidate, seed).lost for seed in range(seeds))
        ]
        for candidate in wild:
            if candidate.contestant == UNTOUCHED:
                raise ValueError(
                    f"the untouched model's training diverges with {candidate.setting.name}, its best setting on "
                    "dev. Lower search.rates or finetune.plan.rate"
                )
        return [candidate for candidate in candidates if candidate not in wild]

    def trials(
        self,
        candidates: Sequence[Candidate],
        chosen: Sequence[Candidate],
        words: tuple[str, str],
        *,
        rung: int,
        seeds: int,
    ) -> list[Trial]:
        """Return the record of candidates with so many seeds. words: why one was chosen, and why not"""
        trials = []
        for candidate in candidates:
            results = [self.result(candidate, seed) for seed in range(seeds)]
            lost = next((result.lost for result in results if result.lost), "")
            stays = candidate in chosen
            trials.append(
                Trial(
                    candidate.contestant,
                    candidate.setting.name,
                    rung,
                    results[0].steps,
                    seeds,
                    mean_of(results, "dev"),
                    stays,
                    lost or words[not stays],
                )
            )
        return trials


def mean_of(results: Sequence[DevResult], name: Literal["dev", "loss"]) -> float:
    return float(np.mean([getattr(result, name) for result in results]))


def dev_scores(entries: Entries, run: Path, errors: Mapping[str, Exception]) -> DevScores:
    """Return what the finished fine-tunings of a race scored. errors: name of a job -> why it failed"""
    task, recipe = entries.materials.task, entries.recipe
    results: dict[str, DevResult] = {}

    def result(candidate: Candidate, number: int) -> DevResult:
        job = entries.tuning(candidate.contestant, candidate.setting, number)
        if job.name not in results:
            scored = result_of(job, run)
            lost = DIVERGED if isinstance(errors.get(job.name), NotFiniteError) else FAILED
            results[job.name] = lost if scored is None else DevResult(scored["dev"], scored["steps"], scored["loss"])
        return results[job.name]

    if len(recipe.settings()) == 1:
        return DevScores(result)
    samples = (task.examples("dev"), finetune.dev_sample_of(recipe.finetune, task))  # another answer may score more
    constant = max(finetune.without_reading(recipe.finetune, task, examples) for examples in samples)
    return DevScores(result, constant, recipe.search.common)


@dataclass(frozen=True)
class SearchResult:
    """The candidates that reached the end with every seed, the untouched model first, and the record.

    note     the search in a sentence; "" where there was nothing to search
    stopped  why it ended early; "" where it did not
    """

    finalists: tuple[Candidate, ...] = ()
    record: tuple[Trial, ...] = ()
    note: str = ""
    stopped: str = ""


def search_result(
    scores: DevScores, tried: Sequence[Candidate], chosen: Sequence[Candidate], seeds: int, *, stopped: str = ""
) -> SearchResult:
    """Return what became of all candidates with the first seed, and of the chosen ones with so many seeds."""
    settings = len({candidate.setting for candidate in tried})
    record, note = list[Trial](), ""
    if settings > 1:
        note = f"{amount(settings, 'setting')} of each contestant were tried with the first seed."
        record += scores.trials(tried, chosen, ("goes on", "another setting did better"), rung=0, seeds=1)
    sound = scores.sound(chosen, seeds)
    why = ("the best setting of its contestant", "")
    record += scores.trials(chosen, sound, why, rung=int(settings > 1), seeds=seeds)
    return SearchResult(tuple(sound), tuple(record), note, stopped)


def end_rate_warning(chosen: Sequence[Candidate], recipe: RaceRecipe) -> str:
    """Return a warning that names the candidates whose rate lies at an end of those tried; "" if there are none."""
    rates = recipe.search.rates
    ends = {min(rates), max(rates)} if len(rates) > 1 else set()
    names = [
        f"{candidate.contestant} ({candidate.setting.name})"
        for candidate in chosen
        if candidate.setting.recipe.plan.rate in ends
    ]
    if not names:
        return ""
    return f"The best rate is the lowest or highest of those tried: {', '.join(names)}. A rate beyond it may be better."


@dataclass(frozen=True)
class FineTuned:
    """The fine-tunings that a search chose.

    search  what it tried
    tuned   contestant -> a fine-tuning for each seed, with the setting that dev chose
    failed  contestant -> why it is out, where one of its jobs failed
    notes   what a budget left out, and what could not be measured
    rounds  number of complete rounds; None: it is no race in rounds
    """

    entries: Entries
    search: SearchResult = field(default_factory=SearchResult)
    tuned: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rounds: int | None = None

    def tests(self) -> dict[str, tuple[Job, ...]]:
        """Return contestant -> its look at the test set with each seed; those of what is not fine-tuned are one job."""
        task, seeds = self.entries.materials.task, len(self.entries.seeds)
        tests = {name: tuple(tested(job, task) for job in jobs) for name, jobs in self.tuned.items()}
        return tests | {name: (test,) * seeds for name, test in self.entries.untuned_tests.items()}
