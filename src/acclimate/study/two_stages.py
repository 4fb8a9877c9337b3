"""TAPTER's Table 2 (Nishida et al., 2021): does adapting help where fine-tuning has two stages, as SQuAD, then BioASQ?

The model as it is, with TAPT and with TAPTER, each on the task's training texts; each fine-tuned on the first stage's
task, then, encoder and head, on the task itself. The paper's test is the paired t test over seeds; ours counts test
items too (study/significance.py). Every metric that is reported of the task comes out of the same predictions.

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

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acclimate.core import ranks
from acclimate.core.types import Cost, Example, Watch, unwatched
from acclimate.methods import finetune
from acclimate.models.encoder import longest_input
from acclimate.study.cost import Estimate, estimate_of_jobs, together
from acclimate.study.entries import Entries, enter, fine_tuned, tested
from acclimate.study.examination import Examination
from acclimate.study.facts import adapting_jobs
from acclimate.study.gathering import Leaks, Raw, gather
from acclimate.study.grid_page import records
from acclimate.study.jobs import Job, claim, do, missing, with_needs
from acclimate.study.judged_page import write_study
from acclimate.study.judging import judged, mean_cost
from acclimate.study.launch import dataset_of
from acclimate.study.materials import Materials, texts_of
from acclimate.study.recipe import Recipe as Race
from acclimate.study.running import do_each
from acclimate.study.searching import dev_row, test_row
from acclimate.study.two_stages_page import SOURCE, TwoStages
from acclimate.study.two_stages_recipe import Recipe
from acclimate.tasks.labelled import Labelled, Own, fewer
from acclimate.tasks.metrics import reported_with
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.text.overlap import normalised
from acclimate.training.checkpoint import spent

STUDY = "tapter"
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
    recipe: Recipe,
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


def run_two_stages(recipe: Recipe, materials: Given, run: Path, *, watch: Watch = unwatched) -> TwoStages:
    """Do what is missing of the study in the directory `run`, and write tapter.txt, .csv, .html and .scores.json."""
    claim(run)
    entries, arms = _arms(recipe, materials)
    task = materials.materials.task
    do_each((arm.tuned for arm in arms), run, watch=watch)
    if recipe.split == "test":  # opened once all is trained
        do_each((tested(arm.tuned, task) for arm in arms), run, watch=watch)
    gold = [example.label for example in task.examples("dev")]
    scores = []
    for arm in arms:
        result = do(arm.tuned, run)
        adapting = sum((spent(job.directory(run)) for job in adapting_jobs(arm.name, entries)), Cost())
        taken = spent(arm.tuned.directory(run))
        if recipe.split == "test":
            seen = do(tested(arm.tuned, task), run, watch=watch) | {"dev": result["dev"]}
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


def foreseen(recipe: Recipe, materials: Given, run: Path) -> Estimate:
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


def _arms(recipe: Recipe, given: Given) -> tuple[Entries, list[_Arm]]:
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


def _race(recipe: Recipe) -> Race:
    # dapt: a race reads held-out text at its length, which here nobody does
    adapting: dict[str, Any] = {"tapt": recipe.tapt, "tapter": recipe.tapter, "dapt": recipe.tapt}
    return Race(seeds=recipe.seeds, contestants=recipe.contestants, finetune=recipe.finetune, **adapting)


def _on_first(given: Given) -> Materials:
    return replace(given.materials, task=given.first) if given.first else given.materials


def _seeded(stated: finetune.Recipe, seed: int) -> finetune.Recipe:
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
