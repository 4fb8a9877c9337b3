"""Predicted orders beside measured ones: rank correlation, regret, and what chance gives."""

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

from acclimate.study.transfer_check import check, drawn_orders, regret, regret_at_random, without

NAMES = ("acid", "base", "salt", "ester", "ether", "amine")


def differences(seed, tasks=6):
    values_KK = np.random.default_rng(seed).normal(size=(tasks, tasks))
    np.fill_diagonal(values_KK, np.nan)
    return values_KK


def rho(ranks, orders):
    """Spearman's, of ranks none of which are equal."""
    size = len(ranks)
    return 1 - 6 * ((ranks - orders) ** 2).sum(-1) / (size * (size**2 - 1))


def test_rank_correlations_are_scipys_for_each_target_and_their_mean():
    predicted, measured = differences(0), differences(1)
    measured[2, 4] = np.nan  # a cell that failed
    (found,) = check(NAMES, {"words": predicted}, measured, draws=199, seed=0)
    rhos, taus = [], []
    for row, own in enumerate(found.targets):
        there = ~np.isnan(measured[row])
        rhos.append(stats.spearmanr(predicted[row, there], measured[row, there]).statistic)
        taus.append(stats.kendalltau(predicted[row, there], measured[row, there]).statistic)
        assert (own.target, own.candidates) == (NAMES[row], there.sum())
        assert (own.rho, own.tau) == pytest.approx((rhos[-1], taus[-1]))
    assert (found.rho, found.tau) == pytest.approx((np.mean(rhos), np.mean(taus)))
    assert found.interval[0] <= found.rho <= found.interval[1]


def test_chance_of_one_target_is_that_of_all_orders_of_its_candidates():
    predicted, measured = differences(0), np.full((6, 6), np.nan)
    measured[0, 1:] = (0.3, 0.1, 0.5, 0.2, 0.4)
    (found,) = check(NAMES, {"words": predicted}, measured, draws=20_000, seed=0)
    rhos = [stats.spearmanr(predicted[0, 1:], order).statistic for order in permutations(measured[0, 1:])]
    assert found.p == pytest.approx(np.mean(np.array(rhos) >= found.rho - 1e-12), abs=0.01)
    assert found.chance == pytest.approx(tuple(np.quantile(rhos, [0.025, 0.975])), abs=0.1)


def test_tasks_measured_for_other_targets_exchange_no_names_with_a_targets_candidates():
    """Acid was measured on three candidates, base on three others: all orders within each are what chance gives."""
    measured = np.full((8, 8), np.nan)
    measured[0, 2:5], measured[1, 5:8] = (0.3, 0.2, 0.1), (0.1, 0.3, 0.2)
    predicted = np.tile(np.arange(8, 0, -1.0), (8, 1))
    predicted[:, 3] = predicted[:, 4]  # of the first target's two are alike
    names = [*NAMES, "oxide", "salts"]
    (found,) = check(names, {"words": predicted}, measured, draws=20_000, seed=0)
    assert [own.candidates for own in found.targets] == [3, 3]
    first = [stats.spearmanr(predicted[0, 2:5], order).statistic for order in permutations(measured[0, 2:5])]
    second = [stats.spearmanr(predicted[1, 5:8], order).statistic for order in permutations(measured[1, 5:8])]
    means = np.add.outer(first, second).ravel() / 2
    assert found.p == pytest.approx(np.mean(means >= found.rho - 1e-12), abs=0.01)
    assert found.chance == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.05)


def test_one_order_in_nine_of_five_candidates_has_a_rho_of_seven_tenths():
    rhos = [stats.spearmanr(range(5), order).statistic for order in permutations(range(5))]
    assert np.mean(np.array(rhos) >= 0.7 - 1e-12) == pytest.approx(1 / 9, abs=0.01)


def test_orders_leave_the_target_out_and_put_every_other_candidate_in_one_place():
    orders = drawn_orders(np.array([[True, True, False, True, True, True]]), 500, seed=3)
    assert (orders[:, 2] == 2).all()  # no candidate anywhere: its name is none to exchange
    for target in range(6):
        left = without(orders, target)
        assert (left[:, target] == target).all()
        assert (np.sort(left, axis=1) == np.arange(6)).all()
        stay = (orders != target) & (np.arange(6) != target)
        assert (left[stay] == orders[stay]).all()


def test_a_candidate_that_is_good_for_every_target_is_no_evidence_for_a_predictor_that_ranks_at_random():
    """Orders drawn for each target by itself would find one far more often than one time in twenty."""
    false = apart = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        measured = generator.normal(size=6) + 0.1 * generator.normal(size=(6, 6))  # what a candidate gives everywhere
        predicted = np.tile(generator.normal(size=6), (6, 1))  # and a measure of the candidate alone, such as its rows
        for values in (measured, predicted):
            np.fill_diagonal(values, np.nan)
        (found,) = check(NAMES, {"rows": predicted}, measured, draws=199, seed=seed)
        false += found.p < 0.05
        ours = [np.delete(predicted[row], row).argsort().argsort() for row in range(6)]
        real = [np.delete(measured[row], row).argsort().argsort() for row in range(6)]
        drawn = [generator.permuted(np.tile(own, (199, 1)), axis=1) for own in real]
        by_chance = np.mean([rho(own, orders) for own, orders in zip(ours, drawn, strict=True)], axis=0)
        apart += np.mean(by_chance >= np.mean([rho(*both) for both in zip(ours, real, strict=True)])) < 0.05
    assert false <= 7  # of 60 expected 3; more than 7 once in 100
    assert apart >= 10


@pytest.mark.parametrize("k", [1, 2, 3])
def test_regret_is_the_mean_over_all_orders_of_candidates_that_are_tied(k):
    values, measured = np.array([2.0, 1, 1, 1, 0]), np.array([0.1, 0.4, 0.2, 0.3, 0.9])
    orders = [order for order in permutations(range(5)) if (np.diff(values[[*order]]) <= 0).all()]
    assert regret(values, measured, k) == pytest.approx(
        np.mean([measured.max() - measured[[*order[:k]]].max() for order in orders])
    )
    assert regret_at_random(measured, k) == pytest.approx(
        np.mean([measured.max() - measured[[*some]].max() for some in combinations(range(5), k)])
    )


def test_what_ranks_nothing_or_too_few_is_left_out_and_p_is_corrected_for_the_rest():
    measured = differences(1)
    measured[1:, :] = np.nan
    predicted = {"words": measured, "alike": np.ones((6, 6)), "few": np.where(np.arange(6) < 3, measured, np.nan)}
    (found,) = check(NAMES, predicted, measured, draws=999, seed=0)
    assert (found.predictor, found.rho, found.interval) == ("words", pytest.approx(1), None)
    both = check(NAMES, {"words": measured, "other": differences(5)}, measured, draws=999, seed=0)
    assert both[0].p_holm == pytest.approx(2 * both[0].p)
    assert both[0].established == (2 * both[0].p < 0.05)
