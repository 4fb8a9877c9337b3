"""A run that can be killed at any moment and goes on as if it had not been.

State (training/checkpoint.py) is written into `state-<steps>/` beside the run's `log.jsonl`; the newest two are kept,
and a
damaged newest one falls back to the one before. The log holds what is the same on every run; seconds, which are not,
are kept beside it in `clock.json`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from acclimate.core import files, ranks
from acclimate.core.types import Cost, Stream
from acclimate.training.loop import Step, adamw, train
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, device
from acclimate.training.shards import cut_like, end, gathered, whole

# -------------------- spikes
# Losses that jump: found as they come, told, and left to whoever watches. No step is ever skipped for it.
#
# A spike is a loss more than FAR deviations above the running median, both of the WINDOW steps before it. The deviation
# is 1.4826 times the median distance from the median, which is the standard deviation where losses are normal, and
# which
# the spikes themselves do not widen. All of it on the logarithm of the loss: the losses of a model that is fine-tuned
# lie
# close to 0 with a long tail, and it has no more spikes than another.
#
# OLMo 2 counts as spikes what is 7 standard deviations from a running mean of 1,000 steps ("2 OLMo 2 Furious", 2025); a
# median and a shorter window find one in a run whose loss still falls.


WINDOW = 50  # steps
LEAST = 30  # steps before anything is called a spike
FAR = 7.0
NARROWEST = 0.01  # deviation, about 1% of a loss: of losses that are all but the same, nothing less is worth a word
SMALLEST = 1e-6  # losses below count as this


class Spikes:
    """The losses of a run's last steps. before: those of the steps that were done in earlier sessions, in order."""

    def __init__(self, before: Iterable[float] = ()) -> None:
        self.logarithms: deque[float] = deque(map(_logarithm, before), maxlen=WINDOW)

    def add(self, loss: float) -> float:
        """How many deviations the loss of the next step is above the median, if it is a spike; else 0."""
        own, found = _logarithm(loss), 0.0
        if len(self.logarithms) >= LEAST:
            before = np.array(self.logarithms)
            median = float(np.median(before))
            deviation = max(NARROWEST, 1.4826 * float(np.median(np.abs(before - median))))
            found = (own - median) / deviation
        self.logarithms.append(own)
        return found if found > FAR else 0.0


def _logarithm(loss: float) -> float:
    return math.log(max(loss, SMALLEST))


# -------------------- state
# The state of a run on the disk: weights and the optimiser's as safetensors, the step as JSON.
#
# state-<steps>/    the newest two; gone once the run's result is written
# stable-<steps>/   the one before the rate falls, which a plan with more steps goes on from; it stays


logger = logging.getLogger(__name__)

KEPT = 2  # states


def save(
    objective: Objective, optimiser: torch.optim.Optimizer, directory: Path, number: int, *, plan: Plan | None = None
) -> None:
    """Write the state after `number` steps; older states but the last go. All processes call it, the first one writes.

    plan: with it, the state before its rate falls stays, and those behind tell whose fall they are of
    """
    optimised = _optimiser_tensors(objective, optimiser)
    with whole(objective):
        if not ranks.is_first():
            return
        tensors = {f"model.{name}": value for name, value in _tensors_of(objective).items()} | optimised
        stays = plan is not None and number == plan.settled
        with files.new_directory(directory / f"{'stable' if stays else 'state'}-{number:09d}") as temporary:
            save_file(
                {name: value.detach().contiguous() for name, value in tensors.items()}, temporary / "state.safetensors"
            )
            falls = plan is not None and plan.schedule != "linear" and number > plan.settled
            files.write_json(
                temporary / "state.json", {"steps": number} | ({"of": plan.steps} if falls and plan else {})
            )
    for old in sorted(directory.glob("state-*"))[:-KEPT]:
        shutil.rmtree(old)
    for old in stable_states(directory)[:-1]:
        shutil.rmtree(old)


def restore(
    objective: Objective, optimiser: torch.optim.Optimizer, directory: Path, *, plan: Plan | None = None
) -> int:
    """Load the newest whole state into the objective and the optimiser; the number of steps it was saved after.

    plan: with it, states in which the rate had begun to fall towards another end go
    """
    chosen, number = ranks.agree(_newest(directory, plan) if ranks.is_first() else (None, 0))
    if chosen is not None:
        _load(objective, optimiser, directory / chosen / "state.safetensors")
    return number


def stable_states(directory: Path) -> list[Path]:
    """The states that a plan with more steps can go on from, the newest last."""
    return sorted(directory.glob("stable-*"))


def _newest(directory: Path, plan: Plan | None) -> tuple[str | None, int]:
    """The name of the newest whole state that the plan leads to, and its steps."""
    for state in sorted((*directory.glob("state-*"), *stable_states(directory)), key=_steps_of, reverse=True):
        try:
            files.check(state)
        except files.DamagedError as error:
            logger.warning("%s; going on from the state before it", error)
            continue
        about = files.read_json(state / "state.json")
        if plan is not None and about.get("of", plan.steps) != plan.steps:
            shutil.rmtree(state)
            continue
        return state.name, int(about["steps"])
    return None, 0


def _steps_of(state: Path) -> int:
    return int(state.name.partition("-")[2])


def _tensors_of(objective: Objective) -> dict[str, Tensor]:
    """Parameters and buffers by name, but those that a run makes anew; weights that are tied appear once."""
    again = tuple(f"{name}." for name, module in objective.named_modules() if getattr(module, "made_anew", False))
    tensors = dict(objective.named_parameters()) | dict(objective.named_buffers())
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(again)}


def _optimiser_tensors(objective: Objective, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"optimiser.{key}.{name}": gathered(value)
        for name, parameter in objective.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


@torch.no_grad()
def _load(objective: Objective, optimiser: torch.optim.Optimizer, path: Path) -> None:
    parameters = dict(objective.named_parameters())
    with safe_open(path, framework="pt") as file, whole(objective):
        places = _tensors_of(objective)
        for key in file.keys():  # noqa: SIM118  a safetensors handle is no mapping
            kind, _, rest = key.partition(".")
            value = file.get_tensor(key)
            if kind == "model":
                places.pop(rest).copy_(value)
            else:
                entry, _, name = rest.partition(".")
                own = parameters[name]
                # a copy in memory of its own: the file's may be aligned otherwise, which can change the last bit
                optimiser.state[own][entry] = cut_like(value.to(own.device, copy=True), own)
    if places:
        raise files.DamagedError(f"{path} lacks {', '.join(sorted(places))}")


LOG = "log.jsonl"
CLOCK = "clock.json"
BEFORE = "before.json"  # the cost of what a method computed from the text before the first step, if anything
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
    start = restore(objective, optimiser, directory, plan=plan)
    if until is not None and start >= until:
        end(objective)
        return
    with Log(directory, start) as log:
        saved = time.monotonic()
        for step in train(objective, stream, plan, optimiser, start=start):
            told = log.add(step)
            yield told
            stops = step.number == until
            due = time.monotonic() - saved >= every and step.number < plan.steps
            if ranks.agree(due or stops or step.number == plan.settled):
                if ranks.is_first():
                    log.flush()
                save(objective, optimiser, directory, step.number, plan=plan)
                saved = time.monotonic()
            if stops:
                end(objective)
                return


def finish(directory: Path) -> None:
    """Drop the states of a run whose result is written, and what writes that were killed left behind; but not the state
    that a longer plan goes on from.
    """
    if ranks.is_first():
        for left in (*directory.glob("state-*"), *directory.glob(".*.tmp")):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


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
        done: list[dict[str, Any]] = []
        if ranks.is_first():
            kept = self.path.read_bytes().splitlines(keepends=True)[:start] if start else []
            files.write_bytes(self.path, b"".join(kept))
            done = list(map(json.loads, kept))
        tokens, flops = sum(line["tokens"] for line in done), sum(line["flops"] for line in done)
        self.tokens, self.flops, losses = ranks.agree((tokens, flops, [line["loss"] for line in done[-WINDOW:]]))
        self.spikes = Spikes(losses)
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

    def add(self, step: Step) -> Step:
        """Write the step's line; the step with what the log knows of it."""
        spike = self.spikes.add(step.loss)
        line: dict[str, Any] = {
            "step": step.number,
            "loss": step.loss,
            **{f"loss.{term}": value for term, value in step.losses.items()},
            "gradient": step.gradient,
            "rate": step.rate,
            "tokens": step.tokens,
            "padding": step.padded,
            "flops": step.flops,
        }
        if spike:
            line |= {"spike": spike, "documents": list(dict.fromkeys(map(str, step.documents)))}
        if self.file:
            self.file.write(json.dumps(line) + "\n")
        self.tokens, self.flops = self.tokens + step.tokens, self.flops + step.flops
        return replace(step, spike=spike, spent=Cost(self.tokens, self.flops, self._seconds()))

    def flush(self) -> None:
        """Put the lines so far on the disk, and the seconds, over all sessions, that they took."""
        if self.file:
            self.file.flush()
            os.fsync(self.file.fileno())
            files.write_json(self.clock, {"seconds": self._seconds()})

    def _seconds(self) -> float:
        return self.before + time.monotonic() - self.begun
