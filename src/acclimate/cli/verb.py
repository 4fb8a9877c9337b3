"""`verb`, the one wrapper of every command, and `Session`, the first argument of a command's function.

A verb is a function of a session and of what typer parses. The wrapper parses shared options, joins the processes of
torchrun, holds the run's directory, runs jobs where the command line says, writes the lock file at the end, and prints
an error in one line.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer

from acclimate.api import checks
from acclimate.api.race import run_jobs
from acclimate.cli import options
from acclimate.cli.options import ASSIGNMENTS, HUB, JOBS, LABELLED, RAW, RECIPE, Group
from acclimate.cli.streams import broken_pipe_quiet, check_open
from acclimate.core.door import names_short
from acclimate.models.loading import SCRATCH
from acclimate.text.untrusted import plain_lines, printable

if TYPE_CHECKING:
    from rich.console import Console

    from acclimate.core.types import Watch

Recipe = TypeVar("Recipe")


class Session:
    """The screen and the values of one command, and the recipe that it states.

    parameters  options and arguments by the names of their parameters
    """

    def __init__(self, console: Console, parameters: Mapping[str, Any]) -> None:
        self.console = console
        self.parameters = parameters
        self.stated: Any = None  # the recipe, for the lock file
        self.status = 0  # exit status if no error is raised

    def say(self, text: str) -> None:
        """Print the text as it is, under torchrun in the first process only."""
        from acclimate.core import ranks

        if ranks.is_first():
            self.console.print(plain_lines(text), highlight=False, markup=False)

    def give(self, document: Any) -> None:
        """Print the document of --json on standard output, under torchrun in the first process only."""
        from acclimate.core import ranks

        if ranks.is_first():
            typer.echo(json.dumps(_plain(document), ensure_ascii=False, indent=1, allow_nan=False))

    def model_or_embedded(self, model: str | None) -> str:
        """Return the model, or "embedded" where none was stated, and say so in a line. The line names larger
        encoders if the hub can be reached. Raises ValueError if the embedded encoder is not in this installation.
        """
        from acclimate.models.loading import EMBEDDED, LARGER, UNSTATED, embedded, hub_answers

        if model:
            return model
        embedded()
        larger = f" Larger models may do better: {', '.join(LARGER)}." if hub_answers() else ""
        self.say(f"{UNSTATED}{larger}")
        return EMBEDDED

    def tell_findings(self, examination: Any) -> None:
        """Print the doctor's errors and warnings. examination: None if there was none."""
        from acclimate.data.examination import grave
        from acclimate.reports.page import escaped

        for finding in grave(examination):
            self.say(escaped(f"doctor: {finding}"))

    def listed(self) -> tuple[list[str], list[str]]:
        """Return the models or files that were typed, and the settings that stand among them."""
        return checks.apart(self.parameters[checks.LISTED])

    def recipe(self, base: Recipe, *more: str) -> Recipe:
        """Return the base with the settings of --recipe, then those of the command line and `more`, in this order.

        The lock file of the study will have it.
        """
        from acclimate.core import settings

        if path := self.parameters.get("recipe"):
            base = settings.from_toml(type(base), path, base=base)
        return self.note(settings.override(base, checks.assignments_in(self.parameters, *more)))

    def note(self, recipe: Recipe) -> Recipe:
        """Remember the recipe for the lock file, and return it."""
        self.stated = recipe
        return recipe

    def watched(self) -> AbstractContextManager[Watch]:
        """Within the block, progress is shown on the screen and sent to the trackers of --track."""
        from acclimate.api.screen import listening

        track, out = self.parameters.get("track") or (), self.parameters.get("out", Path())
        return listening(self.console, track, out, command=command())


def verb(
    settings: str | Callable[[Mapping[str, Any]], str] = "",
    *groups: Group,
    check: Callable[[Mapping[str, Any]], None] | None = None,
    arrange: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a typer command of a function whose first parameter is a Session.

    settings  the recipe that `key=value` and --recipe state, by its name in `acclimate settings`, or a function from
              what was typed to that name. "": the verb takes no settings
    groups    further options: JOBS, TRACKING
    check     raises ValueError for what was typed, before a directory is made and before anything heavy is imported
    arrange   returns what was typed by the right names, where an argument that comes first may be left out

    A parameter `labelled` stands for the options of labelled files, of which `task` is the one to train on; `raw` for
    those of raw text: the function gets a LabelledFiles or a Raw. A parameter `out` annotated with options.OutOption is
    a directory that is held while the function runs, unless `dry_run` is True.
    """

    def made(function: Callable[..., None]) -> Callable[..., None]:
        parameters = _parameters(function, settings, groups)

        @wraps(function)
        def run(**arguments: Any) -> None:
            with errors_printed():
                arguments = arguments if arrange is None else arrange(arguments)
                arguments = {name: _home_path(value) for name, value in arguments.items()}
                if settings:
                    checks.check_settings(settings if isinstance(settings, str) else settings(arguments), arguments)
                checks.check_tracker(arguments.get("track"))
                arguments = _replace_datasets(arguments)
                if check is not None:
                    check(arguments)
                if arguments.get("model") != SCRATCH or _types(function).get("model") != options.StartOption:
                    checks.check_models([arguments.get("model"), *(arguments.get("models") or ())])
                with _session(function, arguments) as session:
                    function(session, **_arguments(function, arguments))
                if session.status:
                    raise typer.Exit(session.status)

        # typer reads these; those of a wrapped function would be the function's
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.takes = settings  # type: ignore[attr-defined]  # for what is said of an unknown option
        return run

    return made


def _parameters(function: Callable[..., None], settings: object, groups: Sequence[Group]) -> list[inspect.Parameter]:
    """Return the parameters that typer turns into options and arguments."""
    hints = get_type_hints(function, localns={"LabelledFiles": Any, "Raw": Any}, include_extras=True)
    parameters: list[inspect.Parameter] = []
    inline = {"labelled": {**LABELLED, **HUB}, "raw": RAW}
    _, *own_parameters = inspect.signature(function).parameters.values()
    for parameter in own_parameters:
        if parameter.name in inline:
            parameters += _group_parameters(inline[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
    more = [*groups, *([RECIPE] if settings else [])]
    if settings and checks.LISTED not in hints:
        more.append(ASSIGNMENTS)
    return [*parameters, *(parameter for group in more for parameter in _group_parameters(group))]


def _group_parameters(group: Group) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in group.items()
    ]


def _arguments(function: Callable[..., None], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the function that follow its session."""
    _, *names = inspect.signature(function).parameters
    arguments = {name: parameters[name] for name in names if name in parameters}
    if "labelled" in names:
        arguments["labelled"] = checks.labelled_files_of(parameters)
    if "raw" in names:
        from acclimate.data.gather import Raw

        arguments["raw"] = Raw(parameters["corpus"], parameters["general"], parameters["separated"])
    return arguments


def _home_path(value: Any) -> Any:
    """Return a path with the home directory for `~`, which shells do not replace after `--corpus=`.

    Raises ValueError for a path that is not UTF-8.
    """
    if isinstance(value, list):
        return [_home_path(element) for element in value]
    if isinstance(value, Path | str) and str(value) != str(value).encode(errors="replace").decode():
        raise ValueError(
            f"{printable(str(value))}: the name is not UTF-8, so it cannot be recorded. Rename the file or folder"
        )
    if isinstance(value, str):
        name, equals, path = value.partition("=~/")
        return f"{name}={os.path.expanduser(f'~/{path}')}" if equals else os.path.expanduser(value)
    return Path(os.path.expanduser(value)) if isinstance(value, Path) else value


def _replace_datasets(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed with files in place of datasets of the hub and of saved datasets."""
    if not parameters.keys() & {"task", "corpus", "general"}:
        return parameters
    from acclimate.data.as_files import HubChoice, joined_corpora, labelled_files, raw_text
    from acclimate.data.embedded import ABSTRACTS, embedded_files, is_embedded

    if isinstance(corpora := parameters.get("corpus"), list):
        parameters = {**parameters, "corpus": joined_corpora(corpora) if corpora else None}
    result = dict(parameters)
    checks.check_ready(parameters)
    task = str(parameters.get("task") or "")
    hub_options = {name: parameters[name] for name in HUB if name in parameters}
    if "dev" in parameters and parameters.get("data") is None and is_embedded(task):
        files = embedded_files(checks.labelled_files_of(parameters))
        names = ("dev", "test", "text", "label", "id")
        result |= {"task": str(files.train), **{name: getattr(files, name) for name in names}}
        if "corpus" in parameters and parameters["corpus"] is None:
            result["corpus"] = ABSTRACTS
    elif task and hub_options and parameters.get("data") is None:
        files = labelled_files(
            task,
            checks.labelled_files_of(parameters),
            dev=parameters["dev"],
            test=parameters["test"],
            choice=HubChoice(**hub_options),
        )
        result |= {"task": str(files.train), "dev": files.dev, "test": files.test, "kind": files.kind}
    for name in ("corpus", "general"):
        if name in parameters and isinstance(parameters[name], Path):
            result[name] = raw_text(parameters[name], column=parameters.get("text", "text"))
    return result


@contextmanager
def _session(function: Callable[..., None], parameters: Mapping[str, Any]) -> Iterator[Session]:
    """Yield the session of one command, and release at its end what it holds."""
    from acclimate.core import files, ranks

    dry_run = parameters.get("dry_run", False)
    held = parameters["out"] if _types(function).get("out") == options.OutOption and not dry_run else None
    # what a program reads from standard output has nothing else in it
    to_stderr = bool(parameters.get("json")) or str(parameters.get("out")) == "-"
    if to_stderr:
        check_open("stdout", "Open it, or write to a file")
    if parameters.get("file") == "-":
        check_open("stdin", "Open it, or name a file")
    with screen(to_stderr) as console, ExitStack() as stack:
        session = Session(console, parameters)
        ranks.start()
        stack.callback(ranks.stop)
        if ranks.world() > 1:
            from acclimate.training.run import versions

            ranks.require_same("the command", {"arguments": shlex.join(sys.argv[1:]), **versions()})
        if held is not None:
            if ranks.world() == 1:  # torchrun stops all its processes at once
                stack.enter_context(_stoppable(held))
            if ranks.is_first():
                stack.enter_context(files.hold(held))
        if JOBS.keys() <= parameters.keys():
            from acclimate.jobs.where import Where

            where = Where(**{name: parameters[name] for name in JOBS})
            stack.enter_context(
                run_jobs(parameters["out"], where, command=command(), recipe=lambda: session.stated, dry_run=dry_run)
            )
        try:
            yield session
        except RuntimeError as error:
            cause = ranks.unanswered(error)
            if cause is error:
                raise
            raise cause from error


def _types(function: Callable[..., None]) -> dict[str, Any]:
    return get_type_hints(function, localns={"LabelledFiles": Any, "Raw": Any}, include_extras=True)


@contextmanager
def screen(to_stderr: bool = False) -> Iterator[Console]:
    """Yield a console to which logging prints too."""
    from rich.console import Console
    from rich.logging import RichHandler

    console = Console(soft_wrap=True, stderr=to_stderr)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console)])
    yield console


class _TerminatedError(BaseException):
    """SIGTERM or SIGHUP came, whose number is `args[0]`."""


@contextmanager
def _stoppable(out: Path) -> Iterator[None]:
    """If ctrl-C, SIGTERM or SIGHUP stops the block, say how to continue, and end with the status that a shell gives it.

    A SIGHUP that is ignored, as under nohup, stays so.
    """

    def terminated(number: int, frame: FrameType | None) -> None:
        raise _TerminatedError(number)

    main = threading.current_thread() is threading.main_thread()  # only there may handlers be set
    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(number) != signal.SIG_IGN
    ]
    handlers = {number: signal.signal(number, terminated) for number in numbers}
    try:
        yield
    except (KeyboardInterrupt, _TerminatedError) as stop:
        message = "Nothing was begun."
        if out.exists():
            lost = "A training run loses at most its last half minute."
            message = f"Finished work is in {out}. {lost} To continue: {command()}"
        with suppress(OSError):  # the terminal may be gone
            typer.echo(f"acclimate: stopped. {message}", err=True)
        raise typer.Exit(128 + (stop.args[0] if isinstance(stop, _TerminatedError) else signal.SIGINT)) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def errors_printed() -> Iterator[None]:
    """Print an error that a user can mend in one line, and exit with status 2. Other errors keep their traceback.

    With ACCLIMATE_TRACEBACK=1 every error keeps it. Control characters in names and values are escaped.
    """
    from acclimate.core.files import HeldError

    try:
        with broken_pipe_quiet(), names_short():
            yield
    except (ValueError, OSError, HeldError, ImportError) as error:
        from acclimate.reports.page import escaped

        if os.environ.get("ACCLIMATE_TRACEBACK"):
            raise
        typer.echo("\n".join(map(escaped, f"acclimate: {error}".splitlines())), err=True)
        raise typer.Exit(2) from None


def _plain(value: Any) -> Any:
    """Return the value as JSON has it: numbers that are not finite become null, sequences lists."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def command() -> str:
    """Return the command line."""
    return "acclimate " + shlex.join(sys.argv[1:])
