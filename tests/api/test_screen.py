"""What a person sees while something runs: bars on a terminal, lines elsewhere."""

import io
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from rich.console import Console

from acclimate.api import screen
from acclimate.core.types import Cost, Progress


@pytest.fixture
def told(monkeypatch) -> Callable[..., str]:
    """What is said of some steps at some times: (seconds, stage, done) of `total` each, and their values if any."""

    def told(*steps: tuple, total: int = 100) -> str:
        clock = {"now": 0.0}
        monkeypatch.setattr(screen.time, "monotonic", lambda: clock["now"])
        console = Console(file=io.StringIO(), width=200)
        with screen.watching(console) as watch:
            for seconds, stage, done, *values in steps:
                clock["now"] = seconds
                watch(Progress(stage, done, total, "steps", *values))
        return console.file.getvalue()

    return told


def test_on_a_terminal_a_bar_says_how_far_a_stage_is_also_where_its_end_is_not_known():
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with screen.watching(console) as watch:
        watch(Progress("reading", 7, 0, "texts"))
        watch(Progress("stage 1", 25, 100, "steps", {"loss": 0.5}))
    drawn = console.file.getvalue()
    assert "7 texts" in drawn
    assert "25/100 steps" in drawn
    assert "None" not in drawn


def test_the_time_left_is_reckoned_from_the_steps_since_the_stage_began(told):
    assert told((0, "stage 1", 0), (60, "stage 1", 25)) == "stage 1: 25/100 steps, 60 s, 180 s left\n"


def test_a_stage_that_waited_for_others_does_not_count_their_time(told):
    """A search does half of one fine-tuning, then half of another, then goes on with the first."""
    seen = [(second, "stage 1", second) for second in range(0, 21, 4)]
    said = told(*seen, (50, "stage 2", 0), *((80 + second, "stage 1", second) for second in range(20, 40, 4)))
    assert said.splitlines()[-1] == "stage 1: 36/100 steps, 36 s, 64 s left"
    looks = told(*seen, *((80 + second, "stage 1", second) for second in range(20, 40, 4)))
    assert looks.splitlines()[-1] == "stage 1: 36/100 steps, 116 s, 206 s left", "a look at dev is its own time"
    slow = told((0, "stage 1", 0), (20, "stage 1", 2), (60, "stage 1", 5))
    assert slow.splitlines()[-1] == "stage 1: 5/100 steps, 60 s, 19 min left", "a step may take long"


def test_a_run_that_goes_on_and_a_stage_of_the_same_name_count_their_own_steps(told):
    assert told((0, "stage 1", 50), (60, "stage 1", 75)) == "stage 1: 75/100 steps, 60 s, 60 s left\n"
    said = told((0, "stage 1", 0), (60, "stage 1", 100), (1000, "stage 1", 0), (1060, "stage 1", 25))
    assert said.splitlines()[-1] == "stage 1: 25/100 steps, 60 s, 180 s left"


def test_the_end_of_a_stage_is_told_once_and_of_a_note_without_steps_nothing_else(told):
    """A baseline that was fitted in a second stood there with the 321 seconds until its look at the test set."""
    assert told((0, "probe", 0), (60, "probe", 100), (60, "probe", 100)) == "probe: 100/100 steps, 60 s\n"
    assert told((0, "word list", 100), (321, "word list", 100)) == ""
    tried = [(0, "speed", 0, {"note": "9 per second"}), (18, "speed", 0, {"note": "8 per second"})]
    assert told(*tried, total=0) == "speed: 9 per second\nspeed: 8 per second\n"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (599, "599 s"), (600, "10 min"), (3599, "1 h 0 min"), (18_720, "5 h 12 min"), (273_600, "3 d 4 h")],
)
def test_a_time_is_told_as_a_person_says_it(seconds, said):
    assert screen.span(seconds) == said


def test_a_long_run_tells_what_it_costs_to_the_end(told):
    """Over all its sessions, of which this one began behind step 20."""
    spent = Cost(tokens=3_000_000, flops=2e15, seconds=1500.0)
    said = told((0, "adapt", 20), (1000, "adapt", 25, {"loss": 2.5, "spent": spent}))
    assert said == (
        "adapt: 25/100 steps, loss 2.500, 17 min, 4 h 10 min left; 3.00 M of 12.0 M tokens, 2,000 per second; "
        "2.00 P of 8.00 P FLOPs\n"
    )
    assert "tokens" not in told((0, "adapt", 0), (60, "adapt", 25, {"spent": Cost(100, 1e9, 60.0)}))


STOPPED = """
import signal, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started with it ignored
from acclimate.cli import options
from acclimate.cli.verb import Session, verb
import typer

@verb()
def wait(session: Session, out: options.OutOption) -> None:
    (out / "log").write_text("1")
    print("begun", flush=True)
    time.sleep(60)

typer.run(wait)
"""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_stopped_says_what_to_type_to_go_on(tmp_path, sent, status):
    words = [sys.executable, "-c", STOPPED, "--out", str(tmp_path / "run")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "begun\n"
        run.send_signal(sent)
        _, said = run.communicate(timeout=30)
    assert run.returncode == status
    assert said.startswith("acclimate: stopped. Finished work is in ")
    assert said.endswith(f"To continue: acclimate --out {tmp_path / 'run'}\n")
