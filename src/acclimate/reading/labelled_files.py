"""The user's labelled files as they are stated, and opened. Options that contradict each other or a file are refused.

Each file is opened once (reading/source.py). Of the functions here only `check_labelled_files` reads rows.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import get_args

from acclimate.core.door import option
from acclimate.core.names import meant
from acclimate.core.types import Split
from acclimate.reading.formats.beir import check_collection, is_collection
from acclimate.reading.labels import Stated
from acclimate.reading.source import Source, open_source
from acclimate.reading.splitting import BONDS
from acclimate.reading.tables import ColumnError, Columns, read_rows
from acclimate.tasks.metrics import metric_for, metric_named
from acclimate.tasks.prepared import PREPARED
from acclimate.text.untrusted import LIMITS, ReadLimits, printable

FEWEST_TOKENS = 8
LOOKED_AT = 10_000  # rows that `check_labelled_files` reads; only JSON can have a column that first occurs later
SHARED = ({"group", "id"}, {"group", "text"}, {"group", "pair"})  # roles that one column may have


@dataclass(frozen=True)
class LabelledFiles:
    """A user's labelled files. `text`, `label`, `pair`, `group` and `id` name columns."""

    train: Path  # labelled file to train on
    dev: Path | None = None  # labelled file for choices; none: split off train
    test: Path | None = None  # labelled file for the final scores; none: split off train
    text: str = "text"  # column of the text
    label: str | tuple[str, ...] = "label"  # column of the label; several: one of 0 and 1 for each label
    labels: tuple[str, ...] = ()  # names of the classes 0, 1, ... or of the places of vectors of 0 and 1
    pair: str | None = None  # column of a second text
    group: str | None = None
    """Column of groups, such as authors: rows of one group stay on one side of a split. "template": rows that differ
    in numbers and names only; "text": pairs that share a text."""
    id: str | None = None  # column of the rows' ids
    kind: Stated = "auto"
    """What a label is: one of a few classes (sequence), several of them (multilabel), a number (score), a tag for each
    word (tokens), an answer in the text (span), the documents that answer a query (search). "auto": by the label
    column, "span" for a file of questions in SQuAD's form, or "search" for a folder in BEIR's format."""
    separator: str = ""
    """What separates several labels in one field; "": a field has one label. Lists in JSON and Parquet need none."""
    fold_labels: bool = False  # treat labels that differ only by case or spaces as one
    repair: bool = False
    """Correct and count clear faults: answers at another position of their context or with spaces at their ends,
    control characters, repeated rows with the same id, labels that differ by case or spaces."""
    metric: str = ""  # name of the metric; "": the default of the kind
    max_tokens: int = 256  # longest example in tokens; longer ones are cut off
    seed: int = 0  # seed of the split if dev or test is missing

    @property
    def columns(self) -> Columns:
        return Columns(self.text, self.label, self.pair, None if self.group in BONDS else self.group, self.id)

    @property
    def paths(self) -> dict[Split, Path]:
        """Path of each split that has a file, train first."""
        paths: dict[Split, Path | None] = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: Path(path) for split, path in paths.items() if path is not None}

    def column_option(self, *, numbered: bool = False) -> str:
        """Return the first stated option that only applies to files with columns, such as "--text body"; "" if none is.

        numbered  True: `text` and `label` may be numbers of fields
        """
        usual = LabelledFiles(train=self.train)
        names = ("text", "label", "labels", "pair", "group", "id", "separator", "fold_labels")
        options = {name: value for name in names if (value := getattr(self, name)) != getattr(usual, name)}
        if numbered:
            options = {name: value for name, value in options.items() if not re.fullmatch(r"\d+", str(value))}
        words = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in options.items()}
        return next((option(name, value) for name, value in words.items()), "")


def name_of(task: str | LabelledFiles) -> str:
    """Return the name of a dataset, or the training file as it was given."""
    return str(task.train) if isinstance(task, LabelledFiles) else task


def with_way_out(error: ColumnError, path: str) -> ColumnError:
    """Return the error with how a setting `datasets` states the columns of a file that it names by its path alone."""
    table = f'{{train="{path}", text="...", label="..."}}'
    return ColumnError(f"{error.what}. In a list of files, name columns as {table} instead of the file name")


def check_labelled_files(labelled: LabelledFiles) -> None:
    """Raise ValueError, as `read_files` does, for a file that is missing, is not a table, or lacks a column.

    Reads only the first rows, and imports nothing heavy.
    """
    if is_search(labelled):
        check_search(labelled)
        metric_for("search", labelled.metric)
        return
    if labelled.metric:
        metric_named(labelled.metric)
    labelled, sources, _ = open_files(labelled, LIMITS)
    if labelled.kind not in {"span", "tokens"}:
        for source in sources.values():
            for _ in islice(read_rows(source, labelled.columns), LOOKED_AT):
                pass


def is_search(labelled: LabelledFiles) -> bool:
    """Return True for a folder in BEIR's format, or where the user says that it is one."""
    return labelled.kind == "search" or (labelled.kind == "auto" and is_collection(Path(labelled.train)))


def check_search(labelled: LabelledFiles) -> None:
    """Raise ValueError for a folder that lacks a file, and for options that only apply to files with columns."""
    folder = Path(labelled.train)
    check_collection(folder)
    file = next((option(split, str(path)) for split, path in labelled.paths.items() if split != "train"), "")
    if setting := file or labelled.column_option():
        raise ValueError(f"{setting}: {printable(folder.name)} is read in BEIR's format, which defines it. Remove it")
    _check_longest(labelled.max_tokens)


def open_files(labelled: LabelledFiles, limits: ReadLimits) -> tuple[LabelledFiles, dict[Split, Source], list[str]]:
    """Return the options with the kind that train shows if none is stated, the opened files, and a note on that kind.

    Raises ValueError for faults that show before any row is read.
    """
    kind = labelled.kind
    sources: dict[Split, Source] = {}
    for split, path in labelled.paths.items():
        places = (path, path / "data") if os.path.isdir(path) else (path.parent,)
        if any(all(os.path.exists(place / name) for name in PREPARED) for place in places):
            raise ValueError(
                f"{path} belongs to a prepared task, whose test labels are sealed. Name the labelled files that it was "
                f"prepared from, with the same options (with {option('split_seed')} too, if acclimate made the split)"
            )
        brat = kind == "auto" and os.path.isdir(path) and any(path.rglob("*.ann"))
        sources[split] = open_source(path, limits=limits, folder=kind == "tokens" or brat)
        if sources[split].ending == ".ann":
            raise ValueError(
                f"{sources[split].name}: has BRAT's annotations, and its text is in another file. Name the folder with "
                f"both, {printable(str(path.parent))}"
            )
    stems = Counter(source.stem for source in sources.values())
    sources = {
        split: replace(source, stem=f"{split}/{source.stem}") if stems[source.stem] > 1 else source
        for split, source in sources.items()
    }
    train = sources["train"]
    notes = [note for source in sources.values() for note in source.record.get("notes", ())]
    columns_only = replace(labelled, group=labelled.columns.group)  # a bond is no column
    if kind == "auto" and not train.path.is_dir() and train.holds_questions:
        kind = "span"
    elif kind == "auto" and not train.path.is_dir() and not columns_only.column_option() and train.has_question_rows:
        kind = "span"
        notes.append(f"{train.file} has questions with answers in a context, so it is read as {option('kind', kind)}.")
    elif kind == "auto" and train.path.is_dir():
        kind = "tokens"
        notes.append(f"{train.file} has BRAT's annotations, so it is read as {option('kind', kind)}.")
    elif kind == "auto" and not columns_only.column_option(numbered=True) and train.holds_tags:
        kind = "tokens"
        notes.append(f"{train.file} has one word and its tag per line, so it is read as {option('kind', kind)}.")
    labelled = replace(labelled, kind=kind)
    _check_options(labelled, sources)
    return labelled, sources, notes


def _check_options(labelled: LabelledFiles, sources: Mapping[Split, Source]) -> None:
    """Raise ValueError for options that contradict each other or the kind, or name one file twice."""
    kind = labelled.kind
    _check_longest(labelled.max_tokens)
    if kind not in get_args(Stated):
        raise ValueError(
            f"{option('kind', kind)}: unknown kind of labels{meant(kind, get_args(Stated))}. Choose one: sequence (a "
            "text has one label), multilabel (several), score (a number), tokens (a word has a tag), span (an answer "
            "in the text) or search (documents that answer a query)"
        )
    _check_columns(labelled)
    if kind == "tokens" and (labelled.pair or labelled.separator):
        setting = option("pair", labelled.pair) if labelled.pair else option("separator", labelled.separator)
        raise ValueError(f"{setting}: tasks of kind 'tokens' have only words and tags. Remove it")
    if kind == "span" and (setting := replace(labelled, group=labelled.columns.group).column_option()):
        raise ValueError(
            f"{setting}: {sources['train'].name} is read as questions in SQuAD format, which has no columns. Remove it"
        )
    if labelled.separator and kind in {"sequence", "score"}:
        raise ValueError(
            f"{option('separator', labelled.separator)}: separates several labels, but {option('kind', kind)} has one "
            f"label per row. Remove {option('separator')}, or set {option('kind', 'multilabel')}"
        )
    places: dict[Path, Split] = {}
    for split, source in sources.items():
        other_split = places.setdefault(Path(os.path.realpath(source.path)), split)
        if other_split != split:
            raise ValueError(
                f"{source.name}: given both for {other_split} and for {split}. Remove {option(split)} to have "
                f"acclimate draw {split} rows"
            )


def _check_longest(max_tokens: int) -> None:
    if max_tokens < FEWEST_TOKENS:
        raise ValueError(f"{option('max_tokens', str(max_tokens))}: too short for a text. Set at least {FEWEST_TOKENS}")


def _check_columns(labelled: LabelledFiles) -> None:
    """Raise ValueError for columns and names of labels that contradict each other, or are named twice."""
    roles: dict[str, str] = {}
    labels_columns = labelled.label if isinstance(labelled.label, tuple) else ()
    if twice := [name for name, count in Counter([*labelled.labels, *labels_columns]).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} appears twice as a label. Name each label once")
    for role, stated_columns in labelled.columns.stated().items():
        for column in [stated_columns] if isinstance(stated_columns, str) else stated_columns:
            earlier_role = roles.setdefault(column, role)
            if earlier_role != role and {earlier_role, role} not in SHARED:
                raise ValueError(
                    f"{option(role, column)}: the same column as {earlier_role}. Name two different columns"
                )
    if labelled.labels and labels_columns:
        raise ValueError(
            f"{option('labels')}: the names of the columns {', '.join(labels_columns)} are the labels. Remove "
            f"{option('labels')}"
        )
    if labelled.kind == "score" and (labelled.labels or labels_columns):
        name = "labels" if labelled.labels else "label"
        raise ValueError(
            f"{option(name)}: {option('kind', 'score')} has one number per row, in one column. Name only one column"
        )
