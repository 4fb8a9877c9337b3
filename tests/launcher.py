"""A process that has everything imported and runs `acclimate` commands in children forked off: a child that is killed
costs no imports, and yet is a process of its own, killed for real.

It reads a line of JSON a command, `{"arguments": [...], "directory": ...}`, and writes the id of its child; told by an
empty line to wait for it, it writes its exit status.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

OPTIONAL = ("__main__", "on_ray", "workers_ray", "optuna")  # a script, and modules that load an extra


class Launcher:
    """Starts commands; see the module."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(self, arguments: list[str], directory: Path, *, kill_after: float | None = None) -> int:
        """Run the command in `directory`, with its output in `directory/output.txt`, and kill it after so many seconds.

        Returns the exit status, or minus the number of the signal that ended it.
        """
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"arguments": arguments, "directory": str(directory)}) + "\n")
        stdin.flush()
        child = int(stdout.readline())
        if kill_after is not None:
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

    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
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
