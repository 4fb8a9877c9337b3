"""Does a race end within its budget? The time that was asked for and the time that was taken, under three loads.

    python benchmarks/asked_taken.py runs/asked --tasks NAME=FILE.csv --budgets 10min --times 5 \
        --out benchmarks/reports/DATE-asked-taken.md

idle     nothing else runs
busy     two other processes compute all the time
changes  they begin half way through the budget

Each race runs in a directory of its own below runs/asked; those that ended there are not run again, and their line in
runs.jsonl stays. What is taken is the time of the whole command, from its start to its exit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from page import head, table, write

from acclimate.races.planning.budget import parse_budget

LOADS = ("idle", "busy", "changes")
COMPUTES = "while True: sum(range(10**6))"
OTHERS = 2  # processes that compute meanwhile


@contextmanager
def load(kind: str, seconds: float) -> Iterator[None]:
    """Run OTHERS processes meanwhile; with "changes" they begin after half of the seconds."""
    wait = seconds / 2 if kind == "changes" else 0.0
    program = f"import time; time.sleep({wait})\n{COMPUTES}"
    others = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(0 if kind == "idle" else OTHERS)]
    try:
        yield
    finally:
        for other in others:
            other.kill()


def race(file: Path, budget: str, kind: str, out: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Race in a new process. Return the seconds asked and taken, and what it came to."""
    asked = parse_budget(budget).amount
    command = [sys.executable, "-m", "acclimate", "race", str(file), "--budget", budget, "--out", str(out), *settings]
    with load(kind, asked):
        begun = time.monotonic()
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        taken = time.monotonic() - begun
    outcome = json.loads((out / "race.outcome.json").read_text())
    scored = [result["row"] for result in outcome["results"] if result["scores"] and not result["probe"]]
    return {"asked": asked, "taken": taken, "status": ended.returncode, "rounds": outcome["rounds"], "scored": scored}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--tasks", nargs="+", required=True, metavar="NAME=FILE")
    parser.add_argument("--budgets", nargs="+", default=["10min"])
    parser.add_argument("--loads", nargs="+", default=LOADS, choices=LOADS)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--out", type=Path, help="the report")
    parser.add_argument("--settings", nargs="*", default=[], help="settings of the races, key=value")
    options = parser.parse_args()
    record = options.work / "runs.jsonl"
    options.work.mkdir(parents=True, exist_ok=True)
    runs = {run["name"]: run for run in map(json.loads, record.read_text().splitlines() if record.exists() else [])}
    for number in range(options.times):
        for task, file in (stated.split("=", 1) for stated in options.tasks):
            for budget in options.budgets:
                for kind in options.loads:
                    name = f"{task}-{budget}-{kind}-{number}"
                    if name not in runs:
                        about = {"name": name, "task": task, "budget": budget, "load": kind}
                        runs[name] = about | race(Path(file), budget, kind, options.work / name, options.settings)
                        with record.open("a") as lines:
                            lines.write(json.dumps(runs[name]) + "\n")
    if options.out:
        write(options.out, [head("Time asked and time taken"), table(COLUMNS, [*lines_of([*runs.values()])])])


COLUMNS = ("task", "budget", "load", "races", "taken, s", "largest share of the budget", "complete rounds")


def lines_of(runs: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
    """Yield a line for each task, budget and load."""
    for task, budget, kind in dict.fromkeys((run["task"], run["budget"], run["load"]) for run in runs):
        alike = [run for run in runs if (run["task"], run["budget"], run["load"]) == (task, budget, kind)]
        taken = ", ".join(f"{run['taken']:.0f}" for run in alike)
        largest = max(run["taken"] / run["asked"] for run in alike)
        rounds = ", ".join(str(run["rounds"]) for run in alike)
        yield [task, budget, kind, len(alike), taken, f"{largest:.0%}", rounds]


if __name__ == "__main__":
    main()
