"""Drawings of word embeddings as SVG: a scatter of a model's rows on the common axes, and the losses of runs.

Dots are a picture inside the drawing, for there are tens of thousands; words, lines and axes are drawn. How drawings
behave on a page: study/drawing.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from acclimate.study.drawing import CARD, HALF, INK, MUTED, PALETTE, STYLE, label_ends, svg
from acclimate.study.embedding_curves import TERMS, Curve, both_sides
from acclimate.study.embeddings_result import Panel
from acclimate.study.word_embeddings import Axes

NEAR = ((1, 0), (-1, 0), (0.8, 0.8), (0.8, -0.8), (-0.8, 0.8), (-0.8, -0.8), (0, 1.2), (0, -1.2))
CLOSE = 12  # points from its dot at which a name needs no line
SHARP = 160  # dots an inch of the picture
GREY, BLUE, ORANGE = "#8b939c", "#2f8fd6", PALETTE[1]  # read on light and on dark ground
AROUND = [(reach * across, reach * up) for reach in (7, 16, 26, 36, 48, 60) for across, up in NEAR]  # points from a dot
MARGIN = 0.04


def scatter(panel: Panel, first: Panel, panels: Sequence[Panel], axes_: Axes, name: str) -> str:
    """A model's rows on the two principal axes, marked words with lines from where the first model has them.

    The limits are those of all `panels`. name: of the drawing, unique on its page.
    """
    places_N2 = np.concatenate([each.places_N2 for each in panels])
    low_2, high_2 = places_N2.min(axis=0), places_N2.max(axis=0)
    room_2 = MARGIN * np.maximum(high_2 - low_2, 1e-9)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(HALF, 4.4), dpi=SHARP, layout="constrained")
        labels = [f"component {number + 1} ({share:.1%} of variance)" for number, share in enumerate(axes_.explained)]
        axes = figure.add_subplot(xlabel=labels[0], ylabel=labels[1])
        axes.set(xlim=(low_2[0] - room_2[0], high_2[0] + room_2[0]), ylim=(low_2[1] - room_2[1], high_2[1] + room_2[1]))
        inside = panel.in_texts_N if panel.in_texts_N is not None else np.ones(len(panel.places_N2), bool)
        for those, colour, strength in ((~inside, GREY, 0.4), (inside, BLUE, 0.5)):
            dots_N2 = panel.places_N2[those]
            axes.plot(*dots_N2.T, ".", color=colour, alpha=strength, markersize=2.2, markeredgewidth=0, rasterized=True)
        for word, (x, y) in panel.marked.items():
            axes.plot(*zip(first.marked[word], (x, y), strict=True), color=MUTED, linewidth=1)
            axes.plot(x, y, "o", color=ORANGE, markeredgecolor=CARD, markersize=5.5)
        _label_dots(axes, panel.marked)
        told = [f"{word} at {x:.3g}, {y:.3g}" for word, (x, y) in panel.marked.items()]
        told = [f"{len(panel.places_N2):,} pieces", *told]
        return svg(figure, f"scatter-{name}", f"Word embeddings of {panel.name} on two principal components", told)


def losses(curves: Sequence[Curve]) -> str:
    """Both terms of each run over its steps, a panel for each, train with a full line and dev with a broken one."""
    by_term = both_sides(curves)
    colours = {curve.name: colour for curve, colour in zip(curves, cycle(PALETTE))}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(HALF + 2, 2.6 * len(by_term) + 0.4), layout="constrained")
        panels: Any = figure.subplots(len(by_term), 1, sharex=True, squeeze=False)
        told = []
        for axes, (term, lines) in zip(panels[:, 0], by_term.items(), strict=True):
            axes.set_ylabel(TERMS[term])
            ends = []
            for name, points in lines.items():
                model, side = name.rsplit(", ", 1)
                across, up = np.array(points).T
                dash, dots = "--" if side == "dev" else "-", "o" if len(points) < 12 else ""
                axes.plot(across, up, dash, color=colours[model], marker=dots, markersize=4)
                ends.append((float(across[-1]), float(up[-1]), name, colours[model]))
                told.append(f"{term} of {model} on {side}: {up[0]:.4g} to {up[-1]:.4g}")
            axes.margins(x=0.02)
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
            label_ends(axes, ends)
        panels[-1, 0].set_xlabel("steps")
        panels[-1, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
        return svg(figure, "losses", "Both terms of the loss while adapting", told)


def _label_dots(axes: Any, dots: Mapping[str, tuple[float, float]]) -> None:
    """Each name at the first place of AROUND where it meets no dot and no other name, with a line where that is far."""
    axes.figure.draw_without_rendering()
    pixel = axes.figure.dpi / 72
    at = [axes.transData.transform(place) for place in dots.values()]
    taken = [Bbox.from_bounds(x - 4 * pixel, y - 4 * pixel, 8 * pixel, 8 * pixel) for x, y in at]
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    for word, place in dots.items():
        text = axes.annotate(word, place, (0, 0), textcoords="offset points", va="center", fontsize=9)
        text.set_in_layout(False)  # the layout is settled, or the dots would move away from the places just tried
        for across, up in AROUND:
            side = "left" if across > 0 else "right" if across < 0 else "center"
            text.set(position=(across, up), horizontalalignment=side)
            box = text.get_window_extent()
            if axes.bbox.containsx(box.x0) and axes.bbox.containsx(box.x1) and not any(map(box.overlaps, taken)):
                break
        taken.append(box)
        if max(abs(across), abs(up)) > CLOSE:
            axes.annotate("", place, (across, up), textcoords="offset points", arrowprops=line).set_in_layout(False)
