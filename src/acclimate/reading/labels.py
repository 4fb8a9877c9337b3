"""The label column of a file: its kind of task, its values as labels, and faults in them.

A label may be written in another form than the names of its classes:

form in the file                                    labels of a row
"['bio', 'new']", "['bio' 'new']", "{bio,new}"      the names in the list
[1, 0, 0, 1], "[1 0 0 1]", "1,0,0,1"                the names of the places that hold 1
{"bio": 1, "eco": 0}, or a column for each label    the names that have 1
2, where the classes have names                     the third name

Classes have names if the user states them, or if the metadata of a Parquet or Arrow file has them (`ClassLabel`).
If most rows of train are vectors, a row that is none is an error; so is a field in brackets that is no list, and a
number that the stated names do not cover.

Labels are compared exactly. Several spellings of one label (case, spaces, invisible characters, 1 and 1.0) are an
error, or become one on request (`fold`). A label of dev or test that does not occur in train is an error.
"""

from __future__ import annotations

import ast
import decimal
import json
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
_SEPARATED = re.compile("[+-]?\\d{1,3}(?:[,.' \u00a0\u202f]\\d{2,3})+(?:[.,]\\d+)?")
HUGEST = 1e30  # a larger number to predict would overflow the loss
LONGEST = 1 << 16  # characters of a list that is written in a field
HOT = frozenset({"1", "1.0", "true", "yes", "x"})  # values of a label that a row has; 1, 1.0 and True are spelt so too
COLD = frozenset({"", "0", "0.0", "false", "no", "none", "nan"})
WRAPPERS = ("choices", "labels", "entities", "cats")  # keys of an object around labels
WITHHELD = -1  # number of a class where the label is withheld
_WRAPPED = re.compile(
    r"(array|set|frozenset|list|tuple|tensor|Index|dict_keys|OrderedDict)\((.*?)(?:,\s*(?:dtype|device)=[^,()\[\]]+)*\)",
    re.DOTALL,
)
_NUMPY = re.compile(r"np\.(?:\w+\(('[^']*'|\"[^\"]*\"|[^()'\"]*)\)|(True|False)_)")
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_MARK = r"(?:[01](?:\.0*)?|true|false)"
_VECTOR = re.compile(rf"{_MARK}(?:\s*[ ,;|\t]\s*{_MARK})+", re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:e[+-]?\d{1,3})?")
# characters without a shape that are of no category of their own
SHAPELESS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
# spellings of one letter -> the same; Arabic and Hebrew vowel signs, tatweel and variation selectors are omitted
_SPELLINGS = str.maketrans(
    {"\u0131": "i", "\u0640": "", "\u06a9": "\u0643", "\u06cc": "\u064a", "\u2019": "'", "\u2212": "-"}
    | {
        chr(code): ""
        for code in (*range(0x5B0, 0x5BE), 0x5C1, 0x5C2, *range(0x64B, 0x653), 0x670, *range(0xFE00, 0xFE10))
    }
)

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
    separator: str,
) -> tuple[_Rows, list[str]]:
    """Return the rows with names of classes as labels, and a note for each form that was read. rows: of `plain_labels`

    names      of the numbers 0, 1, ... or of the places of a vector, as the user states them; (): not stated
    separator  of several labels in a field; "": a field has one label

    The label is a list of names. It is one name if all rows have exactly one, unless the kind is "multilabel" or there
    is a separator. Train decides what the form is; a row of dev or test in another form is rejected.

    Raises ValueError, with file and line, for a row of train that is no vector where most are, for a field in brackets
    that is no list, and for what `names` does not name.
    """
    where = f"{sources['train'].name}: the column {columns.label!r}"
    several = kind in {"auto", "sequence", "multilabel"}
    notes: list[str] = []
    labels = [row.label for row in _read(rows["train"])]
    if kind == "score":
        _check_points(_read(rows["train"]), columns.label)
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
        for row in _read(rows["train"]):
            if row.label is not None and row.label != "":
                _check_converted(row, convert)
    elif several and 2 * sum(isinstance(label, Mapping) for label in labels) > len(labels):
        keys = list(dict.fromkeys(name for label in labels if isinstance(label, Mapping) for name in label))
        notes.append(f"{sources['train'].name} has 0 or 1 for each label: {_first(keys)}.")
        convert = _hot_namer
    elif names:
        rows, on_numbers = _numbers_named(rows, names, separator, where=where)
        return rows, [*notes, *on_numbers]
    else:
        if several:
            _check_no_vectors([row for row in _read(rows["train"]) if row.label is not None])
        return {split: [*part] for split, part in rows.items()}, notes
    named = {split: [_with_label(row, convert) for row in part] for split, part in rows.items()}
    named, note = (named, []) if separator else _single(named, kind)
    return named, [*notes, *note]


def plain_labels(rows: Mapping[Split, Sequence[Row | Rejected]], *, kind: str, where: str) -> tuple[_Rows, list[str]]:
    """Return the rows with the labels that are written as text in a field, or wrapped in an object, and notes.

    An object is {"choices": [...]}, {"entities": [...]}, {"label": ..., "score": ...} and the like. Beside lists in
    objects, a plain field is a list of one; no label is a list if each row has exactly one.

    where: the column of train, which decides
    """
    named: _Rows = {split: [*part] for split, part in rows.items()}
    notes: list[str] = []
    wrapping = next((row.label for row in _read(named["train"]) if _wraps(row.label)), None)
    if kind != "score" and wrapping is not None:
        named = {split: [_with_label(row, _unwritten) for row in part] for split, part in named.items()}
        notes = [f"{where} has lists as text, such as {shown(wrapping)}. They are read as lists."]
    elif kind in {"auto", "multilabel"}:
        named, notes = _lists_read(named, where)
    labels = [row.label for row in _read(named["train"])]
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


def _numbers_named(
    rows: Mapping[Split, Sequence[Row | Rejected]], names: Sequence[str], separator: str, *, where: str
) -> tuple[_Rows, list[str]]:
    """Return the rows with the user's names in place of numbers of classes, and a note. Raises as `named_labels`."""
    labels = [row.label for row in _read(rows["train"])]
    if separator and any(isinstance(label, str) and separator in label for label in labels):
        rows = {
            split: [_with_label(row, lambda label: _parts(label, separator)) for row in part]
            for split, part in rows.items()
        }
        labels = [row.label for row in _read(rows["train"])]
    if not any(_number_in(item) is not None for label in labels for item in _as_list(label)):
        raise ValueError(
            f"{where} has no class numbers that {option('labels')} could name, but values such as "
            f"{shown(labels[0] if labels else '')}. Remove {option('labels')}"
        )
    convert = _class_namer(names, strict=True)
    for part in rows.values():
        for row in _read(part):
            _check_converted(row, convert)
    listed = ", ".join(f"{number} is {shown(name)}" for number, name in enumerate(names[:8]))
    note = f"{where} has class numbers, which {option('labels')} names: {listed}{', ...' if len(names) > 8 else ''}."
    return {split: [_with_label(row, convert) for row in part] for split, part in rows.items()}, [note]


def _read(rows: Sequence[Row | Rejected]) -> Iterator[Row]:
    return (row for row in rows if isinstance(row, Row))


def _lists_read(rows: Mapping[Split, Sequence[Row | Rejected]], where: str) -> tuple[_Rows, list[str]]:
    """Return the rows with lists in place of fields in which lists are written, and a note if train has them.

    Train has lists if at least half of its fields hold one, or if all fields are in brackets and one is a list.
    Raises ValueError, with file and line, for a field in brackets otherwise.
    """
    texts = Counter(row.label for row in _read(rows["train"]) if isinstance(row.label, str) and row.label.strip())
    lists = [text for text in texts if list_in(text) is not None]
    if lists and (2 * sum(texts[text] for text in lists) >= texts.total() or all(map(_has_brackets, texts))):
        note = f"{where} has lists as text, such as {shown(lists[0])}. They are read as lists."
        return {split: [_with_label(row, _unwritten) for row in part] for split, part in rows.items()}, [note]
    if not texts and any(isinstance(row.label, list) for row in _read(rows["train"])):  # dev and test may have texts
        return {split: [_with_label(row, _unwritten) for row in part] for split, part in rows.items()}, []
    unclear = {*lists, *filter(_has_brackets, texts)}
    for row in _read(rows["train"]) if unclear else ():
        if isinstance(row.label, str) and row.label in unclear:
            raise ValueError(
                f"{row.place}: the label {shown(row.label)} is written as a list, but other rows are not, or its "
                f'elements are unclear. Write the label of each row as ["a", "b"]. If it is the name of a class, add '
                f"{option('kind', 'sequence')}"
            )
    return {split: [*part] for split, part in rows.items()}, []


def _check_no_vectors(rows: Sequence[Row]) -> None:
    """Raise ValueError for lists of numbers of one length that are no classes: a number is twice there, or negative."""
    numbers = all(
        isinstance(row.label, list) and all(_number_in(item) is not None for item in row.label) for row in rows
    )
    if not rows or not numbers or len({len(row.label) for row in rows}) > 1:
        return
    for row in rows:
        if len(set(row.label)) < len(row.label) or any((_number_in(item) or 0) < 0 for item in row.label):
            raise ValueError(
                f"{row.place}: the labels are {shown(row.label)}, as long a list as in other rows, so it may be a "
                "vector. Write 0 or 1 for each label, or names of classes in place of numbers"
            )


def _check_converted(row: Row, convert: Callable[[Any], Any]) -> None:
    try:
        convert(row.label)
    except ValueError as error:
        raise ValueError(f"{row.place}: {error}") from None


def _check_points(rows: Iterator[Row], column: Any) -> None:
    """Raise ValueError if the points in numbers to predict may separate thousands: 990 and 1.005, 12.000."""
    texts = {row.label.strip(): row.place for row in rows if isinstance(row.label, str)}
    points = [text for text in texts if "." in text]
    thousand = [text for text in points if re.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}", text)]
    if thousand and thousand == points and (whole := [text for text in texts if re.fullmatch(r"[+-]?\d{3}", text)]):
        raise ValueError(
            f"{texts[points[0]]}: the number to predict (column {column!r}) is {points[0]!r}, and other rows have "
            f"whole numbers such as {whole[0]}. Write {points[0].replace('.', '')} for thousands, or {whole[0]}.000 in "
            "the other rows"
        )


def _first(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names[:8])) + (", ..." if len(names) > 8 else "")


def list_in(text: str, *, single: bool = False) -> list[Any] | dict[Any, Any] | None:
    """Return the list, or the object, that is written in a field; None for none.

    It may be written as Python, JSON, NumPy, PyTorch, pandas, Postgres or YAML write it.

    single: a word in brackets, such as [bio], is a list too
    """
    body = text.strip()[: LONGEST + 1]
    if body[:1] + body[-1:] == '""':  # JSON in JSON
        inner = _parsed(body)
        return list_in(inner) if isinstance(inner, str) and inner[:1] in ("[", "{") else None
    if re.fullmatch(r"(?:- +\S[^\n]*(?:\n|$))+", body) and ("\n" in body or single):
        return [line[1:].strip().strip("'\"") for line in body.splitlines()]
    wrapped = _WRAPPED.fullmatch(body)
    if wrapped:
        body = wrapped[2].strip() or "[]"
    if not _has_brackets(body):
        return None
    body = _NUMPY.sub(r"\1\2", body)
    inner = body[1:-1].strip()
    between = _QUOTED.sub("", inner)
    if between and not between.strip():  # ['a' 'b'], which Python reads as one text
        return [_unescaped(quoted or text) for quoted, text in _QUOTED.findall(inner)]
    value = _parsed(body)
    pairs = value if wrapped and wrapped[1] == "OrderedDict" and isinstance(value, list) else []
    if pairs and all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return dict(pairs)
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple | set):
        return sorted(value, key=str) if isinstance(value, set) else list(value)
    return _unquoted(body[0], inner, single=single)


def _unquoted(bracket: str, inner: str, *, single: bool) -> list[Any] | None:
    """Return the list of words or numbers without quotes in brackets: [1 0], [True False], {bio,new}."""
    if not inner or re.search("['\"\u2018\u201c\u201d[({]", inner) or (bracket == "{" and ":" in inner):
        return None
    numbers = inner.split()
    if bracket == "[" and all(re.fullmatch(r"-?\d+(?:\.\d*)?|True|False", part) for part in numbers):
        return [part == "True" if part[0] in "TF" else float(part) for part in numbers]
    if "," in inner:
        return [part.strip() for part in inner.split(",") if part.strip()]
    return [inner] if single and not re.search("[;|]", inner) else None


def _has_brackets(text: str) -> bool:
    body = text.strip()
    return body[:1] + body[-1:] in {"[]", "()", "{}"} and not re.match(r"\([^()'\"]*\).*\(", body)  # (x) and (y)


def _parsed(body: str) -> Any:
    """Return the value that JSON or Python reads; None for none."""
    with warnings.catch_warnings(action="ignore"):  # of backslashes that escape nothing
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(body)
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                continue
    return None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _unwritten(label: Any) -> Any:
    if not isinstance(label, str):
        return label
    parsed = list_in(label, single=True)
    if parsed is None and _has_brackets(label):
        raise ValueError(f'the label {shown(label)} is in brackets, but is no list; write it as ["a", "b"]')
    return label if parsed is None else parsed


def _with_label(row: Row | Rejected, convert: Callable[[Any], Any]) -> Row | Rejected:
    """Return the row with the converted label, or rejected with the reason that `convert` raises as a ValueError."""
    if isinstance(row, Rejected):
        return row
    try:
        return replace(row, label=convert(row.label))
    except ValueError as error:
        return Rejected(row.place, str(error))


def _width(labels: Sequence[Any], names: Sequence[str], *, texts: bool) -> int:
    """Return the number of places if more than half of the labels are vectors of 0 and 1 of one length, else 0.

    texts: vectors may be texts
    """
    if not texts and any(isinstance(label, str) for label in labels):
        return 0
    labels = [label for label in labels if label is not None and label != ""]
    lengths = Counter(len(vector) for label in labels if (vector := vector_in(label, len(names))) is not None)
    width, count = next(iter(lengths.most_common(1)), (0, 0))
    return width if 2 * count > len(labels) else 0


def vector_in(label: Any, places: int = 0) -> list[bool] | None:
    """Return the vector of at least two zeros and ones that a label is; None if it is none.

    places  number of names that are stated: a text of as many digits, such as "1001", is then a vector too
    """
    if isinstance(label, str):
        text = label.strip()
        if places > 1 and re.fullmatch(rf"[01]{{{places}}}", text):
            return [digit == "1" for digit in text]
        if not _VECTOR.fullmatch(text):
            return None
        label = [part[0] in "1Tt" for part in re.findall(_MARK, text, re.IGNORECASE)]
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
            raise ValueError(
                f"the labels are {shown(label)}, but must be {len(names)} zeros and ones, as in most rows; correct it, "
                "or write names of classes in place of 0 and 1"
            )
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
    if isinstance(label, str) and (number := re.fullmatch(r"(-?\d+)(?:\.0*)?", label.strip())):
        return int(number[1])
    if isinstance(label, float) and label.is_integer():
        return int(label)
    return label if isinstance(label, int) and not isinstance(label, bool) else None


def _as_list(label: Any) -> Sequence[Any]:
    return label if isinstance(label, list | tuple) else [label]


def _parts(label: Any, separator: str) -> Any:
    """Return the labels that a separator separates in a field; other values as they are."""
    return [part.strip() for part in label.split(separator) if part.strip()] if isinstance(label, str) else label


def _class_namer(names: Sequence[str], *, strict: bool = False) -> Callable[[Any], Any]:
    """Return the function from a number of a class, or a list of them, to the names.

    strict  True: other values than numbers and names raise ValueError, except those without a label.
            False: other values stay as they are, and -1 is a label that is withheld.
    """

    def named(label: Any) -> Any:
        if isinstance(label, list | tuple):
            return type(label)(map(named, label))
        number = _number_in(label)
        if number == WITHHELD and not strict:
            raise ValueError("the label is -1, which marks a row without a label; remove the row")
        if number is None and (not strict or label in names or class_name(label, "")[0] is None):
            return label
        if number is None:
            mark = next(
                (mark for mark in ";|, " if all(part.strip().isdecimal() for part in str(label).split(mark))), ""
            )
            way_out = f"If the row has several labels, add {option('separator', mark)}" if mark else "Correct the row"
            raise ValueError(f"the label {shown(label)} is neither a class number nor among {_first(names)}. {way_out}")
        if not 0 <= number < len(names):
            way_out = (
                f". If classes are numbered from 1, begin {option('labels')} with a name for 0: none,{names[0]},..."
                if strict and number == len(names)
                else "; correct the row"
            )
            raise ValueError(
                f"{shown(label)} is not a class number: there are {len(names)} classes, numbered from 0{way_out}"
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
    numbers = [_written_number(text) for text in spellings]
    if written and all(number is not None for number in numbers):
        several = f". If a row has several labels, add {option('separator', ',')}" if "," in written else ""
        raise ValueError(
            f"{where}: {shown(written)} is a number with thousands separators. Write {thousands(written)}, and add "
            f"{option('kind', 'score')} for numbers to predict{several}"
        )
    decimals = [value for value in values if isinstance(value, float) and math.isfinite(value) and value % 1]
    if decimals and sum(isinstance(value, int | float) for value in values) > len(texts):
        return "score"
    if numbers and all(number is not None for number in numbers):
        distinct = {number for number in numbers if number is not None}
        if len(distinct) > MANY_NUMBERS and not all(map(float.is_integer, filter(math.isfinite, distinct))):
            raise ValueError(
                f"{where}: has {len(distinct):,} different numbers, such as {shown(texts[0])}. Are they numbers to "
                f"predict, or names of classes? Add one of: {option('kind', 'score')} or "
                f"{option('kind', 'sequence')}"
                + (f", or {option('separator', ',')} if a row has several labels" if "," in "".join(spellings) else "")
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

    fold  True: of classes that differ only by case, spaces, Unicode composition, invisible characters or the
          spelling of a number (1, 1.0, 01), the most frequent replaces all.
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
        alike.setdefault(folded(name), []).append(name)
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
    ratings = len(names) in RATINGS and all(_written_number(name) is not None for name in names)
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
    number = isinstance(value, float | decimal.Decimal)
    score = f", or add {option('kind', 'score')} for numbers to predict" if number else ""
    return None, f"the label (column {column!r}) is {shown(value)}; make it a string{score}"


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


def folded(name: str) -> str:
    """Return the key that spellings of one label share: without case, Unicode composition, invisible characters,
    additional spaces, kinds of digits, hyphens and Arabic letters, and vowel signs. A number is its decimal value.
    """
    plain = visible(unicodedata.normalize("NFKC", name)).casefold().replace("i\u0307", "i").translate(_SPELLINGS)
    plain = " ".join(plain.split())
    if not plain.isascii():
        plain = "".join(_ascii_mark(mark) for mark in plain)
    if len(plain) > 25 or not _DECIMAL.fullmatch(plain):  # decimal rounds to 28 digits
        return plain
    value = decimal.Decimal(plain.replace(",", "."))
    return str(value.normalize()) if value else "0"


def _ascii_mark(mark: str) -> str:
    """Return the digit 0 to 9 for a decimal digit of any script, "-" for a hyphen or dash, else the character."""
    if mark.isdecimal():
        return str(unicodedata.decimal(mark))
    return "-" if unicodedata.category(mark) == "Pd" else mark


def visible(name: str) -> str:
    """Return the name without characters that have no shape, such as a zero-width space or a byte order mark."""
    return "".join(mark for mark in name if unicodedata.category(mark) != "Cf" and mark not in SHAPELESS)


def thousands(text: str) -> str:
    """Return the number without its separators of thousands; "" if it has none: 1,012.50, 1.012,50, 1 012,50, 1'012.5.

    A single separator before three last digits may be a decimal point: it counts as one of thousands only where it is
    no comma or point.
    """
    written = text.strip().replace("\u2019", "'")
    if not _SEPARATED.fullmatch(written):
        return ""
    if indian := re.fullmatch(r"([+-]?\d{1,2}(?:,\d{2})+,\d{3})(\.\d+)?", written):
        return indian[1].replace(",", "") + (indian[2] or "")
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


def _written_number(text: str) -> float | None:
    """Return a number that may have separators of thousands or a decimal comma; None if it is none."""
    return _number((thousands(text) or text).replace(",", "."))
