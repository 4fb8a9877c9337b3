"""How well features explain labels: the logarithm of maximum evidence (LogME).

You et al. (2021), "LogME: Practical Assessment of Pre-trained Models for Transfer Learning". Labels y (n) are a linear
function of features F (n, D) with weights ~ N(0, 1/alpha) and noise ~ N(0, 1/beta); with A = alpha I + beta F'F and
m = beta A^-1 F'y,

    log p(y | F, alpha, beta) = n/2 log beta + D/2 log alpha - n/2 log 2 pi - beta/2 |F m - y|^2 - alpha/2 m'm
                                - 1/2 log det A                                                             (Eq. 2)

LogME is its maximum over alpha and beta, divided by n; of several columns of labels the mean.

Readings
  The paper iterates alpha and beta to a fixed point. Here t = alpha / beta is searched for and beta is known for each t
  in closed form (beta = n / q): the same maximum, also where labels follow from nothing and alpha has none.
  A column of labels that are all 0 has no evidence; it is left out.

All of this depends on F and y through F'F, F'y and y'y alone. These sums (`Moments`) are what is kept: memory does not
grow with the words, and features seen through a linear map cost no other pass.

Shape suffixes: D features, K features after a map, C columns of labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

GRID = 121  # of log t, before the maximum is closed in on
LEAST, MOST = 1e-10, 1e8  # of t, in multiples of the largest eigenvalue
ROUNDING = 1e-12  # eigenvalues below that share of the largest are 0
CLOSER = 60  # golden sections: an interval of the grid, divided by 10^12
GOLDEN = (np.sqrt(5.0) - 1) / 2


@dataclass(frozen=True)
class Moments:
    """Sums over n items. gram_DD: F'F; cross_DC: F'Y; squares_C: the sum of each column of labels, squared."""

    items: int
    gram_DD: Values
    cross_DC: Values
    squares_C: Values

    @classmethod
    def of(cls, features_nD: Values, labels_nC: Values) -> Moments:
        features, labels = np.asarray(features_nD, np.float64), np.asarray(labels_nC, np.float64)
        return cls(len(features), features.T @ features, features.T @ labels, (labels**2).sum(0))

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.items + other.items,
            self.gram_DD + other.gram_DD,
            self.cross_DC + other.cross_DC,
            self.squares_C + other.squares_C,
        )

    def through(self, map_DK: Values) -> Moments:
        """Those of the features F @ map_DK."""
        return Moments(self.items, map_DK.T @ self.gram_DD @ map_DK, map_DK.T @ self.cross_DC, self.squares_C)


@dataclass(frozen=True)
class Evidence:
    """value: LogME; columns_C: of each column of labels, NaN where that is 0 throughout; weights_DC: m, likewise 0."""

    value: float
    columns_C: Values
    weights_DC: Values


def evidence(moments: Moments) -> Evidence:
    """The maximum evidence of the labels. Raises ValueError where no column of labels holds anything but 0."""
    values_D, vectors_DD = np.linalg.eigh(moments.gram_DD)
    there = values_D > ROUNDING * max(values_D[-1], 0.0)
    values_K, vectors_DK = values_D[there], vectors_DD[:, there]
    found = np.full(len(moments.squares_C), np.nan)
    weights_DC = np.zeros_like(moments.cross_DC)
    for column, square in enumerate(moments.squares_C):
        if square > 0:
            along_K = vectors_DK.T @ moments.cross_DC[:, column]
            ratio, best = _maximum(moments.items, float(square), values_K, along_K)
            found[column] = best / moments.items
            weights_DC[:, column] = vectors_DK @ (along_K / (values_K + ratio))
    if np.isnan(found).all():
        raise ValueError("the labels are 0 throughout: there is nothing to explain")
    return Evidence(float(np.nanmean(found)), found, weights_DC)


def profile(items: int, square: float, values_K: Values, along_K: Values, ratios: Values) -> Values:
    """Eq. 2 at alpha / beta = each of the ratios t and the beta that is best there. square: y'y.

    With G = F'F, log det A = D log beta + log det(t I + G), and |F m - y|^2 + t m'm = y'y - y'F (t I + G)^-1 F'y = q:
    n/2 log beta - beta/2 q is largest at beta = n / q.
    """
    # the part of y'y that no feature reaches, and of each direction the part that t leaves: no difference of large sums
    beyond = max(square - float((along_K**2 / values_K).sum()), 0.0) if len(values_K) else square
    left = (along_K**2 / values_K) * (ratios[:, None] / (values_K + ratios[:, None]))
    unexplained = np.maximum(beyond + left.sum(1), np.finfo(np.float64).tiny)
    volume = np.log1p(values_K / ratios[:, None]).sum(1)  # log det(I + G / t)
    best: Values = -items / 2 * (np.log(unexplained / items) + 1 + np.log(2 * np.pi)) - volume / 2
    return best


def _maximum(items: int, square: float, values_K: Values, along_K: Values) -> tuple[float, float]:
    """The t at which the evidence is largest, and log p there."""
    if not len(values_K):
        return 1.0, float(profile(items, square, values_K, along_K, np.ones(1))[0])
    grid = np.linspace(np.log(LEAST * values_K[-1]), np.log(MOST * values_K[-1]), GRID)
    on_grid = profile(items, square, values_K, along_K, np.exp(grid))
    at = int(on_grid.argmax())
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, GRID - 1)]
    for _ in range(CLOSER):
        first, second = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        one, other = profile(items, square, values_K, along_K, np.exp(np.array([first, second])))
        low, high = (low, second) if one >= other else (first, high)
    middle = np.exp((low + high) / 2)
    return float(middle), float(profile(items, square, values_K, along_K, np.array([middle]))[0])
