"""The levels of a race that is evaluated after each round."""

import numpy as np
import pytest
from scipy import stats

from acclimate.statistics.sequential import FIRST, SPENT, evaluation_level, spent


def test_the_first_two_levels_spend_what_a_bivariate_normal_says():
    first, second = evaluation_level(FIRST), evaluation_level(FIRST + 1)
    assert first == pytest.approx(spent(FIRST)) == pytest.approx(SPENT / 3)
    correlation = np.sqrt(FIRST / (FIRST + 1))
    both = stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
    limits = stats.norm.isf(np.array([first, second]) / 2)
    inside = both.cdf(limits, lower_limit=-limits)
    assert 1 - inside == pytest.approx(spent(FIRST + 1), abs=1e-5)


def test_later_levels_agree_with_random_walks_and_never_spend_all():
    last = 8
    walks = np.random.default_rng(0).standard_normal((100_000, last)).cumsum(axis=1)[:, FIRST - 1 :]
    rounds = np.arange(FIRST, last + 1)
    limits = stats.norm.isf(np.array([evaluation_level(int(number)) for number in rounds]) / 2) * np.sqrt(rounds)
    assert (np.abs(walks) > limits).any(axis=1).mean() == pytest.approx(spent(last), abs=0.002)
    assert spent(last) < spent(10**6) < SPENT
    with pytest.raises(ValueError, match="rounds=2: the first evaluation is after 3 rounds"):
        evaluation_level(2)
