"""A dataset with splits, whose rows are in Arrow's form or are mappings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.core.types import Split
from acclimate.text.documents import check_size, schema_classes
from acclimate.text.untrusted import LIMITS, named, printable

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_NAMES: Mapping[Split, tuple[str, ...]] = {  # as published datasets call them; the first that is there counts
    "train": ("train", "training"),
    "dev": ("validation", "dev", "val", "valid"),
    "test": ("test", "testing", "eval", "evaluation"),
}
READ = 1_000  # rows of a Parquet file that are in memory at once


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
