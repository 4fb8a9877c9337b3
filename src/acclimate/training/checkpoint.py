"""Save the states of a training run, so that it can be killed at any moment and goes on as if it had not been.

log.jsonl         a line for each step, with what is the same whenever the run is repeated
clock.json        the seconds that the run took, over all sessions, and the hash of the log
before.json       the cost of what a method computed from the text before the first step, if anything
state-<steps>/    weights and the optimiser's state as safetensors, the step as JSON; the newest two are kept, and if
                  the newest is damaged the one before it is used. Removed once the run's result is written
stable-<steps>/   the state before the rate falls, from which a plan with more steps goes on; it stays

Functions import torch where they need it, so that a log is read without it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import clock, files, ranks, settings
from acclimate.core.types import Cost, Stream
from acclimate.training.plan import Plan, device, loss_scaler

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from acclimate.training.loop import Step
    from acclimate.training.objective import Objective

AGAIN = "again"  # a directory: the second attempt of a run that learnt nothing (methods/finetune.py)
LOG = "log.jsonl"
CLOCK = "clock.json"
BEFORE = "before.json"
STATE = re.compile(r"(state|stable)-\d+")  # names of states; a user may have renamed a copy
SAVE_SECONDS = 30.0
KEPT = 2  # states on disk

# of `Spikes`
WINDOW = 50  # steps whose median a loss is compared with
LEAST = 30  # steps before anything is called a spike
FAR = 7.0  # deviations above the median
NARROWEST = 0.01  # deviation, about 1% of a loss: it bounds the deviation of losses that hardly differ
SMALLEST = 1e-3  # smaller losses count as this: between them no jump means anything
LEARNT = 0.1  # the same, as a share of the median of the first LEAST losses: rows so far below are known by heart

logger = logging.getLogger(__name__)


def resumable(
    objective: Objective,
    stream: Stream,
    plan: Plan,
    directory: Path,
    *,
    until: int | None = None,
    save_seconds: float | None = None,
) -> Iterator[Step]:
    """Run `train` from the last state in `directory`: log each step, and save a state every `save_seconds`.

    until         stop after this many steps with a state saved, as if killed there; the same call without it goes on
    save_seconds  None: $ACCLIMATE_SAVE_SECONDS, or 30. It is no setting of the plan because no result depends on it

    It yields only the steps that are still to do. So the caller must write to a file what it keeps of a step before
    the step is saved, unless that is a function of the weights. Call `finish` once the run's result is written.
    """
    from acclimate.training.loop import adamw, train
    from acclimate.training.shards import end

    directory.mkdir(parents=True, exist_ok=True)
    every = settings.from_environment("ACCLIMATE_SAVE_SECONDS", SAVE_SECONDS) if save_seconds is None else save_seconds
    objective.to(device())  # first, because the optimiser's state is loaded to where the weights lie
    optimiser, scaler = adamw(objective, plan), loss_scaler(plan, device())
    start = restore(objective, optimiser, directory, plan=plan, scaler=scaler)
    if until is not None and start >= until:
        end(objective)
        return
    with Log(directory, start) as log:
        saved = time.monotonic()
        for step in train(objective, stream, plan, optimiser, start=start, scaler=scaler):
            yield log.add(step)
            stops = step.number == until
            due = time.monotonic() - saved >= every and step.number < plan.steps
            if ranks.agree(due or stops or step.number == plan.settled):
                if ranks.is_first():
                    log.flush()
                save(objective, optimiser, directory, step.number, plan=plan, scaler=scaler)
                ranks.wait()  # the first has written it, which may take longer than a step may
                saved = time.monotonic()
            if stops:
                end(objective)
                return


def finish(directory: Path) -> None:
    """Remove the states of a run whose result is written, and what killed writes left behind.

    The state from which a longer plan goes on stays, and so do the user's own copies, such as `state-best`.
    """
    if ranks.is_first():
        states = (path for path in directory.glob("state-*") if STATE.fullmatch(path.name))
        for leftover in (*states, *directory.glob(".*.tmp")):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


def spent(directory: Path) -> Cost:
    """Return the cost of the run in `directory` so far: tokens and FLOPs from its log, seconds from its clock.

    The cost of a second attempt in `directory/again` is added.
    """
    lines = read_log(directory) if (directory / LOG).exists() else []
    seconds = float(_clock(directory).get("seconds", 0.0))
    trained = Cost(sum(line["tokens"] for line in lines), sum(line["flops"] for line in lines), seconds)
    second = spent(directory / AGAIN) if (directory / AGAIN).is_dir() else Cost()
    return trained + cost_before(directory) + second


def cost_before(directory: Path) -> Cost:
    """Return the cost of what a method computed in `directory` before the first step."""
    return Cost(**files.read_record(directory / BEFORE)) if (directory / BEFORE).exists() else Cost()


def read_log(directory: Path, steps: int | None = None) -> list[dict[str, Any]]:
    """Return the lines of `log.jsonl`, one for each step. Raises DamagedError where it is not what was written.

    steps: those to read; None: all
    """
    lines = _log_lines(directory)[:steps]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise files.DamagedError(f"{directory / LOG} is damaged: {error}. {_again(directory)}") from error


def _log_lines(directory: Path) -> list[bytes]:
    """Return the whole lines of `log.jsonl`. Raises DamagedError where it is not what `clock.json` has the hash of."""
    clock = _clock(directory)  # before the log, which a running job writes before its clock
    content = (directory / LOG).read_bytes() if (directory / LOG).exists() else b""
    lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
    steps = clock.get("steps", 0)
    if len(lines) < steps or (steps and files.sha256_of_bytes(b"".join(lines[:steps])) != clock["log"]):
        raise files.DamagedError(
            f"{directory / LOG} is damaged: its first {steps:,} lines differ from {CLOCK}. {_again(directory)}"
        )
    return lines


def _clock(directory: Path) -> dict[str, Any]:
    """Return what `Log.flush` has written, if anything: the seconds, the steps that are logged, the log's hash."""
    path = directory / CLOCK
    way_out = f"Remove {path} to continue; earlier seconds are then not counted"
    record: dict[str, Any] = files.read_record(path, way_out=way_out) if path.exists() else {}
    return record


def _again(directory: Path) -> str:
    return f"Remove {directory}, and give the same command again to repeat this run"


class Log:
    """Appends to `log.jsonl`, after cutting it back to the steps of the state from which the run goes on."""

    def __init__(self, directory: Path, start: int) -> None:
        self.path, self.clock = directory / LOG, directory / CLOCK
        self.before, self.number, self.hash = 0.0, start, hashlib.sha256()
        lines: list[dict[str, Any]] = []
        if ranks.is_first():
            lines = read_log(directory, start) if start else []
            content = b"".join(_log_lines(directory)[:start]) if start else b""
            self.before = float(_clock(directory).get("seconds", 0.0)) if start else 0.0
            self.hash.update(content)
            self._write_clock(self.before)  # before the log is cut back to this
            files.write_bytes(self.path, content)
        tokens, flops = sum(line["tokens"] for line in lines), sum(line["flops"] for line in lines)
        losses = [line["loss"] for line in (*lines[:LEAST], *lines[LEAST:][-WINDOW:])]  # all that `Spikes` keeps
        self.tokens, self.flops, losses = ranks.agree((tokens, flops, losses))
        self.spikes = Spikes(losses)
        self.skips = ranks.agree(sum(line.get("skipped", False) for line in lines))
        self.begun = clock.seconds()
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
        """Write the step's line; return the step with its spike and with what the run has spent so far."""
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
        if step.skipped:
            line["skipped"] = True
            self.skips += 1
        if spike:
            line |= {"spike": spike, "documents": list(dict.fromkeys(map(str, step.documents)))}
        if self.file:
            content = json.dumps(line) + "\n"
            self.file.write(content)
            self.hash.update(content.encode())
            self.number = step.number
        self.tokens, self.flops = self.tokens + step.tokens, self.flops + step.flops
        return replace(step, spike=spike, spent=Cost(self.tokens, self.flops, self._seconds()), skips=self.skips)

    def flush(self) -> None:
        """Put the lines so far on the disk, and the seconds that they took over all sessions."""
        if self.file:
            with files.disk_named(self.path):
                self.file.flush()
                os.fsync(self.file.fileno())
            self._write_clock(self._seconds())

    def _write_clock(self, seconds: float) -> None:
        about = {"seconds": seconds, "steps": self.number, "log": self.hash.hexdigest()}
        files.write_record(self.clock, about)

    def _seconds(self) -> float:
        return self.before + clock.seconds() - self.begun


class Spikes:
    """Finds losses that jump. The run reports and logs them; it never skips a step for one.

    A spike is a loss more than FAR deviations above the median of the WINDOW steps before it. The deviation is 1.4826
    times the median distance from the median: the standard deviation if losses are normal, and not widened by the
    spikes themselves. All of it is on the logarithm of the loss, because losses in fine-tuning lie close to 0 with a
    long tail. Once most rows are known by heart, only a loss as large as the first ones is a spike: a row that is not
    among them has a loss many times theirs.

    OLMo 2 counts 7 standard deviations above the running mean of 1,000 steps ("2 OLMo 2 Furious", 2025). A median over
    fewer steps also finds a spike in a run whose loss still falls.

    before: the losses of earlier sessions, in order
    """

    def __init__(self, before: Iterable[float] = ()) -> None:
        self.losses: deque[float] = deque(maxlen=WINDOW)
        self.first: list[float] = []  # at most LEAST losses
        for loss in before:
            self._keep(loss)

    def add(self, loss: float) -> float:
        """Return how many deviations the next step's loss is above the median if it is a spike; else 0."""
        jump = 0.0
        if len(self.losses) >= LEAST:
            begun = float(np.median(self.first))
            smallest = max(SMALLEST, LEARNT * begun)
            logarithms = np.log(np.maximum([*self.losses, loss], smallest))
            before, logarithm = logarithms[:-1], logarithms[-1]
            median = float(np.median(before))
            deviation = max(NARROWEST, 1.4826 * float(np.median(np.abs(before - median))))
            by_heart = median <= np.log(smallest)
            jump = 0.0 if by_heart and loss < begun else float(logarithm - median) / deviation
        self._keep(loss)
        return jump if jump > FAR else 0.0

    def _keep(self, loss: float) -> None:
        self.losses.append(loss)
        if len(self.first) < LEAST:
            self.first.append(loss)


def save(
    objective: Objective,
    optimiser: torch.optim.Optimizer,
    directory: Path,
    number: int,
    *,
    plan: Plan | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> None:
    """Write the state after `number` steps and remove older ones. All processes call it, the first one writes.

    plan    if given, the state before its rate falls is kept as `stable-*`, and later states record the plan's length
    scaler  of the loss, with precision float16
    """
    from safetensors.torch import save_file

    from acclimate.training.shards import gathered, unsharded

    optimised = {
        f"optimiser.{key}.{name}": gathered(value)
        for name, parameter in objective.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }
    with unsharded(objective):
        if not ranks.is_first():
            return
        tensors = {f"model.{name}": value for name, value in _tensors_of(objective).items()} | optimised
        stays = plan is not None and number == plan.settled
        with files.new_directory(directory / f"{'stable' if stays else 'state'}-{number:09d}") as temporary:
            save_file(
                {name: value.detach().contiguous() for name, value in tensors.items()}, temporary / "state.safetensors"
            )
            falls = plan is not None and plan.schedule != "linear" and number > plan.settled
            about: dict[str, Any] = {"steps": number} | ({"of": plan.steps} if falls and plan else {})
            files.write_json(temporary / "state.json", about | ({"scaler": scaler.state_dict()} if scaler else {}))
    for old in sorted(path for path in directory.glob("state-*") if STATE.fullmatch(path.name))[:-KEPT]:
        shutil.rmtree(old)
    for old in stable_states(directory)[:-1]:
        shutil.rmtree(old)


def restore(
    objective: Objective,
    optimiser: torch.optim.Optimizer,
    directory: Path,
    *,
    plan: Plan | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> int:
    """Load the newest whole state into the objective, the optimiser and the scaler of the loss, if there is one.

    A state that was saved in another precision than float16 has no scale of the loss: the scaler stays as it is.
    Return the number of its steps, 0 for none. Raises DamagedError for the state of another model.

    plan: if given, states in which the rate had begun to fall towards another end are removed
    """
    chosen, number = ranks.agree(_newest(directory, plan) if ranks.is_first() else (None, 0))
    if chosen is not None:
        _load(objective, optimiser, directory / chosen / "state.safetensors")
        if scaler is not None:
            about = files.read_json(directory / chosen / "state.json")
            if "scaler" in about:
                scaler.load_state_dict(about["scaler"])
            else:
                logger.warning("%s was saved in another precision: the scale of the loss begins again", chosen)
    return number


def stable_states(directory: Path) -> list[Path]:
    """Return the states from which a plan with more steps can go on, the newest last."""
    return sorted(path for path in directory.glob("stable-*") if STATE.fullmatch(path.name))


def _newest(directory: Path, plan: Plan | None) -> tuple[str | None, int]:
    """Return the name of the newest whole state that the plan leads to, and its steps."""
    states = [path for path in (*directory.glob("state-*"), *stable_states(directory)) if STATE.fullmatch(path.name)]
    for state in sorted(states, key=lambda path: int(path.name.partition("-")[2]), reverse=True):
        try:
            files.check_manifest(state)
        except files.DamagedError as error:
            logger.warning("%s; continuing from the state before it", error)
            continue
        about = files.read_json(state / "state.json")
        if plan is not None and about.get("of", plan.steps) != plan.steps:
            shutil.rmtree(state)
            continue
        return state.name, int(about["steps"])
    return None, 0


def _tensors_of(objective: Objective) -> dict[str, Tensor]:
    """Return parameters and buffers by name, without modules that each run makes anew. Tied weights appear once."""
    made_anew = tuple(f"{name}." for name, module in objective.named_modules() if getattr(module, "made_anew", False))
    tensors = dict(objective.named_parameters()) | dict(objective.named_buffers())
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(made_anew)}


def _load(objective: Objective, optimiser: torch.optim.Optimizer, path: Path) -> None:
    import torch
    from safetensors import safe_open

    from acclimate.training.shards import cut_like, unsharded

    parameters = dict(objective.named_parameters())
    with torch.no_grad(), safe_open(path, framework="pt") as file, unsharded(objective):
        places = _tensors_of(objective)
        shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118  a handle is no mapping
        _check_names(path.parent, shapes, places, parameters)
        for key in shapes:
            kind, _, place = key.partition(".")
            value = file.get_tensor(key)
            if kind == "model":
                places[place].copy_(value)
            else:
                entry, _, name = place.partition(".")
                parameter = parameters[name]
                # a copy, because the file's memory may be aligned otherwise, which can change the last bit
                optimiser.state[parameter][entry] = cut_like(value.to(parameter.device, copy=True), parameter)


def _check_names(
    state: Path, shapes: Mapping[str, list[int]], places: Mapping[str, Tensor], parameters: Mapping[str, Any]
) -> None:
    """Raise DamagedError unless a state has these tensors, and its optimiser's state is of these parameters.

    shapes: of what the state has, by key
    """
    expected = {f"model.{name}": list(tensor.shape) for name, tensor in places.items()}
    differences = [
        *(name for name, shape in expected.items() if shapes.get(name) != shape),
        *(
            key
            for key in sorted(shapes.keys() - expected)
            if key[:6] == "model." or key.split(".", 2)[2] not in parameters
        ),
    ]
    if differences:
        raise files.DamagedError(
            f"{state} does not fit the model: they differ in {', '.join(differences[:3])}. Another version of "
            f"acclimate, torch or transformers may have written it. {_again(state.parent)}"
        )
