"""`run` does what is missing of a study or race, `plan` says what that would take.

A cell whose jobs fail stands as failed with its reason, and the others go on: in every study.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acclimate.core.figures import duration, si
from acclimate.core.replay import NotDoneError
from acclimate.core.types import Cost, Progress, Score, Split, Watch, unwatched
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, claim, failed_with, first_line, missing, result_of, with_needs
from acclimate.jobs.run import do_all
from acclimate.races.compare import Chosen, Outcome, Ran, best_on_dev, mean_cost
from acclimate.races.contestants import Entries, tested
from acclimate.races.cost import Stage, estimate_of_jobs, told_of_reading
from acclimate.races.design import Allowed, Cell, Design, Key, Losses, Search
from acclimate.races.facts import adapting_jobs
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import Trial
from acclimate.races.search import (
    Ended,
    dev_row,
    fit_baseline,
    foreseen_of,
    left_of,
    prepare,
    searched,
    test_row,
)
from acclimate.reports.page import Section, page
from acclimate.reports.table import ALONE, GeneralLoss
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.training.checkpoint import LOG, spent


def run(design: Design, out: Path, *, watch: Watch = unwatched) -> Outcome:
    """Do what is missing of the study in the directory `out`, and compare.

    Searches run first and yield cells; then all is trained, then the test set is opened, once a cell and seed. Raises
    the error of the untouched model's jobs where a search has several contestants: there is nothing to compare then.
    """
    claim(out, design.called)
    found = _search(design, out, watch)
    cells = _in_order(design, [*design.cells, *found.cells])
    training = [job for cell in cells for job in _before_scoring(cell, design.split)]
    measuring = [job for losses in design.losses for job in losses.jobs]
    watches: dict[str, Watch] = {}
    for cell in cells:
        for job in with_needs(cell.jobs_by_seed.values()):
            watches.setdefault(job.name, _naming(watch, design, cell.row if len(_columns(cells)) == 1 else cell.column))
    errors = do_all([*training, *measuring], out, watch=watch, watches=watches)
    if design.split == "test":
        tests = [
            job
            for cell in cells
            for job in cell.jobs_by_seed.values()
            if all(result_of(needed, out) is not None for needed in job.needs.values())
        ]
        errors |= do_all(tests, out, watch=watch, watches=watches)

    reasons = {name: _named(first_line(error), design) for name, error in errors.items()}
    ran = {cell.key: _ran(cell, design, found.failed.get(cell.key, ""), reasons, out) for cell in cells}
    losses = {each.name: _losses(each, [cell.row for cell in cells], out) for each in design.losses}
    chosen = _chosen(design, ran, out, watch) if design.chosen_is_tested else None
    return Outcome(design, ran, losses, found.trials, chosen, found.ended)


@dataclass
class _Found:
    """What the searches of a design yield. trials, ended: search -> its record, and all that it came to; failed: cell
    -> why it has no jobs.
    """

    cells: list[Cell] = field(default_factory=list)
    trials: dict[Key, Sequence[Trial]] = field(default_factory=dict)
    ended: dict[Key, Ended] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)


def _search(design: Design, out: Path, watch: Watch) -> _Found:
    """Run the searches. One that fails yields a cell without jobs; several contestants need the untouched model."""
    found = _Found()
    for search in design.searches:
        if not search.row:
            together = _together(search, out, watch)
            found.ended[search.key], found.trials[search.key] = together, together.found.record
            found.failed |= {("", name, search.column): _named(why, design) for name, why in together.failed.items()}
            found.cells += _contestants(search, together)
            continue
        try:
            cell, found.trials[search.key] = _searched(search, out, _naming(watch, design, search.column))
        except NotDoneError:
            raise
        except Exception as error:
            if not isinstance(error, ValueError) and not failed_with(error, out):
                raise  # no job failed and no setting is at fault, so it is a mistake in the code
            found.failed[search.key] = why = _named(first_line(error), design)
            watch(Progress(f"{search.column}: {search.row}", 0, 0, "steps", {"note": f"failed: {why}"}))
            cell = Cell(search.row, search.column, {}, {}, search.entries.materials, facts=search.facts)
        found.cells.append(cell)
    return found


def _together(search: Search, out: Path, watch: Watch) -> Ended:
    """A search among several contestants: the baseline first, then what the budget allows, the models, the search."""
    entries, failed = fit_baseline(search.entries, out, watch)
    allowed = search.allowed(search.entries, out, True) if search.allowed else Allowed(search.entries, (), None)
    for note in allowed.notes:
        watch(Progress("budget", 0, 0, "steps", {"note": note}))
    entries = replace(allowed.entries, baseline=allowed.entries.baseline and entries.baseline)
    entries, lost, notes = prepare(entries, out, watch)
    ended = searched(entries, out, finalists=allowed.finalists, watch=watch)
    return replace(ended, notes=(*allowed.notes, *notes), failed={**failed, **lost, **ended.failed})


def _contestants(search: Search, ended: Ended) -> Iterator[Cell]:
    """A cell for each contestant that comes to the test set, and one without jobs for each that failed."""
    materials = search.entries.materials
    for name, tests in ended.tests().items():
        tuned = ended.tuned.get(name) or [job for test in tests for job in test.needs.values()]
        costs = {"tuning": {seed: [job] for seed, job in enumerate(tuned)}}
        if name in ended.tuned:
            costs = {"adapting": dict.fromkeys(range(len(tests)), adapting_jobs(name, ended.entries)), **costs}
        yield Cell(name, search.column, dict(enumerate(tests)), costs, materials, facts=search.facts)
    for name in ended.failed:
        yield Cell(name, search.column, {}, {}, materials, facts=search.facts)


def _searched(search: Search, out: Path, watch: Watch) -> tuple[Cell, list[Trial]]:
    """The cell with the setting that dev chose, and the record of the search."""
    [name] = search.entries.models
    ended = searched(search.entries, out, watch=watch)
    tuned = ended.tuned.get(name, ())
    if not tuned or any(result_of(job, out) is None for job in tuned):
        raise ValueError("training diverges with its best setting on dev. Lower search.rates")
    trials = [replace(trial, contestant=search.row) for trial in ended.found.record]
    settings = {trial.setting for trial in trials}
    begun: dict[str, int] = {}
    for trial in trials:
        begun[trial.setting] = max(begun.get(trial.setting, 0), trial.seeds)
    facts = {"setting": ended.found.finalists[0].setting.name, "settings tried": len(settings)}
    facts |= {"fine-tunings": sum(begun.values())}
    task = search.entries.materials.task
    return (
        Cell(
            search.row,
            search.column,
            {seed: tested(job, task) for seed, job in enumerate(tuned)},
            {
                **{stage: {0: jobs} for stage, jobs in search.costs.items()},
                "tuning": {seed: [job] for seed, job in enumerate(tuned)},
                "with the search": {0: ended.begun},
            },
            search.entries.materials,
            facts={**search.facts, **facts},
        ),
        trials,
    )


def _in_order(design: Design, cells: Sequence[Cell]) -> list[Cell]:
    """By column, as the design has them."""
    places = [*(cell.column for cell in design.cells), *(search.column for search in design.searches)]
    columns = [*dict.fromkeys(places)]
    return sorted(cells, key=lambda cell: columns.index(cell.column)) if design.searches else list(cells)


def _before_scoring(cell: Cell, split: Split) -> list[Job]:
    """The jobs of the cell that come before the test set is opened."""
    jobs = [*cell.jobs_by_seed.values()]
    return [needed for job in jobs for needed in job.needs.values()] if split == "test" else jobs


def _ran(cell: Cell, design: Design, failed: str, reasons: Mapping[str, str], out: Path) -> Ran:
    """What a cell came to: its scores, or why they are not there."""
    scores: list[Score] = []
    taken = {
        stage: {seed: sum((cost_of(job, out) for job in jobs), Cost()) for seed, jobs in by_seed.items()}
        for stage, by_seed in cell.costs.items()
    }
    gold = [example.label for example in cell.task.examples("dev")] if design.split == "dev" else []
    for seed, job in cell.jobs_by_seed.items():
        result = result_of(job, out)
        if result is None:
            lost = next((needed for needed in with_needs([job]) if needed.name in reasons), None)
            why = f"{_named(lost.label, design)}: {reasons[lost.name]}" if lost else "not done"
            failed = failed or why
        elif design.split == "dev":
            scores.append(dev_row(cell.row, seed, result, gold, cell.task))
        else:
            paid = {
                name: taken.get(stage, {}).get(seed, Cost())
                for name, stage in (("adapting", "adapting"), ("finetuning", "tuning"))
            }
            scores.append(test_row(cell.row, seed, _with_dev(job, result, out), cell.task, **paid))
    costs = {
        stage: mean_cost(cost for seed, cost in by_seed.items() if result_of(cell.jobs_by_seed[seed], out) is not None)
        for stage, by_seed in taken.items()
    }
    facts = {} if failed else dict(design.measured(cell, out))
    return Ran(cell, tuple(scores), failed, costs, {**cell.facts, **facts})


def _with_dev(test: Job, result: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The result of a look at the test set, with the score on dev of what was looked at."""
    if result.get("dev") is not None:
        return dict(result)
    [trained] = (result_of(job, out) for job in test.needs.values())
    assert trained is not None  # else there would be no test
    return {**result, "dev": trained["dev"]}


def cost_of(job: Job, out: Path) -> Cost:
    """What the job took; of work that keeps no log of steps the tokens are those that its result tells."""
    place, cost = job.directory(out), spent(job.directory(out))
    if (place / LOG).exists():
        return cost
    return replace(cost, tokens=cost.tokens + int((result_of(job, out) or {}).get("tokens", 0)))


def _losses(losses: Losses, rows: Sequence[str], out: Path) -> dict[str, GeneralLoss]:
    """Row -> its loss; empty where the model came without a head, so that no loss says anything."""
    assert losses.before is not None  # asked of a study's losses, which are jobs
    name, job = losses.before
    before = result_of(job, out)
    if before is None or not before["head"]:
        return {}
    found = dict.fromkeys(rows, GeneralLoss())
    found[name] = GeneralLoss(before["loss"])
    for row, jobs in losses.jobs_by_row.items():
        results = [result_of(job, out) for job in jobs]
        values = [result["loss"] for result in results if result is not None]
        if len(values) == len(results):
            after = values[0] if len(values) == 1 else sum(values) / len(values)
            found[row] = GeneralLoss(after, after - before["loss"])
    return found


def _chosen(design: Design, ran: Mapping[Key, Ran], out: Path, watch: Watch) -> Chosen | None:
    """The cell with the best mean on dev, tested; and what it took to find it. None where all failed."""
    best = best_on_dev(ran.values())
    if best is None:
        return None
    tests = {seed: tested(job, best.cell.task) for seed, job in best.cell.jobs_by_seed.items()}
    errors = do_all(tests.values(), out, watch=watch)
    reasons = {name: first_line(error) for name, error in errors.items()}
    cell = replace(best.cell, jobs_by_seed=tests)
    seen = _ran(cell, replace(design, split="test"), "", reasons, out)
    jobs = {job.name: job for each in ran.values() for job in _trained_for(each.cell)}
    mine = [job for by_seed in best.cell.costs.values() for jobs_of in by_seed.values() for job in jobs_of]
    whole = sum(cost_of(job, out).flops for job in jobs.values())
    return Chosen(seen, len(ran), whole, sum(cost_of(job, out).flops for job in mine))


def _trained_for(cell: Cell) -> Iterable[Job]:
    return (job for by_seed in cell.costs.values() for jobs in by_seed.values() for job in jobs)


def _naming(watch: Watch, design: Design, where: str) -> Watch:
    """The watch, to which stages are named with what they are a part of, and models by their names."""

    def telling(progress: Progress) -> None:
        stage = _named(progress.stage, design)
        watch(replace(progress, stage=stage if where in stage else f"{where}: {stage}"))

    return telling


def _named(text: str, design: Design) -> str:
    for key, name in design.called.items():
        text = text.replace(key, name)
    return text


def _columns(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell.model, cell.column) for cell in cells))


@dataclass(frozen=True)
class Planned:
    """A line of a plan. trained: rows of the train set; tunings: fine-tunings left, those too that will be given up."""

    label: str
    trained: int
    seeds: int
    tunings: int
    tokens: float
    flops: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What is left of a study. done, left: numbers of jobs; memory, disk: bytes."""

    design: Design
    lines: tuple[Planned, ...]
    done: int
    left: int
    memory: float
    disk: float
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return sum(line.seconds for line in self.lines)

    def as_text(self) -> str:
        """Return the plan as a table, at most 110 columns wide."""
        rows = []
        for line in self.lines:
            counts = f"{line.trained:,}", str(line.seeds), str(line.tunings)
            rows.append((line.label, *counts, si(line.tokens), si(line.flops), duration(line.seconds)))
        columns = ("", "train", "seeds", "tunings", "tokens", "FLOP", "time")
        told = [
            f"Together {duration(self.seconds)} on this machine, memory {self.memory / 1e9:.1f} GB, disk "
            f"{self.disk / 1e9:.2f} GB; {self.left} jobs are left, {self.done} are done. Tunings: fine-tunings that "
            f"are left, those too that are given up on the way. What several lines share stands in the first.",
            *self.notes,
            *self.design.notes,
            *(f"{name} is left out: {why}" for name, why in self.design.absent.items()),
        ]
        return page(f"{self.design.title}: still to do", [Section("Plan", columns, tuple(rows), tuple(told))])


@dataclass(frozen=True)
class _Waiting:
    """A job that is left, the share of it that will be done, and the line of the plan that it counts in."""

    line: str
    job: Job
    share: float
    materials: Materials
    race: RaceRecipe


def plan(design: Design, out: Path) -> Plan:
    """Return what `run` would still do in `out`, and its cost. Tries a few steps; writes nothing there."""
    lines: dict[str, Planned] = {}
    waiting: dict[str, _Waiting] = {}
    everything: list[Job] = []
    notes: list[str] = []
    several = len(_columns([*design.cells])) + len({search.column for search in design.searches}) > 1
    models = len({cell.model for cell in design.cells}) > 1

    def line(label: str, task: Prepared, seeds: int) -> None:
        lines.setdefault(label, Planned(label, task.sizes["train"], seeds, 0, 0, 0, 0))

    for search in design.searches:
        allowed = search.allowed(search.entries, out, False) if search.allowed else Allowed(search.entries, (), None)
        entries, budgeted = allowed.entries, search.allowed is not None
        notes += allowed.notes
        place = f"{search.column}, " if several or search.row else ""
        names = _by_contestant(entries)
        for name in [search.row] if search.row else dict.fromkeys(names.values()):
            line(place + name, entries.materials.task, entries.recipe.seeds)
        everything += (job for job, _ in foreseen_of(entries, out, budgeted=budgeted))
        for job, share in left_of(entries, out, budgeted=budgeted):
            label = place + (search.row or _contestant_of(job, names))
            waiting.setdefault(job.name, _Waiting(label, job, share, entries.materials, entries.recipe))
    losses = [job for each in design.losses for job in each.jobs]
    for at, cell in enumerate(design.cells):
        label = (cell.column if several else cell.row) + (f", {cell.model}" if models else "")
        line(label, cell.task, len(cell.jobs_by_seed))
        jobs = [*cell.jobs_by_seed.values(), *(losses if not at else [])]
        everything += jobs
        for job in missing(jobs, out):
            waiting.setdefault(job.name, _Waiting(label, job, 1.0, cell.materials, design.race))

    stages, memory, disk = _estimated([*waiting.values()])
    for label, stage in stages:
        counted = lines[label]
        lines[label] = replace(
            counted,
            tunings=counted.tunings + (stage.kind == "tuning"),
            tokens=counted.tokens + stage.tokens,
            flops=counted.flops + stage.flops,
            seconds=counted.seconds + stage.seconds,
        )
    found = tuple(replace(each, label=_named(each.label, design)) for each in lines.values())
    done = max(0, len(with_needs(everything)) - len(waiting))
    notes = [*told_of_reading([stage for _, stage in stages]), *notes]
    return Plan(design, found, done, len(waiting), memory, disk, tuple(notes))


def _by_contestant(entries: Entries) -> dict[str, str]:
    """Name of a job that makes a contestant's model, or of the baseline's job -> contestant; of a shared job the first.

    The contestant that is the given model, which no job makes, has the key "".
    """
    alone = len(entries.models) == 1 and entries.baseline is None
    names = {model.name if model else "": ALONE if alone else name for name, model in entries.models.items()}
    for name, model in entries.models.items():
        for needed in with_needs([model] if model else []):
            names.setdefault(needed.name, name)
    if entries.baseline is not None:
        names[entries.baseline.name] = entries.baseline.label
    return names


def _contestant_of(job: Job, names: Mapping[str, str]) -> str:
    """The contestant for whose model the job is done; without one the untouched model. names: `_by_contestant`."""
    chain = [needed.name for needed in reversed(with_needs([job]))]
    return next((names[name] for name in chain if name in names), next(iter(names.values())))


def _estimated(waiting: Sequence[_Waiting]) -> tuple[list[tuple[str, Stage]], float, float]:
    """The line and the stage of each job, and memory and disk in bytes. Jobs of one model on one task are tried at
    once.
    """
    lots: dict[tuple[Any, ...], list[_Waiting]] = {}
    for each in waiting:
        task = each.job.places.get("task", each.materials.task.path)
        lots.setdefault((task, each.materials.model, id(each.race)), []).append(each)
    stages: list[tuple[str, Stage]] = []
    memory = disk = 0.0
    for (task, *_), lot in lots.items():
        materials = lot[0].materials
        if task != materials.task.path:
            materials = replace(materials, task=open_prepared(task))
        estimate = estimate_of_jobs([(each.job, each.share) for each in lot], lot[0].race, materials)
        stages += zip([each.line for each in lot], estimate.stages, strict=True)
        memory, disk = max(memory, estimate.memory), disk + estimate.disk
    return stages, memory, disk
