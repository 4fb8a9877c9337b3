"""How often the interval of what adapting is worth in labels covers the truth (statistics/worth.py), by simulation.

    python benchmarks/learning_curve.py [STUDIES]

A study has a model's true curve, the influence of each labelled row on its score, of each test item, and nested draws
of the rows. Both models share rows and items. It prints, for each true gain, number of draws, number of test items and
spread of the rows: the share of studies whose interval covers the gain, in which something is told, in which the gain
is told apart from none, and the median width in doublings of the labels. A second table has linear classifiers that
learn from drawn points, whose true curves are simulated: nothing there follows the model of the estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np

from acclimate.statistics.worth import gains, worth_in_labels

ROWS = (44, 88, 176, 352)
Curve = Callable[[int], float]


def power_law(factor: float) -> Curve:
    return lambda labels: 0.9 - 1.5 * (factor * labels) ** -0.4


def made_up(
    curves: tuple[Curve, Curve], draws: int, items: int, spread: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (2, K, R) and shares (2, K, n) of one study. spread: of the influence of a row"""
    rows_CN = spread * (0.7 * generator.normal(size=ROWS[-1]) + 0.71 * generator.normal(size=(2, ROWS[-1])))
    items_CKn = 0.32 * generator.normal(size=items) + 0.25 * generator.normal(size=(2, 1, items))
    items_CKn = items_CKn + 0.2 * generator.normal(size=(2, len(ROWS), items))
    points_CKR = np.empty((2, len(ROWS), draws))
    for draw in range(draws):
        order = generator.permutation(ROWS[-1])
        for at, size in enumerate(ROWS):
            points_CKR[:, at, draw] = [curve(size) for curve in curves] + rows_CN[:, order[:size]].mean(axis=-1)
    points_CKR[:, -1] = points_CKR[:, -1, :1]
    points_CKR += items_CKn.mean(axis=-1)[..., None]
    return points_CKR, items_CKn - items_CKn.mean(axis=-1, keepdims=True)


def ridge(x_RD: np.ndarray, y_R: np.ndarray) -> np.ndarray:
    weights: np.ndarray = np.linalg.solve(x_RD.T @ x_RD + 5 * np.eye(x_RD.shape[1]), x_RD.T @ y_R)
    return weights


def points(rows: int, generator: np.random.Generator) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return two encodings of each row, the second with less noise, and its label, -1 or 1."""
    truth_RD = generator.normal(size=(rows, 30))
    y_R = np.sign(truth_RD[:, :5].sum(axis=1) + generator.normal(size=rows))
    return tuple(truth_RD + noise * generator.normal(size=truth_RD.shape) for noise in (0.7, 0.3)), y_R  # type: ignore


def learnt(draws: int, items: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and shares of linear classifiers that learn from drawn points."""
    train_CRD, y_R = points(ROWS[-1], generator)
    test_CnD, y_n = points(items, generator)
    right_CKRn = np.empty((2, len(ROWS), draws, items))
    for draw in range(draws):
        order = generator.permutation(ROWS[-1])
        for model in range(2):
            for at, size in enumerate(ROWS):
                weights_D = ridge(train_CRD[model][order[:size]], y_R[order[:size]])
                right_CKRn[model, at, draw] = np.sign(test_CnD[model] @ weights_D) == y_n
    points_CKR = right_CKRn.mean(axis=-1)
    shares_CKn = right_CKRn.mean(axis=2)
    return points_CKR, shares_CKn - shares_CKn.mean(axis=-1, keepdims=True)


def report(truth: float, studies: Iterator[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, float, float]:
    """Return shares of the studies (covered, told, established) and the median width."""
    found = [worth_in_labels(ROWS, *study, seed=seed) for seed, study in enumerate(studies)]
    covered = [each.gain.low <= truth + 1e-9 and truth - 1e-9 <= each.gain.high for each in found]
    width = np.median([each.gain.high - each.gain.low for each in found])
    told, established = ([getattr(each, name) for each in found] for name in ("told", "established"))
    return float(np.mean(covered)), float(np.mean(told)), float(np.mean(established)), float(width)


def main(studies: int) -> None:
    print("gain  draws  items  rows' spread  covered  told  established  width")
    for factor in (1.0, 2**0.5, 2.0, 4.0, 2**-0.75):
        curves = power_law(1.0), power_law(factor)
        truth = float(gains(ROWS, np.array([[[curve(size) for size in ROWS] for curve in curves]]))[0])
        for draws in (3, 5, 10):
            for items, spread in ((150, 0.5), (600, 0.5), (600, 1.0)):
                generator = np.random.default_rng(1)
                made = (made_up(curves, draws, items, spread, generator) for _ in range(studies))
                covered, told, established, width = report(truth, made)
                print(
                    f"{truth:5.2f} {draws:5} {items:6} {spread:9} {covered:12.3f} {told:7.2f} {established:9.2f} "
                    f"{width:10.2f}",
                    flush=True,
                )
    generator = np.random.default_rng(2)
    truth_CK = np.mean([learnt(1, 2_000, generator)[0][:, :, 0] for _ in range(400)], axis=0)
    truth = float(gains(ROWS, truth_CK[None])[0])
    print(f"linear classifiers, true curves {np.round(100 * truth_CK, 1).tolist()}, gain {truth:.2f}")
    for draws in (3, 5, 10):
        for items in (150, 600):
            covered, told, established, width = report(truth, (learnt(draws, items, generator) for _ in range(studies)))
            print(
                f"{truth:5.2f} {draws:5} {items:6} {covered:22.3f} {told:7.2f} {established:9.2f} {width:10.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
