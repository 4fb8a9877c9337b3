"""A published dataset by its name, as a user's own labelled files are: `acclimate evaluate MODEL SciERC --data DIR`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from acclimate.core.types import SPLITS
from acclimate.study.counting import CATALOGUES
from acclimate.tasks.catalogue import Dataset, dataset_named
from acclimate.tasks.own import Labelled
from acclimate.tasks.readers import FileRead


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
    return Labelled(
        name=f"{dataset.name}, {form.name}" if stated else dataset.name,
        kind=dataset.kind,
        labels=dataset.labels,
        metric=dataset.metric,
        max_tokens=dataset.max_tokens,
        splits=splits,
        files=tuple(FileRead(Path(f"{dataset.name} {split}"), len(own), len(own), ()) for split, own in splits.items()),
        notes=tuple(notes),
        source=task.source,
        untaught=dataset.untaught,
    )


def unplaced(name: str) -> str:
    """What to do about a task that is no file but the name of a dataset or catalogue; "" where it is neither."""
    called = name.partition(",")[0].strip().lower()
    if called in CATALOGUES:
        return f"'{name}' is a catalogue of published datasets: add --data DIR, the folder that has their files"
    if any(dataset.name.lower() == called for _, datasets in CATALOGUES.values() for dataset in datasets):
        return f"'{name}' is a published dataset: add --data DIR, the folder of its catalogue"
    return ""


def _dataset(name: str) -> Dataset:
    return dataset_named(name, (dataset for _, datasets in CATALOGUES.values() for dataset in datasets))
