"""What a stranger may feed in, one entry a case: the files, the call, and what the message must say.

A case ends in one of three ways: an "error", one ValueError that names the file, the line or column, the value and the
way out; a row "rejected" with the same in its reason, while the others are kept; or a row "kept" as it is, where it
only looks bad. Nothing that is fed in runs: no payload leaves its file `ran` behind.
"""

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

from acclimate.core.types import Document
from acclimate.reading.labelled import Labelled, read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.text.documents import Documents, read_documents
from acclimate.text.untrusted import LIMITS

SMALL = replace(LIMITS, line=1 << 20, grace=1 << 20)  # so that a case need not be larger than the real limits

Content = bytes | str | Callable[[Path], Any]  # of a file; or what makes it, given its path
Files = Mapping[str, Content]
Ends = Literal["error", "rejected", "kept"]


@dataclass(frozen=True)
class Case:
    """`says`: what the message, the place and reason of the rejected row, or a row that was read must contain, parted
    by bars, with @ for the name of the file. `around`: a context to make the call in. Names may have folders.
    """

    id: str
    files: Files
    call: Callable[[Path], object]
    says: str
    ends: Ends = "error"
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


def labels_of(made: Callable[[str, str], tuple[Any, Any]]) -> str:
    """JSON lines of the texts and labels that are made of those of the good rows."""
    return jsonl(*(dict(zip(("text", "label"), made(*row), strict=True)) for row in GOOD), good=0)


def grouped(group: Callable[[str], str]) -> str:
    """JSON lines of the good rows with the group of each text."""
    return jsonl(*({"text": text, "label": label, "doc": group(text)} for text, label in GOOD), good=0)


def numbered_rows(count: int = 40) -> str:
    """A CSV of short rows with ids from 0 on."""
    return "id,text,label\n" + "".join(f"{n},t{n},{n % 2}\n" for n in range(count))


def listed(*labels: Any) -> str:
    """JSON lines with the good rows' labels as lists, and rows with these."""
    given = [{"text": text, "label": [label]} for text, label in GOOD]
    return jsonl(*given, *({"text": f"more {row}", "label": label} for row, label in enumerate(labels)), good=0)


def sentences(*more: str) -> str:
    """Lines of 40 sentences of a word of X and one of none, which end on line 120, and more."""
    return "".join(f"gene{number}\tB-X\nrow{number}\tO\n\n" for number in range(40)) + "\n\n".join(more)


MIXED = "".join(f"gene{number}\tB-X\nrow\tE-X\nno{number}\tU-X\nother\tO\n\n" for number in range(40))
PARTS_OF_SPEECH = sentences().replace("B-X", "NN")  # tags that no content tells from a second column


def word_lists(*more: Any) -> str:
    """The same as 40 JSON lines of words and tags, and more."""
    good = [{"text": [f"gene{number}", f"row{number}"], "label": ["B-X", "O"]} for number in range(40)]
    return jsonl(*good, *more, good=0)


def parquet(columns: Mapping[str, Any]) -> Callable[[Path], None]:
    return lambda path: pa.parquet.write_table(pa.table(dict(columns)), path)


def one_text(**columns: Any) -> Callable[[Path], None]:
    """Parquet of 999 rows of one long text, which is stored once, and other columns."""
    return parquet({"text": pa.DictionaryArray.from_arrays(pa.array([0] * 999), ["a" * 99_999]), **columns})


def few_texts(path: Path) -> None:
    """Parquet of 4,000 rows with one of 300 long texts each, all of which every batch of rows holds."""
    texts = [f"{number} {os.urandom(500).hex()}" for number in range(300)]
    pa.parquet.write_table(
        pa.table({"text": pa.DictionaryArray.from_arrays(pa.array([row % 300 for row in range(4_000)]), texts)}), path
    )


def packed_text(path: Path) -> None:
    pa.parquet.write_table(pa.table({"text": ["a" * (8 << 20)], "label": ["b"]}), path, compression="zstd")


def texts_twice(path: Path) -> None:
    pa.parquet.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, ["text", "text"]), path)


def loop(path: Path) -> None:
    path.symlink_to(path.parent)


def link_to_train(path: Path) -> None:
    path.symlink_to("train.csv")


def labelled(name: str = "train.csv", **stated: Any) -> Callable[[Path], Labelled]:
    """The call that reads `name`; `dev`, `test` are names too."""

    def call(folder: Path) -> Labelled:
        files = {key: folder / stated[key] for key in ("dev", "test") if key in stated}
        return read_files(LabelledFiles(folder / name, **(stated | files)), limits=SMALL)

    return call


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


def table(case: str, name: str, content: Content, says: str, /, **stated: Any) -> Case:
    """The case of one file of labelled texts."""
    return Case(case, {name: content}, labelled(name, **stated), says.replace("@", name))


def csv(case: str, content: Content, says: str, /, **stated: Any) -> Case:
    return table(case, "train.csv", content, says, **stated)


def lines(case: str, content: Content, says: str, /, **stated: Any) -> Case:
    return table(case, "a.jsonl", content, says, **stated)


def words(case: str, name: str, content: Content, says: str, /, **stated: Any) -> Case:
    """The case of one file of tagged words."""
    return table(case, name, content, says, kind="tokens", **stated)


def tsv(case: str, content: Content, says: str, /, **stated: Any) -> Case:
    return words(case, "train.tsv", content, says, **stated)


def lists(case: str, text: Any, label: Any, says: str, /, **groups: Any) -> Case:
    """The case of a row of words and tags behind good ones; groups: the column of groups, of the row and one before."""
    content = word_lists(
        *({"text": text, "label": ["O"], name: "d"} for name in groups), {"text": text, "label": label, **groups}
    )
    return words(case, "a.jsonl", content, says, **({"group": next(iter(groups))} if groups else {}))


def split(case: str, train: str, says: str, /, **stated: Any) -> Case:
    """The case of a file of train and one of dev or test, which `stated` has with what else is stated."""
    ending = "jsonl" if train.startswith("{") else "tsv" if "\t" in train else "csv"
    files = {name: stated.pop(name) for name in ("dev", "test") if name in stated}
    names = {name: f"{name}.{ending}" for name in files} | ({"kind": "tokens"} if ending == "tsv" else {})
    contents = {f"{name}.{ending}": content for name, content in {"train": train, **files}.items()}
    return Case(case, contents, labelled(f"train.{ending}", **names, **stated), says)


def corpus(case: str, name: str, content: Content, says: str, /, **stated: Any) -> Case:
    """The case of one file of raw text."""
    return Case(case, {name: content}, raw(name, **stated), says.replace("@", name))


def below(case: str, files: Files, says: str, /) -> Case:
    """The case of a folder of raw text."""
    return Case(case, {f"corpus/{name}": content for name, content in files.items()}, raw(), says)


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


def saved(*, listed: str = "data-0.arrow", indices: Any = None, column: str = "text") -> dict[str, Content]:
    """A folder as `datasets` saves it."""

    def write(path: Path) -> None:
        table = pa.table({column: ["a text", "another"]})
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)

    state = {"_data_files": [{"filename": listed}], "_indices_files": indices}
    return {"data-0.arrow": write, "dataset_info.json": "{}", "state.json": json.dumps(state)}


def extension(path: Path) -> None:
    """An Arrow file whose column asks for a Python type out of a pickle (as pyarrow once obeyed: CVE-2023-47248)."""
    asks = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickle.dumps(Payload())}
    schema = pa.schema([pa.field("text", pa.string()), pa.field("other", pa.int64(), metadata=asks)])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        stream.write_table(pa.table({"text": ["a", "b"], "other": [1, 2]}, schema=schema))


def article(inside: str, *, before: str = "") -> str:
    return f"<?xml version='1.0'?>{before}<PubmedArticleSet><PubmedArticle>{inside}</PubmedArticle></PubmedArticleSet>"


TITLED = (
    "<MedlineCitation><PMID>7</PMID><Article><ArticleTitle>{}</ArticleTitle>"
    "<Abstract><AbstractText>It is so.</AbstractText></Abstract></Article></MedlineCitation>"
)
ARTICLE = f"{TITLED.format('A')}</PubmedArticle>"
LAUGHS = (
    "<!DOCTYPE set [<!ENTITY a 'ha'>"
    + "".join(f"<!ENTITY {chr(98 + level)} '{f'&{chr(97 + level)};' * 10}'>" for level in range(9))
    + "]>"
)
OUTSIDE = "<!DOCTYPE set [<!ENTITY file SYSTEM 'file:///etc/passwd'>]>"
ELSEWHERE = "<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'>"
BETWEEN = "</PubmedArticle><PubmedArticle>"
UNSEEN, SEVENTH = "text,label\na,maybe\n", "id,text,label\n7,a,1\n"

FILES = [  # what is wrong with the file itself
    Case("a missing file", {"trian.csv": rows()}, labelled(), "train.csv | no such file | nearest | trian.csv"),
    Case("a folder", {"train.csv/a.csv": rows()}, labelled(), "train.csv | is a folder | such as a.csv"),
    csv("a pipe", os.mkfifo, "@ | a pipe or a device | Write its content"),
    csv("a link to itself", lambda p: p.symlink_to(p), "@ | cannot be read | Check"),
    replace(csv("no right to read", rows(), "@ | cannot be read | ermission"), around=without_rights),
    csv("an empty file", "", "@ | is empty (0 bytes) | Write it again"),
    table("an empty .gz", "a.csv.gz", gzip.compress(b""), "@ | is empty | no header | Write it again"),
    lines("blank lines only", "\n\n", "@ | has no rows | another"),
    table("an unknown ending", "train.xlsx", "some words\n", "@ | .csv, .tsv and .jsonl | convert"),
    table("no ending", "train", "some words\n", "@ | ending | .csv, .tsv and .jsonl | convert"),
    table("a packed Parquet", "a.parquet.gz", gzip.compress(b"x"), "@ | not a Parquet file | packed with gzip"),
    csv("UTF-16 with its mark", rows().encode("utf-16"), "@ | UTF-16LE | iconv -f"),
    csv("UTF-32 with its mark", rows().encode("utf-32"), "@ | UTF-32LE | iconv -f"),
    table("UTF-16 in a .gz", "a.csv.gz", gzip.compress(rows().encode("utf-16")), "@ | UTF-16LE | iconv -f"),
    csv("Latin-1", rows(("café", "yes")).encode("latin-1"), "@:42 | byte 4 | 0xe9 | not UTF-8 | iconv -f"),
    csv("a 1 GB line", "text,label\n" + "a" * (3 << 20), "@:2 | 1,048,576 bytes | line end"),
    lines("a JSON line without end", jsonl() + '{"text": "' + "a" * (3 << 20), "@:41 | 1,048,576 bytes | Split"),
    table("a cut off .gz", "a.csv.gz", gzip.compress(rows().encode())[:-9], "@ | truncated gzip | Fetch it again"),
    table("a cut off .zst", "a.csv.zst", zstandard.compress(rows().encode())[:-9], "@ | truncated zstd | Fetch it"),
    table("no gzip in a .gz", "a.csv.gz", bytes(9) + rows().encode(), "@ | not packed with gzip | not text | Rename"),
    table("a bomb in a .gz", "a.csv.gz", gzip.compress(HEAVY), "@ | times its size | bomb | unpack it yourself"),
    table("one text in each row", "a.parquet", one_text(label=["b"] * 999), "@ | times its size | bomb | .jsonl"),
    Case("NUL in a name", {}, labelled("a\0.csv"), r"a\x00.csv | null byte | Name a file"),
    table("a bomb in Parquet", "a.parquet", packed_text, "@ | times its size | bomb | .jsonl"),
    Case(
        "more than the limit",
        {"train.csv": rows()},
        lambda p: read_files(LabelledFiles(p / "train.csv"), limits=replace(SMALL, content=1000)),
        "train.csv | more than 1,000 bytes | several files",
    ),
    csv("a pickle called .csv", pickle.dumps(Payload()), "@ | pickle | never opened"),
    lines("a pickle called .jsonl", pickle.dumps(Payload(), 2), "@ | pickle | never opened"),
    table("a pickle called .parquet", "a.parquet", pickle.dumps(Payload()), "@ | not a Parquet file | pickle"),
    csv("an old pickle", pickle.dumps(Payload(), 0), "@:1 | no column 'text' | its columns are | Name"),
    table("a packed pickle", "a.csv.gz", gzip.compress(pickle.dumps(Payload())), "@ | unpacked | pickle"),
    csv("a zip called .csv", archive("a.csv"), "@ | a zip archive | Unpack it"),
    csv("Excel called .csv", archive("[Content_Types].xml", "xl/a.xml"), "@ | Excel | Save it as CSV"),
    csv("old Excel called .csv", b"\xd0\xcf\x11\xe0" + bytes(99), "@ | old Excel | Save it as CSV"),
    csv("gzip in gzip called .csv", gzip.compress(gzip.compress(b"a")), "@ | packed with gzip | Unpack it once"),
    csv("Parquet called .csv", parquet({"text": ["a"]}), "@ | no column 'label' | ['text']"),
    csv("a web page", "\n<!DOCTYPE html><html>", "@ | a web page | Download the file itself"),
    csv("a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "@ | Git LFS | git lfs pull"),
    table("a tar in a .gz", "a.csv.gz", gzip.compress(bytes(257) + b"ustar" + bytes(250)), "@ | a tar | Unpack"),
    table("no Parquet in .parquet", "a.parquet", rows(), "@ | not a Parquet file | Write it again"),
    table("damaged Parquet", "a.parquet", b"PAR1" + bytes(50) + b"PAR1", "@ | damaged | write it again"),
    table("an empty Parquet", "a.parquet", parquet({"text": [], "label": []}), "@ | has no rows | another file"),
    table("an escape code in a name", "\x1b[31ma\n.csv", "a\n", r"\x1b[31ma\n.csv:1 | no column"),
]

TABLES = [  # what is wrong with its columns and quotes
    csv("a wrong column", rows(header="text,labels"), "@:1 | 'label' | nearest is 'labels' | --label NAME"),
    csv("a column in other case", rows(header="Text,label"), "@:1 | 'text' | nearest is 'Text'"),
    csv("a space in the header", rows(header="text, label"), "@:1 | 'label' | nearest is ' label'"),
    csv("no header", "good film,yes\nbad film,no\n", "@:1 | no column | 'good film', 'yes' | must be the names"),
    csv("a name twice", rows(header="text,text"), "@:1 | each column once | ['text', 'text']"),
    csv("a wrong pair column", rows(), "@:1 | no column 'second' | its columns are ['text', 'label']", pair="second"),
    lines("a wrong column in JSON", jsonl(), "@ | 'lable' | nearest is 'label'", label="lable"),
    table("a wrong column in Parquet", "a.parquet", parquet({"text": ["a"], "Label": ["b"]}), "@ | nearest is 'Label'"),
    table("one twice in Parquet", "a.parquet", texts_twice, "@ | 2 columns are named 'text' | Rename one", label="b"),
    csv("Excel's sep=", "sep=;\n" + rows().replace(",", ";"), "@:1 | sep=; | Excel | CSV UTF-8"),
    csv("a quote never closed", rows(('"open', "yes"), ("more", "no")), "@:42 | never closed | double the quotes"),
    csv("one in a long file", rows(('"open', "yes"), *[("a" * 9000, "no")] * 200), "@:42 | never closed | double the"),
    csv("text after a quote", rows(('"quoted" badly', "yes")), "@:42 | expected after | double the quotes"),
    lines("a broken JSON array", json.dumps([{"text": "a", "label": "b"}])[:-1], "@ | is not valid JSON | Write"),
    lines("indented JSON", json.dumps({"text": "a", "label": "b"}, indent=1), "@ | none of 4 rows | @:1 | valid JSON"),
    table("numeric texts", "a.parquet", parquet({"text": [1, 2], "label": [*"ab"]}), "@ | none of 2 | row 1 | string"),
    csv("no row at all is sound", "text,label\n" + ",yes\n" * 9, "@ | none of 9 rows | @:2 | @:4 | is empty"),
    csv("most rows are ragged", rows(*[("a,b,c", "yes")] * 41), "@ | only 40 of 81 rows | @:42 | 4 fields"),
    lines("most rows lack it", jsonl(*[{"text": "a"}] * 50), "@ | only 40 of 90 rows | @:41 | no column 'label'"),
]

ROWS = [  # what is wrong with single rows: they are rejected, the others stay
    csv("an empty text", rows(("", "yes")), "@:42 | 'text' | is empty | remove the row"),
    csv("an empty label", rows(("a", "")), "@:42 | 'label' | is empty | remove the row"),
    lines("a missing text", jsonl({"label": "yes"}), "@:41 | no column 'text' | the row has ["),
    lines("a null label", jsonl({"text": "a", "label": None}), "@:41 | 'label' | None"),
    csv("NUL in a text", rows(("a\0b", "yes")), r"@:42 | 'text' | NUL | a\x00b"),
    csv("an escape code in a text", rows(("\x1b]0;a\x07", "yes")), r"@:42 | control character | \x1b"),
    csv("an escape code in a label", rows(("a", "\x1b[31myes")), r"@:42 | 'label' | \x1b[31myes"),
    lines("NUL in JSON", jsonl({"text": "a\0", "label": "no"}), r"@:41 | NUL | \x00"),
    csv("replacement characters only", rows(("\ufffd\ufffd", "yes")), "@:42 | U+FFFD | remove the row"),
    lines("half a surrogate", jsonl({"text": "a\ud800", "label": "no"}), r"@:41 | surrogate | \ud800 | correct it"),
    csv("too few fields", rows().rstrip() + "\nalone\n", "@:42 | 1 fields | header has 2 | quote"),
    csv("too many fields", rows(("one, two", "yes")), "@:42 | 3 fields | header has 2 | quote"),
    lines("a line that is no JSON", jsonl('{"text": }'), '@:41 | not valid JSON at column 10 | {"text": }'),
    lines("a line that is no object", jsonl("[1]"), "@:41 | one JSON object | [1]"),
    lines("JSON nested too deeply", jsonl("[" * 100_000), "@:41 | nested | [[["),
    lines("5,000 digits", jsonl('{"text": "a", "label": ' + "1" * 5000 + "}"), "@:41 | cannot be read | digit"),
    lines("a text that is a number", jsonl({"text": 3, "label": "no"}), "@:41 | 'text' | is 3 | make it a string"),
    lines("a label that is an object", jsonl({"text": "a", "label": {"b": 1}}), "@:41 | {'b': 1} | make it a string"),
    lines(
        "a list of groups",
        jsonl({"text": "z", "label": "no", "doc": "d"}, {"text": "a", "label": "no", "doc": [1]}),
        "@:42 | 'doc' | [1] | a string",
        group="doc",
    ),
    lines("a label among lists", listed("no"), "@:41 | 'no' | make it a list"),
    lines("a list among labels", jsonl({"text": "z", "label": ["no"]}), "@:41 | ['no'] | one string", kind="sequence"),
    lines("NaN to predict", numbers({"text": "z", "label": float("nan")}), "@:41 | not a finite number | nan | remove"),
    table("infinity to predict", "a.csv", scores("-inf"), "@:42 | '-inf' | finite", kind="score"),
    lines("a huge number to predict", numbers({"text": "z", "label": 1e31}), "@:41 | beyond 1e+30 | 1e+31"),
    lines("no number to predict", numbers({"text": "z", "label": "high"}), "@:41 | 'high' | write a number"),
    lines("a decimal comma", numbers({"text": "z", "label": "3,5"}), "@:41 | '3,5' | with a point"),
    lines("true to predict", numbers({"text": "z", "label": True}), "@:41 | True | write a number"),
    csv("an empty id", numbered_rows() + ",z,1\n", "@:42 | 'id' | is empty", id="id"),
    words("a word without a tag", "a.conll", sentences("p53 O\nmice\n"), "@:122 | 'mice' has no tag | remove the"),
    tsv("a word with an empty tag", sentences("p53\t\nmice\tO\n"), "@:121 | 'p53' has an empty tag | fill it in"),
    tsv("a tag without a word", sentences("\tO\nmice\tO\n"), "@:121 | a word is empty: '' | remove it"),
    tsv("two words before a tag", sentences("New York\tB-X\n"), "@:121 | 'New York' contains a space | several words"),
    tsv("more columns than usual", sentences("p53\tNN\tO\n"), "@:121 | 3 fields, but the first line has 2 | correct"),
    tsv("NUL in a word", sentences("p\x0053\tO\n"), "@:121 | NUL | remove the sentence"),
    lists("fewer tags than words", ["p53", "is"], ["O"], "@:41 | 2 words (column 'text'), but 1 tags | one tag"),
    lists("a number for a word", ["p53", 7], ["O", "O"], "@:41 | the word 7 is not a string | write it"),
    lists("a list for a tag", ["p53"], [["O"]], "@:41 | label | make it a string"),
    lists("a list for an id", ["p53"], ["O"], "@:42 | the group (column 'name') is [1] | make it a string", name=[1]),
    corpus("a bad line", "a.jsonl", '{"text": "a"}\n{"text"}\n', '@:2 | not valid JSON at column 8 | {"text"}'),
    corpus("a control character", "a.txt", "good\nb\x02d\n", r"@:2 | control character | \x02"),
    corpus("no id", "a.jsonl", '{"text": "a"}\n{"text": "b", "id": [1]}\n', "@:2 | id [1] | text nor a whole number"),
    corpus("nothing but markup", "a.xml", article(TITLED.format("A") + BETWEEN), "@:1 | neither title nor abstract"),
]


LABELS = [  # what the labels together cannot be
    lines("texts as labels", labels_of(lambda text, label: (label, text * 99)), "@:1 | 40 labels | give files for dev"),
    csv("labels in other case", rows(("a", "Yes"), ("b", "Yes")), "@:42 | 'Yes' | 'yes' (20 rows | --fold-labels"),
    csv("labels in parts", rows(("a", "é"), ("b", "e\u0301")), r"@:4 | 'e\u0301' | '\xe9' | --fold-labels"),
    split("a dev label in other case", rows(), "dev.csv:42 | 'NO' | 'no' (40 rows | --fold", dev=rows(("a", "NO"))),
    split("a test label unseen in train", rows(), "test.csv:2 | 'maybe' | nearest | train.csv", test=UNSEEN),
    split("a label of several unseen", listed(), "dev.jsonl:41 | 'new' | nearest", dev=listed(["yes", "new"])),
    split("an unseen escape code", rows(), r"dev.csv:42 | '\u202eno' | 'no' | --fold", dev=rows(("a", "\u202eno"))),
    csv("one class", rows().replace(",no\n", ",yes\n"), "@ | 'label' | every row has the label 'yes' | add rows"),
    lines("no class in any list", labels_of(lambda text, label: (text, [])), "@ | no row has a label | add rows"),
    csv("one example of a class", rows(("a", "maybe")), "@:42 | 'maybe' | train | Add rows"),
    split("one, and dev to make", rows(("a", "maybe")), "train.csv:42 | 'maybe' | dev | Add rows", test=rows()),
    csv("the same number", numbered_rows().replace(",1", ",0"), "@ | 0.0 in every row", kind="score"),
    csv("numbers or classes", scores(), "@ | 'label' | 40 different numbers | '0.5' | --kind score or --kind sequence"),
    csv("classes as numbers to predict", rows(), "@ | none of 40 rows | @:2 | 'no' | write a number", kind="score"),
    csv("a separator never met", rows(), "@ | 'label' | separator ';' | 'no' | remove it", separator=";"),
    lines("a separator for lists", listed(), "@ | separator ';' | lists | remove it", separator=";"),
    csv("several labels without a separator", rows(), "@ | 'label' | 'no' | Name the separator", kind="multilabel"),
    csv("too few rows to split", numbered_rows(19), "@ | 19 rows | at least 20 | Add rows"),
    csv("one text only", "text,label\n" + "same,0\nsame,1\n" * 20, "@ | 40 rows cannot be split into | stay together"),
    lines("empty groups", grouped(lambda text: ""), "@ | 'doc' is empty in every row | --group doc", group="doc"),
    lines("one group only", grouped(lambda text: "d"), "@ | 40 rows | split into | 1 set of | --group", group="doc"),
    split(
        "a group in two files",
        grouped(lambda text: text),
        "dev.jsonl:1 | group 'the text of row 3 | is also in train (train.jsonl:4) | Move the whole group",
        dev=jsonl({"text": "a", "label": "no", "doc": GOOD[3][0]}, good=0),
        group="doc",
    ),
    split("an id in two files", numbered_rows(), "test.csv:2 | '7' | train.csv:9 | correct", test=SEVENTH, id="id"),
]

STATED = [  # what is asked for
    csv("an unknown metric", rows(), "'makro_f1' | macro_f1", metric="makro_f1"),
    csv(
        "a metric for numbers",
        rows(),
        "--metric pearson | score | 'sequence' | one of accuracy, micro_f1",
        metric="pearson",
    ),
    csv("a metric of no label", rows(), "of yess: | 'yess' | nearest is 'yes'", metric="accuracy_and_f1 of yess"),
    csv("an unknown kind", rows(), "--kind scores | nearest is 'score' | Choose one", kind="scores"),
    csv("too few tokens", rows(), "--max-tokens 7 | at least 8", max_tokens=7),
    csv("text and label in one", rows(), "--label text | same column as text | Name two different", label="text"),
    csv("a separator", rows(), "--separator , | --kind sequence | multilabel", separator=",", kind="sequence"),
    csv("train as test", rows(), "@ | for train and for test | Remove --test", test="train.csv"),
    split("train as test, by a link", rows(), "test.csv | for train and for test | Remove --test", test=link_to_train),
]

TAGGED = [  # words and their tags
    tsv("a table with a header", "text\tlabel\n" + sentences(), "@:1 | is a header | Remove the line"),
    tsv("a table of texts", "On mice.\tpositive class\n" * 9, "@:1 | 'positive class', which contains a space | kind"),
    words("words without tags", "a.txt", "p53\nis\n\nnew\n", "@:1 | one field, 'p53' | a word and its tag | kind"),
    words("a CSV of words", "train.csv", "p53,O\n", "@:1 | no column 'text' | --text NAME"),
    tsv("no empty line", "p53\tB-X\nis\tO\n" * 6_000, "@:1 | more than 10,000 lines without an empty one | end each"),
    tsv("documents without words", "-DOCSTART- (7)\n\n\n", "@ | has no words | another file"),
    tsv("an empty file of words", "", "@ | has no words | Write"),
    tsv("one tag only", sentences().replace("B-X", "O"), "@ | every word has the tag 'O' | Name the right file"),
    split("a tag that train lacks", sentences(), "test.tsv:1 | 'B-Y' | nearest there is 'B-X'", test="p53\tB-Y\n"),
    tsv("tags of two schemes", sentences("p53\tM-X\ngene\tI-X\n"), "@:121 | 'M-X' | 'B-X' | Correct it"),
    tsv("letters of two schemes", MIXED, "tags of two schemes (B, E, U) | word_accuracy", metric="entity_f1"),
    tsv("no entities", sentences().replace("B-X", "$"), "@ | '$' | begin with B- | word_accuracy", metric="entity_f1"),
    tsv("accuracy of words", sentences(), "--metric accuracy | kind 'tokens' | word_accuracy", metric="accuracy"),
    tsv("pairs of tagged words", sentences(), "--pair other | kind 'tokens' | Remove it", pair="other"),
    tsv("groups of lines of words", sentences(), "--group doc | @ | without columns | Remove it", group="doc"),
    tsv("a long line of words", sentences("p" * (3 << 20) + "\tO\n"), "@:121 | without a line end | Split the line"),
    words("a bomb of words", "a.tsv.gz", gzip.compress(b"p53\tO\n\n" * (1 << 18)), "@ | decompression bomb"),
    tsv("words that are not UTF-8", sentences().encode() + b"caf\xe9\tO\n", "@:121 | 0xe9 | iconv"),
    lines("lists of words without the kind", word_lists(), "@ | make it a string | --kind tokens"),
    table("words without the kind", "a.tsv", "of\tO\n" + PARTS_OF_SPEECH, "@:1 | no column 'text' | --kind tokens"),
]

CORPORA = [  # raw text
    Case("a missing corpus", {"corpora": ""}, raw(), "corpus | no such file | Check the path"),
    below("a corpus of unknown endings", {"a.doc": "a"}, "corpus | no file below it ends in .txt | another folder"),
    corpus("an unknown ending of a corpus", "a.doc", "a", "@ | one of .txt | convert"),
    corpus("an empty corpus", "a.txt", "", "@ | contains no document | another"),
    below("a folder that links to itself", {"loop": loop}, "corpus | no file below it | another folder"),
    below("Latin-1 in a corpus", {"a.txt": "one\ncafé\n".encode("latin-1")}, "a.txt:2 | byte 4 | 0xe9 | iconv -f"),
    below("UTF-16 in a corpus", {"a.txt": "one\n".encode("utf-16")}, "a.txt | UTF-16LE | iconv -f"),
    corpus("a document without end", "a.txt", "a" * (3 << 20), "@:1 | 1,048,576 | Split"),
    corpus("a block without end", "a.txt", "abc\n" * (1 << 19), "@:1 | 1,048,576 | separated=line", separated="blank"),
    corpus("a bomb in a corpus", "a.txt.gz", gzip.compress(HEAVY), "@ | bomb | unpack it yourself"),
    corpus("a cut off corpus", "a.txt.gz", gzip.compress(os.urandom(500).hex().encode())[:-9], "@ | truncated | Fetch"),
    below("a pickle among texts", {"a.txt": pickle.dumps(Payload()), "b.txt": "b"}, "a.txt | pickle | never opened"),
    corpus("a corpus without the field", "a.jsonl", '{"body": "a"}\n', "@ | 'text' | its fields are ['body'] | Rename"),
    corpus("a Parquet corpus without the field", "a.parquet", parquet({"body": ["a"]}), "@ | 'text' | 'body' | Rename"),
    corpus("most are useless", "a.jsonl", '{"text": "a"}\n{"text": 1}\n{"text": 2}\n', "@ | 2 of 3 | @:2 | is 1"),
    Case("NUL in a corpus's name", {}, raw("a\0.txt"), r"a\x00.txt | null byte | Name a file"),
    corpus("one text in each row of a corpus", "a.parquet", one_text(), "@ | times its size | bomb | .jsonl"),
    corpus("a billion laughs", "a.xml", article(TITLED.format("&j;"), before=LAUGHS), "@:1 | entity 'a' | expand"),
    corpus("a file as entity", "a.xml", article(TITLED.format("&file;"), before=OUTSIDE), "@:1 | entity 'file'"),
    corpus("an article in an article", "a.xml", article(f"<PubmedArticle>{ARTICLE}"), "@:1 | within another | Fetch"),
    corpus("XML of something else", "a.xml", "<set><item/></set>", "@ | no PubmedArticle | 'set' | Convert"),
    corpus("an endless article", "a.xml", article(TITLED.format("a" * (1 << 20))), "@:1 | 1,048,576 characters"),
    below("no field in a dataset", saved(column="body"), "data-0.arrow | 'text' | its fields are ['body'] | Rename"),
    below("a dataset elsewhere", saved(listed="../data-0.arrow"), "state.json | '../data-0.arrow' | Save the dataset"),
    below("a dataset that lacks a file", saved(listed="data-1.arrow"), "data-1.arrow | no such file | data-0.arrow"),
    below("a dataset of chosen rows", saved(indices=[{"filename": "a"}]), "corpus | its data | flatten_indices()"),
    below("a dataset with a broken state", saved() | {"state.json": "[1]"}, "state.json | save_to_disk | again"),
    below("a dataset damaged", saved() | {"data-0.arrow": bytes(99)}, "data-0.arrow | damaged | again"),
]

HOT = {"text": "label", "label": ("a", "b")}
KEPT = [  # what only looks bad, or would do harm elsewhere: it is read as it stands
    csv("a byte order mark", b"\xef\xbb\xbf" + rows(("a", "yes")).encode(), "'a' | 'yes'"),
    csv("mixed line ends", rows().replace("\n", "\r\n", 9) + "a,no\rb,yes\r\nc,no\n", "train:43 | 'c'"),
    table("quotes in two rows", "a.tsv", rows(('"a', "no"), ('b"', "yes")).replace(",", "\t"), """'b"' | 'yes'"""),
    csv("a text called label", "label,a,b\n" + "".join(f"t{n},{n % 2},1\n" for n in range(40)), "'t39'", **HOT),
    corpus("texts stored once", "a.parquet", few_texts, "'99 "),
    csv("a formula", rows(("=HYPERLINK(1)", "yes")), "'=HYPERLINK(1)'"),
    csv("markup", rows(("<script>alert(1)</script>", "<b>"), ("b", "<b>")), "'<b>'"),
    csv("a quoted line end", rows(('"one\ntwo, ""three"""', "yes")), r"""'one\ntwo, "three"'"""),
    csv("a path as text", rows(("../../etc/passwd", "yes")), "'../../etc/passwd'"),
    lines("JSON of code", jsonl({"text": "a", "label": "no", "__reduce__": ["os.system", ["touch ran"]]}), "'a'"),
    lines("white space of all kinds", jsonl({"text": "a\t\r\n\f\vb", "label": "no"}), r"'a\t\r\n\x0c\x0bb'"),
    tsv("a zero-width word", sentences("\u200b\tO\n"), r"'\u200b'"),
    words("a hash as a word", "a.conll", sentences("# O\np53 B-X\n").replace("\t", " "), "'# p53' | ('O', 'B-X')"),
    below("Arrow that asks for a pickle", saved() | {"data-0.arrow": extension}, "data-0.arrow:2 | 'b'"),
    corpus(
        "a distant document type", "a.xml", article(TITLED.format("A"), before=ELSEWHERE), r"id='7' | 'A\nIt is so.'"
    ),
    below("a folder in a circle", {"a.txt": "one", "loop": loop}, "'a.txt:1' | 'one'"),
]

CASES = [
    *(*FILES, *TABLES, *LABELS, *STATED, *TAGGED, *CORPORA),
    *(replace(case, ends="rejected") for case in ROWS),
    *(replace(case, ends="kept") for case in KEPT),
]


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


def test_there_are_enough_cases_each_with_a_name_of_its_own():
    assert len(CASES) >= 100
    assert len({case.id for case in CASES}) == len(CASES)


def test_a_payload_that_is_unpickled_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Payload()))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_bad_input_is_told(case, tmp_path, monkeypatch):
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
    assert [words for words in case.says.split(" | ") if words not in message] == [], message
    # no terminal obeys it, and it fits on a screen
    assert message.isprintable(), repr(message)
    assert len(message) < 1500
    assert not (tmp_path / "ran").exists()
