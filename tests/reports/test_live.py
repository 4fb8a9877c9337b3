"""The page of a run while it lasts."""

import re
import time

import pytest

import running_jobs as work
from acclimate.core import files
from acclimate.core.types import Progress
from acclimate.jobs import job as named
from acclimate.jobs.run import do_all
from acclimate.reports import live

STEP = Progress("count", 1, 9)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(named, "_versions", work.stated_versions)
    monkeypatch.setattr(live, "SOONEST", 0.0)
    monkeypatch.setattr(live, "SHARE", 1e9)


def test_a_page_follows_each_job_reloads_itself_and_stops_at_the_end(tmp_path):
    page, seen = tmp_path / "report.html", []
    with live.live_page("Race on <b>x</b>", tmp_path, page, seen.append) as watch:
        watch(Progress("budget", 0, 0, values={"note": "a note is no step"}))
        assert not page.exists()
        do_all([work.numbered(1)], tmp_path)
        watch(STEP)
        first = page.read_text()
        watch(STEP)
        assert page.read_text() == first, "no job has ended since, and the page is not half a minute old"
        do_all([work.numbered(2)], tmp_path)
        scores = {"untouched": 0.61, "TAPT": 0.625}
        note = "complete: untouched 61.0, TAPT 62.5 points on test"
        watch(Progress("round 1", 1, 1, "rounds", {"note": note, "scores": scores}))
        looks = next((tmp_path / "jobs").iterdir()) / live.DEV_SCORES
        files.write_record(looks, [[5, 0.25], [10, 0.5]])
        watch(STEP)
        second = page.read_text()
    assert "Running: 1 of the 1 job planned so far" in first
    assert "Running: 2 of the 2 jobs planned so far" in second
    assert '<h1 dir="auto">First impression after 1 round: TAPT has the highest score, 62.5 points.</h1>' in second
    assert "round 1: complete: untouched 61.0, TAPT 62.5 points on test." in second
    order = [second.index(part) for part in ("<h1", "Running: 2", "<svg", "<table", "<details>")]
    assert order == sorted(order), "as the page of the finished race"
    assert "<svg" in second
    assert "25.0" in second
    assert "&lt;b&gt;x&lt;/b&gt;" in second
    assert "location.reload" in first
    assert "location.reload" in second
    last = page.read_text()
    assert "location.reload" not in last
    assert 'http-equiv="refresh"' not in last
    assert "All jobs are done" in last
    assert len(seen) == 5


def test_a_run_with_nothing_to_do_or_that_is_refused_leaves_the_page_and_one_that_stops_says_so(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("of an earlier run")
    with pytest.raises(ValueError, match="too small"), live.live_page("Race", tmp_path, page, print):
        raise ValueError("a budget that is too small")
    assert page.read_text() == "of an earlier run"

    def stopped():
        with live.live_page("Race", tmp_path, page, print) as watch:
            watch(STEP)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert "The run has stopped: KeyboardInterrupt" in page.read_text()
    assert "location.reload" not in page.read_text()


def test_a_page_that_cannot_be_written_is_reported_once_and_tried_again(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file, where a folder would have to be")
    seen: list[Progress] = []
    with live.live_page("Race", tmp_path, tmp_path / "taken" / "report.html", seen.append) as watch:
        watch(STEP)
        (tmp_path / "taken").unlink()
        watch(STEP)
        assert not (tmp_path / "taken").exists(), "EVERY seconds have not passed"
        monkeypatch.setattr(live, "EVERY", 0.0)
        files.write_record(tmp_path / "plan.jsonl", {"damaged": "no plan"})
        watch(STEP)
        assert not (tmp_path / "taken").exists(), "a damaged plan is none that is still to come"
        (tmp_path / "plan.jsonl").unlink()
        watch(STEP)
        assert "Running" in (tmp_path / "taken" / "report.html").read_text()
    notes = [progress.values["note"] for progress in seen if "note" in progress.values]
    assert len(notes) == 1
    assert re.search("report.html cannot be written now: .*taken", notes[0])


def test_pages_stand_so_far_apart_that_writing_takes_less_than_a_hundredth(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "SHARE", 0.0005)
    monkeypatch.setattr(live, "EVERY", 0.0)
    spent, write = [], live._Live.write

    def timed(self, stopped=""):
        begun = time.perf_counter()
        write(self, stopped)
        spent.append(time.perf_counter() - begun)

    monkeypatch.setattr(live._Live, "write", timed)
    with live.live_page("Race", tmp_path, tmp_path / "report.html", lambda progress: None) as watch:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.5:
            watch(STEP)
    assert len(spent) == 2, "one at the first step, and the last"


def test_with_a_budget_the_page_says_when_the_race_ends(tmp_path):
    page = tmp_path / "report.html"
    with live.live_page("Race", tmp_path, page, print, seconds_left=lambda: 960.0) as watch:
        watch(STEP)
        assert "the race ends in 16 min at the latest" in page.read_text()
