"""The plot on top of a race's page: each contestant's difference to the untouched model, with its interval.

Lengths along the axis are percentages, so the plot is as wide as the page and its letters keep their size. Colours are
those of templates/style.html; a notebook, which has none, gets the colours behind the commas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from acclimate.core.figures import points
from acclimate.core.settings import digest
from acclimate.reports.page import beginning

INK, MUTED, CARD = "var(--ink, currentColor)", "var(--muted, #6b7280)", "var(--card, #ffffff)"
GAIN, LOSS = "var(--gain, #00684b)", "var(--loss, #a83e00)"
HIGH, AXIS = 46, 34  # of a contestant and of the axis, in pixels
ROOM = 0.04  # share of the width on either side of what is drawn
TICKS = 6  # at most on the axis, the first one aside
LONGEST_NAME = 40  # characters
CONTESTANTS = "How do the contestants compare?"  # title of the section of the plot


@dataclass(frozen=True, slots=True)
class Difference:
    """A contestant's score less the untouched model's, in units of the metric. interval: None after too few rounds"""

    contestant: str
    value: float
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        """Return it in points, as `+2.4 [+1.0, +3.8]`."""
        if self.interval is None:
            return points(self.value, sign="+")
        low, high = (points(end, sign="+") for end in self.interval)
        return f"{points(self.value, sign='+')} [{low}, {high}]"

    @property
    def look(self) -> str:
        """Return "gain" or "loss" if the interval excludes 0, else ""."""
        if self.interval is None or self.interval[0] <= 0 <= self.interval[1]:
            return ""
        return "gain" if self.value > 0 else "loss"


def difference_plot(differences: Sequence[Difference], *, margin: float = 0.0) -> str:
    """Return the plot as an <svg> element: a filled mark if the interval excludes 0, a hollow one otherwise.

    margin: smallest gain that matters, in units of the metric, shown as a broken line; 0: without it
    """
    ends = [end for difference in differences for end in (difference.value, *(difference.interval or ()))]
    low, high = min(0.0, *ends), max(0.0, margin, *ends)
    room = ROOM * ((high - low) or 0.02)
    low, high = low - room, high + room

    def place(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    bottom = HIGH * len(differences)
    parts = []
    size = 10 ** floor(log10(100 * (high - low) / TICKS))  # a step of 1, 2, 5 or 10 times this gives at most TICKS
    step = next(size * digit for digit in (1, 2, 5, 10) if size * digit * TICKS >= 100 * (high - low)) / 100
    for number in range(ceil(low / step), floor(high / step) + 1):
        colour, opacity = (INK, 1) if number == 0 else (MUTED, 0.25)
        at = place(number * step)
        label = f"{100 * number * step:+.6g}".replace("-", "\N{MINUS SIGN}") if number else "0"
        parts.append(
            f'<line x1="{at}" x2="{at}" y1="0" y2="{bottom}" stroke="{colour}" stroke-opacity="{opacity}"/>'
            f'<text x="{at}" y="{bottom + 20}" text-anchor="middle">{label}</text>'
        )
    if margin:
        parts.append(
            f'<line x1="{place(margin)}" x2="{place(margin)}" y1="0" y2="{bottom}" stroke="{MUTED}" '
            'stroke-dasharray="4 3"><title>margin</title></line>'
        )
    for row, difference in enumerate(differences):
        colour = {"gain": GAIN, "loss": LOSS}.get(difference.look, INK)
        middle = HIGH * row + 32
        name = escape(beginning(difference.contestant, LONGEST_NAME))
        halo = f'paint-order="stroke" stroke="{CARD}" stroke-width="4"'  # the line of 0 may run behind the name
        parts.append(f'<text x="0" y="{HIGH * row + 17}" {halo}>{name}</text>')
        if difference.interval is not None:
            start, end = map(place, difference.interval)
            parts.append(
                f'<line x1="{start}" x2="{end}" y1="{middle}" y2="{middle}" stroke="{colour}" stroke-width="2.5"/>'
            )
        parts.append(
            f'<circle cx="{place(difference.value)}" cy="{middle}" r="5" fill="{colour if difference.look else CARD}" '
            f'stroke="{colour}" stroke-width="2"/>'
        )
    described = escape("; ".join(f"{difference.contestant}: {difference}" for difference in differences))
    name = f"differences-{digest(described)[:8]}"  # a notebook may show several
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-desc" width="100%" height="{bottom + AXIS}" font-size="13" fill="{INK}" '
        f'style="max-width:60rem;margin:0;height:{bottom + AXIS}px;overflow:visible">'
        f'<title id="{name}-title">Differences to the untouched model</title>'
        f'<desc id="{name}-desc">{described}</desc>{"".join(parts)}</svg>'
    )
