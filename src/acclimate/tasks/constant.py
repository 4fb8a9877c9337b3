"""Constant answers: the same label for every text, which is what a model gives that has not read the texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from acclimate.core.types import Example, Label
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import words_of

Labels = Sequence[Label]


def constant_answers(answer: Label, examples: Sequence[Example], task: Prepared) -> list[Label]:
    """Return the answer to each example; of tags, to each of its words."""
    if task.kind != "tokens":
        return [answer] * len(examples)
    assert isinstance(answer, str)
    return [(answer,) * len(words_of(example.text)) for example in examples]


def constant_on_dev(task: Prepared, examples: Sequence[Example] | None = None) -> float:
    """Return the best dev score of all answers that are the same for every text; 0 for a kind of task that has none.
    examples: those of dev that are read; None: all

    Dev chooses the answer, as it chooses among the looks of what is compared with it: the commonest label of train may
    be a rare one on dev.
    """
    if task.kind not in ANSWERS:
        return 0.0
    dev = task.examples("dev") if examples is None else examples
    gold = [example.label for example in dev]
    train = [example.label for example in task.examples("train")]
    answers = dict.fromkeys(answer for labels in (train, gold) for answer in ANSWERS[task.kind](labels))
    return max(task.score(gold, constant_answers(answer, dev, task)) for answer in answers)


def _sets(gold: Labels) -> Iterable[Label]:
    sets = [label for label in gold if isinstance(label, tuple)]
    names = _ranked(name for label in sets for name in label)
    commonest = min(Counter(sets).items(), key=lambda pair: (-pair[1], pair[0]))[0]
    return [commonest, *(tuple(sorted(names[:count])) for count in range(len(names) + 1))]


def _ranked(names: Iterable[str]) -> list[str]:
    """Return the labels, the commonest first and equals by name."""
    return [name for name, _ in sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))]


ANSWERS: dict[str, Callable[[Labels], Iterable[Label]]] = {
    "sequence": lambda gold: _ranked(map(str, gold)),
    "multilabel": _sets,
    "tokens": lambda gold: _ranked(tag for label in gold if isinstance(label, tuple) for tag in label),
    "score": lambda gold: [float(np.mean([float(str(label)) for label in gold]))],
}
"""Kind of task -> (training labels) -> the constant answers that are tried, the commonest first."""
