"""Sentences whose words have tags: lines of words (reading/word_lines.py), or lists in JSON Lines and Parquet.

In a table each row may have a word and its tag; a column then says which rows are a sentence. If a document has its own
numbers of sentences, a column of documents keeps them apart.

If one word or tag cannot be used, the whole sentence is rejected, because without that word it would be another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown
from acclimate.core.types import Label, Rejected
from acclimate.reading.labels import class_name, list_in, vector_in
from acclimate.reading.source import TAG_LINES, Source
from acclimate.reading.tables import Columns, Row, check_filled, named_roles, table_rows
from acclimate.reading.word_lines import PEEKED, Fields, fields_of, tagged_lines, word_fault
from acclimate.tasks.tags import (
    LISTED,
    OUTSIDE,
    are_brackets,
    converted,
    scheme_of,
    standard_tags,
    tags_of_brackets,
    text_of,
)
from acclimate.text.untrusted import RowValues, unsound

_ID = r"s?[\W_]*(?:id|idx|index|no|nr|num|number)?[\W_\d]*$"
# names of columns that number sentences, and of columns of documents
SENTENCE = re.compile(rf"(?<![a-z])(?:sent(?:ence)?{_ID}|s(?:eq(?:uence)?[\W_]*)?id$)", re.IGNORECASE)
IN_DOCUMENT = re.compile(
    rf"(?<![a-z])(?:doc(?:ument)?|file(?:[\W_]*name)?|article|abstract|paper|pm){_ID}", re.IGNORECASE
)
NEARLY = 0.95  # share of the texts that must be one word, so that a few faulty ones are named


def tagged_rows(
    source: Source, columns: Columns, fields: Fields | None = None
) -> tuple[list[Row | Rejected], list[str]]:
    """Return a Row or a Rejected for each sentence of the file, in its order, and a note on a table with a word a row.

    A row's label is its tuple of tags.

    columns  of a table: the column with the words (`text`) and the one with the tags (`label`), lists or one a row
    fields   of a file of lines; None: as `fields_of` finds them

    Raises ValueError, naming file, line, value and way out, if the file does not hold tagged words.
    """
    if not is_tagged_table(source, columns):
        return [*tagged_lines(source, fields or fields_of(source, columns)[0])], []
    with named_roles(columns):
        rows = _listed_rows(table_rows(source, columns.names()), columns)
    if any(isinstance(row, Row) for row in rows) or not _has_word_rows(source, columns):
        check_filled(source, columns, rows)
        return rows, []
    sentences, columns, notes = _sentences_of_words(source, columns)
    return _listed_rows(sentences, columns), notes


def _listed_rows(sentences: Iterable[tuple[str, RowValues]], columns: Columns) -> list[Row | Rejected]:
    """Return the rows of sentences, whose words and tags are lists. sentences: as of `table_rows`"""
    roles = columns.stated()
    return [
        Rejected(place, values) if isinstance(values, str) else _listed(number, place, values, roles)
        for number, (place, values) in enumerate(sentences, 1)
    ]


def is_tagged_table(source: Source, columns: Columns) -> bool:
    """Return True for a table with these columns, and False for a file of lines. Raises ValueError for neither."""
    if source.ending in TAG_LINES and not source.has_header(columns.names(), others=True):
        return False
    if source.ending in TAG_LINES or source.table_form(columns.names()):
        return True
    raise ValueError(
        f"{source.name}: the ending is not a known format of tagged words. Supported are {', '.join(TAG_LINES)} "
        "(one word and its tag per line), .csv (one word per row, or lists) and .jsonl (lists), each also with .gz "
        "or .zst, and .parquet. Rename or convert the file"
    )


def words_with_tags(source: Source, columns: Columns, rows: Sequence[Row]) -> bool:
    """Return True if nearly all texts are one word, and the labels name entities (O, B-, I-) or there are sentences.

    Sentences are there if a column that numbers them has at least two rows per value, and no row has a second text.
    """
    labels = {row.label.strip() for row in rows if isinstance(row.label, str)}
    if not rows or columns.pair or sum(len(row.text.split()) == 1 for row in rows) < NEARLY * len(rows):
        return False
    if OUTSIDE in labels and scheme_of(labels) is not None and all(isinstance(row.label, str) for row in rows):
        return True
    column = _column_named(SENTENCE, source, columns)
    if not column or any(isinstance(row.label, list | dict | float) for row in rows):
        return False
    read = table_rows(source, [*columns.names(), column])
    return 2 * len({str(values.get(column)) for _, values in read if not isinstance(values, str)}) <= len(rows)


def lists_of_tags(rows: Sequence[Row | Rejected]) -> bool:
    """Return True if the rows have as many tags as words, in lists, and a tag occurs twice in a row."""
    accepted = [row for row in rows[:PEEKED] if isinstance(row, Row)]
    repeated = False
    for row in accepted:
        words = list_in(row.text)
        tags = list_in(row.label) if isinstance(row.label, str) else row.label
        hot = words is None and vector_in(tags) is not None
        words = row.text.split() if words is None else words
        if (
            not isinstance(tags, list)
            or hot
            or len(words) != len(tags)
            or not all(isinstance(t, str | int) for t in tags)
        ):
            return False
        repeated = repeated or len({*tags}) < len(tags)
    return repeated


def _has_word_rows(source: Source, columns: Columns) -> bool:
    """Return True if nearly all of a table's first rows have a text without spaces, and no list."""
    rows = [values for _, values in islice(table_rows(source, columns.names()), PEEKED) if not isinstance(values, str)]
    words = [values.get(columns.text) for values in rows]
    plain = [not word or (isinstance(word, str) and len(word.split()) < 2 and not _is_list(word)) for word in words]
    return any(words) and sum(plain) >= NEARLY * len(plain)


def _is_list(word: str) -> bool:
    """Return True if a list is written in the field. (S,S) is a word."""
    return list_in(word) is not None and re.search("['\"]|^\\[", word) is not None


def _column_named(pattern: re.Pattern[str], source: Source, columns: Columns) -> str | None:
    """Return the first other column of a table whose name matches; None if there is none."""
    return next(filter(pattern.search, _others(source, columns)), None)


def _others(source: Source, columns: Columns) -> list[str]:
    """Return the names of a table's columns without a role."""
    _, values = next(table_rows(source, columns.names(), others=True))
    return [name for name in values if name not in columns.names()] if not isinstance(values, str) else []


def _sentences_of_words(source: Source, columns: Columns) -> tuple[list[tuple[str, RowValues]], Columns, list[str]]:
    """Return the sentences of a table with a word and its tag a row, the columns but that which tells sentences apart,
    and notes on how they were found.

    A sentence is a run of rows with one value of the column of sentences and of that of documents, if there is one. An
    empty value continues the sentence. Raises ValueError without a column of sentences, and for shuffled rows.
    """
    sentence = _column_named(SENTENCE, source, columns) or columns.group
    if sentence is None:
        listed = ", ".join(map(shown, _others(source, columns)))
        raise ValueError(
            f"{source.name}: each row has one word and its tag. Name the column that identifies the sentence of a "
            f"row: {option('group', 'NAME')}; the other columns are [{listed}]. Or write a line per word and an "
            "empty line after each sentence, as .conll"
        )
    document = columns.group if columns.group != sentence else None
    document = document or _column_named(IN_DOCUMENT, source, columns)
    keys = [sentence, *([document] if document and document != sentence else [])]
    current = [""] * len(keys)
    runs: list[tuple[str, tuple[str, ...], list[Any]]] = []  # first row's place, values of the keys, rows
    for place, values in table_rows(source, [*columns.names(), *keys]):
        cells = [] if isinstance(values, str) else [values.get(name) for name in keys]
        key = ["" if cell is None else str(cell) for cell in cells] or [""] * len(keys)
        if not runs or any(new not in ("", old) for new, old in zip(key, current, strict=True)):
            current = [new or old for new, old in zip(key, current, strict=True)]
            runs.append((place, tuple(current), []))
        runs[-1][2].append(values)
    counts = Counter(key for _, key, _ in runs)
    again = next((key for key, count in counts.items() if count > 1), None)
    words = sum(len(rows) for _, _, rows in runs)
    way_out = f"Sort the rows, or name the column of documents: {option('group', 'NAME')}"
    if again and len(runs) >= 2 * len(counts) and 2 * words < 3 * len(runs):
        places = [place for place, key, _ in runs if key == again]
        raise ValueError(
            f"{places[1]}: a row of the sentence {shown(again[0])} (column {sentence!r}), whose first row is "
            f"{places[0]}. Rows of a sentence must follow each other. {way_out}"
        )
    named = " and ".join(map(repr, keys))
    notes = [
        f"{source.name} has one word and its tag per row; rows with the same value of {named} are a sentence. For rows "
        f"on their own: {option('kind', 'sequence')}."
    ]
    if again:
        notes.append(
            f"{source.name}: {sum(count > 1 for count in counts.values()):,} of {len(counts):,} values of {named} come "
            f"again in later rows, such as {shown(again[0])}. Each run of rows is a sentence. {way_out}."
        )
    roles = columns.stated()
    sentences: list[tuple[str, RowValues]] = []
    for place, _, rows in runs:
        if fault := next((values for values in rows if isinstance(values, str)), ""):
            sentences.append((place, fault))
            continue
        lists = {name: [values.get(name) for values in rows] for name in (roles["text"], roles["label"])}
        sentences.append((place, {**rows[0], **lists}))
    own: dict[str, Any] = {role: None for role, column in roles.items() if column == sentence}
    return sentences, replace(columns, **own), notes


def usual_metric(tags: Collection[str], *, metric: str, where: str) -> str:
    """Return the usual metric for these tags: entity F1 if they name entities, or else the accuracy over words.

    Raises ValueError if the stated metric cannot judge such tags.
    """
    named_entities = scheme_of(tags) is not None
    if metric == "entity_f1" and not named_entities:
        odd = _odd_tag(tags)
        fault = f"the tag {shown(odd)}, which is not O and does not begin with {LISTED}" if odd else _mixture(tags)
        raise ValueError(
            f"{option('metric', metric)}: {where} has {fault}. Correct the tags, or remove the metric (then "
            "word_accuracy)"
        )
    return "entity_f1" if named_entities else "word_accuracy"


def _odd_tag(tags: Collection[str]) -> str:
    """Return the first tag that is of no scheme; "" if each is of one, but not of the same."""
    return next((tag for tag in sorted(tags) if tag != OUTSIDE and scheme_of({tag, OUTSIDE}) is None), "")


def _mixture(tags: Collection[str]) -> str:
    letters = sorted({tag[0] for tag in tags if tag != OUTSIDE})
    return f"tags of two schemes ({', '.join(letters)})"


def notes_on_tags(labels: Collection[Label], metric: str, *, where: str) -> list[str]:
    """Return notes on the tags of train: their scheme, and which of them only one sentence has."""
    sentences = [set(label) for label in labels if isinstance(label, tuple)]
    counts = Counter(tag for tags in sentences for tag in tags)
    if (scheme := scheme_of(counts)) is not None:
        notes = [f"The tags of {where} were read as {scheme}; the metric is {metric}."]
        if scheme == "IO":
            notes = [f"{notes[0][:-1]}, in which touching entities of one type count as one."]
    elif all(tag.lstrip("-").isdigit() for tag in counts):
        notes = [
            f"The tags of {where} are numbers. If they mean B-, I- and O, write those, so that entities are scored."
        ]
    else:
        notes = [f"The tags of {where} do not mark entities (B-, I-, O), so words are scored separately: {metric}."]
        odd = _odd_tag(counts)
        if not odd:
            notes[0] = f"{notes[0][:-1]}. They are {_mixture(counts)}; write those of one to score entities."
        elif OUTSIDE in counts:
            notes[0] = f"{notes[0][:-1]}. If O is the tag outside of entities, write {shown(odd)} and others as B-TYPE."
    if alone := sorted(tag for tag, count in counts.items() if count == 1):
        listed = ", ".join(map(shown, alone[:5])) + (", ..." if len(alone) > 5 else "")
        notes.append(f"Tags of a single training sentence, too few to learn from: {listed}.")
    return notes


def standard_labels(
    labels: Sequence[Sequence[tuple[str, Label]]], metric: str, *, where: str
) -> tuple[list[list[Label]], list[str]]:
    """Return the tags of the sentences of each file in the usual spelling (B-PER, O), and notes on what changed.

    labels  place and tags of each sentence, for each file
    metric  as it is stated; with another one than entity_f1, tags stay as they are

    Tags with an E- or L- at the end of an entity and nothing at its beginning (IOE) become BIO.
    """
    plain = [[label for _, label in sentences] for sentences in labels]
    if metric not in ("", "entity_f1"):
        return plain, []
    tags = {tag for sentences in plain for label in sentences for tag in _tags(label)}
    notes = []
    if are_brackets(tags):
        notes.append(f"{where}: entities in brackets, such as {shown(min(tags))}, are read as BIO.")
        plain = [[tags_of_brackets(_tags(label)) for label in sentences] for sentences in plain]
        tags = {tag for sentences in plain for label in sentences for tag in _tags(label)}
    if spelling := standard_tags(tags):
        first = min((tag for tag in tags if spelling[tag] != tag), key=lambda tag: (spelling[tag] == OUTSIDE, tag))
        bare = all(spelling[tag] in (f"I-{tag}", OUTSIDE) for tag in tags)
        way_out = f"; {option('metric', 'word_accuracy')} scores them as words" if bare else ""
        notes.append(f"{where}: tags such as {shown(first)} are read as {shown(spelling[first])}{way_out}.")
        plain = [[tuple(spelling[tag] for tag in _tags(label)) for label in sentences] for sentences in plain]
        tags = {*spelling.values()}
    letters = {tag[0] for tag in tags if tag != OUTSIDE}
    if scheme_of(tags) is not None and letters & {"E", "L"} and not letters & {"B", "S", "U"}:
        notes.append(f"{where}: tags of scheme IOE, which mark the end of an entity, are read as BIO.")
        plain = [[converted(_tags(label), "BIO") for label in sentences] for sentences in plain]
    return plain, notes


def _tags(label: Label) -> tuple[str, ...]:
    assert isinstance(label, tuple)
    return label


def _listed(number: int, place: str, values: Any, roles: dict[str, str]) -> Row | Rejected:
    sides = []
    for role in ("text", "label"):
        column = roles[role]
        content = {"text": "words", "label": "tags"}[role]
        if column not in values:
            return Rejected(place, f"no column {column!r}; it must contain the list of {content}")
        side = values[column]
        side = (list_in(side) if isinstance(side, str) else side) or side
        tags = values.get(roles["label"])
        if (
            role == "text"
            and isinstance(side, str)
            and isinstance(list_in(tags) if isinstance(tags, str) else tags, list)
        ):
            side = side.split()
        if not isinstance(side, list) or not side:
            return Rejected(
                place, f"the {content} (column {column!r}) are {shown(side)}; make them a list that is not empty"
            )
        sides.append(side)
    words, tags = sides
    if len(words) != len(tags):
        return Rejected(
            place,
            f"{len(words):,} words (column {roles['text']!r}), but {len(tags):,} tags (column {roles['label']!r}); "
            "give one tag per word",
        )
    names = []
    for word, tag in zip(words, tags, strict=True):
        name, reason = class_name(tag, roles["label"])
        if reason := reason or word_fault(word, name or ""):
            return Rejected(place, reason)
        names.append(str(name))
    others = {}
    for role in ("group", "id"):
        value = values.get(roles[role], "") if role in roles else ""
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        if not isinstance(value, str | int | None) or (isinstance(value, str) and unsound(value)):
            return Rejected(place, f"the {role} (column {roles[role]!r}) is {shown(value)}; make it a string")
        others[role] = "" if value is None else str(value)
    if "id" in roles and not others["id"].strip():
        return Rejected(place, f"the id (column {roles['id']!r}) is empty; fill it in or remove the row")
    return Row(number, place, text_of(words), tuple(names), None, others["group"], others["id"])
