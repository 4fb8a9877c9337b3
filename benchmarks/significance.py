"""Do intervals hold what they promise, and are equal contestants seldom told apart? Made-up studies with a known truth.

python benchmarks/significance.py --out benchmarks/reports/2026-11-21-significance.md
"""

from __future__ import annotations

import argparse
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from page import head, table, tell, write
from worlds import WORLDS, World, draw, truth

from acclimate.statistics.significance import FEWEST_ITEMS, LEVEL
from acclimate.statistics.variance import bounds, components_of, effective_items, half_width, jackknife, p_value

DRAWN = 50_000  # items of all contestants and seeds that are in memory at once
TRUTH = 10_000_000  # items that the truth of a cell is drawn from, in 2,000 test sets to 50 a study
LARGE, MOST_SEEDS = 10_000, 5  # with so many items, no more seeds and half the studies: a matter of time
SLOW, FEW_STUDIES = 1_000, 400  # slow worlds: no more items than that; then no more seeds and studies
BOOTSTRAPPED = ("accuracy, seeds without luck", "accuracy, seeds with much luck", "macro_f1")
STRICT = 0.01
SELDOM = 25  # percent of a line's studies that bear a caution
RESAMPLES = 500  # of the plain bootstrap


@dataclass(frozen=True)
class Study:
    """What (B,) studies of one world found, each with two equal contestants."""

    covered: np.ndarray  # the interval of the first one's score holds the truth
    found: np.ndarray  # p of the difference is below LEVEL; its interval leaves out 0 then, and only then
    surely: np.ndarray  # it is below STRICT
    doubted: np.ndarray  # the score bears a caution for its few items
    warned: np.ndarray  # the comparison does
    plain: np.ndarray  # the bootstrap of seeds and items finds a difference


def main() -> None:
    given = arguments()
    rows: dict[int, list[tuple[str, ...]]] = {place: [] for place in range(len(WORLDS))}
    plain: dict[int, list[tuple[str, ...]]] = {place: [] for place in range(len(WORLDS))}
    for items in sorted(given.items):
        for place, world in enumerate(WORLDS):
            if given.only not in world.name or (world.slow and items > SLOW):
                continue
            large = items >= (SLOW if world.slow else LARGE)
            numbers = [number for number in given.seeds if number <= MOST_SEEDS or not large]
            number = given.studies // (2 if large else 1)
            number = min(number, FEW_STUDIES) if world.slow and large else number
            again = given.bootstraps if items in given.bootstrap_items and world.name in BOOTSTRAPPED else 0
            expected, studies = simulate(world, items, numbers, number, bootstraps=again)
            rows[place] += [row(world, items, seeds, expected, study) for seeds, study in studies.items()]
            plain[place] += [plain_row(world, items, seeds, study) for seeds, study in studies.items() if again]
            tell(f"{items:,} items, {world.name}: {time.process_time() / 60:.1f} minutes of one core so far")
            # each time: whoever stops it early keeps what there is
            report(
                given,
                [line for lines_of_world in rows.values() for line in lines_of_world],
                [line for lines_of_world in plain.values() for line in lines_of_world],
            )


def report(given: argparse.Namespace, rows: list[tuple[str, ...]], plain: list[tuple[str, ...]]) -> None:
    took = f"{time.process_time() / 60:.1f} minutes of one core"
    title = "Intervals and tests: do they hold what they promise?"
    facts = [("studies a line", f"{given.studies:,}"), ("took", took)]
    write(given.out, [head(title, facts=facts), METHOD, found(rows), bootstrap(plain)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--items", type=int, nargs="+", default=[20, 50, 100, 1_000, 10_000])
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[2, 3, 5, 10], help="the fewer are the first of the most"
    )
    parser.add_argument("--only", default="", help="worlds with this in their name")
    parser.add_argument("--bootstraps", type=int, default=400, help="studies that the plain bootstrap judges too")
    parser.add_argument("--bootstrap-items", type=int, nargs="*", default=[100, 1_000])
    return parser.parse_args()


def simulate(
    world: World, items: int, seeds: list[int], studies: int, *, bootstraps: int = 0
) -> tuple[float, dict[int, Study]]:
    """The truth, and what the studies find with each number of seeds."""
    generator = np.random.default_rng([items, zlib.crc32(world.name.encode())])
    sets = int(np.clip(TRUTH / items, 2_000, (5 if world.slow else 50) * studies))
    expected = truth(generator, world, items, sets=sets)
    most = max(seeds)
    block = max(1, DRAWN // (items * most))
    parts: dict[int, list[Study]] = {number: [] for number in seeds}
    for begin in range(0, studies, block):
        size = min(block, studies - begin)
        statistics = draw(generator, world, studies=size, contestants=2, seeds=most, items=items)
        points, shares = jackknife(statistics, world.metric.value)
        again = max(0, min(size, bootstraps - begin))
        for number in seeds:
            judged = judge(world, points[:, :, :number], shares[:, :, :number], expected)
            plain = plain_bootstrap(generator, world, statistics[:again, :, :number]) if again else np.zeros(0, bool)
            parts[number].append(Study(*judged, plain))
    return expected, {
        number: Study(
            *(np.concatenate([getattr(part, name) for part in parts_of_study]) for name in Study.__dataclass_fields__)
        )
        for number, parts_of_study in parts.items()
    }


def judge(world: World, points: np.ndarray, shares: np.ndarray, expected: float) -> tuple[np.ndarray, ...]:
    """As significance.interval_of and compare_of do, for points (B, 2, S) and shares (B, 2, S, n)."""
    low, high = bounds(points[:, 0].mean(axis=-1), components_of(points[:, 0], shares[:, 0]), least=world.metric.least)
    differences, shares_of_them = points[:, 0] - points[:, 1], shares[:, 0] - shares[:, 1]
    spread, mean = components_of(differences, shares_of_them), differences.mean(axis=-1)
    p = p_value(mean, spread)
    found = p < LEVEL
    assert np.all(found == (np.abs(mean) > half_width(spread))), "the test and the interval disagree"
    few = [effective_items(each) < FEWEST_ITEMS for each in (shares[:, 0], shares_of_them)]
    return (low <= expected) & (expected <= high), found, p < STRICT, *few


def plain_bootstrap(generator: np.random.Generator, world: World, statistics: np.ndarray) -> np.ndarray:
    """(B,) whether the 95% interval of resampling seeds and items, both in pairs, leaves out 0."""
    items, number = statistics.shape[-2], statistics.shape[-3]
    outside = []
    for ours_SnK, theirs_SnK in statistics:
        weights_Rn = generator.multinomial(items, np.full(items, 1 / items), size=RESAMPLES).astype(np.float64)
        gains_SR = world.metric.value(weights_Rn @ ours_SnK) - world.metric.value(weights_Rn @ theirs_SnK)
        drawn = generator.integers(number, size=(number, RESAMPLES))
        low, high = np.quantile(np.take_along_axis(gains_SR, drawn, axis=0).mean(axis=0), [0.025, 0.975])
        outside.append(low > 0 or high < 0)
    return np.array(outside)


def row(world: World, items: int, seeds: int, expected: float, study: Study) -> tuple[str, ...]:
    covered, found = study.covered.mean(), study.found.mean()
    return (
        world.name, f"{items:,}", str(seeds), f"{expected:.3f}",
        with_error(study.covered) + mark(covered, 0.935, 0.965), percent(study.doubted.mean()),
        with_error(study.found) + mark(found, 0.04, 0.06), with_error(study.surely), percent(study.warned.mean()),
    )  # fmt: skip


def plain_row(world: World, items: int, seeds: int, study: Study) -> tuple[str, ...]:
    same = study.found[: len(study.plain)]
    return world.name, f"{items:,}", str(seeds), with_error(study.plain), with_error(same)


def with_error(hits: np.ndarray) -> str:
    share = hits.mean()
    return f"{100 * share:.1f} +- {100 * np.sqrt(share * (1 - share) / len(hits)):.1f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def mark(share: float, low: float, high: float) -> str:
    """Where the aim is missed, how."""
    return " low" if share < low else " high" if share > high else ""


def found(rows: list[tuple[str, ...]]) -> str:
    names = (
        "world", "items", "seeds", "truth", "score covered, %", "caution", "false positives, %",
        "at 1%, %", "caution",
    )  # fmt: skip
    return f"## What was found\n\n{counted(rows)}\n\n{table(names, rows)}"


def counted(rows: list[tuple[str, ...]]) -> str:
    """How many lines keep the aims: of those whose studies hardly ever bear a caution, of the others, of two seeds."""
    lines = []
    for aim, column, caution in (("score covered", 4, 5), ("false positives", 6, 8)):
        more, two = ([line for line in rows if (line[2] == "2") == pair] for pair in (False, True))
        sure = [line for line in more if int(line[caution][:-1]) < SELDOM]
        unsure = [line for line in more if line not in sure]
        kept = [
            f"{sum(line[column][-1].isdigit() for line in part)} of {len(part)} ("
            f"{sum('low' in line[column] for line in part)} low, {sum('high' in line[column] for line in part)} high)"
            for part in (sure, unsure, two)
        ]
        rare = f"lines with a caution for few items in less than {SELDOM}% of the studies"
        lines.append(f"* {aim}: within the aim in {kept[0]} {rare}, {kept[1]} others, {kept[2]} of two seeds.")
    return "\n".join(lines)


def bootstrap(rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    names = ("world", "items", "seeds", "plain bootstrap, false positives, %", "ours on the same studies, %")
    return f"## The plain bootstrap of seeds and items\n\n{table(names, rows)}"


METHOD = """## What is measured

Each study has two contestants whose expected score is equal: test items of different hardness that both share, hardness
that one contestant has, luck of each seed, and rest (`benchmarks/worlds.py`). The *truth* is the expected score on test
sets of this size, from 2,000 to 100,000 other draws, and never from the estimator.

* *score covered*: how often the 95% interval of a score holds the truth. Aim: 93.5 to 96.5.
* *false positives*: how often p of the difference is below .05, which is when its interval leaves out 0, the truth.
  Aim: 4 to 6. *at 1%*: how often p is below .01.
* *caution*: how many of the studies say of themselves that they hang on too few items for their figures to hold. With
  two seeds, all say so of their seeds.
* +- is the standard error of the simulation. low, high: outside the aim. With 2,000 studies, chance alone moves a true
  5.5 beyond 6 in one line of six. With 10,000 items there are half as many studies; Spearman's correlation has 400 with
  1,000 items, and none with more, as it takes long."""


if __name__ == "__main__":
    main()
