"""Examples from the files of benchmarks: CSV, TSV (in which quotes are ordinary characters), tagged words, and JSON."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acclimate.core.names import shown
from acclimate.core.types import Example, Label, Rejected, Split
from acclimate.reading.formats.archives import files_in
from acclimate.reading.source import open_source
from acclimate.reading.tables import Columns, no_column
from acclimate.reading.tagged import tagged_rows
from acclimate.text.untrusted import LIMITS, ReadLimits, json_lines, named, printable, read_blocks, text_lines, unsound

CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f]")
LabelOf = Callable[[str], Label]  # the label of a field; raises ValueError, with the reason, if it is none


def delimited_examples(
    path: Path,
    split: Split,
    *,
    text: str,
    label: str,
    label_of: LabelOf,
    pair: str | None = None,
    id: str | None = None,
    group_of: Callable[[str], str] | None = None,
    columns: Sequence[str] = (),
    comma: bool = False,
    surplus: bool = False,
    member: str = "",
    limits: ReadLimits = LIMITS,
) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each row of the file. `text`, `label`, `pair` and `id` name columns.

    label_of  returns the label of a field of the label column
    id        name of a column with unique values; without it an id is `<split>:<row>`, rows counted from 1
    group_of  returns an example's group, from its id
    columns   names of the columns, in order, for a file without a header line
    comma     True: commas part the fields, which may be quoted; False: tabs, and quotes are ordinary characters
    surplus   True if a row may have more fields than columns; these are ignored
    member    name of the file to read, if `path` is an archive

    White space around a text is removed. Raises ValueError if the file has no such rows.
    """
    lines = _member_lines(path, member) if member else (line for _, line in text_lines(path, limits))
    records = _records(path, lines, comma, limits)
    if not columns:
        number, columns = next(records, (1, []))
        for name in filter(None, (text, label, pair, id)):
            if name not in columns:
                raise no_column(f"{named(path)}:{number}", name, columns, "; the first line must contain the names")
    places = {name: columns.index(name) for name in filter(None, (text, label, pair, id))}
    row = 0
    for row, (number, fields) in enumerate(records, 1):
        place = f"{printable(path.name)}:{number}"
        if len(fields) < len(columns) or (len(fields) > len(columns) and not surplus):
            yield Rejected(place, f"{len(fields)} fields, but {len(columns)} are needed; correct the row")
            continue
        values = {name: fields[at].strip() for name, at in places.items()}
        key = values[id] if id else f"{split}:{row}"
        yield example_of(
            place,
            key,
            values[text],
            values[label],
            label_of,
            pair=values[pair] if pair else None,
            group=group_of(key) if group_of else "",
        )
    if not row:
        raise ValueError(f"{named(path)}: has no rows. Fetch it again or name another file")


def example_of(
    place: str, id: str, text: str, label: str, label_of: LabelOf, *, pair: str | None = None, group: str = ""
) -> Example | Rejected:
    """Return the example, or a Rejected if an id or text is empty or unsound, or the label cannot be used.

    Control characters, of which CoLA and STS-B have a few, are removed from texts, as BERT's tokenizer does.
    """
    text, pair = CONTROL.sub("", text), None if pair is None else CONTROL.sub("", pair)
    for field, value in (("id", id), ("text", text), ("second text", pair)):
        if value is not None and (not value or (reason := unsound(value))):
            return Rejected(place, f"the {field} {reason if value else 'is empty'}; correct the row or remove it")
    try:
        return Example(id, text, label_of(label), pair, group)
    except ValueError as error:
        return Rejected(place, str(error))


def one_of(classes: Mapping[str, str] | Sequence[str]) -> LabelOf:
    """Return the function that accepts these labels only; of a mapping (label in the file -> class), it returns the
    class.
    """
    names = dict(classes) if isinstance(classes, Mapping) else {name: name for name in classes}

    def label_of(value: str) -> Label:
        if value not in names:
            raise ValueError(f"the label {shown(value)} is none of {', '.join(map(repr, names))}; correct the row")
        return names[value]

    return label_of


def number(value: str) -> Label:
    """Return the label of a field that is a number. Raises ValueError if it is no finite number."""
    try:
        parsed = float(value)
    except ValueError:
        parsed = math.nan
    if not math.isfinite(parsed):
        raise ValueError(f"the label {shown(value)} is not a finite number; correct the row")
    return parsed


def iob_examples(
    path: Path, split: Split, *, merged: bool = False, limits: ReadLimits = LIMITS
) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each sentence of a file with a word and its tag a line.

    MTL-Bioinformatics-2016 and EBM-NLP are such files. If `-DOCSTART-` lines part documents, the document is the group.

    merged  True: entities of all types become one type, B-DNA and B-protein become B
    """
    for row in tagged_rows(open_source(path, limits=limits), Columns())[0]:
        if isinstance(row, Rejected):
            yield row
            continue
        tags = tuple(tag.partition("-")[0] for tag in row.label) if merged else row.label
        yield Example(f"{split}:{row.number}", row.text, tags, None, f"{split}, {row.group}" if row.group else "")


def jsonl_examples(
    path: Path,
    split: Split,
    *,
    label_of: LabelOf,
    limits: ReadLimits = LIMITS,
) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each line, an object with `text` and `label`; an id is `<split>:<line>`."""
    for number, values in json_lines(path, limits):
        place = f"{printable(path.name)}:{number}"
        if isinstance(values, str):
            yield Rejected(place, values)
        elif not isinstance(values.get("text"), str) or not isinstance(values.get("label"), str | int):
            held = {key: values.get(key) for key in ("text", "label")}
            yield Rejected(place, f"a string under 'text' and a label under 'label' are needed, not {shown(held)}")
        else:
            yield example_of(place, f"{split}:{number}", values["text"].strip(), str(values["label"]), label_of)


def abstract_sentences(
    path: Path, split: Split, *, label_of: LabelOf, limits: ReadLimits = LIMITS
) -> Iterator[Example | Rejected]:
    """Yield an Example or a Rejected for each sentence of a file of abstracts.

    Each line is a JSON object with the keys pmid, sentences and labels. The group of a sentence is its abstract.
    """
    for number, values in json_lines(path, limits):
        place = f"{printable(path.name)}:{number}"
        if isinstance(values, str):
            yield Rejected(place, values)
            continue
        sentences, labels = values.get("sentences"), values.get("labels")
        if not (isinstance(sentences, list) and isinstance(labels, list) and len(sentences) == len(labels)):
            yield Rejected(place, "as many sentences as labels are needed, each in a list; correct the line")
            continue
        abstract = str(values.get("pmid", number))
        for at, (sentence, name) in enumerate(zip(sentences, labels, strict=True)):
            yield example_of(place, f"{abstract}:{at}", str(sentence).strip(), str(name), label_of, group=abstract)


def json_object(path: Path, limits: ReadLimits = LIMITS) -> dict[str, Any]:
    """Return the JSON object in the file. Raises ValueError if the file is not one JSON object."""
    try:
        value = json.loads(b"".join(read_blocks(path, limits)))
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{named(path)}: is not one JSON object ({printable(str(error))}). Fetch it again") from error
    if not isinstance(value, dict):
        raise ValueError(f"{named(path)}: is {shown(value)}, but must be a JSON object. Fetch it again")
    return value


def _member_lines(path: Path, member: str) -> Iterator[str]:
    content = next((content for name, content in files_in(path) if name == member), None)
    if content is None:
        raise ValueError(f"{named(path)}: lacks {member}. Fetch it again")
    yield from content.decode().splitlines(keepends=True)


def _records(path: Path, lines: Iterator[str], comma: bool, limits: ReadLimits) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the fields of each row that is not empty, with the line on which it begins."""
    if not comma:
        for number, line in enumerate(lines, 1):
            if stripped := line.rstrip("\r\n"):
                yield number, stripped.split("\t")
        return
    csv.field_size_limit(limits.line)
    reader = csv.reader(lines, strict=True)
    number = 1
    try:
        for fields in reader:
            if fields:
                yield number, fields
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{named(path)}:{number}: {printable(str(error))}. Correct the line") from error
