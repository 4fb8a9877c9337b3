"""State on the disk, and what happens where it is damaged."""

import json
import logging
from pathlib import Path

import pytest
import torch

import conformance
from acclimate.core import files
from acclimate.training.checkpoint import CLOCK, LOG, finish, read_log, restore, resumable, spent
from acclimate.training.loop import adamw


@pytest.fixture
def case() -> conformance.Case:
    return conformance.OBJECTIVES["task"]()


def run(case: conformance.Case, out: Path, *, until: int = conformance.PLAN.steps) -> tuple[list[int], dict]:
    """Go on in `out` to step `until`, with a state after each step; the steps done and the weights."""
    objective, numbers = case.objective(0.1), []
    for step in resumable(objective, case.stream, conformance.PLAN, out, save_seconds=0):
        numbers.append(step.number)
        if step.number == until:
            break
    return numbers, {name: weight.detach() for name, weight in objective.named_parameters()}


def states(out: Path) -> list[str]:
    return sorted(state.name for state in out.glob("state-*"))


def test_the_newest_two_states_are_kept_and_the_last_step_needs_none(case, tmp_path):
    run(case, tmp_path)
    assert states(tmp_path) == ["state-000000002", "state-000000003"]
    for state in tmp_path.glob("state-*"):
        files.check_manifest(state)
    (tmp_path / "state-best").mkdir()
    finish(tmp_path)
    assert states(tmp_path) == ["state-best"]


@pytest.mark.parametrize("damage", ["truncated", "changed", "without manifest", "gone"])
def test_a_damaged_newest_state_falls_back_to_the_one_before_and_says_so(damage, case, tmp_path, caplog):
    _, expected = run(case, tmp_path / "whole")
    out = tmp_path / "damaged"
    run(case, out, until=4)
    weights = out / "state-000000003" / "state.safetensors"
    content = weights.read_bytes()
    if damage == "truncated":
        weights.write_bytes(content[:-100])
    elif damage == "changed":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "gone":
        weights.unlink()
    else:
        (weights.parent / files.MANIFEST).unlink()
    with caplog.at_level(logging.WARNING):
        numbers, weights_found = run(case, out)
    assert numbers == [3, 4]
    assert "continuing from the state before it" in caplog.text
    assert "state-000000003" in caplog.text
    assert all(torch.equal(weights_found[name], value) for name, value in expected.items())
    assert (out / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()


def test_where_all_states_are_damaged_the_run_starts_over(case, tmp_path, caplog):
    run(case, tmp_path, until=4)
    for state in tmp_path.glob("state-*"):
        (state / "state.safetensors").write_bytes(b"")
    assert run(case, tmp_path)[0] == [1, 2, 3, 4]
    assert [line["step"] for line in read_log(tmp_path)] == [1, 2, 3, 4]


def test_the_log_is_cut_back_to_the_state(case, tmp_path):
    run(case, tmp_path / "whole")
    out = tmp_path / "longer"
    run(case, out, until=3)
    with open(out / LOG, "a") as log:  # lines of steps that no state was saved after, the last one torn by a kill
        log.write('{"step": 3, "lo\n{"step": 4, "lo')
    run(case, out)
    assert (out / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()


def test_a_state_holds_no_pickle(case, tmp_path):
    run(case, tmp_path)
    found = {file.name for file in tmp_path.rglob("*") if file.is_file()}
    assert found == {LOG, CLOCK, "state.safetensors", "state.json", files.MANIFEST}


def test_a_state_of_another_model_is_refused(case, tmp_path):
    run(case, tmp_path, until=3)
    other = conformance.OBJECTIVES["masked language, electra"]().objective(0.1)
    with pytest.raises(files.DamagedError, match=r"state-\d+ does not fit the model: .* version .*Remove"):
        restore(other, adamw(other, conformance.PLAN), tmp_path)


def test_what_a_run_cost_is_summed_over_its_sessions(case, tmp_path):
    run(case, tmp_path, until=3)
    before = json.loads((tmp_path / CLOCK).read_text())["seconds"]
    run(case, tmp_path)
    cost = spent(tmp_path)
    assert cost.tokens == sum(len(case.stream(step).ids) for step in range(4))
    assert cost.seconds > before > 0
    assert cost.flops > 0


def test_how_often_a_state_is_saved_can_be_told_by_the_environment(case, tmp_path, monkeypatch):
    for seconds, expected in (("0", 2), ("1000", 0)):
        monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", seconds)
        for _ in resumable(case.objective(0.1), case.stream, conformance.PLAN, tmp_path / seconds):
            pass
        assert len(states(tmp_path / seconds)) == expected


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        (LOG, "changed", f"{LOG} is damaged: its first 2 lines differ from {CLOCK}"),
        (LOG, "deleted", f"{LOG} is damaged: its first 2 lines differ from {CLOCK}"),
        (CLOCK, "changed", rf"Remove \S+{CLOCK} to continue; earlier"),
    ],
)
def test_a_damaged_log_or_clock_is_named_with_the_way_out(name, damage, said, case, tmp_path):
    run(case, tmp_path, until=2)
    (tmp_path / "state-copy").mkdir()
    content = (tmp_path / name).read_bytes()
    if damage == "deleted":
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content.replace(b"1", b"2", 1))
        with pytest.raises(files.DamagedError, match=said):
            spent(tmp_path)
    with pytest.raises(files.DamagedError, match=said):
        next(resumable(case.objective(0.1), case.stream, conformance.PLAN, tmp_path))
