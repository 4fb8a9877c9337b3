"""Runs in a stack: each gets what it gets alone, whatever happens to the others, and only what can be stacked is."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import conformance
from acclimate.core.types import Batch, NotFiniteError
from acclimate.methods.task_loss import TaskLoss
from acclimate.training import stacked
from acclimate.training.loop import Step, adamw, train
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, Precision
from acclimate.training.side_by_side import Run, SideBySide
from acclimate.training.stacked import can_stack

PLAN = Plan(steps=20, batch=conformance.ROWS, rate=1e-3, warmup=0.1, clip=0.5, precision="float32")
# a state of each row, of tagged words, of all tokens, of two mentions, and the four ways to lay out embeddings
STACKED = ("task", "task, tags", "task, spans", "task, starts of mentions, roberta", "electra", "distilbert")


class Fit:
    """A run of a case: weights, rows, rate and first step of its own."""

    def __init__(
        self, case: conformance.Case, number: int, dropout: float = 0.0, precision: Precision = "float32"
    ) -> None:
        self.objective, self.steps, self.error = case.objective(dropout), list[Step](), None
        generator = torch.Generator().manual_seed(number)
        for module in self.objective.modules():
            if isinstance(module, nn.Dropout):  # also those that a family's config does not call dropout
                module.p = dropout
        with torch.no_grad():
            for weight in self.objective.parameters():
                weight.add_(0.02 * torch.randn(weight.shape, generator=generator))
        self.plan = replace(PLAN, rate=PLAN.rate * (1 + number), seed=number, precision=precision)
        self.start, self.stream = 2 * number, lambda step: case.stream(100 * number + step)

    def __call__(self, _: Run | None = None) -> None:
        try:
            optimiser = adamw(self.objective, self.plan)
            self.steps += train(self.objective, self.stream, self.plan, optimiser, start=self.start)
        except NotFiniteError as error:
            self.error = error

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: weight.detach() for name, weight in self.objective.named_parameters()}


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of runs in each stack, step by step."""
    steps: list[int] = []
    accumulate = stacked._Stack.accumulate

    def counted(stack: stacked._Stack, turns: list[stacked.Turn]) -> None:
        steps.append(len(turns))
        accumulate(stack, turns)

    monkeypatch.setattr(stacked._Stack, "accumulate", counted)
    return steps


def case_of(name: str) -> conformance.Case:
    if name in conformance.OBJECTIVES:
        return conformance.OBJECTIVES[name]()
    return conformance._pooled(name, "first")


def run_together(fits: list[Callable[[Run], None]]) -> None:
    side_by_side = SideBySide()
    for fit in fits:
        side_by_side.start(fit)
    while side_by_side.runs:
        side_by_side.advance()


@pytest.mark.parametrize(("name", "precision"), [*((name, "float32") for name in STACKED), ("task", "float16")])
def test_runs_in_a_stack_are_trained_as_alone(name, precision, sizes):
    """Also where they begin and end at other steps than others: one goes on at step 2, one at step 4."""
    case, rounding = case_of(name), 1e-5 if precision == "float32" else 1e-3
    alone, together = ([Fit(case, number, precision=precision) for number in range(3)] for _ in range(2))
    for fit in alone:
        fit()
    run_together(together)
    assert sizes == [3] * 16 + [2] * 2
    for one, other in zip(alone, together, strict=True):
        for step, same in zip(one.steps, other.steps, strict=True):
            assert same.losses == pytest.approx(step.losses, rel=rounding)
            assert same.gradient == pytest.approx(step.gradient, rel=100 * rounding)
            assert (same.number, same.rate, same.tokens) == (step.number, step.rate, step.tokens)
        for weight, value in one.weights().items():
            torch.testing.assert_close(other.weights()[weight], value, rtol=10 * rounding, atol=10 * rounding)


def test_noise_of_runs_in_a_stack_is_repeated_and_differs_between_them(sizes):
    first, second = (
        [Fit(conformance.OBJECTIVES["task"](), number, dropout=0.3) for number in (0, 0)] for _ in range(2)
    )
    run_together(first)
    run_together(second)
    losses = [[step.loss for step in fit.steps] for fit in (*first, *second)]
    assert losses[:2] == losses[2:]
    assert losses[0] != losses[1]
    assert set(sizes) == {2}


def test_a_loss_that_is_not_finite_ends_its_run_alone(sizes):
    case = conformance.OBJECTIVES["task, a number"]()
    alone, healthy, ill = Fit(case, 0), Fit(case, 0), Fit(case, 1)

    def broken(step: int) -> Batch:
        batch = case.stream(step)
        return batch if step < 5 else replace(batch, rows={"label": np.full(len(batch), np.inf, np.float32)})

    ill.stream, ill.start = broken, 0
    alone()
    run_together([healthy, ill])
    assert "step 6: the loss is not finite" in str(ill.error)
    assert "document 0" in str(ill.error)
    assert len(ill.steps) == 5
    assert sizes == [2] * 6
    assert [step.loss for step in healthy.steps] == pytest.approx([step.loss for step in alone.steps], rel=1e-5)


def test_runs_of_other_shapes_and_more_than_fit_have_stacks_of_their_own(sizes, monkeypatch):
    case, other = conformance.OBJECTIVES["task"](), conformance.OBJECTIVES["task, a number"]()
    fits = [Fit(case, 0), Fit(other, 0), Fit(case, 0), Fit(other, 0), Fit(case, 0)]
    for fit in fits:
        fit.plan = replace(fit.plan, steps=1)
    run_together(fits)
    assert sizes == [3, 2]
    sizes.clear()
    tokens = max(sum(fit.stream(0).lengths) for fit in fits)
    fits = [Fit(case, 0) for _ in range(4)]
    for fit in fits:
        fit.plan = replace(fit.plan, steps=1, piece_tokens=int(2.5 * tokens))
    run_together(fits)
    assert sizes == [2, 2]


def test_what_cannot_be_stacked_trains_alone(sizes, monkeypatch):
    def stacks(name: str, **plan: bool) -> bool:
        return can_stack(case_of(name).objective(0.0), replace(PLAN, **plan))

    assert stacks("task, means of mentions, MLP")
    others = ("task, BiLSTM", "task, tags, CRF", "deberta-v2", "modernbert", "masked language, bert", "joint")
    assert [name for name in others if stacks(name)] == []
    assert not stacks("task", compile=True)
    assert not stacks("task", recompute=True)
    monkeypatch.setattr(stacked, "MOST_WEIGHTS", 1_000)
    assert not stacks("task")
    fits = [Fit(case_of("task"), 0) for _ in range(2)]
    side_by_side = SideBySide()
    for fit in fits:
        side_by_side.start(fit)
        assert len(fit.steps) == PLAN.steps, "it ended before another began"
    assert not sizes
    assert not side_by_side.runs


def test_where_memory_runs_out_runs_are_computed_alone(sizes, monkeypatch):
    def full(stack: stacked._Stack, turns: list[stacked.Turn]) -> None:
        sizes.append(len(turns))
        for weight in turns[0].objective.parameters():  # it had begun to leave gradients
            weight.grad = torch.ones_like(weight)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(stacked._Stack, "accumulate", full)
    alone, *together = (Fit(case_of("task"), 0) for _ in range(4))
    alone()
    run_together(together)
    assert sizes == [3]
    assert [fit.steps[-1].loss for fit in together] == [alone.steps[-1].loss] * 3


class Own(TaskLoss):
    """A weight that none of the known layers holds."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.own = nn.Parameter(torch.zeros(2))


def test_a_weight_outside_of_known_layers_is_not_stacked():
    objective: Objective = Own(conformance.OBJECTIVES["task"]().objective(0.0).model)
    assert not can_stack(objective, PLAN)
