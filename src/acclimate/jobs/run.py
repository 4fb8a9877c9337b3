"""Run the jobs of a study that have no result yet, each after its needs; if one fails, the others go on.

jobs/workers.py decides where they run. As many run at once as there are workers; of the jobs whose needs are done, the
first in order starts first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from acclimate.core import ranks
from acclimate.core.files import DamagedError
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.jobs.job import Job, Result, add_to_plan, do_call, first_line, missing, result_of, with_needs
from acclimate.jobs.where import current_workers
from acclimate.jobs.workers import ThisProcess, Workers


class LackingError(ValueError):
    """A job did not run because one of its needs failed."""


def do(jobs: Iterable[Job], run: Path, *, watch: Watch = unwatched, watches: Mapping[str, Watch] | None = None) -> None:
    """Run the jobs and their needs that have no result yet; then raise the error of the first that failed, if any did.

    watches: name of a job -> its watch, in place of `watch`
    """
    for error in do_all(jobs, run, watch=watch, watches=watches).values():
        raise error


def do_all(
    jobs: Iterable[Job],
    run: Path,
    *,
    watch: Watch = unwatched,
    watches: Mapping[str, Watch] | None = None,
    errors: dict[str, Exception] | None = None,
) -> dict[str, Exception]:
    """Run the jobs and their needs that have no result yet. Return name -> error of those that failed, or that need one
    that failed, in the order in which they would run; all others are done.

    errors: gets the same names and errors, even if the work is interrupted

    Raises DamagedError, once the others are done, where a job met a damaged file: that is no failure of the job.

    Under torchrun the first error is raised: processes that share a job cannot go on once one of them has failed.
    """
    jobs = list(jobs)
    add_to_plan(with_needs(jobs), run)
    waiting = missing(jobs, run)
    if ranks.world() > 1:
        ranks.require_same("the study", {f"job {number}": job.name for number, job in enumerate(waiting)})
        for job in waiting:
            do_call(job.call(run), watch=watch)
        return {}
    workers, schedule = current_workers() or _workers_here(waiting), _Schedule(waiting, run)
    try:
        schedule.do(workers, watch, watches or {})
    except BaseException:  # an interruption, or the end of the time
        workers.close()
        raise
    finally:
        failed = {waiting[number].name: schedule.failed[number] for number in sorted(schedule.failed)}
        if errors is not None:
            errors.update(failed)
    for error in failed.values():
        if isinstance(error, DamagedError):
            raise error
    return failed


def _workers_here(jobs: Sequence[Job]) -> Workers:
    """Return what runs the jobs in this process: one after the other, or fine-tunings side by side on a GPU."""
    if sum(job.work.trains == "task" for job in jobs) > 1:
        from acclimate.jobs.workers_stacked import Stacked
        from acclimate.training.stacked import is_chosen

        if is_chosen():
            return Stacked()
    return ThisProcess()


def done(job: Job, run: Path, *, watch: Watch = unwatched) -> Result:
    """Return the result of the job, which runs first if it has none."""
    if (result := ranks.agree(result_of(job, run))) is None:
        do([job], run, watch=watch)
        result = do_call(job.call(run), watch=watch)
    return result


class _Schedule:
    """Jobs, in the order in which one process would run them."""

    def __init__(self, jobs: list[Job], run: Path) -> None:
        self.jobs, self.run = jobs, run
        self.numbers = {job.name: number for number, job in enumerate(self.jobs)}
        self.followers: list[list[int]] = [[] for _ in self.jobs]  # the jobs that wait for this one
        self.lacks = [0] * len(self.jobs)  # number of jobs that this one waits for
        for number, job in enumerate(self.jobs):
            for name in {needed.name for needed in job.needs.values()} & self.numbers.keys():
                self.followers[self.numbers[name]].append(number)
                self.lacks[number] += 1
        self.ready = [number for number, lacks in enumerate(self.lacks) if not lacks]  # ascending, so it is a heap
        self.failed: dict[int, Exception] = {}

    def do(self, workers: Workers, watch: Watch, watches: Mapping[str, Watch]) -> None:
        """Run all jobs that can run. `failed` has the errors of the others."""
        under_way = 0
        while self.ready or under_way:
            while self.ready and under_way < workers.slots:
                number = heapq.heappop(self.ready)
                job = self.jobs[number]
                workers.start(job.call(self.run), watches.get(job.name, watch))
                under_way += 1
            for name, error in workers.ended():
                under_way -= 1
                number = self.numbers[name]
                if error is not None and len(self.jobs) > 1:
                    failure = {"note": f"failed: {first_line(error)}"}
                    watches.get(name, watch)(Progress(self.jobs[number].label, 0, 0, "steps", failure))
                self._end(number, error)

    def _end(self, number: int, error: Exception | None) -> None:
        """The followers that wait for nothing else are ready now; those of a job that failed fail too."""
        ended = [(number, error)]
        while ended:
            number, error = ended.pop()
            if error is not None:
                self.failed[number] = error
            for follower in self.followers[number]:
                self.lacks[follower] -= 1
                if error is not None and follower not in self.failed:
                    lacking = LackingError(f"needs {self.jobs[number].label}, which failed")
                    self.failed[follower] = lacking
                    ended.append((follower, lacking))
                elif not self.lacks[follower] and follower not in self.failed:
                    heapq.heappush(self.ready, follower)
