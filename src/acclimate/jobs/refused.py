"""What becomes of the directory of a run that is refused before it trains anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acclimate.core import files, ranks
from acclimate.jobs.job import DIRECTORY, JOB


@contextmanager
def emptied_if_refused(out: Path) -> Iterator[None]:
    """If the block raises ValueError before it trains a model in a directory that was empty, empty the directory again.

    So a race that is refused, for instance for a budget that is too small, does not stand in the way of the next one.
    The lock, which this process holds, stays.
    """

    def written() -> list[Path]:
        return [each for each in out.iterdir() if each.name not in (files.LOCK, files.HOLDER)] if out.exists() else []

    empty = ranks.is_first() and not written()
    try:
        yield
    except ValueError:
        jobs = out.rglob(f"{DIRECTORY}/*/{JOB}")
        if empty and all(files.read_object(job, names=("quick",))["quick"] for job in jobs):
            for each in written():
                if each.is_dir():
                    shutil.rmtree(each)
                else:
                    each.unlink()
        raise
