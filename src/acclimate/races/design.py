"""A study as a value: the cells of its table, the jobs that make each, and what is compared with what.

A study file (studies/) writes `design(recipe, inputs) -> Design` and nothing that another study needs too.
races/run.py runs the jobs and records the outcome (races/outcome.py), of which races/tables.py makes the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from acclimate.core.types import Split, Watch
from acclimate.data.examination import Examination
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.races.compare import Against, Key, Mean
from acclimate.races.contestants import Entries, fine_tuned, heldout_losses, tested
from acclimate.races.recipe import RaceRecipe
from acclimate.reports.table import DOMAIN_HEADING, DOMAIN_MEANING, HEADING, MEANING, UNTOUCHED, adaptations_note
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Metric
from acclimate.text.corpus import Corpus

if TYPE_CHECKING:
    from acclimate.races.outcome import Outcome
    from acclimate.races.planning.budget import Budget
    from acclimate.races.search import FineTuned


@dataclass(frozen=True, eq=False)
class Cell:
    """One number of a table, and the jobs that make it.

    row, column   what is scored (a contestant, a variant, a first task) and on which task
    jobs_by_seed  seed -> the job whose result is scored: the look at the test set, or on dev the fine-tuning
    costs         name of a stage, such as "adapting" -> seed -> its jobs; tables have the mean over the seeds
    materials     the task that is scored, and the model that all starts from
    model         its name in a study that is repeated for several models; "" elsewhere
    facts         column of the tables -> value
    encoder       False for a baseline without one
    probe         True for a probe of a frozen encoder: no seed changes it, so `jobs_by_seed` has a job for each
                  adaptation of the encoder, numbered from 0
    shown         False for what only stands as a reference of comparisons: the CSV has it, tables do not
    folds         of a score by cross-validation: a cell for each repeat and fold, with one job, whose seed is the
                  number of the repeat, and the fold's materials. The cell itself has no jobs then
    """

    row: str
    column: str
    jobs_by_seed: Mapping[int, Job]
    costs: Mapping[str, Mapping[int, Sequence[Job]]]
    materials: Materials
    model: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    encoder: bool = True
    probe: bool = False
    shown: bool = True
    folds: tuple[Cell, ...] = ()

    @property
    def key(self) -> Key:
        """The cell's place in the tables."""
        return self.model, self.row, self.column

    @property
    def jobs(self) -> list[Job]:
        """The jobs whose results are scored: of a cross-validation those of all folds."""
        return [job for part in self.folds or (self,) for job in part.jobs_by_seed.values()]

    @property
    def task(self) -> Prepared:
        """The task that is scored."""
        return self.materials.task


@dataclass(frozen=True, eq=False)
class Search:
    """Cells whose fine-tunings are known once dev has chosen their settings (races/search.py).

    row      of the table, where the untouched model is the only contestant; "": each contestant is a row
    entries  the contestants, and the recipe that says what is tried; facts: as of `Cell`
    costs    name of a stage before the search -> number of the adaptation -> its jobs
    rounds   True if the test set is opened after each round of a race (races/rounds.py), False if once all is trained
    budget   of all rounds; None if there is no limit
    """

    row: str
    column: str
    entries: Entries
    facts: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, Mapping[int, Sequence[Job]]] = field(default_factory=dict)
    rounds: bool = False
    budget: Budget | None = None

    @property
    def key(self) -> Key:
        """The cell's place in the tables."""
        return "", self.row, self.column


def group_searches(searches: Sequence[Search]) -> list[tuple[Search, ...]]:
    """Return the searches, together those of given models on one task that get the same setting (`search.common`)."""
    groups: dict[int | str, tuple[Search, ...]] = {}
    for number, search in enumerate(searches):
        common = search.row and search.entries.recipe.search.common
        place = search.column if common else number
        groups[place] = (*groups.get(place, ()), search)
    return [*groups.values()]


def entries_of(searches: Sequence[Search]) -> Entries:
    """Return the contestants of searches that are done together."""
    first, *others = [search.entries for search in searches]
    if not others:
        return first
    own_materials = {name: entries.materials for entries in (first, *others) for name in entries.models}
    models = {name: model for entries in (first, *others) for name, model in entries.models.items()}
    return replace(first, models=models, own_materials=own_materials)


@dataclass(frozen=True)
class HeldOutLosses:
    """Losses on held-out text.

    name, meaning  of the column, and a sentence that explains it
    unit           what the loss is a mean over: predicted sub-words ("loss"), or words ("a_word"), which models with
                   different vocabularies have in common (methods/mlm.py::HeldOutLoss)
    before         the row of the untouched model, and the job that measures its loss
    jobs_by_row    row -> the jobs that measure the losses of what it adapted, one for each seed
    """

    name: str
    meaning: str
    before: tuple[str, Job]
    jobs_by_row: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    unit: Literal["loss", "a_word"] = "loss"

    @property
    def jobs(self) -> list[Job]:
        """All jobs that measure a loss."""
        return [self.before[1], *(job for jobs in self.jobs_by_row.values() for job in jobs)]


def main_metric(metric: Metric) -> Sequence[Metric]:
    """Return the task's metric alone."""
    return (metric,)


def no_facts(cell: Cell, out: Path) -> Mapping[str, Any]:
    """Return nothing: of most cells no more is measured."""
    return {}


@dataclass(frozen=True, eq=False)
class Design:
    """A study.

    name, title, source   what its files are called by; the heading; the tables that it repeats, as a sentence
    cells, searches       in the order of the tables
    against               which comparisons are made, and which count together
    axes                  what rows and columns are, such as ("contestant", "task")
    split                 what is scored; the test set is opened once all is trained
    metrics               a task's metric -> all that are reported of the same predictions, that metric first
    means                 over tasks
    losses                on held-out text, beside the scores
    chosen_is_tested      of a study on dev: True if the row with the best mean on dev is tested in the end
    called                key of a model in the labels of jobs -> its name
    notes, absent         what was done to the data; dataset -> why it is left out
    race                  settings that the estimate of a dry run uses
    examination           what the doctor found in the task
    refitted              of cross-validation: row of the encoder to hand over -> the search that trains it on the usual
                          split, for its checkpoint; "": no encoder learnt anything
    measured              (cell, directory) -> more facts, once the cell has run
    study                 its name in STUDIES (studies/__init__.py); "": it is a race, or a user's study
    follows               True if it goes on in the directory of a study that has ended, whose plan stands
    completed             (outcome, what the searches fine-tuned, directory, watch) -> the outcome with what only this
                          study records, such as the facts of a race
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
    losses: tuple[HeldOutLosses, ...] = ()
    chosen_is_tested: bool = False
    called: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    race: RaceRecipe = field(default_factory=RaceRecipe)
    examination: Examination | None = None
    study: str = ""
    follows: bool = False
    refitted: Callable[[str], Search] | None = None
    measured: Callable[[Cell, Path], Mapping[str, Any]] = no_facts
    completed: Callable[[Outcome, Sequence[FineTuned], Path, Watch], Outcome] | None = None

    def named(self, text: str) -> str:
        """Return the text with the names of models in place of their keys."""
        for key, name in self.called.items():
            text = text.replace(key, name)
        return text


def fine_tunings(
    label: str,
    recipe: FinetuneRecipe,
    models: Job | Mapping[int, Job | None] | None,
    materials: Materials,
    *,
    seeds: int,
) -> dict[int, Job]:
    """Return seed -> the job that fine-tunes with that seed.

    models: the job whose model is fine-tuned, one for all seeds or one for each (races/contestants.py::starts); None:
    the given model
    """
    tuned = {}
    for seed in range(seeds):
        seeded = replace(recipe, plan=replace(recipe.plan, seed=seed))
        model = models.get(seed) if isinstance(models, Mapping) else models
        tuned[seed] = fine_tuned(f"{label}, seed {seed}", seeded, model, materials)
    return tuned


def heldout_columns(
    models: Mapping[str, Job | None],
    rows: Sequence[str],
    domain: Corpus | None,
    materials: Materials,
    *,
    adapt_seeds: int,
    max_tokens: int,
    ending: str = "",
) -> list[HeldOutLosses]:
    """Return the losses of the untouched model and of what is adapted, on held-out general text and on text of the
    domain; of either without such text nothing.

    models     row -> the job of its model, UNTOUCHED among them
    rows       those that are shown; one that is not in `models` has no loss
    domain     text of the domain that no model adapts on
    ending     what labels of jobs and headings end with, such as ", TASK"
    """
    texts = ((HEADING, materials.general_heldout, MEANING), (DOMAIN_HEADING, domain, DOMAIN_MEANING))
    columns = []
    for heading, text, meaning in texts:
        if text is None:
            continue
        jobs = {
            name: heldout_losses(
                f"{heading}, {name}{ending}", text, model, adapt_seeds, materials, max_tokens=max_tokens
            )
            for name, model in models.items()
        }
        [before] = jobs[UNTOUCHED]
        after: dict[str, Sequence[Job]] = {name: jobs[name] for name in rows if name in jobs}
        note = adaptations_note(adapt_seeds)
        columns.append(HeldOutLosses(f"{heading}{ending}", meaning + note, (UNTOUCHED, before), after))
    return columns


def scored(tuned: Mapping[int, Job], task: Prepared, split: Split) -> dict[int, Job]:
    """Return seed -> the job whose result is scored: on dev the fine-tuning, on test its look at the test set."""
    return {seed: tested(job, task) if split == "test" else job for seed, job in tuned.items()}
