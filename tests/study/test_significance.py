"""Shape suffixes: S seeds, n test items."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.core.types import Cost, Score
from acclimate.study import significance
from acclimate.study.significance import compare, half_width, holm, interval, resample, two_sided
from acclimate.tasks.metrics import METRICS

ACCURACY = METRICS["accuracy"]


def scores_of(contestant: str, right_Sn: np.ndarray) -> list[Score]:
    """Scores with these right and wrong answers."""
    ids = tuple(map(str, range(right_Sn.shape[1])))
    gold = ("yes",) * len(ids)
    return [
        Score(
            contestant, "task", "accuracy", seed, 0.5, float(right_n.mean()), ids, gold,
            tuple(np.where(right_n, "yes", "no").tolist()), Cost(), Cost(),
        )
        for seed, right_n in enumerate(right_Sn)
    ]  # fmt: skip


def draw(
    generator: np.random.Generator, expected: float, *, seeds: int, hard_n: np.ndarray, luck: float, noise: float = 1.0
) -> np.ndarray:
    """(S, n) right or not: probit of seed, item and rest, each normal, so that the expectation is exact."""
    items_variance = 1.0
    total = np.sqrt(luck**2 + items_variance + noise**2)
    ease = stats.norm.ppf(expected) * total + generator.normal(0, luck, (seeds, 1)) - hard_n
    return ease + generator.normal(0, noise, (seeds, len(hard_n))) > 0


@pytest.mark.parametrize(("seeds", "items", "luck"), [(3, 200, 0.1), (3, 500, 0.3), (5, 300, 0.05), (5, 200, 0.3)])
def test_intervals_cover_the_expected_score_of_a_known_world(seeds: int, items: int, luck: float) -> None:
    generator = np.random.default_rng(seeds * items)
    covered = 0
    for _ in range(300):
        right_Sn = draw(generator, 0.8, seeds=seeds, hard_n=generator.normal(size=items), luck=luck)
        found = interval(scores_of("DAPT", right_Sn), ACCURACY, resamples=300)
        covered += found.low <= 0.8 <= found.high
    assert 0.92 <= covered / 300 <= 0.985


@pytest.mark.parametrize(("seeds", "items", "luck"), [(3, 200, 0.1), (3, 400, 0.3), (5, 300, 0.0), (5, 300, 0.15)])
def test_equal_contestants_are_seldom_told_apart(seeds: int, items: int, luck: float) -> None:
    generator = np.random.default_rng(seeds + items)
    rejected = 0
    for _ in range(400):
        hard_n = generator.normal(size=items)
        ours, theirs = (draw(generator, 0.8, seeds=seeds, hard_n=hard_n, luck=luck) for _ in range(2))
        rejected += compare(scores_of("DAPT", ours), scores_of("untouched", theirs), ACCURACY, resamples=300).p < 0.05
    assert rejected / 400 <= 0.065


def test_a_gain_of_five_points_is_found() -> None:
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        hard_n = generator.normal(size=800)
        ours, theirs = (draw(generator, level, seeds=5, hard_n=hard_n, luck=0.05) for level in (0.85, 0.80))
        found += compare(scores_of("DAPT", ours), scores_of("untouched", theirs), ACCURACY, resamples=300).p < 0.05
    assert found >= 90


def test_seeds_alone_or_items_alone_would_be_too_sure() -> None:
    generator = np.random.default_rng(3)
    right_Sn = draw(generator, 0.8, seeds=3, hard_n=generator.normal(size=300), luck=0.3)
    found = interval(scores_of("DAPT", right_Sn), ACCURACY)
    points_S, item_n = right_Sn.mean(axis=1), right_Sn.mean(axis=0)
    seeds_only = stats.t.isf(0.025, 2) * points_S.std(ddof=1) / np.sqrt(3)
    items_only = 1.96 * item_n.std(ddof=1) / np.sqrt(300)
    assert found.high - found.mean > max(seeds_only, items_only)


def test_the_error_is_a_normal_plus_a_student_variable() -> None:
    assert two_sided(2.5, 0.0, 1.0, 2) == pytest.approx(2 * stats.t.sf(2.5, 2), rel=1e-9)
    assert two_sided(2.5, 1.0, 0.0, 2) == pytest.approx(2 * stats.norm.sf(2.5), rel=1e-9)
    assert two_sided(30.0, 0.0, 1.0, 1) == pytest.approx(2 * stats.t.sf(30.0, 1), rel=1e-9)
    assert half_width(0.0, 4.0, 4) == pytest.approx(2 * stats.t.isf(0.025, 4), rel=1e-9)
    assert half_width(4.0, 0.0, 4) == pytest.approx(2 * stats.norm.isf(0.025), rel=1e-9)
    generator = np.random.default_rng(0)
    drawn = 0.7 * generator.normal(size=1_000_000) + 0.5 * generator.standard_t(2, size=1_000_000)
    assert two_sided(2.0, 0.49, 0.25, 2) == pytest.approx(np.mean(np.abs(drawn) > 2.0), abs=0.001)


def test_p_seeds_is_the_paired_t_test_of_scipy() -> None:
    generator = np.random.default_rng(1)
    hard_n = generator.normal(size=200)
    ours, theirs = (draw(generator, level, seeds=4, hard_n=hard_n, luck=0.1) for level in (0.8, 0.7))
    paired = compare(scores_of("DAPT", ours), scores_of("untouched", theirs), ACCURACY, resamples=100)
    assert paired.p_seeds == pytest.approx(stats.ttest_rel(ours.mean(axis=1), theirs.mean(axis=1)).pvalue)
    assert "paired seeds" in paired.test
    fewer = compare(scores_of("DAPT", ours), scores_of("untouched", theirs[:3]), ACCURACY, resamples=100)
    welch = stats.ttest_ind(ours.mean(axis=1), theirs[:3].mean(axis=1), equal_var=False)
    assert fewer.p_seeds == pytest.approx(welch.pvalue)
    assert "unpaired seeds" in fewer.test


def test_contestants_without_luck_are_judged_by_the_items_alone() -> None:
    generator = np.random.default_rng(2)
    right_n, other_n = generator.random((2, 400)) < 0.8
    fixed, other = (scores_of(name, np.tile(row, (3, 1))) for name, row in (("TF-IDF", right_n), ("rules", other_n)))
    found = interval(fixed, ACCURACY)
    expected = 1.96 * np.sqrt(right_n.mean() * (1 - right_n.mean()) / 400)
    assert found.high - found.mean == pytest.approx(expected, rel=0.06)
    comparison = compare(fixed, other, ACCURACY)
    assert comparison.p_seeds is None
    difference_n = right_n.astype(float) - other_n
    z = difference_n.mean() / (difference_n.std() / 20)
    assert comparison.p == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.03)


def test_equal_predictions_give_no_difference_and_p_of_one() -> None:
    right_Sn = np.random.default_rng(0).random((3, 100)) < 0.7
    comparison = compare(scores_of("twin", right_Sn), scores_of("untouched", right_Sn), ACCURACY, resamples=50)
    assert (comparison.difference, comparison.low, comparison.high, comparison.p) == (0.0, 0.0, 0.0, 1.0)


def test_comparing_the_other_way_round_changes_only_the_sign() -> None:
    generator = np.random.default_rng(5)
    ours, theirs = scores_of("a", generator.random((3, 90)) < 0.8), scores_of("b", generator.random((3, 90)) < 0.7)
    there, back = compare(ours, theirs, ACCURACY), compare(theirs, ours, ACCURACY)
    assert there.p == pytest.approx(back.p)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_the_same_seed_gives_the_same_figures_and_another_nearly() -> None:
    generator = np.random.default_rng(0)
    scores = scores_of("DAPT", draw(generator, 0.8, seeds=3, hard_n=generator.normal(size=150), luck=0.1))
    assert interval(scores, ACCURACY) == interval(scores, ACCURACY)
    assert interval(scores, ACCURACY, seed=1) != interval(scores, ACCURACY)
    assert interval(scores, ACCURACY, seed=1).low == pytest.approx(interval(scores, ACCURACY).low, abs=0.01)


def test_the_order_of_seeds_does_not_matter() -> None:
    generator = np.random.default_rng(7)
    ours, theirs = scores_of("a", generator.random((4, 80)) < 0.8), scores_of("b", generator.random((4, 80)) < 0.7)
    assert compare(ours[::-1], theirs, ACCURACY) == compare(ours, theirs, ACCURACY)


@pytest.mark.parametrize("chunk", [1, 1_000, 4_000_000])
def test_resamples_come_in_blocks_and_all_of_them(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    scores = scores_of("DAPT", np.random.default_rng(0).random((2, 60)) < 0.7)
    monkeypatch.setattr(significance, "CHUNK", chunk)
    drawn = resample(scores, ACCURACY, resamples=101)["DAPT"].draws_SR
    assert drawn.shape == (2, 101)
    assert drawn.std(axis=1) == pytest.approx(np.sqrt(0.7 * 0.3 / 60), rel=0.25)


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_refusals_name_the_value_and_the_way_out() -> None:
    scores = scores_of("DAPT", np.random.default_rng(0).random((3, 40)) < 0.7)
    other = scores_of("untouched", np.random.default_rng(1).random((3, 40)) < 0.7)
    with pytest.raises(ValueError, match=r"'DAPT' has the seeds \[0\]; give it two or more"):
        interval(scores[:1], ACCURACY)
    with pytest.raises(ValueError, match=r"has the seeds \[0, 0\]"):
        interval([scores[0], scores[0]], ACCURACY)
    with pytest.raises(
        ValueError, match=r"expected the scores of one contestant, got those of \['DAPT', 'untouched'\]"
    ):
        interval([*scores, *other], ACCURACY)
    with pytest.raises(ValueError, match="compared with itself"):
        compare(scores, scores, ACCURACY)
    with pytest.raises(ValueError, match="were not tested alike"):
        compare(scores, [replace(score, ids=score.ids[::-1]) for score in other], ACCURACY)
    with pytest.raises(ValueError, match="Pass the metric that the task was scored with"):
        interval(scores, METRICS["macro_f1"])
