"""The losses of a run as curves, read from the files that training leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files
from acclimate.methods import METHODS
from acclimate.training.checkpoint import LOG, read_log
from acclimate.training.run import CHECKPOINT, CURVE

# term of a method's loss -> title and unit of its curve
TERMS = {term: words for method in METHODS.values() for term, words in method.curves.items()}
CURVE_POINTS = 60  # of a curve that is made of a log

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """The losses of a run: term -> (step, loss) points; empty where the run's files have none."""

    name: str
    train: Mapping[str, Points]
    dev: Mapping[str, Points]


def both_sides(curves: Sequence[Curve]) -> dict[str, dict[str, Points]]:
    """Return term -> "name, train" or "name, dev" -> points, of the terms that a curve has, in the order of TERMS."""
    points: dict[str, dict[str, Points]] = {}
    for term in TERMS:
        for curve in curves:
            for side, terms in (("train", curve.train), ("dev", curve.dev)):
                if term in terms:
                    points.setdefault(term, {})[f"{curve.name}, {side}"] = terms[term]
    return points


def read_curve(name: str, model: str) -> Curve | None:
    """Return the curve of the run whose checkpoint `model` is; None if no run made it, or none with TERMS.

    The losses on train are those of curve.json if it exists, else the means of CURVE_POINTS stretches of log.jsonl.
    """
    run = Path(model).parent
    train: dict[str, Points] = {}
    dev: dict[str, Points] = {}
    if Path(model).name == CHECKPOINT and (path := run / CURVE).is_file():
        entries = files.read_json(path)
        train, dev = _points(entries, "train"), _points(entries, "dev")
    elif Path(model).name == CHECKPOINT and (run / LOG).is_file():
        log = read_log(run)
        for term in TERMS:
            losses = [(line["step"], line[f"loss.{term}"]) for line in log if f"loss.{term}" in line]
            if losses:
                stretches = np.array_split(np.array(losses, float), min(CURVE_POINTS, len(losses)))
                train[term] = [(float(part[-1, 0]), float(part[:, 1].mean())) for part in stretches]
    return Curve(name, train, dev) if train or dev else None


def _points(entries: Any, side: str) -> dict[str, Points]:
    points: dict[str, Points] = {}
    for entry in entries:
        for term in TERMS:
            if (loss := entry.get(side, {}).get(term)) is not None:
                points.setdefault(term, []).append((float(entry["step"]), float(loss)))
    return points
