"""The label column of a file: its kind of task, its values as labels, and faults in them.

Labels are compared exactly. Several spellings of one label (case, spaces, invisible characters, 1 and 1.0) are an
error, or become one on request (`fold`). A label of dev or test that does not occur in train is an error.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from acclimate.core.door import is_python, option
from acclimate.core.names import nearest, shown
from acclimate.core.types import Label
from acclimate.reading.tables import class_name
from acclimate.tasks.task import Kind, classes_in

MANY_NUMBERS = 20  # a column with more distinct numbers, some with decimals, hardly holds classes
MANY_NAMES = 50  # more distinct numbers, if more than a tenth of the rows, are likely to be meant as amounts
RATINGS = range(4, 12)  # numbers of classes that may be ratings, where these are numbers themselves
MISSING = frozenset({"nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "NA", "<NA>", "#N/A", "NaT"})
HUGEST = 1e30  # a larger number to predict would overflow the loss

Stated = Literal["auto", "sequence", "multilabel", "score", "tokens", "span", "search"]
Placed = Sequence[tuple[str, Label]]  # place and label of each row


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
    written = next((text for text in texts if thousands(text)), "")
    if written and all(_number((thousands(text) or text).replace(",", ".")) is not None for text in texts):
        raise ValueError(
            f"{where}: {shown(written)} is a number with thousands separators. Write {thousands(written)}, and add "
            f"{option('kind', 'score')} for numbers to predict"
        )
    decimals = [value for value in values if isinstance(value, float) and math.isfinite(value) and value % 1]
    if decimals and sum(isinstance(value, int | float) for value in values) > len(texts):
        return "score"
    numbers = [_number(text) for text in texts]
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


def check_train(labels: Placed, kind: Kind, *, where: str) -> None:
    """Raise ValueError if the labels leave nothing to learn: a single class, or one number in every row."""
    if kind == "score":
        if len({label for _, label in labels}) < 2:
            raise ValueError(
                f"{where}: the number to predict is {labels[0][1]!r} in every row, so nothing can be learned. Name "
                "the right column, or add rows"
            )
        return
    classes = sorted({name for _, label in labels for name in classes_in(label)})
    # with several classes a row, one class is enough: rows bear it or not
    if not classes or (len(classes) == 1 and all(classes_in(label) for _, label in labels)):
        fault = f"every row has the label {shown(classes[0])}" if classes else "no row has a label"
        way_out = "Name the right column, or add rows"
        if kind == "tokens":
            fault, way_out = f"every word has the tag {shown(classes[0])}", "Name the right file, or add other tags"
        raise ValueError(f"{where}: {fault}, so nothing can be learned. {way_out}")


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
