"""A published dataset by its name, as a user's own labelled files are: `acclimate evaluate MODEL SciERC --data DIR`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from acclimate.core.types import SPLITS
from acclimate.study.counting import CATALOGUES, counts_of
from acclimate.tasks.catalogue import Dataset, dataset_named
from acclimate.tasks.own import Labelled
from acclimate.tasks.readers import FileRead
from acclimate.text.packed import named


def published(name: str, folder: Path) -> Labelled:
    """The splits of a dataset of any catalogue, with its kind, labels, metric and length.

    name    of the dataset, whatever its case; after it, with a comma between, that of a form: "ChemProt, markers"
    folder  the catalogue's, as `acclimate fetch` fills it

    Raises ValueError where nothing is called so, where its files are not there, and for a row that cannot be used.
    """
    if not folder.is_dir():
        raise ValueError(f"--data {folder}: there is no such folder")
    called, _, stated = (part.strip() for part in name.partition(","))
    dataset = _dataset(called)
    asked = replace(dataset, forms=(dataset.form(stated),)) if stated else dataset
    form = asked.form_in(folder)
    task = dataset.task(form.name)
    splits = {split: tuple(task.read(folder, split)) for split in SPLITS}
    notes = [f"{dataset.name} is read from {folder / dataset.folder} in the form '{form.name}'."]
    notes += [form.note] if form.note else []
    odd = [each for each in counts_of(dataset, form, folder, splits) if each.verdict == "wrong"]
    cautions = [
        f"{each.split} has {each.found:,} {each.counted}, where the paper has {each.stated:,}: the files in "
        f"{named(folder / dataset.folder)} are not those of {dataset.name}, whose scores these cannot be beside."
        for each in odd
    ]
    return Labelled(
        name=f"{dataset.name}, {form.name}" if stated else dataset.name,
        kind=dataset.kind,
        labels=task.labels,
        metric=dataset.metric,
        max_tokens=dataset.max_tokens,
        splits=splits,
        files=tuple(FileRead(Path(f"{dataset.name} {split}"), len(own), len(own), ()) for split, own in splits.items()),
        notes=tuple(notes),
        cautions=tuple(cautions),
        source=task.source,
        untaught=task.untaught,
    )


def unplaced(name: str) -> str:
    """What to do about a task that is no file but the name of a dataset or catalogue; "" where it is neither."""
    called = name.partition(",")[0].strip().lower()
    if called in CATALOGUES:
        return f"'{name}' is a catalogue of published datasets: add --data DIR, the folder that has their files"
    if any(dataset.name.lower() == called for _, datasets in CATALOGUES.values() for dataset in datasets):
        return f"'{name}' is a published dataset: add --data DIR, the folder of its catalogue"
    return ""


def check_order(model: str, task: str) -> None:
    """Raises ValueError where the two of `evaluate MODEL TASK` stand the other way round."""
    holds_model = any((Path(task) / name).is_file() for name in ("config.json", "checkpoint/config.json"))
    is_task = not Path(model).is_dir() and (unplaced(model) or Path(model).is_file())
    if is_task and (holds_model or not (unplaced(task) or Path(task).exists())):
        raise ValueError(f"'{model}' is a task and {task} a model: the model comes first, evaluate {task} {model}")


def _dataset(name: str) -> Dataset:
    return dataset_named(name, (dataset for _, datasets in CATALOGUES.values() for dataset in datasets))
