"""A run that can be killed at any moment and goes on as if it had not been.

State is written as safetensors and JSON into `state-<step>/` beside the run's `log.jsonl`; the newest two are kept, and
a damaged newest one falls back to the one before. The log holds what is the same on every run; seconds, which are not,
are kept beside it in `clock.json`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from acclimate.core import files, ranks
from acclimate.core.types import Cost, Stream
from acclimate.training.loop import Step, adamw, train
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, device

logger = logging.getLogger(__name__)

LOG = "log.jsonl"
CLOCK = "clock.json"
BEFORE = "before.json"  # the cost of what a method computed from the text before the first step, if anything
KEPT = 2  # states
SAVE_SECONDS = 30.0


def resumable(
    objective: Objective,
    stream: Stream,
    plan: Plan,
    directory: Path,
    *,
    until: int | None = None,
    save_seconds: float | None = None,
) -> Iterator[Step]:
    """`train`, from the last state in `directory` on, with a state saved every `save_seconds` and a line of
    `log.jsonl` for each step.

    until: stop after that many steps with a state saved, as if killed there; the same call without it goes on.
    save_seconds: None means $ACCLIMATE_SAVE_SECONDS, or 30. Neither is a setting of the plan, for no result depends
    on them.

    It yields only the steps that are still to do. What the caller keeps of a step must therefore be in a file by the
    time the step is saved, or be a function of the weights. Call `finish` once the run's result is written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    every = float(os.environ.get("ACCLIMATE_SAVE_SECONDS", SAVE_SECONDS)) if save_seconds is None else save_seconds
    objective.to(device())  # before the optimiser's state is loaded, which lies where the weights lie
    optimiser = adamw(objective, plan)
    start = restore(objective, optimiser, directory)
    if until is not None and start >= until:
        return
    with Log(directory, start) as log:
        saved = time.monotonic()
        for step in train(objective, stream, plan, optimiser, start=start):
            log.add(step)
            yield step
            stops = step.number == until
            due = time.monotonic() - saved >= every and step.number < plan.steps
            if ranks.agree(due or stops):
                if ranks.is_first():
                    log.flush()
                    save(objective, optimiser, directory, step.number)
                saved = time.monotonic()
            if stops:
                return


def finish(directory: Path) -> None:
    """Drop the states of a run whose result is written, and what writes that were killed left behind."""
    if ranks.is_first():
        for left in (*directory.glob("state-*"), *directory.glob(".*.tmp")):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


def save(objective: Objective, optimiser: torch.optim.Optimizer, directory: Path, number: int) -> None:
    """Write the state after `number` steps; older states but the last go."""
    tensors = {f"model.{name}": value for name, value in _tensors_of(objective).items()}
    tensors |= _optimiser_tensors(objective, optimiser)
    with files.new_directory(directory / f"state-{number:09d}") as temporary:
        save_file(
            {name: value.detach().contiguous() for name, value in tensors.items()}, temporary / "state.safetensors"
        )
        files.write_json(temporary / "state.json", {"steps": number})
    for old in _states(directory)[:-KEPT]:
        shutil.rmtree(old)


def restore(objective: Objective, optimiser: torch.optim.Optimizer, directory: Path) -> int:
    """Load the newest whole state into the objective and the optimiser; the number of steps it was saved after."""
    for state in reversed(_states(directory)):
        try:
            files.check(state)
        except files.DamagedError as error:
            logger.warning("%s; going on from the state before it", error)
            continue
        _load(objective, optimiser, state / "state.safetensors")
        return int(files.read_json(state / "state.json")["steps"])
    return 0


def spent(directory: Path) -> Cost:
    """What was done in `directory` so far: tokens and FLOPs by its log, where it trained; seconds by its clock."""
    lines = read_log(directory) if (directory / LOG).exists() else []
    seconds = float(files.read_json(directory / CLOCK)["seconds"]) if (directory / CLOCK).exists() else 0.0
    trained = Cost(sum(line["tokens"] for line in lines), sum(line["flops"] for line in lines), seconds)
    return trained + before(directory)


def before(directory: Path) -> Cost:
    """What was spent in `directory` before the first step."""
    return Cost(**files.read_json(directory / BEFORE)) if (directory / BEFORE).exists() else Cost()


def read_log(directory: Path) -> list[dict[str, Any]]:
    """The lines of `log.jsonl`, one a step."""
    with open(directory / LOG, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Log:
    """`log.jsonl`, a line a step, cut back to the steps of the state that the run goes on from."""

    def __init__(self, directory: Path, start: int) -> None:
        self.path, self.clock = directory / LOG, directory / CLOCK
        if ranks.is_first():
            kept = self.path.read_bytes().splitlines(keepends=True)[:start] if start else []
            files.write_bytes(self.path, b"".join(kept))
        self.before = float(files.read_json(self.clock)["seconds"]) if start and self.clock.exists() else 0.0
        self.begun = time.monotonic()
        self.file = open(self.path, "a", encoding="utf-8") if ranks.is_first() else None  # noqa: SIM115

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.flush()
        finally:
            if self.file:
                self.file.close()

    def add(self, step: Step) -> None:
        line = {
            "step": step.number,
            "loss": step.loss,
            **{f"loss.{term}": value for term, value in step.losses.items()},
            "gradient": step.gradient,
            "rate": step.rate,
            "tokens": step.tokens,
            "padding": step.padded,
            "flops": step.flops,
        }
        if self.file:
            self.file.write(json.dumps(line) + "\n")

    def flush(self) -> None:
        """Put the lines so far on the disk, and the seconds, over all sessions, that they took."""
        if self.file:
            self.file.flush()
            os.fsync(self.file.fileno())
            files.write_json(self.clock, {"seconds": self.before + time.monotonic() - self.begun})


def _states(directory: Path) -> list[Path]:
    return sorted(directory.glob("state-*"))


def _tensors_of(objective: Objective) -> dict[str, Tensor]:
    """Parameters and buffers by name, but those that a run makes anew; weights that are tied appear once."""
    again = tuple(f"{name}." for name, module in objective.named_modules() if getattr(module, "made_anew", False))
    tensors = dict(objective.named_parameters()) | dict(objective.named_buffers())
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(again)}


def _optimiser_tensors(objective: Objective, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"optimiser.{key}.{name}": value
        for name, parameter in objective.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


@torch.no_grad()
def _load(objective: Objective, optimiser: torch.optim.Optimizer, path: Path) -> None:
    parameters = dict(objective.named_parameters())
    places = _tensors_of(objective)
    with safe_open(path, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118  a safetensors handle is no mapping
            kind, _, rest = key.partition(".")
            value = file.get_tensor(key)
            if kind == "model":
                places.pop(rest).copy_(value)
            else:
                entry, _, name = rest.partition(".")
                # a copy in memory of its own: the file's may be aligned otherwise, which can change the last bit
                optimiser.state[parameters[name]][entry] = value.to(parameters[name].device, copy=True)
    if places:
        raise files.DamagedError(f"{path} lacks {', '.join(sorted(places))}")
