"""Labelled rows from files: CSV, TSV and JSON Lines (also as .gz and .zst) and Parquet, columns chosen by name.

A row that nothing can be made of is rejected, with its place and the reason; every row of a file is either accepted or
rejected. What is wrong with the file as a whole is a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core.types import SPLITS, Example, Rejected, Split
from acclimate.tasks.tables import stem, table_rows
from acclimate.tasks.task import Metric, Task
from acclimate.text.jsonlines import Values
from acclimate.text.packed import LIMITS, Limits, named
from acclimate.text.recognise import nearest, shown, unsound


@dataclass(frozen=True)
class Columns:
    """Which column holds what: of `pair`, `group` and `id` there may be none."""

    text: str = "text"
    label: str = "label"
    pair: str | None = None
    group: str | None = None
    id: str | None = None

    def stated(self) -> dict[str, str]:
        """Role -> column, for those that there are."""
        return {role: column for role, column in vars(self).items() if column is not None}


@dataclass(frozen=True, slots=True)
class Row:
    """A row whose texts are sound. label: as the file has it, looked at by those who know what it should be.

    number  of the row in its file, from 1, rejected ones counted too
    id      "" where the file gives none
    """

    number: int
    place: str
    text: str
    label: Any
    pair: str | None
    group: str
    id: str


@dataclass(frozen=True)
class FileRead:
    """What became of a file's rows: rows == accepted + len(rejected), always."""

    path: Path
    rows: int
    accepted: int
    rejected: tuple[Rejected, ...]


def read_rows(path: Path, columns: Columns, *, limits: Limits = LIMITS) -> Iterator[Row | Rejected]:
    """A Row or a Rejected for each row of the file, in its order.

    Raises ValueError, naming file, line, value and way out, where the file is not one of rows with these columns.
    """
    roles = columns.stated()
    for number, (place, values) in enumerate(table_rows(path, list(dict.fromkeys(roles.values())), limits), start=1):
        yield _row(number, place, values, roles)


def check_accepted(read: FileRead) -> None:
    """Raises ValueError where no row, or less than half of the rows, could be accepted."""
    if 2 * len(read.rejected) <= read.rows and read.accepted:
        return
    few = "none" if not read.accepted else f"only {read.accepted:,}"
    first = "; ".join(f"{rejected.place}: {rejected.reason}" for rejected in read.rejected[:3])
    raise ValueError(
        f"{named(read.path)}: {few} of {read.rows:,} rows can be used. The first of those that cannot: {first}. "
        f"Correct the file, or name other columns"
    )


def class_name(value: Any, column: str) -> tuple[str | None, str]:
    """The class that a value of a file names, or None and why it names none.

    Whole numbers and booleans become their Python spelling; 1.0 is 1, for that is how a table with gaps holds it.
    """
    if isinstance(value, str) and value.strip():
        if reason := unsound(value):
            return None, f"the label (column {column!r}) {reason}; correct it or leave the row out"
        return value, ""
    if value is None or isinstance(value, str) or (isinstance(value, float) and math.isnan(value)):
        return None, f"the label (column {column!r}) is empty: {shown(value)}; fill it in or leave the row out"
    if isinstance(value, float) and value.is_integer():
        return str(int(value)), ""
    if isinstance(value, int):
        return str(value), ""
    return None, f"the label (column {column!r}) is {shown(value)}; make it a string"


def read_labelled(
    path: Path,
    *,
    text: str,
    label: str,
    pair: str | None = None,
    group: str | None = None,
    id: str | None = None,
    limits: Limits = LIMITS,
) -> list[Example]:
    """The file's examples of one class each, in its order. `text`, `label`, `pair`, `group` and `id` name columns.

    Labels that are integers or booleans become their Python spelling ("1", "True"). Without an id column, an example's
    id is `<file stem>:<row>`, rows counted from 1. Empty lines are skipped; an empty pair or group is none.

    Raises ValueError where the file or any row of it cannot be used; `own.read_own` rejects and counts such rows.
    """
    examples = []
    for row in read_rows(path, Columns(text, label, pair, group, id), limits=limits):
        if isinstance(row, Rejected):
            raise ValueError(f"{row.place}: {row.reason}")
        name, reason = class_name(row.label, label)
        if name is None:
            raise ValueError(f"{row.place}: {reason}")
        examples.append(Example(row.id or f"{stem(path)}:{row.number}", row.text, name, row.pair, row.group))
    return examples


def delimited_task(
    name: str,
    paths: Mapping[Split, Path],
    *,
    text: str,
    label: str,
    metric: Metric,
    max_tokens: int,
    pair: str | None = None,
    group: str | None = None,
    id: str | None = None,
) -> Task:
    """A classification task over one file a split, in which every row is sound; its labels are those of train, sorted.

    The paths are made absolute here, so the path which `load` hands to the task is not looked at.
    """
    missing = [split for split in SPLITS if split not in paths]
    if missing:
        raise ValueError(f"{name}: no file for {', '.join(missing)}; name one for each of {', '.join(SPLITS)}")
    files = {split: Path(paths[split]).absolute() for split in SPLITS}
    read = partial(_read_split, files, {"text": text, "label": label, "pair": pair, "group": group, "id": id})
    labels = sorted({str(example.label) for example in read(files["train"], "train")})
    source = ", ".join(f"{split}: {file}" for split, file in files.items())
    return Task(name, "sequence", read, tuple(labels), metric, max_tokens, source=source)


def _read_split(files: Mapping[Split, Path], columns: Mapping[str, Any], path: Path, split: Split) -> list[Example]:
    return read_labelled(files[split], **columns)


def _row(number: int, place: str, values: Values, roles: Mapping[str, str]) -> Row | Rejected:
    if isinstance(values, str):
        return Rejected(place, values)
    texts: dict[str, str] = {}
    for role, column in roles.items():
        if column not in values and role in {"text", "label", "id"}:
            return Rejected(place, f"no column {column!r}; the nearest is {shown(nearest(column, values))}")
        if role != "label":
            texts[role], reason = _text(role, column, values.get(column))
            if reason:
                return Rejected(place, reason)
    pair = texts.get("pair") or None
    return Row(number, place, texts["text"], values[roles["label"]], pair, texts.get("group", ""), texts.get("id", ""))


def _text(role: str, column: str, value: Any) -> tuple[str, str]:
    """The value as text ("" for an empty pair or group), or why it is none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        if role in {"pair", "group"}:
            return "", ""
        return "", f"the {role} (column {column!r}) is empty: {shown(value)}; fill it in or leave the row out"
    if isinstance(value, int) and role in {"group", "id"}:
        return str(value), ""
    if not isinstance(value, str):
        words = " or, if it is words with a tag each, state --kind tokens" if isinstance(value, list) else ""
        return "", f"the {role} (column {column!r}) is {shown(value)}; make it a string{words}"
    if reason := unsound(value):
        return "", f"the {role} (column {column!r}) {reason}; correct it or leave the row out"
    return value, ""
