"""Shape suffixes: B studies, R repeats, K folds, n rows."""

import numpy as np
import pytest
from scipy import stats

from acclimate.statistics.folds import components_of_rows, row_interval
from acclimate.statistics.variance import bounds, p_value
from acclimate.tasks.metrics import METRICS

FOLDS = 5


def repeated_folds(rows: int, repeats: int, *, studies: int, seed: int) -> tuple[np.ndarray, float]:
    """(B, R, n) whether the nearer of two class means, of the rows of the other folds, is the right one; truth.

    The truth is the mean accuracy of all models fitted, from the places of their class means.
    """
    generator, features, distance = np.random.default_rng(seed), 8, 1.8
    mean = np.full(features, distance / 2 / np.sqrt(features))
    gold_Bn = np.where(generator.random((studies, rows)) < 0.5, 1.0, -1.0)
    points = gold_Bn[..., None] * mean + generator.standard_normal((studies, rows, features))
    every, size = np.arange(studies)[:, None], rows // FOLDS
    right, expected = np.zeros((studies, repeats, rows)), []
    for repeat in range(repeats):
        order = generator.permuted(np.tile(np.arange(rows), (studies, 1)), axis=1)
        for fold in range(FOLDS):
            held = order[:, fold * size : (fold + 1) * size]
            others = np.delete(order, np.s_[fold * size : (fold + 1) * size], axis=1)
            x, y = points[every, others], gold_Bn[every, others]
            middles = [(x * (y == side)[..., None]).sum(axis=1) / (y == side).sum(axis=1)[:, None] for side in (1, -1)]
            weights, bias = middles[0] - middles[1], ((middles[1] ** 2).sum(axis=1) - (middles[0] ** 2).sum(axis=1)) / 2
            right[every, repeat, held] = ((points[every, held] @ weights[..., None])[..., 0] + bias[:, None]) * gold_Bn[
                every, held
            ] > 0
            length, towards = np.linalg.norm(weights, axis=1), weights @ mean
            expected.append(np.mean([stats.norm.cdf((towards + sign * bias) / length).mean() for sign in (1, -1)]))
    return right, float(np.mean(expected))


@pytest.mark.parametrize(("rows", "repeats"), [(50, 3), (100, 3), (100, 1)])
def test_intervals_by_rows_cover_the_expected_accuracy(rows, repeats):
    """benchmarks/folds.py at large. 600 studies: three standard errors are 2.7 points."""
    right, truth = repeated_folds(rows, repeats, studies=600, seed=rows + repeats)
    shares = right - right.mean(axis=-1, keepdims=True)
    low, high = bounds(right.mean(axis=(1, 2)), components_of_rows(shares, folds=FOLDS), least=0.0)
    assert 0.92 <= np.mean((low <= truth) & (truth <= high)) <= 0.993
    # what most people compute: folds as independent samples
    scores_RK = right[..., : rows // FOLDS * FOLDS].reshape(600, repeats, FOLDS, -1).mean(axis=-1)
    naive = (
        stats.t.isf(0.025, repeats * FOLDS - 1)
        * scores_RK.reshape(600, -1).std(axis=-1, ddof=1)
        / (repeats * FOLDS) ** 0.5
    )
    if repeats > 1:
        assert np.mean(np.abs(right.mean(axis=(1, 2)) - truth) <= naive) < 0.9


def test_the_variance_by_rows_is_that_of_one_repeat_times_the_factor():
    shares_Rn = np.random.default_rng(0).normal(size=(3, 40))
    found = components_of_rows(shares_Rn, folds=5)
    assert found.variance == pytest.approx(1.25 * shares_Rn.var(axis=1, ddof=1).mean() / 40)
    assert found.freedom == pytest.approx(39)
    alone = np.tile(np.random.default_rng(1).normal(0.3, 1, size=40), (2, 1))
    many = components_of_rows(alone - alone.mean(axis=1, keepdims=True), folds=10**9)
    # with as many folds as one likes, and repeats that agree, it is the t test over rows
    assert p_value(alone.mean(), many) == pytest.approx(stats.ttest_1samp(alone[0], 0).pvalue, abs=1e-7)


def test_any_metric_has_an_interval():
    generator = np.random.default_rng(2)
    gold = generator.choice(["a", "b", "c"], p=[0.4, 0.3, 0.3], size=80).tolist()
    repeats = [
        [label if generator.random() < 0.7 else "abc"[at % 3] for at, label in enumerate(gold)] for _ in range(3)
    ]
    found = row_interval(gold, repeats, METRICS["macro_f1"], folds=5)
    assert found.mean == pytest.approx(np.mean([METRICS["macro_f1"].compute(gold, labels) for labels in repeats]))
    assert 0 < found.low < found.mean < found.high < 1
    assert found.caution == ""
    assert (
        "Repeats of the cross-validation: 1." in row_interval(gold, repeats[:1], METRICS["macro_f1"], folds=5).caution
    )
    numbers = generator.normal(size=60).tolist()
    said = [[number + generator.normal(0, 0.5) for number in numbers] for _ in range(3)]
    correlation = row_interval(numbers, said, METRICS["pearson"], folds=10)
    assert correlation.low < correlation.mean < correlation.high < 1
    assert correlation.high - correlation.mean < correlation.mean - correlation.low


def test_too_few_rows_or_folds_are_refused():
    accuracy = METRICS["accuracy"]
    with pytest.raises(ValueError, match="folds=5: choose 2 to 3, the number of rows"):
        row_interval(["a", "b", "a"], [["a", "b", "a"]], accuracy, folds=5)
    with pytest.raises(ValueError, match="folds=1"):
        row_interval(["a", "b", "a"], [["a", "b", "a"]], accuracy, folds=1)
    with pytest.raises(ValueError, match="no repeat"):
        row_interval(["a", "b", "a"], [], accuracy, folds=2)
