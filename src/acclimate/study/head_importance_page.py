"""The page of `acclimate importance`: one HTML file that loads nothing, in the dress of a race's report."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from acclimate.core.files import write_text
from acclimate.study.head_importance_plots import heat_map, scale
from acclimate.study.head_importance_result import Analysis
from acclimate.study.report import VISIBLE, environment


def write_page(path: Path, analysis: Analysis) -> tuple[Path, Path]:
    """Write the page and, beside it, the figures and every head as CSV, each whole or not at all; returns the paths of
    the latter two.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, render(analysis))
    sheet, heads = path.with_suffix(".csv"), path.with_name(f"{path.stem}-heads.csv")
    write_text(sheet, analysis.as_csv())
    write_text(heads, analysis.heads_as_csv())
    return sheet, heads


def render(analysis: Analysis) -> str:
    """The page as text; everything in it is escaped but the drawings, whose text is escaped where they are drawn."""
    most = max(float(domain.relative_LH.max()) for domain in analysis.domains)
    drawn = []
    for number, domain in enumerate(analysis.domains):
        normalised = f"Normalised importance of heads on {domain.name}"
        protected = heat_map(domain.normalised_LH, 1.0, f"normalised-{number}", normalised, _of_one)
        relative = f"Importance of heads on {domain.name}, as a multiple of the mean"
        raw = heat_map(domain.relative_LH, most, f"relative-{number}", relative, "{:.1f}".format)
        drawn.append((domain, Markup(protected), Markup(raw)))
    page = (
        environment()
        .get_template("head_importance.html")
        .render(
            analysis=analysis,
            drawn=drawn,
            normalised_scale=Markup(scale(1.0, "normalised-scale", "normalised importance")),
            relative_scale=Markup(scale(most, "relative-scale", "importance, multiple of the mean")),
        )
    )
    return page.translate(VISIBLE)


def _of_one(value: float) -> str:
    """`.83`, and `1.0` for what rounds to 1."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]
