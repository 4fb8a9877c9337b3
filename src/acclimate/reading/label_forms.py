"""Labels that a file does not hold as names of classes, and the names that they become.

form in the file                                    labels of a row
"['bio', 'new']", '["bio"]', "['bio' 'new']"        the names in the list
[1, 0, 0, 1], "[1 0 0 1]", "1,0,0,1"                the names of the places that hold 1
{"bio": 1, "eco": 0}, or a column for each label    the names that have 1
2, where the classes have names                     the third name

Classes have names if the user states them, or if the metadata of a Parquet or Arrow file has them (`ClassLabel`).
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown
from acclimate.core.types import Rejected, Split
from acclimate.reading.source import Source
from acclimate.reading.tables import Columns, Row

LONGEST = 1 << 16  # characters of a list that is written in a field
HOT = frozenset({"1", "1.0", "true", "yes", "x"})  # values of a label that a row has; 1, 1.0 and True are spelt so too
COLD = frozenset({"", "0", "0.0", "false", "no", "none", "nan"})
WITHHELD = -1  # number of a class where the label is withheld
_WRAPPED = re.compile(r"(?:array|set|frozenset|list|tuple)\((.*?)(?:,\s*dtype=\S+)?\)", re.DOTALL)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_VECTOR = re.compile(r"[01](?:[ ,;|\t][01])+")

_Rows = dict[Split, list[Row | Rejected]]


def named_labels(
    rows: Mapping[Split, Sequence[Row | Rejected]],
    sources: Mapping[Split, Source],
    columns: Columns,
    *,
    kind: str,
    names: Sequence[str],
) -> tuple[_Rows, list[str]]:
    """Return the rows with names of classes as labels, and a note for each form that was read.

    names  of the numbers 0, 1, ... or of the places of a vector, as the user states them; (): not stated

    The label is a list of names. It is one name if all rows have exactly one, unless the kind is "multilabel". Train
    decides what the form is; a row of another form is rejected.
    """
    where = f"{sources['train'].name}: the column {columns.label!r}"
    labels = [row.label for row in rows["train"] if isinstance(row, Row)]
    notes = []
    if kind in {"auto", "multilabel"} and _mostly_lists(labels):
        first = next(label for label in labels if isinstance(label, str) and list_in(label) is not None)
        rows = {split: [_with_label(row, _unwritten) for row in part] for split, part in rows.items()}
        notes.append(f"{where} has lists as text, such as {shown(first)}. They are read as lists.")
        labels = [row.label for row in rows["train"] if isinstance(row, Row)]
    several = kind in {"auto", "sequence", "multilabel"}
    stored = () if names or kind == "score" else sources["train"].class_names(columns.label)
    width = 0 if stored or not several else _width(labels, names, texts=kind != "sequence")
    if stored:
        notes.append(f"{where} has class numbers, with names in the file's metadata: {_first(stored)}.")
        own_names = {split: source.class_names(columns.label) or stored for split, source in sources.items()}
        namers = {split: _class_namer(own_names[split]) for split in rows}
        return {split: [_with_label(row, namers[split]) for row in part] for split, part in rows.items()}, notes
    if width:
        if names and len(names) != width:
            raise ValueError(
                f"{where} has vectors of length {width}, but {option('labels')} has {len(names)} names. Name "
                "each position once"
            )
        places = tuple(names) or tuple(f"place {number}" for number in range(1, width + 1))
        way_out = "" if names else f"; {option('labels', 'NAME,NAME,...')} names them"
        notes.append(f"{where} has vectors of 0 and 1 for {width} labels, {_first(places)}{way_out}.")
        convert = _vector_namer(places)
    elif several and labels and all(isinstance(label, Mapping) for label in labels):
        keys = list(dict.fromkeys(name for label in labels for name in label))
        notes.append(f"{sources['train'].name} has 0 or 1 for each label: {_first(keys)}.")
        convert = _hot_namer
    else:
        if not names:
            return {split: [*part] for split, part in rows.items()}, notes
        if not any(_number_in(item) is not None for label in labels for item in _as_list(label)):
            raise ValueError(
                f"{where} has no class numbers that {option('labels')} could name, but values such as "
                f"{shown(labels[0] if labels else '')}. Remove {option('labels')}"
            )
        convert = _class_namer(names)
        return {split: [_with_label(row, convert) for row in part] for split, part in rows.items()}, notes
    named = {split: [_with_label(row, convert) for row in part] for split, part in rows.items()}
    if kind != "multilabel" and {len(row.label) for part in named.values() for row in part if isinstance(row, Row)} == {
        1
    }:
        notes.append(f"Each row has exactly one of them, so it is read as {option('kind', 'sequence')}.")
        named = {split: [_with_label(row, lambda label: label[0]) for row in part] for split, part in named.items()}
    return named, notes


def _first(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names[:8])) + (", ..." if len(names) > 8 else "")


def list_in(text: str) -> list[Any] | dict[Any, Any] | None:
    """Return the list, or the object, that is written in a field as Python, JSON or NumPy write it; None for none."""
    body = text.strip()
    if wrapped := _WRAPPED.fullmatch(body):
        body = wrapped[1].strip() or "[]"
    if len(body) > LONGEST or body[:1] + body[-1:] not in {"[]", "()", "{}"}:
        return None
    inner = body[1:-1].strip()
    between = _QUOTED.sub("", inner)
    if between and not between.strip():  # ['a' 'b'], which Python reads as one text
        return [_unescaped(single or double) for single, double in _QUOTED.findall(inner)]
    for parse in (json.loads, _literal):
        try:
            value = parse(body)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(value, list | tuple | set):
            return list(value) if not isinstance(value, set) else sorted(value, key=str)
        return value if isinstance(value, dict) else None
    if body[0] != "[" or "'" in inner or '"' in inner or not inner:
        return None
    if "," in inner:  # [bio, new]
        return [part.strip() for part in inner.split(",") if part.strip()]
    numbers = inner.split()  # [1 0 0 1], [1. 0. 0. 1.]
    return [float(part) for part in numbers] if all(re.fullmatch(r"[01]\.?", part) for part in numbers) else None


def _literal(body: str) -> Any:
    with warnings.catch_warnings(action="ignore"):  # of backslashes that escape nothing
        return ast.literal_eval(body)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _mostly_lists(labels: Sequence[Any]) -> bool:
    """Return True if at least half of the fields with text hold a list."""
    texts = [label for label in labels if isinstance(label, str) and label.strip()]
    return bool(texts) and 2 * sum(list_in(text) is not None for text in texts) >= len(texts)


def _unwritten(label: Any) -> Any:
    if isinstance(label, str):
        parsed = list_in(label)
        return label if parsed is None else parsed
    return label


def _with_label(row: Row | Rejected, convert: Callable[[Any], Any]) -> Row | Rejected:
    """Return the row with the converted label, or rejected with the reason that `convert` raises as a ValueError."""
    if isinstance(row, Rejected):
        return row
    try:
        return replace(row, label=convert(row.label))
    except ValueError as error:
        return Rejected(row.place, str(error))


def _width(labels: Sequence[Any], names: Sequence[str], *, texts: bool) -> int:
    """Return the number of places if all labels are vectors of 0 and 1 of one length, else 0. texts: may be texts"""
    if not texts and any(isinstance(label, str) for label in labels):
        return 0
    vectors = [vector_in(label, len(names)) for label in labels if label is not None and label != ""]
    if not vectors or any(vector is None for vector in vectors):
        return 0
    lengths = {len(vector) for vector in vectors if vector is not None}
    return lengths.pop() if len(lengths) == 1 else 0


def vector_in(label: Any, places: int = 0) -> list[bool] | None:
    """Return the vector of at least two zeros and ones that a label is; None if it is none.

    places  number of names that are stated: a text of as many digits, such as "1001", is then a vector too
    """
    if isinstance(label, str):
        digits = places > 1 and re.fullmatch(rf"[01]{{{places}}}", label.strip())
        if not digits and not _VECTOR.fullmatch(label.strip()):
            return None
        label = re.findall("[01]", label)
    if not isinstance(label, list | tuple) or len(label) < 2:
        return None
    marks = [_spelling(value) for value in label]
    return [mark == "1" for mark in marks] if set(marks) <= {"0", "1"} else None


def _spelling(value: Any) -> str:
    """Return a number, truth value or text in one spelling: 1, 1.0 and True are "1"."""
    if isinstance(value, float) and math.isnan(value):
        return ""
    if isinstance(value, bool | int | float) and value in (0, 1):
        return str(int(value))
    return "" if value is None else str(value).strip().lower()


def _vector_namer(names: Sequence[str]) -> Callable[[Any], list[str]]:
    def named(label: Any) -> list[str]:
        vector = vector_in(label, len(names))
        if vector is None or len(vector) != len(names):
            raise ValueError(f"the labels are {shown(label)}, but must be {len(names)} zeros and ones; correct it")
        return [name for name, mark in zip(names, vector, strict=True) if mark]

    return named


def _hot_namer(label: Any) -> list[str]:
    if not isinstance(label, Mapping):
        raise ValueError(f"the labels are {shown(label)}, but other rows have 0 or 1 for each label; correct it")
    for name, value in label.items():
        if _spelling(value) not in HOT | COLD:
            raise ValueError(f"the label {shown(name)} has the value {shown(value)}, but must be 0 or 1; correct it")
    return [str(name) for name, value in label.items() if _spelling(value) in HOT]


def _number_in(label: Any) -> int | None:
    """Return the number of a class that a label is, as a number or as text; None if it is none."""
    if isinstance(label, str) and re.fullmatch(r"\d+", label.strip()):
        return int(label)
    if isinstance(label, float) and label.is_integer():
        return int(label)
    return label if isinstance(label, int) and not isinstance(label, bool) else None


def _as_list(label: Any) -> Sequence[Any]:
    return label if isinstance(label, list | tuple) else [label]


def _class_namer(names: Sequence[str]) -> Callable[[Any], Any]:
    """Return the function from a number of a class, or a list of them, to the names; other values stay as they are."""

    def named(label: Any) -> Any:
        if isinstance(label, list | tuple):
            return type(label)(map(named, label))
        number = _number_in(label)
        if number is None:
            return label
        if number == WITHHELD:
            return None
        if not 0 <= number < len(names):
            raise ValueError(
                f"{shown(label)} is not a class number: there are {len(names)} classes, numbered from 0; correct "
                "the row"
            )
        return names[number]

    return named
