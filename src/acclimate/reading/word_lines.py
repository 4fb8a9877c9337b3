"""Lines with a word and its tag, as CoNLL's shared tasks and BIO files have them.

An empty line ends a sentence. The first field is the word, the last the tag; tabs part the fields, or spaces if the
line has no tab. A `-DOCSTART-` line begins a document, whose sentences are a group. `Fields.is_comment` says which
lines that begin with `#` are comments.

Each file's first lines show its fields (`fields_of`). If only another field than the last names entities, that is the
tag. In CoNLL-U and GermEval the first field counts the words of a sentence. The second is then the word, and the tag is
the first field that names entities, the fourth of ten (CoNLL-U's part of speech), or the last. Ranges (`1-2`) and empty
nodes (`8.1`) of CoNLL-U are no words. A first field without words is an error. A user may state both fields by number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import eq
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown
from acclimate.core.types import Label, Rejected, Split
from acclimate.reading.source import DOCUMENT, TAG_LINES, Source
from acclimate.reading.tables import Columns, Row
from acclimate.tasks.tags import OUTSIDE, are_brackets, odd_tag, scheme_of, standard_tags, text_of
from acclimate.text.untrusted import unsound

LONGEST = 10_000  # words of a sentence; in a longer one, empty lines must be missing
FEWEST_DOCUMENTS = 20  # with fewer documents, a split does not keep them whole
HEADERS = ({"word", "words", "token", "tokens", "text", "form"}, {"tag", "tags", "label", "labels", "ner", "ner_tags"})

USUAL = Columns()
TYPES = 100  # more different values in a field are hardly types of entities
BARE_TYPES = 30  # the same for types without B- or I-, which look like words
PEEKED = 400  # lines that show what the fields of a file are
COUNT = re.compile(r"\d+")
NO_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # CoNLL-U's ranges and empty nodes, in place of a count
NOTE = re.compile(r"#\s*\S+\s*=(?:\s|$)|#(?:begin|end) document\b")  # comments of CoNLL-U and CoNLL-2012
QUOTED = re.compile(r'".*"|[\d.]+|NA')  # a field of a file whose strings are between quotes
FEW_LETTERS, SAME = 0.1, 0.7  # shares of a field's values, with letters and equal to the line before: hardly words

_Lines = list[tuple[int, list[str]]]  # the lines of one sentence: number of the line, its fields


@dataclass(frozen=True)
class Fields:
    """Places of the word and the tag among the fields of a line, from 0.

    counted  True if the first field counts words
    width    number of fields of most lines; 0: not known
    tabs     True if tabs part the fields of most lines
    quoted   True if fields are between quotes, which are no part of them
    """

    word: int = 0
    tag: int = -1
    counted: bool = False
    width: int = 0
    tabs: bool = False
    quoted: bool = False

    def parts(self, line: str) -> list[str] | None:
        """Return the fields of a line; None for a comment, a range or an empty node of a file that counts words."""
        fields = line.split("\t") if "\t" in line and " " not in line else _fields(line)
        if line.startswith("#") and self.is_comment(line, fields):
            return None
        if self.counted and NO_WORD.fullmatch(fields[0]):
            return None
        if self.quoted:
            inner = (field[1:-1] if re.fullmatch('".*"', field) else field for field in fields)
            fields = [re.sub(r'["\\]"', '"', field) for field in inner]
        return fields

    def is_comment(self, line: str, fields: Sequence[str]) -> bool:
        """Return True for a comment among lines that begin with `#`, which may also begin a word."""
        if self.counted or (self.tabs and "\t" not in line) or " " in fields[0] or NOTE.match(line):
            return True
        return len(fields) != self.width > 0 and line[1:2] in (" ", "#")


def fields_of(source: Source, columns: Columns = USUAL) -> tuple[Fields, list[str]]:
    """Return the places of word and tag in a file of lines, and notes if they are not the first and the last.

    columns  a number as `text` or `label` states the field of the word or the tag, from 1
    Raises ValueError for names of columns, which lines do not have, for a field that is not there, and if another field
    than the first has the words.
    """
    numbers = {}
    for role in ("text", "label"):
        column = getattr(columns, role)
        if column == getattr(USUAL, role):
            continue
        if not isinstance(column, str) or not COUNT.fullmatch(column) or not int(column):
            raise ValueError(
                f"{option(role, str(column))}: {source.name} has one word and its tag per line, without column "
                f"names. Give the number of the field, from 1: {option(role, 'NUMBER')}"
            )
        numbers[role] = int(column) - 1
    lines = source.beginning.decode(errors="replace").splitlines()[:PEEKED]
    lines = ["" if line.startswith(DOCUMENT) else line for line in lines]
    usual = [line for line in lines if line.strip() and not line.startswith("#")] or [*filter(str.strip, lines)]
    widths = Counter(len(_fields(line)) for line in usual[: -1 if len(usual) > 1 else None])  # the last may be cut
    width = max(widths, key=lambda width: widths[width], default=0)
    fields = Fields(width=width, tabs=2 * sum("\t" in line for line in usual) > len(usual))
    fields = replace(fields, counted=_counts_words([_fields(line) if line.strip() else [] for line in lines]))
    rows = [row for line in lines if line.strip() and len(row := fields.parts(line) or []) == width]
    notes = []
    if rows and all(map(QUOTED.fullmatch, chain(*rows))) and '"' in "".join(chain(*rows)):
        fields = replace(fields, quoted=True)
        rows = [fields.parts("\t".join(row)) or [] for row in rows]
        notes = [f"{source.file}: fields are between quotes, which are removed."]
    if wanting := next((role for role, place in numbers.items() if rows and place >= width), ""):
        raise ValueError(
            f"{option(wanting, str(numbers[wanting] + 1))}: {source.name} has {width} fields per line. Name one of them"
        )
    if not rows:
        return replace(fields, word=numbers.get("text", 0), tag=numbers.get("label", -1)), notes
    word, tag = _places(source, rows, numbers, counted=fields.counted)
    fields = replace(fields, word=word, tag=tag)
    if numbers or (word, tag) == (0, -1):
        return fields, notes
    why = "the last field names no entities"
    if fields.counted:
        why = "the first field counts words"
    elif not tag:
        why = "the first field names entities"
    elif len({row[-1] for row in rows}) == 1:
        why = f"the last field is always {shown(rows[0][-1])}"
    return fields, [
        *notes,
        f"{source.file}: {why}, so field {word + 1} is read as the word and field {tag % width + 1} as its tag, "
        f"such as {shown(rows[0][word])} and {shown(rows[0][tag])}. To choose other fields: "
        f"{option('text', 'NUMBER')}, {option('label', 'NUMBER')}.",
    ]


def _counts_words(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first fields count the words of each sentence, from 0 or 1."""
    last, counts = -1, 0
    for row in rows:
        if not row:
            last = -1
        elif not row[0].startswith("#") and not NO_WORD.fullmatch(row[0]):
            if len(row) < 3 or not COUNT.fullmatch(row[0]) or int(row[0]) not in ((0, 1) if last < 0 else (last + 1,)):
                return False
            last, counts = int(row[0]), counts + 1
    return counts > 1


def _places(
    source: Source, rows: Sequence[Sequence[str]], numbers: Mapping[str, int], *, counted: bool
) -> tuple[int, int]:
    """Return the places of the word and the tag, -1 for the last. rows: fields of the first lines, of equal number"""
    values = [*zip(*rows, strict=True)]
    first, last = int(counted), len(values) - 1
    named = [place for place in range(first, last + 1) if _name_entities({*values[place]}, bare=place > first)]
    if "label" in numbers:
        tag = numbers["label"]
    elif counted:
        tag = named[0] if named else 3 if last == 9 else last
    else:
        tag = last if last in named or not named or {*values[last]} == {OUTSIDE} else named[-1]
    letters = [sum(any(map(str.isalpha, value)) for value in column) / len(rows) for column in values]
    same = [sum(map(eq, column, column[1:])) / len(rows) for column in values]
    texts = [place for place in range(last + 1) if place not in (tag, *named) and letters[place] > 1 / 2 > same[place]]
    likely = max(texts, key=lambda place: len({*values[place]}), default=first)
    word = numbers.get("text", likely if tag == first else first)
    if "text" not in numbers and word != likely and (letters[word] < FEW_LETTERS or same[word] > SAME):
        listed = ", ".join(f"{place} {shown(value)}" for place, value in enumerate(rows[0], 1))
        label = tag + 1 if tag in named or "label" in numbers else "NUMBER"
        raise ValueError(
            f"{source.name}: field {word + 1} would be the word, but its values, such as {shown(rows[0][word])}, are "
            f"no words; field {likely + 1} has words. Name the fields: {option('text', str(likely + 1))} "
            f"{option('label', str(label))}. A line has the fields {listed}"
        )
    return word, -1 if tag == last and "label" not in numbers else tag


def _name_entities(tags: Collection[str], *, bare: bool) -> bool:
    """Return True if the tags name entities. bare: types without a letter (PER) do too"""
    if len(tags) > TYPES or scheme_of(tags) is not None:
        return len(tags) <= TYPES and OUTSIDE in tags
    if are_brackets(tags):
        return True
    spelling = standard_tags(tags)
    only_types = all(usual in (f"I-{tag}", OUTSIDE) for tag, usual in spelling.items())
    return bool(spelling) and (not only_types or (bare and len(tags) <= BARE_TYPES))


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
                    f"{source.name}:{end + 1}: more than {LONGEST:,} lines without an empty one. An empty line must "
                    "end each sentence; insert them, or give a .jsonl file with lists of words"
                )
            yield at, line, document
            continue
        yield at, "", document
        end = at
        if line.startswith(DOCUMENT):
            documents += 1
            document = f"document {documents}"
    yield 0, "", document


def tagged_lines(source: Source, places: Fields) -> Iterator[Row | Rejected]:
    """Yield a Row or a Rejected for each sentence of the file. Raises ValueError if its first line holds no tag."""
    number = width = 0  # width: number of fields of the first line
    words: _Lines = []
    for at, line, document in word_lines(source):
        if not line:
            if words:
                number += 1
                yield _sentence(source, number, words, document, replace(places, width=width))
                words = []
            continue
        fields = places.parts(line)
        if fields is None:
            continue
        if not width:
            width = len(fields)
            _check_first(f"{source.name}:{at}", line, fields, places.tag)
        words.append((at, fields))
    if not number:
        raise ValueError(f"{source.name}: has no words. Write it again, or name another file")


def _fields(line: str) -> list[str]:
    if "\t" not in line:
        return [*filter(None, line.split(" "))]
    return [field.strip(" ") for field in line.split("\t")]


def _check_first(where: str, line: str, fields: Sequence[str], tag: int) -> None:
    """Raise ValueError if the first line does not hold a word and its tag."""
    way_out = (
        f"With {option('kind', 'tokens')}, each line has a word and its tag, separated by a tab or space, and an "
        f"empty line ends a sentence. Correct the file, give a .jsonl file with {option('text')} and "
        f"{option('label')}, or choose another kind"
    )
    if len(fields) < 2:
        raise ValueError(f"{where}: one field, {shown(line)}, but a word and its tag are needed. {way_out}")
    if fields[0].strip().lower() in HEADERS[0] and fields[-1].strip().lower() in HEADERS[1]:
        raise ValueError(
            f"{where}: {shown(line)} is a header, but a file of tagged words has no header. Remove the line"
        )
    if tag < len(fields) and " " in fields[tag].strip():
        raise ValueError(f"{where}: the tag is {shown(fields[tag])}, which contains a space. {way_out}")


def _sentence(source: Source, number: int, lines: _Lines, document: str, places: Fields) -> Row | Rejected:
    where, width = source.line_place(lines[0][0]), places.width
    whole = all(len(fields) == width for _, fields in lines) and places.word < width and places.tag < width
    words = [fields[places.word] for _, fields in lines] if whole else []
    tags = [fields[places.tag] for _, fields in lines] if whole else []
    if whole and _all_fit(words, tags):
        return Row(number, where, text_of(words), tuple(tags), None, document, "")
    for at, fields in lines:
        place = source.line_place(at)
        if len(fields) == 1:
            return Rejected(place, f"the word {shown(fields[0])} has no tag; add it, or remove the sentence")
        if len(fields) != width:
            return Rejected(
                place,
                f"{len(fields)} fields, but the first line has {width}: {shown(' '.join(fields))}; correct the line",
            )
        if max(places.word, places.tag) >= width:
            return Rejected(
                place, f"{width} fields, but field {max(places.word, places.tag) + 1} is needed; correct the line"
            )
        if reason := word_fault(fields[places.word], fields[places.tag]):
            return Rejected(place, reason)
    return Row(number, where, text_of(words), tuple(tags), None, document, "")


def _all_fit(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Return True if all words and tags of a sentence can be used; if False, `word_fault` must check each."""
    whole = "\n".join((*words, *tags))
    if " " in whole or "\ufffd" in whole or unsound(whole):
        return False
    return all(map(str.strip, words)) and all(map(str.strip, tags))


def word_fault(word: Any, tag: str) -> str:
    """Return why a word and its tag cannot be used; "" if they can."""
    if not isinstance(word, str):
        return f"the word {shown(word)} is not a string; write it as one"
    if not word.strip():
        return f"a word is empty: {shown(word)}, tag {shown(tag)}; remove it with its tag"
    for unit, text in (("word", word), ("tag", tag)):
        if " " in text:
            return f"the {unit} {shown(text)} contains a space, which separates words: split it into several words"
        if reason := unsound(text):
            return f"the {unit} {reason}; correct it or remove the sentence"
    return "" if tag.strip() else f"the word {shown(word)} has an empty tag; fill it in, or remove the sentence"


def check_tags(source: Source, sentences: Sequence[tuple[str, Label]], fields: Fields) -> None:
    """Raise ValueError, with file and line, for a tag that does not fit the others, such as 0 beside O and B-PER."""
    counts = Counter(tag for _, label in sentences if isinstance(label, tuple) for tag in label)
    odd = odd_tag(counts)
    if not odd:
        return
    place = next(place for place, label in sentences if isinstance(label, tuple) and odd in label)
    if source.ending in TAG_LINES:
        lines = ((at, fields.parts(line)) for at, line, _ in word_lines(source) if line)
        place = next(
            (
                source.line_place(at)
                for at, parts in lines
                if (parts and parts[-1:] == [odd]) or (parts and fields.tag < len(parts) and parts[fields.tag] == odd)
            ),
            place,
        )
    usual = max((tag for tag in counts if tag not in (odd, OUTSIDE)), key=lambda tag: (counts[tag], tag))
    raise ValueError(
        f"{place}: the tag {shown(odd)} ({counts[odd]:,} words) does not fit the others, such as {shown(usual)} "
        f"({counts[usual]:,} words) and O. Correct it, or add {option('metric', 'word_accuracy')} if tags do not "
        "mark entities"
    )


def split_documents(
    source: Source, rows: Sequence[Row | Rejected], split: Split, *, divided: bool
) -> tuple[list[Row | Rejected], list[str]]:
    """Return the sentences of a file, each document of a file of lines as a group, and a note on documents.

    divided  True if acclimate splits the file; with fewer than FEWEST_DOCUMENTS, documents are then no groups
    """
    documents = {row.group for row in rows if isinstance(row, Row) and not row.id} - {""}
    if not documents or source.ending not in TAG_LINES:
        return list(rows), []
    grouping = not divided or len(documents) >= FEWEST_DOCUMENTS
    others = [
        replace(row, group=f"{split}, {row.group}" if grouping and row.group else "") if isinstance(row, Row) else row
        for row in rows
    ]
    note = f"{split}: {len(documents):,} documents ({DOCUMENT} lines)"
    return others, [f"{note}." if grouping else f"{note}, too few to keep each in one split."]
