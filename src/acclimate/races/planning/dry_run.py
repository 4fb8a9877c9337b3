"""A dry run: which jobs of a study or race are still to do, and how long they take by forecast. It writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from acclimate.core.figures import duration, rough_duration, si
from acclimate.core.types import Cost, Watch, unwatched
from acclimate.jobs.job import Job, missing, with_needs
from acclimate.jobs.where import current_workers
from acclimate.jobs.workers import Processes, limit_threads
from acclimate.races.contestants import Entries, tested
from acclimate.races.design import Design, Search, entries_of, group_searches
from acclimate.races.planning.forecast import Forecasts, costs_of
from acclimate.races.rounds import as_raced, lengths_of, lengths_without_limit, notes_on, order_contestants
from acclimate.races.search import candidates_of, dev_scores
from acclimate.reports.page import Section, page
from acclimate.reports.table import ALONE

LOSSES = "losses on held-out text"
COUNTED = {"encoder": "adaptations", "task": "fine_tunings"}  # work.trains -> the column that counts it


@dataclass(frozen=True)
class DryRunLine:
    """What is left of a contestant or dataset. adaptations, fine_tunings, others: numbers of jobs"""

    label: str
    adaptations: int = 0
    fine_tunings: int = 0
    others: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def with_job(self, job: Job, cost: Cost) -> DryRunLine:
        """Return the line with one more job in it."""
        column = COUNTED.get(job.work.trains, "others")
        counted: dict[str, Any] = {column: getattr(self, column) + 1}
        trained = cost.flops if job.work.trains else 0.0
        return replace(self, **counted, flops=self.flops + trained, seconds=self.seconds + cost.seconds)


@dataclass(frozen=True)
class DryRun:
    """What is left of a study. jobs_done, jobs_left: their numbers; workers: of this machine, that share the jobs"""

    design: Design
    lines: tuple[DryRunLine, ...]
    jobs_done: int
    jobs_left: int
    notes: tuple[str, ...]
    workers: int = 1

    @property
    def seconds(self) -> float:
        """Time until all is done, if no fine-tuning stops early or is done once more."""
        return sum(line.seconds for line in self.lines) / self.workers

    @property
    def answer(self) -> str:
        """The forecast in a sentence."""
        jobs = f"{self.jobs_left} jobs are left, {self.jobs_done} are done"
        if not self.jobs_left:
            return f"The run is complete: {jobs}."
        by = f" by {self.workers} workers" if self.workers > 1 else ""
        return f"About {rough_duration(self.seconds)} on this machine as it is now{by}; {jobs}."

    def as_document(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "title": self.design.title,
            "lines": [asdict(line) for line in self.lines],
            "seconds": self.seconds,
            "workers": self.workers,
            "jobs_left": self.jobs_left,
            "jobs_done": self.jobs_done,
            "absent": dict(self.design.absent),
            "notes": [*self.notes, *self.design.notes],
        }

    def as_text(self) -> str:
        """Return a table for the terminal, as `reports.page.page` does."""
        rows = tuple(
            (
                line.label,
                *(str(number or "-") for number in (line.adaptations, line.fine_tunings, line.others)),
                si(line.flops, "FLOP") if line.flops else "-",
                duration(line.seconds),
            )
            for line in self.lines
        )
        columns = ("", "adaptations", "fine-tunings", "other jobs", "training", "time")
        absent = (f"{name} is skipped: {why}" for name, why in self.design.absent.items())
        sentences = (self.answer, *self.notes, *self.design.notes, *absent)
        return page(f"{self.design.title}: still to do", [Section("Plan", columns, rows, sentences)])


def dry_run(design: Design, out: Path, *, watch: Watch = unwatched) -> DryRun:
    """Return what `run` would still do in `out`, and how long that takes. Of a model whose speed is not known here, a
    few steps are tried.
    """
    lines: dict[str, DryRunLine] = {}
    counted: set[str] = set()
    everything: list[Job] = []
    notes: list[str] = []
    columns = {*(cell.column for cell in design.cells), *(search.column for search in design.searches)}
    several = len(columns) > 1
    models = len({cell.model for cell in design.cells}) > 1

    forecasts: list[Forecasts] = []  # made once the first job is to be counted

    def count(entries: Entries, jobs: list[Job], labels: list[str]) -> None:
        """Count each job in the line of its label, once in all lines."""
        new = [(job, label) for job, label in zip(jobs, labels, strict=True) if job.name not in counted]
        if new and not forecasts:
            forecasts.append(Forecasts(watch))
        costs = costs_of(entries, [job for job, _ in new], forecasts=forecasts[0]) if new else []
        for (job, label), cost in zip(new, costs, strict=True):
            lines[label] = lines[label].with_job(job, cost)
            counted.add(job.name)

    with _as_workers_compute() as workers:
        for searches in group_searches(design.searches):
            search, entries = searches[0], entries_of(searches)
            if search.budget is not None:
                ordered = order_contestants(entries)
                lengths = lengths_of(ordered, out, search.budget, records=False)
                notes += notes_on(lengths, ordered, search.budget)
            elif search.rounds and (earlier_lengths := lengths_without_limit(entries, out)) is not None:
                notes += notes_on(earlier_lengths, entries, None)
            if search.rounds:
                entries = as_raced(search, out)
            foreseen = foreseen_jobs(entries, out)
            everything += foreseen
            place = f"{search.column}, " if several or search.row else ""
            jobs = missing(foreseen, out)
            for name in _rows(searches, entries).values():
                lines.setdefault(place + name, DryRunLine(place + name))
            labels = _labels(searches, entries, jobs)
            count(entries, jobs, [place + label for label in labels])
        for cell in design.cells:
            label = (cell.column if several else cell.row) + (f", {cell.model}" if models else "")
            everything += cell.jobs
            jobs = missing(cell.jobs, out)
            entries = Entries(design.race, cell.materials, None, {}, {}, {}, {}, None)
            lines.setdefault(label, DryRunLine(label))
            count(entries, jobs, [label] * len(jobs))
        losses = [job for column in design.losses for job in column.jobs]
        everything += losses
        if jobs := [job for job in missing(losses, out) if job.name not in counted]:
            lines[LOSSES] = DryRunLine(LOSSES)
            count(entries, jobs, [LOSSES] * len(jobs))
    if design.refitted is not None and any(search.entries.fine_tunes for search in design.searches):
        notes.append("The estimate excludes the final training of the best encoder on the usual split.")
    return DryRun(
        design=design,
        lines=tuple(replace(line, label=design.named(line.label)) for line in lines.values()),
        jobs_done=max(0, len(with_needs(everything)) - len(counted)),
        jobs_left=len(counted),
        notes=tuple(notes),
        workers=workers,
    )


def foreseen_jobs(entries: Entries, run: Path) -> list[Job]:
    """Return every job of a race in the directory `run`. Until all settings are tried, the number of jobs is right, and
    which setting the later seeds have is a guess.
    """
    task, candidates = entries.materials.task, candidates_of(entries)
    chosen = dev_scores(entries, run, {}).best(candidates)
    numbers = range(len(entries.seeds))
    tunings = [
        entries.tuning(candidate.contestant, candidate.setting, number)
        for number in numbers
        for candidate in (chosen if number else candidates)
    ]
    tuned = (entries.tuning(one.contestant, one.setting, number) for one in chosen for number in numbers)
    tests = [*(tested(job, task) for job in tuned), *entries.untuned_tests.values()]
    tests += [job for jobs in entries.probe_tests().values() for job in jobs]
    return [*entries.prepared(), *tunings, *tests]


def _labels(searches: tuple[Search, ...], entries: Entries, jobs: list[Job]) -> list[str]:
    """Return of each job the contestant whose line it counts in: the first of those that it is for."""
    rows, baseline = _rows(searches, entries), entries.baseline
    labels = []
    for job, names in zip(jobs, entries.contestants_of(jobs), strict=True):
        fits = baseline is not None and baseline.name in {needed.name for needed in with_needs([job])}
        labels.append(rows[baseline.label if baseline is not None and fits else names[0]])
    return labels


def _rows(searches: tuple[Search, ...], entries: Entries) -> dict[str, str]:
    """Return contestant -> its line, in the order of the plan, the baseline last."""
    called = {name: search.row for search in searches for name in search.entries.models if search.row}
    rows = {name: called.get(name, name) for name in entries.models}
    if entries.baseline is not None:
        return {**rows, entries.baseline.label: entries.baseline.label}
    return dict.fromkeys(rows, ALONE) if len(rows) == 1 and not entries.untuned and not searches[0].row else rows


@contextmanager
def _as_workers_compute() -> Iterator[int]:
    """Within the block PyTorch has the threads of one worker of this machine; yield how many workers share the jobs."""
    workers = current_workers()
    if not isinstance(workers, Processes):
        yield 1
        return
    torch = sys.modules.get("torch")  # if it is loaded later, its threads are those that the environment states
    before = torch.get_num_threads() if torch is not None else 0
    limit_threads(workers.threads)
    try:
        yield workers.slots
    finally:
        if torch is not None:
            torch.set_num_threads(before)
