"""How messages write an option: `--max-tokens 64` on the command line, `max_tokens=64` in Python.

The command line and the Python functions are two doors to the same code. A message asks `option` at the time at which
it is worded, so each is worded once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_calls = [0]  # Python functions that run; plain, because the threads of a call word messages too
_lock = Lock()


@contextmanager
def python_call() -> Iterator[None]:
    """Within the block messages write options as keywords."""
    with _lock:
        _calls[0] += 1
    try:
        yield
    finally:
        with _lock:
            _calls[0] -= 1


@contextmanager
def names_short() -> Iterator[None]:
    """Within the block the system's error for a name that is too long becomes a ValueError that says so."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        name = os.path.basename(os.fsdecode(error.filename or ""))
        fault = f"a file cannot have a name of {len(name):,} characters. Check the path"
        raise ValueError(f"{name[:40]}...: {fault}") from error


def is_python() -> bool:
    """Return True within a `python_call`."""
    return _calls[0] > 0


def option(name: str, value: str | bool = "") -> str:
    """Return an option as the user writes it.

    name   of the keyword, such as "max_tokens"
    value  as the command line has it: a word such as "sequence" or a placeholder such as "COLUMN", which is quoted for
           Python unless it is a number; "": the name alone; True: of an option that is on or off
    """
    if isinstance(value, bool):
        return f"{name}={value}" if is_python() else f"--{name.replace('_', '-')}"
    if not is_python():
        return f"--{name.replace('_', '-')}{f' {value}' if value else ''}"
    if not value:
        return name
    return f"{name}={value}" if value.lstrip("-").replace(".", "", 1).isdigit() else f'{name}="{value}"'
