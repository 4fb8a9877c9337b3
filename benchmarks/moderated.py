"""May contestants share their variance over seeds? Forms of moderated variances, in made-up races with a known truth.

python benchmarks/moderated.py --out benchmarks/reports/2026-11-23-moderated.md
"""

from __future__ import annotations

import argparse
import itertools
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from page import head, table, tell, write
from scipy import special

from acclimate.statistics.variance import LEVEL, Components, half_width, p_value

FOLD = 5.0  # how many times the others' standard deviation that of the odd one is
TOLD_APART, FAMILY = (4.0, 6.0), 5.5
ITEMS = 10_000  # so many that the items' variance is known
NEVER = 1e8  # degrees of freedom of a prior that the contestants' variances do not contradict
Spread = tuple[np.ndarray, np.ndarray]  # variance over seeds (B, M) of a single run, and its degrees of freedom


def main() -> None:
    given = arguments()
    rows = []
    for contestants, seeds, share in itertools.product(given.contestants, given.seeds, given.items_share):
        for odd in ("none", "a contestant", "the baseline"):
            for name, found in simulate(given.studies, contestants, seeds, share, odd).items():
                rows.append((name, contestants, seeds, f"{100 * share:.0f}%", odd, *found))
        tell(f"{contestants} contestants, {seeds} seeds: {time.process_time() / 60:.1f} minutes of one core so far")
    facts = [("studies a line", f"{given.studies:,}"), ("took", f"{time.process_time() / 60:.1f} minutes of one core")]
    write(given.out, [head("Moderated variances over seeds", facts=facts), METHOD, summary(rows), whole(rows)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--studies", type=int, default=8_000)
    parser.add_argument("--contestants", type=int, nargs="+", default=[3, 4, 5, 6, 8], help="the baseline included")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5])
    parser.add_argument(
        "--items-share", type=float, nargs="+", default=[0.0, 0.5], help="of an even comparison's variance"
    )
    return parser.parse_args()


def simulate(studies: int, contestants: int, seeds: int, share: float, odd: str) -> dict[str, tuple[object, ...]]:
    """Form -> least and most of its rates over the comparisons, its family's, and the width against today's.

    All contestants are equal; the baseline is the first, the odd contestant the last.
    """
    generator = np.random.default_rng([contestants, seeds, int(100 * share), zlib.crc32(odd.encode())])
    deviation_M = np.ones(contestants)
    if odd != "none":
        deviation_M[0 if odd == "the baseline" else -1] = FOLD
    items = share / (1 - share) * 2 / seeds  # two equal contestants' difference has 2 / seeds over seeds
    luck_BMS = deviation_M[:, None] * generator.standard_normal((studies, contestants, seeds))
    hard_BM = np.sqrt(items / 2) * generator.standard_normal((studies, contestants))
    mean_BM = luck_BMS.mean(axis=-1) + hard_BM
    difference = mean_BM[:, 1:] - mean_BM[:, :1]
    found = {}
    today = half_width(paired(luck_BMS, items))
    for name, form in FORMS.items():
        components = form(luck_BMS, items)
        p = p_value(difference, components)
        rates = 100 * (p < LEVEL).mean(axis=0)
        # the family-wise error of Holm's procedure is that of its first step where all are equal
        family = 100 * np.mean(p.min(axis=-1) < LEVEL / (contestants - 1))
        even = (half_width(components) / today)[:, :-1] if odd == "a contestant" else half_width(components) / today
        found[name] = rates.min(), rates.max(), family, float(np.median(even))
    return found


def paired(luck_BMS: np.ndarray, items: float) -> Components:
    """Today's: the variance of the differences of paired seeds."""
    differences = luck_BMS[:, 1:] - luck_BMS[:, :1]
    seeds = luck_BMS.shape[-1]
    return of_difference(differences.var(axis=-1, ddof=1) / seeds, np.full(differences.shape[:2], seeds - 1.0), items)


def moderated_differences(luck_BMS: np.ndarray, items: float) -> Components:
    """The plain recipe: limma's moderated variances of the paired differences."""
    differences = luck_BMS[:, 1:] - luck_BMS[:, :1]
    seeds = luck_BMS.shape[-1]
    variance, freedom = plain(differences.var(axis=-1, ddof=1), seeds - 1)
    return of_difference(variance / seeds, freedom, items)


def of_each(moderate: Callable[[np.ndarray, int], Spread], luck_BMS: np.ndarray, items: float) -> Components:
    """Moderate each contestant's variance; a difference's is the sum, with Welch's and Satterthwaite's freedom."""
    seeds = luck_BMS.shape[-1]
    variance_BM, freedom_BM = moderate(luck_BMS.var(axis=-1, ddof=1), seeds - 1)
    variance = (variance_BM[:, 1:] + variance_BM[:, :1]) / seeds
    squares = (variance_BM**2 / freedom_BM) / seeds**2
    return of_difference(variance, variance**2 / (squares[:, 1:] + squares[:, :1]), items)


def of_difference(seeds: np.ndarray, freedom: np.ndarray, items: float) -> Components:
    return Components(seeds, np.full_like(seeds, items), freedom, ITEMS, np.zeros_like(seeds))


def untouched(variance_BM: np.ndarray, freedom: int) -> Spread:
    return variance_BM, np.full_like(variance_BM, freedom)


def plain(variance_BM: np.ndarray, freedom: int) -> Spread:
    """Smyth (2004): prior of d0 degrees of freedom and variance s0, from the contestants' log-variances.

    variance = (d0 s0 + freedom s^2) / (d0 + freedom), of d0 + freedom degrees of freedom
    """
    d0, s0 = prior(variance_BM, freedom, np.ones(variance_BM.shape, bool))
    return (d0 * s0 + freedom * variance_BM) / (d0 + freedom), np.broadcast_to(d0 + freedom, variance_BM.shape)


def capped(variance_BM: np.ndarray, freedom: int) -> Spread:
    """As `plain`, but the prior counts for no more than the contestant does."""
    d0, s0 = prior(variance_BM, freedom, np.ones(variance_BM.shape, bool))
    d0 = np.minimum(d0, freedom)
    return (d0 * s0 + freedom * variance_BM) / (d0 + freedom), np.broadcast_to(d0 + freedom, variance_BM.shape)


def robust(variance_BM: np.ndarray, freedom: int, *, most: float = NEVER) -> Spread:
    """As `plain`, but a contestant that does not fit the others keeps its variance and is not in the prior.

    Judged by the F test of its variance against the mean of the others', two-sided at 10%. most: of d0
    """
    outlying = outliers(variance_BM, freedom)
    d0, s0 = prior(variance_BM, freedom, ~outlying)
    d0 = np.where(outlying, 0.0, np.minimum(d0, most))
    return (d0 * s0 + freedom * variance_BM) / (d0 + freedom), d0 + freedom


def robust_and_capped(variance_BM: np.ndarray, freedom: int) -> Spread:
    return robust(variance_BM, freedom, most=freedom)


def never_less(variance_BM: np.ndarray, freedom: int) -> Spread:
    """As `robust_and_capped`, but no contestant's variance becomes smaller than it was seen to be."""
    variance, larger = robust_and_capped(variance_BM, freedom)
    return np.maximum(variance, variance_BM), larger


def little(variance_BM: np.ndarray, freedom: int) -> Spread:
    """As `never_less`, with a prior of half a degree of freedom at most."""
    variance, larger = robust(variance_BM, freedom, most=0.5)
    return np.maximum(variance, variance_BM), larger


def outliers(variance_BM: np.ndarray, freedom: int) -> np.ndarray:
    number = variance_BM.shape[-1]
    others = (variance_BM.sum(axis=-1, keepdims=True) - variance_BM) / (number - 1)
    below = special.fdtr(freedom, freedom * (number - 1), variance_BM / others)
    return (below > 0.95) | (below < 0.05)


def prior(variance_BM: np.ndarray, freedom: int, fits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, 1) d0 and s0 by the moments of log-variances (Smyth, 2004, section 6.2), of those that fit."""
    count = fits.sum(axis=-1, keepdims=True)
    log = np.log(variance_BM) - special.digamma(freedom / 2) + np.log(freedom / 2)
    mean = np.where(fits, log, 0).sum(axis=-1, keepdims=True) / np.maximum(count, 1)
    squares = np.where(fits, (log - mean) ** 2, 0).sum(axis=-1, keepdims=True) / np.maximum(count - 1, 1)
    excess = squares - special.polygamma(1, freedom / 2)
    d0 = np.where(excess > 0, 2 * inverse_trigamma(np.maximum(excess, 1e-6)), NEVER)
    known = np.minimum(d0, 1e6)
    s0 = np.exp(mean + special.digamma(known / 2) - np.log(known / 2))
    return np.where(count > 1, d0, 0.0), s0


def inverse_trigamma(value: np.ndarray) -> np.ndarray:
    """x with trigamma(x) = value, by Newton's method on 1 / trigamma (Smyth, 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(30):
        trigamma = special.polygamma(1, x)
        x = x + trigamma * (1 - trigamma / value) / special.polygamma(2, x)
    return x


FORMS: dict[str, Callable[[np.ndarray, float], Components]] = {
    "today: paired differences": paired,
    "each contestant's variance, not moderated": lambda luck, items: of_each(untouched, luck, items),
    "limma, of differences": moderated_differences,
    "limma, of each contestant": lambda luck, items: of_each(plain, luck, items),
    "limma of each, freedom capped": lambda luck, items: of_each(capped, luck, items),
    "robust": lambda luck, items: of_each(robust, luck, items),
    "robust, freedom capped": lambda luck, items: of_each(robust_and_capped, luck, items),
    "robust, capped, never less": lambda luck, items: of_each(never_less, luck, items),
    "robust, half a degree, never less": lambda luck, items: of_each(little, luck, items),
}


def summary(rows: list[tuple[object, ...]]) -> str:
    lines = []
    for name in FORMS:
        cells: list[object] = [name]
        for odd in ("none", "a contestant", "the baseline"):
            chosen = [row for row in rows if row[0] == name and row[4] == odd]
            cells.append(f"{min(row[5] for row in chosen):.1f} to {max(row[6] for row in chosen):.1f}")
        mine = [row for row in rows if row[0] == name]
        cells.append(f"{max(row[7] for row in mine):.1f}")
        for seeds in sorted({row[2] for row in mine}):
            widths = [row[8] for row in mine if row[2] == seeds and row[4] == "none"]
            cells.append(f"{min(widths):.2f} to {max(widths):.2f}")
        kept = sum(row[5] >= TOLD_APART[0] and row[6] <= TOLD_APART[1] and row[7] <= FAMILY for row in mine)
        safe = sum(row[6] <= TOLD_APART[1] and row[7] <= FAMILY for row in mine)
        lines.append((*cells, f"{safe} of {len(mine)}", f"{kept} of {len(mine)}"))
    seeds = [f"width, {number} seeds" for number in sorted({row[2] for row in rows})]
    names = (
        "form", "told apart, all alike, %", "one contestant odd, %", "baseline odd, %", "most of a family, %", *seeds,
        "never too many", "within all aims",
    )  # fmt: skip
    return f"## Summary\n\n{table(names, lines)}\n"


def whole(rows: list[tuple[object, ...]]) -> str:
    names = (
        "form", "contestants", "seeds", "items' share", "odd", "told apart: least, %", "most, %", "family, %", "width",
    )  # fmt: skip
    lines = [(*row[:5], *(f"{rate:.1f}" for rate in row[5:8]), f"{row[8]:.2f}") for row in rows]
    return f"## All lines\n\n{table(names, lines)}\n"


METHOD = f"""## What is measured

Races of equal contestants, each compared with the baseline, at the level of 5%. Runs have normal luck of the seed.
Where one is odd, its luck has {FOLD:.0f} times the standard deviation of the others'. The items' part of the variance
is known, and is none or half of the variance that the difference of two even contestants has.

* *told apart*: how often p of a comparison is below .05; least and most over the comparisons. Aim: 4 to 6.
* *family*: how often Holm's correction lets a race say that any two differ. Aim: at most {FAMILY}.
* *width*: half width of the 95% interval, divided by today's of the same study; the median over studies and over
  comparisons without the odd contestant. Power comes with narrower intervals.
* *never too many*: lines with at most 6% and {FAMILY}%. *within all aims*: at least 4% as well.

The standard error of a rate is .24 with 8,000 studies.
"""


if __name__ == "__main__":
    main()
