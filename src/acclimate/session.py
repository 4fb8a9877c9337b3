"""What every verb runs in: a screen, processes joined, the run's directory held, and errors told in a line."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.core.types import Progress, Watch


def say(console: Console, text: str) -> None:
    """Print the text as it is; of several processes the first one does."""
    from acclimate.core import ranks

    if ranks.is_first():
        console.print(text, highlight=False, markup=False)


@contextmanager
def screen() -> Iterator[Console]:
    """A screen for words and log lines."""
    from rich.console import Console
    from rich.logging import RichHandler

    console = Console(soft_wrap=True)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console)])
    yield console


@contextmanager
def started(out: Path, *, held: bool = True) -> Iterator[Console]:
    """Processes joined, the directory ours, log lines and words on the same screen."""
    from acclimate.core import files, ranks

    with screen() as console:
        ranks.start()
        try:
            with ExitStack() as stack:
                if held and ranks.is_first():
                    stack.enter_context(files.hold(out))
                yield console
        finally:
            ranks.stop()


@contextmanager
def watched(console: Console, track: list[str] | None, out: Path) -> Iterator[Watch]:
    from acclimate.core import ranks
    from acclimate.screen import watching
    from acclimate.training.trackers import TRACKERS

    with ExitStack() as stack:
        watches = [stack.enter_context(watching(console))]
        for name in track or [] if ranks.is_first() else []:
            if name not in TRACKERS:
                raise ValueError(f"nothing is known to track with '{name}'. Known: {', '.join(TRACKERS)}")
            watches.append(stack.enter_context(closing(TRACKERS[name](out.name, out, {"command": command()}))))

        def watch(progress: Progress) -> None:
            for each in watches:
                each(progress)

        yield watch


@contextmanager
def errors_told() -> Iterator[None]:
    """What a user can mend is one clear line and exit status 2; anything else is ours and keeps its traceback.

    With ACCLIMATE_TRACEBACK=1 everything keeps it. What a terminal would obey in names and values is spelt out.
    """
    from acclimate.core.files import HeldError
    from acclimate.study.typeset import escaped

    try:
        yield
    except (ValueError, OSError, HeldError, ImportError) as error:
        if os.environ.get("ACCLIMATE_TRACEBACK"):
            raise
        typer.echo("\n".join(map(escaped, f"acclimate: {error}".splitlines())), err=True)
        raise typer.Exit(2) from None


def tell_findings(console: Console, examination: Any) -> None:
    """What the doctor would say, before anything starts: its warnings here, all of it in a race's report."""
    from acclimate.study.typeset import escaped

    for finding in examination.findings if examination else ():
        if finding.level != "note":
            say(console, escaped(f"doctor: {finding.what} {finding.way_out}"))


def command() -> str:
    """What was typed."""
    return "acclimate " + shlex.join(sys.argv[1:])


def stated_recipe(base: Any, path: Path | None, assignments: list[str] | None) -> Any:
    """The base with what a file states, and over that what the command line states."""
    from acclimate.core import settings

    return settings.override(settings.from_toml(type(base), path, base=base) if path else base, assignments or [])
