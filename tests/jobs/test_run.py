"""Jobs done here and by processes: needs first, nothing twice, on where one fails, again where a process is killed."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import running_jobs as work
from acclimate.core import files
from acclimate.core.door import python_call
from acclimate.core.types import Progress
from acclimate.jobs import job as calls
from acclimate.jobs import job as named
from acclimate.jobs import where
from acclimate.jobs.job import (
    FAILED,
    PLAN,
    RESULT,
    RUNNING,
    Job,
    first_line,
    forget_the_dead,
    read_plan,
    result_of,
    running,
)
from acclimate.jobs.run import do, do_all, done
from acclimate.jobs.where import Where, current_workers, working
from acclimate.jobs.workers import DiedError, Processes, RemoteError


class Kept(Processes):
    """Two processes that stay for the tests that follow: each takes a second to start."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def pools():
    pools: dict[tuple[int, int], Kept] = {}
    yield pools
    for pool in pools.values():
        Processes.close(pool)


@pytest.fixture(autouse=True)
def _quick(monkeypatch, pools):
    monkeypatch.setattr(named, "_versions", work.stated_versions)
    monkeypatch.setattr(where, "Processes", lambda *how: pools.setdefault(how, Kept(*how)))


@pytest.fixture(params=[1, 2], ids=["here", "processes"])
def placed(request):
    with working(Where(workers=request.param)):
        yield request.param


def failures(jobs: list[Job], run: Path, **given: Any) -> dict[str, str]:
    return {name: first_line(error) for name, error in do_all(jobs, run, **given).items()}


def diamond(log: Path | None = None) -> list[Job]:
    """The last one needs two that need the first."""
    first = work.numbered(0, log)
    sides = [work.numbered(1, log, first=first), work.numbered(2, log, first=first)]
    return [first, *sides, work.numbered(3, log, left=sides[0], right=sides[1])]


def doers(log: Path) -> list[str]:
    return [line.split()[0] for line in log.read_text().splitlines()]


def test_needs_are_done_first_and_nothing_twice(placed, tmp_path):
    log = tmp_path / "log"
    jobs = diamond(log)
    assert do_all([jobs[3]], tmp_path / "run") == {}
    assert result_of(jobs[3], tmp_path / "run") == {"number": 1 + 3 + (1 + 1 + 1) + (1 + 2 + 1)}
    assert Counter(doers(log)) == Counter(job.name for job in jobs)
    assert doers(log)[0] == jobs[0].name
    assert doers(log)[-1] == jobs[3].name
    assert do_all(jobs, tmp_path / "run") == {}
    assert len(doers(log)) == 4
    pids = {line.split()[1] for line in log.read_text().splitlines()}
    assert (str(os.getpid()) in pids) == (placed == 1)


def test_results_do_not_depend_on_where_they_were_made(tmp_path):
    def made(run: Path) -> dict[str, bytes]:
        kept = [path for path in sorted((run / "jobs").rglob("*")) if path.is_file() and path.name != "wall.json"]
        return {str(path.relative_to(run)): path.read_bytes() for path in [*kept, run / PLAN]}

    do_all(diamond(), tmp_path / "here")
    with working(Where(workers=2)):
        do_all(diamond(), tmp_path / "there")
    assert made(tmp_path / "here") == made(tmp_path / "there")
    assert not [*(tmp_path / "there" / "running").iterdir()]


def test_a_job_that_fails_stops_only_those_that_need_it_and_is_tried_again(placed, tmp_path):
    run, way = tmp_path / "run", tmp_path / "way"
    mended = Job("mend", work.mend, places={"way": way})
    after = Job("after", work.count, needs={"a": work.numbered(5), "b": Job("use", work.mend, {"way": 1}, needs={})})
    lacking = Job("lacking", work.fail, {"words": "never"}, needs={"text": mended})
    last = Job("last", work.fail, {"words": "never"}, needs={"lacking": lacking})
    told: list[Progress] = []
    failed = failures([last, work.numbered(7), after], run, watch=told.append)
    assert failed.pop(after.name) == "needs use, which failed"
    assert failed.pop(after.needs["b"].name).startswith("'int' object")
    assert [*failed] == [mended.name, lacking.name, last.name]
    assert "No such file" in failed[mended.name]
    assert failed[lacking.name] == "needs mend, which failed"
    assert failed[last.name] == "needs lacking, which failed"
    assert result_of(work.numbered(7), run) == {"number": 8}
    assert result_of(work.numbered(5), run) == {"number": 6}
    assert any("No such file" in each.values.get("note", "") for each in told)
    written = files.read_json(mended.directory(run) / FAILED)
    assert written["error"] == failed[mended.name]
    assert written["kind"] == "FileNotFoundError"
    assert "running_jobs.py" in written["traceback"]
    way.write_text("here now")
    assert do_all([mended], run) == {}
    assert result_of(mended, run) == {"text": "here now", "number": 0}
    assert not (mended.directory(run) / FAILED).exists()


def test_the_first_error_is_raised_once_the_others_are_done(placed, tmp_path):
    jobs = [Job(words, work.fail, {"words": words}) for words in ("one", "two")]
    with pytest.raises(ValueError, match=r"^one$") as raised:
        do([*jobs, work.numbered(1)], tmp_path)
    assert result_of(work.numbered(1), tmp_path) == {"number": 2}
    if placed == 2:
        assert isinstance(raised.value.__cause__, RemoteError)
        assert "in _fail" in str(raised.value.__cause__)


def test_a_job_writes_options_as_who_started_it_does(placed, tmp_path):
    job = Job("named", work.name_option)
    assert failures([job], tmp_path) == {job.name: "--max-tokens 64"}
    with python_call():
        assert failures([job], tmp_path) == {job.name: "max_tokens=64"}


def test_a_damaged_file_is_no_failure_of_the_job_that_meets_it(placed, tmp_path):
    """Else a race goes on without what the job measures, and its outcome lacks it in silence."""
    with pytest.raises(files.DamagedError, match=r"^tokens\.json is damaged\. Remove it$"):
        do_all([Job("meets", work.meet_damage), work.numbered(1)], tmp_path)
    assert result_of(work.numbered(1), tmp_path) == {"number": 2}


def test_an_error_that_cannot_be_sent_is_told_in_words(tmp_path):
    with working(Where(workers=2)), pytest.raises(RemoteError, match=r"^Odd: one and two$"):
        do([Job("odd", work.fail_oddly)], tmp_path)


def test_a_killed_process_is_replaced_and_its_job_gone_on_with(tmp_path):
    told: list[Progress] = []
    jobs = [Job("dies", work.die_once), work.numbered(1)]
    with working(Where(workers=2)):
        assert do_all(jobs, tmp_path, watch=told.append) == {}
    assert result_of(jobs[0], tmp_path) == {"went": "on"}
    assert any("died (SIGKILL)" in each.values.get("note", "") for each in told)


def test_a_job_that_kills_its_processes_fails_in_the_end(tmp_path):
    job = Job("deadly", work.die)
    with working(Where(workers=2)), pytest.raises(DiedError, match="died 3 times, the last time from SIGKILL"):
        do([job, work.numbered(1)], tmp_path)
    assert result_of(work.numbered(1), tmp_path) == {"number": 2}
    assert files.read_json(job.directory(tmp_path) / FAILED)["kind"] == "DiedError"


def test_a_process_killed_in_the_middle_of_what_it_says_is_replaced(tmp_path):
    job = Job("dies speaking", work.die_speaking)
    with working(Where(workers=2)):
        assert do_all([job], tmp_path) == {}
    assert result_of(job, tmp_path) == {"went": "on"}


def test_a_mark_that_cannot_be_written_is_let_go(monkeypatch, tmp_path):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(calls, "_write_note", full)
        assert failures([work.numbered(1)], tmp_path) == {work.numbered(1).name: "[Errno 28] No space left on device"}
    assert not [*(tmp_path / RUNNING).iterdir()]
    assert do_all([work.numbered(1)], tmp_path) == {}


def test_a_mark_is_read_however_long_its_job_is_called(tmp_path):
    label, told = "lang, größer " * 200, []
    job = Job(label, work.count)

    def watch(progress: Progress) -> None:
        told.append(running(tmp_path)[job.name]["stage"])

    def work_of(*, out: Path, watch, **_: Path) -> dict:
        for stage, unit in (("a stage that is told at length " * 90, "documents"), ("short", "steps")):
            watch(Progress(stage, 1, 2, unit))
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "NOTE_EVERY", 0.0)
        calls.do_call(replace(job.call(tmp_path), function=work_of), watch=watch)
    assert told == [f"{label}, {'a stage that is told at length ' * 90}", label]


def test_a_second_study_in_a_directory_begins_its_plan_anew(tmp_path):
    for number in (1, 2):
        named.claim(tmp_path)
        do_all([work.numbered(number)], tmp_path)
    assert [job.label for job in read_plan(tmp_path)] == ["job 2"]


def test_one_process_and_several_compute_with_the_threads_that_were_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    monkeypatch.delenv("MKL_NUM_THREADS")
    with working(Where(workers=2, threads=2)):
        do_all([Job("threads", work.threads)], tmp_path)
    assert result_of(Job("threads", work.threads), tmp_path) == {"torch": 2, "environment": "2"}
    assert os.environ["OMP_NUM_THREADS"] == "64"
    before = torch.get_num_threads()
    with working(Where(threads=1)):
        do_all([Job("threads", work.threads)], tmp_path / "one")
    assert result_of(Job("threads", work.threads), tmp_path / "one") == {"torch": 1, "environment": "1"}
    assert (os.environ["OMP_NUM_THREADS"], torch.get_num_threads()) == ("64", before)


def test_two_that_meet_at_a_job_do_it_once(tmp_path):
    run, way = tmp_path / "run", tmp_path / "way"
    job = Job("wait", work.wait_for, places={"way": way})
    results: list[object] = []
    both = [threading.Thread(target=lambda: results.append(done(job, run))) for _ in range(2)]
    for each in both:
        each.start()
    while job.name not in running(run):
        time.sleep(0.01)
    inode = (job.directory(run) / "begun").stat().st_ino if (job.directory(run) / "begun").exists() else None
    way.touch()
    for each in both:
        each.join()
    assert results == [{"came": True}] * 2
    assert inode is None or (job.directory(run) / "begun").stat().st_ino == inode
    assert running(run) == {}


def test_notes_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path):
    (tmp_path / RUNNING).mkdir()
    (tmp_path / RUNNING / "dead.json").touch()

    def look(progress: Progress) -> None:
        forget_the_dead(tmp_path)
        assert [*running(tmp_path)] == [path.stem for path in (tmp_path / RUNNING).glob("*.json")]
        seen.extend(running(tmp_path))

    seen: list[str] = []
    done(work.numbered(1), tmp_path, watch=look)
    assert seen == [work.numbered(1).name]
    assert not [*(tmp_path / RUNNING).iterdir()]


DRIVER = """
import signal
import sys
from pathlib import Path
import running_jobs as work
from acclimate.jobs import job as named
from acclimate.jobs import where
from acclimate.jobs.run import do_all
from acclimate.jobs.where import Where, working

named._versions = work.stated_versions
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started with it ignored
    place = Path(sys.argv[1])
    with working(Where(workers=2)):
        do_all(work.waiting_jobs(place), place / "run")
"""


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()


def until(condition, seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_driver_and_the_next_goes_on(how, tmp_path):
    script, run = tmp_path / "driver.py", tmp_path / "run"
    script.write_text(DRIVER)
    jobs = work.waiting_jobs(tmp_path)
    (tmp_path / "way-0").touch()
    found = [str(Path(work.__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(found)}
    driver = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=environment, stderr=subprocess.PIPE)
    try:
        until(lambda: len(running(run)) == 2 and result_of(jobs[0], run) is not None)
        workers = [mark["process"] for mark in running(run).values()]
        assert driver.pid not in workers
        driver.send_signal(how)
        driver.wait(60)
        until(lambda: not any(map(alive, workers)), 60)
    finally:
        driver.kill()
        driver.communicate()
    assert running(run) == {}
    first = (jobs[0].directory(run) / RESULT).stat().st_mtime_ns
    for number in range(4):
        (tmp_path / f"way-{number}").touch()
    assert do_all(jobs, run) == {}
    assert (jobs[0].directory(run) / RESULT).stat().st_mtime_ns == first
    do_all(jobs, tmp_path / "undisturbed")
    for job in jobs:
        assert (job.directory(run) / RESULT).read_bytes() == (
            job.directory(tmp_path / "undisturbed") / RESULT
        ).read_bytes()


def test_a_chain_of_hundreds_and_a_wide_study_are_scheduled(tmp_path):
    chain = work.numbered(0)
    for number in range(1, 60):
        chain = work.numbered(number, before=chain)
    wide = [work.numbered(1000 + number, first=chain) for number in range(40)]
    assert do_all(wide, tmp_path) == {}
    assert len(read_plan(tmp_path)) == 100
    assert result_of(chain, tmp_path) == {"number": sum(range(60)) + 60}


def test_a_torn_line_of_the_plan_is_passed_over(tmp_path):
    do_all(diamond(), tmp_path)
    text = (tmp_path / PLAN).read_text()
    (tmp_path / PLAN).write_text(text[: len(text) // 2])
    assert 0 < len(read_plan(tmp_path)) < 4
    (tmp_path / PLAN).unlink()
    do_all(diamond(), tmp_path)
    assert [json.loads(line) for line in (tmp_path / PLAN).read_text().splitlines()] == [
        json.loads(line) for line in text.splitlines()
    ]


def test_where_is_refused_where_it_makes_no_sense(monkeypatch):
    for stated, words in (
        ({"workers": 0}, "out of range"),
        ({"workers": 2, "cluster": "auto"}, "Remove one of them"),
        ({"gpu_share": 0.5}, "Add --cluster"),
    ):
        with pytest.raises(ValueError, match=words), working(Where(**stated)):
            pass
    monkeypatch.setenv("WORLD_SIZE", "2")
    with working(Where()):
        assert current_workers() is None
    with pytest.raises(ValueError, match="torchrun"), working(Where(workers=2)):
        pass


def test_closing_ends_workers_in_the_middle_of_a_job(tmp_path):
    workers = Processes(1, 1)
    [job] = [Job("wait", work.wait_for, places={"way": tmp_path / "never"})]
    workers.start(job.call(tmp_path / "run"), lambda progress: None)
    until(lambda: running(tmp_path / "run"))
    process = workers.pool[0].process.pid
    workers.close()
    assert not alive(process)
