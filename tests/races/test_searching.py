"""A search done by one process, on made-up scores: what fails stops nothing else, and every fine-tuning is planned."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import running_jobs as work
from acclimate.jobs import job as named
from acclimate.jobs.job import DIRECTORY, Job, Work, read_plan
from acclimate.jobs.status import status_of
from acclimate.races.recipe import RaceRecipe, SearchRecipe
from acclimate.races.search import FineTuned, searched
from acclimate.training.gradients import NotFiniteError

NAMES = ("untouched", "TAPT")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(named, "_versions", work.stated_versions)


def tune(*, out: Path, watch: Any, name: str, rate: float, seed: int) -> dict[str, Any]:
    """Cannot be done at a rate of 2e-5 with TAPT and of 5e-5 with the untouched model, and diverges above 1, with TAPT
    above 0.5.
    """
    if (name, rate) in {("TAPT", 2e-5), ("untouched", 5e-5)}:
        raise ValueError("no memory")
    if rate > (0.5 if name == "TAPT" else 1):
        raise NotFiniteError("the loss is nan")
    return {"dev": 0.5 - rate, "steps": 1, "loss": 1.0}


TUNE = Work("tune", tune)


def search_in(run: Path, search: SearchRecipe) -> FineTuned:
    def tuning(name: str, setting: Any, seed: int) -> Job:
        stated = {"name": name, "rate": setting.recipe.plan.rate, "seed": seed}
        return Job(f"fine-tune {name}, {setting.name}, seed {seed}", TUNE, stated)

    recipe = RaceRecipe(seeds=2, search=search)
    task = SimpleNamespace(examples=lambda split: [], kind="span", sizes={"train": 100, "dev": 0})
    materials = SimpleNamespace(task=task, fold=None)
    given: Any = SimpleNamespace(
        recipe=recipe,
        seeds=range(recipe.seeds),
        materials=materials,
        models=dict.fromkeys(NAMES),
        tuning=tuning,
        setting=recipe.setting,
        fine_tunes=True,
        baseline=None,
        frozen=None,
        simple={},
        with_trials=lambda number: given,
    )
    return searched(given, run)


def test_a_fine_tuning_that_fails_stops_no_other_and_its_contestant_is_out(tmp_path):
    ended = search_in(tmp_path, SearchRecipe(rates=(1e-5, 2e-5, 3e-5), how="grid"))
    assert ended.failed == {"TAPT": "fine-tune TAPT, rate 2e-05, seed 0: no memory"}
    assert [candidate.contestant for candidate in ended.search.finalists] == ["untouched"]
    assert {trial.contestant for trial in ended.search.record if "failed" in trial.why} == {"TAPT"}
    status = status_of(tmp_path)
    assert len(status.of("done")) == 2 * 3 * 2 - 2
    assert {standing.detail for standing in status.of("failed")} == {"no memory"}
    assert status.of("waiting") == []


def test_where_the_untouched_model_fails_there_is_nothing_to_compare_with(tmp_path):
    with pytest.raises(ValueError, match="no memory"):
        search_in(tmp_path, SearchRecipe(rates=(5e-5,), how="grid"))


def test_a_fine_tuning_that_diverges_has_lost_and_not_failed(tmp_path):
    ended = search_in(tmp_path, SearchRecipe(rates=(1e-5, 10.0), how="grid"))
    assert [candidate.setting.name for candidate in ended.search.finalists] == ["rate 1e-05"] * 2
    status = status_of(tmp_path)
    assert [len(status.of(state)) for state in ("done", "diverged", "failed", "waiting")] == [4, 4, 0, 0]


def test_a_contestant_that_diverges_at_its_best_setting_is_named_with_the_reason(tmp_path):
    ended = search_in(tmp_path, SearchRecipe(rates=(0.6, 0.9), how="grid"))
    assert [candidate.contestant for candidate in ended.search.finalists] == ["untouched"]
    assert ended.failed == {"TAPT": "its training diverged at rate 0.6"}


def test_the_trials_that_optuna_draws_are_planned(tmp_path):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'acclimate[optuna]'")
    search_in(tmp_path, SearchRecipe(rates=(1e-5, 3e-5), how="pruned-grid", pruner="none"))
    made = {path.name for path in (tmp_path / DIRECTORY).iterdir()}
    assert {job.name for job in read_plan(tmp_path)} == made
    assert len(made) == 2 * 2 + 2
