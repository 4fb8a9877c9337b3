"""The contrastive loss against its formula, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from acclimate.methods.dga import contrast

TAU = 0.05


def naive(views_BVD: np.ndarray, tau: float) -> float:
    """Eq. 15 as it is printed, but for e^(sim / tau), in float64."""

    def sim(one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))

    total = 0.0
    for m in range(len(views_BVD)):
        anchor = views_BVD[m, 0]
        below = 0.0
        for j in range(len(views_BVD)):
            for view in views_BVD[j, 1:]:
                below += np.exp(sim(anchor, view) / tau)
        total -= np.log(np.exp(sim(anchor, views_BVD[m, 1]) / tau) / below)
    return total


@pytest.mark.parametrize("views", [2, 3, 4])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_contrast_is_the_positives_share_of_all_candidates_eq_15(rows, views):
    """Vectors of very unequal length, so that a product in place of the cosine is far off."""
    generator = np.random.default_rng([rows, views])
    views_BVD = generator.normal(size=(rows, views, 6)) * generator.uniform(0.1, 10, size=(rows, views, 1))
    found = contrast(torch.from_numpy(views_BVD).float(), TAU)
    assert float(found) == pytest.approx(naive(views_BVD, TAU), rel=1e-4, abs=1e-5)


def test_gradient_goes_to_all_views():
    views_BVD = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    contrast(views_BVD, 1.0).backward()
    assert views_BVD.grad is not None
    assert (views_BVD.grad.norm(dim=-1) > 1e-4).all()


def test_loss_is_in_float32_under_autocast():
    views_BVD = torch.randn(4, 3, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = contrast(views_BVD, TAU)
    assert found.dtype == torch.float32
    assert torch.equal(found, contrast(views_BVD, TAU))
