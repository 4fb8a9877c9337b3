"""STILT's Tables 2 and 3 (Jeong and Hwang): fine-tuned on A, then on B, for all ordered pairs of datasets.

Beside each pair stand B alone (the baseline), and the controls that the paper lacks: the same task twice (A = B), and
B alone for as many steps as the pair took in all, in one go. Fine-tuning on A is done once a model and seed, whatever
comes after it, and is the baseline of A where both have the same settings. The method is methods/stilt.py; here each
stage is a job, so that stages are shared.

Readings
  Test or dev, seeds, and whether anything was tested, the paper does not say: the test set, opened once a cell and seed
  after all training; each cell with its interval and paired test against B alone, Holm's correction over all cells of a
  model's matrix, controls included.
  "The same as those of PubMedBERT" is a search for each dataset there. One setting for all is stated here (`finetune`).
  A checkpoint of B is that of its best look at dev, of A likewise (`intermediate.choose`).
Deviations
  Training rows of A that hold a dev or test text of B are left out of A before that B (studies/stilt.py);
  leaks=keep keeps and counts them. A task before itself keeps all: what its own training set holds, B alone has too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.figures import cautioned, duration, listed, metric_text, p_text, points, si
from acclimate.core.types import SPLITS, Cost, Example, Progress, Score, Split, Watch, counted, unwatched
from acclimate.data.leaks import Sealed, kind_of, whole
from acclimate.data.materials import Materials
from acclimate.data.published import CATALOGUES
from acclimate.jobs.job import Job, claim, first_line, missing, result_of, with_needs
from acclimate.jobs.run import do_all
from acclimate.methods import finetune
from acclimate.methods.finetune import fitting
from acclimate.methods.stilt import Intermediate, check_chained
from acclimate.models.encoder import longest_input
from acclimate.race import work
from acclimate.race.contestants import fine_tuned, tested
from acclimate.race.cost import Estimate, estimate_of_jobs
from acclimate.race.outcome import UNTAUGHT, constant_score
from acclimate.race.race import dataset_of
from acclimate.race.recipe import RaceRecipe
from acclimate.race.search import dev_row, test_row
from acclimate.report import page as report
from acclimate.report.page import Page, Section, amount, page
from acclimate.report.table import difference_text, interval_text
from acclimate.statistics.means import mean_difference
from acclimate.statistics.significance import LEVEL, Comparison, Interval, compare_of, holm, interval_of
from acclimate.statistics.variance import Resampled, resample
from acclimate.studies.blurb import Contestant, Plan, Planned, contestants_of, naming
from acclimate.studies.blurb import called as called_models
from acclimate.studies.compare import mean_cost
from acclimate.tasks.datasets import blurb
from acclimate.tasks.datasets.catalogue import dataset_named
from acclimate.tasks.labelled import Labelled, Own, called, fewer
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, classes_in
from acclimate.text.overlap.references import normalised
from acclimate.training.checkpoint import spent

# -------------------- intermediate recipe
# The study of intermediate tasks as a value (studies/stilt.py runs it).


PAPER = (
    *("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA", "EBM PICO"),
    *("ChemProt", "DDI", "GAD", "PubMedQA", "BioASQ"),
)
FEWEST_TOKENS = 8
BASELINE = "baseline"  # B alone
MORE = "more steps"  # B alone, for as many steps as B twice takes


@dataclass(frozen=True)
class StiltStudyRecipe:
    """All ordered pairs of datasets, as Tables 2 and 3 of Jeong and Hwang, with the controls that these lack.

    `finetune` is what every fine-tuning has, `intermediate` what that on the first task of a pair has instead. Settings
    of `finetune` that mean nothing on a dataset are at their defaults there.
    """

    # names of datasets, or labelled files, also with their columns and kind; (): the paper's 11 whose files are there
    datasets: tuple[str | Own, ...] = ()
    """Names of datasets of `--data`, labelled files, or files with their columns; none: the paper's 11, of which
    those whose files are there."""
    seeds: int = 3  # at least 2
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's, 256 of a file
    split: Literal["dev", "test"] = "test"  # what is scored; with "test" each run of each cell is one look at it
    leaks: Literal["drop", "keep"] = "drop"  # training rows of a first task that hold a dev or test text of the second
    same_task: bool = True  # the control A = B: the same task twice
    more_steps: Literal["each", "twice", "none"] = "each"
    """The control of as many steps on the target alone: of each pair, of A = B only, or none."""
    intermediate: Intermediate = field(default_factory=Intermediate)
    """What first tasks have instead; none: as finetune has it."""
    finetune: finetune.FinetuneRecipe = field(default_factory=finetune.FinetuneRecipe)  # of all fine-tunings

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 3")
        if self.rows < 0:
            raise ValueError(f"rows = {self.rows} is out of range: at least 0")
        if self.max_tokens and self.max_tokens < FEWEST_TOKENS:
            raise ValueError(f"max_tokens = {self.max_tokens}: too short for a text. Give at least {FEWEST_TOKENS}")
        if len(self.datasets) == 1:
            raise ValueError(f"datasets = {[*map(called, self.datasets)]}: a pair takes two. Name another one")
        check_chained(self.finetune)


# -------------------- intermediate data
# The datasets of a matrix of pairs: read, prepared, and each without what would show it another one's dev or test set.
#
# A training row of the first task holds an item of the second's dev or test set where one of its texts is the same as
# one
# of the item's, nearly the same, or has at least half of its runs of 13 words (data/leaks.py, as of raw documents).
# Items of fewer than 5 words ("Results:") are nobody's. Such rows are left out of the first task for that pair alone:
# what every other pair, and its own row of the matrix, trains on stays as it is.


# of a file, whose dataset belongs to no type of a benchmark
TYPES: Mapping[Kind, str] = {
    "sequence": "classification",
    "multilabel": "several labels",
    "score": "a number",
    "tokens": "tags",
    "span": "answers",
}
LEAKING: tuple[Split, ...] = ("dev", "test")
FEWEST_WORDS = 5  # of an item that can be held: headings stand in every abstract


@dataclass(frozen=True)
class Member:
    """A dataset of the matrix.

    name     as it is called in rows and columns; type: of task, as its benchmark groups them
    task     all of it, to train on by itself and to be scored on
    leaking  other dataset -> how many training rows here hold a text of its dev or test set; those with none left out
    parts    other dataset -> what is trained on before it: the task without those rows, where they are dropped
    notes    what a reader of the scores should know
    """

    name: str
    type: str
    task: Prepared
    leaking: Mapping[str, int]
    parts: Mapping[str, Prepared]
    notes: tuple[str, ...] = ()

    def before(self, target: str) -> Prepared:
        """What is trained on before the target."""
        return self.parts.get(target, self.task)


@dataclass(frozen=True)
class Given:
    """members: in the order of rows and columns; absent: dataset -> why it is not there."""

    members: tuple[Member, ...]
    absent: Mapping[str, str]


def given(recipe: StiltStudyRecipe, data: Path | None, out: Path, *, watch: Watch = unwatched) -> Given:
    """The datasets, prepared in folders of their names in `out`.

    data: the folder of a catalogue; None where all are files

    Raises ValueError for a dataset that is named and not there, for fewer than two, for two of one name, and as
    `read_own` and `published` do.
    """
    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data}: there is no such folder")
    if data is None and not recipe.datasets:
        raise ValueError("no datasets given: add --data DIR, a folder of datasets, or datasets=[...] that names files")
    read, absent = _read_all(recipe, data)
    for name, why in absent.items():
        watch(Progress("reading datasets", 0, 0, "datasets", {"note": f"{name} is left out: {why}"}))
    sealed = [
        Sealed({split: own.splits[split] for split in LEAKING})
        for own, _ in counted(read, watch, "reading datasets", total=len(read), unit="datasets", every=1)
    ]
    members = []
    for place, (own, kind) in enumerate(
        counted(read, watch, "looking for leaks", total=len(read), unit="datasets", every=1)
    ):
        held = {
            other.name: _leaking(own.splits["train"], sealed[at]) for at, (other, _) in enumerate(read) if at != place
        }
        held = {name: rows for name, rows in held.items() if rows}
        where = out / folder_of(own.name)
        task = _prepared(own, where / "data")
        dropped = held if recipe.leaks == "drop" else {}
        parts = {name: _prepared(_without(own, rows, name), where / _part(rows)) for name, rows in dropped.items()}
        leaking = {name: len(rows) for name, rows in held.items()}
        members.append(Member(own.name, kind, task, leaking, parts, (*own.cautions, *own.notes)))
    return Given(tuple(members), absent)


def folder_of(name: str) -> str:
    """Of a dataset's data in the directory of the study."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "dataset"


def _read_all(recipe: StiltStudyRecipe, data: Path | None) -> tuple[list[tuple[Labelled, str]], dict[str, str]]:
    read: list[tuple[Labelled, str]] = []
    absent: dict[str, str] = {}
    for given in recipe.datasets or PAPER:
        if not recipe.datasets and data is not None:  # of the paper's those whose files are there
            try:
                dataset_named(str(given), blurb.DATASETS).form_in(data)
            except ValueError as error:
                absent[str(given)] = str(error)
                continue
        read.append(_read(given, recipe, data))
    folders = [folder_of(own.name) for own, _ in read]
    if twice := [own.name for (own, _), folder in zip(read, folders, strict=True) if folders.count(folder) > 1]:
        raise ValueError(
            f"datasets: two of them are called '{twice[0]}'. Name each once, and rename a file of that name"
        )
    if taken := [own.name for own, _ in read if own.name in (BASELINE, MORE)]:
        raise ValueError(f"datasets: '{taken[0]}' is what a column of the table is called. Rename the file")
    if len(read) < 2:
        raise ValueError(f"fewer than two of the datasets are there, and a pair takes two. {' '.join(absent.values())}")
    return read, absent


def _read(given: str | Own, recipe: StiltStudyRecipe, data: Path | None) -> tuple[Labelled, str]:
    """A labelled file, or a dataset of those in the folder `data`; and of what type it is."""
    found = dataset_of(given, data)
    usual = not found.source and found.max_tokens == Own(train=Path()).max_tokens  # no limit of its own
    longest = recipe.max_tokens or found.max_tokens
    found = replace(found, max_tokens=longest if usual else min(found.max_tokens, longest))
    named = found.name.partition(",")[0].lower()
    datasets = [each for _, own_sets in CATALOGUES.values() for each in own_sets]
    types = [each.type for each in datasets if each.name.lower() == named and found.source]
    return fewer(found, recipe.rows, recipe.rows_seed), (types or [TYPES[found.kind]])[0]


def _leaking(rows: Sequence[Example], sealed: Sealed) -> frozenset[str]:
    """Ids of the rows that hold a sealed item."""
    telling = [len(normalised(whole(item)).split()) >= FEWEST_WORDS for _, item in sealed.items]
    texts = ((row.id, text) for row in rows for text in (row.text, row.pair) if text)
    return frozenset(
        name
        for name, _, matches in sealed.in_documents(texts)
        if any(kind_of(match) != "passage" and telling[int(match.reference)] for match in matches)
    )


def _without(own: Labelled, ids: frozenset[str], target: str) -> Labelled:
    """The dataset without these training rows; a class that only they had is one that nothing teaches."""
    train = tuple(row for row in own.splits["train"] if row.id not in ids)
    if not train:
        raise ValueError(
            f"{own.name}: every training row holds a text of the dev or test set of {target}, so nothing is left to "
            f"train on before it. Leave one of them out of datasets, or set leaks=keep"
        )
    borne = {label for row in train for label in classes_in(row.label)}
    untaught = tuple(label for label in own.labels if label not in borne and own.kind != "span")
    return replace(own, splits={**own.splits, "train": train}, untaught=(*own.untaught, *untaught))


def _part(ids: frozenset[str]) -> str:
    """A folder's name, the same for the same rows."""
    return f"without-{settings.digest(sorted(ids))[:12]}"


def _prepared(own: Labelled, place: Path) -> Prepared:
    assert set(own.splits) == set(SPLITS)
    return ranks.first_then_all(partial(prepare, own.task(), own.files[0].path, place))


# -------------------- intermediate rows
# What was run of a matrix of pairs, as values: a row a target, a column a first task or a control.


@dataclass(frozen=True, eq=False)
class Ran:
    """What one fine-tuning, or chain of them, came to over its seeds.

    seeds   (seed, dev, score) of those that are there; drawn: None where one is not, for the reason in `failed`
    steps   of the first task and of the target
    first   what the fine-tuning on the first task took, which several cells share; own: that on the target; of a seed,
            the mean over seeds
    jobs    the names of the jobs, a seed each, in whose directories predictions and checkpoints lie
    constant  what one answer to every item scores (race/outcome.py::constant_score)
    """

    name: str
    seeds: tuple[tuple[int, float, float], ...]
    drawn: Resampled | None
    failed: str
    steps: tuple[int, int]
    first: Cost
    own: Cost
    jobs: tuple[str, ...]
    constant: float = 0.0

    @cached_property
    def interval(self) -> Interval | None:
        return interval_of(self.drawn) if self.drawn else None


@dataclass(frozen=True, eq=False)
class Column:
    """A cell as it was run. type: of the first task; "" for the control of more steps.

    control  as many steps on the target alone; None where nobody asked, or this is one
    leaking  training rows of the first task that hold an item of the target's dev or test set
    same     the target twice
    """

    name: str
    type: str
    ran: Ran
    control: Ran | None = None
    leaking: int = 0
    same: bool = False


@dataclass(frozen=True, eq=False)
class Row:
    """A target. trained: its training rows; columns: in the matrix's order, controls among them."""

    name: str
    type: str
    metric: str
    trained: int
    baseline: Ran
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> float:
        """The highest mean score of all that was run on the target; NaN where nothing was."""
        ran = (self.baseline, *(own.ran for own in self.columns))
        return max((own.interval.mean for own in ran if own.interval), default=float("nan"))


# -------------------- intermediate groups
# Pairs by type of first task and type of target: what a type of target gains from a type of first task.
#
# First tasks of one target share its test items and its baseline, so they are taken together, as one chain whose score
# is
# their mean, and compared with the target alone by items and seeds. Targets have test items of their own: their
# differences are put together as those of independent datasets (statistics/means.py). That one first model stands
# before
# several targets is not reckoned with.


@dataclass(frozen=True, eq=False)
class Group:
    """All pairs of a type of first task and a type of target: the mean of their differences over targets, first tasks
    of one target taken together. pairs: how many.
    """

    first: str
    target: str
    pairs: int
    comparison: Comparison
    p_holm: float = 1.0

    @property
    def established(self) -> bool:
        return self.p_holm < LEVEL

    @property
    def clause(self) -> str:
        gains = "gains from" if self.comparison.difference > 0 else "loses by"
        p = p_text(self.p_holm)
        told = f"{points(self.comparison.difference, sign='+')} points on average, p {p if p[0] in '<>' else f'= {p}'}"
        return f"{self.target} {gains} {self.first} ({told})"


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """By type of first task and of target; pairs of a task with itself, and failed ones, left out."""
    found = []
    types = dict.fromkeys(row.type for row in rows)
    for target in types:
        for first in types:
            ours, theirs, pairs = [], [], 0
            for row in rows:
                there = [column.ran.drawn for column in row.columns if column.type == first and not column.same]
                drawn = [own for own in there if own is not None]
                if row.type == target and drawn and row.baseline.drawn:
                    ours.append(_mean(drawn))
                    theirs.append(row.baseline.drawn)
                    pairs += len(drawn)
            if ours:
                comparison = mean_difference(ours, theirs, [1 / len(ours)] * len(ours))
                found.append(Group(first, target, pairs, comparison))
    return found


def _mean(drawn: Sequence[Resampled]) -> Resampled:
    """Several chains of one target as one: their mean score, on the same items and seeds."""
    points_S = np.mean([own.points_S for own in drawn], axis=0)
    shares_Sn = np.mean([own.shares_Sn for own in drawn], axis=0)
    return replace(drawn[0], contestant="mean", points_S=points_S, shares_Sn=shares_Sn)


# -------------------- intermediate result
# What a matrix of pairs came to, as values: each cell against B alone, against as many steps on B alone, and groups.
#
# Holm's correction is over all cells of a model's matrix that are compared with B alone, controls included; by itself
# over the comparisons with as many steps; by itself over the groups.


NAMED = 9  # pairs at most that a sentence names


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell as it was judged. comparison: with B alone; beside: with as many steps on B alone; each with its p after
    Holm's correction. All None where something failed.
    """

    row: Row
    column: Column
    comparison: Comparison | None = None
    p_holm: float | None = None
    beside: Comparison | None = None
    beside_p_holm: float | None = None

    @property
    def is_control(self) -> bool:
        return self.column.same or self.column.name == MORE

    @property
    def why(self) -> str:
        """Why nothing is compared; "" where it is."""
        if self.comparison is not None:
            return ""
        ran = self.column.ran
        return f"{ran.name}, {ran.failed}" if ran.failed else f"{self.row.name} alone, {self.row.baseline.failed}"

    @property
    def established(self) -> bool:
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def said(self) -> str:
        """What the corrected test against B alone bears out, in a word or two."""
        if self.comparison is None:
            return "failed"
        if not self.established:
            return "not established"
        return "better" if self.comparison.difference > 0 else "worse"


@dataclass(frozen=True, eq=False)
class Matrix:
    """A model's cells, row by row, and groups."""

    model: str
    seeds: int
    rows: tuple[Row, ...]
    cells: Mapping[tuple[str, str], Cell]  # (target, column)
    groups: tuple[Group, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """First tasks in the order of the rows; the control of more steps last, where it was run."""
        there = dict.fromkeys(column.name for row in self.rows for column in row.columns)
        return (*(row.name for row in self.rows if row.name in there), *((MORE,) if MORE in there else ()))

    @property
    def largest(self) -> float:
        """The largest difference of a cell, either way; of an empty matrix 0."""
        return max((abs(own.comparison.difference) for own in self.cells.values() if own.comparison), default=0.0)

    def verdict(self) -> str:
        """What is established of pairs, controls aside, in a sentence."""
        pairs = [cell for cell in self.cells.values() if not cell.is_control and cell.comparison]
        ends = {"better": "score higher than", "worse": "score lower than"}
        told = []
        for said, words in ends.items():
            names = [f"{cell.column.name} → {cell.row.name}" for cell in pairs if cell.said == said]
            if names:
                which = f": {listed(names)}" if len(names) <= NAMED else ""
                told.append(f"{len(names)} of {len(pairs)} pairs {words} the target alone{which}")
        if not told:
            return f"{self.model}: of {len(pairs)} pairs none is established to differ from the target alone."
        rest = "" if sum(cell.established for cell in pairs) == len(pairs) else " The rest may be chance."
        return f"{self.model}: {'; '.join(told)}.{rest}"

    def controls(self) -> str:
        """How many of the gains stand against as many steps, and what the controls themselves came to."""
        told = []
        gains = [cell for cell in self.cells.values() if cell.said == "better" and not cell.is_control]
        if gains and (compared := [cell for cell in gains if cell.beside_p_holm is not None]):
            stand = [cell for cell in compared if (cell.beside_p_holm or 0) < LEVEL and cell.beside]
            stand = [cell for cell in stand if cell.beside and cell.beside.difference > 0]
            told.append(
                f"Of {len(compared)} established gains {len(stand)} stand against as many steps on the target alone."
            )
        for name, own in (
            ("the same task twice", [cell for cell in self.cells.values() if cell.column.same and cell.comparison]),
            (MORE, [cell for cell in self.cells.values() if cell.column.name == MORE and cell.comparison]),
        ):
            if own:
                above = sum(cell.comparison.difference > 0 for cell in own if cell.comparison)
                clear = sum(cell.established for cell in own)
                told.append(f"Control, {name}: above the target alone in {above} of {len(own)}, {clear} established.")
        return " ".join(told)

    def findings(self) -> str:
        """What is established of groups, in a sentence."""
        clear = [group.clause for group in self.groups if group.established]
        if not self.groups:
            return "No group of pairs could be compared."
        if not clear:
            return f"Of {len(self.groups)} groups of pairs no mean difference is established: all may be chance."
        rest = "" if len(clear) == len(self.groups) else " Of the other groups nothing is established."
        return f"Established of groups: {'; '.join(clear)}.{rest}"


@dataclass(frozen=True, eq=False)
class Tables:
    """All models. leaks: what became of leaking rows, "drop" or "keep"; absent: dataset -> why it is not there."""

    split: str
    leaks: str
    matrices: tuple[Matrix, ...]
    absent: Mapping[str, str]


def matrix_of(model: str, seeds: int, rows: Sequence[Row]) -> Matrix:
    """The rows with every cell judged."""
    cells = [_compared(row, column) for row in rows for column in row.columns]
    holms = _corrected([cell.comparison for cell in cells]), _corrected([cell.beside for cell in cells])
    cells = [replace(cell, p_holm=p, beside_p_holm=beside) for cell, p, beside in zip(cells, *holms, strict=True)]
    groups = groups_of(rows)
    corrected_p = holm([group.comparison.p for group in groups])
    judged = tuple(replace(group, p_holm=p) for group, p in zip(groups, corrected_p, strict=True))
    return Matrix(model, seeds, tuple(rows), {(cell.row.name, cell.column.name): cell for cell in cells}, judged)


def _corrected(comparisons: Sequence[Comparison | None]) -> list[float | None]:
    """In step, Holm's correction over those that there are."""
    corrected = iter(holm([own.p for own in comparisons if own]))
    return [next(corrected) if own else None for own in comparisons]


def _compared(row: Row, column: Column) -> Cell:
    own, alone = column.ran.drawn, row.baseline.drawn
    if own is None or alone is None:
        return Cell(row, column)
    control = column.control.drawn if column.control else None
    beside = compare_of(own, control) if control else None
    return Cell(row, column, compare_of(own, alone), beside=beside)


# -------------------- intermediate sheet
# A matrix of pairs as CSV, a line a cell, and as JSON, a record a run: unrounded, in units of the metric, tokens, FLOP
# and seconds. Lists in CSV are separated by spaces.


_TOLD = ("difference", "low", "high", "p")


def as_csv(tables: Tables) -> str:
    """A line for each model, target and first task, the target alone (`baseline`) among them."""
    file = io.StringIO()
    lines = [line for matrix in tables.matrices for line in _csv_lines(matrix, tables)]
    writer = csv.DictWriter(file, [*lines[-1]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def records(tables: Tables) -> list[dict[str, Any]]:
    """A run each, for a file; predictions lie in the directory of its job."""
    found = []
    for matrix in tables.matrices:
        for row in matrix.rows:
            controls = [own.control for own in row.columns if own.control]
            several = {ran.name: ran for ran in (row.baseline, *(own.ran for own in row.columns), *controls)}
            for ran in several.values():
                about: dict[str, Any] = {
                    "model": matrix.model,
                    "target": row.name,
                    "first": ran.name,
                    "metric": row.metric,
                }
                about |= {"split": tables.split, "steps": list(ran.steps)}
                jobs = dict(enumerate(ran.jobs))
                found += [
                    {**about, "seed": seed, "score": score, "dev": dev, "job": jobs[seed]}
                    for seed, dev, score in ran.seeds
                ]
    return found


def _csv_lines(matrix: Matrix, tables: Tables) -> Iterator[dict[str, object]]:
    for row in matrix.rows:
        about: dict[str, object] = {
            "model": matrix.model,
            "target": row.name,
            "target_type": row.type,
            "metric": row.metric,
        }
        about |= {"split": tables.split, "train_rows": row.trained}
        told = {"leaks": 0, "leaks_are": tables.leaks, **_differences("alone", None, None), "said": ""}
        told |= _differences("steps", None, None)
        yield {**about, "first": BASELINE, "first_type": "", **_sheet_cells(row.baseline), **told}
        for column in row.columns:
            cell = matrix.cells[row.name, column.name]
            told = {"leaks": column.leaking, "leaks_are": tables.leaks}
            told |= _differences("alone", cell.comparison, cell.p_holm) | {"said": cell.said}
            told |= _differences("steps", cell.beside, cell.beside_p_holm)
            yield {**about, "first": column.name, "first_type": column.type, **_sheet_cells(column.ran), **told}


def _sheet_cells(ran: Ran) -> dict[str, object]:
    mean = ran.interval
    told: dict[str, object] = {"mean": mean.mean if mean else None, "low": mean.low if mean else None}
    told |= {"high": mean.high if mean else None, "failed": ran.failed}
    told |= {name: " ".join(str(seed[at]) for seed in ran.seeds) for at, name in enumerate(("seeds", "dev", "scores"))}
    told |= {"first_steps": ran.steps[0], "steps": ran.steps[1]}
    stages: Mapping[str, Cost] = {"first": ran.first, "target": ran.own}
    units = ("tokens", "flops", "seconds")
    return told | {f"{stage}_{unit}": getattr(cost, unit) for stage, cost in stages.items() for unit in units}


def _differences(name: str, comparison: Comparison | None, p_holm: float | None) -> dict[str, object]:
    told = [getattr(comparison, part) for part in _TOLD] if comparison else [None] * len(_TOLD)
    return {f"{name}_{part}": value for part, value in zip((*_TOLD, "p_holm"), (*told, p_holm), strict=True)}


# -------------------- intermediate page
# A matrix of pairs as text and as a page: rows are targets, columns first tasks, as in the paper's tables.
#
# Scores and differences are in points (the metric times 100).


TITLE = "Intermediate tasks"
SOURCE = (
    "After Jeong and Hwang, Empirical Study on Intermediate Fine-tuning for Biomedical Domain Tasks, Tables 2 and 3."
)
ACROSS = 9  # columns of a part of the matrix, in text
SAME = "the same task twice"
BESIDE = ("from as many steps", "p (Holm) there")


def sections(tables: Tables) -> list[Section]:
    """Of the text, and of the page below its matrices."""
    made = []
    for matrix in tables.matrices:
        made += [*matrix_sections(matrix, tables), groups_section(matrix), cells_section(matrix, tables)]
        made.append(seeds_section(matrix))
    return [*made, data_section(tables)]


def as_text(tables: Tables) -> str:
    """As stilt.txt has it, at most 110 columns wide."""
    return page(heading(tables), sections(tables))


def heading(tables: Tables) -> str:
    return f"{TITLE}: {', '.join(matrix.model for matrix in tables.matrices)}"


def matrix_sections(matrix: Matrix, tables: Tables) -> Iterator[Section]:
    """The differences from the target alone, in parts of so many columns."""
    numbers = {row.name: str(place) for place, row in enumerate(matrix.rows, 1)}
    columns = matrix.columns
    parts = [columns[at : at + ACROSS] for at in range(0, len(columns), ACROSS)]
    for part in parts:
        rows = []
        for row in matrix.rows:
            alone = points(row.baseline.interval.mean) if row.baseline.interval else "failed"
            told = [_short(matrix.cells.get((row.name, name))) for name in part]
            rows.append((f"{numbers[row.name]} {row.name}", alone, *told))
        heads = ("target", "alone", *(numbers.get(name, "more") for name in part))
        lines = legend(matrix, tables) if part is parts[-1] else ()
        yield Section(f"{matrix.model}: differences by first task", heads, tuple(rows), tuple(lines))


def legend(matrix: Matrix, tables: Tables) -> list[str]:
    """What the numbers are, and what is established."""
    control = f" '{MORE[:4]}': the target alone for as many steps as {SAME}." if MORE in matrix.columns else ""
    compared = sum(cell.comparison is not None for cell in matrix.cells.values())
    lines = [
        f"Points on {tables.split}, means over {matrix.seeds} seeds: the target alone, and what a first task (columns, "
        f"by the rows' numbers) adds to it.{control} *: established, p < .05 after Holm's correction over all "
        f"{compared} compared cells; all others may be chance.",
        matrix.verdict(),
        *filter(None, [matrix.controls()]),
        matrix.findings(),
    ]
    lines += [
        f"{row.name}: no model here has learnt it: the highest has {points(row.best)} points, the same answer to every "
        f"text {points(row.baseline.constant)}. Its differences, those of 0 too, do not say what a first task gives. "
        f"Train longer (finetune.epochs) or at a higher rate (finetune.plan.rate)."
        for row in matrix.rows
        if row.best <= row.baseline.constant + UNTAUGHT
    ]
    lines += [f"{_pair(cell)} failed: {cell.why}." for cell in matrix.cells.values() if cell.why]
    return lines


def groups_section(matrix: Matrix) -> Section:
    rows = tuple(
        (
            f"{group.first} → {group.target}",
            str(group.pairs),
            difference_text(group.comparison),
            p_text(group.comparison.p),
            p_text(group.p_holm),
            ("better" if group.comparison.difference > 0 else "worse") if group.established else "not established",
        )
        for group in matrix.groups
    )
    said = (
        "The mean difference over the targets of a type, with 95% intervals over seeds and test items; first tasks of "
        "one target are taken together. Pairs of a task with itself are left out. Holm: over the groups."
    )
    columns = ("first → target", "pairs", "difference", "p", "p (Holm)", "")
    return Section(f"{matrix.model}: groups", columns, rows, (said,))


def cells_section(matrix: Matrix, tables: Tables) -> Section:
    """Every cell and its comparisons."""
    told = [facts_of(cell) for cell in matrix.cells.values()]
    columns = ("pair", "difference", "p (Holm)", *BESIDE, "leaks")
    rows = [tuple(facts[name] for name in columns) for facts in told]
    cautions: dict[str, list[str]] = {}
    for cell in matrix.cells.values():
        for caution in (cell.comparison.caution if cell.comparison else "").splitlines():
            cautions.setdefault(caution, []).append(_pair(cell))
    total = len(matrix.cells)
    leaks = "left out of the first task" if tables.leaks == "drop" else "kept in the first task"
    lines = [
        f"As many steps: the target alone for as many steps as both tasks took. Leaks: training rows of the first task "
        f"that hold an item of the target's dev or test set, {leaks}.",
        *(cautioned(_figures(names, total), len(names), caution) for caution, names in cautions.items()),
    ]
    return Section(f"{matrix.model}: every pair", columns, tuple(rows), tuple(lines))


def facts_of(cell: Cell) -> dict[str, str]:
    """Of a cell, heading -> text."""
    ran = cell.column.ran
    score = interval_text(ran.interval) if ran.interval else "failed"
    return {
        "pair": _pair(cell),
        "score": score,
        "difference": difference_text(cell.comparison),
        "p (Holm)": p_text(cell.p_holm),
        **dict(zip(BESIDE, (difference_text(cell.beside), p_text(cell.beside_p_holm)), strict=True)),
        "leaks": f"{cell.column.leaking:,}",
        "FLOP, first": si(ran.first.flops) if ran.first.flops else "-",
        "FLOP, target": si(ran.own.flops),
    }


def seeds_section(matrix: Matrix) -> Section:
    """The scores of each seed, those of the target alone too."""
    rows = []
    for row in matrix.rows:
        chains = [(own.ran, _pair_of(own.name, row.name)) for own in row.columns]
        for ran, name in [(row.baseline, f"{row.name} alone"), *chains]:
            dev, score = (" ".join(points(seed[at]) for seed in ran.seeds) or "-" for at in (1, 2))
            steps = " + ".join(f"{count:,}" for count in ran.steps if count)
            took = ran.first + ran.own
            rows.append((name, score, dev, steps, si(took.flops, "FLOP"), duration(took.seconds)))
    columns = ("", "scores", "on dev", "steps", "a seed", "time")
    said = "Steps and costs are of both tasks; what a first task took, several pairs share."
    return Section(f"{matrix.model}: each seed", columns, tuple(rows), (said,))


def data_section(tables: Tables) -> Section:
    """The datasets, and what is to be known of them."""
    rows: list[tuple[str, ...]] = []
    notes: dict[str, list[str]] = {}
    for matrix in tables.matrices[:1]:
        for number, row in enumerate(matrix.rows, 1):
            rows.append((f"{number} {row.name}", row.type, metric_text(row.metric), f"{row.trained:,}"))
            for note in row.notes:
                notes.setdefault(note, []).append(row.name)
    lines = [f"{listed(names)}: {note}" for note, names in notes.items()]
    lines += [f"{name} is left out: {why}" for name, why in tables.absent.items()]
    return Section("Datasets", ("", "type", "metric", "training rows"), tuple(rows), tuple(lines))


def page_of(tables: Tables) -> Page:
    """Return the HTML page: for each model a heat map whose cells lead to the rows of every pair."""
    made: list[Section] = []
    for number, matrix in enumerate(tables.matrices, 1):
        groups, seeds = groups_section(matrix), seeds_section(matrix)
        heat = heat_map(matrix, tables, number)
        made += [heat, replace(groups, title=f"Groups of pairs, {matrix.model}", lead=matrix.findings())]
        made += [every_pair(matrix, tables, number), replace(seeds, title=f"Each seed, {matrix.model}")]
    verdict = " ".join(matrix.verdict() for matrix in tables.matrices)
    return Page(TITLE, verdict, [*made, data_section(tables)], source=SOURCE)


def heat_map(matrix: Matrix, tables: Tables, number: int) -> Section:
    """The score of each pair in a cell whose colour is its difference from the target alone."""
    rows = []
    for across, row in enumerate(matrix.rows, 1):
        alone = points(row.baseline.interval.mean) if row.baseline.interval else "failed"
        cells = []
        for place, name in enumerate(matrix.columns, 1):
            cells.append(_heat_cell(matrix, matrix.cells.get((row.name, name)), f"pair-{number}-{across}-{place}"))
        rows.append((report.Cell(row.name, beside=metric_text(row.metric)), report.Cell(alone, look="plain"), *cells))
    return Section(
        matrix.model,
        ("Target", "Alone", *matrix.columns),
        tuple(rows),
        tuple(legend(matrix, tables)),
        lead=f"Rows are targets, columns the task that was learnt first. In a cell the score on {tables.split}, and "
        "below it the difference from the target alone, in points. Blue, ▲: higher; orange, ▼: lower; the fuller the "
        "colour, the larger the difference. Hatched, with + or −: not established after Holm's correction over all "
        "cells. Outlined: a control. Each cell leads to its row below.",
        look="heat",
    )


def _heat_cell(matrix: Matrix, cell: Cell | None, link: str) -> report.Cell:
    if cell is None:
        return report.Cell("-", look="plain")
    if cell.comparison is None or cell.column.ran.interval is None:
        return report.Cell("failed", link=link)
    gain = cell.comparison.difference
    look = "better" if gain > 0 else "worse" if gain < 0 else "even"
    look += (" sure" if cell.established else " open") + " control" * cell.is_control
    arrow = ("▲ " if gain > 0 else "▼ ") * cell.established
    change = points(gain, sign="+").replace("-", "\N{MINUS SIGN}")
    shade = (abs(gain) / matrix.largest) ** 0.5 if matrix.largest else 0.0
    return report.Cell(points(cell.column.ran.interval.mean), gain, f"{arrow}{change}", look, shade, link)


def every_pair(matrix: Matrix, tables: Tables, number: int) -> Section:
    """A row for each cell of the heat map: its comparisons, scores of each seed, steps and time."""
    rows, ids, heads = [], [], ["each seed", "on dev", "steps", "time, a seed", "said"]
    for across, row in enumerate(matrix.rows, 1):
        for place, name in enumerate(matrix.columns, 1):
            if (cell := matrix.cells.get((row.name, name))) is None:
                continue
            ran = cell.column.ran
            scores, on_dev = (" ".join(points(seed[at]) for seed in ran.seeds) for at in (2, 1))
            steps = " + ".join(f"{count:,}" for count in ran.steps if count)
            said = f"{cell.said}{f': {cell.why}' if cell.why else ''}{', a control' * cell.is_control}"
            time = duration((ran.first + ran.own).seconds)
            rows.append((*facts_of(cell).values(), scores, on_dev, steps, time, said))
            ids.append(f"pair-{number}-{across}-{place}")
    columns = (*facts_of(next(iter(matrix.cells.values()))), *heads) if rows else ()
    lines = cells_section(matrix, tables).lines
    return Section(f"Every pair, {matrix.model}", columns, tuple(rows), lines, ids=tuple(ids))


def write_pages(out: Path, study: str, tables: Tables) -> None:
    """`out/STUDY.txt`, `.csv`, `.html` and `.scores.json`."""
    files.write_json(out / f"{study}.scores.json", records(tables))
    files.write_text(out / f"{study}.csv", as_csv(tables))
    files.write_text(out / f"{study}.txt", as_text(tables))
    page_of(tables).write(out / f"{study}.html")


def _pair(cell: Cell) -> str:
    return _pair_of(cell.column.name, cell.row.name)


def _pair_of(first: str, target: str) -> str:
    return f"{target}, {MORE}" if first == MORE else f"{first} → {target}"


def _short(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if cell.comparison is None:
        return "failed"
    return points(cell.comparison.difference, sign="+") + "*" * cell.established


def _figures(names: Sequence[str], total: int) -> str:
    """What a caution is about: by name, or how many of the differences where that would be a page."""
    if len(names) <= NAMED:
        return f"the difference{'s' * (len(names) > 1)} of {listed(names)}"
    return "these differences" if len(names) == total else f"{len(names)} of these differences"


STUDY = "stilt"
RECIPE = StiltStudyRecipe


@dataclass(frozen=True)
class Arm:
    """A column of a row, a job a seed. first: the fine-tuning on A; None where B stands alone.

    steps  of the first task and of the target
    """

    column: str
    tuned: tuple[Job, ...]
    first: tuple[Job, ...] = ()
    steps: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Line:
    """A target with all its arms; controls: column -> the arm of as many steps on the target alone."""

    target: Member
    arms: tuple[Arm, ...]
    controls: Mapping[str, Arm]

    def all_arms(self) -> list[Arm]:
        """Those of the columns, then the controls that are none."""
        return [*self.arms, *(arm for arm in self.controls.values() if arm not in self.arms)]


def run_matrix(
    recipe: StiltStudyRecipe, models: Sequence[str], data: Path | None, out: Path, *, watch: Watch = unwatched
) -> Tables:
    """Do what is missing of the study in `out`, and write stilt.txt, .csv, .html and .scores.json.

    data: the folder of a catalogue; None where all datasets are files

    A cell whose training fails is told of, and the others go on. Raises ValueError, before anything is trained, for
    whatever is wrong with models, datasets and settings.
    """
    contestants = contestants_of(models)
    claim(out, called_models(contestants))
    found = given(recipe, data, out, watch=watch)
    check_lengths(recipe, contestants, found)
    lines = {own.name: lines_of(recipe, own, found) for own in contestants}
    told = watch
    for own in contestants:
        told = naming(told, own)
    arms = [arm for several in lines.values() for line in several for arm in line.all_arms()]
    failed = do_all([job for arm in arms for job in (*arm.first, *arm.tuned)], out, watch=told)
    if recipe.split == "test":  # opened once all is trained
        tests = [
            tested(job, line.target.task)
            for several in lines.values()
            for line in several
            for arm in line.all_arms()
            for job in arm.tuned
            if result_of(job, out) is not None
        ]
        failed |= do_all(tests, out, watch=told)
    matrices = []
    for own in contestants:
        why = {name: first_line(error).replace(own.key, own.name) for name, error in failed.items()}
        matrices.append(_matrix(recipe, own, lines[own.name], why, out))
    tables = Tables(recipe.split, recipe.leaks, tuple(matrices), dict(found.absent))
    if ranks.is_first():
        write_pages(out, STUDY, tables)
    ranks.wait()
    return tables


def lines_of(recipe: StiltStudyRecipe, own: Contestant, found: Given) -> list[Line]:
    """A line for each target, the datasets in their order."""
    return [_line(recipe, own, target, found.members) for target in found.members]


def _line(recipe: StiltStudyRecipe, own: Contestant, target: Member, members: Sequence[Member]) -> Line:
    stated = fitting(recipe.finetune, target.task)
    alone = finetune.steps_of(stated, target.task)

    def of_target(label: str, recipe_of: finetune.FinetuneRecipe, seed: int, first: Job | None = None) -> Job:
        words = f"fine-tune {own.key} on {label}, seed {seed}"
        return fine_tuned(words, _seeded(recipe_of, seed), first, _materials(target.task, own))

    def in_one_go(steps: int) -> Arm:
        longer = replace(stated, epochs=0.0, plan=replace(stated.plan, steps=steps))
        jobs = [of_target(f"{target.name}, {steps} steps", longer, seed) for seed in range(recipe.seeds)]
        return Arm(f"{MORE}, {steps}", tuple(jobs), steps=(0, steps))

    seeds = range(recipe.seeds)
    arms = [Arm(BASELINE, tuple(of_target(target.name, stated, seed) for seed in seeds), steps=(0, alone))]
    controls: dict[str, Arm] = {}
    for member in members:
        if member is target and not recipe.same_task:
            continue
        task = member.task if member is target else member.before(target.name)
        before = fitting(recipe.intermediate.on(recipe.finetune), task)
        called = member.name if before == fitting(recipe.finetune, task) else f"{member.name} as first task"
        if left_out := member.task.sizes["train"] - task.sizes["train"]:
            called += f" without {amount(left_out, 'row')}"
        words = f"fine-tune {own.key} on {called}"
        firsts = tuple(
            fine_tuned(f"{words}, seed {seed}", _seeded(before, seed), None, _materials(task, own)) for seed in seeds
        )
        label = f"{member.name}, then {target.name}"
        steps = finetune.steps_of(before, task)
        tuned = tuple(of_target(label, stated, seed, firsts[seed]) for seed in seeds)
        arms.append(Arm(member.name, tuned, firsts, (steps, alone)))
        if recipe.more_steps == "each" or (recipe.more_steps == "twice" and member is target):
            controls[member.name] = in_one_go(steps + alone)
    if recipe.more_steps != "none":
        again = finetune.steps_of(fitting(recipe.intermediate.on(recipe.finetune), target.task), target.task)
        arms.append(replace(in_one_go(again + alone), column=MORE))
        controls = {name: arms[-1] if arm.tuned == arms[-1].tuned else arm for name, arm in controls.items()}
    return Line(target, tuple(arms), controls)


def check_lengths(recipe: StiltStudyRecipe, contestants: Sequence[Contestant], found: Given) -> None:
    """Raises ValueError where a model cannot read texts as long as the datasets'."""
    for own in contestants:
        longest = longest_input(own.where)
        for member in found.members:
            if longest is not None and member.task.max_tokens > longest:
                raise ValueError(
                    f"{member.name} has examples of up to {member.task.max_tokens} tokens, but {own.name} reads at "
                    f"most {longest}. Add max_tokens={longest}"
                )


def _matrix(
    recipe: StiltStudyRecipe, own: Contestant, lines: Sequence[Line], failed: Mapping[str, str], out: Path
) -> Matrix:
    rows = []
    for line in lines:
        ran = {arm.column: _ran(arm, line.target, recipe, failed, out) for arm in line.all_arms()}
        columns = []
        for arm in line.arms[1:]:
            first = next((other.target for other in lines if other.target.name == arm.column), None)
            control = line.controls.get(arm.column)
            columns.append(
                Column(
                    name=arm.column,
                    type=first.type if first else "",
                    ran=ran[arm.column],
                    control=ran[control.column] if control and control.column != arm.column else None,
                    leaking=first.leaking.get(line.target.name, 0) if first else 0,
                    same=first is line.target,
                )
            )
        target = line.target
        metric, trained = target.task.metric.name, target.task.sizes["train"]
        rows.append(Row(target.name, target.type, metric, trained, ran[BASELINE], tuple(columns), target.notes))
    return matrix_of(own.name, recipe.seeds, rows)


def _ran(arm: Arm, target: Member, recipe: StiltStudyRecipe, failed: Mapping[str, str], out: Path) -> Ran:
    """What an arm came to: its scores, or why they are not there."""
    scores: list[Score] = []
    why = ""
    gold = [example.label for example in target.task.examples("dev")] if recipe.split == "dev" else []
    for seed, job in enumerate(arm.tuned):
        trained, last = result_of(job, out), tested(job, target.task)
        result = trained if recipe.split == "dev" else result_of(last, out)
        if trained is None or result is None:
            why = why or f"seed {seed}: {failed.get(job.name) or failed.get(last.name) or 'not done'}"
            continue
        if recipe.split == "dev":
            scores.append(dev_row(arm.column, seed, result, gold, target.task))
        else:
            seen = result | {"dev": trained["dev"]}
            scores.append(test_row(arm.column, seed, seen, target.task, adapting=Cost(), finetuning=Cost()))
    done = [job for job in arm.tuned if result_of(job, out) is not None]
    return Ran(
        name=arm.column,
        seeds=tuple((score.seed, score.dev, score.test) for score in scores),
        drawn=None if why else resample(scores, target.task.metric)[arm.column],
        failed=why,
        steps=arm.steps,
        first=mean_cost(spent(job.directory(out)) for job in arm.first if result_of(job, out) is not None),
        own=mean_cost(spent(job.directory(out)) for job in done),
        jobs=tuple(job.name for job in arm.tuned),
        constant=constant_score(scores[0].gold, target.task.kind, target.task.metric) if scores else 0.0,
    )


def _materials(task: Prepared, own: Contestant) -> Materials:
    return Materials(task=task, model=own.where)


def _seeded(stated: finetune.FinetuneRecipe, seed: int) -> finetune.FinetuneRecipe:
    return replace(stated, plan=replace(stated.plan, seed=seed))


# -------------------- intermediate plan
# What a matrix of pairs is still to do, and what that costs, before it starts; nothing is trained but a few steps.


def plan(recipe: StiltStudyRecipe, models: Sequence[str], data: Path | None, out: Path) -> Plan:
    """What `run_matrix` would still do in `out`: a line for each model and dataset that is trained on.

    Raises ValueError as it does; writes nothing there.
    """
    contestants = contestants_of(models)
    with TemporaryDirectory() as place:
        found = given(recipe, data, Path(place))
        check_lengths(recipe, contestants, found)
        cells = [cell for own in contestants for cell in _cells(recipe, own, found, out)]
    return Plan(tuple(cells), dict(found.absent), verb=f"study {STUDY}", varied="cells")


def _cells(recipe: StiltStudyRecipe, own: Contestant, found: Given, out: Path) -> list[Planned]:
    lines = lines_of(recipe, own, found)
    jobs = [
        tested(job, line.target.task) if recipe.split == "test" else job
        for line in lines
        for arm in line.all_arms()
        for job in arm.tuned
    ]
    everything, waiting = with_needs(jobs), missing(jobs, out)
    cells = []
    for member, line in zip(found.members, lines, strict=True):
        parts = [(member.name, member.task)]
        parts += [(f"{member.name}, before {name}", task) for name, task in member.parts.items()]
        for at, (name, task) in enumerate(parts):
            if any(task.path == other.path for _, other in parts[:at]):
                continue
            left = _left(everything, waiting, task, own)
            tunings = sum(stage.kind == "tuning" for stage in left.stages)
            there = len(line.arms) if task is member.task else 0
            cells.append(Planned(name, own.name, task.sizes["train"], there, recipe.seeds, tunings, left))
    return cells


def _left(everything: Sequence[Job], waiting: Sequence[Job], task: Prepared, own: Contestant) -> Estimate:
    """Of the jobs on this reading of a dataset, those that are left."""
    there = [job for job in everything if job.places.get("task") == task.path]
    asked = [(job, 1.0) for job in waiting if job.places.get("task") == task.path]
    assert all(job.work in (work.FINE_TUNE, work.TEST) for job in there)
    return estimate_of_jobs(asked, RaceRecipe(), Materials(task=task, model=own.where), done=len(there) - len(asked))
