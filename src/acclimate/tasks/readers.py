"""Labelled examples from files: CSV, TSV and JSON Lines (also as .gz and .zst) and Parquet, columns chosen by name.

CSV and TSV are read as RFC 4180 has it, strictly: a field that holds the delimiter, a quote or a line end is quoted, a
quote within it doubled. All text is UTF-8, with or without a byte order mark. Rows are read one at a time.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from acclimate.core.types import SPLITS, Example, Split
from acclimate.tasks.task import Metric, Task

# the csv module's own limit of 128 KiB a field is less than a full paper; this is the most that every platform takes
FIELD_LIMIT = 2**31 - 1

Columns = Mapping[str, str | None]  # what an Example needs -> the column that holds it
Row = tuple[str, Mapping[str, Any]]  # where it stands ("train.csv:118"), and its values by column


def read_labelled(
    path: Path,
    *,
    text: str,
    label: str,
    pair: str | None = None,
    group: str | None = None,
    id: str | None = None,
) -> list[Example]:
    """The file's examples, in its order. `text`, `label`, `pair`, `group` and `id` name columns.

    Labels that are integers or booleans become their Python spelling ("1", "True"). Without an id column, an example's
    id is `<file stem>:<row>`, rows counted from 1. Empty lines are skipped; an empty pair or group is none.

    Raises ValueError with file and line for an unknown column (naming the nearest), a row with too few or too many
    fields, broken quoting or JSON, an empty text or id and a missing label; with file and row for bytes that are not
    UTF-8 and for a damaged archive.
    """
    return _read(path, {"text": text, "label": label, "pair": pair, "group": group, "id": id})


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
    """A classification task over one file a split; its labels are those of train, sorted.

    The paths are made absolute here, so the path which `load` hands to the task is not looked at.
    """
    missing = [split for split in SPLITS if split not in paths]
    if missing:
        raise ValueError(f"{name}: no file for {', '.join(missing)}; name one for each of {', '.join(SPLITS)}")
    files = {split: Path(paths[split]).absolute() for split in SPLITS}
    columns: Columns = {"text": text, "label": label, "pair": pair, "group": group, "id": id}
    labels = sorted({example.label for example in _read(files["train"], columns)})
    source = ", ".join(f"{split}: {file}" for split, file in files.items())
    read = partial(_read_split, files, columns)
    return Task(name, "sequence", read, tuple(labels), metric, max_tokens, source=source)


def _read_split(files: Mapping[Split, Path], columns: Columns, path: Path, split: Split) -> list[Example]:
    return _read(files[split], columns)


def _read(path: Path, columns: Columns) -> list[Example]:
    stem, rows = _format(path)
    examples: list[Example] = []
    try:
        for number, (place, row) in enumerate(rows(path), start=1):
            values = {role: _value(place, row, role, column) for role, column in columns.items() if column is not None}
            examples.append(
                Example(
                    id=values.get("id") or f"{stem}:{number}",
                    text=cast(str, values["text"]),
                    label=cast(str, values["label"]),
                    pair=values.get("pair"),
                    group=values.get("group") or "",
                )
            )
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, soon after row {len(examples)}: {error}; save the file as UTF-8") from error
    except OSError as error:
        if error.errno is not None:  # the operating system's own, which name the file
            raise
        raise ValueError(f"{path}, soon after row {len(examples)}: {error}; fetch the file again") from error
    return examples


def _format(path: Path) -> tuple[str, Callable[[Path], Iterator[Row]]]:
    """The file's stem without any known ending, and what yields its rows."""
    plain = path.with_suffix("") if path.suffix in {".gz", ".zst"} else path
    formats: dict[str, Callable[[Path], Iterator[Row]]] = {
        ".csv": partial(_delimited_rows, delimiter=","),
        ".tsv": partial(_delimited_rows, delimiter="\t"),
        ".jsonl": _json_rows,
    }
    if path.suffix == ".parquet":
        return path.stem, _parquet_rows
    if plain.suffix not in formats:
        raise ValueError(
            f"{path}: the ending does not tell a known format; known are .csv, .tsv and .jsonl, each also with .gz or "
            f".zst after it, and .parquet"
        )
    return plain.stem, formats[plain.suffix]


def _value(place: str, row: Mapping[str, Any], role: str, column: str) -> str | None:
    """The row's string for this role; None only for an empty pair or group."""
    if column not in row:
        near = difflib.get_close_matches(column, row, n=1, cutoff=0.0)
        raise ValueError(f"{place}: no column {column!r}; the nearest is {', '.join(map(repr, near))} of {list(row)}")
    value = row[column]
    if value is None or (isinstance(value, str) and not value.strip()):
        if role in {"pair", "group"}:
            return None
        raise ValueError(
            f"{place}: the {role} (column {column!r}) is empty: {value!r}; fill it in or leave the row out"
        )
    if isinstance(value, int) and role in {"label", "group", "id"}:
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{place}: the {role} (column {column!r}) is {value!r}; make it a string")
    return value


def _lines(path: Path) -> io.TextIOWrapper:
    """The file's text, decompressed as it is read; line ends stay as they are, for quoted fields may hold some."""
    if path.suffix not in {".gz", ".zst"}:
        return open(path, encoding="utf-8-sig", newline="")
    import pyarrow

    # pyarrow reads all frames of a .zst and refuses one that is cut short; zstandard.open does neither
    codec = {".gz": "gzip", ".zst": "zstd"}[path.suffix]
    stream = pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), codec)
    return io.TextIOWrapper(cast(BinaryIO, stream), encoding="utf-8-sig", newline="")


def _delimited_rows(path: Path, *, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(FIELD_LIMIT)
    with _lines(path) as lines:
        records = _records(path, csv.reader(lines, delimiter=delimiter, strict=True))
        _, header = next(records, ("", []))
        if not header or len(set(header)) < len(header):
            raise ValueError(f"{path.name}:1: the first line must name each column once; it is {header}")
        for place, fields in records:
            if len(fields) != len(header):
                raise ValueError(
                    f"{place}: {len(fields)} fields, but the header has {len(header)}; quote a field that holds "
                    f"{delimiter!r} or a line end"
                )
            yield place, dict(zip(header, fields, strict=True))


def _records(path: Path, reader: Any) -> Iterator[tuple[str, list[str]]]:
    """The csv reader's records, empty lines left out, each with the line on which it begins."""
    while True:
        place = f"{path.name}:{reader.line_num + 1}"
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                f"{place}: {error}; a field that holds a quote is quoted as a whole, with its quotes doubled"
            ) from error
        if fields:
            yield place, fields


def _json_rows(path: Path) -> Iterator[Row]:
    with _lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"{path.name}:{number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{place}: not valid JSON at column {error.colno}: {error.msg}") from error
            if not isinstance(row, dict):
                raise ValueError(f"{place}: a line must hold one JSON object; this one begins {line.strip()[:60]!r}")
            yield place, row


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet

    number = 0
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name}, row {number}", row
