"""Chance over adaptation: do intervals hold, and are equal contestants seldom told apart? Made-up studies.

python benchmarks/adaptation.py --out benchmarks/reports/2026-11-23-adaptation.md
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from page import head, table, tell, write
from worlds import by_class, predictions

from acclimate.statistics.adaptation import RunLayout, components_of_runs, layout
from acclimate.statistics.variance import LEVEL, bounds, components_of, half_width, jackknife, p_value
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.task import Metric

COVERED, TOLD_APART = (0.935, 0.965), (0.04, 0.06)
BLOCK = 4_000_000  # numbers in memory at once
# adaptations of round-robin designs (seed k has adaptation k mod A), several seeds each, and crossed ones
DESIGNS: dict[str, RunLayout] = {
    "2 adaptations, 4 seeds, nested": layout([0, 1] * 2, range(4)),
    "2 adaptations, 5 seeds, nested": layout([0, 1, 0, 1, 0], range(5)),
    "3 adaptations, 3 seeds, nested": layout(range(3), range(3)),
    "3 adaptations, 5 seeds, nested": layout([0, 1, 2, 0, 1], range(5)),
    "3 adaptations, 9 seeds, nested": layout([0, 1, 2] * 3, range(9)),
    "5 adaptations, 5 seeds, nested": layout(range(5), range(5)),
    "5 adaptations, 10 seeds, nested": layout([*range(5)] * 2, range(10)),
    "2 adaptations x 3 seeds, crossed": layout([0, 1] * 3, [0, 0, 1, 1, 2, 2]),
    "2 adaptations x 5 seeds, crossed": layout([0, 1] * 5, [seed for seed in range(5) for _ in range(2)]),
    "3 adaptations x 3 seeds, crossed": layout([0, 1, 2] * 3, [seed for seed in range(3) for _ in range(3)]),
    "3 adaptations x 5 seeds, crossed": layout([0, 1, 2] * 5, [seed for seed in range(5) for _ in range(3)]),
    "5 adaptations x 3 seeds, crossed": layout([*range(5)] * 3, [seed for seed in range(3) for _ in range(5)]),
    "5 adaptations x 5 seeds, crossed": layout([*range(5)] * 5, [seed for seed in range(5) for _ in range(5)]),
}


@dataclass(frozen=True)
class Spread:
    """Standard deviations of a run's score, in points of 1, for one contestant.

    items: of what both contestants find hard; alone: of what one finds hard; adapted_items: of the interaction of
    adaptation and item; rest: of run and item. All four are of one item.
    """

    adaptation: float
    seed: float
    both: float = 0.0
    items: float = 0.35
    alone: float = 0.25
    adapted_items: float = 0.0
    rest: float = 0.0


# standard deviations of adaptation and seed between nothing and three points, where the items' is 1 to 2 points
SPREADS: dict[str, Spread] = {
    "adaptation 0, seeds 1": Spread(0.0, 0.01),
    "adaptation 1, seeds 1": Spread(0.01, 0.01),
    "adaptation 3, seeds 1": Spread(0.03, 0.01),
    "adaptation 1, seeds 3": Spread(0.01, 0.03),
    "adaptation 3, seeds 3": Spread(0.03, 0.03),
    "adaptation 2, seeds 1, their product 1": Spread(0.02, 0.01, both=0.01),
    "adaptation 0, seeds 0": Spread(0.0, 0.0),
    "adaptation 2, seeds 1, answers waver": Spread(0.02, 0.01, adapted_items=0.2, rest=0.25),
}


def main() -> None:
    given = arguments()
    lines = []
    for items in given.items:
        for design, runs in DESIGNS.items():
            if given.only not in design:
                continue
            for name, spread in SPREADS.items():
                lines.append((design, f"{items:,}", name, *of_normal(given.studies, items, runs, spread)))
            tell(f"{items:,} items, {design}: {time.process_time() / 60:.1f} minutes of one core so far")
            report(given, lines, [])
    metrics = []
    for metric in METRICS_TRIED:
        for design in given.metric_designs:
            metrics.append((metric, design, *of_metric(given.metric_studies, metric, DESIGNS[design])))
            tell(f"{metric}, {design}: {time.process_time() / 60:.1f} minutes of one core so far")
            report(given, lines, metrics)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--studies", type=int, default=4_000)
    parser.add_argument("--items", type=int, nargs="+", default=[200, 1_000])
    parser.add_argument("--only", default="", help="designs with this in their name")
    parser.add_argument("--metric-studies", type=int, default=2_000)
    parser.add_argument(
        "--metric-designs", nargs="*", default=[name for name in DESIGNS if ", 5 seeds, nested" in name]
    )
    return parser.parse_args()


def of_normal(studies: int, items: int, runs: RunLayout, spread: Spread) -> tuple[str, ...]:
    """Coverage and false positives of normal scores, whose true means are .5: exact, without a metric's bias."""
    generator = np.random.default_rng([items, zlib.crc32(repr((runs, spread)).encode())])
    block = max(1, BLOCK // (items * len(runs.seed_N)))
    parts = [
        judge(*normal(generator, min(block, studies - begin), items, runs, spread), runs, least=0.0, expected=0.5)
        for begin in range(0, studies, block)
    ]
    return figures(parts)


def normal(
    generator: np.random.Generator, studies: int, items: int, runs: RunLayout, spread: Spread
) -> tuple[np.ndarray, ...]:
    """Points (B, N) and shares (B, N, n) of the adapted contestant; then of the untouched one, a run for each seed."""
    seeds, adaptations = max(runs.seed_N) + 1, runs.adaptations
    of_adaptation, of_seed = list(runs.adaptation_N), list(runs.seed_N)

    def drawn(deviation: float, *shape: int) -> np.ndarray:
        return deviation * generator.standard_normal((studies, *shape), dtype=np.float32)

    hard = drawn(spread.items, 1, items)
    found = []
    for adapted in (True, False):
        places = of_seed if adapted else [*range(seeds)]
        scores = 0.5 + hard + drawn(spread.alone, 1, items) + drawn(spread.rest, len(places), items)
        scores = scores + drawn(spread.seed, seeds, 1)[:, places]
        if adapted:
            scores += drawn(spread.adaptation, adaptations, 1)[:, of_adaptation] + drawn(spread.both, len(places), 1)
            scores += drawn(spread.adapted_items, adaptations, items)[:, of_adaptation]
        points = scores.mean(axis=-1, dtype=np.float64)
        found += [points, scores - points[..., None]]
    return tuple(found)


def judge(
    points: np.ndarray, shares: np.ndarray, plain: np.ndarray, plain_shares: np.ndarray, runs: RunLayout, *,
    least: float, expected: float,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """As significance.interval_of and compare_of: covered, told apart; and told apart without counting adaptations."""
    mean = points.mean(axis=-1)
    low, high = bounds(mean, components_of_runs(points, shares, runs), least=least)
    of_seed = list(runs.seed_N)
    differences, left = points - plain[:, of_seed], shares - plain_shares[:, of_seed]
    p = p_value(differences.mean(axis=-1), found := components_of_runs(differences, left, runs))
    assert np.all((p < LEVEL) == (np.abs(differences.mean(axis=-1)) > half_width(found))), "test and interval disagree"
    naive = p_value(differences.mean(axis=-1), components_of(differences, left))
    return (low <= expected) & (expected <= high), p < LEVEL, naive < LEVEL, half_width(found)


def figures(parts: Sequence[tuple[np.ndarray, ...]]) -> tuple[str, ...]:
    covered, found, naive, half = (np.concatenate(column) for column in zip(*parts, strict=True))
    return (
        with_error(covered) + mark(covered, *COVERED), with_error(found) + mark(found, *TOLD_APART),
        f"{100 * naive.mean():.1f}", f"{100 * np.median(half):.1f}",
    )  # fmt: skip


Draw = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
# ease -> statistics, as benchmarks/worlds.py: with luck of .05 in ease a seed's accuracy of .8 has a deviation of 1.4
METRICS_TRIED: dict[str, Draw] = {
    "accuracy": lambda _, ease, __: np.stack([ease < 0.8416, np.ones_like(ease)], axis=-1).astype(np.float64),
    "macro_f1": partial(by_class, shares=(0.5, 0.3, 0.2)),
    "pearson": predictions,
}


def of_metric(studies: int, name: str, runs: RunLayout, *, items: int = 300, luck: float = 0.08) -> tuple[str, ...]:
    """Coverage and false positives of a metric; a run's ease is the sum of adaptation, seed, items and rest."""
    generator = np.random.default_rng([items, zlib.crc32(repr((name, runs)).encode())])
    metric: Metric = METRICS[name]
    single = replace(runs, adaptation_N=(0,), seed_N=(0,))
    sets = 50 * studies
    total = 0.0
    for begin in range(0, sets, 500):
        numbers = statistics(generator, min(500, sets - begin), items, single, luck=luck, draw=METRICS_TRIED[name])[
            :, 0
        ]
        total += float(metric.value(numbers.sum(axis=-2)).sum())
    parts = []
    for begin in range(0, studies, 50):
        numbers = statistics(generator, min(50, studies - begin), items, runs, luck=luck, draw=METRICS_TRIED[name])
        points, shares = jackknife(numbers, metric.value)
        count = len(runs.seed_N)
        plain = [points[:, count:], shares[:, count:]]
        parts.append(
            judge(points[:, :count], shares[:, :count], *plain, runs, least=metric.least, expected=total / sets)
        )
    return figures(parts)


def statistics(
    generator: np.random.Generator, studies: int, items: int, runs: RunLayout, *, luck: float, draw: Draw
) -> np.ndarray:
    """(B, N + F, n, K) the adapted runs, then the untouched ones. Both have the same distribution of ease.

    The untouched model's luck of a seed has the variance of adaptation and seed together; so expected scores are equal.
    """
    seeds = max(runs.seed_N) + 1
    shape = (studies, len(runs.seed_N) + seeds)
    luck_of = np.empty((*shape, 1))
    count = len(runs.seed_N)
    luck_of[:, :count] = luck * generator.standard_normal((studies, runs.adaptations, 1))[:, list(runs.adaptation_N)]
    luck_of[:, :count] += luck * generator.standard_normal((studies, seeds, 1))[:, list(runs.seed_N)]
    luck_of[:, count:] = np.sqrt(2) * luck * generator.standard_normal((studies, seeds, 1))
    alone = np.repeat(generator.standard_normal((studies, 2, items)), [count, seeds], axis=1)
    ease = np.sqrt(0.45) * generator.standard_normal((studies, 1, items)) + np.sqrt(0.4) * alone
    ease = ease + np.sqrt(0.15 - 2 * luck**2) * generator.standard_normal((*shape, items)) + luck_of
    return draw(generator, ease[:, None], luck_of[:, None])[:, 0]


def with_error(hits: np.ndarray) -> str:
    share = hits.mean()
    return f"{100 * share:.1f} +- {100 * np.sqrt(share * (1 - share) / len(hits)):.1f}"


def mark(hits: np.ndarray, low: float, high: float) -> str:
    return " low" if hits.mean() < low else " high" if hits.mean() > high else ""


def report(given: argparse.Namespace, lines: list[tuple[str, ...]], metrics: list[tuple[str, ...]]) -> None:
    took = f"{time.process_time() / 60:.1f} minutes of one core"
    facts = [("studies a line", f"{given.studies:,}; {given.metric_studies:,} of metrics"), ("took", took)]
    last = ("score covered, %", "told apart, %", "told apart if adaptations are taken for seeds, %", "+- points")
    parts = [head("Chance over adaptation", facts=facts), METHOD]
    parts.append(f"\n## Normal scores\n\n{counted(lines)}\n\n" + table(("design", "items", "spread", *last), lines))
    if metrics:
        parts.append("\n## Metrics, 300 items\n\n" + table(("metric", "design", *last), metrics))
    write(given.out, parts)


def counted(lines: list[tuple[str, ...]]) -> str:
    said = []
    for way in ("nested", "crossed"):
        for number in ("2", "3", "5"):
            chosen = [line for line in lines if line[0].startswith(number) and line[0].endswith(way)]
            rates = [float(line[4].split()[0]) for line in chosen]
            covers = [float(line[3].split()[0]) for line in chosen]
            if chosen:
                kept = [sum(line[column][-1].isdigit() for line in chosen) for column in (4, 3)]
                said.append(
                    f"* {way}, {number} adaptations: told apart {min(rates)} to {max(rates)}% (within the aim in "
                    f"{kept[0]} of {len(chosen)} lines), covered {min(covers)} to {max(covers)}% ({kept[1]})."
                )
    return "\n".join(said)


METHOD = """## What is measured

Each study has an adapted contestant and an untouched one whose expected scores are equal; the runs of the adapted one
rest on several adaptations. Nested: seed k is fine-tuned from adaptation k mod A. Crossed: every adaptation is
fine-tuned with every seed. The untouched model has a run of each seed. Standard deviations are in points (100: the
whole range), of adaptation, of seed, and of adaptation with seed; those over items are .35 for both contestants and .25
for each alone; "answers waver": .2 for adaptation with item and .25 for run with item.

* *score covered*: how often the 95% interval of the adapted contestant's mean holds the truth. Aim: 93.5 to 96.5.
* *told apart*: how often p of the difference is below .05. Aim: 4 to 6. Then the same for runs that are all taken for
  independent seeds, as if each had another adaptation.
* *+- points*: median half width of the difference's 95% interval.
* The second figure is the standard error of the simulation; "low" and "high": outside the aim. With 6,000 studies,
  chance alone moves a true 5.5 beyond 6 in one line of twenty-two."""


if __name__ == "__main__":
    main()
