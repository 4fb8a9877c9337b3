"""Made-up studies in which the truth is known: contestants whose expected score is equal, with luck of seeds and items.

Whether an item is answered well is one normal variable of variance 1 for each contestant, seed and item, "ease":

    luck of the seed + hardness of the item for all + hardness for this contestant + rest

Two contestants and their seeds share the second, the seeds of a contestant share the third. A world turns ease into the
numbers that the metric's `statistics` would give (acclimate.tasks.metrics), without making up texts in between.

Shape suffixes: B studies, M contestants, S seeds, n items, K numbers an item, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr

from acclimate.tasks.metrics import METRICS, accuracy_and_f1, pseudo_values
from acclimate.tasks.task import Metric

FOR_ALL, FOR_ONE = 0.45, 0.15  # of the variance of ease: hardness for all, and for one contestant
Generator = np.random.Generator
# (generator, ease (B, M, S, n), luck of the seeds in it (B, M, S, 1)) -> statistics (B, M, S, n, K)
Numbers = Callable[[Generator, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class World:
    """name: for the table; numbers: what makes the metric's statistics from ease; luck: of the seeds, in ease; slow:
    whether making them takes time by the square of the items.
    """

    name: str
    metric: Metric
    numbers: Numbers
    luck: float = 0.05
    slow: bool = False


def draw(generator: Generator, world: World, *, studies: int, contestants: int, seeds: int, items: int) -> np.ndarray:
    """(B, M, S, n, K) statistics."""
    shape = (studies, contestants, seeds, items)
    rest = np.sqrt(1 - FOR_ALL - FOR_ONE - world.luck**2)
    ease = generator.standard_normal(shape, dtype=np.float32) * np.float32(rest)
    luck = world.luck * generator.standard_normal((studies, contestants, seeds, 1), dtype=np.float32)
    ease += luck
    for part, size in ((FOR_ALL, (studies, 1, 1, items)), (FOR_ONE, (studies, contestants, 1, items))):
        ease += np.float32(part**0.5) * generator.standard_normal(size, dtype=np.float32)
    return world.numbers(generator, ease, luck)


def truth(generator: Generator, world: World, items: int, *, sets: int) -> float:
    """The expected score on a test set of this size: the mean over so many sets, each with another seed."""
    total, block = 0.0, max(1, 200_000 // items)
    for begin in range(0, sets, block):
        size = min(block, sets - begin)
        statistics = draw(generator, world, studies=size, contestants=1, seeds=1, items=items)
        total += float(world.metric.value(statistics.sum(axis=-2)).sum())
    return total / sets


def graded(
    generator: Generator, ease: np.ndarray, luck: np.ndarray, *, steps: tuple[tuple[float, float], ...]
) -> np.ndarray:
    """A mean of grades: the grade of the first (limit, grade) whose limit is above ease, else 0."""
    grades = np.zeros(ease.shape)
    for limit, grade in reversed(steps):
        grades[ease < limit] = grade
    return np.stack([grades, np.ones_like(grades)], axis=-1)


def overlap(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """F1 of words: all for the easy items, none for the hard ones, a share in between."""
    return np.stack([np.clip((1.3 - ease) / 1.5, 0, 1).astype(np.float64), np.ones(ease.shape)], axis=-1)


def decisions(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Micro-F1 without a class that six of ten items have: (2 hits, decisions). Hard items are missed or mistaken."""
    none = generator.random((len(ease), 1, 1, ease.shape[-1])) < 0.6
    hit = ~none & (ease < 0.6)
    decided = np.where(none, ease > 1.3, (ease < 0.6) | (ease > 1.2))
    return np.stack([2.0 * hit, 1.0 * ~none + decided], axis=-1)


def by_class(generator: Generator, ease: np.ndarray, luck: np.ndarray, *, shares: tuple[float, ...]) -> np.ndarray:
    """One class an item, of these shares; a hard item is taken for another class, the same one by all."""
    classes = len(shares)
    shape = (len(ease), 1, 1, ease.shape[-1])
    gold = generator.choice(classes, size=shape, p=shares)
    other = (gold + generator.integers(1, classes, size=shape)) % classes
    predicted = np.where(ease < 0.7, gold, other)
    at = np.arange(classes)
    return _counted(gold[..., None] == at, predicted[..., None] == at)


def of_two(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Accuracy and the F1 of the first of two classes, which two of three items have."""
    both, gold, predicted = np.split(by_class(generator, ease, luck, shares=(2 / 3, 1 / 3)), 3, axis=-1)
    first = gold[..., 0] + predicted[..., 0]
    return np.stack([both.sum(axis=-1), np.ones(ease.shape), 2 * both[..., 0], first], axis=-1)


def several(generator: Generator, ease: np.ndarray, luck: np.ndarray, *, shares: tuple[float, ...]) -> np.ndarray:
    """Any number of classes an item, each as hard as it or not; hard ones are missed, very hard ones invented."""
    shape = (len(ease), 1, 1, ease.shape[-1], len(shares))
    gold_C = generator.random(shape) < np.array(shares)
    hard_C = 0.8 * ease[..., None] + 0.6 * generator.standard_normal(shape, dtype=np.float32)
    return _counted(gold_C, np.where(gold_C, hard_C < 0.9, hard_C > 1.9))


def pooled(generator: Generator, ease: np.ndarray, luck: np.ndarray, *, shares: tuple[float, ...]) -> np.ndarray:
    """F1 of all decisions on several classes: (2 hits, decisions)."""
    both, gold, predicted = np.split(several(generator, ease, luck, shares=shares), 3, axis=-1)
    return np.stack([2 * both.sum(axis=-1), (gold + predicted).sum(axis=-1)], axis=-1)


def by_example(generator: Generator, ease: np.ndarray, luck: np.ndarray, *, shares: tuple[float, ...]) -> np.ndarray:
    """Precision and recall of the items that have a class."""
    parts = np.split(several(generator, ease, luck, shares=shares), 3, axis=-1)
    both, gold, predicted = (part.sum(axis=-1) for part in parts)
    counts = gold > 0
    return np.stack([counts * both / np.maximum(predicted, 1), both / np.maximum(gold, 1), counts], axis=-1)


def entities(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Entity F1: none to three entities a sentence, each as easy as it or not, and some that are not there."""
    shape = (len(ease), 1, 1, ease.shape[-1])
    number = generator.choice(4, size=shape, p=[0.3, 0.4, 0.2, 0.1])
    found = np.zeros(ease.shape)
    for place in range(3):
        found += (place < number) & (ease < 0.9 + generator.normal(0, 0.6, size=shape))
    invented = ease > 1.2 + generator.normal(0, 0.6, size=shape)
    return np.stack([2.0 * found, number + found + invented], axis=-1)


def words(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Accuracy of tagged words: five to twenty-four a sentence, each right with a chance that falls with ease."""
    number = np.broadcast_to(generator.integers(5, 25, (len(ease), 1, 1, ease.shape[-1])), ease.shape)
    return np.stack([generator.binomial(number, ndtr((0.8 - ease) / 0.8)), number], axis=-1).astype(np.float64)


def tags(
    generator: Generator, ease: np.ndarray, luck: np.ndarray, *, shares: tuple[float, ...], outside: int = 0
) -> np.ndarray:
    """Tagged words by tag, of these shares; a word that is mistaken gets the next tag. The last `outside` tags
    are none.
    """
    number = generator.integers(5, 25, (len(ease), 1, 1, ease.shape[-1]))
    gold_C = np.broadcast_to(generator.multinomial(number, shares), (*ease.shape, len(shares)))
    hits_C = generator.binomial(gold_C, ndtr((0.8 - ease) / 0.8)[..., None])
    predicted_C = hits_C + np.roll(gold_C - hits_C, 1, axis=-1)
    kept = slice(len(shares) - outside)
    return np.concatenate([side[..., kept] for side in (hits_C, gold_C, predicted_C)], axis=-1).astype(np.float64)


def predictions(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Pearson: the number itself plus ease; the seed's luck is in how much of the number it sees."""
    x = np.broadcast_to(generator.standard_normal((len(ease), 1, 1, ease.shape[-1])), ease.shape)
    y = x * (1 - 2 * luck) + 0.7 * ease
    return np.stack([np.ones(ease.shape), x, y, x * x, y * y, x * y], axis=-1)


def with_ranks(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Pearson and Spearman: as `predictions`, and the pseudo-values of their ranks."""
    moments = predictions(generator, ease, luck)
    pairs = moments[..., 1:3].reshape(-1, ease.shape[-1], 2)
    ranked = np.stack([pseudo_values(x_n.tolist(), y_n.tolist()) for x_n, y_n in np.moveaxis(pairs, -1, 1)])
    return np.concatenate([moments, ranked.reshape(*ease.shape, 2)], axis=-1)


def ranks_alone(generator: Generator, ease: np.ndarray, luck: np.ndarray) -> np.ndarray:
    return with_ranks(generator, ease, luck)[..., 6:]


def _counted(gold_C: np.ndarray, predicted_C: np.ndarray) -> np.ndarray:
    """For each class: both, gold, predicted."""
    gold_C = np.broadcast_to(gold_C, predicted_C.shape)
    return np.concatenate([gold_C & predicted_C, gold_C, predicted_C], axis=-1).astype(np.float64)


RIGHT = partial(graded, steps=((0.8416, 1.0),))  # .8 of a normal variable
GAINS = ((0.3, 1.0), (0.8, 0.63), (1.1, 0.5), (1.5, 0.39))  # of a relevant document at ranks 1 to 3 and 5
RANKS = ((0.3, 1.0), (0.8, 1 / 2), (1.1, 1 / 3), (1.3, 1 / 4), (1.5, 1 / 5))
HALLMARKS = (0.3, 0.2, 0.15, 0.1, 0.06)
PICO = (0.1, 0.06, 0.06, 0.78)
WORLDS = (
    World("accuracy", METRICS["accuracy"], RIGHT),
    World("accuracy, seeds without luck", METRICS["accuracy"], RIGHT, luck=0.0),
    World("accuracy, seeds with much luck", METRICS["accuracy"], RIGHT, luck=0.2),
    World("accuracy of .97", METRICS["accuracy"], partial(graded, steps=((1.8808, 1.0),))),
    World("micro_f1", METRICS["micro_f1"], decisions),
    World("macro_f1", METRICS["macro_f1"], partial(by_class, shares=(0.4, 0.3, 0.2, 0.1))),
    World("macro_f1, a class of 2%", METRICS["macro_f1"], partial(by_class, shares=(0.5, 0.3, 0.18, 0.02))),
    World("matthews", METRICS["matthews"], partial(by_class, shares=(0.7, 0.3))),
    World("accuracy_and_f1", accuracy_and_f1("yes"), of_two),
    World("hoc_micro_per_hallmark_mean", METRICS["hoc_micro_per_hallmark_mean"], partial(several, shares=HALLMARKS)),
    World("hoc_micro_pooled", METRICS["hoc_micro_pooled"], partial(pooled, shares=HALLMARKS)),
    World("hoc_example_f1", METRICS["hoc_example_f1"], partial(by_example, shares=HALLMARKS)),
    World("entity_f1", METRICS["entity_f1"], entities),
    World("word_accuracy", METRICS["word_accuracy"], words),
    World("word_macro_f1", METRICS["word_macro_f1"], partial(tags, shares=(0.5, 0.3, 0.2))),
    World("word_type_macro_f1", METRICS["word_type_macro_f1"], partial(tags, shares=PICO, outside=1)),
    World("pearson", METRICS["pearson"], predictions),
    World("spearman", METRICS["spearman"], ranks_alone, slow=True),
    World("pearson_and_spearman", METRICS["pearson_and_spearman"], with_ranks, slow=True),
    World("exact_match", METRICS["exact_match"], partial(graded, steps=((0.2533, 1.0),))),  # .6
    World("f1", METRICS["f1"], overlap),
    World("strict_accuracy", METRICS["strict_accuracy"], partial(graded, steps=RANKS[:1])),
    World("lenient_accuracy", METRICS["lenient_accuracy"], partial(graded, steps=((1.5, 1.0),))),
    World("mrr", METRICS["mrr"], partial(graded, steps=RANKS)),
    World("ndcg_at_10", METRICS["ndcg_at_10"], partial(graded, steps=GAINS)),
    World("mrr_at_10", METRICS["mrr_at_10"], partial(graded, steps=RANKS)),
    World("recall_at_100", METRICS["recall_at_100"], partial(graded, steps=((1.5, 1.0), (1.8, 0.5)))),
)
