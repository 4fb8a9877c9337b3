"""Where a study stands, its time left, and its lock file."""

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

import running_jobs as work
from acclimate.core import files
from acclimate.jobs import job as named
from acclimate.jobs.job import RESULT, RUNNING, WALL, Job, running, write_result
from acclimate.jobs.lock import LOCK, allow_redone, differences, write_lock
from acclimate.jobs.run import do_all
from acclimate.jobs.status import status_of


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(named, "_versions", work.stated_versions)


@dataclass(frozen=True)
class Recipe:
    steps: int = 3


def study_in(run: Path, way: Path) -> list[Job]:
    """Two done, one failed, two that wait for it."""
    fails = Job("mend", work.mend, places={"way": way})
    waits = [Job(f"wait {number}", work.count, {"start": number}, needs={"mended": fails}) for number in (1, 2)]
    jobs = [work.numbered(1), work.numbered(2), *waits]
    do_all(jobs, run)
    return [*jobs, fails]


def test_done_failed_and_waiting_are_told_and_why(tmp_path):
    run = tmp_path / "run"
    study_in(run, tmp_path / "way")
    status = status_of(run)
    assert [len(status.jobs_in(state)) for state in ("done", "running", "failed", "waiting")] == [2, 0, 1, 2]
    text = status.as_text()
    assert text.startswith("5 jobs: 2 done, 0 running, 1 failed, 2 waiting")
    assert "failed  mend: [Errno 2] No such file" in text
    assert "waiting  wait 1: for mend" in text
    assert "Time left: unknown" in text  # of `mend` none has ended
    (tmp_path / "way").touch()
    study_in(run, tmp_path / "way")
    assert status_of(run).as_text() == "5 jobs: 5 done, 0 running, 0 failed, 0 waiting"


def test_a_training_that_diverged_is_told_and_has_not_failed(tmp_path):
    jobs = [Job("diverges", work.diverge), work.numbered(1)]
    do_all(jobs, tmp_path)
    status = status_of(tmp_path)
    assert status.as_text().splitlines() == [
        "2 jobs: 1 done, 0 running, 0 failed, 0 waiting, 1 diverged",
        "  diverged  diverges: the loss is nan",
    ]
    assert status.seconds_left == 0.0


def test_time_left_is_that_of_finished_jobs_of_the_same_kind(tmp_path):
    jobs = [work.numbered(number) for number in (1, 2, 3, 4, 5)]
    do_all(jobs, tmp_path)
    for job, seconds in zip(jobs, (10.0, 20.0, 100.0, 100.0, 100.0), strict=True):
        files.write_record(job.directory(tmp_path) / WALL, {"seconds": seconds})
    for job in jobs[2:]:
        (job.directory(tmp_path) / RESULT).unlink()
    status = status_of(tmp_path)
    assert status.seconds_left == pytest.approx(3 * 15.0)
    assert "Time left: 45 s, estimated from finished jobs of the same kinds; nothing runs now." in status.as_text()


def test_what_runs_is_told_and_a_mark_of_the_dead_is_not(tmp_path):
    run, way = tmp_path / "run", tmp_path / "way"
    jobs = [Job("wait", work.wait_for, {"seconds": 300.0}, places={"way": way}), work.numbered(1)]
    (run / RUNNING).mkdir(parents=True)
    dead = {"label": "job 1", "process": 1, "machine": "here", "since": 0.0}
    doing = threading.Thread(target=do_all, args=(jobs, run))
    doing.start()
    while "done" not in running(run).get(jobs[0].name, {}):
        assert doing.is_alive()
    (run / RUNNING / f"{jobs[1].name}.json").write_text(json.dumps(dead))
    status = status_of(run)
    way.touch()
    doing.join()
    [standing] = status.jobs_in("running")
    assert standing.label == "wait"
    assert standing.detail.startswith("1 of 2 steps, since ")
    assert [each.label for each in status.jobs_in("waiting")] == ["job 1"]
    assert status_of(run).jobs_in("running") == []


def test_studies_in_folders_are_told_together_and_no_study_is_refused(tmp_path):
    for name in ("one", "two"):
        do_all([work.numbered(1)], tmp_path / name)
    assert [standing.label for standing in status_of(tmp_path).standings] == ["one: job 1", "two: job 1"]
    with pytest.raises(ValueError, match="contains no study"):
        status_of(tmp_path / "one" / "jobs")
    write_lock(tmp_path, "test", Recipe())
    assert [name.partition("/")[0] for name in files.read_json(tmp_path / LOCK)["jobs"]] == ["one", "two"]
    assert differences(tmp_path) == []


def test_models_are_called_as_people_call_them(tmp_path):
    run = tmp_path / "run"
    named.claim(run, {"770fc4b016b9": "MiniLM"})
    fails = Job("mend 770fc4b016b9", work.mend, places={"way": tmp_path / "way"})
    do_all([Job("wait 770fc4b016b9", work.count, {"start": 1}, needs={"mended": fails})], run)
    text = status_of(run).as_text()
    assert "failed  mend MiniLM: " in text
    assert "waiting  wait MiniLM: for mend MiniLM" in text
    assert "770fc4b016b9" not in text


def test_a_run_without_a_plan_is_told_by_what_its_jobs_left(tmp_path):
    study_in(tmp_path, tmp_path / "way")
    (tmp_path / "plan.jsonl").unlink()
    (tmp_path / "study.json").write_text("{}")
    assert status_of(tmp_path).as_text().startswith("3 jobs: 2 done, 0 running, 1 failed, 0 waiting")


def test_the_lock_names_all_and_what_differs_is_found(tmp_path):
    jobs = [work.numbered(1, tmp_path / "log"), work.numbered(2)]
    jobs.append(Job("reads", work.mend, contents={"text": "its hash"}, places={"way": tmp_path / "log"}))
    do_all(jobs, tmp_path / "run")
    with pytest.raises(ValueError, match=r"has no study\.lock"):
        differences(tmp_path / "run")
    write_lock(tmp_path / "run", "acclimate race x", Recipe())
    lock = files.read_json(tmp_path / "run" / LOCK)
    assert (lock["verb"], lock["recipe"]["steps"], lock["data"]) == ("acclimate race x", 3, {"text": ["its hash"]})
    assert lock["versions"] == work.stated_versions()
    assert set(lock["jobs"]) == {job.name for job in jobs}
    result = jobs[0].directory(tmp_path / "run") / RESULT
    assert lock["jobs"][jobs[0].name]["result"] == files.sha256_of(result)
    assert differences(tmp_path / "run") == []
    before = (tmp_path / "run" / LOCK).read_bytes()
    files.write_record(result, {"number": 99}, of=result.parent.name)
    with pytest.raises(files.DamagedError, match=rf"{result} has changed since .* Remove {result.parent}"):
        write_lock(tmp_path / "run", "acclimate race x", Recipe())
    assert (tmp_path / "run" / LOCK).read_bytes() == before
    result.unlink()  # the way out: the job is done again, and gives other bytes, as on a GPU
    allow_redone(tmp_path / "run")
    assert "job 1 no longer has a result" in differences(tmp_path / "run")[0]
    files.write_record(result, {"number": 99}, of=result.parent.name)
    write_lock(tmp_path / "run", "acclimate race x", Recipe())
    assert differences(tmp_path / "run") == []
    write_result(result.parent, {"number": 1})
    (jobs[1].directory(tmp_path / "run") / RESULT).unlink()
    changed, gone = differences(tmp_path / "run")
    assert "the result of job 1 differs from" in changed
    assert "job 2 no longer has a result" in gone


def test_the_commands_answer_without_torch(tmp_path):
    do_all([work.numbered(1)], tmp_path)
    write_lock(tmp_path, "test", Recipe())
    for verb, status, words in (("status", 0, "1 job: 1 done"), ("verify", 0, "All results"), ("verify", 1, "differs")):
        if status:
            write_result(work.numbered(1).directory(tmp_path), {})
        asked = [sys.executable, "-X", "importtime", "-m", "acclimate", "study", verb, str(tmp_path)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert (done.returncode, words in done.stdout) == (status, True), done.stderr[-2000:]
        loaded = {
            line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")
        }
        assert not loaded & {"torch", "transformers", "ray", "matplotlib"}


@pytest.mark.parametrize("damage", [{"jobs": []}, {"jobs": {"a": {}}}, {"begun": {"a": 1}}, {"outcome": "x"}])
def test_a_lock_of_another_shape_is_named_with_the_way_out(damage, tmp_path):
    do_all([work.numbered(1)], tmp_path)
    write_lock(tmp_path, "test", Recipe())
    files.write_json(tmp_path / LOCK, files.read_json(tmp_path / LOCK) | damage)
    with pytest.raises(files.DamagedError, match=rf"{LOCK} is damaged: its .*Remove {tmp_path / LOCK}"):
        differences(tmp_path)


def test_a_changed_weight_or_setting_of_a_finished_job_is_found(tmp_path):
    job = work.numbered(1)
    do_all([job], tmp_path)
    write_lock(tmp_path, "test", Recipe())
    about = job.directory(tmp_path) / "job.json"
    before = about.read_text()
    for damaged in (before.replace("job 1", "job 2"), "{}"):
        about.write_text(damaged)
        [found] = differences(tmp_path)
        assert f"{about} is damaged" in found
    about.write_text(before)
    assert differences(tmp_path) == []


def test_adapters_beside_a_winner_are_a_difference_that_verify_names(tmp_path):
    do_all([work.numbered(1)], tmp_path)
    (tmp_path / "use").mkdir()
    (tmp_path / "use" / "model.safetensors").write_bytes(b"weights")
    files.seal(tmp_path / "use")
    write_lock(tmp_path, "test", Recipe())
    assert differences(tmp_path) == []
    (tmp_path / "use" / "adapter_model.safetensors").write_bytes(b"adapters")
    assert [sentence for sentence in differences(tmp_path) if "adapter_model.safetensors is not listed in" in sentence]
