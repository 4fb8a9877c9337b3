"""A whole training run in a directory: go on from where it stood, tell who watches, hand over a checkpoint."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files, ranks, settings
from acclimate.core.types import Checkpoint, Progress, Stream, Watch
from acclimate.models.encoder import save_model
from acclimate.training.checkpoint import finish, resumable
from acclimate.training.loop import Step
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan

CHECKPOINT = "checkpoint"
RUN = "run.json"
UNBEGUN = {RUN, "corpora"}  # what a run's directory may hold before anything depends on its settings
# settings that say where something lies
PLACES = ("model", "corpus", "task", "tokenizer", "dev", "vectors", "vectors_corpus")
TOLD = ("loss", "losses", "rate", "tokens", "seconds")  # of each step, to whoever watches
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
    until: int | None = None,
) -> None:
    """Train to the end, or until so many steps are done, telling `watch` after each; `after` adds values to that."""
    for step in resumable(objective, stream, plan, directory, until=until):
        values: dict[str, Any] = {name: getattr(step, name) for name in TOLD}
        if after:
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


def finished(out: Path, recipe: Any, sources: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint of a run that came to its end, or None; what a kill after that end left behind goes.

    `out` is claimed for this recipe and these inputs in `out/run.json`. Raises ValueError where another run's stand
    there, whose state or checkpoint would be taken for this one's; DamagedError where the checkpoint's files changed.
    A run that ended before it computed anything, as where its settings were refused, leaves its place to another.
    """
    stated = {"recipe": settings.to_toml(recipe, without=PLACES), "sources": dict(sources)}
    if ranks.agree((out / RUN).exists()):
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")}  # locks have a dot
        begun = ranks.agree(bool(names - UNBEGUN))
        if begun and files.read_json(out / RUN) != stated:
            raise ValueError(
                f"{out} holds a run with other settings or inputs, see {out / RUN}. Choose another --out, or remove "
                "that one"
            )
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


def versions() -> dict[str, str]:
    """Versions of whatever a result can depend on."""
    return {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}


def environment() -> dict[str, str]:
    """Where this runs: processor, threads, device."""
    where = {"machine": platform.machine(), "system": platform.system(), "threads": str(torch.get_num_threads())}
    return where | {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"}
