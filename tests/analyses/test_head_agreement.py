import itertools

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr

from acclimate.analyses.head_agreement import (
    HEAVILY,
    Chance,
    agreements,
    correlate_others,
    noise_figures,
    share_between,
)
from acclimate.methods.importance import normalised

pytestmark = pytest.mark.usefixtures("plots")

DOMAINS, LAYERS, HEADS = 3, 4, 5


@pytest.fixture(scope="module")
def importance() -> torch.Tensor:
    """(K, L, H) a common part and a part of each domain, layers of different size."""
    generator = torch.Generator().manual_seed(3)
    common_LH = torch.rand(LAYERS, HEADS, generator=generator) * torch.tensor([[1.0], [3.0], [9.0], [2.0]])
    return common_LH + torch.rand(DOMAINS, LAYERS, HEADS, generator=generator)


def halves_of(importance_KLH: torch.Tensor) -> torch.Tensor:
    return torch.stack([importance_KLH, importance_KLH**2], dim=1)


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first.ravel() @ second.ravel() / np.linalg.norm(first) / np.linalg.norm(second))


def test_a_domain_has_its_mean_cosine_section_4_3_and_spearman_s_correlation_with_every_other_one(importance):
    found = agreements(importance, halves_of(importance), "paper", "layer", seed=0)
    protected = [normalised(each).numpy().astype(np.float64) for each in importance]
    flat = importance.flatten(1).numpy()
    inside = [np.stack([rankdata(layer) for layer in each.numpy()]) for each in importance]
    for number in range(DOMAINS):
        others = [other for other in range(DOMAINS) if other != number]
        expected = np.mean([cosine(protected[number], protected[other]) for other in others])
        assert found["normalised"][number].others == pytest.approx(expected, abs=1e-6)
        raw = np.mean([cosine(importance[number].numpy(), importance[other].numpy()) for other in others])
        assert found["raw"][number].others == pytest.approx(raw, abs=1e-6)
        expected = np.mean([spearmanr(flat[number], flat[other]).statistic for other in others])
        assert found["rank"][number].others == pytest.approx(expected, abs=1e-6)
        pooled = np.mean([np.corrcoef(inside[number].ravel(), inside[other].ravel())[0, 1] for other in others])
        assert found["rank in layers"][number].others == pytest.approx(pooled, abs=1e-6)
        assert found["rank"][number].halves == pytest.approx(1)  # squares have the same order


def test_shuffled_cosines_have_the_mean_over_all_orders():
    """Two layers of three heads: 6 x 6 orders of the one domain against the other, exactly."""
    generator = torch.Generator().manual_seed(0)
    importance_KLH = torch.rand(2, 2, 3, generator=generator)
    found = agreements(importance_KLH, halves_of(importance_KLH), "paper", "layer", seed=0)["normalised"][0]
    first, second = (normalised(each).numpy() for each in importance_KLH)
    orders = [list(order) for order in itertools.permutations(range(3))]
    exact = [cosine(np.stack([first[0, a], first[1, b]]), second) for a in orders for b in orders]
    assert found.shuffled.mean == pytest.approx(np.mean(exact), abs=0.005)
    assert min(exact) - 1e-6 <= found.shuffled.low < found.shuffled.high <= max(exact) + 1e-6


def test_domains_that_have_only_layers_in_common_agree_by_layers_alone():
    generator = torch.Generator().manual_seed(0)
    sizes = torch.arange(1, 13)[:, None] * 10
    importance_KLH = sizes + torch.rand(3, 12, 12, generator=generator)
    found = agreements(importance_KLH, halves_of(importance_KLH), "paper", "layer", seed=0)
    for rank, inside in zip(found["rank"], found["rank in layers"], strict=True):
        assert rank.others > 0.98
        assert rank.shuffled.low < 0 < rank.shuffled.high < 0.3
        assert inside.shuffled.low < inside.others < inside.shuffled.high


def test_normal_noise_looks_like_the_paper_s_evidence():
    """12 layers of 12 heads, as in RoBERTa-base: .79, and 27% and 22% of the heads."""
    found = noise_figures(6, 12, 12, "paper", "layer", seed=0)
    assert found.cosine.mean == pytest.approx(0.79, abs=0.005)
    assert found.heavily.mean == pytest.approx(0.27, abs=0.01)
    assert found.moderately.mean == pytest.approx(0.22, abs=0.01)
    assert found == noise_figures(6, 12, 12, "paper", "layer", seed=0)
    assert found != noise_figures(6, 12, 12, "paper", "layer", seed=1)


@pytest.mark.parametrize("over", ["layer", "model"])
@pytest.mark.parametrize("how", ["paper", "min-max", "rank"])
def test_every_normalisation_has_its_chance(importance, how, over, monkeypatch):
    monkeypatch.setattr("acclimate.analyses.head_agreement.DRAWS", 50)
    found = agreements(importance, halves_of(importance), how, over, seed=0)["normalised"]
    expected = correlate_others(torch.stack([normalised(each, how, over=over) for each in importance]))
    assert [each.others for each in found] == pytest.approx(expected.tolist())
    assert all(each.shuffled.low < each.shuffled.mean < each.shuffled.high < 1 for each in found)
    assert 0 < noise_figures(3, LAYERS, HEADS, how, over, seed=0).cosine.mean < 1


def test_limits_count_to_the_upper_share():
    assert float(share_between(torch.tensor([[0.8, 1.0], [0.79, 0.6]]), *HEAVILY)) == 0.5
    assert float(share_between(torch.tensor([[0.8, 1.0], [0.79, 0.6]]), 0.6, 0.8)) == 0.5


def test_chance_is_a_mean_and_what_holds_95_percent():
    assert Chance.from_draws(torch.arange(1001.0)) == Chance(500.0, 25.0, 975.0)
