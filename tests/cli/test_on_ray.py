"""A command in two processes of a Ray cluster: what one process gives, also when one of them dies meanwhile."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import toys
from acclimate.cli import on_ray

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # Ray warns of its defaults


@pytest.fixture(scope="module")
def cluster():
    """One node with two processors."""
    pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'acclimate[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS", "0")
        size = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=size)
        yield cluster.address
        cluster.shutdown()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return toys.write_inputs(tmp_path_factory.mktemp("inputs"))


def command(inputs, out, steps):
    stated = ["vocabulary=300", "layers=1", "hidden=32", "heads=2", "max_tokens=32", "initializer_range=0.02"]
    plan = [f"plan.steps={steps}", "plan.batch=16", "plan.rate=1e-3", "plan.precision=float32", "plan.piece_tokens=64"]
    return ["adapt", "scratch", f"corpus={inputs}/domain.txt", *stated, *plan, "--out", str(out)]


def losses(out):
    return [json.loads(line)["loss"] for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_what_the_command_refuses_is_refused_at_once_with_its_own_status(cluster, inputs, tmp_path, capfd):
    with pytest.raises(on_ray.CommandError) as refused:
        on_ray.launch([*command(inputs, tmp_path / "out", 3), "plan.stepz=1"], processes=2, cluster=cluster)
    assert refused.value.status == 2
    said = capfd.readouterr().err
    assert "started again" not in said, said


@pytest.mark.slow
def test_two_processes_of_which_one_dies_meanwhile_give_the_losses_of_one(cluster, inputs, tmp_path, capfd):
    from acclimate.cli import app

    app(command(inputs, tmp_path / "one", 60), standalone_mode=False)
    killed = []

    def kill_one():
        while not (tmp_path / "two" / "log.jsonl").exists():
            time.sleep(0.01)
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            if b"RayTrainWorker" in place.read_bytes() and not killed:
                killed.append(int(place.parent.name))
                os.kill(killed[0], signal.SIGKILL)

    threading.Thread(target=kill_one, daemon=True).start()
    on_ray.launch(command(inputs, tmp_path / "two", 60), processes=2, cluster=cluster)
    assert len(killed) == 1
    assert "all are started again, 3 more times at most" in capfd.readouterr().err
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-3)


def test_commands_without_sense_are_told():
    for arguments in (["--workers", "2"], ["--workers", "0", "adapt"]):
        with pytest.raises(SystemExit):
            on_ray.main(arguments)
