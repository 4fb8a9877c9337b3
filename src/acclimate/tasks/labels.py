"""What the label column of a file holds: the kind of task that it makes, its values as labels, what cannot be right.

Labels are compared exactly. Those that differ by case or spaces only are an error, or are made one where that is asked
for; a label of dev or test that train never shows is an error.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from acclimate.core.types import Label
from acclimate.tasks.tables import class_name
from acclimate.tasks.task import Kind, classes_in
from acclimate.text.untrusted import nearest, shown

MANY_NUMBERS = 20  # distinct numbers with decimals from which a column is hardly one of classes
MANY_NAMES = 50  # distinct whole numbers, more than a tenth of the rows, from which they may be meant as amounts
HUGEST = 1e30  # a number to predict beyond it would overflow the loss

Stated = Literal["auto", "sequence", "multilabel", "score", "tokens", "span"]
Placed = Sequence[tuple[str, Label]]  # place and label of each row


def kind_of(values: Sequence[Any], *, stated: Stated, separator: str, where: str) -> Kind:
    """Return the kind of task that train's label values make, unless it is stated.

    Lists are several classes a row, and so are fields where a separator is stated; numbers with decimals that a file
    holds as numbers (JSON, Parquet) are numbers to predict; all else is one class a row.
    Raises ValueError where fields of text hold many such numbers, which may be classes or numbers to predict.
    """
    if stated != "auto":
        return stated
    if separator or any(isinstance(value, list) for value in values):
        return "multilabel"
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    decimals = [value for value in values if isinstance(value, float) and math.isfinite(value) and value % 1]
    if decimals and sum(isinstance(value, int | float) for value in values) > len(texts):
        return "score"
    numbers = [_number(text) for text in texts]
    if numbers and all(number is not None for number in numbers):
        distinct = {number for number in numbers if number is not None}
        if len(distinct) > MANY_NUMBERS and not all(map(float.is_integer, filter(math.isfinite, distinct))):
            raise ValueError(
                f"{where}: holds {len(distinct):,} different numbers, such as {shown(texts[0])}: are they numbers to "
                f"predict, or names of classes? State the kind: --kind score or --kind sequence"
            )
    return "sequence"


def label_from(value: Any, kind: Kind, *, column: str, separator: str) -> tuple[Label | None, str]:
    """Return the label that a value of a file makes in a task of this kind, or None and why it makes none.

    An empty list, or an empty field where a separator is stated, is a row that bears none of the classes. Tags were
    looked at with their words (tasks/tagged.py).
    """
    if kind == "tokens":
        return value, ""
    if kind == "score":
        return _score(value, column)
    if kind == "multilabel":
        return _classes(value, column, separator)
    if isinstance(value, list):
        return (
            None,
            f"the label (column {column!r}) is the list {shown(value)}; make it one string, or all of them lists",
        )
    return class_name(value, column)


def check_separator(values: Sequence[Any], kind: Kind, *, separator: str, where: str) -> None:
    """Raises ValueError where the separator occurs in no field, or where fields of text need one and none is stated."""
    texts = [value for value in values if isinstance(value, str)]
    if separator and not any(separator in text for text in texts):
        example = f"such as {shown(texts[0])}" if texts else "which are lists, and need none"
        raise ValueError(
            f"{where}: the separator {separator!r} occurs in none of its labels, {example}. State the right one, or "
            f"leave it out"
        )
    if kind == "multilabel" and not separator and texts and len(texts) == len(values):
        raise ValueError(
            f"{where}: several labels a row are asked for, but it holds text, such as {shown(texts[0])}. State the "
            f"separator that stands between labels (--separator)"
        )


def one_spelling(labels: Sequence[Placed], *, fold: bool, of: str = "rows") -> dict[str, str]:
    """Class -> the spelling that stands for it, over the labels of all files. of: what bears a class, for the error.

    Of classes that differ by case, spaces or Unicode composition only, the most frequent stands for all where `fold` is
    set. Raises ValueError naming two of them, with place and number of rows, where it is not.
    """
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for place, label in (row for rows in labels for row in rows):
        for name in classes_in(label):
            counts[name] += 1
            first.setdefault(name, place)
    alike: dict[str, list[str]] = {}
    for name, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        alike.setdefault(_folded(name), []).append(name)
    for names in alike.values():
        if len(names) > 1 and not fold:
            often, rare = names[:2]
            # an accent may be a character of its own, which looks the same
            looks_same = unicodedata.normalize("NFC", rare) == unicodedata.normalize("NFC", often)
            spelt = ascii if looks_same else shown
            raise ValueError(
                f"{first[rare]}: label {spelt(rare)} also occurs as {spelt(often)} ({counts[often]:,} {of}; first at "
                f"{first[often]}). Labels are compared exactly: make them one with --fold-labels (fold_labels=True), "
                f"or correct the file"
            )
    return {name: names[0] for names in alike.values() for name in names}


def respelt(label: Label, spelling: Mapping[str, str], kind: Kind) -> Label:
    """Return the label in the spellings that stand for its classes."""
    if isinstance(label, tuple) and kind == "tokens":
        return tuple(spelling[name] for name in label)
    if isinstance(label, tuple):
        return tuple(sorted({spelling[name] for name in label}))
    return spelling[label] if isinstance(label, str) else label


def check_train(labels: Placed, kind: Kind, *, where: str) -> None:
    """Raises ValueError where there is nothing to tell apart: one class only, or always the same number."""
    if kind == "score":
        if len({label for _, label in labels}) < 2:
            raise ValueError(
                f"{where}: the number to predict is {labels[0][1]!r} in every row, so that there is nothing to learn. "
                f"Name the right column, or add rows"
            )
        return
    found = sorted({name for _, label in labels for name in classes_in(label)})
    # with several classes a row, one class is enough: rows bear it or not
    if not found or (len(found) == 1 and all(classes_in(label) for _, label in labels)):
        what = f"every row bears the label {shown(found[0])}" if found else "no row bears any label"
        way_out = "Name the right column, or add rows"
        if kind == "tokens":
            what, way_out = f"every word has the tag {shown(found[0])}", "Name the right file, or add other tags"
        raise ValueError(f"{where}: {what}, so that there is nothing to tell apart. {way_out}")


def check_seen(train: Placed, other: Placed, *, where: str, of: str = "rows") -> None:
    """Raises ValueError where a row bears a class that no row of train does. of: what bears a class, for the error."""
    counts = Counter(name for _, label in train for name in classes_in(label))
    for place, label in other:
        for name in classes_in(label):
            if name not in counts:
                like = nearest(name, counts)
                assert like is not None
                raise ValueError(
                    f"{place}: the label {shown(name)} does not occur in {where}, so that it cannot be learnt; the "
                    f"nearest there is {shown(like)} ({counts[like]:,} {of}). Correct it, leave such rows out, or add "
                    f"some to {where}"
                )


def notes_on_numbers(labels: Placed, *, stated: Stated, where: str) -> list[str]:
    """Return what to say where the classes of train are all numbers, and so many that they may be meant as numbers to
    predict.

    Nothing where the kind was stated.
    """
    names = {name for _, label in labels for name in classes_in(label)}
    if stated != "auto" or not _may_be_amounts(names, len(labels)):
        return []
    return [
        f"{where} holds {len(names):,} different whole numbers in {len(labels):,} rows, and each became a class, as "
        f"nothing else was said. If they are numbers to predict, state it: --kind score (kind='score')."
    ]


def _may_be_several(counts: Counter[str]) -> str:
    """Return the mark that seems to separate several labels: it is in a fifth of the distinct fields or more."""
    for mark in (";", "|", ","):
        if 5 * sum(mark in name for name in counts) >= len(counts):
            return mark
    return ""


def _may_be_amounts(names: Collection[str], rows: int) -> bool:
    return len(names) > MANY_NAMES and 10 * len(names) > rows and all(_number(name) is not None for name in names)


def notes_on_singles(labels: Placed, missing: Sequence[str]) -> list[str]:
    """Return what to say about classes that one row of train alone bears.

    missing: the splits that are yet to be made of these rows. Raises ValueError where there are such splits: one row
    cannot stand on both sides.
    """
    counts = Counter(name for _, label in labels for name in classes_in(label))
    alone = sorted((name, place) for place, label in labels for name in classes_in(label) if counts[name] == 1)
    if not alone:
        return []
    listed = ", ".join(f"{shown(name)} ({place})" for name, place in alone[:5]) + (", ..." if len(alone) > 5 else "")
    if missing:
        name, place = alone[0]
        amounts = _may_be_amounts(counts, len(labels))
        way_out = "If labels are numbers to predict, state it (--kind score); else add rows" if amounts else "Add rows"
        if mark := _may_be_several(counts):
            way_out = f"If a row bears several labels, name what parts them (--separator {mark!r}); else add rows"
        raise ValueError(
            f"{place}: no other row bears the label {shown(name)}, and it cannot stand both in train and in "
            f"{' or '.join(missing)}{f' (so for {len(alone)} labels: {listed})' if len(alone) > 1 else ''}. {way_out}, "
            f"give it another label, leave it out, or give files for dev and test"
        )
    return [f"Labels with one training example only, too few to learn them from: {listed} ({len(alone)} in all)."]


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _score(value: Any, column: str) -> tuple[float | None, str]:
    if value is None or (isinstance(value, str) and not value.strip()):
        return (
            None,
            f"the number to predict (column {column!r}) is empty: {shown(value)}; fill it in or leave the row out",
        )
    number = None if isinstance(value, bool | list | dict) else _number(value)
    if number is None:
        comma = isinstance(value, str) and _number(value.replace(",", ".", 1)) is not None
        way_out = "write decimals with a point" if comma else "write a number"
        return None, f"the number to predict (column {column!r}) is {shown(value)}; {way_out}"
    if not math.isfinite(number) or abs(number) > HUGEST:
        what = "is not a finite number" if not math.isfinite(number) else f"is beyond {HUGEST:g}"
        return (
            None,
            f"the number to predict (column {column!r}) {what}: {shown(value)}; correct it or leave the row out",
        )
    return number, ""


def _classes(value: Any, column: str, separator: str) -> tuple[tuple[str, ...] | None, str]:
    if isinstance(value, str) and separator:
        parts: list[Any] = [part.strip() for part in value.split(separator) if part.strip()]
    elif isinstance(value, list):
        parts = value
    else:
        way_out = "make it a list, or state the separator that stands between labels"
        return None, f"the labels (column {column!r}) are {shown(value)}; {way_out}"
    names = set()
    for part in parts:
        name, reason = class_name(part, column)
        if name is None:
            return None, reason
        names.add(name)
    return tuple(sorted(names)), ""
