"""Replay: writing a study's tables again from its finished jobs, while no new job may run.

studies/regenerate.py opens the block `only_reading`. Code that would start a job calls `check_may_work` first.
`recorded` returns the versions and the recipe that made the study.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_recorded: ContextVar[Recorded | None] = ContextVar("recorded", default=None)


class NotDoneError(ValueError):
    """A replay needs the result of a job that is not finished."""


@dataclass(frozen=True)
class Recorded:
    """What made a study.

    versions  package -> version, as its jobs have them
    recipe    as `settings.to_mapping` returns it
    """

    versions: Mapping[str, str]
    recipe: Mapping[str, Any]


def recorded() -> Recorded | None:
    """Return the study that is replayed; None if new jobs may run."""
    return _recorded.get()


@contextlib.contextmanager
def only_reading(study: Recorded) -> Iterator[None]:
    """In the block, no job of the study may run."""
    before = _recorded.set(study)
    try:
        yield
    finally:
        _recorded.reset(before)


def check_may_work(work: str) -> None:
    """Raise NotDoneError in a replay. what: the work, for the message."""
    if recorded() is not None:
        raise NotDoneError(
            f"{work}: this study has no result of it. Either the files that its command reads (labelled files, texts, "
            f"a model) have changed, or the code is of another version"
        )
