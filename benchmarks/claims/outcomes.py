"""What the scripts of this folder write: an outcome for docs/claims.py: figures, losses, commands, cost."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from acclimate.core.files import read_json
from acclimate.jobs.job import DIRECTORY, JOB
from acclimate.methods.scratch import FREQUENCIES, LAST
from acclimate.races.outcome import CellResult, Outcome
from acclimate.reports.table import DOMAIN_HEADING
from acclimate.statistics.means import mean_difference
from acclimate.statistics.power import measured
from acclimate.statistics.significance import compare
from acclimate.statistics.variance import LEVEL, noncentrality, resample
from acclimate.tasks.metrics import metric_named
from acclimate.training.checkpoint import read_log

Pair = tuple[float, float]
RUN = "claim.json"  # in a run's directory: what its outcomes say of it
PLAIN = ("MLM", "TAPT")  # rows of studies that are adapted by masked language modelling alone
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


def exact(value: float, over: str) -> dict[str, Any]:
    """Return a number that no chance is in as a figure."""
    return {"difference": value, "low": value, "high": value, "p": 0.0, "smallest": 0.0, "over": over}


def adapted(outcome: Outcome) -> list[Pair]:
    """Return the held-out losses on the domain before and after plain masked language modelling in a study, means over
    its adaptations; [] if it has none.
    """
    return [
        (loss.loss - loss.difference, loss.loss)
        for column in outcome.losses
        for row, loss in column.by_row.items()
        if row in PLAIN and column.name.startswith(DOMAIN_HEADING)
        if loss.loss is not None and loss.difference is not None
    ]


def adapted_once(run: Path) -> list[Pair]:
    """Return the losses of a run of masked language modelling in its first steps and in its last ones.

    The text must be longer than the run: every step then reads texts that no step before it has read, so that its loss
    is one on held-out text.
    """
    losses = [line["loss.mlm"] for line in read_log(run)]
    return [(float(np.mean(losses[:LAST])), float(np.mean(losses[-LAST:])))]


def pretrainings(out: Path, cells: Sequence[CellResult]) -> list[Path]:
    """Return the directories of the pretrainings from random weights on which the scores of cells of a study rest."""
    names = list(dict.fromkeys(job for cell in cells for job in cell.jobs))
    for name in names:  # which grows
        names += [needed for needed in read_json(job_of(out, name))["needs"].values() if needed not in names]
    return [place for name in names if ((place := job_of(out, name).parent) / FREQUENCIES).exists()]


def job_of(out: Path, name: str) -> Path:
    """Return the file that says of a job of a study what its result depends on."""
    return out / DIRECTORY / name / JOB


def pretrained(places: Sequence[Path]) -> list[Pair]:
    """Return the last loss of each pretraining, and that of word frequencies alone."""
    records = [read_json(place / FREQUENCIES) for place in places]
    return [(record["last loss"], record["frequencies"]) for record in records]


def write(
    name: str,
    figures: Mapping[str, Mapping[str, Any]],
    *,
    out: Path,
    facts: Mapping[str, Any],
    remark: str,
    losses: Mapping[str, Sequence[Pair]] | None = None,
) -> None:
    """Write the outcome of the run in `out`, in which run_queue.py has written RUN: the encoder, the commands, their
    processor seconds and the commit.

    facts   more numbers, for readers; remark: sentences on them that the page repeats
    losses  in nats, a pair for each run, show what the claim needs: `adapted`, held-out loss on the domain before and
            after plain masked language modelling; `pretrained`, the last loss of a pretraining and that of word
            frequencies alone. No claim that needs them holds without them
    """
    about = read_json(out / RUN)
    stored = {
        **about,
        "processor_seconds": round(about["processor_seconds"] + time.process_time(), 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "remark": remark.strip(),
        "losses": {need: pairs for need, pairs in (losses or {}).items() if pairs},
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
