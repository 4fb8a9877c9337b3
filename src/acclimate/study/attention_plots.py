"""Two drawings of an encoder's heads, as SVG: their kinds layer by layer, and what each makes of one text.

Kinds are told by letter and by frame, never by colour alone. How drawings behave on a page: study/drawing.py.
"""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from acclimate.study.attention import BOTH, OTHER, POSITIONAL, VERTICAL, Heads
from acclimate.study.drawing import INK, MUTED, PALETTE, STYLE, svg

BLUE, ORANGE, PURPLE = PALETTE[0], PALETTE[4], PALETTE[3]
# kind -> letter, colour of its cell, of the letter in it, and how its map is framed
LOOKS: dict[str, tuple[str, str, str, tuple[float, str]]] = {
    POSITIONAL: ("P", BLUE, "#ffffff", (2.4, "-")),
    VERTICAL: ("V", ORANGE, "#000000", (1.6, ":")),
    BOTH: ("PV", PURPLE, "#000000", (2.0, "--")),
}
PLACES = {-1: "\N{MINUS SIGN}1", 1: "+1", 0: "\N{PLUS-MINUS SIGN}1"}
CELL, BESIDE, ABOVE = 0.44, 0.8, 0.75  # inches of a head, left of all and above and below all
SMALLEST, LARGEST_MAP = 0.62, 1.9  # inches of a head's map
GAP = 2  # tokens between maps
SHADE = "#2f8fd6"  # of a full weight: three times as light or dark as a light page and a dark one


def kinds_of_heads(heads: Heads, name: str) -> str:
    """A cell for each head, layers from above: P positional, with the place looked at, V vertical, PV both, else blank.

    name: of the drawing, unique on its page.
    """
    layers, across = heads.kinds.shape
    with matplotlib.rc_context(STYLE):
        figure, axes = heads_axes(layers, across, CELL)
        for (layer, head), kind in np.ndenumerate(heads.kinds):
            corner = (head - 0.44, layer - 0.44)
            if kind == OTHER:
                axes.add_patch(
                    Rectangle(corner, 0.88, 0.88, facecolor="none", edgecolor=MUTED, linewidth=0.7, alpha=0.6)
                )
                continue
            letter, colour, ink, _ = LOOKS[kind]
            axes.add_patch(Rectangle(corner, 0.88, 0.88, facecolor=colour, edgecolor="none"))
            place = PLACES[int(heads.one_place[layer, head])] if kind == POSITIONAL else ""
            axes.text(
                head, layer, f"{letter}{place}", ha="center", va="center", color=ink, fontweight="bold", fontsize=8.5
            )
        return svg(figure, f"kinds-{name}", f"Kinds of the heads of {heads.title}", told(heads))


def maps_of_heads(heads: Heads, name: str) -> str:
    """The weights over the example, a map for each head: rows ask, columns are looked at; a kind has its frame."""
    weights = heads.example.weights
    layers, across, tokens, _ = weights.shape
    pitch = tokens + GAP
    shades = np.zeros((layers * pitch - GAP, across * pitch - GAP))
    for (layer, head), _ in np.ndenumerate(heads.kinds):
        shades[layer * pitch :, head * pitch :][:tokens, :tokens] = weights[layer, head]
    size = float(np.clip(7.0 / across, SMALLEST, LARGEST_MAP))
    with matplotlib.rc_context(STYLE):
        figure, axes = heads_axes(layers, across, size)
        picture = np.zeros((*shades.shape, 4))
        picture[..., :3], picture[..., 3] = to_rgb(SHADE), shades  # its ground is the page's
        margin = tokens / pitch / 2
        extent = (-margin, across - 1 + margin, layers - 1 + margin, -margin)
        axes.imshow(picture, extent=extent, interpolation="none", aspect="auto")
        for (layer, head), kind in np.ndenumerate(heads.kinds):
            width, line = LOOKS[kind][3] if kind != OTHER else (0.6, "-")
            ink = MUTED if kind == OTHER else INK
            corner = (head - margin, layer - margin)
            axes.add_patch(
                Rectangle(
                    corner, 2 * margin, 2 * margin, facecolor="none", edgecolor=ink, linewidth=width, linestyle=line
                )
            )
        axes.set_xlim(-0.5, across - 0.5)
        axes.set_ylim(layers - 0.5, -0.5)
        title = f"Attention of {heads.title} over: {' '.join(heads.example.tokens)}"
        return svg(figure, f"maps-{name}", title, told(heads))


def told(heads: Heads) -> list[str]:
    """A phrase for each head that is positional or vertical."""
    named = np.argwhere(heads.kinds != OTHER)
    phrases = []
    for layer, head in named.tolist():
        parts = []
        if heads.kinds[layer, head] in (POSITIONAL, BOTH):
            parts.append(f"positional, {heads.positional[layer, head]:.0%} on neighbours")
        if heads.kinds[layer, head] in (VERTICAL, BOTH):
            parts.append(f"vertical, {heads.vertical[layer, head]:.0%} on marks")
        phrases.append(f"layer {layer + 1}, head {head + 1}: {' and '.join(parts)}")
    others = heads.kinds.size - len(named)
    return [*phrases, f"{others} of {heads.kinds.size} heads neither"]


def heads_axes(layers: int, across: int, size: float) -> tuple[Figure, Any]:
    """Axes with a unit for each head, `size` inches wide, layers down and heads across."""
    width, height = max(across * size, 2.2) + BESIDE, layers * size + ABOVE
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((BESIDE / width, 0.62 / height, across * size / width, layers * size / height))
    axes.set(xlim=(-0.5, across - 0.5), ylim=(layers - 0.5, -0.5), xlabel="head", ylabel="layer")
    axes.set_xticks(range(across), labels=map(str, range(1, across + 1)))
    axes.set_yticks(range(layers), labels=map(str, range(1, layers + 1)))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure, axes
