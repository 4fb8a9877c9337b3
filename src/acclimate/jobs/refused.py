"""What becomes of the directory of a run that is refused before it trains anything."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from acclimate.core import files, ranks
from acclimate.jobs.job import DIRECTORY, JOB


@contextmanager
def emptied_if_refused(out: Path) -> Iterator[None]:
    """If the block raises ValueError before it trains a model in a directory that was empty, empty the directory again.

    So a race that is refused, for instance for a corpus without text, does not block the next one.
    The lock, which this process holds, stays.
    """

    jobs = f"{DIRECTORY}/*/{JOB}"
    with _emptied(out, lambda: all(files.read_object(job, names=("quick",))["quick"] for job in out.rglob(jobs))):
        yield


@contextmanager
def removed_if_refused(out: Path, names: Collection[str]) -> Iterator[None]:
    """If the block raises ValueError, empty the directory, if it was empty and now holds these names alone."""
    with _emptied(out, lambda: {path.name for path in _written(out)} <= {*names}):
        yield


@contextmanager
def _emptied(out: Path, removable: Callable[[], bool]) -> Iterator[None]:
    empty = ranks.is_first() and not _written(out)
    try:
        yield
    except ValueError:
        if empty and removable():
            for path in _written(out):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        raise


def _written(out: Path) -> list[Path]:
    return [path for path in out.iterdir() if path.name not in (files.LOCK, files.HOLDER)] if out.exists() else []
