"""Checks, plans and runs a race for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclimate.core.door import option

if TYPE_CHECKING:
    from acclimate.core.types import Watch
    from acclimate.data.examination import Examination
    from acclimate.data.gather import Inputs, Raw
    from acclimate.jobs.where import Where
    from acclimate.races.outcome import StudyEnd
    from acclimate.races.planning.budget import Budget
    from acclimate.races.planning.dry_run import DryRun
    from acclimate.races.recipe import RaceRecipe
    from acclimate.races.report import RaceReport
    from acclimate.reading.labelled_files import LabelledFiles


@dataclass(frozen=True)
class RaceOrder:
    """A race as it was ordered and checked.

    budget          None: no limit
    notes           on a budget that the user did not state
    probe_only      True to adapt and probe, and to fine-tune nothing
    learning_curve  True if learning curves follow
    command         what the user typed, for the page and the lock file
    """

    recipe: RaceRecipe
    inputs: Inputs
    command: str
    budget: Budget | None = None
    notes: tuple[str, ...] = ()
    probe_only: bool = False
    learning_curve: bool = False

    @property
    def limits(self) -> dict[str, Any]:
        """Keywords of the functions that run a race."""
        return {"budget": self.budget, "probe_only": self.probe_only}

    def watched_by(self, watch: Watch) -> RaceOrder:
        """Return the order whose progress goes to the watch."""
        return replace(self, inputs=replace(self.inputs, watch=watch))


@dataclass(frozen=True)
class RaceEnd:
    """The result of a race. curves: of the learning curves that followed it; None without them"""

    report: RaceReport
    curves: StudyEnd | None = None

    @property
    def failed(self) -> bool:
        """True if a contestant, or a part of what followed, has no score."""
        return bool(self.report.failed or (self.curves and self.curves.failed))


def order_race(
    recipe: RaceRecipe,
    usual: RaceRecipe,
    inputs: Inputs,
    *,
    command: str,
    budget: str | None = None,
    probe_only: bool = False,
    learning_curve: bool = False,
    checkpoints: Mapping[str, Any] | None = None,
) -> RaceOrder:
    """Return the order of a race, checked before a directory is made.

    usual        the recipe without what the user stated
    checkpoints  name -> directory or hub id of an encoder of the user

    Raises ValueError for inputs that exclude each other, for a budget that cannot be read, for settings that would do
    nothing, and for checkpoints that are no encoders.
    """
    from acclimate.data.checkpoints import resolve_checkpoints
    from acclimate.races.planning.budget import budget_or_usual
    from acclimate.races.planning.exclusions import check_options
    from acclimate.races.recipe import refuse_unused

    if inputs.rows and recipe.folds:
        raise ValueError(
            f"{option('rows')} samples rows of train only, but {option('folds')} divides train, dev and test "
            "together. Remove one of them"
        )
    if inputs.raw.general is None and inputs.model is None:
        raise ValueError(
            f"{option('model', 'scratch')} pretrains a small encoder, but there is no general text. Add "
            f"{option('general', 'TEXT')}, or remove {option('model')} to start from the embedded encoder"
        )
    limit, notes = budget_or_usual(budget, recipe, probe_only=probe_only)
    check_options(
        folds=recipe.folds,
        until=recipe.until,
        budget=limit is not None,
        probe_only=probe_only,
        learning_curve=learning_curve,
        checkpoints=bool(checkpoints),
    )
    refuse_unused(
        recipe,
        usual,
        curves="" if learning_curve else option("learning_curve", True),
        pretrains="" if inputs.model is None else option("model", "scratch"),
    )
    encoders = resolve_checkpoints(checkpoints or {}, inputs.model, reserved_names=recipe.reserved_names)
    inputs = replace(inputs, checkpoints=encoders)
    return RaceOrder(recipe, inputs, command, limit, notes, probe_only, learning_curve)


def examine_files(
    files: LabelledFiles,
    raw: Raw,
    *,
    model: str | None,
    seeds: int,
    contestants: int,
    run: Path | None,
    watch: Watch,
) -> Examination:
    """Return what the doctor finds in labelled files, raw text and a model.

    model               directory or hub id; None: the encoder that comes with acclimate
    seeds, contestants  of the race to come
    run                 a finished race on this task, whose scores' spread counts; None: the spread is guessed
    """
    from acclimate.api.settings import stand_in_of
    from acclimate.data.doctor import examine
    from acclimate.data.model import open_model
    from acclimate.models.loading import EMBEDDED, resolved
    from acclimate.races.report import spread_of
    from acclimate.reading.labelled import read_files

    labelled = read_files(files)
    return examine(
        labelled,
        raw.texts(),
        model=open_model(resolved(model or EMBEDDED)),
        seeds=seeds,
        comparisons=contestants,
        spread=None if run is None else spread_of(run, labelled),
        finetune=stand_in_of("finetune"),
        watch=watch,
    )


def plan_race(order: RaceOrder) -> DryRun:
    """Return what the race would still do, and what it costs. Trains nothing and writes nothing."""
    from acclimate.races import race

    plan = race.dry_run_for
    if order.learning_curve:
        from acclimate.studies.learning_curve import dry_run_for as plan
    return plan(order.inputs, order.recipe, **order.limits)


def run_race(order: RaceOrder, *, examine: Callable[[Examination | None], None]) -> RaceEnd:
    """Run what is missing of the race in its directory, and what follows it; write the pages and the model to use.

    examine: is called before any training with what the doctor found in the task
    """
    from acclimate.jobs.job import check_format
    from acclimate.races import race
    from acclimate.races.report import write_race_pages
    from acclimate.studies import learning_curve

    recipe, inputs, out = order.recipe, order.inputs, order.inputs.out
    check_format(out)
    with race.hold_first(out):
        materials = race.materials_for(inputs, recipe, budget=order.budget)
        examine(materials.examination)
        if order.learning_curve:
            learning_curve.check(recipe, materials, probe_only=order.probe_only)
        race.run_race(recipe, materials, out, **order.limits, command=order.command, watch=inputs.watch)
        report = write_race_pages(out)
        curves = None
        if order.learning_curve:
            curves = learning_curve.follow(recipe, materials, out, **order.limits, watch=inputs.watch)
        return RaceEnd(report, curves)


@contextmanager
def run_jobs(
    out: Path, where: Where, *, command: str, recipe: Callable[[], Any], dry_run: bool = False
) -> Iterator[None]:
    """Within the block, this process holds the directory `out`, and jobs of its study run where the user says; at its
    end the study gets its lock file. A dry run holds nothing.

    recipe: returns the study's recipe, once the block has ended
    """
    from acclimate.core import files, ranks
    from acclimate.jobs.job import check_format
    from acclimate.jobs.lock import allow_redone, check_results, write_lock
    from acclimate.jobs.refused import emptied_if_refused
    from acclimate.jobs.where import working

    where.check()
    check_format(out)
    check_results(out)
    if dry_run:
        with nullcontext() if where.cluster else working(where):  # no process starts before a job does
            yield
        return
    with files.hold(out) if ranks.is_first() else nullcontext(), emptied_if_refused(out):
        allow_redone(out)
        with working(where):
            yield
        write_lock(out, command, recipe())
