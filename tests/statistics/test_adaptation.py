"""Shape suffixes: N runs, n test items, B studies."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.core.types import Score
from acclimate.statistics.adaptation import RunLayout, components_of_difference, components_of_runs, layout
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.significance import ONE_ADAPTATION, compare, compare_of, interval_of
from acclimate.statistics.variance import Resampled, components_of, half_width, p_value, resample
from acclimate.tasks.metrics import METRICS
from made_up_races import score_of

ROUND_ROBIN = layout([0, 1, 2, 0, 1], range(5))  # three adaptations for five seeds
CROSSED = layout([0, 1, 2] * 4, [seed for seed in range(4) for _ in range(3)])


def drawn(
    generator: np.random.Generator, runs: RunLayout, studies: int, items: int, **deviations: float
) -> tuple[np.ndarray, np.ndarray]:
    """Points (B, N) and shares (B, N, n) of the model at the top of adaptation.py; deviations by name of the effect."""
    of_adaptation, of_seed = list(runs.adaptation_N), list(runs.seed_N)
    number, seeds = len(of_seed), max(of_seed) + 1
    effects = {
        "adaptation": (runs.adaptations, 1, of_adaptation),
        "seed": (seeds, 1, of_seed),
        "both": (number, 1, slice(None)),
        "item": (1, items, slice(None)),
        "adaptation_item": (runs.adaptations, items, of_adaptation),
        "seed_item": (seeds, items, of_seed),
        "rest": (number, items, slice(None)),
    }
    scores_Nn = np.zeros((studies, number, items))
    for name, deviation in deviations.items():
        rows, columns, places = effects[name]
        scores_Nn += deviation * generator.standard_normal((studies, rows, columns))[:, places]
    points_N = scores_Nn.mean(axis=-1)
    return points_N, scores_Nn - points_N[..., None]


def contestant(name: str, points_N: np.ndarray, shares_Nn: np.ndarray, runs: RunLayout | None = None) -> Resampled:
    seeds = runs.seed_N if runs else tuple(range(len(points_N)))
    return Resampled(name, seeds, points_N, shares_Nn, 0.0, runs.adaptation_N if runs else ())


def test_a_run_for_each_adaptation_gives_the_figures_without_adaptations():
    points_N, shares_Nn = drawn(
        np.random.default_rng(0), layout(range(4), range(4)), 50, 60, seed=0.1, item=0.5, rest=0.5
    )
    apart, plain = (
        components_of_runs(points_N, shares_Nn, layout(range(4), range(4))),
        components_of(points_N, shares_Nn),
    )
    for name in ("variance", "freedom", "items"):
        assert getattr(apart, name) == pytest.approx(getattr(plain, name), rel=1e-9)


def test_adaptations_seeds_or_items_alone_give_the_t_test_of_scipy_over_their_means():
    generator = np.random.default_rng(1)
    runs = layout([0, 1, 2, 3] * 3, range(12))
    points_N, shares_Nn = generator.normal(size=12), np.zeros((12, 30))
    found = components_of_runs(points_N, shares_Nn, runs)
    means = [points_N[at::4].mean() for at in range(4)]
    assert p_value(points_N.mean(), found) == pytest.approx(stats.ttest_1samp(means, 0).pvalue, abs=1e-9)
    seed_F = np.random.default_rng(2).normal(size=4)
    found = components_of_runs(seed_F[list(CROSSED.seed_N)], np.zeros((12, 30)), CROSSED)
    assert p_value(seed_F.mean(), found) == pytest.approx(stats.ttest_1samp(seed_F, 0).pvalue, abs=1e-9)
    item_n = np.random.default_rng(3).normal(0.3, 1, size=30)
    for runs in (ROUND_ROBIN, CROSSED):
        number = len(runs.seed_N)
        found = components_of_runs(np.full(number, item_n.mean()), np.tile(item_n - item_n.mean(), (number, 1)), runs)
        assert p_value(item_n.mean(), found) == pytest.approx(stats.ttest_1samp(item_n, 0).pvalue, abs=1e-9)


@pytest.mark.parametrize("runs", [ROUND_ROBIN, CROSSED, layout([0, 0, 0, 1], range(4))])
def test_the_variance_is_that_of_the_mean(runs):
    """Over 3,000 studies; the two that are cut off at 0 make it a little too large, and never too small."""
    points_N, shares_Nn = drawn(
        np.random.default_rng(4), runs, 3_000, 30, adaptation=0.3, seed=0.15, both=0.1 * runs.crossed,
        item=0.8, adaptation_item=0.4, seed_item=0.3, rest=0.5,
    )  # fmt: skip
    found = components_of_runs(points_N, shares_Nn, runs)
    assert found.variance.mean() == pytest.approx(points_N.mean(axis=-1).var(), rel=0.1)
    alone = 0.3**2 + 0.15**2 + 0.1**2 * runs.crossed + (0.4**2 + 0.3**2 + 0.5**2) / 30
    assert found.one_run.mean() == pytest.approx(alone, rel=0.1)


@pytest.mark.parametrize(
    ("runs", "adaptation", "seed", "least", "most"),
    [
        (layout([0, 1, 0, 1, 0], range(5)), 0.03, 0.01, 0.02, 0.075),
        (ROUND_ROBIN, 0.03, 0.01, 0.03, 0.07),
        (ROUND_ROBIN, 0.01, 0.03, 0.03, 0.07),
        (layout([*range(5)] * 2, range(10)), 0.03, 0.02, 0.03, 0.07),
        (CROSSED, 0.03, 0.01, 0.03, 0.07),
        (CROSSED, 0.02, 0.02, 0.01, 0.065),
    ],
)
def test_equal_contestants_are_seldom_told_apart(runs, adaptation, seed, least, most):
    """benchmarks/adaptation.py at large. 2,000 studies: three standard errors are 1.5 points."""
    points_N, shares_Nn = drawn(np.random.default_rng(5), runs, 2_000, 100, adaptation=adaptation, seed=seed, item=0.2)
    found = components_of_runs(points_N, shares_Nn, runs)
    assert least <= np.mean(p_value(points_N.mean(axis=-1), found) < 0.05) <= most
    inside = np.abs(points_N.mean(axis=-1)) <= half_width(found)
    assert 1 - most <= inside.mean() <= 1 - least


def test_a_difference_is_paired_by_seed_and_unpaired_without_common_seeds():
    generator = np.random.default_rng(7)
    points_N, shares_Nn = drawn(generator, ROUND_ROBIN, 1, 50, adaptation=0.1, seed=0.1, item=0.5, rest=0.2)
    plain_S, plain_Sn = drawn(generator, layout(range(5), range(5)), 1, 50, seed=0.1, item=0.5, rest=0.2)
    adapted, untouched = (
        contestant("TAPT", points_N[0], shares_Nn[0], ROUND_ROBIN),
        contestant("untouched", plain_S[0], plain_Sn[0]),
    )
    together = components_of_difference(adapted, untouched)
    expected = components_of_runs(points_N - plain_S, shares_Nn - plain_Sn, ROUND_ROBIN)
    assert together.variance == pytest.approx(float(expected.variance[0]))
    apart = components_of_difference(adapted, replace(untouched, seeds=(5, 6, 7, 8, 9)))
    adapted_alone = components_of_runs(points_N, shares_Nn, ROUND_ROBIN)
    plain_alone = components_of(plain_S, plain_Sn)
    assert apart.seeds == pytest.approx(
        float(adapted_alone.seeds[0] + np.maximum(plain_alone.seeds, plain_alone.residual)[0])
    )
    found = compare_of(adapted, untouched)
    assert "paired seeds of several adaptations" in found.test
    assert found.p == pytest.approx(float(p_value(found.difference, together)))
    back = compare_of(untouched, adapted)
    assert (back.p, back.low, back.high) == pytest.approx((found.p, -found.high, -found.low))
    assert found.difference == pytest.approx(found.mean - found.reference_mean)
    assert found.caution == ""
    twice = contestant("TAPT", points_N[0], shares_Nn[0], layout([0, 1, 0, 1, 0], range(5)))
    assert "2 adaptations of a contestant are too few" in compare_of(twice, untouched).caution


def test_two_adapted_contestants_are_paired_by_adaptation_too():
    generator = np.random.default_rng(8)
    sides = [drawn(generator, CROSSED, 1, 50, adaptation=0.1, seed=0.1, item=0.5) for _ in range(2)]
    ours, theirs = (
        contestant(name, points[0], shares[0], CROSSED) for name, (points, shares) in zip("ab", sides, strict=True)
    )
    expected = components_of_runs(sides[0][0] - sides[1][0], sides[0][1] - sides[1][1], CROSSED)
    assert components_of_difference(ours, theirs).variance == pytest.approx(float(expected.variance[0]))


def test_one_adaptation_changes_no_number_and_says_that_it_is_one():
    generator = np.random.default_rng(9)
    (points_S, shares_Sn), (plain_S, plain_Sn) = (
        drawn(generator, layout(range(3), range(3)), 1, 80, seed=0.02, item=0.5, rest=0.2) for _ in range(2)
    )
    silent, untouched = (
        contestant("TAPT", 0.5 + points_S[0], shares_Sn[0]),
        contestant("untouched", 0.5 + plain_S[0], plain_Sn[0]),
    )
    stated = replace(silent, adaptations=(4, 4, 4))
    assert replace(compare_of(stated, untouched), adaptations=0) == compare_of(silent, untouched)
    assert compare_of(stated, untouched).one_adaptation == ONE_ADAPTATION
    assert compare_of(silent, untouched).one_adaptation == ""
    assert replace(interval_of(stated), adaptations=0) == interval_of(silent)
    assert interval_of(stated).adaptations == 1
    several = replace(silent, adaptations=(4, 5, 6))
    assert replace(compare_of(several, untouched), adaptations=0) == compare_of(silent, untouched)
    assert compare_of(several, untouched).one_adaptation == ""
    assert compare_of(several, stated).one_adaptation == ONE_ADAPTATION
    assert compare_of(several, untouched).p == pytest.approx(compare_of(silent, untouched).p)
    both = mean_difference([stated, several], [untouched, untouched], [0.5, 0.5])
    assert both.adaptations == 1
    assert mean_interval([several, several], [0.5, 0.5]).adaptations == 3


def test_scores_carry_their_adaptation():
    generator = np.random.default_rng(10)
    accuracy = METRICS["accuracy"]

    def score(name: str, seed: int, adaptation: int | None) -> Score:
        predicted = np.where(generator.random(60) < 0.8, "yes", "no").tolist()
        return score_of(name, "accuracy", seed, gold=["yes"] * 60, predicted=predicted, adaptation=adaptation)

    untouched = [score("untouched", seed, None) for seed in range(2)]
    adapted = [score("TAPT", seed, adaptation) for seed in range(2) for adaptation in (7, 8, 9)]
    drawn_scores = resample(adapted[::-1], accuracy)["TAPT"]
    assert drawn_scores.seeds == (0, 0, 0, 1, 1, 1)
    assert drawn_scores.adaptations == (7, 8, 9, 7, 8, 9)
    found = compare(adapted, untouched, accuracy)
    assert (found.adaptations, found.seeds) == (3, 2)
    assert found.p == compare(adapted[::-1], untouched[::-1], accuracy).p
    with pytest.raises(ValueError, match="'TAPT': 5 of its 6 runs name an adaptation"):
        compare([*adapted[:5], score("TAPT", 1, None)], untouched, accuracy)
    with pytest.raises(ValueError, match="has the seeds"):
        compare([*adapted, adapted[0]], untouched, accuracy)


def test_designs_that_share_some_seeds_are_refused():
    with pytest.raises(ValueError, match="runs with adaptation/seed 0/0, 1/0, 2/1: fine-tune every adaptation with"):
        layout([0, 1, 2], [0, 0, 1])
    with pytest.raises(ValueError, match=r"3 adaptations have only the seed 5\. Fine"):
        layout([0, 1, 2], [5, 5, 5])
