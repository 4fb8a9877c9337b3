"""Heat maps of head importance as SVG, a cell for each head, all on one scale with the number in each cell.

Colours: cividis (Nuñez, Anderton and Renslow, 2018), which readers with and without colour blindness see in the same
order. Cells bring their own ground, so they look the same on light and dark pages. How drawings behave on a page:
study/drawing.py.

Shape suffixes: L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from acclimate.study.attention_plots import CELL, heads_axes
from acclimate.study.drawing import STYLE, svg

DARK, BRIGHT = "#000000", "#ffffff"  # of numbers, on bright and on dark cells
READABLE = 0.179  # luminance of a cell on which both have the same contrast, 4.6 to 1


def heat_map(values_LH: np.ndarray, most: float, name: str, title: str, written: Callable[[float], str]) -> str:
    """A cell for each head, layers from above, coloured from 0 to `most`.

    name     of the drawing, unique on its page
    written  the number in a cell
    """
    layers, across = values_LH.shape
    colours_LH4 = _colours()(values_LH / most if most else values_LH)
    with matplotlib.rc_context(STYLE):
        figure, axes = heads_axes(layers, across, CELL)
        axes.imshow(colours_LH4, interpolation="none", aspect="auto")
        for (layer, head), value in np.ndenumerate(values_LH):
            ink = DARK if luminance(colours_LH4[layer, head]) > READABLE else BRIGHT
            axes.text(head, layer, written(float(value)), ha="center", va="center", color=ink, fontsize=8.5)
        told = [
            f"layer {layer + 1}: {' '.join(written(float(value)) for value in values_H)}"
            for layer, values_H in enumerate(values_LH)
        ]
        return svg(figure, name, title, told)


def scale(most: float, name: str, label: str) -> str:
    """The colours from 0 to `most`, with their numbers below."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.6, 0.75))
        axes = figure.add_axes((0.06, 0.62, 0.88, 0.3), xlabel=label)
        axes.imshow(_colours()(np.linspace(0, 1, 64)[None]), extent=(0, most or 1.0, 0, 1), aspect="auto")
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return svg(figure, name, f"Colours of {label}", [f"dark: 0; bright: {most:.3g}"])


def luminance(colour: np.ndarray) -> float:
    """Of a colour from 0 to 1 a channel, as WCAG 2.2 has it: 0 for black, 1 for white."""
    channels = np.asarray(colour[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _colours() -> Colormap:
    return matplotlib.colormaps["cividis"]
