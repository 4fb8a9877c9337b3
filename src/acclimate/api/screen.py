"""Progress on the screen: bars with the time left on a terminal, lines now and then anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from acclimate.core import ranks
from acclimate.core.figures import si
from acclimate.core.types import Cost, Progress, Watch, unwatched

SOON = 2.0  # seconds: a stage that took less gets no line
PLAIN_EVERY = 15.0  # seconds between two lines of a stage where the output is no terminal
PAUSE = 5.0  # seconds without progress after which a stage may have waited for others,
LONGER = 10.0  # if that is so many times as long as a step of it took
LONG = 600.0  # seconds that a stage has taken or will take, from which on a line also has tokens and FLOPs


@contextmanager
def watching(console: Console, *, several: bool = False) -> Iterator[Watch]:
    """Yield a watch that shows the progress of each stage.

    several: stages run side by side, so lines are printed on a terminal too. Under torchrun only the first process
    prints.
    """
    if not ranks.is_first():
        yield unwatched
    elif not several and (console.is_terminal or _redraws(console)):
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[reached]} {task.fields[unit]}"),
            TextColumn("{task.fields[value]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=console) as bars:
            yield _drawing(bars)
    else:
        yield _printing(console)


@contextmanager
def listening(
    console: Console | None,
    track: Sequence[str],
    out: Path,
    *,
    command: str,
    watch: Watch | None = None,
    several: bool = False,
) -> Iterator[Watch]:
    """Yield a watch whose progress goes to `watch`, to the screen and to trackers.

    console  None: nothing is shown
    track    names of trackers, which write about the run in the directory `out`
    several  as of `watching`
    """
    from acclimate.jobs.where import current_workers
    from acclimate.training.trackers import TRACKERS

    with ExitStack() as stack:
        watches = [watch] if watch is not None else []
        if console is not None:
            several = several or current_workers() is not None
            watches.append(stack.enter_context(watching(console, several=several)))
        for name in track if ranks.is_first() else ():
            watches.append(stack.enter_context(closing(TRACKERS[name](out.name, out, {"command": command}))))

        def listen(progress: Progress) -> None:
            for listener in watches:
                listener(progress)

        yield listen


def _redraws(console: Console) -> bool:
    """Return True in a notebook that can change what it has printed."""
    return console.is_jupyter and find_spec("ipywidgets") is not None


def _drawing(bars: Bars) -> Watch:
    bar_ids: dict[str, TaskID] = {}
    reached: dict[str, int] = {}

    def watch(progress: Progress) -> None:
        stage, total = progress.stage, progress.total or None
        amount = f"{progress.done}/{total}" if total else str(progress.done)
        _print_note(progress, bars.console)
        if not (progress.done or progress.total) and "note" in progress.values:
            return  # it says no more than its note
        if progress.done < reached.get(stage, progress.done + 1):  # a new stage, or another of the same name
            for bar in bar_ids.values():
                bars.update(bar, visible=False)
            bar_ids[stage] = bars.add_task(stage, total=total, unit=progress.unit, value="", reached=amount)
        reached[stage] = progress.done
        bars.update(bar_ids[stage], completed=progress.done, total=total, value=_value(progress), reached=amount)

    return watch


def _printing(console: Console) -> Watch:
    began: dict[str, float] = {}  # stage -> time of its first progress, later by as long as it paused
    printed: dict[str, float] = {}  # time of its latest line; `heard`: of its latest progress
    heard: dict[str, float] = {}
    latest: list[str] = []  # the stage that reported last
    first: dict[str, int] = {}  # stage -> steps done at its first progress; `reached`: at its latest
    reached: dict[str, int] = {}

    def watch(progress: Progress) -> None:
        now = time.monotonic()
        stage, count, total = progress.stage, progress.done, progress.total
        _print_note(progress, console)
        if not (count or total) and "note" in progress.values:
            return  # it says no more than its note
        last = count >= total > 0
        if last and count == reached.get(stage):  # its end is reported again, maybe by a later job that finds it done
            return
        if count < reached.get(stage, count + 1):  # a new stage, or another of the same name
            began[stage], printed[stage], first[stage] = now, now, count
        elif (
            latest and latest[-1] != stage and reached[stage] > first[stage] and (silent := now - heard[stage]) > PAUSE
        ):
            step = (heard[stage] - began[stage]) / (reached[stage] - first[stage])
            began[stage] += silent if silent > LONGER * step else 0.0
        reached[stage], heard[stage], latest[:] = count, now, [stage]
        seconds = now - began[stage]
        if seconds < SOON or (now - printed[stage] < PLAIN_EVERY and not last):
            return
        printed[stage] = now
        parts = [f"{count}{f'/{total}' if total > 0 else ''} {progress.unit}", _value(progress), span(seconds)]
        if total > 0 and not last:
            parts.append(f"{span(seconds / max(1, count - first[stage]) * (total - count))} left")
        console.print(f"{stage}: {', '.join(filter(None, parts))}{_cost(progress)}")

    return watch


def span(seconds: float) -> str:
    """Return a time as a person says it: `59 s`, `12 min`, `5 h 12 min`, `3 d 4 h`."""
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


def _cost(progress: Progress) -> str:
    """Return the tokens and FLOPs of a long training run, so far and at its end, over all its sessions and processes.

    The amounts at the end are those so far, divided by the share of the steps that is done.
    """
    spent = progress.values.get("spent")
    if not isinstance(spent, Cost) or not progress.done or progress.total <= 0:
        return ""
    whole = progress.total / progress.done
    if spent.seconds * whole < LONG:
        return ""
    speed = spent.tokens / max(spent.seconds, 1e-9)
    tokens, flops = (f"{_short(value)} of {_short(value * whole)}" for value in (spent.tokens, spent.flops))
    return f"; {tokens} tokens, {speed:,.0f} per second; {flops} FLOPs"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else si(number)


def _value(progress: Progress) -> str:
    """Return the score on dev, or else the losses, that the progress has; "" if it has none."""
    if "dev" in progress.values:
        dev, best = (100 * progress.values.get(name, progress.values["dev"]) for name in ("dev", "dev best"))
        return f"dev {dev:.1f}{f', best {best:.1f}' if best > dev else ''}"  # in points, as all scores that are printed
    losses = progress.values.get("losses", {})
    if len(losses) > 1:
        return ", ".join(f"{term} {loss:.3f}" for term, loss in losses.items())
    return f"loss {progress.values['loss']:.3f}" if "loss" in progress.values else ""


def _print_note(progress: Progress, console: Console) -> None:
    if note := progress.values.get("note"):
        console.print(f"{progress.stage}: {note}", highlight=False, markup=False)
