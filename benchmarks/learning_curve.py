"""Does the interval of what adapting is worth in labels hold (statistics/worth.py)? Made-up studies.

python benchmarks/learning_curve.py --out benchmarks/reports/2026-11-23-learning-curve.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from page import head, table, tell, write

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
    noisy_RD, clean_RD = (truth_RD + noise * generator.normal(size=truth_RD.shape) for noise in (0.7, 0.3))
    return (noisy_RD, clean_RD), y_R


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


def counted(truth: float, studies: Iterator[tuple[np.ndarray, np.ndarray]]) -> tuple[str, ...]:
    """Return shares of the studies in percent (covered, informative, told apart), and the median width in doublings."""
    found = [worth_in_labels(ROWS, *study, seed=seed) for seed, study in enumerate(studies)]
    covered = [each.gain.low <= truth + 1e-9 and truth - 1e-9 <= each.gain.high for each in found]
    informative, established = ([getattr(each, name) for each in found] for name in ("informative", "established"))
    width = np.median([each.gain.high - each.gain.low for each in found])
    return (*(f"{100 * np.mean(each):.1f}" for each in (covered, informative, established)), f"{width:.2f}")


METHOD = """
## What is measured

A study has a true curve for each model, scores of 44, 88, 176 and 352 rows, and nested draws of the rows. The gain is
how often the labels would have to be doubled to do what adapting does.

* *Made up*: the curves are power laws. Each labelled row and each test item has an influence on the score, which both
  models share in part. *Spread*: standard deviation of a row's influence.
* *Linear classifiers* learn from drawn points with two encodings, of which one has less noise. Their true curves are
  the means of 400 studies with 2,000 test items. Nothing there follows the model of the estimate.

*Covered*: the interval has the true gain; aim: 93.5 to 96.5%, and more where gains at the ends are cut off.
*Informative*: the interval leaves out some gain that the sizes can show. *Apart*: it leaves out 0. *Width*: the median,
in doublings.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--draws", type=int, nargs="+", default=[3, 5, 10])
    given = parser.parse_args()
    lines = []
    for factor in (1.0, 2**0.5, 2.0, 4.0, 2**-0.75):
        curves = power_law(1.0), power_law(factor)
        truth = float(gains(ROWS, np.array([[[curve(size) for size in ROWS] for curve in curves]]))[0])
        for draws in given.draws:
            for items, spread in ((150, 0.5), (600, 0.5), (600, 1.0)):
                generator = np.random.default_rng(1)
                made = (made_up(curves, draws, items, spread, generator) for _ in range(given.studies))
                lines.append((f"{truth:.2f}", f"{draws}", f"{items}", f"{spread}", *counted(truth, made)))
        tell(f"gain {truth:.2f}: {time.process_time() / 60:.1f} minutes of one core so far")
    generator = np.random.default_rng(2)
    truth_CK = np.mean([learnt(1, 2_000, generator)[0][:, :, 0] for _ in range(min(400, 4 * given.studies))], axis=0)
    truth = float(gains(ROWS, truth_CK[None])[0])
    linear = [
        (f"{truth:.2f}", f"{draws}", f"{items}", *counted(truth, made))
        for draws in given.draws
        for items in (150, 600)
        for made in [(learnt(draws, items, generator) for _ in range(given.studies))]
    ]
    facts = [("studies a line", f"{given.studies:,}"), ("took", f"{time.process_time() / 60:.1f} minutes of one core")]
    counts = ("covered", "informative", "apart", "width")
    curves_text = "; ".join(", ".join(f"{100 * score:.1f}" for score in side) for side in truth_CK)
    parts = [head("What adapting is worth in labels", facts=facts), METHOD]
    parts.append(f"\n## Made up\n\n{table(('gain', 'draws', 'items', 'spread', *counts), lines)}")
    parts.append(f"\n## Linear classifiers\n\nTrue curves: {curves_text}.\n")
    parts.append(f"\n{table(('gain', 'draws', 'items', *counts), linear)}")
    write(given.out, parts)


if __name__ == "__main__":
    main()
