"""Loss scaling in float16, on a CPU: what overflows is skipped, counted and saved; and torch.compile, which is slow."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import conformance
from acclimate.core.types import Batch
from acclimate.training import checkpoint
from acclimate.training.loop import NotFiniteError, adamw, train
from acclimate.training.objective import Objective, Piece
from acclimate.training.plan import Plan, autocast_type, device, loss_scaler

PLAN = Plan(steps=6, batch=4, rate=1e-2, warmup=0.0, precision="float16", piece_tokens=4)
CPU = torch.device("cpu")


class Layer(Objective):
    """A linear layer over the sum of a row's ids. Its gradient overflows where `large` times the scale does."""

    def __init__(self, large: float = 8.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.weights, self.large = nn.Linear(1, 1), {"line": 1.0}, large
        self.updates = 0

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"line": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        output = self.layer(piece["input_ids"].float().sum(1, keepdim=True) / 10)
        return {"line": (self.large * output.float()).sum()}

    def flops(self, batch: Batch) -> float:
        return 1.0

    def on_update(self) -> None:
        self.updates += 1


def rows(step: int) -> Batch:
    return Batch(np.arange(1, 11), np.array([0, 1, 3, 6, 10]), names=[f"document {row}" for row in range(4)])


def test_a_step_whose_gradient_overflows_moves_nothing_and_halves_the_scale():
    objective = Layer()
    optimiser, scaler = adamw(objective, PLAN), loss_scaler(PLAN, CPU)
    steps, skipped = train(objective, rows, PLAN, optimiser, scaler=scaler), []
    for _ in range(PLAN.steps):
        before, scale = objective.layer.weight.item(), scaler.get_scale()
        skipped.append(next(steps).skipped)
        assert (objective.layer.weight.item() == before) == skipped[-1]
        assert scaler.get_scale() == scale / (2 if skipped[-1] else 1)
    assert any(skipped)
    assert not skipped[-1]
    [weight] = [values for parameter, values in optimiser.state.items() if parameter is objective.layer.weight]
    assert weight["step"] == objective.updates == skipped.count(False)


def test_what_does_not_overflow_is_as_in_float32_before_and_after_clipping():
    objectives = [Layer(0.01), Layer(0.01)]
    for objective, precision in zip(objectives, ("float16", "float32"), strict=True):
        plan = replace(PLAN, precision=precision, clip=1e-3)
        steps = list(train(objective, rows, plan, adamw(objective, plan)))
        assert not any(step.skipped for step in steps)
        objective.norms = [step.gradient for step in steps]
    assert objectives[0].norms == pytest.approx(objectives[1].norms, rel=1e-2)
    assert objectives[0].layer.weight.item() == pytest.approx(objectives[1].layer.weight.item(), rel=1e-3)


def test_a_run_that_is_resumed_ends_with_the_same_bytes_and_counts_all_skips(tmp_path):
    weights, scales = [], []
    for name, parts in (("whole", [None]), ("parts", [1, 3, None])):
        for until in parts:
            objective = Layer()
            steps = list(checkpoint.resumable(objective, rows, PLAN, tmp_path / name, until=until, save_seconds=0))
        log = checkpoint.read_log(tmp_path / name)
        assert steps[-1].skips == sum(line.get("skipped", False) for line in log) > 0
        weights.append(objective.layer.weight.item())
        scales.append([line.get("skipped", False) for line in log])
    assert weights[0] == weights[1]
    assert scales[0] == scales[1]


def test_a_gradient_that_is_infinite_without_scaling_stops_the_run():
    objective = Layer()
    objective.layer.weight.register_hook(lambda gradient: gradient * torch.inf)
    plan = replace(PLAN, steps=30)
    with pytest.raises(NotFiniteError, match="step 17: the gradient is"):  # the scale is 2^16 at first
        list(train(objective, rows, plan, adamw(objective, plan)))


def test_a_run_saved_in_float32_goes_on_in_float16_with_a_new_scale(tmp_path, caplog):
    plan = replace(PLAN, precision="float32")
    for _ in checkpoint.resumable(Layer(0.01), rows, plan, tmp_path, until=2):
        pass
    steps = [step.number for step in checkpoint.resumable(Layer(0.01), rows, PLAN, tmp_path)]
    assert steps == [3, 4, 5, 6]
    assert "was saved in another precision: the scale of the loss begins again" in caplog.text


def test_the_precision_is_chosen_by_device(monkeypatch):
    cuda, mps = torch.device("cuda"), torch.device("mps")
    for supported, kind in ((True, torch.bfloat16), (False, torch.float16)):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, there=supported: there)
        assert autocast_type("auto", cuda) is kind
        assert autocast_type("bfloat16", cuda) is torch.bfloat16
    assert autocast_type("auto", mps) is None
    assert [loss_scaler(replace(PLAN, precision=precision), CPU) for precision in ("auto", "float32", "bfloat16")] == [
        None
    ] * 3
    with pytest.raises(ValueError, match="could not agree on the steps that float16 skips"):
        loss_scaler(replace(PLAN, shard=True), CPU)


def test_a_device_is_asked_for_by_name_and_must_be_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.delenv("ACCLIMATE_DEVICE")
    assert device() == CPU  # a Mac's GPU is not taken unasked
    monkeypatch.setenv("ACCLIMATE_DEVICE", "mps")
    assert device() == torch.device("mps")
    monkeypatch.setenv("ACCLIMATE_DEVICE", "cuda")
    with pytest.raises(ValueError, match="finds only mps or cpu here"):
        device()


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler")
@pytest.mark.filterwarnings("default")  # the compiler's
@pytest.mark.parametrize("name", ["masked language, bert", "task"])
def test_compiled_gives_the_same_losses(name):
    losses = []
    for compiled in (False, True):
        case = conformance.OBJECTIVES[name]()
        objective = case.objective(0.0)
        plan = replace(conformance.PLAN, rate=1e-3, compile=compiled)
        losses.append([step.loss for step in train(objective, case.stream, plan, adamw(objective, plan))])
        assert not [name for name, _ in objective.named_parameters() if "_orig_mod" in name]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
