"""Labelled rows from CSV, TSV and JSON Lines (also as .gz and .zst) and Parquet files, with columns chosen by name.

Every row of a file is either accepted, or rejected with its place and the reason. A fault of the file as a whole raises
ValueError. Rows are read one at a time.

CSV and TSV follow RFC 4180: a field that contains the delimiter, a quote or a line end is quoted, and a quote within it
is doubled. A TSV that cannot be read this way, like those of most benchmarks, has quotes that are ordinary characters.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core.types import SPLITS, Example, Rejected, Split
from acclimate.tasks.tags import scheme_of
from acclimate.tasks.task import Metric, Task
from acclimate.text.documents import parquet_columns, parquet_rows
from acclimate.text.untrusted import (
    LIMITS,
    PACKINGS,
    ReadLimits,
    RowValues,
    check_file,
    json_lines,
    meant,
    named,
    printable,
    shown,
    text_lines,
    unpacked_name,
    unsound,
)

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
TableRows = Iterator[tuple[str, RowValues]]  # place ("train.csv:118") and values of each row


@dataclass(frozen=True)
class Columns:
    """The column of each role; `pair`, `group` and `id` are optional."""

    text: str = "text"
    label: str = "label"
    pair: str | None = None
    group: str | None = None
    id: str | None = None

    def stated(self) -> dict[str, str]:
        """Return role -> column for the columns that are stated."""
        return {role: column for role, column in vars(self).items() if column is not None}


@dataclass(frozen=True, slots=True)
class Row:
    """A row with usable texts.

    number  number of the row in its file, from 1, rejected rows included
    label   the unchecked value of the label's column
    id      "" if the file has none
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
    """How many rows of a file were accepted, and which were rejected; rows == accepted + len(rejected)."""

    path: Path
    rows: int
    accepted: int
    rejected: tuple[Rejected, ...]


def read_rows(path: Path, columns: Columns, *, limits: ReadLimits = LIMITS) -> Iterator[Row | Rejected]:
    """Yield a Row or a Rejected for each row of the file, in order.

    Raises ValueError, with file, line, value and the way out, unless the file has rows with these columns.
    """
    roles = columns.stated()
    for number, (place, values) in enumerate(table_rows(path, list(dict.fromkeys(roles.values())), limits), start=1):
        yield row_of(number, place, values, roles)


def row_of(number: int, place: str, values: RowValues, roles: Mapping[str, str]) -> Row | Rejected:
    """Return the row if its texts can be used. values: of `table_rows`; roles: role -> column, with text and label"""
    if isinstance(values, str):
        return Rejected(place, values)
    texts: dict[str, str] = {}
    for role, column in roles.items():
        if column not in values and role in {"text", "label", "id"}:
            listed = ", ".join(map(shown, [*values][:20]))
            return Rejected(place, f"no column {column!r}{meant(column, values)}; the row has [{listed}]")
        if role != "label":
            texts[role], reason = _text(role, column, values.get(column))
            if reason:
                return Rejected(place, reason)
    pair = texts.get("pair") or None
    return Row(number, place, texts["text"], values[roles["label"]], pair, texts.get("group", ""), texts.get("id", ""))


def _text(role: str, column: str, value: Any) -> tuple[str, str]:
    """Return (text, "") for a usable value, where an empty pair or group is ""; else ("", the reason why not)."""
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


def table_rows(path: Path, columns: Sequence[str], limits: ReadLimits) -> TableRows:
    """Yield the file's rows with at least the values of these columns. Empty lines are skipped.

    Raises ValueError if the ending is unknown, or if the file has no rows, lacks a column or cannot be read. A JSON
    object may lack a column as long as another has it.
    """
    check_file(path)
    plain = Path(unpacked_name(path))
    readers: dict[str, Callable[[Path, Sequence[str], ReadLimits], TableRows]] = {
        ".csv": partial(_delimited_rows, delimiter=","),
        ".tsv": partial(_delimited_rows, delimiter="\t"),
        ".jsonl": _json_rows,
        ".parquet": _parquet_rows,
    }
    reader = readers.get(plain.suffix)
    if reader is None or (plain.suffix == ".parquet" and path.suffix in PACKINGS):
        raise ValueError(
            f"{named(path)}: the ending does not tell a known format of rows; known are .csv, .tsv and .jsonl, each "
            f"also with .gz or .zst after it, and .parquet. Rename the file, or convert it to one of these; for a "
            f"word and its tag a line (.conll, .bio, .txt, ...), BRAT, PubTator or BioC state --kind tokens; questions "
            f"in SQuAD's form are read from .json with --kind span, or none"
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{named(path)}: is empty (0 bytes). Write it anew or name another file")
    rows = reader(path, columns, limits)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{named(path)}: holds no rows. Write it anew or name another file")
    yield first
    yield from rows


def _delimited_rows(path: Path, columns: Sequence[str], limits: ReadLimits, *, delimiter: str) -> TableRows:
    csv.field_size_limit(limits.line)  # the default of 128 KiB is less than a full paper
    texts = (text for _, text in text_lines(path, limits))
    quoted = delimiter != "\t" or _well_quoted(path, limits)
    reader = partial(csv.reader, texts, delimiter=delimiter, strict=True)
    records = _records(path, reader() if quoted else reader(quoting=csv.QUOTE_NONE))
    number, header = next(records, (0, []))
    if not header:
        raise ValueError(f"{named(path)}: is empty: it has no header line. Write it anew or name another file")
    where = f"{named(path)}:{number}"
    _check_delimiter(where, header, columns, delimiter)
    twice = [name for name, count in Counter(header).items() if count > 1 and name]
    if not any(header) or twice:
        raise ValueError(f"{where}: the first line must name each column once; it is {shown(header)}. Correct it")
    for column in columns:
        if column not in header:
            tagged = header[0].startswith("-DOCSTART-") or (len(header) == 2 and scheme_of({header[1], "O", "B"}))
            words = ". If a line is a word and its tag, state --kind tokens" if tagged else ""
            raise no_column(where, column, header, f"; the first line must hold the names{words}")
    places = {column: header.index(column) for column in columns}
    for number, fields in records:
        if len(fields) == len(header):
            yield f"{printable(path.name)}:{number}", {column: fields[place] for column, place in places.items()}
        else:
            yield (
                f"{printable(path.name)}:{number}",
                f"{len(fields)} fields, but the header has {len(header)}; quote a field that holds {delimiter!r} or a "
                f"line end",
            )


def _check_delimiter(where: str, header: Sequence[str], columns: Sequence[str], delimiter: str) -> None:
    """Raise ValueError if the header makes sense with another delimiter, such as the semicolon of European Excel."""
    if header and header[0].strip().lower().startswith("sep="):
        raise ValueError(
            f"{where}: {shown(delimiter.join(header))} is a line for Excel, which other programs read as data. "
            f"Save the file as 'CSV UTF-8 (comma delimited)', or remove the line and use commas"
        )
    for candidate, ending in ((";", ""), ("\t", ".tsv"), (",", ".csv"), ("|", "")):
        if candidate != delimiter and len(header) == 1 and len(header[0].split(candidate)) > 1:
            names = {name.strip(' "') for name in header[0].split(candidate)}
            if set(columns) != {header[0]} and names & set(columns):
                way_out = f"Give the file a name that ends in {ending}" if ending else "Save it with commas"
                raise ValueError(
                    f"{where}: the fields stand between {candidate!r}, where {delimiter!r} is expected: "
                    f"{shown(header[0])}. {way_out}"
                )


def _well_quoted(path: Path, limits: ReadLimits) -> bool:
    """Return True if every quote in the TSV file is where RFC 4180 allows it. Reads the whole file."""
    texts = (text for _, text in text_lines(path, limits))
    try:
        for _ in csv.reader(texts, delimiter="\t", strict=True):
            pass
    except csv.Error:
        return False
    return True


def _records(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of each record of the csv reader, without empty lines."""
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error) or "field larger" in str(error):
                fault = f"a quote that opens in the record which begins here is never closed ({error})"
            else:
                fault = printable(str(error))
            raise ValueError(
                f"{named(path)}:{number}: {fault}. A field that holds a quote is quoted as a whole, with the quotes in "
                f"it doubled; correct the line"
            ) from error
        if fields:
            yield number, fields


def _json_rows(path: Path, columns: Sequence[str], limits: ReadLimits) -> TableRows:
    missing, keys = set(columns), dict[str, None]()
    for number, values in json_lines(path, limits):
        if isinstance(values, Mapping) and (missing or len(keys) < 20):
            missing -= values.keys()
            keys |= dict.fromkeys(values)
        yield f"{printable(path.name)}:{number}", values
    if missing and keys:
        raise no_column(named(path), next(column for column in columns if column in missing), list(keys))


def _parquet_rows(path: Path, columns: Sequence[str], limits: ReadLimits) -> TableRows:
    present = parquet_columns(path, limits)
    for column in columns:
        if present.count(column) > 1:
            raise ValueError(f"{named(path)}: {present.count(column)} columns are called {column!r}. Rename one")
        if column not in present:
            raise no_column(named(path), column, present)
    for number, row in enumerate(parquet_rows(path, columns, limits), start=1):
        yield f"{printable(path.name)}, row {number}", row


class ColumnError(ValueError):
    """A file lacks a requested column."""


def no_column(place: str, column: str, present: Sequence[str], hint: str = "") -> ColumnError:
    """Return the error for a missing column; its message names the nearest column."""
    listed = ", ".join(map(shown, present[:20])) + (", ..." if len(present) > 20 else "")
    return ColumnError(
        f"{place}: no column {column!r}{meant(column, present)}; its columns are [{listed}]. Name the right one{hint}"
    )


def stem(path: Path) -> str:
    """Return the file's name without its ending and packing."""
    return Path(unpacked_name(path)).stem


def check_accepted(read: FileRead) -> None:
    """Raise ValueError if no row, or less than half of the rows, was accepted."""
    if 2 * len(read.rejected) <= read.rows and read.accepted:
        return
    few = "none" if not read.accepted else f"only {read.accepted:,}"
    first = "; ".join(f"{rejected.place}: {rejected.reason}" for rejected in read.rejected[:3])
    raise ValueError(
        f"{named(read.path)}: {few} of {read.rows:,} rows can be used. The first of those that cannot: {first}. "
        f"Correct the file, or name other columns"
    )


def class_name(value: Any, column: str) -> tuple[str | None, str]:
    """Return (class, "") for a label's value, or (None, the reason why it is not a class).

    Whole numbers and booleans get their Python spelling. 1.0 becomes 1, because tables with gaps store integers so.
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
    limits: ReadLimits = LIMITS,
) -> list[Example]:
    """Return the file's examples, one class each, in order. `text`, `label`, `pair`, `group` and `id` name columns.

    Labels that are integers or booleans get their Python spelling ("1", "True"). Without an id column, an example's id
    is `<file stem>:<row>`, where rows count from 1. Empty lines are skipped; an empty pair or group is left out.

    Raises ValueError if the file or any row cannot be used; tasks/labelled.py rejects and counts such rows instead.
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
    """Return a classification task with one file for each split, whose labels are the sorted labels of train.

    Every row must be usable. The task keeps absolute paths, and ignores the path that `load` gets.
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
