"""A user's labelled files as a task: read by column names, checked, and split if dev or test is missing.

All faults are found here, before anything trains. A faulty row is rejected and counted. A fault of a file or of its
labels raises one ValueError with file, line, value and the way out.

Questions with answers in a context come in files of SQuAD's form (reading/formats/squad.py, `read_questions`):

Readings
  SQuAD 2.0's questions without an answer (`is_impossible`) are left out and counted, since no model here can answer
  "none".
  BioASQ's factoid questions in this form are pairs: rows with the same question and ids `<question>_<number>`. They are
  trained on as pairs; dev and test score a question with all its contexts (`join_questions`), as BioASQ does.
  If we split, a context stays on one side, and so does an article if there are FEWEST_ARTICLES titles or more.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from acclimate.core.door import is_python, option
from acclimate.core.figures import listed
from acclimate.core.names import meant, shown
from acclimate.core.types import SPLITS, Example, Label, Rejected, Split
from acclimate.reading.formats.squad import IMPOSSIBLE, join_questions, placed_questions, question_key
from acclimate.reading.labels import (
    Stated,
    check_seen,
    check_separator,
    check_train,
    label_from,
    notes_on_numbers,
    notes_on_singles,
    one_spelling,
    respelt,
    task_kind,
)
from acclimate.reading.mentions import holds_mentions, mention_rows
from acclimate.reading.splitting import split_off
from acclimate.reading.tables import (
    ColumnError,
    Columns,
    FileRead,
    Row,
    check_accepted,
    header_of,
    holds_questions,
    read_rows,
    stem,
    table_rows,
)
from acclimate.reading.tagged import holds_tags, notes_on_tags, split_documents, tagged_rows, tags_metric
from acclimate.tasks.metrics import default_metric, fitting, metric_named
from acclimate.tasks.prepared import check_unprepared
from acclimate.tasks.tags import joined_tags
from acclimate.tasks.task import Kind, Metric, Task, classes_in, sampled
from acclimate.text.untrusted import LIMITS, ReadLimits, check_file, named, printable, record_of

FEWEST_TOKENS = 8
FEWEST_ARTICLES = 20  # with fewer, the sizes of the splits would be far off
PEEKED = 200  # rows in which another column of texts is looked for
SENTENCE = 3  # words at least of a text in it
LOOKED_AT = 10_000  # rows that `check_labelled_files` reads; only JSON can have a column that first occurs later
FORM = (
    'Questions need {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers": '
    '[{"text": ..., "answer_start": ...}]}]}]}]}. Rows of another kind: one object a line (jq -c \'.[]\' OLD > '
    "NEW.jsonl); BioC's documents: "
)


@dataclass(frozen=True)
class LabelledFiles:
    """A user's labelled files. `text`, `label`, `pair`, `group` and `id` name columns."""

    train: Path  # labelled file to train on
    dev: Path | None = None  # labelled file to choose on; none: split off train
    test: Path | None = None  # labelled file to score on, once; none: split off train
    text: str = "text"  # column of the text
    label: str = "label"  # column of the label
    pair: str | None = None  # column of a second text
    group: str | None = None  # column of groups, such as authors: rows of one group stay on one side of a split
    id: str | None = None  # column of the rows' ids
    kind: Stated = "auto"
    """What a label is: one of a few classes (sequence), several of them (multilabel), a number (score), a tag for each
    word (tokens), an answer in the text (span). "auto": by the label column, or "span" for a file of questions in
    SQuAD's form."""
    separator: str = ""
    """What separates several labels in one field; "": a field has one label. Lists in JSON and Parquet need none."""
    fold_labels: bool = False  # treat labels that differ only by case or spaces as one
    repair: bool = False
    """Mend what can be mended without a doubt, and count it: answers that stand elsewhere in their context or have
    spaces at their ends, characters without a meaning, rows that are there twice with one id, labels that differ by
    case or spaces."""
    metric: str = ""  # name of the metric; "": the default of the kind
    max_tokens: int = 256  # longest example in tokens; longer ones are cut off
    seed: int = 0  # seed of the split, where dev or test is missing

    @property
    def columns(self) -> Columns:
        return Columns(self.text, self.label, self.pair, self.group, self.id)

    @property
    def paths(self) -> dict[Split, Path]:
        """Path of each split that has a file, train first."""
        paths: dict[Split, Path | None] = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: Path(path) for split, path in paths.items() if path is not None}


@dataclass(frozen=True)
class Labelled:
    """What was read: the examples of each split, the accepted and rejected rows of each file, and notes for the user.

    cautions          notes without which a score would mislead
    divided           the splits that were split off train, because no file was given for them
    source, untaught  as in tasks.task.Task; "" as the source means the files
    articles          id of a question -> title of its article, as the files state it; of other rows nothing
    columns           those that were read
    separator         what separates the labels of a field; "": nothing
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    splits: Mapping[Split, tuple[Example, ...]]
    files: tuple[FileRead, ...]
    notes: tuple[str, ...]
    cautions: tuple[str, ...] = ()
    divided: tuple[Split, ...] = ()
    source: str = ""
    untaught: tuple[str, ...] = ()
    articles: Mapping[str, str] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    separator: str = ""

    def task(self) -> Task:
        """Return the task with these examples, for tasks.prepared.prepare; it reads no files."""
        source = self.source or ", ".join(_origin(read.path) for read in self.files)
        read = partial(split_of, dict(self.splits))
        options: dict[str, Any] = {"source": source, "untaught": self.untaught}
        return Task(self.name, self.kind, read, self.labels, self.metric, self.max_tokens, **options)


def _origin(path: Path) -> str:
    """Return the path, or what the file was made of (data/as_files.py), with the commit of a dataset of the hub."""
    commit = record_of(path).get("commit", "")
    return f"{named(path)} (commit {commit[:12]})" if commit else named(path)


def read_files(labelled: LabelledFiles, *, limits: ReadLimits = LIMITS) -> Labelled:
    """Read and check the user's files, and split off dev and test where they are missing.

    Raises ValueError for a fault of a file as a whole, of its labels, or of what is stated.
    """
    read = _read_files(labelled, limits)
    on_source = [note for path in labelled.paths.values() for note in record_of(path).get("notes", ())]
    return replace(read, notes=(*on_source, *read.notes))


def _read_files(labelled: LabelledFiles, limits: ReadLimits) -> Labelled:
    paths = labelled.paths
    file_kind = _check_paths(labelled)
    if file_kind == "span":
        return read_questions(labelled)
    raw: dict[Split, list[Row | Rejected]] = {}
    notes: list[str] = []
    if file_kind != labelled.kind:
        labelled = replace(labelled, kind=file_kind)
        notes.append(
            f"{printable(labelled.train.name)} has a word and its tag a line, so it is read as "
            f"{option('kind', file_kind)}."
        )
    for split, path in paths.items():
        if labelled.kind == "tokens" and holds_mentions(path):
            raw[split], notes_on_file = mention_rows(path)
            notes += notes_on_file
        elif labelled.kind == "tokens":
            raw[split] = list(tagged_rows(path, labelled.columns, limits=limits))
        else:
            mended = Counter[str]() if labelled.repair else None
            raw[split] = list(read_rows(path, labelled.columns, limits=limits, mended=mended))
            notes += _notes_on_mended(path, mended)
    values = [row.label for row in raw["train"] if isinstance(row, Row)]
    column = f"{named(paths['train'])}: the column {labelled.label!r}"
    kind = task_kind(values, kind=labelled.kind, separator=labelled.separator, where=column)
    if kind == "tokens":
        return _read_tagged(labelled, paths, raw, notes)
    metric = metric_of(labelled.metric, kind)
    check_separator(values, kind, separator=labelled.separator, where=column)
    files = {split: _labelled(paths[split], rows, kind, labelled) for split, rows in raw.items()}
    spelling = one_spelling([file.placed() for file in files.values()], fold=labelled.fold_labels or labelled.repair)
    files = {
        split: replace(file, labels=[respelt(label, spelling, kind) for label in file.labels])
        for split, file in files.items()
    }
    train = files["train"].placed()
    notes = [*_notes_on_rows(files), *notes, *_note_on_spelling(spelling)]
    notes += _note_on_second_text(labelled)
    notes += notes_on_numbers(train, kind=labelled.kind, where=column) if kind == "sequence" else []
    check_train(train, kind, where=column)
    for split in ("dev", "test"):
        if split in files:
            check_seen(train, files[split].placed(), where=named(paths["train"]))
    missing = tuple(split for split in SPLITS if split not in paths)
    notes += notes_on_singles(train, missing)
    return _labelled_task(labelled, files, kind, metric, notes)


def check_labelled_files(labelled: LabelledFiles) -> None:
    """Raise ValueError, as `read_files` does, for a file that is missing, is not a table, or lacks a column.

    Reads only the first rows, and imports nothing heavy.
    """
    if _check_paths(labelled) not in {"span", "tokens"}:
        for path in labelled.paths.values():
            for _ in islice(read_rows(path, labelled.columns), LOOKED_AT):
                pass


def with_way_out(error: ColumnError, path: str) -> ColumnError:
    """Return the error with how a setting `datasets` states the columns of a file that it names by its path alone."""
    table = f'{{train="{path}", text="...", label="..."}}'
    return ColumnError(f"{error.what}. In a list of files columns are stated as {table} in place of the name")


def _check_paths(labelled: LabelledFiles) -> Stated:
    """Return the kind of `labelled`, or "span" or "tokens" if train shows it, after checks that need no reading."""
    for path in labelled.paths.values():
        check_unprepared(path)
    kind: Stated = labelled.kind
    if kind == "auto" and holds_questions(labelled.train):
        kind = "span"
    elif kind == "auto" and not _column_option(labelled) and holds_tags(labelled.train):
        kind = "tokens"
    check_stated(labelled, kind)
    return kind


def check_stated(labelled: LabelledFiles, kind: Stated) -> None:
    """Raise ValueError for faults that show before any file is read. kind: as stated or by the ending."""
    if labelled.max_tokens < FEWEST_TOKENS:
        raise ValueError(f"max_tokens={labelled.max_tokens}: too short for a text. Give at least {FEWEST_TOKENS}")
    if kind not in get_args(Stated):
        raise ValueError(
            f"kind={kind!r}: no kind of labels{meant(kind, get_args(Stated))}. State one: sequence (a text has one "
            f"label), multilabel (several), score (a number), tokens (a word has a tag) or span (an answer in the text)"
        )
    roles: dict[str, str] = {}
    for role, column in labelled.columns.stated().items():
        earlier_role = roles.setdefault(column, role)
        if earlier_role != role and {earlier_role, role} != {"group", "id"}:
            raise ValueError(f"{role}={column!r}: the same column as {earlier_role}. Name two columns")
    if kind == "tokens" and (labelled.pair or labelled.separator):
        setting = f"pair={labelled.pair!r}" if labelled.pair else f"separator={labelled.separator!r}"
        raise ValueError(f"{setting}: a task of kind 'tokens' has lists of words and tags. Leave it out")
    if kind == "span" and (setting := _column_option(labelled)):
        raise ValueError(
            f"{setting}: {named(labelled.train)} is read as questions in SQuAD's form, which have no columns. "
            f"Leave it out"
        )
    if labelled.separator and kind in {"sequence", "score"}:
        raise ValueError(
            f"separator={labelled.separator!r}: stands between several labels, but kind={kind!r} has one a row. "
            f"Leave the separator out, or state kind='multilabel'"
        )
    if labelled.metric:
        metric_named(labelled.metric)
    places: dict[Path, Split] = {}
    for split, path in labelled.paths.items():
        if not (kind == "tokens" and path.is_dir()):
            check_file(path)
        other_split = places.setdefault(Path(os.path.realpath(path)), split)
        if other_split != split:
            raise ValueError(
                f"{named(path)}: given for {other_split} and for {split}. Leave {option(split)} out: we then split"
            )


def _column_option(labelled: LabelledFiles) -> str:
    """Return the first stated option that only applies to files with columns, such as "text='body'"; "" if none is."""
    usual = LabelledFiles(train=labelled.train)
    names = ("text", "label", "pair", "group", "id", "separator", "fold_labels")
    return next(
        (f"{name}={value!r}" for name in names if (value := getattr(labelled, name)) != getattr(usual, name)), ""
    )


def metric_of(name: str, kind: Kind) -> Metric:
    """Return the metric of this name; "" is the default of the kind. Raises ValueError if it does not fit the kind."""
    if not name:
        return metric_named(default_metric(kind))
    metric = metric_named(name)
    if kind not in metric.kinds:
        raise ValueError(
            f"metric={name!r}: judges {' and '.join(metric.kinds)}, but the labels make this a task of kind {kind!r}. "
            f"Give one of {', '.join(fitting(kind))}, leave it out (then {default_metric(kind)}), or state another kind"
        )
    return metric


@dataclass(frozen=True)
class _File:
    """A file's accepted rows with their labels, and its counts."""

    path: Path
    rows: Sequence[Row]
    labels: Sequence[Label]
    read: FileRead

    def placed(self) -> list[tuple[str, Label]]:
        return [(row.place, label) for row, label in zip(self.rows, self.labels, strict=True)]


def _labelled(path: Path, rows: Sequence[Row | Rejected], kind: Kind, labelled: LabelledFiles) -> _File:
    """Return the rows that have a label of the kind. Raises ValueError if too few have."""
    accepted: list[Row] = []
    labels: list[Label] = []
    rejected: list[Rejected] = []
    for row in rows:
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        label, reason = label_from(row.label, kind, column=labelled.label, separator=labelled.separator)
        if label is None:
            rejected.append(Rejected(row.place, reason))
        else:
            accepted.append(row)
            labels.append(label)
    read = FileRead(path, len(rows), len(accepted), tuple(rejected))
    check_accepted(read)
    return _File(path, accepted, labels, read)


def _read_tagged(
    labelled: LabelledFiles,
    paths: Mapping[Split, Path],
    raw: Mapping[Split, Sequence[Row | Rejected]],
    notes: list[str],
) -> Labelled:
    """Return what `read_files` returns for a tag a word: a split may lack a tag, and documents stay whole."""
    files = {}
    for split, rows in raw.items():
        examples, on_documents = split_documents(
            paths[split], rows, split, divided=split == "train" and len(paths) < len(SPLITS)
        )
        files[split] = _labelled(paths[split], examples, "tokens", labelled)
        notes += on_documents
    spelling = one_spelling(
        [file.placed() for file in files.values()], fold=labelled.fold_labels or labelled.repair, of="words"
    )
    files = {
        split: replace(file, labels=[respelt(label, spelling, "tokens") for label in file.labels])
        for split, file in files.items()
    }
    where, train = named(paths["train"]), files["train"].placed()
    check_train(train, "tokens", where=where)
    for split in ("dev", "test"):
        if split in files:
            # joint tags count by their parts: a combination that train lacks is scored though it cannot be learnt
            check_seen(_taken_apart(train), _taken_apart(files[split].placed()), where=where, of="words")
    metric = tags_metric(labelled.metric, {tag for _, label in train for tag in classes_in(label)}, where=where)
    notes = [*_notes_on_rows(files), *notes, *_note_on_spelling(spelling)]
    notes += notes_on_tags(files["train"].labels, metric, where=where)
    return _labelled_task(labelled, files, "tokens", metric, notes)


def _taken_apart(labels: Sequence[tuple[str, Label]]) -> list[tuple[str, Label]]:
    """Return the tags of each row, with joint tags split into their parts."""
    return [(place, tuple(part for tag in classes_in(label) for part in joined_tags(tag))) for place, label in labels]


def _labelled_task(
    labelled: LabelledFiles, files: Mapping[Split, _File], kind: Kind, metric: Metric, notes: list[str]
) -> Labelled:
    """Return the files' examples with their labels, after splitting off dev or test where it is missing."""
    splits = _examples(files)
    missing = tuple(split for split in SPLITS if split not in files)
    train = files["train"]
    labels = sorted({name for file in files.values() for label in file.labels for name in classes_in(label)})
    if missing:
        parts, note = split_off(splits["train"], missing, kind=kind, seed=labelled.seed, where=named(train.path))
        splits |= parts
        notes.append(note)
    return Labelled(
        name=printable(train.path.name.split(".")[0]),
        kind=kind,
        labels=tuple(labels),
        metric=metric,
        max_tokens=labelled.max_tokens,
        splits={split: tuple(splits[split]) for split in SPLITS},
        files=tuple(file.read for file in files.values()),
        notes=tuple(notes),
        divided=missing,
        untaught=tuple(name for name in labels if kind == "tokens" and len(joined_tags(name)) > 1),
        columns=labelled.columns,
        separator=labelled.separator,
    )


def _examples(files: Mapping[Split, _File]) -> dict[Split, list[Example]]:
    """Return the examples of each file. Ids are unique over all files, and no group is in two of them."""
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


def check_apart(files: Mapping[Split, Iterable[tuple[str, Example]]], *, or_else: str = "") -> None:
    """Raise ValueError if an id occurs twice or a group is in two files. files: each example with its place.

    or_else  another way out for an id that occurs twice, such as ", or name no id column"
    """
    place_of_id: dict[str, str] = {}
    home_of_group: dict[str, tuple[Split, str]] = {}
    for split, rows in files.items():
        for place, example in rows:
            if example.id in place_of_id:
                raise ValueError(
                    f"{place}: the id {shown(example.id)} already stands at {place_of_id[example.id]}. Each row "
                    f"needs another id: correct it{',' if or_else else ' or'} take the copy out{or_else}"
                )
            place_of_id[example.id] = place
            home, first = home_of_group.setdefault(example.group, (split, place))
            if example.group and home != split:
                raise ValueError(
                    f"{place}: its group {shown(example.group)} also stands in {home} ({first}), which would let the "
                    f"model see what it is tested on. Move the whole group to one file"
                )


def split_of(splits: Mapping[Split, tuple[Example, ...]], path: Path, split: Split) -> list[Example]:
    """Return the examples of the split: what `Task.read` does with examples that have been read."""
    return list(splits[split])


def _note_on_second_text(labelled: LabelledFiles) -> list[str]:
    """Return a note if the training file has another column with texts as long as sentences, and no pair was stated."""
    if labelled.pair:
        return []
    read = labelled.columns.stated()
    distinct: dict[str, set[str]] = {}
    columns = list(dict.fromkeys([*read.values(), *header_of(labelled.train, list(read.values()), LIMITS)]))
    rows = list(islice(table_rows(labelled.train, columns, LIMITS), PEEKED))
    for _, values in rows:
        if isinstance(values, str):
            continue
        for name, value in values.items():
            if name not in read.values() and isinstance(value, str) and len(value.split()) >= SENTENCE:
                distinct.setdefault(name, set()).add(value)
    texts = [name for name, different in distinct.items() if len(different) > len(rows) / 2]
    if not texts:
        return []
    which = f"{'columns' if len(texts) > 1 else 'column'} {listed([repr(name) for name in texts])}"
    holds = "hold texts and are" if len(texts) > 1 else "holds texts and is"
    return [
        f"{named(labelled.train)}: the {which} {holds} not read. If a row has two texts, state the second with "
        f"{option('pair')}."
    ]


def _notes_on_rows(files: Mapping[Split, _File]) -> list[str]:
    notes = []
    for file in files.values():
        notes += notes_on_rejected(file.read)
        if bare := sum(label == () for label in file.labels):
            notes.append(f"{named(file.path)}: {bare:,} rows bear no label.")
    return notes


def notes_on_rejected(read: FileRead) -> list[str]:
    """Return a note on the rejected rows, or no note."""
    if not read.rejected:
        return []
    first = read.rejected[0]
    return [
        f"{named(read.path)}: {len(read.rejected):,} of {read.rows:,} rows were rejected; the first is {first.place}: "
        f"{first.reason}."
    ]


def _notes_on_mended(path: Path, mended: Counter[str] | None) -> list[str]:
    switch = "repair=True" if is_python() else option("repair")
    return [f"{named(path)}: {what}: {count:,} ({switch})." for what, count in (mended or {}).items() if count]


def _note_on_spelling(spelling: Mapping[str, str]) -> list[str]:
    folded = [f"{shown(name)} as {shown(label)}" for name, label in sorted(spelling.items()) if name != label]
    listed = ", ".join(folded[:10]) + (", ..." if len(folded) > 10 else "")
    return [f"Labels that differ by case or spaces only were read as one: {listed}."] if folded else []


def fewer(labelled: Labelled, rows: int, seed: int) -> Labelled:
    """Return the task with `rows` sampled training rows, which have every class (answers are not classes)."""
    train = labelled.splits["train"]
    if not rows or rows >= len(train):
        return labelled
    bare = [replace(row, label=()) for row in train] if labelled.kind == "span" else train
    ids = {row.id for row in sampled(bare, rows, seed)}
    chosen = tuple(row for row in train if row.id in ids)
    note = f"{len(chosen):,} of the {len(train):,} rows of train were sampled, seed {seed}."
    return replace(labelled, splits={**labelled.splits, "train": chosen}, notes=(*labelled.notes, note))


def name_of(task: str | LabelledFiles) -> str:
    """Return the name of a dataset, or the training file as it was given."""
    return str(task.train) if isinstance(task, LabelledFiles) else task


def read_questions(labelled: LabelledFiles) -> Labelled:
    """Read and check the user's questions, and split off dev and test where they are missing.

    Raises ValueError for a fault of a file as a whole or of what is stated.
    """
    metric = metric_of(labelled.metric, "span")
    files = {split: _read(path, repair=labelled.repair) for split, path in labelled.paths.items()}
    notes = [note for file in files.values() for note in file.notes]
    pairs = _pairs(files.values())
    # an article may be in two files; a question may not
    check_apart({split: _grouped(file.rows, pairs) for split, file in files.items()})
    rows = {split: file.examples for split, file in files.items()}
    if missing := tuple(split for split in SPLITS if split not in files):
        whole = [row for _, row in _grouped(files["train"].rows, pairs, articles=True)]
        parts, note = split_off(whole, missing, kind="span", seed=labelled.seed, where=named(labelled.train))
        rows |= parts
        notes.append(note)
    splits = {split: _scored(rows[split], pairs, split) for split in SPLITS}
    if pairs:
        counts = " and ".join(f"{len(splits[split]):,} in {split}" for split in SPLITS if split != "train")
        notes.append(
            f"Rows that ask the same, with ids <question>_<number>, are one question with several contexts, as BioASQ "
            f"has them: learnt one by one, and scored together ({counts})."
        )
    return Labelled(
        name=printable(labelled.train.name.split(".")[0]),
        kind="span",
        labels=(),
        metric=metric,
        max_tokens=labelled.max_tokens,
        splits={split: tuple(splits[split]) for split in SPLITS},
        files=tuple(file.read for file in files.values()),
        notes=tuple(notes),
        divided=missing,
        articles={row.id: row.group for file in files.values() for row in file.examples},
    )


@dataclass(frozen=True)
class _QuestionFile:
    """A file's questions, each with its place and with its article as the group; the file's counts and notes."""

    rows: Sequence[tuple[str, Example]]
    read: FileRead
    notes: tuple[str, ...]

    @property
    def examples(self) -> list[Example]:
        return [example for _, example in self.rows]


def _read(path: Path, *, repair: bool) -> _QuestionFile:
    """Return the file's usable questions. Raises ValueError if there are too few."""
    mended = Counter[str]() if repair else None
    rows: list[tuple[str, Example]] = []
    rejected: list[Rejected] = []
    form = FORM + option("kind", "tokens")
    for place, row in placed_questions(path, way_out=form, mended=mended):
        if isinstance(row, Rejected):
            rejected.append(row)
        else:
            rows.append((place, row))
    faulty = [row for row in rejected if row.reason != IMPOSSIBLE]
    impossible = len(rejected) - len(faulty)
    if not rows and not rejected:
        raise ValueError(f"{named(path)}: has no question. {form}")
    read = FileRead(path, len(rows) + len(rejected), len(rows), tuple(rejected))
    # questions without an answer are intended in SQuAD 2.0, and no sign of a misread file
    check_accepted(FileRead(path, len(rows) + len(faulty), len(rows), tuple(faulty)) if rows or faulty else read)
    notes = [*notes_on_rejected(replace(read, rejected=tuple(faulty))), *_notes_on_mended(path, mended)]
    if impossible:
        notes.append(
            f"{named(path)}: {impossible:,} of {read.rows:,} questions have no answer in their context "
            f"(is_impossible); they are left out, for no model here answers that there is none."
        )
    return _QuestionFile(rows, read, tuple(notes))


def _pairs(files: Iterable[_QuestionFile]) -> frozenset[str]:
    """Return the questions that several rows ask, as the beginnings of the rows' ids."""
    second_texts: dict[str, list[str | None]] = {}
    for row in (row for file in files for row in file.examples if _numbered(row.id)):
        second_texts.setdefault(question_key("", row.id), []).append(row.pair)
    return frozenset(question for question, rows in second_texts.items() if len(rows) > 1 and len(set(rows)) == 1)


def _numbered(id: str) -> bool:
    question, _, number = id.rpartition("_")
    return bool(question) and number.isdecimal()


def _grouped(
    rows: Sequence[tuple[str, Example]], pairs: frozenset[str], *, articles: bool = False
) -> list[tuple[str, Example]]:
    """Return the rows with a group: their question if they are pairs, else, with `articles`, their article."""
    titles = {row.group for _, row in rows} - {""}
    whole_articles = articles and len(titles) >= FEWEST_ARTICLES
    return [
        (place, replace(row, group=_question(row, pairs) or (row.group if whole_articles else "")))
        for place, row in rows
    ]


def _question(row: Example, pairs: frozenset[str]) -> str:
    question = question_key("", row.id)
    return question if question in pairs and _numbered(row.id) else ""


def _scored(examples: Sequence[Example], pairs: frozenset[str], split: Split) -> list[Example]:
    """Return the examples of a split: unchanged in train, with pairs merged into questions elsewhere."""
    grouped = [replace(row, group=_question(row, pairs)) for row in examples]
    if split == "train":
        return grouped
    merged = iter(join_questions(row for row in grouped if row.group))
    groups: set[str] = set()
    scored = []
    for row in grouped:
        if not row.group:
            scored.append(row)
        elif row.group not in groups:
            groups.add(row.group)
            scored.append(next(merged))
    return scored
