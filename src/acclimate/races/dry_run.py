"""A dry run: what of a study or race is still to do, and what it costs. Nothing is written in its directory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from acclimate.core.figures import duration, rough_duration, si
from acclimate.core.steps import finetuning_steps
from acclimate.core.types import Watch, unwatched
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, first_line, missing, with_needs
from acclimate.jobs.workers import Processes, current_workers, limit_threads
from acclimate.methods.baselines import BASELINE
from acclimate.methods.finetune import FinetuneRecipe
from acclimate.races.budget import BUSY
from acclimate.races.contestants import Entries
from acclimate.races.cost import Stage, estimate_of_jobs, notes_on
from acclimate.races.design import Design, Search, entries_of, in_common
from acclimate.races.estimates import shares_run, tuning_of
from acclimate.races.outcome import encoder_to_train, path_of, read_outcome
from acclimate.races.recipe import RaceRecipe
from acclimate.races.rounds import as_raced, in_order, lengths_of
from acclimate.races.rounds import notes_on as notes_on_budget
from acclimate.races.search import foreseen_of, left_among, left_of
from acclimate.reports.page import Section, page
from acclimate.reports.table import ALONE, UNTOUCHED
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.text.corpus import Corpus

PROBES = "probes"  # their line in the plan
UNCERTAIN = 0.3  # of the time: benchmarks/reports/2026-11-23-forecast.md
MANY_ROWS = 50_000  # of training, from which on a race says beforehand how long it takes
LONG = 3_600.0  # seconds from which on it names a way to shorten it
REFIT = "on the usual split"  # line of the training whose checkpoint a race by cross-validation hands over


@dataclass(frozen=True)
class DryRunLine:
    """A line of a dry run.

    trained  rows of the train set
    seeds    0 for what has none
    tunings  fine-tunings that are left, given up or not
    """

    label: str
    trained: int
    seeds: int
    tunings: int
    tokens: float
    flops: float
    seconds: float

    def with_stage(self, stage: Stage) -> DryRunLine:
        """Return the line with one more job in it."""
        return replace(
            self,
            tunings=self.tunings + (stage.kind == "tuning"),
            tokens=self.tokens + stage.tokens,
            flops=self.flops + stage.flops,
            seconds=self.seconds + stage.seconds,
        )


@dataclass(frozen=True)
class DryRun:
    """What is left of a study. done, left: numbers of jobs; memory, disk: bytes.

    busy     how many times as long everything takes now as on the machine when idle, at least 1
    least    seconds until all is done if each fine-tuning stops as soon as its patience allows; most: if none stops
             early
    workers  of this machine, that share the jobs; each line has the seconds of one of them
    longest  seconds of the longest chain of jobs that need one another
    """

    design: Design
    lines: tuple[DryRunLine, ...]
    done: int
    left: int
    memory: float
    disk: float
    notes: tuple[str, ...]
    busy: float = 1.0
    least: float = 0.0
    most: float = 0.0
    workers: int = 1
    longest: float = 0.0

    @property
    def seconds(self) -> float:
        """Time until all is done: that of all lines together, shared by the workers, but no less than the longest."""
        return max(sum(line.seconds for line in self.lines) / self.workers, self.longest)

    @property
    def uncertain(self) -> float:
        """Seconds that the time may be off in either direction: UNCERTAIN of it, more where fine-tunings may stop early
        and on a busy machine.
        """
        stopping = (self.most - self.least) / 4  # a range of four standard deviations
        return math.hypot(UNCERTAIN * self.seconds, stopping, 0.5 * (1 - 1 / self.busy) * self.seconds)

    @property
    def in_short(self) -> str:
        """The time and how far it may be off: `about 12 min, give or take 4 min (when it is idle: 6 min)`."""
        idle = f" (when it is idle: {rough_duration(self.seconds / self.busy)})" if self.busy > BUSY else ""
        return f"about {rough_duration(self.seconds)}, give or take {rough_duration(self.uncertain)}{idle}"

    @property
    def answer(self) -> str:
        """The time in a sentence: one number and how far it may be off."""
        if not self.seconds:
            return "Together 0 s on this machine."
        alone = f" The machine is busy: when idle it would take {rough_duration(self.seconds / self.busy)}."
        return (
            f"Together about {rough_duration(self.seconds)} on this machine"
            f"{f' by {self.workers} workers' if self.workers > 1 else ''}, give or take "
            f"{rough_duration(self.uncertain)}.{alone if self.busy > BUSY else ''}"
        )

    def as_document(self) -> dict[str, Any]:
        """Return what `--json` prints; seconds, bytes, and numbers of jobs."""
        return {
            "title": self.design.title,
            "lines": [asdict(line) for line in self.lines],
            "seconds": self.seconds,
            "uncertain_seconds": self.uncertain,
            "least_seconds": self.least,
            "most_seconds": self.most,
            "workers": self.workers,
            "busy": self.busy,
            "memory": self.memory,
            "disk": self.disk,
            "jobs_left": self.left,
            "jobs_done": self.done,
            "absent": dict(self.design.absent),
            "notes": [*self.notes, *self.design.notes],
        }

    def as_text(self) -> str:
        """Return a table for the terminal, as `reports.page.page` does."""
        rows = []
        for line in self.lines:
            counts = f"{line.trained:,}", str(line.seeds or "-"), str(line.tunings)
            rows.append((line.label, *counts, si(line.tokens), si(line.flops), duration(line.seconds)))
        probed = any(line.label.endswith(PROBES) for line in self.lines)
        columns = ("", "train", "seeds", "tunings", "tokens", "FLOP", "time")
        sentences = [
            f"{self.answer} Memory {self.memory / 1e9:.1f} GB, disk {self.disk / 1e9:.2f} GB; {self.left} jobs are "
            f"left, {self.done} are done. Tunings: fine-tunings that are left, those too that are given up on the way. "
            f"What several lines share stands in the first.",
            *([f"{PROBES}: of each frozen encoder, before fine-tuning; they have no seed."] if probed else []),
            *self.notes,
            *self.design.notes,
            *(f"{name} is left out: {why}" for name, why in self.design.absent.items()),
        ]
        return page(f"{self.design.title}: still to do", [Section("Plan", columns, tuple(rows), tuple(sentences))])


@dataclass(frozen=True)
class _Waiting:
    """A job that is left, the share of it that will be done, and the line of the plan that it counts in."""

    line: str
    job: Job
    share: float
    materials: Materials
    race: RaceRecipe


def dry_run(design: Design, out: Path, *, watch: Watch = unwatched) -> DryRun:
    """Return what `run` would still do in `out`, and its cost. Tries two steps of each kind; writes nothing there."""
    lines: dict[str, DryRunLine] = {}
    waiting: dict[str, _Waiting] = {}
    everything: list[Job] = []
    notes: list[str] = []
    columns = {(cell.model, cell.column) for cell in design.cells}
    several = len(columns) + len({search.column for search in design.searches}) > 1
    models = len({cell.model for cell in design.cells}) > 1

    def line(label: str, task: Prepared, seeds: int) -> None:
        lines.setdefault(label, DryRunLine(label, task.sizes["train"], seeds, 0, 0, 0, 0))

    for searches in in_common(design.searches):
        search = searches[0]
        entries = entries_of(searches)
        if search.budget is not None:
            ordered = in_order(entries)
            notes += notes_on_budget(lengths_of(ordered, out, search.budget, writes=False), ordered, search.budget)
            entries = as_raced(search, out)
        place = f"{search.column}, " if several or search.row else ""
        names = _by_contestant(entries)
        for name in [each.row for each in searches] if search.row else dict.fromkeys(names.values()):
            line(place + name, entries.materials.task, entries.recipe.seeds if entries.fine_tunes else 0)
        if entries.probes:
            line(place + PROBES, entries.materials.task, 0)
        probing = {job.name for of in (entries.probes, entries.probe_tests()) for jobs in of.values() for job in jobs}
        foreseen = foreseen_of(entries, out)
        everything += (job for job, _ in foreseen)
        for job, share, row, materials in _with_rows(left_among(foreseen, out), searches, entries):
            label = place + (PROBES if job.name in probing else row or _contestant_of(job, names))
            waiting.setdefault(job.name, _Waiting(label, job, share, materials, entries.recipe))
    losses = [job for each in design.losses for job in each.jobs]
    everything += losses
    for job in [] if design.cells else missing(losses, out):
        waiting.setdefault(job.name, _Waiting(next(iter(lines)), job, 1.0, entries.materials, entries.recipe))
    for at, cell in enumerate(design.cells):
        label = (cell.column if several else cell.row) + (f", {cell.model}" if models else "")
        line(label, cell.task, len(cell.jobs_by_seed))
        jobs = [*cell.jobs_by_seed.values(), *(losses if not at else [])]
        everything += jobs
        for job in missing(jobs, out):
            waiting.setdefault(job.name, _Waiting(label, job, 1.0, cell.materials, design.race))

    name, refit = _refit(design, out, ended=not waiting)
    if refit:
        line(REFIT, refit[0].materials.task, refit[0].race.seeds)
        waiting |= {each.job.name: each for each in refit}
        everything += (each.job for each in refit)
        notes.append(f"{REFIT[0].upper()}{REFIT[1:]}: training the encoder that is kept, estimated for {name}.")
    with _as_workers_compute() as workers:
        stages, memory, disk, busy = _estimated([*waiting.values()], watch)
    for each, stage in stages:
        lines[each.line] = lines[each.line].with_stage(stage)
    found = tuple(replace(each, label=design.named(each.label)) for each in lines.values())
    done = max(0, len(with_needs(everything)) - len(waiting))
    tunings = [tuning_of(each.job) for each in waiting.values() if each.job.work.trains == "task"]
    least, most, stopping = _ends(stages, tunings, workers)
    beyond = "A rate beyond those listed, which dev may ask for, is not counted."
    further = [beyond] if tunings and _may_extend(design) else []
    notes = [*notes_on([stage for _, stage in stages]), *notes, *stopping, *further]
    return DryRun(
        design=design,
        lines=found,
        done=done,
        left=len(waiting),
        memory=memory * workers,
        disk=disk,
        notes=tuple(notes),
        busy=busy,
        least=least,
        most=most,
        workers=workers,
        longest=_longest([(each.job, stage.seconds) for each, stage in stages]),
    )


def _may_extend(design: Design) -> bool:
    """True if a search may try a rate beyond those listed."""
    searched = [search.entries.recipe.search for search in design.searches if not search.rounds]
    return any(each.extend and each.how == "halving" and len(each.rates) > 1 for each in searched)


def _longest(left: Sequence[tuple[Job, float]]) -> float:
    """Return the seconds of the longest chain of jobs that need one another. left: jobs and their seconds"""
    seconds = {job.name: taken for job, taken in left}
    ends: dict[str, float] = {}
    for job in with_needs([job for job, _ in left]):
        needed = [ends[each.name] for each in job.needs.values()]
        ends[job.name] = seconds.get(job.name, 0.0) + max(needed, default=0.0)
    return max(ends.values(), default=0.0)


@contextmanager
def _as_workers_compute() -> Iterator[int]:
    """Within the block PyTorch has the threads of one worker of this machine; yield how many workers share the jobs."""
    workers = current_workers()
    if not isinstance(workers, Processes):
        yield 1
        return
    before = torch.get_num_threads()
    limit_threads(workers.threads)
    try:
        yield workers.slots
    finally:
        torch.set_num_threads(before)


def how_long(design: Design, out: Path) -> str:
    """Return in words how long the race takes, "" if it is so short that finding out is not worth the seconds.

    Where the trials fail, it says why: the jobs that fail likewise are named by the race.
    """
    if sum(_rows_left(search.entries, out) for search in design.searches) < MANY_ROWS:
        return ""
    try:
        left = dry_run(design, out)
    except Exception as error:
        return f"not known, because trying its speed failed: {first_line(error)}"
    shorter = ""
    fine_tunes = any(search.entries.fine_tunes for search in design.searches)
    adapts = any({*search.entries.models} - {UNTOUCHED} for search in design.searches)
    if left.seconds > LONG and adapts and not fine_tunes:
        shorter = f'; adapting takes most of it: with contestants=["{BASELINE}"] only the untouched model is probed'
    elif left.seconds > LONG and fine_tunes and not design.race.folds and not design.race.search.draws:
        shorter = "; race --budget 20min would cut it to what fits"
    return f"{left.in_short}, on this machine as it is now{shorter}"


def _rows_left(entries: Entries, out: Path) -> float:
    """Return about how many rows are still to be trained on; of text that is not retrieved yet infinitely many."""
    rows = 0.0
    for job, share in left_of(entries, out):
        stated = job.settings.get("recipe", {})
        if job.work.trains == "task":
            tuning = tuning_of(job)
            steps = finetuning_steps(tuning, entries.materials.task.sizes["train"])
            rows += share * steps * tuning.plan.batch
        elif passes := stated.get("epochs", 0.0):
            rows += passes * len(Corpus(job.places["corpus"])) if "corpus" in job.places else math.inf
        elif "plan" in stated:
            rows += stated["plan"]["steps"] * stated["plan"]["batch"]
    return rows


def _ends(
    stages: Sequence[tuple[_Waiting, Stage]], tunings: Sequence[FinetuneRecipe], workers: int
) -> tuple[float, float, list[str]]:
    """Return the seconds until all is done if each fine-tuning stops as soon as it may, and if none stops early, and a
    sentence that says so; no sentence where none may stop.
    """
    ends = [[(each.job, (getattr(stage, end) or stage).seconds) for each, stage in stages] for end in ("least", "most")]
    least, most = (max(sum(seconds for _, seconds in end) / workers, _longest(end)) for end in ends)
    shares = [shares_run(stated.patience, stated.looks)[1] for stated in tunings if stated.patience]
    if not shares:
        return least, most, []
    note = (
        f"Fine-tunings stop where dev gets no better (finetune.patience). They are counted with {mean(shares):.0%} of "
        "their steps, as measured"
    )
    first, last = rough_duration(least), rough_duration(most)
    if first != last:
        note += f": {first} if each stops as soon as it may, {last} if none stops early"
    return least, most, [f"{note}."]


def _refit(design: Design, out: Path, *, ended: bool) -> tuple[str, list[_Waiting]]:
    """Return the encoder that is trained once more after a cross-validation, and its remaining jobs. If it is unknown,
    take the encoder with the most remaining jobs. ended: True if no job of the folds is left
    """
    if design.refitted is None or not design.searches[0].entries.fine_tunes:
        return "", []
    names = [*design.searches[0].entries.models]
    if ended and (path := path_of(out, design.name)).exists():
        best = encoder_to_train(read_outcome(path).results, design.race.margin)
        names = [best] if best else []
    by_name: dict[str, list[_Waiting]] = {}
    for name in names:
        entries = design.refitted(name).entries
        by_name[name] = [
            _Waiting(REFIT, job, share, entries.materials, entries.recipe)
            for job, share in left_of(entries, out)
            if not job.work.opens_test  # it hands over a checkpoint and is not scored
        ]
    name = max(by_name, key=lambda name: len(by_name[name]), default="")
    return name, by_name.get(name, [])


def _with_rows(
    left: Sequence[tuple[Job, float]], searches: Sequence[Search], entries: Entries
) -> Iterator[tuple[Job, float, str, Materials]]:
    """Yield each job and its share with the row and the materials of the search that it is for, of those that are done
    together.
    """
    rows = {name: search.row or name for search in searches for name in search.entries.models}
    for (job, share), names in zip(left, entries.contestants_of([job for job, _ in left]), strict=True):
        of = [
            (rows[name], materials)
            for name in names
            if (materials := entries.given.get(name))
            and (entries.models[name] or name in entries.contestants_reading(job))
        ]
        yield job, share, *(of or [(searches[0].row, entries.materials)])[0]


def _by_contestant(entries: Entries) -> dict[str, str]:
    """Return name of a job that makes a contestant's model, or of the baseline's job -> contestant.

    Of contestants that share a job the first counts. No job makes a given model: that of the race has the key "", one
    of a contestant's own the contestant's name.
    """
    alone = len(entries.models) == 1 and entries.baseline is None
    keys = {name: model.name if model else name * (name in entries.given) for name, model in entries.models.items()}
    names = {key: ALONE if alone else name for name, key in keys.items()}
    for name, model in entries.models.items():
        for needed in with_needs([job for job in (model, *entries.further.get(name, ())) if job]):
            names.setdefault(needed.name, name)
    if entries.baseline is not None:
        names[entries.baseline.name] = entries.baseline.label
    return names


def _contestant_of(job: Job, names: Mapping[str, str]) -> str:
    """Return the contestant whose model needs the job; the untouched model if none does. names: of `_by_contestant`"""
    chain = [needed.name for needed in reversed(with_needs([job]))]
    return next((names[name] for name in chain if name in names), next(iter(names.values())))


def _estimated(waiting: Sequence[_Waiting], watch: Watch) -> tuple[list[tuple[_Waiting, Stage]], float, float, float]:
    """Return each job with its stage, memory and disk in bytes, and how busy the machine is. Jobs of one model on one
    task are estimated together.
    """
    lots: dict[tuple[Any, ...], list[_Waiting]] = {}
    for each in waiting:
        task = each.job.places.get("task", each.materials.task.path)
        lots.setdefault((task, each.materials.model, id(each.race)), []).append(each)
    stages: list[tuple[_Waiting, Stage]] = []
    memory = disk = 0.0
    busy: list[float] = []
    for (task, *_), lot in lots.items():
        materials = lot[0].materials
        if task != materials.task.path:
            materials = replace(materials, task=open_prepared(task))
        estimate = estimate_of_jobs([(each.job, each.share) for each in lot], lot[0].race, materials, watch=watch)
        busy.append(estimate.busy)
        stages += zip(lot, estimate.stages, strict=True)
        memory, disk = max(memory, estimate.memory), disk + estimate.disk
    return stages, memory, disk, sum(busy) / len(busy) if busy else 1.0
