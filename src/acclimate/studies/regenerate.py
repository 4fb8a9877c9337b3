"""Write every table and page of a finished study again, from its lock file and its results, without running a job.

A race or `evaluate` has left scores and facts, and its pages come from these alone. For every other study the command
runs once more with the recipe and versions of the lock, and jobs are only read. So the same code as before makes the
tables, and it finds the results as before, through the files that the command names. No model is loaded and no test set
is opened.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from acclimate.core.replay import Recorded, only_reading
from acclimate.jobs.lock import LOCK, differences, read_lock
from acclimate.races.outcome import write_pages
from acclimate.studies import FAILED, STUDIES

NOT_AGAIN = ("--recipe", "--track", "--workers", "--cluster", "--ray", "--threads", "--gpu-share", "--out")


def regenerate(run: Path, play: Callable[[list[str]], object]) -> bool:
    """Write the tables and pages of the study in `run` again.

    play: runs a command from its arguments; returns 0 or None if it ended, FAILED if it ended with failed cells

    Returns False if the command did not end. Raises ValueError, with what differs, where a result is not the lock's.
    """
    lock = read_lock(run)
    if found := differences(run):
        more = f" (and {len(found) - 1:,} more: acclimate study verify {run})" if len(found) > 1 else ""
        raise ValueError(
            f"{found[0]}{more}. Nothing was written. Put back what it was, or remove that job's folder and give the "
            f"command again: {lock['verb']}"
        )
    if not {"directory", "outcome"} <= lock.keys():
        raise ValueError(f"{run / LOCK} is of an earlier version. Give its command again: {lock['verb']}")
    if lock["outcome"]:
        write_pages(run)
        return True
    _, *typed = shlex.split(lock["verb"])
    if len(typed) < 2 or typed[0] != "study" or typed[1] not in STUDIES:
        raise ValueError(
            f"{run / LOCK}: '{lock['verb']}' is no study of {', '.join(STUDIES)}. Give that command itself"
        )
    place, out = Path(lock["directory"]), run.resolve()
    there = contextlib.chdir(place) if place.is_dir() else contextlib.nullcontext()
    with only_reading(Recorded(lock["versions"], lock["recipe"])), _typed(typed), there:
        return play([*_to_read(typed), "--out", str(out)]) in (None, 0, FAILED)


def _to_read(typed: Sequence[str]) -> list[str]:
    """Return the arguments without --out, the options of where jobs run, and the recipe's file, which the lock has."""
    kept: list[str] = []
    left = iter(typed)
    for argument in left:
        name, equals, _ = argument.partition("=")
        if name not in NOT_AGAIN:
            kept.append(argument)
        elif not equals:
            next(left, None)
    return kept


@contextlib.contextmanager
def _typed(arguments: Sequence[str]) -> Iterator[None]:
    """Let pages show the study's command, not the one that regenerates them."""
    before = sys.argv
    sys.argv = [*before[:1], *arguments]
    try:
        yield
    finally:
        sys.argv = before
