"""The state of a run on the disk: weights and the optimiser's as safetensors, the step as JSON.

state-<steps>/    the newest two; gone once the run's result is written
stable-<steps>/   the one before the rate falls, which a plan with more steps goes on from; it stays
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from acclimate.core import files, ranks
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan
from acclimate.training.shards import cut_like, gathered, whole

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
