"""A race that continues until its answer is settled (`until="settled"`): what it takes, and what ends it.

The race is evaluated on test after each complete round from the third one on, with the level that
statistics/sequential.py fixed for that round. Each evaluation is recorded in the directory of the race. A resumed race
evaluates the same rounds at the same levels, so no evaluation is spent twice or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.door import option
from acclimate.jobs.job import DECISIONS
from acclimate.races.outcome import path_of, read_outcome
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import RACE
from acclimate.statistics.answer import Answer
from acclimate.statistics.sequential import evaluation_level
from acclimate.statistics.significance import FEWEST_ITEMS
from acclimate.tasks.prepared import Prepared

SETTLED = "its answer is settled"
TEST_ROWS = "the test set is too small for more rounds to settle it"
NOTHING = "no contestant can be compared with the untouched model"
FEWEST_ROWS = 50  # of a test set
KEY = "evaluation-"  # begins the name of each record


@dataclass(frozen=True)
class Evaluation:
    """An evaluation on test.

    level  what it spent
    end    why the race ends with it, as a clause; "": it continues
    race   key of the race (races/rounds.py::race_key)
    """

    margin: float
    level: float
    kind: str
    end: str
    race: str = ""


def evaluation_of(answer: Answer | None, *, rounds: int, margin: float) -> Evaluation:
    """Return what the answer after so many rounds means for the race. None: nothing can be compared"""
    level = evaluation_level(rounds)
    if answer is None:
        return Evaluation(margin, level, "none", NOTHING)
    alone = answer.limits.source == "test rows"
    return Evaluation(margin, level, answer.kind, SETTLED if answer.settled else TEST_ROWS if alone else "")


def check_settling(task: Prepared, *, rivals: int) -> None:
    """Raises ValueError if a race cannot continue until it is settled. rivals: contestants that are fine-tuned"""
    settled, rows = option("until", "settled"), task.sizes["test"]
    if not rivals:
        raise ValueError(
            f"{settled}: no contestant is fine-tuned beside the untouched model, so no comparison can be settled. "
            f"Name one in contestants, or remove {option('until')}"
        )
    if rows < FEWEST_ROWS:
        # the items that decide a difference are FEWEST_ITEMS at least, each of them with an influence of about a half
        points = 100 * 2.5 * FEWEST_ITEMS**0.5 * 0.5 / rows
        raise ValueError(
            f"{settled}: {rows:,} test rows can settle only differences of about {points:.0f} points or more. Give "
            f"at least {FEWEST_ROWS}, or use {option('folds')} instead of {option('until')}"
        )


def check_same(recipe: RaceRecipe, run: Path, race: str) -> None:
    """Raises ValueError if the race in the directory was evaluated on test with another `until` or another margin, or
    if it was another race, whose evaluations have spent the significance. race: key of this one
    """
    evaluations, way_out = evaluations_in(run), f"or choose another {option('out')}"
    if recipe.until != "settled":
        if evaluations:
            raise ValueError(
                f"The race in {run} was started with {option('until', 'settled')}, and its test set was evaluated "
                f"for that. Add {option('until', 'settled')}, {way_out}"
            )
        return
    margins = {evaluation["margin"] for evaluation in evaluations} - {recipe.margin}
    if margins:
        raise ValueError(
            f"The race in {run} was evaluated with margin = {min(margins):g}, so it cannot continue with margin = "
            f"{recipe.margin:g}. Set margin = {min(margins):g}, {way_out}"
        )
    if any(evaluation["race"] != race for evaluation in evaluations):
        raise ValueError(
            f"The test set of the race in {run} was evaluated with other settings, files or contestants, and each "
            f"evaluation uses part of the significance. Repeat the command of that race, {way_out}"
        )
    if evaluations or not (path := path_of(run, RACE)).exists():
        return
    outcome = read_outcome(path)
    if outcome.answer is not None:
        raise ValueError(
            f"The race in {run} was evaluated without {option('until', 'settled')}, so its test set can no longer "
            f"be used for it. Remove the option, {way_out}"
        )


def evaluations_in(run: Path) -> list[dict[str, Any]]:
    """Return the records of the evaluations in the directory of a race, as of `Evaluation`."""
    path = run / DECISIONS
    record = files.read_record(path) if path.exists() else {}
    return [value for key, value in record.items() if key.startswith(KEY)]
