"""The studies of model choices in BLURB's paper (Gu et al., 2021): one choice varied, all else and the seeds the same.

    layers     what stands between the encoder and the output: a linear layer or a BiLSTM (Table 10)
    schemes    how entities are tagged in training: BIO, BIOUL or IO (Table 11)
    relations  how a text shows its two mentions, and which states the classifier reads (Table 12)

They run on datasets of a catalogue, or all but the last on a user's own task. The first variant, the paper's standard,
is what the others are compared with, on dev unless told otherwise. What two variants or studies in one directory share
is done once, such as the linear layer on BIO tags.

Readings
  All variants have one setting (rate, batch, epochs): the paper does not say that each had a search of its own. A score
  on dev is that of the best of several looks at dev, so a little high, for all variants alike.
  In IO, entities of one type that touch become one and are scored so, against the given tags.
  Whether the tokenizer kept dummies and markers whole is not stated: it does with `special`, for all variants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks
from acclimate.core.types import Cost, Score, Watch, unwatched
from acclimate.methods import finetune
from acclimate.methods.fitting import fitting
from acclimate.study import benchmark
from acclimate.study.benchmark import Asked, Contestant, called, contestants_of, naming, telling
from acclimate.study.benchmark_recipe import Recipe as Benchmark
from acclimate.study.choices_page import Choices, Compared, choices_csv, choices_text
from acclimate.study.choices_recipe import STUDIES, Recipe, Variant
from acclimate.study.entries import fine_tuned, tested
from acclimate.study.grid_page import records
from acclimate.study.jobs import Job, claim, do
from acclimate.study.materials import Materials
from acclimate.study.running import Part, attempts
from acclimate.study.searching import dev_row, test_row
from acclimate.study.tables import rows
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import Dataset, Form
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.tags import scheme_of
from acclimate.training.checkpoint import spent
from acclimate.training.gradients import NotFiniteError

TOLD = ("tag_layer", "sequence_layer", "tag_scheme", "pooling")  # in the names of jobs, where they are not the default


class AlikeError(ValueError):
    """The variants of a study do not differ on a task."""


@dataclass(frozen=True)
class Arm:
    """A variant on a task. form: of the text, in the names of jobs; "" where there is one only."""

    name: str
    task: Prepared
    recipe: finetune.Recipe
    form: str = ""

    def tuned(self, own: Contestant, materials: Materials, seed: int) -> Job:
        default = finetune.Recipe()
        told = [f"{name} {getattr(self.recipe, name)}" for name in TOLD]
        told = [words for words, name in zip(told, TOLD, strict=True) if words != f"{name} {getattr(default, name)}"]
        label = ", ".join(filter(None, [f"fine-tune {own.key}".strip(), self.form, *told, f"seed {seed}"]))
        stated = replace(self.recipe, plan=replace(self.recipe.plan, seed=seed))
        return fine_tuned(label, stated, None, replace(materials, task=self.task))


def run_on_catalogue(
    study: str,
    recipe: Recipe,
    models: Sequence[str],
    data: Path,
    out: Path,
    *,
    datasets: Sequence[Dataset] = blurb.DATASETS,
    watch: Watch = unwatched,
) -> Choices:
    """Do what is missing of the study in `out`; STUDY.txt, STUDY.csv and STUDY.scores.json are written there anew after
    each dataset.

    data: the folder of the catalogue. Raises ValueError as `benchmark.run_benchmark` does, and for a dataset on which
    the variants do not differ.
    """
    asked = select(study, recipe, models, data, datasets)
    found: list[Compared] = []
    scores: list[dict[str, Any]] = []
    prepared: list[tuple[Dataset, list[Arm]]] = []
    absent = dict(asked.absent)
    for dataset, _ in asked.forms:  # all before anything is trained
        claim(out / dataset.folder, called(asked.contestants))
        try:
            prepared.append((dataset, arms_of(recipe.chosen(study), recipe, dataset, data, out / dataset.folder)))
        except AlikeError as error:
            if recipe.datasets:
                raise
            absent[dataset.name] = str(error)
    for dataset, arms in prepared:
        run = out / dataset.folder
        for own in asked.contestants:
            told = telling(watch, dataset, own)
            given = Materials(task=arms[0].task, model=own.where)
            done, compared = _compared(arms, recipe, own, given, run=run, name=dataset.name, watch=told)
            found.append(compared)
            scores += records(done, recipe.split, model=own.name)
        result = Choices(study, STUDIES[study].table, recipe.split, tuple(found), absent)
        _write(out, result, scores)
    if not found:
        raise ValueError(f"the study '{study}' has nothing to compare: {' '.join(absent.values())}")
    return result


def run_on_task(study: str, recipe: Recipe, materials: Materials, run: Path, *, watch: Watch = unwatched) -> Choices:
    """As `run_on_catalogue`, on one task. Raises ValueError where no model is given, and where the variants do not
    differ on the task.
    """
    check_own(study, recipe, materials.model)
    task, [own] = materials.task, contestants_of([materials.model or ""])
    claim(run, called([own]))
    settings = [(variant.name, replace(recipe.finetune, **variant.settings)) for variant in recipe.chosen(study)]
    arms = _differing([Arm(name, task, _fitted(stated, task)) for name, stated in settings], task.name)
    told = naming(watch, own)
    done, compared = _compared(arms, recipe, own, materials, run=run, name=task.name, watch=told)
    result = Choices(study, STUDIES[study].table, recipe.split, (compared,), {})
    _write(run, result, records(done, recipe.split, model=own.name))
    return result


def check_own(study: str, recipe: Recipe, model: str | None) -> None:
    """Raises ValueError for what a task of a user's own cannot be asked, and where no model is given."""
    if model is None:
        raise ValueError(f"the study '{study}' needs a pretrained model: give --model, a directory or hub id")
    if any(variant.encoding for variant in recipe.chosen(study)):
        raise ValueError(
            f"the study '{study}' makes the texts of a relation anew, which takes files that say where mentions stand: "
            f"give a catalogue's folder with --data"
        )
    for name in ("datasets", "rows", "max_tokens", "special"):
        if getattr(recipe, name):
            raise ValueError(f"{name} is for the datasets of a catalogue, given with --data. Leave it out")


def select(study: str, recipe: Recipe, models: Sequence[str], data: Path, datasets: Sequence[Dataset]) -> Asked:
    """Who runs on what. Raises ValueError as `run_on_catalogue` does, but for what only the examples tell."""
    variants = recipe.chosen(study)
    usual = [own for own in datasets if own.name in STUDIES[study].datasets]
    asked = benchmark.select(recipe.reading(variants[0]), models, data, datasets if recipe.datasets else usual)
    for dataset, _ in asked.forms:
        for variant in variants:
            recipe.reading(variant).form(dataset, data)
    return asked


def arms_of(variants: Iterable[Variant], recipe: Recipe, dataset: Dataset, data: Path, run: Path) -> list[Arm]:
    """The variants on a dataset, whose data are prepared in `run`. Raises ValueError where they do not differ there."""
    tasks: dict[str, Prepared] = {}
    arms = []
    for variant in variants:
        reading = recipe.reading(variant)
        form = reading.form(dataset, data)
        several = len(dataset.forms) > 1
        if form.name not in tasks:
            tasks[form.name] = _prepared(
                reading, dataset, form, data, run / (f"data-{form.name}" if several else "data")
            )
        task = tasks[form.name]
        stated = reading.race(dataset, form, task).finetune
        arms.append(Arm(variant.name, task, _fitted(stated, task), form.name if several else ""))
    return _differing(arms, dataset.name)


def _prepared(reading: Benchmark, dataset: Dataset, form: Form, data: Path, place: Path) -> Prepared:
    return ranks.first_then_all(lambda: prepare(reading.task(dataset, form), data, place))


def _fitted(stated: finetune.Recipe, task: Prepared) -> finetune.Recipe:
    """What means something on the task; tags in the scheme that they have are taken as they are given."""
    own = fitting(stated, task)
    return replace(own, tag_scheme="given") if scheme_of(task.labels) == own.tag_scheme else own


def _differing(arms: Sequence[Arm], where: str) -> list[Arm]:
    """Without those that come to the same as one before them."""
    told: list[Arm] = []
    for arm in arms:
        if not any((arm.recipe, arm.form) == (other.recipe, other.form) for other in told):
            told.append(arm)
    if len(told) < 2:
        names = ", ".join(arm.name for arm in arms)
        raise AlikeError(f"{where}: {names} come to the same there. Choose another study, or datasets that it is for")
    return told


def _compared(
    arms: Sequence[Arm], recipe: Recipe, own: Contestant, materials: Materials, *, run: Path, name: str, watch: Watch
) -> tuple[list[Score], Compared]:
    runs = [(arm, seed, arm.tuned(own, materials, seed)) for seed in range(recipe.seeds) for arm in arms]
    wanted = [tested(job, arm.task) if recipe.split == "test" else job for arm, _, job in runs]
    _done(wanted, runs, own, run=run, name=name, watch=watch)
    scores = []
    for arm, seed, job in runs:
        result, taken = do(job, run), spent(job.directory(run))
        if recipe.split == "test":
            seen = do(tested(job, arm.task), run) | {"dev": result["dev"]}
            score = test_row(arm.name, seed, seen, arm.task, adapting=Cost(), finetuning=taken)
        else:
            gold = [example.label for example in arm.task.examples("dev")]
            score = replace(dev_row(arm.name, seed, result, gold, arm.task), finetuning=taken)
        scores.append(replace(score, task=name))
    task = arms[0].task
    table = rows(scores, task.metric, untouched=arms[0].name)
    names = tuple(arm.name for arm in arms)
    return scores, Compared(name, own.name, task.sizes["train"], names, tuple(table))


def _done(
    wanted: Sequence[Job],
    runs: Sequence[tuple[Arm, int, Job]],
    own: Contestant,
    *,
    run: Path,
    name: str,
    watch: Watch,
) -> None:
    """Do what is missing. Raises ValueError where a training diverges, and whatever else was raised."""
    failed = attempts(map(Part, wanted), run, watch=watch)
    for arm, seed, job in runs:
        if isinstance(error := failed.get(job.name), NotFiniteError):
            told = f"{name}: training of {own.name} as '{arm.name}', seed {seed}, diverges. Lower finetune.plan.rate"
            raise ValueError(f"{told}. ({error})") from error
    for error in failed.values():
        raise error


def _write(out: Path, result: Choices, scores: Sequence[Mapping[str, Any]]) -> None:
    if ranks.is_first():
        files.write_json(out / f"{result.study}.scores.json", scores)
        files.write_text(out / f"{result.study}.csv", choices_csv(result))
        files.write_text(out / f"{result.study}.txt", choices_text(result))
    ranks.wait()
