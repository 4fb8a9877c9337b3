from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.core.types import Label, Score
from acclimate.statistics.power import (
    PowerDesign,
    add_mistakes,
    guessed,
    measured,
    measured_in_race,
    probed,
    variance_of_one_item,
)
from acclimate.statistics.significance import compare, compare_of
from acclimate.statistics.simultaneous import level_alone, simultaneous_half_width
from acclimate.statistics.variance import Resampled, components_of, half_width, jackknife, p_value, residual_of
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Kind, Metric
from made_up_races import score_of


def simulated(
    scores: Sequence[Score], reference: Sequence[Score], metric: Metric, *, seeds: int, studies: int
) -> float:
    """Return the true difference that is found in nine of ten studies drawn from two systems' predictions.

    A study draws items with replacement. For each of its runs and each item it takes the prediction of a random run of
    those given, the same one for both systems, and no run twice before all were taken. The metric and its jackknife are
    computed anew, and the luck of each run is added. The study finds a difference if its 95% interval leaves out 0.
    Shifted by d, it does so if  difference - (difference of the predictions given) + d > half width,  so the answer is
    a quantile of the half width less that error.
    """
    runs, count = len(scores), len(scores[0].gold)
    if "score" in metric.kinds:  # correlations of ranks, which are ranks among the items of one run
        rows = np.concatenate([metric.statistics(score.gold, score.predicted) for score in (*scores, *reference)])
    else:  # the labels that occur say how many numbers there are
        gold = [label for score in (*scores, *reference) for label in score.gold]
        predicted = [label for score in (*scores, *reference) for label in score.predicted]
        rows = metric.statistics(gold, predicted)
    statistics_2SnK = rows.reshape(2, runs, count, -1)
    points_2S, shares_2Sn = jackknife(statistics_2SnK, metric.value)
    # sample variance less what the residuals over items account for
    gap_S, residual = points_2S[0] - points_2S[1], float(residual_of(shares_2Sn[0] - shares_2Sn[1]))
    luck = float(np.sqrt(max(gap_S.var(ddof=1) - runs * residual, 0.0)))
    generator = np.random.default_rng(0)
    mean_2 = metric.value(statistics_2SnK.sum(axis=(1, 2)))
    needed = []
    for _ in range(studies):
        drawn = generator.integers(count, size=count)
        rounds = np.tile(np.arange(runs)[:, None], (-(-seeds // runs), 1, count))
        run = generator.permuted(rounds, axis=1).reshape(-1, count)[:seeds]
        points_2S, shares_2Sn = jackknife(statistics_2SnK[:, run, drawn], metric.value)
        gap_S = points_2S[0] - points_2S[1] + luck * generator.standard_normal(seeds)
        half = half_width(components_of(gap_S, shares_2Sn[0] - shares_2Sn[1]))
        needed.append(float(half) - (float(gap_S.mean()) - float(mean_2[0] - mean_2[1])))
    return float(np.quantile(needed, 0.9))


def race(generator: np.random.Generator, design: PowerDesign, gain: float, studies: int) -> np.ndarray:
    """(B, S, n) differences with the design's variances."""
    shape = (studies, design.seeds, design.items)
    differences = gain + generator.normal(0, design.residual_variance**0.5, shape)
    differences += generator.normal(0, design.seed_variance**0.5, (studies, design.seeds, 1))
    return differences + generator.normal(0, design.item_variance**0.5, (studies, 1, design.items))


@pytest.mark.parametrize(
    ("items", "seeds", "comparisons", "spread"),
    [(100, 3, 1, 0.01), (300, 5, 3, 0.02), (50, 10, 5, 0.03), (400, 3, 1, 0.0)],
)
def test_the_difference_is_found_as_often_as_promised(items, seeds, comparisons, spread):
    design = guessed(items, seeds, comparisons=comparisons, seed_spread=spread)
    differences = race(np.random.default_rng(items), design, design.detectable(), 1_000)
    points = differences.mean(axis=-1)
    components = components_of(points, differences - points[..., None])
    half = simultaneous_half_width(components, level_alone(comparisons, 0.5))
    assert np.mean(points.mean(axis=-1) > half) == pytest.approx(0.8, abs=0.06)


def test_right_and_wrong_answers_are_found_as_the_guess_says():
    """With a disagreement that the simulated answers have, whatever made them."""
    generator, items, seeds = np.random.default_rng(5), 300, 5
    found = 0
    ease = stats.norm.ppf(0.8)

    def right(gain: float, hard_n: np.ndarray) -> np.ndarray:
        own_n = generator.normal(0, 0.15**0.5, items)
        return ease + gain - hard_n - own_n + generator.normal(0, 0.4**0.5, (seeds, items)) > 0

    big = generator.normal(0, 0.45**0.5, 200_000), generator.normal(0, 0.55**0.5, (2, 200_000))
    one, other = (ease - big[0] - each > 0 for each in big[1])
    disagreement = float(np.mean(one != other))
    steady = 1 - float(np.mean((ease - big[0] - 0.15**0.5 * generator.normal(size=200_000)
        + 0.4**0.5 * generator.normal(size=(2, 200_000)) > 0).std(axis=0) > 0)) / disagreement  # fmt: skip
    difference = guessed(items, seeds, disagreement=disagreement, steady=steady, seed_spread=0.0).detectable()
    gain = stats.norm.ppf(0.8 + difference) - ease
    for _ in range(300):
        hard_n = generator.normal(0, 0.45**0.5, items)
        scores_Sn = right(gain, hard_n).astype(float) - right(0.0, hard_n)
        points_S = scores_Sn.mean(axis=1)
        found += p_value(points_S.mean(), components_of(points_S, scores_Sn - points_S[:, None])) < 0.05
    assert found / 300 == pytest.approx(0.8, abs=0.1)


def test_a_study_that_was_made_gives_the_design_that_it_was_made_with():
    generator = np.random.default_rng(3)
    design = PowerDesign(400, 8, item_variance=0.06, residual_variance=0.12, seed_variance=0.0008, comparisons=2)
    found = []
    for differences_Sn in race(generator, design, 0.02, 300):
        points_S = differences_Sn.mean(axis=1)
        seeds = tuple(range(design.seeds))
        ours = Resampled("DAPT", seeds, 0.5 + points_S, differences_Sn - points_S[:, None], 0.0)
        theirs = Resampled("untouched", seeds, np.full(design.seeds, 0.5), np.zeros_like(differences_Sn), 0.0)
        found.append(measured(compare_of(ours, theirs), comparisons=2))
    for name, slack in (("item_variance", 0.1), ("residual_variance", 0.1), ("seed_variance", 0.2)):
        assert np.mean([getattr(each, name) for each in found]) == pytest.approx(getattr(design, name), rel=slack)
    again = replace(found[0], item_variance=0.06, residual_variance=0.12, seed_variance=0.0008)
    assert again.detectable() == pytest.approx(design.detectable())


def test_a_race_gives_the_means_of_its_comparisons():
    generator = np.random.default_rng(4)
    seeds = tuple(range(5))
    drawn = generator.normal(0, 1, (3, 5, 200)) + generator.normal(0, 0.1, (3, 5, 1))
    untouched, *others = (
        Resampled(name, seeds, scores_Sn.mean(axis=1), scores_Sn - scores_Sn.mean(axis=1, keepdims=True), 0.0)
        for name, scores_Sn in zip(("untouched", "a", "b"), drawn, strict=True)
    )
    comparisons = [compare_of(other, untouched) for other in others]
    whole, singles = measured_in_race(comparisons), [measured(comparison) for comparison in comparisons]
    assert whole.comparisons == 2
    assert whole.residual_variance == pytest.approx(np.mean([single.residual_variance for single in singles]))
    assert min(s.detectable() for s in singles) < replace(whole, comparisons=1).detectable()
    fewer = replace(others[0], seeds=seeds[:4], points_S=others[0].points_S[:4], shares_Sn=others[0].shares_Sn[:4])
    with pytest.raises(ValueError, match=r"\(items, seeds\) \[\(200, 4\), \(200, 5\)\]"):
        measured_in_race([comparisons[0], compare_of(fewer, untouched)])
    with pytest.raises(ValueError, match="at least"):
        measured_in_race([])
    several = replace(others[0], adaptations=(0, 1, 0, 1, 2))
    found = compare_of(several, untouched)
    again = measured(found)
    assert again.seeds == 3
    variance = again.item_variance / 200 + again.residual_variance / 600 + again.seed_variance / 3
    assert variance == pytest.approx(found.variance_items + found.variance_seeds)


def test_more_of_everything_makes_it_smaller_and_more_comparisons_larger():
    now = guessed(500, 3).detectable()
    assert guessed(1_000, 3).detectable() < now
    assert guessed(500, 5).detectable() < now
    assert guessed(500, 3, comparisons=4).detectable() > now
    assert guessed(500, 3, seed_spread=0.03).detectable() > now
    assert guessed(500, 3, power=0.5).detectable() < now
    assert guessed(10**7, 3, seed_spread=0.0).detectable() == pytest.approx(0, abs=1e-2)
    # no end of items removes the variance over three seeds
    assert guessed(10**9, 3).detectable() == pytest.approx(guessed(10**8, 3).detectable(), rel=1e-2)


def test_advice_says_what_would_help():
    design = guessed(500, 3, comparisons=2)
    told = design.advice()
    points = [f"{100 * value:.1f}" for value in (
        design.detectable(), design.detectable(items=1_000), design.detectable(seeds=5), design.detectable(seeds=10)
    )]  # fmt: skip
    assert told == (
        f"{points[0]} points is the smallest difference that 500 test items and 3 seeds find with a probability of 80%"
        f", 2 comparisons counted. It would be {points[1]} with twice the test items, {points[2]} with 5 seeds and "
        f"{points[3]} with 10 seeds."
    )
    assert "with 10 seeds" not in guessed(500, 10).advice()
    assert "twice the test items" not in guessed(10**8, 3).advice()  # more of them would not help


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="score=80: a share is between 0 and 1"):
        guessed(100, 3, score=80).detectable()
    with pytest.raises(ValueError, match="seeds=1: a variance needs at least two"):
        guessed(100, 1).detectable()
    with pytest.raises(ValueError, match="comparisons=0"):
        guessed(100, 3, comparisons=0).detectable()


CLASSES = ["a"] * 240 + ["b"] * 120 + ["c"] * 40
NUMBERS = np.random.default_rng(20).normal(size=400).tolist()
TAGGED = [("B-x", "I-x", "O", "O", "B-y") if row % 2 else ("O", "O", "B-x", "O") for row in range(400)]
ANSWERS = [(f"the answer {row}", f"answer {row}") for row in range(400)]
RELEVANT = [("a", "a", f"d{row}") for row in range(400)]
TASKS: dict[str, tuple[Kind, list[Label]]] = {
    "accuracy": ("sequence", CLASSES),
    "macro_f1": ("sequence", CLASSES),
    "micro_f1": ("multilabel", [(label, "d") if row % 3 else (label,) for row, label in enumerate(CLASSES)]),
    "pearson": ("score", NUMBERS),
    "spearman": ("score", NUMBERS),
    "entity_f1": ("tokens", TAGGED),
    "mrr": ("span", ANSWERS),
    "f1": ("span", ANSWERS),
    "ndcg_at_10": ("search", RELEVANT),
}


def runs_of(name: str, metric: str, wrong: float, seeds: int, *, first: int) -> list[Score]:
    """Runs that make half of their mistakes in common."""
    kind, gold = TASKS[metric]
    generator = np.random.default_rng(first)
    found = []
    for seed in range(seeds):
        sides = [add_mistakes(kind, gold, wrong, seed=base) for base in (first, first + 1 + seed)]
        predicted = tuple(sides[side][row] for row, side in enumerate(generator.integers(2, size=len(gold))))
        found.append(score_of(name, metric, seed, gold=gold, predicted=predicted))
    return found


@pytest.mark.parametrize("metric", TASKS)
def test_made_up_mistakes_bring_any_metric_to_the_score_that_is_wanted(metric):
    kind, gold = TASKS[metric]
    variance = variance_of_one_item(kind, METRICS[metric], gold, score=0.8)
    if metric == "accuracy":
        assert variance == pytest.approx(0.8 * 0.2, rel=0.02)
    if metric == "pearson":  # Fisher (1915): of r of a bivariate normal variable
        assert variance == pytest.approx((1 - 0.8**2) ** 2, rel=0.25)
    assert 0.01 < variance < 0.5
    assert METRICS[metric].compute(gold, add_mistakes(kind, gold, 0.0)) == pytest.approx(1)
    few, many = (METRICS[metric].compute(gold, add_mistakes(kind, gold, wrong)) for wrong in (0.1, 0.5))
    assert many < few < 1


def test_a_rare_class_makes_macro_f1_harder_to_tell_apart_than_accuracy():
    rare = ["a"] * 390 + ["b"] * 10
    assert variance_of_one_item("sequence", METRICS["macro_f1"], rare) > 3 * variance_of_one_item(
        "sequence", METRICS["accuracy"], rare
    )
    assert variance_of_one_item("sequence", METRICS["accuracy"], ["a"] * 20) == 0.0
    with pytest.raises(ValueError, match="1 label has no variance over items"):
        variance_of_one_item("sequence", METRICS["accuracy"], ["a"])


@pytest.mark.parametrize("metric", TASKS)
def test_power_simulated_from_predictions_is_that_of_their_variance_components(metric):
    """Or a little more, as its docstring says: there are four runs for five seeds."""
    wrong = 0.6 if TASKS[metric][0] == "score" else 0.2
    ours, theirs = (runs_of(name, metric, wrong, 4, first=first) for name, first in (("a", 100), ("b", 200)))
    found = simulated(ours, theirs, METRICS[metric], seeds=5, studies=80)
    told = measured(compare(ours, theirs, METRICS[metric]), power=0.9)
    assert 0.85 < found / told.detectable(seeds=5) < 1.4


@pytest.mark.parametrize("metric", ["accuracy", "pearson", "entity_f1"])
def test_probes_say_on_which_items_models_differ(metric):
    wrong = 0.6 if TASKS[metric][0] == "score" else 0.2
    [ours], [theirs] = (runs_of(name, metric, wrong, 1, first=first) for name, first in (("a", 100), ("b", 200)))
    design = probed(ours, theirs, METRICS[metric], items=2_000, seeds=5)
    assert (design.items, design.seeds) == (2_000, 5)
    several = [runs_of(name, metric, wrong, 4, first=first) for name, first in (("a", 100), ("b", 200))]
    made = measured(compare(*several, METRICS[metric]))
    whole = made.item_variance + made.residual_variance
    assert design.item_variance + design.residual_variance == pytest.approx(whole, rel=0.35)
