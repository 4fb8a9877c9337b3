"""What adapting is worth in labels: recovered from curves without noise, and covered by its interval in simulations."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from acclimate.statistics.worth import gains, isotonic, worth_in_labels

ROWS = (44, 88, 176, 352)


def curve(factor):
    """The score after n labels, of a model that needs `factor` times fewer than the untouched one."""
    return lambda labels: 0.9 - 1.5 * (factor * np.asarray(labels, float)) ** -0.4


def simulated(curves, generator, *, draws=5, items=300):
    """Scores (2, K, R) and shares (2, K, n) of one study: a curve, the influence of each labelled row and test item.

    Both models learn from the same rows and are tested on the same items.
    """
    rows_CN = 0.5 * (0.7 * generator.normal(size=ROWS[-1]) + 0.7 * generator.normal(size=(2, ROWS[-1])))
    items_CKn = 0.3 * (generator.normal(size=items) + generator.normal(size=(2, 1, items)))
    items_CKn = items_CKn + 0.2 * generator.normal(size=(2, len(ROWS), items))
    points_CKR = np.empty((2, len(ROWS), draws))
    for draw in range(draws):
        order = generator.permutation(ROWS[-1])
        for size, labels in enumerate(ROWS):
            influence_C = rows_CN[:, np.sort(order[:labels])].mean(axis=-1)
            points_CKR[:, size, draw] = [each(labels) for each in curves] + influence_C
    points_CKR += items_CKn.mean(axis=-1)[..., None]
    return points_CKR, items_CKn - items_CKn.mean(axis=-1, keepdims=True)


def without_noise(curves):
    points_CKR = np.repeat(np.array([each(ROWS) for each in curves])[..., None], 3, axis=-1)
    return worth_in_labels(ROWS, points_CKR, np.zeros((2, len(ROWS), 10)))


def test_isotonic_regression_is_scipys():
    means = np.random.default_rng(0).normal(size=(50, 5))
    assert isotonic(means) == pytest.approx(np.array([isotonic_regression(row).x for row in means]))


@pytest.mark.parametrize(("factors", "labels"), [((1, 2), 176), ((1, 4), 88), ((2, 1), 176), ((1, 1), 352)])
def test_a_model_that_needs_so_many_times_fewer_labels_is_found_without_noise(factors, labels):
    found = without_noise([curve(factor) for factor in factors])
    assert (found.labels.value, found.labels.low, found.labels.high) == pytest.approx((labels,) * 3)
    assert found.gain.value == pytest.approx(np.log2(factors[1] / factors[0]))
    assert not found.beyond


def test_between_two_sizes_it_interpolates_on_log_labels():
    means = np.array([[[0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.45, 0.5]]])
    between = np.log2(352 / 88) - (0.4 - 0.3) / (0.45 - 0.3)
    assert gains(ROWS, means) == pytest.approx([between])


def test_what_the_sizes_cannot_show_is_beyond_them():
    found = without_noise([curve(1), curve(100)])
    assert found.beyond
    assert found.informative
    assert found.labels.value == pytest.approx(ROWS[0])


def test_flat_curves_establish_nothing():
    established = []
    for seed in range(40):
        flat = [lambda labels: 0 * np.asarray(labels, float) + 0.7] * 2
        found = worth_in_labels(ROWS, *simulated(flat, np.random.default_rng(seed)), seed=seed)
        established.append(found.informative and found.established)
    assert np.mean(established) <= 0.1


@pytest.mark.parametrize("factor", [1, 2, 0.5])
def test_the_interval_covers_the_truth_over_rows_draws_and_items(factor):
    """95% promised; of 120 studies 89% at least, three standard errors below."""
    curves = [curve(1), curve(factor)]
    truth = gains(ROWS, np.array([[each(ROWS) for each in curves]]))[0]
    covered = 0
    for seed in range(120):
        found = worth_in_labels(ROWS, *simulated(curves, np.random.default_rng(seed)), seed=seed)
        covered += found.gain.low <= truth <= found.gain.high
    assert covered / 120 >= 0.89


def test_more_draws_and_items_make_the_interval_narrower():
    curves = [curve(1), curve(2)]
    widths = [
        np.median([found.gain.high - found.gain.low for found in several])
        for several in (
            [
                worth_in_labels(ROWS, *simulated(curves, np.random.default_rng(seed), draws=draws, items=items))
                for seed in range(8)
            ]
            for draws, items in ((3, 60), (10, 2_000))
        )
    ]
    assert widths[1] < widths[0]


def test_too_few_draws_and_sizes_that_do_not_ascend_are_refused():
    points_CKR, shares_CKn = simulated([curve(1), curve(2)], np.random.default_rng(0))
    with pytest.raises(ValueError, match="an interval needs at least 3"):
        worth_in_labels(ROWS, points_CKR[..., :2], shares_CKn)
    with pytest.raises(ValueError, match="two sizes, ascending"):
        worth_in_labels((88, 44, 176, 352), points_CKR, shares_CKn)
