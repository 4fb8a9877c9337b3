"""The page of `acclimate embeddings`: one HTML file that loads nothing, in the dress of a race's report."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from acclimate.core.files import write_text
from acclimate.study.embeddings_plots import losses, scatter
from acclimate.study.embeddings_result import Analysis
from acclimate.study.report import VISIBLE, environment


def write_page(path: Path, analysis: Analysis) -> Path:
    """Write the page and, beside it, the distances as CSV, each whole or not at all; returns the path of the latter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render(analysis))
    sheet = path.with_suffix(".csv")
    write_text(sheet, analysis.as_csv())
    return sheet


def render(analysis: Analysis) -> str:
    """The page as text; everything in it is escaped but the drawings, whose text is escaped where they are drawn."""
    panels = analysis.panels
    drawn = [
        (panel, Markup(scatter(panel, panels[0], panels, analysis.axes, str(number))))
        for number, panel in enumerate(panels)
    ]
    curves = Markup(losses(analysis.curves)) if analysis.curves else None
    page = environment().get_template("embeddings.html").render(analysis=analysis, drawn=drawn, curves=curves)
    return page.translate(VISIBLE)
