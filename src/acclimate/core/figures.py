"""How figures are written, in tables, plots, sentences and on the page: scores in points, costs with SI prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from acclimate.core.types import Cost

NAMED = {"pearson": "Pearson's r", "spearman": "Spearman's rho", "mrr": "MRR", "f1": "F1"}


def points(value: float, *, sign: str = "") -> str:
    """A score in points, to one decimal: .8125 is 81.2; `sign="+"` marks gains too. Never minus zero."""
    return f"{round(100.0 * value, 1) + 0.0:{sign}.1f}"


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


def percent(share: float) -> str:
    """`12%`; below ten with a decimal, as in `0.3%`, but a whole number without, as in `4%`; never a bare zero."""
    if 0 < share < 0.0005:
        return "< 0.1%"
    value = round(100.0 * share, 1)
    return f"{value:.0f}%" if value >= 10 or value == int(value) else f"{value:.1f}%"


def metric_text(name: str) -> str:
    """`macro_f1` as people write it: macro-F1. What it leaves out, as in `micro_f1 without X`, stays as it is.

    A point of any metric is a hundredth of its unit: 81.2 points of Pearson's r are a correlation of .812.
    """
    stem, without, labels = name.partition(" without ")
    return NAMED.get(stem, stem.replace("_f1", "-F1").replace("_", " ")) + without + labels


def listed(words: Sequence[str]) -> str:
    """`DAPT`, `DAPT and TAPT`, `DAPT, DGA and TAPT`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def cautioned(figures: str, count: int, caution: str) -> str:
    """A caution of the statistics with what it is about: so many figures, such as `the score of DAPT`."""
    if caution.startswith("It "):
        subject, rest = (f"each of {figures}" if count > 1 else figures), caution.removeprefix("It")
    else:
        subject, rest = figures, f": {caution[0].lower()}{caution[1:]}"
    return f"{subject[0].upper()}{subject[1:]}{rest}"
