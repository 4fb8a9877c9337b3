"""The label column of a file: its kind of task, its values as labels, and faults in them.

A label may be written in another form than the names of its classes:

form in the file                                    labels of a row
"['bio', 'new']", '["bio"]', "['bio' 'new']"        the names in the list
[1, 0, 0, 1], "[1 0 0 1]", "1,0,0,1"                the names of the places that hold 1
{"bio": 1, "eco": 0}, or a column for each label    the names that have 1
2, where the classes have names                     the third name

Classes have names if the user states them, or if the metadata of a Parquet or Arrow file has them (`ClassLabel`).

Labels are compared exactly. Several spellings of one label (case, spaces, invisible characters, 1 and 1.0) are an
error, or become one on request (`fold`). A label of dev or test that does not occur in train is an error.
"""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from acclimate.core.door import is_python, option
from acclimate.core.names import nearest, shown
from acclimate.core.types import Label, Rejected, Split
from acclimate.reading.source import Source
from acclimate.reading.tables import Columns, Row
from acclimate.tasks.task import Kind, classes_in
from acclimate.text.untrusted import unsound

MANY_NUMBERS = 20  # a column with more distinct numbers, some with decimals, hardly holds classes
MANY_NAMES = 50  # more distinct numbers, if more than a tenth of the rows, are likely to be meant as amounts
RATINGS = range(4, 12)  # numbers of classes that may be ratings, where these are numbers themselves
MISSING = frozenset({"nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "NA", "<NA>", "#N/A", "NaT"})
_SEPARATED = re.compile("[+-]?\\d{1,3}(?:[,.' \u00a0\u202f]\\d{3})+(?:[.,]\\d+)?")
HUGEST = 1e30  # a larger number to predict would overflow the loss
LONGEST = 1 << 16  # characters of a list that is written in a field
HOT = frozenset({"1", "1.0", "true", "yes", "x"})  # values of a label that a row has; 1, 1.0 and True are spelt so too
COLD = frozenset({"", "0", "0.0", "false", "no", "none", "nan"})
WRAPPERS = ("choices", "labels", "entities", "cats")  # keys of an object around labels
WITHHELD = -1  # number of a class where the label is withheld
_WRAPPED = re.compile(r"(?:array|set|frozenset|list|tuple)\((.*?)(?:,\s*dtype=\S+)?\)", re.DOTALL)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_VECTOR = re.compile(r"[01](?:[ ,;|\t][01])+")

Stated = Literal["auto", "sequence", "multilabel", "score", "tokens", "span", "search"]
Placed = Sequence[tuple[str, Label]]  # place and label of each row
_Rows = dict[Split, list[Row | Rejected]]


def named_labels(
    rows: Mapping[Split, Sequence[Row | Rejected]],
    sources: Mapping[Split, Source],
    columns: Columns,
    *,
    kind: str,
    names: Sequence[str],
) -> tuple[_Rows, list[str]]:
    """Return the rows with names of classes as labels, and a note for each form that was read. rows: of `plain_labels`

    names  of the numbers 0, 1, ... or of the places of a vector, as the user states them; (): not stated

    The label is a list of names. It is one name if all rows have exactly one, unless the kind is "multilabel". Train
    decides what the form is; a row of another form is rejected.
    """
    where = f"{sources['train'].name}: the column {columns.label!r}"
    labels = [row.label for row in rows["train"] if isinstance(row, Row)]
    notes = []
    several = kind in {"auto", "sequence", "multilabel"}
    stored = () if names or kind == "score" else sources["train"].class_names(columns.label)
    width = 0 if stored or not several else _width(labels, names, texts=kind != "sequence")
    if stored:
        notes.append(f"{where} has class numbers, with names in the file's metadata: {_first(stored)}.")
        own_names = {split: source.class_names(columns.label) or stored for split, source in sources.items()}
        for split, split_names in own_names.items():
            if twice := [name for name, count in Counter(split_names).items() if count > 1]:
                raise ValueError(
                    f"{sources[split].name}: the metadata has the class name {shown(twice[0])} twice. Name each class "
                    f"once: {option('labels', 'NAME,NAME,...')}"
                )
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
    elif several and 2 * sum(isinstance(label, Mapping) for label in labels) > len(labels):
        keys = list(dict.fromkeys(name for label in labels if isinstance(label, Mapping) for name in label))
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
    named, note = _single({split: [_with_label(row, convert) for row in part] for split, part in rows.items()}, kind)
    return named, [*notes, *note]


def plain_labels(rows: Mapping[Split, Sequence[Row | Rejected]], *, kind: str, where: str) -> tuple[_Rows, list[str]]:
    """Return the rows with the labels that are written as text in a field, or wrapped in an object, and notes.

    An object is {"choices": [...]}, {"entities": [...]}, {"label": ..., "score": ...} and the like. Beside lists in
    objects, a plain field is a list of one; no label is a list if each row has exactly one.

    where: the column of train, which decides
    """
    named: _Rows = {split: [*part] for split, part in rows.items()}
    notes = []
    labels = [row.label for row in named["train"] if isinstance(row, Row)]
    if (kind in {"auto", "multilabel"} and _mostly_lists(labels)) or (kind != "score" and any(map(_wraps, labels))):
        first = next(label for label in labels if isinstance(label, str) and list_in(label) is not None)
        named = {split: [_with_label(row, _unwritten) for row in part] for split, part in named.items()}
        notes.append(f"{where} has lists as text, such as {shown(first)}. They are read as lists.")
        labels = [row.label for row in named["train"] if isinstance(row, Row)]
    wrapped = [label for label in labels if _unwrapped(label) is not label]
    if not wrapped:
        return named, notes
    lists = all(
        isinstance(label, list) and all(isinstance(name, str) for name in label) for label in map(_unwrapped, wrapped)
    )
    notes.append(f"{where} has objects such as {shown(wrapped[0])}. They are read as {shown(_unwrapped(wrapped[0]))}.")

    def convert(label: Any) -> Any:
        label = _unwrapped(label)
        return [label] if lists and isinstance(label, str) and label.strip() else label

    named = {split: [_with_label(row, convert) for row in part] for split, part in named.items()}
    named, note = _single(named, kind) if lists else (named, [])
    return named, [*notes, *note]


def _wraps(label: Any) -> bool:
    """Return True for a text such as '{"choices": ["a", "b"]}'."""
    written = _unwritten(label) if isinstance(label, str) and label.lstrip().startswith("{") else None
    return isinstance(written, Mapping) and isinstance(_unwrapped(written), list)


def plain_label(label: Any) -> Any:
    """Return the list in a text, or the value in an object, that a label is; another label as it is."""
    return _unwrapped(_unwritten(label))


def _unwrapped(label: Any) -> Any:
    """Return the value in an object around a label, as Label Studio, spaCy and pipelines write them."""
    if isinstance(label, list) and len(label) == 1 and isinstance(label[0], Mapping):
        inner = _unwrapped(label[0])
        return label if isinstance(inner, list | Mapping) else inner
    if not isinstance(label, Mapping) or "start" in label:  # or a span
        return label
    inside = [label[key] for key in WRAPPERS if isinstance(label.get(key), list | Mapping)]
    if len(inside) == 1:
        return inside[0]
    if {*label} <= {"label", "score"} and isinstance(label.get("label"), str):
        return label["label"]
    return next(iter(label.values())) if {*label} in ({"rating"}, {"number"}) else label


def _single(rows: _Rows, kind: str) -> tuple[_Rows, list[str]]:
    """Return the rows without the lists, and a note, if each has exactly one label and no list is wanted."""
    labels = [
        row.label for part in rows.values() for row in part if isinstance(row, Row) and row.label not in (None, "")
    ]
    if kind == "multilabel" or any(not isinstance(label, list) or len(label) != 1 for label in labels):
        return rows, []
    note = f"Each row has exactly one of them, so it is read as {option('kind', 'sequence')}."

    def first(label: Any) -> Any:
        return label[0] if label else label

    return {split: [_with_label(row, first) for row in part] for split, part in rows.items()}, [note]


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
        if isinstance(value, list | Mapping):
            raise ValueError(f"the label is the object {shown(label)}, not 0 or 1 for each name; write the labels only")
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


def task_kind(values: Sequence[Any], *, kind: Stated, separator: str, where: str) -> Kind:
    """Return the stated kind of task, or if that is "auto", the kind that train's label values suggest.

    Lists, and all fields if a separator is stated, are several classes a row. Decimal numbers in a file that has
    numbers (JSON, Parquet) are numbers to predict. All else is one class a row.
    Raises ValueError if fields of text hold many decimal numbers, which may be classes or numbers to predict.
    """
    if kind != "auto":
        return kind
    if separator or any(isinstance(value, list) for value in values):
        return "multilabel"
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    spellings = dict.fromkeys(texts)  # few: most rows share a label
    written = next((text for text in spellings if thousands(text)), "")
    if written and all(_number((thousands(text) or text).replace(",", ".")) is not None for text in spellings):
        raise ValueError(
            f"{where}: {shown(written)} is a number with thousands separators. Write {thousands(written)}, and add "
            f"{option('kind', 'score')} for numbers to predict"
        )
    decimals = [value for value in values if isinstance(value, float) and math.isfinite(value) and value % 1]
    if decimals and sum(isinstance(value, int | float) for value in values) > len(texts):
        return "score"
    numbers = [_number(text) for text in spellings]
    if numbers and all(number is not None for number in numbers):
        distinct = {number for number in numbers if number is not None}
        if len(distinct) > MANY_NUMBERS and not all(map(float.is_integer, filter(math.isfinite, distinct))):
            raise ValueError(
                f"{where}: has {len(distinct):,} different numbers, such as {shown(texts[0])}. Are they numbers to "
                f"predict, or names of classes? Add one of: {option('kind', 'score')} or "
                f"{option('kind', 'sequence')}"
            )
    return "sequence"


def label_from(value: Any, kind: Kind, *, column: str, separator: str) -> tuple[Label | None, str]:
    """Return the label of a value in a task of this kind and "", or None and the reason why the value is no label.

    An empty list, or an empty field if a separator is stated, is a row without a class. Tags and answers are
    returned as they are: their readers have checked them with their texts.
    """
    if kind in {"tokens", "span"}:
        return value, ""
    if kind == "score":
        return _score(value, column)
    if kind == "multilabel":
        return _classes(value, column, separator)
    if isinstance(value, list):
        return (
            None,
            f"the label (column {column!r}) is the list {shown(value)}; make it one string, or make all labels lists",
        )
    return class_name(value, column)


def check_separator(values: Sequence[Any], kind: Kind, *, separator: str, where: str) -> None:
    """Raise ValueError if the separator occurs in no field, or if fields of text need one and none is stated."""
    texts = [value for value in values if isinstance(value, str)]
    if separator and not any(separator in text for text in texts):
        example = f"such as {shown(texts[0])}" if texts else "which are lists and need no separator"
        raise ValueError(
            f"{where}: the separator {separator!r} occurs in none of its labels, {example}. Correct it, or remove it"
        )
    if kind == "multilabel" and not separator and texts and len(texts) == len(values):
        raise ValueError(
            f"{where}: kind 'multilabel' expects several labels per row, but it has text, such as "
            f"{shown(texts[0])}. Name the separator between labels with {option('separator')}"
        )


def one_spelling(labels: Sequence[Placed], *, fold: bool, of: str = "rows") -> dict[str, str]:
    """Return class -> the spelling that replaces it, over the labels of all files.

    fold  True: of classes that differ only by case, spaces, Unicode composition, invisible characters or the zeros of a
          whole number (1, 1.0, 01), the most frequent replaces all.
          False: Raises ValueError for such classes, naming two, with place and number of rows
    of    what has a class ("rows", "words"), for the error
    """
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for place, label in (row for rows in labels for row in rows):
        for name in classes_in(label):
            counts[name] += 1
            first.setdefault(name, place)
    alike: dict[str, list[str]] = {}
    for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        alike.setdefault(_folded(name), []).append(name)
    for names in alike.values():
        if len(names) > 1 and not fold:
            often, rare = names[:2]
            # an accent may be a separate character, which looks the same, and other characters have no shape
            looks_same = visible(unicodedata.normalize("NFC", rare)) == visible(unicodedata.normalize("NFC", often))
            spelt = ascii if looks_same else shown
            switch = "fold_labels=True" if is_python() else option("fold_labels")
            raise ValueError(
                f"{first[rare]}: label {spelt(rare)} also occurs as {spelt(often)} ({counts[often]:,} {of}; first "
                f"at {first[often]}). Labels are compared exactly: unify them with {switch}, or correct the file"
            )
    return {name: names[0] for names in alike.values() for name in names}


def respelt(label: Label, spelling: Mapping[str, str], kind: Kind) -> Label:
    """Return the label with the spellings that `one_spelling` returned."""
    if isinstance(label, tuple) and kind == "tokens":
        return tuple(spelling[name] for name in label)
    if isinstance(label, tuple):
        return tuple(sorted({spelling[name] for name in label}))
    return spelling[label] if isinstance(label, str) else label


def check_train(labels: Placed, kind: Kind, *, where: str, rejected: Sequence[Rejected] = ()) -> None:
    """Raise ValueError if the labels leave nothing to learn: a single class, or one number in every row.

    rejected: rows of the file without a label, which the message counts
    """
    first = f", the first at {rejected[0].place}: {rejected[0].reason}" if rejected else ""
    others = f". {len(rejected):,} other rows were rejected{first}" if rejected else ""
    if kind == "score":
        if len({label for _, label in labels}) < 2:
            raise ValueError(
                f"{where}: the number to predict is {labels[0][1]!r} in every row, so nothing can be learned{others}. "
                "Name the right column, or add rows"
            )
        return
    classes = sorted({name for _, label in labels for name in classes_in(label)})
    # with several classes a row, one class is enough: rows bear it or not
    if not classes or (len(classes) == 1 and all(classes_in(label) for _, label in labels)):
        fault = f"every row has the label {shown(classes[0])}" if classes else "no row has a label"
        way_out = "Name the right column, or add rows"
        if kind == "tokens":
            fault, way_out = f"every word has the tag {shown(classes[0])}", "Name the right file, or add other tags"
        raise ValueError(f"{where}: {fault}, so nothing can be learned{others}. {way_out}")


def check_seen(train: Placed, labels: Placed, *, where: str, of: str = "rows") -> None:
    """Raise ValueError if a row has a class that no row of train has. of: what has a class, for the error."""
    counts = Counter(name for _, label in train for name in classes_in(label))
    for place, label in labels:
        for name in classes_in(label):
            if name not in counts:
                like = nearest(name, counts)
                assert like is not None
                raise ValueError(
                    f"{place}: the label {shown(name)} does not occur in {where}, so it cannot be learned; the "
                    f"nearest there is {shown(like)} ({counts[like]:,} {of}). Correct it, remove such rows, or add "
                    f"some to {where}"
                )


def notes_on_numbers(labels: Placed, *, kind: Stated, where: str) -> list[str]:
    """Return a note if train's classes are numbers, as few or as many as ratings or amounts to predict are.

    Return no note unless the kind is "auto".
    """
    names = {name for _, label in labels for name in classes_in(label)}
    ratings = len(names) in RATINGS and all(_number(name) is not None for name in names)
    if kind != "auto" or not (ratings or _may_be_amounts(names, len(labels))):
        return []
    return [
        f"{where} has {len(names):,} different numbers in {len(labels):,} rows. Without a kind, each became a class "
        f"without order. If they are ratings or amounts, add {option('kind', 'score')}."
    ]


def notes_on_names(labels: Placed, *, where: str) -> list[str]:
    """Return notes on classes that look like a missing value, or have spaces or invisible characters at their ends."""
    counts = Counter(name for _, label in labels for name in classes_in(label))
    first: dict[str, str] = {}
    for place, label in labels:
        for name in classes_in(label):
            first.setdefault(name, place)
    notes = []
    if missing := [name for name in counts if name.strip() in MISSING]:
        listed = ", ".join(f"{shown(name)} ({counts[name]:,} rows; first at {first[name]})" for name in missing)
        notes.append(f"{where}: the label {listed} looks like a missing value. If it is, remove such rows.")
    if odd := [name for name in counts if visible(name) != name or name != name.strip()]:
        listed = ", ".join(f"{name!a} (first at {first[name]})" for name in odd[:5])
        notes.append(f"{where}: labels with spaces or invisible characters in them: {listed}. Correct the file.")
    return notes


def notes_on_singles(labels: Placed, missing: Sequence[str]) -> list[str]:
    """Return a note on the classes that only one row of train has.

    missing: the splits that will be made from these rows. If there are any, raises ValueError in place of a note,
    because one row cannot be in two splits.
    """
    counts = Counter(name for _, label in labels for name in classes_in(label))
    alone = sorted((name, place) for place, label in labels for name in classes_in(label) if counts[name] == 1)
    if not alone:
        return []
    listed = ", ".join(f"{shown(name)} ({place})" for name, place in alone[:5]) + (", ..." if len(alone) > 5 else "")
    if missing:
        name, place = alone[0]
        amounts = len(counts) > MANY_NAMES and all(_number(name) is not None for name in counts)  # of any share of rows
        way_out = (
            f"If labels are numbers to predict, add {option('kind', 'score')}; else add rows" if amounts else "Add rows"
        )
        if mark := _may_be_several(counts):
            way_out = (
                "If a row has several labels, name their separator "
                f"({'separator=' if is_python() else '--separator '}{mark!r}); else add rows"
            )
        raise ValueError(
            f"{place}: no other row has the label {shown(name)}, and it cannot be both in train and in "
            f"{' or '.join(missing)}{f' (so for {len(alone)} labels: {listed})' if len(alone) > 1 else ''}. "
            f"{way_out}, give it another label, remove it, or give files for dev and test"
        )
    return [f"Labels with a single training example, too few to learn from: {listed} ({len(alone)} in all)."]


def _may_be_several(counts: Counter[str]) -> str:
    """Return the mark that is in at least a fifth of the distinct fields, and so may separate labels; "" if none is."""
    for mark in (";", "|", ","):
        if 5 * sum(mark in name for name in counts) >= len(counts):
            return mark
    return ""


def _may_be_amounts(names: Collection[str], rows: int) -> bool:
    return len(names) > MANY_NAMES and 10 * len(names) > rows and all(_number(name) is not None for name in names)


def class_name(value: Any, column: str) -> tuple[str | None, str]:
    """Return (class, "") for a label's value, or (None, the reason why it is not a class).

    Whole numbers and booleans get their Python spelling. 1.0 becomes 1, because tables with gaps store integers so.
    """
    if isinstance(value, str) and value.strip():
        if reason := unsound(value):
            return None, f"the label (column {column!r}) {reason}; correct it or remove the row"
        return value, ""
    if value is None or isinstance(value, str) or (isinstance(value, float) and math.isnan(value)):
        return None, f"the label (column {column!r}) is empty: {shown(value)}; fill it in or remove the row"
    if isinstance(value, float) and value.is_integer():
        return str(int(value)), ""
    if isinstance(value, int):
        return str(value), ""
    return None, f"the label (column {column!r}) is {shown(value)}; make it a string"


def _score(value: Any, column: str) -> tuple[float | None, str]:
    if value is None or (isinstance(value, str) and not value.strip()):
        return (
            None,
            f"the number to predict (column {column!r}) is empty: {shown(value)}; fill it in or remove the row",
        )
    number = None if isinstance(value, bool | list | dict) else _number(value)
    if number is None:
        plain = thousands(value) if isinstance(value, str) else ""
        comma = isinstance(value, str) and _number(value.replace(",", ".", 1)) is not None
        way_out = "write decimals with a point" if comma else "write a number"
        if comma and re.fullmatch(r"[+-]?\d{1,3},\d{3}", value.strip()):
            way_out = (
                f"write {value.strip().replace(',', '')}, or {value.strip().replace(',', '.')} for a decimal comma"
            )
        way_out = f"write {plain}, without thousands separators" if plain else way_out
        return None, f"the number to predict (column {column!r}) is {shown(value)}; {way_out}"
    if not math.isfinite(number) or abs(number) > HUGEST:
        fault = "is not a finite number" if not math.isfinite(number) else f"is beyond {HUGEST:g}"
        return (
            None,
            f"the number to predict (column {column!r}) {fault}: {shown(value)}; correct it or remove the row",
        )
    return number, ""


def _classes(value: Any, column: str, separator: str) -> tuple[tuple[str, ...] | None, str]:
    if isinstance(value, str) and separator:
        parts: list[Any] = [part.strip() for part in value.split(separator) if part.strip()]
    elif isinstance(value, list):
        parts = value
    else:
        way_out = "make it a list, or name the separator between labels"
        return None, f"the labels (column {column!r}) are {shown(value)}; {way_out}"
    names = set()
    for part in parts:
        name, reason = class_name(part, column)
        if name is None:
            return None, reason
        names.add(name)
    return tuple(sorted(names)), ""


def _folded(name: str) -> str:
    """Return the class without case, Unicode composition, invisible characters and additional spaces; a whole number
    without zeros before it and after its point.
    """
    plain = " ".join(visible(unicodedata.normalize("NFKC", name)).casefold().split())
    number = re.fullmatch(r"([+-]?)0*(\d+)(?:\.0*)?", plain)
    return f"{number[1].replace('+', '')}{number[2]}" if number else plain


def visible(name: str) -> str:
    """Return the name without characters that have no shape, such as a zero-width space or a byte order mark."""
    return "".join(mark for mark in name if unicodedata.category(mark) != "Cf")


def thousands(text: str) -> str:
    """Return the number without its separators of thousands; "" if it has none: 1,012.50, 1.012,50, 1 012,50, 1'012.5.

    A single separator before three last digits may be a decimal point: it counts as one of thousands only where it is
    no comma or point.
    """
    written = text.strip().replace("\u2019", "'")
    if not _SEPARATED.fullmatch(written):
        return ""
    for mark, point in (
        (",", "."),
        (".", ","),
        ("'", "."),
        *((space, end) for space in " \u00a0\u202f" for end in ",."),
    ):
        pattern = rf"([+-]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+)({re.escape(point)}\d+)?"
        number = re.fullmatch(pattern, written)
        if number and (number[2] or mark not in ",." or number[1].count(mark) > 1):
            return number[1].replace(mark, "") + (number[2] or "").replace(point, ".")
    return ""


def _number(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:  # Python reads 1_0.5 as 10.5
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
