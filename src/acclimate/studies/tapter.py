"""TAPTER's Table 2 (Nishida et al., 2021): does adapting help where fine-tuning has two stages, as SQuAD, then BioASQ?

The study compares the untouched model, TAPT and TAPTER, both adapted on the task's training texts. Each model is
fine-tuned on the first stage's task, and then its encoder and head are fine-tuned on the task itself. The paper's test
is the paired t test over seeds; ours counts test items too (statistics/significance.py). All metrics of the task are
computed from the same predictions.

Readings
  A model is adapted once, or `adapt_seeds` times, and fine-tuned with every seed, the same seed in both stages: the
  paper has "ten random seeds" and does not say what they seed. A first stage is trained once for each model and seed.
  The paper compares TAPTER with TAPT. Here all pairs are compared, and Holm's correction counts the pairs of one metric
  together. The study is about the task's metric; the others stand beside it.
  Nothing is chosen on dev (`choose` is "last"), as Table 4 fixes the epochs.
  Losses on held-out text stand beside the scores; the paper has none. Of the domain it is raw text of --corpus that is
  held out, or else texts of dev that are not in train; of general text, what is held out of --general.
Deviations
  The paper scores BioASQ on what it calls the "development set"; here `split` says which split is scored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from acclimate.core import ranks
from acclimate.core.settings import Count, Positive, check_no_more, check_ranges
from acclimate.core.types import Example, Watch
from acclimate.data.gather import Inputs, gather, read_dataset
from acclimate.data.materials import Materials, built_corpus, corpus_of_split
from acclimate.jobs.job import Job
from acclimate.methods.recipes import finetune, mlm, tapter
from acclimate.models.configuration import longest_input
from acclimate.races.compare import Against
from acclimate.races.contestants import enter, starts
from acclimate.races.design import Cell, Design, fine_tunings, heldout_columns, scored
from acclimate.races.facts import adapting_jobs
from acclimate.races.recipe import RaceRecipe, Seeds, check_each_once
from acclimate.reading.labelled import Labelled, fewer
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reports.page import amount
from acclimate.reports.table import UNTOUCHED
from acclimate.studies.inputs import check_all_rows, prepared_file, with_dev_rows
from acclimate.tasks.metrics import reported_with
from acclimate.text.corpus import Corpus
from acclimate.text.overlap.words import normalised_words
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.training.plan import Plan

GLANCED = 64  # dev examples of the first stage that are scored where its dev set chooses nothing
# Nishida et al., Table 5, and fastText's rate; as many buckets as a task's text needs where vectors start from nothing
BIOASQ_VECTORS = Skipgram(min_count=2, epochs=10, rate=0.05, buckets=200_000, lower=True, threads=1)


def _fine_tuning(epochs: float) -> finetune.FinetuneRecipe:
    """Return the settings of Nishida et al., Table 4, with which nothing is chosen on dev."""
    plan = Plan(batch=128, rate=5e-5, warmup=0.06, weight_decay=0.01)
    return replace(finetune.PAPERS, choose="last", looks=1, epochs=epochs, plan=plan)


@dataclass(frozen=True)
class TapterStudyRecipe:
    """Table 2 of Nishida et al. (2021): the untouched model, TAPT and TAPTER, each fine-tuned in two stages.

    The defaults are those of Tables 4 and 5 for BioASQ, except that word vectors start from random values, have fewer
    buckets, and are scaled to unit spread. To go on from public vectors, state tapter.skipgram.buckets. For SQuAD alone
    leave `first` empty and set finetune.epochs=5, tapter.skipgram.min_count=5 and tapter.skipgram.epochs=5.
    """

    seeds: Seeds = 10  # fine-tunings of each model, each with another seed, the same in both stages; at least 2
    contestants: tuple[Literal["TAPT", "TAPTER", "TAPTER permuted"], ...] = ("TAPT", "TAPTER")
    """Ways of adapting that are compared with the untouched model. "TAPTER permuted" is a control: vectors in random
    order among pieces."""
    adapt_seeds: Positive = 1
    """Adaptations of each contestant, each with another seed, at most as many as `seeds`. Fine-tuning seed k starts
    from adaptation k mod adapt_seeds. With 1, verdicts apply only to this one adaptation."""
    first: str = ""  # data of the first fine-tuning: a dataset of --data, or a labelled file; "": only one stage
    rows: Count = 0  # number of training rows to sample; 0: all rows
    first_rows: Count = 0  # number of training rows to sample for the first stage; 0: all rows
    rows_seed: Count = 0  # seed of both samples
    all_rows: bool = False
    """Train on dev too, if it was drawn from train; needs finetune.choose=last. The paper has no dev set."""
    split: Literal["dev", "test"] = "test"  # what is scored; with "test" each run is one look at the test set
    tapt: mlm.MlmRecipe = field(
        default_factory=lambda: mlm.MlmRecipe(max_tokens=512, plan=replace(mlm.MlmRecipe().plan, clip=0.0))
    )
    """Settings of TAPT. Gradients are not clipped, neither here nor for TAPTER, because clipping would slow the
    embeddings of one of them."""
    tapter: tapter.TapterRecipe = field(
        default_factory=lambda: tapter.TapterRecipe(max_tokens=512, skipgram=BIOASQ_VECTORS)
    )  # settings of TAPTER
    first_stage: finetune.FinetuneRecipe = field(default_factory=lambda: _fine_tuning(2.0))
    """Settings of the first stage of fine-tuning."""
    finetune: finetune.FinetuneRecipe = field(default_factory=lambda: _fine_tuning(10.0))
    """Settings of fine-tuning on the task itself; for SQuAD only, the paper uses 5 epochs."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_no_more(self, "adapt_seeds", than="seeds")
        check_each_once("contestants", self.contestants)
        check_all_rows(all_rows=self.all_rows, finetune=self.finetune, first_stage=self.first_stage)
        for name in ("first_stage", "finetune"):
            if getattr(self, name).head == "kept":
                raise ValueError(
                    f"{name}.head = 'kept': the study keeps the head of the first stage automatically. Remove "
                    "the setting"
                )


RECIPE = TapterStudyRecipe


def design(recipe: TapterStudyRecipe, inputs: Inputs) -> Design:
    """Return the study. Raises ValueError for a faulty model or file, or if the first stage's head cannot be kept."""
    materials, first, domain = _materials(recipe, inputs)
    # dapt: a race reads held-out text at its length, TAPT's here
    adapting: dict[str, Any] = {"tapt": recipe.tapt, "tapter": recipe.tapter, "dapt": recipe.tapt}
    adapting |= {"contestants": recipe.contestants, "finetune": recipe.finetune}
    race = RaceRecipe(seeds=recipe.seeds, adapt_seeds=recipe.adapt_seeds, **adapting)
    entries = enter(race, materials)

    cells = []
    for name, model in entries.models.items():
        models = starts(model, seeds=recipe.seeds, adapt_seeds=recipe.adapt_seeds)
        firsts: dict[int, Job] = {}
        tuning = recipe.finetune
        if first is not None:
            label = f"fine-tune {name} on {first.task.name}"
            firsts = fine_tunings(label, recipe.first_stage, models, first, seeds=recipe.seeds)
            tuning = replace(tuning, head="kept")
        tuned = fine_tunings(f"fine-tune {name}", tuning, firsts or models, materials, seeds=recipe.seeds)
        costs = {
            "adapting": {seed: adapting_jobs(name, entries, seed=seed) for seed in range(recipe.seeds)},
            **({"first stage": {seed: [job] for seed, job in firsts.items()}} if firsts else {}),
            "tuning": {seed: [job] for seed, job in tuned.items()},
        }
        cells.append(Cell(name, materials.task.name, scored(tuned, materials.task, recipe.split), costs, materials))

    stages = f"{first.task.name}, then {materials.task.name}" if first else materials.task.name
    trained = f" after {first.task.sizes['train']:,} of {first.task.name}" if first else ""
    pairs, family = combinations(cells, 2), "all pairs of contestants, by one metric"
    adapted = [cell.row for cell in cells if cell.row != UNTOUCHED]
    return Design(
        name="tapter",
        title=f"{stages}: {Path(materials.model or '').name}",
        source="The study: Nishida, Nishida and Yoshida (2021), Tables 2 and 3.",
        cells=tuple(cells),
        against=tuple(Against(later.key, (earlier.key,), earlier.row, family) for earlier, later in pairs),
        split=recipe.split,
        metrics=reported_with,
        losses=tuple(
            heldout_columns(
                entries.models,
                adapted,
                domain,
                materials,
                adapt_seeds=recipe.adapt_seeds,
                max_tokens=recipe.tapt.max_tokens,
            )
        ),
        notes=(f"Trained on {materials.task.sizes['train']:,} rows{trained}.", *materials.notes),
        race=race,
        examination=materials.examination,
    )


def _materials(recipe: TapterStudyRecipe, inputs: Inputs) -> tuple[Materials, Materials | None, Corpus | None]:
    """Return the materials of the task, of the first stage (None where there is one stage), and text of the domain to
    measure losses on: of --corpus what no model adapts on, else the texts of dev that are not in train, if any.

    The losses of TAPTER are measured on the texts of dev; its word vectors may learn from --corpus too.
    """
    labelled = inputs.task
    assert labelled is not None
    if inputs.model is None:
        raise ValueError("the study 'tapter' needs a pretrained model. Add --model with a directory or hub id")
    before = LabelledFiles(train=Path(recipe.first), max_tokens=labelled.max_tokens) if recipe.first else None
    if before and inputs.data is None and not before.train.is_file():
        raise ValueError(f"first = {recipe.first!r}: there is no such file; to name a dataset give --data DIR")
    if inputs.data is not None and all(source.train.is_file() for source in (labelled, before) if source):
        raise ValueError(f"--data {inputs.data}: names the folder of a dataset, but files are given. Remove it")
    target = read_dataset(labelled, inputs.data)
    target = fewer(target, recipe.rows, recipe.rows_seed)
    first = None
    if before:
        first = read_dataset(before, inputs.data)
        first = fewer(first, recipe.first_rows, recipe.rows_seed)
        first = with_dev_rows(first) if recipe.all_rows else first
        _check_first(first, target)
        if recipe.first_stage.choose == "last":  # then its dev set decides nothing
            first = replace(first, splits={**first.splits, "dev": first.splits["dev"][:GLANCED]})
    pairs = len(recipe.contestants) * (len(recipe.contestants) + 1) // 2
    out, watch = inputs.out, inputs.watch
    training = with_dev_rows(target) if recipe.all_rows else target
    materials = gather(inputs, target, seeds=recipe.seeds, comparisons=pairs, training=training)
    heldout = corpus_of_split(materials.task, "dev", out / "corpora", watch)
    domain = materials.heldout
    notes = [*materials.notes]
    if domain is None:
        domain = _unseen(heldout, materials, out / "corpora", watch)
        measured = amount(len(domain), "text") if domain else ""
        notes.append(
            f"No text of --corpus is held out, so the domain loss is measured on {measured} of dev that train lacks."
            if measured
            else "There is no domain loss: no text of --corpus is held out, and all texts of dev are in train too."
        )
    notes += (f"First stage: {note}" for note in ((*first.cautions, *first.notes) if first else ()))
    materials = replace(materials, heldout=heldout, notes=tuple(notes))
    if first is None:
        return materials, None, domain
    longest = longest_input(materials.model or "")
    if longest is not None and first.max_tokens > longest:
        raise ValueError(
            f"first = {recipe.first!r}: examples of up to {first.max_tokens} tokens, but the model reads at most "
            f"{longest}. Set --max-tokens {longest}"
        )
    return materials, replace(materials, task=prepared_file(first, out / "first" / "data")), domain


def _unseen(heldout: Corpus, materials: Materials, place: Path, watch: Watch) -> Corpus | None:
    """Return the documents that are not among the training texts, on which TAPT and TAPTER adapt; None: there is none.

    heldout: the texts of dev
    """
    assert materials.task_text is not None
    trained = {normalised_words(document.text) for document in materials.task_text.documents()}
    unseen = [document for document in heldout.documents() if normalised_words(document.text) not in trained]
    path = place / f"unseen-{materials.task_text.hash[:12]}-{heldout.hash[:12]}"
    return ranks.first_then_all(lambda: built_corpus(path, unseen, watch)) if unseen else None


def _check_first(first: Labelled, target: Labelled) -> None:
    """Raises ValueError where the head of the first stage does not fit the task, or where it trains on test items."""
    if (first.kind, first.labels) != (target.kind, target.labels):
        raise ValueError(
            f"first: {first.name} is of kind '{first.kind}' with {len(first.labels)} labels, but {target.name} of "
            f"kind '{target.kind}' with {len(target.labels)}. The head can be kept only if both are the same. "
            "Remove 'first'"
        )
    rows = [row for split in ("dev", "test") for row in target.splits[split]]
    sealed = {_content(row) for row in rows}
    # a question that is scored with all of its contexts (reading/formats/squad.py::join_questions) has its id as group;
    # in train they are separate rows, and with any other context it is the same question
    merged = [row for row in rows if target.kind == "span" and row.id == row.group]
    questions = {normalised_words(row.pair or "") for row in merged} - {""}
    if duplicates := [row for row in first.splits["train"] if _content(row) in sealed or _content(row)[1] in questions]:
        raise ValueError(
            f"first: {len(duplicates):,} training rows of {first.name} are also in dev or test of {target.name}, "
            f"such as {duplicates[0].id!r}. Remove them from one of the two"
        )


def _content(row: Example) -> tuple[str, str]:
    return normalised_words(row.text), normalised_words(row.pair or "")
