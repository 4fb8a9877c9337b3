"""A row's positive view against all other rows: the contrastive loss of DGA (Ke et al., 2022, Eq. 15) and of SimCSE.

Gao et al. (2021), "SimCSE: Simple Contrastive Learning of Sentence Embeddings", Eq. 4, is the same without negatives of
their own. Eq. 15 prints e^sim / tau; e^(sim / tau), as in its released code and in SimCSE, is what we take it to mean.

Shape suffixes: B rows of the step, V views of a row, D numbers of a view, C candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def contrast(views_BVD: Tensor, temperature: float) -> Tensor:
    """The sum over rows m of Eq. 15, a float32 scalar, sim being the cosine:

        -log( e^(sim(o_m, o+_m) / tau)  /  sum over rows j of ( e^(sim(o_m, o+_j) / tau) + e^(sim(o_m, o-_j) / tau) ) )

    views_BVD    o_m, o+_m and, where each row has more views, its negatives: o-_m
    temperature  tau, above 0
    """
    with torch.autocast(views_BVD.device.type, enabled=False):
        anchors_BD, *others = nn.functional.normalize(views_BVD.float(), dim=-1).unbind(1)
        similarity_BC = anchors_BD @ torch.cat(others).T
        positives_B = torch.arange(len(views_BVD), device=views_BVD.device)
        return nn.functional.cross_entropy(similarity_BC / temperature, positives_B, reduction="sum")
