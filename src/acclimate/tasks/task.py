"""A task is a value: where its examples come from, which labels they bear, and what judges the predictions.

Shape suffixes: n examples, R resamples, K numbers an example.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from acclimate.core.types import SPLITS, Example, Label, Split
from acclimate.tasks.tags import words_of

Kind = Literal["tokens", "sequence", "multilabel", "score", "span"]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A number of at most 1 that says how well predicted labels agree with gold ones; larger is better.

    It is a function of sums over the items, so that a resample of the items costs one product of matrices:
    `value(weights_Rn @ statistics_nK)` are its values (R,) with item i taken weights[r, i] times.

    statistics  (gold, predicted), each n labels -> (n, K) float64, a row for each item; K may depend on the labels
    value       sums of such rows, (..., K) -> (...)
    kinds       the kinds of task whose labels it reads
    least       the lowest value there is: -1 for a correlation
    """

    name: str
    statistics: Callable[[Sequence[Label], Sequence[Label]], Values]
    value: Callable[[Values], Values]
    kinds: tuple[Kind, ...]
    least: float = 0.0

    def compute(self, gold: Sequence[Label], predicted: Sequence[Label]) -> float:
        """Return the value for n gold and n predicted labels. Raises ValueError where the numbers differ or are 0."""
        if len(gold) != len(predicted):
            raise ValueError(
                f"{len(gold)} gold labels, but {len(predicted)} predictions: give one prediction per example"
            )
        if not len(gold):
            raise ValueError("no examples: a metric of nothing is undefined")
        return float(self.value(self.statistics(gold, predicted).sum(axis=0)))


def as_read(example: Example) -> Example:
    """Return the preparation that changes nothing."""
    return example


@dataclass(frozen=True)
class Task:
    """A labelled dataset, its labels and its metric.

    read        (path, split) -> the split's examples, in a fixed order
    labels      what may be predicted, in the order of the head's outputs; () where a label is not one of a set
    max_tokens  longer examples are truncated to this many tokens, special ones included
    prepare     one example -> the example that the model sees, such as @CHEMICAL$ in place of an entity
    source      citation, licence, where the files come from
    untaught    labels that no training example need bear: what bears them in other splits is scored, and never right
    """

    name: str
    kind: Kind
    read: Callable[[Path, Split], list[Example]]
    labels: tuple[str, ...]
    metric: Metric
    max_tokens: int
    prepare: Callable[[Example], Example] = as_read
    source: str = ""
    untaught: tuple[str, ...] = ()


def load(task: Task, path: Path) -> dict[Split, list[Example]]:
    """Return the prepared examples of the three splits, checked before anything trains on them.

    Raises ValueError for an empty split, an empty text, an id that occurs twice, and a group that stands in two splits;
    where labels are classes ("sequence", "multilabel", "tokens") also for one that the task does not list, or that no
    training example bears though it is none of `untaught`; where they are tags ("tokens") for more or fewer of them
    than words; where they are numbers ("score") for one that is not finite; and where they are answers ("span") for an
    example without a question, and a training example whose answer does not stand in its text.
    """
    splits = {split: [task.prepare(example) for example in task.read(path, split)] for split in SPLITS}
    for split, examples in splits.items():
        _check_split(task, split, examples)
    _check_apart(task, splits)
    if task.kind == "tokens":
        _check_tags(task, splits)
    if task.kind in {"sequence", "multilabel", "tokens"}:
        _check_labels(task, splits)
    if task.kind == "score":
        _check_numbers(task, splits)
    if task.kind == "span":
        _check_answers(task, splits)
    return splits


def labels_per_class(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """`count` examples of each label, drawn without replacement, in the order in which they were given.

    A label's draw depends on the seed, the label and its own examples only; the draw for a smaller count is part of
    the draw for a larger one. Raises ValueError where a label has fewer than `count` examples.
    """
    if count < 1:
        raise ValueError(f"{count} labels per class: ask for at least 1")
    positions: dict[Label, list[int]] = {}
    for position, example in enumerate(examples):
        positions.setdefault(example.label, []).append(position)
    few = {label: len(found) for label, found in positions.items() if len(found) < count}
    if few:
        listed = ", ".join(f"{label!r} ({size})" for label, size in sorted(few.items(), key=str))
        raise ValueError(
            f"{count} labels per class asked for, but too few examples of {listed}; lower it to {min(few.values())}"
        )
    chosen: list[int] = []
    for label in sorted(positions, key=str):
        order = positions[label]
        random.Random(f"{seed} {label}").shuffle(order)
        chosen += order[:count]
    return [examples[position] for position in sorted(chosen)]


def drawn(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """`count` examples at random, one of each class (or tag) among them, in the order in which they were given; all of
    them where there are no more.

    The draw for a smaller count is part of the draw for a larger one. Raises ValueError where `count` is too small to
    hold every class.
    """
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    first: list[int] = []
    rest: list[int] = []
    seen: set[str] = set()
    for position in order:
        classes = set(classes_in(examples[position].label))
        (rest if classes <= seen else first).append(position)
        seen |= classes
    if count < len(first):
        raise ValueError(f"{count} rows asked for, but {len(first)} are drawn until every class is there. Ask for more")
    return [examples[position] for position in sorted([*first, *rest][:count])]


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


def classes_in(label: Label) -> tuple[str, ...]:
    """Return the classes that a label holds; none where it is a number."""
    if isinstance(label, str):
        return (label,)
    return label if isinstance(label, tuple) else ()


def _check_labels(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    known = set(task.labels)
    for split, examples in splits.items():
        for example in examples:
            # of a row that must bear one class, the label itself is looked at, whatever its type
            for label in (example.label,) if task.kind == "sequence" else classes_in(example.label):
                if label not in known:
                    raise ValueError(
                        f"{task.name}, {split}, {example.id}: the label {label!r} is none of the task's "
                        f"({', '.join(map(repr, task.labels))}). Correct the file, or add it to the task's labels"
                    )
    counts = Counter(label for example in splits["train"] for label in classes_in(example.label))
    missing = [label for label in task.labels if not counts[label] and label not in task.untaught]
    if missing:
        raise ValueError(
            f"{task.name}, train: no example bears {', '.join(map(repr, missing))}, which therefore cannot be learnt. "
            f"Add examples, or take it off the task's labels and out of the other splits"
        )


def _check_tags(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    for split, examples in splits.items():
        for example in examples:
            words = words_of(example.text)
            if not isinstance(example.label, tuple) or len(example.label) != len(words) or "" in words:
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: {len(words)} words need a tuple of as many tags, not "
                    f"{example.label!r}. Words stand between single spaces, a tag each"
                )


def _check_numbers(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    for split, examples in splits.items():
        for example in examples:
            if not isinstance(example.label, int | float) or not math.isfinite(example.label):
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: the label {example.label!r} is no finite number, but the "
                    f"task's are numbers to predict. Correct it or leave the row out"
                )


def _check_answers(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    for split, examples in splits.items():
        for example in examples:
            where = f"{task.name}, {split}, {example.id}"
            if not (example.pair or "").strip() or not isinstance(example.label, tuple):
                raise ValueError(
                    f"{where}: a question and a tuple of its answers are needed, not {example.pair!r} and "
                    f"{example.label!r}. The question is the example's pair, the context its text"
                )
            found = {example.text[start:end] for start, end in example.spans}
            if found - set(example.label) or (split == "train" and not found):
                raise ValueError(
                    f"{where}: its spans cover {', '.join(map(repr, sorted(found))) or 'nothing'}, its answers are "
                    f"{', '.join(map(repr, example.label)) or 'none'}. Give the span of each answer to learn from"
                )
