"""Made-up scores of contestants on the same test rows."""

import zlib

import numpy as np

from acclimate.statistics.variance import Resampled


def resampled(
    name: str,
    *,
    gain: float = 0.0,
    seeds: int = 5,
    rows: int = 300,
    spread: float = 0.02,
    adaptations: tuple[int, ...] = (),
) -> Resampled:
    """Normal scores around .7: of rows that are hard for all or for this contestant, of seeds, and of each answer."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    hard_n = np.random.default_rng(0).normal(0, 0.35, rows)
    scores_Sn = 0.7 + gain + hard_n + generator.normal(0, 0.2, rows) + generator.normal(0, 0.1, (seeds, rows))
    scores_Sn = scores_Sn + generator.normal(0, spread, (seeds, 1))
    points_S = scores_Sn.mean(axis=1)
    return Resampled(name, tuple(range(seeds)), points_S, scores_Sn - points_S[:, None], 0.0, adaptations)
