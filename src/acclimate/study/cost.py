"""What a race is going to cost, before it starts: tokens, FLOPs, seconds, memory and disk of each stage.

study/stage_costs.py says how a stage is estimated. Nothing is written into the run.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from acclimate.core import ranks
from acclimate.models.encoder import load_masked_language_model
from acclimate.study import stages
from acclimate.study.budget import Costs
from acclimate.study.entries import Entries, enter
from acclimate.study.jobs import Job, with_needs
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe
from acclimate.study.searching import foreseen_of, left_of
from acclimate.study.stage_costs import Stage, Stages
from acclimate.study.trial import trial_model
from acclimate.study.wording import duration, si

MOST_OF_IT = 0.5  # of the time


@dataclass(frozen=True)
class Estimate:
    """What is left of a race. memory and disk in bytes."""

    stages: tuple[Stage, ...]
    done: int
    memory: float
    disk: float

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def as_text(self) -> str:
        """A line a stage and the totals."""
        width = max([36, *(len(stage.label) + 2 for stage in self.stages)])
        lines = [f"{'stage':<{width}}{'tokens':>10}{'FLOP':>10}{'time':>14}"]
        lines += [
            f"{stage.label:<{width}}{si(stage.tokens):>10}{si(stage.flops):>10}{duration(stage.seconds):>14}"
            for stage in self.stages
        ]
        tokens, flops = (sum(getattr(stage, unit) for stage in self.stages) for unit in ("tokens", "flops"))
        lines.append(f"{'together':<{width}}{si(tokens):>10}{si(flops):>10}{duration(self.seconds):>14}")
        lines.append(
            f"memory {self.memory / 1e9:.1f} GB, disk {self.disk / 1e9:.2f} GB; {self.done} jobs are done already."
        )
        return "\n".join([*lines, *told_of_reading(self.stages)])


def told_of_reading(planned: Sequence[Stage]) -> list[str]:
    """What to say where the looks at dev, and the test, take more of the time than the training."""
    share = sum(stage.reading for stage in planned) / max(sum(stage.seconds for stage in planned), 1e-9)
    if share < MOST_OF_IT:
        return []
    return [
        f"{share:.0%} of the time goes into looks at dev and the test, more than into training: fewer looks "
        f"(finetune.looks, and tapter.looks) take less."
    ]


def together(parts: Sequence[Estimate]) -> Estimate:
    """What several sets of jobs take, one after the other."""
    planned = tuple(stage for part in parts for stage in part.stages)
    done, disk = sum(part.done for part in parts), sum(part.disk for part in parts)
    return Estimate(planned, done, max(part.memory for part in parts), disk)


def estimate(recipe: Recipe, materials: Materials, run: Path, *, budgeted: bool = False) -> Estimate:
    """What `race` would still do in `run`, and what that takes. Tries a few steps; writes nothing there."""
    return estimate_of(enter(recipe, materials), run, budgeted=budgeted)


def estimate_of(entries: Entries, run: Path, *, budgeted: bool = False) -> Estimate:
    """What these entries would still do in `run`, as `estimate`."""
    recipe, materials = entries.recipe, entries.materials
    jobs = left_of(entries, run, budgeted=budgeted)
    everything = with_needs(job for job, _ in foreseen_of(entries, run, budgeted=budgeted))
    return estimate_of_jobs(jobs, recipe, materials, done=len(everything) - len(jobs))


def estimate_of_jobs(
    jobs: Sequence[tuple[Job, float]], recipe: Recipe, materials: Materials, *, done: int = 0
) -> Estimate:
    """What these jobs take, each with the share of it that is left; so many others are done."""
    with _shared_directory() as scratch:
        begun = time.perf_counter()
        base, tokenizer, preparing = trial_model(recipe, materials, scratch)
        loading = time.perf_counter() - begun - preparing
        stages_of = Stages(recipe, materials, base, tokenizer, scratch, loading=loading, preparing=preparing)
        planned = tuple(stages_of.stage(job, share) for job, share in jobs)
        weights = sum(weight.numel() for weight in load_masked_language_model(base).parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    if torch.cuda.is_available():
        peak = float(torch.cuda.max_memory_allocated())
    checkpoints = sum(job.work not in (stages.test, stages.test_together) for job, _ in jobs) + 1
    # a checkpoint holds the weights; the run at hand also two states of weights and both moments
    disk = 4.0 * weights * (checkpoints + 2 * 3)
    return Estimate(planned, done, peak, disk)


@contextmanager
def _shared_directory() -> Iterator[Path]:
    """A temporary directory of the first process, which all see."""
    with tempfile.TemporaryDirectory() if ranks.is_first() else nullcontext("") as own:
        yield Path(ranks.agree(own))
        ranks.wait()


def costs_of(unit: Literal["seconds", "flops"]) -> Callable[[Recipe, Materials, Path], Costs]:
    """What `race.run_race` asks for the costs of a budgeted race, in the budget's unit."""

    def costs(recipe: Recipe, materials: Materials, run: Path) -> Costs:
        found = estimate(recipe, materials, run, budgeted=True).stages
        kinds: dict[str, list[float]] = {"adapting": [], "fixed": [], "tuning": [], "test": []}
        for stage in found:
            trains = unit == "seconds" or stage.kind in ("adapting", "tuning")  # FLOPs are those of training alone
            kinds[stage.kind].append(getattr(stage, unit) / stage.share if trains else 0.0)
        tuning, test = (float(np.mean(kinds[kind] or [0.0])) for kind in ("tuning", "test"))
        return Costs(sum(kinds["adapting"]), sum(kinds["fixed"]), tuning, test)

    return costs
