"""What the scripts of this folder write: an outcome for docs/claims.py, with figures, commands, commit, date, cost."""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from acclimate.races.outcome import CellResult
from acclimate.statistics.means import mean_difference
from acclimate.statistics.power import measured
from acclimate.statistics.significance import compare
from acclimate.statistics.variance import LEVEL, noncentrality, resample
from acclimate.tasks.metrics import metric_named

OUTCOMES = Path(__file__).with_name("outcomes")
POWER = 0.8


def from_error(difference: float, error: float, freedom: float, over: str) -> dict[str, Any]:
    """Return a figure with its 95% interval and p by Student's t, and the smallest one that is seen with 80%."""
    critical = float(stats.t.isf(LEVEL / 2, freedom))
    return {
        "difference": difference,
        "low": difference - critical * error,
        "high": difference + critical * error,
        "p": float(2 * stats.t.sf(abs(difference) / error, freedom)),
        "smallest": noncentrality(critical, freedom, 1 - POWER) * error,
        "over": over,
    }


def of_values(values: Sequence[float], over: str) -> dict[str, Any]:
    """Return the mean of independent values as a figure."""
    count = len(values)
    return from_error(float(np.mean(values)), float(np.std(values, ddof=1)) / count**0.5, count - 1, over)


def of_cells(ours: CellResult, theirs: CellResult, split: str) -> dict[str, Any]:
    """Return the difference of two cells of a study on the same items as a figure, in points. They may be of the same
    task in two encodings.
    """
    alike = [replace(score, task=ours.scores[0].task) for score in theirs.scores]
    found = compare(ours.scores, alike, metric_named(ours.task.metric))
    adaptations = f"{found.adaptations} adaptation{'s' * (found.adaptations != 1)}, " if found.adaptations else ""
    return {
        "difference": 100 * found.difference,
        "low": 100 * found.low,
        "high": 100 * found.high,
        "p": found.p,
        "smallest": 100 * measured(found).detectable(),
        "over": f"{found.seeds} fine-tunings, {adaptations}{found.items:,} {split} items",
        "learnt": ours.learnt and theirs.learnt,
    }


def of_cell_means(pairs: Sequence[tuple[CellResult, CellResult]], split: str) -> dict[str, Any]:
    """Return the difference of two rows of a study in their mean over its columns as a figure, in points; of one column
    `of_cells`. `smallest` is that of a normal variable, whose ratio to the interval is the largest.
    """
    if len(pairs) == 1:
        return of_cells(*pairs[0], split)
    ours, theirs = (
        [next(iter(resample(cell.scores, metric_named(cell.task.metric)).values())) for cell in side]
        for side in zip(*pairs, strict=True)
    )
    found = mean_difference(ours, theirs, [1 / len(pairs)] * len(pairs))
    cells = [cell for pair in pairs for cell in pair]
    adaptations = f"{found.adaptations} adaptation{'s' * (found.adaptations != 1)}, " if found.adaptations else ""
    items = sum(len(one.scores[0].gold) for one, _ in pairs)
    return {
        "difference": 100 * found.difference,
        "low": 100 * found.low,
        "high": 100 * found.high,
        "p": found.p,
        "smallest": 100 * (found.high - found.low) / 2 * (1 + stats.norm.ppf(POWER) / stats.norm.isf(LEVEL / 2)),
        "over": f"{len(cells[0].scores)} fine-tunings, {adaptations}{len(pairs)} tasks, {items:,} {split} items",
        "learnt": all(cell.learnt for cell in cells),
    }


def arguments(*, named: bool = True) -> argparse.Namespace:
    """Return what the command line of a script says that turns a study into an outcome. named: False for a script that
    writes one outcome alone. `losses`: those of `--adapted` and `--pretrained`, for `write`.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    if named:
        parser.add_argument("name")
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--commit", default="")
    parser.add_argument("--remark", default="")
    for name, values in (("adapted", ("BEFORE", "AFTER")), ("pretrained", ("LOSS", "FREQUENCIES"))):
        parser.add_argument(f"--{name}", nargs=2, type=float, metavar=values)
    options = parser.parse_args()
    options.losses = {name: pair for name in ("adapted", "pretrained") if (pair := getattr(options, name))}
    return options


def commit() -> str:
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=OUTCOMES.parent, check=True, capture_output=True, text=True)
    return said.stdout.strip()


def write(
    name: str,
    figures: Mapping[str, Mapping[str, Any]],
    *,
    commands: Sequence[str],
    seconds: float,
    made_by: str,
    facts: Mapping[str, Any],
    remark: str = "",
    losses: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Write the outcome. seconds: processor seconds of all commands; made_by: commit of the code that ran; facts: more
    numbers, for readers; remark: sentences on them that the page repeats. losses, in nats, show what the claim needs:
    `adapted`, held-out loss on the domain before and after plain masked language modelling; `pretrained`, the last loss
    of pretraining and that of word frequencies alone (`frequencies.json`). Without them no claim that needs them holds.
    """
    stored = {
        "commands": list(commands),
        "commit": made_by,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor_seconds": round(seconds, 1),
        "remark": remark.strip(),
        "losses": losses or {},
        "figures": figures,
        "facts": facts,
    }
    OUTCOMES.mkdir(exist_ok=True)
    text = json.dumps(_rounded(stored), indent=1, ensure_ascii=False)
    (OUTCOMES / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Return the value with numbers of six significant digits."""
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
