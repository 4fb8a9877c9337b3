"""The page of a run while it lasts: what is done, what runs, the time left, and how the scores on dev rise.

It has the place and the order of the page of the finished run: the answer so far, the plot, the table, then the rest.
It reloads itself until that page replaces it.
"""

from __future__ import annotations

import contextlib
import html
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from acclimate.core import files, ranks
from acclimate.core.figures import duration, points
from acclimate.core.types import DEV_SCORES, Progress, Watch
from acclimate.jobs.job import DIRECTORY, PlannedJob, studies_in
from acclimate.jobs.status import JobStatus, Status, status_of
from acclimate.reports.differences import CONTESTANTS, Difference, difference_plot
from acclimate.reports.page import Drawing, Fact, Page, Section, TableCell, amount
from acclimate.reports.table import UNTOUCHED
from acclimate.statistics.significance import FEWEST_SEEDS

SCORED = ("fits", "rounds")  # units of the stages whose notes tell scores
EVERY = 30.0  # seconds after which the page is written anew though no job has ended
SOONEST = 2.0  # seconds between two looks at what has ended
SHARE = 0.005  # of the run's time that writing may take; two pages stand at least so far apart
LINES = 6  # fine-tunings whose curve is drawn, those that were looked at last: one for each colour
WIDE, HIGH, EDGE, LINE = 720, 220, 34, 20  # of the drawing and of a line of its legend, in its own units
SCORES = "How do the scores on dev rise?"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito (2008), for all eyes


@contextlib.contextmanager
def live_page(
    title: str, run: Path, path: Path, watch: Watch, *, seconds_left: Callable[[], float] | None = None
) -> Iterator[Watch]:
    """Yield a watch that also keeps the page at `path` up to date; at the end of the block it no longer reloads.

    seconds_left: the seconds until the run ends, if that is known; else they are estimated from finished jobs

    The first page is written when a job reports its first step, so a run with nothing to do, or one that is refused,
    leaves an earlier page as it is. An error while the page is written never ends the run: the first one is reported to
    `watch` once, and the page is tried again after EVERY seconds.
    """
    if not ranks.is_first():
        yield watch
        return
    page = _Live(title, run, path, watch, seconds_left)
    try:
        yield page.watch
    except BaseException as error:
        page.end(f"The run has stopped: {type(error).__name__}. Finished work is kept. Repeat the command to continue.")
        raise
    page.end("All jobs are done. The page of the results follows.")


@dataclass
class _Live:
    """The page, and when it was last written, or tried in vain.

    ended   number of jobs that had ended then
    answer  what scores were told so far, a line each
    rounds  complete round -> contestant -> its score on test
    fails   True if the last page could not be written; warned: True if that was ever reported
    """

    title: str
    run: Path
    path: Path
    outlet: Watch
    seconds_left: Callable[[], float] | None = None
    answer: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, Mapping[str, float]] = field(default_factory=dict)
    begun: float = field(default_factory=time.time)
    looked: float = 0.0
    written: float = 0.0
    write_seconds: float = 0.0
    ended: int = -1
    fails: bool = False
    warned: bool = False

    def watch(self, progress: Progress) -> None:
        """Pass the progress on; write the page if a job has ended since it was written, or if it is EVERY s old."""
        self.outlet(progress)
        if progress.unit in SCORED and "note" in progress.values:
            self.answer[progress.stage] = str(progress.values["note"])
        if "scores" in progress.values:
            self.rounds[progress.stage] = progress.values["scores"]
        now = time.monotonic()
        reports = progress.total and "note" not in progress.values
        if not reports or now - self.looked < max(SOONEST, self.write_seconds / SHARE, EVERY if self.fails else 0.0):
            return
        self.looked = now
        if self.fails or now - self.written >= EVERY or self._ended() != self.ended:
            self.write()

    def _ended(self) -> int:
        return sum(1 for _ in (self.run / DIRECTORY).glob("*/result.json"))

    def write(self, stopped: str = "") -> None:
        """Write the page. stopped: why it does not reload; "": the run goes on"""
        begun = time.monotonic()
        try:
            self.ended = self._ended()
            seconds = None if self.seconds_left is None else max(0.0, self.seconds_left())
            lines = tuple(f"{stage}: {note}." for stage, note in self.answer.items())
            page = progress_page(
                self.title,
                self.run,
                begun=self.begun,
                stopped=stopped,
                seconds_left=seconds,
                answer=lines,
                rounds=[*self.rounds.values()],
            )
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = files.temporary_path(self.path)
            try:
                temporary.write_text(page.as_html(), encoding="utf-8")
                os.replace(temporary, self.path)  # not flushed: the next page is half a minute away
            finally:
                temporary.unlink(missing_ok=True)
            self.fails = False
        except Exception as error:
            self.fails = True
            if not self.warned:
                self.warned = True
                self.outlet(Progress("page", 0, 0, "steps", {"note": f"{self.path} cannot be written now: {error}"}))
        self.looked = self.written = time.monotonic()
        self.write_seconds = self.written - begun

    def end(self, stopped: str) -> None:
        """Write the page for the last time, without what reloads it."""
        if self.written:
            self.write(stopped)


def progress_page(
    title: str,
    run: Path,
    *,
    begun: float,
    stopped: str = "",
    seconds_left: float | None = None,
    answer: Sequence[str] = (),
    rounds: Sequence[Mapping[str, float]] = (),
) -> Page:
    """Return the page of the run in `run` as it is now. begun: when this session began, seconds since the epoch

    stopped  why it does not reload; "": the run continues
    seconds_left   seconds until it ends; None: that depends on its jobs
    answer   the scores so far, in sentences
    rounds   of each complete round: contestant -> its score on test
    """
    try:
        studies_in(run)
    except ValueError:  # nothing is planned yet
        status = Status((), None, 1)
    else:
        status = status_of(run)
    count, every = len(status.jobs_in("done")), len(status.standings)
    time_left = "time left: unknown until a job of each kind has ended"
    if seconds_left is not None:
        time_left = f"the race ends in {duration(seconds_left)} at the latest"
    elif status.seconds_left is not None:
        time_left = f"about {duration(status.seconds_left)} left for these"
    lines = [stopped or f"Running: {count} of the {amount(every, 'job')} planned so far are done; {time_left}."]
    now = time.time()
    facts: dict[str, Fact] = {
        "written": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)),
        "this session": duration(now - begun),
        "done": count,
        "running": len(status.jobs_in("running")),
        "waiting": len(status.jobs_in("waiting")),
        "failed": len(status.jobs_in("failed")),
    }
    sections: list[Section] = []
    figures: dict[str, list[Drawing]] = {}
    names = [name for name in rounds[0] if all(name in scores for scores in rounds)] if rounds else []
    means = {name: fmean(scores[name] for scores in rounds) for name in names}
    if len(means) > 1:
        best, after = max(means, key=lambda name: means[name]), f"after {amount(len(rounds), 'round')}"
        impression = "First impression" if len(rounds) < FEWEST_SEEDS else "So far"
        called = "the untouched model" if best == UNTOUCHED else best
        so_far = f"{impression} {after}: {called} has the highest score, {points(means[best])} points."
        lines = [*lines, so_far] if stopped else [so_far, *lines]
        rivals = [name for name in means if UNTOUCHED in means and name != UNTOUCHED]
        changes = {name: Difference(name, means[name] - means[UNTOUCHED]) for name in rivals}
        if changes:
            plot = difference_plot(sorted(changes.values(), key=lambda change: -change.value))
            lead = "Points on test; the untouched model is at 0. Differences may be chance."
            figures[CONTESTANTS] = [Drawing("Difference to the untouched model", plot, wide=True, lead=lead)]
        rows = tuple((name, TableCell(points(mean), mean), str(changes.get(name, "-"))) for name, mean in means.items())
        caption = f"Points on test, means {after}."
        sections.append(
            Section(CONTESTANTS, ("model", "score", "difference"), rows, (caption,), look="summary", id="contestants")
        )
    if curves := _curves(run, [one.job for one in status.standings if one.state in ("done", "running")]):
        lead = "Score on dev at each evaluation so far, of the latest fine-tunings."
        sections.append(Section(SCORES, lead=lead, fold="closed" if figures else ""))
        figures[SCORES] = [Drawing("Score on dev by step", _drawn(curves), wide=True)]
    tables = (
        _section("What runs now?", status.jobs_in("running"), "Jobs that run now, their progress and their time."),
        _section("What failed, and why?", status.jobs_in("failed"), "Repeat the command to retry these jobs."),
        _section("What is done?", [*reversed(status.jobs_in("done"))], "Finished jobs, the latest first.", "closed"),
        _section(
            "What is still to do?", status.jobs_in("waiting"), "Planned so far; a race plans more later.", "closed"
        ),
    )
    sections += [table for table in tables if table.rows]
    if not sections:
        sections = [Section("What runs now?", lines=("The run prepares its first job.",))]
    sections.append(Section("How far is the run?", facts=facts, fold="closed"))
    verdict, *lead_lines = lines
    return Page(
        title, verdict, sections, lead=[*lead_lines, *answer], figures=figures, reloads=0 if stopped else round(EVERY)
    )


def _section(title: str, jobs: list[JobStatus], line: str, fold: Literal["", "closed", "open"] = "") -> Section:
    rows = tuple(
        (job.label, TableCell(duration(job.seconds) if job.seconds else "-", job.seconds), job.detail or "-")
        for job in jobs
    )
    return Section(title, ("Job", "Time", "Note"), rows, (line,), fold=fold)


def _curves(run: Path, jobs: list[PlannedJob]) -> dict[str, list[tuple[float, float]]]:
    """Return label -> (step, score on dev) points, of the LINES fine-tunings that were looked at last."""
    curves: list[tuple[float, str, list[tuple[float, float]]]] = []
    for job in jobs:
        place = run / DIRECTORY / job.name / DEV_SCORES
        if place.exists():
            points = [(float(step), float(score)) for step, score in files.read_record(place)]
            curves.append((place.stat().st_mtime, job.label, points))
    return {label: points for _, label, points in sorted(curves)[-LINES:] if points}


def _drawn(curves: dict[str, list[tuple[float, float]]]) -> str:
    """Return the curves as SVG, drawn without matplotlib, which takes longer than all else of the page."""
    steps = [step for curve in curves.values() for step, _ in curve]
    scores = [score for curve in curves.values() for _, score in curve]
    last, low, high = max(steps), min(scores), max(scores)
    room = (high - low) or 0.1

    def place(step: float, score: float) -> tuple[float, float]:
        across = EDGE + (WIDE - 2 * EDGE) * step / last
        return across, HIGH - EDGE - (HIGH - 2 * EDGE) * (score - low) / room

    parts = []
    for number, ((label, curve), colour) in enumerate(zip(curves.items(), COLOURS, strict=False)):
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
        end_x, end_y = place(*curve[-1])
        parts.append(
            f'<g><title>{html.escape(label)}</title><polyline points="{where}" fill="none" stroke="{colour}" '
            f'stroke-width="1.8"/><circle cx="{end_x:.1f}" cy="{end_y:.1f}" r="3" fill="{colour}"/></g>'
            f'<circle cx="{EDGE + 5}" cy="{HIGH + LINE * (number + 0.6):g}" r="5" fill="{colour}"/>'
            f'<text x="{EDGE + 18}" y="{HIGH + LINE * (number + 0.8):g}">{html.escape(label)}</text>'
        )
    axis = HIGH - EDGE
    words = (
        f'<text x="4" y="{EDGE - 8}">{100 * high:.1f}</text><text x="4" y="{axis}">{100 * low:.1f}</text>'
        f'<text x="{EDGE}" y="{HIGH - 10}">step 0</text>'
        f'<text x="{WIDE - EDGE}" y="{HIGH - 10}" text-anchor="end">step {last:,.0f}</text>'
    )
    name = f"Score on dev by step of {amount(len(curves), 'fine-tuning')}"
    return (
        f'<svg class="plot" role="img" aria-label="{name}" viewBox="0 0 {WIDE} {HIGH + LINE * (len(curves) + 1)}" '
        f'style="min-width:36rem;max-width:48rem" font-size="12" fill="currentColor">'
        f'<path d="M{EDGE} {EDGE}V{axis}H{WIDE - EDGE}" fill="none" stroke="currentColor" '
        f'stroke-opacity=".4"/>{words}{"".join(parts)}</svg>'
    )
