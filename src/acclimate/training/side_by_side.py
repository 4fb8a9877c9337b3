"""Run several functions that train in one process, so that their steps can be computed together (stacked.py).

Each function has a thread, but only one thread runs at a time, until the next step of its run or its end. When all have
reached a step, the steps are computed and all continue. So a function is written as if it were alone: between two steps
nothing else uses torch's generators or other state of the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from acclimate.core.clock import WAITED
from acclimate.training.gradients import accumulate
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan
from acclimate.training.stacked import GRADIENT, Stacks, Turn, can_stack


class StoppedError(BaseException):
    """The run was stopped between two steps. Like KeyboardInterrupt it is not an Exception: code that handles failures
    lets it pass.
    """


class SideBySide:
    """The functions that run side by side."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.stacks = Stacks()

    def start(self, function: Callable[[Run], None]) -> None:
        """Call the function with its run, and let it come to the first step of what it trains, or to its end.

        If its steps cannot be computed in a stack, it trains alone: two large models in memory would gain nothing.
        """
        self.runs.append(Run(function))
        self._resume(self.runs[-1:])

    def advance(self) -> None:
        """Compute the steps to which all runs have come, and let each run go on to its next one, or to its end."""
        self.stacks.accumulate([run.turn for run in self.runs if run.turn is not None])
        self._resume(self.runs)

    def _resume(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.resume()
        self.runs = [run for run in self.runs if not run.ended]

    def close(self) -> None:
        """Stop all runs at their next step, as an interruption does, and wait until they have closed their files."""
        for run in self.runs:
            run.stop()
        for run in self.runs:
            run.thread.join()
        self.runs.clear()


class Run:
    """A function in a thread, and the step to which it has come.

    Whatever it raises is raised by `resume`.
    """

    def __init__(self, function: Callable[[Run], None]) -> None:
        self.function = function
        self.turn: Turn | None = None
        self.objective: Objective | None = None
        self.stacks = self.ended = self.stopped = False
        self.error: BaseException | None = None
        self.may_run, self.has_paused = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self.thread.start()

    def resume(self) -> None:
        """Let the thread run until its next step, or to its end."""
        self.may_run.release()
        self.has_paused.acquire()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped = True
        self.may_run.release()

    def check(self) -> None:
        """Raises StoppedError if the run was stopped. Its thread calls this."""
        if self.stopped:
            raise StoppedError

    def _run(self) -> None:
        GRADIENT.set(self._accumulate)
        try:
            self.may_run.acquire()
            self.check()
            self.function(self)
        except BaseException as error:  # which the other thread raises
            self.error = error
        finally:
            self.ended = True
            self.has_paused.release()

    def _accumulate(self, objective: Objective, batch: Any, pieces: Any, plan: Plan, **how: Any) -> dict[str, float]:
        """`accumulate` once all others have come to a step."""
        self.check()
        if objective is not self.objective:  # of a first or second attempt
            self.objective, self.stacks = objective, can_stack(objective, plan)
        if not self.stacks:
            return accumulate(objective, batch, pieces, plan, **how)
        begun, turn = time.monotonic(), Turn(objective, batch, pieces, plan, **how)
        self.turn = turn
        self.has_paused.release()
        self.may_run.acquire()
        self.check()
        WAITED.set(WAITED.get() + time.monotonic() - begun - turn.seconds)
        if turn.error is not None:
            raise turn.error
        return turn.losses
