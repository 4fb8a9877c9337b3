"""Tasks of Label Studio (its export as JSON): their data, and the results of each control of an annotation.

    [{"data": {"text": ...}, "annotations": [{"result": [{"from_name": "topic", "type": "choices", "value": ...}]}]}]

Before version 1, `completions` were what `annotations` are. An annotation that was cancelled is not used; of several,
the ground truth is, or else the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown


def is_task(row: Any) -> bool:
    """Return True for a task of Label Studio."""
    return isinstance(row, dict) and isinstance(row.get("data"), dict) and isinstance(_annotations(row), list)


def _annotations(task: Mapping[str, Any]) -> Any:
    return task.get("annotations", task.get("completions"))


def task_rows(tasks: Sequence[Mapping[str, Any]], columns: Sequence[str], name: str) -> tuple[list[Any], str]:
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
    used = [control for control in types if control in columns] or [*types][: len(types) == 1]
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
