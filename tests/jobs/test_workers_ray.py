"""Jobs on two Ray nodes of this machine: what one process makes, also when a node dies in the middle."""

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import running_jobs as work
import toys
from acclimate.cli import on_ray
from acclimate.core import files, settings
from acclimate.core.types import Cost
from acclimate.data.gather import Inputs
from acclimate.jobs import job as named
from acclimate.jobs import workers_ray
from acclimate.jobs.job import FAILED, Job, first_line, result_of, running
from acclimate.jobs.run import do, do_all
from acclimate.jobs.where import Where, working
from acclimate.jobs.workers import DiedError
from acclimate.races.outcome import probe_row
from acclimate.races.race import run_race
from acclimate.races.recipe import RaceRecipe
from ray_nodes import two_nodes

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'acclimate[ray]'")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(named, "_versions", work.stated_versions)


@pytest.fixture(scope="module")
def cluster():
    with two_nodes(PYTHONPATH=str(Path(work.__file__).parent)) as cluster:
        yield cluster


def children_of(process: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = place.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process and state != "Z":
                found.append(int(place.parent.name))
    return found


def jobs_of(way: Path) -> list[Job]:
    """Two that wait for the file, and what needs them."""
    waiting = [Job(f"wait {n}", work.wait_for, {"seconds": 240.0}, places={"way": way}) for n in range(2)]
    use = [work.numbered(n) for n in range(3)]
    return [*waiting, *use, Job("sum", work.count, needs={f"n{n}": job for n, job in enumerate(use)})]


def test_jobs_are_done_on_the_cluster_and_a_failure_stays_one(cluster, tmp_path):
    run = tmp_path / "run"
    wrong = Job("wrong", work.fail, {"words": "words"}, needs={"a": work.numbered(1)})
    with working(Where(cluster=cluster.address)):
        failed = do_all([Job("fails", work.fail, {"words": "no\nmore"}), *jobs_of(tmp_path)[2:], wrong], run)
    assert {first_line(error) for error in failed.values()} == {"no", "_fail() got an unexpected keyword argument 'a'"}
    assert result_of(jobs_of(tmp_path)[-1], run) == {"number": 1 + 1 + 2 + 3}


def test_a_run_with_a_relative_path_is_found_by_tasks_that_work_elsewhere(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    total = jobs_of(tmp_path)[-1]
    with working(Where(cluster=cluster.address)):
        do([total], Path("run"))
    assert result_of(total, Path("run")) == {"number": 1 + 1 + 2 + 3}


def test_a_job_that_kills_its_process_is_given_up_in_the_end(cluster, tmp_path):
    with working(Where(cluster=cluster.address)):
        failed = do_all([Job("deadly", work.die), Job("once", work.die_once)], tmp_path)
    assert [*failed] == [Job("deadly", work.die).name]
    assert "Ray did not restart it" in str(failed[Job("deadly", work.die).name])
    assert result_of(Job("once", work.die_once), tmp_path) == {"went": "on"}
    assert DiedError.__name__ in (Job("deadly", work.die).directory(tmp_path) / "failed.json").read_text()


def test_what_no_machine_can_do_is_refused(cluster):
    for claim, words in (({"threads": 2}, "has 2 processors"), ({"gpu_share": 0.5}, "1 processors and 0.5 GPU")):
        with pytest.raises(ValueError, match=words), working(Where(cluster=cluster.address, **claim)):
            pass
    with pytest.raises(ValueError, match=r"the cluster has 2 CPU, but the command needs 9\. Lower --workers"):
        on_ray.launch(["adapt"], processes=9, cluster=cluster.address)


def test_a_machine_with_another_version_is_named(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(workers_ray, "__version__", "9.9")
    with working(Where(cluster=cluster.address)), pytest.raises(ValueError, match=r"but the command runs 9\.9"):
        do([work.numbered(1)], tmp_path)
    assert files.read_json(work.numbered(1).directory(tmp_path) / FAILED)["kind"] == "ValueError"


@pytest.mark.slow  # each node loads torch
def test_a_race_with_probes_on_the_cluster_is_that_of_one_process(cluster, toy_race, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    stated = [*toys.SETTINGS, 'contestants=["TAPT", "TF-IDF"]', "tapt.plan.steps=3", "finetune.plan.steps=6"]
    recipe = settings.override(RaceRecipe(), stated)
    outcomes = []
    for run, where in ((tmp_path / "there", Where(cluster=cluster.address)), (tmp_path / "here", Where())):
        labelled, _ = toys.files_in(toy_race.inputs)
        materials = toys.gathered(Inputs(run, labelled, models=(str(toy_race.base),)))
        with working(where):
            outcome = run_race(recipe, materials, run, command="acclimate race")
        outcomes.append(
            {
                result.key: [replace(score, adapting=Cost(), finetuning=Cost()) for score in result.scores]
                for result in outcome.results
            }
        )
        assert not outcome.failed
    assert outcomes[0] == outcomes[1]
    assert {row for _, row, _ in outcomes[0]} >= {"TAPT", probe_row("TAPT"), probe_row("untouched"), "TF-IDF"}


def test_a_node_that_dies_does_not_lose_its_jobs(cluster, tmp_path):
    """The last test of the module: one node is left afterwards."""
    run, way = tmp_path / "run", tmp_path / "way"
    jobs, raylet = jobs_of(way), cluster.second.all_processes["raylet"][0].process.pid

    def killing() -> None:
        until = time.monotonic() + 200
        while len(running(run)) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        processes = children_of(raylet)
        for process in (raylet, *processes):  # a machine that dies takes all with it
            os.kill(process, signal.SIGKILL)
        way.touch()

    killer = threading.Thread(target=killing)
    killer.start()
    with working(Where(cluster=cluster.address)):
        assert do_all(jobs, run) == {}
    killer.join()
    assert do_all(jobs, tmp_path / "here") == {}
    for job in jobs:
        place = job.directory(run) / "result.json"
        assert place.read_bytes() == (job.directory(tmp_path / "here") / "result.json").read_bytes()
