"""What chance does to a score, from leaving out each test item once, and from drawing seeds and items again.

The jackknife costs one pass over the items for any metric that is a function of sums (task.Metric), has no random
numbers in it, and gives each item's share in the score of each seed, from which the part of the seeds and the part of
the items are told apart. The bootstrap of seeds and items together stands here by its name because papers use it; with
few seeds it is wrong (docs/statistics.md shows by how much), so nothing is decided by it.

Sources: Efron and Stein, The jackknife estimate of variance (Annals of Statistics 1981); Owen, The pigeonhole bootstrap
(Annals of Applied Statistics 2007); Bouthillier et al., Accounting for variance in machine learning benchmarks (2021).

Shape suffixes: S seeds, n test items, R resamples, K numbers an item. `...`: studies side by side, in simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from acclimate.core.types import Score
from acclimate.tasks.task import Metric, Values

RESAMPLES = 2_000
CHUNK = 4_000_000  # entries of a block: 32 MB, whatever the size of the test set and the number of classes


@dataclass(frozen=True, slots=True)
class Resampled:
    """One contestant's scores, and what each test item does to them.

    points_S   the score of each seed
    shares_Sn  n - 1 times what leaving out item i changes, less the mean of these: each seed's sum to 0
    least      the lowest value that the metric can take
    """

    contestant: str
    seeds: tuple[int, ...]
    points_S: Values
    shares_Sn: Values
    least: float


def resample(scores: Sequence[Score], metric: Metric) -> dict[str, Resampled]:
    """Every contestant's scores with each test item left out once, by rising seed.

    Raises ValueError for scores that were not computed on the same test items or by this metric, for fewer than two
    seeds of a contestant (their spread would be unknown), for a seed that occurs twice, and for fewer than two items.
    """
    _check(scores)
    grouped: dict[str, list[Score]] = {}
    for score in sorted(scores, key=lambda score: score.seed):
        grouped.setdefault(score.contestant, []).append(score)
    drawn = {}
    for name in dict.fromkeys(score.contestant for score in scores):
        parts = [jackknife(statistics_of(score, metric), metric.value) for score in grouped[name]]
        points_S, shares_Sn = (np.array(side) for side in zip(*parts, strict=True))
        drawn[name] = Resampled(name, tuple(score.seed for score in grouped[name]), points_S, shares_Sn, metric.least)
    return drawn


def jackknife(statistics_nK: Values, value: Callable[[Values], Values]) -> tuple[Values, Values]:
    """(...,) values of the items' sums and (..., n) shares of the items, for statistics (..., n, K).

    The variance of the shares over n estimates the variance of the value over test sets of n items.
    """
    sums_K = statistics_nK.sum(axis=-2, keepdims=True)
    count = statistics_nK.shape[-2]
    rows = max(1, CHUNK * count // max(statistics_nK.size, 1))
    blocks = [value(sums_K - statistics_nK[..., begin : begin + rows, :]) for begin in range(0, count, rows)]
    left_n = np.concatenate(blocks, axis=-1)
    return value(sums_K[..., 0, :]), (count - 1) * (left_n.mean(axis=-1, keepdims=True) - left_n)


def statistics_of(score: Score, metric: Metric) -> Values:
    """(n, K) of a score's predictions. Raises ValueError where the metric is not the one that gave the score."""
    statistics_nK = metric.statistics(score.gold, score.predicted)
    point = float(metric.value(statistics_nK.sum(axis=0)))
    if abs(score.test - point) > 1e-6:
        raise ValueError(
            f"{score.contestant!r}, seed {score.seed}: the score says {score.test:.6f}, but {metric.name} of its "
            f"predictions is {point:.6f}. Pass the metric that the task was scored with."
        )
    return statistics_nK


def hierarchical_bootstrap(
    scores: Sequence[Score],
    reference: Sequence[Score],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(low, high, p) of the difference, by drawing seeds and test items with replacement, both in pairs.

    Too sure with few seeds: S seeds drawn from S vary (S - 1) / S as much as new ones would, and 3 seeds get no tails.
    Raises ValueError as `resample` does, and where the two have not the same seeds.
    """
    _check([*scores, *reference])
    ours, theirs = (sorted(own, key=lambda score: score.seed) for own in (scores, reference))
    if [score.seed for score in ours] != [score.seed for score in theirs]:
        raise ValueError("the bootstrap over seeds needs the same seeds for both contestants; call compare instead.")
    pairs = [[statistics_of(score, metric) for score in pair] for pair in zip(ours, theirs, strict=True)]
    generator, items, number = np.random.default_rng(seed), len(scores[0].gold), len(pairs)
    drawn = []
    rows = max(1, CHUNK // items)
    for size in [rows] * (resamples // rows) + [resamples % rows] * (resamples % rows > 0):
        weights_Rn = generator.multinomial(items, np.full(items, 1 / items), size=size).astype(np.float64)
        gains_RS = np.stack([metric.value(weights_Rn @ a) - metric.value(weights_Rn @ b) for a, b in pairs], axis=1)
        drawn.append(np.take_along_axis(gains_RS, generator.integers(number, size=(size, number)), axis=1).mean(axis=1))
    gains_R = np.concatenate(drawn)
    low, high = np.quantile(gains_R, [0.025, 0.975])
    beyond = 1 + min(int(np.sum(gains_R <= 0)), int(np.sum(gains_R >= 0)))
    return float(low), float(high), min(1.0, 2.0 * beyond / (resamples + 1))


def _check(scores: Sequence[Score]) -> None:
    """Same task, same test items in the same order, each contestant with two different seeds or more."""
    first = scores[0]
    seeds: dict[str, list[int]] = {}
    for score in scores:
        if (score.task, score.metric, score.ids, score.gold) != (first.task, first.metric, first.ids, first.gold):
            raise ValueError(
                f"{score.contestant!r}, seed {score.seed} and {first.contestant!r}, seed {first.seed} were not tested "
                f"alike: task, metric, ids and gold labels must be the same, in the same order."
            )
        seeds.setdefault(score.contestant, []).append(score.seed)
    for contestant, own in seeds.items():
        if len(set(own)) != len(own) or len(own) < 2:
            raise ValueError(f"{contestant!r} has the seeds {own}; give it two or more, each once (a race asks for 3).")
    if len(first.gold) < 2:
        raise ValueError(f"{len(first.gold)} test item: its luck cannot be told from the model; give two or more.")
