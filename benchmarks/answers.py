"""Are a race's answers wrong as seldom as they claim? Made-up races of 2 to 6 contestants with a known truth.

python benchmarks/answers.py --out benchmarks/reports/2026-11-29-answers.md
"""

from __future__ import annotations

import argparse
import itertools
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from page import head, run_parts, table, tell, write
from worlds import FOR_ALL, FOR_ONE, WORLDS, World

from acclimate.statistics.adaptation import RunLayout, components_of_runs, layout
from acclimate.statistics.answer import Answer, answer_of
from acclimate.statistics.answer_rule import MARGIN, Ends, answer_kind, is_settled
from acclimate.statistics.simultaneous import (
    GRID,
    MOST,
    correct_few_items,
    level_alone,
    mean_correlation,
    simultaneous_half_width,
)
from acclimate.statistics.variance import LEVEL, Components, Resampled, components_of, half_width, jackknife

FALSE, COVERED = 5.0, 94.0  # aims, in %: at most and at least
ROWS = 10_000  # test rows of scores whose variance over rows is known
BLOCK = 6_000_000  # numbers in memory at once
# of scores: standard deviations over seeds of the untouched model, of all contestants but the last, and of the last
SPREADS = {
    "equal": (1.0, 1.0, 1.0),
    "a contestant x5": (1.0, 1.0, 5.0),
    "untouched x5": (5.0, 1.0, 1.0),
    "untouched / 5": (0.2, 1.0, 1.0),
}
# the same of a metric, in ease: benchmarks/worlds.py
LUCK = {"equal": (0.05, 0.05, 0.05), "a contestant x5": (0.04, 0.04, 0.2), "untouched x5": (0.2, 0.04, 0.04)}
WILD = "pearson, twice the spread"  # a standard deviation of 10 to 14 points over seeds where it is x5
METRICS = ("accuracy", "accuracy of .97", "macro_f1, a class of 2%", "entity_f1", "pearson", WILD)
# The share of LUCK with which x5 is a standard deviation of 4 to 6 points, as it is for the other metrics.
LUCK_SHARE = {"pearson": 0.5}
DESIGNS = {
    "3 adaptations, 5 seeds": layout([0, 1, 2, 0, 1], range(5)),
    "2 adaptations, 4 seeds": layout([0, 1] * 2, range(4)),
    "3 adaptations x 3 seeds": layout([0, 1, 2] * 3, [seed for seed in range(3) for _ in range(3)]),
}
# standard deviations of a run over adaptations and seeds in points, and the factor of the last contestant's
SHARED = {
    "0, 1": (0.0, 0.01, 1.0),
    "3, 1": (0.03, 0.01, 1.0),
    "3, 3": (0.03, 0.03, 1.0),
    "3, 3; one x3": (0.03, 0.03, 3.0),
}
HARD, ALONE, WAVER = 0.35, 0.25, 0.2  # standard deviations of a row's score: of all, of one contestant, of one run


def main() -> None:
    options = arguments()
    run_parts(options.parts, lambda name: PARTS[name](options), partial(report, options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--races", type=int, default=20_000, help="races of scores per line")
    parser.add_argument("--shared-races", type=int, default=4_000)
    parser.add_argument("--metric-races", type=int, default=500)
    parser.add_argument("--limit-races", type=int, default=60)
    parser.add_argument("--limit-rows", type=int, nargs="+", default=[500, 4_000])
    parser.add_argument("--adapted", type=int, nargs="+", default=[1, 2, 3, 5], help="contestants beside the untouched")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 500], help="test rows of metrics")
    parser.add_argument("--metrics", nargs="+", default=list(METRICS))
    return parser.parse_args()


# scores: normal, with known variances over rows


def score_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """(form, adapted, seeds, spread, share of the rows, false claims, covered, no gain false, width) of every race."""
    lines = []
    for adapted, seeds, spread, share in itertools.product(
        options.adapted, options.seeds, SPREADS, (0.0, 0.2, 0.5, 0.9)
    ):
        generator = np.random.default_rng([adapted, seeds, int(10 * share), zlib.crc32(spread.encode())])
        error, components, correlation = scores(
            generator, options.races, adapted=adapted, seeds=seeds, spread=SPREADS[spread], share=share
        )
        single = half_width(components)
        chosen = FORMS[CHOSEN](components, adapted, correlation)
        for form, width in FORMS.items():
            half = width(components, adapted, correlation)
            lines.append(
                (form, adapted, seeds, spread, share, *rates(error, half, single), float(np.median(half / chosen)))
            )
    return lines


def scores(
    generator: np.random.Generator, races: int, *, adapted: int, seeds: int, spread: Sequence[float], share: float
) -> tuple[np.ndarray, Components, np.ndarray]:
    """(B, m) errors of the differences, their components, and (B,) their mean correlation as estimated.

    share: of the rows in the variance of an even difference, whose runs have half of their variance as residual of rows
    """
    deviation_M = np.array([spread[0], *[spread[1]] * (adapted - 1), spread[2]])
    runs = deviation_M[:, None] * generator.standard_normal((races, adapted + 1, seeds))
    items = share / (1 - share) * 1.0 / seeds if share < 1 else 0.0  # of one contestant
    mean = runs.mean(axis=-1) + np.sqrt(items) * generator.standard_normal((races, adapted + 1))
    differences = runs[:, 1:] - runs[:, :1]
    parts = differences.var(axis=-1, ddof=1) / seeds
    known = np.full_like(parts, 2 * items)
    components = Components(parts, known, np.full_like(parts, seeds - 1.0), ROWS, np.zeros_like(parts))
    centred = differences - differences.mean(axis=-1, keepdims=True)
    error = np.sqrt(components.variance)
    together = centred @ np.swapaxes(centred, -1, -2) / ((seeds - 1) * seeds) + items
    correlations = (together / (error[:, :, None] * error[:, None, :]))[:, ~np.eye(adapted, dtype=bool)]
    mean_of_them = correlations.mean(axis=-1) if adapted > 1 else np.zeros(races)
    correlation = GRID * np.floor(np.clip(mean_of_them, 0.0, MOST) / GRID + 1e-9)
    return mean[:, 1:] - mean[:, :1], components, correlation


def level_each(adapted: int, correlation: np.ndarray) -> np.ndarray:
    """(B, 1) level of each interval alone, by the correlation of each race."""
    steps, places = np.unique(correlation, return_inverse=True)
    return np.array([level_alone(adapted, float(step)) for step in steps])[places][:, None]


Form = Callable[[Components, int, np.ndarray], np.ndarray]
CHOSEN = "Dunnett, estimated correlation"
FORMS: dict[str, Form] = {
    CHOSEN: lambda components, adapted, correlation: simultaneous_half_width(
        components, level_each(adapted, correlation)
    ),
    "Dunnett, correlation .5": lambda components, adapted, _: simultaneous_half_width(
        components, level_alone(adapted, 0.5)
    ),
    "Bonferroni": lambda components, adapted, _: simultaneous_half_width(components, LEVEL / adapted),
    "Bonferroni, freedom of 5%": lambda components, adapted, _: half_width(components, level=LEVEL / adapted),
}


def rates(error: np.ndarray, half: np.ndarray, single: np.ndarray) -> tuple[float, float, float]:
    """In %: a difference claimed of equal contestants; all covered; no gain claimed where the last gains the margin.

    In the third, one contestant gains exactly the margin and the others are far below; the most over contestants.
    """
    covered = (np.abs(error) <= half).all(axis=-1)
    kind, _ = answer_kind(error, Ends(error - half, error + half), Ends(error - single, error + single), margin=0.0)
    claimed = (kind == "helped") | (kind == "harmful")
    none = (error + half < 0).mean(axis=0).max()
    return 100 * claimed.mean(), 100 * covered.mean(), 100 * float(none)


def intervals(points: np.ndarray, shares: np.ndarray, components: Components) -> tuple[np.ndarray, ...]:
    """(B, m) differences and half widths, simultaneous and single, from the runs' differences (B, m, N) and shares."""
    correlation = mean_correlation(components.variance, shares.mean(axis=-2), points, shares)
    half = simultaneous_half_width(components, level_each(points.shape[1], correlation))
    return points.mean(axis=-1), half, half_width(components)


# shared adaptations: normal scores of every row and run


def shared_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    lines = []
    for adapted, design, spread in itertools.product(options.adapted, DESIGNS, SHARED):
        generator = np.random.default_rng([adapted, zlib.crc32((design + spread).encode())])
        runs, rows = DESIGNS[design], 200
        block = max(1, BLOCK // (rows * (adapted + 1) * len(runs.seed_N)))
        parts = []
        for begin in range(0, options.shared_races, block):
            points, shares, plain, plain_shares = adapted_rows(
                generator,
                min(block, options.shared_races - begin),
                adapted=adapted,
                rows=rows,
                runs=runs,
                spread=SHARED[spread],
            )
            of_seed = list(runs.seed_N)
            points, left = points - plain[:, :, of_seed], shares - plain_shares[:, :, of_seed]
            components = correct_few_items(
                components_of_runs(points, left, runs), shares.mean(axis=-2), plain_shares.mean(axis=-2), most=1.0
            )
            parts.append(intervals(points, left, components))
        error, half, single = (np.concatenate(column) for column in zip(*parts, strict=True))
        lines.append((design, adapted, spread, *rates(error, half, single), 100 * float(np.median(half))))
    return lines


def adapted_rows(
    generator: np.random.Generator, races: int, *, adapted: int, rows: int, runs: RunLayout, spread: Sequence[float]
) -> tuple[np.ndarray, ...]:
    """Points (B, m, N) and shares (B, m, N, n) of the adapted contestants; then of the untouched, a run per seed."""
    adaptation, seed, last = spread
    seeds = max(runs.seed_N) + 1
    factor_M = np.ones((adapted + 1, 1, 1))
    factor_M[-1] = last

    def drawn(deviation: float, *shape: int) -> np.ndarray:
        return np.float32(deviation) * generator.standard_normal((races, *shape), dtype=np.float32)

    hard = drawn(HARD, 1, 1, rows) + drawn(ALONE, adapted + 1, 1, rows)
    of_seed = factor_M * drawn(seed, adapted + 1, seeds, 1)
    of_adaptation = factor_M[1:] * drawn(adaptation, adapted, runs.adaptations, 1)
    ours = hard[:, 1:] + of_seed[:, 1:][:, :, list(runs.seed_N)] + of_adaptation[:, :, list(runs.adaptation_N)]
    ours = ours + drawn(WAVER, adapted, len(runs.seed_N), rows)
    theirs = hard[:, :1] + of_seed[:, :1] + drawn(WAVER, 1, seeds, rows)
    parts = []
    for side in (ours, theirs):
        points = side.mean(axis=-1, dtype=np.float64)
        parts += [points, side - points[..., None]]
    return tuple(parts)


# metrics: benchmarks/worlds.py with other spreads and true gains


def metric_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    lines = []
    worlds = {world.name: world for world in WORLDS}
    worlds[WILD] = worlds["pearson"]
    for name, rows, (adapted, seeds), spread in itertools.product(
        options.metrics, options.rows, ((1, 3), (3, 3), (3, 5), (5, 5)), LUCK
    ):
        if adapted not in options.adapted or seeds not in options.seeds:
            continue
        generator = np.random.default_rng([rows, adapted, seeds, zlib.crc32((name + spread).encode())])
        first, middle, last = (LUCK_SHARE.get(name, 1.0) * luck for luck in LUCK[spread])
        luck_M = (first, *[middle] * (adapted - 1), last)
        race = MetricRace(
            worlds[name],
            rows,
            seeds,
            luck_M,
            (0.0, *(shift(worlds[name], rows, first, luck, 0.0) for luck in luck_M[1:])),
        )
        error, half, single = measured(generator, race, options.metric_races)
        claimed, covered, _ = rates(error, half, single)
        gained = (*race.shift_M[:-1], shift(worlds[name], rows, first, last, MARGIN))
        gain, half, single = measured(
            generator, MetricRace(worlds[name], rows, seeds, luck_M, gained), options.metric_races
        )
        kind, _ = answer_kind(gain, Ends(gain - half, gain + half), Ends(gain - single, gain + single))
        truth = np.array([*[0.0] * (adapted - 1), MARGIN])
        both = 100 * (np.abs(gain - truth) <= half).all(axis=-1).mean()
        none = 100 * np.isin(kind, ["no gain that matters", "harmful"]).mean()
        lines.append((name, rows, adapted, seeds, spread, claimed, covered, both, none, 100 * float(np.median(half))))
        tell(f"{name}, {rows} rows, {adapted} adapted, {seeds} seeds, {spread}: {time.process_time() / 60:.1f} minutes")
    return lines


@dataclass(frozen=True)
class MetricRace:
    """luck_M: standard deviation of the seeds of each contestant, in ease; shift_M: by how much ease is lower."""

    world: World
    rows: int
    seeds: int
    luck_M: tuple[float, ...]
    shift_M: tuple[float, ...]


def measured(generator: np.random.Generator, race: MetricRace, races: int) -> tuple[np.ndarray, ...]:
    """(B, m) differences and half widths, simultaneous and single."""
    block = max(1, BLOCK // (8 * race.rows * race.seeds * len(race.luck_M)))
    parts = []
    for begin in range(0, races, block):
        points, shares = jackknife(statistics(generator, race, min(block, races - begin)), race.world.metric.value)
        differences, left = points[:, 1:] - points[:, :1], shares[:, 1:] - shares[:, :1]
        components = correct_few_items(
            components_of(differences, left), shares[:, 1:].mean(axis=-2), shares[:, :1].mean(axis=-2),
            most=1 - race.world.metric.least,
        )  # fmt: skip
        parts.append(intervals(differences, left, components))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def statistics(generator: np.random.Generator, race: MetricRace, races: int) -> np.ndarray:
    """(B, M, S, n, K) as `worlds.draw`, with the luck and the shift of each contestant."""
    contestants = len(race.luck_M)
    luck_M, shift_M = (np.array(part, dtype=np.float32)[:, None, None] for part in (race.luck_M, race.shift_M))
    ease = generator.standard_normal((races, contestants, race.seeds, race.rows), dtype=np.float32)
    ease *= np.sqrt(1 - FOR_ALL - FOR_ONE - luck_M**2)
    luck = luck_M * generator.standard_normal((races, contestants, race.seeds, 1), dtype=np.float32) - shift_M
    ease += luck
    for part, size in ((FOR_ALL, (races, 1, 1, race.rows)), (FOR_ONE, (races, contestants, 1, race.rows))):
        ease += np.float32(part**0.5) * generator.standard_normal(size, dtype=np.float32)
    return race.world.numbers(generator, ease, luck)


@cache
def shift(world: World, rows: int, reference: float, luck: float, gain: float) -> float:
    """By how much a contestant with this luck must be shifted to score `gain` above one with the reference's.

    A row is as easy for any luck, except for a correlation, which falls with it.
    """
    if not gain and (reference == luck or world.metric.least == 0):
        return 0.0

    def difference(ours: float, amount: float) -> float:
        generator = np.random.default_rng(1)  # the same draws for every amount
        race = MetricRace(world, rows, 4, (reference, ours), (0.0, amount))
        scores_B2 = [
            world.metric.value(statistics(generator, race, 20).sum(axis=-2)).mean(axis=-1) for _ in range(4_000 // rows)
        ]
        of_both = np.concatenate(scores_B2).mean(axis=0)
        return float(of_both[1] - of_both[0])

    slope = (difference(reference, 0.05) - difference(reference, 0.0)) / 0.05
    level = difference(luck, 0.0) if world.metric.least < 0 and luck != reference else 0.0
    return (gain - level) / slope


# limits: races that go on


def limit_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """What races say that are not settled, and what ten times the seeds, or the numbers they name, make of it."""
    lines = []
    for rows, adapted, seeds, seed_spread, gain in itertools.product(
        options.limit_rows, (1, 3), (3, 5), (0.002, 0.01, 0.03, 0.06), (0.0, 0.01, 0.03, 0.06)
    ):
        generator = np.random.default_rng([rows, adapted, seeds, int(1e4 * seed_spread), int(1e4 * gain)])
        results: dict[str, list[bool]] = {"test rows": [], "seeds": [], "several": [], "more rows": []}
        for _ in range(options.limit_races):
            race = drawn_race(generator, (adapted + 1, seeds, rows), seed_spread=seed_spread, gain=gain)
            if race.settled(seeds):
                continue
            limits = race.answer(seeds).limits
            [of_rows, of_seeds] = limits.remedies
            named = of_seeds.to_settle if limits.source == "seeds" else 10 * seeds
            results[limits.source].append(race.settled(named))
            if of_rows.to_settle is not None and of_rows.to_settle <= 4 * rows:
                results["more rows"].append(race.settled(seeds, more_rows=of_rows.to_settle - rows))
        lines.append((rows, adapted, seeds, 100 * seed_spread, 100 * gain, *results.values()))
    return lines


@dataclass(frozen=True)
class GrowingRace:
    """Scores (M, 10 S, n) of ten times the seeds, and (M, S, 3 n) of more test rows for the race's own seeds."""

    scores: np.ndarray
    more_rows: np.ndarray

    def part(self, seeds: int, more_rows: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(M, S) points and (M, S, n) shares of so many seeds, and of further test rows."""
        scores = self.scores[:, :seeds].astype(float)
        if more_rows:
            scores = np.concatenate([scores, self.more_rows[..., :more_rows]], axis=-1)
        points = scores.mean(axis=-1)
        return points, scores - points[..., None]

    def settled(self, seeds: int, more_rows: int = 0) -> bool:
        points, shares = self.part(seeds, more_rows)
        differences, left = points[1:] - points[:1], shares[1:] - shares[:1]
        components = correct_few_items(
            components_of(differences, left), shares[1:].mean(axis=-2), shares[:1].mean(axis=-2), most=1.0
        )
        difference, half, _ = intervals(differences[None], left[None], components)
        return bool(is_settled(Ends(difference - half, difference + half))[0])

    def answer(self, seeds: int) -> Answer:
        resampled = [
            Resampled(str(number), tuple(range(seeds)), points_S, shares_Sn, -10.0)
            for number, (points_S, shares_Sn) in enumerate(zip(*self.part(seeds), strict=True))
        ]
        answer = answer_of(resampled[1:], resampled[0])
        assert answer is not None
        return answer


def drawn_race(
    generator: np.random.Generator, shape: tuple[int, int, int], *, seed_spread: float, gain: float
) -> GrowingRace:
    """shape: contestants, seeds and test rows of the race; the last contestant gains so much."""
    contestants, seeds, rows = shape
    luck = np.float32(seed_spread) * generator.standard_normal((contestants, 10 * seeds, 1), dtype=np.float32)
    luck[-1] += gain
    sides = []
    for size in ((contestants, 10 * seeds, rows), (contestants, seeds, 3 * rows)):
        scores = np.float32(WAVER) * generator.standard_normal(size, dtype=np.float32) + luck[:, : size[1]]
        scores += np.float32(ALONE) * generator.standard_normal((contestants, 1, size[2]), dtype=np.float32)
        sides.append(scores)
    return GrowingRace(*sides)


# the report


def report(options: argparse.Namespace, parts: dict[str, list[tuple[Any, ...]]]) -> None:
    facts = [
        ("races per line", f"{options.races:,} of scores, {options.shared_races:,} with shared adaptations, "
         f"{options.metric_races:,} of metrics, {options.limit_races:,} that go on"),
        ("took", f"{time.process_time() / 60:.1f} minutes of one core"),
    ]  # fmt: skip
    pages = [head("Answers of a race", facts=facts), METHOD]
    if "scores" in parts:
        pages.append(forms(parts["scores"]))
    if "shared" in parts:
        names = ("design", "adapted", "adaptation, seed", *RATES, "+- points")
        pages.append(
            f"\n## Shared adaptations, 200 rows\n\n{table(names, [shown(line, 3) for line in parts['shared']])}"
        )
    if "metrics" in parts:
        names = (
            "metric", "rows", "adapted", "seeds", "spread", RATES[0], RATES[1], "covered, one gains 1 point", RATES[2],
            "+- points",
        )  # fmt: skip
        pages.append(f"\n## Metrics\n\n{failures(parts['metrics'])}\n\n")
        pages.append(table(names, [shown(line, 5) for line in parts["metrics"]]))
    if "limits" in parts:
        pages.append(limit_page(parts["limits"]))
    if "scores" in parts:
        names = ("adapted", "seeds", "spread", "rows' share", *RATES)
        lines = [
            shown((*line[1:4], f"{100 * line[4]:.0f}%", *line[5:8]), 4) for line in parts["scores"] if line[0] == CHOSEN
        ]
        pages.append(f"\n## Scores, all lines of the form in use\n\n{table(names, lines)}")
    write(options.out, pages)


PARTS = {"scores": score_lines, "shared": shared_lines, "metrics": metric_lines, "limits": limit_lines}
RATES = ("false claims, %", "covered, %", "no gain that matters, false, %")


def shown(line: Sequence[object], begin: int) -> tuple[Any, ...]:
    """The line with its rates to one digit."""
    return (*line[:begin], *(f"{value:.1f}" for value in line[begin:]))


def forms(lines: list[tuple[Any, ...]]) -> str:
    rows = []
    for form in FORMS:
        mine = [line for line in lines if line[0] == form and line[1] > 1]
        if not mine:
            continue
        width = [
            f"{np.median([line[8] for line in mine if line[2] == seeds]):.2f}"
            for seeds in sorted({line[2] for line in mine})
        ]
        rows.append((
            form, f"{max(line[5] for line in mine):.1f}", f"{min(line[6] for line in mine):.1f}",
            f"{max(line[7] for line in mine):.1f}", f"{sum(line[5] > FALSE for line in mine)} of {len(mine)}",
            f"{sum(line[6] < COVERED for line in mine)} of {len(mine)}", *width,
        ))  # fmt: skip
    widths = [f"width, {seeds} seeds" for seeds in sorted({line[2] for line in lines})]
    names = (
        "form",
        "most false claims, %",
        "least covered, %",
        "most false no gain, %",
        "lines above 5%",
        "lines below 94%",
        *widths,
    )
    single = [line for line in lines if line[1] == 1 and line[0] == CHOSEN]
    alone = ""
    if single:
        most, least = max(line[5] for line in single), min(line[6] for line in single)
        alone = f"\n\nOne adapted contestant, whose interval is the single one: at most {most:.1f}% false claims, "
        alone += f"covered in at least {least:.1f}%."
    return f"\n## Which form of simultaneous interval\n\nSeveral adapted contestants:\n\n{table(names, rows)}{alone}\n"


def failures(lines: list[tuple[Any, ...]]) -> str:
    named = (
        "false claims above 5%",
        "covered below 94%",
        "covered below 94% where one gains",
        "false no gain above 5%",
    )
    counts = [
        [line for line in lines if (line[at] < COVERED if at in (6, 7) else line[at] > FALSE)] for at in (5, 6, 7, 8)
    ]
    return "\n".join(
        f"* {name}: {len(chosen)} of {len(lines)} lines"
        + (f": {'; '.join(', '.join(map(str, line[:5])) for line in chosen)}" if chosen else "")
        for name, chosen in zip(named, counts, strict=True)
    )


def limit_page(lines: list[tuple[Any, ...]]) -> str:
    def share(results: list[bool]) -> str:
        return f"{100 * np.mean(results):.0f}% of {len(results)}" if results else "-"

    def together(rows: list[tuple[Any, ...]]) -> list[str]:
        return [share([result for row in rows for result in row[at]]) for at in range(5, 9)]

    outcomes = (
        "test rows: settled by ten times the seeds", "seeds: settled by the number named",
        "several: settled by ten times the seeds", "settled by the number of test rows named",
    )  # fmt: skip
    summary = [("all", *together(lines))]
    for name, at in (
        ("test rows", 0),
        ("adapted", 1),
        ("seeds", 2),
        ("spread of seeds, points", 3),
        ("gain, points", 4),
    ):
        for value in sorted({line[at] for line in lines}):
            summary.append((f"{name}: {value:,.10g}", *together([line for line in lines if line[at] == value])))
    rows = [
        (f"{line[0]:,}", *line[1:3], *(f"{value:.1f}" for value in line[3:5]), *map(share, line[5:])) for line in lines
    ]
    names = ("test rows", "adapted", "seeds", "spread of seeds, points", "gain, points", *outcomes)
    return f"\n## What limits the answer\n\n{LIMITS}\n{table(('races', *outcomes), summary)}\n\n{table(names, rows)}\n"


METHOD = f"""## What is measured

Races of one untouched model and several adapted contestants that are fine-tuned with the same seeds.

* *false claims*: "helped" or "harmful" where all contestants are equal. Aim: at most {FALSE:.0f}%.
* *covered*: all simultaneous 95% intervals hold the truth. Aim: at least {COVERED:.0f}%.
* *no gain that matters, false*: it, or "harmful", is the answer where a contestant gains exactly the margin. For scores
  and shared adaptations the others are far below it, the worst case. For metrics they are equal to the untouched
  model, and the margin is 1 point. Aim: at most {FALSE:.0f}%.

*Scores* are normal, and their variance over test rows is known: none, 20, 50 or 90% of that of an even difference. "x5"
and "/ 5": the standard deviation over seeds of one contestant, or of the untouched model. *Shared adaptations* are
normal scores of each row and run; adaptation and seed are standard deviations in points. *Metrics* are those of
benchmarks/worlds.py: right or wrong answers, entities, numbers to predict. Spreads of seeds are in ease: "x5" is a
standard deviation of 4 to 6 points. With twice the spread of pearson the page has a caution. One adaptation
is the checkpoint as it is; an adaptation for each seed is a spread of the runs, like one of seeds.

Width: half width divided by that of the form in use, median. The standard error of 5% is .15 with 20,000 races, .34
with 4,000, .49 with 2,000 and .97 with 500.
"""
LIMITS = """Normal scores of 500 and 4,000 test rows whose answer is not settled. The same race then goes on: with ten
times the seeds, with the number of seeds that it named, or with the number of test rows that it named if that is at
most four times as many. Aims: fewer than 10% where test rows limit the answer; most where it named a number. One
contestant gains so much, the others nothing.
"""


if __name__ == "__main__":
    main()
