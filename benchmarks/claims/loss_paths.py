"""Losses on held-out texts while a model adapts, and the general loss of several adaptations at equal domain loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from acclimate.core import files
from acclimate.methods import mlm
from acclimate.models.loading import EMBEDDED, load_tokenizer, resolved
from acclimate.text.corpus import Corpus
from acclimate.text.streams import evaluation_batches
from acclimate.training.loop import Step
from acclimate.training.objective import MaskedLanguageLoss, measure
from acclimate.training.run import run

LOSSES = "heldout.json"  # [[step, {text: loss}], ...]


@dataclass(frozen=True)
class Look:
    """Losses on held-out text after a step of adapting, nats a masked sub-word."""

    step: int
    domain: float
    general: float


@contextmanager
def measured_every(steps: int, texts: Mapping[str, Path], *, longest: int) -> Iterator[None]:
    """In the block, adaptations of the embedded encoder write their losses on the texts to LOSSES every `steps` steps.

    Whole words are masked, the same for all, and nothing that is trained depends on it.
    """
    tokenizer = load_tokenizer(resolved(EMBEDDED))
    options: dict[str, Any] = {"batch": 64, "longest": longest, "seed": 0, "segments_at_most": 512}
    batches = {name: evaluation_batches(Corpus(text).tokens(tokenizer), **options) for name, text in texts.items()}

    def measured_run(objective: Any, stream: Any, plan: Any, out: Path, **how: Any) -> None:
        model = MaskedLanguageLoss(objective.model)
        losses = dict(files.read_record(out / LOSSES)["losses"]) if (out / LOSSES).exists() else {}

        def look(step: int) -> dict[str, float]:
            losses[step] = {name: measure(model, several)["mlm"] for name, several in batches.items()}
            files.write_record(out / LOSSES, {"losses": sorted(losses.items())})
            return {}

        def after(step: Step) -> dict[str, float]:
            return look(step.number)

        if 0 not in losses:
            look(0)
        run(objective, stream, plan, out, after=after, looks={*range(steps, plan.steps, steps), plan.steps}, **how)

    with patch.object(mlm, "run", measured_run):
        yield


def read_path(directory: Path) -> list[Look]:
    """Return the losses of the adaptation in a directory, by step."""
    record: Any = files.read_record(directory / LOSSES)
    return [Look(step, losses["domain"], losses["general"]) for step, losses in record["losses"]]


def general_at(path: Sequence[Look], domain: float) -> float | None:
    """Return the general loss where the path first falls to a domain loss, linear between looks; None if it never does
    or starts below.
    """
    if path and path[0].domain == domain:
        return path[0].general
    for before, after in pairwise(path):
        if before.domain > domain >= after.domain:
            share = (before.domain - domain) / (before.domain - after.domain)
            return before.general + share * (after.general - before.general)
    return None


def equal_domain_loss(paths: Mapping[str, Sequence[Look]]) -> tuple[float, dict[str, float]] | None:
    """Return the lowest domain loss that all adaptations reach which lower it, and name -> general loss there; None if
    fewer than two lower it.
    """
    lowest = {name: min(look.domain for look in path) for name, path in paths.items()}
    learning = {name: path for name, path in paths.items() if lowest[name] < path[0].domain}
    if len(learning) < 2:
        return None
    level = max(lowest[name] for name in learning)
    losses = {name: general_at(path, level) for name, path in learning.items()}
    return level, {name: loss for name, loss in losses.items() if loss is not None}
