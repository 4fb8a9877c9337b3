"""Run calls in this process, whose GPU computes the steps of several fine-tunings together (training/stacked.py).

A race hands over several at a time, such as those of a round. Each one writes the same files as alone, so a later
session may continue it in any other way.
"""

from __future__ import annotations

import contextlib

from acclimate.core.types import Progress, Watch
from acclimate.jobs.deadline import TimeUpError
from acclimate.jobs.job import Call, try_call
from acclimate.jobs.workers import EndedCall
from acclimate.training.side_by_side import Run, SideBySide
from acclimate.training.stacked import MOST_RUNS


class Stacked:
    """Runs calls in this process: those that fine-tune side by side, others one after the other."""

    slots = MOST_RUNS

    def __init__(self) -> None:
        self.side_by_side = SideBySide()
        self.done: list[EndedCall] = []

    def start(self, call: Call, watch: Watch) -> None:
        if not call.tunes:
            self.done.append((call.name, try_call(call, watch=watch)))
            return

        def tune(run: Run) -> None:
            def checked(progress: Progress) -> None:
                run.check()
                watch(progress)

            error = try_call(call, watch=checked)
            self.done.append((call.name, error))

        self.side_by_side.start(tune)

    def ended(self) -> list[EndedCall]:
        """Fine-tune until a call has ended. What may start before that joins in."""
        while not self.done:
            assert self.side_by_side.runs
            self.side_by_side.advance()
        calls, self.done = self.done, []
        return calls

    def close(self) -> None:
        while self.side_by_side.runs:
            with contextlib.suppress(TimeUpError):  # which comes again where an evaluation takes long
                self.side_by_side.close()
        self.done.clear()
