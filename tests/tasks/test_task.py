from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from acclimate.core.types import Example, Label, Split
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Task, checked_splits, classes_in, sampled

GOOD: dict[Split, list[Example]] = {
    "train": [Example("a", "one", "yes", group="g"), Example("b", "two", "no")],
    "dev": [Example("c", "three", "yes")],
    "test": [Example("d", "four", "no")],
}


def task_of(splits: Mapping[Split, list[Example]]) -> Task:
    return Task("polar", "sequence", lambda path, split: splits[split], ("no", "yes"), METRICS["accuracy"], 32)


def test_load_prepares_every_split():
    task = replace(task_of(GOOD), prepare=lambda example: replace(example, text=example.text.upper()))
    splits = checked_splits(task, Path())
    assert [example.text for split in splits.values() for example in split] == ["ONE", "TWO", "THREE", "FOUR"]


@pytest.mark.parametrize(
    ("split", "examples", "message"),
    [
        ("dev", [], "polar: the split 'dev' has no examples"),
        ("dev", [Example("c", " \n", "yes")], r"polar, dev, c: the text is empty \(' \\n'\)"),
        ("test", [Example("d", "four", "maybe")], r"polar, test, d: the label 'maybe' is not .* \('no', 'yes'\)"),
        ("train", [Example("a", "one", "yes")], "polar, train: no example has 'no'"),
        ("test", [Example("a", "four", "no")], "polar, test: the id 'a' already occurs in 'train'"),
        ("dev", [Example("c", "x", "no"), Example("c", "y", "no")], "polar, dev: the id 'c' already occurs in 'dev'"),
        ("test", [Example("d", "four", "no", group="g")], "polar, test, d: its group 'g' is also in 'train'"),
    ],
)
def test_load_refuses_what_would_spoil_a_result(split, examples, message):
    with pytest.raises(ValueError, match=message):
        checked_splits(task_of({**GOOD, split: examples}), Path())


def numbered(label: Label) -> Task:
    splits = {split: [replace(example, label=label) for example in examples] for split, examples in GOOD.items()}
    return replace(task_of(splits), kind="score", labels=())


def test_labels_of_a_score_task_are_numbers():
    assert checked_splits(numbered(3.5), Path())["dev"][0].label == 3.5
    for label in ("3.5", float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"polar, train, a: the label .* is not a finite number"):
            checked_splits(numbered(label), Path())


def test_each_class_of_a_multilabel_task_is_looked_up():
    rows: dict[Split, list[Example]] = {
        "train": [Example("a", "one", ("no", "yes"))],
        "dev": [Example("b", "two", ())],
        "test": [Example("c", "three", ("no",))],
    }
    assert checked_splits(replace(task_of(rows), kind="multilabel"), Path()) == rows
    rows["test"] = [Example("c", "three", ("maybe", "no"))]
    with pytest.raises(ValueError, match="polar, test, c: the label 'maybe' is not a label of the task"):
        checked_splits(replace(task_of(rows), kind="multilabel"), Path())
    rows["train"] = [Example("a", "one", ("no",))]
    rows["test"] = [Example("c", "three", ("no",))]
    with pytest.raises(ValueError, match="polar, train: no example has 'yes'"):
        checked_splits(replace(task_of(rows), kind="multilabel"), Path())


def test_answers_to_learn_from_stand_in_the_text_of_a_question():
    right = Example("a", "it is here", ("here",), "where?", spans=((6, 10),))
    unanswered = Example("c", "it is here", ("there",), "where?")
    rows: dict[Split, list[Example]] = {"train": [right], "dev": [replace(right, id="b")], "test": [unanswered]}

    def of(rows: dict[Split, list[Example]]) -> Task:
        return replace(task_of(rows), kind="span", labels=())

    assert checked_splits(of(rows), Path()) == rows
    for wrong, message in (
        (replace(right, pair=None), "train, a: a question and a tuple of its answers are needed, not None and"),
        (replace(right, label="here"), "a question and a tuple of its answers are needed, not 'where.' and 'here'"),
        (replace(right, spans=()), "its spans cover nothing, its answers are 'here'. Give the span"),
        (replace(right, spans=((5, 10),)), "its spans cover ' here', its answers are 'here'"),
    ):
        with pytest.raises(ValueError, match=message):
            checked_splits(of(rows | {"train": [wrong]}), Path())


MANY = [Example(str(number), "text", "abc"[number % 3]) for number in range(60)]


def test_a_sample_has_every_class_and_is_part_of_a_larger_one():
    rare = [*MANY, Example("rare", "", "d"), Example("rarer", "", ("d", "e"))]
    for seed in range(20):
        few = sampled(rare, 5, seed)
        assert len(few) == 5
        assert {"a", "b", "c", "d", "e"} == {name for example in few for name in classes_in(example.label)}
        assert few == [example for example in rare if example in few]
        assert {example.id for example in few} < {example.id for example in sampled(rare, 9, seed)}
    assert sampled(rare, 9, 0) == sampled(rare, 9, 0) != sampled(rare, 9, 1)
    assert sampled(rare, len(rare) + 1, 0) == rare
    with pytest.raises(ValueError, match=r"3 rows requested, but [45] are needed for one of every class"):
        sampled(rare, 3, 0)
