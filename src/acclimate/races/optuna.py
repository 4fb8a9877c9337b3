"""A search for which Optuna samples the settings of fine-tuning: every contestant gets the same number of trials, and
dev alone decides (Akiba et al., Optuna: A next-generation hyperparameter optimization framework, KDD 2019).

tpe          samples rates and epochs log-uniformly between the least and the largest value that the recipe lists, and
             batches among the listed ones (Bergstra et al., Algorithms for hyper-parameter optimization, NeurIPS 2011;
             Optuna's TPESampler)
pruned-grid  tries the combinations of the listed values, in random order (Optuna's GridSampler)

A trial is a setting with the first seed. After the shares EARLY and HALFWAY of its steps the pruner compares its score
with those of the trials before it, and the trial goes on or ends, but not before its warm-up and LEAST more steps. The
best setting, by the order of races/search.py, then gets the other seeds.

Each trial that ended is a line of a file that Optuna's JournalStorage reads. The next setting is sampled from these
lines and a generator seeded with the number of the trial. So a search that was killed goes on with the trial that was
running and ends with the same result, and a search of more trials continues one of fewer.

Readings
  TPE looks at scores after RANDOM trials, and pruning begins then. TPESampler's default is 10, too many for the few
  fine-tunings of a search.
  A sampled rate has three digits, and epochs are whole if all listed ones are: the name of a setting states its value.
  A training that diverges counts as the worst of the pruned trials, because TPE learns nothing from a failed trial.
  A setting that is sampled again counts as a trial, and does not run again.
"""

from __future__ import annotations

import json
import math
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
from acclimate.races.outcome import Trial
from acclimate.races.recipe import RaceRecipe, SearchRecipe
from acclimate.races.search import (
    EARLY,
    Ahead,
    Candidate,
    DevResult,
    Rounds,
    SearchResult,
    Tune,
    at_an_end,
    best_of_each,
    last_round,
    untouched_first,
)
from acclimate.reports.table import UNTOUCHED

JOURNAL = "optuna.jsonl"  # in the directory of a run: a line of JSON for each trial that ended
RANDOM = 5  # trials that are sampled before TPE looks at scores, and that end before the median pruner begins
PERCENT = 100  # Optuna's steps are whole numbers: per cent of the steps of a training
HALFWAY = 0.5  # share of the steps of a trial after which the pruner looks once more
NEAR = 0.1  # share of the range of rates, on a scale of logarithms, that is its end: what is sampled hardly meets it
WAYS = {"tpe": "sampled by TPE", "pruned-grid": "of the grid, in random order"}


def _listed(tuning: SearchRecipe) -> dict[str, Sequence[float]]:
    listed = {"rate": tuning.rates, "epochs": tuning.epochs, "batch": tuning.batches}
    return {name: values for name, values in listed.items() if values}


def space_of(tuning: SearchRecipe) -> dict[str, BaseDistribution]:
    """Return the distributions of what is sampled: rate, epochs and batch, if the recipe lists two values or more."""
    space: dict[str, BaseDistribution] = {}
    for name, values in _listed(tuning).items():
        least, most = min(values), max(values)
        if len(values) == 1:
            continue
        if tuning.how == "pruned-grid" or name == "batch":
            space[name] = CategoricalDistribution(values)
        elif name == "epochs" and all(value % 1 == 0 for value in values):
            space[name] = IntDistribution(int(least), int(most), log=True)
        else:
            space[name] = FloatDistribution(least, most, log=True)
    return space


def meaning(params: Mapping[str, Any], tuning: SearchRecipe) -> dict[str, Any]:
    """Return the setting that has Optuna's parameters, and the listed value of what is not sampled."""
    space = space_of(tuning)
    given: dict[str, Any] = {name: values[0] for name, values in _listed(tuning).items()}
    return given | {name: _rounded(value, space[name]) for name, value in params.items()}


def _rounded(value: Any, within: BaseDistribution) -> Any:
    if isinstance(within, FloatDistribution):
        return min(max(float(f"{value:.3g}"), within.low), within.high)
    return float(value) if isinstance(within, IntDistribution) else value


def sampler_of(tuning: SearchRecipe, number: int) -> BaseSampler:
    """Return the sampler of the trial with this number. A grid has one random order for all trials."""
    if tuning.how == "pruned-grid":
        listed = {name: list(values) for name, values in _listed(tuning).items() if len(values) > 1}
        return GridSampler(listed, _seed(tuning.seed))
    return TPESampler(n_startup_trials=RANDOM, seed=_seed(tuning.seed, number))


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def pruner_of(tuning: SearchRecipe) -> BasePruner:
    if tuning.pruner == "median":
        return MedianPruner(n_startup_trials=RANDOM)
    if tuning.pruner == "halving":
        return SuccessiveHalvingPruner(min_resource=round(PERCENT * EARLY), reduction_factor=round(HALFWAY / EARLY))
    return NopPruner()


def kept_trials(journal: Path, known_as: str, tuning: SearchRecipe, *, writes: bool) -> optuna.Study | None:
    """Return the trials in the journal that were sampled with these settings, whatever their number.

    If there are none: a new study if `writes`, else None.
    """
    storage = JournalStorage(_Lines(journal, writes=writes))
    stated = {**asdict(tuning), "trials": 0, "optuna": optuna.__version__}
    name = f"{known_as} {settings.digest(stated)[:12]}"
    if name in optuna.get_all_study_names(storage):
        return optuna.load_study(study_name=name, storage=storage)
    return optuna.create_study(study_name=name, storage=storage, direction="maximize") if writes else None


class _Lines(BaseJournalBackend):
    """A file for Optuna's JournalStorage, one JSON value a line. A last line that a kill cut off is removed.

    Optuna's JournalFileBackend appends to such a line, and can then read neither.
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
                    f"{self.path}:{number + 1}: not valid JSON. Remove the file: the same settings are sampled again, "
                    f"and finished trials do not run again"
                ) from error

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        for line in logs:
            files.append_line(self.path, json.dumps(line, separators=(",", ":")))

    def _content(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""


@dataclass(frozen=True)
class _Tried:
    """A trial that ended.

    share  of its steps that were done
    again  number of an earlier trial of the same setting
    loss   on dev; infinite where an earlier version did not keep it
    """

    number: int
    candidate: Candidate
    dev: float
    steps: int
    share: float
    diverged: bool
    again: int | None
    loss: float = math.inf

    @property
    def finished(self) -> bool:
        return self.share == 1 and not self.diverged

    def row(self, best: bool) -> Trial:
        """Return the trial as a row of the record. best: True if it is the best of its contestant."""
        why = "the best setting of its contestant" if best else "another setting did better"
        if not self.finished:
            why = "its training diverged" if self.diverged else f"pruned after {self.share:.0%} of the steps"
        if self.again is not None:
            why = f"sampled before, as trial {self.again}"
        kept = best and self.again is None
        outcome = f"trial {self.number}: {why}"
        return Trial(self.candidate.contestant, self.candidate.setting.name, 0, self.steps, 1, self.dev, kept, outcome)


def search_with_optuna(
    names: Sequence[str],
    recipe: RaceRecipe,
    tune: Tune,
    *,
    journal: Path | None,
    known_as: Callable[[str], str],
    seeds: int | None = None,
    writes: bool = True,
    give_up: Callable[[Candidate], None] = lambda candidate: None,
    ahead: Ahead = lambda runs: None,
    constant: float = -math.inf,
    first_cut: float = EARLY,
) -> SearchResult:
    """Try the same number of settings for every contestant in `names`, and return what was found.

    journal   file with the trials of earlier sessions; None: no file is read or written
    known_as  returns the name of a contestant's trials in the journal, which differs by model, task and recipe.finetune
    seeds     number of seeds of the last round; None: those of the recipe
    writes    False: read the journal and leave it as it is
    ahead     is called with all runs of the last round before `run` is, and may do them at once
    constant, first_cut   as of `search`: what beats the constant answer comes first, then the lower loss, and no trial
              is pruned earlier

    Raises ValueError if no trial of the untouched model was trained to its end.
    """
    tried: list[_Tried] = []
    rounds = Rounds(tune, give_up, ahead, constant)
    with _quiet():
        for name in names:
            trials = _Trials(name, recipe, journal, known_as(name), writes=writes)
            while len(trials.ended) < trials.number:
                trials.do(tune, give_up, first_cut)
            tried += trials.tried()
    finished = [(each.candidate, DevResult(each.dev, each.steps, loss=each.loss)) for each in tried if each.finished]
    best = best_of_each({candidate: rounds.standing(candidate, [seen]) for candidate, seen in finished})
    if UNTOUCHED in names and UNTOUCHED not in {candidate.contestant for candidate in best}:
        raise ValueError(
            f"none of the {len(tried) // len(names)} trials of the untouched model was trained to its end: its "
            f"training diverges. Lower search.rates"
        )
    for candidate in dict.fromkeys(trial.candidate for trial in tried if trial.candidate not in best):
        give_up(candidate)
    rounds.rung = 1
    found = last_round(rounds, untouched_first(best), seeds or recipe.seeds) if best else SearchResult((), (), "")
    rows = tuple(trial.row(trial.candidate in best) for trial in tried)
    edge = at_an_end(found.finalists, lambda setting: _outermost(setting.recipe.plan.rate, recipe.search.rates))
    note = _note(tried, recipe, seeds or recipe.seeds)
    return replace(found, record=(*rows, *found.record), note=note, edge=edge)


def _outermost(rate: float, rates: Sequence[float]) -> bool:
    """Return True if the rate lies at an end of the range of those listed, or nearer to it than NEAR of the range."""
    if len(set(rates)) < 2:
        return False
    part = math.log(rate / min(rates)) / math.log(max(rates) / min(rates))
    return not NEAR < part < 1 - NEAR


class _Trials:
    """The trials of one contestant. The first of several processes samples, prunes and writes for all."""

    def __init__(self, name: str, recipe: RaceRecipe, journal: Path | None, known_as: str, *, writes: bool) -> None:
        self.name, self.recipe, self.tuning = name, recipe, recipe.search
        self.number = self.tuning.trials or self.tuning.combinations
        self.space = space_of(self.tuning)
        kept = kept_trials(journal, known_as, self.tuning, writes=writes) if journal and ranks.is_first() else None
        self.ended: list[FrozenTrial] = ranks.agree(kept.trials[: self.number] if kept else [])
        self.kept, self.writes = kept if writes else None, writes

    def do(self, tune: Tune, give_up: Callable[[Candidate], None], first_cut: float = EARLY) -> None:
        """Sample the next setting and train it to its end, or until it is pruned, at `first_cut` at the earliest."""
        live = self._drawn() if ranks.is_first() else None
        candidate = self._arm(ranks.agree(live.params if live else {}))
        for earlier in self.tried():
            if earlier.candidate == candidate:
                again = replace(earlier, again=earlier.number)
                self._end(live, again, self.ended[earlier.number].intermediate_values)
                return
        seen: dict[int, float] = {}
        shares = [share for share in (EARLY, HALFWAY) if share >= first_cut and self.tuning.pruner != "none"]
        for share in (*shares, 1.0):
            outcome = tune(candidate, 0, share)
            if outcome.diverged:
                break
            if share < 1:
                seen[round(PERCENT * share)] = outcome.dev
                if self._lags(live, seen):
                    break
        ended = (outcome.dev, outcome.steps, share, outcome.diverged)
        trial = _Tried(len(self.ended), candidate, *ended, again=None, loss=outcome.loss)
        # the sampler ranks a trial without scores last
        self._end(live, trial, {} if trial.diverged else seen)
        if not trial.finished:
            give_up(candidate)

    def tried(self) -> list[_Tried]:
        """Return the trials that ended."""
        found = []
        for number, trial in enumerate(self.ended):
            about = {name: trial.user_attrs[name] for name in ("steps", "share", "diverged", "again")}
            about["loss"] = trial.user_attrs.get("loss", math.inf)
            found.append(_Tried(number, self._arm(trial.params), float(trial.values[0]), **about))
        return found

    def _drawn(self) -> optuna.Trial:
        """Return a new trial, which the sampler chooses after those that ended."""
        sampler = sampler_of(self.tuning, len(self.ended))
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner_of(self.tuning))
        study.add_trials(self.ended)
        return study.ask(self.space)

    def _lags(self, live: optuna.Trial | None, seen: dict[int, float]) -> bool:
        """Return True if the pruner ends the trial after its latest score."""
        lags = False
        if live is not None and self.writes:  # a dry run has no scores
            step, dev = [*seen.items()][-1]
            live.report(dev, step)
            lags = live.should_prune()
        return ranks.agree(lags)

    def _end(self, live: optuna.Trial | None, trial: _Tried, seen: dict[int, float]) -> None:
        """Add a trial that ended. seen: per cent of the steps -> score on dev after them."""
        ended = None
        if live is not None:
            about = {"steps": trial.steps, "share": trial.share, "diverged": trial.diverged, "again": trial.again}
            if math.isfinite(trial.loss):  # JSON has no infinity
                about["loss"] = trial.loss
            ended = create_trial(
                state=TrialState.COMPLETE if trial.finished else TrialState.PRUNED,
                value=trial.dev,
                params=live.params,
                distributions=self.space,
                intermediate_values=seen,
                user_attrs={"setting": trial.candidate.setting.name, **about},
                system_attrs=live.study.trials[-1].system_attrs,
            )
            if self.kept is not None:
                self.kept.add_trial(ended)
        agreed = ranks.agree(ended)
        assert agreed is not None
        self.ended.append(agreed)

    def _arm(self, params: dict[str, Any]) -> Candidate:
        return Candidate(self.name, self.recipe.setting(**meaning(params, self.tuning)))


def _note(tried: Sequence[_Tried], recipe: RaceRecipe, seeds: int) -> str:
    number = recipe.search.trials or recipe.search.combinations
    diverged = sum(trial.diverged for trial in tried)
    pruned = sum(not trial.finished for trial in tried) - diverged
    return (
        f"{number} trials of each contestant, {WAYS[recipe.search.how]}: of {len(tried)} in all {pruned} were pruned "
        f"and {diverged} diverged. The best setting of each got {'one seed' if seeds == 1 else f'all {seeds} seeds'}."
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Have Optuna log warnings only within the block: it would log every study on standard error."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
