"""Does `until="settled"` claim as seldom as it says, over all its evaluations? And how many rounds does it take?

python benchmarks/until_settled.py --out benchmarks/reports/2026-11-29-until-settled.md
"""

from __future__ import annotations

import argparse
import itertools
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from answers import BLOCK, COVERED, FALSE, LUCK, ROWS, SPREADS, MetricRace, drawn_race, shift, statistics
from page import head, run_parts, table, tell, write
from worlds import WORLDS

from acclimate.races.settling import SETTLED, TEST_ROWS, evaluation_of
from acclimate.statistics.answer import answer_of
from acclimate.statistics.answer_rule import MARGIN, Ends, answer_kind
from acclimate.statistics.sequential import FIRST, SPENT, evaluation_level, levels_of, spent
from acclimate.statistics.simultaneous import (
    GRID,
    MOST,
    correct_few_items,
    level_alone,
    mean_correlation,
    simultaneous_half_width,
)
from acclimate.statistics.variance import LEVEL, Components, Resampled, components_of, jackknife

SHARES = (0.0, 0.2, 0.5, 0.9)  # of the test rows in the variance of an even difference after five rounds
GAINS = (0.0, 1.0, 2.0, 3.0, 4.0)  # points that one contestant gains; the standard deviation of a seed is 1 point
METRICS = ("accuracy", "macro_f1, a class of 2%", "entity_f1", "pearson")
FORMS: dict[str, Callable[[int, int], float]] = {  # (rounds, most rounds) -> significance that is spent by then
    "in use": lambda rounds, _: spent(rounds),
    "in use, 5%": lambda rounds, _: spent(rounds) * LEVEL / SPENT,
    "slower, 5%": lambda rounds, _: LEVEL * (1 - (2 / rounds) ** 0.5) * (rounds >= FIRST),
    "even, 5%": lambda rounds, most: LEVEL * min(1.0, (rounds - 2) / (most - 2)) * (rounds >= FIRST),
    "even, 4%": lambda rounds, most: SPENT * min(1.0, (rounds - 2) / (most - 2)) * (rounds >= FIRST),
}


def main() -> None:
    options = arguments()
    run_parts(options.parts, lambda name: PARTS[name](options), partial(report, options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--races", type=int, default=2_000, help="races of scores per line")
    parser.add_argument("--cost-races", type=int, default=1_000)
    parser.add_argument("--metric-races", type=int, default=200)
    parser.add_argument("--metric-rounds", type=int, default=10)
    parser.add_argument("--end-races", type=int, default=20)
    parser.add_argument("--metrics", nargs="+", default=list(METRICS))
    parser.add_argument("--rounds", type=int, default=20, help="rounds of a race at most")
    parser.add_argument("--adapted", type=int, nargs="+", default=[1, 3, 5], help="contestants beside the untouched")
    return parser.parse_args()


def levels_within(form: str, most: int) -> list[float]:
    return [*islice(levels_of(lambda rounds: FORMS[form](rounds, most)), most - FIRST + 1)]


# scores: normal, with known variances over rows


@dataclass(frozen=True)
class Growing:
    """Races of scores that grow: differences (B, m, N) of runs, and the known error (B, m) of the test rows.

    items: variance of the test rows' part of one contestant
    """

    runs: np.ndarray
    rows: np.ndarray
    items: float

    def look(self, rounds: int) -> tuple[np.ndarray, Components, np.ndarray]:
        """(B, m) differences after so many rounds, their components, and (B,) their correlation as estimated."""
        runs = self.runs[..., :rounds]
        adapted = runs.shape[1]
        mean = runs.mean(axis=-1)
        part = runs.var(axis=-1, ddof=1) / rounds
        known = np.full_like(part, 2 * self.items)
        components = Components(part, known, np.full_like(part, rounds - 1.0), ROWS, np.zeros_like(part))
        if adapted == 1:
            return mean + self.rows, components, np.zeros(len(mean))
        left = runs - mean[..., None]
        error = np.sqrt(components.variance)
        together = left @ np.swapaxes(left, -1, -2) / ((rounds - 1) * rounds) + self.items
        correlations = (together / (error[:, :, None] * error[:, None, :]))[:, ~np.eye(adapted, dtype=bool)]
        correlation = GRID * np.floor(np.clip(correlations.mean(axis=-1), 0.0, MOST) / GRID + 1e-9)
        return mean + self.rows, components, correlation


def growing(
    generator: np.random.Generator, races: int, *, adapted: int, rounds: int, spread: Sequence[float], share: float
) -> Growing:
    """share: of the rows in the variance of an even difference after five rounds"""
    deviation_M = np.array([spread[0], *[spread[1]] * (adapted - 1), spread[2]])
    runs = deviation_M[:, None] * generator.standard_normal((races, adapted + 1, rounds))
    items = share / (1 - share) / 5
    rows = np.sqrt(items) * generator.standard_normal((races, adapted + 1))
    return Growing(runs[:, 1:] - runs[:, :1], rows[:, 1:] - rows[:, :1], items)


def level_each(adapted: int, correlation: np.ndarray, level: float) -> np.ndarray:
    """(B, 1) level of each interval alone, by the correlation of each race."""
    steps, places = np.unique(correlation, return_inverse=True)
    return np.array([level_alone(adapted, float(step), level) for step in steps])[places][:, None]


def halves(race: Growing, levels: Sequence[float]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(B, m) differences and half widths of each look."""
    for number, level in enumerate(levels):
        difference, components, correlation = race.look(FIRST + number)
        single = level_each(difference.shape[1], correlation, level)
        yield difference, simultaneous_half_width(components, single)


def rates(looks: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, float]:
    """In %, over all looks: a difference claimed of equal contestants; all covered; no gain claimed where one gains the
    margin and the others are far below, the most over contestants.
    """
    claimed = np.any([(error > half).any(axis=-1) | (error < -half).all(axis=-1) for error, half in looks], axis=0)
    covered = np.all([(np.abs(error) <= half).all(axis=-1) for error, half in looks], axis=0)
    none = np.any([error + half < 0 for error, half in looks], axis=0).mean(axis=0).max()
    return 100 * claimed.mean(), 100 * covered.mean(), 100 * float(none)


def score_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """(form, adapted, spread, share of the rows, false claims, covered, no gain false)."""
    lines = []
    levels = {form: levels_within(form, options.rounds) for form in FORMS}
    for adapted, spread, share in itertools.product(options.adapted, SPREADS, SHARES):
        generator = np.random.default_rng([adapted, int(10 * share), zlib.crc32(spread.encode())])
        race = growing(
            generator, options.races, adapted=adapted, rounds=options.rounds, spread=SPREADS[spread], share=share
        )
        for form in FORMS:
            lines.append((form, adapted, spread, share, *rates([*halves(race, levels[form])])))
    return lines


# cost: rounds until the answer is settled


def cost_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """(form, adapted, share, gain, helped and settled by five rounds, helped, settled, mean rounds, rounds of a fixed
    race that is settled as often), the answer being "helped" where one gains and "no gain that matters" or "harmful"
    elsewhere.
    """
    lines = []
    levels = {form: levels_within(form, options.rounds) for form in FORMS}
    for adapted, share, gain in itertools.product(options.adapted[:2], (0.2, 0.5, 0.8), GAINS):
        generator = np.random.default_rng([adapted, int(10 * share), int(gain)])
        race = growing(generator, options.cost_races, adapted=adapted, rounds=60, spread=(1.0, 1.0, 1.0), share=share)
        race.runs[:, -1] += gain
        fixed = []
        for rounds in (*range(FIRST, 21), 25, 30, 40, 50, 60):
            difference, components, correlation = race.look(rounds)
            half = simultaneous_half_width(components, level_each(adapted, correlation, LEVEL))
            fixed.append((rounds, *(settled.mean() for settled in settlings(difference, half))))
        five = next(line for line in fixed if line[0] == 5)
        for form in COMPARED:
            done = np.zeros(options.cost_races, dtype=bool)
            helped = np.zeros(options.cost_races, dtype=bool)
            rounds = np.full(options.cost_races, options.rounds)
            for number, (difference, half) in enumerate(halves(race, levels[form])):
                better, settled = settlings(difference, half)
                helped |= better & ~done
                rounds[settled & ~done] = FIRST + number
                done |= settled
            alike = next((line[0] for line in fixed if line[2] >= done.mean()), 0)
            shares = 100 * np.array([five[1], five[2], helped.mean(), done.mean()])
            lines.append((form, adapted, share, gain, *shares, rounds.mean(), alike))
    return lines


def settlings(difference: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B,) whether the answer is "helped", and whether it is settled; the margin is a point."""
    ends = Ends(difference - half, difference + half)
    kind, _ = answer_kind(difference, ends, ends, margin=1.0)
    return kind == "helped", np.isin(kind, ["helped", "harmful", "no gain that matters"])


COMPARED = ("in use", "even, 4%")  # forms whose cost is shown


# what ends a race: every row of every run, and the rule itself


def end_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """(rows, adapted, spread of seeds, gain, ended as settled, as limited by test rows, mean rounds, which of the
    latter are settled later).
    """
    lines = []
    for rows, adapted, spread, gain in itertools.product(
        (300, 2_000), options.adapted[:2], (0.005, 0.02), (0.0, 0.02, 0.05)
    ):
        generator = np.random.default_rng([rows, adapted, int(1e4 * spread), int(1e4 * gain)])
        ends: list[str] = []
        rounds: list[int] = []
        later: list[bool] = []
        for _ in range(options.end_races):
            scores = drawn_race(
                generator, (adapted + 1, options.rounds // 10 or 1, rows), seed_spread=spread, gain=gain
            )
            points, shares = scores.part(options.rounds)
            last = FIRST
            for last in range(FIRST, options.rounds + 1):
                end = end_of(points, shares, last)
                if end:
                    break
            ends.append(end)
            rounds.append(last)
            if end == TEST_ROWS:
                later.append(any(end_of(points, shares, number) == SETTLED for number in (8, 12, options.rounds)))
        shares_of = [100 * np.mean([end == reason for end in ends]) for reason in (SETTLED, TEST_ROWS)]
        lines.append((rows, adapted, 100 * spread, 100 * gain, *shares_of, np.mean(rounds), later))
        tell(f"ends {lines[-1][:7]}: {time.process_time() / 60:.1f} minutes")
    return lines


def end_of(points: np.ndarray, shares: np.ndarray, rounds: int) -> str:
    sides = [
        Resampled(str(number), tuple(range(rounds)), points_S[:rounds], shares_Sn[:rounds], -10.0)
        for number, (points_S, shares_Sn) in enumerate(zip(points, shares, strict=True))
    ]
    answer = answer_of(sides[1:], sides[0], level=evaluation_level(rounds))
    return evaluation_of(answer, rounds=rounds, margin=1.0).end


# metrics: benchmarks/worlds.py


def metric_lines(options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """(metric, adapted, spread, false claims, covered, no gain false) over all evaluations, with 500 test rows."""
    lines = []
    worlds = {world.name: world for world in WORLDS}
    for name, adapted, spread in itertools.product(
        options.metrics, options.adapted[:2], ("equal", "a contestant x5", "untouched x5")
    ):
        generator = np.random.default_rng([adapted, zlib.crc32((name + spread).encode())])
        first, middle, last = LUCK[spread]
        world, rows, luck_M = worlds[name], 500, (first, *[middle] * (adapted - 1), last)
        even = (0.0, *(shift(world, rows, first, luck, 0.0) for luck in luck_M[1:]))
        claimed, covered, _ = rates(
            measured(generator, MetricRace(world, rows, options.metric_rounds, luck_M, even), options.metric_races)
        )
        gained = (*even[:-1], shift(world, rows, first, last, MARGIN))
        looks = measured(
            generator, MetricRace(world, rows, options.metric_rounds, luck_M, gained), options.metric_races
        )
        none = np.any([(gain + half < MARGIN).all(axis=-1) for gain, half in looks], axis=0).mean()
        lines.append((name, adapted, spread, claimed, covered, 100 * none))
        tell(f"{lines[-1]}: {time.process_time() / 60:.1f} minutes")
    return lines


def measured(generator: np.random.Generator, race: MetricRace, races: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(B, m) differences and half widths of each evaluation."""
    block = max(1, BLOCK // (8 * race.rows * race.seeds * len(race.luck_M)))
    parts = []
    for begin in range(0, races, block):
        points, shares = jackknife(statistics(generator, race, min(block, races - begin)), race.world.metric.value)
        looks = []
        for rounds in range(FIRST, race.seeds + 1):
            ours, theirs = (shares[:, side, :rounds].mean(axis=-2) for side in (slice(1, None), slice(1)))
            differences = (points[:, 1:] - points[:, :1])[..., :rounds]
            left = (shares[:, 1:] - shares[:, :1])[..., :rounds, :]
            components = correct_few_items(
                components_of(differences, left), ours, theirs, most=1 - race.world.metric.least
            )
            correlation = mean_correlation(components.variance, left.mean(axis=-2), differences, left)
            single = level_each(differences.shape[1], correlation, evaluation_level(rounds))
            looks.append((differences.mean(axis=-1), simultaneous_half_width(components, single)))
        parts.append(looks)
    blocks = zip(*parts, strict=True)
    return [(np.concatenate([look[0] for look in of]), np.concatenate([look[1] for look in of])) for of in blocks]


# the report


def report(options: argparse.Namespace, parts: dict[str, list[tuple[Any, ...]]]) -> None:
    facts = [
        ("races per line", f"{options.races:,} of scores, {options.cost_races:,} of costs, {options.metric_races:,} of "
         f"metrics, {options.end_races:,} by the whole rule"),
        ("took", f"{time.process_time() / 60:.1f} minutes of one core"),
    ]  # fmt: skip
    pages = [head("Races until settled", facts=facts), METHOD.format(rounds=options.rounds)]
    if "scores" in parts:
        pages.append(forms(options, parts["scores"]))
    if "cost" in parts:
        names = (
            "form", "adapted", "rows' share", "gain, points", "five seeds: helped, %",
            "settled, %", "until settled: helped, %", "settled, %", "mean rounds",
            "seeds of a fixed race settled as often",
        )  # fmt: skip
        rows = [
            (line[0], line[1], f"{100 * line[2]:.0f}%", f"{line[3]:.0f}", *(f"{value:.0f}" for value in line[4:8]),
             f"{line[8]:.1f}", line[9] or "above 60")
            for line in parts["cost"]
        ]  # fmt: skip
        pages.append(f"\n## Cost\n\n{COST}\n{table(names, rows)}\n")
    if "ends" in parts:
        later = [settled for line in parts["ends"] for settled in line[7]]
        names = (
            "test rows", "adapted", "spread of seeds, points", "gain, points", "ended settled, %",
            "ended as the test set is too small, %", "mean rounds", "of those settled later",
        )  # fmt: skip
        rows = [
            (f"{line[0]:,}", line[1], *(f"{value:.1f}" for value in line[2:4]),
             *(f"{value:.0f}" for value in line[4:6]), f"{line[6]:.1f}", f"{sum(line[7])} of {len(line[7])}")
            for line in parts["ends"]
        ]  # fmt: skip
        summary = (
            f"Of {len(later)} races that ended because the test set was too small, {sum(later)} were settled later."
        )
        pages.append(f"\n## What ends a race\n\n{ENDS}\n{summary}\n\n{table(names, rows)}\n")
    if "metrics" in parts:
        names = ("metric", "adapted", "spread", *RATES)
        rows = [(*line[:3], *(f"{value:.1f}" for value in line[3:])) for line in parts["metrics"]]
        pages.append(f"\n## Metrics, 500 test rows, {options.metric_rounds} rounds\n\n{table(names, rows)}\n")
    if "scores" in parts:
        rows = [
            (*line[1:3], f"{100 * line[3]:.0f}%", *(f"{value:.1f}" for value in line[4:]))
            for line in parts["scores"]
            if line[0] == "in use"
        ]
        pages.append(
            f"\n## Scores, all lines of the form in use\n\n{table(('adapted', 'spread', 'rows', *RATES), rows)}"
        )
    write(options.out, pages)


PARTS = {"scores": score_lines, "cost": cost_lines, "metrics": metric_lines, "ends": end_lines}
RATES = ("false claims, %", "covered, %", "no gain that matters, false, %")


def forms(options: argparse.Namespace, lines: list[tuple[Any, ...]]) -> str:
    rows = []
    for form in FORMS:
        mine = [line for line in lines if line[0] == form]
        levels = levels_within(form, options.rounds)
        rows.append((
            form, f"{max(line[4] for line in mine):.1f}", f"{min(line[5] for line in mine):.1f}",
            f"{max(line[6] for line in mine):.1f}", f"{sum(line[4] > FALSE for line in mine)} of {len(mine)}",
            f"{sum(line[5] < COVERED for line in mine)} of {len(mine)}",
            *(f"{100 * levels[rounds - FIRST]:.2f}" for rounds in (3, 5, 10, options.rounds)),
        ))  # fmt: skip
    names = (
        "form", "most false claims, %", "least covered, %", "most false no gain, %", "lines above 5%",
        "lines below 94%",
        "level of round 3, %", "round 5", "round 10", f"round {options.rounds}",
    )  # fmt: skip
    return f"\n## Which form of spending\n\n{table(names, rows)}\n"


METHOD = f"""## What is measured

Races of one untouched model and several adapted contestants. They are evaluated after each round from {FIRST} to
{{rounds}}. Each rate is over all evaluations together, and no race ends before the last one:

* *false claims*: an evaluation says "helped" or "harmful" although all contestants are equal. Aim: at most
  {FALSE:.0f}%.
* *covered*: all intervals of all evaluations hold the truth. Aim: at least {COVERED:.0f}%.
* *no gain that matters, false*: an evaluation says so although a contestant gains exactly the margin. For scores the
  others are far below it, the worst case. For metrics they equal the untouched model. Aim: at most {FALSE:.0f}%.

Scores, spreads and metrics are those of benchmarks/answers.py. The share of the test rows is that in the variance of an
even difference after five rounds. Forms of spending, by what is spent after S of K rounds: *in use* 4% (1 - 2/S);
*slower* has the root of 2/S; *even* spends in proportion to S - 2 and ends with round K. The standard error of 5% is .5
with 2,000 races and 1.5 with 200.
"""
COST = """Normal scores with equal spreads; the standard deviation of a seed is 1 point, and so is the margin. One
contestant gains so much, the others nothing. Races end as soon as they are settled, not when the test set is too small.
A fixed race has all its seeds before its only evaluation, at 5%. The last column is its number of seeds.
"""
ENDS = """Normal scores of each row and run, evaluated by the rule of the race itself. The races that ended because the
test set was too small are evaluated once more after 8, 12 and the last round.
"""


if __name__ == "__main__":
    main()
