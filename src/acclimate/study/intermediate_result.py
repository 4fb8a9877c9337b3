"""What a matrix of pairs came to, as values: each cell against B alone, against as many steps on B alone, and groups.

Holm's correction is over all cells of a model's matrix that are compared with B alone, controls included; by itself
over the comparisons with as many steps; by itself over the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from acclimate.study.intermediate_groups import Group, groups_of
from acclimate.study.intermediate_recipe import MORE
from acclimate.study.intermediate_rows import Column, Row
from acclimate.study.significance import LEVEL, Comparison, compare_of, holm
from acclimate.study.wording import listed

NAMED = 9  # pairs at most that a sentence names


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell as it was judged. comparison: with B alone; beside: with as many steps on B alone; each with its p after
    Holm's correction. All None where something failed.
    """

    row: Row
    column: Column
    comparison: Comparison | None = None
    p_holm: float | None = None
    beside: Comparison | None = None
    beside_p_holm: float | None = None

    @property
    def is_control(self) -> bool:
        return self.column.same or self.column.name == MORE

    @property
    def why(self) -> str:
        """Why nothing is compared; "" where it is."""
        if self.comparison is not None:
            return ""
        ran = self.column.ran
        return f"{ran.name}, {ran.failed}" if ran.failed else f"{self.row.name} alone, {self.row.baseline.failed}"

    @property
    def established(self) -> bool:
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def said(self) -> str:
        """What the corrected test against B alone bears out, in a word or two."""
        if self.comparison is None:
            return "failed"
        if not self.established:
            return "not established"
        return "better" if self.comparison.difference > 0 else "worse"


@dataclass(frozen=True, eq=False)
class Matrix:
    """A model's cells, row by row, and groups."""

    model: str
    seeds: int
    rows: tuple[Row, ...]
    cells: Mapping[tuple[str, str], Cell]  # (target, column)
    groups: tuple[Group, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """First tasks in the order of the rows; the control of more steps last, where it was run."""
        there = dict.fromkeys(column.name for row in self.rows for column in row.columns)
        return (*(row.name for row in self.rows if row.name in there), *((MORE,) if MORE in there else ()))

    @property
    def largest(self) -> float:
        """The largest difference of a cell, either way; of an empty matrix 0."""
        return max((abs(own.comparison.difference) for own in self.cells.values() if own.comparison), default=0.0)

    def verdict(self) -> str:
        """What is established of pairs, controls aside, in a sentence."""
        pairs = [cell for cell in self.cells.values() if not cell.is_control and cell.comparison]
        ends = {"better": "score higher than", "worse": "score lower than"}
        told = []
        for said, words in ends.items():
            names = [f"{cell.column.name} → {cell.row.name}" for cell in pairs if cell.said == said]
            if names:
                which = f": {listed(names)}" if len(names) <= NAMED else ""
                told.append(f"{len(names)} of {len(pairs)} pairs {words} the target alone{which}")
        if not told:
            return f"{self.model}: of {len(pairs)} pairs none is established to differ from the target alone."
        rest = "" if sum(cell.established for cell in pairs) == len(pairs) else " The rest may be chance."
        return f"{self.model}: {'; '.join(told)}.{rest}"

    def controls(self) -> str:
        """How many of the gains stand against as many steps, and what the controls themselves came to."""
        told = []
        gains = [cell for cell in self.cells.values() if cell.said == "better" and not cell.is_control]
        if gains and (compared := [cell for cell in gains if cell.beside_p_holm is not None]):
            stand = [cell for cell in compared if (cell.beside_p_holm or 0) < LEVEL and cell.beside]
            stand = [cell for cell in stand if cell.beside and cell.beside.difference > 0]
            told.append(
                f"Of {len(compared)} established gains {len(stand)} stand against as many steps on the target alone."
            )
        for name, own in (
            ("the same task twice", [cell for cell in self.cells.values() if cell.column.same and cell.comparison]),
            (MORE, [cell for cell in self.cells.values() if cell.column.name == MORE and cell.comparison]),
        ):
            if own:
                above = sum(cell.comparison.difference > 0 for cell in own if cell.comparison)
                clear = sum(cell.established for cell in own)
                told.append(f"Control, {name}: above the target alone in {above} of {len(own)}, {clear} established.")
        return " ".join(told)

    def findings(self) -> str:
        """What is established of groups, in a sentence."""
        clear = [group.clause for group in self.groups if group.established]
        if not self.groups:
            return "No group of pairs could be compared."
        if not clear:
            return f"Of {len(self.groups)} groups of pairs no mean difference is established: all may be chance."
        rest = "" if len(clear) == len(self.groups) else " Of the other groups nothing is established."
        return f"Established of groups: {'; '.join(clear)}.{rest}"


@dataclass(frozen=True, eq=False)
class Tables:
    """All models. leaks: what became of leaking rows, "drop" or "keep"; absent: dataset -> why it is not there."""

    split: str
    leaks: str
    matrices: tuple[Matrix, ...]
    absent: Mapping[str, str]


def matrix_of(model: str, seeds: int, rows: Sequence[Row]) -> Matrix:
    """The rows with every cell judged."""
    cells = [_compared(row, column) for row in rows for column in row.columns]
    holms = _corrected([cell.comparison for cell in cells]), _corrected([cell.beside for cell in cells])
    cells = [replace(cell, p_holm=p, beside_p_holm=beside) for cell, p, beside in zip(cells, *holms, strict=True)]
    groups = groups_of(rows)
    corrected_p = holm([group.comparison.p for group in groups])
    judged = tuple(replace(group, p_holm=p) for group, p in zip(groups, corrected_p, strict=True))
    return Matrix(model, seeds, tuple(rows), {(cell.row.name, cell.column.name): cell for cell in cells}, judged)


def _corrected(comparisons: Sequence[Comparison | None]) -> list[float | None]:
    """In step, Holm's correction over those that there are."""
    corrected = iter(holm([own.p for own in comparisons if own]))
    return [next(corrected) if own else None for own in comparisons]


def _compared(row: Row, column: Column) -> Cell:
    own, alone = column.ran.drawn, row.baseline.drawn
    if own is None or alone is None:
        return Cell(row, column)
    control = column.control.drawn if column.control else None
    beside = compare_of(own, control) if control else None
    return Cell(row, column, compare_of(own, alone), beside=beside)
