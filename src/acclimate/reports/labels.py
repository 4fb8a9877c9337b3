"""F1 of each label, and confusions between labels, computed from the predictions of `Score`s.

A label is a class. An item with several classes (its label is a tuple) counts for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.core.types import Label, Score
from acclimate.tasks.metrics import classes
from acclimate.tasks.tags import entities, joined_tags

MOST = 15  # labels in a confusion table; a larger table is illegible


@dataclass(frozen=True, slots=True)
class LabelScore:
    """Mean F1 of one label over seeds, of the untouched model and of a contestant. support: test items that have it."""

    label: str
    support: int
    untouched: float
    contestant: float


@dataclass(frozen=True, slots=True)
class Confusion:
    """Mean number over seeds of test items with each pair of gold and predicted label.

    labels  by falling number of gold items; if `pooled` is above 0, the last one stands for that many labels together
    counts  [gold][predicted], in the order of `labels`
    """

    contestant: str
    labels: tuple[str, ...]
    pooled: int
    counts: tuple[tuple[float, ...], ...]

    @property
    def largest(self) -> int:
        """The number of items of the most frequent label."""
        return max(round(sum(row)) for row in self.counts)


def label_scores(untouched: Sequence[Score], contestant: Sequence[Score]) -> list[LabelScore]:
    """Return the F1 of every gold label for two contestants, by falling support, then by name."""
    support = Counter(label for labels in untouched[0].gold for label in classes(labels))
    order = sorted(support, key=lambda label: (-support[label], label))
    ours, theirs = (_mean_f1(side, order) for side in (contestant, untouched))
    return [LabelScore(label, support[label], theirs[label], ours[label]) for label in order]


def type_scores(untouched: Sequence[Score], contestant: Sequence[Score]) -> list[LabelScore]:
    """Return the same for tags: F1 of every type of entity, or of each tag over words if the metric counts words.

    support: number of such entities or words in the test set.
    """
    named = untouched[0].metric == "entity_f1"
    support = Counter(entity[-1] for label in untouched[0].gold for entity in _found(label, named=named))
    order = sorted(support, key=lambda label: (-support[label], label))
    ours, theirs = (_mean_f1_of_types(side, order, named=named) for side in (contestant, untouched))
    return [LabelScore(label, support[label], theirs[label], ours[label]) for label in order]


def confusion(scores: Sequence[Score], *, most: int = MOST) -> Confusion:
    """Return how often a contestant predicted each label for each gold label; all but the `most` frequent are pooled.

    For tasks with one label an item. Labels are ordered by their gold items, so that tables of two contestants have the
    same order. A label that was predicted but that no item has comes last.
    """
    gold = Counter(str(label) for label in scores[0].gold)
    names = sorted({*gold, *(str(label) for score in scores for label in score.predicted)}, key=lambda x: (-gold[x], x))
    pooled = names[most:] if len(names) > most + 1 else []  # pooling a single label would hide it and save no row
    frequent_labels = names[: len(names) - len(pooled)]
    size = len(frequent_labels) + bool(pooled)
    place = {name: i for i, name in enumerate(frequent_labels)} | dict.fromkeys(pooled, size - 1)
    counts = np.zeros((size, size))
    for score in scores:
        for right, guess in zip(score.gold, score.predicted, strict=True):
            counts[place[str(right)], place[str(guess)]] += 1 / len(scores)
    labels = (*frequent_labels, f"{len(pooled)} other labels") if pooled else tuple(frequent_labels)
    table = tuple(tuple(float(count) for count in row) for row in counts)
    return Confusion(scores[0].contestant, labels, len(pooled), table)


def mean_predictions(scores: Sequence[Score]) -> list[tuple[float, float]]:
    """Return (gold, mean prediction over seeds) of each test item of a task that predicts a number."""
    gold = [_number(label) for label in scores[0].gold]
    predicted = np.mean([[_number(label) for label in score.predicted] for score in scores], axis=0)
    return list(zip(gold, (float(value) for value in predicted), strict=True))


def _mean_f1(scores: Sequence[Score], labels: Sequence[str]) -> dict[str, float]:
    """Return F1 = 2 TP / (gold + predicted) of each label, as the mean over seeds. Each label has a gold item."""
    total = dict.fromkeys(labels, 0.0)
    for score in scores:
        hits: Counter[str] = Counter()
        sums: Counter[str] = Counter()
        for right, guess in zip(map(classes, score.gold), map(classes, score.predicted), strict=True):
            hits.update(right & guess)
            sums.update(right)
            sums.update(guess)
        for label in labels:
            total[label] += 2 * hits[label] / sums[label]
    return {label: value / len(scores) for label, value in total.items()}


def _mean_f1_of_types(scores: Sequence[Score], types: Sequence[str], *, named: bool) -> dict[str, float]:
    total = dict.fromkeys(types, 0.0)
    for score in scores:
        hits: Counter[str] = Counter()
        sums: Counter[str] = Counter()
        for right, guess in zip(score.gold, score.predicted, strict=True):
            gold_items, predicted_items = (_found(label, named=named) for label in (right, guess))
            hits.update(item[-1] for item in gold_items & predicted_items)
            sums.update(item[-1] for side in (gold_items, predicted_items) for item in side)
        for name in types:
            total[name] += 2 * hits[name] / sums[name]
    return {name: value / len(scores) for name, value in total.items()}


def _found(label: Label, *, named: bool) -> set[tuple[int, int, str]]:
    """Return (first word, last word, type) of each entity if the tags name entities, else of each word with its tag."""
    assert isinstance(label, tuple)  # only called for tasks of tags
    return (
        entities(label)
        if named
        else {(place, place, part) for place, tag in enumerate(label) for part in joined_tags(tag)}
    )


def _number(label: Label) -> float:
    assert not isinstance(label, tuple)  # only called for tasks that predict a number
    return float(label)
