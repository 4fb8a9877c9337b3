"""What a person sees while something runs, where the screen is no terminal."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
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


STOPPED = """
import signal, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started with it ignored
from acclimate.session import errors_told, started
import typer

def verb(out: Path) -> None:
    with errors_told(), started(out):
        (out / "log").write_text("1")
        print("begun", flush=True)
        time.sleep(60)

typer.run(verb)
"""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_stopped_says_what_to_type_to_go_on(tmp_path, sent, status):
    words = [sys.executable, "-c", STOPPED, str(tmp_path / "run")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "begun\n"
        run.send_signal(sent)
        _, said = run.communicate(timeout=30)
    assert run.returncode == status
    assert said.startswith("acclimate: stopped. What is finished stays in ")
    assert said.endswith(f"To go on: acclimate {tmp_path / 'run'}\n")
