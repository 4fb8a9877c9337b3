"""The one training loop, a generator: whatever else a run does (log, evaluate, save, stop) is the caller's own code."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed._composable.replicate import replicate

from acclimate.core import ranks
from acclimate.core.types import Batch, Stream
from acclimate.training.memory import keep_freed_memory
from acclimate.training.objective import VIEWS, Objective
from acclimate.training.pieces import Layout, cut, in_order, pack, pad, together
from acclimate.training.plan import Plan, autocast_type, device, piece_tokens


@dataclass(frozen=True)
class Step:
    """What one optimiser step did. losses are means over the step; the first line of figures is the same on every run,
    the second is the clock's.
    """

    number: int  # steps finished, from 1
    loss: float
    losses: dict[str, float]
    gradient: float  # L2 norm before clipping
    rate: float
    tokens: int
    flops: float
    padded: int  # tokens of padding that went through the model beside the real ones
    seconds: float
    waited: float  # of these, seconds spent waiting for the batch


class NotFiniteError(ValueError):
    """A loss or gradient that is not finite. The weights are still those of the step before."""


def adamw(objective: Objective, plan: Plan) -> torch.optim.AdamW:
    """AdamW over every trainable parameter; biases and normalisation (vectors) are not decayed, as in BERT.

    A group's "multiple" is that of its parameters' rate (`Objective.rate_multiple`).
    """
    trainable = [(name, parameter) for name, parameter in objective.named_parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = []
    for multiple in sorted({objective.rate_multiple(name) for name, _ in trainable}):
        alike = [parameter for name, parameter in trainable if objective.rate_multiple(name) == multiple]
        groups += [
            {"params": [p for p in alike if p.ndim >= 2], "weight_decay": plan.weight_decay, "multiple": multiple},
            {"params": [p for p in alike if p.ndim < 2], "weight_decay": 0.0, "multiple": multiple},
        ]
    betas = (plan.beta_1, plan.beta_2)
    return torch.optim.AdamW(groups, lr=plan.rate, betas=betas, eps=plan.epsilon, fused=True)


def train(
    objective: Objective, stream: Stream, plan: Plan, optimiser: torch.optim.Optimizer, *, start: int = 0
) -> Iterator[Step]:
    """Train from step `start` to `plan.steps`, yielding after each step.

    The objective and the optimiser are changed in place and belong to the caller between steps. Dropout is seeded by
    (plan.seed, step, piece), so a run needs no generator state to go on as if it had never stopped, and pieces fall to
    processes without changing the noise. Under torchrun each process trains on its share of the step's pieces. Where
    the objective couples rows, each is compared with all others of the step, however that is cut.

    Raises NotFiniteError where a loss or gradient is not finite, before the weights move.
    """
    where = device()
    if where.type == "cpu":
        keep_freed_memory()
    objective.to(where)
    if ranks.world() > 1:
        replicate(objective)
    if plan.compile:
        objective.compile(dynamic=True)
    trainable = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    with ThreadPoolExecutor(1, thread_name_prefix="stream") as ahead:
        waiting = ahead.submit(stream, start) if start < plan.steps else None
        for step in range(start, plan.steps):
            begun = time.perf_counter()
            assert waiting is not None
            batch = waiting.result()
            waited = time.perf_counter() - begun
            waiting = ahead.submit(stream, step + 1) if step + 1 < plan.steps else None

            pieces = _pieces(objective, batch, piece_tokens(plan, where))
            losses = _accumulate(objective, batch, pieces, plan, step=step, where=where)
            objective.on_gradients()
            norm = float(nn.utils.clip_grad_norm_(trainable, plan.clip or math.inf))
            if not math.isfinite(norm):
                raise NotFiniteError(f"step {step + 1}: the gradient is {norm}. {_documents(batch)} {_WAY_OUT}")
            for group in optimiser.param_groups:
                group["lr"] = plan.rate_at(step) * group.get("multiple", 1.0)
            optimiser.step()
            optimiser.zero_grad()
            objective.on_update()
            yield Step(
                number=step + 1,
                loss=sum(objective.weights[term] * value for term, value in losses.items()),
                losses=losses,
                gradient=norm,
                rate=plan.rate_at(step),
                tokens=len(batch.ids),
                flops=objective.flops(batch),
                padded=sum(piece.tokens for piece in pieces) - len(batch.ids),
                seconds=time.perf_counter() - begun,
                waited=waited,
            )


_WAY_OUT = "Lower the rate, lengthen the warm-up, or look at these texts; the last saved state is from before."


def _pieces(objective: Objective, batch: Batch, most: int) -> list[Layout]:
    """How the rows of the step lie in its pieces."""
    if objective.shares_lines:
        return pack(batch.lengths, most)
    whole = together(batch.lengths)
    # caching takes another forward pass, which costs more than cutting saves of padding
    return [whole] if objective.couples_rows and whole.tokens <= most else cut(batch.lengths, most)


def _accumulate(
    objective: Objective, batch: Batch, pieces: list[Layout], plan: Plan, *, step: int, where: torch.device
) -> dict[str, float]:
    """Leave the step's whole gradient on the parameters; return each term's mean over the step."""
    objective.train()
    counts = {term: max(1, count) for term, count in objective.counts(batch).items()}
    turns = _turns(len(pieces))
    sums: list[tuple[np.ndarray, dict[str, Tensor]]] = []  # with the rows that they are of
    gradient_BVD = None
    if objective.couples_rows and len(pieces) > 1:
        gradient_BVD, compared = _compare(objective, batch, pieces, plan, counts=counts, step=step, where=where)
        sums.append((np.arange(len(batch)), {term: value * ranks.is_first() for term, value in compared.items()}))
    for turn, (index, share) in enumerate(turns):
        if ranks.world() > 1:
            # gradients meet once a step: only the last backward pass averages what all of them left
            objective.set_requires_gradient_sync(turn == len(turns) - 1)  # type: ignore[operator]
        rows_R = pieces[index].rows_R
        along: list[Tensor] = []
        with _noise(plan, step, index, where):
            terms = objective(pad(batch, pieces[index], where))
        if objective.couples_rows:
            views_RVD = terms.pop(VIEWS)
            if gradient_BVD is None:
                terms |= objective.compared(in_order([views_RVD], [pieces[index]], len(batch)))
            else:
                along = [(views_RVD * gradient_BVD[torch.from_numpy(rows_R).to(where)]).sum()]
        loss = torch.stack([*_weighted(objective, terms, counts), *along]).sum()
        # replicate averages over processes, the step's gradient is a sum: hence the factor
        (loss * (share * ranks.world())).backward()  # type: ignore[no-untyped-call]
        sums.append((rows_R, {term: value.detach() * share for term, value in terms.items()}))
    return _means(objective, batch, sums, counts=counts, step=step)


def _compare(
    objective: Objective,
    batch: Batch,
    pieces: list[Layout],
    plan: Plan,
    *,
    counts: dict[str, int],
    step: int,
    where: torch.device,
) -> tuple[Tensor, dict[str, Tensor]]:
    """(B, V, D) gradient of the terms that couple rows at the views of all rows, and the sums of these terms.

    Gradient caching (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"): the
    views of all pieces and processes are made without gradient; each piece then goes through the model again, under the
    same noise, and what it gives to the parameters is the gradient of sum(views * this one).
    """
    if plan.compile:
        raise ValueError(
            f"{type(objective).__name__} compares the rows of a batch with each other, so one cut into {len(pieces)} "
            "pieces goes through the model twice under the same dropout, which compiled code does not draw again. Set "
            f"compile=false, or piece_tokens to at least {len(batch) * int(batch.lengths.max())}"
        )
    turns = _turns(len(pieces))
    views = []
    for index, share in turns:
        with torch.no_grad(), _noise(plan, step, index, where):
            views.append(objective.views(pad(batch, pieces[index], where)) * share)
    views_BVD = ranks.added(in_order(views, [pieces[index] for index, _ in turns], len(batch)))
    finite_B = views_BVD.isfinite().flatten(1).all(1).cpu().numpy()
    if not finite_B.all():
        named = batch.take(np.flatnonzero(~finite_B))
        raise NotFiniteError(f"step {step + 1}: views are not finite. {_documents(named)} {_WAY_OUT}")
    compared = objective.compared(views_BVD.requires_grad_())
    (gradient_BVD,) = torch.autograd.grad(_weighted(objective, compared, counts), views_BVD)
    return gradient_BVD, {term: value.detach() for term, value in compared.items()}


def _turns(pieces: int) -> list[tuple[int, float]]:
    """The pieces that this process takes, and with what weight.

    A process without a piece of its own repeats the first with weight 0: all must take part in averaging gradients, and
    cutting more finely for more processes would change which dropout noise a row meets.
    """
    return [(index, 1.0) for index in range(ranks.rank(), pieces, ranks.world())] or [(0, 0.0)]


@contextmanager
def _noise(plan: Plan, step: int, piece: int, where: torch.device) -> Iterator[None]:
    """The dropout of a piece, and the plan's precision; the caller's generators are left alone."""
    narrow = autocast_type(plan.precision, where)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(noise_seed(plan.seed, step, piece))
        with torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
            yield


def _weighted(objective: Objective, sums: dict[str, Tensor], counts: dict[str, int]) -> list[Tensor]:
    """What each term adds to the loss of the step."""
    return [objective.weights[term] * value / counts[term] for term, value in sums.items()]


def _means(
    objective: Objective,
    batch: Batch,
    sums: list[tuple[np.ndarray, dict[str, Tensor]]],
    *,
    counts: dict[str, int],
    step: int,
) -> dict[str, float]:
    """Each term's mean over the whole step; all processes stop together where one has a term that is not finite."""
    terms = list(objective.weights)
    none = torch.zeros((), device=next(iter(sums[0][1].values())).device)
    table = torch.stack([torch.stack([found.get(term, none).double() for term in terms]) for _, found in sums]).cpu()
    totals = ranks.total(table.sum(0).tolist())
    if not all(map(math.isfinite, totals)):
        bad = [rows for (rows, _), values in zip(sums, table, strict=True) if not values.isfinite().all()]
        named = batch.take(np.concatenate(bad)) if bad else batch
        stated = ", ".join(f"{term} = {value}" for term, value in zip(terms, totals, strict=True))
        raise NotFiniteError(f"step {step + 1}: the loss is not finite ({stated}). {_documents(named)} {_WAY_OUT}")
    return {term: value / counts[term] for term, value in zip(terms, totals, strict=True)}


def noise_seed(seed: int, step: int, piece: int) -> int:
    """The seed of the dropout noise of a piece."""
    return int(np.random.SeedSequence([seed, step, piece]).generate_state(1, np.uint64)[0] >> 1)


def _documents(batch: Batch, most: int = 8) -> str:
    names = [str(name) for name in batch.names[:most]]
    more = f" and {len(batch) - most} more" if len(batch) > most else ""
    return f"The texts: {', '.join(names) or 'unnamed'}{more}."
