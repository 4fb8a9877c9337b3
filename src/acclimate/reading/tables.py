"""Labelled rows from CSV, TSV, JSON Lines and JSON (packed or not), Parquet and Arrow files, with columns chosen by
name. A file's content tells its format, and its ending only where the content leaves it open.

Every row of a file is either accepted, or rejected with its place and the reason. A fault of the file as a whole raises
ValueError. Rows are read one at a time.

CSV and TSV follow RFC 4180: a field that contains the delimiter, a quote or a line end is quoted, and a quote within it
is doubled. A TSV that cannot be read this way, like those of most benchmarks, has quotes that are ordinary characters.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import meant, shown
from acclimate.core.types import SPLITS, Example, Rejected, Split
from acclimate.tasks.tags import scheme_of
from acclimate.tasks.task import Metric, Task
from acclimate.text.documents import arrow_columns, arrow_rows, parquet_columns, parquet_rows
from acclimate.text.untrusted import (
    LIMITS,
    MARK,
    ReadLimits,
    RowValues,
    check_file,
    first_bytes,
    foreign,
    json_array,
    json_lines,
    named,
    packing_of,
    parsed,
    printable,
    read_blocks,
    sound,
    source_of_rows,
    text_lines,
    unpacked_name,
    unsound,
)

WORD_LINES = (
    ".conll",
    ".bio",
    ".iob",
    ".iob2",
    ".iobes",
    ".tags",
)  # of files with a word and its tag a line, and nothing else
DELIMITERS = (",", "\t", ";", "|")  # between the fields of a line
BY_ENDING = {".csv": ",", ".tsv": "\t", ".jsonl": ".jsonl", ".parquet": ".parquet"}  # where the content leaves it open
CLEANED = "rows without the characters that have no meaning in a text"  # of what `mended` counts
REPEATED = "rows left out that stand there twice"
BEGINNING = 1 << 16  # bytes of a file by which its format is recognised
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


def read_rows(
    path: Path, columns: Columns, *, limits: ReadLimits = LIMITS, mended: Counter[str] | None = None
) -> Iterator[Row | Rejected]:
    """Yield a Row or a Rejected for each row of the file, in order.

    mended  counts what was mended: characters without a meaning are taken out of texts, and a row that stands there
            twice, with its id, is left out the second time. None: nothing is mended

    Raises ValueError, with file, line, value and the way out, unless the file has rows with these columns.
    """
    roles = columns.stated()
    first_rows: dict[str, Row] = {}
    rows = _with_option(table_rows(path, list(dict.fromkeys(roles.values())), limits), roles)
    for number, (place, values) in enumerate(rows, start=1):
        row = row_of(number, place, values if mended is None else _mended(values, mended), roles)
        if mended is not None and isinstance(row, Row) and row.id:
            first = first_rows.setdefault(row.id, row)
            if first is not row and first == replace(row, number=first.number, place=first.place):
                mended[REPEATED] += 1
                continue
        yield row


def _with_option(rows: TableRows, roles: Mapping[str, str]) -> TableRows:
    """Yield the rows. The error for a missing column says with which option or keyword it is named."""
    try:
        yield from rows
    except ColumnError as error:
        role = next(role for role, column in roles.items() if column == error.column)
        raise ColumnError(error.what, error.column, option_of(role)) from None


def _mended(values: RowValues, mended: Counter[str]) -> RowValues:
    """Return the row without control characters and half surrogates in its texts."""
    if isinstance(values, str):
        return values
    better = {name: sound(value) if isinstance(value, str) else value for name, value in values.items()}
    mended[CLEANED] += better != values
    return better


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
        words = (
            f" or, if it is words with a tag each, state {option('kind', 'tokens')}" if isinstance(value, list) else ""
        )
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
    readers: dict[str, Callable[[Path, Sequence[str], ReadLimits], TableRows]] = {
        **{delimiter: partial(_delimited_rows, delimiter=delimiter) for delimiter in DELIMITERS},
        ".jsonl": _json_rows,
        ".json": _json_array,
        ".parquet": partial(_column_rows, names_of=parquet_columns, rows_of=parquet_rows),
        ".arrow": partial(_column_rows, names_of=arrow_columns, rows_of=arrow_rows),
    }
    reader = readers.get(form_of(path, columns))
    if reader is None and Path(unpacked_name(path)).suffix in WORD_LINES:
        raise ValueError(
            f"{named(path)}: files with this ending have a word and its tag a line, for instance of named entities: "
            f"state {option('kind', 'tokens')}"
        )
    if reader is None:
        raise ValueError(
            f"{named(path)}: neither its content nor its ending tells a known format of rows, with the columns "
            f"{', '.join(map(repr, columns))}; known are .csv, .tsv and .jsonl, each also packed (.gz, .zst), .json "
            f"with a list of objects, and .parquet. Name the right columns, or convert it to one of these; for a word "
            f"and its tag a line (.conll, .bio, .txt, ...), BRAT, PubTator or BioC state {option('kind', 'tokens')}; "
            f"questions in SQuAD's form are read from .json with {option('kind', 'span')}, or none"
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{named(path)}: is empty (0 bytes). Write it anew or name another file")
    rows = reader(path, columns, limits)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{named(path)}: holds no rows. Write it anew or name another file")
    yield first
    yield from rows


def form_of(path: Path, columns: Sequence[str] = ()) -> str:
    """Return the format of a file of rows: the delimiter of its fields, ".jsonl", ".json" (an array), ".parquet",
    ".arrow"; "" if it is none of these.

    columns: names that the first line of a delimited file should have; they tell which character parts its fields
    """
    usual = BY_ENDING.get(Path(unpacked_name(path)).suffix, "")
    magic = first_bytes(path)
    if magic.startswith(b"PAR1"):
        return ".parquet"
    if magic.startswith(b"ARROW1"):
        return ".arrow"
    if usual == ".parquet" or not magic:
        return usual
    head = next(read_blocks(path), b"")[:BEGINNING].removeprefix(MARK).lstrip()
    if re.match(rb"\[\s*[{\]]", head):  # of objects; a text or a header may begin with a bracket too
        return ".json"
    if _are_objects(head):
        return ".jsonl"
    line = head.splitlines()[0].decode(errors="replace") if head else ""
    hits = {delimiter: _fields_among(line, delimiter, columns) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: (hits[delimiter], delimiter == usual))
    return best if hits[best] else usual


def _fields_among(line: str, delimiter: str, columns: Sequence[str]) -> int:
    """Return how many of the columns are among the fields of a line."""
    try:
        fields = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return 0
    return len(set(columns) & {field.strip() for field in fields}) if len(fields) > 1 else 0


def holds_questions(path: Path) -> bool:
    """Return True if the file has questions in SQuAD's form: its content shows it, or it ends in .json and holds no
    rows.
    """
    by_name = unpacked_name(path).endswith(".json") or path.name.endswith(".json.zip")
    if not os.path.isfile(path) or path.name.endswith(".zip"):
        return by_name
    magic = first_bytes(path)
    if foreign(magic) and not packing_of(magic):
        return False
    head = next(read_blocks(path), b"")[:BEGINNING].removeprefix(MARK).lstrip()
    if head.startswith(b"{") and all(re.search(rb'"%s"\s*:\s*\[' % key, head) for key in (b"data", b"paragraphs")):
        return True
    return by_name and not (head.startswith(b"[") or _are_objects(head))


def _are_objects(head: bytes) -> bool:
    """Return True if the file begins with two lines that are JSON objects, or one and the beginning of another."""
    first, *others = head.splitlines()[:2] or [b""]
    return (
        first.startswith(b"{") and bool(others) and others[0].startswith(b"{") and isinstance(_object(first), Mapping)
    )


def _object(line: bytes) -> RowValues:
    return parsed(line.decode(errors="replace"))


def header_of(path: Path, columns: Sequence[str], limits: ReadLimits) -> list[str]:
    """Return the names in the first line of a CSV or TSV file, and [] for other formats. columns: some of them"""
    form = form_of(path, columns)
    if form not in DELIMITERS:
        return []
    csv.field_size_limit(limits.line)
    texts = (text for _, text in text_lines(path, limits))
    reader = partial(csv.reader, texts, delimiter=form, strict=True)
    quoted = form != "\t" or _well_quoted(path, limits)
    _, header = next(_records(path, reader() if quoted else reader(quoting=csv.QUOTE_NONE)), (0, []))
    return header


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
    _check_no_line_for_excel(where, header, delimiter)
    twice = [name for name, count in Counter(header).items() if count > 1 and name]
    if not any(header) or twice:
        raise ValueError(f"{where}: the first line must name each column once; it is {shown(header)}. Correct it")
    for column in columns:
        if column not in header:
            tagged = header[0].startswith("-DOCSTART-") or (len(header) == 2 and scheme_of({header[1], "O", "B"}))
            words = f". If a line is a word and its tag, state {option('kind', 'tokens')}" if tagged else ""
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


def _check_no_line_for_excel(where: str, header: Sequence[str], delimiter: str) -> None:
    """Raise ValueError for a first line such as `sep=;`."""
    if header and header[0].strip().lower().startswith("sep="):
        raise ValueError(
            f"{where}: {shown(delimiter.join(header))} is a line for Excel, which other programs read as data. "
            f"Save the file as 'CSV UTF-8 (comma delimited)', or remove the line and use commas"
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
    missing, keys, source = set(columns), dict[str, None](), source_of_rows(path)
    separator = ":" if source == printable(path.name) else ", row "  # a line of a file, or a row of a list
    for number, values in json_lines(path, limits):
        if isinstance(values, Mapping) and (missing or len(keys) < 20):
            missing -= values.keys()
            keys |= dict.fromkeys(values)
        yield f"{source}{separator}{number}", values
    if missing and keys:
        raise no_column(named(path), next(column for column in columns if column in missing), list(keys))


def _json_array(path: Path, columns: Sequence[str], limits: ReadLimits) -> TableRows:
    rows = json_array(path, limits)
    present = dict.fromkeys(name for row in rows if isinstance(row, Mapping) for name in row)
    for column in columns:
        if present and column not in present:
            raise no_column(named(path), column, [*present])
    for number, row in enumerate(rows, 1):
        what = f"an element of the list must be an object; this one is {shown(row)}"
        yield f"{printable(path.name)}, row {number}", row if isinstance(row, Mapping) else what


def _column_rows(
    path: Path,
    columns: Sequence[str],
    limits: ReadLimits,
    *,
    names_of: Callable[[Path, ReadLimits], list[str]],
    rows_of: Callable[[Path, Sequence[str], ReadLimits], Iterator[dict[str, Any]]],
) -> TableRows:
    present = names_of(path, limits)
    for column in columns:
        if present.count(column) > 1:
            raise ValueError(f"{named(path)}: {present.count(column)} columns are called {column!r}. Rename one")
        if column not in present:
            raise no_column(named(path), column, present)
    source = source_of_rows(path)
    for number, row in enumerate(rows_of(path, columns, limits), start=1):
        yield f"{source}, row {number}", row


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

    Raises ValueError if the file or any row cannot be used; reading/labelled.py rejects and counts such rows instead.
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
