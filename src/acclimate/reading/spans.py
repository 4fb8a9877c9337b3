"""Rows whose label lists spans of the text, as doccano, Label Studio, Prodigy and spaCy write them.

[[21, 24, "PER"], ...], or objects with `start` or `start_offset`, `end` or `end_offset`, and `label`, `labels` or
`entity`. Offsets count characters from 0, ends excluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acclimate.core.names import shown
from acclimate.core.types import Rejected
from acclimate.reading.formats.annotated import Annotated, Mention
from acclimate.reading.mentions import Tagged, notes_on_mentions, tagged
from acclimate.reading.source import Source
from acclimate.reading.tables import Row

STARTS, ENDS, TYPES = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels", "entity")


def has_spans(rows: Sequence[Row | Rejected]) -> bool:
    """Return True if at least half of the rows have a list of spans, which may be empty, and one has a span."""
    labels = [row.label for row in rows if isinstance(row, Row)]
    lists = [
        label for label in labels if isinstance(label, list) and all(span_in(value) is not None for value in label)
    ]
    return any(lists) and 2 * len(lists) >= len(labels)


def span_in(value: Any) -> tuple[int, int, str] | None:
    """Return start, end and type of a span; None if the value is none."""
    if isinstance(value, Mapping):
        start, end = (next((value[key] for key in keys if key in value), None) for keys in (STARTS, ENDS))
        type_name = next((value[key] for key in TYPES if value.get(key)), None)
        value = [start, end, type_name[0] if isinstance(type_name, list) else type_name]
    if not isinstance(value, list | tuple) or len(value) != 3:
        return None
    start, end, type_name = value
    whole = all(isinstance(place, int) and not isinstance(place, bool) for place in (start, end))
    return (start, end, type_name) if whole and isinstance(type_name, str) and type_name.strip() else None


def span_rows(source: Source, rows: Sequence[Row | Rejected]) -> tuple[list[Row | Rejected], list[str]]:
    """Return a Row, tagged in BIO, for each sentence of the texts, and notes. A text with a faulty span is rejected."""
    documents = [row if isinstance(row, Rejected) else _document(source, row) for row in rows]
    read: Tagged = tagged(documents, "BIO")
    sentences = [
        Row(number, example.id, example.text, example.label, None, example.group, example.id)
        for number, example in enumerate(read.examples, 1)
    ]
    note = f"{source.name}: the labels are spans of the texts. They are read as word tags (BIO)."
    return [*sentences, *read.rejected], [note, *notes_on_mentions(read, where=source.name)]


def _document(source: Source, row: Row) -> Annotated | Rejected:
    mentions = []
    if not isinstance(row.label, list):
        return Rejected(row.place, f"the label is {shown(row.label)}, but must be a list of spans; correct it")
    for number, value in enumerate(row.label, 1):
        span = span_in(value)
        if span is None or not 0 <= span[0] < span[1] <= len(row.text):
            return Rejected(
                row.place,
                f"the span {shown(value)} does not fit its text of {len(row.text):,} characters; give start, end and "
                f"label, from 0 and with the end excluded",
            )
        mentions.append(Mention(str(number), span[2], (span[:2],)))
    return Annotated(row.id or f"{source.stem}:{row.number}", row.text, tuple(mentions), (), row.place)
