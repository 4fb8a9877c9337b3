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
from itertools import islice
from pathlib import Path
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown
from acclimate.core.types import Label, Rejected, Split
from acclimate.reading.tables import WORD_LINES, Columns, Row, class_name, table_rows
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.tags import LISTED, OTHER_LETTERS, OUTSIDE, other_scheme, scheme_of, text_of
from acclimate.tasks.task import Metric
from acclimate.text.untrusted import (
    LIMITS,
    PACKINGS,
    ReadLimits,
    check_file,
    named,
    printable,
    text_lines,
    unpacked_name,
    unsound,
)

LINES = (".tsv", ".txt", *WORD_LINES)
TABLES = (".jsonl", ".parquet")
DOCUMENT = "-DOCSTART-"
LOOKED_AT = 200  # lines that show what a file holds
LONGEST = 10_000  # words of a sentence; in a longer one, empty lines must be missing
FEWEST_DOCUMENTS = 20  # with fewer documents, a split does not keep them whole
HEADERS = ({"word", "words", "token", "tokens", "text", "form"}, {"tag", "tags", "label", "labels", "ner", "ner_tags"})

_Lines = list[tuple[int, list[str]]]  # the lines of one sentence: number of the line, its fields


def holds_tags(path: Path) -> bool:
    """Return True if the file has a word and its tag a line, by its ending, or because it begins with tags that name
    entities: then it needs no `--kind tokens`. In a .tsv or .txt, other tags look like any second column.
    """
    ending = Path(unpacked_name(path)).suffix
    if ending not in LINES or not path.is_file():
        return ending in WORD_LINES
    if ending in WORD_LINES:
        return True
    tags = set()
    try:
        for _, line in islice(text_lines(path, LIMITS), LOOKED_AT):
            if line.strip() and not line.startswith((DOCUMENT, "#")):
                _, *others = line.split("\t") if "\t" in line else line.split()
                tags.add(others[-1].strip() if others else "")
    except ValueError:  # those who read the whole file say what is wrong with it
        return False
    return OUTSIDE in tags and scheme_of(tags) is not None


def tagged_rows(path: Path, columns: Columns, *, limits: ReadLimits = LIMITS) -> Iterator[Row | Rejected]:
    """Yield a Row or a Rejected for each sentence of the file, in its order; a row's label is its tuple of tags.

    columns  names of the columns with the list of words (`text`) and the list of tags (`label`), in JSON and Parquet;
             not used for files of lines

    Raises ValueError, naming file, line, value and way out, if the file does not hold tagged words.
    """
    check_file(path)
    ending = Path(unpacked_name(path)).suffix
    if ending in LINES:
        yield from _sentences(path, limits)
    elif ending in TABLES and not (ending == ".parquet" and path.suffix in PACKINGS):
        roles = columns.stated()
        for number, (place, values) in enumerate(table_rows(path, list(dict.fromkeys(roles.values())), limits), 1):
            yield Rejected(place, values) if isinstance(values, str) else _listed(number, place, values, roles)
    else:
        raise ValueError(
            f"{named(path)}: the ending is not that of a known format of tagged words; known are {', '.join(LINES)} (a "
            f"word and its tag a line) and .jsonl (lists), each also with .gz or .zst after it, and .parquet. Rename "
            f"or convert the file"
        )


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
    metric = metric_named(name or ("entity_f1" if named_entities else "word_accuracy"))
    if "tokens" not in metric.kinds:
        raise ValueError(
            f"metric={name!r}: judges {' and '.join(metric.kinds)}, but this is a task of kind 'tokens'. Leave it out, "
            f"or give entity_f1, word_accuracy or word_macro_f1"
        )
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
    path: Path, rows: Sequence[Row | Rejected], split: Split, *, divided: bool
) -> tuple[list[Row | Rejected], list[str]]:
    """Return the sentences of a file, each document of a file of lines as a group, and a note on documents.

    divided  True if acclimate splits the file; with fewer than FEWEST_DOCUMENTS, documents are then no groups
    """
    documents = {row.group for row in rows if isinstance(row, Row)} - {""}
    if not documents or Path(unpacked_name(path)).suffix not in LINES:
        return list(rows), []
    grouping = not divided or len(documents) >= FEWEST_DOCUMENTS
    others = [
        replace(row, group=f"{split}, {row.group}" if grouping and row.group else "") if isinstance(row, Row) else row
        for row in rows
    ]
    note = f"{split}: {len(documents):,} documents ({DOCUMENT} lines)"
    return others, [f"{note}." if grouping else f"{note}, too few to keep each in one split."]


def _sentences(path: Path, limits: ReadLimits) -> Iterator[Row | Rejected]:
    number = documents = 0
    lines: _Lines = []
    width, tabs = 0, True  # number of fields of the first line, and whether tabs part them
    document = ""
    for at, line in text_lines(path, limits):
        stripped = line.rstrip("\r\n")
        if stripped.startswith(DOCUMENT) or not stripped.strip(" \t"):
            if lines:
                number += 1
                yield _sentence(path, number, lines, width, document)
                lines = []
            if stripped.startswith(DOCUMENT):
                documents += 1
                document = f"document {documents}"
            continue
        fields = _fields(stripped)
        # `# O` may be a word and its tag, until a line has shown that tabs part the fields
        if tabs and stripped.startswith("#") and "\t" not in stripped and (width or len(fields) != 2):
            continue
        if not width:
            width, tabs = len(fields), "\t" in stripped
            _check_first(path, at, stripped, fields)
        lines.append((at, fields))
        if len(lines) > LONGEST:
            raise ValueError(
                f"{named(path)}:{lines[0][0]}: more than {LONGEST:,} lines without an empty one. An empty line must "
                f"end each sentence; put them in, or give a .jsonl file with {option('text')} and {option('label')}"
            )
    if lines:
        yield _sentence(path, number + 1, lines, width, document)
    elif not number:
        raise ValueError(f"{named(path)}: holds no words. Write it anew or name another file")


def _fields(line: str) -> list[str]:
    if "\t" not in line:
        return [*filter(None, line.split(" "))]
    return [field.strip(" ") for field in line.split("\t")] if " " in line else line.split("\t")


def _check_first(path: Path, at: int, line: str, fields: Sequence[str]) -> None:
    """Raise ValueError if the first line does not hold a word and its tag."""
    where = f"{named(path)}:{at}"
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


def _sentence(path: Path, number: int, lines: _Lines, width: int, document: str) -> Row | Rejected:
    name = printable(path.name)
    words, tags = [fields[0] for _, fields in lines], [fields[-1] for _, fields in lines]
    where = f"{name}:{lines[0][0]}"
    if all(len(fields) == width for _, fields in lines) and _all_fit(words, tags):
        return Row(number, where, text_of(words), tuple(tags), None, document, "")
    for at, fields in lines:
        place = f"{name}:{at}"
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
