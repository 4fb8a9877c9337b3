"""What a user holds in place of a file, as files: tables in memory, lists of rows, saved datasets, the hub's datasets.

A table in memory is anything that hands its columns over in Arrow's form (`__arrow_c_stream__`: pyarrow, pandas,
polars, DuckDB and others), in the older interchange form (`__dataframe__`), or as a `datasets.Dataset` does
(`with_format`). None of these libraries is imported here. Several splits come as a mapping such as a `DatasetDict`, or
as three tables.

Each split becomes one file in a directory of the cache, named by a hash of the file, its name and its record: the
same rows are the same file, so jobs, seals, leaks and resuming know nothing of where rows came from. A record beside it
says where. Of a table only the columns that the task reads are written; numbers that stand for names of classes
(`ClassLabel`) are written as the names. Questions in the form of the hub's SQuAD become a file in SQuAD's form.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.names import nearest, shown
from acclimate.core.settings import digest
from acclimate.core.types import SPLITS, Split
from acclimate.data.dataset import (
    SPLIT_NAMES,
    Rows,
    Source,
    Table,
    arrow_table,
    dataset_table,
    group_by_split,
    holds_lists,
    named_classes,
    parquet_table,
    saved_table,
    withholds,
    write_questions,
    write_rows,
)
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.source import QUESTION_COLUMNS
from acclimate.reading.tables import no_column
from acclimate.text.documents import check_documents, files_of, is_dataset
from acclimate.text.untrusted import INPUTS, RECORD, named

SAVED_SPLITS = "dataset_dict.json"  # which `DatasetDict.save_to_disk` writes
WAYS = (
    "Give a file, a dataset of the hub (owner/name), a folder that `datasets` saved, a DataFrame, an Arrow table, a "
    "Dataset, a list of dicts, or {'train': ..., 'dev': ..., 'test': ...} of these"
)


@dataclass(frozen=True)
class HubChoice:
    """Which part of a dataset of the hub is meant. split: to train on; "": train."""

    config: str = ""
    split: str = ""
    revision: str = ""


def labelled_files(
    train: Any, labelled: LabelledFiles, *, dev: Any = None, test: Any = None, choice: HubChoice = HubChoice()
) -> LabelledFiles:
    """Return `labelled` with the paths of these inputs, and with the kind of task if it is "auto" and columns show it.

    train      a path, a table, a list of rows, several splits of these, a folder that `datasets` saved or one of
               Parquet files, or a dataset of the hub
    dev, test  the same; or the name of a split, where `train` has several

    Raises ValueError for what holds no rows, and for a missing column or split.
    """
    source = source_of(train, choice)
    paths: dict[str, Any] = {}
    others: dict[Split, Any] = {"dev": dev, "test": test}
    if source is None:
        _refuse_choice(choice, train)
        paths["train"] = Path(train)
    else:
        chosen, others = _chosen(source, choice.split, others)
        rows = {split: source.splits[name]() for split, name in chosen.items()}
        labelled = replace(labelled, kind=_kind(rows["train"], labelled), dev=None, test=None)
        used, notes = {*chosen.values()}, [*source.facts.get("notes", ())]
        if "test" in rows and withholds(rows["test"], labelled.label):
            if test is not None:
                raise ValueError(
                    f"{source.about}: the labels of {chosen['test']} are withheld. Name another split with test "
                    "labels, or remove test to draw test rows from train"
                )
            notes = [f"{source.about}: the labels of {chosen.pop('test')} are withheld, so the split was not read."]
        if unread := source.splits.keys() - used:
            listed = ", ".join(name for name in source.splits if name in unread)
            # the note is part of the file's record, which does not depend on the door
            notes.append(f"{source.about}: no rows were read from {listed}; split, dev or test names a split.")
        for split, name in chosen.items():
            facts = {"split": name, **source.facts, "notes": notes if split == "train" else []}
            paths[split] = _written(rows[split], labelled, source, split, facts)
    for split, other in others.items():
        if other is None:
            continue
        apart = source_of(other, HubChoice())
        if apart is None:
            path = Path(other)
        else:
            [(name, read)] = _only(apart)
            path = _written(read(), labelled, apart, split, {"split": name, **apart.facts})
        paths[split] = path
    return replace(labelled, **paths)


def _refuse_choice(choice: HubChoice, file: Any) -> None:
    """Raises ValueError if a part of a dataset is stated for a file."""
    for name, value in vars(choice).items():
        if value:
            raise ValueError(
                f"{name}={value!r} applies only to datasets with several splits, but {file} is a single file. Remove it"
            )


def raw_text(held: Any, *, column: str = "text", choice: HubChoice = HubChoice()) -> Path:
    """Return the path of raw text: `held` itself if it is a path without splits, else the file that its texts become.

    held    what `labelled_files` takes, a list of paths, or an iterable of texts. Of several splits, also of a folder
            that `datasets` saved or one of Parquet files, "train" is read, or the only one
    column  of the texts, where there is none called "text"; a single column of text needs no name
    """
    if isinstance(held, list | tuple) and held and all(isinstance(path, Path) for path in held):
        return joined_corpora(held)
    if isinstance(held, str) and not held:
        raise ValueError("the path of raw text is empty. Name a file or folder, or leave it out")
    if isinstance(held, str | Path) and not is_hub_id(held) and not _has_splits(Path(os.path.expanduser(held))):
        return Path(held)
    if not isinstance(held, str | Path | Mapping) and isinstance(held, Iterable) and not is_table(held):
        held = held.tolist() if hasattr(held, "tolist") else list(held)  # pandas', NumPy's and Arrow's columns
        if held and all(isinstance(text, str) for text in held):
            held = [{"text": text} for text in held]
    source = source_of(held, choice)
    assert source is not None
    name = choice.split or next((name for name in SPLIT_NAMES["train"] if name in source.splits), "")
    if not name:
        [(name, _)] = _only(source)
    rows = _split(source, name)()
    present = _columns(rows)
    texts = rows.text_columns if isinstance(rows, Table) else []
    text_column = next(
        (candidate for candidate in ("text", column, *(texts if len(texts) == 1 else ())) if candidate in present), ""
    )
    if not text_column:
        raise no_column(
            source.about, "text", present, "; raw text is read from the column 'text' or the text column of the task"
        )
    write = partial(write_rows, rows, {text_column: "text"})
    return _cache_file(_name(source.name), _ending(rows), write, {"about": source.about, "split": name, **source.facts})


def joined_corpora(corpora: Sequence[Path]) -> Path:
    """Return the path of raw text that has all of these: the only one, or a folder of the cache with links to them.

    Raises ValueError for a corpus that is given twice, one that is not there, and one that `data corpus` wrote.
    """
    if len(corpora) == 1:
        return corpora[0]
    paths = [raw_text(corpus).resolve() for corpus in corpora]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise ValueError(f"{option('corpus', named(corpora[number]))} appears twice. Give each corpus once")
        if any((path / name).exists() for name in ("corpus.json", "preparation.json")):
            raise ValueError(
                f"{named(corpora[number])}: a corpus that `acclimate data corpus` wrote cannot be combined with "
                "another corpus. Give the raw texts, or write one corpus from all of them"
            )
        check_documents(path)
    name = _name("-and-".join(path.stem for path in paths))[:100]
    folder = files.cache() / INPUTS / digest([*map(str, paths)])[:24] / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(paths, 1):
        with contextlib.suppress(FileExistsError):
            (folder / f"{number}-{path.name}").symlink_to(path)
    return folder


def rows_file(held: str | Path, choice: HubChoice = HubChoice()) -> Path:
    """Return the path of a file of rows, whose labels are not read: `held` itself, or the file that a split becomes,
    with all columns.

    held   a file, or what has splits: a dataset of the hub, a folder that `datasets` saved or one of Parquet files
    choice.split  the split to read; "": the only one

    Raises ValueError if there are several splits and none is stated.
    """
    source = source_of(held, choice)
    if source is None:
        _refuse_choice(choice, held)
        return Path(held)
    if not choice.split and len(source.splits) > 1:
        raise ValueError(
            f"{source.about}: has the splits {', '.join(source.splits)}. Name one: {option('split', 'NAME')}"
        )
    name = choice.split or next(iter(source.splits))
    rows = _split(source, name)()
    write = partial(write_rows, rows, {column: column for column in _columns(rows)})
    return _cache_file(_name(source.name), _ending(rows), write, {"about": source.about, "split": name, **source.facts})


def _has_splits(folder: Path) -> bool:
    """Return True for a folder that holds several splits and no other raw text."""
    if not folder.is_dir() or any((folder / name).exists() for name in ("corpus.json", "preparation.json")):
        return False
    if not (folder / SAVED_SPLITS).is_file() and (
        not _parquet_files(folder) or any(file.suffix != ".parquet" for file in files_of(folder))
    ):
        return False
    source = _open_folder(folder)
    return source is not None and len(source.splits) > 1


def is_table(held: Any) -> bool:
    """Return True for a table in memory."""
    if is_column(held):
        return False
    return hasattr(held, "__arrow_c_stream__") or hasattr(held, "__dataframe__") or _is_dataset_object(held)


def is_column(held: Any) -> bool:
    """Return True for a single column in memory: a Series, an array."""
    return not isinstance(held, type) and (hasattr(held, "to_list") or hasattr(held, "tolist"))


def _is_dataset_object(held: Any) -> bool:
    return hasattr(held, "with_format") and hasattr(held, "features")


def dicts_of(held: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table in memory."""
    rows = _table_or_rows(held)[1]()
    assert isinstance(rows, Table)
    columns = _columns(rows)
    for batch in rows.batches(columns):
        yield from named_classes(batch, rows.names(), dict(zip(columns, columns, strict=True))).to_pylist()


def is_hub_id(held: str | Path) -> bool:
    """Return True if the text has the form of a dataset of the hub and names nothing here."""
    from acclimate.data.hub import CSV, parsed

    name = str(held)
    return not Path(os.path.expanduser(held)).exists() and (CSV.fullmatch(name) is not None or parsed(name) is not None)


def source_of(held: Any, choice: HubChoice) -> Source | None:
    """Return the splits of what the user holds; None if it is the path of a file, or is to be read as one."""
    if isinstance(held, str | Path):
        if is_hub_id(held):
            from acclimate.data.hub import csv_source, hub_source

            return csv_source(str(held)) or hub_source(str(held), config=choice.config, revision=choice.revision)
        return _open_folder(Path(os.path.expanduser(held)))
    if isinstance(held, tuple) and len(held) == len(SPLITS) and not isinstance(held[0], Mapping):
        held = {split: part for split, part in zip(SPLITS, held, strict=True) if part is not None}
    if isinstance(held, Mapping) and not is_table(held):
        return _open_mapping(held)
    about, read = _table_or_rows(held)
    return Source("table" if is_table(held) else "rows", about, {"train": read})


def _open_folder(folder: Path) -> Source | None:
    """Return the splits of a folder that `datasets` saved, or of Parquet files; None for another path."""
    splits: dict[str, Callable[[], Rows]] = {}
    if (folder / SAVED_SPLITS).is_file():
        listed = files.read_json(folder / SAVED_SPLITS)
        names = listed.get("splits") if isinstance(listed, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise ValueError(f"{named(folder / SAVED_SPLITS)}: not what `save_to_disk` writes. Save the dataset again")
        splits = {name: partial(saved_table, folder / name) for name in names}
    elif is_dataset(folder):
        splits = {"train": partial(saved_table, folder)}
    elif folder.is_dir():
        paths = _parquet_files(folder)
        splits = {
            name: partial(parquet_table, [folder / file for file in listed], {})
            for name, listed in group_by_split(paths).items()
        }
    return Source(folder.resolve().name, f"the folder {named(folder)}", splits) if splits else None


def _parquet_files(folder: Path) -> list[str]:
    """Return the Parquet files below the folder, relative to it, without hidden files and folders."""
    relative = (file.relative_to(folder) for file in folder.rglob("*.parquet"))
    return sorted(file.as_posix() for file in relative if not any(part.startswith(".") for part in file.parts))


def _open_mapping(held: Mapping[Any, Any]) -> Source:
    known = {name for names in SPLIT_NAMES.values() for name in names}
    if held and all(isinstance(name, str) for name in held) and (known & held.keys() or _hold_tables(held.values())):
        about = f"the {type(held).__name__}" if type(held) is not dict else "the dict of splits"
        splits = {name: _table_or_rows(part)[1] for name, part in held.items() if part is not None}
        return Source("table", about, splits)
    if held and all(isinstance(column, list | tuple) for column in held.values()):
        try:
            rows = [dict(zip(held, values, strict=True)) for values in zip(*held.values(), strict=True)]
        except ValueError:
            lengths = ", ".join(f"{shown(name)} has {len(column)}" for name, column in held.items())
            raise ValueError(f"the dict of columns: the columns have different lengths: {lengths}") from None
        return Source("rows", "the dict of columns", {"train": lambda: rows})
    raise ValueError(f"{shown(held)}: has neither splits nor columns. {WAYS}")


def _hold_tables(parts: Iterable[Any]) -> bool:
    return all(is_table(part) or (isinstance(part, list) and part and isinstance(part[0], Mapping)) for part in parts)


def _table_or_rows(held: Any) -> tuple[str, Callable[[], Rows]]:
    """Return what a single split is, and the function that returns its rows."""
    if isinstance(held, str | Path):
        read = _open_folder(Path(held))
        if read is None or len(read.splits) > 1:
            raise ValueError(
                f"{held}: each split of a dict must be a table or a list of rows. Pass paths as dev= and test="
            )
        [(_, rows)] = read.splits.items()
        return read.about, rows
    library = type(held).__module__.partition(".")[0]
    about = f"the {type(held).__name__}" if library == "builtins" else f"the {library} {type(held).__name__}"
    if _is_dataset_object(held):
        if not hasattr(held, "__len__"):
            raise ValueError(
                f"{about} is a stream without a known end. Give some of its rows: list(dataset.take(5000))"
            )
        return about, partial(dataset_table, held)
    if is_table(held):
        return about, partial(arrow_table, held, about)
    if isinstance(held, Sequence) and not isinstance(held, bytes) and all(isinstance(row, Mapping) for row in held):
        if not held:
            raise ValueError("the list of rows is empty. Give at least one row")
        return f"the list of {len(held):,} rows", lambda: held
    raise ValueError(f"{about}: contains no rows that acclimate can read. {WAYS}")


def _chosen(source: Source, train: str, others: Mapping[Split, Any]) -> tuple[dict[Split, str], dict[Split, Any]]:
    """Return which split of the source is train, dev and test, and those of `others` that are no splits of it."""
    only = next(iter(source.splits)) if len(source.splits) == 1 else ""
    usual = {split: next((name for name in SPLIT_NAMES[split] if name in source.splits), "") for split in SPLITS}
    chosen: dict[Split, str] = {"train": train or usual["train"] or only}
    if not chosen["train"]:
        listed = ", ".join(source.splits)
        raise ValueError(
            f"{source.about}: has no split 'train'; its splits are {listed}. Name one: {option('split', 'NAME')}"
        )
    _split(source, chosen["train"])
    apart: dict[Split, Any] = {}
    for split, other in others.items():
        names_split = isinstance(other, str | Path) and len(source.splits) > 1 and not Path(other).exists()
        if names_split and not is_hub_id(other):
            _split(source, str(other))
            chosen[split] = str(other)
        elif other is not None:
            apart[split] = other
    for split, name in usual.items():
        if name and split not in {**chosen, **apart} and name not in chosen.values():
            chosen[split] = name
    return chosen, apart


def _split(source: Source, name: str) -> Callable[[], Rows]:
    """Return the function that reads the split. Raises ValueError, with the nearest, if there is none of the name."""
    if name not in source.splits:
        sliced = f" Slices are not supported; {option('rows')} samples rows." if "[" in name else ""
        raise ValueError(
            f"{source.about}: has no split {name!r}; the nearest is {nearest(name, source.splits)!r} of "
            f"{', '.join(source.splits)}.{sliced} Name one of these"
        )
    return source.splits[name]


def _only(source: Source) -> list[tuple[str, Callable[[], Rows]]]:
    """Return the only split. Raises ValueError if there are several."""
    if len(source.splits) > 1:
        raise ValueError(
            f"{source.about}: has several splits ({', '.join(source.splits)}), but one is needed. Name one of them"
        )
    return [*source.splits.items()]


def _columns(rows: Rows) -> list[str]:
    """Return the names of all columns, in order."""
    return rows.columns if isinstance(rows, Table) else [*dict.fromkeys(name for row in rows for name in row)]


def _kind(rows: Rows, labelled: LabelledFiles) -> Any:
    """Return the kind of task by `labelled` or by the types of columns; "auto" where the labels have to be read."""
    if labelled.kind != "auto":
        return labelled.kind
    if set(QUESTION_COLUMNS) <= set(_columns(rows)) and labelled.label == "label":
        return "span"
    text, label = (holds_lists(rows, column) for column in (labelled.text, labelled.label))
    return "tokens" if text and label else "auto"


def _written(rows: Rows, labelled: LabelledFiles, source: Source, split: Split, facts: Mapping[str, Any]) -> Path:
    """Return the file of a split. Raises ValueError for a missing column."""
    about = source.about if len(source.splits) == 1 else f"{source.about}, split {facts['split']}"
    name = _name(source.name) + ("" if split == "train" else f".{split}")
    record = {"about": about, **facts}
    present = _columns(rows)
    if labelled.kind == "span":
        for column in QUESTION_COLUMNS:
            if column not in present:
                raise no_column(about, column, present, "; questions have context, question and answers")
        return _cache_file(name, ".json", partial(write_questions, rows), record)
    columns = labelled.columns
    for role, column in columns.stated().items():
        for column_name in [column] if isinstance(column, str) else column:
            if column_name not in present:
                raise no_column(about, column_name, present, role=role)
    write = partial(write_rows, rows, {column: column for column in columns.names()})
    return _cache_file(name, _ending(rows), write, record)


def _ending(rows: Rows) -> str:
    return ".parquet" if isinstance(rows, Table) else ".jsonl"


def _cache_file(name: str, ending: str, write: Callable[[Path], None], record: Mapping[str, Any]) -> Path:
    """Return the file that `write` writes, in a directory of the cache that is named by its content and its record."""
    place = files.cache() / INPUTS
    place.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".", dir=place))
    try:
        folder = temporary / "made"  # with the usual rights; only the user may open what mkdtemp makes
        folder.mkdir()
        file = folder / f"{name}{ending}"
        write(file)
        with open(file, "rb+") as written:
            os.fsync(written.fileno())
        files.write_json(file.with_name(f"{file.name}{RECORD}"), record)
        directory = place / digest([files.sha256_of(file), name, record])[:24]
        path = directory / file.name
        try:
            if not path.exists():
                os.replace(folder, directory)
        except OSError:
            if not path.exists():  # otherwise another process was faster and wrote the same
                raise
        return path
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _name(text: str) -> str:
    """Return the text as the name of a file without dots, which begin an ending."""
    return re.sub(r"[^\w-]+", "-", text).strip("-") or "table"
