"""The plots of races and studies. Each function returns an <svg> element for an HTML page.

Colours are those of Okabe and Ito (Color Universal Design, 2008), and each coloured mark also has a label. Text stays
text and takes its colours from the page (`currentColor`, `--muted`, `--card`), so that plots are legible on a light and
a dark ground. Ids begin with the name of the plot, styles are inline and nothing is loaded, so that several plots stand
on one page without side effects. The same values give the same bytes.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate, cycle
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox, ScaledTranslation

from acclimate.core.figures import duration, metric_text, si
from acclimate.reports.table import UNTOUCHED, ContestantRow, interval_text
from acclimate.statistics.calibration import Bin
from acclimate.statistics.significance import Interval

# Colour for matplotlib -> the page's colour that `svg` puts in its place; no plot uses these colours otherwise
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
DOTS = 1_000  # at most so many dots in a scatter plot, which take 100 kB
ROUND_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800)


def score_against_cost(rows: Sequence[ContestantRow]) -> str:
    """Plot mean test scores with 95% bars over the time of adapting and fine-tuning; the dots beside a bar are seeds.

    A contestant without cost is at the left edge, marked "(0)": a log scale has no zero.
    """
    label = "adapting and fine-tuning, time (log scale)"
    amounts = [row.adapting.seconds + row.finetuning.seconds for row in rows]
    least = min((amount for amount in amounts if amount > 0), default=1.0)
    where = [amount or least / 3 for amount in amounts]
    names = [row.contestant if amount else f"{row.contestant} (0)" for row, amount in zip(rows, amounts, strict=True)]
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(WIDE, 4.3, xlabel=label, ylabel=f"test {metric_text(rows[0].metric)}, points")
        axes.set_xscale("log")
        beside = axes.transData + ScaledTranslation(-6 / 72, 0, figure.dpi_scale_trans)
        for row, x, (colour, marker) in zip(rows, where, _looks(rows), strict=True):
            axes.plot([x, x], [100 * row.score.low, 100 * row.score.high], color=colour, alpha=0.75)
            axes.plot([x] * len(row.scores), [100 * score for score in row.scores], ".", transform=beside, color=colour)
            axes.plot(x, 100 * row.score.mean, marker, color=colour, markeredgecolor=CARD, markersize=9)
        # the axis spans a factor of nine at least, so that it has round values
        middle, reach = np.sqrt(min(where) * max(where)), max(3.0, 1.6 * np.sqrt(max(where) / min(where)))
        low, high = middle / reach, middle * reach
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(FixedLocator(_ticks(low, high)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        label_bars(axes, {name: (x, row.score) for name, x, row in zip(names, where, rows, strict=True)})
        amounts_and_rows = zip(amounts, rows, strict=True)
        marks = [f"{row.contestant}: {interval_text(row.score)} at {duration(x)}" for x, row in amounts_and_rows]
        return svg(figure, "score-against-seconds", "Test score against time", marks)


def means_against_flop(points: Mapping[str, tuple[Interval, float]]) -> str:
    """Plot mean scores with 95% bars over FLOP, on a log scale. points: row -> its score, and its FLOP, above 0"""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(WIDE, 4.3, xlabel="training, FLOP (log scale)", ylabel="mean test score, points")
        axes.set_xscale("log")
        looks = zip(cycle(PALETTE), cycle(MARKERS), strict=False)
        for (score, flop), (colour, marker) in zip(points.values(), looks, strict=False):
            axes.plot([flop, flop], [100 * score.low, 100 * score.high], color=colour, alpha=0.75)
            axes.plot(flop, 100 * score.mean, marker, color=colour, markeredgecolor=CARD, markersize=9)
        amounts = [flop for _, flop in points.values()]
        axes.set_xlim(min(amounts) / 3, max(amounts) * 3)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: si(value, "FLOP")))
        label_bars(axes, {name: (flop, score) for name, (score, flop) in points.items()})
        marks = [f"{name}: {interval_text(score)} at {si(flop, 'FLOP')}" for name, (score, flop) in points.items()]
        return svg(figure, "means-against-flop", "Mean test score against FLOP", marks)


def learning_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    x: str,
    y: str,
    *,
    title: str = "Learning curves",
    colours: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Plot a line for each name through its (x, y) points, with the name at its end. Plots of one page differ in title.

    colours: by name, such as those of `colours_of`; a line without one gets the next colour of the palette.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(HALF, 3.2, xlabel=x, ylabel=y)
        ends = []
        spare = cycle([colour for colour in PALETTE if colour not in colours.values()] or PALETTE)
        for (name, points), dash in zip(curves.items(), cycle(("-", "--", "-.", ":"))):
            colour = colours.get(name) or next(spare)
            across, up = np.array(sorted(points), dtype=float).T
            axes.plot(across, up, dash, color=colour, marker="o" if len(points) < 12 else "", markersize=4)
            ends.append((float(across[-1]), float(up[-1]), name, colour))
        axes.margins(x=0.02)
        if all(float(across).is_integer() for points in curves.values() for across, _ in points):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        label_ends(axes, ends)
        marks = [f"{name}: ends at {up:.4g}" for _, up, name, _ in ends]
        return svg(figure, f"curves-{zlib.crc32(title.encode()):08x}", title, marks)


def label_curves(
    curves: Mapping[str, Sequence[tuple[float, float, float, float]]],
    y: str,
    *,
    title: str,
    needed: float | None = None,
) -> str:
    """Plot mean scores with 95% bars over the number of labels, on a log scale; y labels the axis.

    curves  name -> (labels, mean, low, high) of each size, ascending; the first curve is grey
    needed  the labels with which the curve that ends higher reaches the other one's end: a broken line leads there
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(WIDE, 4.0, xlabel="labels to learn from (log scale)", ylabel=y)
        axes.set_xscale("log", base=2)
        sizes = sorted({size for points in curves.values() for size, *_ in points})
        ends, marks = [], []
        looks = zip(curves.items(), (MUTED, *PALETTE), MARKERS, strict=False)
        for number, ((name, points), colour, marker) in enumerate(looks):
            across = [size * 1.012 ** (2 * number - len(curves) + 1) for size, *_ in points]  # bars stand side by side
            means = [100 * mean for _, mean, _, _ in points]
            for x, (_, _, low, high) in zip(across, points, strict=True):
                axes.plot([x, x], [100 * low, 100 * high], color=colour, alpha=0.75)
            axes.plot(across, means, marker=marker, color=colour, markeredgecolor=CARD, markersize=8)
            ends.append((across[-1], means[-1], name, colour))
            marks += [f"{name}, {size:,} labels: {100 * mean:.1f}" for size, mean, _, _ in points]
        if needed is not None:
            level = min(up for _, up, _, _ in ends)
            axes.plot([needed, sizes[-1]], [level, level], color=INK, linewidth=1, dashes=(4, 3))
            axes.plot([needed], [level], "o", color=CARD, markeredgecolor=INK, markersize=6)
            marks.append(f"the higher curve reaches the other one's end with {needed:,.0f} labels")
        axes.xaxis.set_major_locator(FixedLocator(sizes))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        label_ends(axes, ends)
        return svg(figure, f"labels-{zlib.crc32(title.encode()):08x}", title, marks)


def heldout_losses(losses: Mapping[str, tuple[float, float]], kind: str) -> str:
    """Plot losses in nats a masked token on held-out text, before (hollow) and after (filled) adapting.

    kind: of the text, "domain" or "general".
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(
            HALF, 1.0 + 0.42 * len(losses), xlabel=f"loss on held-out {kind} text, nats per masked token"
        )
        for place, (before, after) in enumerate(losses.values()):
            axes.plot([before, after], [place, place], color=MUTED, linewidth=1.4)
            axes.plot(before, place, "o", color=CARD, markeredgecolor=PALETTE[0], markeredgewidth=1.8, markersize=8)
            axes.plot(after, place, "o", color=PALETTE[0], markersize=8)
            text = f"{before:.2f} \N{RIGHTWARDS ARROW} {after:.2f}"
            axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")
        _names(axes, list(losses))
        marks = [f"{name}: {before:.3f} before, {after:.3f} after" for name, (before, after) in losses.items()]
        return svg(figure, f"heldout-losses-{kind}", f"Loss on held-out {kind} text before and after adapting", marks)


def gold_against_predicted(pairs: Sequence[tuple[float, float]], contestant: str) -> str:
    """Plot the predicted number of each test item over its gold number, and the line where they are equal.

    pairs: (gold, predicted). Of more than DOTS items it shows DOTS, at even steps in the order of gold numbers.
    """
    drawn = sorted(pairs)
    if len(drawn) > DOTS:
        drawn = [drawn[round(i)] for i in np.linspace(0, len(drawn) - 1, DOTS)]
    gold, predicted = np.array(drawn, dtype=float).T
    low, high = min(gold.min(), predicted.min()), max(gold.max(), predicted.max())
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(HALF, 4.2, xlabel="gold", ylabel="predicted, mean over seeds")
        axes.plot([low, high], [low, high], color=MUTED, linewidth=1, dashes=(4, 3))
        axes.plot(gold, predicted, "o", color=PALETTE[0], markersize=3.5, alpha=0.45, markeredgewidth=0)
        errors = np.abs(np.array([right - guess for right, guess in pairs]))
        marks = [
            f"{len(pairs):,} test items, {len(drawn):,} of them shown",
            f"gold from {gold.min():.4g} to {gold.max():.4g}",
            f"predicted from {predicted.min():.4g} to {predicted.max():.4g}",
            f"they differ by {errors.mean():.4g} on average and {np.median(errors):.4g} in the median",
        ]
        name = f"gold-against-predicted-{zlib.crc32(contestant.encode()):08x}"
        return svg(figure, name, f"Gold against predicted, {contestant}", marks)


def reliability_diagram(before: Sequence[Bin], after: Sequence[Bin]) -> str:
    """Plot the share of right predictions over their mean probability, as trained and calibrated."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(HALF, 4.2, xlabel="mean probability, %", ylabel="share that is right, %")
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, dashes=(4, 3))
        marks = []
        for name, bins, colour, marker in (("as trained", before, MUTED, "o"), ("calibrated", after, PALETTE[0], "s")):
            points = [(100 * one.confidence, 100 * one.right) for one in bins]
            across, up = np.array(points).T
            axes.plot(across, up, marker=marker, color=colour, markeredgecolor=CARD, markersize=7, label=name)
            marks += [f"{name}: {right:.0f}% are right at {mean:.0f}%" for mean, right in points]
        axes.legend(loc="upper left", frameon=False)
        return svg(figure, "reliability", "Share of right predictions over their probability", marks)


def colours_of(rows: Sequence[ContestantRow]) -> dict[str, str]:
    """Return contestant -> its colour in all plots: grey for the untouched model, the others in order of the rows."""
    return {row.contestant: colour for row, (colour, _) in zip(rows, _looks(rows), strict=True)}


def svg(figure: Figure, name: str, title: str, marks: Sequence[str]) -> str:
    """Return the figure as an <svg> element.

    name   begins every id, so it differs between the plots of a page
    title  what the plot is, for screen readers
    marks  what it shows, for screen readers: a phrase for each mark
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
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape("; ".join(marks))}</desc>'
    )
    width = figure.get_figwidth()
    widths = f"min-width:{5 * width:g}rem;max-width:{7 * width:g}rem"  # between them the text can be read
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}" class="plot" role="img" '
        f'aria-labelledby="{name}-title" aria-describedby="{name}-desc" '
        f'style="{widths};stroke-linejoin:round;stroke-linecap:butt">{described}{body.strip()}'
    )


def label_bars(axes: Any, bars: Mapping[str, tuple[float, Interval]]) -> None:
    """Write each name beside its mark, at the first of several places where it overlaps no bar and no other name.
    bars: name -> (x, score); the axis is in points.
    """
    axes.figure.draw_without_rendering()
    boxes = []
    for x, score in bars.values():
        (left_edge, bottom), (right, top) = axes.transData.transform([(x, 100 * score.low), (x, 100 * score.high)])
        boxes.append(Bbox.from_extents(left_edge - 15, bottom, right + 8, top))  # the seeds' dots stand left of the bar
    page = Bbox.from_extents(axes.figure.bbox.x0, axes.bbox.y0, axes.figure.bbox.x1, axes.bbox.y1)
    places = [(side, up) for up in (0, 14, -14, 28, -28, 42, -42, 56, -56) for side in (10, -14)]

    def fits(box: Bbox) -> bool:
        inside = page.containsx(box.x0) and page.containsx(box.x1) and page.containsy(box.y0) and page.containsy(box.y1)
        return inside and not any(box.overlaps(other) for other in boxes)

    for name, (x, score) in bars.items():
        text = axes.annotate(name, (x, 100 * score.mean), xytext=places[0], textcoords="offset points", va="center")
        text.set_in_layout(False)  # otherwise the layout would change, and the marks would move
        for side, up in places:
            text.set(position=(side, up), horizontalalignment="left" if side > 0 else "right")
            if fits(text.get_window_extent()):
                break
        boxes.append(text.get_window_extent())


def label_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write names to the right of the ends of lines, in the order of the ends, at least one line of text apart.

    ends: (x, y, name, colour) in data units.
    """
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    gap = 13 * (high - low) * axes.figure.dpi / 72 / axes.bbox.height
    ends = sorted(ends, key=lambda end: end[1])
    heights = [*accumulate((up for _, up, _, _ in ends), lambda below, up: max(up, below + gap))]
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


def _figure(width: float, height: float, **labels: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot(**labels)


def _looks(rows: Sequence[ContestantRow]) -> list[tuple[str, str]]:
    """Return the colour and the marker of each row."""
    rivals = zip(cycle(PALETTE), cycle(MARKERS))
    return [(MUTED, "o") if row.contestant == UNTOUCHED else next(rivals) for row in rows]


def _names(axes: Any, names: Sequence[str]) -> None:
    """Write the names along the y axis, the first on top."""
    axes.set_yticks(range(len(names)), labels=names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.08)


def _ticks(low: float, high: float) -> list[float]:
    """Return at most seven round values within the range."""
    decades = range(int(np.floor(np.log10(low))), 0)  # below .1 s; above, round in minutes and hours
    short = [digit * 10.0**power for power in decades for digit in (1, 2, 5) if digit * 10.0**power < 0.1]
    candidates = [*short, *ROUND_SECONDS, *(3600 * digit * 10.0**power for power in range(4) for digit in (1, 2, 5))]
    inside = [x for x in candidates if low <= x <= high]
    return inside[:: -(-len(inside) // 7) or 1]
