"""Datasets as values: which form is read, what is cut, what is counted."""

import gzip
from functools import partial

import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.datasets.catalogue import (
    Dataset,
    cut_form,
    dataset_named,
    find_file,
    held_back,
    size_of,
    split_form,
)
from acclimate.reading.formats.delimited import delimited_examples, one_of
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import checked_splits

FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
READER = partial(delimited_examples, columns=("text", "label"), text="text", label="label", label_of=one_of(("a", "b")))
TOY = Dataset(
    name="Toy",
    type="classification",
    folder="toy",
    kind="sequence",
    labels=("a", "b"),
    metric=METRICS["accuracy"],
    max_tokens=16,
    counted="instances",
    sizes={"train": 4, "dev": 2, "test": 2},
    forms=(
        split_form("published", FILES, READER),
        cut_form("cut", train="train.tsv", test="test.tsv", reader=READER, count=1, note="Dev is drawn from train."),
    ),
    citation="Somebody, 2020.",
    licence="MIT",
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "train.tsv.gz").write_bytes(gzip.compress(b"one\ta\ntwo\tb\nthree\ta\nfour\tb\n"))
    (tmp_path / "toy" / "test.tsv").write_text("nine\ta\nten\tb\n")
    return tmp_path


def test_the_first_form_whose_files_are_there_is_read_packed_or_not(root):
    assert TOY.form_in(root).name == "cut"
    (root / "toy" / "dev.tsv").write_text("five\ta\nsix\tb\n")
    assert TOY.form_in(root).name == "published"
    assert {split: len(rows) for split, rows in checked_splits(TOY.task(), root).items()} == {
        "train": 4,
        "dev": 2,
        "test": 2,
    }
    assert {split: len(rows) for split, rows in checked_splits(TOY.task("cut"), root).items()} == {
        "train": 3, "dev": 1, "test": 2
    }  # fmt: skip
    assert TOY.task("cut").name == "Toy, cut"


def test_what_is_missing_is_named_and_so_is_a_form_that_there_is_not(root):
    (root / "toy" / "test.tsv").unlink()
    with pytest.raises(ValueError, match=r"Toy: .* has no dev\.tsv, test\.tsv"):
        TOY.form_in(root)
    with pytest.raises(ValueError, match="no format is named 'other'"):
        TOY.task("other")
    with pytest.raises(ValueError, match="no dataset is named 'tyo'; the nearest is 'Toy'"):
        dataset_named("tyo", [TOY])
    assert dataset_named("TOY", [TOY]) is TOY


def test_a_task_without_all_of_its_rows_is_refused_and_the_rows_are_told(root):
    (root / "toy" / "test.tsv").write_text("nine\ta\nten\tc\n")
    examples, rejected = TOY.rows(root, "test")
    assert [each.text for each in examples] == ["nine"]
    assert [each.place for each in rejected] == ["test.tsv:2"]
    with pytest.raises(
        ValueError, match=r"Toy, test: 1 of 2 rows cannot be used. The first: test\.tsv:2: the label 'c'"
    ):
        TOY.task().read(root, "test")


def test_what_is_held_back_depends_on_names_alone_and_keeps_groups_whole():
    rows = [Example(f"{at}", "text", "a", None, f"document {at // 3}") for at in range(30)]
    odd = Rejected("file:1", "odd")
    rest, back = held_back([*rows, odd], 4)
    assert len({row.group for row in back}) == 4
    assert len(back) == 12
    assert odd in rest
    assert len(rest) == 19
    assert {row.id for row in held_back(rows[::-1], 4)[1]} == {row.id for row in back}
    smaller = {row.id for row in held_back(rows, 2)[1]}
    assert smaller < {row.id for row in back}


def test_what_is_counted():
    tagged = [
        Example("1", "a b c d", ("B-X", "I-X", "B-X", "O"), None, "one"),
        Example("2", "a b", ("O", "I-X"), None, "one"),
    ]
    assert size_of(tagged, "mentions") == 3
    assert size_of(tagged, "words") == 4
    assert size_of(tagged, "documents") == 1
    assert size_of(tagged, "instances") == 2


def test_a_file_is_found_packed_or_not(root):
    assert find_file(root / "toy", "train.tsv") == root / "toy" / "train.tsv.gz"
    assert find_file(root / "toy", "dev.tsv") is None


def test_an_archive_or_folder_is_found_for_those_who_can_read_it_alone(tmp_path):
    (tmp_path / "dev.tsv").mkdir()
    (tmp_path / "train.tsv.zip").write_bytes(b"")
    for name, path in (("train.tsv", tmp_path / "train.tsv.zip"), ("dev.tsv", tmp_path / "dev.tsv")):
        assert find_file(tmp_path, name) == path
        assert find_file(tmp_path, name, archives=False) is None
