"""Jobs: named by what their result depends on, done once, needs first."""

import inspect
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acclimate.core import files
from acclimate.core.types import Progress
from acclimate.jobs.job import JOB, PLAN, RESULT, Job, Work, begin_plan, check_format, missing, read_result, result_of
from acclimate.jobs.run import do, done

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def _count(*, out: Path, watch: Any, start: int = 0, text: Path | None = None, before: Path | None = None) -> dict:
    CALLS.append(out.name)
    watch(Progress("counting", 1, 1, "numbers", {"loss": 1.0}))
    if before is not None:
        start += read_result(before)["number"]
    return {"number": start + (len(text.read_text()) if text else 0)}


def _fail(*, out: Path, watch: Any) -> dict:
    (out / "half.txt").write_text("half")
    raise RuntimeError("stopped")


def _resume(*, out: Path, watch: Any) -> dict:
    return {"left": (out / "half.txt").read_text()}


count, fail, resume = Work("count", _count), Work("fail", _fail), Work("resume", _resume)


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Job, Job]:
    text = tmp_path / "text.txt"
    text.write_text("four")
    first = Job("first, of two", count, {"start": 3}, {"text": "hash"}, {"text": text})
    return first, Job("second", count, {"start": 10}, needs={"before": first})


def test_a_name_is_readable_and_depends_on_settings_contents_needs_and_work(chain):
    first, second = chain
    assert first.name.startswith("first-of-two-")
    assert len(first.name) == len("first-of-two-") + 12
    others = [
        replace(first, settings={"start": 4}),
        replace(first, contents={"text": "another"}),
        replace(first, work=resume),
        replace(first, needs={"before": second}),
    ]
    assert len({job.name for job in [first, *others]}) == 5
    changed = replace(second, needs={"before": others[0]})
    assert changed.name != second.name
    assert replace(first, work=replace(count, rule=1)).name != first.name


def test_a_plan_removes_what_dead_processes_left_and_nothing_of_a_living_one(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    machine = socket.gethostname()
    own = f"{machine}-{os.stat('/proc/self/ns/pid').st_ino}"
    left = [f".race.html.{own}-{ended.pid}-0.tmp", f".use.{own}-{ended.pid}-3.old"]
    kept = [f".race.html.{own}-{os.getppid()}-0.tmp", f".race.html.elsewhere-{ended.pid}-0.tmp", ".notes.tmp"]
    kept.append(f".race.html.{machine}-1-{ended.pid}-0.tmp")  # of another container
    for name in (*left, *kept):
        (tmp_path / name).touch()
    (tmp_path / f".encoder.{own}-{ended.pid}-1.tmp").mkdir()
    with files.new_file(tmp_path / "race.html") as file:
        file.write(b"page")
        begin_plan(tmp_path)
    assert (tmp_path / "race.html").read_bytes() == b"page"
    assert {each.name for each in tmp_path.iterdir()} == {"race.html", PLAN, *kept}


def test_a_name_does_not_depend_on_places_nor_on_the_order_of_settings(chain):
    first, _ = chain
    assert replace(first, places={"text": Path("/elsewhere")}).name == first.name
    two = [replace(first, settings=settings) for settings in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    assert two[0].name == two[1].name


def test_chains_may_be_longer_than_the_stack(tmp_path):
    last = Job("job 0", count)
    for number in range(1, 3000):
        last = Job(f"job {number}", count, needs={"before": last})
    assert last.name.startswith("job-2999-")
    assert len(missing([last], tmp_path)) == 3000
    chain = missing([last], tmp_path)[:60]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        done(chain[-1], tmp_path)
    finally:
        sys.setrecursionlimit(limit)
    assert [*CALLS] == [job.name for job in chain]


def test_needs_are_done_first_and_nothing_twice_nor_looked_at_again(chain, tmp_path):
    first, second = chain
    assert done(second, tmp_path) == {"number": 17}
    assert [*CALLS] == [first.name, second.name]
    assert done(second, tmp_path) == {"number": 17}
    assert done(first, tmp_path) == {"number": 7}
    assert [*CALLS] == [first.name, second.name]
    done(second, tmp_path)
    (first.directory(tmp_path) / RESULT).unlink()
    done(second, tmp_path)
    assert [*CALLS] == [first.name, second.name]


def test_what_a_job_depends_on_is_written_down(chain, tmp_path):
    _, second = chain
    done(second, tmp_path)
    written = files.read_json(second.directory(tmp_path) / JOB)
    assert written == {"label": "second", "quick": False} | second.depends_on()


def test_missing_lists_each_job_once_in_the_order_of_doing(chain, tmp_path):
    first, second = chain
    third = Job("third", count, needs={"before": first})
    assert [job.label for job in missing([second, third, first], tmp_path)] == ["first, of two", "second", "third"]
    done(first, tmp_path)
    assert [job.label for job in missing([second, third, first], tmp_path)] == ["second", "third"]
    done(second, tmp_path)
    assert [job.label for job in missing([second, third, first], tmp_path)] == ["third"]


def test_a_job_that_failed_is_called_again_on_what_it_left(tmp_path):
    job = Job("work", fail)
    with pytest.raises(RuntimeError):
        done(job, tmp_path)
    assert [each.label for each in missing([job], tmp_path)] == ["work"]
    again = replace(job, work=resume)
    again.directory(tmp_path).mkdir()
    (again.directory(tmp_path) / "half.txt").write_bytes((job.directory(tmp_path) / "half.txt").read_bytes())
    assert done(again, tmp_path) == {"left": "half"}


def test_whoever_watches_is_told_the_jobs_label(chain, tmp_path):
    told: list[Progress] = []
    done(chain[1], tmp_path, watch=told.append)
    assert [(each.stage, each.values) for each in told] == [("first, of two", {"loss": 1.0}), ("second", {"loss": 1.0})]


@pytest.mark.parametrize("content", ["[]", "null", "{}", "3", "{", ""])
def test_a_damaged_record_of_a_study_is_named_with_the_way_out(content, chain, tmp_path):
    done(chain[0], tmp_path)
    (tmp_path / "study.json").write_text(content)
    with pytest.raises(files.DamagedError, match=r"study\.json.* Write .* or choose another --out"):
        check_format(tmp_path)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def swap(path):
    """Put the file of the other job in this one's place."""
    [other] = [each for each in path.parents[1].glob("*") if each != path.parent and (each / path.name).exists()]
    path.write_bytes((other / path.name).read_bytes())


HARMS = (flip, swap, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(bytes(path.stat().st_size)))


@pytest.mark.parametrize("harm", HARMS, ids=["flipped", "swapped", "emptied", "zeroed"])
@pytest.mark.parametrize("file", ["result.json", "kept.txt", "inside/weights.bin"])
def test_a_changed_file_of_a_finished_job_is_refused_by_name(file, harm, tmp_path):
    def leave(*, out, watch, text, **needs):
        (out / "kept.txt").write_text(text)
        with files.new_directory(out / "inside") as inside:
            (inside / "weights.bin").write_text(text)
        return {"text": text}

    leaving = Work("leave", leave)
    first = Job("first", leaving, {"text": "one"})
    jobs = [Job("reads", leaving, {"text": "two"}, needs={"before": first}), Job("later", leaving, {"text": "3"})]
    do([first, jobs[1]], tmp_path)
    place = first.directory(tmp_path)
    if harm is swap and file == "inside/weights.bin":
        harm = flip
    harm(place / file)
    read = (lambda: do([jobs[0]], tmp_path)) if "/" in file else (lambda: result_of(first, tmp_path))
    with pytest.raises(files.DamagedError, match=rf"{Path(file).name} is damaged: .* Remove .*{place.name}: the comm"):
        read()
    shutil.rmtree(place)
    do(jobs, tmp_path)
