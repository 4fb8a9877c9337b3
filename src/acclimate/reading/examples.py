"""Accepted rows of the user's files with their labels, and the examples that they become.

Labels and groups get one spelling over all files. An id is in one row, and a group in one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from acclimate.core.names import shown
from acclimate.core.types import Example, Label, Rejected, Split
from acclimate.reading.formats.squad import IMPOSSIBLE
from acclimate.reading.labels import label_from, one_spelling, respelt
from acclimate.reading.source import Source
from acclimate.reading.tables import UNACCEPTED, Columns, FileRead, Row, check_accepted
from acclimate.tasks.task import Kind


@dataclass(frozen=True)
class LabelledRows:
    """A file's accepted rows with their labels, and its counts."""

    source: Source
    rows: Sequence[Row]
    labels: Sequence[Label]
    read: FileRead

    def placed(self) -> list[tuple[str, Label]]:
        return [(row.place, label) for row, label in zip(self.rows, self.labels, strict=True)]


def labelled_rows(
    source: Source, rows: Sequence[Row | Rejected], kind: Kind, columns: Columns, separator: str
) -> LabelledRows:
    """Return the rows that have a label of the kind. Raises ValueError if too few have.

    separator: what separates the labels of a field; "": nothing
    """
    column = columns.label if isinstance(columns.label, str) else ", ".join(columns.label)
    accepted: list[Row] = []
    labels: list[Label] = []
    rejected: list[Rejected] = []
    for row in rows:
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        label, reason = label_from(row.label, kind, column=column, separator=separator)
        if label is None:
            rejected.append(Rejected(row.place, reason))
        else:
            accepted.append(row)
            labels.append(label)
    counted = faulty_rows(rejected) if accepted or faulty_rows(rejected) else rejected
    check_accepted(source.name, len(accepted) + len(counted), counted)
    return LabelledRows(source, accepted, labels, FileRead(source.path, len(rows), len(accepted), tuple(rejected)))


def faulty_rows(rejected: Sequence[Rejected]) -> list[Rejected]:
    """Return the rejected rows but those that are meant to be left out: SQuAD 2.0's questions without an answer, and
    Prodigy's refusals. They are no sign of a misread file.
    """
    return [row for row in rejected if row.reason not in (IMPOSSIBLE, UNACCEPTED)]


def one_label_spelling(
    files: Mapping[Split, LabelledRows], kind: Kind, *, fold: bool
) -> tuple[dict[Split, LabelledRows], list[str]]:
    """Return the files with one spelling of each label, and a note on those that changed. fold: as of `one_spelling`"""
    spelling = one_spelling(
        [file.placed() for file in files.values()], fold=fold, of="words" if kind == "tokens" else "rows"
    )
    respelt_files = {
        split: replace(file, labels=[respelt(label, spelling, kind) for label in file.labels])
        for split, file in files.items()
    }
    folded = [f"{shown(name)} as {shown(label)}" for name, label in sorted(spelling.items()) if name != label]
    listed = ", ".join(folded[:10]) + (", ..." if len(folded) > 10 else "")
    return respelt_files, [f"Spellings of one label were read as one: {listed}."] if folded else []


def one_group_spelling(files: Mapping[Split, LabelledRows]) -> tuple[dict[Split, LabelledRows], list[str]]:
    """Return the files with one spelling of each group, and a note on those that changed: " d1" is "d1"."""
    groups = [[(row.place, row.group) for row in file.rows if row.group] for file in files.values()]
    spelling = one_spelling(groups, fold=True)
    changed = [f"{shown(name)} with {shown(group)}" for name, group in sorted(spelling.items()) if name != group]
    if not changed:
        return {**files}, []
    respelt_files = {
        split: replace(file, rows=[replace(row, group=spelling.get(row.group, "")) for row in file.rows])
        for split, file in files.items()
    }
    ends = ", ..." if len(changed) > 5 else ""
    return respelt_files, [f"Spellings of one group are kept together: {', '.join(changed[:5])}{ends}."]


def examples_of(files: Mapping[Split, LabelledRows], kind: Kind) -> dict[Split, list[Example]]:
    """Return the examples of each file.

    Raises ValueError if an id occurs twice over all files, or a group is in two of them.
    """
    place_of_id: dict[str, str] = {}
    home_of_group: dict[str, tuple[Split, str]] = {}
    splits: dict[Split, list[Example]] = {}
    for split, file in files.items():
        splits[split] = []
        for row, label in zip(file.rows, file.labels, strict=True):
            example = Example(
                row.id or f"{file.source.stem}:{row.number}", row.text, label, row.pair, row.group, row.spans
            )
            if example.id in place_of_id:
                ways_out = (
                    "correct it or remove the copy"
                    if kind == "span"
                    else "correct it, remove the copy, or name no id column"
                )
                raise ValueError(
                    f"{row.place}: the id {shown(example.id)} is also at {place_of_id[example.id]}. Each row "
                    f"needs another id: {ways_out}"
                )
            place_of_id[example.id] = row.place
            home, first = home_of_group.setdefault(example.group, (split, row.place))
            if example.group and home != split:
                raise ValueError(
                    f"{row.place}: its group {shown(example.group)} is also in {home} ({first}), so the model would "
                    "be trained on test material. Move the whole group to one file"
                )
            splits[split].append(example)
    return splits


def notes_on_rows(files: Mapping[Split, LabelledRows]) -> list[str]:
    """Return notes on rejected rows, on those that are intended to be left out, and on rows without a label."""
    notes = []
    for file in files.values():
        name, rows = file.source.name, file.read.rows
        if faulty := faulty_rows(file.read.rejected):
            first = f"{faulty[0].place}: {faulty[0].reason}"
            notes.append(f"{name}: {len(faulty):,} of {rows:,} rows were rejected; the first is {first}.")
        if unaccepted := sum(row.reason == UNACCEPTED for row in file.read.rejected):
            notes.append(f"{name}: {unaccepted:,} of {rows:,} rows are not read: {UNACCEPTED}.")
        if impossible := len(file.read.rejected) - len(faulty) - unaccepted:
            notes.append(
                f"{name}: {impossible:,} of {rows:,} questions have no answer in their context (is_impossible). "
                "They are not used, because no model here predicts missing answers."
            )
        if bare := sum(label == () for label in file.labels):
            notes.append(f"{name}: {bare:,} rows have no label.")
    return notes
