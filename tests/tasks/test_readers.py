from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from acclimate.core.types import Example, Split
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.readers import delimited_task, read_labelled
from acclimate.tasks.task import load

ROWS = [
    {"body": 'He said "no",\nthen left', "class": "neg"},
    {"body": "naïve\ttext", "class": "pos"},
    {"body": "x" * 200_000, "class": "pos"},  # longer than the csv module's own limit
]
EXAMPLES = [Example(f"some:{number}", row["body"], row["class"]) for number, row in enumerate(ROWS, start=1)]


def delimited(delimiter: str) -> bytes:
    lines = ["body", "class"], *([row["body"], row["class"]] for row in ROWS)
    quoted = (delimiter.join('"' + field.replace('"', '""') + '"' for field in line) for line in lines)
    return "\r\n".join(quoted).encode()


CONTENT = {
    ".csv": delimited(","),
    ".tsv": delimited("\t"),
    ".jsonl": "".join(json.dumps(row) + "\n\n" for row in ROWS).encode(),
}


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("ending", CONTENT)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_every_format_reads_the_same_examples(tmp_path: Path, ending: str, packing: str, mark: bytes) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[packing]
    path = tmp_path / f"some{ending}{packing}"
    content = mark + CONTENT[ending]
    # two members or frames, as parallel compressors write them
    path.write_bytes(pack(content[:50]) + pack(content[50:]))
    assert read_labelled(path, text="body", label="class") == EXAMPLES


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), path)
    assert read_labelled(path, text="body", label="class") == EXAMPLES


def test_optional_columns_and_labels_that_are_no_strings(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"t": "a", "l": 1, "p": "b", "g": "doc", "i": 7}, {"t": "c", "l": True, "p": None, "g": "", "i": "x"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = read_labelled(path, text="t", label="l", pair="p", group="g", id="i")
    assert found == [Example("7", "a", "1", "b", "doc"), Example("x", "c", "True")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,labels\nx,y\n", r"a.csv:2: no column 'label'; the nearest is 'labels' of \['text', 'labels'\]"),
        ("a.csv", "text,text\nx,y\n", "a.csv:1: the first line must name each column once"),
        ("a.csv", "", "a.csv:1: the first line must name each column once"),
        ("a.csv", 'text,label\n"two\nlines",y\nx,y,z\n', "a.csv:4: 3 fields, but the header has 2"),
        ("a.csv", 'text,label\n\n"quoted" badly,y\n', "a.csv:3: .*quotes doubled"),
        ("a.csv", 'text,label\nx,y\n"never closed,y\nx,y\n', "a.csv:3: unexpected end of data"),
        ("a.csv", "text,label\nx,y\n ,y\n", r"a.csv:3: the text \(column 'text'\) is empty: ' '"),
        ("a.tsv", "text\tlabel\nx\t\n", r"a.tsv:2: the label \(column 'label'\) is empty: ''"),
        ("a.jsonl", '{"text": "x", "label": "y"}\n\n{"text": }\n', "a.jsonl:3: not valid JSON at column 10"),
        ("a.jsonl", "[1]\n", r"a.jsonl:1: a line must hold one JSON object; this one begins '\[1\]'"),
        (
            "a.jsonl",
            '{"text": "x", "label": 0.5}\n',
            r"a.jsonl:1: the label \(column 'label'\) is 0.5; make it a string",
        ),
        ("a.jsonl", '{"text": 3, "label": "y"}\n', r"a.jsonl:1: the text \(column 'text'\) is 3; make it a string"),
        ("a.jsonl", '{"text": "x", "label": null}\n', r"a.jsonl:1: the label \(column 'label'\) is empty: None"),
        ("a.jsonl", '{"text": "x"}\n', "a.jsonl:1: no column 'label'; the nearest is 'text'"),
        ("a.xlsx", "", "a.xlsx: the ending does not tell a known format"),
    ],
)
def test_errors_name_the_place_the_value_and_the_way_out(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_labelled(tmp_path / name, text="text", label="label")


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\ncaf\xe9,y\n")
    with pytest.raises(ValueError, match=r"a.csv, soon after row 0: .*save the file as UTF-8"):
        read_labelled(tmp_path / "a.csv", text="text", label="label")


@pytest.mark.parametrize(("packing", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_an_archive_that_is_cut_short_is_refused(tmp_path: Path, packing: str, pack: type[bytes]) -> None:
    path = tmp_path / f"a.csv{packing}"
    rows = "".join(f"text {number},label {number % 7}\n" for number in range(50_000))
    packed = pack(("text,label\n" + rows).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ValueError, match=r"a.csv.*, soon after row \d+: .*fetch the file again"):
        read_labelled(path, text="text", label="label")


def test_a_missing_file_is_the_systems_own_error(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        with pytest.raises(FileNotFoundError, match=name):
            read_labelled(tmp_path / name, text="text", label="label")


def test_delimited_task(tmp_path: Path) -> None:
    paths: dict[Split, Path] = {"train": tmp_path / "t.csv", "dev": tmp_path / "d.tsv", "test": tmp_path / "e.jsonl"}
    paths["train"].write_text("text,label\na,yes\nb,no\n")
    paths["dev"].write_text("text\tlabel\nc\tyes\n")
    paths["test"].write_text('{"text": "d", "label": "no"}\n')
    task = delimited_task("polar", paths, text="text", label="label", metric=METRICS["accuracy"], max_tokens=64)
    assert task.labels == ("no", "yes")
    # a job may run in another process
    splits = load(pickle.loads(pickle.dumps(task)), tmp_path)
    assert [example.id for examples in splits.values() for example in examples] == ["t:1", "t:2", "d:1", "e:1"]
    del paths["dev"]
    with pytest.raises(ValueError, match="polar: no file for dev"):
        delimited_task("polar", paths, text="text", label="label", metric=METRICS["accuracy"], max_tokens=64)
