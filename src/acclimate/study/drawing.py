"""How plots are drawn: one style, labels beside what they name, and SVG that a page can take in.

Text stays text and takes its colour from the page (`currentColor`, `--muted`, `--card`), so a plot reads on light
and dark ground. Ids begin with the plot's name, styles are inline, nothing is loaded: several plots share a page and
touch neither each other nor it. The same figures give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

# Stand-ins that nothing else draws with: matplotlib wants colours, the page has its own
PAGE = {"#010203": "currentColor", "#010204": "var(--muted, #6b7280)", "#010205": "var(--card, #ffffff)"}
INK, MUTED, CARD = PAGE
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDE, HALF = 7.6, 5.4  # inches, of 72 units each

STYLE: Any = {  # matplotlib 3.11 wants each key as a literal type
    "svg.fonttype": "none",
    "svg.hashsalt": "acclimate",
    "font.family": "DejaVu Sans",  # comes with matplotlib, and is wider than what pages show: nothing gets cut
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # a contestant called "$x$" is a name
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "grid.alpha": 0.25,
    "grid.color": MUTED,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
}


def svg(figure: Figure, name: str, title: str, told: Sequence[str]) -> str:
    """The figure as an <svg> element, as the top of this file says. name: starts every id, so unique on a page.

    title, told: for screen readers, what the plot is and, one phrase a mark, what it shows.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    drawn = file.getvalue()
    box = re.search(r'viewBox="([^"]+)"', drawn)
    assert box is not None
    body = drawn[drawn.index(">", drawn.index("<svg")) + 1 :]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)  # its `*` would style the page
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', body).replace("url(#", f"url(#{name}-")
    body = body.replace('xlink:href="data:', 'href="data:')  # a picture; the prefix is declared nowhere on the page
    for stand_in, colour in PAGE.items():
        body = body.replace(stand_in, colour)
    body = body.replace("'DejaVu Sans'", FONTS)
    described = (
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape("; ".join(told))}</desc>'
    )
    width = figure.get_figwidth()
    widths = f"min-width:{5 * width:g}rem;max-width:{7 * width:g}rem"  # between them the text can be read
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}" class="plot" role="img" '
        f'aria-labelledby="{name}-title" aria-describedby="{name}-desc" '
        f'style="{widths};stroke-linejoin:round;stroke-linecap:butt">{described}{body.strip()}'
    )


def label_bars(axes: Any, bars: Mapping[str, tuple[float, float, float, float]]) -> None:
    """Each name beside its mark, at the first of several places where it meets no bar and no other name.

    bars: name -> (x, mean, low, high) in data units.
    """
    axes.figure.draw_without_rendering()
    taken = []
    for x, _, low, high in bars.values():
        (left, bottom), (right, top) = axes.transData.transform([(x, low), (x, high)])
        taken.append(Bbox.from_extents(left - 15, bottom, right + 8, top))  # the seeds' dots stand left of the bar
    page = Bbox.from_extents(axes.figure.bbox.x0, axes.bbox.y0, axes.figure.bbox.x1, axes.bbox.y1)
    places = [(side, up) for up in (0, 14, -14, 28, -28, 42, -42, 56, -56) for side in (10, -14)]

    def fits(box: Bbox) -> bool:
        inside = page.containsx(box.x0) and page.containsx(box.x1) and page.containsy(box.y0) and page.containsy(box.y1)
        return inside and not any(box.overlaps(other) for other in taken)

    for name, (x, mean, _, _) in bars.items():
        text = axes.annotate(name, (x, mean), xytext=places[0], textcoords="offset points", va="center")
        text.set_in_layout(False)  # the layout is settled, or the marks would move away from the places just tried
        for side, up in places:
            text.set(position=(side, up), horizontalalignment="left" if side > 0 else "right")
            if fits(text.get_window_extent()):
                break
        taken.append(text.get_window_extent())


def label_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Names right of the ends of lines, in their order, pushed apart to a line's height."""
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    gap = 13 * (high - low) * axes.figure.dpi / 72 / axes.bbox.height
    ends = sorted(ends, key=lambda end: end[1])
    heights: list[float] = []
    for _, up, _, _ in ends:
        heights.append(max(up, heights[-1] + gap) if heights else up)
    excess = max(0.0, heights[-1] - high)
    side = axes.get_yaxis_transform()
    for (_, up, name, colour), height in zip(ends, heights, strict=True):
        axes.annotate(
            name,
            (1.0, up),
            xytext=(1.04, height - excess),
            xycoords=side,
            textcoords=side,
            va="center",
            # from the text's left edge: a line to its middle would cross the names above and below
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 1,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
