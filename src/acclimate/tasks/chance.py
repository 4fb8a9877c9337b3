"""Whether a model has learnt anything, and what a run that only guesses would score: its answers, dealt out at random
among the examples.

A fine-tuning is judged by the best of several looks at dev, and the best of many looks of a run that learnt nothing is
above the score of a constant answer most of the time: by luck, and for macro-F1 because any mixture of answers is. So
the bar is a permutation test of the largest of several statistics (Westfall and Young, 1993, "Resampling-based multiple
testing"): the answers of all looks are dealt out together, in the same order, to other examples; the best look of each
deal is what the run would score if its answers had nothing to do with the texts. Looks that agree with each other count
as one, looks that differ as many. The run stands out if its best look is above those of all but LEVEL of the deals.

How the answers of a kind of task are dealt out:

    labels, several labels, numbers   each answer goes to another example
    tags                              the tags of all words, in a row, are shifted by a number of words, in a circle: so
                                      entities keep their lengths
    spans                             an answer becomes as many words further on in the same text, in a circle
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from acclimate.core.figures import points
from acclimate.core.types import Example, Label
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.metrics import label_texts
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Metric

LEVEL = 0.05  # of the deals are allowed to score as well as the run
DEALS = 99  # so that the bar is the fifth best of them
FAR = 6.0  # standard deviations above the mean of its own deals at which one look alone decides, which saves time


class Chance(NamedTuple):
    """best: the score of the best look; bar: what one run in twenty that only guesses reaches (LEVEL)"""

    best: float
    bar: float


def nothing_learnt(
    task: Prepared,
    examples: Sequence[Example],
    looks: Sequence[Sequence[Label]],
    *,
    score: float | None = None,
    loss: float = -math.inf,
    constant_loss: float = math.inf,
) -> str:
    """Return why a model has learnt nothing; "" if it has learnt something.

    It has if three conditions hold. Its score on dev is above that of the best constant answer. Its best look exceeds
    what its answers reach when they are permuted. Its loss on train is below that of the best constant outputs. If the
    best look exceeds it by far, the loss does not count: over few steps of few rare rows it says little. A dev set on
    which a constant answer or guesses are perfect decides nothing, nor does the loss of a task without constant
    outputs.

    examples       those of dev that looks read
    looks          the predictions of each look for these examples
    score          of the chosen weights on all of dev; None: that of the best look
    loss           at the end of training; -inf: none is known
    constant_loss  that of the best outputs that are the same for all rows
    """
    gold = [example.label for example in examples]
    if score is None:
        score = max(task.score(gold, look) for look in looks)
    if (constant := constant_on_dev(task)) < 1.0:
        if score <= constant:
            return f"on dev it has {points(score)} points, and a constant answer {points(constant)}"
        best, bar = chance(task, examples, looks)
        if best <= bar < 1.0:
            return (
                f"its best score on dev, {points(best)} points, is within chance: guesses reach {points(bar)} one "
                "time in twenty"
            )
    if loss < constant_loss or exceeds_chance(task, examples, looks):
        return ""
    return f"its final loss on train is {loss:.4g}, and that of constant outputs {constant_loss:.4g}"


def exceeds_chance(task: Prepared, examples: Sequence[Example], looks: Sequence[Sequence[Label]]) -> bool:
    """Return True if the best look alone is FAR above what its own answers reach when they are dealt out."""
    gold = [example.label for example in examples]
    best = max(looks, key=lambda look: task.score(gold, look))
    return _far(task.score(gold, best), _dealt(task, examples, best))


def _far(score: float, alone_D: np.ndarray) -> bool:
    return bool(score > alone_D.mean() + FAR * alone_D.std()) and len(set(alone_D)) > 1


def chance(task: Prepared, examples: Sequence[Example], looks: Sequence[Sequence[Label]]) -> Chance:
    """Return how the best look compares with what a run that only guesses reaches.

    looks  the predictions of each look for all the examples. The same looks give the same result.
    """
    gold = [example.label for example in examples]
    different = list(dict.fromkeys(tuple(look) for look in looks))
    scores = [task.score(gold, look) for look in different]
    best = int(np.argmax(scores))
    alone_D = _dealt(task, examples, different[best])
    if _far(scores[best], alone_D):
        return Chance(scores[best], _bar(alone_D))
    others = [_dealt(task, examples, look) for at, look in enumerate(different) if at != best]
    return Chance(scores[best], _bar(np.max([alone_D, *others], axis=0)))


def _bar(scores_D: np.ndarray) -> float:
    """Return the score that a share of LEVEL of the deals reaches, the run itself counted as one of them."""
    return float(np.sort(scores_D)[-round(LEVEL * (len(scores_D) + 1))])


def _dealt(task: Prepared, examples: Sequence[Example], predicted: Sequence[Label]) -> np.ndarray:
    """(DEALS,) scores of the predictions dealt out anew. The deals are the same for all predictions."""
    gold, random = [example.label for example in examples], np.random.default_rng(0)
    if task.kind == "tokens":
        return _shifted(task.score, gold, predicted, random)
    if task.kind == "span":
        return _moved(task.score, examples, predicted, random)
    orders_Dn = [random.permutation(len(gold)) for _ in range(DEALS)]
    if task.kind == "score":
        numbers_n = np.array(predicted, dtype=np.float64)
        return np.array([task.score(gold, numbers_n[order_n].tolist()) for order_n in orders_Dn])
    return _permuted(task.metric, gold, predicted, orders_Dn)


def _permuted(
    metric: Metric, gold: Sequence[Label], predicted: Sequence[Label], orders_Dn: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the scores of the predictions in other orders: each pair of a gold and a predicted label is judged once,
    and counted in each order.
    """
    ours, theirs = list(dict.fromkeys(gold)), list(dict.fromkeys(predicted))
    ours_n, theirs_n = np.array([*map(ours.index, gold)]), np.array([*map(theirs.index, predicted)])
    pairs_Dn = ours_n * len(theirs) + np.stack([theirs_n[order_n] for order_n in orders_Dn])
    occurring, places_Dn = np.unique(pairs_Dn, return_inverse=True)
    first, second = np.divmod(occurring, len(theirs))
    statistics_PK = metric.statistics([ours[code] for code in first], [theirs[code] for code in second])
    counts_DP = np.stack([np.bincount(row, minlength=len(occurring)) for row in places_Dn.reshape(pairs_Dn.shape)])
    return np.asarray(metric.value(counts_DP @ statistics_PK))


def _shifted(
    score: Callable[[Sequence[Label], Sequence[Label]], float],
    gold: Sequence[Label],
    predicted: Sequence[Label],
    random: np.random.Generator,
) -> np.ndarray:
    tags = [tag for sentence in predicted for tag in label_texts(sentence)]
    ends = [*accumulate(len(label_texts(sentence)) for sentence in predicted)]
    scores = []
    for shift in random.integers(1, max(2, len(tags)), DEALS):
        turned = tags[shift:] + tags[:shift]
        scores.append(score(gold, [tuple(turned[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]))
    return np.array(scores)


def _moved(
    score: Callable[[Sequence[Label], Sequence[Label]], float],
    examples: Sequence[Example],
    predicted: Sequence[Label],
    random: np.random.Generator,
) -> np.ndarray:
    gold, texts = [example.label for example in examples], [example.text.split() for example in examples]
    # of each answer of an example, of which several may be ranked: its first word's place, and its number of words
    places_n = [
        [(len(example.text[: max(0, example.text.find(answer))].split()), len(answer.split())) for answer in answers]
        for example, answers in zip(examples, map(label_texts, predicted), strict=True)
    ]
    scores = []
    for shifts_n in random.random((DEALS, len(examples))):
        answers: list[Label] = []
        for words, places, shift in zip(texts, places_n, shifts_n, strict=True):
            starts = [(start + int(shift * len(words))) % (len(words) - length + 1) for start, length in places]
            moved = [words[start : start + length] for start, (_, length) in zip(starts, places, strict=True)]
            answers.append(tuple(map(" ".join, moved)))
        scores.append(score(gold, answers))
    return np.array(scores)
