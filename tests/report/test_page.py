"""Pages of a terminal: never wider than they may be, and nothing on them acts."""

import pytest
from rich.cells import cell_len

from acclimate.report.page import WIDTH, Section, escaped, page, wrapped

WIDE = "数据集" * 60


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain  and\n\ttwo lines ", "plain and two lines"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("left\u202eright\u200b", "left\\u202eright\\u200b"),
        ("\x9b2J", "\\x9b2J"),
        ("naïve 数据 ☃", "naïve 数据 ☃"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_its_escape(text, shown):
    assert escaped(text) == shown


@pytest.mark.parametrize("text", ["short words " * 40, "x" * 400, WIDE, f"a {WIDE} b"])
def test_lines_are_broken_within_the_width_and_lose_nothing(text):
    lines = wrapped(text, 30)
    assert max(map(cell_len, lines)) <= 30
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_table_is_taken_in_to_the_width_and_its_long_cells_are_cut():
    rows = (("name " * 40, "1,204", WIDE), ("short", "-", "text"))
    lines = page("title", [Section("Table", ("a", "count", "text"), rows, ("A sentence. " * 30,))]).splitlines()
    assert max(map(cell_len, lines)) <= WIDTH
    assert any(line.rstrip().endswith("…") for line in lines)
    [short] = [line for line in lines if line.strip().startswith("short")]
    assert short.split() == ["short", "-", "text"]


def test_columns_of_numbers_stand_to_the_right():
    lines = page("title", [Section("", ("name", "rows"), (("a", "7"), ("b", "1,204")))]).splitlines()
    assert lines[-2:] == ["  a         7", "  b     1,204"]
