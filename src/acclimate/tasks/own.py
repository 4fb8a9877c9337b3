"""A user's own labelled files, columns told by name: read, checked, and split where dev or test is missing.

Everything that can be wrong with them is said here, before anything trains: what concerns a row is a counted rejection,
what concerns a file or the labels is one ValueError with file, line, value and the way out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from acclimate.core.types import SPLITS, Example, Label, Rejected, Split
from acclimate.tasks.labels import (
    Stated,
    check_seen,
    check_separator,
    check_train,
    kind_of,
    label_from,
    one_spelling,
    respelt,
    told_of_numbers,
    told_of_singles,
)
from acclimate.tasks.mentions import holds_mentions, mention_rows
from acclimate.tasks.metrics import default_metric, metric_named
from acclimate.tasks.readers import Columns, FileRead, Row, check_accepted, read_rows
from acclimate.tasks.splitting import split_off
from acclimate.tasks.tables import stem
from acclimate.tasks.tagged import apart, tagged_rows, tags_metric, told_of_tags
from acclimate.tasks.task import Kind, Metric, Task, classes_in
from acclimate.text.packed import LIMITS, Limits, check_file, named
from acclimate.text.recognise import nearest, printable, shown

FEWEST_TOKENS = 8


@dataclass(frozen=True)
class Own:
    """A user's labelled files. `text`, `label`, `pair`, `group` and `id` name columns.

    kind         "auto": told by what the label column holds (tasks/labels.py)
    separator    what stands between several labels in one field; "": none. Lists in JSON and Parquet need none
    fold_labels  labels that differ by case or spaces only are one
    metric       "": the default of the kind
    seed         of the split that is made where dev or test is missing
    """

    train: Path
    dev: Path | None = None
    test: Path | None = None
    text: str = "text"
    label: str = "label"
    pair: str | None = None
    group: str | None = None
    id: str | None = None
    kind: Stated = "auto"
    separator: str = ""
    fold_labels: bool = False
    metric: str = ""
    max_tokens: int = 256
    seed: int = 0


@dataclass(frozen=True)
class Labelled:
    """What was read: the examples of each split, what became of each file's rows, and what a reader should know.

    source, untaught  as in tasks.task.Task; a source of "" is the files
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    splits: Mapping[Split, tuple[Example, ...]]
    files: tuple[FileRead, ...]
    notes: tuple[str, ...]
    source: str = ""
    untaught: tuple[str, ...] = ()

    def task(self) -> Task:
        """The task over these examples, for tasks.prepared.prepare; it looks at no file any more."""
        source = self.source or ", ".join(named(read.path) for read in self.files)
        read = partial(_split_of, dict(self.splits))
        stated: dict[str, Any] = {"source": source, "untaught": self.untaught}
        return Task(self.name, self.kind, read, self.labels, self.metric, self.max_tokens, **stated)


@dataclass(frozen=True)
class _File:
    """A file's accepted rows with their labels, and what became of all of them."""

    path: Path
    rows: Sequence[Row]
    labels: Sequence[Label]
    read: FileRead

    def placed(self) -> list[tuple[str, Label]]:
        return [(row.place, label) for row, label in zip(self.rows, self.labels, strict=True)]


def read_own(stated: Own, *, limits: Limits = LIMITS) -> Labelled:
    """Read, check and, where dev or test is missing, split the user's files.

    Raises ValueError for whatever is wrong with a file as a whole, with its labels, or with what is stated.
    """
    paths = _paths(stated)
    _check_stated(stated, paths)
    columns = Columns(stated.text, stated.label, stated.pair, stated.group, stated.id)
    reading = tagged_rows if stated.kind == "tokens" else read_rows
    raw: dict[Split, list[Row | Rejected]] = {}
    told: list[str] = []
    for split, path in paths.items():
        if stated.kind == "tokens" and holds_mentions(path):
            raw[split], told_of_file = mention_rows(path)
            told += told_of_file
        else:
            raw[split] = list(reading(path, columns, limits=limits))
    values = [row.label for row in raw["train"] if isinstance(row, Row)]
    column = f"{named(paths['train'])}: the column {stated.label!r}"
    kind = kind_of(values, stated=stated.kind, separator=stated.separator, where=column)
    if kind == "tokens":
        return _read_tagged(stated, paths, raw, told)
    metric = _metric(stated.metric, kind)
    check_separator(values, kind, separator=stated.separator, where=column)
    files = {split: _labelled(paths[split], rows, kind, stated) for split, rows in raw.items()}
    spelling = one_spelling([file.placed() for file in files.values()], fold=stated.fold_labels)
    files = {
        split: replace(file, labels=[respelt(label, spelling, kind) for label in file.labels])
        for split, file in files.items()
    }
    train = files["train"].placed()
    notes = [*_notes_on_rows(files), *_note_on_spelling(spelling)]
    notes += told_of_numbers(train, stated=stated.kind, where=column) if kind == "sequence" else []
    check_train(train, kind, where=column)
    for split in ("dev", "test"):
        if split in files:
            check_seen(train, files[split].placed(), where=named(paths["train"]))
    missing = tuple(split for split in SPLITS if split not in paths)
    notes += told_of_singles(train, missing)
    return _labelled_task(stated, files, kind, metric, notes)


def _read_tagged(
    stated: Own, paths: Mapping[Split, Path], raw: Mapping[Split, Sequence[Row | Rejected]], notes: list[str]
) -> Labelled:
    """The same for a tag a word: no class need stand on both sides of a split, and documents stay whole."""
    files = {}
    for split, rows in raw.items():
        own, told = apart(paths[split], rows, split, divided=split == "train" and len(paths) < len(SPLITS))
        files[split] = _labelled(paths[split], own, "tokens", stated)
        notes += told
    spelling = one_spelling([file.placed() for file in files.values()], fold=stated.fold_labels, of="words")
    files = {
        split: replace(file, labels=[respelt(label, spelling, "tokens") for label in file.labels])
        for split, file in files.items()
    }
    where, train = named(paths["train"]), files["train"].placed()
    check_train(train, "tokens", where=where)
    for split in ("dev", "test"):
        if split in files:
            check_seen(train, files[split].placed(), where=where, of="words")
    metric = tags_metric(stated.metric, {tag for _, label in train for tag in classes_in(label)}, where=where)
    notes = [*_notes_on_rows(files), *notes, *_note_on_spelling(spelling)]
    notes += told_of_tags(files["train"].labels, metric, where=where)
    return _labelled_task(stated, files, "tokens", metric, notes)


def _labelled_task(stated: Own, files: Mapping[Split, _File], kind: Kind, metric: Metric, notes: list[str]) -> Labelled:
    """The files' examples, split where dev or test is missing, and the labels of all of train's."""
    splits = _examples(files)
    missing = tuple(split for split in SPLITS if split not in files)
    train = files["train"]
    if missing:
        made, note = split_off(splits["train"], missing, kind=kind, seed=stated.seed, where=named(train.path))
        splits |= made
        notes.append(note)
    return Labelled(
        name=printable(train.path.name.split(".")[0]),
        kind=kind,
        labels=tuple(sorted({name for label in train.labels for name in classes_in(label)})),
        metric=metric,
        max_tokens=stated.max_tokens,
        splits={split: tuple(splits[split]) for split in SPLITS},
        files=tuple(file.read for file in files.values()),
        notes=tuple(notes),
    )


def _split_of(splits: Mapping[Split, tuple[Example, ...]], path: Path, split: Split) -> list[Example]:
    return list(splits[split])


def _paths(stated: Own) -> dict[Split, Path]:
    given: dict[Split, Path | None] = {"train": stated.train, "dev": stated.dev, "test": stated.test}
    return {split: Path(path) for split, path in given.items() if path is not None}


def _check_stated(stated: Own, paths: Mapping[Split, Path]) -> None:
    """What can be told before any file is read."""
    if stated.max_tokens < FEWEST_TOKENS:
        raise ValueError(f"max_tokens={stated.max_tokens}: too short for a text. Give at least {FEWEST_TOKENS}")
    roles: dict[str, str] = {}
    for role, column in Columns(stated.text, stated.label, stated.pair, stated.group, stated.id).stated().items():
        other = roles.setdefault(column, role)
        if other != role and {other, role} != {"group", "id"}:
            raise ValueError(f"{role}={column!r}: the same column as {other}. Each must name a column of its own")
    if stated.kind not in get_args(Stated):
        raise ValueError(
            f"kind={stated.kind!r}: no kind of labels; the nearest is {nearest(stated.kind, get_args(Stated))!r} of "
            f"{', '.join(get_args(Stated))}. State one of these"
        )
    if stated.kind == "tokens" and (stated.pair or stated.separator):
        what = f"pair={stated.pair!r}" if stated.pair else f"separator={stated.separator!r}"
        raise ValueError(f"{what}: a task of kind 'tokens' has lists of words and tags. Leave it out")
    if stated.separator and stated.kind in {"sequence", "score"}:
        raise ValueError(
            f"separator={stated.separator!r}: stands between several labels, but kind={stated.kind!r} has one a row. "
            f"Leave the separator out, or state kind='multilabel'"
        )
    if stated.metric:
        metric_named(stated.metric)
    places: dict[Path, Split] = {}
    for split, path in paths.items():
        if not (stated.kind == "tokens" and path.is_dir()):
            check_file(path)
        other = places.setdefault(Path(os.path.realpath(path)), split)
        if other != split:
            raise ValueError(f"{named(path)}: given for {other} and for {split}. Leave --{split} out: we then split")


def _metric(name: str, kind: Kind) -> Metric:
    if not name:
        return metric_named(default_metric(kind))
    metric = metric_named(name)
    if kind not in metric.kinds:
        raise ValueError(
            f"metric={name!r}: judges {' and '.join(metric.kinds)}, but the labels make this a task of kind {kind!r}. "
            f"Leave it out (then {default_metric(kind)}), or state another kind"
        )
    return metric


def _labelled(path: Path, rows: Sequence[Row | Rejected], kind: Kind, stated: Own) -> _File:
    """The rows that bear a label of the kind; raises ValueError where too few do."""
    accepted: list[Row] = []
    labels: list[Label] = []
    rejected: list[Rejected] = []
    for row in rows:
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        label, reason = label_from(row.label, kind, column=stated.label, separator=stated.separator)
        if label is None:
            rejected.append(Rejected(row.place, reason))
        else:
            accepted.append(row)
            labels.append(label)
    read = FileRead(path, len(rows), len(accepted), tuple(rejected))
    check_accepted(read)
    return _File(path, accepted, labels, read)


def _examples(files: Mapping[Split, _File]) -> dict[Split, list[Example]]:
    """The examples of each file, ids unique over all of them, no group in two files."""
    stems = Counter(stem(file.path) for file in files.values())
    place_of_id: dict[str, str] = {}
    home_of_group: dict[str, tuple[Split, str]] = {}
    splits: dict[Split, list[Example]] = {split: [] for split in files}
    for split, file in files.items():
        name = stem(file.path) if stems[stem(file.path)] == 1 else f"{split}/{stem(file.path)}"
        for row, label in zip(file.rows, file.labels, strict=True):
            id = row.id or f"{name}:{row.number}"
            if id in place_of_id:
                raise ValueError(
                    f"{row.place}: the id {shown(id)} already stands at {place_of_id[id]}. Rows are told apart by id: "
                    f"correct it, take the copy out, or name no id column"
                )
            place_of_id[id] = row.place
            home, place = home_of_group.setdefault(row.group, (split, row.place))
            if row.group and home != split:
                raise ValueError(
                    f"{row.place}: its group {shown(row.group)} also stands in {home} ({place}), which would let the "
                    f"model see what it is tested on. Move the whole group to one file"
                )
            splits[split].append(Example(id, row.text, label, row.pair, row.group))
    return splits


def _notes_on_rows(files: Mapping[Split, _File]) -> list[str]:
    notes = []
    for file in files.values():
        if rejected := file.read.rejected:
            notes.append(
                f"{named(file.path)}: {len(rejected):,} of {file.read.rows:,} rows were rejected; the first is "
                f"{rejected[0].place}: {rejected[0].reason}."
            )
        if bare := sum(label == () for label in file.labels):
            notes.append(f"{named(file.path)}: {bare:,} rows bear no label.")
    return notes


def _note_on_spelling(spelling: Mapping[str, str]) -> list[str]:
    folded = [f"{shown(name)} as {shown(kept)}" for name, kept in sorted(spelling.items()) if name != kept]
    listed = ", ".join(folded[:10]) + (", ..." if len(folded) > 10 else "")
    return [f"Labels that differ by case or spaces only were read as one: {listed}."] if folded else []
