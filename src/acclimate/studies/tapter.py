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

from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from acclimate.core import ranks
from acclimate.core.types import Example
from acclimate.data.inputs import gather
from acclimate.data.materials import Materials, texts_of
from acclimate.jobs.job import Job
from acclimate.methods import finetune, mlm, tapter
from acclimate.models.encoder import longest_input
from acclimate.races.contestants import enter, fine_tuned
from acclimate.races.design import Against, Cell, Design, Inputs, scored
from acclimate.races.facts import adapting_jobs
from acclimate.races.race import dataset_of
from acclimate.races.recipe import RaceRecipe
from acclimate.tasks.labelled import Labelled, LabelledFiles, fewer
from acclimate.tasks.metrics import reported_with
from acclimate.tasks.prepared import prepare
from acclimate.text.overlap.references import normalised
from acclimate.text.vectors.vectors import Skipgram
from acclimate.training.plan import Plan

GLANCED = 64  # examples of the first stage's dev that are looked at where it chooses nothing


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

    seeds: int = 10  # fine-tunings of each model, each with another seed, the same in both stages; at least 2
    contestants: tuple[Literal["TAPT", "TAPTER"], ...] = ("TAPT", "TAPTER")
    """Ways of adapting that are compared with the model as it is."""
    first: str = ""  # what models are fine-tuned on first: a dataset of --data, or a labelled file; "": one stage only
    rows: int = 0  # number of training rows to sample; 0: all rows
    first_rows: int = 0  # number of training rows to sample for the first stage; 0: all rows
    rows_seed: int = 0  # seed of both samples
    split: Literal["dev", "test"] = "test"  # what is scored; with "test" each run is one look at the test set
    tapt: mlm.MlmRecipe = field(default_factory=lambda: mlm.MlmRecipe(max_tokens=512))  # settings of TAPT
    tapter: tapter.TapterRecipe = field(
        default_factory=lambda: tapter.TapterRecipe(max_tokens=512, skipgram=BIOASQ_VECTORS)
    )  # settings of TAPTER
    first_stage: finetune.FinetuneRecipe = field(default_factory=lambda: _fine_tuning(2.0))
    """Settings of the first stage of fine-tuning."""
    finetune: finetune.FinetuneRecipe = field(default_factory=lambda: _fine_tuning(10.0))
    """Settings of fine-tuning on the task itself; on SQuAD alone the paper has 5 epochs."""

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


RECIPE = TapterStudyRecipe


def design(recipe: TapterStudyRecipe, inputs: Inputs) -> Design:
    """Raises ValueError for whatever is wrong with model and files, and where the first stage's head cannot be kept."""
    materials, first = _materials(recipe, inputs)
    # dapt: a race reads held-out text at its length, which this study does not
    adapting: dict[str, Any] = {"tapt": recipe.tapt, "tapter": recipe.tapter, "dapt": recipe.tapt}
    race = RaceRecipe(seeds=recipe.seeds, contestants=recipe.contestants, finetune=recipe.finetune, **adapting)
    entries = enter(race, materials)

    cells = []
    for name, model in entries.models.items():
        firsts: dict[int, Job] = {}
        tuned: dict[int, Job] = {}
        for seed in range(recipe.seeds):
            stated = replace(recipe.finetune, plan=replace(recipe.finetune.plan, seed=seed))
            if first is not None:
                before = replace(recipe.first_stage, plan=replace(recipe.first_stage.plan, seed=seed))
                label = f"fine-tune {name} on {first.task.name}, seed {seed}"
                firsts[seed] = fine_tuned(label, before, model, first)
                stated = replace(stated, head="kept")
            tuned[seed] = fine_tuned(f"fine-tune {name}, seed {seed}", stated, firsts.get(seed, model), materials)
        costs = {
            "adapting": dict.fromkeys(range(recipe.seeds), adapting_jobs(name, entries)),
            **({"first stage": {seed: [job] for seed, job in firsts.items()}} if firsts else {}),
            "tuning": {seed: [job] for seed, job in tuned.items()},
        }
        cells.append(Cell(name, materials.task.name, scored(tuned, materials.task, recipe.split), costs, materials))

    stages = f"{first.task.name}, then {materials.task.name}" if first else materials.task.name
    trained = f" after {first.task.sizes['train']:,} of {first.task.name}" if first else ""
    return Design(
        name="tapter",
        title=f"{stages}: {Path(materials.model or '').name}",
        source="The study: Nishida, Nishida and Yoshida (2021), Tables 2 and 3.",
        cells=tuple(cells),
        against=tuple(
            Against(later.key, (earlier.key,), earlier.row, "all pairs of contestants, by one metric")
            for earlier, later in combinations(cells, 2)
        ),
        split=recipe.split,
        metrics=reported_with,
        notes=(f"Trained on {materials.task.sizes['train']:,} rows{trained}.", *materials.notes),
        race=race,
        examination=materials.examination,
    )


def _materials(recipe: TapterStudyRecipe, inputs: Inputs) -> tuple[Materials, Materials | None]:
    """The task, and the same with that of the first stage in its place; None where there is one stage.

    TAPTER's loss is watched on the texts of dev; its word vectors may have more raw text.
    """
    own = inputs.task
    assert own is not None
    if inputs.model is None:
        raise ValueError("the study 'tapter' needs a pretrained model: give --model, a directory or hub id")
    before = LabelledFiles(train=Path(recipe.first), max_tokens=own.max_tokens) if recipe.first else None
    if before and inputs.data is None and not before.train.is_file():
        raise ValueError(f"first = {recipe.first!r}: there is no such file; to name a dataset give --data DIR")
    if inputs.data is not None and all(each.train.is_file() for each in (own, before) if each):
        raise ValueError(f"--data {inputs.data}: names the folder of a dataset, but files are given. Leave it out")
    target = fewer(dataset_of(own, inputs.data), recipe.rows, recipe.rows_seed)
    first = None
    if before:
        first = fewer(dataset_of(before, inputs.data), recipe.first_rows, recipe.rows_seed)
        _check_first(first, target)
        if recipe.first_stage.choose == "last":  # nothing hangs on its dev then
            first = replace(first, splits={**first.splits, "dev": first.splits["dev"][:GLANCED]})
    pairs = len(recipe.contestants) * (len(recipe.contestants) + 1) // 2
    counts: dict[str, Any] = {"seeds": recipe.seeds, "comparisons": pairs}
    out, watch = inputs.out, inputs.watch
    materials = gather(out, target, inputs.raw, model=inputs.model, leaks=inputs.leaks, **counts, watch=watch)
    heldout = texts_of(materials.task, "dev", out / "corpora", watch)
    notes = [*materials.notes, *(f"First stage: {note}" for note in ((*first.cautions, *first.notes) if first else ()))]
    materials = replace(materials, heldout=heldout, notes=tuple(notes))
    if first is None:
        return materials, None
    longest = longest_input(materials.model or "")
    if longest is not None and first.max_tokens > longest:
        raise ValueError(
            f"first = {recipe.first!r}: examples of up to {first.max_tokens} tokens, but the model reads at most "
            f"{longest}. Set --max-tokens {longest}"
        )
    task, source = first.task(), first.files[0].path
    prepared = ranks.first_then_all(lambda: prepare(task, source, out / "first" / "data"))
    return materials, replace(materials, task=prepared)


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
