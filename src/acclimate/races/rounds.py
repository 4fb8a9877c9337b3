"""A race in rounds: it has an answer whenever its time is up, and a later session continues with the next round.

round 0   what is not fine-tuned: the baseline, and the frozen encoder with a linear layer, without terms and with them
round 1   the untouched model is probed and fine-tuned; then each contestant is adapted, probed and fine-tuned with the
          same seed
round 2   the next seed of each contestant, after another adaptation if the recipe has several; and so on

Only complete rounds are compared, so all contestants have the same seeds. Of a first round that was not completed, the
contestants are shown that came to its end. A round begins only if the time of the last one is left. If several settings
are stated (`search`), round 1 tries them all, and each contestant keeps the best on dev (races/search.py).

A fold of a cross-validation, and models that a study is given, are fine-tuned the same way (`searched`), but the test
set stays sealed until all of the study is trained.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from acclimate.core import ranks, settings
from acclimate.core.door import option
from acclimate.core.figures import listed, percent, points
from acclimate.core.steps import finetuning_steps
from acclimate.core.types import NotFiniteError, Progress, Watch, unwatched
from acclimate.data.materials import Fold
from acclimate.jobs.deadline import TimeUpError, deadline
from acclimate.jobs.job import Job, add_to_plan, decided, first_line, missing, result_of, with_needs
from acclimate.jobs.run import do_all
from acclimate.jobs.where import current_workers
from acclimate.races.contestants import MEASURED, Entries, enter, rows_of, tested
from acclimate.races.design import Search
from acclimate.races.outcome import INTERRUPTED, TIME_UP
from acclimate.races.planning.budget import Budget, seconds_of_job
from acclimate.races.planning.forecast import round_costs
from acclimate.races.planning.lengths import (
    BUSY_SLACK,
    FEWEST_EPOCHS,
    SLACK,
    Lengths,
    least_share,
    lengths_within,
    shorter_race,
)
from acclimate.races.preparation import fit_untuned, missing_measurements, rates_in_use, reasons_of, without_lost
from acclimate.races.recipe import ALL, contestants_of
from acclimate.races.search import (
    DIVERGED,
    Candidate,
    DevScores,
    FineTuned,
    SearchResult,
    candidates_of,
    dev_scores,
    end_rate_warning,
    search_result,
)
from acclimate.races.settling import KEY, Evaluation
from acclimate.reports.page import amount
from acclimate.reports.table import UNTOUCHED
from acclimate.statistics.sequential import FIRST
from acclimate.training import trials

RESERVE = {"seconds": 0.03, "flops": 0.0}  # share of a budget for tables and the page
BUSY = 1.25  # times as long as on an idle machine that a computation takes
SLOWER = 1.05  # times the last round that the next one may take
FIRST_FOLD = Fold(0, 0)  # of a cross-validation, which tells the rates for all


def race_in_rounds(
    entries: Entries,
    run: Path,
    *,
    budget: Budget | None,
    evaluate: Callable[[FineTuned], Evaluation] | None = None,
    watch: Watch = unwatched,
) -> FineTuned:
    """Do what is missing of the race in the directory `run`, as far as the budget goes, and return what its complete
    rounds fine-tuned.

    budget    None: all rounds are done, as many as the recipe has seeds
    evaluate  returns what the complete rounds came to, if the race ends once it is settled

    The race also ends at KeyboardInterrupt. A contestant one of whose jobs fails is out, and the others go on. If the
    untouched model's jobs fail, or those of a model that is alone, the race ends with its complete rounds; in the first
    round their error is raised.
    """
    race = _Race(entries, run, budget, watch, evaluate, race_key(entries))
    try:
        if not race.begin():
            return race.without_tuning()
        while not race.ends() and race.complete < len(race.entries.seeds) and race.fits():
            race.do_round()
    except TimeUpError:
        race.stopped = TIME_UP
    except KeyboardInterrupt:
        race.stopped = INTERRUPTED
    except _LaterRoundError as error:
        race.stopped = str(error)
    return race.result()


class _LaterRoundError(Exception):
    """A round after the first cannot be completed. The text says why, as a clause."""


def searched(entries: Entries, run: Path, *, watch: Watch = unwatched) -> FineTuned:
    """Do all rounds without a look at the test set, and return what they fine-tuned. The later rounds run at once.

    A contestant one of whose jobs fails is out, as in `race_in_rounds`; the probe of its model counts all the same.
    """
    race, later = _Race(entries, run, None, watch), range(1, len(entries.seeds))
    race.begin()
    race.train_round()
    planned = [race.jobs(number) for number in later]
    race.do([job for by_kind in planned for jobs in by_kind.values() for job in jobs])
    for by_kind in planned:
        race.drop_failed(by_kind)
    race.complete = len(entries.seeds)
    result = race.result()
    names = [name for name, model in entries.models.items() if model is None or result_of(model, run) is not None]
    parts = {name: getattr(result.entries, name) for name in ("baseline", "unadapted", *MEASURED)}
    return replace(result, entries=replace(only(entries, names), **parts), rounds=None)


@dataclass
class _Race:
    """A race under way.

    race       its `race_key`, with the contestants that are out
    complete   number of complete rounds
    chosen     the candidates that later rounds fine-tune, the untouched model first; none before round 1 is complete
    out        contestant -> why it is out of the race
    job_costs  what the jobs of the last rounds took, by contestant and kind of job, in the budget's unit
    stopped    why the race ended before its last round; "" if it did not
    """

    entries: Entries
    run: Path
    budget: Budget | None
    watch: Watch
    evaluate: Callable[[FineTuned], Evaluation] | None = None
    race: str = ""
    complete: int = 0
    chosen: list[Candidate] = field(default_factory=list)
    out: dict[str, str] = field(default_factory=dict)
    budget_notes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    job_costs: dict[tuple[str, str], float] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    stopped: str = ""
    lengths: Lengths = field(default_factory=Lengths)
    whole: Entries | None = None  # before they were shortened

    def begin(self) -> bool:
        """Fit the baseline, whatever the budget is, decide how long fine-tuning and adapting are, and fit the layer on
        the frozen encoder. Return False if not even the untouched model's shortest fine-tuning fits.
        """
        unadapted = self.entries.unadapted
        entries, lost = fit_untuned(replace(self.entries, unadapted={}), self.run, self.watch)
        self.entries, self.out = replace(entries, unadapted=unadapted), self.out | lost
        if self.budget is None and (lengths := lengths_without_limit(self.entries, self.run)) is not None:
            self.lengths = lengths
            self.note_lengths()
            self.entries = shortened(order_contestants(self.entries), lengths)
        elif self.budget is not None:
            self.entries = order_contestants(self.entries)
            with self.until_time_up() as watch:
                self.lengths = lengths_of(self.entries, self.run, self.budget, watch=watch)
            self.note_lengths()
            if self.lengths.contestants:
                self.whole, self.entries = self.entries, shortened(self.entries, self.lengths)
                if self.budget.unit == "flops":  # no clock interrupts what does not fit
                    self.entries = only(self.entries, [*self.entries.models][: self.lengths.contestants])
        if not self.lengths.contestants:
            self.do(self.entries.probes.get(UNTOUCHED, ())[:1])
        if self.entries.unadapted and (self.entries.base is None or not self.lengths.contestants):
            with self.until_time_up() as watch:  # a model that is pretrained here is made in round 1
                alone, lost = fit_untuned(replace(self.entries, baseline=None), self.run, watch)
            self.entries, self.out = replace(self.entries, unadapted=alone.unadapted), self.out | lost
        return self.lengths.contestants > 0

    def note_lengths(self) -> None:
        """Report what the budget, or that of an earlier session, shortens, each note once."""
        notes = notes_on(self.lengths, self.whole or self.entries, self.budget)
        for note in notes:
            if note not in self.budget_notes:
                self.watch(Progress("budget", 0, 0, "steps", {"note": note}))
        self.budget_notes = notes

    def end(self, *, tests: bool = False) -> float:
        """Return when training, or the tests of a round, ends, as `time.monotonic` counts; infinity if the budget is
        not one of time.
        """
        if self.budget is None or self.budget.unit != "seconds":
            return math.inf
        return time.monotonic() + self.left(tests=tests)

    @contextmanager
    def until_time_up(self, *, tests: bool = False) -> Iterator[Watch]:
        """Raise TimeUpError in the block once the time for training, or for tests, is up. Yields the watch for it.

        Several processes that share a job have to stop together: under torchrun they agree on it before the block.
        """
        end = self.end(tests=tests)
        if ranks.world() == 1:
            with deadline(end, self.watch) as watch:
                yield watch
            return
        if ranks.agree(time.monotonic() >= end):
            raise TimeUpError
        yield self.watch

    def left(self, *, tests: bool = False) -> float:
        """Return what is left of the budget, for training or for tests."""
        if self.budget is None:
            return math.inf
        # a first round that is not complete is tested at the end
        reserved = 0.0 if self.complete or tests else self.lengths.tests
        return self.budget.amount * (1 - RESERVE[self.budget.unit]) - reserved - self.budget.spent(self.run)

    def ends(self) -> bool:
        """Return True if the evaluation of the last round ends the race. It is recorded, for each round once."""
        if self.evaluate is None or self.complete < FIRST:
            return False
        evaluate, race = self.evaluate, self.race
        key = f"{KEY}{self.complete}"  # failed contestants do not change it: the level counts them too
        evaluation = Evaluation(**decided(self.run, key, lambda: asdict(replace(evaluate(self.result()), race=race))))
        note = f"{evaluation.kind}; the race {'ends' if evaluation.end else 'continues'}"
        self.watch(Progress(f"evaluation of round {self.complete}", 0, 0, "steps", {"note": note}))
        self.stopped = evaluation.end
        return bool(evaluation.end)

    def fits(self) -> bool:
        """Return True if the next round fits into what is left, by what the last one took."""
        planned = self.jobs(self.complete)
        waiting = missing((job for jobs in planned.values() for job in jobs), self.run)
        costs = [self.job_costs.get(at, 0.0) for at in [*planned, ("", "test")]]
        forecast = SLOWER * sum(costs)
        fits = not waiting or not self.complete or bool(ranks.agree(forecast <= self.left()))
        self.stopped = "" if fits else TIME_UP
        return fits

    def jobs(self, number: int) -> dict[tuple[str, str], list[Job]]:
        """Return the jobs of a round that come before its tests, in their order, by contestant and kind.

        number: of the round, from 0 on; it is the seed of fine-tuning, and the number of the adaptation
        """
        entries = self.entries
        planned: dict[tuple[str, str], list[Job]] = {}
        measured = dict.fromkeys(name for measure in MEASURED for name in getattr(entries, measure))
        unraced = [name for name in measured if name not in entries.models]  # such as a link of a chain
        for name, first in entries.models.items():
            drawn = [job for job in (first, *entries.further.get(name, ())) if job is not None]
            others = unraced if name == next(iter(entries.models)) else []
            planned[name, "model"] = drawn[number : number + 1]
            planned[name, "probe"] = [*entries.probes.get(name, ())[number : number + 1]]
            if name == UNTOUCHED and not number:
                planned[name, "probe"] += entries.unadapted.values()
            planned[name, "measurement"] = [
                job
                for measure in MEASURED
                for of in (name, *others)
                for job in getattr(entries, measure).get(of, ())[number : number + 1]
            ]
            planned[name, "tuning"] = [
                entries.tuning(name, candidate.setting, number)
                for candidate in self.candidates()
                if candidate.contestant == name
            ]
        return {at: jobs for at, jobs in planned.items() if jobs}

    def candidates(self) -> list[Candidate]:
        """Return the candidates of the next round: in the first one all settings of all contestants."""
        return self.chosen or candidates_of(self.entries)

    def do(self, jobs: Sequence[Job], *, tests: bool = False) -> None:
        """Do the jobs that have no result yet, until the time is up. tests: whether they are the tests of a round"""
        if ranks.world() == 1:
            with self.until_time_up(tests=tests) if missing(jobs, self.run) else nullcontext(self.watch) as watch:
                do_all(jobs, self.run, watch=watch, errors=self.errors)
            return
        add_to_plan(with_needs(jobs), self.run)
        for job in jobs:
            if not ranks.agree(bool(missing([job], self.run))):
                continue
            with self.until_time_up(tests=tests) as watch:
                try:
                    do_all([job], self.run, watch=watch)
                except NotFiniteError as error:  # all processes diverge together, which ends no race
                    self.errors[job.name] = error

    def train_round(self) -> dict[tuple[str, str], list[Job]]:
        """Do the next round up to its tests, the first one with every setting. Return its jobs as `jobs` does."""
        number, planned = self.complete, self.jobs(self.complete)
        if number == 0 and self.whole is not None:
            self.do([job for (name, _), jobs in planned.items() for job in jobs if name == UNTOUCHED])
            self.shorten_adapting(planned.get((UNTOUCHED, "tuning"), ()))
            keep_lengths(self.whole, self.run, self.lengths)
            planned = self.jobs(self.complete)
        self.do([job for jobs in planned.values() for job in jobs])
        self.drop_failed(planned)
        if number == 0:
            self.choose(self.candidates())
        return planned

    def shorten_adapting(self, tunings: Sequence[Job]) -> None:
        """Shorten adapting if the round would not be completed at the pace of these fine-tunings.

        The lengths of an earlier session stay, and those of a race that pretrains the untouched model.
        """
        assert self.whole is not None
        assert self.budget is not None
        if self.budget.unit != "seconds" or self.entries.base is not None or kept_lengths(self.whole, self.run):
            return
        seconds = sum(map(self.cost, tunings))
        slower = self.lengths.slower(seconds, self.left(), self.budget.amount)
        lengths = Lengths(**ranks.agree(asdict(slower)))
        if lengths != self.lengths:
            entries = shortened(self.whole, lengths)
            self.lengths, self.entries = lengths, replace(entries, unadapted=self.entries.unadapted)
            self.note_lengths()

    def do_round(self) -> None:
        """Do the next round and its tests, and tell what it came to."""
        number, planned = self.complete, self.train_round()
        tests = self.tests(number)
        self.do(tests, tests=True)
        self.job_costs |= {at: sum(map(self.cost, jobs)) for at, jobs in {**planned, ("", "test"): tests}.items()}
        if number == 0:  # of several settings later rounds have one
            tried = len(self.entries.recipe.settings())
            self.job_costs |= {at: cost / tried for at, cost in self.job_costs.items() if at[1] == "tuning"}
        self.complete += 1
        self.tell(number)

    def tests(self, number: int) -> list[Job]:
        """Return the looks of a round at the test set."""
        task = self.entries.materials.task
        tests = [tested(self.tuning(candidate, number), task) for candidate in self.chosen]
        tests += [job for jobs in self.entries.probe_tests().values() for job in jobs[number : number + 1]]
        tests += [] if number else self.entries.untuned_tests.values()
        return [job for job in tests if all(result_of(need, self.run) is not None for need in job.needs.values())]

    def tuning(self, candidate: Candidate, number: int) -> Job:
        """Return the fine-tuning of a candidate in a round."""
        return self.entries.tuning(candidate.contestant, candidate.setting, number)

    def cost(self, job: Job) -> float:
        """Return what a job took, in the budget's unit; of seconds its share, if several jobs run at once."""
        if self.budget is not None and self.budget.unit == "flops":
            return float((result_of(job, self.run) or {}).get("flops", 0.0))
        workers = current_workers()
        return seconds_of_job(job.directory(self.run)) / (workers.slots if workers is not None else 1)

    def drop_failed(self, planned: Mapping[tuple[str, str], Sequence[Job]]) -> None:
        """Take the contestants out of the race whose models or fine-tunings failed.

        If it is the untouched model or a model that is alone, raises the error, or _LaterRoundError after the first
        round.
        """
        failed = reasons_of({name: [job] for name, job in self.entries.unadapted.items()}, self.errors)
        self.out, self.entries = self.out | failed, without_lost(self.entries, failed)
        for name in self.entries.models:
            needed = [job for kind in ("model", "tuning") for job in planned.get((name, kind), ())]
            lost = [error for job in needed if (error := self.errors.get(job.name)) is not None]
            needed_by_all = name == UNTOUCHED or (len(self.entries.models) == 1 and not self.out)
            if lost and needed_by_all and self.complete:
                raise _LaterRoundError(f"in round {self.complete + 1} {name} failed: {first_line(lost[0])}")
            lost = [error for error in lost if not isinstance(error, NotFiniteError)]
            if not lost:
                continue
            if needed_by_all:
                raise lost[0]
            self.out |= reasons_of({name: needed}, self.errors)
            self.watch(Progress("race", 0, 0, "steps", {"note": f"{name} failed: {self.out[name]}"}))
        self.entries = only(self.entries, [name for name in self.entries.models if name not in self.out])
        self.chosen = [candidate for candidate in self.chosen if candidate.contestant not in self.out]

    def choose(self, candidates: Sequence[Candidate]) -> None:
        """Choose each contestant's best setting on dev by the first seed. Those that diverge even so are out."""
        scores = self.scores()
        chosen = scores.best([candidate for candidate in candidates if candidate.contestant in self.entries.models])
        self.chosen = self.drop_diverged(chosen, scores.sound(chosen, 1))
        self.entries = only(self.entries, [candidate.contestant for candidate in self.chosen])
        if (self.entries.materials.fold or FIRST_FOLD) == FIRST_FOLD:
            for name, rates in rates_in_use(self.entries, self.run).items():
                self.watch(Progress(f"fine-tune {name}", 0, 0, "steps", {"note": rates}))

    def drop_diverged(self, chosen: Sequence[Candidate], sound: Sequence[Candidate]) -> list[Candidate]:
        """Take the chosen candidates out of the race that are not sound. Return the others."""
        place = f" on {fold}" if (fold := self.entries.materials.fold) else ""
        for candidate in chosen:
            if candidate not in sound:
                self.out[candidate.contestant] = f"{DIVERGED.lost}{place} at {candidate.setting.name}"
        return [*sound]

    def scores(self) -> DevScores:
        """Return the scores on dev so far."""
        return dev_scores(self.entries, self.run, self.errors)

    def tell(self, number: int) -> None:
        """Tell the scores of a complete round."""
        task = self.entries.materials.task
        tests = {candidate.contestant: tested(self.tuning(candidate, number), task) for candidate in self.chosen}
        tests |= self.entries.untuned_tests
        results = {name: result_of(test, self.run) for name, test in tests.items()}
        alone = len(self.entries.models) == 1 and not self.entries.untuned  # which is not called untouched
        scores = {name: points(result["test"]) for name, result in results.items() if result is not None}
        score_list = ", ".join(score if alone else f"{name} {score}" for name, score in scores.items())
        values: dict[str, Any] = {"note": f"complete: {score_list} points on test"}
        if self.entries.materials.fold is None:
            values["scores"] = {name: result["test"] for name, result in results.items() if result is not None}
        self.watch(Progress(f"round {number + 1}", 1, 1, "rounds", values))

    def result(self) -> FineTuned:
        """Return what the complete rounds fine-tuned, or what the first one did before the race was stopped."""
        if not self.complete:
            self.drop_failed(self.jobs(0))
        tried = candidates_of(self.entries)
        if not self.complete:
            tried = [candidate for candidate in tried if result_of(self.tuning(candidate, 0), self.run) is not None]
            reached = [*dict.fromkeys(candidate.contestant for candidate in tried)]
            if UNTOUCHED not in reached:
                return self.without_tuning()
            if late := [name for name in self.entries.models if name not in reached]:
                self.notes.append(f"The first round ended before {listed(late)}.")
            self.entries = only(self.entries, reached)
            self.choose(tried)
            tried = [candidate for candidate in tried if candidate.contestant in self.entries.models]
        rounds = max(1, self.complete)
        search = search_result(self.scores(), tried, self.chosen, rounds, stopped=self.stopped)
        sound = self.drop_diverged(self.chosen, search.finalists)
        tuned = {
            candidate.contestant: tuple(self.tuning(candidate, seed) for seed in range(rounds)) for candidate in sound
        }
        warning = end_rate_warning(sound, self.entries.recipe)
        notes = [*self.budget_notes, *self.notes, *missing_measurements(self.entries, self.errors)]
        entries = cut_to_rounds(only(self.entries, [*tuned]), self.run, rounds)
        return FineTuned(entries, search, tuned, self.out, (*notes, *filter(None, [warning])), self.complete)

    def without_tuning(self) -> FineTuned:
        """Return the race in which not even the untouched model was fine-tuned: its probe, if there is one."""
        if self.lengths.contestants:
            larger = "" if self.stopped == INTERRUPTED else f" with a larger {option('budget')}"
            self.notes.append(
                f"The race stopped before the untouched model was fine-tuned. Repeat the command{larger} to continue."
            )
        entries = cut_to_rounds(only(self.entries, [UNTOUCHED]), self.run, 1)
        search = SearchResult(stopped=self.stopped)
        return FineTuned(
            replace(entries, fine_tunes=False),
            search,
            notes=(*self.budget_notes, *self.notes),
            failed=self.out,
            rounds=0,
        )


def only(entries: Entries, names: Iterable[str]) -> Entries:
    """Return the entries of these contestants alone. What is measured of links of chains stays."""
    gone = {*entries.models} - {*names}
    parts: dict[str, Any] = {
        part: {name: value for name, value in getattr(entries, part).items() if name not in gone}
        for part in ("models", "further", "probes", "own_materials", *MEASURED)
    }
    return replace(entries, **parts)


def cut_to_rounds(entries: Entries, run: Path, rounds: int) -> Entries:
    """Return the entries with as many seeds and adaptations as there are rounds, without what was not measured."""
    recipe = replace(entries.recipe, seeds=rounds, adapt_seeds=min(entries.recipe.adapt_seeds, rounds))
    parts: dict[str, Any] = {"further": {name: jobs[: rounds - 1] for name, jobs in entries.further.items()}}
    for part in ("probes", *MEASURED):
        cut = {name: jobs[:rounds] for name, jobs in getattr(entries, part).items()}
        parts[part] = {name: jobs for name, jobs in cut.items() if not missing(jobs, run)}
    parts["unadapted"] = {name: job for name, job in entries.unadapted.items() if not missing([job], run)}
    return replace(entries, recipe=recipe, **parts)


def order_contestants(entries: Entries) -> Entries:
    """Return the entries with the contestants in the order in which a first round does them: the untouched model and
    checkpoints, then those that read a corpus of the user, then the others; or in that of a recipe that names them.
    """
    if entries.recipe.contestants not in (None, (ALL,)):
        return entries
    known = contestants_of(entries.recipe.methods)
    first = {
        UNTOUCHED,
        *entries.own_materials,
        *(name for name, (_, contestant) in known.items() if contestant.needs != "task"),
    }
    models = {name: entries.models[name] for name in sorted(entries.models, key=lambda name: name not in first)}
    return replace(entries, models=models)


def lengths_of(
    entries: Entries, run: Path, budget: Budget, *, records: bool = True, watch: Watch = unwatched
) -> Lengths:
    """Return how long fine-tuning and adapting are: as `keep_lengths` wrote it down, else as they fit into the budget.

    records: False for a dry run
    """
    key = race_key(entries)
    if (earlier := kept_lengths(entries, run)) is not None:
        return earlier
    tuning = decided(run, f"tuning-length-{key}", lambda: None, records=False)
    recipe, task = entries.recipe, entries.materials.task

    def decide() -> dict[str, Any]:
        planned = _Race(entries, run, budget, watch).jobs(0)
        tunings = [job for (_, kind), jobs in planned.items() for job in jobs if kind == "tuning"]
        tests = [tested(job, task) for job in tunings[:: len(recipe.settings())]]
        tests += [job for jobs in entries.probe_tests().values() for job in jobs[:1]]
        tests += entries.untuned_tests.values()
        jobs = [*(job for jobs in planned.values() for job in jobs), *tests]
        costs = round_costs(entries, jobs, budget.unit, watch=watch)
        least = 1.0 if recipe.search.epochs else least_share(recipe.finetune, task.sizes["train"])
        least, most = (least, 1.0) if tuning is None else (tuning, tuning)
        remainder = budget.amount * (1 - RESERVE[budget.unit]) - budget.spent(run)
        slack = 1.0 if budget.unit == "flops" else SLACK if trials.busy() < BUSY else BUSY_SLACK
        lengths = lengths_within(
            budget.amount, remainder, costs, least=least, most=most, adaptations=recipe.adapt_seeds, slack=slack
        )
        rows = rows_of(recipe, entries.materials, costs.rows)
        if lengths.adaptations == recipe.adapt_seeds:
            lengths = replace(lengths, adaptations=0)
        return asdict(replace(lengths, rows=rows, budget=budget.text))

    return Lengths(**decided(run, f"lengths-{key}-{budget.text}", decide, records=records))


def kept_lengths(entries: Entries, run: Path) -> Lengths | None:
    """Return what `keep_lengths` wrote down; None if it wrote nothing."""
    lengths = decided(run, f"lengths-{race_key(entries)}", lambda: None, records=False)
    return None if lengths is None else Lengths(**lengths)


def lengths_without_limit(entries: Entries, run: Path) -> Lengths | None:
    """Return the lengths with which a race continues without a budget: those that `keep_lengths` wrote down. Of several
    adaptations there are as many as the recipe states, since adapting has its full length then.
    """
    lengths = kept_lengths(entries, run)
    return replace(lengths, adaptations=0) if lengths is not None and lengths.adaptations > 1 else lengths


def keep_lengths(entries: Entries, run: Path, lengths: Lengths) -> None:
    """Write the lengths down, once the untouched model was fine-tuned: all fine-tunings of this race are as long. Other
    lengths are kept if adapting was counted.
    """
    key = race_key(entries)
    decided(run, f"tuning-length-{key}", lambda: lengths.tuning)
    if lengths.contestants > 1:
        decided(run, f"lengths-{key}", lambda: asdict(lengths))


def as_raced(search: Search, run: Path, *, rounds: int | None = None) -> Entries:
    """Return the contestants of a search with the lengths that they have in the race in the directory `run`.

    rounds: number of complete rounds; None: as many as fit by forecast. A dry run, which writes nothing, asks this too
    """
    entries = order_contestants(search.entries)
    if search.budget is None:
        lengths = lengths_without_limit(entries, run) if search.rounds else None
        return search.entries if lengths is None else shortened(entries, lengths)
    lengths = lengths_of(entries, run, search.budget, records=False)
    if not lengths.contestants:
        return cut_to_rounds(replace(only(entries, [UNTOUCHED]), fine_tunes=False), run, 1)
    cut = only(shortened(entries, lengths), [*entries.models][: lengths.contestants])
    seeds = max(1, rounds_of(lengths, cut.recipe.seeds, search.budget) if rounds is None else rounds)
    return replace(cut, recipe=replace(cut.recipe, seeds=seeds, adapt_seeds=min(cut.recipe.adapt_seeds, seeds)))


def rounds_of(lengths: Lengths, most: int, budget: Budget) -> int:
    """Return how many rounds fit into the budget by forecast, at least 1."""
    remainder = budget.amount * (1 - RESERVE[budget.unit]) - lengths.first
    return max(1, min(most, 1 + int(remainder / lengths.later))) if lengths.later > 0 else most


def shortened(entries: Entries, lengths: Lengths) -> Entries:
    """Return the entries with fine-tunings and adaptations of that length, contestants in the same order."""
    cut = enter(shorter_race(entries.recipe, lengths), entries.materials)
    cut = replace(
        cut,
        baseline=entries.baseline,
        unadapted={name: cut.unadapted[name] for name in entries.unadapted},
        models={name: cut.models[name] for name in entries.models},
    )
    return replace(cut, recipe=replace(cut.recipe, tfidf=entries.recipe.tfidf))


def notes_on(lengths: Lengths, entries: Entries, budget: Budget | None) -> list[str]:
    """Return in sentences what a budget shortens, and how many rounds fit by forecast.

    budget: None if only an earlier session had one
    """
    recipe, rows = entries.recipe, entries.materials.task.sizes["train"]
    if budget is not None and not lengths.contestants:
        enough = budget.as_text(1.2 * lengths.first).replace(" ", "")
        return [
            f"The budget of {budget.text} is too small for fine-tuning: {FEWEST_EPOCHS} epochs of the untouched "
            f"model take about {budget.as_text(lengths.first)}. Give {option('budget', enough)} or more, or a "
            f"smaller {option('model')}."
        ]
    notes = [f"The race had a budget of {budget.text}."] if budget is not None else []
    fit = f"to fit {lengths.budget}"
    if budget is None or lengths.budget != budget.text:
        fit = (
            f"the lengths for {option('budget', lengths.budget)}, with which the race began; choose another "
            f"{option('out')} for other lengths"
        )
    if lengths.tuning < 1:
        steps = finetuning_steps(recipe.finetune, rows)
        short = finetuning_steps(shorter_race(recipe, lengths).finetune, rows)
        notes.append(f"Fine-tuning has {short:,} of its {steps:,} steps, {fit}.")
    if lengths.adapting < 1:
        notes.append(
            f"Adapting sees {percent(lengths.adapting)} of the rows that its settings state, {fit}. More may change "
            "which contestant is ahead."
        )
    if budget is None or lengths.budget != budget.text:
        return notes
    if lengths.contestants < len(entries.models):
        late = [*entries.models][lengths.contestants :]
        return [*notes, f"The first round is expected to end before {listed(late)}."]
    rounds = rounds_of(lengths, recipe.seeds, budget)
    return [*notes, f"{amount(rounds, 'round')} should fit into {budget.text}."]


def race_key(entries: Entries) -> str:
    """Return the key of a decision, 12 hex digits: of recipe, data, and the models with all that makes them. Numbers of
    rounds and adaptations do not count, and no setting of what follows the race.
    """
    materials = {name: entries.own_materials.get(name, entries.materials) for name in entries.models}
    models = {name: job.name if job else materials[name].identity() for name, job in entries.models.items()}
    values = settings.to_mapping(entries.recipe)
    for name in ("seeds", "adapt_seeds", "learning_curve", "margin", "until"):
        del values[name]
    return settings.digest([values, dict(entries.materials.task.hashes), models])[:12]
