from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from acclimate.statistics.power import PowerDesign, guessed, measured
from acclimate.statistics.significance import compare_of
from acclimate.statistics.variance import Resampled, components_of, p_value


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
def test_the_difference_is_found_as_often_as_promised(items: int, seeds: int, comparisons: int, spread: float) -> None:
    design = guessed(items, seeds, comparisons=comparisons, seed_spread=spread)
    differences = race(np.random.default_rng(items), design, design.detectable(), 1_000)
    points = differences.mean(axis=-1)
    p = p_value(points.mean(axis=-1), components_of(points, differences - points[..., None]))
    assert np.mean(p < 0.05 / comparisons) == pytest.approx(0.8, abs=0.06)


def test_right_and_wrong_answers_are_found_as_the_guess_says() -> None:
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


def test_a_study_that_was_made_gives_the_design_that_it_was_made_with() -> None:
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


def test_more_of_everything_makes_it_smaller_and_more_comparisons_larger() -> None:
    now = guessed(500, 3).detectable()
    assert guessed(1_000, 3).detectable() < now
    assert guessed(500, 5).detectable() < now
    assert guessed(500, 3, comparisons=4).detectable() > now
    assert guessed(500, 3, seed_spread=0.03).detectable() > now
    assert guessed(500, 3, power=0.5).detectable() < now
    assert guessed(10**7, 3, seed_spread=0.0).detectable() == pytest.approx(0, abs=1e-2)
    # no end of items removes the variance over three seeds
    assert guessed(10**9, 3).detectable() == pytest.approx(guessed(10**8, 3).detectable(), rel=1e-2)


def test_advice_says_what_would_help() -> None:
    design = guessed(500, 3, comparisons=2)
    told = design.advice()
    points = [f"{100 * value:.1f}" for value in (
        design.detectable(), design.detectable(items=1_000), design.detectable(seeds=5), design.detectable(seeds=10)
    )]  # fmt: skip
    assert told == (
        f"{points[0]} points is the smallest difference that 500 test items and 3 seeds find with a probability of 80%"
        f", 2 comparisons counted. Twice the test items would bring it to {points[1]} points; more seeds, with 5 to "
        f"{points[2]} and with 10 to {points[3]}."
    )
    assert "more seeds" not in guessed(500, 10).advice()


def test_refusals_name_the_value() -> None:
    with pytest.raises(ValueError, match="score=80: a share lies between 0 and 1"):
        guessed(100, 3, score=80).detectable()
    with pytest.raises(ValueError, match="seeds=1: there is no variance over fewer than two"):
        guessed(100, 1).detectable()
    with pytest.raises(ValueError, match="comparisons=0"):
        guessed(100, 3, comparisons=0).detectable()
