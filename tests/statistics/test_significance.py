"""Shape suffixes: S seeds, n test items."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.core.types import Score
from acclimate.statistics import variance
from acclimate.statistics.significance import compare, compare_of, holm, improvement, interval, permutation, possible
from acclimate.statistics.variance import (
    Components,
    Resampled,
    bounds,
    components_of,
    half_width,
    jackknife,
    p_value,
    resample,
)
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Metric, Values
from made_up_races import score_of

ACCURACY = METRICS["accuracy"]


def scores_of(contestant: str, right_Sn: np.ndarray) -> list[Score]:
    """Scores with these right and wrong answers."""
    gold, sides = ["yes"] * right_Sn.shape[1], np.where(right_Sn, "yes", "no").tolist()
    return [score_of(contestant, "accuracy", seed, gold=gold, predicted=each) for seed, each in enumerate(sides)]


def draw(
    generator: np.random.Generator, expected: float, *, seeds: int, hard_n: np.ndarray, luck: float, noise: float = 1.0
) -> np.ndarray:
    """(S, n) right or not: probit of seed, item and rest, each normal, so that the expectation is exact."""
    items_variance = 1.0
    total = np.sqrt(luck**2 + items_variance + noise**2)
    ease = stats.norm.ppf(expected) * total + generator.normal(0, luck, (seeds, 1)) - hard_n
    return ease + generator.normal(0, noise, (seeds, len(hard_n))) > 0


def studies_of(metric: Metric, seeds: int, items: int, luck: float, *, studies: int = 400) -> tuple[Values, Values]:
    """Scores (B, 2, S) and shares (B, 2, S, n) of equal contestants; the item says what it is mistaken for."""
    generator = np.random.default_rng([seeds, items])
    points, shares = [], []
    for _ in range(studies):
        hard_n = generator.normal(size=items)
        right = np.array([draw(generator, 0.8, seeds=seeds, hard_n=hard_n, luck=luck) for _ in range(2)])
        gold_n, other_n = generator.choice(3, p=[0.5, 0.3, 0.2], size=items), generator.integers(1, 3, size=items)
        predicted = np.where(right, gold_n, (gold_n + other_n) % 3)[..., None] == np.arange(3)
        gold = np.broadcast_to(gold_n[:, None] == np.arange(3), predicted.shape)
        counts = np.concatenate([gold & predicted, gold, predicted], axis=-1).astype(float)
        if metric is ACCURACY:
            counts = np.stack([right, np.ones_like(right)], axis=-1).astype(float)
        both = jackknife(counts, metric.value)
        points.append(both[0])
        shares.append(both[1])
    return np.array(points), np.array(shares)


@pytest.mark.parametrize(
    ("name", "seeds", "items", "luck"),
    [("accuracy", 3, 100, 0.1), ("accuracy", 3, 400, 0.4), ("accuracy", 5, 50, 0.0), ("macro_f1", 5, 200, 0.1)],
)
def test_intervals_cover_the_truth_and_equal_contestants_are_seldom_told_apart(name, seeds, items, luck):
    """benchmarks/significance.py at large. 400 studies: three standard errors are 3.3 points.

    All that is not luck of seeds is rest here, where equal contestants are told apart more seldom than in 5%.
    """
    metric = METRICS[name]
    points, shares = studies_of(metric, seeds, items, luck)
    # the expected macro-F1 on 200 items: the mean over all these studies, whose error is a twentieth of an interval's
    truth = 0.8 if metric is ACCURACY else points.mean()
    low, high = bounds(points[:, 0].mean(axis=-1), components_of(points[:, 0], shares[:, 0]), least=0.0)
    assert 0.92 <= np.mean((low <= truth) & (truth <= high)) <= 0.985
    differences = points[:, 0] - points[:, 1]
    spread = components_of(differences, shares[:, 0] - shares[:, 1])
    assert 0.005 <= np.mean(p_value(differences.mean(axis=-1), spread) < 0.05) <= 0.083
    if luck > 0.3:  # items alone, as most papers test, and as no seeds' luck could be seen: wrong where there is much
        items_only = np.sqrt((shares[:, 0] - shares[:, 1]).mean(axis=1).var(axis=-1, ddof=1) / items)
        assert np.mean(np.abs(differences.mean(axis=-1)) > 1.96 * items_only) > 0.3


def test_interval_and_compare_are_made_of_the_functions_that_are_simulated():
    generator = np.random.default_rng(11)
    hard_n = generator.normal(size=120)
    ours, theirs = (draw(generator, level, seeds=3, hard_n=hard_n, luck=0.1) for level in (0.85, 0.75))
    found, alone = (
        compare(scores_of("a", ours), scores_of("b", theirs), ACCURACY),
        interval(scores_of("a", ours), ACCURACY),
    )
    gains_Sn = ours.astype(float) - theirs
    points_S = gains_Sn.mean(axis=1)
    spread = components_of(points_S, gains_Sn - points_S[:, None])
    half = half_width(spread)
    expected = points_S.mean() - half, points_S.mean() + half, float(p_value(points_S.mean(), spread))
    assert (found.low, found.high, found.p) == pytest.approx(expected, abs=1e-12)
    assert (found.variance_seeds, found.variance_items) == pytest.approx((spread.seeds, spread.items), abs=1e-12)
    own_S = ours.mean(axis=1)
    ends = bounds(own_S.mean(), components_of(own_S, ours - own_S[:, None]), least=0.0)
    assert (alone.low, alone.high) == pytest.approx(ends, abs=1e-12)


@pytest.mark.parametrize("chunk", [1, 40, 4_000_000])
def test_the_jackknife_of_a_mean_is_the_items_and_of_others_what_leaving_out_changes(monkeypatch, chunk):
    monkeypatch.setattr(variance, "CHUNK", chunk)
    generator = np.random.default_rng(6)
    labels = generator.integers(0, 3, size=(2, 25)).astype(str).tolist()
    point, shares_n = jackknife(ACCURACY.statistics(*labels), ACCURACY.value)
    right_n = np.array(labels[0]) == np.array(labels[1])
    assert shares_n == pytest.approx(right_n - right_n.mean())
    macro = METRICS["macro_f1"]
    point, shares_n = jackknife(macro.statistics(*labels), macro.value)
    assert point == pytest.approx(macro.compute(*labels))
    left = [macro.compute(*(side[:i] + side[i + 1 :] for side in labels)) for i in range(25)]
    assert shares_n == pytest.approx(24 * (np.mean(left) - np.array(left)))
    assert shares_n.sum() == pytest.approx(0, abs=1e-9)


def test_p_permutation_is_that_of_scipy():
    generator = np.random.default_rng(8)
    for seeds in (2, 3, 5, 8):
        ours, theirs = generator.integers(0, 9, size=(2, seeds)) / 9.0
        expected = stats.permutation_test(
            (ours, theirs), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True
        )
        assert permutation(ours - theirs) == pytest.approx(expected.pvalue, abs=1e-12)
    assert permutation(np.ones(3)) == 0.25
    assert permutation(np.zeros(4)) == 1.0
    assert permutation(np.ones(17)) is None


def test_the_probability_of_improvement_is_that_of_a_new_seed_on_a_new_test_set():
    generator = np.random.default_rng(9)
    seeds, items, gain = 4, 60, 0.3
    luck, persistent, passing = 0.2, 1.0, 1.5
    truth = stats.norm.cdf(gain / np.sqrt(luck**2 + (persistent**2 + passing**2) / items))
    covered, likely = 0, []
    for _ in range(400):
        scores_Sn = gain + luck * generator.normal(size=(seeds, 1)) + persistent * generator.normal(size=items)
        scores_Sn = scores_Sn + passing * generator.normal(size=(seeds, items))
        points_S = scores_Sn.mean(axis=1)
        probability, low, high = improvement(
            points_S.mean(), components_of(points_S, scores_Sn - points_S[:, None]), seeds
        )
        assert low <= probability <= high
        likely.append(probability)
        covered += low <= truth <= high
    assert np.median(likely) == pytest.approx(truth, abs=0.03)
    assert 0.92 <= covered / 400 <= 0.985
    assert improvement(0.0, components_of(np.zeros(3), np.zeros((3, 5))), 3) == (None, 0.0, 1.0)
    assert improvement(0.5, Components(*(np.array(x) for x in (1e-30, 0.0, 2.0)), 9, np.array(0.0)), 3)[0] == 1.0


def test_cautions_say_where_the_figures_do_not_hold():
    generator = np.random.default_rng(10)
    right_Sn = draw(generator, 0.8, seeds=3, hard_n=generator.normal(size=300), luck=0.1)
    other_Sn = draw(generator, 0.8, seeds=3, hard_n=generator.normal(size=300), luck=0.1)
    ours, theirs = scores_of("DAPT", right_Sn), scores_of("untouched", other_Sn)
    assert interval(ours, ACCURACY).caution == compare(ours, theirs, ACCURACY).caution == ""
    assert "2 seeds are too few for reliable p values" in interval(ours[:2], ACCURACY).caution
    nearly = np.ones((3, 300), dtype=bool)
    nearly[:, :2] = False
    assert "Fewer than 10 of the 300 test items" in interval(scores_of("DAPT", nearly), ACCURACY).caution
    perfect = interval(scores_of("DAPT", np.ones((3, 40), dtype=bool)), ACCURACY)
    assert (perfect.mean, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(1 / (1 + 2.0227**2 / 40), abs=1e-4)  # nothing varied: Wilson's, of 40 items
    assert "Fewer than 10 of the 40 test items" in perfect.caution


@pytest.mark.parametrize(("spread", "said"), [(0.02, False), (0.06, True)])
def test_a_correlation_that_varies_much_over_seeds_has_a_caution(spread, said):
    shares_Sn = np.random.default_rng(1).normal(size=(3, 50))
    wild = Resampled("TAPT", (0, 1, 2), 0.8 + spread * np.array([-1.0, 0.0, 1.0]), shares_Sn, least=-1.0)
    calm = Resampled("untouched", (0, 1, 2), np.full(3, 0.8), 2 * shares_Sn, least=-1.0)
    for sides in ((wild, calm), (calm, wild)):
        assert ("standard deviation of 6 points over seeds" in compare_of(*sides).caution) is said
    bounded = (replace(side, least=0.0) for side in (wild, calm))
    assert "standard deviation" not in compare_of(*bounded).caution


def test_p_seeds_is_the_paired_t_test_of_scipy():
    generator = np.random.default_rng(1)
    hard_n = generator.normal(size=200)
    ours, theirs = (draw(generator, level, seeds=4, hard_n=hard_n, luck=0.1) for level in (0.8, 0.7))
    paired = compare(scores_of("DAPT", ours), scores_of("untouched", theirs), ACCURACY)
    assert paired.p_seeds == pytest.approx(stats.ttest_rel(ours.mean(axis=1), theirs.mean(axis=1)).pvalue)
    assert "paired seeds" in paired.test
    fewer = compare(scores_of("DAPT", ours), scores_of("untouched", theirs[:3]), ACCURACY)
    welch = stats.ttest_ind(ours.mean(axis=1), theirs[:3].mean(axis=1), equal_var=False)
    assert fewer.p_seeds == pytest.approx(welch.pvalue)
    assert "unpaired seeds" in fewer.test


def test_equal_predictions_give_no_difference_and_p_of_one():
    right_Sn = np.random.default_rng(0).random((3, 100)) < 0.7
    comparison = compare(scores_of("twin", right_Sn), scores_of("untouched", right_Sn), ACCURACY)
    assert (comparison.difference, comparison.low, comparison.high, comparison.p) == (0.0, 0.0, 0.0, 1.0)
    assert (comparison.p_permutation, comparison.improvement, comparison.p_seeds) == (1.0, None, None)
    assert "Fewer than 10 of the 100 test items" in comparison.caution


def test_no_interval_of_a_difference_goes_beyond_what_two_scores_can_differ_by():
    right_Sn, wrong_Sn = np.ones((2, 4), bool), np.zeros((2, 4), bool)
    right_Sn[0, :2], wrong_Sn[1, 2:] = False, True
    comparison = compare(scores_of("a", right_Sn), scores_of("b", wrong_Sn), ACCURACY)
    assert comparison.low < comparison.difference < comparison.high == 1.0
    assert possible(0.5, 9.0, least=0.0) == (-1.0, 1.0)
    assert possible(0.5, 9.0, least=-1.0) == (-2.0, 2.0)
    assert possible(0.5, 0.25, least=0.0) == (0.25, 0.75)


def test_comparing_the_other_way_round_changes_only_the_sign():
    generator = np.random.default_rng(5)
    ours, theirs = scores_of("a", generator.random((3, 90)) < 0.8), scores_of("b", generator.random((3, 90)) < 0.7)
    there, back = compare(ours, theirs, ACCURACY), compare(theirs, ours, ACCURACY)
    assert there.p == pytest.approx(back.p)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.improvement == pytest.approx(1 - back.improvement)
    assert there.improvement_low == pytest.approx(1 - back.improvement_high)
    assert there.p_permutation == back.p_permutation


def test_resampling_leaves_out_each_item_of_each_seed_by_rising_seed():
    right_Sn = np.random.default_rng(0).random((3, 60)) < 0.7
    drawn = resample(scores_of("DAPT", right_Sn)[::-1], ACCURACY)["DAPT"]
    assert drawn.seeds == (0, 1, 2)
    assert drawn.points_S == pytest.approx(right_Sn.mean(axis=1))
    assert drawn.shares_Sn == pytest.approx(right_Sn - right_Sn.mean(axis=1, keepdims=True))


def test_holm_steps_down():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_refusals_name_the_value_and_the_way_out():
    scores = scores_of("DAPT", np.random.default_rng(0).random((3, 40)) < 0.7)
    other = scores_of("untouched", np.random.default_rng(1).random((3, 40)) < 0.7)
    with pytest.raises(ValueError, match=r"'DAPT' has the seeds \[0\]\. Give at least two different seeds"):
        interval(scores[:1], ACCURACY)
    with pytest.raises(ValueError, match=r"has the seeds \[0, 0\]"):
        interval([scores[0], scores[0]], ACCURACY)
    with pytest.raises(
        ValueError, match=r"expected the scores of one contestant, but got those of \['DAPT', 'untouched'\]"
    ):
        interval([*scores, *other], ACCURACY)
    with pytest.raises(ValueError, match="compared with itself"):
        compare(scores, scores, ACCURACY)
    with pytest.raises(ValueError, match="have different test sets"):
        compare(scores, [replace(score, ids=score.ids[::-1]) for score in other], ACCURACY)
    with pytest.raises(ValueError, match="1 test item has no variance over items"):
        interval(scores_of("DAPT", np.ones((3, 1), dtype=bool)), ACCURACY)
    unbounded = replace(METRICS["accuracy"], value=lambda sums_K: 4 * METRICS["accuracy"].value(sums_K))
    with pytest.raises(ValueError, match=r"accuracy is [\d.]+, outside its range from 0 to 1\. Set `least`"):
        interval([replace(score, test=4 * score.test) for score in scores], unbounded)
    with pytest.raises(ValueError, match="Pass the metric that the task was scored with"):
        interval(scores, METRICS["macro_f1"])
