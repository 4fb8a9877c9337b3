"""Whether nothing may be done but what is done already: a study's tables are written again from its results.

studies/regenerate.py says so for a block. Who would work asks here first; who wants to know what the study was made
with finds it here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


class NotDoneError(ValueError):
    """Something is asked for that was not done when only what was done may be read."""


@dataclass(frozen=True)
class Recorded:
    """What a study was made with. versions: as its jobs have them; recipe: as settings.to_mapping gives it."""

    versions: Mapping[str, str]
    recipe: Mapping[str, Any]


_recorded: ContextVar[Recorded | None] = ContextVar("recorded", default=None)


def recorded() -> Recorded | None:
    """The study of which only what was done may be read; None where anything may be done."""
    return _recorded.get()


@contextlib.contextmanager
def only_reading(study: Recorded) -> Iterator[None]:
    """Within the block nothing of the study is done."""
    before = _recorded.set(study)
    try:
        yield
    finally:
        _recorded.reset(before)


def check_may_work(what: str) -> None:
    """Raises NotDoneError where only what was done may be read."""
    if recorded() is not None:
        raise NotDoneError(
            f"{what}: this study has no result of it. Either what its command reads (labelled files, texts, a model) "
            f"is not what it was, or the code is another version's"
        )
