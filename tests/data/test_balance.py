"""What is said of labels and of short cuts to them."""

from dataclasses import replace

import pytest

from acclimate.core.types import Example
from acclimate.data import doctor
from made_up_tasks import examples, text


def with_labels(split, *labels):
    return [Example(f"{split}-{number}", text(f"{split} {number}"), label) for number, label in enumerate(labels)]


def said(train, test, metric="accuracy"):
    splits = {"train": with_labels("train", *train), "dev": [], "test": with_labels("test", *test)}
    sizes = {split: len(rows) for split, rows in splits.items()}
    return doctor.findings_on_classes(doctor.label_counts(splits), sizes, metric)


def test_labels_are_counted_by_split_frequent_ones_first():
    splits = {
        "train": with_labels("train", *"abbba"),
        "dev": with_labels("dev", ("a", "b"), (), ("b",)),
        "test": with_labels("test", 1.0, 2.5),
    }
    assert doctor.label_counts(splits) == {"train": {"b": 3, "a": 2}, "dev": {"b": 2, "a": 1}, "test": {}}
    assert list(doctor.label_counts(splits)["train"]) == ["b", "a"]
    assert doctor.quantiles(splits) == {"test": (1.0, 1.375, 1.75, 2.125, 2.5)}


def test_even_labels_are_nothing_to_speak_of():
    assert said("ab" * 50, "ab" * 20) == []


def test_rare_classes_are_named_with_their_counts():
    found = said("ab" * 50 + "ccc", "ab" * 20 + "c", metric="macro_f1")
    assert [finding.level for finding in found] == ["note", "note"]
    assert "'c' (3) has fewer than 10 training examples" in found[0].what
    assert "'c' (1) has fewer than 5 test examples" in found[1].what
    assert "macro-F1" in found[1].what
    many = said([*"ab" * 50, *(f"rare {number}" for number in range(9))], "ab" * 20)
    assert "and 4 more classes have fewer" in many[0].what


def test_one_class_with_nearly_all_test_texts_is_a_warning():
    [finding] = said("a" * 90 + "b" * 10, "a" * 90 + "b" * 10)
    assert (finding.level, "90.0% of the test texts bear 'a'" in finding.what) == ("warning", True)
    assert "macro_f1" in finding.way_out


def test_labels_spread_differently_in_train_and_test_are_told_unless_chance_does_it():
    [finding] = said("a" * 150 + "b" * 50, "a" * 50 + "b" * 150)
    assert finding.level == "warning"
    assert "by 50% of the rows: 'a' is 75.0% of train and 25.0% of test" in finding.what
    [finding] = said("a" * 1000 + "b" * 1000, "a" * 350 + "b" * 650)
    assert finding.level == "note"
    assert said("ab" * 500, "a" * 12 + "b" * 8) == []  # 10% off, but of 20 rows
    assert said("a" * 1000 + "b" * 1000, "a" * 450 + "b" * 550) == []


def numbers(train, test):
    splits = {"train": with_labels("train", *train), "dev": [], "test": with_labels("test", *test)}
    return doctor.findings_on_numbers(splits)


def test_numbers_that_are_all_the_same_are_an_error():
    [finding] = numbers([1.0, 2.0, 3.0], [2.5, 2.5, 2.5])
    assert (finding.level, "Every number to predict in test is 2.5" in finding.what) == ("error", True)


def test_numbers_spread_differently_are_told():
    even = [number / 10 for number in range(200)]
    assert numbers(even, even[::2]) == []
    [finding] = numbers(even, [number + 10 for number in even])
    assert (finding.level, "by 50% of the rows" in finding.what) == ("warning", True)


def test_a_label_that_stands_in_its_texts_is_a_give_away():
    rows = examples("train", 60, ("acid", "base", "salt"))
    assert doctor.give_aways(rows) == []
    naming = [replace(row, text=f"{row.text} An {row.label.upper()}.") if n < 30 else row for n, row in enumerate(rows)]
    [finding] = doctor.give_aways(naming)
    assert (finding.level, "in 50% of the training texts" in finding.what) == ("note", True)
    everywhere = [replace(row, text=f"{row.text} acid base salt") for row in rows]
    assert doctor.give_aways(everywhere) == []
    several = [replace(row, label=(row.label,)) for row in naming]
    assert doctor.give_aways(several) == [finding]


@pytest.mark.parametrize("labels", [("1", "2"), ("a", "b")])
def test_numbers_and_single_letters_are_not_looked_for(labels):
    rows = [replace(row, text=f"{row.text} {row.label}") for row in examples("train", 60, labels)]
    assert doctor.give_aways(rows) == []


def test_a_text_that_is_the_id_is_a_warning():
    [finding] = doctor.give_aways([replace(row, text=row.id) for row in examples("train", 20)])
    assert (finding.level, "100% of the training rows" in finding.what) == ("warning", True)


def test_a_group_that_decides_the_label_is_told():
    rows = examples("train", 60)
    decided = [replace(row, group=f"{row.label} {number % 6}") for number, row in enumerate(rows)]
    [finding] = doctor.give_aways(decided)
    assert (finding.level, "The group alone decides the label in 100%" in finding.what) == ("note", True)
    assert doctor.give_aways([replace(row, group=f"{number // 4}") for number, row in enumerate(rows)]) == []
    assert doctor.give_aways([replace(row, group=row.id) for row in rows]) == []  # a group a row says nothing
