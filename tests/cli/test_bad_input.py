"""What a stranger may feed in, one entry a case: the files, the call, and what the message must say.

A case ends in one of three ways: an "error", one ValueError that names the file, the line or column, the value and the
way out; a row "rejected" with the same in its reason, while the others are kept; or a row "kept" as it is, where it
only looks bad. Nothing that is fed in runs: no payload leaves its file `ran` behind.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from acclimate.core.types import SPLITS, Document
from acclimate.tasks.labelled import Labelled, LabelledFiles, read_files
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.tables import delimited_task
from acclimate.text.documents import Documents, read_documents
from acclimate.text.untrusted import LIMITS

SMALL = replace(LIMITS, line=1 << 20, grace=1 << 20)  # so that a case need not be larger than the real limits

Content = bytes | str | Callable[[Path], Any]  # of a file; or what makes it, given its path
Files = Mapping[str, Content]


@dataclass(frozen=True)
class Case:
    """`says`: what the message, the place and reason of the rejected row, or a row that was read must contain.

    `around`: a context to make the call in. Names of files may have folders.
    """

    id: str
    files: Files
    call: Callable[[Path], object]
    says: tuple[str, ...]
    ends: Literal["error", "rejected", "kept"] = "error"
    around: Callable[[Path], contextlib.AbstractContextManager[object]] = lambda path: contextlib.nullcontext()


class Payload:
    """Unpickling it makes the file `ran` in the working directory, which is that of the case."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (os.system, ("touch ran",))


GOOD = [(f"the text of row {number} is like none other", "yes" if number % 2 else "no") for number in range(40)]
HEAVY = b"text,label\n" + (b"a" * 4093 + b",b\n") * (8 << 8)  # 8 MB that pack to a thousandth


def rows(*more: tuple[str, str], header: str = "text,label") -> str:
    """A CSV of the good rows, which end on line 41, and more."""
    return f"{header}\n" + "".join(f"{text},{label}\n" for text, label in (*GOOD, *more))


def jsonl(*more: Any, good: int = 40) -> str:
    """JSON lines of so many good rows, and more."""
    given = [{"text": text, "label": label} for text, label in GOOD[:good]]
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in (*given, *more))


def numbers(*more: Any) -> str:
    """JSON lines with 40 numbers to predict, and more."""
    return jsonl(*({"text": text, "label": 0.5 + row} for row, (text, _) in enumerate(GOOD)), *more, good=0)


def scores(*more: str) -> str:
    """A CSV with 40 numbers to predict, and more."""
    given = (*(str(0.5 + row) for row in range(40)), *more)
    return "text,label\n" + "".join(f"text number {row},{number}\n" for row, number in enumerate(given))


def listed(*labels: Any) -> str:
    """JSON lines with the good rows' labels as lists, and rows with these."""
    given = [{"text": text, "label": [label]} for text, label in GOOD]
    return jsonl(*given, *({"text": f"more {row}", "label": label} for row, label in enumerate(labels)), good=0)


def sentences(*more: str) -> str:
    """Lines of 40 sentences of a word of X and one of none, which end on line 120, and more."""
    return "".join(f"gene{number}\tB-X\nrow{number}\tO\n\n" for number in range(40)) + "\n\n".join(more)


def lists(*more: Any) -> str:
    """The same as 40 JSON lines of words and tags, and more."""
    good = [{"text": [f"gene{number}", f"row{number}"], "label": ["B-X", "O"]} for number in range(40)]
    return jsonl(*good, *more, good=0)


def parquet(columns: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda path: pa.parquet.write_table(pa.table(dict(columns)), path)


def labelled(name: str = "train.csv", **stated: Any) -> Callable[[Path], Labelled]:
    """The call that reads `name`; `dev`, `test` are names too."""

    def call(folder: Path) -> Labelled:
        files = {key: folder / stated[key] for key in ("dev", "test") if key in stated}
        return read_files(LabelledFiles(folder / name, **(stated | files)), limits=SMALL)

    return call


def tagged(name: str = "train.csv", **stated: Any) -> Callable[[Path], Labelled]:
    return labelled(name, kind="tokens", **stated)


@dataclass(frozen=True)
class Read:
    """All documents of a corpus, and what counted them."""

    kept: list[Document]
    counts: Documents


def raw(name: str = "corpus", **stated: Any) -> Callable[[Path], Read]:
    """The call that reads all documents of `name`."""

    def call(folder: Path) -> Read:
        documents = read_documents(folder / name, limits=SMALL, **stated)
        return Read(list(documents), documents)

    return call


def given(split: str) -> Callable[[Path], object]:
    """The call of `delimited_task`, without a file for `split`."""
    paths = {each: Path(f"{each}.csv") for each in SPLITS if each != split}
    return lambda folder: delimited_task(
        "mine", paths, text="text", label="label", metric=METRICS["accuracy"], max_tokens=16
    )


@contextlib.contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """As a user who may read nothing here."""
    os.chmod(folder / "train.csv", 0)
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def archive(*names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return packed.getvalue()


def saved(
    folder: str = "corpus", *, listed: str = "data-0.arrow", indices: Any = None, column: str = "text"
) -> dict[str, Content]:
    """A folder as `datasets` saves it."""

    def write(path: Path) -> None:
        table = pa.table({column: ["a text", "another"]})
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)

    state = {"_data_files": [{"filename": listed}], "_indices_files": indices}
    return {
        f"{folder}/data-0.arrow": write,
        f"{folder}/dataset_info.json": "{}",
        f"{folder}/state.json": json.dumps(state),
    }


def extension(path: Path) -> None:
    """An Arrow file whose column asks for a Python type out of a pickle (as pyarrow once obeyed: CVE-2023-47248)."""
    asks = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload()),
    }
    schema = pa.schema([pa.field("text", pa.string()), pa.field("other", pa.int64(), metadata=asks)])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        stream.write_table(pa.table({"text": ["a", "b"], "other": [1, 2]}, schema=schema))


def article(inside: str, *, before: str = "") -> str:
    return f"<?xml version='1.0'?>{before}<PubmedArticleSet><PubmedArticle>{inside}</PubmedArticle></PubmedArticleSet>"


TITLED = (
    "<MedlineCitation><PMID>7</PMID><Article><ArticleTitle>{}</ArticleTitle>"
    "<Abstract><AbstractText>It is so.</AbstractText></Abstract></Article></MedlineCitation>"
)
LAUGHS = (
    "<!DOCTYPE set [<!ENTITY a 'ha'>"
    + "".join(f"<!ENTITY {chr(98 + level)} '{f'&{chr(97 + level)};' * 10}'>" for level in range(9))
    + "]>"
)
OUTSIDE = "<!DOCTYPE set [<!ENTITY file SYSTEM 'file:///etc/passwd'>]>"

FILES = [  # what is wrong with the file itself
    Case("a missing file", {"trian.csv": rows()}, labelled(), ("train.csv", "no such file", "nearest", "trian.csv")),
    Case(
        "a missing folder", {}, labelled("here/train.csv"), ("here/train.csv", "no such file", "nor a folder", "Check")
    ),
    Case(
        "a folder instead of a file",
        {"train.csv/a.csv": rows()},
        labelled(),
        ("train.csv", "is a folder", "such as a.csv"),
    ),
    Case("a pipe", {"train.csv": os.mkfifo}, labelled(), ("train.csv", "a pipe or a device", "Write its content")),
    Case(
        "a link to itself",
        {"train.csv": lambda p: p.symlink_to(p)},
        labelled(),
        ("train.csv", "cannot be read", "Check"),
    ),
    Case(
        "no right to read",
        {"train.csv": rows()},
        labelled(),
        ("train.csv", "cannot be read", "ermission"),
        around=without_rights,
    ),
    Case("an empty file", {"train.csv": ""}, labelled(), ("train.csv", "is empty (0 bytes)", "Write it anew")),
    Case(
        "an empty .gz",
        {"train.csv.gz": gzip.compress(b"")},
        labelled("train.csv.gz"),
        ("train.csv.gz", "is empty", "no header", "Write it anew"),
    ),
    Case("a header only", {"train.csv": "text,label\n"}, labelled(), ("train.csv", "holds no rows", "another file")),
    Case(
        "blank lines only",
        {"train.jsonl": "\n\n"},
        labelled("train.jsonl"),
        ("train.jsonl", "holds no rows", "another"),
    ),
    Case(
        "an unknown ending",
        {"train.xlsx": rows()},
        labelled("train.xlsx"),
        ("train.xlsx", ".csv, .tsv and .jsonl", "convert"),
    ),
    Case("no ending", {"train": rows()}, labelled("train"), ("train", "ending", ".csv, .tsv and .jsonl", "Rename")),
    Case("a packed Parquet", {"a.parquet.gz": b"x"}, labelled("a.parquet.gz"), ("a.parquet.gz", "ending", "Rename")),
    Case(
        "UTF-16 with its mark",
        {"train.csv": rows().encode("utf-16")},
        labelled(),
        ("train.csv", "UTF-16LE", "iconv -f"),
    ),
    Case(
        "UTF-16 without", {"train.csv": rows().encode("utf-16-be")}, labelled(), ("train.csv", "UTF-16BE", "iconv -f")
    ),
    Case(
        "UTF-32 with its mark",
        {"train.csv": rows().encode("utf-32")},
        labelled(),
        ("train.csv", "UTF-32LE", "iconv -f"),
    ),
    Case(
        "UTF-32 without", {"train.csv": rows().encode("utf-32-be")}, labelled(), ("train.csv", "UTF-32BE", "iconv -f")
    ),
    Case(
        "UTF-16 in a .gz",
        {"train.csv.gz": gzip.compress(rows().encode("utf-16"))},
        labelled("train.csv.gz"),
        ("train.csv.gz", "UTF-16LE", "iconv -f"),
    ),
    Case(
        "Latin-1",
        {"train.csv": rows(("café", "yes")).encode("latin-1")},
        labelled(),
        ("train.csv:42", "byte 4", "0xe9", "not UTF-8", "iconv -f"),
    ),
    Case(
        "a 1 GB line",
        {"train.csv": "text,label\n" + "a" * (3 << 20)},
        labelled(),
        ("train.csv:2", "1,048,576 bytes", "line end"),
    ),
    Case(
        "a JSON line without end",
        {"train.jsonl": jsonl() + '{"text": "' + "a" * (3 << 20)},
        labelled("train.jsonl"),
        ("train.jsonl:41", "1,048,576 bytes without a line end", "Break the line up"),
    ),
    Case(
        "a cut off .gz",
        {"train.csv.gz": gzip.compress(rows().encode())[:-9]},
        labelled("train.csv.gz"),
        ("train.csv.gz", "damaged or cut off gzip", "Fetch it again"),
    ),
    Case(
        "a cut off .zst",
        {"train.csv.zst": zstandard.compress(rows().encode())[:-9]},
        labelled("train.csv.zst"),
        ("train.csv.zst", "damaged or cut off zstd", "Fetch it again"),
    ),
    Case(
        "damage in a .gz",
        {"train.csv.gz": gzip.compress(rows().encode())[:100] + bytes(200)},
        labelled("train.csv.gz"),
        ("train.csv.gz", "damaged or cut off gzip", "Fetch it again"),
    ),
    Case(
        "no gzip in a .gz",
        {"a.csv.gz": rows()},
        labelled("a.csv.gz"),
        ("a.csv.gz", "not packed with gzip", "text,lab", "Rename"),
    ),
    Case(
        "no zstd in a .zst",
        {"a.csv.zst": gzip.compress(b"a")},
        labelled("a.csv.zst"),
        ("a.csv.zst", "not packed with zstd", "it is packed with gzip", "Rename"),
    ),
    Case(
        "a bomb in a .gz",
        {"train.csv.gz": gzip.compress(HEAVY)},
        labelled("train.csv.gz"),
        ("train.csv.gz", "times its size", "bomb", "unpack it yourself"),
    ),
    Case(
        "a bomb in a .zst",
        {"train.jsonl.zst": zstandard.compress(HEAVY)},
        labelled("train.jsonl.zst"),
        ("train.jsonl.zst", "times its size", "bomb", "unpack it yourself"),
    ),
    Case(
        "one text in each row of Parquet",
        {
            "a.parquet": parquet(
                {"text": pa.DictionaryArray.from_arrays(pa.array([0] * 999), ["a" * 99_999]), "label": ["b"] * 999}
            )
        },
        labelled("a.parquet"),
        ("a.parquet", "times its size", "bomb", ".jsonl"),
    ),
    Case("NUL in a name", {}, labelled("a\0.csv"), (r"a\x00.csv", "null byte", "Name a file")),
    Case(
        "a bomb in Parquet",
        {
            "a.parquet": lambda p: pa.parquet.write_table(
                pa.table({"text": ["a" * (8 << 20)], "label": ["b"]}), p, compression="zstd"
            )
        },
        labelled("a.parquet"),
        ("a.parquet", "times its size", "bomb", ".jsonl"),
    ),
    Case(
        "more than the limit",
        {"train.csv": rows()},
        lambda p: read_files(LabelledFiles(p / "train.csv"), limits=replace(SMALL, content=1000)),
        ("train.csv", "more than 1,000 bytes", "several files"),
    ),
    Case(
        "a pickle called .csv",
        {"train.csv": pickle.dumps(Payload())},
        labelled(),
        ("train.csv", "pickle", "never opened"),
    ),
    Case(
        "a pickle called .jsonl",
        {"a.jsonl": pickle.dumps(Payload(), 2)},
        labelled("a.jsonl"),
        ("a.jsonl", "pickle", "never opened"),
    ),
    Case(
        "a pickle called .parquet",
        {"a.parquet": pickle.dumps(Payload())},
        labelled("a.parquet"),
        ("a.parquet", "not a Parquet file", "pickle"),
    ),
    Case(
        "an old pickle",
        {"train.csv": pickle.dumps(Payload(), 0)},
        labelled(),
        ("train.csv:1", "no column 'text'", "its columns are", "Name"),
    ),
    Case(
        "a packed pickle",
        {"a.csv.gz": gzip.compress(pickle.dumps(Payload()))},
        labelled("a.csv.gz"),
        ("a.csv.gz", "unpacked", "pickle"),
    ),
    Case("a zip called .csv", {"train.csv": archive("a.csv")}, labelled(), ("train.csv", "a zip archive", "Unpack it")),
    Case(
        "Excel called .csv",
        {"train.csv": archive("[Content_Types].xml", "xl/a.xml")},
        labelled(),
        ("train.csv", "Excel", "Save it as CSV"),
    ),
    Case(
        "old Excel called .csv",
        {"train.csv": b"\xd0\xcf\x11\xe0" + bytes(99)},
        labelled(),
        ("train.csv", "old Excel", "Save it as CSV"),
    ),
    Case(
        "gzip called .csv",
        {"train.csv": gzip.compress(b"a")},
        labelled(),
        ("train.csv", "packed with gzip", "ends in .gz"),
    ),
    Case(
        "Parquet called .csv",
        {"train.csv": parquet({"text": ["a"]})},
        labelled(),
        ("train.csv", "a Parquet file", "ends in .parquet"),
    ),
    Case(
        "a web page",
        {"train.csv": "\n<!DOCTYPE html><html>"},
        labelled(),
        ("train.csv", "a web page", "Download the file itself"),
    ),
    Case(
        "a Git LFS pointer",
        {"train.csv": "version https://git-lfs.github.com/spec/v1\n"},
        labelled(),
        ("train.csv", "Git LFS", "git lfs pull"),
    ),
    Case(
        "a tar in a .gz",
        {"a.csv.gz": gzip.compress(bytes(257) + b"ustar" + bytes(250))},
        labelled("a.csv.gz"),
        ("a.csv.gz", "a tar archive", "Unpack it"),
    ),
    Case(
        "no Parquet in .parquet",
        {"a.parquet": rows()},
        labelled("a.parquet"),
        ("a.parquet", "not a Parquet file", "Write it anew"),
    ),
    Case(
        "damaged Parquet",
        {"a.parquet": b"PAR1" + bytes(50) + b"PAR1"},
        labelled("a.parquet"),
        ("a.parquet", "damaged", "write it anew"),
    ),
    Case(
        "an empty Parquet",
        {"a.parquet": parquet({"text": pa.array([], "string"), "label": pa.array([], "string")})},
        labelled("a.parquet"),
        ("a.parquet", "holds no rows", "another file"),
    ),
    Case(
        "an escape code in a name",
        {"\x1b[31ma\n.csv": "a\n"},
        labelled("\x1b[31ma\n.csv"),
        (r"\x1b[31ma\n.csv:1", "no column"),
    ),
]

TABLES = [  # what is wrong with its columns and quotes
    Case(
        "a wrong column",
        {"train.csv": rows(header="text,labels")},
        labelled(),
        ("train.csv:1", "'label'", "nearest is 'labels'", "Name the right one"),
    ),
    Case(
        "a column in other case",
        {"train.csv": rows(header="Text,label")},
        labelled(),
        ("train.csv:1", "'text'", "nearest is 'Text'"),
    ),
    Case(
        "a space in the header",
        {"train.csv": rows(header="text, label")},
        labelled(),
        ("train.csv:1", "'label'", "nearest is ' label'"),
    ),
    Case(
        "no header",
        {"train.csv": "good film,yes\nbad film,no\n"},
        labelled(),
        ("train.csv:1", "no column", "'good film', 'yes'", "the first line must hold the names"),
    ),
    Case(
        "a name twice",
        {"train.csv": rows(header="text,label").replace("text,label", "text,text", 1)},
        labelled(),
        ("train.csv:1", "each column once", "['text', 'text']"),
    ),
    Case(
        "a wrong pair column",
        {"train.csv": rows()},
        labelled(pair="second"),
        ("train.csv:1", "no column 'second'", "its columns are ['text', 'label']"),
    ),
    Case(
        "a wrong group column",
        {"train.csv": rows()},
        labelled(group="doc"),
        ("train.csv:1", "no column 'doc'", "its columns are ['text', 'label']"),
    ),
    Case(
        "a wrong column in JSON",
        {"a.jsonl": jsonl()},
        labelled("a.jsonl", label="lable"),
        ("a.jsonl", "'lable'", "nearest is 'label'"),
    ),
    Case(
        "a wrong column in Parquet",
        {"a.parquet": parquet({"text": ["a"], "Label": ["b"]})},
        labelled("a.parquet"),
        ("a.parquet", "'label'", "nearest is 'Label'"),
    ),
    Case(
        "a column twice in Parquet",
        {
            "a.parquet": lambda p: pa.parquet.write_table(
                pa.Table.from_arrays([pa.array(["a"])] * 2, ["text", "text"]), p
            )
        },
        labelled("a.parquet", label="b"),
        ("a.parquet", "2 columns are called 'text'", "Rename one"),
    ),
    Case(
        "semicolons",
        {"train.csv": rows().replace(",", ";")},
        labelled(),
        ("train.csv:1", "between ';'", "Save it with commas"),
    ),
    Case(
        "tabs in a .csv",
        {"train.csv": rows().replace(",", "\t")},
        labelled(),
        ("train.csv:1", r"between '\t'", "ends in .tsv"),
    ),
    Case(
        "commas in a .tsv", {"train.tsv": rows()}, labelled("train.tsv"), ("train.tsv:1", "between ','", "ends in .csv")
    ),
    Case(
        "Excel's sep=",
        {"train.csv": "sep=;\n" + rows().replace(",", ";")},
        labelled(),
        ("train.csv:1", "sep=;", "Excel", "CSV UTF-8"),
    ),
    Case(
        "a quote never closed",
        {"train.csv": rows(('"never closed', "yes"), ("more", "no"))},
        labelled(),
        ("train.csv:42", "never closed", "doubled"),
    ),
    Case(
        "a quote never closed, long",
        {"train.csv": rows(('"open', "yes"), *[("a" * 9000, "no")] * 200)},
        labelled(),
        ("train.csv:42", "never closed", "doubled"),
    ),
    Case(
        "text after a quote",
        {"train.csv": rows(('"quoted" badly', "yes"))},
        labelled(),
        ("train.csv:42", "expected after", "doubled"),
    ),
    Case(
        "a JSON array",
        {"a.jsonl": json.dumps([{"text": "a", "label": "b"}])},
        labelled("a.jsonl"),
        ("a.jsonl:1", "a JSON array", "jq -c"),
    ),
    Case(
        "indented JSON",
        {"a.jsonl": json.dumps({"text": "a", "label": "b"}, indent=1)},
        labelled("a.jsonl"),
        ("a.jsonl", "none of 4 rows", "a.jsonl:1", "not valid JSON"),
    ),
    Case(
        "texts of numbers",
        {"a.parquet": parquet({"text": [1, 2], "label": ["a", "b"]})},
        labelled("a.parquet"),
        ("a.parquet", "none of 2 rows", "row 1", "make it a string"),
    ),
    Case(
        "no row at all is sound",
        {"train.csv": "text,label\n" + ",yes\n" * 9},
        labelled(),
        ("train.csv", "none of 9 rows", "train.csv:2", "train.csv:4", "is empty"),
    ),
    Case(
        "most rows are ragged",
        {"train.csv": rows(*[("a,b,c", "yes")] * 41)},
        labelled(),
        ("train.csv", "only 40 of 81 rows", "train.csv:42", "4 fields"),
    ),
    Case(
        "most rows lack the column",
        {"a.jsonl": jsonl(*[{"text": "a"}] * 50)},
        labelled("a.jsonl"),
        ("a.jsonl", "only 40 of 90 rows", "a.jsonl:41", "no column 'label'"),
    ),
]

ROWS = [  # what is wrong with single rows: they are rejected, the others stay
    Case(
        "an empty text",
        {"train.csv": rows(("", "yes"))},
        labelled(),
        ("train.csv:42", "'text'", "is empty", "leave the row out"),
        "rejected",
    ),
    Case(
        "a text of spaces",
        {"train.csv": rows(("  ", "yes"))},
        labelled(),
        ("train.csv:42", "'text'", "'  '", "fill it in"),
        "rejected",
    ),
    Case(
        "an empty label",
        {"train.csv": rows(("a", ""))},
        labelled(),
        ("train.csv:42", "'label'", "is empty", "leave the row out"),
        "rejected",
    ),
    Case(
        "a missing text",
        {"a.jsonl": jsonl({"label": "yes"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "no column 'text'", "the row has ["),
        "rejected",
    ),
    Case(
        "a null label",
        {"a.jsonl": jsonl({"text": "a", "label": None})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'label'", "None"),
        "rejected",
    ),
    Case(
        "NUL in a text",
        {"train.csv": rows(("a\0b", "yes"))},
        labelled(),
        ("train.csv:42", "'text'", "NUL", r"a\x00b"),
        "rejected",
    ),
    Case(
        "an escape code in a text",
        {"train.csv": rows(("\x1b]0;a\x07", "yes"))},
        labelled(),
        ("train.csv:42", "control character", r"\x1b"),
        "rejected",
    ),
    Case(
        "DEL in a text",
        {"train.csv": rows(("a\x7f", "yes"))},
        labelled(),
        ("train.csv:42", "control character", r"\x7f"),
        "rejected",
    ),
    Case(
        "an escape code in a label",
        {"train.csv": rows(("a", "\x1b[31myes"))},
        labelled(),
        ("train.csv:42", "'label'", r"\x1b[31myes"),
        "rejected",
    ),
    Case(
        "NUL in JSON",
        {"a.jsonl": jsonl({"text": "a\0", "label": "no"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "NUL", r"\x00"),
        "rejected",
    ),
    Case(
        "replacement characters only",
        {"train.csv": rows(("\ufffd\ufffd", "yes"))},
        labelled(),
        ("train.csv:42", "U+FFFD", "leave the row out"),
        "rejected",
    ),
    Case(
        "half a surrogate pair",
        {"a.jsonl": jsonl({"text": "a\ud800", "label": "no"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "surrogate", r"\ud800", "correct it"),
        "rejected",
    ),
    Case(
        "half a surrogate in a label",
        {"a.jsonl": jsonl({"text": "a", "label": "\ud800"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'label'", r"\ud800"),
        "rejected",
    ),
    Case(
        "too few fields",
        {"train.csv": rows().rstrip() + "\nalone\n"},
        labelled(),
        ("train.csv:42", "1 fields", "header has 2", "quote"),
        "rejected",
    ),
    Case(
        "too many fields",
        {"train.csv": rows(("one, two", "yes"))},
        labelled(),
        ("train.csv:42", "3 fields", "header has 2", "quote"),
        "rejected",
    ),
    Case(
        "a line that is no JSON",
        {"a.jsonl": jsonl('{"text": }')},
        labelled("a.jsonl"),
        ("a.jsonl:41", "not valid JSON at column 10", '{"text": }'),
        "rejected",
    ),
    Case(
        "a line that is no object",
        {"a.jsonl": jsonl("[1]")},
        labelled("a.jsonl"),
        ("a.jsonl:41", "one JSON object", "[1]"),
        "rejected",
    ),
    Case(
        "JSON nested too deeply",
        {"a.jsonl": jsonl("[" * 100_000)},
        labelled("a.jsonl"),
        ("a.jsonl:41", "nested", "[[["),
        "rejected",
    ),
    Case(
        "a number of 5,000 digits",
        {"a.jsonl": jsonl('{"text": "a", "label": ' + "1" * 5000 + "}")},
        labelled("a.jsonl"),
        ("a.jsonl:41", "cannot be read", "digit"),
        "rejected",
    ),
    Case(
        "a text that is a number",
        {"a.jsonl": jsonl({"text": 3, "label": "no"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'text'", "is 3", "make it a string"),
        "rejected",
    ),
    Case(
        "a label that is an object",
        {"a.jsonl": jsonl({"text": "a", "label": {"b": 1}})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "{'b': 1}", "make it a string"),
        "rejected",
    ),
    Case(
        "a group that is a list",
        {"a.jsonl": jsonl({"text": "a", "label": "no", "doc": [1]})},
        labelled("a.jsonl", group="doc"),
        ("a.jsonl:41", "'doc'", "[1]", "make it a string"),
        "rejected",
    ),
    Case(
        "a label among lists",
        {"a.jsonl": listed("no")},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'no'", "make it a list"),
        "rejected",
    ),
    Case(
        "a list among labels",
        {"a.jsonl": jsonl({"text": "z", "label": ["no"]})},
        labelled("a.jsonl", kind="sequence"),
        ("a.jsonl:41", "['no']", "one string"),
        "rejected",
    ),
    Case(
        "NaN to predict",
        {"a.jsonl": numbers({"text": "z", "label": float("nan")})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "not a finite number", "nan", "leave the row out"),
        "rejected",
    ),
    Case(
        "infinity to predict",
        {"a.csv": scores("-inf")},
        labelled("a.csv", kind="score"),
        ("a.csv:42", "'-inf'", "finite"),
        "rejected",
    ),
    Case(
        "a huge number to predict",
        {"a.jsonl": numbers({"text": "z", "label": 1e31})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "beyond 1e+30", "1e+31"),
        "rejected",
    ),
    Case(
        "no number to predict",
        {"a.jsonl": numbers({"text": "z", "label": "high"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'high'", "write a number"),
        "rejected",
    ),
    Case(
        "a decimal comma",
        {"a.jsonl": numbers({"text": "z", "label": "3,5"})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'3,5'", "with a point"),
        "rejected",
    ),
    Case(
        "true to predict",
        {"a.jsonl": numbers({"text": "z", "label": True})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "True", "write a number"),
        "rejected",
    ),
]


LABELS = [  # what the labels together cannot be
    Case(
        "texts as labels",
        {"a.jsonl": jsonl(*({"text": label, "label": text * 99} for text, label in GOOD), good=0)},
        labelled("a.jsonl"),
        ("a.jsonl:1", "bears the label 'the text of row 0", "for 40 labels", "give files for dev and test"),
    ),
    Case(
        "classes and decimals",
        {"a.jsonl": jsonl({"text": "z", "label": 0.5})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'label'", "0.5", "make it a string"),
        "rejected",
    ),
    Case(
        "a gap among classes",
        {"a.jsonl": jsonl({"text": "z", "label": float("nan")})},
        labelled("a.jsonl"),
        ("a.jsonl:41", "'label'", "is empty", "nan"),
        "rejected",
    ),
    Case(
        "labels that differ by case",
        {"train.csv": rows(("a", "Yes"), ("b", "Yes"))},
        labelled(),
        ("train.csv:42", "'Yes'", "'yes' (20 rows", "--fold-labels"),
    ),
    Case(
        "labels that differ by spaces",
        {"train.csv": rows(("a", " yes"))},
        labelled(),
        ("train.csv:42", "' yes'", "'yes' (20 rows", "--fold-labels"),
    ),
    Case(
        "labels that differ in composition",
        {"train.csv": rows(("a", "é"), ("b", "e\u0301"))},
        labelled(),
        ("train.csv:4", r"'e\u0301'", r"'\xe9'", "--fold-labels"),
    ),
    Case(
        "a dev label in other case",
        {"train.csv": rows(), "dev.csv": rows(("a", "NO"))},
        labelled(dev="dev.csv"),
        ("dev.csv:42", "'NO'", "'no' (40 rows", "--fold-labels"),
    ),
    Case(
        "a dev label unseen in train",
        {"train.csv": rows(), "dev.csv": rows(("a", "yess"))},
        labelled(dev="dev.csv"),
        ("dev.csv:42", "'yess'", "nearest there is 'yes' (20 rows)", "Correct it"),
    ),
    Case(
        "a test label unseen in train",
        {"train.csv": rows(), "test.tsv": "text\tlabel\na\tmaybe\n"},
        labelled(test="test.tsv"),
        ("test.tsv:2", "'maybe'", "nearest", "train.csv"),
    ),
    Case(
        "a label of several unseen in train",
        {"a.jsonl": listed(), "d.jsonl": listed(["yes", "new"])},
        labelled("a.jsonl", dev="d.jsonl"),
        ("d.jsonl:41", "'new'", "nearest"),
    ),
    Case(
        "an escape code in an unseen label",
        {"train.csv": rows(), "dev.csv": rows(("a", "\u202eno"))},
        labelled(dev="dev.csv"),
        ("dev.csv:42", r"'\u202eno'", "nearest there is 'no'"),
    ),
    Case(
        "one class",
        {"train.csv": rows().replace(",no\n", ",yes\n")},
        labelled(),
        ("train.csv", "'label'", "every row bears the label 'yes'", "add rows"),
    ),
    Case(
        "one class in lists",
        {"a.jsonl": jsonl(*({"text": text, "label": ["x"]} for text, _ in GOOD), good=0)},
        labelled("a.jsonl"),
        ("a.jsonl", "'x'", "add rows"),
    ),
    Case(
        "no class in any list",
        {"a.jsonl": jsonl(*({"text": text, "label": []} for text, _ in GOOD), good=0)},
        labelled("a.jsonl"),
        ("a.jsonl", "no row bears any label", "add rows"),
    ),
    Case(
        "one example of a class",
        {"train.csv": rows(("a", "maybe"))},
        labelled(),
        ("train.csv:42", "'maybe'", "train", "Add rows"),
    ),
    Case(
        "one example of a class, dev to make",
        {"train.csv": rows(("a", "maybe")), "test.csv": rows()},
        labelled(test="test.csv"),
        ("train.csv:42", "'maybe'", "dev", "Add rows"),
    ),
    Case(
        "always the same number",
        {"a.csv": "text,label\n" + "".join(f"t{n},1.0\n" for n in range(40))},
        labelled("a.csv", kind="score"),
        ("a.csv", "1.0 in every row", "right column"),
    ),
    Case(
        "numbers or classes",
        {"a.csv": scores()},
        labelled("a.csv"),
        ("a.csv", "'label'", "40 different numbers", "'0.5'", "--kind score or --kind sequence"),
    ),
    Case(
        "classes as numbers to predict",
        {"train.csv": rows()},
        labelled(kind="score"),
        ("train.csv", "none of 40 rows", "train.csv:2", "'no'", "write a number"),
    ),
    Case(
        "a separator never met",
        {"train.csv": rows()},
        labelled(separator=";"),
        ("train.csv", "'label'", "separator ';'", "'no'", "leave it out"),
    ),
    Case(
        "a separator for lists",
        {"a.jsonl": listed()},
        labelled("a.jsonl", separator=";"),
        ("a.jsonl", "separator ';'", "lists", "leave it out"),
    ),
    Case(
        "several labels without a separator",
        {"train.csv": rows()},
        labelled(kind="multilabel"),
        ("train.csv", "'label'", "'no'", "State the separator"),
    ),
    Case(
        "too few rows to split",
        {"train.csv": "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(19))},
        labelled(),
        ("train.csv", "19 rows", "it takes 20", "Add rows"),
    ),
    Case(
        "one text only",
        {"train.csv": "text,label\n" + "".join(f"same,{n % 2}\n" for n in range(40))},
        labelled(),
        ("train.csv", "40 rows cannot be split into", "stay together", "Give --dev and --test files"),
    ),
    Case(
        "one group only",
        {"a.jsonl": jsonl(*({"text": text, "label": label, "doc": "d"} for text, label in GOOD), good=0)},
        labelled("a.jsonl", group="doc"),
        ("a.jsonl", "40 rows cannot be split into", "stay together", "only 1 set of", "--group"),
    ),
    Case(
        "a group in two files",
        {
            "a.jsonl": jsonl(*({"text": text, "label": label, "doc": text} for text, label in GOOD), good=0),
            "b.jsonl": jsonl({"text": "a", "label": "no", "doc": GOOD[3][0]}, good=0),
        },
        labelled("a.jsonl", dev="b.jsonl", group="doc"),
        ("b.jsonl:1", "group 'the text of row 3", "also stands in train (a.jsonl:4)", "Move the whole group"),
    ),
    Case(
        "an id twice",
        {"a.jsonl": jsonl(*({"text": text, "label": label, "id": 7} for text, label in GOOD), good=0)},
        labelled("a.jsonl", id="id"),
        ("a.jsonl:2", "'7'", "a.jsonl:1", "take the copy out"),
    ),
    Case(
        "an id in two files",
        {
            "a.csv": "id,text,label\n" + "".join(f"{n},t{n},{n % 2}\n" for n in range(40)),
            "b.csv": "id,text,label\n7,a,1\n",
        },
        labelled("a.csv", test="b.csv", id="id"),
        ("b.csv:2", "'7'", "a.csv:9", "correct it"),
    ),
    Case(
        "an empty id",
        {"a.csv": "id,text,label\n" + "".join(f"{n},t{n},{n % 2}\n" for n in range(40)) + ",z,1\n"},
        labelled("a.csv", id="id"),
        ("a.csv:42", "'id'", "is empty"),
        "rejected",
    ),
]

STATED = [  # what is asked for
    Case("an unknown metric", {"train.csv": rows()}, labelled(metric="makro_f1"), ("'makro_f1'", "macro_f1")),
    Case(
        "a metric of another kind",
        {"train.csv": rows()},
        labelled(metric="pearson"),
        ("'pearson'", "score", "'sequence'", "Leave it out"),
    ),
    Case(
        "an unknown kind",
        {"train.csv": rows()},
        labelled(kind="scores"),
        ("kind='scores'", "nearest is 'score'", "State one"),
    ),
    Case("too few tokens", {"train.csv": rows()}, labelled(max_tokens=7), ("max_tokens=7", "at least 8")),
    Case(
        "text and label in one column",
        {"train.csv": rows()},
        labelled(label="text"),
        ("label='text'", "same column as text", "Name two columns"),
    ),
    Case(
        "text and pair in one column",
        {"train.csv": rows()},
        labelled(pair="text"),
        ("pair='text'", "same column as text", "Name two columns"),
    ),
    Case(
        "a separator for one class",
        {"train.csv": rows()},
        labelled(separator=",", kind="sequence"),
        ("separator=','", "kind='sequence'", "multilabel"),
    ),
    Case(
        "train as test",
        {"train.csv": rows()},
        labelled(test="train.csv"),
        ("train.csv", "for train and for test", "Leave"),
    ),
    Case(
        "train as test, by a link",
        {"train.csv": rows(), "b.csv": lambda p: p.symlink_to("train.csv")},
        labelled(test="b.csv"),
        ("b.csv", "for train and for test", "Leave"),
    ),
    Case("no dev file", {}, given("dev"), ("mine", "no file for dev", "name one for each")),
]

TAGGED = [  # words and their tags
    Case(
        "a word without a tag",
        {"train.conll": sentences("p53 O\nmice\n")},
        tagged("train.conll"),
        ("train.conll:122", "'mice' has no tag", "leave the sentence out"),
        "rejected",
    ),
    Case(
        "a word with an empty tag",
        {"train.tsv": sentences("p53\t\nmice\tO\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "'p53' has an empty tag", "fill it in"),
        "rejected",
    ),
    Case(
        "a tag without a word",
        {"train.tsv": sentences("\tO\nmice\tO\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "a word is empty: ''", "take it out"),
        "rejected",
    ),
    Case(
        "two words before a tag",
        {"train.tsv": sentences("New York\tB-X\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "'New York' holds a space", "several words"),
        "rejected",
    ),
    Case(
        "more columns than elsewhere",
        {"train.tsv": sentences("p53\tNN\tO\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "3 fields, but the first line has 2", "correct the line"),
        "rejected",
    ),
    Case(
        "NUL in a word",
        {"train.tsv": sentences("p\x0053\tO\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "NUL", "leave the sentence out"),
        "rejected",
    ),
    Case(
        "fewer tags than words",
        {"a.jsonl": lists({"text": ["p53", "is"], "label": ["O"]})},
        tagged("a.jsonl"),
        ("a.jsonl:41", "2 words (column 'text'), but 1 tags (column 'label')", "one tag a word"),
        "rejected",
    ),
    Case(
        "a text for words",
        {"a.jsonl": lists({"text": "p53 is", "label": ["O", "O"]})},
        tagged("a.jsonl"),
        ("a.jsonl:41", "words (column 'text') are 'p53 is'", "make them a list"),
        "rejected",
    ),
    Case(
        "no words",
        {"a.jsonl": lists({"text": [], "label": []})},
        tagged("a.jsonl"),
        ("a.jsonl:41", "words (column 'text') are []", "make them a list"),
        "rejected",
    ),
    Case(
        "a number for a word",
        {"a.jsonl": lists({"text": ["p53", 7], "label": ["O", "O"]})},
        tagged("a.jsonl"),
        ("a.jsonl:41", "the word 7 is no string", "write it"),
        "rejected",
    ),
    Case(
        "a list for a tag",
        {"a.jsonl": lists({"text": ["p53"], "label": [["O"]]})},
        tagged("a.jsonl"),
        ("a.jsonl:41", "label", "make it a string"),
        "rejected",
    ),
    Case(
        "a list for an id",
        {"a.jsonl": lists({"text": ["p53"], "label": ["O"], "name": [1]})},
        tagged("a.jsonl", group="name"),
        ("a.jsonl:41", "the group (column 'name') is [1]", "make it a string"),
        "rejected",
    ),
    Case(
        "a table with a header",
        {"train.tsv": "text\tlabel\n" + sentences()},
        tagged("train.tsv"),
        ("train.tsv:1", "names columns", "Remove it"),
    ),
    Case(
        "a table of texts",
        {"train.tsv": "A sentence on mice.\tpositive class\n" * 9},
        tagged("train.tsv"),
        ("train.tsv:1", "the tag is 'positive class', which holds a space", "another kind"),
    ),
    Case(
        "words without tags",
        {"train.txt": "p53\nis\n\nnew\n"},
        tagged("train.txt"),
        ("train.txt:1", "one field, 'p53'", "a word and its tag", "another kind"),
    ),
    Case(
        "a CSV of words",
        {"train.csv": "p53,O\n"},
        tagged(),
        ("train.csv", "format of tagged words", ".conll", ".jsonl", "convert"),
    ),
    Case(
        "no empty line",
        {"train.tsv": "p53\tB-X\nis\tO\n" * 6_000},
        tagged("train.tsv"),
        ("train.tsv:1", "more than 10,000 lines without an empty one", "end each sentence"),
    ),
    Case(
        "documents without words",
        {"train.tsv": "-DOCSTART- (7)\n\n\n"},
        tagged("train.tsv"),
        ("train.tsv", "holds no words", "another file"),
    ),
    Case("an empty file of words", {"train.tsv": ""}, tagged("train.tsv"), ("train.tsv", "holds no words", "Write")),
    Case(
        "one tag only",
        {"train.tsv": sentences().replace("B-X", "O")},
        tagged("train.tsv"),
        ("train.tsv", "every word has the tag 'O'", "Name the right file"),
    ),
    Case(
        "a tag that train lacks",
        {"train.tsv": sentences(), "test.tsv": "p53\tB-Y\n"},
        tagged("train.tsv", test="test.tsv"),
        ("test.tsv:1", "'B-Y' does not occur in", "nearest there is 'B-X' (40 words)", "Correct it"),
    ),
    Case(
        "tags that differ by case",
        {"train.tsv": sentences("p53\tb-x\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "'b-x' also occurs as 'B-X' (40 words", "--fold-labels"),
    ),
    Case(
        "tags of BMES",
        {"train.tsv": sentences("p53\tM-X\n")},
        tagged("train.tsv"),
        ("train.tsv", "'M-X'", "BMES", "M- to I-"),
    ),
    Case(
        "entity F1 of parts of speech",
        {"train.tsv": sentences().replace("B-X", "NN")},
        tagged("train.tsv", metric="entity_f1"),
        ("train.tsv", "'NN'", "does not begin with B-", "word_accuracy"),
    ),
    Case(
        "accuracy of tagged words",
        {"train.tsv": sentences()},
        tagged("train.tsv", metric="accuracy"),
        ("metric='accuracy'", "kind 'tokens'", "word_accuracy"),
    ),
    Case(
        "pairs of tagged words",
        {"train.tsv": sentences()},
        tagged("train.tsv", pair="other"),
        ("pair='other'", "kind 'tokens'", "Leave it out"),
    ),
    Case(
        "a long line of words",
        {"train.tsv": sentences("p" * (3 << 20) + "\tO\n")},
        tagged("train.tsv"),
        ("train.tsv:121", "without a line end", "Break the line up"),
    ),
    Case(
        "a bomb of words",
        {"train.tsv.gz": lambda p: p.write_bytes(gzip.compress(b"p53\tO\n\n" * (1 << 20)))},
        tagged("train.tsv.gz"),
        ("train.tsv.gz", "decompression bomb"),
    ),
    Case(
        "words that are not UTF-8",
        {"train.tsv": sentences().encode() + b"caf\xe9\tO\n"},
        tagged("train.tsv"),
        ("train.tsv:121", "0xe9", "iconv"),
    ),
    Case(
        "lists of words without the kind",
        {"a.jsonl": jsonl(*json.loads(f"[{','.join(lists().splitlines())}]"), good=0)},
        labelled("a.jsonl"),
        ("a.jsonl", "make it a string", "--kind tokens"),
    ),
    Case(
        "lines of words without the kind",
        {"train.tsv": "of\tO\n" + sentences()},
        labelled("train.tsv"),
        ("train.tsv:1", "no column 'text'", "--kind tokens"),
    ),
    Case(
        "documents without the kind",
        {"train.tsv": "-DOCSTART- (7)\n\n" + sentences()},
        labelled("train.tsv"),
        ("train.tsv:1", "no column 'text'", "--kind tokens"),
    ),
    Case(
        "a zero-width word",
        {"train.tsv": sentences("\u200b\tO\n")},
        tagged("train.tsv"),
        ("'\\u200b'",),
        "kept",
    ),
    Case(
        "a hash as a word",
        {"train.conll": sentences("# O\np53 B-X\n").replace("\t", " ")},
        tagged("train.conll"),
        ("'# p53'", "('O', 'B-X')"),
        "kept",
    ),
]

CORPORA = [  # raw text
    Case("a missing corpus", {"corpora": ""}, raw(), ("corpus", "no such file", "Check the path")),
    Case(
        "a corpus of unknown endings",
        {"corpus/a.doc": "a"},
        raw(),
        ("corpus", "no file below it ends in .txt", "another folder"),
    ),
    Case("an unknown ending of a corpus", {"a.doc": "a"}, raw("a.doc"), ("a.doc", "none of .txt", "convert")),
    Case("an empty corpus", {"a.txt": ""}, raw("a.txt"), ("a.txt", "holds no document", "another")),
    Case(
        "a folder that links to itself",
        {"corpus/loop": lambda p: p.symlink_to(p.parent)},
        raw(),
        ("corpus", "no file below it", "another folder"),
    ),
    Case(
        "Latin-1 in a corpus",
        {"corpus/a.txt": "one\ncafé\n".encode("latin-1")},
        raw(),
        ("a.txt:2", "byte 4", "0xe9", "iconv -f"),
    ),
    Case("UTF-16 in a corpus", {"corpus/a.txt": "one\n".encode("utf-16")}, raw(), ("a.txt", "UTF-16LE", "iconv -f")),
    Case("a document without end", {"a.txt": "a" * (3 << 20)}, raw("a.txt"), ("a.txt:1", "1,048,576", "Break")),
    Case(
        "a block without end",
        {"a.txt": "abc\n" * (1 << 19)},
        raw("a.txt", separated="blank"),
        ("a.txt:1", "1,048,576", "separated=line"),
    ),
    Case(
        "a bomb in a corpus",
        {"a.txt.gz": gzip.compress(HEAVY)},
        raw("a.txt.gz"),
        ("a.txt.gz", "bomb", "unpack it yourself"),
    ),
    Case(
        "a cut off corpus",
        {"a.txt.gz": gzip.compress(os.urandom(500).hex().encode())[:-9]},
        raw("a.txt.gz"),
        ("a.txt.gz", "cut off", "Fetch it again"),
    ),
    Case(
        "a pickle among texts",
        {"corpus/a.txt": pickle.dumps(Payload()), "corpus/b.txt": "b"},
        raw(),
        ("a.txt", "pickle", "never opened"),
    ),
    Case(
        "a corpus without the field",
        {"a.jsonl": '{"body": "a"}\n'},
        raw("a.jsonl"),
        ("a.jsonl", "'text'", "its fields are ['body']", "Rename"),
    ),
    Case(
        "a Parquet corpus without the field",
        {"a.parquet": parquet({"body": ["a"]})},
        raw("a.parquet"),
        ("a.parquet", "'text'", "'body'", "Rename"),
    ),
    Case(
        "most documents useless",
        {"a.jsonl": '{"text": "a"}\n{"text": 1}\n{"text": 2}\n'},
        raw("a.jsonl"),
        ("a.jsonl", "2 of 3 documents", "a.jsonl:2", "is 1", "Correct"),
    ),
    Case(
        "a bad line in a corpus",
        {"a.jsonl": '{"text": "a"}\n{"text"}\n'},
        raw("a.jsonl"),
        ("a.jsonl:2", "not valid JSON at column 8", '{"text"}'),
        "rejected",
    ),
    Case(
        "a control character in a corpus",
        {"a.txt": "good\nb\x02d\n"},
        raw("a.txt"),
        ("a.txt:2", "control character", r"\x02"),
        "rejected",
    ),
    Case(
        "an id that is no id",
        {"a.jsonl": '{"text": "a"}\n{"text": "b", "id": [1]}\n'},
        raw("a.jsonl"),
        ("a.jsonl:2", "id [1]", "neither text nor a whole number"),
        "rejected",
    ),
    Case("NUL in a corpus's name", {}, raw("a\0.txt"), (r"a\x00.txt", "null byte", "Name a file")),
    Case(
        "one text in each row of a corpus",
        {"a.parquet": parquet({"text": pa.DictionaryArray.from_arrays(pa.array([0] * 999), ["a" * 99_999])})},
        raw("a.parquet"),
        ("a.parquet", "times its size", "bomb", ".jsonl"),
    ),
    Case(
        "a billion laughs",
        {"a.xml": article(TITLED.format("&j;"), before=LAUGHS)},
        raw("a.xml"),
        ("a.xml:1", "entity 'a'", "unfold", "take the declaration out"),
    ),
    Case(
        "an entity that is a file",
        {"a.xml": article(TITLED.format("&file;"), before=OUTSIDE)},
        raw("a.xml"),
        ("a.xml:1", "entity 'file'", "take the declaration out"),
    ),
    Case(
        "an unknown entity",
        {"a.xml": article(TITLED.format("&what;"), before="<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'>")},
        raw("a.xml"),
        ("a.xml:1", "entity 'what'", "Write it out"),
    ),
    Case(
        "XML of an unknown encoding",
        {"a.xml": article(TITLED.format("A")).replace("'1.0'", "'1.0' encoding='no-such'")},
        raw("a.xml"),
        ("a.xml:1", "cannot be decoded", "no-such", "UTF-8"),
    ),
    Case(
        "XML of an encoding that expat cannot take",
        {"a.xml": article(TITLED.format("A")).replace("'1.0'", "'1.0' encoding='shift_jis'")},
        raw("a.xml"),
        ("a.xml:1", "cannot be decoded", "UTF-8"),
    ),
    Case(
        "a cut off XML",
        {"a.xml": article(TITLED.format("A"))[:-60]},
        raw("a.xml"),
        ("a.xml:1", "not well-formed", "Fetch"),
    ),
    Case(
        "XML of something else",
        {"a.xml": "<set><item/></set>"},
        raw("a.xml"),
        ("a.xml", "no PubmedArticle", "'set'", "convert"),
    ),
    Case(
        "XML without bottom",
        {"a.xml": "<a>" * 1000},
        raw("a.xml"),
        ("a.xml:1", "elements within each other", "no file of this kind"),
    ),
    Case(
        "a tag without end", {"a.xml": "<a " + "b" * (3 << 20)}, raw("a.xml"), ("a.xml:1", "1,048,576 bytes", "Fetch")
    ),
    Case(
        "an article without end",
        {"a.xml": article(TITLED.format("<i>a</i>" * 99 + "a" * (1 << 20)))},
        raw("a.xml"),
        ("a.xml:1", "1,048,576 characters", "Leave it out"),
    ),
    Case(
        "an article without text",
        {"a.xml": article(TITLED.format("A") + "</PubmedArticle><PubmedArticle>")},
        raw("a.xml"),
        ("a.xml:1", "neither title nor abstract"),
        "rejected",
    ),
    Case(
        "a dataset without the field",
        saved(column="body"),
        raw(),
        ("data-0.arrow", "'text'", "its fields are ['body']", "Rename"),
    ),
    Case(
        "a dataset of files elsewhere",
        saved(listed="../data-0.arrow"),
        raw(),
        ("state.json", "'../data-0.arrow'", "Save the dataset anew"),
    ),
    Case(
        "a dataset that lacks a file",
        saved(listed="data-1.arrow"),
        raw(),
        ("data-1.arrow", "no such file", "nearest", "data-0.arrow"),
    ),
    Case(
        "a dataset of chosen rows",
        saved(indices=[{"filename": "a"}]),
        raw(),
        ("corpus", "not written out", "flatten_indices()"),
    ),
    Case(
        "a dataset with a broken state",
        {**saved(), "corpus/state.json": "[1]"},
        raw(),
        ("state.json", "save_to_disk", "anew"),
    ),
    Case(
        "a dataset damaged", {**saved(), "corpus/data-0.arrow": bytes(99)}, raw(), ("data-0.arrow", "damaged", "anew")
    ),
]

KEPT = [  # what only looks bad, or would do harm elsewhere: it is read as it stands
    Case(
        "a byte order mark",
        {"train.csv": b"\xef\xbb\xbf" + rows(("a", "yes")).encode()},
        labelled(),
        ("'a'", "'yes'"),
        "kept",
    ),
    Case(
        "mixed line ends",
        {"train.csv": rows().replace("\n", "\r\n", 9) + "a,no\rb,yes\r\nc,no\n"},
        labelled(),
        ("train:43", "'c'"),
        "kept",
    ),
    Case("a formula", {"train.csv": rows(("=HYPERLINK(1)", "yes"))}, labelled(), ("'=HYPERLINK(1)'",), "kept"),
    Case(
        "markup",
        {"train.csv": rows(("<script>alert(1)</script>", "<b>"), ("b", "<b>"))},
        labelled(),
        ("'<b>'",),
        "kept",
    ),
    Case(
        "a quoted line end",
        {"train.csv": rows(('"one\ntwo, ""three"""', "yes"))},
        labelled(),
        (r"""'one\ntwo, "three"'""",),
        "kept",
    ),
    Case(
        "a path as text", {"train.csv": rows(("../../etc/passwd", "yes"))}, labelled(), ("'../../etc/passwd'",), "kept"
    ),
    Case(
        "JSON that names code",
        {"a.jsonl": jsonl({"text": "a", "label": "no", "__reduce__": ["os.system", ["touch ran"]]})},
        labelled("a.jsonl"),
        ("'a'",),
        "kept",
    ),
    Case(
        "white space of all kinds",
        {"a.jsonl": jsonl({"text": "a\t\r\n\f\vb", "label": "no"})},
        labelled("a.jsonl"),
        (r"'a\t\r\n\x0c\x0bb'",),
        "kept",
    ),
    Case(
        "Arrow that asks for a pickle",
        {**saved(), "corpus/data-0.arrow": extension},
        raw(),
        ("data-0.arrow:2", "'b'"),
        "kept",
    ),
    Case(
        "a document type elsewhere",
        {"a.xml": article(TITLED.format("A"), before="<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'>")},
        raw("a.xml"),
        ("id='7'", r"'A\nIt is so.'"),
        "kept",
    ),
    Case(
        "a folder in a circle",
        {"corpus/a.txt": "one", "corpus/loop": lambda p: p.symlink_to(p.parent)},
        raw(),
        ("'a.txt:1'", "'one'"),
        "kept",
    ),
]

CASES = [*FILES, *TABLES, *ROWS, *LABELS, *STATED, *TAGGED, *CORPORA, *KEPT]


def place(folder: Path, files: Files) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(file)
        else:
            file.write_bytes(content.encode() if isinstance(content, str) else content)


def kept_in(outcome: object) -> list[str]:
    """What was read, in the order of the file, spelt out."""
    if isinstance(outcome, Labelled):
        kept = [example for rows in outcome.splits.values() for example in rows]
        return [repr(example) for example in sorted(kept, key=lambda example: int(example.id.rpartition(":")[2]))]
    assert isinstance(outcome, Read)
    return [repr(document) for document in outcome.kept]


def rejected_in(outcome: object) -> list[str]:
    """Place and reason of each rejected row, once it is sure that every row is accounted for."""
    if isinstance(outcome, Labelled):
        assert all(read.rows == read.accepted + len(read.rejected) for read in outcome.files)
        assert sum(map(len, outcome.splits.values())) == sum(read.accepted for read in outcome.files)
        return [f"{rejected.place}: {rejected.reason}" for read in outcome.files for rejected in read.rejected]
    assert isinstance(outcome, Read)
    assert outcome.counts.rows == outcome.counts.accepted + outcome.counts.rejections
    assert outcome.counts.accepted == len(outcome.kept)
    return [f"{rejected.place}: {rejected.reason}" for rejected in outcome.counts.rejected]


def test_there_are_enough_cases_each_with_a_name_of_its_own() -> None:
    assert len(CASES) >= 100
    assert len({case.id for case in CASES}) == len(CASES)


def test_a_payload_that_is_unpickled_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Payload()))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_bad_input_is_told(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place(tmp_path, case.files)
    if case.ends == "error":
        with case.around(tmp_path), pytest.raises(ValueError) as caught:  # noqa: PT011 (its message is looked at below)
            case.call(tmp_path)
        message = str(caught.value)
    else:
        outcome = case.call(tmp_path)
        told, kept = rejected_in(outcome), kept_in(outcome)
        assert len(told) == (case.ends == "rejected")
        message = told[0] if told else kept[-1]
    assert [words for words in case.says if words not in message] == [], message
    # no terminal obeys it, and it fits on a screen
    assert message.isprintable(), repr(message)
    assert len(message) < 1500
    assert not (tmp_path / "ran").exists()
