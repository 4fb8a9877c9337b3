from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logit

from acclimate.core.types import Example
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Task
from acclimate.tasks.thresholds import decide, labels_above

LABELS = ("soil", "orbit", "heart")


def test_the_threshold_is_the_best_on_dev_and_of_equals_the_one_nearest_to_a_half(tmp_path):
    def read(path: Path, split: str) -> list[Example]:
        return [Example(f"{split} {name}", f"{split} {name}", (name,)) for name in LABELS]

    task = prepare(Task("t", "multilabel", read, LABELS, metric_named("micro_f1"), 8), tmp_path, tmp_path / "data")
    gold = [("heart",), (), ("heart",), ()]
    low = logit([[0.01, 0.01, 0.3], [0.01, 0.01, 0.1], [0.01, 0.01, 0.28], [0.01, 0.01, 0.1]]).astype(np.float32)
    found = decide(low, gold, LABELS, task)
    assert (found.predicted, found.score) == (gold, 1.0)
    assert found.shift_C == pytest.approx([logit(0.25)] * 3)
    assert (found.number, found.note) == (0.25, "each label is predicted above a probability of 0.25")
    assert gold in found.tried
    sure = np.where(low > logit(0.2), 4.0, -4.0).astype(np.float32)
    assert decide(sure, gold, LABELS, task).note == ""
    assert not decide(sure, gold, LABELS, task).shift_C.any()


def test_rare_classes_are_predicted_sooner_where_that_scores_better_on_dev(tmp_path):
    """A class of 1 row in 16 that the model finds a little probable: by tau = .5 its output gains log 4 on the mean."""

    def read(path: Path, split: str) -> list[Example]:
        return [Example(f"{split} {row}", f"{split} {row}", "rare" if row < 1 else "usual") for row in range(16)]

    labels = ("rare", "usual", "unseen")
    stated = Task("t", "sequence", read, labels, metric_named("macro_f1"), 8, untaught=("unseen",))
    task = prepare(stated, tmp_path, tmp_path / "data")
    assert task.shares == {"rare": 1 / 16, "usual": 15 / 16}
    gold = ["rare", "usual", "usual", "usual"]
    outputs = np.log(np.array([[0.2, 0.8, 1e-9], [0.05, 0.95, 1e-9], [0.05, 0.95, 1e-9], [0.1, 0.9, 1e-9]]))
    found = decide(outputs, gold, labels, task)
    assert (found.predicted, found.score, found.number) == (gold, 1.0, 0.75)
    assert found.note == "rare classes are predicted at lower probabilities (logit adjustment, tau = 0.75)"
    assert [tried.count("rare") for tried in found.tried] == [0, 0, 0, 1, 2]
    assert found.shift_C == pytest.approx(0.75 * np.log([1 / 16, 15 / 16, 1.0]))
    assert decide(outputs, ["usual"] * 4, labels, task).note == ""
    of_a_part = decide(outputs, gold, labels, task, shares={"rare": 0.5, "usual": 0.5})
    assert of_a_part.predicted == ["usual"] * 4


@pytest.mark.parametrize(
    ("kind", "metric", "decides"),
    [
        ("sequence", "macro_f1", True),
        ("sequence", "accuracy", False),
        ("sequence", "micro_f1", False),
        ("sequence", "micro_f1 without other", True),
        ("multilabel", "micro_f1", True),
        ("score", "pearson", False),
    ],
)
def test_nothing_is_to_be_decided_where_the_most_probable_class_is_best(kind, metric, decides):
    assert Prepared.has_threshold.fget(SimpleNamespace(kind=kind, metric=metric_named(metric))) is decides


def test_labels_are_those_above_zero_by_name():
    assert labels_above(np.array([[1.0, 0.0, 2.0], [-1.0, -1.0, 0.0]]), LABELS) == [("heart", "soil"), ()]
