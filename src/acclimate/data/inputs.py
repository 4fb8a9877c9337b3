"""What a study is run on, as a user names it, and how its labelled rows are read: from files, a dataset of a
benchmark's folder, or a dataset of the hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from acclimate.core.types import Progress, Watch, unwatched
from acclimate.data.as_files import is_hub_id, labelled_files
from acclimate.data.materials import RawText
from acclimate.models.loading import resolved
from acclimate.reading.labelled import Labelled, LabelledFiles, fewer, read_files, with_way_out
from acclimate.reading.published import read_task
from acclimate.reading.tables import ColumnError

Leaks = Literal["keep", "drop"]


@dataclass(frozen=True)
class Raw:
    """A user's raw text: files or folders. separated: what ends a document in .txt files."""

    domain: Path | None = None
    general: Path | None = None
    separated: Literal["line", "blank"] = "line"

    def texts(self) -> dict[str, RawText]:
        """Return the raw text of each name that has some."""
        paths = {"domain": self.domain, "general": self.general}
        return {name: RawText(path, self.separated) for name, path in paths.items() if path is not None}


@dataclass(frozen=True)
class Inputs:
    """What a study is run on.

    out       the directory of the study, in which data are prepared; a dry run has a temporary one here
    task      the labelled files; None where the study's settings name its datasets
    raw       raw text of the domain, and general text
    models    directories or hub ids
    checkpoints  name -> directory or hub id of an encoder that races as it is (data/checkpoints.py::checked)
    data      the folder of a benchmark, of which datasets are taken by name; None where all are files
    leaks     labelled rows that contain a test text: "keep" scores with and without them, "drop" removes them
    rows      number of training rows to sample, every class among them; 0: all
    """

    out: Path
    task: LabelledFiles | None = None
    raw: Raw = field(default_factory=Raw)
    models: tuple[str, ...] = ()
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    leaks: Leaks = "keep"
    rows: int = 0
    watch: Watch = unwatched

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(map(resolved, self.models)))

    @property
    def model(self) -> str | None:
        """The model of a study that takes one; None where none was given."""
        return self.models[0] if self.models else None

    def labelled(self) -> Labelled:
        """Return the labelled rows, as many as were asked for. Raises ValueError as `read_task` does."""
        assert self.task is not None
        labelled = read_task(self.task, self.data)
        if labelled.kind == "search":
            self.watch(Progress("reading", 0, 0, "rows", {"note": labelled.notes[0]}))
        return fewer(labelled, self.rows, seed=0)


def read_dataset(dataset: str | LabelledFiles, data: Path | None) -> Labelled:
    """Return one of several datasets: a labelled file, by its path or with what is stated of it, or else a dataset in
    the folder `data`, or without that a dataset of the hub. Raises ValueError as `read_task` does.
    """
    labelled = dataset if isinstance(dataset, LabelledFiles) else LabelledFiles(train=Path(dataset))
    if data is None and is_hub_id(labelled.train):
        return read_files(labelled_files(labelled.train, labelled, dev=labelled.dev, test=labelled.test))
    is_file = labelled.train.is_file() or (labelled.kind == "tokens" and labelled.train.is_dir())
    try:
        return read_task(labelled, None if is_file else data)
    except ColumnError as error:
        if isinstance(dataset, LabelledFiles):
            raise
        raise with_way_out(error, dataset) from error
