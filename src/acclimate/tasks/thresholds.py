"""The probability above which each of several labels is predicted, chosen on dev.

All labels share it: a threshold for each label would be chosen on the few rows that have the label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from acclimate.core.types import Label
from acclimate.tasks.prepared import Prepared

Threshold = Literal["half", "dev"]  # .5, or what scores best on dev

# where probabilities are right, the best one for F1 is half of the F1 that it reaches (Lipton, Elkan and Narayanaswamy,
# 2014, 1402.1892)
THRESHOLDS = (0.01, 0.02, *(round(0.05 * twentieths, 2) for twentieths in range(1, 20)))


def log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def labels_above(outputs_RC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    """Return for each row the labels whose output is above 0, in alphabetical order."""
    return [tuple(sorted(labels[int(code)] for code in np.flatnonzero(row > 0))) for row in outputs_RC]


def best_threshold(
    outputs_RC: np.ndarray, gold: Sequence[Label], labels: Sequence[str], task: Prepared
) -> tuple[float, list[Label], float]:
    """Return the one of THRESHOLDS at which the outputs score best, the predictions and the score there; of equals the
    one that is nearest to 0.5.

    outputs_RC  log odds of each label
    """
    best: tuple[float, list[Label], float] | None = None
    for threshold in sorted(THRESHOLDS, key=lambda threshold: abs(threshold - 0.5)):
        predicted = labels_above(outputs_RC - np.float32(log_odds(threshold)), labels)
        score = task.score(gold, predicted)
        if best is None or score > best[2]:
            best = threshold, predicted, score
    assert best is not None
    return best
