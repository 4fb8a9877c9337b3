"""How far a model's probabilities are from the frequencies with which it is right, and the temperature that mends it.

Guo, Pleiss, Sun and Weinberger (2017), "On Calibration of Modern Neural Networks", 1706.04599:

    ECE = sum over bins m of |B_m| / n |acc(B_m) - conf(B_m)|       Eq. 3, BINS bins of equal width in (0, 1]
    p = softmax(o / T)                                              Eq. 9, T > 0 minimises the log loss on dev

conf is the probability of the predicted label and acc the share of right predictions. Where a text may have several
labels, p = sigmoid(o / T), conf is the probability of each label of each text, and acc the share of texts that have it.
T changes no label: the largest output stays the largest, and an output above 0 stays above 0.

Readings
  (ln T)^2 / 2 is added to the summed log loss, as if ln T had a standard normal prior: a few dev rows that are all
  right would drive T to 0.
  ECE is above 0 on few rows even if all probabilities are right. `Calibration.chance` is the mean ECE over DRAWS draws
  of outcomes from the calibrated probabilities themselves (consistency resampling, Broecker and Smith, 2007).

Shape suffixes: R rows, C labels, n predictions (rows; rows times labels where a row may have several), B bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from acclimate.core.figures import points
from acclimate.core.types import Label

BINS = 15
MOST = 20.0  # T, or its inverse, at most
FOLDS = 5  # of dev, where there is no test set
DRAWS = 200


@dataclass(frozen=True)
class Bin:
    """Predictions of similar probability: their number, their mean probability, and the share that is right."""

    predictions: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """The temperature of a model, and its calibration error with and without it.

    rows         number of dev rows that the temperature was fitted on
    split        on which the error was measured: "test", or "dev", each fifth with the temperature of the others
    measured     number of rows there, and predictions n there
    before, after  ECE with T = 1 and with the temperature
    chance       mean ECE of probabilities that are right, for as many predictions
    """

    temperature: float
    rows: int
    split: Literal["dev", "test"]
    measured: int
    predictions: int
    before: float
    after: float
    chance: float
    bins_before: tuple[Bin, ...]
    bins_after: tuple[Bin, ...]

    @property
    def sentence(self) -> str:
        where = f"{self.measured:,} {self.split} rows{', cross-fitted' * (self.split == 'dev')}"
        return (
            f"calibrated on {self.rows:,} dev rows (temperature {self.temperature:.2f}). Expected calibration error on "
            f"{where}: {points(self.after)} points, {points(self.before)} before, {points(self.chance)} by chance alone"
        )


def targets_of(gold: Sequence[Label], labels: Sequence[str]) -> np.ndarray:
    """(R, C) bool: which labels each row has."""
    place = {label: number for number, label in enumerate(labels)}
    has_RC = np.zeros((len(gold), len(labels)), bool)
    for row, label in enumerate(gold):
        for name in label if isinstance(label, tuple) else (str(label),):
            has_RC[row, place[name]] = True
    return has_RC


def fit_temperature(outputs_RC: np.ndarray, has_RC: np.ndarray, *, several: bool) -> float:
    """Return T. several: True if a row may have several labels

    Infinite outputs, of labels that no training row has, do not depend on T and do not count.
    """
    from scipy.optimize import minimize_scalar  # takes a fifth of a second, which a dry run does not wait for
    from scipy.special import log_expit, log_softmax

    finite_RC = np.isfinite(outputs_RC)
    signed_n = np.where(has_RC, outputs_RC, -outputs_RC)[finite_RC]
    rows_R = (has_RC & finite_RC).any(axis=1)

    def log_loss(temperature: float) -> float:
        if several:
            return -float(log_expit(signed_n / temperature).sum())
        return -float(log_softmax(outputs_RC[rows_R] / temperature, axis=1)[has_RC[rows_R]].sum())

    fit = minimize_scalar(
        lambda log_temperature: log_loss(np.exp(log_temperature)) + log_temperature**2 / 2,
        bounds=(-np.log(MOST), np.log(MOST)),
        method="bounded",
    )
    return float(np.exp(fit.x))


def confidences(outputs_RC: np.ndarray, has_RC: np.ndarray, *, several: bool) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the probabilities that are compared with frequencies, and (n,) bool whether each prediction is right."""
    from scipy.special import expit, softmax

    if several:
        return expit(outputs_RC).ravel(), has_RC.ravel()
    best_R = outputs_RC.argmax(axis=1)
    rows_R = np.arange(len(best_R))
    return softmax(outputs_RC, axis=1)[rows_R, best_R], has_RC[rows_R, best_R]


def reliability(confidence_n: np.ndarray, right_n: np.ndarray) -> tuple[Bin, ...]:
    """Return the bins that have predictions, by rising probability: bin m holds those in ((m - 1) / BINS, m / BINS]."""
    bin_n = _bin_numbers(confidence_n)
    members = [bin_n == number for number in range(BINS)]
    return tuple(
        Bin(int(member_n.sum()), float(confidence_n[member_n].mean()), float(right_n[member_n].mean()))
        for member_n in members
        if member_n.any()
    )


def _bin_numbers(confidence_n: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(np.ceil(confidence_n * BINS) - 1, 0, BINS - 1), np.int64)


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error, from 0 to 1."""
    total = sum(one.predictions for one in bins)
    return sum(one.predictions * abs(one.right - one.confidence) for one in bins) / total


def calibration_of(
    dev: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray] | None, *, several: bool
) -> Calibration:
    """Fit the temperature on dev, and measure it on test, or, if that is None, on dev by cross-fitting.

    dev, test: (R, C) outputs of the model, and (R, C) bool which labels each row has
    """
    temperature = fit_temperature(*dev, several=several)
    if test is not None:
        outputs_RC, has_RC = test
        scaled_RC = outputs_RC / temperature
    else:
        outputs_RC, has_RC = dev
        fold_R, scaled_RC = np.arange(len(outputs_RC)) % FOLDS, outputs_RC.copy()
        for fold in range(FOLDS):
            others_R = fold_R != fold
            scaled_RC[~others_R] /= fit_temperature(outputs_RC[others_R], has_RC[others_R], several=several)
    before = reliability(*confidences(outputs_RC, has_RC, several=several))
    confidence_n, right_n = confidences(scaled_RC, has_RC, several=several)
    after = reliability(confidence_n, right_n)
    random = np.random.default_rng(0)
    bin_n = _bin_numbers(confidence_n)
    gaps_B = [
        np.bincount(bin_n, (random.random(len(confidence_n)) < confidence_n) - confidence_n, BINS) for _ in range(DRAWS)
    ]
    chance = float(np.abs(gaps_B).sum(axis=1).mean() / len(confidence_n))
    return Calibration(
        temperature,
        rows=len(dev[0]),
        split="dev" if test is None else "test",
        measured=len(outputs_RC),
        predictions=len(confidence_n),
        before=calibration_error(before),
        after=calibration_error(after),
        chance=chance,
        bins_before=before,
        bins_after=after,
    )
