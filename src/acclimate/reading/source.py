"""A file of labelled rows or of texts to predict, opened once: its names, how it is read, and what its beginning shows.

Readers take a `Source` in place of a path. Only here are the safe readers of text/untrusted.py called by path.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from acclimate.reading.formats.archives import ENDINGS as ARCHIVES
from acclimate.tasks.tags import OUTSIDE, scheme_of
from acclimate.text.documents import column_classes, parquet_columns
from acclimate.text.untrusted import (
    LIMITS,
    MARK,
    ReadLimits,
    RowValues,
    check_file,
    foreign,
    json_lines,
    json_value,
    packing_of,
    parsed,
    printable,
    read_blocks,
    record_of,
    text_lines,
    unpacked_name,
)

BEGINNING = 1 << 16  # bytes of a file by which its form is recognised
PEEKED_LINES = 200  # of the beginning, which show whether a line is a word and its tag
DELIMITERS = (",", "\t", ";", "|")  # between the fields of a line
BY_ENDING = {
    ".csv": ",",
    ".tsv": "\t",
    ".jsonl": ".jsonl",
    ".json": ".json",
    ".parquet": ".parquet",
}  # where the content leaves it open
WORD_LINES = (
    ".conll",
    ".conllu",
    ".bio",
    ".iob",
    ".iob2",
    ".iobes",
    ".tags",
)  # of files with a word and its tag a line only
TAG_LINES = (".tsv", ".txt", *WORD_LINES)  # of files that may have a word and its tag a line
WORKBOOK = ".xlsx"
STREAM = b"\xff\xff\xff\xff"  # first bytes of an Arrow stream, as `datasets` writes it
DOCUMENT = "-DOCSTART-"  # begins a line between two documents
QUESTION_COLUMNS = ("context", "question", "answers")  # of the hub's SQuAD
MENTIONS = (".pubtator", ".xml", ".json")  # of documents with mentions
_NAME = rb'"(?:\\.|[^"\\])*"\s*:\s*'
_JSON_TABLE = re.compile(
    rb'\{\s*(?:"(?:columns|index|schema)"\s*:\s*[\[{]|"(?:data|rows|examples|train)"\s*:\s*\[\s*\{(?!\s*"(?:title|paragraphs)")'
    rb"|" + _NAME + rb"(?:\{\s*" + _NAME + rb'|\[\s*["\d\[tfn-]))'
)


@dataclass(frozen=True)
class Source:
    """A file, or a folder of documents with mentions.

    name    of the file in messages: its path, or what the user holds that it was made of (data/as_files.py)
    file    of the file before a row's number: the last part of its path, or as in `name`
    ending  of the file's name without its packing, such as ".csv"
    stem    what ids of rows begin with: the file's name without ending and packing, another for each file of a task
    head    first bytes as they are stored, at most HEAD; b"" for a folder
    record  what data/as_files.py recorded of a file that it wrote; {} for a file of the user's
    """

    path: Path
    name: str
    file: str
    ending: str
    stem: str
    head: bytes
    record: Mapping[str, Any]
    limits: ReadLimits

    @property
    def origin(self) -> str:
        """The name, with the commit of a dataset of the hub."""
        commit = self.record.get("commit", "")
        return f"{self.name} (commit {commit[:12]})" if commit else self.name

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield each line with its number, from 1, and its line end. Raises ValueError as `text_lines` does."""
        return text_lines(self.path, self.limits)

    def objects(self) -> Iterator[tuple[int, RowValues]]:
        """Yield the number of each line and its JSON object. Raises ValueError as `json_lines` does."""
        return json_lines(self.path, self.limits)

    def value(self) -> Any:
        """Return the JSON value in the file. Raises ValueError as `json_value` does."""
        return json_value(self.path, self.limits)

    def line_place(self, number: int) -> str:
        """Return the place of a line in messages; a file that was made of what the user holds has rows."""
        return f"{self.file}, row {number}" if self.record else f"{self.file}:{number}"

    def row_place(self, number: int) -> str:
        """Return the place of a row of a file without lines."""
        return f"{self.file}, row {number}"

    def class_names(self, column: str | tuple[str, ...]) -> list[str]:
        """Return the names of the classes whose numbers a column of a Parquet or Arrow file holds; [] for none."""
        columnar = self.head.startswith((b"PAR1", b"ARROW1", STREAM))
        return column_classes(self.path).get(column, []) if columnar and isinstance(column, str) else []

    @cached_property
    def beginning(self) -> bytes:
        """At most BEGINNING bytes, unpacked, without a byte order mark and white space before the first character.

        Raises ValueError if the file is no text.
        """
        return next(read_blocks(self.path), b"")[:BEGINNING].removeprefix(MARK).lstrip()

    @property
    def holds_questions(self) -> bool:
        """True if the file has questions in SQuAD's form, by its content, or by its name if it is packed as .zip."""
        if self.path.suffix == ".zip":
            return self.path.name.endswith(".json.zip")
        if foreign(self.head) and not packing_of(self.head):
            return False
        lists = (re.search(rb'"%s"\s*:\s*\[' % key, self.beginning) for key in (b"data", b"paragraphs"))
        return self.beginning.startswith(b"{") and all(lists)

    @property
    def has_question_rows(self) -> bool:
        """True if the rows of the file are questions as the hub's SQuAD has them: context, question and answers."""
        if self.head.startswith(b"PAR1"):
            return {*QUESTION_COLUMNS} <= {*parquet_columns(self.path, self.limits)}
        if foreign(self.head):
            return False
        if self.ending == ".json" and not self._begins_with_objects():
            return all(b'"%s"' % column.encode() in self.beginning for column in QUESTION_COLUMNS)
        if not self._begins_with_objects():
            return False
        first = parsed(self.beginning.splitlines()[0].decode(errors="replace"))
        return isinstance(first, Mapping) and {*QUESTION_COLUMNS} <= first.keys()

    @property
    def is_json_table(self) -> bool:
        """True if the file begins as one JSON object of rows or columns does (reading/formats/json_tables.py), or is
        another JSON object by its ending, without questions.
        """
        if self.ending == ".json" and self.beginning.startswith(b"{") and not self.holds_questions:
            return True
        return self.path.suffix != ".zip" and re.match(_JSON_TABLE, self.beginning) is not None

    @property
    def holds_tags(self) -> bool:
        """True if the file has a word and its tag a line, by its ending, or because it begins with tags that name
        entities: then it needs no `--kind tokens`. In a .tsv or .txt, other tags look like any second column.
        """
        if self.ending not in TAG_LINES or self.ending in WORD_LINES:
            return self.ending in WORD_LINES
        if foreign(self.head) and not packing_of(self.head):
            return False
        tags = set()
        end = -1 if len(self.beginning) > BEGINNING // 2 else None  # the last line may be cut
        lines = self.beginning.splitlines()[:end]
        for line in (line.decode(errors="replace") for line in lines[:PEEKED_LINES]):
            if line.strip() and not line.startswith((DOCUMENT, "#")):
                _, *others = line.split("\t") if "\t" in line else line.split()
                tags.add(others[-1].strip() if others else "")
        return OUTSIDE in tags and scheme_of(tags) is not None

    @property
    def holds_mentions(self) -> bool:
        """True if documents with mentions are expected: in a folder, in an archive, and by some endings."""
        return self.path.is_dir() or self.path.name.endswith(ARCHIVES) or self.ending in MENTIONS

    def table_form(self, columns: Sequence[str]) -> str:
        """Return the form of a file of rows: the delimiter of its fields, ".jsonl", ".json" (one value), ".parquet",
        ".arrow", ".xlsx"; "" if it is none of these.

        columns: names that the first line of a delimited file should have; they tell which character parts its fields
        """
        usual = "" if self.ending == ".json" and self.holds_questions else BY_ENDING.get(self.ending, "")
        if self.head.startswith(b"PAR1"):
            return ".parquet"
        if self.head.startswith((b"ARROW1", STREAM)):
            return ".arrow"
        if self.head.startswith(b"PK\x03\x04") and self.ending == WORKBOOK:
            return WORKBOOK
        if usual == ".parquet":
            return usual
        if re.match(
            rb"\[\s*[\[{\]]" if self.ending == ".json" else rb"\[\s*[{\]]", self.beginning
        ):  # of objects; a text or a header may begin with a bracket too
            return ".json"
        if self._begins_with_objects():
            return ".jsonl"
        if self.is_json_table and self.ending != ".jsonl":
            return ".json"
        line = next(iter(self.beginning.splitlines()), b"").decode(errors="replace")
        hits = {delimiter: _columns_among(columns, line, delimiter) for delimiter in DELIMITERS}
        best = max(DELIMITERS, key=lambda delimiter: (hits[delimiter], delimiter == usual))
        return best if hits[best] else usual

    def has_header(self, columns: Sequence[str], *, others: bool = False) -> bool:
        """Return True if the first line of a file with delimiters names all these columns. others: and one more"""
        if self.ending == WORKBOOK:
            return False
        line = next(iter(self.beginning.splitlines()), b"").decode(errors="replace")
        return any(
            _columns_among(columns, line, delimiter) == len({*columns})
            and (not others or line.count(delimiter) >= len({*columns}))
            for delimiter in DELIMITERS
        )

    @cached_property
    def well_quoted(self) -> bool:
        """True if every quote in a file with tabs is where RFC 4180 allows it, and no record is several whole rows.

        Reads the whole file, once.
        """
        record: list[str] = []  # its lines
        tabs = -1  # of the header

        def lines() -> Iterator[str]:
            for _, line in self.lines():
                record.append(line)
                yield line

        try:
            for fields in csv.reader(lines(), delimiter="\t", strict=True):
                tabs = len(fields) - 1 if tabs < 0 else tabs
                if len(record) > 1 and tabs > 0 and all(line.count("\t") == tabs for line in record):
                    return False
                record.clear()
        except csv.Error:
            return False
        return True

    def _begins_with_objects(self) -> bool:
        """Return True if two lines are JSON objects, or one is and the next is the beginning of another."""
        first, *others = self.beginning.splitlines()[:2] or [b""]
        two = first.startswith(b"{") and bool(others) and others[0].startswith(b"{")
        return two and isinstance(parsed(first.decode(errors="replace")), Mapping)


def open_source(path: Path, *, limits: ReadLimits = LIMITS, folder: bool = False) -> Source:
    """Return the file's names and its first bytes. folder: True if it may be a folder.

    Raises ValueError, which says what is there instead, unless it is an ordinary file that can be read.
    """
    head = b"" if folder and path.is_dir() else check_file(path)
    record = record_of(path)
    about = printable(str(record.get("about", "")))
    name, file = about or printable(str(path)), about or printable(path.name)
    stem = Path(unpacked_name(path)).stem
    return Source(path, name, file, ending_of(path), stem, head, record, limits)


def ending_of(path: Path) -> str:
    """Return the ending of the file's name without its packing, such as ".csv"."""
    return Path(unpacked_name(path)).suffix


def _columns_among(columns: Sequence[str], line: str, delimiter: str) -> int:
    """Return how many of the columns are among the fields of a line."""
    try:
        fields = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return 0
    return len(set(columns) & {field.strip() for field in fields}) if len(fields) > 1 else 0
