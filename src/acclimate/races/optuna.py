"""A search in which Optuna draws the settings, for every contestant as many, and dev alone decides (Akiba et al.,
Optuna: A next-generation hyperparameter optimization framework, KDD 2019).

tpe          rates and epochs from the whole range of those that the recipe lists, log-uniform, and batches among those
             listed (Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011; Optuna's TPESampler)
pruned-grid  the combinations of what is listed, in a drawn order (Optuna's GridSampler)

A trial is a setting with the first seed. It is looked at after the shares of its steps that halving has, and goes on
from there or is given up, as the pruner says: unlike in halving, by the trials before it alone. Each contestant's best
setting then gets the other seeds.

What ended stands in a file, a line a trial, which Optuna's own JournalStorage reads. Each draw is made afresh of these
lines and a generator seeded with the number of the trial. So a search that was killed goes on with the very trial that
was on, and comes to what it would have come to; a search of more trials goes on from one of fewer.

Readings
  RANDOM trials are drawn before TPE looks at scores, and end before there is a median: TPESampler's own number is 10,
  but of fine-tunings there are few.
  Drawn rates have three digits, and epochs are whole where all that are listed are: a setting is what its name says.
  A training that diverges is told to Optuna as the worst of the pruned ones: of a failed trial TPE would learn nothing.
  A setting that is drawn again counts as a trial, and is not run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GridSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from acclimate.core import files, ranks, settings
from acclimate.races.recipe import RaceRecipe, Search
from acclimate.races.report import Trial
from acclimate.races.search import (
    EARLY,
    HALFWAY,
    Ahead,
    Arm,
    Found,
    Rounds,
    Run,
    best_of_each,
    last_round,
    untouched_first,
)
from acclimate.reports.table import UNTOUCHED

JOURNAL = "optuna.jsonl"  # in the directory of a run: a line of JSON for each trial that ended
RANDOM = 5  # trials that are drawn before TPE looks at scores, and that end before there is a median
PERCENT = 100  # Optuna's steps are whole numbers: per cent of the run's
WAYS = {"tpe": "drawn by TPE", "pruned-grid": "of the grid, in a drawn order"}


def _listed(own: Search) -> dict[str, Sequence[float]]:
    listed = {"rate": own.rates, "epochs": own.epochs, "batch": own.batches}
    return {name: values for name, values in listed.items() if values}


def space_of(own: Search) -> dict[str, BaseDistribution]:
    """What is drawn: that of which two values or more are listed."""
    space: dict[str, BaseDistribution] = {}
    for name, values in _listed(own).items():
        least, most = min(values), max(values)
        if len(values) == 1:
            continue
        if own.how == "pruned-grid" or name == "batch":
            space[name] = CategoricalDistribution(values)
        elif name == "epochs" and all(value % 1 == 0 for value in values):
            space[name] = IntDistribution(int(least), int(most), log=True)
        else:
            space[name] = FloatDistribution(least, most, log=True)
    return space


def meaning(params: Mapping[str, Any], own: Search) -> dict[str, Any]:
    """The setting that Optuna's parameters stand for, with what is not drawn because only one value is listed."""
    space = space_of(own)
    given: dict[str, Any] = {name: values[0] for name, values in _listed(own).items()}
    return given | {name: _rounded(value, space[name]) for name, value in params.items()}


def _rounded(value: Any, within: BaseDistribution) -> Any:
    if isinstance(within, FloatDistribution):
        return min(max(float(f"{value:.3g}"), within.low), within.high)
    return float(value) if isinstance(within, IntDistribution) else value


def sampler_of(own: Search, number: int) -> BaseSampler:
    """Of the trial with this number; a grid has one order for all."""
    if own.how == "pruned-grid":
        listed = {name: list(values) for name, values in _listed(own).items() if len(values) > 1}
        return GridSampler(listed, _seed(own.seed))
    return TPESampler(n_startup_trials=RANDOM, seed=_seed(own.seed, number))


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def pruner_of(own: Search) -> BasePruner:
    if own.pruner == "median":
        return MedianPruner(n_startup_trials=RANDOM)
    if own.pruner == "halving":
        return SuccessiveHalvingPruner(min_resource=round(PERCENT * EARLY), reduction_factor=round(HALFWAY / EARLY))
    return NopPruner()


def kept_trials(journal: Path, known_as: str, own: Search, *, writes: bool) -> optuna.Study | None:
    """The trials in the journal that were drawn as `own` says, however many it asks for. None: there are none."""
    storage = JournalStorage(_Lines(journal, writes=writes))
    stated = {**asdict(own), "trials": 0, "optuna": optuna.__version__}
    name = f"{known_as} {settings.digest(stated)[:12]}"
    if name in optuna.get_all_study_names(storage):
        return optuna.load_study(study_name=name, storage=storage)
    return optuna.create_study(study_name=name, storage=storage, direction="maximize") if writes else None


class _Lines(BaseJournalBackend):
    """A file for Optuna's JournalStorage, one JSON value a line; a last line that a kill cut off is taken away.

    Optuna's JournalFileBackend cannot go on after such a line: it writes the next one behind it and reads neither.
    """

    def __init__(self, path: Path, *, writes: bool) -> None:
        self.path = path
        if writes:
            path.parent.mkdir(parents=True, exist_ok=True)
        whole, newline, torn = self._content().rpartition(b"\n")
        if writes and torn:
            files.write_bytes(path, whole + newline)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(self._content().split(b"\n")[:-1]):
            if number < log_number_from:
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise files.DamagedError(
                    f"{self.path}:{number + 1}: not valid JSON. Remove the file: the same settings are drawn again, "
                    f"and what was run is not run again"
                ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        for line in logs:
            files.append_line(self.path, json.dumps(line, separators=(",", ":")))

    def _content(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""


@dataclass(frozen=True)
class _Tried:
    """A trial that ended. share: of its steps; again: the number of an earlier one with the same setting."""

    number: int
    arm: Arm
    dev: float
    steps: int
    share: float
    diverged: bool
    again: int | None

    @property
    def finished(self) -> bool:
        return self.share == 1 and not self.diverged

    def row(self, best: bool) -> Trial:
        """A line of the record. best: of its contestant."""
        why = "the best setting of its contestant" if best else "another setting did better"
        if not self.finished:
            why = "its training diverged" if self.diverged else f"pruned after {self.share:.0%} of the steps"
        if self.again is not None:
            why = f"drawn before, as trial {self.again}"
        kept, told = best and self.again is None, f"trial {self.number}: {why}"
        return Trial(self.arm.contestant, self.arm.setting.name, 0, self.steps, 1, self.dev, kept, told)


def search(
    names: Sequence[str],
    recipe: RaceRecipe,
    run: Run,
    *,
    journal: Path | None,
    known_as: Callable[[str], str],
    writes: bool = True,
    give_up: Callable[[Arm], None] = lambda arm: None,
    ahead: Ahead = lambda runs: None,
) -> Found:
    """Try as many settings for every contestant in `names`.

    journal: the file that has the trials of earlier sessions; None: there is none, and none is made.
    known_as: what a contestant's trials are called there, something else for another model, task or recipe.finetune.
    writes: False to go on from the journal and leave it as it is.
    ahead: told, before `run`, of all runs of the last round: it may do them at once, where they then are.
    Raises ValueError where no trial of the untouched model came to its end.
    """
    tried: list[_Tried] = []
    with _quiet():
        for name in names:
            trials = _Trials(name, recipe, journal, known_as(name), writes=writes)
            while len(trials.ended) < trials.number:
                trials.do(run, give_up)
            tried += trials.tried()
    best = best_of_each({own.arm: own.dev for own in tried if own.finished})
    if UNTOUCHED in names and UNTOUCHED not in {arm.contestant for arm in best}:
        raise ValueError(
            f"none of the {len(tried) // len(names)} trials of the untouched model came to its end: its training "
            f"diverges. Lower search.rates"
        )
    for arm in dict.fromkeys(own.arm for own in tried if own.arm not in best):
        give_up(arm)
    rounds = Rounds(run, give_up, ahead)
    rounds.rung = 1
    found = last_round(rounds, untouched_first(best), recipe.seeds, None) if best else Found((), (), "")
    rows = tuple(own.row(own.arm in best) for own in tried)
    return replace(found, record=(*rows, *found.record), note=_note(tried, recipe))


class _Trials:
    """Those of one contestant. Of several processes the first one draws, judges and writes for all."""

    def __init__(self, name: str, recipe: RaceRecipe, journal: Path | None, known_as: str, *, writes: bool) -> None:
        self.name, self.recipe, self.own = name, recipe, recipe.search
        self.number = self.own.trials or self.own.combinations
        self.space = space_of(self.own)
        kept = kept_trials(journal, known_as, self.own, writes=writes) if journal and ranks.is_first() else None
        self.ended: list[FrozenTrial] = ranks.agree(kept.trials[: self.number] if kept else [])
        self.kept, self.writes = kept if writes else None, writes

    def do(self, run: Run, give_up: Callable[[Arm], None]) -> None:
        """Draw the next setting and run it to its end, or until it is given up."""
        live = self._drawn() if ranks.is_first() else None
        arm = self._arm(ranks.agree(live.params if live else {}))
        for earlier in self.tried():
            if earlier.arm == arm:
                again = replace(earlier, again=earlier.number)
                self._end(live, again, self.ended[earlier.number].intermediate_values)
                return
        seen: dict[int, float] = {}
        for share in (1.0,) if self.own.pruner == "none" else (EARLY, HALFWAY, 1.0):
            outcome = run(arm, 0, share)
            if outcome.diverged:
                break
            if share < 1:
                seen[round(PERCENT * share)] = outcome.dev
                if self._lags(live, seen):
                    break
        own = _Tried(len(self.ended), arm, outcome.dev, outcome.steps, share, outcome.diverged, again=None)
        # without a score on the way the sampler ranks it last
        self._end(live, own, {} if own.diverged else seen)
        if not own.finished:
            give_up(arm)

    def tried(self) -> list[_Tried]:
        """What the trials that ended came to."""
        found = []
        for number, own in enumerate(self.ended):
            about = {name: own.user_attrs[name] for name in ("steps", "share", "diverged", "again")}
            found.append(_Tried(number, self._arm(own.params), float(own.values[0]), **about))
        return found

    def _drawn(self) -> optuna.Trial:
        """A new trial after those that ended."""
        sampler = sampler_of(self.own, len(self.ended))
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner_of(self.own))
        study.add_trials(self.ended)
        return study.ask(self.space)

    def _lags(self, live: optuna.Trial | None, seen: dict[int, float]) -> bool:
        """Whether the pruner gives the trial up after its latest score."""
        lags = False
        if live is not None and self.writes:  # what is foreseen has no scores to be judged by
            step, dev = [*seen.items()][-1]
            live.report(dev, step)
            lags = live.should_prune()
        return ranks.agree(lags)

    def _end(self, live: optuna.Trial | None, own: _Tried, seen: dict[int, float]) -> None:
        """Write down how a trial ended, with the scores that were seen on the way."""
        ended = None
        if live is not None:
            about = {"steps": own.steps, "share": own.share, "diverged": own.diverged, "again": own.again}
            ended = create_trial(
                state=TrialState.COMPLETE if own.finished else TrialState.PRUNED,
                value=own.dev,
                params=live.params,
                distributions=self.space,
                intermediate_values=seen,
                user_attrs={"setting": own.arm.setting.name, **about},
                system_attrs=live.study.trials[-1].system_attrs,
            )
            if self.kept is not None:
                self.kept.add_trial(ended)
        told = ranks.agree(ended)
        assert told is not None
        self.ended.append(told)

    def _arm(self, params: dict[str, Any]) -> Arm:
        return Arm(self.name, self.recipe.setting(**meaning(params, self.own)))


def _note(tried: Sequence[_Tried], recipe: RaceRecipe) -> str:
    number = recipe.search.trials or recipe.search.combinations
    diverged = sum(own.diverged for own in tried)
    pruned = sum(not own.finished for own in tried) - diverged
    return (
        f"{number} trials of each contestant, {WAYS[recipe.search.how]}: of {len(tried)} in all {pruned} were pruned "
        f"and {diverged} diverged. The best setting of each got all {recipe.seeds} seeds."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna, which tells of every study on standard error, tells of trouble only."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
