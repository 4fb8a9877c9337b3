"""The plots of a study, each as a piece of SVG to put into a page.

Colours: Okabe and Ito, Color Universal Design (2008); whatever has a colour also has a label beside it. How text,
colours and ids behave on a page: study/drawing.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from acclimate.study.drawing import (
    CARD,
    HALF,
    INK,
    MARKERS,
    MUTED,
    PALETTE,
    STYLE,
    WIDE,
    label_bars,
    label_ends,
    svg,
)
from acclimate.study.tables import Row
from acclimate.study.wording import difference_text, duration, interval_text, metric_text, p_text, si

# field of Cost: axis label, and how a value is written
QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("adapting and fine-tuning, time (log scale)", duration),
    "flops": ("adapting and fine-tuning, FLOP (log scale)", lambda value: si(value, "FLOP")),
    "tokens": ("adapting and fine-tuning, tokens (log scale)", si),
}
DOTS = 1_000  # of a scatter: 100 kB of page
ROUND_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800)


def score_against_cost(rows: Sequence[Row], *, quantity: str = "seconds") -> str:
    """Mean test score with its 95% bar over what adapting and fine-tuning took together; dots beside it are seeds.

    quantity: a field of Cost. Who took none of it stands at the left edge, where a log scale has no zero, marked "(0)".
    """
    label, written = QUANTITIES[quantity]
    taken = [float(getattr(row.adapting + row.finetuning, quantity)) for row in rows]
    least = min((amount for amount in taken if amount > 0), default=1.0)
    where = [amount or least / 3 for amount in taken]
    names = [row.contestant if amount else f"{row.contestant} (0)" for row, amount in zip(rows, taken, strict=True)]
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(WIDE, 4.3, xlabel=label, ylabel=f"test {metric_text(rows[0].metric)}, points")
        axes.set_xscale("log")
        beside = axes.transData + ScaledTranslation(-6 / 72, 0, figure.dpi_scale_trans)
        for row, x, (colour, marker) in zip(rows, where, _looks(rows), strict=True):
            axes.plot([x, x], [100 * row.score.low, 100 * row.score.high], color=colour, alpha=0.75)
            axes.plot([x] * len(row.scores), [100 * score for score in row.scores], ".", transform=beside, color=colour)
            axes.plot(x, 100 * row.score.mean, marker, color=colour, markeredgecolor=CARD, markersize=9)
        # a factor of nine at least, so that round values lie within
        middle, reach = np.sqrt(min(where) * max(where)), max(3.0, 1.6 * np.sqrt(max(where) / min(where)))
        low, high = middle / reach, middle * reach
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(FixedLocator(_ticks(low, high, quantity)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))
        label_bars(
            axes,
            {
                name: (x, 100 * row.score.mean, 100 * row.score.low, 100 * row.score.high)
                for name, x, row in zip(names, where, rows, strict=True)
            },
        )
        told = [
            f"{row.contestant}: {interval_text(row.score)} at {written(x)}" for row, x in zip(rows, taken, strict=True)
        ]
        return svg(figure, f"score-against-{quantity}", f"Test score against {quantity}", told)


def differences(rows: Sequence[Row]) -> str:
    """Each difference to the untouched model with its 95% interval; filled where Holm's p is under .05."""
    rivals = [row for row in rows if row.comparison is not None]
    with matplotlib.rc_context(STYLE):
        label = f"difference to the untouched model, points of {metric_text(rows[0].metric)}"
        figure, axes = _figure(WIDE, 1.0 + 0.42 * len(rivals), xlabel=label)
        axes.axvline(0, color=INK, linewidth=1)
        looks = dict(zip((row.contestant for row in rows), _looks(rows), strict=True))
        for place, row in enumerate(rivals):
            other, (colour, marker) = row.comparison, looks[row.contestant]
            assert other is not None
            assert row.p_holm is not None
            axes.plot([100 * other.low, 100 * other.high], [place, place], color=colour)
            fill = colour if row.p_holm < 0.05 else CARD
            axes.plot(
                100 * other.difference,
                place,
                marker,
                color=fill,
                markeredgecolor=colour,
                markeredgewidth=1.8,
                markersize=8,
            )
            text = f"{difference_text(other)}, p (Holm) {p_text(row.p_holm)}".replace("-", "\N{MINUS SIGN}")
            axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")
        _names(axes, [row.contestant for row in rivals])
        told = [f"{row.contestant}: {difference_text(row.comparison)}, Holm's p {p_text(row.p_holm)}" for row in rivals]
        return svg(figure, "differences", "Differences to the untouched model", told)


def learning_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    x: str,
    y: str,
    *,
    title: str = "Learning curves",
    colours: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """One line for each name of (x, y) points, named at its end. Titles tell the plots of one page apart.

    colours: by name, such as those of `colours_of`; who has none gets the next of the palette.
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
        told = [f"{name}: ends at {up:.4g}" for _, up, name, _ in ends]
        return svg(figure, f"curves-{zlib.crc32(title.encode()):08x}", title, told)


def heldout_losses(losses: Mapping[str, tuple[float, float]], kind: str) -> str:
    """Masked-token loss (nats a token) on held-out text, before (hollow) and after (filled) adapting.

    kind: "domain" or "general" text; plots of two kinds share no ids.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(
            HALF, 1.0 + 0.42 * len(losses), xlabel=f"loss on held-out {kind} text, nats a masked token"
        )
        for place, (before, after) in enumerate(losses.values()):
            axes.plot([before, after], [place, place], color=MUTED, linewidth=1.4)
            axes.plot(before, place, "o", color=CARD, markeredgecolor=PALETTE[0], markeredgewidth=1.8, markersize=8)
            axes.plot(after, place, "o", color=PALETTE[0], markersize=8)
            text = f"{before:.2f} \N{RIGHTWARDS ARROW} {after:.2f}"
            axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center")
        _names(axes, list(losses))
        told = [f"{name}: {before:.3f} before, {after:.3f} after" for name, (before, after) in losses.items()]
        return svg(figure, f"heldout-losses-{kind}", f"Loss on held-out {kind} text before and after adapting", told)


def gold_against_predicted(pairs: Sequence[tuple[float, float]], contestant: str) -> str:
    """Each test item's predicted number over its gold one, and the line where they are equal.

    pairs: (gold, predicted). Of more than DOTS items as many are drawn, evenly picked by their gold value.
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
        told = [
            f"{len(pairs):,} test items, {len(drawn):,} of them drawn",
            f"gold from {gold.min():.4g} to {gold.max():.4g}",
            f"predicted from {predicted.min():.4g} to {predicted.max():.4g}",
            f"they differ by {errors.mean():.4g} on average and {np.median(errors):.4g} in the median",
        ]
        name = f"gold-against-predicted-{zlib.crc32(contestant.encode()):08x}"
        return svg(figure, name, f"Gold against predicted, {contestant}", told)


def colours_of(rows: Sequence[Row]) -> dict[str, str]:
    """Contestant -> its colour in every plot: the untouched model grey, the others by rank."""
    return {row.contestant: colour for row, (colour, _) in zip(rows, _looks(rows), strict=True)}


def _figure(width: float, height: float, **labels: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot(**labels)


def _looks(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Colour and marker of each row."""
    rivals = zip(cycle(PALETTE), cycle(MARKERS))
    return [(MUTED, "o") if row.comparison is None else next(rivals) for row in rows]


def _names(axes: Any, names: Sequence[str]) -> None:
    """Names up the side, first on top."""
    axes.set_yticks(range(len(names)), labels=names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.08)


def _ticks(low: float, high: float, quantity: str) -> list[float]:
    """At most seven round values within the range."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    candidates = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    if quantity == "seconds":  # round in minutes and hours, once there are any
        hours = [3600 * digit * 10.0**power for power in range(4) for digit in (1, 2, 5)]
        candidates = [x for x in candidates if x < 0.1] + [*ROUND_SECONDS, *hours]
    inside = [x for x in candidates if low <= x <= high]
    return inside[:: -(-len(inside) // 7) or 1]
