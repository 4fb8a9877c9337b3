"""Run the commands of all claims of docs/claims.py, each once, and store their outcomes.

python benchmarks/claims/run_queue.py DIR TEXTS RUNS [--dry-run]

DIR has the datasets, TEXTS the raw texts by texts.py. RUNS gets a folder for the encoder, named by its identity, with a
directory for each run and its log. Two runs work at a time, each with one thread. A run is skipped if its outcomes are
stored for this encoder and these commands. The same command continues where the queue was stopped. --dry-run prints the
commands and their cost.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import outcomes

from acclimate.core.files import read_json, write_json
from acclimate.models.loading import EMBEDDED, identity

ROOT = Path(__file__).parents[2]
AT_ONCE = 2  # runs
LEDGER = "ledger.json"  # in the folder of an encoder: directory -> command -> processor seconds, and if it has ended
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Queue:
    """The runs of docs/claims.py for one encoder. A run is a `Run` of that file.

    encoder  first 12 digits of its identity
    places   DIR, TEXTS and RUNS in the commands -> the path
    """

    claims: ModuleType
    encoder: str
    places: dict[str, Path]

    def outcomes(self, run: Any) -> list[str]:
        """Return the names of the outcomes that the run's scripts write: those they name, or else its directory's."""
        rows = [claim for claims in self.claims.CLAIMS.values() for claim in claims if not claim.beyond]
        names = {test.outcome for claim in rows for test in claim.tests if not test.beyond}
        words = {word for command in run.commands for word in command.split()}
        return sorted(names & words or names & {run.out})

    def commands(self, run: Any) -> list[str]:
        """Return the commands of the run and of those that it needs."""
        return [command for needed in run.with_needs() for command in needed.commands]

    def stored(self, run: Any) -> bool:
        """True if the run's outcomes are stored for this encoder and these commands, or if it has none and ended."""
        files = [outcomes.OUTCOMES / f"{name}.json" for name in self.outcomes(run)]
        asked = {"encoder": self.encoder, "commands": self.commands(run)}
        if files:
            return all(file.exists() and asked.items() <= read_json(file).items() for file in files)
        return all(self.entry(run, command)["ended"] for command in run.commands)

    def waiting(self) -> list[Any]:
        """Return the runs that are left, each after those that it needs."""
        rows = [claim for claims in self.claims.CLAIMS.values() for claim in claims if not claim.beyond]
        absent = [run for claim in rows for run in claim.run if not self.stored(run)]
        return [run for run in dict.fromkeys(one for run in absent for one in run.with_needs()) if not self.stored(run)]

    def left(self, run: Any) -> list[str]:
        """Return the run's commands that have not ended, and the scripts that write its outcomes."""
        scripts = [one for one in run.commands if self.outcomes(run) and one.startswith(self.claims.SCRIPT)]
        return [one for one in run.commands if one in scripts or not self.entry(run, one)["ended"]]

    def entry(self, run: Any, command: str) -> dict[str, Any]:
        """Return what the ledger says of a command."""
        entry: dict[str, Any] = self._ledger().get(run.out, {}).get(command, {"seconds": 0.0, "ended": False})
        return entry

    def note(self, run: Any, command: str, seconds: float, *, ended: bool) -> None:
        """Add a session of a command to the ledger."""
        ledger = self._ledger()
        seconds += self.entry(run, command)["seconds"]
        ledger.setdefault(run.out, {})[command] = {"seconds": seconds, "ended": ended}
        write_json(self.places["RUNS"] / LEDGER, ledger)

    def _ledger(self) -> dict[str, Any]:
        place = self.places["RUNS"] / LEDGER
        ledger: dict[str, Any] = read_json(place) if place.exists() else {}
        return ledger

    def words(self, run: Any, command: str) -> list[str]:
        """Return a command with its paths, for this interpreter."""
        places = {**self.places, "OUT": self.places["RUNS"] / run.out}
        program, *words = shlex.split(command)
        words = [re.sub(rf"\b({'|'.join(places)})\b", lambda match: str(places[match[1]]), word) for word in words]
        return [sys.executable, *(["-m", "acclimate"] if program == "acclimate" else []), *words]

    def start(self, run: Any, command: str) -> subprocess.Popen[bytes]:
        """Start a command, after writing what an outcome says of its run."""
        out = self.places["RUNS"] / run.out
        out.mkdir(parents=True, exist_ok=True)
        seconds = sum(self.entry(one, command)["seconds"] for one in run.with_needs() for command in one.commands)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
        about = {"encoder": self.encoder, "commands": self.commands(run), "commit": head.stdout.strip()}
        write_json(out / outcomes.RUN, about | {"processor_seconds": seconds})
        environment = {**os.environ, **ONE_THREAD}
        with (out / "queue.log").open("ab") as log:
            words = self.words(run, command)
            return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def work(self) -> list[Any]:
        """Run what is left, and return the runs that failed. Runs that need them are left out; the others go on."""
        waiting, failed = self.waiting(), []
        active: dict[int, tuple[Any, list[str], subprocess.Popen[bytes]]] = {}
        try:
            while True:
                for run in [*waiting]:
                    busy = [one for one, _, _ in active.values()]
                    if len(busy) == AT_ONCE:
                        break
                    if {*run.with_needs()[:-1]} & {*waiting, *busy} or run.out in {one.out for one in busy}:
                        continue
                    waiting.remove(run)
                    left = self.left(run)
                    process = self.start(run, left[0])
                    active[process.pid] = run, left, process
                if not active:
                    return failed
                pid, status, usage = os.wait4(-1, 0)
                run, (command, *left), process = active.pop(pid)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.note(run, command, usage.ru_utime + usage.ru_stime, ended=not process.returncode)
                print(f"{'failed' if process.returncode else 'ended'}: {run.out}: {command[:90]}", flush=True)
                if process.returncode:
                    failed.append(run)
                    waiting = [one for one in waiting if run not in one.with_needs()]
                elif left:
                    process = self.start(run, left[0])
                    active[process.pid] = run, left, process
        finally:
            for _, _, process in active.values():
                process.terminate()


def queue_of(data: Path, texts: Path, runs: Path) -> Queue:
    """Return the queue for the included encoder."""
    spec = importlib.util.spec_from_file_location("claims", ROOT / "docs" / "claims.py")
    assert spec is not None
    assert spec.loader is not None
    claims = sys.modules["claims"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(claims)
    encoder = identity(EMBEDDED)[:12]
    places = {"DIR": data.absolute(), "TEXTS": texts.absolute(), "RUNS": (runs / encoder).absolute()}
    return Queue(claims, encoder, places)


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("data", "texts", "runs"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    queue = queue_of(options.data, options.texts, options.runs)
    waiting = queue.waiting()
    for run in waiting:
        print(f"{run.hours:5.1f} core-hours  {run.out} -> {', '.join(queue.outcomes(run)) or 'no outcome'}")
        print("".join(f"    {command}\n" for command in queue.left(run)))
    print(f"{sum(run.hours for run in waiting):5.1f} core-hours  encoder {queue.encoder}, {len(waiting)} runs")
    if options.dry_run:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the runs too
    failed = queue.work()
    for run in failed:
        print(f"{run.out} failed: {queue.places['RUNS'] / run.out / 'queue.log'} says why. Run the queue again")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
