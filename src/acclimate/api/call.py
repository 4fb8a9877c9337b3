"""What the Python functions have in common: how a call is checked, written down, shown, and ends in an error."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from acclimate.core.door import names_short, python_call
from acclimate.core.names import shown

if TYPE_CHECKING:
    from acclimate.core.types import Watch

PLAIN: dict[str, tuple[type, str]] = {  # annotation -> what a value has to be
    "str": (str, "a text"),
    "bool": (bool, "True or False"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
}
EXAMPLES = {"budget": ', such as "20min"'}
EXAMPLES |= dict.fromkeys(("text", "label", "pair", "group", "id"), ": the name of a column")
UNWRITTEN = ("progress", "watch")  # keywords that a written call lacks
LONGEST, MOST_ELEMENTS = 80, 10  # characters and elements of a list or mapping in a written call
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_command: ContextVar[str] = ContextVar("command", default="")


class KeywordError(TypeError):
    """A keyword is none of the function, or has a value of another type than it takes."""


def python_function(
    *options: type,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return the decorator of a public function: its keywords are checked, and its messages are worded for Python.

    Errors that a user can mend lose the traceback of what is within the function: those that the command line prints in
    one line, and those of keywords. With ACCLIMATE_TRACEBACK=1 every error keeps it.

    options: dataclasses whose fields the function takes as further keywords
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        parameters = inspect.signature(function).parameters
        annotations = {field.name: str(field.type) for kind in options for field in fields(kind)}
        annotations |= {name: str(parameter.annotation) for name, parameter in parameters.items()}

        @functools.wraps(function)
        def run(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
            from acclimate.core.files import HeldError

            before = _command.set(_command.get() or call_text(function.__name__, arguments, keywords))
            try:
                with python_call(), names_short():
                    for name, value in keywords.items():
                        _check_type(function.__name__, name, annotations.get(name, ""), value)
                    return function(*arguments, **keywords)
            except (ValueError, KeywordError, OSError, HeldError, ImportError) as error:
                if os.environ.get("ACCLIMATE_TRACEBACK"):
                    raise
                raise error.with_traceback(None) from None
            finally:
                _command.reset(before)

        return run

    return decorate


def _check_type(function: str, name: str, annotation: str, value: Any) -> None:
    """Raises KeywordError if a keyword of a plain type has a value of another."""
    plain, _, none = annotation.partition(" | ")
    if plain not in PLAIN or none not in ("", "None") or (none and value is None):
        return
    types, description = PLAIN[plain]
    if not isinstance(value, types) or (plain != "bool" and isinstance(value, bool)):
        text = " ".join(shown(value).split())
        raise KeywordError(f"{function}(): {name}={text} must be {description}{EXAMPLES.get(name, '')}")


def current_call() -> str:
    """Return the call that is running as text, for the page and the lock file."""
    return _command.get()


def call_text(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Return a call as text; tables and the like are written as `...`."""
    parts = [_value_text(argument) for argument in arguments]
    written = {key.replace(".", "__"): value for key, value in keywords.items() if key not in UNWRITTEN}
    parts += [f"{key}={_value_text(value)}" for key, value in written.items()]
    return f"acclimate.{name}({', '.join(parts)})"


def _value_text(value: Any) -> str:
    plain = os.fspath(value) if isinstance(value, PathLike) else value
    if plain is None or isinstance(plain, str | int | float | bool):
        return repr(plain)
    if not isinstance(plain, dict | list | tuple) or len(plain) > MOST_ELEMENTS:
        return "..."
    elements = [*plain.items()] if isinstance(plain, dict) else plain
    if not all(isinstance(element, str | int | float | tuple) for element in elements):
        return "..."
    return text if len(text := repr(plain)) <= LONGEST else "..."


def model_path(function: str, keyword: str, model: Any) -> str:
    """Return a directory or hub id as text. Raises KeywordError for anything else; for adapt "" is no model."""
    if isinstance(model, str | PathLike) and (os.fspath(model) or function == "adapt"):
        return str(os.fspath(model))
    raise KeywordError(f"{function}(): {keyword}={shown(model)} must be a directory or a hub id")


@contextlib.contextmanager
def watched(
    progress: bool, watch: Watch | None = None, track: Sequence[str] = (), out: Path = Path(), *, several: bool = False
) -> Iterator[Watch]:
    """Within the block, progress goes to `watch`, to the screen if `progress`, and to the trackers.

    out      the directory of the run, for trackers
    several  True if jobs will run side by side
    """
    from rich.console import Console

    from acclimate.api.checks import check_tracker
    from acclimate.api.screen import listening

    check_tracker(track)
    console = Console(soft_wrap=True)
    if not (console.is_terminal or console.is_jupyter):
        console = Console(soft_wrap=True, stderr=True)  # what a script prints is its own
    screen = console if progress else None
    with listening(screen, track, out, command=current_call(), watch=watch, several=several) as listen:
        yield listen
