"""Log progress to a dashboard. All trackers are optional, and local unless the package's settings say otherwise.

Each tracker takes the run's name, a directory and the run's settings, and logs every number of a `Progress` as
`stage/key` at step `done`. Close the tracker (`contextlib.closing`), so that it writes what it still buffers.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from acclimate.core.settings import flat
from acclimate.core.types import Progress


@dataclass(frozen=True)
class Tracker:
    """A `Watch` that must be closed. log: takes the stage, `{key: number}` and the step."""

    log: Callable[[str, dict[str, float], int], object]
    close: Callable[[], object]

    def __call__(self, progress: Progress) -> None:
        # a bool is a Real, but a verdict and no measurement
        numbers = {
            key: float(value)
            for key, value in progress.values.items()
            if not isinstance(value, bool) and isinstance(value, Real)
        }
        if numbers:
            self.log(progress.stage, numbers, progress.done)


def tensorboard(name: str, directory: Path, settings: Mapping[str, Any]) -> Tracker:
    """Return a run in `directory/tensorboard/name`; `tensorboard --logdir DIRECTORY/tensorboard` shows all runs."""
    _package("tensorboard", extra="tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(directory / "tensorboard" / name)
    text = json.dumps(settings, indent=2, default=str)
    writer.add_text("settings", "\n".join("    " + line for line in text.splitlines()))  # Markdown's code block

    def log(stage: str, numbers: dict[str, float], step: int) -> None:
        for key, value in numbers.items():
            writer.add_scalar(f"{stage}/{key}", value, step)

    return Tracker(log, writer.close)


def mlflow(name: str, directory: Path, settings: Mapping[str, Any]) -> Tracker:
    """Return a run of the experiment "acclimate" in `directory/mlflow.db`, or on the server of MLFLOW_TRACKING_URI."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
    package = _package("mlflow", "sqlalchemy", "alembic", extra="mlflow")
    directory.mkdir(parents=True, exist_ok=True)
    local = f"sqlite:///{directory.resolve() / 'mlflow.db'}"
    client = package.MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI", local))
    experiment = client.get_experiment_by_name("acclimate")
    number = experiment.experiment_id if experiment else client.create_experiment("acclimate")
    run = client.create_run(number, run_name=name).info.run_id
    for key, value in flat(settings).items():  # MLflow's parameters know no tables
        client.log_param(run, key, value)

    def log(stage: str, numbers: dict[str, float], step: int) -> None:
        now = time.time_ns() // 1_000_000
        metric = package.entities.Metric
        client.log_batch(run, [metric(f"{stage}/{key}", value, now, step) for key, value in numbers.items()])

    return Tracker(log, lambda: client.set_terminated(run))


def wandb(name: str, directory: Path, settings: Mapping[str, Any]) -> Tracker:
    """Return an offline run in `directory/wandb`, for `wandb sync`; WANDB_MODE=online sends it right away."""
    package = _package("wandb", extra="wandb")
    directory.mkdir(parents=True, exist_ok=True)
    run = package.init(
        project=os.environ.get("WANDB_PROJECT", "acclimate"),
        name=name,
        dir=directory,
        config=dict(settings),
        mode=os.environ.get("WANDB_MODE", "offline"),
        reinit="create_new",  # runs side by side: the default would end the run before
        settings=package.Settings(silent=True, console="off"),
    )
    stages: set[str] = set()

    def log(stage: str, numbers: dict[str, float], step: int) -> None:
        # W&B drops a step below the newest, and every stage counts from 0: so each stage has an axis
        if stage not in stages:
            run.define_metric(f"{stage}/*", step_metric=f"{stage}/done")
            stages.add(stage)
        run.log({f"{stage}/done": step} | {f"{stage}/{key}": value for key, value in numbers.items()})

    return Tracker(log, run.finish)


def trackio(name: str, directory: Path, settings: Mapping[str, Any]) -> Tracker:
    """Return a run of the project "acclimate" in TRACKIO_DIR, or in Trackio's cache; never in `directory`.

    Trackio fixes that place when it is imported, once a process; `trackio show` looks there too.
    """
    run = _package("trackio", extra="trackio").init(
        project="acclimate", name=name, config={"directory": str(directory), **settings}, embed=False
    )

    def log(stage: str, numbers: dict[str, float], step: int) -> None:
        run.log({f"{stage}/{key}": value for key, value in numbers.items()}, step=step)

    return Tracker(log, run.finish)


TRACKERS: dict[str, Callable[[str, Path, Mapping[str, Any]], Tracker]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
    "trackio": trackio,
}


def _package(name: str, *others: str, extra: str) -> Any:
    """Import and return the package `name`. Raises ImportError, with the command to run, if one is missing."""
    try:
        for package in others:
            importlib.import_module(package)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"The tracker {extra!r} needs the package {error.name!r}, which is not installed: run `pip install "
            f"acclimate[{extra}]`, or remove the tracker."
        ) from error
