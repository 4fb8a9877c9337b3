"""Rows of benchmarks' tables become examples, or are rejected with file and line."""

import gzip
import zipfile

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.tasks.formats.delimited import delimited_examples, number, one_of

BINARY = one_of(("0", "1"))


def written(tmp_path, text, name="train.tsv"):
    (tmp_path / name).write_bytes(text.encode())
    return tmp_path / name


def test_quotes_of_a_tsv_are_ordinary_characters(tmp_path):
    path = written(tmp_path, 'sentence\tlabel\n"A start\t1\nof it" \t0\n')
    rows = list(delimited_examples(path, "train", text="sentence", label="label", label_of=BINARY))
    assert rows == [Example("train:1", '"A start', "1"), Example("train:2", 'of it"', "0")]


def test_a_file_without_a_header_is_read_by_position(tmp_path):
    path = written(tmp_path, "q1\tIs it?\tIt is.\tyes\n")
    columns = ("id", "question", "context", "answer")
    reading = {"columns": columns, "text": "question", "pair": "context", "label": "answer", "id": "id"}
    assert list(delimited_examples(path, "dev", **reading, label_of=one_of(("yes", "no")))) == [
        Example("q1", "Is it?", "yes", "It is.")
    ]


def test_rejected_rows_say_where_and_why(tmp_path):
    path = written(tmp_path, "id\ttext\tlabel\na\tone\t1\nb\ttwo\nc\t \t1\nd\tfour\t2\ne\tfive\t0\textra\n")
    rows = list(delimited_examples(path, "train", text="text", label="label", id="id", label_of=BINARY))
    assert [row.place for row in rows if isinstance(row, Rejected)] == [f"train.tsv:{line}" for line in (3, 4, 5, 6)]
    reasons = [row.reason for row in rows if isinstance(row, Rejected)]
    assert reasons[0].startswith("2 fields, where 3 are needed")
    assert reasons[1].startswith("the text is empty")
    assert reasons[2].startswith("the label '2' is none of '0', '1'")
    assert reasons[3].startswith("4 fields")


def test_numbers_are_finite(tmp_path):
    path = written(tmp_path, "a\t2.2\nb\tnan\nc\tmuch\n")
    rows = list(
        delimited_examples(path, "train", columns=("text", "label"), text="text", label="label", label_of=number)
    )
    assert rows[0] == Example("train:1", "a", 2.2)
    assert [row.reason for row in rows[1:]] == [
        "the label 'nan' is no finite number; correct the row",
        "the label 'much' is no finite number; correct the row",
    ]


def test_control_characters_are_left_out_and_surplus_fields_where_that_is_stated(tmp_path):
    path = written(tmp_path, "put \x08a picture\t1\tleft over\n")
    reading = {"columns": ("text", "label"), "text": "text", "label": "label", "label_of": BINARY}
    assert list(delimited_examples(path, "train", **reading, surplus=True)) == [
        Example("train:1", "put a picture", "1")
    ]


def test_a_csv_in_an_archive_or_packed_is_read_with_its_quotes(tmp_path):
    content = 'label,text\r\n1,"a ""word"", and\nanother"\r\n'
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("train.csv", content)
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(content.encode()))
    reading = {"text": "text", "label": "label", "label_of": BINARY, "comma": True}
    expected = [Example("train:1", 'a "word", and\nanother', "1")]
    assert list(delimited_examples(tmp_path / "all.zip", "train", member="train.csv", **reading)) == expected
    assert list(delimited_examples(tmp_path / "train.csv.gz", "train", **reading)) == expected
    with pytest.raises(ValueError, match=r"all\.zip: holds no test\.csv"):
        list(delimited_examples(tmp_path / "all.zip", "train", member="test.csv", **reading))


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "holds no rows|no column"), ("sentence\tlabel\n", "holds no rows"), ("a\tb\n1\t2\n", "no column 'sentence'")],
)
def test_what_is_wrong_with_a_file_is_one_error(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=message):
        list(delimited_examples(path, "train", text="sentence", label="label", label_of=BINARY))


def test_a_torn_csv_names_the_line(tmp_path):
    path = written(tmp_path, '1,fine\n2,"torn\n', "train.csv")
    with pytest.raises(ValueError, match=r"train\.csv:2: "):
        list(
            delimited_examples(
                path, "train", columns=("label", "text"), text="text", label="label", label_of=one_of("12"), comma=True
            )
        )
