"""The loop: what stops it, what it leaves alone, and what it tells."""

import platform
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import conformance
from acclimate.core.types import Batch
from acclimate.training.loop import NotFiniteError, adamw, train
from acclimate.training.objective import Objective, Piece
from acclimate.training.plan import Plan

PLAN = Plan(steps=3, batch=4, rate=1e-2, warmup=0.0, weight_decay=0.1, precision="float32")


class Line(Objective):
    """(w * sum of a row's ids + b)^2, averaged over rows; `trouble` makes rows with id 13 go wrong."""

    def __init__(self, trouble: str = "") -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.full((1, 1), 0.5)), nn.Parameter(torch.zeros(1))
        self.weights, self.trouble, self.hooks = {"line": 1.0}, trouble, []

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"line": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        sums = piece["input_ids"].float().sum(1) * self.weight[0, 0] + self.bias
        unlucky = (piece["input_ids"] == 13).any()
        if unlucky and self.trouble == "loss":
            sums = sums / 0.0
        if unlucky and self.trouble == "gradient":  # finite, with the slope of a square root at 0
            sums = sums + (self.bias - self.bias.detach()).clamp(min=0).sqrt()
        return {"line": (sums**2).sum()}

    def flops(self, batch: Batch) -> float:
        return 1.0

    def on_gradients(self) -> None:
        self.hooks.append("gradients")

    def on_update(self) -> None:
        self.hooks.append("update")


def rows(step: int) -> Batch:
    """Four rows of one to four ids; the third of step 1 holds a 13."""
    ids = np.arange(1, 11) if step != 1 else np.array([1, 2, 3, 4, 5, 13, 7, 8, 9, 10])
    return Batch(ids, np.array([0, 1, 3, 6, 10]), names=[f"document {step}.{row}" for row in range(4)])


def run(objective: Objective, plan: Plan = PLAN) -> list:
    return list(train(objective, rows, plan, adamw(objective, plan)))


@pytest.mark.parametrize("trouble", ["loss", "gradient"])
@pytest.mark.parametrize("piece_tokens", [1_000, 4])
def test_a_loss_or_gradient_that_is_not_finite_stops_before_the_weights_move(trouble, piece_tokens):
    objective, plan = Line(trouble), replace(PLAN, piece_tokens=piece_tokens)
    steps = train(objective, rows, plan, adamw(objective, plan))
    next(steps)
    before = [weight.detach().clone() for weight in objective.parameters()]
    with pytest.raises(NotFiniteError) as caught:
        next(steps)
    said = str(caught.value)
    assert said.startswith("step 2: the ")
    assert "document 1.2" in said  # the row with the 13
    assert ("document 1.0" in said) == (trouble == "gradient" or piece_tokens == 1_000)  # a loss tells its piece
    assert "Lower the rate" in said
    assert all(torch.equal(old, new) for old, new in zip(before, objective.parameters(), strict=True))


def test_many_documents_are_counted_and_not_listed():
    plan = replace(PLAN, batch=20)
    names = [f"document {row}" for row in range(20)]
    batch = Batch(np.full(20, 13), np.arange(21), names=names)
    objective = Line("loss")
    with pytest.raises(NotFiniteError, match=r"document 7 and 12 more\."):
        list(train(objective, lambda step: batch, plan, adamw(objective, plan)))


def test_matrices_are_decayed_and_vectors_are_not():
    objective = conformance.OBJECTIVES["task"]().objective(0.0)
    objective.model.classifier.bias.requires_grad_(False)
    decayed, others = adamw(objective, PLAN).param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert all(weight.ndim >= 2 for weight in decayed["params"])
    assert all(weight.ndim == 1 for weight in others["params"])
    trainable = [weight for weight in objective.parameters() if weight.requires_grad]
    assert len(decayed["params"]) + len(others["params"]) == len(trainable)


def test_a_parameter_may_learn_at_a_multiple_of_the_rate():
    class Faster(Line):
        def rate_multiple(self, name: str) -> float:
            return 3.0 if name == "bias" else 1.0

    usual, faster = Line(), Faster()
    for objective in (usual, faster):
        run(objective, replace(PLAN, steps=1, weight_decay=0.0))
    assert torch.equal(usual.weight, faster.weight)
    torch.testing.assert_close(faster.bias.detach(), 3 * usual.bias.detach())


def test_the_first_step_is_adamws_own():
    """With the gradient g: w <- w (1 - rate decay) - rate g / (|g| + epsilon), clipping aside."""
    objective, plan = Line(), replace(PLAN, steps=1, clip=0.0)
    [step] = run(objective, plan)
    assert float(objective.weight.detach()) == pytest.approx(0.5 * (1 - 1e-2 * 0.1) - 1e-2, abs=1e-6)
    assert float(objective.bias.detach()) == pytest.approx(-1e-2, abs=1e-6)
    sums = np.array([1, 2 + 3, 4 + 5 + 6, 7 + 8 + 9 + 10])
    assert step.loss == pytest.approx(float(np.mean((sums / 2) ** 2)))
    gradient = np.array([np.mean(sums * sums), np.mean(sums)])
    assert step.gradient == pytest.approx(float(np.linalg.norm(gradient)), rel=1e-5)


def test_a_gradient_longer_than_the_limit_is_shortened_to_it():
    for clip, expected in ((1.0, 1.0), (0.0, None), (1e9, None)):
        objective, plan = Line(), replace(PLAN, steps=1, clip=clip)
        optimiser = torch.optim.SGD(objective.parameters(), lr=1.0)
        start = [weight.detach().clone() for weight in objective.parameters()]
        [step] = train(objective, rows, replace(plan, rate=1.0), optimiser)
        pairs = zip(objective.parameters(), start, strict=True)
        moved = torch.cat([(new.detach() - old).flatten() for new, old in pairs])
        assert float(moved.norm()) == pytest.approx(expected or step.gradient, rel=1e-4)
        assert step.gradient > 100  # told as it was


def test_hooks_are_called_once_a_step_around_the_update():
    objective = Line()
    run(objective, replace(PLAN, piece_tokens=4))
    assert objective.hooks == ["gradients", "update"] * 3


def test_a_step_tells_tokens_padding_and_the_time_it_waited():
    def slow(step: int) -> Batch:
        time.sleep(0.05)
        return rows(step)

    objective = Line()
    steps = list(train(objective, slow, PLAN, adamw(objective, PLAN)))
    assert [(step.number, step.tokens, step.padded, step.flops) for step in steps] == [
        (number, 10, 4 * 4 - 10, 1.0) for number in (1, 2, 3)
    ]
    assert all(0.02 < step.waited <= step.seconds for step in steps)
    assert [step.rate for step in steps] == [PLAN.rate_at(step) for step in range(3)]


def test_an_error_of_the_stream_reaches_the_caller():
    def broken(step: int) -> Batch:
        raise FileNotFoundError("tokens are gone")

    objective = Line()
    with pytest.raises(FileNotFoundError, match="tokens are gone"):
        list(train(objective, broken, PLAN, adamw(objective, PLAN)))


def test_generators_of_the_caller_are_left_alone_and_dropout_does_not_depend_on_them():
    case, losses = conformance.OBJECTIVES["task"](), []
    for seed in (1, 2):
        objective = case.objective(0.1)
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
        losses.append([step.loss for step in train(objective, case.stream, conformance.PLAN, adamw(objective, PLAN))])
        assert torch.equal(torch.get_rng_state(), torch_before)
        assert np.random.get_state()[1].tolist() == numpy_before  # noqa: NPY002
    assert losses[0] == losses[1]


SCRIPT = """
import resource, torch
from acclimate.training.loop import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.zeros(12_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
print(keep_freed_memory())
faults()
print(faults() < first / 10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_a_large_block_that_was_freed_is_there_at_once_when_it_is_needed_again():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_elsewhere_nothing_is_done(monkeypatch):
    from acclimate.training import loop

    monkeypatch.setattr(loop.platform, "libc_ver", lambda: ("", ""))
    assert not loop.keep_freed_memory()


def test_a_piece_that_cannot_fit_memory_is_refused_before_the_first_step(monkeypatch):
    case = conformance.OBJECTIVES["masked language, bert"]()
    objective = case.objective(0.0)
    before = [parameter.detach().clone() for parameter in objective.parameters()]
    monkeypatch.setattr("acclimate.core.machines.memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"a piece of \d+ tokens needs .* GB .* machine has .*plan\.piece_tokens"):
        next(train(objective, case.stream, PLAN, adamw(objective, PLAN)))
    assert all(map(torch.equal, before, objective.parameters()))
