"""Shape suffixes: S seeds, n test items."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.statistics.adaptation import components_of_difference
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.significance import compare, interval
from acclimate.statistics.variance import Resampled, p_value, resample, weighted
from acclimate.tasks.metrics import METRICS
from made_up_races import score_of

SEEDS = (0, 1, 2, 3, 4)
# of a dataset: test items, standard deviation of the seeds' luck, of an item for all seeds, of the rest
DATASETS = ((200, 0.01, 0.3, 0.3), (80, 0.03, 0.4, 0.2), (60, 0.0, 0.3, 0.4), (300, 0.02, 0.2, 0.3))
WEIGHTS = (1 / 6, 1 / 6, 1 / 3, 1 / 3)


def drawn(generator: np.random.Generator, hard_n: np.ndarray, luck: float, rest: float, seeds: int = 5) -> Resampled:
    """Scores around .8 of one model, whose items are as hard as that."""
    scores_Sn = 0.8 + generator.normal(0, luck, (seeds, 1)) + hard_n + generator.normal(0, rest, (seeds, len(hard_n)))
    points_S = scores_Sn.mean(axis=1)
    return Resampled("model", SEEDS[:seeds], points_S, scores_Sn - points_S[:, None], 0.0)


def test_intervals_cover_the_truth_and_equal_models_are_seldom_told_apart():
    """600 studies: three standard errors are 2.7 points."""
    generator = np.random.default_rng(0)
    covered = found = 0
    for _ in range(600):
        ours, theirs = [], []
        for items, luck, item, rest in DATASETS:
            hard_n = generator.normal(0, item, items)
            for side in (ours, theirs):
                side.append(drawn(generator, hard_n + generator.normal(0, item / 2, items), luck, rest))
        alone = mean_interval(ours, WEIGHTS)
        covered += alone.low <= 0.8 <= alone.high
        between = mean_difference(ours, theirs, WEIGHTS)
        assert (between.p < 0.05) == (between.low > 0 or between.high < 0)
        found += between.p < 0.05
    assert 0.923 <= covered / 600 <= 0.98
    assert 0.015 <= found / 600 <= 0.077


def adapted(
    generator: np.random.Generator, luck_A: np.ndarray, items: int, adaptations: tuple[int, ...], first_seed: int = 0
) -> Resampled:
    """Scores around .8 on one dataset, whose runs share the luck of their adaptations with those on other datasets."""
    hard_n, rest_Sn = generator.normal(0, 0.2, items), generator.normal(0, 0.1, (len(adaptations), items))
    scores_Sn = 0.8 + luck_A[list(adaptations)][:, None] + hard_n + rest_Sn
    points_S = scores_Sn.mean(axis=1)
    seeds = tuple(range(first_seed, first_seed + len(adaptations)))
    return Resampled("model", seeds, points_S, scores_Sn - points_S[:, None], 0.0, adaptations)


@pytest.mark.parametrize("adaptations", [(0, 1, 2, 3, 4), (0, 1, 2, 0, 1, 2)])
def test_adaptations_that_datasets_share_are_no_independent_luck_of_each(adaptations):
    """400 studies: three standard errors are 3.3 points."""
    generator = np.random.default_rng(6)
    found = independent = covered = 0
    weights = (0.4, 0.3, 0.3)
    for _ in range(400):
        ours, theirs = (
            [adapted(generator, luck_A, items, adaptations) for items in (100, 60, 150)]
            for luck_A in generator.normal(0, 0.03, (2, max(adaptations) + 1))
        )
        between = mean_difference(ours, theirs, weights)
        found += between.p < 0.05
        assert (between.p < 0.05) == (between.low > 0 or between.high < 0)
        apart = weighted([components_of_difference(*pair) for pair in zip(ours, theirs, strict=True)], weights)
        independent += p_value(between.difference, apart) < 0.05
        alone = mean_interval(ours, weights)
        covered += alone.low <= 0.8 <= alone.high
    assert 0.015 <= found / 400 <= 0.085
    assert independent / 400 > 0.1
    assert 0.915 <= covered / 400 <= 0.985


def test_the_items_of_datasets_that_share_adaptations_count_as_those_of_independent_ones():
    generator = np.random.default_rng(7)
    runs = (0, 1, 2)
    ours = [adapted(generator, np.zeros(3), items, runs) for items in (20, 200)]
    ours = [replace(each, points_S=np.full(3, 0.8), shares_Sn=np.tile(each.shares_Sn[:1], (3, 1))) for each in ours]
    shared, plain = (mean_interval(scores, [0.5, 0.5]) for scores in (ours, [replace(x, adaptations=()) for x in ours]))
    assert (shared.low, shared.high) == pytest.approx((plain.low, plain.high))


def test_datasets_whose_runs_are_no_pairs_are_taken_to_share_all_luck():
    generator = np.random.default_rng(8)
    luck_A = generator.normal(0, 0.05, 3)
    ours = [adapted(generator, luck_A, 100, (0, 1, 2)) for _ in "ab"]
    others = [ours[0], replace(ours[1], seeds=(3, 4, 5))]
    pairs, no_pairs, independent = (
        mean_interval(scores, [0.5, 0.5]) for scores in (ours, others, [replace(x, adaptations=()) for x in ours])
    )
    widths = [each.high - each.low for each in (no_pairs, pairs, independent)]
    assert widths == sorted(widths, reverse=True)


def test_without_luck_of_seeds_the_variance_is_that_of_independent_means():
    generator = np.random.default_rng(1)
    hard = [generator.normal(0, item, items) for items, _, item, _ in DATASETS]
    ours = [drawn(generator, hard_n, 0.0, 0.0) for hard_n in hard]
    theirs = [drawn(generator, np.zeros(len(hard_n)), 0.0, 0.0) for hard_n in hard]
    between = mean_difference(ours, theirs, WEIGHTS)
    parts = np.array(
        [weight**2 * hard_n.var(ddof=1) / len(hard_n) for weight, hard_n in zip(WEIGHTS, hard, strict=True)]
    )
    freedom = parts.sum() ** 2 / sum(part**2 / (len(hard_n) - 1) for part, hard_n in zip(parts, hard, strict=True))
    difference = sum(weight * hard_n.mean() for weight, hard_n in zip(WEIGHTS, hard, strict=True))
    assert between.difference == pytest.approx(difference)
    assert between.p == pytest.approx(2 * stats.t.sf(abs(difference) / np.sqrt(parts.sum()), freedom))
    assert (between.high - between.low) / 2 == pytest.approx(stats.t.isf(0.025, freedom) * np.sqrt(parts.sum()))


@pytest.mark.parametrize("metric", ["accuracy", "pearson"])
def test_of_one_dataset_they_are_its_own(metric):
    generator = np.random.default_rng(2)
    if metric == "accuracy":
        gold, sides = ["yes"] * 200, [np.where(generator.random((3, 200)) < 0.8, "yes", "no").tolist() for _ in "ab"]
    else:
        gold = generator.normal(size=200).tolist()
        sides = [(np.array(gold) + generator.normal(0, 0.6, (3, 200))).tolist() for _ in "ab"]
    ours, theirs = (
        [score_of(name, metric, seed, gold=gold, predicted=each) for seed, each in enumerate(of_dataset)]
        for name, of_dataset in zip("ab", sides, strict=True)
    )
    draws = resample([*ours, *theirs], METRICS[metric])
    alone, of_dataset = mean_interval([draws["a"]], [1.0]), interval(ours, METRICS[metric])
    assert (alone.mean, alone.low, alone.high, alone.caution) == pytest.approx(
        (of_dataset.mean, of_dataset.low, of_dataset.high, of_dataset.caution)
    )
    between, pair = mean_difference([draws["a"]], [draws["b"]], [1.0]), compare(ours, theirs, METRICS[metric])
    assert (between.low, between.high, between.p) == pytest.approx((pair.low, pair.high, pair.p))
    assert between.caution == pair.caution


def test_perfect_and_equal_models_have_ends_and_no_difference():
    right = drawn(np.random.default_rng(3), np.zeros(30), 0.0, 0.0)
    perfect = replace(right, points_S=np.ones(5), shares_Sn=np.zeros((5, 30)))
    alone = mean_interval([perfect, perfect], [0.5, 0.5])
    assert alone.high == 1.0
    assert 0.8 < alone.low < 0.95  # two sets of 30 right answers are not all there are
    assert mean_difference([perfect] * 2, [perfect] * 2, [0.5, 0.5]).p == 1.0


def test_a_mean_that_hangs_on_one_small_dataset_says_so_and_its_weights_sum_to_one():
    generator = np.random.default_rng(4)
    large, small = (drawn(generator, generator.normal(0, 0.3, items), 0.0, 0.1) for items in (2_000, 9))
    assert "Fewer than 10 of the 2,009 test items" in mean_interval([large, small], [0.5, 0.5]).caution
    assert mean_interval([large, small], [0.99, 0.01]).caution == ""
    fewer = replace(large, seeds=(0, 1), points_S=large.points_S[:2], shares_Sn=large.shares_Sn[:2])
    assert "2 seeds are too few for reliable p values" in mean_interval([fewer, large], [0.5, 0.5]).caution
    draws = drawn(np.random.default_rng(5), np.zeros(30), 0.0, 0.1)
    with pytest.raises(AssertionError, match=r"sum to 1, not 0\.7"):
        mean_interval([draws, draws], [0.5, 0.2])
