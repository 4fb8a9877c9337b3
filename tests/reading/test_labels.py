"""Labels as lists in a field, vectors and columns of 0 and 1, numbers of classes with names, and their spellings."""

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.labels import class_name, list_in

WORDS = ("cell", "goal", "price", "river", "team", "market", "gene")


def table(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the rows with a text each, by the ending of the path."""
    texts = [f"{WORDS[n % 7]} {WORDS[n * 3 % 5]} and {WORDS[n // 7 % 7]} of {n}" for n in range(len(rows))]
    rows = [{"text": text, **row} for text, row in zip(texts, rows, strict=True)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        quoted = (",".join('"' + str(value).replace('"', '""') + '"' for value in row.values()) for row in rows)
        path.write_text("\n".join([",".join(rows[0]), *quoted]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("['bio', \"it\\'s\"]", ["bio", "it's"]),
        ('["caf\\u00e9"]', ["café"]),
        ("['a' 'b c']", ["a", "b c"]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("{'a', 'b'}", ["a", "b"]),
        ("[bio, new]", ["bio", "new"]),
        ("[1. 0.]", [1, 0]),
        ("set()", []),
        ("{bio,new}", ["bio", "new"]),
        ("[np.str_('a'), np.True_]", ["a", True]),
        ("[ True False]", [1, 0]),
        ("Index(['a', 'b'], dtype='object')", ["a", "b"]),
        ("OrderedDict([('a', 1)])", {"a": 1}),
        ("- a\n- b", ["a", "b"]),
        ('"[\\"a\\"]"', ["a"]),
        ("[‘a’, ‘b’]", None),
        ("[deleted]", None),
        ("(a)", None),
        ("['a'", None),
    ],
)
def test_a_list_is_read_as_python_json_and_numpy_write_it(written, names):
    assert list_in(written) == names


@pytest.mark.parametrize(
    ("ending", "labels", "options", "first"),
    [
        (".jsonl", [[1, 0, 1], [0, 1, 0]], {}, ("place 1", "place 3")),
        (".jsonl", [[True, False, True], [False, True, False]], {"labels": ("a", "b", "c")}, ("a", "c")),
        (".csv", ["1 0 1", "0 1 0"], {"separator": " "}, ("place 1", "place 3")),
        (".csv", ["[1, 0, 1]", "[0, 1, 0]"], {"labels": ("a", "b", "c")}, ("a", "c")),
        (".csv", ["101", "010"], {"labels": ("a", "b", "c")}, ("a", "c")),
        (".jsonl", [{"a": 1, "b": 0, "c": True}, {"a": 0, "b": 1, "c": None}], {}, ("a", "c")),
        (".csv", ["['a', 'c']", "['b']"], {}, ("a", "c")),
        (".csv", ["['a', 'c']", "['b']"], {"separator": ","}, ("a", "c")),
        (".jsonl", [{"choices": ["a", "c"]}, "b"], {}, ("a", "c")),
        (".csv", ['{"choices": ["a"]}', "b"], {}, "a"),
        (".jsonl", [[{"label": "a", "score": 0.9}], [{"label": "b", "score": 0.8}]], {}, "a"),
        (".jsonl", [{"cats": {"a": 1, "b": 0}}, {"cats": {"a": 0, "b": 1}}], {}, "a"),
        (".jsonl", [[1, 0], [0, 1]], {"labels": ("a", "b")}, "a"),
        (".csv", ["0", "1"], {"labels": ("a", "b")}, "a"),
        (".csv", ["0.0", "1.0"], {"labels": ("a", "b")}, "a"),
        (".csv", ["0;2", "1"], {"labels": ("a", "b", "c"), "separator": ";"}, ("a", "c")),
        (".csv", ["1.0, 0.0, 1.0", "0.0, 1.0, 0.0"], {}, ("place 1", "place 3")),
        (".csv", ["True  False  True", "False  True  False"], {}, ("place 1", "place 3")),
        (".csv", ["{a,c}", "{b}"], {"separator": ","}, ("a", "c")),
    ],
)
def test_forms_of_labels_are_read_and_said(tmp_path, ending, labels, options, first):
    path = table(tmp_path / f"train{ending}", [{"label": labels[n % 2]} for n in range(40)])
    read = read_files(LabelledFiles(path, **options))
    assert read.kind == ("sequence" if isinstance(first, str) else "multilabel")
    label_of = {example.id: example.label for rows in read.splits.values() for example in rows}
    assert label_of["train:1"] == first
    assert isinstance(first, str) or any(re.search("0 (and|or) 1|lists|objects|class numbers", n) for n in read.notes)


@pytest.mark.parametrize(
    ("labels", "odd", "options", "message"),
    [
        ([[1, 0, 1], [0, 1, 0]], [1, 0], {}, r":41: the labels are \[1, 0\], but must be 3 zeros and ones"),
        ([[1, 0, 1], [0, 1, 0]], [1, 0, None], {"labels": ("a", "b", "c")}, r":41: the labels are \[1, 0, None\]"),
        ([[1, -1, 1], [-1, 1, 1]], [1, 1, 1], {}, r":1: the labels are \[1, -1, 1\], .*Write 0 or 1"),
        (["a", "b"], "['a', 'b']", {}, r":41: the label .*\['a', 'b'\].* Write the label of each row as"),
        (["(a)", "b"], "b", {}, r":1: the label '\(a\)' .* add --kind sequence"),
        (["[a;b]", "[a]"], "[b]", {"separator": ";"}, r":1: the label '\[a;b\]' is written as a list"),
        (["1", "2"], "3", {"labels": ("a", "b", "c")}, r":41: '3' is not a class number.* numbered from 1, begin"),
        (["-1", "1"], "1", {"labels": ("a", "b")}, r":1: '-1' is not a class number"),
        (["0", "1"], "0,1", {"labels": ("a", "b")}, r":41: the label '0,1' is neither .* add --separator ,"),
    ],
)
def test_a_row_in_another_form_is_an_error(tmp_path: Path, labels: Any, odd: Any, options: Any, message: str) -> None:
    path = table(tmp_path / "train.jsonl", [{"label": label} for label in [*labels * 20, odd]])
    with pytest.raises(ValueError, match=message):
        read_files(LabelledFiles(path, **options))


def test_columns_of_0_and_1_are_labels(tmp_path):
    rows = [{"toxic": n % 2, "rude": ["0.0", "1.0"][n % 3 == 0], "sly": ["", "x"][n % 5 == 0]} for n in range(60)]
    path = table(tmp_path / "train.csv", rows)
    read = read_files(LabelledFiles(path, label=("toxic", "rude", "sly")))
    assert (read.kind, read.labels) == ("multilabel", ("rude", "sly", "toxic"))
    with pytest.raises(ValueError, match=r"no column 'mean'.* with --label NAME"):
        read_files(LabelledFiles(path, label=("toxic", "mean")))
    one = table(tmp_path / "one.csv", [{"yes": n % 2, "no": 1 - n % 2} for n in range(60)])
    assert read_files(LabelledFiles(one, label=("yes", "no"))).kind == "sequence"
    soft = table(tmp_path / "soft.csv", [{"yes": 0.3, "no": 0.7} for n in range(60)])
    with pytest.raises(ValueError, match=r"the label 'yes' has the value '0.3', but must be 0 or 1"):
        read_files(LabelledFiles(soft, label=("yes", "no")))


def test_names_of_classes_come_from_the_metadata_of_the_file(tmp_path):
    feature = {"names": ["bio", "eco"], "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": {"feature": feature, "_type": "List"}}}})}
    texts = [f"{WORDS[n % 7]} and {WORDS[n // 7]} of {n}" for n in range(40)]
    columns = {"text": texts, "label": [[n % 2] if n % 3 else [0, 1] for n in range(40)]}
    pa.parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), tmp_path / "train.parquet")
    read = read_files(LabelledFiles(tmp_path / "train.parquet"))
    assert (read.kind, read.labels) == ("multilabel", ("bio", "eco"))
    assert any("with names in the file's metadata: 'bio', 'eco'" in note for note in read.notes)
    metadata = {"huggingface": metadata["huggingface"].replace("eco", "bio")}
    pa.parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match=r"train\.parquet: the metadata has the class name 'bio' twice.*--labels"):
        read_files(LabelledFiles(tmp_path / "train.parquet"))


@pytest.mark.parametrize(
    ("often", "rare"),
    [
        *[("1", "1.0"), ("7", "007"), ("1", "١"), ("0", "-0"), ("-1", "\u22121"), ("0.5", ".50"), ("1", "1e0")],
        *[("bio", "bio\u200b"), ("bio", "\ufeffbio"), ("❤", "❤\ufe0f"), ("bio", "bi\u034fo"), ("bio", "bio\u3164")],
        *[("pozitif", "POZİTİF"), ("a-b", "a\u2011b"), ("كتب", "كـتَب"), ("ك", "ک")],
    ],
)
def test_several_spellings_of_one_label_are_an_error_or_one(tmp_path, often, rare):
    labels = [*[often, "other"] * 20, rare]
    path = table(tmp_path / "train.csv", [{"label": label} for label in labels])
    with pytest.raises(ValueError, match=r"train\.csv:42: label .* also occurs as .*--fold-labels"):
        read_files(LabelledFiles(path))
    assert set(read_files(LabelledFiles(path, fold_labels=True)).labels) == {often, "other"}


def test_labels_that_look_like_missing_values_or_have_invisible_characters_are_named(tmp_path):
    path = table(tmp_path / "train.csv", [{"label": ["nan", "eco", "b\u202eio"][n % 3]} for n in range(60)])
    notes = read_files(LabelledFiles(path)).notes
    assert any("the label 'nan' (20 rows; first at train.csv:2) looks like a missing value" in note for note in notes)
    assert any("invisible characters in them: 'b\\u202eio' (first at train.csv:4)" in note for note in notes)


@pytest.mark.parametrize(
    ("extra", "notes"),
    [
        ({"text": "text", "label": "label"}, r"1 of 41 rows were rejected.*train\.csv:42: repeats the header"),
        ({"label": None}, r"1 of 41 rows were rejected.*jsonl:41: the labels are None, but other rows have 0 or 1"),
        ({"label": {"a": 1, "b": 0}, "answer": "reject"}, r"1 of 41 rows are not read: the `answer` is 'reject'"),
    ],
)
def test_one_row_of_another_kind_is_left_out_and_said(tmp_path: Path, extra: dict[str, Any], notes: str) -> None:
    names = ["a", "b"] if "text" in extra else [{"a": 1, "b": 0}, {"a": 0, "b": 1}]
    ending = ".csv" if "text" in extra else ".jsonl"
    path = table(tmp_path / f"train{ending}", [*({"label": names[n % 2]} for n in range(40)), extra])
    read = read_files(LabelledFiles(path))
    assert (read.labels, sum(map(len, read.splits.values()))) == (("a", "b"), 40)
    assert re.search(notes, read.notes[0])


def test_one_label_among_rejected_rows_is_refused_with_their_reason(tmp_path: Path) -> None:
    path = table(tmp_path / "train.csv", [{"label": ["", "a"][n % 2]} for n in range(40)])
    with pytest.raises(
        ValueError, match=r"the label 'a', so .*\. 20 other rows were rejected, the first at train\.csv:2: "
    ):
        read_files(LabelledFiles(path))


@pytest.mark.parametrize(
    ("labels", "kind", "message"),
    [
        (["37.50", "1,012.50", "2,000.00"], "auto", r"'1,012.50' is a number with thousands separators. Write 1012.50"),
        (["37,50", "1.012,50"], "auto", r"'1\.012,50' is a number with thousands separators. Write 1012\.50"),
        (["1 012.5"], "score", r"'1 012\.5'; write 1012\.5, without"),
        (["1,012"], "score", r"'1,012'; write 1012, or 1\.012 for a decimal comma"),
        (["1_0.5"], "score", r"is '1_0\.5'; write a number"),
        (["12,34,100", "7"], "auto", r"'12,34,100' is a number with thousands separators. Write 1234100"),
        ([f"0,{number}" for number in range(10, 40)], "auto", r"has 30 different numbers.* --kind score"),
        ([f"{number:,}" for number in range(990, 1020)], "auto", r"has 30 different numbers.* --kind score"),
        (["990", "1.000"], "score", r":61: the number to predict .* is '1\.000'.* Write 1000 for thousands"),
    ],
)
def test_numbers_in_other_spellings_are_refused(tmp_path, labels, kind, message):
    rows = [{"label": labels[n % len(labels)]} for n in range(60)]
    with pytest.raises(ValueError, match=message):
        read_files(LabelledFiles(table(tmp_path / "train.csv", rows), kind=kind))


def test_numbers_are_classes_even_if_the_names_are_numbers(tmp_path):
    file = table(tmp_path / "train.csv", [{"label": n % 3} for n in range(60)])
    task = read_files(LabelledFiles(file, labels=("1", "2", "3")))
    assert task.labels == ("1", "2", "3")
    assert len({example.label for example in task.splits["train"]}) == 3
    with pytest.raises(ValueError, match="no class numbers that"):
        read_files(
            LabelledFiles(table(tmp_path / "named.csv", [{"label": "xy"[n % 2]} for n in range(60)]), labels=("a", "b"))
        )
    with pytest.raises(ValueError, match="--kind score has one number per row"):
        read_files(LabelledFiles(file, kind="score", labels=("1", "2", "3")))


def test_names_in_metadata_name_the_numbers_of_a_test_file_and_no_scores(tmp_path):
    metadata = {
        b"huggingface": json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": ["bad", "good"]}}}})
    }
    rows = {
        "text": [f"{WORDS[n % 7]} {WORDS[n * 3 % 5]} of {n}" for n in range(60)],
        "label": [n % 2 for n in range(60)],
    }
    train = tmp_path / "train.parquet"
    pa.parquet.write_table(pa.table(rows).replace_schema_metadata(metadata), train)
    test = table(tmp_path / "test.csv", [{"label": n % 2} for n in range(30)])
    read = read_files(LabelledFiles(train, test=test))
    assert {example.label for example in read.splits["test"]} == {"bad", "good"}
    assert {example.label for example in read_files(LabelledFiles(train, kind="score")).splits["train"]} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("value", "name"),
    [("a b", "a b"), (1, "1"), (True, "True"), (2.0, "2"), (0.5, None), (" ", None), (Decimal(1), None), ("a\0", None)],
)
def test_the_class_of_a_label(value, name):
    """A table with gaps stores whole numbers as 2.0."""
    label, reason = class_name(value, "label")
    assert label == name
    assert ("column 'label'" in reason) == (name is None)
    assert ("--kind score" in reason) == (value in (0.5, 1) and name is None)


@pytest.mark.parametrize("labels", ["xy", [[[0, 3, "X"]], []]])
def test_groups_that_are_spelt_alike_are_one(tmp_path: Path, labels: Sequence[Any]) -> None:
    groups = [["d{}", "D{} "][n % 2].format(n // 4) for n in range(80)]
    path = table(tmp_path / "train.csv", [{"label": labels[n % 2], "group": group} for n, group in enumerate(groups)])
    read = read_files(LabelledFiles(path, group="group"))
    homes = [{example.group.strip().lower() for example in rows} for rows in read.splits.values()]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 20
    assert any("Spellings of one group are kept together: 'd0' with 'D0 '" in note for note in read.notes)
