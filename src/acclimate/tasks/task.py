"""A task is a value: where its examples come from, which labels they bear, and what judges the predictions.

Shape suffixes: n examples, R resamples, C classes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from acclimate.core.types import SPLITS, Example, Split

Kind = Literal["tokens", "sequence", "multilabel", "score", "span"]
Codes = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
UNCOUNTED = -1  # the code of a label that a metric leaves out


@dataclass(frozen=True)
class Metric:
    """A number in [0, 1] that says how well predicted labels agree with gold ones; larger is better.

    compute   (gold, predicted), each n labels -> the value. ValueError where n differs or is 0.
    weighted  (gold codes (n,), predicted codes (n,), weights (R, n), classes C) -> (R,): row r is the value with
              example i taken weights[r, i] times. `encode` makes the codes.
    ignore    labels that are no class of their own, such as a "no relation" class: their code is UNCOUNTED
    """

    name: str
    compute: Callable[[Sequence[str], Sequence[str]], float]
    weighted: Callable[[Codes, Codes, npt.NDArray[np.integer], int], Values]
    ignore: frozenset[str] = frozenset()

    def encode(self, gold: Sequence[str], predicted: Sequence[str]) -> tuple[Codes, Codes, int]:
        """Codes (n,) of both sides and the number of classes, for `weighted`."""
        return encode(gold, predicted, ignore=self.ignore)


def encode(
    gold: Sequence[str], predicted: Sequence[str], *, ignore: frozenset[str] = frozenset()
) -> tuple[Codes, Codes, int]:
    """Codes (n,) of gold and predicted labels, 0 to C - 1 in sorted order or UNCOUNTED, and C.

    Raises ValueError where there is nothing to compare, or the two differ in number.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels, but {len(predicted)} predictions: give one prediction per example")
    if not len(gold):
        raise ValueError("no examples: a metric of nothing is undefined")
    names = sorted((set(gold) | set(predicted)) - ignore)
    codes = {name: code for code, name in enumerate(names)} | dict.fromkeys(ignore, UNCOUNTED)

    def coded(labels: Sequence[str]) -> Codes:
        return np.fromiter((codes[label] for label in labels), dtype=np.int64, count=len(labels))

    return coded(gold), coded(predicted), len(names)


def as_read(example: Example) -> Example:
    """The preparation that changes nothing."""
    return example


@dataclass(frozen=True)
class Task:
    """A labelled dataset, its labels and its metric.

    read        (path, split) -> the split's examples, in a fixed order
    labels      what may be predicted, in the order of the head's outputs; () where a label is not one of a set
    max_tokens  longer examples are truncated to this many tokens, special ones included
    prepare     one example -> the example that the model sees, such as @CHEMICAL$ in place of an entity
    source      citation, licence, where the files come from
    """

    name: str
    kind: Kind
    read: Callable[[Path, Split], list[Example]]
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    prepare: Callable[[Example], Example] = as_read
    source: str = ""


def load(task: Task, path: Path) -> dict[Split, list[Example]]:
    """The prepared examples of the three splits, checked before anything trains on them.

    Raises ValueError for an empty split, an empty text, an id that occurs twice, and a group that stands in two splits;
    for a task of kind "sequence" also for a label that the task does not list, or that no training example bears.
    """
    splits = {split: [task.prepare(example) for example in task.read(path, split)] for split in SPLITS}
    for split, examples in splits.items():
        _check_split(task, split, examples)
    _check_apart(task, splits)
    if task.kind == "sequence":
        _check_labels(task, splits)
    return splits


def labels_per_class(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """`count` examples of each label, drawn without replacement, in the order in which they were given.

    A label's draw depends on the seed, the label and its own examples only; the draw for a smaller count is part of
    the draw for a larger one. Raises ValueError where a label has fewer than `count` examples.
    """
    if count < 1:
        raise ValueError(f"{count} labels per class: ask for at least 1")
    positions: dict[str, list[int]] = {}
    for position, example in enumerate(examples):
        positions.setdefault(example.label, []).append(position)
    few = {label: len(found) for label, found in positions.items() if len(found) < count}
    if few:
        listed = ", ".join(f"{label!r} ({size})" for label, size in sorted(few.items()))
        raise ValueError(
            f"{count} labels per class asked for, but too few examples of {listed}; lower it to {min(few.values())}"
        )
    chosen: list[int] = []
    for label in sorted(positions):
        order = positions[label]
        random.Random(f"{seed} {label}").shuffle(order)
        chosen += order[:count]
    return [examples[position] for position in sorted(chosen)]


def _check_split(task: Task, split: Split, examples: Sequence[Example]) -> None:
    if not examples:
        raise ValueError(f"{task.name}: the split {split!r} has no examples; check the files that it is read from")
    for example in examples:
        if not example.text.strip():
            raise ValueError(
                f"{task.name}, {split}, {example.id}: the text is empty ({example.text!r}); leave the row out"
            )


def _check_apart(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    """No id twice, no group in two splits."""
    split_of_id: dict[str, Split] = {}
    split_of_group: dict[str, Split] = {}
    for split, examples in splits.items():
        for example in examples:
            if example.id in split_of_id:
                raise ValueError(
                    f"{task.name}, {split}: the id {example.id!r} already occurs in {split_of_id[example.id]!r}. "
                    f"Predictions are told apart by id: leave the copy out, or give it an id of its own"
                )
            split_of_id[example.id] = split
            other = split_of_group.setdefault(example.group, split) if example.group else split
            if other != split:
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: its group {example.group!r} also stands in {other!r}, which "
                    f"would let the model see test material. Move the whole group to one split"
                )


def _check_labels(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    known = set(task.labels)
    for split, examples in splits.items():
        for example in examples:
            if example.label not in known:
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: the label {example.label!r} is none of the task's "
                    f"({', '.join(map(repr, task.labels))}). Correct the file, or add it to the task's labels"
                )
    counts = Counter(example.label for example in splits["train"])
    missing = [label for label in task.labels if not counts[label]]
    if missing:
        raise ValueError(
            f"{task.name}, train: no example bears {', '.join(map(repr, missing))}, which therefore cannot be learnt. "
            f"Add examples, or take it off the task's labels and out of the other splits"
        )
