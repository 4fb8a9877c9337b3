"""What a task is judged by. Every metric is a few numbers for each item and a function of their sums (task.Metric).

Where a denominator is 0 the value is 0 (scikit-learn's `zero_division=0`), and so is a correlation with a constant.
Macro-F1 is the mean over the classes that occur, in the gold labels or among the predictions. Classes are compared as
sets: one label is a set of one, so the same functions judge tasks with one label a row and with several.

Checked against scikit-learn, SciPy, seqeval and the worked examples of SQuAD and BioASQ in tests/tasks/test_metrics.py.

Shape suffixes: n items, C classes, K numbers an item.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import eq

import numpy as np
import numpy.typing as npt

from acclimate.core.types import Label
from acclimate.tasks.tags import OUTSIDE, entities
from acclimate.tasks.task import Kind, Metric, Values

NO_SPREAD = 1e-12  # of a second moment: what rounding leaves of a variance that is 0
RANKS = 5  # of a ranked answer, as BioASQ counts them
WITHOUT = "micro_f1 without "
CLASSES: tuple[Kind, ...] = ("sequence", "multilabel")


def ratio(sums: Values) -> Values:
    """(..., 2) -> (...): the first sum over the second; 0 where the second is 0."""
    return _divided(sums[..., 0], sums[..., 1])


def hits(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for accuracy: 1 where the sets of labels are equal, and 1."""
    return _means(
        [ours == theirs or classes(ours) == classes(theirs) for ours, theirs in zip(gold, predicted, strict=True)]
    )


def decisions(gold: Sequence[Label], predicted: Sequence[Label], *, ignore: frozenset[str] = frozenset()) -> Values:
    """(n, 2) for micro-F1: twice the labels in both sets, and the labels of either set.

    An ignored label is a decision not to decide: predicting it costs recall, missing it costs precision.
    """
    sets = [(classes(ours) - ignore, classes(theirs) - ignore) for ours, theirs in zip(gold, predicted, strict=True)]
    return _rows([(2.0 * len(ours & theirs), len(ours) + len(theirs)) for ours, theirs in sets], 2)


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
    return _divided(_divided(2.0 * both, either) @ ones, (either > 0) @ ones)


def entity_decisions(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for entity F1: twice the entities of both, with equal ends and type, and the entities of either.

    A label is a tuple of tags, one a word. Raises ValueError for a tag outside the scheme, and where a prediction has
    more or fewer tags than there are words.
    """
    sets = [(entities(ours), entities(theirs)) for ours, theirs in _tags(gold, predicted)]
    return _rows([(2.0 * len(found & said), len(found) + len(said)) for found, said in sets], 2)


def word_hits(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for accuracy over words: right tags, and tags. Raises ValueError where their numbers differ."""
    pairs = _tags(gold, predicted)
    return _rows([(sum(map(eq, ours, theirs)), len(ours)) for ours, theirs in pairs], 2)


def words_by_class(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3 C) for macro-F1 over words: for each tag but O, the words with it on both sides; gold; predicted.

    Raises ValueError where the numbers of tags differ.
    """
    pairs = _tags(gold, predicted)
    tags = sorted({tag for pair in pairs for side in pair for tag in side} - {OUTSIDE})
    columns = {tag: at for at, tag in enumerate(tags)}
    counts_3nC = np.zeros((3, len(pairs), len(columns)))
    for row, (ours, theirs) in enumerate(pairs):
        both = [one for one, other in zip(ours, theirs, strict=True) if one == other]
        for counts_nC, side in zip(counts_3nC, (both, ours, theirs), strict=True):
            for tag, count in Counter(side).items():
                if tag != OUTSIDE:
                    counts_nC[row, columns[tag]] = count
    return np.concatenate(list(counts_3nC), axis=1)


def moments(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 6) for Pearson's correlation: 1, x, y, x^2, y^2 and x y of the two numbers.

    Both are first moved to a mean of 0 and scaled to at most 1, which changes no correlation and keeps the digits that
    the difference of sums would lose. Raises ValueError for what is no finite number.
    """
    x_n, y_n = (_centred(side, labels) for side, labels in (("gold", gold), ("predicted", predicted)))
    return np.stack([np.ones_like(x_n), x_n, y_n, x_n * x_n, y_n * y_n, x_n * y_n], axis=1)


def correlation(sums: Values) -> Values:
    """(..., 6) -> (...): Pearson's r; 0 where one of the two does not vary."""
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    x_spread, y_spread = xx - _divided(x * x, count), yy - _divided(y * y, count)
    varies = (x_spread > NO_SPREAD * xx) & (y_spread > NO_SPREAD * yy)
    bottom = np.sqrt(np.where(varies, x_spread, 0.0)) * np.sqrt(np.where(varies, y_spread, 0.0))
    return np.clip(_divided(xy - _divided(x * y, count), bottom), -1.0, 1.0)


def best_answer(
    gold: Sequence[Label], predicted: Sequence[Label], *, judge: Callable[[list[str], list[str]], float]
) -> Values:
    """(n, 2): the score of the predicted answer by the gold answer that suits it best, and 1.

    gold: the acceptable answers of each item, none of them for a question without an answer; predicted: a text, or a
    tuple of it. Both are compared as words, as SQuAD's official script makes them.
    """
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        said = words("".join(_texts(theirs)[:1]))
        # answers that are empty once articles and punctuation are gone count only where there are no others
        acceptable = [answer for answer in map(words, _texts(ours)) if answer] or [[]]
        scores.append(max(judge(answer, said) for answer in acceptable))
    return _means(scores)


def words(text: str) -> list[str]:
    """The words of an answer without case, ASCII punctuation, and a, an, the (SQuAD's normalize_answer)."""
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def equal_words(answer: list[str], said: list[str]) -> float:
    return float(answer == said)


def words_f1(answer: list[str], said: list[str]) -> float:
    """F1 over words with repetition. No answer on one side counts as right only where there is none on the other."""
    if not answer or not said:
        return float(answer == said)
    return 2.0 * (Counter(answer) & Counter(said)).total() / (len(answer) + len(said))


def reciprocal_ranks(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for the mean reciprocal rank: 1 / rank of the first of five answers that is a gold synonym, or 0; and 1.

    Case and outer spaces do not count. An answer further down than the fifth is not looked at (BioASQ).
    """
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        synonyms = {text.strip().lower() for text in _texts(ours)}
        ranks = [rank for rank, text in enumerate(_texts(theirs)[:RANKS], 1) if text.strip().lower() in synonyms]
        scores.append(1.0 / ranks[0] if ranks else 0.0)
    return _means(scores)


def classes(label: Label) -> frozenset[str]:
    """The classes of a row: of one that may have several, all; else the one."""
    return frozenset(label) if isinstance(label, tuple) else frozenset((str(label),))


def micro_f1_without(*labels: str) -> Metric:
    """Micro-F1 over all classes but these, as relation extraction reports it for a negative class."""
    return _micro_f1(frozenset(labels))


@cache
def _micro_f1(ignore: frozenset[str]) -> Metric:
    return Metric(WITHOUT + ", ".join(sorted(ignore)), partial(decisions, ignore=ignore), ratio, CLASSES)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", hits, ratio, CLASSES),
        Metric("micro_f1", decisions, ratio, CLASSES),
        Metric("macro_f1", decisions_by_class, mean_f1, CLASSES),
        Metric("entity_f1", entity_decisions, ratio, ("tokens",)),
        Metric("word_accuracy", word_hits, ratio, ("tokens",)),
        Metric("word_macro_f1", words_by_class, mean_f1, ("tokens",)),
        Metric("pearson", moments, correlation, ("score",), least=-1.0),
        Metric("exact_match", partial(best_answer, judge=equal_words), ratio, ("span",)),
        Metric("f1", partial(best_answer, judge=words_f1), ratio, ("span",)),
        Metric("mrr", reciprocal_ranks, ratio, ("span",)),
    )
}
DEFAULTS: dict[Kind, str] = {
    "sequence": "macro_f1", "multilabel": "macro_f1", "score": "pearson", "tokens": "entity_f1", "span": "f1",
}  # fmt: skip


def metric_named(name: str) -> Metric:
    """The metric of this name; "micro_f1 without X, Y" is made as it is asked for. Raises ValueError for any other."""
    left_out = [label.strip() for label in name.removeprefix(WITHOUT).split(",")] if name.startswith(WITHOUT) else []
    if any(left_out):
        return micro_f1_without(*filter(None, left_out))
    if name not in METRICS:
        raise ValueError(f"no metric is called {name!r}. Known: {', '.join(METRICS)}, and '{WITHOUT}<label>, <label>'")
    return METRICS[name]


def default_metric(kind: Kind) -> str:
    """The metric of a task of this kind where nobody says otherwise."""
    return DEFAULTS[kind]


def _tags(gold: Sequence[Label], predicted: Sequence[Label]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The gold and predicted tags of each item, one a word on either side."""
    pairs = [(_texts(ours), _texts(theirs)) for ours, theirs in zip(gold, predicted, strict=True)]
    for row, (ours, theirs) in enumerate(pairs):
        if len(ours) != len(theirs):
            raise ValueError(f"item {row}: {len(ours)} gold tags, but {len(theirs)} predicted; give one tag a word")
    return pairs


def _texts(label: Label) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _rows(rows: Sequence[Sequence[float]], width: int) -> Values:
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _means(scores: Sequence[float]) -> Values:
    return np.stack([np.array(scores, dtype=np.float64), np.ones(len(scores))], axis=1)


def _centred(side: str, labels: Sequence[Label]) -> Values:
    """(n,) numbers less their mean, divided by the largest that is left."""
    for label in labels:
        if isinstance(label, tuple) or not np.isfinite(float(label)):
            raise ValueError(f"the {side} label {label!r} is no finite number, which a correlation needs; correct it")
    values_n = np.array(labels, dtype=np.float64)
    # by a power of two, which rounds nothing: sums of huge numbers would overflow, squares of tiny ones vanish
    values_n = np.ldexp(values_n, -int(np.frexp(values_n)[1].max(initial=-1074)))
    centred_n = values_n - values_n.sum() / max(len(values_n), 1)
    largest = float(np.abs(centred_n).max(initial=0.0))
    # what rounding leaves of a constant is no spread
    return centred_n / largest if largest > NO_SPREAD else np.zeros_like(centred_n)


def _divided(top: npt.ArrayLike, bottom: npt.ArrayLike) -> Values:
    """Elementwise quotient; 0 where the denominator is 0."""
    over, under = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    return np.divide(over, under, out=np.zeros(np.broadcast_shapes(over.shape, under.shape)), where=under != 0)
