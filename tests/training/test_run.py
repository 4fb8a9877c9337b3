"""A run that gets more steps ends as one that had them from the start, and spikes of its loss are reported."""

import json
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import conformance
from acclimate.core import files
from acclimate.core.types import Batch, Checkpoint, Progress, unwatched
from acclimate.training.checkpoint import (
    CLOCK,
    FAR,
    LEAST,
    LOG,
    NARROWEST,
    WINDOW,
    Log,
    Spikes,
    finish,
    read_log,
    resumable,
)
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan
from acclimate.training.run import CHECKPOINT, RUN, finished, run

PLAN = replace(conformance.PLAN, steps=6, warmup_steps=2, schedule="stable", decay=0.5)


@dataclass(frozen=True)
class Recipe:
    """Of a method that trains a task's model."""

    dropout: float = 0.1
    plan: Plan = field(default_factory=lambda: PLAN)


def adapt(out: Path, recipe: Recipe, *, until: int | None = None, extends: bool = True) -> Checkpoint | None:
    """The method, as those of methods/ are; None where it was stopped after `until` steps."""
    if done := finished(out, recipe, {"corpus": "its hash"}, extends=extends):
        return done
    case = conformance.OBJECTIVES["task"]()
    objective = case.objective(recipe.dropout)
    run(objective, case.stream, recipe.plan, out, stage="adapt", watch=unwatched, until=until)
    if until is not None:
        return None
    with files.new_directory(out / CHECKPOINT) as temporary:
        save_file({name: weight.detach() for name, weight in objective.named_parameters()}, temporary / "weights")
    finish(out)
    return Checkpoint(out / CHECKPOINT)


def with_steps(steps: int, **changed: object) -> Recipe:
    return Recipe(plan=replace(PLAN, steps=steps, **changed))


def results(out: Path) -> dict[str, bytes]:
    """All that a run leaves, but for the clock's and the shorter run's checkpoint."""
    kept = [file for file in sorted(out.rglob("*")) if file.is_file() and file.name != CLOCK]
    return {str(file.relative_to(out)): file.read_bytes() for file in kept if f"{CHECKPOINT}-" not in str(file)}


@pytest.fixture(autouse=True)
def saved_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the machine does not go down


@pytest.fixture(scope="module")
def from_the_start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What runs of ten steps leave, by their schedule."""
    left = {}
    for schedule in ("stable", "constant"):
        out = tmp_path_factory.mktemp(schedule)
        adapt(out, with_steps(10, schedule=schedule))
        left[schedule] = results(out)
    return left


@pytest.mark.parametrize("schedule", ["stable", "constant"])
def test_an_extended_run_ends_with_the_bytes_of_one_that_was_longer_from_the_start(schedule, from_the_start, tmp_path):
    adapt(tmp_path, with_steps(6, schedule=schedule))
    short = (tmp_path / CHECKPOINT / "weights").read_bytes()
    adapt(tmp_path, with_steps(10, schedule=schedule))
    assert results(tmp_path) == from_the_start[schedule]
    assert (tmp_path / f"{CHECKPOINT}-6" / "weights").read_bytes() == short
    files.check_manifest(tmp_path / f"{CHECKPOINT}-6")


def test_extended_twice_and_killed_on_the_way_it_still_does(from_the_start, tmp_path):
    adapt(tmp_path, with_steps(4), until=3)  # the rate falls from step 2 on
    adapt(tmp_path, with_steps(6))
    adapt(tmp_path, with_steps(8), until=5)  # before its rate falls, and behind the old plan's fall
    adapt(tmp_path, with_steps(8), until=7)
    adapt(tmp_path, with_steps(10), until=9)
    assert adapt(tmp_path, with_steps(10)) == Checkpoint(tmp_path / CHECKPOINT)
    assert results(tmp_path) == from_the_start["stable"]
    assert sorted(path.name for path in tmp_path.glob(f"{CHECKPOINT}-*")) == [f"{CHECKPOINT}-6"]


def test_only_the_steps_behind_the_kept_state_are_done_again(tmp_path):
    adapt(tmp_path, with_steps(6))
    assert [path.name for path in tmp_path.glob("st*-*")] == ["stable-000000003"]
    before = (tmp_path / LOG).read_bytes().splitlines()
    adapt(tmp_path, with_steps(10), until=4)
    assert (tmp_path / LOG).read_bytes().splitlines()[:3] == before[:3]
    assert [line["rate"] for line in read_log(tmp_path)] == [PLAN.rate / 2, *3 * [PLAN.rate]]


def test_a_kill_while_the_old_checkpoint_is_put_aside_leaves_either_command_free_to_go_on(
    from_the_start, tmp_path, monkeypatch
):
    adapt(tmp_path, with_steps(6))
    shorter, short = results(tmp_path), files.read_json(tmp_path / RUN)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("acclimate.training.run.files.write_record", killed)
        with pytest.raises(KeyboardInterrupt):
            adapt(tmp_path, with_steps(10))
    assert files.read_json(tmp_path / RUN) == short
    assert not (tmp_path / CHECKPOINT).exists()
    copy = tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)
    adapt(tmp_path, with_steps(10))
    assert results(tmp_path) == from_the_start["stable"]
    adapt(copy, with_steps(6))
    assert results(copy) == shorter
    adapt(copy, with_steps(10))
    assert results(copy) == from_the_start["stable"]


def test_a_damaged_record_of_the_run_is_named_with_the_way_out(tmp_path):
    adapt(tmp_path, with_steps(6))
    record = tmp_path / RUN
    record.write_bytes(record.read_bytes().replace(b"[plan]", b"[pl!n]"))
    with pytest.raises(files.DamagedError, match=rf"{RUN} is damaged: .* Remove {tmp_path}, and give the same command"):
        adapt(tmp_path, with_steps(6))


def test_a_finished_run_without_a_whole_kept_state_is_not_started_over(tmp_path):
    adapt(tmp_path, with_steps(6))
    [state] = tmp_path.glob("stable-*")
    with open(state / "state.safetensors", "r+b") as file:
        file.write(b"0")
    with pytest.raises(files.DamagedError, match=r"state\.safetensors is damaged"):
        adapt(tmp_path, with_steps(10))
    shutil.rmtree(state)
    with pytest.raises(ValueError, match=r"has no state stable-\*"):
        adapt(tmp_path, with_steps(10))
    assert adapt(tmp_path, with_steps(6)) == Checkpoint(tmp_path / CHECKPOINT)


@pytest.mark.parametrize(
    ("longer", "extends", "said"),
    [
        (with_steps(5), True, "Only plan.steps differs, 6 there"),
        (with_steps(10), False, "Only plan.steps differs, 6 there"),
        (with_steps(10, rate=1e-3), True, r"remove this one$"),
        (replace(with_steps(10), dropout=0.2), True, r"remove this one$"),
        (with_steps(10, schedule="constant"), True, r"remove this one$"),
    ],
)
def test_nothing_but_more_steps_may_change(longer, extends, said, tmp_path):
    adapt(tmp_path, with_steps(6), until=1)
    left = sorted(os.listdir(tmp_path))
    with pytest.raises(ValueError, match=said):
        adapt(tmp_path, longer, extends=extends)
    assert sorted(os.listdir(tmp_path)) == left


def test_a_linear_run_cannot_get_longer(tmp_path):
    linear = {"schedule": "linear", "warmup_steps": 0}
    adapt(tmp_path, with_steps(6, **linear), until=1)
    with pytest.raises(ValueError, match=r"plan.schedule = 'stable' or 'constant'"):
        adapt(tmp_path, with_steps(10, **linear))


PLAN_SPIKES = Plan(steps=70, batch=3, rate=1e-9, warmup=0.0, weight_decay=0.0, precision="float32")
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
    run(Fixed(), stream, PLAN_SPIKES, tmp_path, stage="adapt", watch=told.append)
    lines = read_log(tmp_path)
    assert [line["step"] for line in lines if "spike" in line] == list(JUMPS)
    assert all(line["documents"] == [f"a{line['step']}", f"b{line['step']}"] for line in lines if "spike" in line)
    assert [progress.done for progress in told if "spike" in progress.values] == list(JUMPS)
    notes = {progress.done: progress.values["note"] for progress in told if "note" in progress.values}
    assert list(notes) == [60], "later ones are only in the log"
    assert "Training continues, because a single case is harmless. Its texts: a60, b60." in notes[60]
    assert [progress.done for progress in told] == list(range(1, 71))  # no step is left out


def test_a_run_that_was_stopped_finds_the_spikes_of_one_that_was_not_and_counts_all_it_spent(tmp_path):
    whole = [step.spent for step in resumable(Fixed(), stream, PLAN_SPIKES, tmp_path / "whole")]
    out = tmp_path / "stopped"
    for until in (55, 60, None):
        steps = list(resumable(Fixed(), stream, PLAN_SPIKES, out, until=until, save_seconds=1000))
    assert (out / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()
    assert (steps[-1].spent.tokens, steps[-1].spent.flops) == (whole[-1].tokens, whole[-1].flops) == (210, 140.0)
    with Log(out, 70) as log:
        assert log.spikes.first == [line["loss"] for line in read_log(out)[:LEAST]]


def test_the_log_of_a_run_without_spikes_has_no_word_of_them(tmp_path):
    case = conformance.OBJECTIVES["task"]()
    list(resumable(case.objective(0.1), case.stream, conformance.PLAN, tmp_path))
    keys = [*json.loads((tmp_path / LOG).read_text().splitlines()[0])]
    assert keys == ["step", "loss", "loss.task", "gradient", "rate", "tokens", "padding", "flops"]
