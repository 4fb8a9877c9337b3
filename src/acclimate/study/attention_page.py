"""The page of `acclimate heads`: one HTML file that loads nothing, in the dress of a race's report."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from acclimate.core.files import write_text
from acclimate.study.attention import Analysis
from acclimate.study.attention_plots import kinds_of_heads, maps_of_heads
from acclimate.study.report import VISIBLE, environment


def write_page(path: Path, analysis: Analysis) -> Path:
    """Write the page, whole or not at all, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render(analysis))
    return path


def render(analysis: Analysis) -> str:
    """The page as text; everything in it is escaped but the drawings, whose text is escaped where they are drawn."""
    drawn = [
        (each, Markup(kinds_of_heads(each, str(number))), Markup(maps_of_heads(each, str(number))))
        for number, each in enumerate(analysis.heads)
    ]
    page = environment().get_template("attention.html").render(analysis=analysis, drawn=drawn)
    return page.translate(VISIBLE)
