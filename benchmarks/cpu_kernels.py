"""What attention and dropout of training/kernels.py gain on a CPU, beside PyTorch's, in the same loop.

    python benchmarks/cpu_kernels.py FILE embedded MODEL ... --out benchmarks/reports/DATE-cpu-kernels.md

FILE is a labelled file with the columns `text` and `label`. Both runs take the same steps by turns on one thread.
Fine-tuning drops what the model's config states, adapting as well.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from model_speed import LONGEST, works
from page import head, table, write
from turns import median_ratio, timed

from acclimate.models.loading import resolved
from acclimate.training import gradients
from acclimate.training.kernels import arithmetic
from acclimate.training.loop import Step, adamw, train
from acclimate.training.plan import Plan, Precision, autocast_type

WARM_UP = 2
Arithmetic = Callable[[Plan, torch.device], AbstractContextManager[Any]]


@contextmanager
def torchs(plan: Plan, where: torch.device) -> Iterator[None]:
    narrow = autocast_type(plan.precision, where)
    with torch.autocast(where.type, dtype=narrow, enabled=narrow is not None):
        yield


def steps(make: Callable[[], Any], plan: Plan, used: Arithmetic) -> Iterator[Step]:
    objective, stream = make()
    taken = train(objective, stream, plan, adamw(objective, plan))
    while True:
        with patch.object(gradients, "arithmetic", used):
            step = next(taken)
        yield step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(given.models):
            for kind, make in works(resolved(name), given.file, Path(place) / str(number)).items():
                precisions: tuple[Precision, ...] = ("float32", "bfloat16")
                for precision in precisions:
                    plan = Plan(steps=10**6, batch=16, rate=1e-5, precision=precision)
                    running = {"ours": steps(make, plan, arithmetic), "torch's": steps(make, plan, torchs)}
                    clocks = timed(running, rounds=given.rounds, warm_up=WARM_UP)
                    ours, theirs = clocks["ours"].processor, clocks["torch's"].processor
                    speed = sum(clocks["ours"].tokens) / sum(ours)
                    length = statistics.mean(clocks["ours"].tokens) / plan.batch
                    rows.append(
                        [Path(name).name, kind, precision, f"{length:.0f}", f"{speed:,.0f}", median_ratio(theirs, ours)]
                    )
    said = (
        f"Processor seconds of a step with PyTorch's attention and dropout, divided by those with ours: median of "
        f"{given.rounds} rounds with its 95% interval; above 1 ours is faster. Batches of 16 texts of at most "
        f"{LONGEST} tokens, one thread, {WARM_UP} rounds to warm up. Tokens a second are ours.\n"
    )
    names = ["encoder", "work", "precision", "tokens a row", "tokens a second", "PyTorch's by ours"]
    write(given.out, [head("Attention and dropout on a CPU"), said, table(names, rows)])


if __name__ == "__main__":
    main()
