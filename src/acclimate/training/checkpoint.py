"""A run that can be killed at any moment and goes on as if it had not been.

State (training/state.py) is written into `state-<steps>/` beside the run's `log.jsonl`; the newest two are kept, and a
damaged newest one falls back to the one before. The log holds what is the same on every run; seconds, which are not,
are kept beside it in `clock.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks
from acclimate.core.types import Cost, Stream
from acclimate.training.loop import Step, adamw, train
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, device
from acclimate.training.shards import end
from acclimate.training.spikes import WINDOW, Spikes
from acclimate.training.state import restore, save

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
