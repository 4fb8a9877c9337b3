"""Rows in a file that is one JSON value: lists of objects, the forms of pandas' `to_json`, and tasks of Label Studio.

form        content
records     [{"text": ..., "label": ...}, ...], also as the one list of rows in an object (with pandas' "table", its
            schema)
split       {"columns": ["text", "label"], "index": [...], "data": [[..., ...], ...]}
columns     {"text": {"0": ..., "1": ...}, "label": {"0": ..., "1": ...}}
index       {"0": {"text": ..., "label": ...}, "1": ...}
lists       {"text": [..., ...], "label": [..., ...]}, also with single values beside them
tasks       [{"data": {"text": ...}, "annotations": [{"result": [...]}]}, ...]; each control of the annotations is a
            column, and a single control is the column `label` too: {"choices": [...]}, a list of spans, or a number

Before version 1 of Label Studio, `completions` were what `annotations` are. An annotation that was cancelled is not
used; of several, the ground truth is, or else the first.

Names of columns are found in the values, so the columns that are sought decide between "columns" and "index".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown

SPLITS = ("train", "validation", "dev", "test")
DEEPEST = 6  # lists and keys above rows in an object of another form


def table_of(value: Any, columns: Sequence[str], name: str, notes: list[str]) -> list[Any]:
    """Return the rows of a parsed file; an element that is no object is returned as it is.

    columns  names that the rows should have, the text's first; name: of the file, for messages
    notes    what is said of the form is added here
    Raises ValueError, with the command that converts the file, if it has no such rows.
    """
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        raise ValueError(
            f"{name}: is a list of lists without column names (pandas' orient='values'). Name the columns: jq "
            f"-c '.[]{_named(columns)}' OLD > NEW.jsonl"
        )
    rows = [value] if _is_task(value) else value
    if isinstance(rows, dict) and rows:
        rows, key = _rows_within(rows, columns, name)
        which = f", the list {shown(key)}" if key else ""
        notes.append(f"{name} is one JSON object of rows or columns. It is read as a table{which}.")
    if not isinstance(rows, list):
        raise ValueError(f"{name}: is one JSON value without rows, {shown(value)}. Write a list of objects")
    if rows and all(map(_is_task, rows)):
        rows, note = _task_rows(rows, columns, name)
        notes.append(note)
    return rows


def _rows_within(value: dict[str, Any], columns: Sequence[str], name: str) -> tuple[list[Any], str]:
    """Return the rows of an object, and the key of the one list of rows in it, or "" for another form."""
    if isinstance(value.get("columns"), list) and isinstance(value.get("data"), list):
        names = [str(column) for column in value["columns"]]
        if any(not isinstance(row, list) or len(row) != len(names) for row in value["data"]):
            raise ValueError(f"{name}: each list in 'data' must have {len(names)} values, one per name in 'columns'")
        return [dict(zip(names, row, strict=True)) for row in value["data"]], ""
    way = _way_to(value, columns)
    if columns[0] not in value:
        splits = [split for split in SPLITS if isinstance(value.get(split), list | dict)]
        if splits:
            ending = "[]" if isinstance(value[splits[0]], list) else ""
            raise ValueError(
                f"{name}: has the splits {', '.join(splits)}. Write each split to a separate file: jq -c "
                f"'.{splits[0]}{ending}' OLD > {splits[0]}.json{'l' if ending else ''}"
            )
        lists = [key for key, part in value.items() if _is_rows(part)]
        fitting = [key for key in lists if {*columns} & value[key][0].keys() or _is_task(value[key][0])]
        if len(fitting) > 1:
            raise ValueError(
                f"{name}: has rows in several lists: {', '.join(map(shown, fitting))}. Write one list of them: jq -c "
                f"'{', '.join(f'.{_step(key)}[]' for key in fitting)}' OLD > NEW.jsonl"
            )
        if "documents" in value and not fitting:
            raise ValueError(f"{name}: has no rows. If these are BioC's documents, add {option('kind', 'tokens')}")
        if fitting or (len(lists) == 1 and way is None):
            [key] = fitting or lists
            return value[key], key
    parts = {key: part for key, part in value.items() if isinstance(part, list)}
    if parts and (columns[0] in parts or (len(parts) == len(value) and way is None)):
        if len({len(part) for part in parts.values()}) > 1:
            lengths = ", ".join(f"{shown(key)} has {len(part):,}" for key, part in parts.items())
            raise ValueError(f"{name}: its columns have different numbers of values: {lengths}. Write it again")
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)], ""
    inner = list(value.values())
    if all(isinstance(part, dict) for part in inner):
        numbers = dict.fromkeys(key for part in inner for key in part)
        if {*columns} & numbers.keys() and not {*columns} & value.keys():
            return inner, ""
        if way is None or columns[0] in value:
            return [{key: part.get(number) for key, part in value.items()} for number in numbers], ""
    raise _no_rows(value, columns, name, way)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _named(columns: Sequence[str]) -> str:
    """Return the filter of jq that names the values of a list."""
    return " | {" + ", ".join(f"{column}: .[{place}]" for place, column in enumerate(columns)) + "}"


def _way_to(value: Any, columns: Sequence[str], deepest: int = DEEPEST) -> str | None:
    """Return the path of jq from a value to objects with the first column, or to lists with as many values as columns;
    None if there are none.
    """
    if deepest < 0 or not isinstance(value, list | dict) or not value:
        return None
    if isinstance(value, list):
        if isinstance(value[0], list) and len(value[0]) == len(columns) and isinstance(value[0][0], str):
            return f"[]{_named(columns)}"
        way = _way_to(value[0], columns, deepest - 1)
        return None if way is None else f"[]{way}"
    if columns[0] in value:
        return ""
    objects = [tuple(part) for part in value.values() if isinstance(part, dict)]
    alike = len({*objects}) == 1 < len(objects) == len(value)
    for key, part in value.items():
        if (way := _way_to(part, columns, deepest - 1)) is not None:
            return ("[]" if alike else f".{_step(key)}") + way
    return None


def _step(key: str) -> str:
    return key if key.isidentifier() else f'["{key}"]'


def _no_rows(value: Mapping[str, Any], columns: Sequence[str], name: str, way: str | None) -> ValueError:
    """Return the error for a JSON object without rows, with the command that writes them. way: of `_way_to`"""
    keys = f"its keys are [{', '.join(map(shown, [*value][:6]))}{', ...' if len(value) > 6 else ''}]"
    text, label = (*columns, "label")[:2]
    if way == "":
        return ValueError(f"{name}: is a single row; {keys}. Write a list of such objects")
    what, command = "is one JSON object without a list of rows", "'.KEY[]'"
    if way:
        what, command = "is one JSON object with its rows deeper in it", f"'.{way.removeprefix('.')}'"
    elif all(isinstance(part, list) for part in (value.get("index"), value.get("data"))):
        what, command = "is a series of pandas", f"'[.index, .data] | transpose[]{_named([text, label])}'"
    elif not any(isinstance(part, list | dict) for part in value.values()):
        what, command = "has single values by key", f"'to_entries[] | {{{text}: .key, {label}: .value}}'"
    return ValueError(f"{name}: {what}; {keys}. Write an object per line: jq -c {command} OLD > NEW.jsonl")


def _is_task(row: Any) -> bool:
    """Return True for a task of Label Studio."""
    return isinstance(row, dict) and isinstance(row.get("data"), dict) and isinstance(_annotations(row), list)


def _annotations(task: Mapping[str, Any]) -> Any:
    return task.get("annotations", task.get("completions"))


def _task_rows(tasks: Sequence[Mapping[str, Any]], columns: Sequence[str], name: str) -> tuple[list[Any], str]:
    """Return the rows of tasks, and a note. A control is a column, and a single control the column `label` too.

    A value is {"choices": [...]}, a list of spans, or a number; None without an annotation. Controls that no column
    names are not read.

    columns: names that the rows should have; name: of the file, for messages
    Raises ValueError for a control without labels, and if there are several and no column names one of them.
    """
    values: list[dict[str, Any] | None] = []
    types: dict[str, str] = {}
    several = 0
    for task in tasks:
        entries = [entry for entry in _annotations(task) if isinstance(entry, dict) and not entry.get("was_cancelled")]
        several += len(entries) > 1
        chosen = next((entry for entry in entries if entry.get("ground_truth")), entries[0] if entries else None)
        results: dict[str, list[Any]] = {}
        for result in (chosen or {}).get("result") or ():
            if isinstance(result, dict) and isinstance(result.get("value"), dict):
                control = str(result.get("from_name") or result.get("type") or "label")
                types.setdefault(control, str(result.get("type") or "choices"))
                results.setdefault(control, []).append(result["value"])
        values.append(None if chosen is None else {control: _value(parts) for control, parts in results.items()})
    controls = {control: f"{shown(control)} ({type_name})" for control, type_name in types.items()}
    if not types:
        raise ValueError(
            f"{name}: its tasks of Label Studio have no result in `annotations`, and predictions are not read. Export "
            "annotated tasks"
        )
    used = [control for control in types if len(types) == 1 or control in columns]
    if not used and any(not any(column in task["data"] for task in tasks) for column in columns):
        ways = " or ".join(option("label", control) for control in types)
        raise ValueError(
            f"{name}: its tasks of Label Studio have the controls {', '.join(controls.values())}. Choose one: {ways}"
        )
    empty: dict[str, Any] = {}
    for control in used:
        control_values = [value[control] for value in values if value and control in value]
        if None in control_values:
            raise ValueError(
                f"{name}: the control {controls[control]} of its tasks of Label Studio has no choices, spans of "
                "characters or single number. Write an object per line with text and label, as .jsonl"
            )
        if any(isinstance(value, list) for value in control_values):
            empty[control] = []
        elif any(isinstance(value, dict) and len(value["choices"]) > 1 for value in control_values):
            empty[control] = {"choices": []}
    sources = [(control, control) for control in used] + [("label", control) for control in used if len(types) == 1]
    rows = [
        {**task["data"], **{key: None if value is None else value.get(of, empty.get(of)) for key, of in sources}}
        for task, value in zip(tasks, values, strict=True)
    ]
    others = [f"not {controls[control]}" for control in types if control not in used]
    read = f"; the label is the control {', '.join([*map(controls.__getitem__, used), *others])}" if used else ""
    more = f"; of several annotations ({several:,} tasks), the ground truth or else the first" if several else ""
    return rows, f"{name} has tasks of Label Studio{read}{more}."


def _value(parts: Sequence[Mapping[str, Any]]) -> Any:
    """Return the value of a control's results in an annotation; None if they are of none of the types that are read."""
    if all(isinstance(part.get("choices"), list) for part in parts):
        return {"choices": [choice for part in parts for choice in part["choices"]]}
    if all(isinstance(part.get("start"), int) for part in parts):
        return list(parts)
    numbers = [part[key] for part in parts for key in ("rating", "number") if key in part]
    return numbers[0] if len(numbers) == len(parts) == 1 else None
