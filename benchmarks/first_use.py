"""What the first use of each verb costs on a new installation: processor seconds, and those of compiling.

    python benchmarks/first_use.py --out benchmarks/reports/DATE-first-use.md --before ../before/src

Each verb runs in a new process with an empty cache of compiled code, on 2,000 titles and 6,000 abstracts of arXiv.
Trainings take STEPS steps; predicting uses the model of an evaluation that ran before and is not counted.
--before is the `src` folder of an earlier commit, which takes turns with this one.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page import head, table, tell, write

SOURCE = Path(__file__).resolve().parents[1] / "src"
DATA = SOURCE / "acclimate/data/arxiv"
ROWS = 2_000
COLUMNS = ("--text", "title", "--label", "field")
CORPUS = ("--corpus", str(DATA / "abstracts.parquet"))
STEPS, FEW = 5, 300  # steps of a training, and rows of a fine-tuning
LENGTH = ("epochs=0", f"plan.steps={STEPS}")
SEED = ("seeds=1", *(f"finetune.{setting}" for setting in LENGTH))
EVALUATE = ("evaluate", "embedded", "few.csv", *COLUMNS, *SEED)
VERBS = {
    "doctor": ("doctor", "rows.csv", *COLUMNS),
    "doctor with a corpus": ("doctor", "rows.csv", *COLUMNS, *CORPUS),
    "race --dry-run": ("race", "rows.csv", *COLUMNS, "--dry-run"),
    "data retrieve": ("data", "retrieve", "rows.csv", *COLUMNS, *CORPUS),
    "evaluate": EVALUATE,
    "adapt mlm": ("adapt", "mlm", "model=embedded", f"corpus={CORPUS[1]}", *LENGTH, "plan.batch=32"),
    "predict": ("predict", "runs/evaluate", "few.csv", "--out", "predictions.csv"),
}
PREPARATIONS = {"predict": EVALUATE}
NAMES = ("verb", "commit", "processor seconds", "of these compiling", "functions compiled")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the report")
    parser.add_argument("--before", type=Path, help="src folder of an earlier commit")
    parser.add_argument("--verbs", nargs="+", default=list(VERBS), choices=list(VERBS))
    parser.add_argument("--run", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_here(options.run)
        return
    sources = {"before": options.before, "now": SOURCE} if options.before else {"now": SOURCE}
    lines = []
    for verb in options.verbs:
        for name, source in sources.items():
            tell(f"{verb}, {name}")
            lines.append([verb, name, *run_apart(verb, source)])
            write(options.out, [head("First use of an installation", facts=[("threads", "1")]), table(NAMES, lines)])


def run_apart(verb: str, source: Path) -> list[str]:
    """Return the figures of a verb in a new process, whose home and cache are empty."""
    with tempfile.TemporaryDirectory() as place:
        write_rows(Path(place))
        folders = {"NUMBA_CACHE_DIR": f"{place}/compiled", "XDG_CACHE_HOME": f"{place}/cache", "HF_HUB_OFFLINE": "1"}
        environment = os.environ | folders | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).resolve()), "--run"]
        if verb in PREPARATIONS:
            apart = environment | {"NUMBA_CACHE_DIR": f"{place}/compiled-before"}
            words = [*command, *PREPARATIONS[verb]]
            subprocess.run(words, cwd=place, env=apart, stdout=subprocess.DEVNULL, check=True)
        words = [*command, *VERBS[verb]]
        done = subprocess.run(words, cwd=place, env=environment, stdout=subprocess.DEVNULL, check=False)
        figures = json.loads((Path(place) / "figures.json").read_text())
    if done.returncode not in {0, 1}:  # 1: the doctor has a finding
        raise SystemExit(f"{verb} ended with status {done.returncode}")
    return [f"{figures['seconds']:.1f}", f"{figures['compiling']:.1f}", str(figures["functions"])]


def write_rows(place: Path) -> None:
    """Write the first labelled titles of the included dataset: ROWS of them to rows.csv, FEW to few.csv."""
    rows: list[list[str]] = []
    for name in ("arxiv", "dev", "test"):
        with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            header, *more = csv.reader(file)
        rows += more
    for name, size in (("rows.csv", ROWS), ("few.csv", FEW)):
        with (place / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows[:size]])


def run_here(words: list[str]) -> None:
    """Run a verb in this process, and write what it cost to figures.json."""
    from numba.core import event

    class Compilations(event.Listener):
        """Adds up the processor seconds of compilations that no other compilation needed."""

        depth, begun, seconds, functions = 0, 0.0, 0.0, 0

        def on_start(self, event: Any) -> None:
            if not self.depth:
                self.begun = time.process_time()
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            self.functions += 1
            if not self.depth:
                self.seconds += time.process_time() - self.begun

    compilations = Compilations()
    event.register("numba:compile", compilations)
    from acclimate.cli import app

    try:
        app(words)
    finally:
        figures = {"compiling": compilations.seconds, "functions": compilations.functions}
        Path("figures.json").write_text(json.dumps({"seconds": time.process_time(), **figures}))


if __name__ == "__main__":
    main()
