"""What every metric is made of: numbers for each item, and quotients of their sums.

Shape suffixes: n items, K numbers an item.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from acclimate.core.types import Label
from acclimate.tasks.task import Values


def ratio(sums: Values) -> Values:
    """(..., 2) -> (...): the first sum over the second; 0 where the second is 0."""
    return divided(sums[..., 0], sums[..., 1])


def divided(top: npt.ArrayLike, bottom: npt.ArrayLike) -> Values:
    """Elementwise quotient; 0 where the denominator is 0."""
    over, under = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    return np.divide(over, under, out=np.zeros(np.broadcast_shapes(over.shape, under.shape)), where=under != 0)


def table(rows: Sequence[Sequence[float]], width: int) -> Values:
    """(n, width), also where n is 0."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def means(scores: Sequence[float] | Values) -> Values:
    """(n, 2): a score for each item, and 1. The ratio of their sums is the mean."""
    return np.stack([np.array(scores, dtype=np.float64), np.ones(len(scores))], axis=1)


def texts(label: Label) -> tuple[str, ...]:
    """The texts of a label: all of a tuple, or the one."""
    return label if isinstance(label, tuple) else (str(label),)
