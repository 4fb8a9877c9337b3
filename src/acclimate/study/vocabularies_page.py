"""The page of `acclimate vocabulary`: one HTML file that loads nothing, in the dress of a race's report."""

from __future__ import annotations

from pathlib import Path

from acclimate.core.files import write_text
from acclimate.study.report import ROWS, VISIBLE, environment
from acclimate.study.vocabularies_result import Analysis

PAGE, SHEET, TERMS = "vocabulary.html", "vocabulary.csv", "terms.csv"


def write_page(out: Path, analysis: Analysis) -> tuple[Path, ...]:
    """Write the page and the figures as CSV, and the terms where there are any; returns their paths."""
    written = {PAGE: render(analysis), SHEET: analysis.as_csv()}
    if analysis.terms:
        written[TERMS] = analysis.terms_as_csv()
    else:
        (out / TERMS).unlink(missing_ok=True)  # of an earlier run with terms
    for name, text in written.items():
        write_text(out / name, text)
    return tuple(out / name for name in written)


def render(analysis: Analysis) -> str:
    """The page as text; everything in it is escaped."""
    page = environment().get_template("vocabularies.html").render(analysis=analysis, most=ROWS)
    return page.translate(VISIBLE)
