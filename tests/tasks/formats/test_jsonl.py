"""JSON Lines of texts and of abstracts."""

import json

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.tasks.formats.delimited import abstract_sentences, json_object, jsonl_examples, one_of

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
