"""Files of sentences whose words have tags: a line for each word and its tag, or lists in JSON Lines and Parquet.

Lines have the form of CoNLL's shared tasks and of BIO files. An empty line ends a sentence. The first field is the
word, the last the tag; tabs part the fields, or spaces if the line has no tab. A `-DOCSTART-` line begins a document,
whose sentences are a group. In a file with tabs, lines without a tab that begin with `#` are comments.

If one word or tag cannot be used, the whole sentence is rejected, because without that word it would be another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown
from acclimate.core.types import Label, Rejected, Split
from acclimate.reading.source import DOCUMENT, TAG_LINES, Source
from acclimate.reading.tables import Columns, Row, class_name, table_rows
from acclimate.tasks.metrics import metric_for
from acclimate.tasks.tags import LISTED, OTHER_LETTERS, other_scheme, scheme_of, text_of
from acclimate.tasks.task import Metric
from acclimate.text.untrusted import unsound

LONGEST = 10_000  # words of a sentence; in a longer one, empty lines must be missing
FEWEST_DOCUMENTS = 20  # with fewer documents, a split does not keep them whole
HEADERS = ({"word", "words", "token", "tokens", "text", "form"}, {"tag", "tags", "label", "labels", "ner", "ner_tags"})

_Lines = list[tuple[int, list[str]]]  # the lines of one sentence: number of the line, its fields


def tagged_rows(source: Source, columns: Columns) -> Iterator[Row | Rejected]:
    """Yield a Row or a Rejected for each sentence of the file, in its order; a row's label is its tuple of tags.

    columns  names of the columns with the list of words (`text`) and the list of tags (`label`), in JSON and Parquet;
             not used for files of lines

    Raises ValueError, naming file, line, value and way out, if the file does not hold tagged words.
    """
    if source.ending in TAG_LINES:
        yield from _tagged_lines(source)
    elif source.ending == ".jsonl" or source.path.suffix == ".parquet":
        roles = columns.stated()
        for number, (place, values) in enumerate(table_rows(source, list(dict.fromkeys(roles.values()))), 1):
            yield Rejected(place, values) if isinstance(values, str) else _listed(number, place, values, roles)
    else:
        raise ValueError(
            f"{source.name}: the ending is not that of a known format of tagged words; known are "
            f"{', '.join(TAG_LINES)} (a word and its tag a line) and .jsonl (lists), each also with .gz or .zst after "
            f"it, and .parquet. Rename or convert the file"
        )


def word_lines(source: Source) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line, the line, and its document, "" before the first `-DOCSTART-` line.

    The line is "" where a sentence ends, and at the end of the file. Raises ValueError for a sentence of more than
    LONGEST lines.
    """
    documents = end = 0  # number of documents, and of the last line between two sentences
    document = ""
    for at, ended in source.lines():
        line = ended.rstrip("\r\n")
        if line.strip(" \t") and not line.startswith(DOCUMENT):
            if at - end > LONGEST:
                raise ValueError(
                    f"{source.name}:{end + 1}: more than {LONGEST:,} lines without an empty one. An empty line "
                    f"must end each sentence; put them in, or give a .jsonl file with lists of words"
                )
            yield at, line, document
            continue
        yield at, "", document
        end = at
        if line.startswith(DOCUMENT):
            documents += 1
            document = f"document {documents}"
    yield 0, "", document


def tags_metric(name: str, tags: Collection[str], *, where: str) -> Metric:
    """Return the metric of this name; for "", entity F1 if the tags name entities, or else the accuracy over words.

    Raises ValueError for tags of BMES, and if the metric cannot judge such tags.
    """
    if foreign := other_scheme(tags):
        renamed = ", ".join(f"{theirs}- to {ours}-" for theirs, ours in OTHER_LETTERS.items())
        raise ValueError(
            f"{where}: the tag {shown(foreign)} is of a scheme such as BMES; known are BIO, IO, IOBES and BIOUL. "
            f"Change {renamed} in the file"
        )
    named_entities = scheme_of(tags) is not None
    metric = metric_for("tokens", name, "entity_f1" if named_entities else "word_accuracy")
    if metric.name == "entity_f1" and not named_entities:
        odd = next(tag for tag in sorted(tags) if scheme_of({tag, "O"}) is None and tag != "O")
        raise ValueError(
            f"metric='entity_f1': {where} has the tag {shown(odd)}, which is not O and does not begin with {LISTED}. "
            f"Correct the tags, or leave the metric out (then word_accuracy)"
        )
    return metric


def notes_on_tags(labels: Collection[Label], metric: Metric, *, where: str) -> list[str]:
    """Return notes on the tags of train: their scheme, and which of them only one sentence has."""
    sentences = [set(label) for label in labels if isinstance(label, tuple)]
    counts = Counter(tag for tags in sentences for tag in tags)
    if (scheme := scheme_of(counts)) is not None:
        notes = [f"The tags of {where} were read as {scheme}; the metric is {metric.name}."]
        if scheme == "IO":
            notes = [f"{notes[0][:-1]}, for which entities of one type that touch are one."]
    elif all(tag.lstrip("-").isdigit() for tag in counts):
        notes = [f"The tags of {where} are numbers. If they stand for B-, I- and O, write those: entities count then."]
    else:
        notes = [f"The tags of {where} name no entities (B-, I-, O), so each word counts for itself: {metric.name}."]
    if alone := sorted(tag for tag, count in counts.items() if count == 1):
        listed = ", ".join(map(shown, alone[:5])) + (", ..." if len(alone) > 5 else "")
        notes.append(f"Tags that only one training sentence has, too few to learn them from: {listed}.")
    return notes


def split_documents(
    source: Source, rows: Sequence[Row | Rejected], split: Split, *, divided: bool
) -> tuple[list[Row | Rejected], list[str]]:
    """Return the sentences of a file, each document of a file of lines as a group, and a note on documents.

    divided  True if acclimate splits the file; with fewer than FEWEST_DOCUMENTS, documents are then no groups
    """
    documents = {row.group for row in rows if isinstance(row, Row)} - {""}
    if not documents or source.ending not in TAG_LINES:
        return list(rows), []
    grouping = not divided or len(documents) >= FEWEST_DOCUMENTS
    others = [
        replace(row, group=f"{split}, {row.group}" if grouping and row.group else "") if isinstance(row, Row) else row
        for row in rows
    ]
    note = f"{split}: {len(documents):,} documents ({DOCUMENT} lines)"
    return others, [f"{note}." if grouping else f"{note}, too few to keep each in one split."]


def _tagged_lines(source: Source) -> Iterator[Row | Rejected]:
    number = 0
    words: _Lines = []
    width, tabs = 0, True  # number of fields of the first line, and whether tabs part them
    for at, line, document in word_lines(source):
        if not line:
            if words:
                number += 1
                yield _sentence(source, number, words, width, document)
                words = []
            continue
        tab = "\t" in line
        fields = line.split("\t") if tab and " " not in line else _fields(line)
        # `# O` may be a word and its tag, until a line has shown that tabs part the fields
        if tabs and not tab and line.startswith("#") and (width or len(fields) != 2):
            continue
        if not width:
            width, tabs = len(fields), tab
            _check_first(f"{source.name}:{at}", line, fields)
        words.append((at, fields))
    if not number:
        raise ValueError(f"{source.name}: holds no words. Write it again, or name another file")


def _fields(line: str) -> list[str]:
    if "\t" not in line:
        return [*filter(None, line.split(" "))]
    return [field.strip(" ") for field in line.split("\t")]


def _check_first(where: str, line: str, fields: Sequence[str]) -> None:
    """Raise ValueError if the first line does not hold a word and its tag."""
    way_out = (
        f"With {option('kind', 'tokens')} a line holds a word and its tag, with a tab or space between them, and an "
        f"empty line ends a sentence. Correct the file, give a .jsonl file with {option('text')} and "
        f"{option('label')}, or state another kind"
    )
    if len(fields) < 2:
        raise ValueError(f"{where}: one field, {shown(line)}, where a word and its tag are needed. {way_out}")
    if fields[0].strip().lower() in HEADERS[0] and fields[-1].strip().lower() in HEADERS[1]:
        raise ValueError(f"{where}: {shown(line)} names columns, which a file of tagged words has none of. Remove it")
    if " " in fields[-1].strip():
        raise ValueError(f"{where}: the tag is {shown(fields[-1])}, which holds a space. {way_out}")


def _sentence(source: Source, number: int, lines: _Lines, width: int, document: str) -> Row | Rejected:
    words, tags = [fields[0] for _, fields in lines], [fields[-1] for _, fields in lines]
    where = source.line_place(lines[0][0])
    if all(len(fields) == width for _, fields in lines) and _all_fit(words, tags):
        return Row(number, where, text_of(words), tuple(tags), None, document, "")
    for at, fields in lines:
        place = source.line_place(at)
        if len(fields) == 1:
            return Rejected(place, f"the word {shown(fields[0])} has no tag; add it, or leave the sentence out")
        if len(fields) != width:
            return Rejected(
                place,
                f"{len(fields)} fields, but the first line has {width}: {shown(' '.join(fields))}; correct the line",
            )
        if reason := _unfit(fields[0], fields[-1]):
            return Rejected(place, reason)
    return Row(number, where, text_of(words), tuple(tags), None, document, "")


def _listed(number: int, place: str, values: Any, roles: dict[str, str]) -> Row | Rejected:
    sides = []
    for role in ("text", "label"):
        column = roles[role]
        content = {"text": "words", "label": "tags"}[role]
        if column not in values:
            return Rejected(place, f"no column {column!r}; it must hold the list of {content}")
        side = values[column]
        if not isinstance(side, list) or not side:
            return Rejected(
                place, f"the {content} (column {column!r}) are {shown(side)}; make them a list with some in it"
            )
        sides.append(side)
    words, tags = sides
    if len(words) != len(tags):
        return Rejected(
            place,
            f"{len(words):,} words (column {roles['text']!r}), but {len(tags):,} tags (column {roles['label']!r}); "
            f"give one tag a word",
        )
    names = []
    for word, tag in zip(words, tags, strict=True):
        name, reason = class_name(tag, roles["label"])
        if reason := reason or _unfit(word, name or ""):
            return Rejected(place, reason)
        names.append(str(name))
    others = {}
    for role in ("group", "id"):
        value = values.get(roles[role], "") if role in roles else ""
        if not isinstance(value, str | int | None) or (isinstance(value, str) and unsound(value)):
            return Rejected(place, f"the {role} (column {roles[role]!r}) is {shown(value)}; make it a string")
        others[role] = "" if value is None else str(value)
    if "id" in roles and not others["id"].strip():
        return Rejected(place, f"the id (column {roles['id']!r}) is empty; fill it in or leave the row out")
    return Row(number, place, text_of(words), tuple(names), None, others["group"], others["id"])


def _all_fit(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Return True if all words and tags of a sentence can be used; if False, `_unfit` must check each."""
    whole = "\n".join((*words, *tags))
    if " " in whole or "\ufffd" in whole or unsound(whole):
        return False
    return all(map(str.strip, words)) and all(map(str.strip, tags))


def _unfit(word: Any, tag: str) -> str:
    """Return why a word and its tag cannot be used; "" if they can."""
    if not isinstance(word, str):
        return f"the word {shown(word)} is no string; write it as one"
    if not word.strip():
        return f"a word is empty: {shown(word)}, tag {shown(tag)}; take it out with its tag"
    for unit, text in (("word", word), ("tag", tag)):
        if " " in text:
            return f"the {unit} {shown(text)} holds a space, which separates words: make several words of it"
        if reason := unsound(text):
            return f"the {unit} {reason}; correct it or leave the sentence out"
    return "" if tag.strip() else f"the word {shown(word)} has an empty tag; fill it in, or leave the sentence out"
