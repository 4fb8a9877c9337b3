"""What a person sees while something runs: a line with the time left on every stage, gone when the stage ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from acclimate.core import ranks
from acclimate.core.types import Progress as Told
from acclimate.core.types import Watch, unwatched

SOON = 2.0  # seconds: a stage shorter than this is not worth a line
PLAIN_EVERY = 15.0  # seconds between two lines of a stage where the output is no terminal


@contextmanager
def watching(console: Console) -> Iterator[Watch]:
    """A watch that draws a progress line on a terminal, and prints a line now and then anywhere else.

    Under torchrun only the first process speaks.
    """
    if not ranks.is_first():
        yield unwatched
    elif console.is_terminal:
        with _bars(console) as bars:
            yield _drawn(bars)
    else:
        yield _lines(console)


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} {task.fields[unit]}"),
        TextColumn("{task.fields[value]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


def _drawn(bars: Progress) -> Watch:
    shown: dict[str, TaskID] = {}
    reached: dict[str, int] = {}

    def watch(told: Told) -> None:
        _note(told, bars.console)
        if told.done < reached.get(told.stage, told.done + 1):  # a stage, or another of the same name
            for done in shown.values():
                bars.update(done, visible=False)
            shown[told.stage] = bars.add_task(told.stage, total=told.total or None, unit=told.unit, value="")
        reached[told.stage] = told.done
        bars.update(shown[told.stage], completed=told.done, total=told.total or None, value=_value(told))

    return watch


def _lines(console: Console) -> Watch:
    begun: dict[str, float] = {}
    first: dict[str, int] = {}
    spoken: dict[str, float] = {}
    reached: dict[str, int] = {}

    def watch(told: Told) -> None:
        now = time.monotonic()
        _note(told, console)
        if told.done < reached.get(told.stage, told.done + 1):  # a stage, or another of the same name
            begun[told.stage], spoken[told.stage], first[told.stage] = now, now, told.done
        reached[told.stage] = told.done
        took = now - begun[told.stage]
        last = told.done >= told.total > 0
        if took >= SOON and (now - spoken[told.stage] >= PLAIN_EVERY or last):
            spoken[told.stage] = now
            done = max(1, told.done - first[told.stage])
            known = told.total > 0
            left = f", {took / done * (told.total - told.done):.0f} s left" if known and not last else ""
            of = f"/{told.total}" if known else ""
            console.print(f"{told.stage}: {told.done}{of} {told.unit}, {_value(told)}{took:.0f} s{left}")

    return watch


def _value(told: Told) -> str:
    if "dev" in told.values:
        return f"dev {told.values['dev']:.3f} "
    losses = told.values.get("losses", {})
    if len(losses) > 1:
        return ", ".join(f"{term} {loss:.3f}" for term, loss in losses.items()) + " "
    return f"loss {told.values['loss']:.3f} " if "loss" in told.values else ""


def _note(told: Told, console: Console) -> None:
    if note := told.values.get("note"):
        console.print(f"{told.stage}: {note}", highlight=False, markup=False)
