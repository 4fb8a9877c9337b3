"""A user's own labelled files, columns told by name: read, checked, and split where dev or test is missing.

Everything that can be wrong with them is said here, before anything trains: what concerns a row is a counted rejection,
what concerns a file or the labels is one ValueError with file, line, value and the way out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acclimate.core.types import SPLITS, Example, Label, Rejected, Split
from acclimate.tasks.labelled import Labelled, Own, check_apart, check_stated, metric_of, told_of_rejected
from acclimate.tasks.labels import (
    check_seen,
    check_separator,
    check_train,
    kind_of,
    label_from,
    one_spelling,
    respelt,
    told_of_numbers,
    told_of_singles,
)
from acclimate.tasks.mentions import holds_mentions, mention_rows
from acclimate.tasks.prepared import check_unprepared
from acclimate.tasks.question_files import holds_questions, read_questions
from acclimate.tasks.readers import FileRead, Row, check_accepted, read_rows
from acclimate.tasks.splitting import split_off
from acclimate.tasks.tables import stem
from acclimate.tasks.tagged import apart, tagged_rows, tags_metric, told_of_tags
from acclimate.tasks.tags import parts_of
from acclimate.tasks.task import Kind, Metric, classes_in
from acclimate.text.packed import LIMITS, Limits, named
from acclimate.text.recognise import printable, shown

__all__ = ["Labelled", "Own", "read_own"]


@dataclass(frozen=True)
class _File:
    """A file's accepted rows with their labels, and what became of all of them."""

    path: Path
    rows: Sequence[Row]
    labels: Sequence[Label]
    read: FileRead

    def placed(self) -> list[tuple[str, Label]]:
        return [(row.place, label) for row, label in zip(self.rows, self.labels, strict=True)]


def read_own(stated: Own, *, limits: Limits = LIMITS) -> Labelled:
    """Read, check and, where dev or test is missing, split the user's files.

    Raises ValueError for whatever is wrong with a file as a whole, with its labels, or with what is stated.
    """
    paths = stated.paths
    for path in paths.values():
        check_unprepared(path)
    asked = stated.kind in {"auto", "span"} and holds_questions(stated.train)
    check_stated(stated, "span" if asked else stated.kind)
    if asked or stated.kind == "span":
        return read_questions(stated)
    reading = tagged_rows if stated.kind == "tokens" else read_rows
    raw: dict[Split, list[Row | Rejected]] = {}
    told: list[str] = []
    for split, path in paths.items():
        if stated.kind == "tokens" and holds_mentions(path):
            raw[split], told_of_file = mention_rows(path)
            told += told_of_file
        else:
            raw[split] = list(reading(path, stated.columns, limits=limits))
    values = [row.label for row in raw["train"] if isinstance(row, Row)]
    column = f"{named(paths['train'])}: the column {stated.label!r}"
    kind = kind_of(values, stated=stated.kind, separator=stated.separator, where=column)
    if kind == "tokens":
        return _read_tagged(stated, paths, raw, told)
    metric = metric_of(stated.metric, kind)
    check_separator(values, kind, separator=stated.separator, where=column)
    files = {split: _labelled(paths[split], rows, kind, stated) for split, rows in raw.items()}
    spelling = one_spelling([file.placed() for file in files.values()], fold=stated.fold_labels)
    files = {
        split: replace(file, labels=[respelt(label, spelling, kind) for label in file.labels])
        for split, file in files.items()
    }
    train = files["train"].placed()
    notes = [*_notes_on_rows(files), *_note_on_spelling(spelling)]
    notes += told_of_numbers(train, stated=stated.kind, where=column) if kind == "sequence" else []
    check_train(train, kind, where=column)
    for split in ("dev", "test"):
        if split in files:
            check_seen(train, files[split].placed(), where=named(paths["train"]))
    missing = tuple(split for split in SPLITS if split not in paths)
    notes += told_of_singles(train, missing)
    return _labelled_task(stated, files, kind, metric, notes)


def _read_tagged(
    stated: Own, paths: Mapping[Split, Path], raw: Mapping[Split, Sequence[Row | Rejected]], notes: list[str]
) -> Labelled:
    """The same for a tag a word: no class need stand on both sides of a split, and documents stay whole."""
    files = {}
    for split, rows in raw.items():
        own, told = apart(paths[split], rows, split, divided=split == "train" and len(paths) < len(SPLITS))
        files[split] = _labelled(paths[split], own, "tokens", stated)
        notes += told
    spelling = one_spelling([file.placed() for file in files.values()], fold=stated.fold_labels, of="words")
    files = {
        split: replace(file, labels=[respelt(label, spelling, "tokens") for label in file.labels])
        for split, file in files.items()
    }
    where, train = named(paths["train"]), files["train"].placed()
    check_train(train, "tokens", where=where)
    for split in ("dev", "test"):
        if split in files:
            # of joint tags, what each is joined of: words with a set that train never shows are scored, not learnt
            check_seen(_taken_apart(train), _taken_apart(files[split].placed()), where=where, of="words")
    metric = tags_metric(stated.metric, {tag for _, label in train for tag in classes_in(label)}, where=where)
    notes = [*_notes_on_rows(files), *notes, *_note_on_spelling(spelling)]
    notes += told_of_tags(files["train"].labels, metric, where=where)
    return _labelled_task(stated, files, "tokens", metric, notes)


def _labelled_task(stated: Own, files: Mapping[Split, _File], kind: Kind, metric: Metric, notes: list[str]) -> Labelled:
    """The files' examples, split where dev or test is missing, and the labels of all of train's."""
    splits = _examples(files)
    missing = tuple(split for split in SPLITS if split not in files)
    train = files["train"]
    labels = sorted({name for file in files.values() for label in file.labels for name in classes_in(label)})
    if missing:
        made, note = split_off(splits["train"], missing, kind=kind, seed=stated.seed, where=named(train.path))
        splits |= made
        notes.append(note)
    return Labelled(
        name=printable(train.path.name.split(".")[0]),
        kind=kind,
        labels=tuple(labels),
        metric=metric,
        max_tokens=stated.max_tokens,
        splits={split: tuple(splits[split]) for split in SPLITS},
        files=tuple(file.read for file in files.values()),
        notes=tuple(notes),
        untaught=tuple(name for name in labels if kind == "tokens" and len(parts_of(name)) > 1),
    )


def _taken_apart(labels: Sequence[tuple[str, Label]]) -> list[tuple[str, Label]]:
    """The tags of each row, joint ones in their parts."""
    return [(place, tuple(part for tag in classes_in(label) for part in parts_of(tag))) for place, label in labels]


def _labelled(path: Path, rows: Sequence[Row | Rejected], kind: Kind, stated: Own) -> _File:
    """The rows that bear a label of the kind; raises ValueError where too few do."""
    accepted: list[Row] = []
    labels: list[Label] = []
    rejected: list[Rejected] = []
    for row in rows:
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        label, reason = label_from(row.label, kind, column=stated.label, separator=stated.separator)
        if label is None:
            rejected.append(Rejected(row.place, reason))
        else:
            accepted.append(row)
            labels.append(label)
    read = FileRead(path, len(rows), len(accepted), tuple(rejected))
    check_accepted(read)
    return _File(path, accepted, labels, read)


def _examples(files: Mapping[Split, _File]) -> dict[Split, list[Example]]:
    """The examples of each file, ids unique over all of them, no group in two files."""
    stems = Counter(stem(file.path) for file in files.values())
    placed: dict[Split, list[tuple[str, Example]]] = {}
    for split, file in files.items():
        name = stem(file.path) if stems[stem(file.path)] == 1 else f"{split}/{stem(file.path)}"
        placed[split] = [
            (row.place, Example(row.id or f"{name}:{row.number}", row.text, label, row.pair, row.group))
            for row, label in zip(file.rows, file.labels, strict=True)
        ]
    check_apart(placed, or_else=", or name no id column")
    return {split: [example for _, example in rows] for split, rows in placed.items()}


def _notes_on_rows(files: Mapping[Split, _File]) -> list[str]:
    notes = []
    for file in files.values():
        notes += told_of_rejected(file.read)
        if bare := sum(label == () for label in file.labels):
            notes.append(f"{named(file.path)}: {bare:,} rows bear no label.")
    return notes


def _note_on_spelling(spelling: Mapping[str, str]) -> list[str]:
    folded = [f"{shown(name)} as {shown(kept)}" for name, kept in sorted(spelling.items()) if name != kept]
    listed = ", ".join(folded[:10]) + (", ..." if len(folded) > 10 else "")
    return [f"Labels that differ by case or spaces only were read as one: {listed}."] if folded else []
