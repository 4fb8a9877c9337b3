"""TAPTER's Table 2 (Nishida et al., 2021): does adapting help where fine-tuning has two stages, as SQuAD, then BioASQ?

The model as it is, with TAPT and with TAPTER, each on the task's training texts; each fine-tuned on the first stage's
task, then, encoder and head, on the task itself. The paper's test is the paired t test over seeds; ours counts test
items too (statistics/significance.py). Every metric that is reported of the task comes out of the same predictions.

Readings
  A model is adapted once, and fine-tuned with every seed, the same in both stages: the paper has "ten random seeds" and
  does not say of what. A first stage is trained once a model and seed.
  The paper compares TAPTER with TAPT. All pairs are compared here, and Holm's correction is over those of a metric; the
  task's own metric is what the study is about, the others stand beside it.
  Nothing is chosen on dev (`choose` is "last"), as Table 4 fixes the epochs.
Deviations
  Of BioASQ's task the paper's test set is its "development set"; here `split` says which split is scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from acclimate.core import ranks
from acclimate.core.types import Cost, Example, Split, Watch, unwatched
from acclimate.data.examination import Examination
from acclimate.data.inputs import Leaks, Raw, gather
from acclimate.data.materials import Materials, texts_of
from acclimate.jobs.job import Job, claim, missing, with_needs
from acclimate.jobs.run import do, done
from acclimate.methods import finetune, mlm, tapter
from acclimate.models.encoder import longest_input
from acclimate.race.contestants import Entries, enter, fine_tuned, tested
from acclimate.race.cost import Estimate, estimate_of_jobs, together
from acclimate.race.facts import adapting_jobs
from acclimate.race.race import dataset_of
from acclimate.race.recipe import RaceRecipe
from acclimate.race.search import dev_row, test_row
from acclimate.report.page import Section, page
from acclimate.studies.compare import Cell, Judged, judged, mean_cost, records
from acclimate.studies.write import (
    cost_columns,
    costs_section,
    judged_csv,
    pairs_section,
    scores_section,
    seeds_section,
    write_study,
)
from acclimate.tasks.labelled import Labelled, Own, fewer
from acclimate.tasks.metrics import reported_with
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.text.overlap.references import normalised
from acclimate.text.vectors.vectors import Skipgram
from acclimate.training.checkpoint import spent
from acclimate.training.plan import Plan

# -------------------- two stages page
# What TAPTER's study came to, as text, CSV and a page: scores as in its Table 2, differences, costs.


SOURCE = "The study: Nishida, Nishida and Yoshida (2021), Tables 2 and 3."


@dataclass(frozen=True)
class TwoStages:
    """trained, trained_first: training rows; first: the first stage's task, "" where there is none; first_costs: of a
    seed, by contestant; metric: the task's own; judged: by every metric that is reported of it.
    """

    task: str
    model: str
    metric: str
    split: Split
    trained: int
    first: str
    trained_first: int
    first_costs: Mapping[str, Cost]
    judged: tuple[Judged, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As tapter.txt has it, at most 110 columns wide."""
        return page(self.heading, self.sections())

    @property
    def heading(self) -> str:
        stages = f"{self.first}, then {self.task}" if self.first else self.task
        return f"{stages}: {self.model}"

    def sections(self) -> list[Section]:
        """The parts of text and page."""
        first = f" after {self.trained_first:,} of {self.first}" if self.first else ""
        trained = f"{self.trained:,} rows{first}"

        def costs(cell: Cell) -> dict[str, Cost]:
            return {
                "adapting": cell.adapting,
                "first stage": self.first_costs[cell.contestant],
                "tuning": cell.finetuning,
            }

        said = "Adapting once; first stage and tuning a seed, the mean over seeds."
        return [
            scores_section(self.judged, self.split, trained=trained, lines=self.notes),
            pairs_section(self.judged, self.metric, t_test="the paper's test, paired t over seeds"),
            seeds_section(self.judged),
            costs_section(self.judged[0].cells, costs, said),
        ]

    def csv(self) -> str:
        """A line for each metric and contestant; the differences are from every contestant before it, in columns of its
        name.
        """
        about = {"task": self.task, "first_task": self.first, "model": self.model, "split": self.split}

        def costs(cell: Cell) -> dict[str, object]:
            first = self.first_costs[cell.contestant]
            return cost_columns({"adapting": cell.adapting, "first": first, "finetuning": cell.finetuning})

        earlier = [cell.contestant for cell in self.judged[0].cells[:-1]]
        return judged_csv(self.judged, about, earlier, costs)


# -------------------- two stages recipe
# TAPTER's study as a value (studies/tapter.py runs it).


# Nishida et al., Table 5, and the tool's rate, going on too; buckets for the n-grams of a task's text, where there are
# no public vectors to go on from
BIOASQ_VECTORS = Skipgram(min_count=2, epochs=10, rate=0.05, buckets=200_000, lower=True, threads=1)


def _fine_tuning(epochs: float) -> finetune.FinetuneRecipe:
    """Nishida et al., Table 4, which chooses nothing on dev."""
    plan = Plan(batch=128, rate=5e-5, warmup=0.06, weight_decay=0.01)
    return finetune.FinetuneRecipe(choose="last", looks=1, epochs=epochs, plan=plan)


@dataclass(frozen=True)
class TapterStudyRecipe:
    """Table 2 of Nishida et al. (2021): the model as it is, with TAPT, with TAPTER, each fine-tuned in two stages.

    The defaults are those of Tables 4 and 5 for BioASQ, but that vectors start from nothing, with fewer buckets, and so
    are of unit spread: with public ones state tapter.skipgram.buckets. SQuAD alone, with `first`
    empty, has finetune.epochs=5, tapter.skipgram.min_count=5 and tapter.skipgram.epochs=5 there.
    """

    seeds: int = 10  # of fine-tuning, the same in both stages; at least 2
    contestants: tuple[Literal["TAPT", "TAPTER"], ...] = ("TAPT", "TAPTER")  # beside the model as it is
    first: str = ""  # what is fine-tuned on first: a dataset of --data, or a labelled file; "": one stage
    rows: int = 0  # so many of train, drawn; 0: all
    first_rows: int = 0  # likewise of the first stage
    rows_seed: int = 0  # of both draws
    split: Literal["dev", "test"] = "test"  # what is scored; with "test" each run is one look at the test set
    tapt: mlm.MlmRecipe = field(default_factory=lambda: mlm.MlmRecipe(max_tokens=512))  # of TAPT
    tapter: tapter.TapterRecipe = field(
        default_factory=lambda: tapter.TapterRecipe(max_tokens=512, skipgram=BIOASQ_VECTORS)
    )  # of TAPTER
    first_stage: finetune.FinetuneRecipe = field(default_factory=lambda: _fine_tuning(2.0))
    """Of the first stage of fine-tuning."""
    finetune: finetune.FinetuneRecipe = field(default_factory=lambda: _fine_tuning(10.0))
    """Of the task itself; on SQuAD alone the paper has 5 epochs."""

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 10")
        if not self.contestants or len(set(self.contestants)) < len(self.contestants):
            raise ValueError(f"contestants = {list(self.contestants)}: at least one of them, and each once")
        for name in ("rows", "first_rows"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least 0")
        for name in ("first_stage", "finetune"):
            if getattr(self, name).head == "kept":
                raise ValueError(
                    f"{name}.head = 'kept': the study itself keeps the head of the first stage, and no other. Leave it "
                    f"out"
                )


STUDY = "tapter"
RECIPE = TapterStudyRecipe
GLANCED = 64  # examples of the first stage's dev that are looked at where it chooses nothing


@dataclass(frozen=True)
class Given:
    """What the study runs on. first: the task of the first stage; None where there is one stage."""

    materials: Materials
    first: Prepared | None

    @property
    def examination(self) -> Examination | None:
        """What the doctor found in the task."""
        return self.materials.examination


def given(
    own: Own,
    raw: Raw,
    recipe: TapterStudyRecipe,
    out: Path,
    *,
    model: str | None,
    data: Path | None = None,
    leaks: Leaks = "keep",
    watch: Watch = unwatched,
) -> Given:
    """The task, as `launch.materials_of` reads it, and that of the first stage, in the directory `out`.

    raw: more text for the word vectors of TAPTER, whose loss is looked at on the texts of dev.

    Raises ValueError for whatever is wrong with them, and where the first stage's head cannot be kept.
    """
    if model is None:
        raise ValueError(f"the study '{STUDY}' needs a pretrained model: give --model, a directory or hub id")
    before = Own(train=Path(recipe.first), max_tokens=own.max_tokens) if recipe.first else None
    if before and data is None and not before.train.is_file():
        raise ValueError(f"first = {recipe.first!r}: there is no such file; to name a dataset give --data DIR")
    if data is not None and all(each.train.is_file() for each in (own, before) if each):
        raise ValueError(f"--data {data}: names the folder of a dataset, but files are given. Leave it out")
    target = fewer(dataset_of(own, data), recipe.rows, recipe.rows_seed)
    first = None
    if before:
        first = fewer(dataset_of(before, data), recipe.first_rows, recipe.rows_seed)
        _check_first(first, target)
        if recipe.first_stage.choose == "last":  # nothing hangs on its dev then
            first = replace(first, splits={**first.splits, "dev": first.splits["dev"][:GLANCED]})
    pairs = len(recipe.contestants) * (len(recipe.contestants) + 1) // 2
    counts: dict[str, Any] = {"seeds": recipe.seeds, "comparisons": pairs}
    materials = gather(out, target, raw, model=model, leaks=leaks, **counts, watch=watch)
    task = materials.task
    heldout = texts_of(task, "dev", out / "corpora", watch)
    notes = [*materials.notes, *(f"First stage: {note}" for note in ((*first.cautions, *first.notes) if first else ()))]
    materials = replace(materials, heldout=heldout, notes=tuple(notes))
    if first is None:
        return Given(materials, None)
    longest = longest_input(materials.model or "")
    if longest is not None and first.max_tokens > longest:
        raise ValueError(
            f"first = {recipe.first!r}: examples of up to {first.max_tokens} tokens, but the model reads at most "
            f"{longest}. Set --max-tokens {longest}"
        )
    before_task, source = first.task(), first.files[0].path
    return Given(materials, ranks.first_then_all(lambda: prepare(before_task, source, out / "first" / "data")))


def run_two_stages(recipe: TapterStudyRecipe, materials: Given, run: Path, *, watch: Watch = unwatched) -> TwoStages:
    """Do what is missing of the study in the directory `run`, and write tapter.txt, .csv, .html and .scores.json."""
    claim(run)
    entries, arms = _arms(recipe, materials)
    task = materials.materials.task
    do((arm.tuned for arm in arms), run, watch=watch)
    if recipe.split == "test":  # opened once all is trained
        do((tested(arm.tuned, task) for arm in arms), run, watch=watch)
    gold = [example.label for example in task.examples("dev")]
    scores = []
    for arm in arms:
        result = done(arm.tuned, run)
        adapting = sum((spent(job.directory(run)) for job in adapting_jobs(arm.name, entries)), Cost())
        taken = spent(arm.tuned.directory(run))
        if recipe.split == "test":
            seen = done(tested(arm.tuned, task), run, watch=watch) | {"dev": result["dev"]}
            scores.append(test_row(arm.name, arm.seed, seen, task, adapting=adapting, finetuning=taken))
        else:
            row = dev_row(arm.name, arm.seed, result, gold, task)
            scores.append(replace(row, adapting=adapting, finetuning=taken))
    first = materials.first
    found = TwoStages(
        task=task.name,
        model=Path(materials.materials.model or "").name,
        metric=task.metric.name,
        split=recipe.split,
        trained=task.sizes["train"],
        first=first.name if first else "",
        trained_first=first.sizes["train"] if first else 0,
        first_costs={
            name: mean_cost(spent(arm.first.directory(run)) for arm in arms if arm.name == name and arm.first)
            for name in entries.models
        },
        judged=tuple(judged(scores, metric) for metric in reported_with(task.metric)),
        notes=materials.materials.notes,
    )
    write_study(
        run,
        STUDY,
        title="Two stages",
        heading=found.heading,
        sections=found.sections(),
        sheet=found.csv(),
        records=records(scores, recipe.split),
        source=SOURCE,
    )
    return found


def foreseen(recipe: TapterStudyRecipe, materials: Given, run: Path) -> Estimate:
    """What the study would still do in `run`, and what that takes. Tries a few steps; writes nothing there."""
    _, arms = _arms(recipe, materials)
    task = materials.materials.task
    jobs = [arm.tuned if recipe.split == "dev" else tested(arm.tuned, task) for arm in arms]
    waiting, everything = missing(jobs, run), with_needs(jobs)
    firsts = {arm.first.name for arm in arms if arm.first}
    race, parts = _race(recipe), []
    for own, of in ((materials.materials, False), (_on_first(materials), True)):
        asked = [(job, 1.0) for job in waiting if (job.name in firsts) == of]
        done = sum((job.name in firsts) == of for job in everything) - len(asked)
        if asked or not of:
            parts.append(estimate_of_jobs(asked, race, own, done=done))
    return together(parts)


@dataclass(frozen=True)
class _Arm:
    """A model fine-tuned with a seed; first: its first stage."""

    name: str
    seed: int
    first: Job | None
    tuned: Job


def _arms(recipe: TapterStudyRecipe, given: Given) -> tuple[Entries, list[_Arm]]:
    entries = enter(_race(recipe), given.materials)
    arms = []
    for seed in range(recipe.seeds):
        for name, model in entries.models.items():
            first, stated = None, _seeded(recipe.finetune, seed)
            if given.first is not None:
                label = f"fine-tune {name} on {given.first.name}, seed {seed}"
                first = fine_tuned(label, _seeded(recipe.first_stage, seed), model, _on_first(given))
                stated = replace(stated, head="kept")
            label = f"fine-tune {name}, seed {seed}"
            arms.append(_Arm(name, seed, first, fine_tuned(label, stated, first or model, given.materials)))
    return entries, arms


def _race(recipe: TapterStudyRecipe) -> RaceRecipe:
    # dapt: a race reads held-out text at its length, which here nobody does
    adapting: dict[str, Any] = {"tapt": recipe.tapt, "tapter": recipe.tapter, "dapt": recipe.tapt}
    return RaceRecipe(seeds=recipe.seeds, contestants=recipe.contestants, finetune=recipe.finetune, **adapting)


def _on_first(given: Given) -> Materials:
    return replace(given.materials, task=given.first) if given.first else given.materials


def _seeded(stated: finetune.FinetuneRecipe, seed: int) -> finetune.FinetuneRecipe:
    return replace(stated, plan=replace(stated.plan, seed=seed))


def _check_first(first: Labelled, target: Labelled) -> None:
    """Raises ValueError where the head of the first stage is none for the task, or where it trains on test items."""
    if (first.kind, first.labels) != (target.kind, target.labels):
        raise ValueError(
            f"first: {first.name} is of kind '{first.kind}' with {len(first.labels)} labels, but {target.name} of kind "
            f"'{target.kind}' with {len(target.labels)}; its head can only be kept where both are the same. Leave "
            f"'first' out"
        )
    rows = [row for split in ("dev", "test") for row in target.splits[split]]
    sealed = {_content(row) for row in rows}
    # a question that is scored with all of its contexts (tasks/formats/squad.py::by_question) has its id as the group;
    # in train they stand one by one, and with any other it is the same question
    merged = [row for row in rows if target.kind == "span" and row.id == row.group]
    asked = {normalised(row.pair or "") for row in merged} - {""}
    if seen := [row for row in first.splits["train"] if _content(row) in sealed or _content(row)[1] in asked]:
        raise ValueError(
            f"first: {len(seen):,} training rows of {first.name} stand in dev or test of {target.name}, such as "
            f"{seen[0].id!r}. Take them out of one of them"
        )


def _content(row: Example) -> tuple[str, str]:
    return normalised(row.text), normalised(row.pair or "")
