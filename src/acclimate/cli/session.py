"""What every verb runs in: a screen, processes joined, the run's directory held, and errors told in a line."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.core.types import Progress, Watch
    from acclimate.jobs.workers import Where

Recipe = TypeVar("Recipe")


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
                if held and ranks.world() == 1:  # of several, torchrun stops all at once
                    stack.enter_context(_stoppable(out))
                if held and ranks.is_first():
                    stack.enter_context(files.hold(out))
                yield console
        finally:
            ranks.stop()


class _TerminatedError(BaseException):
    """SIGTERM came."""


@contextmanager
def _stoppable(out: Path) -> Iterator[None]:
    """Where ctrl-C or SIGTERM stops the block, say what to type to go on, and end with the shell's status of it."""

    def terminated(number: int, frame: FrameType | None) -> None:
        raise _TerminatedError

    main = threading.current_thread() is threading.main_thread()  # only there may handlers be set
    before = signal.signal(signal.SIGTERM, terminated) if main else None
    try:
        yield
    except (KeyboardInterrupt, _TerminatedError) as stop:
        kept = (
            f"What is finished stays in {out}; of a training run, all but its last half minute. To go on: {command()}"
            if out.exists()
            else "Nothing was begun."
        )
        typer.echo(f"acclimate: stopped. {kept}", err=True)
        raise typer.Exit(128 + (signal.SIGTERM if isinstance(stop, _TerminatedError) else signal.SIGINT)) from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def watched(console: Console, track: list[str] | None, out: Path) -> Iterator[Watch]:
    from acclimate.cli.screen import watching
    from acclimate.core import ranks
    from acclimate.jobs.workers import elsewhere
    from acclimate.training.trackers import TRACKERS

    with ExitStack() as stack:
        watches = [stack.enter_context(watching(console, several=elsewhere() is not None))]
        for name in track or [] if ranks.is_first() else []:
            if name not in TRACKERS:
                raise ValueError(f"nothing is known to track with '{name}'. Known: {', '.join(TRACKERS)}")
            watches.append(stack.enter_context(closing(TRACKERS[name](out.name, out, {"command": command()}))))

        def watch(progress: Progress) -> None:
            for each in watches:
                each(progress)

        yield watch


@contextmanager
def studying(out: Path, where: Where, *, plans: bool) -> Iterator[Callable[[Recipe], Recipe]]:
    """Jobs run where the command line says; at the end the study in `out` gets its lock file, with the recipe that the
    function was given. plans: nothing is done, so nobody has to do it. Of a study that is only read the recipe is the
    lock's.
    """
    from acclimate.core import settings
    from acclimate.core.replay import recorded
    from acclimate.jobs.lock import write_lock
    from acclimate.jobs.workers import working

    stated: list[Any] = []

    def noted(recipe: Recipe) -> Recipe:
        stated.append(recipe)
        return recipe

    where.check()
    if (study := recorded()) is not None:
        yield lambda recipe: settings.from_mapping(type(recipe), study.recipe)
        return
    if plans:
        yield noted
        return
    with working(where):
        yield noted
    write_lock(out, command(), stated[-1])


@contextmanager
def errors_told() -> Iterator[None]:
    """What a user can mend is one clear line and exit status 2; anything else is ours and keeps its traceback.

    With ACCLIMATE_TRACEBACK=1 everything keeps it. What a terminal would obey in names and values is spelt out.
    """
    from acclimate.core.files import HeldError
    from acclimate.report.page import escaped

    try:
        yield
    except (ValueError, OSError, HeldError, ImportError) as error:
        if os.environ.get("ACCLIMATE_TRACEBACK"):
            raise
        typer.echo("\n".join(map(escaped, f"acclimate: {error}".splitlines())), err=True)
        raise typer.Exit(2) from None


def tell_findings(console: Console, examination: Any) -> None:
    """What the doctor would say, before anything starts: its warnings here, all of it in a race's report."""
    from acclimate.report.page import escaped

    for finding in examination.findings if examination else ():
        if finding.level != "note":
            say(console, escaped(f"doctor: {finding.what} {finding.way_out}"))


def command() -> str:
    """What was typed."""
    return "acclimate " + shlex.join(sys.argv[1:])


def stated_recipe(base: Any, path: Path | None, assignments: list[str] | None) -> Any:
    """The base with what a file states, and over that what the command line states."""
    from acclimate.core import settings

    _check_no_option(base, assignments or [])
    return settings.override(settings.from_toml(type(base), path, base=base) if path else base, assignments or [])


def models_and_settings(given: list[str]) -> tuple[list[str], list[str]]:
    """The models among what was typed, and the settings: `key=value`, where no folder is called so.

    Raises ValueError for an option that the verb does not have.
    """
    if unknown := next((each for each in given if each.startswith("-")), ""):
        name = unknown.partition("=")[0].lstrip("-").replace("-", "_")
        raise ValueError(f"{unknown}: there is no such option. Settings are written without dashes, as {name}=VALUE")
    settings = [each for each in given if "=" in each and not Path(each).is_dir()]
    return [each for each in given if each not in settings], settings


def _check_no_option(base: Any, assignments: list[str]) -> None:
    """Raises ValueError for a setting that the base does not have, but which is an option of the verb that runs."""
    from acclimate.cli.options import offered

    for each in assignments:
        name, _, value = each.partition("=")
        if not hasattr(base, name) and name in offered.get():
            option = name.replace("_", "-")
            raise ValueError(f"command line: '{name}' is no setting here but an option: --{option} {value}")
