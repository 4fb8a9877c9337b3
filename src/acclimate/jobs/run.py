"""Does the jobs of a study: what is missing, what it needs first, and on where one of them fails.

Who does them, jobs/workers.py knows. As many are under way as there are workers, of those that wait for nothing the
first in order; each is looked for on the disk once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acclimate.core import ranks
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.jobs.job import Job, Work, begin, do, first_line, missing, note, with_needs
from acclimate.jobs.workers import Here, Workers, elsewhere


class LackingError(ValueError):
    """A job that needs one which failed."""


@dataclass(frozen=True)
class Part:
    """A job, or with `work` a first part of it: `work` is called with the job's arguments and more."""

    job: Job
    work: Work | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def do_all(jobs: Iterable[Job], run: Path, *, watch: Watch = unwatched) -> dict[str, str]:
    """Do what is missing of the jobs and of what they need.

    Gives, by name, the first line of the error of each that failed, or that lacks one that did; the others go on.
    """
    failed = attempts(map(Part, jobs), run, watch=watch)
    return {name: first_line(error) for name, error in failed.items()}


def do_each(
    jobs: Iterable[Job], run: Path, *, watch: Watch = unwatched, watches: Mapping[str, Watch] | None = None
) -> None:
    """As `do_all`; then the error of the first that failed, if one did, is raised. watches: as of `attempts`."""
    for error in attempts(map(Part, jobs), run, watch=watch, watches=watches).values():
        raise error


def done(job: Job, run: Path, *, watch: Watch = unwatched) -> dict[str, Any]:
    """The job's result, made as `do_each` makes it where it is missing."""
    do_each([job], run, watch=watch)
    return do(job, run)


def attempts(
    parts: Iterable[Part], run: Path, *, watch: Watch = unwatched, watches: Mapping[str, Watch] | None = None
) -> dict[str, Exception]:
    """Do what is missing of the jobs and parts of jobs, and of what they need: name -> error of those that failed, in
    the order in which they would be done.

    watches: of some jobs, by name, in place of `watch`. Under torchrun an error is raised at once: processes that share
    a job cannot go on where one of them fails.
    """
    asked = list(parts)
    firsts = [part for part in asked if part.work is not None]
    wholes = [job for part in asked for job in ([part.job] if part.work is None else part.job.needs.values())]
    note(with_needs(wholes), run, parts=[part.job for part in firsts])
    wanted = missing(wholes, run)
    if ranks.world() > 1:
        for job in wanted:
            do(job, run, watch=watch)
        for part in firsts:
            assert part.work is not None
            begin(part.job, run, part.work, watch=watch, **part.more)
        return {}
    return _Schedule([*map(Part, wanted), *firsts], run).play(elsewhere() or Here(), watch, watches or {})


class _Schedule:
    """Parts in the order in which one process would do them, who waits for whom, and who failed."""

    def __init__(self, parts: list[Part], run: Path) -> None:
        self.parts, self.run = parts, run
        self.numbers = {part.job.name: number for number, part in enumerate(parts)}
        self.followers: list[list[int]] = [[] for _ in parts]
        self.lacks = [0] * len(parts)
        for number, part in enumerate(parts):
            for name in {needed.name for needed in part.job.needs.values()} & self.numbers.keys():
                self.followers[self.numbers[name]].append(number)
                self.lacks[number] += 1
        self.ready = [number for number, lacks in enumerate(self.lacks) if not lacks]  # ascending, so it is a heap
        self.failed: dict[int, Exception] = {}

    def play(self, workers: Workers, watch: Watch, watches: Mapping[str, Watch]) -> dict[str, Exception]:
        """Have all done that can be; name -> error of the others."""
        under_way = 0
        while self.ready or under_way:
            while self.ready and under_way < workers.slots:
                part = self.parts[heapq.heappop(self.ready)]
                call = part.job.call(self.run, part.work, **part.more)
                workers.start(call, watches.get(part.job.name, watch))
                under_way += 1
            for name, error in workers.ended():
                under_way -= 1
                number = self.numbers[name]
                if error is not None and len(self.parts) > 1:
                    told = {"note": f"failed: {first_line(error)}"}
                    watches.get(name, watch)(Progress(self.parts[number].job.label, 0, 0, "steps", told))
                self._end(number, error)
        return {self.parts[number].job.name: self.failed[number] for number in sorted(self.failed)}

    def _end(self, number: int, error: Exception | None) -> None:
        """Whoever waited for nothing else is ready now, or lacks what failed, and so on."""
        ended = [(number, error)]
        while ended:
            number, error = ended.pop()
            if error is not None:
                self.failed[number] = error
            for follower in self.followers[number]:
                self.lacks[follower] -= 1
                if error is not None and follower not in self.failed:
                    lacking = LackingError(f"needs {self.parts[number].job.label}, which failed")
                    self.failed[follower] = lacking
                    ended.append((follower, lacking))
                elif not self.lacks[follower] and follower not in self.failed:
                    heapq.heappush(self.ready, follower)
