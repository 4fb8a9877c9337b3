import gzip
import json
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from acclimate.core.types import Rejected
from acclimate.reading.source import open_source
from acclimate.reading.tables import Columns, Row, read_rows
from acclimate.text.untrusted import LIMITS, read_blocks

ROWS = [
    {"body": 'He said "no",\nthen left', "class": "neg"},
    {"body": "naïve\ttext", "class": "pos"},
    {"body": "x" * 200_000, "class": "pos"},  # longer than the csv module's limit
]
TEXTS = [(row["body"], row["class"]) for row in ROWS]


def texts(path: Path) -> list[tuple[str, str]]:
    """Text and label of each row, all of which must be usable."""
    rows = list(read_rows(open_source(path), Columns("body", "class")))
    assert all(isinstance(row, Row) for row in rows)
    return [(row.text, row.label) for row in rows if isinstance(row, Row)]


def delimited(delimiter: str, end: str = "\r\n") -> bytes:
    lines = ["body", "class"], *([row["body"], row["class"]] for row in ROWS)
    quoted = (delimiter.join('"' + field.replace('"', '""') + '"' for field in line) for line in lines)
    return end.join(quoted).encode()


CONTENT = {
    ".csv": delimited(","),
    ".tsv": delimited("\t"),
    ".jsonl": "".join(json.dumps(row) + "\n\n" for row in ROWS).encode(),
}


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("ending", CONTENT)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_every_format_reads_the_same_examples(tmp_path, ending, packing, mark):
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[packing]
    path = tmp_path / f"some{ending}{packing}"
    content = mark + CONTENT[ending]
    # two members or frames, as parallel compressors write them
    path.write_bytes(pack(content[:50]) + pack(content[50:]))
    assert texts(path) == TEXTS


def arrow(rows: list[dict[str, str]], writer_of: Callable[..., Any]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows)
    with writer_of(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


PLAIN = [{"body": "one, two", "class": "neg"}, {"body": "three; four", "class": "pos"}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", gzip.compress(b"body\tclass\none, two\tneg\nthree; four\tpos\n", mtime=0)),
        ("a.csv", b"body\tclass\none, two\tneg\nthree; four\tpos\n"),
        ("a.csv", gzip.compress(b'body,class\n"one, two",neg\nthree; four,pos\n', mtime=0)),
        ("a.csv", "\n".join(map(json.dumps, PLAIN)).encode()),
        ("a.csv", b'[id],body,class\n1,"one, two",neg\n2,three; four,pos\n'),  # no JSON
        ("a.tsv", b'class;body\nneg;one, two\npos;"three; four"\n'),
        ("a.gz", b"class|body\nneg|one, two\npos|three; four\n"),
        ("a.json", json.dumps(PLAIN, indent=1).encode()),
        ("a.json", "\n".join(map(json.dumps, PLAIN)).encode()),
        ("a.feather", arrow(PLAIN, pa.ipc.new_file)),
        ("data-00000.arrow", arrow(PLAIN, pa.ipc.new_stream)),
        ("a", zstandard.compress(b"body\tclass\none, two\tneg\nthree; four\tpos\n")),
    ],
)
def test_a_files_content_tells_its_format(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    assert not open_source(path).holds_questions
    assert texts(path) == [(row["body"], row["class"]) for row in PLAIN]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", delimited(",", "\n")),
        ("a.csv", delimited(",", "\r")),
        ("a.parquet", arrow(ROWS, pa.parquet.ParquetWriter)),
    ],
)
def test_every_line_end_ends_a_record_and_parquet_has_none(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert texts(tmp_path / name) == TEXTS


def test_optional_columns_and_unchecked_labels(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"t": "a", "l": 1, "p": "b", "g": "doc", "i": 7.0},
        {"t": "c", "l": True, "p": None, "g": "", "i": "x"},
        {"t": "d", "l": 2.0, "i": "y"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    rows = read_rows(open_source(path), Columns("t", "l", "p", "g", "i"))
    assert [*rows] == [
        Row(1, "pairs.jsonl:1", "a", 1, "b", "doc", "7"),
        Row(2, "pairs.jsonl:2", "c", True, None, "", "x"),
        Row(3, "pairs.jsonl:3", "d", 2.0, None, "", "y"),
    ]


def test_rows_that_cannot_be_used_are_told_among_the_others(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('label,text\nyes,\n\nno,"two\nlines"\nmaybe\n')
    empty, sound, ragged = read_rows(open_source(path), Columns())
    assert (empty.place, sound.place, ragged.place) == ("a.csv:2", "a.csv:4", "a.csv:6")
    assert isinstance(empty, Rejected)
    assert isinstance(ragged, Rejected)
    assert sound == Row(2, "a.csv:4", "two\nlines", "no", None, "", "")


@pytest.mark.parametrize("text", ['"Yes', '"Yes" he said', 'he said "yes"', 'say "yes', "5' 3\""])
def test_quotes_in_a_tsv_that_is_not_quoted_are_ordinary_characters(tmp_path, text):
    path = tmp_path / "a.tsv"
    path.write_text(f'text\tlabel\n{text}\tno\n"quoted"\tyes\n"open\tyes\n')
    rows = read_rows(open_source(path), Columns())
    assert [row.text for row in rows if isinstance(row, Row)] == [text, '"quoted"', '"open']


def test_a_line_of_a_gigabyte_is_not_loaded(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n")
    with open(path, "ab") as file:
        file.truncate(1 << 30)  # a hole: it takes no room on disk
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"a.csv:2: more than 8,388,608 bytes without a line end"):
        list(read_rows(open_source(path, limits=replace(LIMITS, line=8 << 20)), Columns()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + (b"a" * 4000 + b",b\n") * (8 << 10)))
    taken: list[int] = []

    def unpack() -> None:
        for block in read_blocks(path, replace(LIMITS, grace=1 << 20)):
            taken.append(len(block))

    with pytest.raises(ValueError, match="decompression bomb"):
        unpack()
    assert max(taken) <= 1 << 20
    assert sum(taken) == pytest.approx(LIMITS.ratio * path.stat().st_size, abs=2 << 20)


def garbage(rng: random.Random, ending: str) -> bytes:
    """A file that begins well and has anything in it."""
    pieces = [b"a", b"b,c", b",", b"\n", b"\r", b'"', b"\t", b"\0", b"\xe9", "é".encode(), b"{", b"}", b"[", b"\\u"]
    pieces += [b'{"text": "x", "label": "y"}\n', b"x,y\n", b"x\ty\n", b"\xef\xbb\xbf", b"1e999", b"\x80", b"\x1b"]
    start = {".csv": b"text,label\n", ".tsv": b"text\tlabel\n", ".jsonl": b'{"text": "x", "label": "y"}\n'}[ending]
    return start + b"".join(rng.choices(pieces, k=rng.choice([3, 10, 30, 200])))


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
def test_of_any_file_every_row_is_read_or_rejected_or_the_file_is_refused(tmp_path, ending):
    read = 0
    refusals = []
    for seed in range(250):
        path = tmp_path / f"some{ending}"
        path.write_bytes(garbage(random.Random(seed), ending))
        try:
            rows = list(read_rows(open_source(path), Columns()))
        except ValueError as error:
            refusals.append(str(error))
            continue
        read += 1
        numbers = [row.number for row in rows if isinstance(row, Row)]
        # the number of an accepted row counts the rejected ones before it
        assert numbers == [number for number, row in enumerate(rows, start=1) if isinstance(row, Row)]
        assert len({row.place for row in rows}) == len(rows)
        assert all(row.reason.isprintable() for row in rows if isinstance(row, Rejected))
    assert all(f"some{ending}" in refusal and refusal.isprintable() for refusal in refusals)
    assert len(refusals) > 20
    assert read > 20
