"""What contestants forgot at equal domain loss: the paths of both losses on held-out text while models adapt.

A contestant that adapts further forgets more. So its loss on general text is compared with another's where both have
the same loss on text of the domain, between looks by straight lines (training/looks.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from acclimate.core import files
from acclimate.core.figures import listed
from acclimate.core.types import HELDOUT_LOOKS, HELDOUT_SEGMENTS, SUB_WORDS
from acclimate.reports.page import Section

TITLE = "General loss at equal domain loss"
LEAD = (
    "Each line is the path of a contestant from the untouched model: adapting lowers its loss on text of the domain "
    "(to the right) and as a rule raises that on general text (upwards). Of two contestants at the same domain loss, "
    "the lower one forgot less."
)


@dataclass(frozen=True, slots=True)
class Look:
    """Losses on held-out text after a step of adapting, nats a masked sub-word."""

    step: int
    domain: float
    general: float


@dataclass(frozen=True)
class LossPaths:
    """The paths of contestants that start from one model. name: ", TASK" in a study of several tasks; "" elsewhere

    by_row       row -> its looks, by step
    adaptations  number of adaptations that the losses are means over
    masks        SUB_WORDS if sub-words are masked; "" if whole words are
    """

    name: str
    by_row: Mapping[str, Sequence[Look]]
    adaptations: int = 1
    masks: str = ""

    @property
    def title(self) -> str:
        """The heading of their table and drawing."""
        return f"{TITLE}{self.name}{self.masks}"


def read_path(directory: Path) -> list[tuple[int, dict[str, float]]]:
    """Return (step, {text: loss}) of the looks of the run in a directory, by step; [] if it did not look, or if its
    model had no language modelling head, so that its losses say nothing of what was forgotten.
    """
    if not (directory / HELDOUT_LOOKS).exists():
        return []
    record: Any = files.read_record(directory / HELDOUT_LOOKS)
    return [(step, losses) for step, losses in record["looks"]] if record["head"] else []


def paths_of(name: str, by_row: Mapping[str, Sequence[Sequence[Path]]]) -> tuple[LossPaths, ...]:
    """Return the paths of the rows that looked, with whole words masked and, if they looked at these too, sub-words.

    by_row: row -> the directories of its adaptations, as `path_of` takes them
    """
    loss_paths = []
    for masks in ("", SUB_WORDS):
        paths = {row: path for row, adaptations in by_row.items() if (path := path_of(adaptations, masks))}
        if paths:
            loss_paths.append(LossPaths(name, paths, max(len(by_row[row]) for row in paths), masks))
    return tuple(loss_paths)


def path_of(adaptations: Sequence[Sequence[Path]], masks: str = "") -> tuple[Look, ...]:
    """Return the looks of a contestant, means over its adaptations; () if it did not look, or not at both texts.

    adaptations  of each the directories of its runs, in their order; steps of the next run count on
    masks        as of `LossPaths`
    """
    paths = [_joined(directories, masks) for directories in adaptations]
    steps = {tuple(look.step for look in path) for path in paths}
    if len(steps) != 1 or not paths[0]:
        return ()
    return tuple(
        Look(at[0].step, fmean(look.domain for look in at), fmean(look.general for look in at))
        for at in zip(*paths, strict=True)
    )


def _joined(directories: Sequence[Path], masks: str) -> list[Look]:
    domain, general = f"domain{masks}", f"general{masks}"
    path: list[Look] = []
    for directory in directories:
        looks = read_path(directory)
        if not looks or any({domain, general} - losses.keys() for _, losses in looks):
            return []
        before = path[-1].step if path else 0
        # the first look of a later run is at the model that the run before it ended with
        path += [Look(before + step, losses[domain], losses[general]) for step, losses in looks[1 if path else 0 :]]
    return path


def general_at(path: Sequence[Look], domain: float) -> float | None:
    """Return the general loss where the path first falls to a domain loss, linear between looks; None if it never does
    or starts below.
    """
    if path and path[0].domain == domain:
        return path[0].general
    for before, after in pairwise(path):
        if before.domain > domain >= after.domain:
            share = (before.domain - domain) / (before.domain - after.domain)
            return before.general + share * (after.general - before.general)
    return None


def lowest(path: Sequence[Look]) -> Look:
    """Return the look with the lowest domain loss, the first of equals."""
    return min(path, key=lambda look: look.domain)


def equal_domain_loss(by_row: Mapping[str, Sequence[Look]]) -> tuple[float, dict[str, float]] | None:
    """Return the lowest domain loss that all contestants reach which lower it, and row -> general loss there, the
    lowest first; None if fewer than two lower it.
    """
    learning = {row: path for row, path in by_row.items() if lowest(path).domain < path[0].domain}
    if len(learning) < 2:
        return None
    level = max(lowest(path).domain for path in learning.values())
    losses = {row: general for row, path in learning.items() if (general := general_at(path, level)) is not None}
    return level, dict(sorted(losses.items(), key=lambda row_loss: row_loss[1]))


def sentence(paths: LossPaths) -> str:
    """Return a sentence that compares what contestants forgot at equal domain loss."""
    comparison = equal_domain_loss(paths.by_row)
    if comparison is None:
        return "Fewer than two contestants lowered the domain loss, so none are compared at equal domain loss."
    level, general = comparison
    before = next(iter(paths.by_row.values()))[0].general
    of_each = listed([f"{row} {loss:.3f} ({loss - before:+.3f})" for row, loss in general.items()])
    drawn = f"means over {paths.adaptations} adaptations" if paths.adaptations > 1 else "one adaptation of each"
    return (
        f"At a domain loss of {level:.3f}, the lowest that all who lower it reach, the general loss is: {of_each}; in "
        f"brackets the difference from the untouched model. Between looks it is interpolated. These are {drawn}, "
        f"without an interval."
    )


def section(paths: LossPaths) -> Section:
    """Return the table of paths: a line for each contestant, and its general loss where the domain loss is that of
    each other contestant at its lowest.
    """
    rows = []
    names = list(paths.by_row)
    for row, path in paths.by_row.items():
        best = lowest(path)
        others = [general_at(paths.by_row[other], best.domain) for other in names]
        cells = ["-" if loss is None else f"{loss:.3f}" for loss in others]
        rows.append((row, f"{len(path):,}", f"{best.domain:.3f}", f"{best.step:,}", *cells))
    columns = ("At the lowest domain loss of", "Looks", "Domain loss", "Step", *(f"general, {name}" for name in names))
    lines = (
        sentence(paths),
        "A line is at the lowest domain loss of its contestant, with the general loss of each contestant where it "
        f"first falls to that; - : it does not. Masks are of {'sub-words' if paths.masks else 'whole words'}; a look "
        f"reads at most {HELDOUT_SEGMENTS} segments of each text.",
    )
    return Section(paths.title, columns, tuple(rows), lines, lead=LEAD)
