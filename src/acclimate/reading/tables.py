"""Labelled rows from CSV, TSV, JSON Lines and JSON (packed or not), Parquet and Arrow files, with columns chosen by
name. A file's content tells its format, and its ending only where the content leaves it open.

Every row of a file is either accepted, or rejected with its place and the reason. A fault of the file as a whole raises
ValueError. Rows are read one at a time.

CSV and TSV follow RFC 4180: a field that contains the delimiter, a quote or a line end is quoted, and a quote within it
is doubled. A TSV that cannot be read this way, like those of most benchmarks, has quotes that are ordinary characters.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import meant, shown
from acclimate.core.types import Rejected
from acclimate.reading.formats.excel import workbook_rows
from acclimate.reading.formats.json_tables import table_of
from acclimate.reading.source import DOCUMENT, WORD_LINES, WORKBOOK, Source
from acclimate.tasks.tags import scheme_of
from acclimate.text.documents import arrow_columns, arrow_rows, parquet_columns, parquet_rows
from acclimate.text.untrusted import ReadLimits, RowValues, printable, sound, unsound

CLEANED = "rows cleaned of control characters"  # of what `mended` counts
REPEATED = "repeated rows that were removed"
UNACCEPTED = "the `answer` is 'reject' or 'ignore', as Prodigy writes it"
REPEATED_HEADER = "repeats the header, as in files that were joined; remove the line"
TableRows = Iterator[tuple[str, RowValues]]  # place ("train.csv:118") and values of each row


@dataclass(frozen=True)
class Columns:
    """The column of each role; `pair`, `group` and `id` are optional. label: a column, or one of 0 and 1 per label."""

    text: str = "text"
    label: str | tuple[str, ...] = "label"
    pair: str | None = None
    group: str | None = None
    id: str | None = None

    def stated(self) -> dict[str, Any]:
        """Return role -> column for the columns that are stated; of the label it may be a tuple."""
        return {role: column for role, column in vars(self).items() if column is not None}

    def names(self) -> list[str]:
        """Return the names of all stated columns, each once."""
        columns = self.stated().values()
        return list(dict.fromkeys(name for names in columns for name in ([names] if isinstance(names, str) else names)))


@dataclass(frozen=True, slots=True)
class Row:
    """A row with usable texts.

    number  number of the row in its file, from 1, rejected rows included
    label   the unchecked value of the label's column
    id      "" if the file has none
    spans   of a question: where its answers are in the text, in characters
    """

    number: int
    place: str
    text: str
    label: Any
    pair: str | None
    group: str
    id: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class FileRead:
    """How many rows of a file were accepted, and which were rejected; rows == accepted + len(rejected)."""

    path: Path
    rows: int
    accepted: int
    rejected: tuple[Rejected, ...]


def read_rows(
    source: Source, columns: Columns, *, mended: Counter[str] | None = None, notes: list[str] | None = None
) -> Iterator[Row | Rejected]:
    """Yield a Row or a Rejected for each row of the file, in order.

    mended  counts what was mended: characters without a meaning are removed from texts, and a row that is there twice,
            with its id, is left out the second time. None: nothing is mended
    notes   what is said of the form of the file is added here

    Raises ValueError, with file, line, value and the way out, unless the file has rows with these columns. The error
    for a missing column says with which option or keyword it is named.
    """
    roles = columns.stated()
    first_rows: dict[str, Row] = {}
    with named_roles(columns):
        for number, (place, values) in enumerate(table_rows(source, columns.names(), notes=notes), start=1):
            answer = "" if isinstance(values, str) or "answer" in columns.names() else values.get("answer")
            if answer in ("reject", "ignore"):
                yield Rejected(place, UNACCEPTED)
                continue
            row = row_of(number, place, values if mended is None else _mended(values, mended), roles)
            if mended is not None and isinstance(row, Row) and row.id:
                first = first_rows.setdefault(row.id, row)
                if first is not row and first == replace(row, number=first.number, place=first.place):
                    mended[REPEATED] += 1
                    continue
            yield row


@contextmanager
def named_roles(columns: Columns) -> Iterator[None]:
    """Within the block, the error for a missing column says with which option or keyword it is named."""
    try:
        yield
    except ColumnError as error:
        roles = columns.stated().items()
        role = next(role for role, names in roles if error.column in ([names] if isinstance(names, str) else names))
        raise ColumnError(error.what, error.column, option_of(role)) from None


def _mended(values: RowValues, mended: Counter[str]) -> RowValues:
    """Return the row without control characters and half surrogates in its texts."""
    if isinstance(values, str):
        return values
    better = {name: sound(value) if isinstance(value, str) else value for name, value in values.items()}
    mended[CLEANED] += better != values
    return better


def row_of(number: int, place: str, values: RowValues, roles: Mapping[str, Any]) -> Row | Rejected:
    """Return the row if its texts can be used. values: of `table_rows`; roles: role -> column, with text and label.

    A label of several columns is a mapping from column to value.
    """
    if isinstance(values, str):
        return Rejected(place, values)
    several = isinstance(roles["label"], tuple)
    label = {column: values.get(column) for column in roles["label"]} if several else values.get(roles["label"])
    texts: dict[str, str] = {}
    for role, column in roles.items():
        if role == "label" and several:
            continue
        if column not in values and role in {"text", "label", "id"}:
            listed = ", ".join(map(shown, [*values][:20]))
            return Rejected(place, f"no column {column!r}{meant(column, values)}; the row has [{listed}]")
        if role != "label":
            texts[role], reason = _text(role, column, values.get(column))
            if reason:
                return Rejected(place, reason)
    pair = texts.get("pair") or None
    return Row(number, place, texts["text"], label, pair, texts.get("group", ""), texts.get("id", ""))


def _text(role: str, column: str, value: Any) -> tuple[str, str]:
    """Return (text, "") for a usable value, where an empty pair or group is ""; else ("", the reason why not)."""
    if value is None or (isinstance(value, str) and not value.strip()):
        if role in {"pair", "group"}:
            return "", ""
        return "", f"the {role} (column {column!r}) is empty: {shown(value)}; fill it in or remove the row"
    if role in {"group", "id"} and isinstance(value, float) and value.is_integer():
        return str(int(value)), ""  # tables store the whole numbers of a column with gaps as 2.0
    if role in {"group", "id"} and isinstance(value, int):
        return str(value), ""
    if not isinstance(value, str):
        words = f" or, for words with one tag each, add {option('kind', 'tokens')}" if isinstance(value, list) else ""
        return "", f"the {role} (column {column!r}) is {shown(value)}; make it a string{words}"
    if reason := unsound(value):
        return "", f"the {role} (column {column!r}) {reason}; correct it or remove the row"
    return value, ""


def table_rows(
    source: Source, columns: Sequence[str], *, others: bool = False, notes: list[str] | None = None
) -> TableRows:
    """Yield the file's rows with at least the values of these columns. Empty lines are skipped.

    others  True: with the values of all other columns too
    notes   what is said of the form of the file is added here

    Raises ValueError if the form is unknown, or if the file has no rows, lacks a column or cannot be read. A JSON
    object may lack a column as long as another has it.
    """
    form = source.table_form(columns)
    if not form and source.ending in WORD_LINES:
        raise ValueError(
            f"{source.name}: files with this ending have one word and its tag per line, for example named entities. "
            f"Add {option('kind', 'tokens')}"
        )
    if not form:
        raise ValueError(
            f"{source.name}: neither its content nor its ending is a known format with the columns "
            f"{', '.join(map(repr, columns))}. Supported are .csv, .tsv and .jsonl, also compressed (.gz, .zst), "
            ".json with a list of objects, .parquet and .xlsx. Name the right columns, or convert the file to one "
            f"of these. {option('kind', 'tokens')} reads one word and its tag per line (.conll, .bio, .txt, ...), "
            f"BRAT, PubTator and BioC. {option('kind', 'span')}, or no kind, reads questions in SQuAD format from "
            ".json"
        )
    if not source.head:
        raise ValueError(f"{source.name}: is empty (0 bytes). Write it again, or name another file")
    if form == ".jsonl":
        rows = _json_rows(source, columns)
    elif form == ".json":
        rows = _json_array(source, columns, [] if notes is None else notes)
    elif form == WORKBOOK:
        rows = _workbook_rows(source, columns, others=others)
    elif form == ".parquet":
        rows = _column_rows(source, columns, parquet_columns(source.path, source.limits), parquet_rows, others=others)
    elif form == ".arrow":
        rows = _column_rows(source, columns, arrow_columns(source.path, source.limits), arrow_rows, others=others)
    else:
        rows = _delimited_rows(source, columns, form, others=others)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{source.name}: has no rows. Write it again, or name another file")
    yield first
    yield from rows


def _delimited_rows(source: Source, columns: Sequence[str], delimiter: str, *, others: bool) -> TableRows:
    csv.field_size_limit(source.limits.line)  # the default of 128 KiB is less than a full paper
    reader = partial(csv.reader, delimiter=delimiter, strict=True)
    if delimiter == "\t" and not source.well_quoted:
        reader = partial(reader, quoting=csv.QUOTE_NONE)
    lines = (line for _, line in source.lines())
    records = _records(source, reader(lines))
    number, header = next(records, (0, []))
    if not header:
        raise ValueError(f"{source.name}: is empty: it has no header line. Write it again, or name another file")
    where = f"{source.name}:{number}"
    if header[0].strip().lower().startswith("sep="):
        raise ValueError(
            f"{where}: {shown(delimiter.join(header))} is an Excel-only line, which other programs read as data. "
            "Save the file as 'CSV UTF-8 (comma delimited)', or remove the line and use commas"
        )
    check_header(where, header, columns)
    places = {column: header.index(column) for column in (header if others else columns)}
    for number, fields in records:
        if fields == header:
            yield source.line_place(number), REPEATED_HEADER
        elif len(fields) == len(header):
            yield source.line_place(number), {column: fields[place] for column, place in places.items()}
        else:
            yield (
                source.line_place(number),
                f"{len(fields)} fields, but the header has {len(header)}; quote a field that contains {delimiter!r} "
                "or a line end",
            )


def _records(source: Source, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of each record of the csv reader, without empty lines."""
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error) or "field larger" in str(error):
                fault = f"a quote in the record that begins here is never closed ({error})"
            else:
                fault = printable(str(error))
            raise ValueError(
                f"{source.name}:{number}: {fault}. Enclose a field that contains a quote in quotes, and double the "
                "quotes in it; correct the line"
            ) from error
        if fields:
            yield number, fields


def _json_rows(source: Source, columns: Sequence[str]) -> TableRows:
    missing, keys = set(columns), dict[str, None]()
    for number, values in source.objects():
        if isinstance(values, Mapping) and (missing or len(keys) < 20):
            missing -= values.keys()
            keys |= dict.fromkeys(values)
        yield source.line_place(number), values
    if missing and keys:
        tasks = (
            "; these may be tasks of Label Studio: jq -s . OLD > NEW.json" if {"data", "annotations"} <= {*keys} else ""
        )
        raise no_column(source.name, next(column for column in columns if column in missing), list(keys), tasks)


def _json_array(source: Source, columns: Sequence[str], notes: list[str]) -> TableRows:
    rows = table_of(source.value(), columns, source.name, notes)
    present = dict.fromkeys(name for row in rows if isinstance(row, Mapping) for name in row)
    for column in columns:
        if present and column not in present:
            raise no_column(source.name, column, [*present])
    for number, row in enumerate(rows, 1):
        what = f"an element of the list must be an object; this one is {shown(row)}"
        yield source.row_place(number), row if isinstance(row, Mapping) else what


def _workbook_rows(source: Source, columns: Sequence[str], *, others: bool) -> TableRows:
    records = workbook_rows(source.path, source.limits)
    number, first = next(records, (0, []))
    header = ["" if name is None else str(name) for name in first]
    check_header(f"{source.name}, row {number}", header, columns)
    places = {column: header.index(column) for column in (filter(None, header) if others else columns)}
    for number, values in records:
        cells = [*values, *[None] * (len(header) - len(values))]
        row = {column: cells[place] for column, place in places.items()}
        yield source.row_place(number), REPEATED_HEADER if values == first else row


def check_header(where: str, header: Sequence[str], columns: Sequence[str]) -> None:
    """Raise ValueError unless the names are there and different, and the columns among them."""
    twice = [name for name, count in Counter(header).items() if count > 1 and name]
    if not any(header) or twice:
        raise ValueError(f"{where}: the first line must name each column once; it is {shown(header)}. Correct it")
    for column in columns:
        if column not in header:
            tagged = header[0].startswith(DOCUMENT) or (len(header) == 2 and scheme_of({header[1], "O", "B"}))
            words = f". If each line is a word and its tag, add {option('kind', 'tokens')}" if tagged else ""
            raise no_column(where, column, header, f"; the first line must be the names{words}")


def _column_rows(
    source: Source,
    columns: Sequence[str],
    present: Sequence[str],
    rows_of: Callable[[Path, Sequence[str], ReadLimits], Iterator[dict[str, Any]]],
    *,
    others: bool,
) -> TableRows:
    for column in columns:
        if present.count(column) > 1:
            raise ValueError(f"{source.name}: {present.count(column)} columns are named {column!r}. Rename one of them")
        if column not in present:
            raise no_column(source.name, column, present)
    more = [name for name in present if present.count(name) == 1 and name not in columns] if others else []
    for number, row in enumerate(rows_of(source.path, [*columns, *more], source.limits), start=1):
        yield source.row_place(number), row


class ColumnError(ValueError):
    """A file lacks a requested column.

    what    the message without `option`, which says how the user names the right one
    column  the one that is missing
    """

    def __init__(self, what: str, column: str = "", option: str = "") -> None:
        super().__init__(f"{what} with {option}" if option else what)
        self.what, self.column = what, column


def no_column(place: str, column: str, present: Sequence[str], hint: str = "", *, role: str = "") -> ColumnError:
    """Return the error for a missing column; its message names the nearest column.

    hint: on the columns that are there; role: what the column is for, if an option names it
    """
    listed = ", ".join(map(shown, present[:20])) + (", ..." if len(present) > 20 else "")
    return ColumnError(
        f"{place}: no column {column!r}{meant(column, present)}; its columns are [{listed}]{hint}. Name the right one",
        column,
        option_of(role) if role else "",
    )


def option_of(role: str) -> str:
    """Return how a user names the column of this role."""
    return option(role, "NAME")


def check_filled(source: Source, columns: Columns, rows: Sequence[Row | Rejected]) -> None:
    """Raise ValueError if the column of pairs or of groups is empty in every row that was read."""
    for role in ("pair", "group"):
        column = getattr(columns, role)
        values = [getattr(row, role) for row in rows if isinstance(row, Row)]
        if column and values and not any(values):
            raise ValueError(
                f"{source.name}: the column {column!r} is empty in every row. Fill it in, or remove "
                f"{option(role, column)}"
            )


def check_accepted(name: str, rows: int, rejected: Sequence[Rejected]) -> None:
    """Raise ValueError if none of a file's rows, or less than half, were accepted. name: of the file"""
    accepted = rows - len(rejected)
    if 2 * len(rejected) <= rows and accepted:
        return
    few = "none" if not accepted else f"only {accepted:,}"
    first = "; ".join(f"{row.place}: {row.reason}" for row in rejected[:3])
    which = "row is" if len(rejected) == 1 else "rows are"
    raise ValueError(
        f"{name}: {few} of {rows:,} rows can be used. The first unusable {which} {first}. Correct the file, or name "
        "other columns"
    )
