"""What a person sees while something runs, where the screen is no terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from acclimate import screen
from acclimate.core.types import Progress


@pytest.fixture
def told(monkeypatch) -> Callable[..., str]:
    """What is said of some steps at some times: (seconds, stage, done) of 100 each."""

    def told(*steps: tuple[float, str, int]) -> str:
        clock = {"now": 0.0}
        monkeypatch.setattr(screen.time, "monotonic", lambda: clock["now"])
        console = Console(file=io.StringIO(), width=120)
        with screen.watching(console) as watch:
            for seconds, stage, done in steps:
                clock["now"] = seconds
                watch(Progress(stage, done, 100, "steps"))
        return console.file.getvalue()

    return told


def test_the_time_left_is_reckoned_from_the_steps_since_the_stage_began(told):
    assert told((0, "stage 1", 0), (60, "stage 1", 25)) == "stage 1: 25/100 steps, 60 s, 180 s left\n"


def test_a_run_that_goes_on_counts_its_own_steps(told):
    assert told((0, "stage 1", 50), (60, "stage 1", 75)) == "stage 1: 75/100 steps, 60 s, 60 s left\n"


def test_another_stage_of_the_same_name_begins_anew(told):
    said = told((0, "stage 1", 0), (60, "stage 1", 100), (1000, "stage 1", 0), (1060, "stage 1", 25))
    assert said.splitlines()[-1] == "stage 1: 25/100 steps, 60 s, 180 s left"
