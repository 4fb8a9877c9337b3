"""Two processes give what one gives, through torch.distributed's launcher."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import conformance
import toys
from acclimate.races.planning.budget import Budget
from acclimate.training.checkpoint import read_log, resumable
from studies import recorded

TESTS = Path(__file__).parents[1]
_found = importlib.util.spec_from_file_location("every_objective", TESTS / "training" / "every_objective.py")
every_objective = importlib.util.module_from_spec(_found)
_found.loader.exec_module(every_objective)
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]

BRIEF = ("finetune.plan.steps=8", "finetune.looks=1")


def _run(command: list[str], directory: Path) -> str:
    paths = os.pathsep.join([str(TESTS), str(TESTS / "training"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(every_objective.MECHANISMS, id="mechanisms"),
        pytest.param(every_objective.EVERY, id="every", marks=pytest.mark.slow),
    ],
)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toy_race: Any) -> dict[int, Path]:
    """Number of processes -> what every_objective.py wrote; of two also the race `run`, which has jobs of `toy_race`,
    and what it printed.
    """
    places = {number: tmp_path_factory.mktemp(f"processes-{number}") for number in (1, 2)}
    every_objective.trained(places[1], request.param)
    whole = Budget(1, "flops", "").spent(toy_race.run)
    race = toys.race_command(toy_race.inputs, "run", "search.rates=[1e-2,3e-3]", 'contestants=["TAPT"]', *BRIEF)
    race[race.index("--budget") + 1] = f"{2 * whole:.0f}flop"
    script = str(TESTS / "training" / "every_objective.py")
    said = _run([*TORCHRUN, script, str(places[2]), json.dumps(race), json.dumps(request.param)], places[2])
    (places[2] / "said.txt").write_text(said)
    return places


def test_two_processes_give_the_losses_and_the_weights_of_one(both):
    one, two = (json.loads((both[number] / "losses.json").read_text()) for number in (1, 2))
    assert one.keys() == two.keys()
    for name, steps in one.items():
        for expected, found in zip(steps, two[name], strict=True):
            assert found[0] == pytest.approx(expected[0], abs=1e-5), name
            assert found[1] == pytest.approx(expected[1], rel=1e-3), name
            assert found[2:] == expected[2:], name
    paths = sorted(both[1].glob("*.safetensors"))
    assert len(paths) == len(json.loads((both[1] / "losses.json").read_text())) > len(every_objective.MECHANISMS)
    for path in paths:
        _assert_close(load_file(both[2] / path.name), load_file(path))


def test_sharded_over_two_processes_and_layers_computed_again_is_as_one_process(both):
    """Objectives with hooks among them; stopped half way, and gone on with from what the two had saved."""
    one, two = json.loads((both[1] / "losses.json").read_text()), json.loads((both[2] / "sharded.json").read_text())
    assert two
    for name, steps in two.items():
        for expected, found in zip(one[f"{name}, pieces"], steps, strict=True):
            assert found[0] == pytest.approx(expected[0], abs=1e-5), name
            assert found[1] == pytest.approx(expected[1], rel=1e-3), name
            assert found[2:] == expected[2:], name
        _assert_close(
            load_file(both[2] / f"sharded, {name}.weights"), load_file(both[1] / f"{name}, pieces.safetensors")
        )


def test_what_two_processes_saved_of_a_sharded_run_one_goes_on_from(both, tmp_path):
    for name in every_objective.SHARDED:
        place = tmp_path / name
        shutil.copytree(both[2] / "state" / name, place)
        case = conformance.OBJECTIVES[name]()
        objective = case.objective(0.1)
        plan = replace(every_objective.PLANS["pieces"], shard=True)
        assert [step.number for step in resumable(objective, case.stream, plan, place)] == [2]
        found = {key: value.detach() for key, value in objective.named_parameters()}
        _assert_close(found, load_file(both[1] / f"{name}, pieces.safetensors"))


def _assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, value in expected.items():
        # Adam turns a gradient that is nothing but rounding into a step of the full rate: keys' biases have such
        slack = 1e-2 if "key" in name or "k_lin" in name else 2e-4
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=slack, msg=lambda text, name=name: name + text)


def test_all_processes_stop_where_one_has_a_loss_that_is_not_finite(both):
    said = [(both[2] / f"stopped-{rank}.txt").read_text() for rank in (0, 1)]
    assert all(text.startswith("step 1: the loss is not finite") for text in said)
    assert all("The texts: document" in text for text in said)


def test_no_thread_of_the_group_outlives_it(both):
    """One that did would abort its process now and then, when Python ends before the thread does."""
    threads = [(both[2] / f"threads-{rank}.txt").read_text().splitlines() for rank in (0, 1)]
    assert not [name for names in threads for name in names if "gloo" in name]


def test_a_budgeted_race_of_two_processes_decides_and_trains_as_one(both, toy_race):
    """All processes try the steps that the estimate takes, and do the same rounds."""
    run = both[2] / "run"
    assert (both[2] / "said.txt").read_text().count("Report: run/report.html") == 1
    outcome = recorded(run)
    assert (outcome.rounds, outcome.first_impression) == (2, False)
    assert {trial.setting for trial in outcome.trials} == {"rate 0.01", "rate 0.003"}
    assert {score.seed for score in outcome.scores} == {0, 1}
    alike = {job.name for job in (run / "jobs").iterdir()} & {job.name for job in (toy_race.run / "jobs").iterdir()}
    trained = [name for name in sorted(alike) if (run / "jobs" / name / "log.jsonl").exists()]
    assert [name.partition("-")[0] for name in trained] == ["pretrain", "tapt"]
    for name in trained:
        one, two = (read_log(place / "jobs" / name) for place in (toy_race.run, run))
        assert [line["step"] for line in two] == [line["step"] for line in one]
        for expected, line in zip(one, two, strict=True):
            assert line["loss"] == pytest.approx(expected["loss"], abs=1e-5), f"{name}, step {line['step']}"
            assert (line["tokens"], line["flops"]) == (expected["tokens"], expected["flops"])
