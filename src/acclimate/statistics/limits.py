"""What limits the answer of a race: test rows, seeds or adaptations, and how many of them would remove the limit.

The variance of the named contestant's difference has three sources. With ratios rows = n' / n, runs = S' / S and
adaptations = A' / A of a larger race, it would be

    Var' = items / rows + (chance - residual + residual / rows) (a / adaptations + (1 - a) / runs)

chance is the runs' part, a the share of it that comes from adaptations, and the degrees of freedom are those of the
larger race. Three designs differ in what a further run is:

    no or one adaptation       another seed
    an adaptation per run      another adaptation with a seed of its own; both are one source, named "adaptations"
    adaptations that share     another seed of the same adaptations, or another adaptation

Halving. The number is the smallest whose interval is at most half as wide as now.

Settling. The differences will change as well. As the larger race contains this one, a difference d changes by a
variable of variance Var - Var', and seeds that were lucky so far will not be so again. The new difference is about

    d max(0, 1 - (Var - Var') / d^2)  -/+  the 80% quantile of the change

whose factor is the positive part of James and Stein's (1961). A number settles the answer if it is settled with every
difference of that range. Test rows limit an open answer if, with MOST_RUNS times the runs, no difference within the
85% quantile of d settles it. If neither holds, the source is "several": more runs may settle the answer, but no number
can be named. Both quantiles were chosen by simulation.

Assumed: variances stay as estimated, and the differences of all contestants shift together. Simulated:
benchmarks/reports/2026-11-29-answers-limits.md.

Shape suffixes: m contestants, G sizes of the larger race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from acclimate.statistics.answer_rule import MARGIN, Ends, is_settled
from acclimate.statistics.simultaneous import Gain, simultaneous_half_width
from acclimate.statistics.variance import Components, quotient
from acclimate.tasks.task import Values

Source = Literal["test rows", "seeds", "adaptations"]
MOST_RUNS, MOST_ROWS = 10, 100  # times the present number that is considered
STEP = 1.05  # ratio of two numbers that are tried
LIKELY, UNLIKELY = 0.8, 0.85  # quantiles of the change of the differences
SHIFTS = 9  # between the quantile down and the quantile up


@dataclass(frozen=True, slots=True)
class Remedy:
    """What more of one source would do.

    now        test rows, seeds or adaptations of this race
    share      of the variance of the named contestant's difference, 0 to 1
    to_halve   number in all that halves its simultaneous interval; None: no number does
    to_settle  number in all that settles the answer more often than not; None: no number does, or it is settled

    At most MOST_ROWS times the test rows, and MOST_RUNS times the seeds or adaptations, are considered.
    """

    source: Source
    now: int
    share: float
    to_halve: int | None
    to_settle: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """source: what limits the answer; of a settled one, what most of the variance comes from.

    remedies  of every source that the race can have more of, test rows first
    """

    source: Source | Literal["several"]
    remedies: tuple[Remedy, ...]

    def remedy(self, source: Source) -> Remedy | None:
        """Return what more of this source would do; None if the race does not vary it."""
        return next((remedy for remedy in self.remedies if remedy.source == source), None)


def limits_of(gains: Sequence[Gain], place: int, *, margin: float = MARGIN) -> Limits:
    """Return what limits the answer that names the gain at this place. margin: smallest gain that matters"""
    race = _race(gains, margin)
    named = gains[place]
    variance, chance = float(named.components.variance), float(race.chance_m[place])
    shares: dict[Source, float] = {"test rows": 1.0 - chance / variance if variance else 1.0}
    numbers: dict[Source, int] = {"test rows": named.components.count}
    if chance and named.adaptation_share < 1:
        shares["seeds"] = chance * (1 - named.adaptation_share) / variance
        numbers["seeds"] = named.runs
    if chance and named.adaptations > 1:
        shares["adaptations"] = chance * named.adaptation_share / variance
        numbers["adaptations"] = named.adaptations
    settled = bool(is_settled(Ends(*np.array([gain.interval for gain in gains]).T), margin=margin))
    half = _half_widths(race, _Size())[place]
    remedies = []
    for source, now in numbers.items():
        number_G = _numbers(now, MOST_ROWS if source == "test rows" else MOST_RUNS)
        size = _size(source, number_G, named)
        halved_G = np.asarray(_half_widths(race, size)[:, place] <= half / 2)
        settled_G = np.asarray(
            _settled(race, size, _shrunken(race, size), quantile=LIKELY).all(axis=-1) & (not settled)
        )
        remedies.append(Remedy(source, now, shares[source], _first(number_G, halved_G), _first(number_G, settled_G)))
    by_share = sorted(remedies, key=lambda remedy: -remedy.share)
    if settled:
        return Limits(by_share[0].source, tuple(remedies))
    of_runs = [remedy for remedy in by_share if remedy.source != "test rows"]
    if able := [remedy for remedy in of_runs if remedy.to_settle is not None]:
        return Limits(able[0].source, tuple(remedies))
    largest = [_size(remedy.source, np.array([MOST_RUNS * remedy.now]), named) for remedy in of_runs]
    possible = any(_settled(race, size, race.differences_m, quantile=UNLIKELY).any() for size in largest)
    return Limits("several" if possible else "test rows", tuple(remedies))


@dataclass(frozen=True, slots=True)
class _Race:
    """The gains of a race side by side: arrays are (m,)."""

    differences_m: Values
    components: Components
    chance_m: Values
    adaptation_share_m: Values
    runs_m: Values
    adaptations_m: Values
    single_level_m: Values
    margin: float


@dataclass(frozen=True, slots=True)
class _Size:
    """Ratios of a larger race to this one: numbers, or (G, 1)."""

    rows: Values | float = 1.0
    runs: Values | float = 1.0
    adaptations: Values | float = 1.0


def _race(gains: Sequence[Gain], margin: float) -> _Race:
    parts = [gain.components for gain in gains]
    components = Components(
        np.array([float(part.seeds) for part in parts]),
        np.array([float(part.items) for part in parts]),
        np.array([float(part.seed_freedom) for part in parts]),
        parts[0].count,
        np.array([float(part.residual) for part in parts]),
    )
    return _Race(
        np.array([gain.difference for gain in gains]),
        components,
        np.maximum(components.seeds, components.residual),
        np.array([gain.adaptation_share for gain in gains]),
        np.array([gain.runs for gain in gains], dtype=float),
        np.array([gain.adaptations for gain in gains], dtype=float),
        np.array([gain.single_level for gain in gains]),
        margin,
    )


def _size(source: Source, number_G: Values, named: Gain) -> _Size:
    """Return the larger race with so many in all of this source, by what a further run of the named contestant is."""
    number_G1 = np.asarray(number_G, dtype=float)[:, None]
    if source == "test rows":
        return _Size(rows=number_G1 / named.components.count)
    if source == "seeds":
        return _Size(runs=number_G1 / named.runs)
    return _Size(runs=np.maximum(number_G1 / named.runs, 1.0), adaptations=number_G1 / named.adaptations)


def _larger(race: _Race, size: _Size) -> Components:
    """Return the components (G, m) or (m,) of the larger race, by the equation at the top of this file."""
    share_m, now = race.adaptation_share_m, race.components
    of_adaptations, of_runs = share_m / size.adaptations, (1 - share_m) / size.runs
    fewer = of_adaptations + of_runs
    squares = of_adaptations**2 / np.maximum(race.adaptations_m * size.adaptations - 1, 1.0)
    squares = squares + of_runs**2 / np.maximum(race.runs_m * size.runs - 1, 1.0)
    residual = np.minimum(now.residual, race.chance_m)
    items = now.items / size.rows
    return Components(
        np.asarray((race.chance_m - residual + residual / size.rows) * fewer),
        np.broadcast_to(items, np.broadcast_shapes(items.shape, fewer.shape)),
        np.asarray(fewer**2 / squares),
        int(np.min(now.count * np.asarray(size.rows))),
        np.asarray(residual / size.rows * fewer),
    )


def _half_widths(race: _Race, size: _Size) -> Values:
    """(G, m) or (m,) half widths of the simultaneous intervals of the larger race."""
    return simultaneous_half_width(_larger(race, size), race.single_level_m)


def _settled(race: _Race, size: _Size, middle_m: Values, *, quantile: float) -> npt.NDArray[np.bool_]:
    """(G, SHIFTS) whether the larger race is settled, with differences up to this quantile of their change
    below and above the middle, (m,) or (G, m).
    """
    from scipy import special

    # what changes is the items' part or the runs', and its variance is known as well as that part's
    of_items = np.any(np.asarray(size.rows) > 1)
    freedom_m = race.components.count - 1 if of_items else _larger(race, _Size()).seed_freedom
    most_Gm = special.stdtrit(freedom_m, quantile) * np.sqrt(_change(race, size))
    shifted_GKm = middle_m[..., None, :] + np.linspace(-1.0, 1.0, SHIFTS)[:, None] * most_Gm[..., None, :]
    half_G1m = _half_widths(race, size)[..., None, :]
    return is_settled(Ends(shifted_GKm - half_G1m, shifted_GKm + half_G1m), margin=race.margin)


def _shrunken(race: _Race, size: _Size) -> Values:
    """(G, m) the differences that the larger race is expected to have, by the equation at the top of this file."""
    change_Gm = _change(race, size)
    squares_Gm = np.broadcast_to(race.differences_m**2, change_Gm.shape)
    return race.differences_m * (1.0 - np.minimum(quotient(change_Gm, squares_Gm), 1.0))


def _change(race: _Race, size: _Size) -> Values:
    """(G, m) or (m,) variance of what the differences change by."""
    return np.asarray(np.maximum(_larger(race, _Size()).variance - _larger(race, size).variance, 0.0))


def _numbers(now: int, most: int) -> Values:
    """Return the numbers above `now` that are tried, up to `most` times it: STEP apart, of two digits above 100."""
    steps = int(np.ceil(np.log(most) / np.log(STEP)))
    number_G = now * STEP ** np.arange(1, steps + 1)
    unit_G = np.where(number_G > 100, 10.0 ** (np.floor(np.log10(number_G)) - 1), 1.0)
    return np.unique(np.ceil(number_G / unit_G) * unit_G).astype(int)


def _first(number_G: Values, holds_G: npt.NDArray[np.bool_]) -> int | None:
    return int(number_G[np.argmax(holds_G)]) if holds_G.any() else None
