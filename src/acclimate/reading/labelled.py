"""A user's labelled files as a task: read by column names, checked, and split if dev or test is missing.

All faults are found here, before anything trains. A faulty row is rejected and counted. A fault of a file or of its
labels raises one ValueError with file, line, value and the way out.

Each file is opened once (reading/source.py), and one reader returns its rows: `_rows` chooses it.

Questions with answers in a context come in files of SQuAD's form (reading/formats/squad.py):

Readings
  SQuAD 2.0's questions without an answer (`is_impossible`) are left out and counted, since no model here can answer
  "none".
  BioASQ's factoid questions in this form are pairs: rows with the same question and ids `<question>_<number>`. They are
  trained on as pairs; dev and test score a question with all its contexts (`join_questions`), as BioASQ does.
  If we split, a context stays on one side, and so does an article if there are FEWEST_ARTICLES titles or more.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from acclimate.core.door import is_python, option
from acclimate.core.figures import listed
from acclimate.core.names import meant, shown
from acclimate.core.types import SPLITS, Example, Label, Rejected, Split
from acclimate.reading.formats.beir import check_collection, is_collection, read_collection
from acclimate.reading.formats.squad import IMPOSSIBLE, join_questions, question_rows, table_questions
from acclimate.reading.labels import (
    Stated,
    check_seen,
    check_separator,
    check_train,
    label_from,
    named_labels,
    notes_on_names,
    notes_on_numbers,
    notes_on_singles,
    one_spelling,
    plain_label,
    plain_labels,
    respelt,
    task_kind,
)
from acclimate.reading.mentions import has_spans, mention_rows, span_rows
from acclimate.reading.source import QUESTION_COLUMNS, WORKBOOK, Source, open_source
from acclimate.reading.splitting import BONDS, grouped, split_off
from acclimate.reading.tables import (
    UNACCEPTED,
    ColumnError,
    Columns,
    FileRead,
    Row,
    check_accepted,
    read_rows,
    table_rows,
)
from acclimate.reading.tagged import (
    Fields,
    check_tags,
    fields_of,
    is_tagged_table,
    lists_of_tags,
    notes_on_tags,
    split_documents,
    standard_labels,
    tagged_rows,
    usual_metric,
    words_with_tags,
)
from acclimate.tasks.metrics import metric_for, metric_named
from acclimate.tasks.prepared import check_unprepared
from acclimate.tasks.tags import joined_tags
from acclimate.tasks.task import Kind, Metric, Task, classes_in, sampled
from acclimate.text.untrusted import LIMITS, ReadLimits, printable

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
SHARED = ({"group", "id"}, {"group", "text"}, {"group", "pair"})  # roles that one column may have


@dataclass(frozen=True)
class LabelledFiles:
    """A user's labelled files. `text`, `label`, `pair`, `group` and `id` name columns."""

    train: Path  # labelled file to train on
    dev: Path | None = None  # labelled file for choices; none: split off train
    test: Path | None = None  # labelled file for the final scores; none: split off train
    text: str = "text"  # column of the text
    label: str | tuple[str, ...] = "label"  # column of the label; several: one of 0 and 1 for each label
    labels: tuple[str, ...] = ()  # names of the classes 0, 1, ... or of the places of vectors of 0 and 1
    pair: str | None = None  # column of a second text
    group: str | None = None
    """Column of groups, such as authors: rows of one group stay on one side of a split. "template": rows that differ
    in numbers and names only; "text": pairs that share a text."""
    id: str | None = None  # column of the rows' ids
    kind: Stated = "auto"
    """What a label is: one of a few classes (sequence), several of them (multilabel), a number (score), a tag for each
    word (tokens), an answer in the text (span), the documents that answer a query (search). "auto": by the label
    column, "span" for a file of questions in SQuAD's form, or "search" for a folder in BEIR's format."""
    separator: str = ""
    """What separates several labels in one field; "": a field has one label. Lists in JSON and Parquet need none."""
    fold_labels: bool = False  # treat labels that differ only by case or spaces as one
    repair: bool = False
    """Correct and count clear faults: answers at another position of their context or with spaces at their ends,
    control characters, repeated rows with the same id, labels that differ by case or spaces."""
    metric: str = ""  # name of the metric; "": the default of the kind
    max_tokens: int = 256  # longest example in tokens; longer ones are cut off
    seed: int = 0  # seed of the split if dev or test is missing

    @property
    def columns(self) -> Columns:
        return Columns(self.text, self.label, self.pair, None if self.group in BONDS else self.group, self.id)

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
    source, untaught  as in tasks.task.Task
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
        read = partial(split_of, dict(self.splits))
        options: dict[str, Any] = {"source": self.source, "untaught": self.untaught}
        return Task(self.name, self.kind, read, self.labels, self.metric, self.max_tokens, **options)


def read_files(labelled: LabelledFiles, *, limits: ReadLimits = LIMITS) -> Labelled:
    """Read and check the user's files, and split off dev and test where they are missing.

    Raises ValueError for a fault of a file as a whole, of its labels, or of what is stated.
    """
    if _is_search(labelled):
        return _read_search(labelled, limits)
    labelled, sources, notes = _opened(labelled, limits)
    fields, notes_on_fields = _fields(sources, labelled)
    column = f"{sources['train'].name}: the column {labelled.label!r}"
    read = {split: _rows(source, labelled, fields.get(split)) for split, source in sources.items()}
    tags = labelled.kind == "auto" and not labelled.separator and lists_of_tags(read["train"][0])
    if tags or (
        labelled.kind == "auto"
        and words_with_tags(
            sources["train"], labelled.columns, [row for row in read["train"][0] if isinstance(row, Row)]
        )
    ):
        labelled = replace(labelled, kind="tokens")
        fields, notes_on_fields = _fields(sources, labelled)
        read = {split: _rows(source, labelled, fields.get(split)) for split, source in sources.items()}
        notes += (
            [f"{column} has a list with a tag per word, so it is read as {option('kind', 'tokens')}."] if tags else []
        )
    notes += notes_on_fields
    notes += [note for _, notes_on_file in read.values() for note in notes_on_file]
    rows = {split: file_rows for split, (file_rows, _) in read.items()}
    on_form: list[str] = []
    if labelled.kind not in {"tokens", "span"}:
        rows, on_form = plain_labels(rows, kind=labelled.kind, where=column)
    if labelled.kind == "auto" and has_spans(rows["train"]):
        labelled = replace(labelled, kind="tokens")
        for split, source in sources.items():
            rows[split], on_spans = span_rows(source, rows[split])
            notes += on_spans
    rows, on_names = named_labels(
        rows, sources, labelled.columns, kind=labelled.kind, names=labelled.labels, separator=labelled.separator
    )
    notes_on_labels = [*on_form, *on_names]
    notes += notes_on_labels
    if labelled.group in BONDS and labelled.kind not in {"tokens", "span"}:
        _check_bond(sources["train"], labelled)
    values = [row.label for row in rows["train"] if isinstance(row, Row)]
    kind = task_kind(values, kind=labelled.kind, separator=labelled.separator, where=column)
    if kind == "tokens":
        return _read_tagged(labelled, sources, rows, notes, fields)
    if not notes_on_labels or not any(isinstance(value, list) for value in values):
        check_separator(values, kind, separator=labelled.separator, where=column)
    files = {split: _labelled(sources[split], file_rows, kind, labelled) for split, file_rows in rows.items()}
    if kind == "span":
        return _read_questions(labelled, files, notes)
    files, spelling = _one_spelling(files, kind, labelled)
    files, on_groups = _one_group(files)
    spelling += on_groups
    train = files["train"].placed()
    notes = [*_notes_on_rows(files), *notes, *spelling, *_note_on_second_text(sources["train"], labelled)]
    notes += notes_on_numbers(train, kind=labelled.kind, where=column) if kind == "sequence" else []
    check_train(train, kind, where=column, rejected=files["train"].read.rejected)
    for split in ("dev", "test"):
        if split in files:
            check_seen(train, files[split].placed(), where=sources["train"].name)
    notes += notes_on_names(train, where=sources["train"].name)
    notes += notes_on_singles(train, tuple(split for split in SPLITS if split not in files))
    return _labelled_task(labelled, files, _examples(files, kind), kind=kind, notes=notes)


def check_labelled_files(labelled: LabelledFiles) -> None:
    """Raise ValueError, as `read_files` does, for a file that is missing, is not a table, or lacks a column.

    Reads only the first rows, and imports nothing heavy.
    """
    if _is_search(labelled):
        _check_search(labelled)
        return
    labelled, sources, _ = _opened(labelled, LIMITS)
    if labelled.kind not in {"span", "tokens"}:
        for source in sources.values():
            for _ in islice(read_rows(source, labelled.columns), LOOKED_AT):
                pass


def _is_search(labelled: LabelledFiles) -> bool:
    return labelled.kind == "search" or (labelled.kind == "auto" and is_collection(Path(labelled.train)))


def _check_search(labelled: LabelledFiles) -> None:
    """Raise ValueError for a folder that lacks a file, and for options that only apply to files with columns."""
    folder = Path(labelled.train)
    check_collection(folder)
    file = next((option(split, str(path)) for split, path in labelled.paths.items() if split != "train"), "")
    if setting := file or _column_option(labelled):
        raise ValueError(f"{setting}: {printable(folder.name)} is read in BEIR's format, which defines it. Remove it")
    if labelled.max_tokens < FEWEST_TOKENS:
        raise ValueError(f"max_tokens={labelled.max_tokens}: too short for a text. Set at least {FEWEST_TOKENS}")
    metric_for("search", labelled.metric)


def _read_search(labelled: LabelledFiles, limits: ReadLimits) -> Labelled:
    """Return what `read_files` returns for a folder in BEIR's format."""
    _check_search(labelled)
    folder = Path(labelled.train)
    read = read_collection(folder, seed=labelled.seed, limits=limits)
    return Labelled(
        name=printable(folder.resolve().name),
        kind="search",
        labels=(),
        metric=metric_for("search", labelled.metric),
        max_tokens=labelled.max_tokens,
        splits=read.splits,
        files=read.files,
        notes=read.notes,
        divided=read.divided,
        source=printable(str(folder)),
    )


def with_way_out(error: ColumnError, path: str) -> ColumnError:
    """Return the error with how a setting `datasets` states the columns of a file that it names by its path alone."""
    table = f'{{train="{path}", text="...", label="..."}}'
    return ColumnError(f"{error.what}. In a list of files, name columns as {table} instead of the file name")


def _opened(labelled: LabelledFiles, limits: ReadLimits) -> tuple[LabelledFiles, dict[Split, Source], list[str]]:
    """Return the options with the kind that train shows if none is stated, the opened files, and a note on that kind.

    Raises ValueError for faults that show before any row is read.
    """
    if labelled.metric:
        metric_named(labelled.metric)
    kind = labelled.kind
    sources: dict[Split, Source] = {}
    for split, path in labelled.paths.items():
        check_unprepared(path)
        brat = kind == "auto" and os.path.isdir(path) and any(path.rglob("*.ann"))
        sources[split] = open_source(path, limits=limits, folder=kind == "tokens" or brat)
        if sources[split].ending == ".ann":
            raise ValueError(
                f"{sources[split].name}: has BRAT's annotations, and its text is in another file. Name the folder with "
                f"both, {printable(str(path.parent))}"
            )
    train = sources["train"]
    notes = [note for source in sources.values() for note in source.record.get("notes", ())]
    columns_only = replace(labelled, group=labelled.columns.group)  # a bond is no column
    if kind == "auto" and not train.path.is_dir() and train.holds_questions:
        kind = "span"
    elif kind == "auto" and not train.path.is_dir() and not _column_option(columns_only) and train.has_question_rows:
        kind = "span"
        notes.append(f"{train.file} has questions with answers in a context, so it is read as {option('kind', kind)}.")
    elif kind == "auto" and train.path.is_dir():
        kind = "tokens"
        notes.append(f"{train.file} has BRAT's annotations, so it is read as {option('kind', kind)}.")
    elif kind == "auto" and not _column_option(columns_only, numbered=True) and train.holds_tags:
        kind = "tokens"
        notes.append(f"{train.file} has one word and its tag per line, so it is read as {option('kind', kind)}.")
    _check_options(replace(labelled, kind=kind), sources)
    return replace(labelled, kind=kind), sources, notes


def _fields(sources: Mapping[Split, Source], labelled: LabelledFiles) -> tuple[dict[Split, Fields], list[str]]:
    """Return the places of word and tag in each file of lines, and notes on them; nothing for another kind.

    A file with as many fields as train's has them in the same places, unless only in one the tag is first.
    """
    fields: dict[Split, Fields] = {}
    notes: list[str] = []
    for split, source in sources.items() if labelled.kind == "tokens" else ():
        if source.holds_mentions or is_tagged_table(source, labelled.columns):
            continue
        numbered = split == "train" or "train" in fields  # if train is a table, the columns are its own
        own, notes_on_file = fields_of(source, labelled.columns if numbered else Columns())
        train = fields.get("train", own)
        if (own.width, own.counted, bool(own.tag)) == (train.width, train.counted, bool(train.tag)):
            own = replace(own, word=train.word, tag=train.tag)
        fields[split] = own
        if split == "train" or (own.word, own.tag) != (train.word, train.tag) or own.quoted:
            notes += notes_on_file
    return fields, notes


def _rows(source: Source, labelled: LabelledFiles, fields: Fields | None) -> tuple[list[Row | Rejected], list[str]]:
    """Return the rows of a file by the reader of its kind, and notes on them."""
    if labelled.kind == "tokens":
        if _may_hold_spans(source, labelled.columns):
            on_form: list[str] = []
            plain = [_plain(row) for row in read_rows(source, labelled.columns, notes=on_form)]
            if has_spans(plain):
                rows, on_spans = span_rows(source, plain)
                return rows, [*on_form, *on_spans]
        return mention_rows(source) if source.holds_mentions else tagged_rows(source, labelled.columns, fields)
    mended = Counter[str]() if labelled.repair else None
    notes: list[str] = []
    if labelled.kind == "span":
        way_out = FORM + option("kind", "tokens")
        if source.ending not in (".json", ".zip") and not (source.holds_questions or source.has_question_rows):
            raise ValueError(
                f"{source.name}: has no questions in SQuAD's form, nor rows of JSON Lines or Parquet with the columns "
                f"{', '.join(QUESTION_COLUMNS)}. Convert a table: pandas' to_json(orient='records', lines=True). "
                f"{way_out}"
            )
        questions = None
        if not source.holds_questions and source.has_question_rows:
            questions = table_questions(table_rows(source, QUESTION_COLUMNS, others=True), source.stem)
        rows = list(question_rows(source.path, questions=questions, way_out=way_out, mended=mended))
        if not rows:
            raise ValueError(f"{source.name}: contains no question. {way_out}")
    else:
        rows = list(read_rows(source, labelled.columns, mended=mended, notes=notes))
        if source.ending == WORKBOOK:
            notes = [f"{source.name} is an Excel workbook. It is read as a table."]
    switch = "repair=True" if is_python() else option("repair")
    return rows, [
        *notes,
        *(f"{source.name}: {what}: {count:,} ({switch})." for what, count in (mended or {}).items() if count),
    ]


def _may_hold_spans(source: Source, columns: Columns) -> bool:
    """Return True for a table whose labels may be spans: no documents with mentions, and no lines of words."""
    if source.ending == ".json":
        return not re.search(rb'"(?:passages|documents)"', source.beginning)  # which BioC has
    return not source.holds_mentions and is_tagged_table(source, columns)


def _plain(row: Row | Rejected) -> Row | Rejected:
    return replace(row, label=plain_label(row.label)) if isinstance(row, Row) else row


def _check_options(labelled: LabelledFiles, sources: Mapping[Split, Source]) -> None:
    """Raise ValueError for options that contradict each other or the kind, or name one file twice."""
    kind = labelled.kind
    if labelled.max_tokens < FEWEST_TOKENS:
        raise ValueError(f"max_tokens={labelled.max_tokens}: too short for a text. Set at least {FEWEST_TOKENS}")
    if kind not in get_args(Stated):
        raise ValueError(
            f"kind={kind!r}: unknown kind of labels{meant(kind, get_args(Stated))}. Choose one: sequence (a text "
            "has one label), multilabel (several), score (a number), tokens (a word has a tag), span (an answer "
            "in the text) or search (documents that answer a query)"
        )
    _check_columns(labelled)
    if kind == "tokens" and (labelled.pair or labelled.separator):
        setting = f"pair={labelled.pair!r}" if labelled.pair else f"separator={labelled.separator!r}"
        raise ValueError(f"{setting}: tasks of kind 'tokens' have only words and tags. Remove it")
    if kind == "span" and (setting := _column_option(replace(labelled, group=labelled.columns.group))):
        raise ValueError(
            f"{setting}: {sources['train'].name} is read as questions in SQuAD format, which has no columns. Remove it"
        )
    if labelled.separator and kind in {"sequence", "score"}:
        raise ValueError(
            f"separator={labelled.separator!r}: separates several labels, but kind={kind!r} has one label per row. "
            "Remove separator, or set kind='multilabel'"
        )
    places: dict[Path, Split] = {}
    for split, source in sources.items():
        other_split = places.setdefault(Path(os.path.realpath(source.path)), split)
        if other_split != split:
            raise ValueError(
                f"{source.name}: given both for {other_split} and for {split}. Remove {option(split)} to have "
                f"acclimate draw {split} rows"
            )


def _check_columns(labelled: LabelledFiles) -> None:
    """Raise ValueError for columns and names of labels that contradict each other, or are named twice."""
    roles: dict[str, str] = {}
    labels_columns = labelled.label if isinstance(labelled.label, tuple) else ()
    if twice := [name for name, count in Counter([*labelled.labels, *labels_columns]).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} appears twice as a label. Name each label once")
    for role, stated_columns in labelled.columns.stated().items():
        for column in [stated_columns] if isinstance(stated_columns, str) else stated_columns:
            earlier_role = roles.setdefault(column, role)
            if earlier_role != role and {earlier_role, role} not in SHARED:
                raise ValueError(f"{role}={column!r}: the same column as {earlier_role}. Name two different columns")
    if labelled.labels and labels_columns:
        raise ValueError(
            f"{option('labels')}: the names of the columns {', '.join(labels_columns)} are the labels. Remove "
            f"{option('labels')}"
        )
    if labelled.kind == "score" and (labelled.labels or labels_columns):
        name = "labels" if labelled.labels else "label"
        raise ValueError(f"{option(name)}: kind='score' has one number per row, in one column. Name only one column")


def _check_bond(source: Source, labelled: LabelledFiles) -> None:
    """Raise ValueError if `group` may mean a bond or a column that the file has besides the texts."""
    columns = list(dict.fromkeys(labelled.columns.names()))
    _, values = next(table_rows(source, columns, others=True), ("", ""))
    if isinstance(values, Mapping) and labelled.group in {*values} - {*columns}:
        name = str(labelled.group)
        raise ValueError(
            f"{source.name}: {option('group', name)} keeps rows with one {name} together, but the file also has a "
            f"column {name!r}. Rename the column to group by it"
        )


def _column_option(labelled: LabelledFiles, *, numbered: bool = False) -> str:
    """Return the first stated option that only applies to files with columns, such as "text='body'"; "" if none is.

    numbered  True: `text` and `label` may be numbers of fields
    """
    usual = LabelledFiles(train=labelled.train)
    names = ("text", "label", "labels", "pair", "group", "id", "separator", "fold_labels")
    options = {name: value for name in names if (value := getattr(labelled, name)) != getattr(usual, name)}
    if numbered:
        options = {name: value for name, value in options.items() if not re.fullmatch(r"\d+", str(value))}
    return next((f"{name}={value!r}" for name, value in options.items()), "")


@dataclass(frozen=True)
class _File:
    """A file's accepted rows with their labels, and its counts."""

    source: Source
    rows: Sequence[Row]
    labels: Sequence[Label]
    read: FileRead

    def placed(self) -> list[tuple[str, Label]]:
        return [(row.place, label) for row, label in zip(self.rows, self.labels, strict=True)]


def _labelled(source: Source, rows: Sequence[Row | Rejected], kind: Kind, labelled: LabelledFiles) -> _File:
    """Return the rows that have a label of the kind. Raises ValueError if too few have."""
    column = labelled.label if isinstance(labelled.label, str) else ", ".join(labelled.label)
    accepted: list[Row] = []
    labels: list[Label] = []
    rejected: list[Rejected] = []
    for row in rows:
        if isinstance(row, Rejected):
            rejected.append(row)
            continue
        label, reason = label_from(row.label, kind, column=column, separator=labelled.separator)
        if label is None:
            rejected.append(Rejected(row.place, reason))
        else:
            accepted.append(row)
            labels.append(label)
    # questions without an answer are intended in SQuAD 2.0, as refusals are in Prodigy, and no sign of a misread file
    faulty = [row for row in rejected if row.reason not in (IMPOSSIBLE, UNACCEPTED)]
    counted = faulty if accepted or faulty else rejected
    check_accepted(source.name, len(accepted) + len(counted), counted)
    return _File(source, accepted, labels, FileRead(source.path, len(rows), len(accepted), tuple(rejected)))


def _one_spelling(
    files: Mapping[Split, _File], kind: Kind, labelled: LabelledFiles
) -> tuple[dict[Split, _File], list[str]]:
    """Return the files with one spelling of each label, and a note on those that changed."""
    spelling = one_spelling(
        [file.placed() for file in files.values()],
        fold=labelled.fold_labels or labelled.repair,
        of="words" if kind == "tokens" else "rows",
    )
    respelt_files = {
        split: replace(file, labels=[respelt(label, spelling, kind) for label in file.labels])
        for split, file in files.items()
    }
    folded = [f"{shown(name)} as {shown(label)}" for name, label in sorted(spelling.items()) if name != label]
    listed = ", ".join(folded[:10]) + (", ..." if len(folded) > 10 else "")
    notes = [f"Spellings of one label were read as one: {listed}."] if folded else []
    return respelt_files, notes


def _one_group(files: Mapping[Split, _File]) -> tuple[dict[Split, _File], list[str]]:
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


def _read_tagged(
    labelled: LabelledFiles,
    sources: Mapping[Split, Source],
    rows: Mapping[Split, Sequence[Row | Rejected]],
    notes: list[str],
    fields: Mapping[Split, Fields],
) -> Labelled:
    """Return what `read_files` returns for a tag a word: a split may lack a tag, and documents stay whole."""
    files = {}
    for split, source in sources.items():
        divided = split == "train" and len(sources) < len(SPLITS)
        sentences, on_documents = split_documents(source, rows[split], split, divided=divided)
        files[split] = _labelled(source, sentences, "tokens", labelled)
        notes += on_documents
    where = sources["train"].name
    labels, notes_on_spelling = standard_labels(
        [file.placed() for file in files.values()], labelled.metric, where=where
    )
    files = {split: replace(file, labels=tags) for (split, file), tags in zip(files.items(), labels, strict=True)}
    notes += notes_on_spelling
    files, spelling = _one_spelling(files, "tokens", labelled)
    files, on_groups = _one_group(files)
    spelling += on_groups
    if not labelled.metric:
        for split, file in files.items():
            check_tags(sources[split], file.placed(), fields.get(split, Fields()))
    train = files["train"].placed()
    check_train(train, "tokens", where=where, rejected=files["train"].read.rejected)
    for split in ("dev", "test"):
        if split in files:
            # joint tags count by their parts: a combination that train lacks is scored though it cannot be learnt
            check_seen(_taken_apart(train), _taken_apart(files[split].placed()), where=where, of="words")
    tags = {tag for _, label in train for tag in classes_in(label)}
    usual = usual_metric(tags, metric=labelled.metric, where=where)
    notes = [*_notes_on_rows(files), *notes, *spelling]
    notes += notes_on_tags(files["train"].labels, labelled.metric or usual, where=where)
    return _labelled_task(labelled, files, _examples(files, "tokens"), kind="tokens", notes=notes, usual=usual)


def _taken_apart(labels: Sequence[tuple[str, Label]]) -> list[tuple[str, Label]]:
    """Return the tags of each row, with joint tags split into their parts."""
    return [(place, tuple(part for tag in classes_in(label) for part in joined_tags(tag))) for place, label in labels]


def _labelled_task(
    labelled: LabelledFiles,
    files: Mapping[Split, _File],
    splits: Mapping[Split, Sequence[Example]],
    *,
    kind: Kind,
    notes: list[str],
    usual: str = "",
) -> Labelled:
    """Return the splits of the files, after splitting off dev or test where it is missing.

    usual: name of the metric if none is stated; "": that of the kind
    """
    metric = metric_for(kind, labelled.metric, usual)
    missing = tuple(split for split in SPLITS if split not in files)
    train = files["train"].source
    labels = sorted(
        {name for file in files.values() for label in file.labels for name in classes_in(label) if kind != "span"}
    )
    bond = next((bond for bond in BONDS if bond == labelled.group), None)
    if bond is not None:
        if len(missing) < len(SPLITS) - 1:
            raise ValueError(
                f"{option('group', bond)}: it keeps rows of one file together, but files for {', '.join(files)} "
                "were also given. Remove it, or give one file and let acclimate split it"
            )
        splits = {**splits, "train": grouped(splits["train"], bond)}
    if missing:
        parts, note = split_off(splits["train"], missing, kind=kind, seed=labelled.seed, where=train.name)
        splits = {**splits, **parts}
        notes = [*notes, note]
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
        source=", ".join(file.source.origin for file in files.values()),
        untaught=tuple(name for name in labels if kind == "tokens" and len(joined_tags(name)) > 1),
        columns=labelled.columns,
        separator=labelled.separator,
    )


def _examples(files: Mapping[Split, _File], kind: Kind) -> dict[Split, list[Example]]:
    """Return the examples of each file.

    Raises ValueError if an id occurs twice over all files, or a group is in two of them.
    """
    stems = Counter(file.source.stem for file in files.values())
    place_of_id: dict[str, str] = {}
    home_of_group: dict[str, tuple[Split, str]] = {}
    splits: dict[Split, list[Example]] = {}
    for split, file in files.items():
        stem = file.source.stem
        name = stem if stems[stem] == 1 else f"{split}/{stem}"
        splits[split] = []
        for row, label in zip(file.rows, file.labels, strict=True):
            example = Example(row.id or f"{name}:{row.number}", row.text, label, row.pair, row.group, row.spans)
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


def split_of(splits: Mapping[Split, tuple[Example, ...]], path: Path, split: Split) -> list[Example]:
    """Return the examples of the split: what `Task.read` does with examples that have been read."""
    return list(splits[split])


def _note_on_second_text(source: Source, labelled: LabelledFiles) -> list[str]:
    """Return a note if the file has another column with texts as long as sentences, and no pair was stated."""
    if labelled.pair:
        return []
    read = labelled.columns.names()
    distinct: dict[str, set[str]] = {}
    rows = list(islice(table_rows(source, read, others=True), PEEKED))
    for _, values in rows:
        if isinstance(values, str):
            continue
        for name, value in values.items():
            if name not in read and isinstance(value, str) and len(value.split()) >= SENTENCE:
                distinct.setdefault(name, set()).add(value)
    texts = [name for name, different in distinct.items() if len(different) > len(rows) / 2]
    if not texts:
        return []
    which = f"{'columns' if len(texts) > 1 else 'column'} {listed([repr(name) for name in texts])}"
    holds = "hold texts and are" if len(texts) > 1 else "holds texts and is"
    return [
        f"{source.name}: the {which} {holds} not read. If a row has two texts, name the second with {option('pair')}."
    ]


def _notes_on_rows(files: Mapping[Split, _File]) -> list[str]:
    notes = []
    for file in files.values():
        name, rows = file.source.name, file.read.rows
        faulty = [row for row in file.read.rejected if row.reason not in (IMPOSSIBLE, UNACCEPTED)]
        if faulty:
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


def fewer(labelled: Labelled, rows: int, seed: int) -> Labelled:
    """Return the task with `rows` sampled training rows, which have every class (answers are not classes)."""
    train = labelled.splits["train"]
    if rows and labelled.kind == "search":
        raise ValueError(f"{option('rows', str(rows))}: samples training rows, which a search task lacks. Remove it")
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


def _read_questions(labelled: LabelledFiles, files: Mapping[Split, _File], notes: list[str]) -> Labelled:
    """Return what `read_files` returns for questions: an article may be in two files, a question may not."""
    articles = {row.id: row.group for file in files.values() for row in file.rows}
    questions = _questions_of_pairs([row for file in files.values() for row in file.rows])
    files = {
        split: replace(file, rows=[replace(row, group=questions.get(row.id, "")) for row in file.rows])
        for split, file in files.items()
    }
    splits = _examples(files, "span")
    titles = {articles[row.id] for row in splits["train"]} - {""}
    if len(titles) >= FEWEST_ARTICLES and len(files) < len(SPLITS):
        splits["train"] = [replace(row, group=row.group or articles[row.id]) for row in splits["train"]]
    notes = [*_notes_on_rows(files), *notes]
    read = _labelled_task(labelled, files, splits, kind="span", notes=notes)
    scored = {split: tuple(_scored(rows, questions, split)) for split, rows in read.splits.items()}
    notes = [*read.notes]
    if questions:
        counts = " and ".join(f"{len(scored[split]):,} in {split}" for split in SPLITS if split != "train")
        notes.append(
            "Rows with the same question and ids <question>_<number> are one question with several contexts, as in "
            f"BioASQ. They are learned separately and scored together ({counts})."
        )
    return replace(read, splits=scored, notes=tuple(notes), articles=articles)


def _questions_of_pairs(rows: Sequence[Row]) -> dict[str, str]:
    """Return id -> question, the beginning of the id, for rows that ask what another row of the same question asks."""
    numbered: dict[str, list[Row]] = {}
    for row in rows:
        question, _, number = row.id.rpartition("_")
        if question and number.isdecimal():
            numbered.setdefault(question, []).append(row)
    return {
        row.id: question
        for question, pairs in numbered.items()
        if len(pairs) > 1 and len({row.pair for row in pairs}) == 1
        for row in pairs
    }


def _scored(examples: Sequence[Example], questions: Mapping[str, str], split: Split) -> list[Example]:
    """Return the examples of a split: unchanged in train, with pairs merged into questions elsewhere."""
    grouped = [replace(row, group=questions.get(row.id, "")) for row in examples]
    if split == "train":
        return grouped
    merged = {question.group: question for question in join_questions(row for row in grouped if row.group)}
    first = {row.group: row.id for row in reversed(grouped)}
    return [merged.get(row.group, row) for row in grouped if not row.group or first[row.group] == row.id]
