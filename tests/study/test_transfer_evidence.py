"""LogME by its moments against You et al.'s equation, written out and maximised directly."""

import numpy as np
import pytest
from scipy.optimize import minimize

from acclimate.study.transfer_evidence import Moments, evidence


def log_evidence(features, labels, alpha, beta):
    """Eq. 2, as it stands in the paper."""
    items, width = features.shape
    precision = alpha * np.eye(width) + beta * features.T @ features
    mean = beta * np.linalg.solve(precision, features.T @ labels)
    return (
        items / 2 * np.log(beta)
        + width / 2 * np.log(alpha)
        - items / 2 * np.log(2 * np.pi)
        - beta / 2 * np.sum((features @ mean - labels) ** 2)
        - alpha / 2 * mean @ mean
        - np.linalg.slogdet(precision)[1] / 2
    )


def data(items=60, width=5, noise=0.5, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(items, width)) * np.linspace(0.3, 3, width)
    weights = generator.normal(size=(width, 2))
    return features, features @ weights + noise * generator.normal(size=(items, 2))


@pytest.mark.parametrize(("items", "width", "noise"), [(60, 5, 0.5), (60, 5, 5.0), (12, 30, 0.5), (200, 3, 0.01)])
def test_logme_is_the_maximum_of_eq_2_over_alpha_and_beta_divided_by_n(items, width, noise):
    features, labels = data(items, width, noise)
    found = evidence(Moments.of(features, labels))
    for column in range(2):
        own = labels[:, column]

        def minus(at, own=own):
            return -log_evidence(features, own, *np.exp(at))

        starts = [(a, b) for a in (-4.0, 0.0, 4.0, 12.0) for b in (-2.0, 2.0, 6.0)]
        close = {"xatol": 1e-8, "fatol": 1e-10}
        bounds = [(-8.0, 20.0), (-8.0, 12.0)]  # further, the determinant of more features than items is mostly rounding
        found_by_hand = [minimize(minus, at, method="Nelder-Mead", bounds=bounds, options=close).fun for at in starts]
        best = min(found_by_hand)
        assert found.columns_C[column] == pytest.approx(-best / items, abs=1e-6)
    assert found.value == pytest.approx(found.columns_C.mean())


def test_weights_are_the_posterior_mean_at_the_papers_fixed_point():
    features, labels = data()
    own = labels[:, 0]
    alpha = beta = 1.0
    for _ in range(500):  # the paper's iteration, on the whole matrices
        precision = alpha * np.eye(5) + beta * features.T @ features
        mean = beta * np.linalg.solve(precision, features.T @ own)
        counted = beta * np.trace(np.linalg.solve(precision, features.T @ features))
        alpha, beta = counted / (mean @ mean), (60 - counted) / np.sum((features @ mean - own) ** 2)
    found = evidence(Moments.of(features, labels))
    np.testing.assert_allclose(found.weights_DC[:, 0], mean, rtol=1e-5)
    assert found.columns_C[0] == pytest.approx(log_evidence(features, own, alpha, beta) / 60, abs=1e-9)


def test_labels_that_follow_from_nothing_have_the_evidence_of_noise_alone():
    features = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    own = np.array([1.0, 1, -1, -1])  # at right angles to both features: alpha has no maximum, m is 0
    alone = -0.5 * (np.log(2 * np.pi) + np.log(np.mean(own**2)) + 1)
    found = evidence(Moments.of(features, own[:, None]))
    assert found.value == pytest.approx(alone, abs=1e-6)
    np.testing.assert_allclose(found.weights_DC, 0, atol=1e-6)


def test_parts_add_up_and_a_linear_map_costs_no_other_pass():
    features, labels = data()
    whole = Moments.of(features, labels)
    parts = Moments.of(features[:17], labels[:17]) + Moments.of(features[17:], labels[17:])
    assert evidence(parts).value == pytest.approx(evidence(whole).value, rel=1e-12)
    seen = np.random.default_rng(3).normal(size=(5, 2))
    through = evidence(whole.through(seen)).value
    assert through == pytest.approx(evidence(Moments.of(features @ seen, labels)).value, rel=1e-10)


def test_a_class_that_nobody_bears_is_left_out_and_labels_without_any_are_refused():
    features, labels = data()
    with_empty = np.concatenate([labels, np.zeros((60, 1))], axis=1)
    found = evidence(Moments.of(features, with_empty))
    assert found.value == pytest.approx(evidence(Moments.of(features, labels)).value)
    assert np.isnan(found.columns_C[2])
    with pytest.raises(ValueError, match="0 throughout"):
        evidence(Moments.of(features, np.zeros((60, 1))))
