"""Stream the documents of text, JSON Lines, Parquet, XML of PubMed and PMC, and files of `datasets`, of any size.

A document that cannot be used is counted and left out. A fault of a file as a whole raises ValueError. Parquet and
Arrow files are read a batch of rows at a time, by Arrow's readers only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from acclimate.core.names import meant, shown
from acclimate.core.types import Document, Rejected
from acclimate.text.pubmed import Deletion, xml_articles
from acclimate.text.untrusted import (
    LIMITS,
    PACKINGS,
    ReadLimits,
    RowValues,
    check_file,
    foreign,
    json_array,
    json_lines,
    named,
    printable,
    text_lines,
    unpacked_name,
    unsound,
)

ENDINGS = (
    *(f"{kind}{packed}" for kind in (".txt", ".jsonl", ".xml", ".nxml") for packed in ("", *PACKINGS)),
    ".parquet",
)
ARRAYS = tuple(f".json{packed}" for packed in ("", *PACKINGS))  # of a named file; in folders they seldom hold texts
KEPT = 1000  # rejected documents that are listed
LOOKED_AT = 1000  # documents that `check_documents` reads
_ROWS = 32  # rows decoded at a time: each may repeat a large text that the file stores once
Separated = Literal["line", "blank"]
NumberedRows = Iterator[tuple[int, RowValues | Deletion]]  # number of the line or row, and its values
DocumentRows = Iterator[tuple[str, RowValues | Deletion]]  # place, and values by name or the reason why there are none
ColumnNames = Sequence[str]


class Documents(Iterator[Document]):
    """Iterates over the documents of a file or folder, and counts those that are left out.

    rows        documents read so far: rows == accepted + rejections
    rejections  documents that cannot be used: no JSON, no text in the field, control characters
    rejected    the first KEPT of these, with place and reason
    """

    def __init__(self, path: Path, rows: DocumentRows, field: str) -> None:
        self.rows = self.accepted = self.rejections = 0
        self.rejected: list[Rejected] = []
        self._documents = self._sound(path, rows, field)

    def __next__(self) -> Document:
        return next(self._documents)

    def _sound(self, path: Path, rows: DocumentRows, field: str) -> Iterator[Document]:
        for place, values in rows:
            if isinstance(values, Deletion):
                continue
            self.rows += 1
            document = document_of(place, values, field)
            if isinstance(document, Document):
                self.accepted += 1
                yield document
            else:
                self.rejections += 1
                if len(self.rejected) < KEPT:
                    self.rejected.append(Rejected(place, document))
        check_rows(named(path), self.rows, self.rejections, self.rejected)


def read_documents(
    path: Path, *, separated: Separated = "line", field: str = "text", limits: ReadLimits = LIMITS
) -> Documents:
    """Return the documents of a file, or of every file with a known ending below a folder, in the order of the paths.

    .txt      one document a line, or several lines up to a blank one with `separated="blank"`
    .jsonl    an object a line: the text in `field`; `id` (text or whole number) and `source` are optional
    .json     a list of such objects or of texts, in a file that is named; those in folders are not read
    .parquet  the same names as columns
    .xml, .nxml  PubMed's: title and abstract of each article, with its PMID as id; or PubMed Central's (JATS): title,
              abstract and body without tables, figures, formulas and references. Articles that a later file of PubMed
              replaces or deletes are yielded too: text/preparation.py leaves them out
    All but .parquet may be packed (.gz, .zst). A folder that `datasets` saved is read as its Arrow files, with columns
    named as in .jsonl; so is each such folder below. A document without an id is named by its place: `folder/a.txt:12`.
    Documents of white space are yielded too: `write_corpus` leaves them out and counts them.

    Raises ValueError if the path does not exist or has no file with a known ending; and, while reading, for a file that
    is not what its ending says or lacks the field, and if more than half of the documents cannot be used.
    """
    path = Path(path)
    files = files_of(path)
    above = path if path.is_dir() else path.parent
    rows = (row for file in files for row in document_rows(file, above, separated, field, limits))
    return Documents(path, rows, field)


def files_of(path: Path) -> list[Path]:
    """Return the files that `read_documents` reads, in its order. Raises ValueError if there are none."""
    if path.is_dir():
        files = list(_folder_files(path))
        if not files:
            raise ValueError(f"{named(path)}: no file below it ends in {', '.join(ENDINGS)}. Name another folder")
        return files
    check_file(path)
    if not path.name.lower().endswith((*ENDINGS, *ARRAYS)):
        raise ValueError(
            f"{named(path)}: its name must end in one of {', '.join((*ENDINGS, '.json'))}. Rename or convert it"
        )
    return [path]


def check_documents(path: Path, *, field: str = "text") -> None:
    """Raise ValueError, as `read_documents` does, for texts that are missing or lack the field.

    Reads the first documents only: a .jsonl file with more of them may lack the field nevertheless.
    """
    for _ in islice(read_documents(path, field=field), LOOKED_AT):
        pass


def unread_in(folder: Path) -> list[Path]:
    """Return the files below the folder that `read_documents` skips because of their endings, ordered by path."""
    return [file for file in _folder_files(folder, every=True) if not file.name.lower().endswith(ENDINGS)]


def _folder_files(folder: Path, *, every: bool = False) -> Iterator[Path]:
    """Yield the files to read below the folder, ordered by path. Links are followed; each folder is visited once.

    every  include files with other endings, but not those of saved datasets
    """
    files: list[Path] = []
    visited: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        directory = waiting.pop()
        try:
            about = os.stat(directory)
            entries = list(directory.iterdir())
        except OSError as error:
            raise ValueError(f"{named(directory)}: cannot be read ({error.strerror}). Check its permissions") from error
        if (about.st_dev, about.st_ino) in visited:
            continue
        visited.add((about.st_dev, about.st_ino))
        if is_dataset(directory):
            files += [] if every else dataset_files(directory)
            continue
        for entry in entries:
            if entry.name.startswith("."):  # such as .git and .ipynb_checkpoints
                continue
            if entry.is_dir():
                waiting.append(entry)
            elif (every or entry.name.lower().endswith(ENDINGS)) and entry.is_file():
                files.append(entry)
    inodes: dict[tuple[int, int], Path] = {}
    for file in sorted(files, key=lambda file: (file.is_symlink(), file)):  # a link to a file below is no second file
        about = file.stat()
        inodes.setdefault((about.st_dev, about.st_ino), file)
    return iter(sorted(inodes.values()))


def document_rows(
    file: Path, above: Path, separated: Separated, field: str, limits: ReadLimits = LIMITS
) -> DocumentRows:
    """Return place and values of each document of the file. above: the folder from which the place names the file."""
    name = printable(file.relative_to(above).as_posix())
    readers: dict[str, Callable[[], NumberedRows]] = {
        ".txt": partial(_blocks if separated == "blank" else _lines, file, field, limits),
        ".jsonl": partial(_json, file, field, json_lines(file, limits)),
        ".json": partial(_json, file, field, _elements(file, field, limits)),
        ".xml": partial(xml_articles, file, field, limits),
        ".nxml": partial(xml_articles, file, field, limits),
        ".parquet": partial(_columns, file, field, limits, parquet_columns, parquet_rows),
        ".arrow": partial(_columns, file, field, limits, arrow_columns, arrow_rows),
    }
    return ((f"{name}:{number}", values) for number, values in readers[Path(unpacked_name(file)).suffix.lower()]())


def _lines(file: Path, field: str, limits: ReadLimits) -> NumberedRows:
    return ((number, {field: line.rstrip("\r\n")}) for number, line in text_lines(file, limits))


def _blocks(file: Path, field: str, limits: ReadLimits) -> NumberedRows:
    block: list[str] = []
    first = length = 0
    for number, line in text_lines(file, limits):
        if line.strip():
            first, length = (first, length + len(line)) if block else (number, len(line))
            block.append(line.rstrip("\r\n"))
            if length > limits.line:
                raise ValueError(
                    f"{named(file)}:{first}: more than {limits.line:,} characters without a blank line. If each "
                    "line is a document, set separated=line"
                )
        elif block:
            yield first, {field: "\n".join(block)}
            block = []
    if block:
        yield first, {field: "\n".join(block)}


def _json(file: Path, field: str, objects: Iterable[tuple[int, RowValues]]) -> NumberedRows:
    """Yield the file's objects. Raises ValueError at the end if none has the field."""
    has_field, keys = False, dict[str, None]()
    for number, values in objects:
        if isinstance(values, Mapping):
            has_field = has_field or field in values
            if not has_field and len(keys) < 20:
                keys |= dict.fromkeys(values)
        yield number, values
    if keys and not has_field:
        raise _field_error(field, list(keys), file)


def _elements(file: Path, field: str, limits: ReadLimits) -> Iterator[tuple[int, RowValues]]:
    """Yield the elements of a JSON array: objects, and texts as objects with this field alone."""
    for number, element in enumerate(json_array(file, limits), start=1):
        if isinstance(element, str):
            yield number, {field: element}
        elif isinstance(element, Mapping):
            yield number, element
        else:
            yield number, f"an element of the list must be a text or an object; this one is {shown(element)}"


def _columns(
    file: Path,
    field: str,
    limits: ReadLimits,
    columns_of: Callable[[Path, ReadLimits], list[str]],
    rows_of: Callable[[Path, list[str], ReadLimits], Iterator[Mapping[str, Any]]],
) -> NumberedRows:
    present = columns_of(file, limits)
    if field not in present:
        raise _field_error(field, present, file)
    columns = [column for column in (field, "id", "source") if column in present]
    yield from enumerate(rows_of(file, columns, limits), start=1)


def document_of(place: str, values: RowValues, field: str) -> Document | str:
    """Return the document, or why there is none. place: its id if the row has none."""
    if isinstance(values, str):
        return values
    if field not in values:
        return f"no field {field!r}{meant(field, values)}"
    text, name, source = values[field], values.get("id"), values.get("source")
    if not isinstance(text, str):
        return f"{field!r} is {shown(text)}, but a document must be text"
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
        return f"the id {shown(name)} is neither text nor a whole number"
    if source is not None and not isinstance(source, str):
        return f"the source {shown(source)} is not text"
    for field_name, value in ((repr(field), text), ("the id", str(name or "")), ("the source", source or "")):
        if reason := unsound(value):
            return f"{field_name} {reason}"
    return Document(id=place if name is None else str(name), text=text, source=source or "")


def _field_error(field: str, present: Sequence[str], file: Path) -> ValueError:
    return ValueError(
        f"{named(file)}: no field {field!r}{meant(field, present)}; its fields are {shown(list(present))}. Rename "
        "the field with the text, or set field=NAME in Python"
    )


def check_rows(where: str, rows: int, rejections: int, rejected: Sequence[Rejected]) -> None:
    """Raise ValueError if there is no document, or if more than half cannot be used."""
    if not rows:
        raise ValueError(f"{where}: contains no document. Name another file or folder")
    if 2 * rejections > rows:
        first = "; ".join(f"{rejection.place}: {rejection.reason}" for rejection in rejected[:3])
        raise ValueError(
            f"{where}: {rejections:,} of {rows:,} documents cannot be used. The first: {first}. "
            f"Correct them, or name another file or folder"
        )


def parquet_columns(path: Path, limits: ReadLimits = LIMITS) -> list[str]:
    """Return the names of the file's columns. Raises ValueError if it is not Parquet or unpacks beyond the limits."""
    import pyarrow.parquet

    head = check_file(path)
    if not head:
        raise ValueError(f"{named(path)}: is empty (0 bytes). Write it again or name another file")
    if head[:4] != b"PAR1":
        kind, way_out = foreign(head) or ("something else", "Write it again, or correct its name")
        raise ValueError(f"{named(path)}: not a Parquet file despite its name, but {kind}. {way_out}")
    with _damage_named(path), pyarrow.parquet.ParquetFile(path) as file:
        groups = range(file.metadata.num_row_groups)
        check_size(path, sum(file.metadata.row_group(group).total_byte_size for group in groups), limits)
        return list(file.schema_arrow.names)


def parquet_rows(path: Path, columns: ColumnNames, limits: ReadLimits = LIMITS) -> Iterator[dict[str, Any]]:
    """Yield each row as values by column, for these columns only.

    Raises ValueError if the file is damaged, or if its rows exceed the limits, even if it states a smaller size.
    """
    import pyarrow.parquet

    with _damage_named(path), pyarrow.parquet.ParquetFile(path) as file:
        yield from _rows(path, file.iter_batches(batch_size=_ROWS, columns=list(columns)), limits)


def column_classes(path: Path) -> dict[str, list[str]]:
    """Return column -> names of its classes, as `datasets` puts them into the metadata of a Parquet or Arrow file."""
    import pyarrow as pa
    import pyarrow.parquet

    with _damage_named(path):
        if check_file(path)[:4] == b"PAR1":
            return schema_classes(pyarrow.parquet.read_schema(path))
        with pa.OSFile(str(path)) as file:
            feather = file.read(6) == b"ARROW1"
            file.seek(0)
            return schema_classes((pa.ipc.open_file if feather else pa.ipc.open_stream)(file).schema)


def schema_classes(schema: Any) -> dict[str, list[str]]:
    """Return column -> names of its classes, by the metadata of an Arrow schema; metadata in another form have none."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        pairs = [(str(column), class_names(feature)) for column, feature in features.items()]
    except (ValueError, KeyError, TypeError, AttributeError):  # written by others, or for another purpose
        return {}
    return {column: names for column, names in pairs if names}


def class_names(feature: Any) -> list[str]:
    """Return the names of a feature of `datasets` that holds numbers of classes, or lists of them; [] for another."""
    if isinstance(feature, list) and len(feature) == 1:
        return class_names(feature[0])
    if not isinstance(feature, Mapping):
        return []
    names = feature.get("names")
    if feature.get("_type") == "ClassLabel" and isinstance(names, list):
        return [str(name) for name in names]
    return class_names(feature.get("feature"))


def is_dataset(folder: Path) -> bool:
    """Return True if `datasets` wrote the folder: one split (`Dataset.save_to_disk`), or its cache."""
    return (folder / "dataset_info.json").is_file() and bool(_arrow_files(folder))


def dataset_files(folder: Path) -> list[Path]:
    """Return the Arrow files of one split, in order.

    Raises ValueError if state.json is damaged or names a file that is missing or outside of the folder, or if the rows
    are a selection of the files' rows that was not written out.
    """
    state = folder / "state.json"
    if not state.is_file():
        return _arrow_files(folder)
    check_file(state)
    try:
        state_of_dataset = json.loads(state.read_bytes())
        listed = [entry["filename"] for entry in state_of_dataset["_data_files"]]
        selected = state_of_dataset.get("_indices_files") or state_of_dataset.get("_indices_data_files")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{named(state)}: not what `save_to_disk` writes ({error}). Save the dataset again") from error
    if selected:
        raise ValueError(
            f"{named(folder)}: contains a selection of rows without its data. Save it after `flatten_indices()`"
        )
    for name in listed:
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(f"{named(state)}: {shown(name)} is not a file of this folder. Save the dataset again")
        check_file(folder / name)
    return [folder / name for name in listed]


def _arrow_files(folder: Path) -> list[Path]:
    # `map` and `filter` cache their results in cache-*.arrow
    return sorted(file for file in folder.glob("*.arrow") if not file.name.startswith(("cache-", "tmp", ".")))


def arrow_columns(path: Path, limits: ReadLimits = LIMITS) -> list[str]:
    """Return the names of the columns in an Arrow file. limits: not used, because an Arrow file is not packed."""
    check_file(path)
    with _arrow(path) as (names, _):
        return names


def arrow_rows(path: Path, columns: ColumnNames, limits: ReadLimits = LIMITS) -> Iterator[dict[str, Any]]:
    """Yield each row as values by column, for these columns only. Raises ValueError as `parquet_rows` does."""
    with _arrow(path) as (_, batches):
        yield from _rows(path, _slices(batches, columns), limits)


def _slices(batches: Iterator[Any], columns: ColumnNames) -> Iterator[Any]:
    for batch in batches:
        chosen = batch.select(list(columns))
        chosen.validate(full=True)  # Arrow reads values at damaged offsets from outside of the file's memory
        yield from (chosen.slice(start, _ROWS) for start in range(0, chosen.num_rows, _ROWS))


@contextlib.contextmanager
def _arrow(path: Path) -> Iterator[tuple[list[str], Iterator[Any]]]:
    """Yield the names of the columns and the record batches: of a stream, as `datasets` writes, or a Feather file."""
    import pyarrow as pa

    with _damage_named(path), pa.OSFile(str(path)) as file:
        feather = file.read(6) == b"ARROW1"
        file.seek(0)
        if feather:
            table = pa.ipc.open_file(file)
            yield list(table.schema.names), (table.get_batch(number) for number in range(table.num_record_batches))
        else:
            with pa.ipc.open_stream(file) as stream:
                yield list(stream.schema.names), iter(stream)


def _rows(path: Path, batches: Iterator[Any], limits: ReadLimits) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    size = 0
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except (OverflowError, ValueError) as error:  # a time that Python cannot hold
            if isinstance(error, UnicodeDecodeError | pa.ArrowException):
                raise
            raise ValueError(
                f"{named(path)}: a value in it is out of range ({error}). Write it again as text"
            ) from error
        size += sum(_decoded(column).nbytes for column in batch.columns)
        check_size(path, size, limits)
        yield from rows


def _decoded(column: Any) -> Any:
    """Return the values of a column; one that stores each value once for all rows takes the room of all of them."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def check_size(path: Path, unpacked: int, limits: ReadLimits) -> None:
    size = path.stat().st_size
    if unpacked > limits.content or unpacked > max(limits.grace, limits.ratio * size):
        raise ValueError(
            f"{named(path)}: unpacks to {unpacked:,} bytes or more, {unpacked // size:,} times its size, like a "
            "decompression bomb. If the file is genuine, write it as .jsonl"
        )


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    # ArrowInvalid is a ValueError too, but does not name the file; too large for memory raises an ArrowException
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{named(path)}: damaged ({printable(str(error))[:200]}). Fetch or write it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{named(path)}: a text in it is not UTF-8 ({error}). Write it again from Unicode text"
        ) from error
