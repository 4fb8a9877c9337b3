"""Rows in a file that is one JSON value: lists of objects, the forms of pandas' `to_json`, and tasks of Label Studio.

form        content
records     [{"text": ..., "label": ...}, ...], also as the list "data" of an object (with pandas' "table", its schema)
split       {"columns": ["text", "label"], "index": [...], "data": [[..., ...], ...]}
columns     {"text": {"0": ..., "1": ...}, "label": {"0": ..., "1": ...}}
index       {"0": {"text": ..., "label": ...}, "1": ...}
lists       {"text": [..., ...], "label": [..., ...]}
tasks       [{"data": {"text": ...}, "annotations": [{"result": [...]}]}, ...]; the column `label` has the result: its
            choice, several, or spans

Names of columns are found in the values, so the columns that are sought decide between "columns" and "index".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acclimate.core.names import shown

LISTED = ("data", "rows", "examples")  # names of the one list of rows in an object
SPLITS = ("train", "validation", "dev", "test")


def table_of(value: Any, columns: Sequence[str], name: str) -> list[Any]:
    """Return the rows of a parsed file; an element that is no object is returned as it is.

    columns  names that the rows should have; name: of the file, for messages
    Raises ValueError, with the command that converts the file, if it has no such rows.
    """
    if isinstance(value, list):
        if value and all(isinstance(row, list) for row in value):
            keys = ", ".join(f"{column}: .[{place}]" for place, column in enumerate(columns))
            raise ValueError(
                f"{name}: is a list of lists without column names (pandas' orient='values'). Name the columns: jq "
                f"-c '.[] | {{{keys}}}' OLD > NEW.jsonl"
            )
        return [_task_row(row) if _is_task(row) else row for row in value]
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{name}: is one JSON value without rows, {shown(value)}. Write a list of objects")
    if isinstance(value.get("columns"), list) and isinstance(value.get("data"), list):
        names = [str(column) for column in value["columns"]]
        if any(not isinstance(row, list) or len(row) != len(names) for row in value["data"]):
            raise ValueError(f"{name}: each list in 'data' must have {len(names)} values, one per name in 'columns'")
        return [dict(zip(names, row, strict=True)) for row in value["data"]]
    splits = [split for split in SPLITS if isinstance(value.get(split), list)]
    if splits:
        raise ValueError(
            f"{name}: has the splits {', '.join(splits)}. Write each split to a separate file: jq -c "
            f"'.{splits[0]}[]' OLD > {splits[0]}.jsonl"
        )
    listed = next((key for key in LISTED if isinstance(value.get(key), list)), "")
    if listed and all(isinstance(row, dict) for row in value[listed]):
        return [_task_row(row) if _is_task(row) else row for row in value[listed]]
    inner = list(value.values())
    if all(isinstance(part, list) for part in inner):
        if len({len(part) for part in inner}) > 1:
            lengths = ", ".join(f"{shown(key)} has {len(part):,}" for key, part in value.items())
            raise ValueError(f"{name}: its columns have different numbers of values: {lengths}. Write it again")
        return [dict(zip(value, row, strict=True)) for row in zip(*inner, strict=True)]
    if all(isinstance(part, dict) for part in inner):
        numbers = dict.fromkeys(key for part in inner for key in part)
        if {*columns} & value.keys() or not {*columns} & numbers.keys():
            return [{column: part.get(number) for column, part in value.items()} for number in numbers]
        return inner
    raise ValueError(
        f"{name}: is one JSON object without a list of rows; its keys are [{', '.join(map(shown, list(value)[:10]))}]. "
        f"Write a list of objects, or an object per line as .jsonl: jq -c '.KEY[]' OLD > NEW.jsonl"
    )


def _is_task(row: Any) -> bool:
    """Return True for a task of Label Studio."""
    return isinstance(row, dict) and isinstance(row.get("data"), dict) and isinstance(row.get("annotations"), list)


def _task_row(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a task, and as `label` the values of its first annotation that was not cancelled."""
    annotations = [entry for entry in task["annotations"] if isinstance(entry, dict) and not entry.get("was_cancelled")]
    results = annotations[0].get("result") if annotations else None
    values = [
        result["value"]
        for result in results or ()
        if isinstance(result, dict) and isinstance(result.get("value"), dict)
    ]
    choices = [choice for value in values for choice in value.get("choices") or ()]
    label: Any = choices[0] if len(choices) == 1 else choices or [value for value in values if "start" in value]
    return {**task["data"], "label": label if annotations else None}
