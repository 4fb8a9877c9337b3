from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acclimate.core.types import Example, Label
from acclimate.methods import baselines
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, Task


def task_of(
    kind: Kind,
    metric: str,
    train: list[Any],
    *,
    labels: tuple[str, ...],
    test: list[Any],
    place: Path,
    dev: list[Any] | None = None,
) -> Prepared:
    """Texts of as many words as a label has tags. dev: as train where it is not stated"""
    rows: dict[str, list[Label]] = {"train": train, "dev": dev or train, "test": test}

    def read(path: Path, split: str) -> list[Example]:
        words = [len(label) if kind == "tokens" else 1 for label in rows[split]]
        named = enumerate(zip(words, rows[split], strict=True))
        return [Example(f"{split}-{at}", " ".join(["word"] * count), label) for at, (count, label) in named]

    return prepare(Task("task", kind, read, labels, metric_named(metric), 16), place, place / "data")


def answer(kind: Kind, metric: str, train: list[Any], *, labels: tuple[str, ...], place: Path) -> Label:
    task = task_of(kind, metric, train, labels=labels, test=train[:1], place=place)
    return baselines.fit_constant(task).predicted_dev[0]


def test_one_label_is_the_commonest_or_another_where_that_does_not_count(tmp_path):
    train, labels = ["no"] * 5 + ["yes"] * 2 + ["maybe"] * 3, ("maybe", "no", "yes")
    assert answer("sequence", "accuracy", train, labels=labels, place=tmp_path / "1") == "no"
    assert answer("sequence", "micro_f1 without no", train, labels=labels, place=tmp_path / "2") == "maybe"
    metric = "micro_f1 without a, b"
    assert answer("sequence", metric, ["a", "b", "b", "a", "b"], labels=("a", "b"), place=tmp_path) == "b"


def test_several_labels_are_what_scores_best_on_train(tmp_path):
    train, labels = [("a",)] * 5 + [()] * 6 + [("a", "b")] * 2, ("a", "b")
    assert answer("multilabel", "accuracy", train, labels=labels, place=tmp_path / "1") == ()
    assert answer("multilabel", "micro_f1", train, labels=labels, place=tmp_path / "2") == ("a",)
    assert answer("multilabel", "macro_f1", train, labels=labels, place=tmp_path / "3") == ("a", "b")


def test_a_word_has_the_tag_that_scores_best(tmp_path):
    train, labels = [("O", "O", "B"), ("O", "B")], ("B", "O")
    assert answer("tokens", "word_accuracy", train, labels=labels, place=tmp_path / "1") == ("O", "O", "O")
    # every word as one entity: two of five are right, and both are found
    task = task_of("tokens", "entity_f1", train, labels=labels, test=[("O", "B", "O")], place=tmp_path / "2")
    fitted = baselines.fit_constant(task)
    assert fitted.dev == pytest.approx(2 * 2 / (5 + 2))
    assert baselines.test_baseline(fitted, task, by="me")["predicted"] == (("B", "B", "B"),)


def test_a_number_is_the_mean_and_correlates_with_nothing(tmp_path):
    task = task_of("score", "pearson", [1.0, 2.0, 6.0], labels=(), test=[1.0, 4.0], place=tmp_path)
    fitted = baselines.fit_constant(task)
    assert (fitted.predicted_dev, fitted.dev) == ((3.0, 3.0, 3.0), 0.0)
    tested = baselines.test_baseline(fitted, task, by="me")
    assert (tested["predicted"], tested["test"]) == ((3.0, 3.0), 0.0)
    assert [look["by"] for look in task.looks()] == ["me"]


@pytest.mark.parametrize(
    ("kind", "metric", "rows", "best"),
    [
        ("sequence", "accuracy", (["a"] * 51 + ["b"] * 49, ["a"] * 4 + ["b"] * 6), 0.6),
        ("multilabel", "accuracy", ([("a",)] * 3 + [("b",)] * 2, [("a",)] * 2 + [("b",)] * 3), 0.6),
        ("tokens", "word_accuracy", ([("a", "a", "b")], [("a", "b", "b", "b")]), 0.75),
    ],
)
def test_what_has_to_be_beaten_on_dev_is_the_answer_that_is_best_there(kind, metric, rows, best, tmp_path):
    """The commonest label of train may be a rare one on dev: any run of the other label would have learnt something."""
    train, dev = rows
    task = task_of(kind, metric, train, labels=("a", "b"), test=dev, place=tmp_path, dev=dev)
    assert constant_on_dev(task) == pytest.approx(best)
    assert baselines.fit_constant(task).dev < best, "the answer that is tested is chosen on train"


def test_where_no_answer_can_be_constant_a_score_above_0_is_enough():
    assert constant_on_dev(SimpleNamespace(kind="span")) == 0.0
