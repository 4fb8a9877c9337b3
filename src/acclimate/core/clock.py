"""The seconds that a run takes, without those in which it waits for others (training/side_by_side.py)."""

from __future__ import annotations

import time
from contextvars import ContextVar

WAITED = ContextVar("WAITED", default=0.0)  # seconds that the run of this thread has waited for others


def seconds() -> float:
    """Return a time in seconds that counts from an arbitrary moment and stops while this run waits for others."""
    return time.monotonic() - WAITED.get()
