"""All rounds without a look at the test set, on made-up scores: what fails stops nothing else, all is planned."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import running_jobs as work
from acclimate.jobs import job as named
from acclimate.jobs.job import Job, Work, read_plan
from acclimate.jobs.status import status_of
from acclimate.races import rounds, search
from acclimate.races.contestants import Entries
from acclimate.races.planning.dry_run import foreseen_jobs
from acclimate.races.recipe import RaceRecipe, SearchRecipe, Setting
from acclimate.races.search import FineTuned
from acclimate.training.gradients import NotFiniteError

NAMES = ("untouched", "TAPT")


def tune(*, out: Path, watch: Any, name: str, rate: float, seed: int) -> dict[str, Any]:
    """Cannot be done at a rate of 2e-5 with TAPT and of 5e-5 with the untouched model, and diverges above 1, with TAPT
    above 0.5.
    """
    if (name, rate) in {("TAPT", 2e-5), ("untouched", 5e-5)}:
        raise ValueError("no memory")
    if rate > (0.5 if name == "TAPT" else 1):
        raise NotFiniteError("the loss is nan")
    return {"dev": 0.5 - rate, "steps": 1, "loss": 1.0}


TUNE = Work("tune", tune, trains="task")


def tuning(entries: Entries, name: str, setting: Setting, seed: int) -> Job:
    stated = {"name": name, "rate": setting.recipe.plan.rate, "seed": seed}
    return Job(f"fine-tune {name}, {setting.name}, seed {seed}", TUNE, stated)


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "_versions", work.stated_versions)
    monkeypatch.setattr(Entries, "tuning", tuning)
    monkeypatch.setattr(rounds, "rates_in_use", lambda entries, run: {})
    monkeypatch.setattr(search.finetune, "dev_sample_of", lambda recipe, task: [])
    monkeypatch.setattr(search.finetune, "without_reading", lambda recipe, task, examples: 0.0)


def entries_of(rates: tuple[float, ...], *, seeds: int = 2) -> Entries:
    recipe = RaceRecipe(seeds=seeds, search=SearchRecipe(rates=rates))
    materials: Any = SimpleNamespace(
        task=SimpleNamespace(examples=lambda split: [], hashes={}), fold=None, identity=lambda: "model"
    )
    return Entries(recipe, materials, None, dict.fromkeys(NAMES), {}, {}, {}, None)


def searched(run: Path, *rates: float, seeds: int = 2) -> FineTuned:
    return rounds.searched(entries_of(rates, seeds=seeds), run)


def test_every_setting_runs_with_the_first_seed_and_the_best_alone_with_the_others(tmp_path):
    ended = searched(tmp_path, 1e-5, 3e-5, 4e-5, seeds=3)
    labels = {job.label for job in read_plan(tmp_path)}
    first = {f"fine-tune {name}, rate {rate}, seed 0" for name in NAMES for rate in ("1e-05", "3e-05", "4e-05")}
    assert labels == first | {f"fine-tune {name}, rate 1e-05, seed {seed}" for name in NAMES for seed in (1, 2)}
    tuned = {name: [job.label for job in jobs] for name, jobs in ended.tuned.items()}
    assert tuned == {name: [f"fine-tune {name}, rate 1e-05, seed {seed}" for seed in range(3)] for name in NAMES}
    assert ended.notes == (
        "The best rate is the lowest or highest of those tried: untouched (rate 1e-05), TAPT (rate 1e-05). A "
        "rate beyond it may be better.",
    )
    assert ended.rounds is None


def test_a_dry_run_foresees_as_many_jobs_as_are_done_and_once_all_is_done_these(tmp_path, monkeypatch):
    monkeypatch.setattr("acclimate.races.planning.dry_run.tested", lambda job, task: job)
    entries = entries_of((1e-5, 3e-5, 4e-5), seeds=3)
    guessed = {job.name for job in foreseen_jobs(entries, tmp_path)}
    rounds.searched(entries, tmp_path)
    planned = {job.name for job in read_plan(tmp_path)}
    assert len(guessed) == len(planned)
    assert {job.name for job in foreseen_jobs(entries, tmp_path)} == planned


def test_a_fine_tuning_that_fails_stops_no_other_and_its_contestant_is_out(tmp_path):
    ended = searched(tmp_path, 1e-5, 2e-5, 3e-5)
    assert ended.failed == {"TAPT": "fine-tune TAPT, rate 2e-05, seed 0: no memory"}
    assert [candidate.contestant for candidate in ended.search.finalists] == ["untouched"]
    status = status_of(tmp_path)
    assert len(status.jobs_in("done")) == 2 * 3 - 1 + 1
    assert {standing.detail for standing in status.jobs_in("failed")} == {"no memory"}
    assert status.jobs_in("waiting") == []


def test_where_the_untouched_model_fails_there_is_nothing_to_compare_with(tmp_path):
    with pytest.raises(ValueError, match="no memory"):
        searched(tmp_path, 5e-5)


def test_a_fine_tuning_that_diverges_has_lost_and_not_failed(tmp_path):
    ended = searched(tmp_path, 1e-5, 10.0)
    assert [candidate.setting.name for candidate in ended.search.finalists] == ["rate 1e-05"] * 2
    status = status_of(tmp_path)
    assert [len(status.jobs_in(state)) for state in ("done", "diverged", "failed", "waiting")] == [4, 2, 0, 0]


def test_a_contestant_that_diverges_with_every_setting_is_named_with_the_reason(tmp_path):
    ended = searched(tmp_path, 0.6, 0.9)
    assert [candidate.contestant for candidate in ended.search.finalists] == ["untouched"]
    assert ended.failed == {"TAPT": "its training diverged at rate 0.9"}


def test_processes_that_share_a_job_diverge_together_and_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds.ranks, "world", lambda: 2)
    monkeypatch.setattr(rounds.ranks, "require_same", lambda what, values: None)
    monkeypatch.setattr(rounds.ranks, "agree", lambda value: value)
    ended = searched(tmp_path, 1e-5, 10.0)
    assert {name: len(jobs) for name, jobs in ended.tuned.items()} == dict.fromkeys(NAMES, 2)
