"""Calibration error by its definition, and temperatures that are known."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from acclimate.statistics.calibration import BINS, calibration_error, calibration_of, fit_temperature, reliability

RANDOM = np.random.default_rng(5)


def drawn(rows: int, *, several: bool, sharper: float) -> tuple[np.ndarray, np.ndarray]:
    """Outputs that are too large by a factor, and the labels of rows that have them with the right probabilities."""
    outputs = RANDOM.normal(0, 1.5, (rows, 3))
    if several:
        return sharper * outputs, RANDOM.random(outputs.shape) < expit(outputs)
    labels = [RANDOM.choice(3, p=chances) for chances in softmax(outputs, axis=1)]
    return sharper * outputs, np.eye(3, dtype=bool)[labels]


def test_equation_3_of_guo_et_al_is_the_mean_gap_over_bins():
    confidence = np.append(RANDOM.random(400), [0.0, 1.0, 1 / BINS])
    right = RANDOM.random(403) < 0.6
    error = 0.0
    for number in range(BINS):
        inside = (confidence > number / BINS) & (confidence <= (number + 1) / BINS)
        inside |= (confidence == 0) & (number == 0)
        if inside.any():
            error += inside.sum() / 403 * abs(right[inside].mean() - confidence[inside].mean())
    assert calibration_error(reliability(confidence, right)) == pytest.approx(error)


@pytest.mark.parametrize("several", [False, True])
def test_the_temperature_of_outputs_that_are_three_times_too_large_is_three(several):
    dev, test = (drawn(rows, several=several, sharper=3.0) for rows in (3000, 3000))
    calibration = calibration_of(dev, test, several=several)
    assert calibration.temperature == pytest.approx(3.0, rel=0.1)
    assert calibration.after < 0.35 * calibration.before
    assert calibration.after < 2 * calibration.chance
    assert (calibration.split, calibration.rows) == ("test", 3000)
    folded = calibration_of(dev, None, several=several)
    assert (folded.temperature, folded.split) == (calibration.temperature, "dev")
    assert folded.after == pytest.approx(calibration.after, abs=0.02)


def test_few_rows_that_are_all_right_and_labels_that_no_row_has_keep_the_temperature_finite():
    outputs = np.array([[2.0, 0.0, -np.inf], [0.0, 1.0, -np.inf], [0.0, 1.0, -np.inf]])
    right = np.eye(3, dtype=bool)[[0, 1, 1]]
    assert 0.2 < fit_temperature(outputs, right, several=False) < 1
    unseen = np.eye(3, dtype=bool)[[0, 1, 2]]
    assert 0.2 < fit_temperature(outputs, unseen, several=False) < 1
    assert 0.2 < fit_temperature(outputs, right, several=True) < 2
