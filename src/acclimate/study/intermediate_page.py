"""A matrix of pairs as text and as a page: rows are targets, columns first tasks, as in the paper's tables.

Scores and differences are in points (the metric times 100).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from acclimate.core import files
from acclimate.study.intermediate_recipe import MORE
from acclimate.study.intermediate_result import NAMED, Cell, Matrix, Tables
from acclimate.study.intermediate_sheet import as_csv, records
from acclimate.study.outcome import UNTAUGHT
from acclimate.study.report import VISIBLE, environment
from acclimate.study.typeset import Section, page
from acclimate.study.wording import (
    cautioned,
    difference_text,
    duration,
    interval_text,
    listed,
    metric_text,
    p_text,
    points,
    si,
)

TITLE = "Intermediate tasks"
SOURCE = (
    "After Jeong and Hwang, Empirical Study on Intermediate Fine-tuning for Biomedical Domain Tasks, Tables 2 and 3."
)
ACROSS = 9  # columns of a part of the matrix, in text
SAME = "the same task twice"
BESIDE = ("from as many steps", "p (Holm) there")


def sections(tables: Tables) -> list[Section]:
    """Of the text, and of the page below its matrices."""
    made = []
    for matrix in tables.matrices:
        made += [*matrix_sections(matrix, tables), groups_section(matrix), cells_section(matrix, tables)]
        made.append(seeds_section(matrix))
    return [*made, data_section(tables)]


def as_text(tables: Tables) -> str:
    """As stilt.txt has it, at most 110 columns wide."""
    return page(heading(tables), sections(tables))


def heading(tables: Tables) -> str:
    return f"{TITLE}: {', '.join(matrix.model for matrix in tables.matrices)}"


def matrix_sections(matrix: Matrix, tables: Tables) -> Iterator[Section]:
    """The differences from the target alone, in parts of so many columns."""
    numbers = {row.name: str(place) for place, row in enumerate(matrix.rows, 1)}
    columns = matrix.columns
    parts = [columns[at : at + ACROSS] for at in range(0, len(columns), ACROSS)]
    for part in parts:
        rows = []
        for row in matrix.rows:
            alone = points(row.baseline.interval.mean) if row.baseline.interval else "failed"
            told = [_short(matrix.cells.get((row.name, name))) for name in part]
            rows.append((f"{numbers[row.name]} {row.name}", alone, *told))
        heads = ("target", "alone", *(numbers.get(name, "more") for name in part))
        lines = legend(matrix, tables) if part is parts[-1] else ()
        yield Section(f"{matrix.model}: differences by first task", heads, tuple(rows), tuple(lines))


def legend(matrix: Matrix, tables: Tables) -> list[str]:
    """What the numbers are, and what is established."""
    control = f" '{MORE[:4]}': the target alone for as many steps as {SAME}." if MORE in matrix.columns else ""
    compared = sum(cell.comparison is not None for cell in matrix.cells.values())
    lines = [
        f"Points on {tables.split}, means over {matrix.seeds} seeds: the target alone, and what a first task (columns, "
        f"by the rows' numbers) adds to it.{control} *: established, p < .05 after Holm's correction over all "
        f"{compared} compared cells; all others may be chance.",
        matrix.verdict(),
        *filter(None, [matrix.controls()]),
        matrix.findings(),
    ]
    lines += [
        f"{row.name}: no model here has learnt it: the highest has {points(row.best)} points, the same answer to every "
        f"text {points(row.baseline.constant)}. Its differences, those of 0 too, do not say what a first task gives. "
        f"Train longer (finetune.epochs) or at a higher rate (finetune.plan.rate)."
        for row in matrix.rows
        if row.best <= row.baseline.constant + UNTAUGHT
    ]
    lines += [f"{_pair(cell)} failed: {cell.why}." for cell in matrix.cells.values() if cell.why]
    return lines


def groups_section(matrix: Matrix) -> Section:
    rows = tuple(
        (
            f"{group.first} → {group.target}",
            str(group.pairs),
            difference_text(group.comparison),
            p_text(group.comparison.p),
            p_text(group.p_holm),
            ("better" if group.comparison.difference > 0 else "worse") if group.established else "not established",
        )
        for group in matrix.groups
    )
    said = (
        "The mean difference over the targets of a type, with 95% intervals over seeds and test items; first tasks of "
        "one target are taken together. Pairs of a task with itself are left out. Holm: over the groups."
    )
    columns = ("first → target", "pairs", "difference", "p", "p (Holm)", "")
    return Section(f"{matrix.model}: groups", columns, rows, (said,))


def cells_section(matrix: Matrix, tables: Tables) -> Section:
    """Every cell and its comparisons."""
    told = [facts_of(cell) for cell in matrix.cells.values()]
    columns = ("pair", "difference", "p (Holm)", *BESIDE, "leaks")
    rows = [tuple(facts[name] for name in columns) for facts in told]
    cautions: dict[str, list[str]] = {}
    for cell in matrix.cells.values():
        for caution in (cell.comparison.caution if cell.comparison else "").splitlines():
            cautions.setdefault(caution, []).append(_pair(cell))
    total = len(matrix.cells)
    leaks = "left out of the first task" if tables.leaks == "drop" else "kept in the first task"
    lines = [
        f"As many steps: the target alone for as many steps as both tasks took. Leaks: training rows of the first task "
        f"that hold an item of the target's dev or test set, {leaks}.",
        *(cautioned(_figures(names, total), len(names), caution) for caution, names in cautions.items()),
    ]
    return Section(f"{matrix.model}: every pair", columns, tuple(rows), tuple(lines))


def facts_of(cell: Cell) -> dict[str, str]:
    """Of a cell, heading -> text."""
    ran = cell.column.ran
    score = interval_text(ran.interval) if ran.interval else "failed"
    return {
        "pair": _pair(cell),
        "score": score,
        "difference": difference_text(cell.comparison),
        "p (Holm)": p_text(cell.p_holm),
        **dict(zip(BESIDE, (difference_text(cell.beside), p_text(cell.beside_p_holm)), strict=True)),
        "leaks": f"{cell.column.leaking:,}",
        "FLOP, first": si(ran.first.flops) if ran.first.flops else "-",
        "FLOP, target": si(ran.own.flops),
    }


def seeds_section(matrix: Matrix) -> Section:
    """The scores of each seed, those of the target alone too."""
    rows = []
    for row in matrix.rows:
        chains = [(own.ran, _pair_of(own.name, row.name)) for own in row.columns]
        for ran, name in [(row.baseline, f"{row.name} alone"), *chains]:
            dev, score = (" ".join(points(seed[at]) for seed in ran.seeds) or "-" for at in (1, 2))
            steps = " + ".join(f"{count:,}" for count in ran.steps if count)
            took = ran.first + ran.own
            rows.append((name, score, dev, steps, si(took.flops, "FLOP"), duration(took.seconds)))
    columns = ("", "scores", "on dev", "steps", "a seed", "time")
    said = "Steps and costs are of both tasks; what a first task took, several pairs share."
    return Section(f"{matrix.model}: each seed", columns, tuple(rows), (said,))


def data_section(tables: Tables) -> Section:
    """The datasets, and what is to be known of them."""
    rows: list[tuple[str, ...]] = []
    notes: dict[str, list[str]] = {}
    for matrix in tables.matrices[:1]:
        for number, row in enumerate(matrix.rows, 1):
            rows.append((f"{number} {row.name}", row.type, metric_text(row.metric), f"{row.trained:,}"))
            for note in row.notes:
                notes.setdefault(note, []).append(row.name)
    lines = [f"{listed(names)}: {note}" for note, names in notes.items()]
    lines += [f"{name} is left out: {why}" for name, why in tables.absent.items()]
    return Section("Datasets", ("", "type", "metric", "training rows"), tuple(rows), tuple(lines))


def render(tables: Tables) -> str:
    """The page: one file that holds everything it shows."""
    made = []
    for matrix in tables.matrices:
        parts = groups_section(matrix), cells_section(matrix, tables), seeds_section(matrix)
        made.append((matrix, *(part.escaped() for part in parts)))
    template = environment().get_template("intermediate.html")
    text = template.render(
        tables=tables,
        made=made,
        data=data_section(tables).escaped(),
        title=TITLE,
        source=SOURCE,
        legend=legend,
        facts_of=facts_of,
        more=MORE,
    )
    return text.translate(VISIBLE)


def write_pages(out: Path, study: str, tables: Tables) -> None:
    """`out/STUDY.txt`, `.csv`, `.html` and `.scores.json`."""
    files.write_json(out / f"{study}.scores.json", records(tables))
    files.write_text(out / f"{study}.csv", as_csv(tables))
    files.write_text(out / f"{study}.txt", as_text(tables))
    files.write_text(out / f"{study}.html", render(tables))


def _pair(cell: Cell) -> str:
    return _pair_of(cell.column.name, cell.row.name)


def _pair_of(first: str, target: str) -> str:
    return f"{target}, {MORE}" if first == MORE else f"{first} → {target}"


def _short(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if cell.comparison is None:
        return "failed"
    return points(cell.comparison.difference, sign="+") + "*" * cell.established


def _figures(names: Sequence[str], total: int) -> str:
    """What a caution is about: by name, or how many of the differences where that would be a page."""
    if len(names) <= NAMED:
        return f"the difference{'s' * (len(names) > 1)} of {listed(names)}"
    return "these differences" if len(names) == total else f"{len(names)} of these differences"
