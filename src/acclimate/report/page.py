"""Sections of a page (a table and sentences each), and how a terminal shows them: at most WIDTH columns, no colours.

Users' texts stand in these pages. What a terminal would obey (escape sequences, controls, marks that turn the direction
of writing) is shown as its escape, `\x1b`, so nothing that a file holds can act on the screen.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

from markupsafe import Markup

from acclimate.text.untrusted import printable

# -------------------- markdown
# Users' words in Markdown: shown as they are, never obeyed; and paths, of which only the name of the file is shown.


# an underscore within a word means nothing; a colon may begin an address or an emoji's name
SPECIAL = re.compile(r"[\\`*\[\]<>#|~&$^@]|(?<![^\W_])_|_(?![^\W_])|:(?=\S)")
STARTS = re.compile(r"^( ?\d*)([-+.=])(?=[-=\s]|$)")  # of a list, a rule or the line below a heading
JOINERS = "\u200c\u200d"  # zero width, but part of words in Persian, Hindi and others

_ADDRESS = re.compile(r"\b\w+://\S+")
# up to the last slash; names may have spaces within, but what follows an ending such as ".csv" is another word
_ROOTED = re.compile(r"(?<![\w/<])(?:~|\.{1,2})?/(?=[^\s/])(?:(?:(?!\.\w{1,8}\s)[^/\n,;:|<>\"'])*(?<!\s)/)*")
_DRIVE = re.compile(r"\b[A-Za-z]:\\(?:[^\\\n,;|<>\"']*\\)*|\\\\(?:[^\\\n,;|<>\"']+\\)+")
_BELOW = re.compile(r"(?:[\w.~-]+/)+(?=[\w.-]+\.(?:csv|tsv|txt|jsonl?|parquet|arrow|xml|toml|html|gz|zst)\b)")


def markdown_escaped(value: object) -> Markup:
    """The value on one line, with whatever Markdown or HTML would take for a sign behind a backslash.

    What cannot be printed, such as controls and marks that turn the direction of writing, becomes a space. A `Markup`
    is Markdown already and stays as it is.
    """
    if isinstance(value, Markup):
        return value
    printable = "".join(each if each.isprintable() or each in JOINERS else " " for each in str(value))
    marked = SPECIAL.sub(r"\\\g<0>", re.sub(" +", " ", printable))
    marked = re.sub(r"(?i)\bwww\.", r"www\\.", marked)  # else taken for an address
    return Markup(STARTS.sub(r"\1\\\2", marked))


def fenced(text: str, language: str = "") -> Markup:
    """A block of code that no run of backticks in the text can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")


def without_paths(text: str) -> str:
    """The text with the names of files and folders in place of their paths; addresses of the web stay."""
    kept, end = [], 0
    for address in _ADDRESS.finditer(text):
        kept += [_names_only(text[end : address.start()]), address[0]]
        end = address.end()
    return "".join([*kept, _names_only(text[end:])])


def command_without_paths(command: str, keep: str | None = None) -> str:
    """A command line with the names of files and folders in place of their paths. keep: a hub id that stays."""
    if not command.startswith("acclimate "):  # a call in Python, or words
        return without_paths(command)
    return shlex.join(_word(word, keep) for word in shlex.split(command))


def _word(word: str, keep: str | None) -> str:
    name, equals, value = word.partition("=")
    if equals and "/" not in name:
        return f"{name}={_name(value, keep)}"
    return _name(word, keep)


def _name(value: str, keep: str | None) -> str:
    if value == keep or _ADDRESS.fullmatch(value):
        return value
    if re.match(r"[A-Za-z]:\\|\\\\", value):
        return PureWindowsPath(value).name
    return (PurePosixPath(value).name or ".") if "/" in value else value


def _names_only(text: str) -> str:
    return _BELOW.sub("", _ROOTED.sub("", _DRIVE.sub("", text)))


WIDTH = 110
INDENT = "  "
GAP = "  "
CELL_LINES = 3  # a cell that needs more is cut
NARROWEST = 8


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a page. rows: cells under `columns`, as many each; lines: sentences below the table."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()

    def escaped(self) -> Section:
        """The same, every text fit to be shown."""
        rows = tuple(tuple(map(escaped, row)) for row in self.rows)
        return Section(escaped(self.title), tuple(map(escaped, self.columns)), rows, tuple(map(escaped, self.lines)))


def escaped(text: str) -> str:
    """The text on one line, runs of white space as one space, everything unprintable as its Python escape."""
    return printable(" ".join(text.split()))


def amount(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def share(part: float) -> str:
    """`37.4%`; what is there is never shown as nothing."""
    return "< 0.1%" if 0 < part < 0.0005 else f"{part:.1%}"


def beginning(text: str, length: int) -> str:
    """At most `length` characters of the text, the last of them `…` where it is cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def page(title: str, sections: Sequence[Section]) -> str:
    """The page as a terminal shows it; ends with a line feed."""
    lines = [*wrapped(escaped(title), WIDTH)]
    for section in map(Section.escaped, sections):
        lines += ["", *wrapped(section.title, WIDTH)]
        lines += [f"{INDENT}{line}".rstrip() for line in _table(section)]
        for sentence in section.lines:
            first, *others = wrapped(sentence, WIDTH - 2 * len(INDENT)) or [""]
            lines += [f"{INDENT}{first}", *(f"{2 * INDENT}{line}" for line in others)]
    return "\n".join(lines) + "\n"


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces, and within a word where it is longer than a line."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        for part in _parts(word, width):
            if line and columns(line) + 1 + columns(part) <= width:
                line = f"{line} {part}"
            else:
                lines += [line] if line else []
                line = part
    return [*lines, line] if line else lines


def columns(text: str) -> int:
    """Columns of a terminal that the text takes: two for a wide character, none for one that stands on another."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _parts(word: str, width: int) -> Iterator[str]:
    """The word in parts of at most `width` columns."""
    part, taken = "", 0
    for character in word:
        needed = _width(character)
        if taken + needed > width:
            yield part
            part, taken = "", 0
        part, taken = part + character, taken + needed
    yield part


def _table(section: Section) -> Iterator[str]:
    if not section.rows:
        return
    table = [section.columns, *section.rows]
    numbers = [all(_number(row[place]) for row in section.rows) for place in range(len(section.columns))]
    widths = _widths(table)
    for row in table:
        cells = [_cell(text, width) for text, width in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            yield GAP.join(
                _padded(cell[number] if number < len(cell) else "", width, right)
                for cell, width, right in zip(cells, widths, numbers, strict=True)
            )


def _number(text: str) -> bool:
    return not text or text in {"-", "none"} or (text.lstrip("+-<> ")[:1].isdigit() and " " not in text.strip())


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    """A width for each column, the widest ones taken in until the table fits."""
    widths = [max(map(columns, cells)) for cells in zip(*table, strict=True)]
    while sum(widths) + len(GAP) * (len(widths) - 1) > WIDTH - len(INDENT) and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cell(text: str, width: int) -> list[str]:
    lines = wrapped(text, width)
    if len(lines) <= CELL_LINES:
        return lines or [""]
    last = lines[CELL_LINES - 1]
    while columns(last) > width - 1:
        last = last[:-1]
    return [*lines[: CELL_LINES - 1], f"{last}…"]


def _padded(text: str, width: int, right: bool) -> str:
    room = " " * (width - columns(text))
    return f"{room}{text}" if right else f"{text}{room}"
