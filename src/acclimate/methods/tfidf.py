"""TF-IDF and logistic regression: no encoder at all, the baseline that keeps everyone honest.

Words and pairs of words, sublinear term frequency, L2-normalised; multinomial logistic regression. Its
one setting, the inverse regularisation C, is chosen on dev, as every contestant's checkpoint is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from acclimate.core.types import Example, Watch, counted, unwatched
from acclimate.tasks.prepared import Prepared


@dataclass(frozen=True)
class Recipe:
    """Settings tried on dev and what counts as a term."""

    strengths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)  # C
    longest: int = 2  # words a term at most


def evaluate(recipe: Recipe, task: Prepared, *, watch: Watch = unwatched) -> dict[str, Any]:
    """Fit for each C, choose on dev (the smallest C wins ties), test once: ids, gold, predicted, dev, test, seconds."""
    begun = time.perf_counter()
    train, dev = task.examples("train"), task.examples("dev")
    best: tuple[float, Pipeline] | None = None
    strengths = sorted(recipe.strengths)
    for strength in counted(strengths, watch, "TF-IDF", total=len(strengths), unit="fits", every=1):
        model = make_pipeline(
            TfidfVectorizer(sublinear_tf=True, ngram_range=(1, recipe.longest)),
            LogisticRegression(C=strength, max_iter=2000, random_state=0),
        )
        model.fit(_texts(train), [example.label for example in train])
        score = task.score([example.label for example in dev], list(model.predict(_texts(dev))))
        if best is None or score > best[0]:
            best = score, model
    if best is None:
        raise ValueError("tfidf.strengths is empty: give at least one C")
    seconds = time.perf_counter() - begun
    examples = task.examples("test")
    gold, predicted = (
        [example.label for example in examples],
        [str(label) for label in best[1].predict(_texts(examples))],
    )
    return {
        "ids": [example.id for example in examples],
        "gold": gold,
        "predicted": predicted,
        "dev": best[0],
        "test": task.score(gold, predicted),
        "seconds": seconds,
        "tokens": sum(len(text.split()) for text in _texts(train)),
    }


def _texts(examples: list[Example]) -> list[str]:
    return [f"{example.text} {example.pair}" if example.pair else example.text for example in examples]
