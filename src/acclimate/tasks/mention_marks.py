"""Marks around the two mentions of a relation in its text: "[E1] aspirin [/E1] inhibits [E2] COX-2 [/E2]"."""

from __future__ import annotations

from acclimate.core.types import Example
from acclimate.tasks.sentences import Span

BOTH_MENTIONS = "E1-E2"  # the name of two mentions that overlap
EACH_MENTION = ("E1", "E2")


def marks_of(name: str) -> tuple[str, str]:
    """Return the opening and the closing mark of a mention."""
    return f"[{name}]", f"[/{name}]"


def mention_spans(example: Example) -> tuple[Span, ...]:
    """Return the offsets of each mention, without its markers."""
    return example.spans


def marked_spans(example: Example) -> tuple[Span, ...]:
    """Return the offsets of each mention, from its opening marker on if it has one."""
    first = min((start for start, _ in example.spans), default=0)
    joint_mark, *marks = (f"{marks_of(name)[0]} " for name in (BOTH_MENTIONS, *EACH_MENTION))
    if example.text.endswith(joint_mark, 0, first):
        return tuple((first - len(joint_mark), end) for _, end in example.spans)
    return tuple(
        (start - len(mark) if example.text.endswith(mark, 0, start) else start, end)
        for (start, end), mark in zip(example.spans, marks, strict=False)
    )
