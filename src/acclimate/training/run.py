"""A whole training run in a directory: go on from where it stood, tell who watches, hand over a checkpoint."""

from __future__ import annotations

import os
import platform
import shutil
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files, ranks, settings
from acclimate.core.types import Batch, Checkpoint, Progress, Stream, Watch
from acclimate.models.encoder import save_model
from acclimate.training.checkpoint import LOG, finish, read_log, resumable, stable_states
from acclimate.training.loop import Step
from acclimate.training.objective import Objective, measure
from acclimate.training.plan import Plan
from acclimate.training.shards import whole

# -------------------- loss curve
# How the terms of a run's loss fall, on what it trains on and on text that it does not (TAPTER, Figure 1).
#
# curve.json   [{"step": int, "train": {term: loss}, "dev": {term: loss}}, ...], once the run has ended
# looks.json   [[step, {term: loss on dev}], ...], as they are taken


CURVE, LOOKS = "curve.json", "looks.json"


class LossCurve:
    """The looks of a run at evenly spaced steps, before the first and after the last among them.

    batches  of dev, the same at every look; none: the curve has the training losses alone
    looks    after the first one
    """

    def __init__(self, objective: Objective, batches: Sequence[Batch], plan: Plan, looks: int, out: Path) -> None:
        self.objective, self.batches, self.plan, self.out = objective, batches, plan, out
        self.steps = [0, *sorted({round(plan.steps * number / looks) for number in range(1, looks + 1)} - {0})]
        self.losses: dict[int, dict[str, float]] = {}
        if (out / LOOKS).exists():
            self.losses = dict(files.read_json(out / LOOKS))

    def begin(self) -> None:
        """The look before the first step; nothing in a run that goes on."""
        if 0 not in ranks.agree(self.losses):
            self._look(0)

    def __call__(self, step: Step) -> Mapping[str, float]:
        """What `training.run.run` tells after the step."""
        return self._look(step.number)

    def write(self) -> None:
        """`curve.json`; a training loss is the mean over the steps since the look before."""
        if not ranks.is_first():
            return
        log = read_log(self.out)
        curve: list[dict[str, Any]] = []
        for before, step in zip([0, *self.steps], self.steps, strict=False):
            own = log[before:step]
            train = {term: float(np.mean([line[f"loss.{term}"] for line in own])) for term in self._terms() if own}
            curve.append({"step": step, "train": train, "dev": self.losses.get(step, {})})
        files.write_json(self.out / CURVE, curve)

    def _look(self, step: int) -> dict[str, float]:
        if not self.batches:
            return {}
        found = measure(self.objective, self.batches, self.plan)
        self.losses[step] = found
        if ranks.is_first():
            files.write_json(self.out / LOOKS, sorted(self.losses.items()))
        return {f"dev {term}": loss for term, loss in found.items()}

    def _terms(self) -> Sequence[str]:
        return [*self.objective.weights]


CHECKPOINT = "checkpoint"
RUN = "run.json"
FEW = 8  # texts that are named on the screen
UNBEGUN = {RUN, "corpora", "documents"}  # what a run's directory may hold before anything depends on its settings
# settings that say where something lies
PLACES = ("model", "corpus", "task", "tokenizer", "dev", "general", "vectors", "vectors_corpus")
TOLD = ("loss", "losses", "rate", "tokens", "seconds", "spent")  # of each step, to whoever watches
PACKAGES = ("acclimate", "torch", "transformers", "tokenizers", "numpy", "numba", "llvmlite", "scipy", "scikit-learn")


def run(
    objective: Objective,
    stream: Stream,
    plan: Plan,
    directory: Path,
    *,
    stage: str,
    watch: Watch,
    after: Callable[[Step], Mapping[str, float]] | None = None,
    looks: Collection[int] = (),
    until: int | None = None,
) -> None:
    """Train to the end, or until so many steps are done, telling `watch` after each; `after` adds values to what is
    told of the steps whose numbers are in `looks`.

    A spike of the loss is told in words where it begins, and as a number at each of its steps.
    """
    jumped = False
    for step in resumable(objective, stream, plan, directory, until=until):
        values: dict[str, Any] = {name: getattr(step, name) for name in TOLD}
        if step.spike:
            values |= {"spike": step.spike} | ({} if jumped else {"note": _spike(step)})
        jumped = step.spike > 0
        if after and step.number in looks:
            with whole(objective):
                values |= after(step)
        watch(Progress(stage, step.number, plan.steps, "steps", values))


def write_checkpoint(
    out: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Any, sources: Mapping[str, Any]
) -> Checkpoint:
    """`out/checkpoint`: weights, tokenizer, recipe.toml, provenance.json (versions; `sources`: hashes of inputs).

    Nothing in it depends on the clock or on where files lie, so equal runs give equal bytes: the recipe goes without
    the places of its inputs, which `sources` tells by their content.
    """
    path = out / CHECKPOINT
    if ranks.is_first():
        with files.new_directory(path) as temporary:
            save_model(model, tokenizer, temporary)
            files.write_text(temporary / "recipe.toml", settings.to_toml(recipe, without=PLACES))
            files.write_json(temporary / "provenance.json", {"sources": dict(sources), "versions": versions()})
    ranks.wait()
    return Checkpoint(path)


def finished(out: Path, recipe: Any, sources: Mapping[str, Any], *, extends: bool = False) -> Checkpoint | None:
    """The checkpoint of a run that came to its end, or None; what a kill after that end left behind goes.

    `out` is claimed for this recipe and these inputs in `out/run.json`. Raises ValueError where another run's stand
    there, whose state or checkpoint would be taken for this one's; DamagedError where the checkpoint's files changed.
    A run that ended before it computed anything, as where its settings were refused, leaves its place to another.

    extends: whether the run's batches are the same under a plan with more steps. Then a run there that differs in
    having fewer `plan.steps` is gone on with, if its schedule lets it; its checkpoint moves to `checkpoint-STEPS`.
    """
    stated = {"recipe": settings.to_toml(recipe, without=PLACES), "sources": dict(sources)}
    if ranks.agree((out / RUN).exists()):
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")}  # locks have a dot
        begun = ranks.agree(bool(names - UNBEGUN))
        if begun and files.read_json(out / RUN) != stated:
            _extend(out, files.read_json(out / RUN), stated, extends=extends)
    if ranks.is_first():
        out.mkdir(parents=True, exist_ok=True)
        files.write_json(out / RUN, stated)
    ranks.wait()
    path = out / CHECKPOINT
    # agreed on: the first process may write a quick run's checkpoint before another gets to look
    if not ranks.agree((path / files.MANIFEST).exists()):
        return None
    files.check(path)
    finish(out)
    return Checkpoint(path)


def _extend(out: Path, before: dict[str, Any], stated: dict[str, Any], *, extends: bool) -> None:
    """Make room for more steps of the run in `out`. Raises ValueError where more differs, or it cannot have them."""
    old, new = (tomllib.loads(each["recipe"]).get("plan", {}) for each in (before, stated))
    steps = old.get("steps", 0)
    longer = {**before, "recipe": before["recipe"].replace(f"\nsteps = {steps}\n", f"\nsteps = {new.get('steps')}\n")}
    refused = f"{out} holds a run with {_other(before, stated)}. Choose another --out, or remove that one"
    if longer != stated:
        raise ValueError(refused)
    if not extends or new["schedule"] == "linear" or new["steps"] < steps:
        raise ValueError(
            f"{refused}. Only plan.steps differs, {steps} there: a run can get more of them, where plan.steps says how "
            "long it is and nothing else hangs on that, under plan.schedule = 'stable' or 'constant' from the start"
        )
    ended = ranks.agree((out / CHECKPOINT / files.MANIFEST).exists())
    states = stable_states(out)
    if ended and not states:
        raise ValueError(f"{out} has no state stable-*, which a run with more steps goes on from. Choose another --out")
    if ended:
        files.check(states[-1])
    ranks.wait()
    if ended and ranks.is_first():
        kept = out / f"{CHECKPOINT}-{steps}"
        shutil.rmtree(kept, ignore_errors=True)  # of a kill between these two lines and run.json's
        os.replace(out / CHECKPOINT, kept)


def _other(before: Mapping[str, Any], stated: Mapping[str, Any]) -> str:
    """What a run was told otherwise before, such as "other settings or inputs: plan.rate was 0.001, now 0.002"."""
    old, new = ({**settings.flat(tomllib.loads(each["recipe"])), **each["sources"]} for each in (before, stated))
    told = [
        f"{name} has other content"
        if name in before["sources"]
        else f"{name} was {old.get(name)!r}, now {new.get(name)!r}"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    ]
    more = f" and {len(told) - FEW} more" if len(told) > FEW else ""
    return f"other settings or inputs: {', '.join(told[:FEW])}{more}"


def _spike(step: Step) -> str:
    """What a person is told of a loss that jumps."""
    names = list(dict.fromkeys(map(str, step.documents)))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return (
        f"the loss jumps to {step.loss:.3f} in step {step.number}, {step.spike:.0f} deviations above its running "
        f"median. The run goes on. The texts: {', '.join(names[:FEW]) or 'unnamed'}{more}. {LOG} has all of them, and "
        "those of the next steps if it stays up"
    )


def versions() -> dict[str, str]:
    """Versions of whatever a result can depend on."""
    return {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}


def environment() -> dict[str, str]:
    """Where this runs: processor, threads, device."""
    where = {"machine": platform.machine(), "system": platform.system(), "threads": str(torch.get_num_threads())}
    return where | {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"}
