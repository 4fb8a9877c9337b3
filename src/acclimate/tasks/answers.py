"""How answers to questions are judged: SQuAD's exact match and F1, BioASQ's accuracies and reciprocal rank.

A gold label is the tuple of acceptable answers, empty for a question that has none; a prediction is an answer, or a
tuple of them, best first. All are means over questions.

SQuAD     evaluate-v1.1.py. Of a question without an answer, which it does not know, evaluate-v2.0.py's rule holds: no
          words must be said. Where a gold answer is nothing but articles and punctuation (3 of 10,570 questions of
          SQuAD 1.1's dev set, beside other answers), 2.0 looks away from it and 1.1 counts it, as is done here.
BioASQ    task B, phase B since the third challenge: up to five answers a factoid question, each right where it is equal
          to any synonym, case aside. Outer spaces do not count here; the official program compares them.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from acclimate.core.types import Label
from acclimate.tasks.sums import means, texts
from acclimate.tasks.task import Values

RANKS = 5  # of a ranked answer, as BioASQ counts them
_BARE = str.maketrans("", "", string.punctuation)


def best_answer(
    gold: Sequence[Label], predicted: Sequence[Label], *, judge: Callable[[list[str], list[str]], float]
) -> Values:
    """(n, 2): the score of the first predicted answer by the gold answer that suits it best, and 1."""
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        said = words("".join(texts(theirs)[:1]))
        answers = texts(ours)
        scores.append(max(judge(words(answer), said) for answer in answers) if answers else float(not said))
    return means(scores)


def words(text: str) -> list[str]:
    """The words of an answer without case, ASCII punctuation, and a, an, the (SQuAD's normalisation)."""
    return re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_BARE)).split()


def equal_words(answer: list[str], said: list[str]) -> float:
    return float(answer == said)


def words_f1(answer: list[str], said: list[str]) -> float:
    """F1 over words with repetition; 0 where nothing is common, also of two answers without words."""
    both = (Counter(answer) & Counter(said)).total()
    return 2.0 * both / (len(answer) + len(said)) if both else 0.0


def strictly(rank: int) -> float:
    """Of BioASQ's strict accuracy (SAcc): the first answer counts alone."""
    return float(rank == 1)


def leniently(rank: int) -> float:
    """Of BioASQ's lenient accuracy (LAcc): each of the five counts alike."""
    return 1.0


def reciprocally(rank: int) -> float:
    """Of the mean reciprocal rank (MRR)."""
    return 1.0 / rank


def first_right(gold: Sequence[Label], predicted: Sequence[Label], *, credit: Callable[[int], float]) -> Values:
    """(n, 2): the credit for the rank, from 1, of the first of five answers that is a gold synonym, or 0; and 1."""
    scores = []
    for ours, theirs in zip(gold, predicted, strict=True):
        synonyms = {text.strip().lower() for text in texts(ours)}
        ranks = [rank for rank, text in enumerate(texts(theirs)[:RANKS], 1) if text.strip().lower() in synonyms]
        scores.append(credit(ranks[0]) if ranks else 0.0)
    return means(scores)
