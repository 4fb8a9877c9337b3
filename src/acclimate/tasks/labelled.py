"""A user's labelled files as they are stated, and what was read of them, whatever kind of task they make.

What concerns a row is a counted rejection; what concerns a file, or what was stated, is one ValueError with file, value
and the way out, before anything trains.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from acclimate.core.types import Example, Split
from acclimate.tasks.labels import Stated
from acclimate.tasks.metrics import default_metric, metric_named
from acclimate.tasks.readers import Columns, FileRead
from acclimate.tasks.task import Kind, Metric, Task, drawn
from acclimate.text.packed import check_file, named
from acclimate.text.recognise import nearest, shown

FEWEST_TOKENS = 8


@dataclass(frozen=True)
class Own:
    """A user's labelled files. `text`, `label`, `pair`, `group` and `id` name columns.

    kind         "auto": told by what the label column holds (tasks/labels.py), or by the ending: .json is "span"
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

    @property
    def columns(self) -> Columns:
        return Columns(self.text, self.label, self.pair, self.group, self.id)

    @property
    def paths(self) -> dict[Split, Path]:
        """Those that are given, train first."""
        given: dict[Split, Path | None] = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: Path(path) for split, path in given.items() if path is not None}


@dataclass(frozen=True)
class Labelled:
    """What was read: the examples of each split, what became of each file's rows, and what a reader should know.

    cautions          of the notes, those without which a score misleads
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
    cautions: tuple[str, ...] = ()
    source: str = ""
    untaught: tuple[str, ...] = ()

    def task(self) -> Task:
        """The task over these examples, for tasks.prepared.prepare; it looks at no file any more."""
        source = self.source or ", ".join(named(read.path) for read in self.files)
        read = partial(_split_of, dict(self.splits))
        stated: dict[str, Any] = {"source": source, "untaught": self.untaught}
        return Task(self.name, self.kind, read, self.labels, self.metric, self.max_tokens, **stated)


def called(given: str | Own) -> str:
    """A dataset or file as it was given."""
    return str(given.train) if isinstance(given, Own) else given


def check_stated(stated: Own, kind: Stated) -> None:
    """What can be told before any file is read. kind: as stated, or as the ending tells it."""
    if stated.max_tokens < FEWEST_TOKENS:
        raise ValueError(f"max_tokens={stated.max_tokens}: too short for a text. Give at least {FEWEST_TOKENS}")
    if kind not in get_args(Stated):
        raise ValueError(
            f"kind={kind!r}: no kind of labels; the nearest is {nearest(kind, get_args(Stated))!r} of "
            f"{', '.join(get_args(Stated))}. State one of these"
        )
    roles: dict[str, str] = {}
    for role, column in stated.columns.stated().items():
        other = roles.setdefault(column, role)
        if other != role and {other, role} != {"group", "id"}:
            raise ValueError(f"{role}={column!r}: the same column as {other}. Each must name a column of its own")
    if kind == "tokens" and (stated.pair or stated.separator):
        what = f"pair={stated.pair!r}" if stated.pair else f"separator={stated.separator!r}"
        raise ValueError(f"{what}: a task of kind 'tokens' has lists of words and tags. Leave it out")
    if kind == "span" and (told := _for_columns(stated)):
        raise ValueError(
            f"{told}: {named(stated.train)} is read as questions in SQuAD's form, which have no columns. Leave it out"
        )
    if stated.separator and kind in {"sequence", "score"}:
        raise ValueError(
            f"separator={stated.separator!r}: stands between several labels, but kind={kind!r} has one a row. "
            f"Leave the separator out, or state kind='multilabel'"
        )
    if stated.metric:
        metric_named(stated.metric)
    places: dict[Path, Split] = {}
    for split, path in stated.paths.items():
        if not (kind == "tokens" and path.is_dir()):
            check_file(path)
        other_split = places.setdefault(Path(os.path.realpath(path)), split)
        if other_split != split:
            raise ValueError(
                f"{named(path)}: given for {other_split} and for {split}. Leave --{split} out: we then split"
            )


def metric_of(name: str, kind: Kind) -> Metric:
    """The metric of this name, "" for the default. Raises ValueError where it does not judge tasks of this kind."""
    if not name:
        return metric_named(default_metric(kind))
    metric = metric_named(name)
    if kind not in metric.kinds:
        raise ValueError(
            f"metric={name!r}: judges {' and '.join(metric.kinds)}, but the labels make this a task of kind {kind!r}. "
            f"Leave it out (then {default_metric(kind)}), or state another kind"
        )
    return metric


def check_apart(files: Mapping[Split, Iterable[tuple[str, Example]]], *, or_else: str = "") -> None:
    """Raises ValueError where an id stands twice, or a group in two files. files: each example with its place.

    or_else: another way out of an id that stands twice, such as ", or name no id column"
    """
    place_of_id: dict[str, str] = {}
    home_of_group: dict[str, tuple[Split, str]] = {}
    for split, rows in files.items():
        for place, example in rows:
            if example.id in place_of_id:
                raise ValueError(
                    f"{place}: the id {shown(example.id)} already stands at {place_of_id[example.id]}. Rows are told "
                    f"apart by id: correct it{',' if or_else else ' or'} take the copy out{or_else}"
                )
            place_of_id[example.id] = place
            home, first = home_of_group.setdefault(example.group, (split, place))
            if example.group and home != split:
                raise ValueError(
                    f"{place}: its group {shown(example.group)} also stands in {home} ({first}), which would let the "
                    f"model see what it is tested on. Move the whole group to one file"
                )


def fewer(labelled: Labelled, rows: int, seed: int) -> Labelled:
    """The same with so many training rows, drawn; of answers none is a class that must be among them."""
    train = labelled.splits["train"]
    if not rows or rows >= len(train):
        return labelled
    bare = [replace(row, label=()) for row in train] if labelled.kind == "span" else train
    kept = {row.id for row in drawn(bare, rows, seed)}
    chosen = tuple(row for row in train if row.id in kept)
    note = f"{len(chosen):,} of the {len(train):,} rows of train were drawn, seed {seed}."
    return replace(labelled, splits={**labelled.splits, "train": chosen}, notes=(*labelled.notes, note))


def told_of_rejected(read: FileRead) -> list[str]:
    """A note on the rows that were rejected, where any were."""
    if not read.rejected:
        return []
    first = read.rejected[0]
    return [
        f"{named(read.path)}: {len(read.rejected):,} of {read.rows:,} rows were rejected; the first is {first.place}: "
        f"{first.reason}."
    ]


def _for_columns(stated: Own) -> str:
    """The first option that is for files with columns and labels, as it was stated; "" where none was."""
    usual = Own(train=stated.train)
    names = ("text", "label", "pair", "group", "id", "separator", "fold_labels")
    return next((f"{name}={own!r}" for name in names if (own := getattr(stated, name)) != getattr(usual, name)), "")


def _split_of(splits: Mapping[Split, tuple[Example, ...]], path: Path, split: Split) -> list[Example]:
    return list(splits[split])
