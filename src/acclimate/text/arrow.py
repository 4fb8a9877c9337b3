"""Rows of Parquet files and of Hugging Face dataset folders, a batch at a time. Only Arrow's own readers are used."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from acclimate.text.packed import LIMITS, Limits, check_file, named
from acclimate.text.recognise import HEAD, foreign, printable, shown

_ROWS = 32  # decoded at a time: a text that is held once can stand in every one of them

Columns = Sequence[str]


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    # an ArrowInvalid is a ValueError too, but does not name the file; what is too large for memory is an ArrowException
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{named(path)}: damaged ({printable(str(error))[:200]}). Fetch or write it anew") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{named(path)}: a text in it is not UTF-8 ({error}). Write it anew from Unicode text"
        ) from error


def parquet_columns(path: Path, limits: Limits = LIMITS) -> list[str]:
    """The file's column names. Raises ValueError where it is no Parquet file, or unpacks beyond the limits."""
    import pyarrow.parquet

    check_file(path)
    with open(path, "rb") as file:
        head = file.read(HEAD)
    if not head:
        raise ValueError(f"{named(path)}: is empty (0 bytes). Write it anew or name another file")
    if head[:4] != b"PAR1":
        what, way_out = foreign(head) or ("something else", "Write it anew or give it the name that it should have")
        raise ValueError(f"{named(path)}: not a Parquet file, whatever its name says; it is {what}. {way_out}")
    with _damage_named(path), pyarrow.parquet.ParquetFile(path) as file:
        groups = range(file.metadata.num_row_groups)
        _check_size(path, sum(file.metadata.row_group(group).total_byte_size for group in groups), limits)
        return list(file.schema_arrow.names)


def parquet_rows(path: Path, columns: Columns, limits: Limits = LIMITS) -> Iterator[dict[str, Any]]:
    """The rows' values by column, these columns only.

    Raises ValueError where the file is damaged, and where its rows hold more than the limits allow, whatever it says.
    """
    import pyarrow.parquet

    with _damage_named(path), pyarrow.parquet.ParquetFile(path) as file:
        yield from _rows(path, file.iter_batches(batch_size=_ROWS, columns=list(columns)), limits)


def is_dataset(folder: Path) -> bool:
    """Whether the folder was written by `datasets`: one split (`Dataset.save_to_disk`), or a cache of it."""
    return (folder / "dataset_info.json").is_file() and bool(_arrow_files(folder))


def dataset_files(folder: Path) -> list[Path]:
    """The Arrow files of one split in their order.

    Raises ValueError where state.json is damaged, names a file outside of the folder or one that is not there, or where
    the rows are a selection of the files' rows that was not written out.
    """
    state = folder / "state.json"
    if not state.is_file():
        return _arrow_files(folder)
    check_file(state)
    try:
        said = json.loads(state.read_bytes())
        listed = [entry["filename"] for entry in said["_data_files"]]
        selected = said.get("_indices_files") or said.get("_indices_data_files")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{named(state)}: not what `save_to_disk` writes ({error}). Save the dataset anew") from error
    if selected:
        raise ValueError(
            f"{named(folder)}: holds a selection of rows that was not written out. Save it after `flatten_indices()`"
        )
    for name in listed:
        if not isinstance(name, str) or Path(name).name != name:
            raise ValueError(f"{named(state)}: {shown(name)} is not a file of this folder. Save the dataset anew")
        check_file(folder / name)
    return [folder / name for name in listed]


def _arrow_files(folder: Path) -> list[Path]:
    # cache-*.arrow hold what `map` and `filter` made of the others
    return sorted(file for file in folder.glob("*.arrow") if not file.name.startswith(("cache-", "tmp", ".")))


def arrow_columns(path: Path, limits: Limits = LIMITS) -> list[str]:
    """The names of the columns in a file of `dataset_files`; of the limits none applies to them."""
    import pyarrow as pa

    check_file(path)
    with _damage_named(path), pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return list(stream.schema.names)


def arrow_rows(path: Path, columns: Columns, limits: Limits = LIMITS) -> Iterator[dict[str, Any]]:
    """The rows' values by column, these columns only. Raises ValueError as `parquet_rows` does."""
    import pyarrow as pa

    with _damage_named(path), pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        chosen = (batch.select(list(columns)) for batch in stream)
        parts = (batch.slice(start, _ROWS) for batch in chosen for start in range(0, batch.num_rows, _ROWS))
        yield from _rows(path, parts, limits)


def _rows(path: Path, batches: Iterator[Any], limits: Limits) -> Iterator[dict[str, Any]]:
    taken = 0
    for batch in batches:
        rows = batch.to_pylist()
        taken += batch.nbytes
        _check_size(path, taken, limits)
        yield from rows


def _check_size(path: Path, unpacked: int, limits: Limits) -> None:
    size = path.stat().st_size
    if unpacked > limits.content or unpacked > max(limits.grace, limits.ratio * size):
        raise ValueError(
            f"{named(path)}: unpacks to {unpacked:,} bytes or more, {unpacked // size:,} times its size, as a "
            f"decompression bomb does. If it is what it should be, write it as .jsonl"
        )
