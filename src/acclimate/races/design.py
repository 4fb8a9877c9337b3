"""A study as a value: the cells of its table, the jobs that make each, and what is compared with what.

A study file (studies/) writes `design(recipe, inputs) -> Design` and nothing else that another study needs too.
races/run.py does the jobs, races/compare.py compares, races/write.py writes what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.core.types import Split, Watch, unwatched
from acclimate.data.examination import Examination
from acclimate.data.inputs import Leaks, Raw
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.races.contestants import Entries, fine_tuned, tested
from acclimate.races.recipe import RaceRecipe
from acclimate.reports.page import Section
from acclimate.tasks.labelled import LabelledFiles
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Metric

if TYPE_CHECKING:
    from acclimate.races.compare import Outcome

Key = tuple[str, str, str]  # a cell's model, row and column


@dataclass(frozen=True)
class Inputs:
    """What a study is run on.

    out       the directory of the study, in which data are prepared; a dry run has a temporary one here
    task      the labelled files; None where the study's settings name its datasets
    raw       raw text of the domain, and general text
    models    directories or hub ids
    data      the folder of a benchmark, of which datasets are taken by name; None where all are files
    leaks     what becomes of labelled rows that hold a text of the test set
    labels_per_class  of the embedded default
    """

    out: Path
    task: LabelledFiles | None = None
    raw: Raw = field(default_factory=Raw)
    models: tuple[str, ...] = ()
    data: Path | None = None
    leaks: Leaks = "keep"
    labels_per_class: int | None = None
    watch: Watch = unwatched

    @property
    def model(self) -> str | None:
        """The model of a study that takes one; None where none was given."""
        return self.models[0] if self.models else None


@dataclass(frozen=True, eq=False)
class Cell:
    """One number of a table, and the jobs that make it.

    row, column   what is scored (a contestant, a variant, a first task) and on which task
    jobs_by_seed  seed -> the job whose result is scored: the look at the test set, or on dev the fine-tuning
    costs         name of a stage, such as "adapting" -> seed -> its jobs; tables have the mean over the seeds
    materials     the task that is scored, and the model that all starts from
    model         its name in a study that is repeated for several models; "" elsewhere
    facts         column of the tables -> value
    shown         False for what only stands as a reference of comparisons: CSV and JSON have it, tables do not
    """

    row: str
    column: str
    jobs_by_seed: Mapping[int, Job]
    costs: Mapping[str, Mapping[int, Sequence[Job]]]
    materials: Materials
    model: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    shown: bool = True

    @property
    def key(self) -> Key:
        return self.model, self.row, self.column

    @property
    def task(self) -> Prepared:
        return self.materials.task


@dataclass(frozen=True)
class Allowed:
    """What a budget leaves of a search, and in words what it left out.

    finalists: how many contestants the last round may have, asked when it begins; None: all
    """

    entries: Entries
    notes: tuple[str, ...]
    finalists: Callable[[], int] | None


@dataclass(frozen=True, eq=False)
class Search:
    """Cells whose fine-tunings are known once dev has chosen their settings (races/search.py).

    row      of the table, where the untouched model is the only contestant; "": each contestant is a row
    entries  the contestants, and the recipe that says what is tried; facts: as of `Cell`
    costs    name of a stage before the search -> its jobs
    allowed  (entries, directory, True if decisions are written there) -> what a budget leaves of them; None where
             there is no budget
    """

    row: str
    column: str
    entries: Entries
    facts: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    allowed: Callable[[Entries, Path, bool], Allowed] | None = None

    @property
    def key(self) -> Key:
        return "", self.row, self.column


@dataclass(frozen=True)
class Against:
    """A cell or mean, and what it is compared with: of several references the one with the highest score.

    name    what comparisons of this kind are against, as a heading has it: "untouched", "as many steps"
    family  in words, which comparisons Holm's correction counts together: those with equal words
    """

    key: Key
    references: tuple[Key, ...]
    name: str
    family: str


@dataclass(frozen=True)
class Mean:
    """A mean over tasks. parts: the cells of a task each, which are first taken together as their mean.

    weights  of the parts, in step; their sum is 1
    whole    True: there is no mean where one of the cells failed; False: it is that of the others, equally weighted
    shown    False for what only stands as a reference of comparisons
    """

    key: Key
    parts: tuple[tuple[Key, ...], ...]
    weights: tuple[float, ...]
    whole: bool = True
    shown: bool = True


@dataclass(frozen=True)
class Losses:
    """Losses on held-out text.

    name, meaning  of the column, and a sentence that explains it
    before         the row of the model as it is, and the job of its loss; None where a search measures them (a race)
    jobs_by_row    of what each row adapted, a seed each
    """

    name: str
    meaning: str
    before: tuple[str, Job] | None = None
    jobs_by_row: Mapping[str, Sequence[Job]] = field(default_factory=dict)

    @property
    def jobs(self) -> list[Job]:
        """All that is to be measured."""
        first = [self.before[1]] if self.before else []
        return [*first, *(job for jobs in self.jobs_by_row.values() for job in jobs)]


def main_metric(metric: Metric) -> Sequence[Metric]:
    """The task's metric alone."""
    return (metric,)


def no_sections(outcome: Outcome) -> Sequence[Section]:
    return ()


def no_facts(cell: Cell, out: Path) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, eq=False)
class Design:
    """A study.

    name, title, source   what its files are called by; the heading; the tables that it repeats, as a sentence
    cells, searches       in the order of the tables
    against               which comparisons are made, and which count together
    axes                  what rows and columns are, such as ("contestant", "task")
    split                 what is scored; the test set is opened once all is trained
    metrics               of a task's metric, all that are reported of the same predictions; it comes first
    means                 over tasks
    losses                on held-out text, beside the scores
    chosen_is_tested      of a study on dev: the row with the best mean on dev is tested in the end, and no other
    called                what stands for a model in labels of jobs -> its name
    notes, absent         what was done to the data; dataset -> why it is not there
    race                  settings that the estimate of a dry run falls back on
    examination           what the doctor found in the task
    measured              (cell, directory) -> more facts, once the cell has run
    sections              what only this study's tables have; they come first
    """

    name: str
    title: str
    source: str
    cells: tuple[Cell, ...]
    against: tuple[Against, ...]
    searches: tuple[Search, ...] = ()
    axes: tuple[str, str] = ("contestant", "task")
    split: Split = "test"
    metrics: Callable[[Metric], Sequence[Metric]] = main_metric
    means: tuple[Mean, ...] = ()
    losses: tuple[Losses, ...] = ()
    chosen_is_tested: bool = False
    called: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    race: RaceRecipe = field(default_factory=RaceRecipe)
    examination: Examination | None = None
    measured: Callable[[Cell, Path], Mapping[str, Any]] = no_facts
    sections: Callable[[Outcome], Sequence[Section]] = no_sections


def fine_tunings(
    label: str, recipe: FinetuneRecipe, models: Job | Mapping[int, Job] | None, materials: Materials, *, seeds: int
) -> dict[int, Job]:
    """Return seed -> the job that fine-tunes with that seed.

    models: the job whose model is fine-tuned, one for all seeds or one for each; None: the given model
    """
    tuned = {}
    for seed in range(seeds):
        seeded = replace(recipe, plan=replace(recipe.plan, seed=seed))
        model = models.get(seed) if isinstance(models, Mapping) else models
        tuned[seed] = fine_tuned(f"{label}, seed {seed}", seeded, model, materials)
    return tuned


def scored(tuned: Mapping[int, Job], task: Prepared, split: Split) -> dict[int, Job]:
    """Return seed -> the job whose result is scored: on dev the fine-tuning, on test its look at the test set."""
    return {seed: tested(job, task) if split == "test" else job for seed, job in tuned.items()}
