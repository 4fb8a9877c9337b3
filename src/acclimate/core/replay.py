"""Replay: a study's tables are written again from its finished jobs, and no new job may run.

studies/regenerate.py opens the block `only_reading`. Code that would start a job calls `check_may_work` first.
`recorded` returns what the study was made with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


class NotDoneError(ValueError):
    """A replay needs the result of a job that was never finished."""


@dataclass(frozen=True)
class Recorded:
    """What a study was made with. versions: as its jobs have them; recipe: as settings.to_mapping gives it."""

    versions: Mapping[str, str]
    recipe: Mapping[str, Any]


_recorded: ContextVar[Recorded | None] = ContextVar("recorded", default=None)


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


def check_may_work(what: str) -> None:
    """Raises NotDoneError in a replay."""
    if recorded() is not None:
        raise NotDoneError(
            f"{what}: this study has no result of it. Either what its command reads (labelled files, texts, a model) "
            f"is not what it was, or the code is another version's"
        )
