"""Rows of benchmarks' tables become examples, or are rejected with file and line."""

import gzip
import json
import zipfile

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.delimited import (
    abstract_sentences,
    delimited_examples,
    iob_examples,
    json_object,
    jsonl_examples,
    number,
    one_of,
)

BINARY = one_of(("0", "1"))


def written(tmp_path, text, name="train.tsv"):
    (tmp_path / name).write_bytes(text.encode())
    return tmp_path / name


def test_quotes_of_a_tsv_are_ordinary_characters_and_without_a_header_it_is_read_by_position(tmp_path):
    path = written(tmp_path, 'sentence\tlabel\n"A start\t1\nof it" \t0\n')
    rows = list(delimited_examples(path, "train", text="sentence", label="label", label_of=BINARY))
    assert rows == [Example("train:1", '"A start', "1"), Example("train:2", 'of it"', "0")]
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
    assert reasons[0].startswith("2 fields, but 3 are needed")
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
        "the label 'nan' is not a finite number; correct the row",
        "the label 'much' is not a finite number; correct the row",
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
    with pytest.raises(ValueError, match=r"all\.zip: lacks test\.csv"):
        list(delimited_examples(tmp_path / "all.zip", "train", member="test.csv", **reading))


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "has no rows|no column"), ("sentence\tlabel\n", "has no rows"), ("a\tb\n1\t2\n", "no column 'sentence'")],
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


WRITTEN = """-DOCSTART- 95369245

IL-2\tB-DNA
gene\tI-DNA
of\tO

-DOCSTART-\tO

NF-kappa\tB-protein
"""


def test_lines_that_begin_documents_name_groups_and_types_are_merged_where_that_is_stated(tmp_path):
    (tmp_path / "dev.tsv").write_text(WRITTEN)
    assert list(iob_examples(tmp_path / "dev.tsv", "dev")) == [
        Example("dev:1", "IL-2 gene of", ("B-DNA", "I-DNA", "O"), None, "dev, document 1"),
        Example("dev:2", "NF-kappa", ("B-protein",), None, "dev, document 2"),
    ]
    assert [row.label for row in iob_examples(tmp_path / "dev.tsv", "dev", merged=True)] == [("B", "I", "O"), ("B",)]


def test_a_sentence_of_which_a_word_has_no_tag_is_rejected(tmp_path):
    (tmp_path / "dev.tsv").write_text("one\tO\ntwo\n\nthree\tO\n")
    first, second = iob_examples(tmp_path / "dev.tsv", "dev")
    assert isinstance(first, Rejected)
    assert first.place == "dev.tsv:2"
    assert second.text == "three"


LABELS = one_of(("METHODS", "RESULTS"))


def lines(tmp_path, *values):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def test_a_line_is_an_example_or_rejected(tmp_path):
    path = lines(tmp_path, {"text": " We did. ", "label": "METHODS", "metadata": [1]}, {"text": "no label"}, [1])
    first, *others = jsonl_examples(path, "train", label_of=LABELS)
    assert first == Example("train:1", "We did.", "METHODS")
    assert [row.place for row in others if isinstance(row, Rejected)] == ["train.jsonl:2", "train.jsonl:3"]


def test_an_abstracts_sentences_are_its_group(tmp_path):
    path = lines(
        tmp_path,
        {"pmid": "7", "sentences": ["We did.", "It was."], "labels": ["METHODS", "RESULTS"]},
        {"pmid": "8", "sentences": ["We did."], "labels": []},
    )
    *found, rejected = abstract_sentences(path, "train", label_of=LABELS)
    assert found == [Example("7:0", "We did.", "METHODS", None, "7"), Example("7:1", "It was.", "RESULTS", None, "7")]
    assert isinstance(rejected, Rejected)
    assert rejected.place == "train.jsonl:2"


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff\xfe{}", b"[" * 100_000])
def test_a_file_that_is_no_object_is_one_error(tmp_path, content):
    (tmp_path / "one.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"one\.json: "):
        json_object(tmp_path / "one.json")
