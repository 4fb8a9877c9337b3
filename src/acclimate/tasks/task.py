"""A task as a value: how its examples are read, which labels they have, and which metric judges predictions.

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

Kind = Literal["tokens", "sequence", "multilabel", "score", "span", "search"]
PROBED: tuple[Kind, ...] = ("sequence", "multilabel", "score", "tokens")  # a span's ends are no label of a state
NOT_OF_A_STATE = "a linear layer on the state of a text cannot mark where an answer begins and ends, or rank documents"
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A number of at most 1 that measures how well predicted labels agree with gold labels; larger is better.

    It is a function of sums over the items, so that resampling the items costs one product of matrices:
    `value(weights_Rn @ statistics_nK)` returns its values (R,) with item i taken weights[r, i] times.

    statistics  (gold, predicted), n labels each -> (n, K) float64, a row for each item; K may depend on the labels
    value       sums of such rows (..., K) -> values (...)
    kinds       the kinds of task that it judges
    least       the lowest possible value: -1 for a correlation
    """

    name: str
    statistics: Callable[[Sequence[Label], Sequence[Label]], Values]
    value: Callable[[Values], Values]
    kinds: tuple[Kind, ...]
    least: float = 0.0

    def compute(self, gold: Sequence[Label], predicted: Sequence[Label]) -> float:
        """Return the value for n gold and n predicted labels. Raises ValueError if the numbers differ or are 0."""
        if len(gold) != len(predicted):
            raise ValueError(
                f"{len(gold)} gold labels, but {len(predicted)} predictions: give one prediction per example"
            )
        if not len(gold):
            raise ValueError("no examples: a metric of nothing is undefined")
        return float(self.value(self.statistics(gold, predicted).sum(axis=0)))


def as_read(example: Example) -> Example:
    """Return the example unchanged: the default of `Task.prepare`."""
    return example


@dataclass(frozen=True)
class Task:
    """A labelled dataset, its labels and its metric.

    In a task of kind "search" the rows of train are the documents, and the label of a document is the training queries
    that it answers. The rows of dev and test are queries, with the ids of their relevant documents as their label, each
    as often as its grade.

    read        (path, split) -> the split's examples, in a fixed order
    labels      the labels that may be predicted, in the order of the head's outputs; () for numbers and answers
    max_tokens  longer examples are truncated to this many tokens, special ones included
    prepare     example -> the example that the model sees, such as with @CHEMICAL$ in place of an entity
    source      citation, licence, origin of the files
    untaught    labels that training examples may lack; in other splits they are scored, as errors
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


def checked_splits(task: Task, path: Path) -> dict[Split, list[Example]]:
    """Return the prepared examples of the three splits, after checking them.

    Raises ValueError for an empty split, an empty text, an id that occurs twice, a group in two splits, and for
      classes (kinds "sequence", "multilabel", "tokens") that the task does not list, or that no training example has
      though they are not `untaught`;
      tags ("tokens"), if there are not as many as words;
      numbers ("score") that are not finite;
      answers ("span") without a question, or, in train, that the text does not contain;
      queries ("search") of dev and test without a relevant document.
    """
    splits = {split: [task.prepare(example) for example in task.read(path, split)] for split in SPLITS}
    for split, examples in splits.items():
        _check_split(task, split, examples)
    # of a search task train has documents, whose ids are not those of queries
    _check_apart(task, {split: splits[split] for split in SPLITS if task.kind != "search" or split != "train"})
    if task.kind == "tokens":
        _check_tags(task, splits)
    if task.kind in {"sequence", "multilabel", "tokens"}:
        _check_labels(task, splits)
    if task.kind == "score":
        _check_numbers(task, splits)
    if task.kind == "span":
        _check_answers(task, splits)
    if task.kind == "search":
        _check_judgements(task, splits)
    return splits


def _check_split(task: Task, split: Split, examples: Sequence[Example]) -> None:
    if not examples:
        raise ValueError(f"{task.name}: the split {split!r} has no examples. Check its files")
    for example in examples:
        if not example.text.strip():
            raise ValueError(
                f"{task.name}, {split}, {example.id}: the text is empty ({example.text!r}); remove the row"
            )


def _check_apart(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    """Raise ValueError for an id that occurs twice or a group in two splits."""
    split_of_id: dict[str, Split] = {}
    split_of_group: dict[str, Split] = {}
    for split, examples in splits.items():
        for example in examples:
            if example.id in split_of_id:
                raise ValueError(
                    f"{task.name}, {split}: the id {example.id!r} already occurs in {split_of_id[example.id]!r}. "
                    "Each prediction needs another id: remove the copy, or give it another id"
                )
            split_of_id[example.id] = split
            earlier = split_of_group.setdefault(example.group, split) if example.group else split
            if earlier != split:
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: its group {example.group!r} is also in {earlier!r}, so "
                    "the model would be trained on test material. Move the whole group to one split"
                )


def _check_labels(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    names = set(task.labels)
    for split, examples in splits.items():
        for example in examples:
            # a row of kind "sequence" has one class: its label, whatever its type
            for label in (example.label,) if task.kind == "sequence" else classes_in(example.label):
                if label not in names:
                    raise ValueError(
                        f"{task.name}, {split}, {example.id}: the label {label!r} is not a label of the task "
                        f"({', '.join(map(repr, task.labels))}). Correct the file, or add it to the task's labels"
                    )
    counts = Counter(label for example in splits["train"] for label in classes_in(example.label))
    missing = [label for label in task.labels if not counts[label] and label not in task.untaught]
    if missing:
        raise ValueError(
            f"{task.name}, train: no example has {', '.join(map(repr, missing))}, so it cannot be learned. Add "
            "examples, or remove it from the labels of the task and from the other splits"
        )


def _check_tags(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    for split, examples in splits.items():
        for example in examples:
            words = words_of(example.text)
            if not isinstance(example.label, tuple) or len(example.label) != len(words) or "" in words:
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: {len(words)} words need a tuple of as many tags, not "
                    f"{example.label!r}. Separate words by single spaces, and give one tag per word"
                )


def _check_numbers(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    for split, examples in splits.items():
        for example in examples:
            if not isinstance(example.label, int | float) or not math.isfinite(example.label):
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: the label {example.label!r} is not a finite number, but "
                    "the task predicts numbers. Correct it or remove the row"
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
            answers = {example.text[start:end] for start, end in example.spans}
            if answers - set(example.label) or (split == "train" and not answers):
                raise ValueError(
                    f"{where}: its spans cover {', '.join(map(repr, sorted(answers))) or 'nothing'}, its answers are "
                    f"{', '.join(map(repr, example.label)) or 'none'}. Give the span of each answer to learn from"
                )


def _check_judgements(task: Task, splits: Mapping[Split, Sequence[Example]]) -> None:
    for split, examples in splits.items():
        for example in examples:
            if not isinstance(example.label, tuple) or (split != "train" and not example.label):
                raise ValueError(
                    f"{task.name}, {split}, {example.id}: a tuple of relevant documents is needed, not "
                    f"{example.label!r}. Add a judgement above 0, or remove the query"
                )


def classes_in(label: Label) -> tuple[str, ...]:
    """Return the classes (or tags) of a label; () for a number."""
    if isinstance(label, str):
        return (label,)
    return label if isinstance(label, tuple) else ()


def sampled(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Return `count` random examples with at least one of each class (or tag), in their original order.

    Returns all examples if there are no more. The sample for a smaller count is part of that for a larger one. Raises
    ValueError if `count` is too small for all classes.
    """
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    first: list[int] = []
    surplus: list[int] = []
    known_classes: set[str] = set()
    for position in order:
        classes = set(classes_in(examples[position].label))
        (surplus if classes <= known_classes else first).append(position)
        known_classes |= classes
    if count < len(first):
        raise ValueError(f"{count} rows requested, but {len(first)} are needed for one of every class. Request more")
    return [examples[position] for position in sorted([*first, *surplus][:count])]
