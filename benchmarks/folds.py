"""Repeated cross-validation: do intervals of its mean hold, and are equal learners seldom told apart? Made-up studies.

python benchmarks/folds.py --out benchmarks/reports/2026-11-23-folds.md
"""

from __future__ import annotations

import argparse
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from page import head, table, tell, write
from scipy.special import ndtr

from acclimate.statistics.folds import components_of_rows
from acclimate.statistics.variance import LEVEL, Components, bounds, half_width, jackknife, p_value
from acclimate.tasks.metrics import METRICS

FOLDS = 5
MACRO_F1 = METRICS["macro_f1"]


@dataclass(frozen=True)
class Learner:
    """A linear classifier of two classes of normal points, fitted by ridge regression.

    features  of the points; distance: of the classes' means; ridge: of the regression; luck: of a fit's seed, as the
              length of a random vector beside that of the fitted one; rare: share of the first class
    """

    features: int
    distance: float
    ridge: float = 1.0
    luck: float = 0.0
    rare: float = 0.5


LEARNERS: dict[str, Learner] = {
    "5 features": Learner(5, 2.0),
    "20 features": Learner(20, 3.0),
    "20 features, lucky seeds": Learner(20, 3.0, luck=0.5),
    "40 features, lucky seeds": Learner(40, 4.0, ridge=5.0, luck=0.3),
    "10 features that say little": Learner(10, 0.6),
    "20 features, a class of 20%": Learner(20, 3.0, rare=0.2),
}


@dataclass(frozen=True)
class Predicted:
    """What B studies predicted. Shape suffixes: B studies, R repeats, n rows, K folds."""

    gold_Bn: np.ndarray
    positive_BRn: np.ndarray
    fold_BRn: np.ndarray
    expected: float  # accuracy of the models that were fitted, on points without end

    @property
    def right_BRn(self) -> np.ndarray:
        return self.positive_BRn == (self.gold_Bn > 0)[:, None]


def components_of_folds(scores_RK: np.ndarray) -> Components:
    """Return Nadeau and Bengio's variance of the mean of folds' scores (..., R, K), or of differences of them."""
    repeats, folds = scores_RK.shape[-2:]
    number = repeats * folds
    square = scores_RK.reshape(*scores_RK.shape[:-2], number).var(axis=-1, ddof=1)
    variance = (1 / number + 1 / (folds - 1)) * square
    # as if the folds' scores were items: their number less 1 are the degrees of freedom
    return Components(np.zeros_like(square), variance, np.ones_like(square), number, np.zeros_like(square))


def main() -> None:
    given = arguments()
    covered, apart = [], []
    for rows in given.rows:
        for name, learner in LEARNERS.items():
            generator = np.random.default_rng([rows, zlib.crc32(name.encode())])
            most = max(given.repeats)
            both = [studies(generator, given.studies, rows, learner, repeats=most, half=half) for half in (0, 1)]
            for repeats in given.repeats:
                covered.append((name, f"{rows}", f"{repeats}", *coverage(both[0], repeats)))
                apart.append((name, f"{rows}", f"{repeats}", *told_apart(both, repeats)))
        tell(f"{rows} rows: {time.process_time() / 60:.1f} minutes of one core so far")
    facts = [("studies a line", f"{given.studies:,}"), ("took", f"{time.process_time() / 60:.1f} minutes of one core")]
    names = ("learner", "rows", "repeats", "accuracy", "by rows", "+-", "by folds", "+-", "macro-F1, by rows")
    parts = [head("Repeated cross-validation", facts=facts), METHOD, f"\n## In short\n\n{counted(covered, apart)}"]
    parts.append(f"\n## Intervals: how often they cover, in %\n\n{table(names, covered)}")
    names = ("learner", "rows", "repeats", "by rows", "by folds")
    parts.append(f"\n## Equal learners told apart, in %\n\n{table(names, apart)}")
    write(given.out, parts)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--repeats", type=int, nargs="+", default=[1, 2, 3, 5])
    return parser.parse_args()


def studies(
    generator: np.random.Generator, number: int, rows: int, learner: Learner, *, repeats: int, half: int
) -> Predicted:
    """Draw points, and predict each `repeats` times. half: which half of the features the learner sees, 0 or 1.

    Both halves say as much, and the points and folds are drawn from a fixed seed, so they are the same for both.
    """
    fixed = np.random.default_rng([rows, number, zlib.crc32(repr(learner).encode())])
    # each half has `features` features and the whole `distance`
    mean_D = np.full(2 * learner.features, learner.distance / 2 / np.sqrt(learner.features))
    gold_Bn = np.where(fixed.random((number, rows)) < learner.rare, 1.0, -1.0)
    points = gold_Bn[..., None] * mean_D + fixed.standard_normal((number, rows, 2 * learner.features))
    seen = slice(half * learner.features, (half + 1) * learner.features)
    x_BnD = np.concatenate([points[..., seen], np.ones((number, rows, 1))], axis=-1)
    mean_D = mean_D[seen]
    products, sums = np.swapaxes(x_BnD, 1, 2) @ x_BnD, (np.swapaxes(x_BnD, 1, 2) @ gold_Bn[..., None])
    every = np.arange(number)[:, None]
    positive, fold_of = np.zeros((number, repeats, rows), bool), np.zeros((number, repeats, rows), int)
    expected = 0.0
    size = rows // FOLDS
    for repeat in range(repeats):
        order = fixed.permuted(np.tile(np.arange(rows), (number, 1)), axis=1)
        for fold in range(FOLDS):
            held = order[:, fold * size : (fold + 1) * size]
            x, y = x_BnD[every, held], gold_Bn[every, held]
            # least squares without the held rows
            left = products - np.swapaxes(x, 1, 2) @ x + learner.ridge * np.eye(x.shape[-1])
            weights = np.linalg.solve(left, sums - np.swapaxes(x, 1, 2) @ y[..., None])[..., 0]
            luck = generator.standard_normal(weights.shape) / np.sqrt(weights.shape[-1])
            weights += learner.luck * np.linalg.norm(weights, axis=1, keepdims=True) * luck
            positive[every, repeat, held] = (x @ weights[..., None])[..., 0] > 0
            fold_of[every, repeat, held] = fold
            length, towards = np.linalg.norm(weights[:, :-1], axis=1), weights[:, :-1] @ mean_D
            hits = [ndtr((towards + sign * weights[:, -1]) / length) for sign in (1, -1)]
            expected += float((learner.rare * hits[0] + (1 - learner.rare) * hits[1]).mean())
    return Predicted(gold_Bn, positive, fold_of, expected / (repeats * FOLDS))


def coverage(found: Predicted, repeats: int) -> tuple[str, ...]:
    right = found.right_BRn[:, :repeats].astype(float)
    mean = right.mean(axis=(1, 2))
    rows = components_of_rows(right - right.mean(axis=-1, keepdims=True), folds=FOLDS)
    cells = [f"{found.expected:.3f}"]
    for low, high in (bounds(mean, rows, least=0.0), symmetric(mean, components_of_folds(by_fold(found, right)))):
        hits = (low <= found.expected) & (found.expected <= high)
        cells += [f"{100 * hits.mean():.1f}", f"{100 * np.mean(high - low) / 2:.1f}"]
    points, shares = jackknife(statistics(found, repeats), MACRO_F1.value)
    # the expected macro-F1 has no formula: the mean over all studies, whose error is a fiftieth of an interval's
    truth = points.mean()
    low, high = bounds(points.mean(axis=-1), components_of_rows(shares, folds=FOLDS), least=0.0)
    return *cells, f"{100 * np.mean((low <= truth) & (truth <= high)):.1f}"


def told_apart(both: list[Predicted], repeats: int) -> tuple[str, ...]:
    differences = both[0].right_BRn[:, :repeats].astype(float) - both[1].right_BRn[:, :repeats]
    mean = differences.mean(axis=(1, 2))
    rows = components_of_rows(differences - differences.mean(axis=-1, keepdims=True), folds=FOLDS)
    return tuple(
        f"{100 * np.mean(p_value(mean, found) < LEVEL):.1f}"
        for found in (rows, components_of_folds(by_fold(both[0], differences)))
    )


def symmetric(mean: np.ndarray, components: Components) -> tuple[np.ndarray, np.ndarray]:
    half = half_width(components)
    return mean - half, mean + half


def by_fold(found: Predicted, values_BRn: np.ndarray) -> np.ndarray:
    """(B, R, K) mean value of each fold."""
    fold = found.fold_BRn[:, : values_BRn.shape[1]]
    return np.stack(
        [(values_BRn * (fold == at)).sum(axis=-1) / (fold == at).sum(axis=-1) for at in range(FOLDS)], axis=-1
    )


def statistics(found: Predicted, repeats: int) -> np.ndarray:
    """(B, R, n, 6) numbers of macro-F1."""
    gold = np.repeat((found.gold_Bn > 0)[:, None], repeats, axis=1)[..., None] == np.array([True, False])
    predicted = found.positive_BRn[:, :repeats, :, None] == np.array([True, False])
    return np.concatenate([gold & predicted, gold, predicted], axis=-1).astype(np.float64)


def counted(covered: list[tuple[str, ...]], apart: list[tuple[str, ...]]) -> str:
    lines = []
    for repeats in dict.fromkeys(line[2] for line in covered):
        mine, others = ([line for line in lines_ if line[2] == repeats] for lines_ in (covered, apart))
        cells = [
            f"{min(values):.1f} to {max(values):.1f}"
            for values in (
                *([float(line[at]) for line in mine] for at in (4, 6, 8)),
                *([float(line[at]) for line in others] for at in (3, 4)),
            )
        ]
        narrower = np.median([float(line[5]) / float(line[7]) for line in mine])
        lines.append((repeats, *cells, f"{narrower:.2f}"))
    names = ("repeats", "covered, by rows", "by folds", "macro-F1, by rows", "told apart, by rows", "by folds", "width")
    return table(names, lines)


METHOD = """## What is measured

Rows are points of two classes; a linear classifier is fitted to four of five folds and predicts the fifth, several
times divided anew. The truth is the mean accuracy of all models fitted, computed from their weights. Aim: 93.5 to 96.5.
The two equal learners of a study see one half of the features each, of the same points, with the same folds. Aim: 4 to
6.

* *by rows*: K / (K - 1) times the variance over rows of one repeat, Wilson's interval, n - 1 degrees of freedom.
* *by folds*: Nadeau and Bengio's (1 / (K R) + 1 / (K - 1)) S^2 of the folds' scores, t with K R - 1.
* *+-*: mean half width in points. *width*: by rows, divided by that by folds; the median over lines.

The standard error of a rate is .5 with 2,000 studies.
"""


if __name__ == "__main__":
    main()
