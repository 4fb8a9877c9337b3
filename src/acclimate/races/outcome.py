"""What a study or race came to: a value, and the one file from which all of its tables and pages are made.

`run` (races/run.py) writes an `Outcome` to OUT/NAME.outcome.json, such as race.outcome.json or tlm-k.outcome.json.
Text, CSV and page are made of what `read_outcome` returns, right after the run and whenever they are asked for again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.core import files
from acclimate.core.figures import points
from acclimate.core.records import from_plain, to_plain
from acclimate.core.types import Cost, FoldScore, Score, Split, label_of
from acclimate.data.examination import Examination
from acclimate.data.retrieved import QueryShown
from acclimate.jobs.lock import OUTCOME
from acclimate.models.word_embeddings import Distances
from acclimate.races.compare import MAIN, Against, Compared, Key, Mean, compare, scores_alone, with_gains
from acclimate.reports.page import Fact
from acclimate.reports.table import FROZEN, UNADAPTED, UNTOUCHED, BeforeAndAfter, ContestantRow, GeneralLoss
from acclimate.statistics.answer import Answer, answer_of
from acclimate.statistics.sequential import evaluation_level
from acclimate.statistics.significance import FEWEST_SEEDS, LEVEL, Interval
from acclimate.tasks.task import Kind

if TYPE_CHECKING:
    from acclimate.tasks.prepared import Prepared

NEAR = "little beyond frequencies"  # a fact: how many pretrainings of the row have learnt that, of how many
PROBE = ", probe"  # ends the row of a probe
INTERRUPTED = "it was interrupted"  # why a race stopped, if a user ended it
TIME_UP = "its time was up"  # if its budget did
ROUNDING = 1e-9  # difference of two dev scores that is none
IN_SCIKIT_LEARN = "in scikit-learn"  # what `Facts.given` calls the code of a baseline
ON_USUAL_SPLIT = ": training on the usual split"  # ends the title of what a cross-validation measures only there


LEARNING_CURVE = "learning_curve"  # the study that follows a race; it is in no paper


@dataclass(frozen=True)
class StudyEnd:
    """The end of a study. text: for the terminal; failed: cell -> why it has no score."""

    text: str
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoredTask:
    """What tables say of a task.

    metric   name of the task's metric; metrics: names of all that are reported of the same predictions, this one first
    sizes    split -> number of rows; of a cross-validation, of the first fold's train and dev, and all rows as test
    folds    number of folds of the cross-validation; 0: there is one test set
    """

    name: str
    kind: Kind
    metric: str
    metrics: tuple[str, ...]
    sizes: Mapping[Split, int]
    folds: int = 0


@dataclass(frozen=True)
class CellResult:
    """What a cell came to.

    model, row, column  as of `races/design.py::Cell`; encoder, probe, shown: likewise
    scores  of the seeds that are there, ascending; jobs: the names of the jobs that made them
    failed  why a score is missing; "" where none is
    costs   stage -> the mean over seeds of what it took
    facts   column of the tables -> value
    """

    model: str
    row: str
    column: str
    task: ScoredTask
    scores: tuple[Score, ...] = ()
    jobs: tuple[str, ...] = ()
    failed: str = ""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    encoder: bool = True
    probe: bool = False
    shown: bool = True

    @property
    def key(self) -> Key:
        return self.model, self.row, self.column

    @property
    def contestant(self) -> str:
        """The row; of a probe, the contestant whose model was probed."""
        return self.row.removesuffix(PROBE) if self.probe else self.row

    @property
    def untaught(self) -> int:
        """Number of runs that learnt nothing, after a second attempt if they had one."""
        return sum(not run.learnt for run in self.runs)

    @property
    def runs(self) -> list[Score | FoldScore]:
        """All runs of the cell, each with what it learnt: of a cross-validation one for each repeat and fold."""
        return [run for score in self.scores for run in score.runs]

    @property
    def learnt(self) -> bool:
        """False if half of the cell's runs or more learnt nothing, of a probe all. Such a cell is compared with
        nothing: its mean tells how often a run fails. A baseline's runs are one, or one a fold.
        """
        return not self.scores or (1 if self.probe else 2) * self.untaught < len(self.runs)


def dev_row(name: str, seed: int, result: Mapping[str, Any], gold: Sequence[Any], task: Prepared) -> Score:
    """Return what a fine-tuning, or the baseline, scored on dev."""
    ids = tuple(example.id for example in task.examples("dev"))
    predicted = {**result, "test": result["dev"], "ids": ids, "gold": gold, "predicted": result["predicted_dev"]}
    return test_row(name, seed, predicted, task, adapting=Cost(), finetuning=Cost())


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


def probe_row(contestant: str) -> str:
    """Return the row of a probe of the contestant's model."""
    return f"{contestant}{PROBE}"


@dataclass(frozen=True)
class HeldOutColumn:
    """A column of losses on held-out text. meaning: a sentence that explains it; by_row: row -> its loss"""

    name: str
    meaning: str
    by_row: Mapping[str, GeneralLoss]


@dataclass(frozen=True, slots=True)
class Trial:
    """A setting of a contestant in one rung of the search: what it got, its mean dev score, and its fate."""

    contestant: str
    setting: str
    rung: int
    steps: int
    seeds: int
    dev: float
    kept: bool
    why: str = ""


@dataclass(frozen=True)
class SearchRecord:
    """All trials of a search. row: of the table, "" where each contestant is a row; column: the task"""

    row: str
    column: str
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Chosen:
    """The cell that dev chose, tested. whole, alone: FLOP of all that was tried, and of the chosen cell by itself."""

    result: CellResult
    tried: int
    whole: float
    alone: float


@dataclass(frozen=True, slots=True)
class LooksAtTest:
    """How often the labels of the test set were opened; `lines` say when and by whom, a line a look or a race."""

    in_this_run: int = 0
    earlier_runs: int = 0
    earlier_looks: int = 0
    lines: Sequence[str] = ()

    def warning(self) -> str:
        """Return a sentence if earlier races opened the same labels, else ""."""
        if not self.earlier_runs:
            return ""
        times = f" {_times(self.earlier_looks)}" if self.earlier_looks else ""
        races = f"{self.earlier_runs:,} earlier race{'s' * (self.earlier_runs > 1)}"
        return (
            f"These test labels were opened{times} by {races} on this machine. The more often a test set is "
            "evaluated, the more its best score is due to chance."
        )

    def sentence(self) -> str:
        """Return a sentence on what this race did."""
        times = _times(self.in_this_run)
        return f"This race opened the labels of the test set {times}. Dev alone chose settings and model."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


@dataclass(frozen=True)
class Curves:
    """Lines of one plot, name -> (x, y) points; x and y label the axes, units included."""

    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the page of a race says beside scores and comparisons. An empty part leaves its section out.

    task         name, source, sizes of the splits, labels, metric: what was measured
    use          the contestant to use (`choose`), whose model is in use/; "" if there is none
    encoder      the best encoder on dev, whose checkpoint is in use/ or encoder/; "" if no encoder learnt the task
    use_reason   why that contestant is used, in a sentence, or why none is; "" if there was no choice
    given        contestant -> what it was given: settings, steps, seeds; equal chances can be seen to be equal
    curves       title -> lines, such as the loss of each adapting stage, the dev score during fine-tuning
    losses       contestant -> masked-token loss on held-out domain text before and after adapting, nats a token;
                 `general_losses` likewise on held-out general text: what adapting forgot
    moved        contestant -> over what -> how far its word embeddings lie from the untouched model's
    unprobed     why the models were not probed; "" where they were
    search_note  how the search was done; chosen: contestant -> setting
    handed_over  of a cross-validation: which checkpoint is handed over, since it is none of those that were scored
    stopped      why the race ended before its budget, as a clause
    looks        how often the test set was opened; None: not counted
    retrieved    some texts of the task and the documents that they retrieved from the general corpus
    examination  what `acclimate doctor` says of the data; None: the files were not examined
    leaked_test_ids  test items that the training data contains, which the second score leaves out
    commands     command lines that make this race again
    margin       smallest gain that matters, in points
    rivals       of a race that continues until its answer is settled: number of contestants to compare with the
                 untouched model, those that failed included; 0: of other races
    """

    task: Mapping[str, Fact] = field(default_factory=dict)
    use: str = ""
    encoder: str = ""
    use_reason: str = ""
    given: Mapping[str, Mapping[str, Fact]] = field(default_factory=dict)
    curves: Mapping[str, Curves] = field(default_factory=dict)
    losses: BeforeAndAfter = field(default_factory=dict)
    general_losses: BeforeAndAfter = field(default_factory=dict)
    moved: Mapping[str, Mapping[str, Distances]] = field(default_factory=dict)
    unprobed: str = ""
    search_note: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    handed_over: str = ""
    stopped: str = ""
    looks: LooksAtTest | None = None
    retrieved: Sequence[QueryShown] = ()
    examination: Examination | None = None
    leaked_test_ids: Sequence[str] = ()
    commands: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Fact] = field(default_factory=dict)
    margin: float = 1.0
    rivals: int = 0

    @property
    def until_settled(self) -> bool:
        """True if the race continues until its answer is settled: each evaluation then has a level of its own."""
        return self.rivals > 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a study came to.

    name, title, source, axes, split, notes, absent   as of `races/design.py::Design`
    results         of all cells, in the order of the tables
    against, means  which comparisons are made, and means over tasks
    losses          columns beside the scores
    searches        what each search tried
    chosen          of a study on dev: the cell that was tested in the end
    race            what else the page of a race says; None for other studies
    study           as of Design
    rounds          number of complete rounds of a race in rounds; None: it is none
    first_impression  True if these are too few for intervals, so that nothing is compared
    """

    name: str
    title: str
    source: str
    results: tuple[CellResult, ...]
    against: tuple[Against, ...] = ()
    means: tuple[Mean, ...] = ()
    axes: tuple[str, str] = ("contestant", "task")
    split: Split = "test"
    losses: tuple[HeldOutColumn, ...] = ()
    searches: tuple[SearchRecord, ...] = ()
    chosen: Chosen | None = None
    notes: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    race: Facts | None = None
    study: str = ""
    rounds: int | None = None
    first_impression: bool = False

    @cached_property
    def cells(self) -> Mapping[Key, CellResult]:
        """Key -> result of the cell."""
        return {result.key: result for result in self.results}

    @cached_property
    def compared(self) -> Compared:
        """All comparisons that the study asks for; they are made when they are first asked for. Those of adapted
        contestants of a race with the untouched model have the intervals and p of its answer.
        """
        if self.first_impression:
            return scores_alone(self.cells)
        return self._comparisons if self.answer is None else with_gains(self._comparisons, self.answer.gains)

    @cached_property
    def _comparisons(self) -> Compared:
        return compare(self.cells, self.against, self.means)

    @cached_property
    def answer(self) -> Answer | None:
        """How the adapted contestants of a race compare with the untouched model (statistics/answer.py); None of other
        studies, and if none was compared or there are too few runs.
        """
        if self.race is None or self.first_impression:
            return None
        tuned = [result for result in self.results if result.encoder and not result.probe and not result.failed]
        tuned = [result for result in tuned if result.learnt and result.scores]
        reference = next((result for result in tuned if result.row == UNTOUCHED), None)
        rivals = [result for result in tuned if result.row != UNTOUCHED]
        runs = min((len(result.scores) for result in tuned), default=0)
        if reference is None or not rivals or not (self.folds or runs >= FEWEST_SEEDS):
            return None
        draws = self._comparisons.draws
        drawn = [draws[result.key, MAIN] for result in rivals]
        sequential = self.race.until_settled and self.rounds is not None
        return answer_of(
            drawn,
            draws[reference.key, MAIN],
            folds=self.folds,
            margin=self.race.margin / 100,
            comparisons=self.race.rivals,
            level=evaluation_level(self.rounds) if sequential else LEVEL,
        )

    @property
    def failed(self) -> dict[Key, str]:
        """Cell -> why it has no score."""
        return {result.key: result.failed for result in self.results if result.failed}

    @property
    def trials(self) -> list[Trial]:
        """The trials of all searches."""
        return [trial for search in self.searches for trial in search.trials]

    @property
    def folds(self) -> int:
        """Number of folds of the cross-validation by which all cells were scored; 0: there is one test set."""
        return self.results[0].task.folds if self.results else 0

    @property
    def baselines(self) -> list[str]:
        """The rows of what is not fine-tuned."""
        return list(dict.fromkeys(result.row for result in self.results if not result.encoder))

    @property
    def scores(self) -> list[Score]:
        """The scores of all cells that did not fail, but for those of probes."""
        return [score for result in self.results if not result.failed and not result.probe for score in result.scores]

    @property
    def adaptations(self) -> int:
        """Number of adaptations behind the scores of a cell, of the cell with the most; 0: no model was adapted, or
        scores are by cross-validation, whose folds are adapted on other texts than what is measured beside them.
        """
        if self.folds:
            return 0
        drawn = ({score.adaptation for score in result.scores} - {None} for result in self.results)
        return max(map(len, drawn), default=0)

    @property
    def alone(self) -> bool:
        """True if there is one encoder only, with its probe or without, and nothing else."""
        return len({(result.contestant, result.encoder) for result in self.results}) == 1 and not self.baselines

    @property
    def unused(self) -> str:
        """Why a race has no model to use; "" if it has one."""
        if self.race is not None and self.race.use:
            return ""
        if self.race is not None and self.race.use_reason:
            return self.race.use_reason
        if self.only_probed and not self.baselines:
            return "nothing was fine-tuned"
        return "no contestant of this race is better than a constant answer"

    @property
    def only_probed(self) -> bool:
        """True if the encoders were probed and not fine-tuned."""
        encoders = [result for result in self.results if result.encoder]
        return bool(encoders) and all(result.probe for result in encoders)

    def label(self, key: Key) -> str:
        """Return the name of a cell or mean: its row, and its column and model if there are several."""
        model, row, column = key
        if key not in self.cells:  # a mean
            return f"{row}, {column}"
        name = row if len({result.column for result in self.results}) == 1 else f"{column}: {row}"
        return f"{name} ({model})" if len({result.model for result in self.results}) > 1 else name

    def interval(self, key: Key, metric: str = MAIN) -> Interval | None:
        """Return the mean and interval of a cell or mean; None where it failed."""
        return self.compared.intervals.get((key, metric))


def write_outcome(outcome: Outcome, out: Path) -> None:
    """Write `out/NAME.outcome.json`. Ids and gold labels that several scores share stand there once, as `items`."""
    values: dict[str, Any] = to_plain(outcome)
    places: dict[Any, int] = {}
    items: list[dict[str, Any]] = []
    scored = [*outcome.results, *([outcome.chosen.result] if outcome.chosen else [])]
    plain = [*values["results"], *([values["chosen"]["result"]] if outcome.chosen else [])]
    for result, written in zip(scored, plain, strict=True):
        for score, about in zip(result.scores, written["scores"], strict=True):
            key = score.ids, score.gold
            if key not in places:
                places[key] = len(items)
                items.append({"ids": about["ids"], "gold": about["gold"]})
            del about["ids"], about["gold"]
            about["items"] = places[key]
    files.write_json(path_of(out, outcome.name), {"items": items, **values})


def read_outcome(path: Path) -> Outcome:
    """Return what `write_outcome` wrote. Raises ValueError, naming the entry, if another release wrote the file."""
    values = files.read_object(path, way_out="Give the command of the study again to write the file")
    try:
        items = values.pop("items")
        for result in [*values["results"], *([values["chosen"]["result"]] if values["chosen"] else [])]:
            for about in result["scores"]:
                about.update(items[about.pop("items")])
        return from_plain(Outcome, values)
    except KeyError as error:
        raise ValueError(
            f"{path}: {error} is missing: it was written by another release. Use that release, or write it again"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def path_of(out: Path, name: str) -> Path:
    """Return the file that has the outcome of the study of this name."""
    return out / f"{name}{OUTCOME}"


def outcomes_in(out: Path) -> list[Path]:
    """Return the files of all outcomes in a directory. Raises FileNotFoundError if no study there has ended."""
    paths = sorted(out.glob(f"*{OUTCOME}"))
    if not paths:
        why = f"{out} has no outcome yet: nothing there is finished"
        raise FileNotFoundError(f"{why}. Run the command again to continue")
    return paths


def best_on_dev(results: Collection[CellResult]) -> CellResult | None:
    """Return the cell with the best mean on dev, the first of equals; None if all failed or are no better than a
    constant answer.

    The test set chooses nothing, and a probe is never chosen.
    """
    candidates = [result for result in results if result.scores and result.learnt]
    candidates = [result for result in candidates if not (result.failed or result.probe)]
    return max(candidates, key=_dev, default=None)


@dataclass(frozen=True)
class Use:
    """The choice that dev makes.

    contestant  to use in production; "" if no contestant is better than a constant answer
    encoder     the best encoder on dev, used or not; "" if no encoder learnt the task
    reason      a sentence
    """

    contestant: str
    encoder: str
    reason: str


def choose(results: Sequence[CellResult], margin: float) -> Use:
    """Return the contestant to use: the best on dev, or a simpler one that is at most `margin` points worse there.

    The baseline is the simplest, then the frozen encoder, then terms beside the frozen encoder, then the untouched
    model, then the adaptation with the fewest FLOPs: by what a prediction costs, then by what training costs. Equally
    simple contestants are ranked by dev, then by their order. Probes are no candidates, nor are contestants that
    failed, that are no better than a constant answer, or that have no dev score. The test set has no influence.
    """
    candidates = [result for result in results if result.scores and not result.probe and math.isfinite(_dev(result))]
    candidates = [result for result in candidates if result.learnt and not result.failed]
    scores = {result.row: _dev(result) for result in candidates}
    best, encoder = best_on_dev(candidates), best_on_dev([result for result in candidates if result.encoder])
    if best is None:
        return Use("", "", "")
    near = [result for result in candidates if scores[best.row] - scores[result.row] <= margin / 100 + ROUNDING]
    used = min(near, key=lambda result: (*_simplicity(result), -scores[result.row]))
    dev, least = points(scores[used.row]), f"{margin:g} point{'s' * (margin != 1)}"
    if encoder is None:
        tuned = any(result.encoder and not result.probe for result in results)
        why = "no fine-tuned encoder of this race has learned the task" if tuned else "nothing was fine-tuned"
        reason = f"{_named(used)} is used, because {why}."
    elif len(candidates) == 1:
        reason = ""
    elif scores[used.row] >= scores[best.row] - ROUNDING:
        reason = f"{_named(used)} has the best dev score, {dev} points."
    else:
        reason = (
            f"{_named(used)} is simpler than {_named(best)} and at most {least} worse on dev: {dev} against "
            f"{points(scores[best.row])} points."
        )
    return Use(used.row, encoder.row if encoder else "", reason[:1].upper() + reason[1:])


def encoder_to_train(results: Sequence[CellResult], margin: float) -> str:
    """Return the encoder that a cross-validation trains on the usual split: the one to use, or else the best one; ""
    if no encoder learnt the task.
    """
    choice = choose(results, margin)
    used = [result for result in results if result.row == choice.contestant and result.encoder]
    return choice.contestant if used else choice.encoder


def _named(result: CellResult) -> str:
    return {UNTOUCHED: "the untouched model", FROZEN: "the frozen encoder"}.get(result.row, result.row)


def _dev(result: CellResult) -> float:
    """Return the mean dev score over seeds, or over repeats of a cross-validation."""
    return sum(score.dev for score in result.scores) / len(result.scores)


def _simplicity(result: CellResult) -> tuple[int, float]:
    """Return a key that is smaller for a simpler contestant. FLOPs are the same on every machine, seconds are not."""
    if not result.encoder:
        return (1 + UNADAPTED.index(result.row) if result.row in UNADAPTED else 0), 0.0
    if result.row == UNTOUCHED:
        return 1 + len(UNADAPTED), 0.0
    flops = sum(score.adapting.flops for score in result.scores) / len(result.scores)
    # a checkpoint, or random weights, is adapted by nothing here: no cheap adaptation
    return 2 + len(UNADAPTED), flops or math.inf


def rows(outcome: Outcome) -> list[ContestantRow]:
    """Return a row for each contestant of a race that has a score: the untouched model first, then by falling mean
    score, equal means by name. The scores are those of probes where nothing was fine-tuned, and of no probe elsewhere.
    """
    table = []
    for key, result in outcome.cells.items():
        if result.failed or (result.probe and not outcome.only_probed):
            continue
        contrast = outcome.compared.contrast(key, probe_row(UNTOUCHED) if result.probe else UNTOUCHED)
        row = ContestantRow(
            contestant=result.contestant,
            task=result.scores[0].task,
            metric=result.scores[0].metric,
            seeds=tuple(score.seed for score in result.scores),
            scores=tuple(score.test for score in result.scores),
            dev=tuple(score.dev for score in result.scores),
            score=outcome.compared.intervals[key, MAIN],
            comparison=contrast.comparison if contrast else None,
            p_adjusted=contrast.p_adjusted if contrast else None,
            adapting=result.costs.get("adapting", Cost()),
            finetuning=result.costs.get("probe" if result.probe else "tuning", Cost()),
        )
        table.append(row)
    return sorted(table, key=lambda row: (row.contestant != UNTOUCHED, -row.score.mean, row.contestant))
