"""Standard streams that the caller has closed (`>&-`, `<&-`), or whose reader has ended (`| head -1`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

STATUS = 141  # of a process that ends because nothing reads its output, as shells give it
_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}
_closed: set[str] = set()


def open_closed() -> None:
    """Put the null device in place of closed streams, so that no other file gets their numbers."""
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            _closed.add(name)
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # until the process ends


def check_open(name: str, way_out: str) -> None:
    """Raise ValueError if a stream that a verb needs was closed. name: "stdin" or "stdout"; way_out: a sentence"""
    if name in _closed:
        words = {"stdin": "standard input", "stdout": "standard output"}
        raise ValueError(f"{words[name]} is closed. {way_out}")


@contextmanager
def broken_pipe_quiet() -> Iterator[None]:
    """End the command without a message if nothing reads its output any more."""
    try:
        yield
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # what is left in their buffers would raise again at exit
            os.dup2(null, stream.fileno())
        raise typer.Exit(STATUS) from None
