"""Every page of the product as one value: shown on a terminal as text, written as an HTML file that loads nothing.

Users' texts stand in these pages. What a terminal would obey (escape sequences, controls, marks that turn the direction
of writing) is shown as its escape, `\\x1b`, and everything in HTML is escaped, so nothing that a file holds can act.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acclimate.core import files
from acclimate.text.untrusted import printable

WIDTH = 110  # columns of a text in a file, and at most of one on a terminal
NARROWEST = 80  # columns that a text has at least
INDENT = "  "
LONGEST_CELL = 150  # characters of a cell on a terminal; more are cut
ABSENT = "\N{EN DASH}"
MOST = 300  # rows and list items that an HTML page shows where users decide how many there are
# What no HTML page should hold: controls, marks that turn the direction of all text after them, halves of characters
CONTROLS = [*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
VISIBLE = {code: f"\\u{code:04x}" for code in CONTROLS} | dict.fromkeys(
    range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"
)

Fact = str | int | float | bool | None | Sequence[Any] | Mapping[str, Any]
Runs = tuple[tuple[str, bool], ...]  # a text in stretches, and whether each is marked


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table that says more than its text.

    value   what its column sorts by; None sorts last
    beside  stands below the text in small letters, such as an interval
    look    CSS classes of templates/style.html, such as "gain", "loss" or "prose"
    shade   how dark its ground is, from 0 to 1
    link    id of the row that the cell leads to
    plain   what a terminal shows in its place
    """

    text: str | Runs
    value: float | str | None = None
    beside: str = ""
    look: str = ""
    shade: float | None = None
    link: str = ""
    plain: str = ""

    def __str__(self) -> str:
        if self.plain:
            return self.plain
        text = self.text if isinstance(self.text, str) else "".join(part for part, _ in self.text)
        return f"{text} [{self.beside}]" if self.beside else text


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list. level: "error", "warning" or "note" puts that word before it; beside: smaller, after it."""

    text: str
    level: Literal["", "error", "warning", "note"] = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A quoted text. about: where it is from; beside: smaller, below it."""

    about: str
    text: str | Runs
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing as SVG, made and escaped by reports/plots.py. lead: a sentence between title and drawing."""

    title: str
    svg: str
    wide: bool = False
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a page. What is empty is left out.

    columns, rows   a table: cells under `columns`, as many in each row
    lines           sentences: below the table on a terminal, its caption in HTML
    items           a list
    parts           sections within this one
    most            rows and items that are shown; the page says how many there are
    The rest is shown in HTML only:
    lead            how to read the section, under its heading
    facts           name -> value, as a card
    passages        quoted texts, beneath each other
    code            text in letters of one width, such as commands
    fold            "closed" or "open": the reader can fold the section away; a terminal leaves it out
    look, looks     CSS classes of the table and of each row; a table with a look does not sort
    id              where links to it lead; "": made of the title
    ids             id of each row, where cells link to rows
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | TableCell, ...], ...] = ()
    lines: tuple[str, ...] = ()
    lead: str = field(default="", kw_only=True)
    facts: Mapping[str, Fact] = field(default_factory=dict, kw_only=True)
    items: tuple[str | Item, ...] = field(default=(), kw_only=True)
    passages: tuple[Passage, ...] = field(default=(), kw_only=True)
    code: str = field(default="", kw_only=True)
    parts: tuple[Section, ...] = field(default=(), kw_only=True)
    fold: Literal["", "closed", "open"] = field(default="", kw_only=True)
    look: str = field(default="", kw_only=True)
    looks: tuple[str, ...] = field(default=(), kw_only=True)
    most: int = field(default=MOST, kw_only=True)
    id: str = field(default="", kw_only=True)
    ids: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Page:
    """A page of the product: `as_text()` is for the terminal, `as_html()` one file, `write(path)` puts it on disk.

        page = Page(
            "TAPTER and TAPT",
            "TAPTER is better than TAPT by 1.2 points.",
            sections=[Section("Scores", ("method", "test"), (("TAPT", "71.0"), ("TAPTER", "72.2")), ("In points.",))],
            figures={"Scores": [Drawing("Score against cost", svg)]},
            sheets={"table.csv": "method,test\\nTAPT,.71\\n"},
        )
        print(page.as_text())
        page.write(out / "report.html")  # and out / "table.csv"

    title     what the page is of, in a few words
    verdict   the result in a few sentences; the first is the heading of the HTML page, or all of it if there is a lead
    sections  in the order of the page; the first is where "skip" leads
    lead      sentences below the verdict
    command   to continue with, below them: text that can be copied
    look      CSS class of the verdict, such as "helped"
    figures   title of a section -> its drawings, which stand before its table; a terminal shows none
    sheets    file name -> text, written beside the page: the same figures for programs
    alerts    sentences that cast doubt on the result, shown as warnings below the verdict; remarks: what must be known
    source    papers that the page follows, for the last line
    reloads   seconds after which the page loads itself again, for a run that lasts; 0: never
    """

    title: str
    verdict: str
    sections: Sequence[Section]
    lead: Sequence[str] = field(default=(), kw_only=True)
    command: str = field(default="", kw_only=True)
    look: str = field(default="", kw_only=True)
    figures: Mapping[str, Sequence[Drawing]] = field(default_factory=dict)
    sheets: Mapping[str, str] = field(default_factory=dict)
    alerts: Sequence[str] = ()
    remarks: Sequence[str] = ()
    source: str = ""
    reloads: int = 0

    @property
    def headline(self) -> tuple[str, str]:
        """The first sentence of the verdict, and the others; all of it, if the others are in the lead."""
        if self.lead:
            return self.verdict, ""
        first, stop, others = self.verdict.partition(". ")
        return first + stop.strip(), others

    def as_text(self, width: int = 0) -> str:
        """Return the page for a terminal, as `page` does."""
        lines = [self.verdict, *self.lead, *([f"Next: {self.command}"] if self.command else [])]
        lines += [*(f"Warning: {alert}" for alert in self.alerts), *self.remarks]
        sections = [
            section for section in self.sections if section.rows or section.lines or section.items or section.parts
        ]
        return page(self.title, [Section("", lines=tuple(filter(None, lines))), *sections], width)

    def as_html(self) -> str:
        """Return the page as one HTML file, in which everything but the drawings is escaped."""
        html = templates().get_template("page.html").render(page=self, sections=_identified(self.sections))
        return html.translate(VISIBLE)

    def write(self, path: Path) -> tuple[Path, ...]:
        """Write the HTML page and the sheets beside it, each whole or not at all, and return their paths."""
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = {path.name: self.as_html(), **self.sheets}
        for name, text in texts.items():
            files.write_text(path.with_name(name), text)
        return tuple(path.with_name(name) for name in texts)


def page(title: str, sections: Sequence[Section], width: int = 0) -> str:
    """Return the sections as a terminal shows them: no colours, a line feed at the end.

    width: columns at most; 0: those of the terminal, from NARROWEST to WIDTH, and WIDTH where there is none
    """
    width = width or min(WIDTH, max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns))
    lines = wrapped(escaped(title), width)
    for section in sections:
        lines += _terminal_lines(section, width)
    return "\n".join(lines) + "\n"


def sheet(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a sheet of a page as CSV: the names of its columns, then its rows."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return file.getvalue()


def escaped(text: str) -> str:
    """Return the text on one line, runs of white space as one space, everything unprintable as its Python escape."""
    return printable(" ".join(text.split()))


def amount(count: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def share(part: float) -> str:
    """Return a share in percent, `37.4%`; one above 0 never as 0.0%."""
    return "< 0.1%" if 0 < part < 0.0005 else f"{part:.1%}"


def beginning(text: str, length: int) -> str:
    """Return at most `length` characters of the text, the last of them `…` where it is cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def fact_text(value: Fact) -> str:
    """Return a setting as people read it: 12,000; 5e-05; yes; a, b; train 900, dev 100. None does not apply."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {fact_text(amount)}" for name, amount in value.items())
    return str(value) if isinstance(value, (str, float)) else ", ".join(map(fact_text, value))


@cache
def templates(finalize: Callable[[Any], Any] | None = None) -> Environment:
    """Return the templates of this folder, each compiled once in a process, which takes longer than to fill it in.

    finalize: escapes each value; without it they are escaped as HTML
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=finalize is None,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"fact": fact_text, "short": beginning, "drawn": lambda figure: Markup(figure.svg)}
    environment.filters |= {"figure": _with_minus, "cells": _cells, "sorts": _sorts, "numbers": _number_columns}
    return environment


# How a terminal shows a section


def _terminal_lines(section: Section, width: int) -> Iterator[str]:
    if section.fold:
        return
    yield ""
    yield from wrapped(escaped(section.title), width)
    if section.rows:
        yield from _table(section, width)
    items = [f"{item.level}: {item.text} {item.beside}" if isinstance(item, Item) else item for item in section.items]
    for sentence in (*section.lines, *items[: section.most], *_left_out(section)):
        first, *others = wrapped(escaped(sentence), width - 2 * len(INDENT)) or [""]
        yield f"{INDENT}{first}".rstrip()
        yield from (f"{2 * INDENT}{line}" for line in others)
    for part in section.parts:
        yield from _terminal_lines(part, width)


def _left_out(section: Section) -> Iterator[str]:
    for entries in (section.rows, section.items):
        if len(entries) > section.most:
            yield f"The first {section.most:,} of {len(entries):,}."


def wrapped(text: str, width: int) -> list[str]:
    """Return lines of at most `width` columns, broken at spaces, and within a word where it is longer than a line."""
    if not text:
        return []
    lines = Text(text).wrap(_console(width), width, overflow="fold")
    return [line.plain.strip() for line in lines]


def _table(section: Section, width: int) -> list[str]:
    table = Table(box=None, padding=(0, len(INDENT), 0, 0), pad_edge=False, show_header=True)
    for name, numbers in zip(section.columns, _number_columns(section), strict=True):
        table.add_column(Text(escaped(name)), justify="right" if numbers else "left", overflow="fold")
    for row in section.rows[: section.most]:
        table.add_row(*(Text(beginning(escaped(str(cell)), LONGEST_CELL)) for cell in row))
    console = _console(width - len(INDENT))
    console.print(table)
    return [f"{INDENT}{line}".rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def _console(width: int) -> Console:
    """Return a console that writes plain text into a string, whatever the real terminal can do."""
    return Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, force_jupyter=False)


# How a table sorts, and how HTML shows its cells


def _number_columns(section: Section) -> list[bool]:
    """Return for each column True if all its cells are numbers, absent or empty."""
    return [all(_sorts(cell) is not None for cell in column) for column in zip(*section.rows, strict=True)] or [
        False for _ in section.columns
    ]


def _sorts(cell: str | TableCell) -> float | Literal[""] | None:
    """Return what a cell sorts by in a column of numbers, "" for nothing; None where it is no number."""
    if isinstance(cell, TableCell):
        if cell.value is not None:
            return None if isinstance(cell.value, str) else cell.value
        cell = str(cell)
    if cell in ("", "-", ABSENT, "none"):
        return ""
    if re.fullmatch(r"[<>+-]? ?[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?%?", cell):
        number = float(re.sub("[<>,% ]", "", cell))
        return int(number) if number.is_integer() else number
    return None


def _cells(section: Section) -> list[list[tuple[TableCell, bool]]]:
    """Return the rows that are shown: each cell as a TableCell, and True if its column is one of numbers."""
    numbers = _number_columns(section)
    cells = ([cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row] for row in section.rows)
    return [[*zip(row, numbers, strict=True)] for row in islice(cells, section.most)]


def _with_minus(text: str) -> str:
    """Return a figure as it is typeset: a true minus, and a dash for what is absent."""
    return ABSENT if text == "-" else text.replace("-", "\N{MINUS SIGN}")


def _identified(sections: Sequence[Section]) -> list[Section]:
    """Return the sections, each with an id that no other has."""
    sections_by_id: dict[str, Section] = {}
    for section in sections:
        name = section.id or re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        candidates = chain([name], (f"{name}-{n}" for n in count(2)))
        free = next(candidate for candidate in candidates if candidate not in sections_by_id)
        sections_by_id[free] = replace(section, id=free)
    return list(sections_by_id.values())
