"""What is predicted from a model's outputs, where one number that dev chooses decides it.

several labels  each label above a probability t, one of THRESHOLDS: o_c > log t / (1 - t)
one label       the class with the largest o_c - tau log p_c, tau one of TAUS, p_c the class's share of the training
                rows (Menon et al., 2021, "Long-tail learning via logit adjustment", 2007.07314, section 4.1): with
                tau = 0 the most probable class, which suits accuracy, with 1 the one that is the most over-represented,
                which suits the mean of the classes' recalls

All classes share the number: one for each would be chosen on the few rows that have the class.

Shape suffixes: R rows, C labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from acclimate.core.types import Label
from acclimate.tasks.prepared import Prepared

Threshold = Literal["half", "dev"]  # .5 or the most probable class, or what scores best on dev

# where probabilities are right, the best one for F1 is half of the F1 that it reaches (Lipton, Elkan and Narayanaswamy,
# 2014, 1402.1892)
THRESHOLDS = (0.01, 0.02, *(round(0.05 * twentieths, 2) for twentieths in range(1, 20)))
TAUS = (0.0, 0.25, 0.5, 0.75, 1.0)


class Decision(NamedTuple):
    """What is predicted, and the score of it.

    shift_C  float32, what is taken from the outputs: then the threshold lies at .5, or the largest one is predicted
    words    that say what was chosen; "" for .5 and the most probable class
    """

    shift_C: np.ndarray
    predicted: list[Label]
    score: float
    words: str


def log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def labels_above(outputs_RC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    """Return for each row the labels whose output is above 0, in alphabetical order."""
    return [tuple(sorted(labels[int(code)] for code in np.flatnonzero(row > 0))) for row in outputs_RC]


def has_threshold(task: Prepared) -> bool:
    """Return True if dev may decide what is predicted from the outputs: for several labels, and for one where the
    metric is not accuracy, which the most probable class suits.
    """
    return task.kind == "multilabel" or (task.kind == "sequence" and task.metric.name != "accuracy")


def decide(outputs_RC: np.ndarray, gold: Sequence[Label], labels: Sequence[str], task: Prepared) -> Decision:
    """Return the decision that scores best; of equals the one nearest to .5, or to the most probable class.

    outputs_RC  log odds of each label, or log probabilities up to a constant of each row
    """
    best: Decision | None = None
    for shift_C, words in _shifts(labels, task):
        shifted_RC = outputs_RC - shift_C
        if task.kind == "multilabel":
            predicted = labels_above(shifted_RC, labels)
        else:
            predicted = [labels[int(code)] for code in shifted_RC.argmax(-1)]
        score = task.score(gold, predicted)
        if best is None or score > best.score:
            best = Decision(shift_C, predicted, score, words)
    assert best is not None
    return best


def _shifts(labels: Sequence[str], task: Prepared) -> Iterator[tuple[np.ndarray, str]]:
    if task.kind == "multilabel":
        for threshold in sorted(THRESHOLDS, key=lambda threshold: abs(threshold - 0.5)):
            said = f"each label is predicted above a probability of {threshold:g}" if threshold != 0.5 else ""
            yield np.full(len(labels), log_odds(threshold), np.float32), said
        return
    # a class that no training row has stays as improbable as it is
    logs_C = np.log([task.shares.get(label, 1.0) for label in labels])
    for tau in TAUS:
        said = f"rare classes are predicted sooner (tau = {tau:g})" if tau else ""
        yield (tau * logs_C).astype(np.float32), said
