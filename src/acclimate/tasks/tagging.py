"""Predicted tags against gold ones, one a word: what entity F1, accuracy and F1 over words sum.

Shape suffixes: n items (sentences), C classes of tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from operator import and_, eq

import numpy as np

from acclimate.core.types import Label
from acclimate.tasks.sums import table, texts
from acclimate.tasks.tags import OUTSIDE, entities, parts_of
from acclimate.tasks.task import Values


def entity_decisions(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for entity F1: twice the entities of both, with equal ends and type, and the entities of either.

    A label is a tuple of tags, one a word. Raises ValueError for a tag outside the scheme, and where a prediction has
    more or fewer tags than there are words.
    """
    sets = [(entities(ours), entities(theirs)) for ours, theirs in _tags(gold, predicted)]
    return table([(2.0 * len(found & said), len(found) + len(said)) for found, said in sets], 2)


def word_hits(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 2) for accuracy over words: right tags, and tags. Raises ValueError where their numbers differ."""
    pairs = _tags(gold, predicted)
    return table([(sum(map(eq, ours, theirs)), len(ours)) for ours, theirs in pairs], 2)


@cache
def tags_in(tag: str) -> frozenset[str]:
    """The tag, or those that a joint one is of; O is no class."""
    return frozenset(parts_of(tag)) - {OUTSIDE}


@cache
def types_in(tag: str) -> frozenset[str]:
    """PAR of B-PAR and I-PAR, nothing of O. Raises ValueError for a tag that is no part of an entity."""
    return frozenset(kind for _, _, kind in entities([tag]))


def words_by_class(
    gold: Sequence[Label], predicted: Sequence[Label], *, classes_in: Callable[[str], frozenset[str]] = tags_in
) -> Values:
    """(n, 3 C) for macro-F1 over words: for each class of tags, the words of it on both sides; gold; predicted.

    A word with a joint tag counts for each of its classes. Raises ValueError where the numbers of tags differ.
    """
    pairs = [tuple([*map(classes_in, side)] for side in pair) for pair in _tags(gold, predicted)]
    classes = sorted({name for pair in pairs for side in pair for names in side for name in names})
    columns = {name: at for at, name in enumerate(classes)}
    counts_3nC = np.zeros((3, len(pairs), len(columns)))
    for row, (ours, theirs) in enumerate(pairs):
        both = map(and_, ours, theirs)
        for counts_nC, side in zip(counts_3nC, (both, ours, theirs), strict=True):
            for name, count in Counter(chain.from_iterable(side)).items():
                counts_nC[row, columns[name]] = count
    return np.concatenate(list(counts_3nC), axis=1)


def words_by_type(gold: Sequence[Label], predicted: Sequence[Label]) -> Values:
    """(n, 3 C) as `words_by_class`, of types: B-PAR and I-PAR are words of PAR.

    The mean F1 of PICO's three types over words, which LinkBERT computes by making every I- a B- before seqeval.
    """
    return words_by_class(gold, predicted, classes_in=types_in)


def _tags(gold: Sequence[Label], predicted: Sequence[Label]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The gold and predicted tags of each item, one a word on either side."""
    pairs = [(texts(ours), texts(theirs)) for ours, theirs in zip(gold, predicted, strict=True)]
    for row, (ours, theirs) in enumerate(pairs):
        if len(ours) != len(theirs):
            raise ValueError(f"item {row}: {len(ours)} gold tags, but {len(theirs)} predicted; give one tag a word")
    return pairs
