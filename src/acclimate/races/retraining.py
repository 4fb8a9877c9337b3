"""The last training of a race: the model to use learns from the rows of dev too.

The run that is handed over is repeated on the rows of train and dev together, with what dev chose for it
(methods/finetune.py::retrain). The scores of the race are those of the run before. At four epochs on 430 rows the last
training added 1.4 points on test on average (eight tasks; benchmarks/reports/2026-11-29-all-rows.md).
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from acclimate.core import files
from acclimate.core.types import Watch
from acclimate.jobs.deadline import TimeUpError, deadline
from acclimate.jobs.job import WALL, Job, first_line, result_of
from acclimate.jobs.lock import USE
from acclimate.jobs.run import do_all
from acclimate.races.budget import Budget
from acclimate.races.contestants import retrained
from acclimate.races.outcome import INTERRUPTED
from acclimate.races.rounds import RESERVE
from acclimate.races.search import FineTuned
from acclimate.tasks.prepared import Prepared

SLOWER = 1.2  # times as long as the run before, and a row of dev more for each


def retrain(tuned: Job, fine_tuned: FineTuned, out: Path, *, budget: Budget | None, watch: Watch) -> tuple[Job, str]:
    """Repeat the run on all rows. Return the job whose checkpoint is handed over, and a sentence that says which it is.

    tuned: the run that was scored, whose checkpoint is handed over if the time is up or the last training fails
    """
    task, job = fine_tuned.entries.materials.task, retrained(tuned)
    if result_of(job, out) is not None:
        return job, _note(task)
    why, end = "", math.inf
    if fine_tuned.search.stopped == INTERRUPTED:
        why = INTERRUPTED
    elif budget is not None:
        left = budget.amount * (1 - RESERVE[budget.unit]) - budget.spent(out)
        cost = _cost(tuned, task, out, budget)
        end = time.monotonic() + left if budget.unit == "seconds" else math.inf
        why = f"it takes about {budget.as_text(cost)}, and {budget.as_text(max(0.0, left))} are left" * (cost > left)
    if not why:
        try:
            with deadline(end, watch) as timed:
                errors = do_all([job], out, watch=timed)
            why = first_line(errors[job.name]) if job.name in errors else ""
        except TimeUpError:
            why = "its time was up"
        except KeyboardInterrupt:
            why = INTERRUPTED
    if not why:
        return job, _note(task)
    return tuned, f"The model in {USE}/ did not learn from the rows of dev: {why}."


def _note(task: Prepared) -> str:
    rows, dev = task.sizes["train"], task.sizes["dev"]
    return (
        f"The model in {USE}/ was trained once more, on the {rows + dev:,} rows of train and dev. The scores are those "
        f"of the run before, on {rows:,} rows."
    )


def _cost(tuned: Job, task: Prepared, out: Path, budget: Budget) -> float:
    """Return what the last training takes by that of the run before, in the budget's unit."""
    more = SLOWER * (1 + task.sizes["dev"] / task.sizes["train"])
    if budget.unit == "flops":
        return more * float((result_of(tuned, out) or {}).get("flops", 0.0))
    wall = tuned.directory(out) / WALL
    return more * float(files.read_record(wall)["seconds"]) if wall.exists() else 0.0
