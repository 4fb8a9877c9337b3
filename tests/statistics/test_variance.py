"""Shape suffixes: S seeds, n test items. Where the items' part is known, sizes of tests are integrals."""

import numpy as np
import pytest
from scipy import stats

from acclimate.statistics.variance import (
    Components,
    bounds,
    components_of,
    effective_items,
    half_width,
    noncentrality,
    p_value,
    unpaired,
)


def spread(seeds: float, items: float, freedom: float, count: int = 1_000_000) -> Components:
    parts = np.array([seeds, items, freedom])
    return Components(parts[0], parts[1], parts[2], count, np.array(0.0))


def false_positives(freedom: int, *, of_seeds: float, of_residual: float, level: float) -> float:
    """Of equal contestants, in %; shares of the seeds in the variance, and of the residual in what is left of it."""
    quantiles = stats.chi2.ppf((np.arange(4_000) + 0.5) / 4_000, freedom) / freedom
    rest = (1 - of_seeds) * of_residual
    all_alike = np.ones(4_000)
    drawn = Components(
        (of_seeds + rest) * quantiles, (1 - of_seeds - rest) * all_alike, freedom * all_alike, 10**9, rest * all_alike
    )
    # the error is normal with variance 1, the variance is drawn: the chance to pass the half width, averaged
    return float(np.mean(200 * stats.norm.sf(half_width(drawn, level=level))))


SHARES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)


@pytest.mark.parametrize("freedom", [2, 3, 4, 9, 30])
def test_false_positives_keep_their_level_whatever_the_share_of_the_seeds(freedom):
    for share in SHARES:
        assert 4.5 <= false_positives(freedom, of_seeds=share, of_residual=0.0, level=0.05) <= 5.4, share


@pytest.mark.parametrize(
    ("freedom", "least", "most", "most_at_one"),
    [(1, 1.5, 7.9, 5.3), (2, 1.7, 5.4, 2.4), (4, 2.2, 5.1, 1.4), (9, 2.9, 5.1, 1.1)],
)
def test_a_residual_makes_false_positives_fewer_and_never_more(freedom, least, most, most_at_one):
    for share in SHARES:
        for residual in (0.25, 0.5, 0.75, 1.0):
            at_5, at_1 = (
                false_positives(freedom, of_seeds=share, of_residual=residual, level=level) for level in (0.05, 0.01)
            )
            assert least <= at_5 <= most, (share, residual)
            assert at_1 <= most_at_one, (share, residual)


def test_one_source_alone_gives_the_tests_of_scipy():
    generator = np.random.default_rng(0)
    shares_Sn = np.zeros((4, 30))
    points_S = generator.normal(size=4)
    alone = components_of(points_S, shares_Sn)
    assert p_value(points_S.mean(), alone) == pytest.approx(stats.ttest_1samp(points_S, 0).pvalue, abs=1e-9)
    item_n = generator.normal(0.3, 1, size=30)
    equal = components_of(np.full(3, item_n.mean()), np.tile(item_n - item_n.mean(), (3, 1)))
    assert p_value(item_n.mean(), equal) == pytest.approx(stats.ttest_1samp(item_n, 0).pvalue, abs=1e-9)
    low = stats.ttest_1samp(item_n, 0).confidence_interval(0.95).low
    assert item_n.mean() - half_width(equal) == pytest.approx(low, abs=1e-9)
    ours_S, theirs_S = generator.normal(size=4), generator.normal(size=3)
    apart = unpaired((ours_S, shares_Sn), (theirs_S, shares_Sn[:3]))
    welch = stats.ttest_ind(ours_S, theirs_S, equal_var=False)
    # Welch's rule for the seeds' degrees of freedom, and no item differs
    assert p_value(ours_S.mean() - theirs_S.mean(), apart) == pytest.approx(welch.pvalue, abs=1e-9)


def test_the_parts_are_those_that_the_items_and_seeds_were_drawn_with():
    generator = np.random.default_rng(1)
    studies, seeds, items = 4_000, 4, 50
    seed = generator.normal(0, 0.2, (studies, seeds, 1))
    hard, rest = generator.normal(0, 1.0, (studies, 1, items)), generator.normal(0, 2.0, (studies, seeds, items))
    scores = seed + hard + rest
    points = scores.mean(axis=-1)
    found = components_of(points, scores - points[..., None])
    assert found.seeds.mean() == pytest.approx(0.04 / seeds + 4 / (seeds * items), rel=0.05)
    assert found.residual.mean() == pytest.approx(4 / (seeds * items), rel=0.02)
    assert found.items.mean() == pytest.approx(1 / items, rel=0.05)
    assert found.variance.mean() == pytest.approx(points.mean(axis=-1).var(), rel=0.1)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_seeds_that_agree_by_chance_never_give_less_variance_than_the_items_alone(seeds):
    """Made so: equal scores, and shares with less in common than the residual accounts for."""
    generator = np.random.default_rng(seeds)
    left_Sn = generator.normal(size=(seeds, 60))
    left_Sn -= 0.2 * left_Sn.mean(axis=0)
    scores_Sn = 0.1 + left_Sn - left_Sn.mean(axis=1, keepdims=True)
    points_S = scores_Sn.mean(axis=1)
    assert np.ptp(points_S) == pytest.approx(0)
    item_n = scores_Sn.mean(axis=0)
    for found, difference in (
        (components_of(points_S, scores_Sn - points_S[:, None]), points_S.mean()),
        (unpaired((points_S, scores_Sn - points_S[:, None]), (np.zeros(2), np.zeros((2, 60)))), points_S.mean()),
    ):
        alone = stats.ttest_1samp(item_n, 0)
        assert p_value(difference, found) >= alone.pvalue
        assert difference - half_width(found) <= alone.confidence_interval(0.95).low
        low, high = bounds(np.array(0.5), found, least=0.0)
        assert high - low > 0.1


def test_intervals_of_a_share_are_wilsons_and_of_a_correlation_fishers():
    mean, items = np.array(0.8), 50
    found = spread(0.0, 0.8 * 0.2 / items, 2.0)
    wilson = stats.binomtest(40, 50).proportion_ci(method="wilson")
    assert bounds(mean, found, least=0.0) == pytest.approx((wilson.low, wilson.high), abs=1e-5)
    r, error = 0.8, 0.05
    low, high = bounds(np.array(r), spread(0.0, error**2, 2.0), least=-1.0)
    assert np.arctanh(high) - np.arctanh(r) == pytest.approx(1.96 * error / (1 - r**2), rel=1e-4)
    assert np.arctanh(r) - np.arctanh(low) == pytest.approx(1.96 * error / (1 - r**2), rel=1e-4)


@pytest.mark.parametrize(("mean", "least"), [(1.0, 0.0), (0.0, 0.0), (1.0, -1.0), (-1.0, -1.0)])
def test_intervals_end_where_the_metric_does(mean, least):
    low, high = bounds(np.array(mean), spread(0.0, 0.0, 2.0, count=20), least=least)
    assert least <= low <= mean <= high <= 1.0
    if least == 0.0:  # nothing varied, but 20 items cannot be more sure than that
        assert high - low == pytest.approx(2.093**2 / (20 + 2.093**2), abs=1e-3)


def test_effective_items_counts_the_items_that_matter():
    assert effective_items(np.array([[1.0, -1.0, 1.0, -1.0]])) == pytest.approx(4)
    assert effective_items(np.array([[10.0, 0.0, 0.0, -10.0], [10.0, 0.0, 0.0, -10.0]])) == pytest.approx(2)
    assert effective_items(np.zeros((2, 4))) == 0


def test_the_noncentrality_is_that_of_scipys_noncentral_student_variable():
    for freedom in (1.5, 2.0, 7.3, 50.0):
        for ratio in (-2.0, 0.0, 0.7, 3.0):
            for tail in (0.2, 0.025, 0.975):
                found = noncentrality(ratio, freedom, tail)
                assert stats.nct.cdf(ratio, freedom, found) == pytest.approx(tail, abs=1e-7)
    assert noncentrality(3.0, 1e6, 0.025) == pytest.approx(3 + 1.95996, abs=1e-4)
    assert noncentrality(1e6, 2.0, 0.975) < 1e6 < noncentrality(1e6, 2.0, 0.025)
