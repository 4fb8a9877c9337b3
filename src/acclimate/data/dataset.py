"""A dataset with splits, whose rows are an Arrow table or mappings: reading tables, and writing rows as files."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.core import files
from acclimate.core.names import shown
from acclimate.core.types import Split
from acclimate.reading.formats.squad import question_of
from acclimate.reading.source import QUESTION_COLUMNS
from acclimate.text.documents import check_size, class_names, dataset_files, is_dataset, schema_classes
from acclimate.text.untrusted import LIMITS, named, printable

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_NAMES: Mapping[Split, tuple[str, ...]] = {  # as published datasets call them; the first that is there counts
    "train": ("train", "training"),
    "dev": ("validation", "dev", "val", "valid"),
    "test": ("test", "testing", "eval", "evaluation"),
}
READ = 1_000  # rows of a Parquet file that are in memory at once
ROWS = 10_000  # of a batch that is written
UNLABELLED = -1  # a ClassLabel where the label is withheld


@dataclass(frozen=True)
class Table:
    """Rows in Arrow's form.

    schema   its columns; the metadata of `datasets` says which hold numbers of classes
    batches  (names of columns) -> the rows with these columns, in this order
    classes  column -> names of its classes, beside those that the schema's metadata has
    """

    schema: pa.Schema
    batches: Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def names(self) -> Mapping[str, Sequence[str]]:
        """Return column -> names of classes, for each column that holds numbers of classes, or lists of them."""
        return {**self.classes, **schema_classes(self.schema)}

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in order, without the index of pandas' data frames."""
        return [name for name in self.schema.names if not re.fullmatch(r"__index_level_\d+__", name)]

    @property
    def text_columns(self) -> list[str]:
        return [name for name in self.columns if _is_text(self.schema.field(name).type)]


Rows = Table | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Source:
    """What a user holds, with its splits.

    name    of the files, and so of the task
    about   what it is, for messages and the record
    splits  name of the split, as the user has it -> returns its rows
    facts   what else the record says, such as the hub's commit
    """

    name: str
    about: str
    splits: Mapping[str, Callable[[], Rows]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def parquet_table(paths: Sequence[Path], classes: Mapping[str, Sequence[str]]) -> Table:
    """Return the rows of Parquet files with the same columns. classes: as `Table` takes them."""
    import pyarrow as pa
    from pyarrow import parquet

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in paths:
            unpacked = 0
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=READ, columns=[*columns]):
                    unpacked += batch.nbytes
                    check_size(path, unpacked, LIMITS)
                    yield batch.select([*columns])

    try:
        return Table(parquet.read_schema(paths[0]), batches, classes)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{named(paths[0])}: damaged ({printable(str(error))[:200]}). Fetch it again") from error


def group_by_split(paths: Sequence[str]) -> dict[str, list[str]]:
    """Return split -> its files, by the names of files and folders: `data/train-00000-of-00002.parquet`.

    If no file has a split in its name, all are "train". If some have one, each of the others is a split that is called
    as the file is, so it is read only if the user names it.
    """
    known = [name for names in SPLIT_NAMES.values() for name in names]
    splits: dict[str, list[str]] = {}
    unnamed = []
    for path in paths:
        *folders, file = path.split("/")
        written = re.fullmatch(r"(.+?)-\d{5}-of-\d{5}(?:-\w+)?\.parquet", file)
        words = [word for part in (file, *reversed(folders)) for word in re.split(r"[-_.\d]+", part)]
        if written:
            last = written[1].rpartition("-")[2]  # `imdb-train-00000-of-00001.parquet`
            split = last if last in known else written[1]
        else:
            split = next((word for word in words if word in known), "")
        if split:
            splits.setdefault(split, []).append(path)
        else:
            unnamed.append(path)
    if not splits:
        return {"train": unnamed} if unnamed else {}
    return splits | {path.removesuffix(".parquet"): [path] for path in unnamed}


def dataset_table(held: Any) -> Table:
    """Return the rows of a `datasets.Dataset`."""
    table = held.with_format("arrow")[:]
    schema = table.schema
    if hasattr(held.features, "arrow_schema"):  # its metadata have the names of classes
        schema = schema.with_metadata(held.features.arrow_schema.metadata)
    return Table(schema, lambda columns: table.select([*columns]).to_batches())


def arrow_table(held: Any, about: str) -> Table:
    """Return the rows of a table in memory. Raises ValueError if it cannot be handed over."""
    import pyarrow as pa

    try:
        if hasattr(held, "__arrow_c_stream__"):
            table = pa.RecordBatchReader.from_stream(held).read_all()
        else:
            from pyarrow.interchange import from_dataframe

            table = from_dataframe(held)
    except (pa.ArrowException, TypeError, ValueError) as error:
        refused = (
            f"{about} cannot be converted to a table: {printable(str(error))[:200]}. Give each column one type, "
            "such as str"
        )
        if not hasattr(held, "columns"):
            raise ValueError(refused) from error
        return _read_columns(held, about)
    return Table(table.schema, lambda columns: table.select([*columns]).to_batches(max_chunksize=ROWS))


def _read_columns(held: Any, about: str) -> Table:
    """Return a data frame of which some columns cannot be handed over. Reading one of these raises ValueError."""
    import pyarrow as pa

    good: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for name in map(str, held.columns):
        try:
            good[name] = pa.RecordBatchReader.from_stream(held[[name]]).read_all()[name]
        except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
            faults[name] = printable(str(error))[:200]

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for name in columns:
            if (count := [*map(str, held.columns)].count(name)) > 1:
                raise ValueError(f"{about}: {count} columns are named {name!r}. Rename one of them")
            if name in faults:
                raise ValueError(
                    f"{about}: column {name!r} has mixed types: {faults[name]}. Give it one type, such as str"
                )
        yield from pa.table({name: good[name] for name in columns}).to_batches(max_chunksize=ROWS)

    types = {name: good[name].type if name in good else pa.null() for name in map(str, held.columns)}
    return Table(pa.schema(types.items()), batches)


def saved_table(folder: Path) -> Table:
    """Return one split that `datasets` saved."""
    import pyarrow as pa

    if not is_dataset(folder):
        raise ValueError(f"{named(folder)}: contains no split that `datasets` saved. Save the dataset again")
    arrow = dataset_files(folder)

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file in arrow:
            with pa.OSFile(str(file)) as opened, pa.ipc.open_stream(opened) as stream:
                yield from (batch.select([*columns]) for batch in stream)

    try:
        with pa.OSFile(str(arrow[0])) as opened, pa.ipc.open_stream(opened) as stream:
            schema = stream.schema
    except pa.ArrowException as error:
        raise ValueError(
            f"{named(arrow[0])}: damaged ({printable(str(error))[:200]}). Save the dataset again"
        ) from error
    info = files.read_json(folder / "dataset_info.json")
    features = info.get("features") if isinstance(info, dict) else None
    return Table(
        schema, batches, {name: names for name, feature in (features or {}).items() if (names := class_names(feature))}
    )


def holds_lists(rows: Rows, column: str | tuple[str, ...]) -> bool:
    """Return True if a single column holds lists."""
    if not isinstance(column, str):
        return False
    if isinstance(rows, Table):
        import pyarrow as pa

        kinds = pa.types
        return column in rows.schema.names and (
            kinds.is_list(held := rows.schema.field(column).type) or kinds.is_large_list(held)
        )
    return isinstance(rows[0].get(column), list | tuple)


def withholds(rows: Rows, column: str | tuple[str, ...]) -> bool:
    """Return True if every label of the column is UNLABELLED, as in the test sets of GLUE."""
    if not isinstance(rows, Table) or not isinstance(column, str) or column not in rows.names():
        return False
    values = (value for batch in rows.batches([column]) for value in batch.column(0).to_pylist())
    return all(value == UNLABELLED for value in values)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def write_rows(rows: Rows, columns: Mapping[str, str], path: Path) -> None:
    """Write these columns of the rows, under other names. columns: name -> name in the file."""
    if not isinstance(rows, Table):
        with open(path, "w", encoding="utf-8") as file:
            for number, row in enumerate(rows, 1):
                entries = {columns[name]: value for name, value in row.items() if name in columns}
                file.write(_json_line(entries, number) + "\n")
        return
    from pyarrow import parquet

    with _read_safely(rows):
        writer = None
        for batch in rows.batches([*columns]):
            file_batch = named_classes(batch, rows.names(), columns)
            writer = writer or parquet.ParquetWriter(path, file_batch.schema)
            writer.write_table(file_batch)
        if writer is None:
            raise ValueError("the table has no rows. Give at least one row")
        writer.close()


def named_classes(batch: pa.RecordBatch, classes: Mapping[str, Sequence[str]], columns: Mapping[str, str]) -> pa.Table:
    """Return the columns under their new names, with names of classes in place of their numbers."""
    import pyarrow as pa

    arrays = {}
    for column, new in columns.items():
        values = batch.column(column)
        if column in classes and not _is_text(values.type):
            nested = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
            kind = pa.list_(pa.string()) if nested else pa.string()
            values = pa.array([_class_of(value, classes[column]) for value in values.to_pylist()], kind)
        elif pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        arrays[new] = values
    return pa.table(arrays)


def _class_of(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class by its number, of a list those of its elements; None where the label is withheld.

    Raises ValueError for another value.
    """
    if isinstance(value, list):
        return [_class_of(element, names) for element in value]
    if isinstance(value, str):
        return value
    if (
        value is None or value == UNLABELLED or (isinstance(value, float) and math.isnan(value))
    ):  # NaN is what pandas makes of None
        return None
    if not isinstance(value, int | float) or not float(value).is_integer() or not 0 <= value < len(names):
        raise ValueError(
            f"{shown(value)} is not a class number: there are {len(names)} classes, numbered from 0. Correct the row"
        )
    return names[int(value)]


def _json_line(row: Mapping[str, Any], number: int) -> str:
    def plain(value: Any) -> Any:
        for method in ("tolist", "item"):  # arrays and numbers of NumPy
            if hasattr(value, method):
                return getattr(value, method)()
        raise ValueError(
            f"row {number} of the list has {shown(value)}, which is not a text, number or list. Convert it"
        )

    try:
        return json.dumps(row, ensure_ascii=True, default=plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"row {number} of the list is not valid JSON: {error}. Correct it") from error


def write_questions(rows: Rows, path: Path) -> None:
    """Write the rows in SQuAD's form. A row of the hub has a list of its answers' texts, and one of their places."""
    read: Iterable[Mapping[str, Any]] = rows if not isinstance(rows, Table) else _dicts(rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"data": [')
        for number, row in enumerate(read, 1):
            id = row.get("id", f"{path.stem}:{number}")  # a dev or test file has another stem
            paragraph = {"context": row.get("context"), "qas": [question_of(row, id)]}
            article = {"title": str(row.get("title") or ""), "paragraphs": [paragraph]}
            file.write(f"{', ' if number > 1 else ''}{_json_line(article, number)}")
        file.write("]}")


@contextlib.contextmanager
def _read_safely(rows: Table) -> Iterator[None]:
    """Name the rows' source in the errors of Arrow."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        about = f"a table with the columns {', '.join(rows.columns)}"
        raise ValueError(f"{about} cannot be read: {printable(str(error))[:200]}. Fetch or write it again") from error


def _dicts(table: Table) -> Iterator[Mapping[str, Any]]:
    with _read_safely(table):
        for batch in table.batches([name for name in ("id", "title", *QUESTION_COLUMNS) if name in table.schema.names]):
            yield from batch.to_pylist()
