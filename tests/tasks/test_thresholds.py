from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import logit

from acclimate.core.types import Example
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import Task
from acclimate.tasks.thresholds import best_threshold, labels_above

LABELS = ("soil", "orbit", "heart")


def test_the_threshold_is_the_best_on_dev_and_of_equals_the_one_nearest_to_a_half(tmp_path):
    def read(path: Path, split: str) -> list[Example]:
        return [Example(f"{split} {name}", f"{split} {name}", (name,)) for name in LABELS]

    task = prepare(Task("t", "multilabel", read, LABELS, metric_named("micro_f1"), 8), tmp_path, tmp_path / "data")
    gold = [("heart",), (), ("heart",), ()]
    low = logit([[0.01, 0.01, 0.3], [0.01, 0.01, 0.1], [0.01, 0.01, 0.28], [0.01, 0.01, 0.1]]).astype(np.float32)
    assert best_threshold(low, gold, LABELS, task) == (0.25, gold, 1.0)
    sure = np.where(low > logit(0.2), 4.0, -4.0).astype(np.float32)
    assert best_threshold(sure, gold, LABELS, task)[0] == 0.5


def test_labels_are_those_above_zero_by_name():
    assert labels_above(np.array([[1.0, 0.0, 2.0], [-1.0, -1.0, 0.0]]), LABELS) == [("heart", "soil"), ()]
