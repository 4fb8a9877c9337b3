"""`acclimate` commands in children forked from this process, which has everything imported: a command costs no imports,
and yet is a process of its own that can be killed, starved and lied to.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OPTIONAL = ("__main__", "on_ray", "workers_ray")  # a script, and modules that load an extra
SECONDS = 20.0  # that a command may take in the parts with inputs of strangers, and
MEMORY = 2 << 30  # bytes that it may take beside what this process has
HANGS = 300.0  # seconds after which any command hangs

Command = Sequence[str] | Callable[[], object]  # arguments of `acclimate`, or a function
OUTPUT = "output.txt"


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    status   the exit status, or minus the number of the signal that ended it
    said     what it printed
    seconds  of wall clock
    memory   bytes at most, those of the zygote included
    """

    status: int
    said: str
    seconds: float
    memory: int

    @property
    def failed(self) -> bool:
        """True if it ended as no command should: by an error of acclimate's."""
        return self.status not in (0, 1, 2) or "Traceback" in self.said

    def __str__(self) -> str:
        return f"status {self.status}: {self.said.strip()[-1200:]}"


class Started:
    """A command that runs."""

    def __init__(self, process: int, output: Path) -> None:
        self.process, self.output, self.begun = process, output, time.monotonic()

    def ended(self, *, within: float = HANGS) -> Ended:
        """Wait for its end. A command that takes longer is killed; its status is then -24, as of SIGXCPU."""
        late = False
        while True:
            process, status, usage = os.wait4(self.process, os.WNOHANG)
            if process:
                break
            if not late and time.monotonic() - self.begun > within:
                late = True
                os.kill(self.process, signal.SIGKILL)
            time.sleep(0.002)
        code = -signal.SIGXCPU if late else os.waitstatus_to_exitcode(status)
        said = self.output.read_text(errors="replace") if self.output.exists() else ""
        return Ended(code, said, time.monotonic() - self.begun, usage.ru_maxrss << 10)


def start(
    command: Command,
    directory: Path,
    *,
    environment: Mapping[str, str] = {},
    before: Callable[[], None] = lambda: None,
    output: str = OUTPUT,
) -> Started:
    """Start a command in `directory`, after `before` was called in its process. It prints to `directory/../output`."""
    path = directory.parent / f"{directory.name}.{output}"
    path.unlink(missing_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        _become(command, directory, environment, before, path)
    return Started(process, path)


def run(
    command: Command,
    directory: Path,
    *,
    environment: Mapping[str, str] = {},
    before: Callable[[], None] = lambda: None,
    kill_after: float | None = None,
    within: float = HANGS,
) -> Ended:
    """Run a command to its end. kill_after: seconds after which it is killed with -9"""
    started = start(command, directory, environment=environment, before=before)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(started.process, signal.SIGKILL)  # it was not waited for, so the id is still its own
    return started.ended(within=within)


def warm(commands: Sequence[Sequence[str]], directory: Path) -> None:
    """Import all of acclimate, and run commands here, which load what is loaded late and what numba has compiled."""
    import acclimate

    for module in pkgutil.walk_packages(acclimate.__path__, "acclimate."):
        if not module.name.endswith(OPTIONAL):
            importlib.import_module(module.name)
    _draw_nothing()
    before = Path.cwd()
    os.chdir(directory)
    try:
        for arguments in commands:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                status = _command(arguments)
            if status != 0:
                raise RuntimeError(f"{' '.join(arguments)}: {printed.getvalue()[-2000:]}")
    finally:
        os.chdir(before)


def _draw_nothing() -> None:
    """Plots take half of a small race, and no fault is theirs."""
    from acclimate.reports import plots

    plots.svg = lambda *parts, **options: "<svg></svg>"


def _command(arguments: Sequence[str]) -> int:
    from acclimate import cli

    sys.argv = ["acclimate", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def _become(
    command: Command, directory: Path, environment: Mapping[str, str], before: Callable[[], None], path: Path
) -> None:
    """Run the command in this process, a child, to its end."""
    status = 70
    try:
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(directory)
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        before()
        if callable(command):
            command()
            status = 0
        else:
            status = _command(command)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def bounded() -> None:
    """Bound the memory of this process: what it has, and MEMORY."""
    with open("/proc/self/statm") as file:
        has = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY, has + MEMORY))
