"""What a race stops early for: a rival that cannot win any more, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from acclimate.core.types import Cost, Score
from acclimate.statistics.power import beyond_reach
from acclimate.tasks.metrics import METRICS

METRIC = METRICS["accuracy"]


def rows(name: str, accuracy: float, seeds: int, items: int, generator: np.random.Generator) -> list[Score]:
    found = []
    for seed in range(seeds):
        hits = generator.random(items) < accuracy
        predicted = tuple("a" if hit else "b" for hit in hits)
        score = float(hits.mean())
        ids = tuple(map(str, range(items)))
        found.append(Score(name, "toy", "accuracy", seed, score, score, ids, ("a",) * items, predicted, Cost(), Cost()))
    return found


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_rival_far_below_is_out_and_one_above_is_not(seeds):
    generator = np.random.default_rng(0)
    untouched = rows("untouched", 0.8, seeds, 500, generator)
    assert beyond_reach(rows("low", 0.4, seeds, 500, generator), untouched, METRIC)
    assert not beyond_reach(rows("high", 0.9, seeds, 500, generator), untouched, METRIC)


@pytest.mark.parametrize(("seeds", "most"), [(1, 0.01), (3, 0.05)])
def test_an_equal_rival_is_seldom_given_up(seeds, most):
    generator = np.random.default_rng(1)
    out = [
        beyond_reach(rows("equal", 0.7, seeds, 200, generator), rows("untouched", 0.7, seeds, 200, generator), METRIC)
        for _ in range(200)
    ]
    assert np.mean(out) <= most
