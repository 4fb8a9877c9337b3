"""The datasets of a study, named or in files, read within limits and prepared; and its models, each with its
own name and the longest input that it can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Protocol, TypeVar

from acclimate.core import files, ranks, settings
from acclimate.core.settings import Range
from acclimate.core.types import Example, Split
from acclimate.data.gather import Inputs, read_dataset
from acclimate.data.leaks import Sealed, found_in_rows
from acclimate.methods import scratch
from acclimate.methods.baselines import BASELINE, DICTIONARY
from acclimate.methods.ranking.bm25 import BM25
from acclimate.methods.recipes import finetune
from acclimate.methods.recipes.finetune import PAPERS, FinetuneRecipe, without_idle_settings
from acclimate.models.configuration import longest_input
from acclimate.models.loading import identity, short_names
from acclimate.races.compare import Mean
from acclimate.races.outcome import NEAR
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import AbsentError, Dataset, Form, dataset_named
from acclimate.reading.labelled import Labelled, fewer
from acclimate.reading.labelled_files import LabelledFiles, name_of
from acclimate.reading.published import CATALOGUES, check_published
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, Task, sampled
from acclimate.training.plan import Plan

CONSTANT, NO_ENCODER = "constant", "no encoder"  # rows of the baselines, which no model may be called

# of an encoder of two layers and 128 dimensions that a study pretrains
FINETUNING_OF_SMALL = replace(finetune.PAPERS, epochs=6.0, looks=3, plan=Plan(batch=16, rate=1e-3, warmup=0.1))

Longest = Annotated[int, Range(least=8, also=0, hint=", or 0 for the dataset's limit")]  # example in tokens
# the type of a labelled file; a benchmark states the types of its datasets
TYPES: Mapping[Kind, str] = {
    "sequence": "classification",
    "multilabel": "several labels",
    "score": "a number",
    "tokens": "tags",
    "span": "answers",
}
Place = TypeVar("Place")


@dataclass(frozen=True)
class Model:
    """A model of a study.

    name   of its row in tables
    key    its name in the labels of jobs, which does not depend on the directory of the model
    where  a directory or hub id
    """

    name: str
    key: str
    where: str


def models_of(models: Sequence[str]) -> tuple[Model, ...]:
    """Return the models, which `Inputs` has resolved, with different names.

    Raises ValueError for none, and for the same model twice.
    """
    if not models:
        raise ValueError("no model given. Name one or more models: directories or hub ids")
    keys = [identity(model)[:12] if Path(model).is_dir() else model for model in models]
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise ValueError(f"{models[keys.index(key)]} and {models[at]} are the same model. Give it once")
    # a directory of such a name would share a baseline's row
    reserved_names = (CONSTANT, NO_ENCODER, BASELINE, DICTIONARY, BM25)
    names = [f"{name} (model)" if name in reserved_names else name for name in short_names(models)]
    return tuple(Model(name, key, where) for name, key, where in zip(names, keys, models, strict=True))


def called(models: Iterable[Model]) -> dict[str, str]:
    """Return each model's name by its key, with which `Design.called` rewrites the labels of jobs."""
    return {model.key: model.name for model in models}


def check_lengths(models: Iterable[Model], lengths: Mapping[str, int]) -> None:
    """Raises ValueError where a model cannot read texts as long as a dataset's. lengths: dataset -> tokens."""
    for model in models:
        longest = longest_input(model.where)
        for name, tokens in lengths.items():
            if longest is not None and tokens > longest:
                raise ValueError(
                    f"{name} has examples of up to {tokens} tokens, but {model.name} reads at most {longest}. "
                    f"Add max_tokens={longest}"
                )


def little_learnt(places: Sequence[Path]) -> dict[str, Any]:
    """Return facts on pretrainings from random weights: what knowing the frequencies of pieces alone would lose, and
    how many of them end little below it. places: their directories
    """
    records = [files.read_json(at) for place in places if (at := place / scratch.FREQUENCIES).exists()]
    near = sum(record["little"] for record in records)
    facts = {"frequencies alone": f"{fmean(record['frequencies'] for record in records):.3f}"} if records else {}
    return facts | ({NEAR: f"{near} of {len(records)}"} if near else {})


class Limits(Protocol):
    """The settings of a study's recipe that say how much of each dataset is read; 0: all of it."""

    @property
    def rows(self) -> int: ...
    @property
    def rows_seed(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...


def inputs_by_task(
    inputs: Inputs, further: Sequence[str | LabelledFiles], corpora: Sequence[str] = ()
) -> tuple[dict[int, Inputs], dict[str, str]]:
    """Return number -> the inputs of each task of a study: those that are given, and those of its further tasks, each
    of which has a folder of its own in the directory of the study; and dataset -> why it is left out.

    further  labelled files, or names of datasets in the folder `inputs.data`
    corpora  raw text of the domain of each further task; none: that of `inputs`

    Raises ValueError where not every further task has a corpus, and where no task is left.
    """
    if corpora and len(corpora) != len(further):
        raise ValueError(
            f"corpora = {[*corpora]}: name raw text for each of the {len(further)} further tasks, or remove corpora "
            "to adapt on --corpus for all"
        )
    assert inputs.task is not None
    task_inputs = [inputs]
    for number, named in enumerate(further):
        task = named
        if not isinstance(task, LabelledFiles):
            task = LabelledFiles(train=Path(task), max_tokens=inputs.task.max_tokens)
        raw = replace(inputs.raw, domain=Path(corpora[number])) if corpora else inputs.raw
        out = inputs.out / folder_of(Path(name_of(named)).stem)
        data = None if task.train.is_file() else inputs.data
        task_inputs.append(replace(inputs, out=out, task=task, raw=raw, data=data))
    by_number: dict[int, Inputs] = {}
    absent: dict[str, str] = {}
    for number, one in enumerate(task_inputs):
        assert one.task is not None
        try:
            if one.data is not None:
                check_published(str(one.task.train), one.data)
            by_number[number] = one
        except AbsentError as error:
            absent[str(one.task.train)] = str(error)
    if not by_number:
        raise ValueError(next(iter(absent.values())))
    return by_number, absent


def check_distinct(names: Sequence[str]) -> None:
    """Raises ValueError where two tasks have one name: they would share a column."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two tasks are named {name!r}. Name each task once, and give files different names")


def means_over_tasks(rows: Sequence[str], tasks: Sequence[str], name: str) -> tuple[Mean, ...]:
    """Return each row's mean over the tasks, in the column `name`; none of a single task.

    A dataset and the same with "-mm" after its name, GLUE's two dev sets of MNLI, count together as one task.
    """
    if len(tasks) < 2:
        return ()
    bases = [task.removesuffix("-mm") for task in tasks]
    weights = tuple(1 / len(set(bases)) / bases.count(base) for base in bases)
    return tuple(Mean(("", row, name), tuple((("", row, task),) for task in tasks), weights) for row in rows)


def with_dev_rows(labelled: Labelled) -> Labelled:
    """Return the task whose training rows include those of its dev set, if that was drawn from train.

    It is for studies that choose nothing on dev. Scores on dev are then of training rows.
    """
    if labelled.kind == "search":
        raise ValueError(f"all_rows: {labelled.name} is a search task, whose dev rows are queries. Remove it")
    published = _published(labelled)
    if not ("dev" in labelled.divided if published is None else "dev" not in published.sizes):
        return labelled
    train, dev = labelled.splits["train"], labelled.splits["dev"]
    again = [replace(row, id=f"dev/{row.id}", group=row.group and f"dev/{row.group}") for row in dev]
    note = f"All {len(train) + len(dev):,} rows train, the {len(dev):,} of dev too: scores on dev are of training rows."
    splits: dict[Split, tuple[Example, ...]] = {**labelled.splits, "train": (*train, *dev), "dev": tuple(again)}
    return replace(labelled, splits=splits, notes=(*labelled.notes, note))


def check_all_rows(*, all_rows: bool, **stages: FinetuneRecipe) -> None:
    """Raises ValueError if `all_rows` would train on the rows that choose a model. stages: settings of fine-tunings"""
    for name, stage in stages.items():
        if all_rows and stage.choose != "last":
            why = f"all_rows=true trains on dev, and {name}.choose = 'best' chooses on it"
            raise ValueError(f"{why}. Set {name}.choose=last")


def check_data(data: Path | None, named: Sequence[str | LabelledFiles]) -> None:
    """Raises ValueError where `data` is no folder, and where neither it nor the setting `datasets` is given."""
    if data is None and not named:
        raise ValueError("no datasets given. Add --data DIR, a folder of datasets, or datasets=[...] that names files")
    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data}: there is no such folder")


def read_datasets(
    named: Sequence[str | LabelledFiles], usual: Sequence[Dataset], data: Path | None, limits: Limits
) -> tuple[list[tuple[Labelled, str]], dict[str, str]]:
    """Return the datasets, each with its type; and dataset -> why it is left out: its files are not in `data`.

    named  files, or datasets in the folder `data`; none: `usual`

    Raises ValueError where neither names a dataset, where `data` is no folder, and as `read_dataset` does.
    """
    check_data(data, named)
    read: list[tuple[Labelled, str]] = []
    absent: dict[str, str] = {}
    for name in named or [dataset.name for dataset in usual]:
        try:
            read.append(labelled(name, data, limits))
        except AbsentError as error:
            absent[name_of(name)] = str(error)
    return read, absent


def labelled(named: str | LabelledFiles, data: Path | None, limits: Limits) -> tuple[Labelled, str]:
    """Return a labelled file, or a dataset in the folder `data`, within the limits; and its type."""
    dataset = read_dataset(named, data)
    if dataset.kind == "search":
        raise ValueError(
            f"{dataset.name} is a search task, which studies of several datasets do not support. Remove it, and race "
            "its folder: acclimate race FOLDER"
        )
    unlimited = not dataset.source and dataset.max_tokens == LabelledFiles(train=Path()).max_tokens
    longest = limits.max_tokens or dataset.max_tokens
    dataset = replace(dataset, max_tokens=longest if unlimited else min(dataset.max_tokens, longest))
    published = _published(dataset)
    return fewer(dataset, limits.rows, limits.rows_seed), TYPES[dataset.kind] if published is None else published.type


def _published(dataset: Labelled) -> Dataset | None:
    """Return the entry of a catalogue that was read; None if it was a file."""
    if not dataset.source:
        return None
    name = dataset.name.partition(",")[0].lower()
    return next((entry for _, entries in CATALOGUES.values() for entry in entries if entry.name.lower() == name), None)


def there(
    names: Sequence[str], usual: Sequence[Dataset], known: Sequence[Dataset], find: Callable[[Dataset], Place]
) -> tuple[list[tuple[Dataset, Place]], dict[str, str]]:
    """Return the datasets that are there, each with what `find` returns for it; and dataset -> why it is not there.

    names  the datasets that settings name; none: `usual`
    known  the datasets among which names are looked up

    Raises ValueError for a name that no dataset has.
    """
    pairs: list[tuple[Dataset, Place]] = []
    absent: dict[str, str] = {}
    for dataset in [dataset_named(name, known) for name in names] or usual:
        try:
            pairs.append((dataset, find(dataset)))
        except AbsentError as error:
            absent[dataset.name] = str(error)
    return pairs, absent


def form_of(dataset: Dataset, data: Path, encoding: str = "") -> Form:
    """Return the form in which the dataset is read: with this encoding, or the first whose files are there.

    Raises AbsentError where the files are not there.
    """
    forms = [form for form in dataset.forms if form.name == encoding]
    if len(dataset.forms) == 1 or not forms:
        return dataset.form_in(data)
    return replace(dataset, forms=tuple(forms)).form_in(data)


def length_of(dataset: Dataset, limits: Limits) -> int:
    """Return the tokens at which an example of the dataset is cut."""
    return min(dataset.max_tokens, limits.max_tokens or dataset.max_tokens)


def task_of(dataset: Dataset, form: Form, limits: Limits) -> Task:
    """Return the dataset as a task within the limits."""
    task = dataset.task(form.name if len(dataset.forms) > 1 else "")
    read = partial(_read, task, limits.rows, limits.rows_seed)
    return replace(task, max_tokens=min(task.max_tokens, limits.max_tokens or task.max_tokens), read=read)


def _read(task: Task, rows: int, seed: int, root: Path, split: Split) -> list[Example]:
    examples = task.read(root, split)
    return sampled(examples, rows, seed) if split == "train" and rows else examples


def leaking_ids(task: Task, source: Path) -> dict[Split, set[str]]:
    """Return train and dev -> the ids of their rows that contain a test text, exactly or nearly."""
    sealed = Sealed({"dev": (), "test": task.read(source, "test")})
    splits: tuple[Split, ...] = ("train", "dev")
    leaks_by_split = {split: found_in_rows(split, task.read(source, split), sealed) for split in splits}
    return {split: leaks.leaking.get("test", set()) for split, leaks in leaks_by_split.items()}


def without_rows(task: Task, ids: Mapping[Split, Collection[str]]) -> Task:
    """Return the task without these rows. Reading it raises ValueError where nothing of a split is left."""

    def read(root: Path, split: Split) -> list[Example]:
        rows = [row for row in task.read(root, split) if row.id not in ids.get(split, ())]
        if not rows:
            raise ValueError(f"{task.name}: every row of {split} contains a test text. Remove leaks=drop")
        return rows

    return replace(task, read=read)


def prepared_task(task: Task, source: Path, place: Path) -> Prepared:
    """Return the task, prepared in the directory `place`; of several processes the first one does it."""
    return ranks.first_then_all(lambda: prepare(task, source, place))


def prepared_file(dataset: Labelled, place: Path) -> Prepared:
    """Return a dataset as it was read, prepared in the directory `place`."""
    return prepared_task(dataset.task(), dataset.files[0].path, place)


def folder_of(name: str) -> str:
    """Return the name of the folder that holds a dataset in the directory of a study."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "dataset"


def fitted(recipe: FinetuneRecipe, task: Prepared, form: Form | None, *, special: bool) -> FinetuneRecipe:
    """Return the settings with those that mean nothing on the task at their defaults.

    special: the tokenizer keeps whole what the form writes into texts
    """
    recipe = without_idle_settings(recipe, task)
    if form is None or not special:
        return recipe
    return replace(recipe, special_tokens=tuple(dict.fromkeys((*recipe.special_tokens, *form.special))))


class ByDataset(Protocol):
    """Settings of fine-tuning, and whether BLURB's datasets have rate, batch and epochs of their own."""

    @property
    def by_dataset(self) -> bool: ...
    @property
    def finetune(self) -> FinetuneRecipe: ...


def check_by_dataset(recipe: ByDataset) -> None:
    """Raises ValueError if `by_dataset` would replace a setting that is stated."""
    plan, usual = recipe.finetune.plan, PAPERS.plan
    differs = (recipe.finetune.epochs, plan.rate, plan.batch) != (PAPERS.epochs, usual.rate, usual.batch)
    if recipe.by_dataset and differs:
        raise ValueError(
            "by_dataset takes rate, batch and epochs from the recipes of the datasets. Remove finetune.epochs, "
            "finetune.plan.rate and finetune.plan.batch, or set by_dataset=false"
        )


def settings_on(recipe: ByDataset, name: str) -> FinetuneRecipe:
    """Return the settings of fine-tuning on the dataset of this name: those of all, or its own if `by_dataset`."""
    dataset, _, _ = name.partition(",")
    if not recipe.by_dataset or dataset.lower() not in {entry.name.lower() for entry in blurb.DATASETS}:
        return recipe.finetune
    file = settings.RECIPES / "finetune" / f"blurb-{folder_of(dataset)}.toml"
    own = settings.from_toml(FinetuneRecipe, file)
    plan = replace(recipe.finetune.plan, rate=own.plan.rate, batch=own.plan.batch)
    return replace(recipe.finetune, epochs=own.epochs, plan=plan)
