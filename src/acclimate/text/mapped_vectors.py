"""Word vectors mapped into the space of a model's embeddings, by the words that both have (Poerner et al., 2020).

    W = argmin sum over shared words of ||W v + b - e||^2

Legend: N shared words, F numbers of a vector, D of an embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HELD_OUT = 5  # every fifth word, when it is measured how much the map tells


@dataclass(frozen=True, eq=False)
class Mapped:
    """map_GD: (F + 1, D), the last row b; words: N; explained: share of the embeddings' variance that a map of four
    fifths of the words explains of the last fifth.
    """

    map_GD: np.ndarray
    words: int
    explained: float

    def __call__(self, vectors_NF: np.ndarray) -> np.ndarray:
        """(N, D) float32."""
        mapped_ND: np.ndarray = (_with_one(vectors_NF) @ self.map_GD).astype(np.float32)
        return mapped_ND


def fit_map(vectors_NF: np.ndarray, embeddings_ND: np.ndarray) -> Mapped:
    """The least squares. Raises ValueError where there are too few words for the numbers to be determined."""
    words, numbers = vectors_NF.shape
    if words < 2 * (numbers + 1):
        raise ValueError(
            f"{words:,} words have a vector and are whole in the model's vocabulary, too few to map vectors of "
            f"{numbers} numbers by: at least {2 * (numbers + 1):,}. Give more text, set skipgram.dim lower, or take "
            "start=pieces"
        )
    inputs_NG, targets_ND = _with_one(vectors_NF), embeddings_ND.astype(np.float64)
    held_N = np.arange(words) % HELD_OUT == 0
    trial_GD = np.linalg.lstsq(inputs_NG[~held_N], targets_ND[~held_N])[0]
    missed = np.square(inputs_NG[held_N] @ trial_GD - targets_ND[held_N]).sum()
    spread = np.square(targets_ND[held_N] - targets_ND[~held_N].mean(0)).sum()
    return Mapped(np.linalg.lstsq(inputs_NG, targets_ND)[0], words, float(1 - missed / spread))


def _with_one(vectors_NF: np.ndarray) -> np.ndarray:
    return np.hstack([vectors_NF.astype(np.float64), np.ones((len(vectors_NF), 1))])
