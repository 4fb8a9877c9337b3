"""Predicted classes against gold ones, of rows that bear one class or several: what accuracy, F1 and the like sum.

Classes are compared as sets: one label is a set of one, so the same functions judge both.

Shape suffixes: n items, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acclimate.core.types import Label
from acclimate.tasks.sums import divided, means, ratio, table
from acclimate.tasks.task import Values


def hits(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for accuracy: 1 where the sets of labels are equal, and 1."""
    return means(
        [ours == theirs or classes(ours) == classes(theirs) for ours, theirs in zip(gold, predicted, strict=True)]
    )


def decisions(gold: Sequence[Label], predicted: Sequence[Label], *, ignore: frozenset[str] = frozenset()) -> Values:
    """(n, 2) for micro-F1: twice the labels in both sets, and the labels of either set.

    An ignored label is a decision not to decide: predicting it costs recall, missing it costs precision.
    """
    sets = [(classes(ours) - ignore, classes(theirs) - ignore) for ours, theirs in zip(gold, predicted, strict=True)]
    return table([(2.0 * len(ours & theirs), len(ours) + len(theirs)) for ours, theirs in sets], 2)


def decisions_by_class(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3 C) for macro-F1: for each class that occurs, whether both sets have it; then gold; then predicted."""
    sides = [[classes(label) for label in labels] for labels in (gold, predicted)]
    columns = {name: at for at, name in enumerate(sorted(frozenset().union(*sides[0], *sides[1])))}
    has_2nC = np.zeros((2, len(gold), len(columns)))
    for has_nC, sets in zip(has_2nC, sides, strict=True):
        places = [(row, columns[name]) for row, names in enumerate(sets) for name in names]
        if places:
            has_nC[tuple(np.array(places).T)] = 1.0
    return np.concatenate([has_2nC[0] * has_2nC[1], has_2nC[0], has_2nC[1]], axis=1)


def mean_f1(sums: Values) -> Values:
    """(..., 3 C) -> (...): the unweighted mean of the classes' F1: a rare class counts as much as a frequent one."""
    both, gold, predicted = np.split(sums, 3, axis=-1)
    either = gold + predicted
    # sums over so few columns are much faster as products
    ones = np.ones(either.shape[-1])
    return divided(divided(2.0 * both, either) @ ones, (either > 0) @ ones)


def examples(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3) for example-based F1: precision and recall of the item's labels, and 1; 0 where none is gold.

    So items without a gold label do not count, whatever is predicted for them: BLUE leaves such documents out.
    """
    rows = []
    for ours, theirs in zip(map(classes, gold), map(classes, predicted), strict=True):
        both = len(ours & theirs)
        rows.append((both / max(len(theirs), 1), both / len(ours), 1.0) if ours else (0.0, 0.0, 0.0))
    return table(rows, 3)


def example_f1(sums: Values) -> Values:
    """(..., 3) -> (...): the harmonic mean of mean precision and mean recall."""
    precision, recall, count = np.moveaxis(sums, -1, 0)
    return divided(2.0 * precision * recall, count * (precision + recall))


def matthews(sums: Values) -> Values:
    """(..., 3 C) -> (...): Matthews' correlation of the confusion matrix (Gorodkin's R_K for more than two classes)."""
    both, gold, predicted = np.split(sums, 3, axis=-1)
    count, right = gold.sum(axis=-1), both.sum(axis=-1)
    spreads = [count * count - (side * side).sum(axis=-1) for side in (gold, predicted)]
    bottom = np.sqrt(np.maximum(spreads[0], 0.0)) * np.sqrt(np.maximum(spreads[1], 0.0))
    return np.clip(divided(right * count - (gold * predicted).sum(axis=-1), bottom), -1.0, 1.0)


def hits_and_class(gold: Sequence[Label], predicted: Sequence[Label], *, label: str) -> Values:
    """(n, 4) for accuracy and the F1 of one class: as `hits`; twice the class on both sides, and on either."""
    sides = [(float(ours == label), float(theirs == label)) for ours, theirs in zip(gold, predicted, strict=True)]
    return np.concatenate([hits(gold, predicted), table([(2.0 * a * b, a + b) for a, b in sides], 2)], axis=1)


def mean_of_ratios(sums: Values) -> Values:
    """(..., 4) -> (...): the mean of the ratios of the first two and of the last two."""
    return (ratio(sums[..., :2]) + ratio(sums[..., 2:])) / 2


def classes(label: Label) -> frozenset[str]:
    """The classes of a row: of one that may have several, all; else the one."""
    return frozenset(label) if isinstance(label, tuple) else frozenset((str(label),))
