"""A study as a value: the cells of its table, the jobs that make each, and what is compared with what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from acclimate.core.types import Watch, unwatched
from acclimate.data.inputs import Leaks, Raw
from acclimate.tasks.labelled import Own


@dataclass(frozen=True)
class Inputs:
    """What a study is run on.

    out       the directory of the study, in which data are prepared; a dry run has a temporary one here
    task      the labelled files; None where the study's settings name its datasets
    raw       raw text of the domain, and general text
    models    directories or hub ids
    data      the folder of a benchmark, of which datasets are taken by name; None where all are files
    leaks     what becomes of labelled rows that hold a text of the test set
    labels_per_class  of the embedded default
    """

    out: Path
    task: Own | None = None
    raw: Raw = field(default_factory=Raw)
    models: tuple[str, ...] = ()
    data: Path | None = None
    leaks: Leaks = "keep"
    labels_per_class: int | None = None
    watch: Watch = unwatched

    @property
    def model(self) -> str | None:
        """The model of a study that takes one; None where none was given."""
        return self.models[0] if self.models else None
