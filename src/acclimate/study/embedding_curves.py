"""How the terms of a run's loss fell, on what it trained on and on dev (TAPTER, Figure 1), from the run's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files
from acclimate.methods.loss_curve import CURVE
from acclimate.training.checkpoint import LOG, read_log
from acclimate.training.run import CHECKPOINT

TERMS = {"mlm": "masked tokens, nats", "embedding": "distance to fastText, squared"}  # and what they are measured in
POINTS = 60  # of a curve that is made of a log

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """One run's losses: term -> (step, loss) points. Empty where the run's files have none."""

    name: str
    train: Mapping[str, Points]
    dev: Mapping[str, Points]


def both_sides(curves: Sequence[Curve]) -> dict[str, dict[str, Points]]:
    """Term -> "name, train" or "name, dev" -> points, in the order of TERMS; without the terms that no curve has."""
    found: dict[str, dict[str, Points]] = {}
    for term in TERMS:
        for curve in curves:
            for side, terms in (("train", curve.train), ("dev", curve.dev)):
                if term in terms:
                    found.setdefault(term, {})[f"{curve.name}, {side}"] = terms[term]
    return found


def read_curve(name: str, model: str) -> Curve | None:
    """That of the run whose checkpoint `model` is; None where it is none, or trained on none of TERMS.

    train  of curve.json where there is one, else the means of about POINTS stretches of log.jsonl
    """
    run = Path(model).parent
    train: dict[str, Points] = {}
    dev: dict[str, Points] = {}
    if Path(model).name == CHECKPOINT and (path := run / CURVE).is_file():
        entries = files.read_json(path)
        train, dev = _points(entries, "train"), _points(entries, "dev")
    elif Path(model).name == CHECKPOINT and (run / LOG).is_file():
        train = _logged(read_log(run))
    return Curve(name, train, dev) if train or dev else None


def _points(entries: Any, side: str) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for entry in entries:
        for term in TERMS:
            if (loss := entry.get(side, {}).get(term)) is not None:
                found.setdefault(term, []).append((float(entry["step"]), float(loss)))
    return found


def _logged(log: list[dict[str, Any]]) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for term in TERMS:
        own = [(line["step"], line[f"loss.{term}"]) for line in log if f"loss.{term}" in line]
        if own:
            stretches = np.array_split(np.array(own, float), min(POINTS, len(own)))
            found[term] = [(float(part[-1, 0]), float(part[:, 1].mean())) for part in stretches]
    return found
