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

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from acclimate.core.door import is_python, option
from acclimate.core.figures import listed
from acclimate.core.types import SPLITS, Example, Label, Rejected, Split
from acclimate.reading.examples import (
    LabelledRows,
    examples_of,
    labelled_rows,
    notes_on_rows,
    one_group_spelling,
    one_label_spelling,
)
from acclimate.reading.formats.beir import read_collection
from acclimate.reading.formats.squad import numbered_questions, question_rows, scored_questions, table_questions
from acclimate.reading.labelled_files import LabelledFiles, check_search, is_search, open_files
from acclimate.reading.labels import (
    check_seen,
    check_separator,
    check_train,
    named_labels,
    notes_on_names,
    notes_on_numbers,
    notes_on_singles,
    plain_label,
    plain_labels,
    task_kind,
)
from acclimate.reading.mentions import distinct_documents, has_spans, mention_rows, span_rows
from acclimate.reading.source import QUESTION_COLUMNS, WORKBOOK, Source
from acclimate.reading.splitting import BONDS, grouped, split_off
from acclimate.reading.tables import Columns, FileRead, Row, check_filled, read_rows, table_rows
from acclimate.reading.tagged import (
    is_tagged_table,
    lists_of_tags,
    notes_on_tags,
    standard_labels,
    tagged_rows,
    usual_metric,
    words_with_tags,
)
from acclimate.reading.word_lines import Fields, check_tags, fields_of, split_documents
from acclimate.tasks.metrics import metric_for
from acclimate.tasks.tags import joined_tags
from acclimate.tasks.task import Kind, Metric, Task, classes_in, sampled
from acclimate.text.untrusted import LIMITS, ReadLimits, printable

FEWEST_ARTICLES = 20  # with fewer, the sizes of the splits would be far off
PEEKED = 200  # rows in which another column of texts is looked for
SENTENCE = 3  # words at least of a text in it
FORM = (
    'Questions need {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers": '
    '[{"text": ..., "answer_start": ...}]}]}]}]}. Rows of another kind: one object a line (jq -c \'.[]\' OLD > '
    "NEW.jsonl); BioC's documents: "
)


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
    if not is_search(labelled):
        return _read_tables(labelled, limits)
    check_search(labelled)
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


def _read_tables(labelled: LabelledFiles, limits: ReadLimits) -> Labelled:
    """Return what `read_files` returns for files of rows, words or questions."""
    labelled, sources, notes = open_files(labelled, limits)
    fields, notes_on_fields = _fields(sources, labelled)
    columns, separator = labelled.columns, labelled.separator
    column = f"{sources['train'].name}: the column {labelled.label!r}"
    read = {split: _rows(source, labelled, fields.get(split)) for split, source in sources.items()}
    tags = labelled.kind == "auto" and not separator and lists_of_tags(read["train"][0])
    if tags or (
        labelled.kind == "auto"
        and words_with_tags(sources["train"], columns, [row for row in read["train"][0] if isinstance(row, Row)])
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
        rows, sources, columns, kind=labelled.kind, names=labelled.labels, separator=separator
    )
    notes += [*on_form, *on_names]
    if labelled.group in BONDS and labelled.kind not in {"tokens", "span"}:
        _check_bond(sources["train"], labelled)
    values = [row.label for row in rows["train"] if isinstance(row, Row)]
    kind = task_kind(values, kind=labelled.kind, separator=separator, where=column)
    if kind == "tokens":
        rows = distinct_documents(sources, rows)
        return _read_tagged(labelled, sources, rows, notes, fields)
    if not (on_form or on_names) or not any(isinstance(value, list) for value in values):
        check_separator(values, kind, separator=separator, where=column)
    files = {split: labelled_rows(sources[split], part, kind, columns, separator) for split, part in rows.items()}
    if kind == "span":
        return _read_questions(labelled, files, notes)
    files, spelling = one_label_spelling(files, kind, fold=labelled.fold_labels or labelled.repair)
    files, on_groups = one_group_spelling(files)
    train, name = files["train"].placed(), sources["train"].name
    notes = [*notes_on_rows(files), *notes, *spelling, *on_groups, *_note_on_second_text(sources["train"], labelled)]
    notes += notes_on_numbers(train, kind=labelled.kind, where=column) if kind == "sequence" else []
    check_train(train, kind, where=column, rejected=files["train"].read.rejected)
    for split in ("dev", "test"):
        if split in files:
            check_seen(train, files[split].placed(), where=name)
    notes += notes_on_names(train, where=name)
    notes += notes_on_singles(train, tuple(split for split in SPLITS if split not in files))
    return _labelled_task(labelled, files, examples_of(files, kind), kind=kind, notes=notes)


def _fields(sources: Mapping[Split, Source], labelled: LabelledFiles) -> tuple[dict[Split, Fields], list[str]]:
    """Return the places of word and tag in each file of lines, and notes on them; nothing for another kind.

    A file with as many fields as train's has them in the same places, unless only in one the tag is first. Raises
    ValueError for names of columns if train has none.
    """
    fields: dict[Split, Fields] = {}
    notes: list[str] = []
    for split, source in sources.items() if labelled.kind == "tokens" else ():
        if split == "train":
            _check_column_options(source, labelled)
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


def _check_column_options(source: Source, labelled: LabelledFiles) -> None:
    """Raise ValueError if a column is named for documents with mentions or for lines of words, which have none."""
    if _may_hold_spans(source, labelled.columns):
        return
    named = LabelledFiles(source.path, group=labelled.columns.group, id=labelled.id)
    form = "has one word and its tag per line"
    if source.holds_mentions:  # of lines, `text` and `label` are numbers of fields
        named = replace(named, text=labelled.text, label=labelled.label)
        form = "has documents with mentions"
    if setting := named.column_option():
        raise ValueError(f"{setting}: {source.name} {form}, without columns. Remove it")


def _rows(source: Source, labelled: LabelledFiles, fields: Fields | None) -> tuple[list[Row | Rejected], list[str]]:
    """Return the rows of a file by the reader of its kind, and notes on them."""
    if labelled.kind == "tokens":
        if _may_hold_spans(source, labelled.columns):
            on_form: list[str] = []
            plain = [_plain(row) for row in read_rows(source, labelled.columns, notes=on_form)]
            if has_spans(plain):
                check_filled(source, labelled.columns, plain)
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
        check_filled(source, labelled.columns, rows)
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
        files[split] = labelled_rows(source, sentences, "tokens", labelled.columns, labelled.separator)
        notes += on_documents
    where = sources["train"].name
    labels, on_tags = standard_labels([file.placed() for file in files.values()], labelled.metric, where=where)
    files = {split: replace(file, labels=tags) for (split, file), tags in zip(files.items(), labels, strict=True)}
    files, spelling = one_label_spelling(files, "tokens", fold=labelled.fold_labels or labelled.repair)
    files, on_groups = one_group_spelling(files)
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
    notes = [*notes_on_rows(files), *notes, *on_tags, *spelling, *on_groups]
    notes += notes_on_tags(files["train"].labels, labelled.metric or usual, where=where)
    return _labelled_task(labelled, files, examples_of(files, "tokens"), kind="tokens", notes=notes, usual=usual)


def _taken_apart(labels: Sequence[tuple[str, Label]]) -> list[tuple[str, Label]]:
    """Return the tags of each row, with joint tags split into their parts."""
    return [(place, tuple(part for tag in classes_in(label) for part in joined_tags(tag))) for place, label in labels]


def _read_questions(labelled: LabelledFiles, files: Mapping[Split, LabelledRows], notes: list[str]) -> Labelled:
    """Return what `read_files` returns for questions: an article may be in two files, a question may not."""
    rows = [row for file in files.values() for row in file.rows]
    articles, questions = {row.id: row.group for row in rows}, numbered_questions(rows)
    files = {
        split: replace(file, rows=[replace(row, group=questions.get(row.id, "")) for row in file.rows])
        for split, file in files.items()
    }
    splits = examples_of(files, "span")
    titles = {articles[row.id] for row in splits["train"]} - {""}
    if len(titles) >= FEWEST_ARTICLES and len(files) < len(SPLITS):
        splits["train"] = [replace(row, group=row.group or articles[row.id]) for row in splits["train"]]
    read = _labelled_task(labelled, files, splits, kind="span", notes=[*notes_on_rows(files), *notes])
    scored = {split: tuple(scored_questions(rows, questions, split)) for split, rows in read.splits.items()}
    notes = [*read.notes]
    if questions:
        counts = " and ".join(f"{len(scored[split]):,} in {split}" for split in SPLITS if split != "train")
        notes.append(
            "Rows with the same question and ids <question>_<number> are one question with several contexts, as in "
            f"BioASQ. They are learned separately and scored together ({counts})."
        )
    return replace(read, splits=scored, notes=tuple(notes), articles=articles)


def _labelled_task(
    labelled: LabelledFiles,
    files: Mapping[Split, LabelledRows],
    splits: Mapping[Split, Sequence[Example]],
    *,
    kind: Kind,
    notes: list[str],
    usual: str = "",
) -> Labelled:
    """Return the splits of the files, after splitting off dev or test where it is missing.

    usual: name of the metric if none is stated; "": that of the kind
    """
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
        metric=metric_for(kind, labelled.metric, usual, labels=labels),
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
