"""How figures are written, in tables, plots, sentences and on the page: scores in points, costs with SI prefixes."""

from __future__ import annotations

from math import log10

from acclimate.core.types import Cost
from acclimate.study.significance import Comparison, Interval


def points(value: float, *, sign: str = "") -> str:
    """A score in points, to one decimal: .8125 is 81.2; `sign="+"` marks gains too. Never minus zero."""
    return f"{round(100.0 * value, 1) + 0.0:{sign}.1f}"


def interval_text(interval: Interval) -> str:
    return f"{points(interval.mean)} [{points(interval.low)}, {points(interval.high)}]"


def difference_text(comparison: Comparison | None) -> str:
    if comparison is None:
        return "-"
    low, high = (points(value, sign="+") for value in (comparison.low, comparison.high))
    return f"{points(comparison.difference, sign='+')} [{low}, {high}]"


def p_text(p: float | None) -> str:
    """Two digits, three below .1, as in `.034`; never a bare zero or one."""
    if p is None:
        return "-"
    if p < 0.001:
        return "< .001"
    return "> .99" if p > 0.99 else f"{p:.{3 if p < 0.1 else 2}f}".lstrip("0")


def si(value: float, unit: str = "") -> str:
    """Three digits with an SI prefix: 1234567 is `1.23 M`, 1.5e12 FLOP is `1.50 TFLOP`, 0 is `0`."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            scaled = value / size
            return f"{scaled:.{max(0, 2 - int(log10(abs(scaled) * 1.0005)))}f} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def duration(seconds: float) -> str:
    """`0.4 s`, `41 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s".removesuffix(" 00 s")
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min".removesuffix(" 00 min")


def cost_text(cost: Cost) -> str:
    """`1.23 M tokens, 12.3 TFLOP, 41 s`, or `-` for a stage that took nothing."""
    return "-" if cost == Cost() else f"{si(cost.tokens)} tokens, {si(cost.flops, 'FLOP')}, {duration(cost.seconds)}"


def metric_text(name: str) -> str:
    """`macro_f1` as people write it: macro-F1."""
    return name.replace("_f1", "-F1").replace("_", " ")
