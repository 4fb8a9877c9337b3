"""What a person sees while something runs: a line with the time left on every stage, gone when the stage ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from acclimate.core import ranks
from acclimate.core.types import Cost, Watch, unwatched
from acclimate.core.types import Progress as Told

SOON = 2.0  # seconds: a stage shorter than this is not worth a line
PLAIN_EVERY = 15.0  # seconds between two lines of a stage where the output is no terminal
LONG = 600.0  # seconds that a stage has taken or will take, from which on what it costs is told


@contextmanager
def watching(console: Console, *, several: bool = False) -> Iterator[Watch]:
    """A watch that draws a progress line on a terminal, and prints a line now and then anywhere else.

    several: stages run side by side, which a line now and then tells better. Under torchrun only the first process
    speaks.
    """
    if not ranks.is_first():
        yield unwatched
    elif console.is_terminal and not several:
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
            left = f", {span(took / done * (told.total - told.done))} left" if known and not last else ""
            of = f"/{told.total}" if known else ""
            console.print(f"{told.stage}: {told.done}{of} {told.unit}, {_value(told)}{span(took)}{left}{_cost(told)}")

    return watch


def span(seconds: float) -> str:
    """A time as a person says it: `59 s`, `12 min`, `5 h 12 min`, `3 d 4 h`."""
    if seconds < LONG:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(round(hours + minutes / 60), 24)
    return f"{days} d {hours} h"


def _cost(told: Told) -> str:
    """Of a training run that is long by what it spent so far, and by the share that this is of all steps: tokens and
    floating point operations up to now and to the end, over all its sessions and processes.
    """
    spent = told.values.get("spent")
    if not isinstance(spent, Cost) or not told.done or told.total <= 0:
        return ""
    whole = told.total / told.done
    if spent.seconds * whole < LONG:
        return ""
    speed = spent.tokens / max(spent.seconds, 1e-9)
    tokens, flops = (f"{_short(value)} of {_short(value * whole)}" for value in (spent.tokens, spent.flops))
    return f"; {tokens} tokens, {speed:,.0f} a second; {flops} FLOPs"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number:.2e}" if number >= 1e12 else f"{number / 1e6:,.1f} M"


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
