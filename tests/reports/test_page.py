"""Pages of a terminal: never wider than they may be, and nothing on them acts."""

import pytest
from rich.cells import cell_len

from acclimate.reports.page import NARROWEST, WIDTH, Drawing, Item, Page, Section, TableCell, escaped, page, wrapped

WIDE = "数据集" * 60


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain  and\n\ttwo lines ", "plain and two lines"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b2J", "\\x9b2J"),
        ("naïve 数据 ☃", "naïve 数据 ☃"),
        ("half \ud83d", "half \\ud83d"),
        *((f"a{chr(code)}b", f"a\\u{code:04x}b") for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_its_escape(text, shown):
    assert escaped(text) == shown
    assert shown.isprintable()


@pytest.mark.parametrize("text", ["short words " * 40, "x" * 400, WIDE, f"a {WIDE} b"])
def test_lines_are_broken_within_the_width_and_lose_nothing(text):
    lines = wrapped(text, 30)
    assert max(map(cell_len, lines)) <= 30
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_table_is_taken_in_to_the_width_and_its_numbers_stand_to_the_right():
    rows = (("name " * 40, "1,204", WIDE), ("short", "-", "text"))
    lines = page("title", [Section("Table", ("a", "count", "text"), rows, ("A sentence. " * 30,))]).splitlines()
    assert max(map(cell_len, lines)) <= WIDTH
    assert any(line.rstrip().endswith("…") for line in lines)
    [short] = [line for line in lines if line.strip().startswith("short")]
    assert short.split() == ["short", "-", "text"]
    lines = page("title", [Section("", ("name", "rows"), (("a", "7"), ("b", "1,204")))]).splitlines()
    assert lines[-2:] == ["  a         7", "  b     1,204"]


MADE = Page(
    "Two methods",
    "TAPTER is better by 1.2 points.",
    [
        Section(
            "Scores",
            ("method", "test"),
            (("TAPT <b>", TableCell("-71.0", -71.0, "-72 to -70")), ("TAPTER", "-")),
            ("In points.",),
            items=(Item("One seed.", "warning", "Take five."),),
            parts=(Section("Every seed", ("seed", "test"), (("1", "< 0.1%"),), fold="closed"),),
        ),
        Section("Scores", lead="Only on the page."),
    ],
    figures={"Scores": [Drawing("Cost", "<svg></svg>")]},
    sheets={"table.csv": "method,test\n"},
    alerts=["Look twice."],
)


def test_terminal_and_html_show_the_same_sections():
    text = MADE.as_text()
    assert "Warning: Look twice." in text
    assert "-71.0 [-72 to -70]" in text
    assert "warning: One seed. Take five." in text
    assert "Every seed" not in text  # folded away: for readers of the page
    assert "Only on the page." not in text
    made = MADE.as_html()
    assert "TAPT &lt;b&gt;" in made
    assert '<td class="number" data-value="-71.0">' in made
    assert "\N{MINUS SIGN}71.0" in made
    assert '<td class="number" data-value="">\N{EN DASH}' in made
    assert 'data-value="0.1"' in made  # of "< 0.1%"
    assert "<svg></svg>" in made
    assert ('id="scores"' in made, 'id="scores-2"' in made) == (True, True)


def test_a_page_is_written_with_its_sheets_beside_it(tmp_path):
    written = MADE.write(tmp_path / "new" / "page.html")
    assert written == (tmp_path / "new" / "page.html", tmp_path / "new" / "table.csv")
    assert written[0].read_text("utf-8") == MADE.as_html()
    assert written[1].read_text("utf-8") == "method,test\n"


def test_rows_beyond_the_most_are_left_out_and_the_first_sentence_of_the_verdict_is_the_heading():
    section = Section("Labels", ("label",), tuple((f"label {number}",) for number in range(9)), most=5)
    for shown in (page("", [section]), Page("", "", [section]).as_html()):
        assert "The first 5 of 9." in shown
        assert "label 4" in shown
        assert "label 5" not in shown
    text = Page("A race", "TAPT has 42.4 points. It is better. So is TF-IDF.", MADE.sections).as_html()
    assert (
        '<h1 dir="auto">TAPT has 42.4 points.</h1>\n<p class="verdict" dir="auto">It is better. So is TF-IDF.</p>'
        in text
    )
    whole = "Adapting helped: St. Petersburg is better."
    with_lead = Page("A race", whole, MADE.sections, lead=["Use: it."]).as_html()
    assert f'<h1 dir="auto">{whole}</h1>' in with_lead
    assert '<p class="verdict"' not in with_lead + Page("A race", "TAPT is better.", MADE.sections).as_html()


def test_a_text_is_as_wide_as_the_terminal_and_in_a_file_as_wide_as_ever(monkeypatch):
    shown = Page("A title", "A word. " * 60, [])
    for columns, width in (("60", NARROWEST), ("95", 95), ("300", WIDTH)):
        monkeypatch.setenv("COLUMNS", columns)
        assert width - 10 < max(map(len, shown.as_text().splitlines())) <= width
        assert WIDTH - 10 < max(map(len, shown.as_text(WIDTH).splitlines())) <= WIDTH
