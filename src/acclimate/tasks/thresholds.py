"""What is predicted from a model's outputs, where one number that dev chooses decides it.

several labels  each label above a probability t, one of THRESHOLDS: o_c > log t / (1 - t)
one label       logit adjustment (Menon et al., 2021, 2007.07314, section 4.1): the class with the largest
                o_c - tau ln p_c, tau one of TAUS, p_c the class's share of the training rows. With tau = 0 the most
                probable class, which suits accuracy; with 1 the class whose probability exceeds its share the most,
                which suits balanced accuracy

All classes share the number: one for each would be chosen on the few rows that have the class. Where a linear model of
TF-IDF was fitted with balanced classes, its outputs are those of tau = 1 already, and dev mostly chooses 0.

Shape suffixes: R rows, C labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from acclimate.core.types import Example, Label
from acclimate.tasks.chance import DEALS, LEVEL
from acclimate.tasks.prepared import Prepared

Threshold = Literal["half", "dev"]  # .5 or the most probable class, or what scores best on dev

# where probabilities are right, the best one for F1 is half of the F1 that it reaches (Lipton, Elkan and Narayanaswamy,
# 2014, 1402.1892)
THRESHOLDS = (0.01, 0.02, *(round(0.05 * twentieths, 2) for twentieths in range(1, 20)))
TAUS = (0.0, 0.25, 0.5, 0.75, 1.0)
ENOUGH = 500  # examples on which that model is judged
KNOWS_SHARES = 1.0  # nats, standard deviation of the noise in the outputs of a model that knows nothing but p_c


class Decision(NamedTuple):
    """What is predicted.

    number   t or tau
    shift_C  float32, what is taken from the outputs: then the threshold lies at .5, or the largest one is predicted
    tried    the predictions with each number, among which dev chose
    note     that says what was chosen; "" for .5 and the most probable class
    """

    number: float
    shift_C: np.ndarray
    predicted: list[Label]
    score: float
    tried: list[list[Label]]
    note: str


def log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def labels_above(outputs_RC: np.ndarray, labels: Sequence[str]) -> list[Label]:
    """Return for each row the labels whose output is above 0, in alphabetical order."""
    return [tuple(sorted(labels[int(code)] for code in np.flatnonzero(row > 0))) for row in outputs_RC]


PREDICTIONS: dict[str, Callable[[np.ndarray, Sequence[str]], list[Label]]] = {
    "sequence": lambda outputs_RC, labels: [labels[int(code)] for code in outputs_RC.argmax(-1)],
    "multilabel": labels_above,
    "score": lambda outputs_RC, labels: [float(number) for number in outputs_RC[:, 0]],
}
"""Kind of task -> (outputs_RC, labels) -> the label of each row."""


def decide(
    outputs_RC: np.ndarray,
    gold: Sequence[Label],
    labels: Sequence[str],
    task: Prepared,
    *,
    shares: Mapping[str, float] | None = None,
) -> Decision:
    """Return the decision that scores best; of equals the one nearest to .5, or to the most probable class.

    outputs_RC  log odds of each label, or log probabilities up to a constant of each row
    shares      p_c of the rows that the model was trained on; None: of all training rows
    """
    best: Decision | None = None
    tried = []
    for number, shift_C, note in _shifts(labels, task, task.shares if shares is None else shares):
        predicted = PREDICTIONS[task.kind](outputs_RC - shift_C, labels)
        tried.append(predicted)
        score = task.score(gold, predicted)
        if best is None or score > best.score:
            best = Decision(number, shift_C, predicted, score, tried, note)
    assert best is not None
    return best


def _shifts(
    labels: Sequence[str], task: Prepared, shares: Mapping[str, float]
) -> Iterator[tuple[float, np.ndarray, str]]:
    if task.kind == "multilabel":
        for threshold in sorted(THRESHOLDS, key=lambda threshold: abs(threshold - 0.5)):
            sentence = f"each label is predicted above a probability of {threshold:g}" if threshold != 0.5 else ""
            yield threshold, np.full(len(labels), log_odds(threshold), np.float32), sentence
        return
    # a class that no training row has stays as improbable as it is
    logs_C = np.log([shares.get(label, 1.0) for label in labels])
    for tau in TAUS:
        sentence = f"rare classes are predicted at lower probabilities (logit adjustment, tau = {tau:g})"
        yield tau, (tau * logs_C).astype(np.float32), sentence if tau else ""


_reached: dict[tuple[object, ...], float] = {}  # that were computed in this process


def reached_by_shares(task: Prepared, examples: Sequence[Example]) -> float:
    """Return the score on these examples that one model in twenty reaches which knows nothing but the classes' shares,
    where dev decides what it predicts: above that of a constant answer. For one label a text.
    """
    gold = tuple(example.label for example in examples[:: -(-len(examples) // ENOUGH)])
    key = (task.hashes["train"], task.metric.name, task.labels, gold)
    if key not in _reached:
        random = np.random.default_rng(0)
        logs_C = np.log([task.shares.get(label, 1e-9) for label in task.labels])
        guessed_D = (logs_C + KNOWS_SHARES * random.standard_normal((len(gold), len(logs_C))) for _ in range(DEALS))
        scores = sorted(decide(guessed_RC, gold, task.labels, task).score for guessed_RC in guessed_D)
        _reached[key] = scores[-round(LEVEL * (DEALS + 1))]
    return _reached[key]
