"""Files of sentences whose words have tags: a line for each word and its tag, or lists in JSON Lines and Parquet.

Lines have the form of CoNLL's shared tasks and of BIO files. An empty line ends a sentence. The first field is the
word, the last the tag; tabs part the fields, or spaces if the line has no tab. A `-DOCSTART-` line begins a document,
whose sentences are a group. `Fields.is_comment` says which lines that begin with `#` are comments.

Each file's first lines show its fields (`fields_of`). If only another field than the last names entities, that is the
tag. In CoNLL-U and GermEval the first field counts the words of a sentence. The second is then the word, and the tag is
the first field that names entities, the fourth of ten (CoNLL-U's part of speech), or the last. Ranges (`1-2`) and empty
nodes (`8.1`) of CoNLL-U are no words. A first field without words is an error. A user may state both fields by number.

In a table each row may have a word and its tag; a column then says which rows are a sentence. If a document has its own
numbers of sentences, a column of documents keeps them apart.

If one word or tag cannot be used, the whole sentence is rejected, because without that word it would be another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import eq
from typing import Any

from acclimate.core.door import option
from acclimate.core.names import shown
from acclimate.core.types import Label, Rejected, Split
from acclimate.reading.labels import class_name, list_in, vector_in
from acclimate.reading.source import DOCUMENT, TAG_LINES, Source
from acclimate.reading.tables import Columns, Row, named_roles, table_rows
from acclimate.tasks.tags import (
    LISTED,
    OUTSIDE,
    are_brackets,
    converted,
    odd_tag,
    scheme_of,
    standard_tags,
    tags_of_brackets,
    text_of,
)
from acclimate.text.untrusted import RowValues, unsound

LONGEST = 10_000  # words of a sentence; in a longer one, empty lines must be missing
FEWEST_DOCUMENTS = 20  # with fewer documents, a split does not keep them whole
HEADERS = ({"word", "words", "token", "tokens", "text", "form"}, {"tag", "tags", "label", "labels", "ner", "ner_tags"})

USUAL = Columns()
TYPES = 100  # more different values in a field are hardly types of entities
BARE_TYPES = 30  # the same for types without B- or I-, which look like words
_ID = r"s?[\W_]*(?:id|idx|index|no|nr|num|number)?[\W_\d]*$"
# names of columns that number sentences, and of columns of documents
SENTENCE = re.compile(rf"(?<![a-z])(?:sent(?:ence)?{_ID}|s(?:eq(?:uence)?[\W_]*)?id$)", re.IGNORECASE)
IN_DOCUMENT = re.compile(
    rf"(?<![a-z])(?:doc(?:ument)?|file(?:[\W_]*name)?|article|abstract|paper|pm){_ID}", re.IGNORECASE
)
NEARLY = 0.95  # share of the texts that must be one word, so that a few faulty ones are named
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
        return [*_tagged_lines(source, fields or fields_of(source, columns)[0])], []
    with named_roles(columns):
        rows = _listed_rows(table_rows(source, columns.names()), columns)
    if any(isinstance(row, Row) for row in rows) or not _has_word_rows(source, columns):
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


def usual_metric(tags: Collection[str], *, metric: str, where: str) -> str:
    """Return the usual metric for these tags: entity F1 if they name entities, or else the accuracy over words.

    Raises ValueError if the stated metric cannot judge such tags.
    """
    named_entities = scheme_of(tags) is not None
    if metric == "entity_f1" and not named_entities:
        odd = next(tag for tag in sorted(tags) if scheme_of({tag, "O"}) is None and tag != "O")
        raise ValueError(
            f"metric='entity_f1': {where} has the tag {shown(odd)}, which is not O and does not begin with "
            f"{LISTED}. Correct the tags, or remove the metric (then word_accuracy)"
        )
    return "entity_f1" if named_entities else "word_accuracy"


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
        if OUTSIDE in counts:
            odd = next(tag for tag in sorted(counts) if tag != OUTSIDE and scheme_of({tag, OUTSIDE}) is None)
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


def _tagged_lines(source: Source, places: Fields) -> Iterator[Row | Rejected]:
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
        if reason := _unfit(fields[places.word], fields[places.tag]):
            return Rejected(place, reason)
    return Row(number, where, text_of(words), tuple(tags), None, document, "")


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
        return Rejected(place, f"the id (column {roles['id']!r}) is empty; fill it in or remove the row")
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
        return f"the word {shown(word)} is not a string; write it as one"
    if not word.strip():
        return f"a word is empty: {shown(word)}, tag {shown(tag)}; remove it with its tag"
    for unit, text in (("word", word), ("tag", tag)):
        if " " in text:
            return f"the {unit} {shown(text)} contains a space, which separates words: split it into several words"
        if reason := unsound(text):
            return f"the {unit} {reason}; correct it or remove the sentence"
    return "" if tag.strip() else f"the word {shown(word)} has an empty tag; fill it in, or remove the sentence"
