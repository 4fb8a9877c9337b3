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

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, Literal

from acclimate.core import files, ranks
from acclimate.core.figures import duration, metric_text, points
from acclimate.core.types import Cost, Score, Split, Watch, unwatched
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, claim, missing
from acclimate.jobs.run import do_all, done
from acclimate.methods import finetune
from acclimate.methods.finetune import fitting
from acclimate.race.contestants import fine_tuned, tested
from acclimate.race.cost import Estimate, estimate_of_jobs, together
from acclimate.race.recipe import RaceRecipe, Search
from acclimate.race.search import dev_row, test_row
from acclimate.report.table import WIDTH, Row, aligned, as_csv, rows
from acclimate.studies import blurb
from acclimate.studies.blurb import (
    Asked,
    BlurbRecipe,
    Contestant,
    Plan,
    Planned,
    called,
    contestants_of,
    naming,
    telling,
)
from acclimate.studies.compare import compared, records, said
from acclimate.tasks.datasets import blurb as datasets_of_blurb
from acclimate.tasks.datasets.catalogue import Dataset, Form
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.relations import Encoding
from acclimate.tasks.tags import scheme_of
from acclimate.training.checkpoint import spent
from acclimate.training.gradients import NotFiniteError

# -------------------- choices page
# What a study of model choices came to, as text and CSV.


@dataclass(frozen=True)
class Compared:
    """The variants on one dataset with one model.

    trained   training examples
    variants  in the order of the study, the standard first
    rows      a row a variant, the standard's first, then by falling score
    """

    dataset: str
    model: str
    trained: int
    variants: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Choices:
    """A study. table: of the paper; absent: dataset -> why it is not there."""

    study: str
    table: str
    split: Split
    found: tuple[Compared, ...]
    absent: Mapping[str, str]

    @cached_property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for own in self.found for name in own.variants))

    @cached_property
    def several(self) -> bool:
        """Whether there is more than one model."""
        return len({own.model for own in self.found}) > 1

    @property
    def text(self) -> str:
        """As STUDY.txt has it."""
        return choices_text(self)


def choices_text(result: Choices) -> str:
    """All means where there are several, then a table of each dataset and model with what chance may do to them."""
    parts = [_means(result)] if len(result.found) > 1 else []
    for own in result.found:
        title = f"{own.dataset}, {own.trained:,} training examples" + (f", {own.model}" if result.several else "")
        costs = [[duration(row.finetuning.seconds)] for row in own.rows]
        parts.append(
            f"{title}\n\n{compared(own.rows, result.split, ['tuning'], costs)}\n\n{said(own.rows, result.split)}"
        )
    seen = "the best of a run's looks at dev, so a little high for all alike" if result.split == "dev" else "test"
    legend = (
        f"As {result.table} of Gu et al. (2021). Points on {result.split} ({seen}) with 95% intervals over seeds and "
        f"items; differences are from the first row, p counts all of one table. Every variant has the same settings "
        f"and seeds. Tuning: one run."
    )
    parts.append("\n".join(fill(line, WIDTH) for line in [legend, *_left_out(result)]))
    return "\n\n".join(parts) + "\n"


def choices_csv(result: Choices) -> str:
    """Unrounded figures, a line for each dataset, model and variant: `tables.as_csv` with model and training rows."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, own in enumerate(result.found):
        head, *lines = csv.reader(io.StringIO(as_csv(own.rows)))
        if not number:
            writer.writerow(["model", "train_rows", "split", *head])
        writer.writerows([own.model, own.trained, result.split, *line] for line in lines)
    return file.getvalue()


def _means(result: Choices) -> str:
    """A row a dataset and model, a column a variant; a dash where the variant means nothing there."""
    body = []
    for own in result.found:
        means = {row.contestant: points(row.score.mean) for row in own.rows}
        title = f"{own.dataset} ({metric_text(own.rows[0].metric)})" + (f", {own.model}" if result.several else "")
        body.append([title, *(means.get(name, "-") for name in result.variants)])
    across = [list(line) for line in zip(["", *result.variants], *body, strict=True)]
    head, *lines = across if len(result.variants) > len(body) else [["", *result.variants], *body]
    return aligned(head, lines)


def _left_out(result: Choices) -> list[str]:
    return [f"{name} is left out: {why}" for name, why in result.absent.items()]


# -------------------- choices recipe
# The studies of model choices as values, and what one is told. studies/choices.py runs them.


CRF_RATE = 100.0  # at the encoder's own a CRF's weights stay near 0, and it is the linear layer


@dataclass(frozen=True)
class Variant:
    """settings: of fine-tuning; encoding: of a relation; further: not in the paper, and done where it is named."""

    name: str
    settings: Mapping[str, Any]
    encoding: Encoding | Literal[""] = ""
    further: bool = False


@dataclass(frozen=True)
class Study:
    """variants: the standard first; datasets: the paper's."""

    table: str
    datasets: tuple[str, ...]
    variants: tuple[Variant, ...]


def _layer(name: str, layer: str, further: bool = False) -> Variant:
    of_text, rate = ("linear", CRF_RATE) if "crf" in layer else (layer, 1.0)
    stated = {"tag_layer": layer, "tag_transitions": "any", "tag_transitions_rate": rate, "sequence_layer": of_text}
    return Variant(name, stated, further=further)


STUDIES: Mapping[str, Study] = {
    "layers": Study(
        "Table 10",
        ("BC5-chem", "BC5-disease", "JNLPBA", "ChemProt", "DDI", "GAD"),
        (
            _layer("linear", "linear"),
            _layer("BiLSTM", "bilstm"),
            _layer("CRF", "crf", further=True),
            _layer("BiLSTM-CRF", "bilstm-crf", further=True),
        ),
    ),
    "schemes": Study(
        "Table 11",
        ("BC5-chem", "BC5-disease", "JNLPBA"),
        tuple(Variant(scheme, {"tag_scheme": scheme}) for scheme in ("BIO", "BIOUL", "IO")),
    ),
    "relations": Study(
        "Table 12",
        ("ChemProt", "DDI"),
        (
            Variant("dummies, first token", {"pooling": "first"}, "dummies"),
            Variant("dummies, mentions", {"pooling": "mentions"}, "dummies"),
            Variant("original, first token", {"pooling": "first"}, "original"),
            Variant("original, mentions", {"pooling": "mentions"}, "original"),
            Variant("markers, first token", {"pooling": "first"}, "markers"),
            Variant("markers, mentions", {"pooling": "mentions"}, "markers"),
            Variant("markers, starts", {"pooling": "starts"}, "markers"),
        ),
    ),
}


@dataclass(frozen=True)
class ChoicesRecipe:
    """A study of model choices. `finetune` is what every variant has but for what is varied.

    `datasets`, `rows`, `rows_seed` and `special` are for the datasets of a catalogue.
    """

    vary: Literal["layers", "schemes", "relations"] = "layers"  # what is varied
    variants: tuple[str, ...] = ()  # by name, the one first that the others are compared with; (): the paper's
    datasets: tuple[str, ...] = ()  # (): the paper's, of which those whose files are there
    seeds: int = 5  # runs of each variant; at least 2
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's
    special: bool = False  # the tokenizer keeps whole what an encoding writes into texts
    split: Literal["dev", "test"] = "dev"  # what is scored; each run with "test" is a look at the test set
    finetune: finetune.FinetuneRecipe = field(default_factory=finetune.FinetuneRecipe)
    """Of every variant, but for what is varied."""

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 5")

    def chosen(self, study: str) -> tuple[Variant, ...]:
        """Raises ValueError for a study or a variant that is not known."""
        if study not in STUDIES:
            raise ValueError(f"no study is called '{study}'. Known: {', '.join(STUDIES)}")
        known = {variant.name: variant for variant in STUDIES[study].variants}
        for name in self.variants:
            if name not in known or self.variants.count(name) > 1:
                raise ValueError(f"variants: '{name}' is not one of {', '.join(known)}, or stands there twice")
        if len(self.variants) == 1:
            raise ValueError(f"variants: '{self.variants[0]}' alone is compared with nothing. Name another one")
        return tuple(known[name] for name in self.variants) or tuple(own for own in known.values() if not own.further)

    def reading(self, variant: Variant) -> BlurbRecipe:
        """How a benchmark reads and fine-tunes with the variant."""
        return BlurbRecipe(
            datasets=self.datasets,
            seeds=self.seeds,
            rows=self.rows,
            rows_seed=self.rows_seed,
            max_tokens=self.max_tokens,
            encoding=variant.encoding,
            special=self.special,
            baseline=False,
            search=Search(),
            finetune=replace(self.finetune, **variant.settings),
        )


RECIPE = ChoicesRecipe
TOLD = ("tag_layer", "sequence_layer", "tag_scheme", "pooling")  # in the names of jobs, where they are not the default


class AlikeError(ValueError):
    """The variants of a study do not differ on a task."""


@dataclass(frozen=True)
class Arm:
    """A variant on a task. form: of the text, in the names of jobs; "" where there is one only."""

    name: str
    task: Prepared
    recipe: finetune.FinetuneRecipe
    form: str = ""

    def tuned(self, own: Contestant, materials: Materials, seed: int) -> Job:
        default = finetune.FinetuneRecipe()
        told = [f"{name} {getattr(self.recipe, name)}" for name in TOLD]
        told = [words for words, name in zip(told, TOLD, strict=True) if words != f"{name} {getattr(default, name)}"]
        label = ", ".join(filter(None, [f"fine-tune {own.key}".strip(), self.form, *told, f"seed {seed}"]))
        stated = replace(self.recipe, plan=replace(self.recipe.plan, seed=seed))
        return fine_tuned(label, stated, None, replace(materials, task=self.task))


def run_on_catalogue(
    study: str,
    recipe: ChoicesRecipe,
    models: Sequence[str],
    data: Path,
    out: Path,
    *,
    datasets: Sequence[Dataset] = datasets_of_blurb.DATASETS,
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


def run_on_task(
    study: str, recipe: ChoicesRecipe, materials: Materials, run: Path, *, watch: Watch = unwatched
) -> Choices:
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


def check_own(study: str, recipe: ChoicesRecipe, model: str | None) -> None:
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


def select(study: str, recipe: ChoicesRecipe, models: Sequence[str], data: Path, datasets: Sequence[Dataset]) -> Asked:
    """Who runs on what. Raises ValueError as `run_on_catalogue` does, but for what only the examples tell."""
    variants = recipe.chosen(study)
    usual = [own for own in datasets if own.name in STUDIES[study].datasets]
    asked = blurb.select(recipe.reading(variants[0]), models, data, datasets if recipe.datasets else usual)
    for dataset, _ in asked.forms:
        for variant in variants:
            recipe.reading(variant).form(dataset, data)
    return asked


def arms_of(variants: Iterable[Variant], recipe: ChoicesRecipe, dataset: Dataset, data: Path, run: Path) -> list[Arm]:
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


def _prepared(reading: BlurbRecipe, dataset: Dataset, form: Form, data: Path, place: Path) -> Prepared:
    return ranks.first_then_all(lambda: prepare(reading.task(dataset, form), data, place))


def _fitted(stated: finetune.FinetuneRecipe, task: Prepared) -> finetune.FinetuneRecipe:
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
    arms: Sequence[Arm],
    recipe: ChoicesRecipe,
    own: Contestant,
    materials: Materials,
    *,
    run: Path,
    name: str,
    watch: Watch,
) -> tuple[list[Score], Compared]:
    runs = [(arm, seed, arm.tuned(own, materials, seed)) for seed in range(recipe.seeds) for arm in arms]
    wanted = [tested(job, arm.task) if recipe.split == "test" else job for arm, _, job in runs]
    _done(wanted, runs, own, run=run, name=name, watch=watch)
    scores = []
    for arm, seed, job in runs:
        result, taken = done(job, run), spent(job.directory(run))
        if recipe.split == "test":
            seen = done(tested(job, arm.task), run) | {"dev": result["dev"]}
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
    failed = do_all(wanted, run, watch=watch)
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


# -------------------- choices plan
# What a study of model choices is still to do, and what that costs, before it starts.


def plan(
    study: str,
    recipe: ChoicesRecipe,
    models: Sequence[str],
    data: Path,
    out: Path,
    *,
    datasets: Sequence[Dataset] = datasets_of_blurb.DATASETS,
) -> Plan:
    """What `choices.run_on_catalogue` would still do in `out`. Raises ValueError as it does; writes nothing there."""
    asked = select(study, recipe, models, data, datasets)
    cells = []
    absent = dict(asked.absent)
    for dataset, _ in asked.forms:
        with TemporaryDirectory() as place:
            try:
                arms = arms_of(recipe.chosen(study), recipe, dataset, data, Path(place))
            except AlikeError as error:
                if recipe.datasets:
                    raise
                absent[dataset.name] = str(error)
                continue
            for own in asked.contestants:
                left = _left(arms, recipe, own, out / dataset.folder)
                tunings = sum(stage.kind == "tuning" for stage in left.stages)
                trained = arms[0].task.sizes["train"]
                cells.append(Planned(dataset.name, own.name, trained, len(arms), recipe.seeds, tunings, left))
    return Plan(tuple(cells), absent, verb=f"study choices {study}", varied="variants")


def _left(arms: Sequence[Arm], recipe: ChoicesRecipe, own: Contestant, run: Path) -> Estimate:
    """The runs that are left, those on one reading of the dataset tried together."""
    found = []
    for place in dict.fromkeys(arm.task.path for arm in arms):
        alike = [arm for arm in arms if arm.task.path == place]
        materials = Materials(task=alike[0].task, model=own.where)
        jobs = [arm.tuned(own, materials, seed) for arm in alike for seed in range(recipe.seeds)]
        if recipe.split == "test":
            jobs += [tested(job, materials.task) for job in jobs]
        waiting = missing(jobs, run)
        given = [(job, 1.0) for job in waiting]
        found.append(estimate_of_jobs(given, RaceRecipe(), materials, done=len(jobs) - len(waiting)))
    return together(found)
