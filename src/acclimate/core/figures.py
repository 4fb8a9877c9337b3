"""Numbers as text, for tables, plots, sentences and pages: scores in points, costs with SI prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log10

from acclimate.core.types import Cost

NAMED = {"pearson": "Pearson's r", "spearman": "Spearman's rho", "mrr": "MRR", "f1": "F1"}
NAMED |= {"ndcg_at_10": "nDCG@10", "mrr_at_10": "MRR@10", "recall_at_100": "recall@100"}


def points(value: float, *, sign: str = "") -> str:
    """Return a score in points, to one decimal: .8125 as `81.2`. `sign="+"` writes `+` before gains; -0.0 is `0.0`."""
    return f"{round(100.0 * value, 1) + 0.0:{sign}.1f}"


def p_text(p: float | None) -> str:
    """Return p to two decimals, below .1 to three, such as `.034`; `< .001`, `> .99`; `-` for None."""
    if p is None:
        return "-"
    if p < 0.001:
        return "< .001"
    return "> .99" if p > 0.99 else f"{p:.{3 if p < 0.1 else 2}f}".lstrip("0")


def si(value: float, unit: str = "") -> str:
    """Return three digits with an SI prefix: 1234567 as `1.23 M`, 1.5e12 FLOP as `1.50 TFLOP`, 0 as `0`."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            scaled = value / size
            return f"{scaled:.{max(0, 2 - int(log10(abs(scaled) * 1.0005)))}f} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


# seconds of a unit, its name, and the seconds from which on the next unit reads better
_ROUGHLY = ((60.0, "min", 5400.0), (3600.0, "h", 172_800.0), (86_400.0, "days", inf))


def duration(seconds: float) -> str:
    """Return a duration such as `0.4 s`, `41 s`, `3 min 20 s` or `2 h 05 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s".removesuffix(" 00 s")
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min".removesuffix(" 00 min")


def rough_duration(seconds: float) -> str:
    """Return a forecast time, two digits in a unit that suits: `less than a minute`, `12 min`, `2.5 h`, `5.5 days`."""
    if seconds < 45:
        return "less than a minute"
    unit, name = next((unit, name) for unit, name, most in _ROUGHLY if seconds < most)
    return f"{float(f'{seconds / unit:.2g}'):,g} {name}"


def cost_text(cost: Cost) -> str:
    """Return a cost such as `1.23 M tokens, 12.3 TFLOP, 41 s`; `-` if all three are 0."""
    return "-" if cost == Cost() else f"{si(cost.tokens)} tokens, {si(cost.flops, 'FLOP')}, {duration(cost.seconds)}"


def percent(share: float) -> str:
    """Return a share of 1 as per cent: `12%`, below ten with a decimal (`0.3%`, but `4%`), `< 0.1%` for tiny ones."""
    if 0 < share < 0.0005:
        return "< 0.1%"
    value = round(100.0 * share, 1)
    return f"{value:.0f}%" if value >= 10 or value == int(value) else f"{value:.1f}%"


def metric_text(name: str) -> str:
    """Return a metric's name as people write it: `macro_f1` as macro-F1, `micro_f1 without X` as micro-F1 without X.

    A point of any metric is a hundredth of its unit: 81.2 points of Pearson's r are a correlation of .812.
    """
    stem, without, labels = name.partition(" without ")
    return NAMED.get(stem, stem.replace("_f1", "-F1").replace("_", " ")) + without + labels


def has(names: Sequence[str]) -> str:
    """Return the verb after a list of names."""
    return "has" if len(names) == 1 else "have"


def listed(words: Sequence[str]) -> str:
    """Return a list as text: `DAPT`, `DAPT and TAPT`, `DAPT, DGA and TAPT`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def span_text(numbers: Sequence[int]) -> str:
    """Return whole numbers as text: `3` where all are 3, else `3 to 5`."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def cautioned(figures: str, caution: str) -> str:
    """Return a caution of the statistics behind the figures that it is about, such as `the score of DAPT`."""
    return f"{figures[0].upper()}{figures[1:]}: {caution[0].lower()}{caution[1:]}"
