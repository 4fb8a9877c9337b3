"""Objectives whose rows are compared with each other: a step that is cut learns what one that is not learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from acclimate.core.types import Batch
from acclimate.training import gradients
from acclimate.training.kernels import kernels
from acclimate.training.loop import NotFiniteError, adamw, train
from acclimate.training.objective import VIEWS, Objective, measure
from acclimate.training.pieces import Piece, order_rows, pad, pieces_of_rows
from acclimate.training.plan import Plan

PLAN = Plan(steps=1, batch=4, rate=1e-2, warmup=0.0, precision="float32", clip=0.0, piece_tokens=4)
CPU = torch.device("cpu")


class Apart(Objective):
    """A row is its mean embedding v, with dropout; i is its number in the batch.

    Term `apart`: the sum over pairs of rows of exp(-|i v_i - j v_j|^2 / 20). Term `long`: |v_i|, of each row alone.
    """

    couples_rows = True

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.embeddings = nn.Embedding(20, 5)
        self.dropout = nn.Dropout(dropout)
        self.weights = {"apart": 2.0, "long": 0.5}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"apart": len(batch), "long": len(batch)}

    def views(self, piece: Piece) -> Tensor:
        there_LW = piece.get("attention_mask", torch.ones_like(piece["input_ids"]))
        embedded_LWD = self.dropout(self.embeddings(piece["input_ids"])) * there_LW[:, :, None]
        return (embedded_LWD.sum(1) / there_LW.sum(1, keepdim=True))[:, None]

    def compared(self, views_BVD: Tensor) -> dict[str, Tensor]:
        numbered = views_BVD[:, 0] * torch.arange(1, 1 + len(views_BVD))[:, None]
        return {"apart": torch.exp(-(numbered[:, None] - numbered[None]).square().sum(-1) / 20).sum()}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        views_RVD = self.views(piece)
        return {"long": self.dropout(views_RVD).norm(dim=-1).sum(), VIEWS: views_RVD}

    def flops(self, batch: Batch) -> float:
        return 1.0


def rows(step: int) -> Batch:
    """Four rows of one to four ids, not in the order of their lengths."""
    ids = np.random.default_rng([1, step]).integers(0, 20, 10)
    return Batch(ids, np.array([0, 3, 4, 8, 10]), names=[f"document {step}.{row}" for row in range(4)])


def gradient_of_a_step(objective: Objective, batch: Batch, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """What the loop leaves on the parameters for the optimiser."""
    kept: list[Tensor] = []
    monkeypatch.setattr(
        objective, "on_gradients", lambda: kept.extend(weight.grad.clone() for weight in objective.parameters())
    )
    list(train(objective, lambda step: batch, plan, adamw(objective, plan)))
    return torch.cat([gradient.flatten() for gradient in kept])


def test_gradient_of_a_step_that_is_cut_is_that_of_one_graph_over_all_pieces_dropout_included(monkeypatch):
    """One graph that holds every piece, each under its noise: what caching does without."""
    batch, naive = rows(0), Apart(dropout=0.5).train()
    layouts = pieces_of_rows(batch.lengths, PLAN.piece_tokens)
    assert len(layouts) > 2
    views, long = [], torch.zeros(())
    for number, layout in enumerate(layouts):
        with torch.random.fork_rng(), kernels(PLAN, CPU):
            torch.manual_seed(gradients.noise_seed(PLAN.seed, 0, number))
            terms = naive(pad(batch, layout, CPU))
        views.append(terms[VIEWS])
        long = long + terms["long"]
    apart = naive.compared(order_rows(views, layouts, len(batch)))["apart"]
    (2.0 * apart / 4 + 0.5 * long / 4).backward()
    found = gradient_of_a_step(Apart(dropout=0.5), batch, PLAN, monkeypatch)
    torch.testing.assert_close(found, naive.embeddings.weight.grad.flatten(), rtol=1e-5, atol=1e-6)


def test_all_pieces_but_the_last_go_through_the_model_twice(monkeypatch):
    objective, calls = Apart(), []
    views = Apart.views
    monkeypatch.setattr(Apart, "views", lambda *given: calls.append(torch.is_grad_enabled()) or views(*given))
    gradient_of_a_step(objective, rows(0), PLAN, monkeypatch)
    pieces = len(pieces_of_rows(rows(0).lengths, PLAN.piece_tokens))
    assert pieces > 2
    assert calls == [False] * (pieces - 1) + [True] * pieces


def test_losses_are_means_over_the_step_and_the_same_however_it_is_cut():
    stated = []
    for most in (1, 4, 100):
        objective, plan = Apart(), replace(PLAN, piece_tokens=most)
        [step] = train(objective, rows, plan, adamw(objective, plan))
        stated.append(step.losses)
        assert step.loss == pytest.approx(2.0 * step.losses["apart"] + 0.5 * step.losses["long"])
    embedded = Apart().embeddings(torch.from_numpy(rows(0).ids)).detach()
    means = [embedded[first:last].mean(0) for first, last in ((0, 3), (3, 4), (4, 8), (8, 10))]
    numbered = [number * mean for number, mean in enumerate(means, 1)]
    apart = sum(float(torch.exp(-(one - other).square().sum() / 20)) for one in numbered for other in numbered)
    for losses in stated:
        assert losses["apart"] == pytest.approx(apart / 4, rel=1e-5)
        assert losses["long"] == pytest.approx(sum(float(mean.norm()) for mean in means) / 4, rel=1e-5)


def test_losses_without_training_are_compared_over_a_batch_too():
    batches = [rows(0), rows(1)]
    found = [measure(Apart(dropout=0.5), batches, replace(PLAN, piece_tokens=most)) for most in (1, 4, 100)]
    objective = Apart()
    alone = []
    for batch in batches:
        [step] = train(objective, lambda step, batch=batch: batch, replace(PLAN, rate=1e-30), adamw(objective, PLAN))
        alone.append(step.losses)
    for term in ("apart", "long"):
        assert [losses[term] for losses in found] == pytest.approx(
            3 * [(alone[0][term] + alone[1][term]) / 2], rel=1e-5
        )


def test_only_rows_whose_views_are_not_finite_are_named(monkeypatch):
    objective = Apart()
    batch = rows(0)
    objective.embeddings.weight.data[batch.ids[3]] = float("nan")
    ill = [f"document 0.{row}" for row in range(4) if batch.ids[3] in batch.take(np.array([row])).ids]
    with pytest.raises(NotFiniteError) as caught:
        list(train(objective, rows, PLAN, adamw(objective, PLAN)))
    assert str(caught.value).startswith("step 1: views are not finite. The texts: ")
    assert [f"document 0.{row}" for row in range(4) if f"document 0.{row}" in str(caught.value)] == ill
    assert len(ill) < 4


def test_a_step_that_is_cut_is_not_compiled_and_one_that_fits_is_not_cut():
    plan = replace(PLAN, compile=True)
    with pytest.raises(ValueError, match=r"Apart compares .* Set compile=false, or piece_tokens to at least 16$"):
        gradients.accumulate(Apart(), rows(0), pieces_of_rows(rows(0).lengths, 4), plan, step=0, where=CPU)
    objective = Apart()
    plan = replace(PLAN, piece_tokens=16)
    [step] = train(objective, rows, plan, adamw(objective, plan))
    assert step.padded == 16 - 10
