"""The same answer to everything: what is to be had without reading a text.

Of all constant answers the one that scores best on the training labels; of equals the commonest. One label a text: for
accuracy that is the majority class, for a metric that leaves a class out it is another. Several: no label, the
commonest set of them, or any number of the most frequent ones. Tags: one for every word. A number: the mean, whose
correlation with anything is 0. There is nothing to choose on dev, so dev is only scored.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from acclimate.core.types import Example, Label
from acclimate.methods.tfidf import Fitted
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import words_of

Labels = Sequence[Label]


def fit(task: Prepared) -> Fitted:
    """Count, choose on the training labels, and score on dev. The test set stays sealed.

    Raises ValueError for a kind of task in which no answer can be the same for all texts.
    """
    begun = time.perf_counter()
    if task.kind not in ANSWERS:
        raise ValueError(f"a task of kind '{task.kind}' has no constant answer; these have: {', '.join(ANSWERS)}")
    train, dev = task.examples("train"), task.examples("dev")
    gold = [example.label for example in train]

    def given(answer: Label, examples: Sequence[Example]) -> list[Label]:
        if task.kind != "tokens":
            return [answer] * len(examples)
        assert isinstance(answer, str)
        return [(answer,) * len(words_of(example.text)) for example in examples]

    scores = {answer: task.score(gold, given(answer, train)) for answer in ANSWERS[task.kind](gold)}
    best = max(scores, key=lambda answer: scores[answer])  # the first of equals
    predicted = given(best, dev)
    return Fitted(
        strength=0.0,
        dev=task.score([example.label for example in dev], predicted),
        predicted_dev=tuple(predicted),
        tokens=0,
        seconds=time.perf_counter() - begun,
        predict=lambda examples: given(best, examples),
    )


def _classes(gold: Labels) -> Iterable[Label]:
    return _ranked(str(label) for label in gold)


def _sets(gold: Labels) -> Iterable[Label]:
    sets = [label for label in gold if isinstance(label, tuple)]
    names = _ranked(name for label in sets for name in label)
    commonest = min(Counter(sets).items(), key=lambda own: (-own[1], own[0]))[0]
    return [commonest, *(tuple(sorted(names[:count])) for count in range(len(names) + 1))]


def _tags(gold: Labels) -> Iterable[Label]:
    return _ranked(tag for label in gold if isinstance(label, tuple) for tag in label)


def _mean(gold: Labels) -> Iterable[Label]:
    return [float(np.mean([float(str(label)) for label in gold]))]


def _ranked(names: Iterable[str]) -> list[str]:
    """The commonest first, equals by name."""
    return [name for name, _ in sorted(Counter(names).items(), key=lambda own: (-own[1], own[0]))]


ANSWERS: dict[str, Callable[[Labels], Iterable[Label]]] = {
    "sequence": _classes,
    "multilabel": _sets,
    "tokens": _tags,
    "score": _mean,
}
"""Kind of task -> (training labels) -> the constant answers that are tried, the commonest first."""
