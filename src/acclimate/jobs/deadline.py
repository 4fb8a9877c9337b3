"""A moment at which work ends, wherever it stands. What it has written stays, and a later session goes on there."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from acclimate.core.types import Progress, Watch

SOON = 0.01  # seconds until an interruption that came at a bad moment is tried again
AGAIN = 10.0  # seconds until work that swallowed the error is interrupted once more


class TimeUpError(BaseException):
    """The time of the work is up. As KeyboardInterrupt it is no Exception: code that handles failures lets it pass."""


@contextmanager
def deadline(moment: float, watch: Watch) -> Iterator[Watch]:
    """Raise TimeUpError in the block once `time.monotonic()` has reached the moment; math.inf: never.

    A timer of the process interrupts the main thread. Another thread notices when it tells its progress: yields the
    watch that does this.
    """

    def timed(progress: Progress) -> None:
        if time.monotonic() >= moment:
            raise TimeUpError
        watch(progress)

    if math.isinf(moment) or threading.current_thread() is not threading.main_thread():
        yield timed
        return
    before = signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, max(moment - time.monotonic(), 1e-3), AGAIN)
    try:
        yield timed
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise TimeUpError, or wait a moment while LLVM calls Python to keep compiled code: it would print the error and
    continue.
    """
    while frame is not None:
        if "llvmlite" in frame.f_code.co_filename:
            signal.setitimer(signal.ITIMER_REAL, SOON, AGAIN)
            return
        frame = frame.f_back
    raise TimeUpError
