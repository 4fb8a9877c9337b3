"""What fits into a budget, and how that is said."""

import contextlib
import time
from dataclasses import replace

import pytest

from acclimate.core import files
from acclimate.jobs.job import decided, write_result
from acclimate.races.planning.budget import Budget, budget_or_usual, clocked, parse_budget, seconds_of, session_of
from acclimate.races.recipe import for_model


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("20min", 1200, "seconds"),
        ("90 s", 90, "seconds"),
        ("1.5h", 5400, "seconds"),
        ("2d", 172800, "seconds"),
        ("5 min 20 s", 320, "seconds"),
        ("1h30min", 5400, "seconds"),
        ("3e15flop", 3e15, "flops"),
        ("3 PFLOP", 3e15, "flops"),
        ("1.5TFLOPs", 1.5e12, "flops"),
        ("5usd@2.50/h", 7200, "seconds"),
        ("$5 @ $2.5/h", 7200, "seconds"),
    ],
)
def test_budgets_as_people_write_them(text, amount, unit):
    budget = parse_budget(text)
    assert (budget.amount, budget.unit) == (pytest.approx(amount), unit)


@pytest.mark.parametrize(
    "text", ["", "20", "min", "-5min", "0min", "5usd", "5usd@0/h", "1e999h", "20 minutes?", "3XFLOP"]
)
def test_what_is_no_budget_is_refused_with_examples(text):
    with pytest.raises(ValueError, match=r"Write it as 20min, 1\.5h, 3PFLOP"):
        parse_budget(text)


def test_what_was_spent_is_that_of_all_jobs(tmp_path):
    for name, work, seconds, flops in (
        ("dapt-1", "adapt", 20.0, 5.0),
        ("tuned-2", "fine-tune", 7.0, 3.0),
        ("looked-3", "test", 1.0, 0.0),
    ):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        files.write_json(tmp_path / "jobs" / name / "job.json", {"work": work})
        files.write_record(tmp_path / "jobs" / name / "wall.json", {"seconds": seconds})
        write_result(tmp_path / "jobs" / name, {"flops": flops})
    files.write_record(tmp_path / "jobs" / "dapt-1" / "clock.json", {"seconds": 30.0})  # of two sessions
    assert (Budget(1, "seconds", "").spent(tmp_path), Budget(1, "flops", "").spent(tmp_path)) == (38.0, 8.0)


def test_the_time_between_jobs_counts_too(tmp_path, monkeypatch):
    """Loading, planning and pages are no jobs, and a user waits for them."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget, job = Budget(1, "seconds", ""), tmp_path / "jobs" / "tuned-1"
    with clocked(tmp_path):
        now[0] += 5.0
        assert not (tmp_path / "sessions.json").exists()
    assert not [*tmp_path.iterdir()], "a race that is refused leaves nothing"
    with clocked(tmp_path):
        job.mkdir(parents=True)
        files.write_json(job / "job.json", {"work": "fine-tune"})
        files.write_record(job / "wall.json", {"seconds": 20.0})
        now[0] += 30.0
        with clocked(tmp_path):  # as a race within a command
            assert (budget.spent(tmp_path), session_of(tmp_path)) == (30.0, 30.0)
    with contextlib.suppress(KeyboardInterrupt), clocked(tmp_path):
        now[0] += 7.0
        (job / "state").touch()
        raise KeyboardInterrupt
    assert (budget.spent(tmp_path), seconds_of(tmp_path), session_of(tmp_path)) == (37.0, 37.0, 0.0)
    with clocked(tmp_path):
        now[0] += 3.0  # all is done, and the run stays as it is
    assert seconds_of(tmp_path) == 37.0
    files.write_record(job / "wall.json", {"seconds": 90.0})  # by two workers at once, or in a session that was killed
    assert budget.spent(tmp_path) == 90.0


def test_a_decision_is_made_once(tmp_path):
    assert decided(tmp_path, "a", lambda: [1]) == [1]
    assert decided(tmp_path, "a", lambda: [2]) == [1]
    assert decided(tmp_path, "b", lambda: 3) == 3
    assert files.read_record(tmp_path / "decisions.json") == {"a": [1], "b": 3}


def test_a_race_has_an_hour_unless_a_budget_or_none_is_stated_or_it_takes_none():
    recipe = for_model()
    assert budget_or_usual(None, recipe) == (parse_budget("1h"), ("1h, the default; --budget none removes the limit",))
    for stated in ("1h", "20min", "3PFLOP"):
        assert budget_or_usual(stated, recipe) == (parse_budget(stated), ())
    for stated in ("none", " None "):
        assert budget_or_usual(stated, recipe) == (None, ())
    with pytest.raises(ValueError, match=r"budget 'nothing' is not understood.* Write none for no limit"):
        budget_or_usual("nothing", recipe)
    recipe = replace(for_model(), folds=5)
    assert budget_or_usual(None, recipe) == (None, ("no limit, because cross-validation does not support budgets",))
    assert budget_or_usual("20min", recipe) == (parse_budget("20min"), ()), "what the user states is refused elsewhere"
    assert budget_or_usual(None, for_model(), probe_only=True) == (None, ())
