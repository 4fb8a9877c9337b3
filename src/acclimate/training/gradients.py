"""Compute the gradient of a step: its batch goes through the model piece by piece, over all processes.

    loss = sum over terms of weight * (sum of the term over all rows of the step) / (count of the whole step)

Each piece adds the share of its sums to the gradient, so the division into pieces and processes never changes it. Where
a loss compares rows of several pieces, gradient caching keeps it so (`_compare`).

Shape suffixes: B rows of the step, R rows of a piece, V views of a row, D numbers of a view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from acclimate.core import ranks
from acclimate.core.types import Batch, NotFiniteError
from acclimate.training.kernels import arithmetic, attends_by_row
from acclimate.training.objective import VIEWS, Objective, cut
from acclimate.training.pieces import Layout, order_rows, pack, pad, together
from acclimate.training.plan import Plan, coupled_tokens
from acclimate.training.shards import is_sharded, let_go

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

WAY_OUT = "Lower the rate, lengthen the warm-up, or check these texts. The last saved state is from before this step."
OF_FIRST = "No weight has changed yet: check these texts and the weights of {}, which may be damaged."


def layouts_of(objective: Objective, batch: Batch, plan: Plan, where: torch.device) -> list[Layout]:
    """Return the layouts of the step's pieces, of at most `piece_tokens`, or `coupled_tokens` if rows are compared."""
    if not objective.couples_rows:
        return cut(objective, batch.lengths, plan, where)
    most = coupled_tokens(plan, where)
    if objective.shares_lines:
        return pack(batch.lengths, most, by_row=attends_by_row(plan, where))
    # several pieces need gradient caching, whose second forward pass costs more than the padding that they save
    whole = together(batch.lengths)
    return [whole] if whole.tokens <= most else cut(objective, batch.lengths, plan, where)


def config_of(objective: Objective) -> PreTrainedConfig | None:
    """Return the configuration of the encoder that an objective trains; None if it trains another module."""
    from transformers import PreTrainedModel  # takes seconds, which a dry run does without

    configs = [module.config for module in objective.modules() if isinstance(module, PreTrainedModel)]
    return configs[0] if configs else None


def accumulate(
    objective: Objective,
    batch: Batch,
    pieces: list[Layout],
    plan: Plan,
    *,
    step: int,
    where: torch.device,
    scaler: torch.amp.GradScaler | None = None,
) -> dict[str, float]:
    """Leave the step's whole gradient, times the scale, on the parameters and return each term's mean over the step."""
    objective.train()
    counts = {term: max(1, count) for term, count in objective.counts(batch).items()}
    turns = _turns(objective, len(pieces))
    sums: list[tuple[np.ndarray, dict[str, Tensor]]] = []  # (rows, sum of each term over these rows)
    gradient_BVD = last_terms = None
    if objective.couples_rows and len(pieces) > 1:
        if ranks.world() == 1:
            turns.sort(key=lambda turn: pieces[turn[0]].tokens)  # the largest one is last, and is kept
        gradient_BVD, compared, last_terms = _compare(
            objective, batch, pieces, turns, plan, counts=counts, step=step, where=where
        )
        sums.append((np.arange(len(batch)), {term: value * ranks.is_first() for term, value in compared.items()}))
        turns = turns if last_terms is None else turns[::-1]  # what is kept comes first: its memory is free then
    for turn, (index, share) in enumerate(turns):
        if ranks.world() > 1:
            # gradients meet once a step: only the last backward pass averages what all of them left
            objective.set_requires_gradient_sync(turn == len(turns) - 1)  # type: ignore[operator]
        rows_R = pieces[index].rows_R
        cached: list[Tensor] = []
        if turn == 0 and last_terms is not None:
            terms, last_terms = last_terms, None
        else:
            with _noise(plan, step, index, where):
                terms = objective(pad(batch, pieces[index], where))
        if objective.couples_rows:
            views_RVD = terms.pop(VIEWS)
            if gradient_BVD is None:  # the piece is the whole step
                terms |= objective.compared(order_rows([views_RVD], [pieces[index]], len(batch)))
            else:
                cached = [(views_RVD * gradient_BVD[torch.from_numpy(rows_R).to(where)]).sum()]
        loss = torch.stack([*_weighted(objective, terms, counts), *cached]).sum()
        # the step's gradient is a sum over processes, but replicate and fully_shard average: hence the factor
        loss = loss * (share * ranks.world())
        (loss if scaler is None else scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]
        sums.append((rows_R, {term: value.detach() * share for term, value in terms.items()}))
    let_go(objective)
    return mean_losses(objective, batch, sums, counts=counts, step=step)


def _compare(
    objective: Objective,
    batch: Batch,
    pieces: list[Layout],
    turns: list[tuple[int, float]],
    plan: Plan,
    *,
    counts: dict[str, int],
    step: int,
    where: torch.device,
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor] | None]:
    """Return the gradient of the coupled terms at the views of all rows, (B, V, D), the sums of these terms, and what
    the objective makes of the last turn's piece, with its graph; None where several processes share the pieces.

    Gradient caching (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"): all
    pieces and processes first make their views without gradient. `accumulate` then sends each piece through the model
    again, under the same noise, and differentiates sum(views * this gradient), which is the chain rule. The graph of
    one piece fits into memory, so the largest one keeps it and goes through the model once. Not where gradients of
    several processes meet: torch decides in a forward pass whether those of the next backward pass do.
    """
    if plan.compile:
        raise ValueError(
            f"{type(objective).__name__} compares the rows of a batch with each other. A batch in {len(pieces)} "
            "pieces needs two passes with the same dropout, which compiled code cannot repeat. Set compile=false, "
            f"or piece_tokens to at least {len(batch) * int(batch.lengths.max())}"
        )
    views, last_terms = [], None
    for turn, (index, share) in enumerate(turns):
        piece = pad(batch, pieces[index], where)
        if turn == len(turns) - 1 and ranks.world() == 1:
            with _noise(plan, step, index, where):
                last_terms = objective(piece)
            views.append(last_terms[VIEWS].detach())
        else:
            with torch.no_grad(), _noise(plan, step, index, where):
                views.append(objective.views(piece) * share)
    views_BVD = ranks.added(order_rows(views, [pieces[index] for index, _ in turns], len(batch)))
    finite_B = views_BVD.isfinite().flatten(1).all(1).cpu().numpy()
    if not finite_B.all():
        named = batch.take(np.flatnonzero(~finite_B))
        raise NotFiniteError(f"step {step + 1}: views are not finite. {name_texts(named)} {way_out(objective, step)}")
    compared = objective.compared(views_BVD.requires_grad_())
    (gradient_BVD,) = torch.autograd.grad(_weighted(objective, compared, counts), views_BVD)
    return gradient_BVD, {term: value.detach() for term, value in compared.items()}, last_terms


def _turns(objective: Objective, pieces: int) -> list[tuple[int, float]]:
    """Return the pieces that this process takes, each with its weight.

    All processes must take part in averaging gradients, so one that gets no piece repeats the first with weight 0;
    cutting more finely for more processes would change which dropout noise a row meets. If the objective is sharded,
    all must take part in each pass, so a process with a piece fewer than others repeats the last with weight 0.
    """
    turns = [(index, 1.0) for index in range(ranks.rank(), pieces, ranks.world())]
    if is_sharded(objective):
        return turns + [(pieces - 1, 0.0)] * (-(-pieces // ranks.world()) - len(turns))
    return turns or [(0, 0.0)]


@contextmanager
def _noise(plan: Plan, step: int, piece: int, where: torch.device) -> Iterator[None]:
    """In the block, draw the piece's dropout and use the plan's precision; the caller's generators do not advance."""
    with noise(plan.seed, step, piece, where), arithmetic(plan, where):
        yield


def _weighted(objective: Objective, sums: dict[str, Tensor], counts: dict[str, int]) -> list[Tensor]:
    """Return what each term adds to the loss of the step."""
    return [objective.weights[term] * value / counts[term] for term, value in sums.items()]


def mean_losses(
    objective: Objective,
    batch: Batch,
    sums: list[tuple[np.ndarray, dict[str, Tensor]]],
    *,
    counts: dict[str, int],
    step: int,
) -> dict[str, float]:
    """Return each term's mean over the whole step. Raises NotFiniteError in all processes if one has a bad term."""
    terms = list(objective.weights)
    none = torch.zeros((), device=next(iter(sums[0][1].values())).device)
    table = torch.stack(
        [torch.stack([_double(sums_of_terms.get(term, none)) for term in terms]) for _, sums_of_terms in sums]
    ).cpu()
    totals = ranks.total(table.sum(0).tolist())
    if not all(map(math.isfinite, totals)):
        bad = [rows for (rows, _), values in zip(sums, table, strict=True) if not values.isfinite().all()]
        named = batch.take(np.concatenate(bad)) if bad else batch
        listing = ", ".join(f"{term} = {value}" for term, value in zip(terms, totals, strict=True))
        raise NotFiniteError(
            f"step {step + 1}: the loss is not finite ({listing}). {name_texts(named)} {way_out(objective, step)}"
        )
    return {term: value / counts[term] for term, value in zip(terms, totals, strict=True)}


def _double(value: Tensor) -> Tensor:
    return (value.cpu() if value.device.type == "mps" else value).double()  # a Mac's GPU has no float64


@contextmanager
def noise(seed: int, step: int, piece: int, where: torch.device) -> Iterator[None]:
    """In the block, draw the dropout of a piece; the caller's generators do not advance."""
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        # torch.manual_seed would also keep a call, with its stack as text, for each kind of device that is absent
        torch.default_generator.manual_seed(noise_seed(seed, step, piece))
        if where.type != "cpu":
            getattr(torch, where.type).manual_seed(noise_seed(seed, step, piece))
        yield


def noise_seed(seed: int, step: int, piece: int) -> int:
    """Return the seed of a piece's dropout."""
    return int(np.random.SeedSequence([seed, step, piece]).generate_state(1, np.uint64)[0] >> 1)


def way_out(objective: Objective, step: int) -> str:
    """Return what to do about a loss or gradient that is not finite. At step 0 the weights are as they were given."""
    if step > 0:
        return WAY_OUT
    config = config_of(objective)
    return OF_FIRST.format((config and config.name_or_path) or "the model")


def name_texts(batch: Batch, most: int = 8) -> str:
    """Return a sentence that names the first texts of a batch."""
    names = [str(name) for name in batch.names[:most]]
    more = f" and {len(batch) - most} more" if len(batch) > most else ""
    return f"The texts: {', '.join(names) or 'unnamed'}{more}."
