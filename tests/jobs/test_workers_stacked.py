"""Fine-tunings whose steps are computed together end as jobs that ran alone, and other sessions go on with them."""

import shutil
import threading
import time
from pathlib import Path

import pytest

import running_jobs
import toys
from acclimate.core import files, settings
from acclimate.core.types import NotFiniteError, Progress
from acclimate.jobs.deadline import TimeUpError
from acclimate.jobs.job import RUNNING, WALL, Job, result_of
from acclimate.jobs.run import do_all
from acclimate.races import work
from acclimate.reading.labelled import read_files
from acclimate.tasks.prepared import prepare
from acclimate.training import stacked
from acclimate.training.plan import Plan

STEPS, ILL = 12, 2


@pytest.fixture(scope="module")
def jobs(toy_inputs, encoder, tmp_path_factory) -> list[Job]:
    """Three seeds of a fine-tuning, of which the last diverges, and a job that is none between them."""
    place = tmp_path_factory.mktemp("task")
    task = prepare(read_files(toys.files_in(toy_inputs)[0]).task(), toy_inputs, place / "task")

    def tuning(seed: int) -> Job:
        plan = Plan(steps=STEPS, batch=8, rate=1e30 if seed == ILL else 1e-2, seed=seed, clip=0.0)
        recipe = toys.papers(looks=3, epochs=0.0, dropout=0.0, attention_dropout=0.0, plan=plan)
        values = settings.to_mapping(recipe)
        recipe_values = {name: value for name, value in values.items() if name not in ("model", "task")}
        places = {"task": task.path, "model": encoder}
        return Job(f"fine-tune, seed {seed}", work.FINE_TUNE, {"recipe": recipe_values}, dict(task.hashes), places)

    return [tuning(0), running_jobs.numbered(1), tuning(1), tuning(ILL)]


@pytest.fixture(scope="module")
def alone(jobs, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("alone")
    assert [*do_all(jobs, run)] == [jobs[-1].name]
    return run


def check_same(jobs: list[Job], run: Path, alone: Path) -> None:
    assert result_of(jobs[1], run) == result_of(jobs[1], alone)
    for job in (jobs[0], jobs[2]):
        result, expected = result_of(job, run), result_of(job, alone)
        assert result.keys() == expected.keys()
        for name in ("steps", "tokens", "flops", "predicted_dev", "dev", "learnt"):
            assert result[name] == expected[name], name
        assert result["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        names = [{path.name for path in job.directory(place).rglob("*")} for place in (run, alone)]
        assert names[0] == names[1]


def test_fine_tunings_side_by_side_end_as_alone(jobs, alone, tmp_path, monkeypatch):
    monkeypatch.setattr(stacked, "is_chosen", lambda: True)
    sizes, accumulate, begun = [], stacked._Stack.accumulate, time.monotonic()
    monkeypatch.setattr(stacked._Stack, "accumulate", lambda *step: (sizes.append(len(step[1])), accumulate(*step)))
    failed = do_all(jobs, tmp_path)
    assert set(sizes) == {2, 3}
    assert [*failed] == [jobs[-1].name]
    assert isinstance(failed[jobs[-1].name], NotFiniteError)
    check_same(jobs, tmp_path, alone)
    assert not [*(tmp_path / RUNNING).iterdir()]
    seconds = [files.read_record(job.directory(tmp_path) / WALL)["seconds"] for job in (jobs[0], jobs[2])]
    assert sum(seconds) <= time.monotonic() - begun, "each counts its share, as the budget of a race has to"


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeUpError])
def test_what_was_stopped_goes_on_alone_or_side_by_side(error, jobs, alone, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")

    def stopping(progress: Progress) -> None:
        if progress.stage == jobs[2].label and progress.done == STEPS // 2:
            raise error

    threads = threading.active_count()
    monkeypatch.setattr(stacked, "is_chosen", lambda: True)
    with pytest.raises(error):
        do_all(jobs[:3], tmp_path / "run", watch=stopping)
    assert threading.active_count() == threads
    assert result_of(jobs[0], tmp_path / "run") is None
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for name in ("copy", "run"):
        do_all(jobs[:3], tmp_path / name)
        check_same(jobs[:3], tmp_path / name, alone)
        monkeypatch.setattr(stacked, "is_chosen", lambda: False)
