import os
import sqlite3
import struct
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from acclimate.core.types import Progress
from acclimate.training.trackers import TRACKERS

SETTINGS = {"method": "tapter", "plan": {"rate": 5e-5, "steps": 20}}
# Two stages that both count from 0; a numpy number, and values that are no numbers.
STORY = [
    Progress("adapt", 0, 20, values={"loss": 3.5, "device": "cpu", "finished": False}),
    Progress("adapt", 20, 20, values={"loss": np.float32(2.5), "tokens": 4096}),
    Progress("finetune", 10, 10, values={"loss": 0.5}),
    Progress("finetune", 10, 10, values={"best": "dev"}),
]
LOGGED = {"adapt/loss": [(0, 3.5), (20, 2.5)], "adapt/tokens": [(20, 4096.0)], "finetune/loss": [(10, 0.5)]}


def tell(name: str, directory: Path) -> None:
    with closing(TRACKERS[name]("tapter-1", directory, SETTINGS)) as tracker:
        for progress in STORY:
            tracker(progress)


def test_tensorboard_reads_back_what_was_logged(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tell("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard" / "tapter-1")).Reload()
    tags = events.Tags()["scalars"]
    assert {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags} == LOGGED
    [settings] = events.Tensors("settings/text_summary")
    assert b'"rate": 5e-05' in settings.tensor_proto.string_val[0]


@pytest.mark.filterwarnings("default")  # other people's deprecations are theirs
def test_mlflow_reads_back_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    for package in ("alembic", "sqlalchemy", "mlflow"):
        pytest.importorskip(package)
    import mlflow

    tell("mlflow", tmp_path / "run")
    tell("mlflow", tmp_path / "run")  # a second run of the same experiment
    assert os.listdir(tmp_path) == ["run"], "nothing beside the directory that was asked for"
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/run/mlflow.db")
    run, _ = client.search_runs([client.get_experiment_by_name("acclimate").experiment_id])
    assert run.info.run_name == "tapter-1"
    assert run.info.status == "FINISHED"
    assert run.data.params == {"method": "tapter", "plan.rate": "5e-05", "plan.steps": "20"}
    history = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
    assert {key: [(metric.step, metric.value) for metric in metrics] for key, metrics in history.items()} == LOGGED


@pytest.mark.filterwarnings("default")
def test_wandb_keeps_every_stage_of_an_offline_run(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    wandb = pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.chdir(tmp_path)
    tell("wandb", tmp_path / "run")
    assert wandb.run is None
    [file] = (tmp_path / "run").glob("wandb/offline-run-*/*.wandb")
    data = file.read_bytes()[7:]  # behind the header: checksum, length, kind and the record, over and over
    logged: dict[str, list[tuple[int, float]]] = {}
    while data:
        length, kind = struct.unpack("<4xHB", data[:7])
        assert kind == 1, "a record over two blocks, which this reader cannot join"
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data[7 : 7 + length])
        data = data[7 + length :]
        row = {item.key or "/".join(item.nested_key): float(item.value_json) for item in record.history.item}
        done = [int(value) for key, value in row.items() if key.endswith("/done")]
        for key, value in row.items():
            if not key.startswith("_") and not key.endswith("/done"):
                logged.setdefault(key, []).append((done[0], value))
    assert logged == LOGGED


@pytest.mark.filterwarnings("default")
def test_trackio_reads_back_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    if "trackio" in sys.modules:
        pytest.skip("Trackio was imported before, and so keeps its runs elsewhere")
    pytest.importorskip("trackio")
    tell("trackio", tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "acclimate.db")) as database:
        rows = list(database.execute("select step, metrics from metrics where run_name = 'tapter-1' order by id"))
    assert [step for step, _ in rows] == [0, 20, 10]
    assert "finetune/loss" in str(rows[2][1])


@pytest.mark.parametrize("name", sorted(TRACKERS))
def test_missing_package_names_the_command_that_installs_it(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # importing it raises ModuleNotFoundError
    for package in ("alembic", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, package, sys)
    with pytest.raises(ImportError, match=rf"needs the package '{name}'.*pip install acclimate\[{name}\]"):
        TRACKERS[name]("tapter-1", tmp_path, {})
