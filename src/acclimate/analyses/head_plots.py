"""Plots with a place for each attention head: axes of layers and heads, and heat maps with their scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from acclimate.reports.plots import STYLE, svg

CELL = 0.44  # inches of a head
BESIDE, ABOVE = 0.8, 0.75  # inches left of all heads, and above and below them
WIDE = 8  # heads of a layer, above which a drawing takes the whole width of the page
DARK, BRIGHT = "#000000", "#ffffff"  # of numbers, on bright and on dark cells
READABLE = 0.179  # luminance of a cell on which both have the same contrast, 4.6 to 1
COLOURS = "cividis"  # Nuñez, Anderton and Renslow (2018): readers with and without colour blindness see the same order


def heads_axes(layers: int, across: int, size: float) -> tuple[Figure, Any]:
    """Return a figure and its axes with a unit of `size` inches for each head, layers from above and heads across."""
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


def heat_map(values_LH: np.ndarray, most: float, name: str, title: str, written: Callable[[float], str]) -> str:
    """SVG with a cell for each head, layers from above, coloured from 0 to `most`.

    name     of the drawing, unique on its page
    written  value -> the text in its cell
    """
    layers, across = values_LH.shape
    colours_LH4 = matplotlib.colormaps[COLOURS](values_LH / most if most else values_LH)
    with matplotlib.rc_context(STYLE):
        figure, axes = heads_axes(layers, across, CELL)
        axes.imshow(colours_LH4, interpolation="none", aspect="auto")
        for (layer, head), value in np.ndenumerate(values_LH):
            ink = DARK if luminance(colours_LH4[layer, head]) > READABLE else BRIGHT
            axes.text(head, layer, written(float(value)), ha="center", va="center", color=ink, fontsize=8.5)
        marks = [
            f"layer {layer + 1}: {' '.join(written(float(value)) for value in values_H)}"
            for layer, values_H in enumerate(values_LH)
        ]
        return svg(figure, name, title, marks)


def scale(most: float, name: str, label: str) -> str:
    """SVG of the colours from 0 to `most`, with numbers below. name: of the drawing, unique on its page."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.6, 0.75))
        axes = figure.add_axes((0.06, 0.62, 0.88, 0.3), xlabel=label)
        axes.imshow(
            matplotlib.colormaps[COLOURS](np.linspace(0, 1, 64)[None]), extent=(0, most or 1.0, 0, 1), aspect="auto"
        )
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return svg(figure, name, f"Colours of {label}", [f"dark: 0; bright: {most:.3g}"])


def luminance(colour: np.ndarray) -> float:
    """Return the relative luminance of a colour with channels from 0 to 1 (WCAG 2.2): 0 for black, 1 for white."""
    channels = np.asarray(colour[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
