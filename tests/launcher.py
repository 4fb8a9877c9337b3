"""A process that has everything imported and runs `acclimate` commands in children forked off: a child that is killed
costs no imports, and yet is a separate process, killed for real.

It reads a line of JSON a command, `{"arguments": [...], "directory": ..., "environment": {...}}`, and writes the id of
its child; after an empty line it waits for the child and writes its exit status.
"""

import contextlib
import importlib
import io
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

OPTIONAL = ("__main__", "on_ray", "workers_ray")  # a script, and modules that load an extra


class Launcher:
    """Starts commands; see the module."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(
        self,
        arguments: list[str],
        directory: Path,
        *,
        kill_after: float | None = None,
        kill_once: Callable[[], bool] = lambda: True,
        environment: Mapping[str, str] = {},
    ) -> int:
        """Run the command in `directory`, with its output in `directory/output.txt`.

        kill_after: seconds, counted from when `kill_once` is true, until the command is killed; None: it is not killed
        environment: variables that the command finds beside those of this process
        Returns the exit status, or minus the number of the signal that ended it.
        """
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        command = {"arguments": arguments, "directory": str(directory), "environment": dict(environment)}
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        child = int(stdout.readline())
        if kill_after is not None:
            until = time.monotonic() + 60  # a command that ends before is found out by its exit status
            while not kill_once() and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(kill_after)
            # not reaped before the launcher is told to, so the id is still this child's
            os.kill(child, signal.SIGKILL)
        stdin.write("\n")
        stdin.flush()
        return int(stdout.readline())


@contextlib.contextmanager
def launcher() -> Iterator[Launcher]:
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Launcher(process)
        finally:
            process.communicate()


def _serve() -> None:
    import acclimate
    from acclimate import cli

    for module in pkgutil.walk_packages(acclimate.__path__, "acclimate."):
        if not module.name.endswith(OPTIONAL):
            importlib.import_module(module.name)
    # the first command imports what prints help and errors, which would take each child half a second
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        cli.app(["race", "--help"])

    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(command["environment"])
            _become(cli.main, command["arguments"], command["directory"])
        print(child, flush=True)
        sys.stdin.readline()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(main: object, arguments: list[str], directory: str) -> None:
    """The command, in this process, to its end."""
    status = 1
    try:
        os.chdir(directory)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = ["acclimate", *arguments]
        assert callable(main)
        main()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
