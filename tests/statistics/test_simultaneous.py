"""Shape suffixes: B races, m contestants, S seeds, n test items."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.statistics.answer_rule import Ends, answer_kind
from acclimate.statistics.significance import compare_of
from acclimate.statistics.simultaneous import (
    adjusted_p,
    correct_few_items,
    gains_of,
    level_alone,
    mean_correlation,
    simultaneous_half_width,
)
from acclimate.statistics.variance import Components, Resampled, components_of, half_width
from made_up_races import resampled


def test_level_alone_is_dunnetts():
    """Dunnett's two-sided 5% points for infinite degrees of freedom: 2.21, 2.35, 2.44, 2.51 for 2 to 5 treatments."""
    points = [-stats.norm.ppf(level_alone(number, 0.5) / 2) for number in (2, 3, 4, 5)]
    np.testing.assert_allclose(points, [2.212, 2.349, 2.442, 2.511], atol=6e-4)
    assert level_alone(4, 0.0) == pytest.approx(1 - 0.95 ** (1 / 4))  # independent: Sidak
    assert level_alone(1, 0.0, 0.02) == 0.02
    assert level_alone(3, 0.95) > level_alone(3, 0.5) > level_alone(3, 0.0) > 0.05 / 3


@pytest.mark.parametrize("number", [1, 2, 6])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_p_is_below_the_level_exactly_outside_the_interval(number, level):
    components = Components(np.float64(4e-5), np.float64(3e-5), np.float64(2.0), 300, np.float64(1e-5))
    half = float(simultaneous_half_width(components, level_alone(number, 0.4, level)))
    assert half >= float(half_width(components))
    for beyond, difference in ((True, half * 1.0001), (False, half * 0.9999), (True, -half * 1.0001)):
        p = float(adjusted_p(difference, components, number, correlation=0.4, level=level))
        assert (p < level) is beyond
    assert float(adjusted_p(0.0, components, number, correlation=0.4)) == pytest.approx(1.0)
    assert 0 < float(adjusted_p(half * 50, components, number, correlation=0.4)) < 0.01


def test_one_contestant_has_the_interval_and_p_of_the_comparison():
    ours, theirs = resampled("A", gain=0.02), resampled("untouched")
    [gain], comparison = gains_of([ours], theirs), compare_of(ours, theirs)
    assert gain.interval == pytest.approx((comparison.low, comparison.high))
    assert gain.interval == gain.single
    assert gain.p == pytest.approx(comparison.p)
    assert gain.difference == comparison.difference


def test_more_contestants_widen_intervals_and_equal_spreads_correlate_by_half():
    theirs = resampled("untouched", seeds=40)
    sides = [resampled(name, seeds=40) for name in "ABCDE"]
    widths = []
    for number in (1, 2, 5):
        gain = gains_of(sides[:number], theirs)[0]
        widths.append(gain.interval[1] - gain.interval[0])
        assert gain.interval[0] <= gain.single[0] < gain.single[1] <= gain.interval[1]
        assert gain.p >= gain.single_p
    assert widths == sorted(widths)
    correlations, level = np.arange(0, 1, 0.05), gains_of(sides, theirs)[0].single_level
    assert 0.3 <= min(correlations, key=lambda r: abs(level_alone(5, float(r)) - level)) <= 0.65
    # contestants that were eliminated count
    alone, counted = gains_of(sides[:1], theirs)[0], gains_of(sides[:1], theirs, comparisons=5)[0]
    assert counted.single_level < alone.single_level == 0.05
    assert gains_of(sides, theirs, level=0.01)[0].single_level < gains_of(sides, theirs)[0].single_level


def test_runs_that_are_not_in_common_leave_their_correlation_out():
    points_mN = np.array([[0.0, 2.0, 4.0], [0.0, 2.0, 4.1]])
    mean_mn, shares_mNn = np.zeros((2, 10)), np.zeros((2, 3, 10))
    variance_m = points_mN.var(axis=-1, ddof=1) / 3
    assert mean_correlation(variance_m, mean_mn) == 0
    assert mean_correlation(variance_m, mean_mn, points_mN, shares_mNn) == pytest.approx(0.95)
    assert mean_correlation(variance_m[:1], mean_mn[:1]) == 0


def test_models_that_agree_on_every_row_are_not_known_to_be_equal():
    """Three rows in 50 can differ although none of these 50 does: one in twenty such test sets shows no difference."""
    right_Sn = np.ones((3, 50))
    right_Sn[:, :6] = 0
    ours = Resampled("A", (0, 1, 2), right_Sn.mean(axis=1), right_Sn - 0.88, 0.0)
    [gain] = gains_of([ours], replace(ours, contestant="untouched"))
    assert gain.difference == 0
    assert gain.interval[1] == -gain.interval[0] > 3 / 50
    # perfect ones have no influential row: a row counts as the range of the metric
    perfect = replace(ours, points_S=np.ones(3), shares_Sn=np.zeros((3, 50)))
    [gain] = gains_of([perfect], replace(perfect, contestant="untouched"))
    assert gain.interval[1] > 3 / 50


def test_enough_items_are_left_as_they_are():
    generator = np.random.default_rng(0)
    ours_n, theirs_n = generator.standard_normal((2, 400))
    components = Components(np.float64(1e-4), np.float64(1e-4), np.float64(4.0), 400, np.float64(0.0))
    assert correct_few_items(components, ours_n, theirs_n, most=1.0).items == 1e-4


@pytest.mark.parametrize(
    ("adaptations", "share"),
    [((), (0, 0)), ((7,) * 6, (0, 0)), ((0, 1, 2, 3, 4, 5), (1, 1)), ((0, 1, 2, 0, 1, 2), (0.5, 1))],
)
def test_the_share_of_adaptations_by_design(adaptations, share):
    """Adaptations that share seeds have a spread of their own here, and each has two runs."""
    extra = 0.1 * np.array([0, 1, 3, 0, 1, 3]) if len(set(adaptations)) == 3 else np.zeros(6)
    ours = resampled("A", seeds=6)
    ours = replace(ours, points_S=ours.points_S + extra, adaptations=adaptations)
    [gain] = gains_of([ours], resampled("untouched", seeds=6))
    assert share[0] <= gain.adaptation_share <= share[1]
    assert gain.adaptations == len(set(adaptations))


def test_folds_and_runs_that_no_seed_changes_count_and_two_seeds_or_a_level_above_5_percent_do_not():
    theirs = resampled("untouched", seeds=1)
    sides = [resampled(name, seeds=1) for name in "AB"]
    for gain in gains_of(sides, theirs, folds=5):
        assert gain.interval[0] < gain.single[0] < gain.difference < gain.single[1] < gain.interval[1]
        assert gain.components.seeds == 0
    same = [replace(side, seeds=(0, 1, 2), points_S=side.points_S.repeat(3), shares_Sn=side.shares_Sn.repeat(3, axis=0))
            for side in (*sides, theirs)]  # fmt: skip
    for gain in gains_of(same[:2], same[2]):
        assert gain.components.seeds == 0
        assert gain.interval[0] < gain.interval[1]
    with pytest.raises(ValueError, match=r"'A' against 'untouched': 2 seeds\. An answer needs at least 3"):
        gains_of([resampled("A", seeds=2)], resampled("untouched", seeds=2))
    with pytest.raises(ValueError, match=r"level=0\.1: pass a level above 0"):
        gains_of([resampled("A")], resampled("untouched"), level=0.1)


@pytest.mark.parametrize(("number", "seeds", "items"), [(3, 3, 0.2), (5, 3, 0.0), (5, 5, 0.2)])
def test_all_intervals_cover_together(number, seeds, items):
    """benchmarks/answers.py at large. The untouched model varies least, the worst case; 4,000 races: a point."""
    generator = np.random.default_rng([number, seeds])
    deviation = np.ones((number + 1, 1))
    deviation[0] = 0.2
    runs = deviation * generator.standard_normal((4_000, number + 1, seeds))
    hard = np.sqrt(items / seeds) * generator.standard_normal((4_000, number + 1))
    differences = runs[:, 1:] - runs[:, :1]
    error = differences.mean(axis=-1) + hard[:, 1:] - hard[:, :1]
    parts = components_of(differences, np.zeros((4_000, number, seeds, 2)))
    parts = replace(parts, items=np.full_like(parts.seeds, 2 * items / seeds), count=5_000)
    single_level = level_alone(number, 0.0)
    half = simultaneous_half_width(parts, single_level)
    assert 0.94 <= np.mean((np.abs(error) <= half).all(axis=-1)) <= 0.98
    assert (half_width(parts, level=single_level) <= half + 1e-12).all()
    single = half_width(parts)
    kind, _ = answer_kind(error, Ends(error - half, error + half), Ends(error - single, error + single), margin=0.0)
    assert np.isin(kind, ["helped", "harmful"]).mean() <= 0.05
