"""What a user names as data, and how it is read: labelled files, a dataset of a benchmark's folder, or the embedded
default, as the materials of a study.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acclimate.core.door import option
from acclimate.core.types import Watch, unwatched
from acclimate.data import materials
from acclimate.data.as_files import is_hub_id, labelled_files
from acclimate.data.examination import Examination
from acclimate.data.inputs import Leaks, Raw, gather, made_ready
from acclimate.data.materials import EMBEDDED_TASKS, Materials
from acclimate.data.published import published, unplaced
from acclimate.tasks.labelled import Labelled, LabelledFiles, fewer, read_files, with_way_out
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tables import ColumnError

LABELS_PER_CLASS = 32  # of the embedded default: as few as where adapting matters


@dataclass(frozen=True)
class Inputs:
    """What a study is run on.

    out       the directory of the study, in which data are prepared; a dry run has a temporary one here
    task      the labelled files; None where the study's settings name its datasets
    raw       raw text of the domain, and general text
    models    directories or hub ids
    checkpoints  name -> directory or hub id of an encoder that races as it is (data/checkpoints.py::checked)
    data      the folder of a benchmark, of which datasets are taken by name; None where all are files
    leaks     what becomes of labelled rows that hold a text of the test set
    rows      number of training rows to sample, every class among them; 0: all
    labels_per_class  of the embedded default
    """

    out: Path
    task: LabelledFiles | None = None
    raw: Raw = field(default_factory=Raw)
    models: tuple[str, ...] = ()
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    leaks: Leaks = "keep"
    rows: int = 0
    labels_per_class: int | None = None
    watch: Watch = unwatched

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(os.fspath(model) for model in self.models))  # path-like ones too

    @property
    def model(self) -> str | None:
        """The model of a study that takes one; None where none was given."""
        return self.models[0] if self.models else None


def materials_of(inputs: Inputs, *, seeds: int, comparisons: int, folds: int = 0, finetune: Any = None) -> Materials:
    """Return the materials of a study of one task: the user's files, or the dataset of that name in the folder
    `inputs.data`, or an embedded task if the labelled file is called "docstrings" or "sections".

    seeds, comparisons: of the study, from which the doctor estimates what it could detect
    folds: of a cross-validation that is repeated `seeds` times; 0: none
    finetune: the recipe of the fine-tunings, of whose steps the doctor speaks

    Raises ValueError for options that a dataset or the embedded default would ignore, and as `gather` does.
    """
    labelled, per_class, rows = inputs.task, inputs.labels_per_class, inputs.rows
    assert labelled is not None
    if inputs.data is not None or str(labelled.train) not in EMBEDDED_TASKS:
        if per_class is not None:
            raise ValueError(_embedded_only())
        if rows and folds:
            raise ValueError(
                f"{option('rows')} samples rows of train alone, and {option('folds')} divides train, dev and test "
                f"together: leave one out"
            )
        return gather(
            inputs.out,
            labelled_rows(labelled, inputs.data, rows),
            inputs.raw,
            model=inputs.model,
            leaks=inputs.leaks,
            seeds=seeds,
            comparisons=comparisons,
            folds=folds,
            split_seed=labelled.seed,
            finetune=finetune,
            watch=inputs.watch,
        )
    options = _embedded_options(inputs)
    if folds:
        raise ValueError(
            f"{option('folds')} divides your labelled rows, and '{labelled.train}' has its splits. Leave it out"
        )
    return materials.embedded_materials(
        str(labelled.train), inputs.out, **options, model=inputs.model, watch=inputs.watch
    )


def prepared_task(inputs: Inputs) -> tuple[Prepared, tuple[str, ...], Examination | None]:
    """Return the task of these inputs, prepared in `inputs.out/data`, notes on its files, and what the doctor finds in
    them; of an embedded task there are no notes, and None is found.

    Raises ValueError as `materials_of` does, and for faults of the files.
    """
    assert inputs.task is not None
    if inputs.data is None and str(inputs.task.train) in EMBEDDED_TASKS:
        options = _embedded_options(inputs)
        _, prepared = materials.embedded_task(str(inputs.task.train), inputs.out, **options, watch=inputs.watch)
        return prepared, (), None
    if inputs.labels_per_class is not None:
        raise ValueError(_embedded_only())
    read = labelled_rows(inputs.task, inputs.data, inputs.rows)
    prepared, ready, examination = made_ready(inputs.out, read, leaks=inputs.leaks, watch=inputs.watch)
    return prepared, tuple(ready.notes), examination


def _embedded_only() -> str:
    """Return what is wrong with a number of labels a class for a file."""
    return f"{option('labels_per_class')} draws from the embedded default only; give fewer rows in your file"


def _embedded_options(inputs: Inputs) -> dict[str, Any]:
    """Return how many labels a class an embedded task has, and where its texts are cut.

    Raises ValueError for options that it would ignore.
    """
    labelled, per_class = inputs.task, inputs.labels_per_class
    assert labelled is not None
    if inputs.rows:
        raise ValueError(
            f"{option('rows')} draws from files and datasets; of '{labelled.train}' {option('labels_per_class')} does"
        )
    usual = LabelledFiles(train=labelled.train)
    if labelled != replace(usual, max_tokens=labelled.max_tokens) or inputs.raw != Raw() or inputs.leaks != "keep":
        raise ValueError(
            f"the task '{labelled.train}' has files, columns, metric and corpora already: leave out the options for "
            f"labelled files; {option('max_tokens')} may stand, to read less"
        )
    return {
        "labels_per_class": (LABELS_PER_CLASS if per_class is None else per_class) or None,
        "max_tokens": None if labelled.max_tokens == usual.max_tokens else labelled.max_tokens,
    }


def labelled_rows(labelled: LabelledFiles, data: Path | None, rows: int) -> LabelledFiles | Labelled:
    """Return what `labelled_of` does, with `rows` training rows, sampled so that every class is among them; 0: all."""
    read = labelled_of(labelled, data)
    return fewer(read if isinstance(read, Labelled) else read_files(read), rows, seed=0) if rows else read


def labelled_of(labelled: LabelledFiles, data: Path | None) -> LabelledFiles | Labelled:
    """Return what `gather` reads the labelled files from: the dataset in the folder `data` that `labelled.train`
    names, or the files as they are stated.

    Raises ValueError for options that a dataset would ignore, and for the name of one without its folder.
    """
    if data is None:
        if not Path(labelled.train).exists() and (way_out := unplaced(str(labelled.train))):
            raise ValueError(way_out)
        return labelled
    if labelled != LabelledFiles(train=labelled.train, max_tokens=labelled.max_tokens):
        raise ValueError(
            f"the dataset '{labelled.train}' has splits, columns, kind and metric already: with {option('data')} leave "
            f"out the options for labelled files; {option('max_tokens')} may stand, to read less"
        )
    read = published(str(labelled.train), data)
    if labelled.max_tokens != LabelledFiles(train=labelled.train).max_tokens:
        read = replace(read, max_tokens=min(read.max_tokens, labelled.max_tokens))
    return read


def dataset_of(dataset: str | LabelledFiles, data: Path | None) -> Labelled:
    """Return one of several datasets: a labelled file, by its path or with what is stated of it, or
    else a dataset in the folder `data`, or without that a dataset of the hub. Raises ValueError as `labelled_of` and
    `read_files` do.
    """
    labelled = dataset if isinstance(dataset, LabelledFiles) else LabelledFiles(train=Path(dataset))
    if data is None and is_hub_id(labelled.train):
        return read_files(labelled_files(labelled.train, labelled, dev=labelled.dev, test=labelled.test))
    is_file = labelled.train.is_file() or (labelled.kind == "tokens" and labelled.train.is_dir())
    read = labelled_of(labelled, None if is_file else data)
    if isinstance(read, Labelled):
        return read
    try:
        return read_files(read)
    except ColumnError as error:
        if isinstance(dataset, LabelledFiles):
            raise
        raise with_way_out(error, dataset) from error
