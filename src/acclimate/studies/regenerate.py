"""Every table and page of a finished study again, from its lock file and its results; nothing is done.

A race or `evaluate` left scores and facts, whose pages are written again from these alone. Of every other study the
command is played once more with the recipe and versions of the lock, where each job may only be read: so tables come
out of results by the same code that wrote them, and which results they are is found as it was, out of the files that
the command names. No job is done, no model loaded, no test set opened.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from acclimate.core.replay import Recorded, only_reading
from acclimate.jobs.lock import LOCK, differing, read_lock
from acclimate.races.outcome import write_pages
from acclimate.studies import FAILED, STUDIES

NOT_AGAIN = ("--recipe", "--track", "--workers", "--cluster", "--ray", "--threads", "--gpu-share", "--out")


def regenerate(run: Path, play: Callable[[list[str]], object]) -> bool:
    """Write the tables and pages of the study in `run` again.

    play: does a command, given its arguments; gives 0 or None where it came to its end, FAILED where cells of the study
    stand as failed. False where it did not come to its end.

    Raises ValueError, naming what differs, where a result is not the one that the lock has.
    """
    lock = read_lock(run)
    if found := differing(run):
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
    """The arguments without those of who does jobs, of where, and of the recipe's file: the lock has the recipe."""
    kept: list[str] = []
    left = iter(typed)
    for each in left:
        name, equals, _ = each.partition("=")
        if name not in NOT_AGAIN:
            kept.append(each)
        elif not equals:
            next(left, None)
    return kept


@contextlib.contextmanager
def _typed(arguments: Sequence[str]) -> Iterator[None]:
    """Pages that tell the command tell the study's."""
    before = sys.argv
    sys.argv = [*before[:1], *arguments]
    try:
        yield
    finally:
        sys.argv = before
