"""Train in a directory: claim it, go on from where the run stopped, report to the watch, write the checkpoint.

run.json       the recipe and the inputs of the run
checkpoint/    the result, an ordinary Hugging Face checkpoint
curve.json     the losses of a run that looks at dev text (`LossCurve`)
"""

from __future__ import annotations

import os
import platform
import shutil
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.door import option
from acclimate.core.types import Batch, Checkpoint, Progress, Stream, Watch
from acclimate.models.formats import PROVENANCE
from acclimate.models.loading import EMBEDDED, copy_licence, origin_facts
from acclimate.models.sentence_modules import OMITTED, adapters_obstacle, is_classifier, sentence_modules
from acclimate.training.checkpoint import LOG, finish, read_log, resumable, stable_states
from acclimate.training.plan import Plan, device

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from acclimate.training.loop import Step
    from acclimate.training.objective import Objective

CHECKPOINT = "checkpoint"
RUN = "run.json"
UNBEGUN = {RUN, "corpora", "documents"}  # a directory that holds only these has nothing that depends on the settings
# settings that say where something lies: a result depends on what lies there
PLACES = ("model", "corpus", "task", "tokenizer", "dev", "general", "vectors", "vectors_corpus")
REPORTED = ("loss", "losses", "rate", "tokens", "seconds", "spent")  # fields of a step that the watch gets
FEW = 8  # texts, or settings, that a message names
CURVE, LOOKS = "curve.json", "looks.json"  # see `LossCurve`
PACKAGES = (
    *("acclimate", "torch", "transformers", "tokenizers", "numpy", "numba", "llvmlite", "scipy", "scikit-learn"),
    "py3langid",
)


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
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Train to the end, or to step `until`; `watch` gets the loss, the rate and the cost after each step.

    after, looks: `after(step)` is called at the steps whose numbers are in `looks`, and the watch gets its values too
    ended: called after each `after`; the training ends there if it returns True

    Where the loss jumps, the watch gets the size of the spike at each such step, and a note at the first of all.
    """
    from acclimate.training.shards import unsharded

    jumped = False
    for step in resumable(objective, stream, plan, directory, until=until):
        values: dict[str, Any] = {name: getattr(step, name) for name in REPORTED}
        if step.spike:
            values |= {"spike": step.spike} | ({} if jumped else {"note": _spike(step)})
            jumped = True
        if step.skips:
            values |= {"skipped": step.skips}
        if after and step.number in looks:
            with unsharded(objective):
                values |= after(step)
        watch(Progress(stage, step.number, plan.steps, "steps", values))
        if after and step.number in looks and ended():
            break


def write_checkpoint(
    out: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Any,
    sources: Mapping[str, Any],
    *,
    new_weights: bool = False,
    longest: int = 0,
) -> Checkpoint:
    """Write `out/checkpoint`: weights, tokenizer, recipe.toml, provenance.json (versions, `sources`: hashes of inputs,
    and what `models.loading.origin_facts` says of the model that the recipe begins with), and the licence of the
    embedded encoder if it begins with that.

    A checkpoint that begins with a sentence-transformers model keeps its modules (models/sentence_modules.py). If it
    cannot, `modules_omitted` in provenance.json says why. Classifiers have no modules.

    new_weights  True if the checkpoint has only the shape of the recipe's model, and none of its weights
    longest      tokens to which sentence-transformers cuts texts; 0: as the modules state

    Equal runs give equal bytes, because nothing in it depends on the clock or on where files lie: the recipe is written
    without the places of its inputs, which `sources` names by their content.
    """
    from acclimate.models.encoder import save_model

    path = out / CHECKPOINT
    if ranks.is_first():
        with files.new_directory(path) as temporary:
            save_model(model, tokenizer, temporary)
            omission = _keep_modules(temporary, model, recipe, new_weights=new_weights, longest=longest)
            start = getattr(recipe, "model", "")  # a recipe of pretraining has no model
            start_facts = origin_facts(start) | ({OMITTED: omission} if omission else {})
            copy_licence(start, temporary)
            files.write_text(temporary / "recipe.toml", settings.to_toml(recipe, without=PLACES))
            files.write_json(temporary / PROVENANCE, {"sources": dict(sources), "versions": versions(), **start_facts})
    ranks.wait()
    return Checkpoint(path)


def _keep_modules(directory: Path, model: PreTrainedModel, recipe: Any, *, new_weights: bool, longest: int) -> str:
    """Write the modules of the sentence-transformers model that the recipe begins with into a checkpoint.

    Return why they are omitted; "" if they are kept, if the recipe begins with another model, and for a classifier.
    """
    start = getattr(recipe, "model", "")
    if start in ("", EMBEDDED) or is_classifier(model) or (modules := sentence_modules(start)) is None:
        return ""
    if reason := "its weights are random" if new_weights else adapters_obstacle(model) or modules.obstacle:
        return reason
    modules.copy_to(directory, longest=longest)
    return ""


def finished(out: Path, recipe: Any, sources: Mapping[str, Any], *, extends: bool = False) -> Checkpoint | None:
    """Claim `out` for this recipe and these inputs; return the checkpoint if the run has already ended, else None.

    extends: True if the run's batches stay the same under a plan with more steps. Then an ended run that differs only
    in having fewer `plan.steps` goes on, if its schedule allows that; its checkpoint moves to `checkpoint-STEPS`.

    A run that computed nothing, such as one whose settings were refused, leaves its directory to another run. Raises
    ValueError if the directory has the state or the checkpoint of another run, DamagedError if the files of the
    checkpoint have changed, and ValueError in all processes of torchrun if they state different runs.
    """
    claim = {"recipe": settings.to_toml(recipe, without=PLACES), "sources": dict(sources)}
    chosen = {name: value for name, value in settings.to_mapping(recipe).items() if name not in PLACES}
    ranks.require_same(str(out), settings.flat({**chosen, **sources, **versions()}))
    if ranks.agree((out / RUN).exists()):
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")}  # locks have a dot
        begun = ranks.agree(bool(names - UNBEGUN))
        way_out = f"Remove {out}, and give the same command again to repeat this run"
        before = files.read_record(out / RUN, way_out=way_out) if begun else claim
        if before != claim:
            _extend(out, before, claim, extends=extends)
    if ranks.is_first():
        out.mkdir(parents=True, exist_ok=True)
        files.write_record(out / RUN, claim)
    ranks.wait()
    path = out / CHECKPOINT
    # all take the first process's answer: it may write a quick run's checkpoint before another looks
    if not ranks.agree((path / files.MANIFEST).exists()):
        return None
    files.check_manifest(path)
    finish(out)
    return Checkpoint(path)


def _extend(out: Path, before: dict[str, Any], claim: dict[str, Any], *, extends: bool) -> None:
    """Make room for more steps of the run in `out`. Raises ValueError if it cannot have them or differs otherwise."""
    old, new = (tomllib.loads(manifest["recipe"]).get("plan", {}) for manifest in (before, claim))
    steps = old.get("steps", 0)
    longer = {**before, "recipe": before["recipe"].replace(f"\nsteps = {steps}\n", f"\nsteps = {new.get('steps')}\n")}
    refused = (
        f"{out} contains a run with {_difference(before, claim)}. Choose another {option('out')}, or remove this one"
    )
    if longer != claim:
        raise ValueError(refused)
    if not extends or new["schedule"] == "linear" or new["steps"] < steps:
        raise ValueError(
            f"{refused}. Only plan.steps differs, {steps} there. A run can be extended only if it began with "
            "plan.schedule = 'stable' or 'constant' and no other setting depends on its length"
        )
    ended = ranks.agree((out / CHECKPOINT / files.MANIFEST).exists())
    states = stable_states(out)
    if ended and not states:
        raise ValueError(
            f"{out} has no state stable-*, which a run with more steps needs to continue. Choose another "
            f"{option('out')}"
        )
    if ended:
        files.check_manifest(states[-1])
    ranks.wait()
    if ended and ranks.is_first():
        archive = out / f"{CHECKPOINT}-{steps}"
        shutil.rmtree(archive, ignore_errors=True)  # of a kill between these two lines and run.json's
        os.replace(out / CHECKPOINT, archive)


def _difference(before: Mapping[str, Any], claim: Mapping[str, Any]) -> str:
    """Return what differs, such as "other settings or inputs: plan.rate was 0.001, now 0.002"."""
    old, new = (
        {**settings.flat(tomllib.loads(manifest["recipe"])), **manifest["sources"]} for manifest in (before, claim)
    )
    changed = [
        f"{name} has other content"
        if name in before["sources"]
        else f"{name} was {old.get(name)!r}, now {new.get(name)!r}"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    ]
    more = f" and {len(changed) - FEW} more" if len(changed) > FEW else ""
    return f"other settings or inputs: {', '.join(changed[:FEW])}{more}"


def _spike(step: Step) -> str:
    """Return the note on a loss that jumps."""
    names = list(dict.fromkeys(map(str, step.documents)))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return (
        f"step {step.number} has an unusually high loss, {step.loss:.3f} ({step.spike:.0f} deviations above the "
        "running median). Training continues, because a single case is harmless. Its texts: "
        f"{', '.join(names[:FEW]) or 'unnamed'}{more}. {LOG} lists all of them, and later cases"
    )


def versions() -> dict[str, str]:
    """Return the versions of everything that a result can depend on."""
    return {"python": platform.python_version()} | {package: _version(package) for package in PACKAGES}


@cache
def _version(package: str) -> str:
    return version(package)  # which parses the package's description anew at each call


def environment() -> dict[str, str]:
    """Return the processor, system, threads and device of this process."""
    import torch

    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "threads": str(torch.get_num_threads()),
        "device": {"cuda": torch.cuda.get_device_name, "mps": lambda: "Apple GPU"}.get(device().type, lambda: "CPU")(),
    }


class LossCurve:
    """Measures how each term of a run's loss falls, on its training text and on dev text (TAPTER, Figure 1).

    batches  of dev text, the same at every look; without them the curve has the training losses only
    looks    number of evenly spaced looks, the last one after the last step; one more comes before the first step

    looks.json   [[step, {term: loss on dev}], ...], written at each look
    curve.json   [{"step": int, "train": {term: loss}, "dev": {term: loss}}, ...], written when the run has ended
    """

    def __init__(self, objective: Objective, batches: Sequence[Batch], plan: Plan, looks: int, out: Path) -> None:
        self.objective, self.batches, self.plan, self.out = objective, batches, plan, out
        self.steps = [0, *sorted({round(plan.steps * number / looks) for number in range(1, looks + 1)} - {0})]
        self.losses: dict[int, dict[str, float]] = {}
        if (out / LOOKS).exists():
            self.losses = dict(files.read_record(out / LOOKS))

    def begin(self) -> None:
        """Look before the first step; in a run that goes on, do nothing."""
        if 0 not in ranks.agree(self.losses):
            self._look(0)

    def __call__(self, step: Step) -> Mapping[str, float]:
        """Look, and return what `run` passes to the watch. Pass it to `run` as `after`."""
        return self._look(step.number)

    def write(self) -> None:
        """Write `curve.json`. A training loss is the mean over the steps since the look before."""
        if not ranks.is_first():
            return
        log = read_log(self.out)
        curve: list[dict[str, Any]] = []
        for before, step in zip([0, *self.steps], self.steps, strict=False):
            lines = log[before:step]
            terms = self.objective.weights if lines else ()
            train = {term: float(np.mean([line[f"loss.{term}"] for line in lines])) for term in terms}
            curve.append({"step": step, "train": train, "dev": self.losses.get(step, {})})
        files.write_json(self.out / CURVE, curve)

    def _look(self, step: int) -> dict[str, float]:
        if not self.batches:
            return {}
        from acclimate.training.objective import measure

        losses = measure(self.objective, self.batches, self.plan)
        self.losses[step] = losses
        if ranks.is_first():
            files.write_record(self.out / LOOKS, sorted(self.losses.items()))
        return {f"dev {term}": loss for term, loss in losses.items()}
