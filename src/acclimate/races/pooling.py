"""Scores by cross-validation: what the folds of a cell came to, pooled.

A fold is an ordinary task with jobs of its own (data/folds.py). Cells that differ in their folds alone have one place
in the tables, and become one cell there. The score of a repeat is the metric of the predictions for all rows together,
each by the model that was not trained on it. Intervals and tests: statistics/folds.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from acclimate.core.types import FoldScore, Score
from acclimate.jobs.job import Job, with_needs
from acclimate.races.compare import Key, mean_cost
from acclimate.races.contestants import adaptation_of
from acclimate.races.design import Cell
from acclimate.races.outcome import CellResult
from acclimate.tasks.prepared import Prepared


def pooled_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, those of the folds of a cross-validation as one: they have the same place in the tables."""
    by_key: dict[Key, list[Cell]] = {}
    for cell in cells:
        by_key.setdefault(cell.key, []).append(cell)
    pooled: list[Cell] = []
    for several in by_key.values():
        if several[0].materials.fold is None:
            pooled += several
        else:
            pooled.append(replace(several[0], jobs_by_seed={}, costs={}, folds=tuple(several)))
    return pooled


def pooled_result(cell: Cell, parts: Sequence[CellResult], *, folds: int) -> CellResult:
    """Return what a cell came to by cross-validation. parts: what it came to on each fold of each repeat

    A repeat's score is the metric of the predictions for all rows together. With one fold missing, the cell has failed.
    Costs are those of one fold, the mean over all.
    """
    failed = next((part.failed for part in parts if part.failed), "")
    by_repeat: dict[int, list[Score]] = {}
    for part in parts:
        for score in part.scores:
            by_repeat.setdefault(score.seed, []).append(score)
    task, drawn = parts[0].task, adaptations(cell)
    scores = [
        _repeat_score(several, cell.task, adaptation=drawn.get(repeat))
        for repeat, several in by_repeat.items()
        if len(several) == folds
    ]
    rows = len(scores[0].ids) if scores else 0
    stages = dict.fromkeys(stage for part in parts for stage in part.costs)
    return replace(
        parts[0],
        task=replace(task, folds=folds, sizes={**task.sizes, "test": rows}),
        scores=() if failed else tuple(scores),
        jobs=tuple(job for part in parts for job in part.jobs),
        failed=failed,
        costs={stage: mean_cost(part.costs[stage] for part in parts if stage in part.costs) for stage in stages},
        facts=_agreed([part.facts for part in parts]),
    )


def _agreed(several: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of all folds: each once where they are equal, else all values."""
    values = {name: list(dict.fromkeys(facts[name] for facts in several if name in facts)) for name in several[0]}
    return {
        name: fold_values[0] if len(fold_values) == 1 else ", ".join(map(str, fold_values))
        for name, fold_values in values.items()
    }


def adaptations(cell: Cell) -> dict[int, int]:
    """Return repeat of a cross-validation -> number of its adaptation; repeats that share one have its seed.

    Of a chain such as DAPT+TAPT the link with the fewest adaptations counts: all that follow it start from these.
    """
    links: dict[int, dict[str, int]] = {}  # place in the chain -> name of a job -> its seed
    by_repeat: dict[int, list[Job]] = {}
    for part in cell.folds:
        for repeat, job in part.jobs_by_seed.items():
            last = adaptation_of(job)
            chain = [] if last is None else [needed for needed in with_needs([last]) if needed.work.draws] or [last]
            for place, link in enumerate(chain):
                links.setdefault(place, {})[link.name] = int(link.settings["recipe"]["plan"]["seed"])
            by_repeat[repeat] = chain
    if not links:
        return {}
    place = min(links, key=lambda place: len(links[place]))
    if len(links[place]) > len(by_repeat):  # each fold has adapted the encoder for itself
        return {repeat: repeat for repeat in by_repeat}
    return {repeat: links[place][chain[place].name] for repeat, chain in by_repeat.items()}


def _repeat_score(scores: Sequence[Score], task: Prepared, *, adaptation: int | None) -> Score:
    """Return the score of a repeat, rows by rising id. scores: of its folds; adaptation: as of `Score`"""
    rows = sorted(
        (row for score in scores for row in zip(score.ids, score.gold, score.predicted, strict=True)),
        key=lambda row: row[0],
    )
    ids, gold, predicted = (tuple(side) for side in zip(*rows, strict=True))
    first = scores[0]
    return replace(
        first,
        dev=sum(score.dev for score in scores) / len(scores),
        test=task.score(gold, predicted),
        ids=ids,
        gold=gold,
        predicted=predicted,
        adapting=mean_cost(score.adapting for score in scores),
        finetuning=mean_cost(score.finetuning for score in scores),
        adaptation=adaptation,
        learnt=any(score.learnt for score in scores),
        again=any(score.again for score in scores),
        folds=tuple(FoldScore(len(score.ids), score.dev, score.test, score.learnt, score.again) for score in scores),
    )
