"""The losses of an objective on batches that nobody trains on."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from acclimate.core.types import Batch
from acclimate.training.objective import VIEWS, Objective
from acclimate.training.pieces import cut, in_order, pack, pad
from acclimate.training.plan import Plan, autocast_type, device, piece_tokens


@torch.no_grad()
def measure(objective: Objective, batches: Iterable[Batch], plan: Plan | None = None) -> dict[str, float]:
    """Each term's mean over all batches, without dropout; the plan says in what precision, and in what pieces.

    The objective is left in evaluation mode. A term that no batch has anything for is 0.
    """
    plan, where = plan or Plan(), device()
    objective.to(where).eval()
    narrow = autocast_type(plan.precision, where)
    sums, counts = dict.fromkeys(objective.weights, 0.0), dict.fromkeys(objective.weights, 0)
    for batch in batches:
        layouts = (pack if objective.shares_lines else cut)(batch.lengths, piece_tokens(plan, where))
        views = []
        for layout in layouts:
            with torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
                terms = objective(pad(batch, layout, where))
            if objective.couples_rows:
                views.append(terms.pop(VIEWS))
            for term, value in terms.items():
                sums[term] += float(value)
        if objective.couples_rows:
            for term, value in objective.compared(in_order(views, layouts, len(batch))).items():
                sums[term] += float(value)
        for term, count in objective.counts(batch).items():
            counts[term] += count
    return {term: sums[term] / max(1, counts[term]) for term in sums}
