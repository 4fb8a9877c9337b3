"""Work for jobs that other processes do: they find it by the name of this module."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.types import Progress
from acclimate.jobs.job import Job, Work, read_result


class Odd(Exception):
    """Cannot be sent as it is."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def stated_versions() -> dict[str, str]:
    """In place of those of the installed packages, whose module loads torch: seconds that these tests do without."""
    return {"acclimate": "0", "torch": "0"}


def _count(
    *, out: Path, watch: Any, start: int = 0, log: Path | None = None, way: Path | None = None, **needs: Path
) -> dict[str, Any]:
    """One more than what is needed, together; who did it stands in `log`."""
    watch(Progress("counting", 1, 1, "numbers"))
    if log is not None:
        files.append_line(log, f"{out.name} {os.getpid()}")
    return {"number": 1 + start + sum(read_result(path)["number"] for path in needs.values())}


def _fail(*, out: Path, watch: Any, words: str) -> dict[str, Any]:
    raise ValueError(words)


def _name_option(*, out: Path, watch: Any) -> dict[str, Any]:
    raise ValueError(option("max_tokens", "64"))


def _meet_damage(*, out: Path, watch: Any) -> dict[str, Any]:
    raise files.DamagedError("tokens.json is damaged. Remove it")


class NotFiniteError(ValueError):
    """Called as that of training/gradients.py, which loads torch."""


def _diverge(*, out: Path, watch: Any) -> dict[str, Any]:
    raise NotFiniteError("the loss is nan")


def _fail_oddly(*, out: Path, watch: Any) -> dict[str, Any]:
    raise Odd("one", "two")


def _mend(*, out: Path, watch: Any, way: Path) -> dict[str, Any]:
    """Fails until the file is there."""
    return {"text": way.read_text(), "number": 0}


def _die_once(*, out: Path, watch: Any) -> dict[str, Any]:
    """The first process that does it is killed half way; the next goes on."""
    if not (out / "half").exists():
        (out / "half").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"went": "on"}


def _die(*, out: Path, watch: Any) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def _die_speaking(*, out: Path, watch: Any) -> dict[str, Any]:
    """As `die_once`, in the middle of a message of 100 bytes to whoever started the process."""
    if not (out / "half").exists():
        (out / "half").touch()
        frame = sys._getframe()
        while frame.f_code.co_name != "serve":
            assert frame.f_back is not None
            frame = frame.f_back
        os.write(frame.f_locals["pipe"].fileno(), struct.pack("!i", 100) + b"half a message")
        os.kill(os.getpid(), signal.SIGKILL)
    return {"went": "on"}


def _wait_for(*, out: Path, watch: Any, way: Path, seconds: float = 30.0) -> dict[str, Any]:
    """Says in `begun` who it is, and ends once the file is there."""
    (out / "begun").write_text(str(os.getpid()))
    until = time.monotonic() + seconds
    while not way.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{way} did not come")
        watch(Progress("waiting", 1, 2, "steps", {"note": "waits"}))
        time.sleep(0.05)
    return {"came": True}


def _threads(*, out: Path, watch: Any) -> dict[str, Any]:
    import torch

    return {"torch": torch.get_num_threads(), "environment": os.environ["OMP_NUM_THREADS"]}


count = Work("count", _count)
fail = Work("fail", _fail)
name_option = Work("name an option", _name_option)
meet_damage = Work("meet damage", _meet_damage)
diverge = Work("diverge", _diverge)
fail_oddly = Work("fail oddly", _fail_oddly)
mend = Work("mend", _mend)
die_once = Work("die once", _die_once)
die = Work("die", _die)
die_speaking = Work("die speaking", _die_speaking)
wait_for = Work("wait for", _wait_for)
threads = Work("threads", _threads)


def waiting_jobs(place: Path) -> list[Job]:
    return [Job(f"wait {n}", wait_for, {"seconds": 300.0}, places={"way": place / f"way-{n}"}) for n in range(4)]


def numbered(number: int, log: Path | None = None, **needs: Job) -> Job:
    places = {"log": log} if log else {}
    return Job(f"job {number}", count, {"start": number}, {}, places, needs)
