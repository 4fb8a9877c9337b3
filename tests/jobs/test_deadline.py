"""The time of work is up: whatever it does is interrupted, and what was there before is as it was."""

import math
import signal
import threading
import time

import pytest

from acclimate.core.types import Progress, unwatched
from acclimate.jobs.deadline import TimeUpError, deadline


def test_work_that_tells_nothing_is_interrupted_at_the_moment():
    def work() -> None:
        while True:
            sum(range(1000))

    handler, begun = signal.getsignal(signal.SIGALRM), time.monotonic()
    with pytest.raises(TimeUpError), deadline(begun + 0.2, unwatched):
        work()
    assert 0.2 <= time.monotonic() - begun < 5
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_handles_failures_lets_it_pass():
    def work() -> None:
        try:
            time.sleep(30)
        except Exception:  # as the runner of jobs does
            return

    with pytest.raises(TimeUpError), deadline(time.monotonic() + 0.05, unwatched):
        work()


def test_work_that_ends_in_time_is_left_alone():
    for moment in (time.monotonic() + 60, math.inf):
        with deadline(moment, unwatched) as watch:
            watch(Progress("work", 1, 1, "steps"))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_another_thread_notices_when_it_tells_its_progress():
    ended: list[str] = []

    def work() -> None:
        try:
            with deadline(time.monotonic() + 0.05, unwatched) as watch:
                while True:
                    time.sleep(0.01)
                    watch(Progress("work", 1, 2, "steps"))
        except TimeUpError:
            ended.append("time up")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert ended == ["time up"]


def test_a_moment_that_has_passed_interrupts_at_once():
    with pytest.raises(TimeUpError), deadline(time.monotonic() - 5, unwatched):
        time.sleep(30)
