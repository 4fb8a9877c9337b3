"""How alike the importances of heads are in several domains, and how alike they would be by chance.

Every figure is a cosine between two importances in one of VIEWS: normalised (Ke et al., 2022, Eq. 10), raw, or ranks.
The cosine of ranks less their mean is Spearman's correlation, which is 0 by chance. A cosine of positive numbers is
large whatever they are, so beside each figure stands that of shuffled importances: the same values in random order,
among the heads that the view compares.

Shape suffixes: K domains, L layers, H heads, N draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from acclimate.methods.importance import normalised
from acclimate.methods.recipes.dga import How, Over

DRAWS = 1000  # random orders, and draws of noise, from which chance is computed
HEAVILY, MODERATELY = (0.8, torch.inf), (0.6, 0.8)  # I^norm of protected heads, from and to (section 4.3)

View = Literal["normalised", "raw", "rank", "rank in layers"]
VIEWS: tuple[View, ...] = ("normalised", "raw", "rank", "rank in layers")


@dataclass(frozen=True)
class Chance:
    """The mean of a figure over draws, and the interval that 95% of them lie in."""

    mean: float
    low: float
    high: float

    @classmethod
    def from_draws(cls, draws_N: Tensor) -> Chance:
        low, high = draws_N.double().quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        return cls(float(draws_N.double().mean()), low, high)


@dataclass(frozen=True)
class Agreement:
    """How alike one domain's importances are to others, in one view.

    others    mean cosine with each other domain
    shuffled  the same of shuffled importances
    halves    cosine between the importances that the two halves of its texts give
    """

    others: float
    shuffled: Chance
    halves: float


@dataclass(frozen=True)
class NoiseFigures:
    """The figures that normal noise gives in place of importances.

    cosine               mean cosine of a domain with the others, after normalisation
    heavily, moderately  shares of the heads that would be protected heavily or moderately
    """

    cosine: Chance
    heavily: Chance
    moderately: Chance


def agreements(
    importance_KLH: Tensor, halves_K2LH: Tensor, how: How, over: Over, *, seed: int
) -> dict[View, list[Agreement]]:
    """Return view -> the agreement of each domain, in order. how, over: as for `normalised`; seed: of the draws."""
    by_view: dict[View, list[Agreement]] = {}
    for view in VIEWS:
        seen_KLH = _seen(importance_KLH, view, how, over)
        others_K = correlate_others(seen_KLH)
        shuffled_NK = correlate_others(_shuffled(seen_KLH, _scope(view, over), seed))
        halves = [float(correlate_others(_seen(halves_2LH, view, how, over))[0]) for halves_2LH in halves_K2LH]
        by_view[view] = [
            Agreement(float(others), Chance.from_draws(draws_N), alike)
            for others, draws_N, alike in zip(others_K, shuffled_NK.T, halves, strict=True)
        ]
    return by_view


def noise_figures(domains: int, layers: int, heads: int, how: How, over: Over, *, seed: int) -> NoiseFigures:
    """Return the figures of normal noise, for this number of domains, layers and heads."""
    values = torch.randn(DRAWS, domains, layers, heads, generator=torch.Generator().manual_seed(seed))
    groups = normalised(values.reshape(-1, heads if over == "layer" else layers * heads), how)
    normalised_NKLH = groups.reshape(values.shape)
    return NoiseFigures(
        Chance.from_draws(correlate_others(normalised_NKLH)[:, 0]),
        *(Chance.from_draws(share_between(normalised_NKLH[:, 0], *limits)) for limits in (HEAVILY, MODERATELY)),
    )


def correlate_others(seen_KLH: Tensor) -> Tensor:
    """(..., K) the mean cosine of each domain with the others. seen_KLH: (..., K, L, H), K at least 2."""
    directions = nn.functional.normalize(seen_KLH.double().flatten(-2), dim=-1)
    cosines_KK = directions @ directions.mT
    self_K = cosines_KK.diagonal(dim1=-2, dim2=-1)
    return (cosines_KK.sum(-1) - self_K) / (cosines_KK.shape[-1] - 1)


def share_between(normalised_LH: Tensor, low: float, high: float) -> Tensor:
    """(...) share of the heads with low <= I^norm < high."""
    return ((normalised_LH >= low) & (normalised_LH < high)).double().mean((-2, -1))


def _seen(importance_KLH: Tensor, view: View, how: How, over: Over) -> Tensor:
    if view == "raw":
        return importance_KLH
    if view == "normalised":
        return torch.stack([normalised(each_LH, how, over=over) for each_LH in importance_KLH])
    return torch.stack([normalised(each_LH, "rank", over=_scope(view, over)) for each_LH in importance_KLH]) - 0.5


def _scope(view: View, over: Over) -> Over:
    """Return the heads among which a view's values are shuffled or ranked: those of a layer, or of the model."""
    if view == "normalised":
        return over
    return "layer" if view == "rank in layers" else "model"


def _shuffled(seen_KLH: Tensor, among: Over, seed: int) -> Tensor:
    """(N, K, L, H) the values of each domain in random order, within each layer or over the model."""
    groups = seen_KLH if among == "layer" else seen_KLH.flatten(1)
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(DRAWS, *groups.shape, generator=generator).argsort(-1)
    return groups.expand(DRAWS, *groups.shape).gather(-1, order).reshape(DRAWS, *seen_KLH.shape)
