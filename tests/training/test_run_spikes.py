from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import conformance
from acclimate.core.types import Batch, Progress
from acclimate.training.checkpoint import FAR, LEAST, LOG, NARROWEST, WINDOW, Spikes, read_log, resumable
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan
from acclimate.training.run import run

PLAN = Plan(steps=70, batch=3, rate=1e-9, warmup=0.0, weight_decay=0.0, precision="float32")
JUMPS = (60, 61, 65)  # steps, from 1


def noisy(steps: int = 400) -> np.ndarray:
    """Losses that fall with noise of 2%, as in pretraining."""
    generator = np.random.default_rng(4)
    return (2 + 5 * np.exp(-np.arange(steps) / 60)) * np.exp(0.02 * generator.normal(size=steps))


def test_a_spike_is_told_in_deviations_from_the_running_median():
    losses = noisy()
    losses[[200, 300, 301]] *= 1.5
    spikes, found = Spikes(), []
    for step, loss in enumerate(losses):
        found.append(spikes.add(loss))
        before = np.log(losses[max(0, step - WINDOW) : step])
        if len(before) < LEAST:
            assert found[-1] == 0
            continue
        deviation = max(NARROWEST, 1.4826 * np.median(np.abs(before - np.median(before))))
        expected = (np.log(loss) - np.median(before)) / deviation
        assert found[-1] == pytest.approx(expected if expected > FAR else 0)
    assert np.flatnonzero(found).tolist() == [200, 300, 301]


def test_losses_close_to_0_all_but_the_same_or_known_by_heart_are_no_spikes():
    losses = np.random.default_rng(5).lognormal(-4, 1.5, 1000)
    spikes = Spikes()
    assert not any(map(spikes.add, losses))
    spikes = Spikes()
    losses = [*(2 * np.exp(-np.arange(150) / 20)), 0.002, 0.09, 0.5, 1.5]
    assert [spikes.add(loss) > 0 for loss in losses][-4:] == [False, False, False, True]
    spikes = Spikes()
    assert not any(spikes.add(loss) for loss in [*200 * [1.0], 1.01, *200 * [0.0]])


def test_what_went_before_a_stop_counts():
    whole, resumed, losses = Spikes(), Spikes(noisy(80)), [*noisy(80), *3 * [9.0]]
    assert [whole.add(loss) for loss in losses][80:] == [resumed.add(loss) for loss in losses[80:]]


class Fixed(Objective):
    """A loss that is the mean of the rows' ids, near enough, whatever is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.weights = torch.nn.Parameter(torch.ones(1, 1)), {"fixed": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"fixed": len(batch)}

    def forward(self, piece: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"fixed": (piece["input_ids"] * self.weight).sum()}

    def flops(self, batch: Batch) -> float:
        return 2.0


def stream(step: int) -> Batch:
    """Three rows of a token, two of one document."""
    ids = np.array([100, 101, 100 + step % 3]) * (2 if step + 1 in JUMPS else 1)
    return Batch(ids, np.arange(4), names=[f"a{step + 1}", f"a{step + 1}", f"b{step + 1}"])


def test_a_spike_is_in_the_log_with_its_documents_and_the_first_is_told(tmp_path):
    told: list[Progress] = []
    run(Fixed(), stream, PLAN, tmp_path, stage="adapt", watch=told.append)
    lines = read_log(tmp_path)
    assert [line["step"] for line in lines if "spike" in line] == list(JUMPS)
    assert all(line["documents"] == [f"a{line['step']}", f"b{line['step']}"] for line in lines if "spike" in line)
    assert [progress.done for progress in told if "spike" in progress.values] == list(JUMPS)
    notes = {progress.done: progress.values["note"] for progress in told if "note" in progress.values}
    assert list(notes) == [60], "later ones stand in the log alone"
    assert "Training continues, because a single case is harmless. Its texts: a60, b60." in notes[60]
    assert [progress.done for progress in told] == list(range(1, 71))  # no step is left out


def test_a_run_that_was_stopped_finds_the_spikes_of_one_that_was_not_and_counts_all_it_spent(tmp_path):
    whole = [step.spent for step in resumable(Fixed(), stream, PLAN, tmp_path / "whole")]
    out = tmp_path / "stopped"
    for until in (55, 60, None):
        steps = list(resumable(Fixed(), stream, PLAN, out, until=until, save_seconds=1000))
    assert (out / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()
    assert (steps[-1].spent.tokens, steps[-1].spent.flops) == (whole[-1].tokens, whole[-1].flops) == (210, 140.0)


def test_the_log_of_a_run_without_spikes_has_no_word_of_them(tmp_path):
    case = conformance.OBJECTIVES["task"]()
    list(resumable(case.objective(0.1), case.stream, conformance.PLAN, tmp_path))
    keys = [*json.loads((tmp_path / LOG).read_text().splitlines()[0])]
    assert keys == ["step", "loss", "loss.task", "gradient", "rate", "tokens", "padding", "flops"]
