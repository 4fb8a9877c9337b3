"""Standard streams that the caller has closed (`>&-`, `<&-`), or whose reader has ended (`| head -1`)."""

from __future__ import annotations

import os
import select
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
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def check_open(name: str, way_out: str) -> None:
    """Raise ValueError if a stream that a verb needs was closed. name: "stdin" or "stdout"; way_out: a sentence"""
    if name in _closed:
        words = {"stdin": "standard input", "stdout": "standard output"}
        raise ValueError(f"{words[name]} is closed. {way_out}")


def _reader_has_ended() -> bool:
    """Return True if the reader of standard output or standard error has ended."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream.fileno(), 0)  # errors are reported without being asked for
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


@contextmanager
def broken_pipe_quiet() -> Iterator[None]:
    """End the command without a message if nothing reads its output any more."""
    try:
        yield
    except BrokenPipeError:
        if not _reader_has_ended():
            raise
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # what is left in their buffers would raise again at exit
            os.dup2(null, stream.fileno())
        raise typer.Exit(STATUS) from None
