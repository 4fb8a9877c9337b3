"""A matrix of pairs as CSV, a line a cell, and as JSON, a record a run: unrounded, in units of the metric, tokens, FLOP
and seconds. Lists in CSV are separated by spaces.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from acclimate.core.types import Cost
from acclimate.study.intermediate_recipe import BASELINE
from acclimate.study.intermediate_result import Matrix, Tables
from acclimate.study.intermediate_rows import Ran
from acclimate.study.significance import Comparison

_TOLD = ("difference", "low", "high", "p")


def as_csv(tables: Tables) -> str:
    """A line for each model, target and first task, the target alone (`baseline`) among them."""
    file = io.StringIO()
    lines = [line for matrix in tables.matrices for line in _csv_lines(matrix, tables)]
    writer = csv.DictWriter(file, [*lines[-1]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def records(tables: Tables) -> list[dict[str, Any]]:
    """A run each, for a file; predictions lie in the directory of its job."""
    found = []
    for matrix in tables.matrices:
        for row in matrix.rows:
            controls = [own.control for own in row.columns if own.control]
            several = {ran.name: ran for ran in (row.baseline, *(own.ran for own in row.columns), *controls)}
            for ran in several.values():
                about: dict[str, Any] = {
                    "model": matrix.model,
                    "target": row.name,
                    "first": ran.name,
                    "metric": row.metric,
                }
                about |= {"split": tables.split, "steps": list(ran.steps)}
                jobs = dict(enumerate(ran.jobs))
                found += [
                    {**about, "seed": seed, "score": score, "dev": dev, "job": jobs[seed]}
                    for seed, dev, score in ran.seeds
                ]
    return found


def _csv_lines(matrix: Matrix, tables: Tables) -> Iterator[dict[str, object]]:
    for row in matrix.rows:
        about: dict[str, object] = {
            "model": matrix.model,
            "target": row.name,
            "target_type": row.type,
            "metric": row.metric,
        }
        about |= {"split": tables.split, "train_rows": row.trained}
        told = {"leaks": 0, "leaks_are": tables.leaks, **_differences("alone", None, None), "said": ""}
        told |= _differences("steps", None, None)
        yield {**about, "first": BASELINE, "first_type": "", **_ran(row.baseline), **told}
        for column in row.columns:
            cell = matrix.cells[row.name, column.name]
            told = {"leaks": column.leaking, "leaks_are": tables.leaks}
            told |= _differences("alone", cell.comparison, cell.p_holm) | {"said": cell.said}
            told |= _differences("steps", cell.beside, cell.beside_p_holm)
            yield {**about, "first": column.name, "first_type": column.type, **_ran(column.ran), **told}


def _ran(ran: Ran) -> dict[str, object]:
    mean = ran.interval
    told: dict[str, object] = {"mean": mean.mean if mean else None, "low": mean.low if mean else None}
    told |= {"high": mean.high if mean else None, "failed": ran.failed}
    told |= {name: " ".join(str(seed[at]) for seed in ran.seeds) for at, name in enumerate(("seeds", "dev", "scores"))}
    told |= {"first_steps": ran.steps[0], "steps": ran.steps[1]}
    stages: Mapping[str, Cost] = {"first": ran.first, "target": ran.own}
    units = ("tokens", "flops", "seconds")
    return told | {f"{stage}_{unit}": getattr(cost, unit) for stage, cost in stages.items() for unit in units}


def _differences(name: str, comparison: Comparison | None, p_holm: float | None) -> dict[str, object]:
    told = [getattr(comparison, part) for part in _TOLD] if comparison else [None] * len(_TOLD)
    return {f"{name}_{part}": value for part, value in zip((*_TOLD, "p_holm"), (*told, p_holm), strict=True)}
