"""Checks of what was typed, before anything heavy is imported: whether files and directories are there, and whether a
verb has what it needs. Each takes what was typed, by the names of the verb's parameters, and raises ValueError.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.api.settings import schema, stand_in_of
from acclimate.core.door import option
from acclimate.core.settings import check_no_more
from acclimate.data.embedded import is_embedded
from acclimate.models.loading import SCRATCH
from acclimate.studies import Study

if TYPE_CHECKING:
    from acclimate.reading.labelled_files import LabelledFiles

# options of labelled files: fields of reading.labelled_files.LabelledFiles (split_seed is `seed`) and of HubChoice
LABELLED = (
    *("dev", "test", "text", "pair", "label", "labels", "group", "id", "kind", "separator", "fold_labels", "repair"),
    *("metric", "max_tokens", "split_seed"),
)
HUB = ("config", "split", "revision")
LISTED = "words"  # a parameter of this name takes models or files, and settings among them
RAW_TEXT = ("corpus", "dev", "general", "vectors_corpus")  # settings of a method that name raw text
FILES = ("word_list", "vectors")  # settings of a method that name a file
MODELS = ("model", "tokenizer")  # settings of a method that name a model
PREPARED = "which `acclimate data prepare FILE` writes: OUT/data"
NEEDED = {  # option of a study -> what is wrong without it
    "model": "needs a pretrained model. Add --model with a directory or hub id",
    "corpus": "needs raw text of the domain. Add --corpus with a file or folder of it",
    "general": "needs general text. Add --general with a file or folder of it",
    "data": "reads its datasets from a folder. Add --data DIR",
}


def check_raw_text(path: Path, field: str = "text") -> None:
    """Raises ValueError unless the path is raw text, a file or folder, a corpus that was written before, or a dataset
    that the hub has.

    field: of .jsonl and .parquet files, which holds the text
    """
    from acclimate.data.as_files import HubChoice, is_hub_id, source_of
    from acclimate.text.documents import check_documents

    if is_hub_id(path):
        source_of(path, HubChoice())
        return
    written = any((path / name).exists() for name in ("corpus.json", "preparation.json"))
    if not written:
        check_documents(path, field=field)


def check_texts(path: Path, column: str) -> None:
    """Raises ValueError unless the path is a table with this column, or raw text as `check_raw_text` takes it."""
    from acclimate.reading.source import ending_of, open_source
    from acclimate.reading.tables import table_rows

    if ending_of(path) in (".csv", ".tsv"):
        next(table_rows(open_source(path), [column]))
    else:
        check_raw_text(path, column)


def check_directory(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError unless `run` is a directory."""
    if not parameters["run"].is_dir():
        raise ValueError(
            f"{parameters['run']}: there is no such directory. Give the {option('out')} of a race or a study"
        )


def check_ended(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError unless `run` holds a race or study that has come to its end."""
    from acclimate.jobs.lock import OUTCOME

    check_directory(parameters)
    if not any(parameters["run"].glob(f"*{OUTCOME}")):
        raise ValueError(
            f"{parameters['run']} has no outcome yet: nothing there is finished. Run the command again to continue"
        )


def check_race(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError unless `run` holds a race that has come to its end."""
    from acclimate.jobs.lock import OUTCOME

    check_ended(parameters)
    if not (parameters["run"] / f"race{OUTCOME}").is_file():
        raise ValueError(f"{parameters['run']} belongs to another study. Give the {option('out')} of a race")


def check_locked(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError unless `run` holds a study that has come to its end."""
    from acclimate.jobs.lock import read_lock

    check_directory(parameters)
    read_lock(parameters["run"])


def check_method(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError for models, texts and tasks of a method's settings that are missing."""
    method = parameters["method"]
    recipe = check_settings(method, parameters)
    for name in (name for name in MODELS if hasattr(recipe, name)):
        check_models([getattr(recipe, name)])
    for name in (name for name in RAW_TEXT if getattr(recipe, name, Path()) != Path()):
        check_raw_text(getattr(recipe, name))
    for name in (name for name in FILES if getattr(recipe, name, "") not in ("", Path())):
        if not Path(os.path.expanduser(getattr(recipe, name))).is_file():
            raise ValueError(f"{name} = {getattr(recipe, name)}: there is no such file")
    tasks = [getattr(recipe, "task", Path()), *getattr(recipe, "tasks", ())]
    for path in (path for path in tasks if path != Path()):
        _check_task(path)
    about = schema()["names"][method]
    without = about.get("without_corpus", {})
    reads_corpus = not without or any(getattr(recipe, name) != value for name, value in without.items())
    wanting = {
        "corpus": "no corpus given. Add corpus=PATH: a file or folder of raw text",
        "task": f"no task given. Add task=DIR, {PREPARED}",
        "tasks": f'no tasks given. Add tasks=["DIR", "DIR"], each a directory {PREPARED}',
    }
    for name, why in wanting.items():
        needed = name in about["needs"] and (name != "corpus" or reads_corpus)
        if needed and getattr(recipe, name) in ("", Path(), ()):
            raise ValueError(why)


def _check_task(path: Path) -> None:
    """Raises ValueError unless a prepared task lies in the directory."""
    from acclimate.tasks.prepared import open_prepared

    if not path.exists():
        raise ValueError(f"{path}: there is no such directory of a task, {PREPARED}")
    open_prepared(path)


def check_start(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError if a small encoder is to be pretrained and there is no general text for it."""
    if parameters["model"] == SCRATCH and parameters["general"] is None:
        raise ValueError(
            "--model scratch pretrains a small encoder on general text: give --general TEXT, or remove --model to "
            "start from the embedded encoder"
        )


def check_adaptations(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError if a race states more adaptations of a contestant than fine-tunings."""
    recipe = check_settings("race", parameters)
    if recipe is not None:  # None: a user's method is among the contestants, and the recipe checks this later
        check_no_more(recipe, "adapt_seeds", than="seeds")


def check_study(study: Study, parameters: Mapping[str, Any]) -> None:
    """Raises ValueError for files and models that are not there, and for what the study needs besides.

    Of several datasets some may be absent: the study reports these and runs the others.
    """
    from acclimate.reading.datasets.catalogue import AbsentError

    data = parameters["data"]
    if LISTED in parameters:
        models, _ = apart(parameters[LISTED])
        check_models(models)
        if not models:
            raise ValueError("no model given. Name one or more models: directories or hub ids")
    recipe = check_settings(f"study {study.name}", parameters)
    if "task" in parameters:
        try:
            check_files(parameters)
        except AbsentError:
            if not getattr(recipe, "tasks", ()):
                raise
    elif data is not None and not data.is_dir():
        raise ValueError(f"--data {data}: there is no such folder")
    for path in (parameters.get("corpus"), parameters.get("general")):
        if path is not None:
            check_raw_text(path)
    for name in study.needs:
        if parameters[name] is None:
            raise ValueError(f"the study '{study.name}' {NEEDED[name]}")
    if "task" in parameters and parameters["model"] is None and parameters["general"] is None:
        raise ValueError(f"the study '{study.name}' {NEEDED['general']}")
    _check_datasets(recipe, data)


def _check_datasets(recipe: Any, data: Path | None) -> None:
    """Raises ValueError for files and texts of a study's settings that are not there. data: a benchmark's folder."""
    from acclimate.reading.datasets.catalogue import AbsentError

    if data is None and getattr(recipe, "datasets", None) == ():
        raise ValueError("no datasets given. Add --data DIR, a folder of datasets, or datasets=[...] that names files")
    for named in (*getattr(recipe, "datasets", ()), *getattr(recipe, "tasks", ())):
        with suppress(AbsentError):  # the study reports it
            _check_dataset(named, data)
    for corpus in getattr(recipe, "corpora", ()):
        check_raw_text(Path(corpus))
    if first := getattr(recipe, "first", ""):
        if data is None and not Path(first).is_file():
            raise ValueError(f"first = {first!r}: there is no such file; to name a dataset give --data DIR")
        _check_dataset(first, data)
    for name in ("heldout", "second", "full_texts"):
        if place := getattr(recipe, name, ""):
            check_raw_text(Path(place))


def _check_dataset(named: Any, data: Path | None) -> None:
    """Raises ValueError unless this is a labelled file, with its columns if they are stated, or a dataset in `data`."""
    from acclimate.data.as_files import is_hub_id, labelled_files
    from acclimate.reading.labelled_files import LabelledFiles, check_labelled_files, with_way_out
    from acclimate.reading.published import check_published, unplaced
    from acclimate.reading.tables import ColumnError

    files = LabelledFiles(**({"train": Path(named)} if isinstance(named, str) else vars(named)))
    if data is None and is_hub_id(files.train):
        labelled_files(files.train, files, dev=files.dev, test=files.test)
        return
    is_file = files.train.is_file() or (files.kind == "tokens" and files.train.is_dir())
    if data is not None and not is_file:
        check_published(str(files.train), data)
    elif not files.train.exists() and (way_out := unplaced(str(files.train))):
        raise ValueError(way_out)
    else:
        try:
            check_labelled_files(files)
        except ColumnError as error:
            raise (with_way_out(error, named) if isinstance(named, str) else error) from None


def check_settings(name: str, parameters: Mapping[str, Any], *more: str) -> Any:
    """Return the settings of --recipe, of the command line and `more`, as a stand-in: no recipe is imported.

    None if a contestant is a user's method. Raises ValueError for a key, a type, a choice or a number that the recipe
    of this name does not have.
    """
    from acclimate.core import settings

    of_users = [
        named
        for key, _, value in (assignment.partition("=") for assignment in assignments_in(parameters))
        for named in re.findall(r"[^\[\]\"',]+::\w*", value)
        if key == "contestants"
    ]
    if of_users:  # methods in a user's files: their settings are known once the files are imported
        for named in of_users:
            settings.code_at(named)
        return None
    base = stand_in_of(name)
    for assignment in assignments_in(parameters):
        key, _, value = assignment.partition("=")
        if not hasattr(base, key) and key in parameters:
            if key == "task" or (key == "model" and name == "evaluate"):
                order = "evaluate MODEL TASK" if name == "evaluate" else f"{name} TASK"
                raise ValueError(
                    f"command line: '{key}' is no setting: write {value} where `{order}` has {key.upper()}"
                )
            option = key.replace("_", "-")
            raise ValueError(f"command line: '{key}' is an option here, not a setting: write --{option} {value}")
    path = parameters.get("recipe")
    file_recipe = settings.from_toml(type(base), path, base=base) if path else base
    return settings.override(file_recipe, assignments_in(parameters, *more))


def check_ready(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError for parts of a dataset that are stated beside the embedded dataset or one of a benchmark, whose
    files and splits are settled.
    """
    task = parameters.get("task")
    if parameters.get("data") is None and not is_embedded(task):
        return
    unread = [name for name in HUB if parameters.get(name)]
    unread += [name for name in ("dev", "test") if not isinstance(parameters.get(name), str | Path | None)]
    if unread:
        raise ValueError(f"{unread[0]}: {task} already defines its files and splits. Remove {unread[0]}")


def label_columns(named: str | Sequence[str] | None) -> str | tuple[str, ...]:
    """Return the column of the label, or several of 0 and 1. named: as typed or as a keyword; None: not stated"""
    columns = (named,) if isinstance(named, str) else tuple(named or ("label",))
    return columns[0] if len(columns) == 1 else columns


def label_names(listed: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of labels: a list, or a text with commas between. Raises ValueError for an empty name."""
    names = tuple(name.strip() for name in (listed.split(",") if isinstance(listed, str) and listed else listed))
    if "" in names:
        raise ValueError(
            f"{option('labels', ','.join(names))}: name {names.index('') + 1} is empty. Give each label a name"
        )
    return names


def labelled_files_of(parameters: Mapping[str, Any]) -> LabelledFiles:
    from acclimate.reading.labelled_files import LabelledFiles

    files = {name: parameters[name] for name in LABELLED if name != "split_seed"}
    files |= {"label": label_columns(files["label"]), "labels": label_names(files["labels"])}
    return LabelledFiles(train=Path(parameters["task"] or ""), seed=parameters["split_seed"], **files)


def apart(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the names among what was typed, and the settings: each `key=value`, unless a folder has that name.

    Raises ValueError for an option that the verb does not have.
    """
    if unknown := next((argument for argument in arguments if argument.startswith("-")), ""):
        name = unknown.partition("=")[0].lstrip("-").replace("-", "_")
        raise ValueError(f"{unknown}: there is no such option. Settings are written without dashes, as {name}=VALUE")
    settings = [argument for argument in arguments if "=" in argument and not Path(argument).is_dir()]
    return [argument for argument in arguments if argument not in settings], settings


def check_files(parameters: Mapping[str, Any]) -> None:
    """Raises ValueError for labelled files and raw text that are not there, and for columns that the files lack."""
    from acclimate.reading.labelled_files import check_labelled_files
    from acclimate.text.documents import check_documents

    name, data = str(parameters["task"]), parameters.get("data")
    if data is not None:
        from acclimate.reading.published import check_published

        check_published(name, data)
    else:
        if not Path(name).exists():
            from acclimate.reading.published import unplaced

            if way_out := unplaced(name):
                raise ValueError(way_out)
        check_labelled_files(labelled_files_of(parameters))
    for path in (parameters.get("corpus"), parameters.get("general")):
        if path is not None:
            check_documents(path)


def check_models(names: Sequence[str | None]) -> None:
    """Raises ValueError for a model that is neither a directory nor of the form of a hub id."""
    from acclimate.models.loading import locate

    for model in names:
        if model:
            locate(model)


def check_tracker(names: Sequence[str] | None) -> None:
    """Raises ValueError for an unknown tracker."""
    if names:
        from acclimate.training.trackers import TRACKERS

        for name in names:
            if name not in TRACKERS:
                raise ValueError(f"no tracker is named '{name}'. Known: {', '.join(TRACKERS)}")


def assignments_in(parameters: Mapping[str, Any], *options: str) -> list[str]:
    """Return the settings that were typed, then `options`: those typed as options, as `key=value`.

    Raises ValueError for one that was typed twice.
    """
    typed = apart(parameters[LISTED])[1] if LISTED in parameters else list(parameters.get("assignments") or [])
    assignments = [*typed, *options]
    values: dict[str, str] = {}
    for key, _, value in (assignment.partition("=") for assignment in assignments):
        if key in values:
            raise ValueError(f"command line: '{key}' appears twice, as {values[key]} and as {value}. Give it once")
        values[key] = value
    return assignments
