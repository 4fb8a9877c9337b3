"""What each kernel of acclimate's own saves of a whole race on a CPU, compiling included.

    python benchmarks/race_kernels.py FILE.csv runs/kernels --times 2 --out benchmarks/reports/DATE-race-kernels.md

Each run is the same race in a new process with an empty cache of compiled code, on one core, without one of the
kernels. Variants take turns. Lines of ended runs stay in runs.jsonl, and their variants are not run again.

row attention  attention of rows that share a line, by a compiled loop; without it PyTorch's, one row per line
dropout        sixteen random bits per number by NumPy; without it PyTorch's
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np
from page import head, table, write

RACE = (
    'contestants=["TAPT","TF-IDF"]',
    *("seeds=1", "adapt_seeds=1", "finetune.epochs=4", "finetune.looks=4", "finetune.retry=false"),
    *("tapt.epochs=0", "tapt.plan.steps=64", "tapt.plan.batch=16"),
)
SECONDS = "processor_seconds"  # a file of the run
VARIANTS = ("all kernels", "row attention", "dropout")


def replacements(variant: str) -> dict[str, Any]:
    """Return name of a function of acclimate -> its replacement without this kernel."""
    from torch.nn import functional

    from acclimate.training import kernels, pieces

    others = dict(kernels._ON_CPU)
    if variant == "dropout":
        others.pop(functional.dropout)
        return {
            "acclimate.training.kernels._ON_CPU": others,
            "acclimate.training.kernels.dropout": functional.dropout,
        }
    if variant == "row attention":

        def one_row_a_line(lengths: np.ndarray, most: int, *, by_row: bool = False) -> list[pieces.Layout]:
            return pieces.pieces_of_rows(lengths, most)

        modules = ("methods.task_loss", "training.gradients", "training.objective")
        return {f"acclimate.{module}.pack": one_row_a_line for module in modules}
    return {}


def race(file: Path, variant: str) -> dict[str, Any]:
    """Race in a new process. Return its processor seconds, and its scores on test."""
    with tempfile.TemporaryDirectory() as place:
        environment = os.environ | {"NUMBA_CACHE_DIR": f"{place}/compiled", "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, __file__, str(file), place, "--variant", variant], check=True, env=environment)
        outcome = json.loads((Path(place) / "race.outcome.json").read_text())
        seconds = float((Path(place) / SECONDS).read_text())
    scores = {
        result["row"]: result["scores"][0]["test"]
        for result in outcome["results"]
        if result["scores"] and not result["probe"]
    }
    return {"variant": variant, "processor seconds": seconds, "scores": scores}


def race_here(file: Path, variant: str, out: Path) -> None:
    """Race in this process, and write its processor seconds."""
    begun = time.process_time()
    import torch

    from acclimate.cli import app

    torch.set_num_threads(1)
    with ExitStack() as stack:
        for name, value in replacements(variant).items():
            stack.enter_context(patch(name, value))
        app(["race", str(file), "--budget", "none", "--out", str(out), *RACE], standalone_mode=False)
    (out / SECONDS).write_text(str(time.process_time() - begun))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--out", type=Path, help="the report")
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        race_here(options.file, options.variant, options.work)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    record = options.work / "runs.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    for number in range(options.times):
        for variant in options.variants:
            if sum(line["variant"] == variant for line in lines) <= number:
                lines.append(race(options.file, variant))
                with record.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    if options.out:
        write(options.out, [head("What each kernel saves of a whole race"), table(COLUMNS, rows_of(lines))])


COLUMNS = ("without", "races", "processor seconds", "times those of all kernels", "scores on test")


def rows_of(lines: list[dict[str, Any]]) -> list[list[Any]]:
    """A row for each variant."""
    by_variant = {name: [line for line in lines if line["variant"] == name] for name in VARIANTS}
    seconds = {name: [line["processor seconds"] for line in group] for name, group in by_variant.items() if group}
    return [
        [
            name,
            len(runs),
            ", ".join(f"{value:.0f}" for value in runs),
            f"{mean(runs) / mean(seconds[VARIANTS[0]]):.2f}",
            ", ".join(f"{row} {100 * score:.1f}" for row, score in by_variant[name][0]["scores"].items()),
        ]
        for name, runs in seconds.items()
    ]


if __name__ == "__main__":
    main()
