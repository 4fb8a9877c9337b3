"""The options of a labelled task, as `race`, `evaluate` and `doctor` take them by keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from acclimate.api.checks import check_ready, label_columns, label_names
from acclimate.data.embedded import embedded_files, is_embedded
from acclimate.reading.labels import Stated

if TYPE_CHECKING:
    from acclimate.data.gather import Leaks, Raw
    from acclimate.reading.labelled_files import LabelledFiles

Separated = Literal["line", "blank"]


@dataclass(frozen=True)
class TaskOptions:
    """Options of labelled files, other than the file to train on.

    dev, test    what `task` may be, or the name of a split; where one is missing, its rows are split off
    text, pair, group, id   names of columns; group: also "template" (rows that differ in numbers and names only) or
                 "text" (pairs that share a text)
    label        the name of a column, or a list of columns of 0 and 1, one for each label
    labels       names of the classes 0, 1, ... or of the places of vectors of 0 and 1
    kind, separator, fold_labels, repair, metric, max_tokens, split_seed   as of LabelledFiles
                 (reading/labelled_files.py), which calls the last one `seed`
    config, split, revision   of a dataset of the hub; split: to train on
    data         the folder of a benchmark; then `task` names one of its datasets, such as "SciERC"
    """

    dev: Any = None
    test: Any = None
    text: str = "text"
    pair: str | None = None
    label: str | Sequence[str] = "label"
    labels: Sequence[str] = ()
    group: str | None = None
    id: str | None = None
    kind: Stated = "auto"
    separator: str = ""
    fold_labels: bool = False
    repair: bool = False
    metric: str = ""
    max_tokens: int = 256
    split_seed: int = 0
    config: str = ""
    split: str = ""
    revision: str = ""
    data: str | Path | None = None

    def labelled_files(self, task: Any) -> LabelledFiles:
        """Return the labelled files that a user's task becomes, after the checks that need no reading of all."""
        from acclimate.data.as_files import HubChoice, labelled_files
        from acclimate.reading.labelled_files import LabelledFiles, check_labelled_files

        check_ready({**vars(self), "task": task})
        names = {field.name for field in fields(LabelledFiles)} & vars(self).keys() - {"dev", "test"}
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"label": label_columns(self.label), "labels": label_names(self.labels)}
        about = LabelledFiles(train=Path(), seed=self.split_seed, **options)
        if self.data is not None or is_embedded(task):
            splits: dict[str, Any] = {
                name: Path(split) for name in ("dev", "test") if isinstance(split := getattr(self, name), str | Path)
            }
            named = replace(about, train=Path(task), **splits)
            return named if self.data is not None else embedded_files(named)
        choice = HubChoice(self.config, self.split, self.revision)
        files = labelled_files(task, about, dev=self.dev, test=self.test, choice=choice)
        check_labelled_files(files)
        return files

    def raw_text(self, corpus: Any, general: Any, separated: Separated) -> Raw:
        """Return the raw text that a user's corpora become. separated: what ends a document in .txt files"""
        from acclimate.data.as_files import raw_text
        from acclimate.data.gather import Raw

        domain, general = (None if held is None else raw_text(held, column=self.text) for held in (corpus, general))
        return Raw(domain, general, separated)


@dataclass(frozen=True)
class EvaluationOptions(TaskOptions):
    """Options of an evaluation: those of its task, and which rows to train on.

    rows   number of training rows to sample, every class among them; 0: all
    """

    rows: int = 0


@dataclass(frozen=True)
class RaceOptions(EvaluationOptions):
    """Options of a race: those of an evaluation, and of raw text and leaks.

    separated    what ends a document in .txt files of raw text: a line or a blank line
    leaks        labelled rows that contain a test text: "keep" them and score both ways, or "drop" them
    """

    separated: Separated = "line"
    leaks: Leaks = "keep"


def split_keywords(keywords: Mapping[str, Any], *kinds: type) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the keywords that are fields of each of these dataclasses, and all others."""
    names = [{field.name for field in fields(kind)} for kind in kinds]
    parts = [{name: value for name, value in keywords.items() if name in own} for own in names]
    return parts, {name: value for name, value in keywords.items() if not any(name in own for own in names)}
