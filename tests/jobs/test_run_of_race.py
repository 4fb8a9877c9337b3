"""A race that several processes do comes to what one comes to, with a method of a user and a setting that diverges."""

from pathlib import Path
from typing import Any

import toys
from acclimate.core import settings
from acclimate.jobs.status import status_of
from acclimate.jobs.where import Where, working
from acclimate.races.race import recipe_for, run_race
from acclimate.races.recipe import stated_methods

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"
SMALL = (
    f'contestants=["{EXAMPLE}::FOCAL", "TF-IDF"]',  # which other processes load from its file
    "search.rates=[1e-2, 1e30]",  # the second diverges
    *("focal.max_tokens=32", "focal.epochs=0", "focal.plan.steps=4", "focal.plan.batch=8"),
    *("seeds=1", "pretrain.plan.steps=6", "finetune.plan.steps=4", "finetune.looks=1"),
)


def raced(run: Path, inputs: Path, *, workers: int) -> dict[str, Any]:
    """What must not depend on who did it: results by job, and scores without their seconds."""
    usual, materials = recipe_for(None, stated_methods(SMALL)), toys.materials_in(run, inputs)
    recipe = settings.override(usual, [*toys.SETTINGS, *SMALL])
    with working(Where(workers=workers)):
        run_race(recipe, materials, run, command="acclimate race")
    kept = {path.parent.name: path.read_text() for path in sorted((run / "jobs").glob("*/result.json"))}
    outcome = toys.outcome_without_seconds(run)
    return kept | {"results": outcome["results"], "searches": outcome["searches"]}


def test_a_race_of_two_processes_is_that_of_one(toy_inputs, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))  # its looks at the test set are no toy_race's
    here = raced(tmp_path / "here", toy_inputs, workers=1)
    there = raced(tmp_path / "there", toy_inputs, workers=2)
    assert sorted(here) == sorted(there)
    assert here == there
    for place in ("here", "there"):
        status = status_of(tmp_path / place)
        assert status.jobs_in("diverged")
        assert all("rate 1e+30" in job.label for job in status.jobs_in("diverged"))
        assert status.jobs_in("failed") == status.jobs_in("waiting") == []
