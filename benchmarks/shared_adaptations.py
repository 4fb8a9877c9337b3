"""Means over datasets that are fine-tuned from the same adapted checkpoints: do tests and intervals hold?

python benchmarks/shared_adaptations.py --out benchmarks/reports/2026-11-23-shared-adaptations.md
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from page import head, table, tell, write

from acclimate.statistics.adaptation import components_of_difference
from acclimate.statistics.means import mean_difference, mean_interval
from acclimate.statistics.variance import LEVEL, Resampled, p_value, weighted

DESIGNS: dict[str, tuple[int, ...]] = {  # the adaptation of each fine-tuning seed
    "3 adaptations, 3 seeds": (0, 1, 2),
    "3 adaptations, 5 seeds": (0, 1, 2, 0, 1),
    "3 adaptations, 9 seeds": (0, 1, 2) * 3,
    "5 adaptations, 5 seeds": (0, 1, 2, 3, 4),
    "5 adaptations, 10 seeds": (0, 1, 2, 3, 4) * 2,
}
# standard deviations in points: of an adaptation on all datasets, of the same on one dataset, of a fine-tuning seed
SPREADS: dict[str, tuple[float, float, float]] = {
    "adaptation 0, seeds 1": (0.0, 0.0, 0.01),
    "adaptation 1, seeds 1": (0.01, 0.0, 0.01),
    "adaptation 3, seeds 1": (0.03, 0.0, 0.01),
    "adaptation 2, and 2 on each dataset, seeds 2": (0.02, 0.02, 0.02),
    "adaptation 1, seeds 3": (0.01, 0.0, 0.03),
}
ITEMS = (200, 100, 60, 300)  # of four datasets with equal weights
COMMON, ALONE, REST = 0.35, 0.25, 0.15  # deviations of an item: for both models, for one, for one run
EXPECTED = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--studies", type=int, default=2_000)
    given = parser.parse_args()
    lines: list[tuple[str, ...]] = []
    for (design, adaptations), (name, spread), against in product(
        DESIGNS.items(), SPREADS.items(), ("untouched", "adapted too")
    ):
        generator = np.random.default_rng(zlib.crc32(repr((design, name, against)).encode()))
        both = against == "adapted too"
        judged = np.mean([judge(made_up(generator, adaptations, spread, both=both)) for _ in range(given.studies)], 0)
        lines.append((design, name, against, *(f"{100 * share:.1f}" for share in judged)))
        tell(f"{lines[-1]}")
        report(given, lines)


def made_up(
    generator: np.random.Generator, adaptations: Sequence[int], spread: tuple[float, float, float], *, both: bool
) -> tuple[list[Resampled], list[Resampled]]:
    """Return the scores of two equally good models on each dataset, each model with the same adaptations everywhere.

    both: False if the second model is not adapted
    """
    everywhere, on_one, of_seed = spread
    runs, number = len(adaptations), max(adaptations) + 1
    luck_A = [generator.normal(0, everywhere, number) for _ in range(2)]
    sides: tuple[list[Resampled], list[Resampled]] = ([], [])
    for items in ITEMS:
        hard_n = generator.normal(0, COMMON, items)
        for side, (scores, adapted) in enumerate(zip(sides, (True, both), strict=True)):
            scores_Sn = EXPECTED + hard_n + generator.normal(0, ALONE, items) + generator.normal(0, REST, (runs, items))
            scores_Sn = scores_Sn + generator.normal(0, of_seed, (runs, 1))
            if adapted:
                scores_Sn += (luck_A[side] + generator.normal(0, on_one, number))[list(adaptations)][:, None]
            points_S = scores_Sn.mean(axis=1)
            named = tuple(adaptations) if adapted else ()
            scores.append(Resampled("model", tuple(range(runs)), points_S, scores_Sn - points_S[:, None], 0.0, named))
    return sides


def judge(sides: tuple[list[Resampled], list[Resampled]]) -> tuple[bool, bool, bool]:
    """Return whether the models are told apart, whether they are if datasets are taken for independent, and whether the
    interval of the first one's mean covers the truth.
    """
    ours, theirs = sides
    weights = [1 / len(ITEMS)] * len(ITEMS)
    found = mean_difference(ours, theirs, weights)
    apart = weighted([components_of_difference(*pair) for pair in zip(ours, theirs, strict=True)], weights)
    alone = mean_interval(ours, weights)
    independent = bool(p_value(found.difference, apart) < LEVEL)
    return found.p < LEVEL, independent, alone.low <= EXPECTED <= alone.high


def report(given: argparse.Namespace, lines: Sequence[tuple[str, ...]]) -> None:
    facts = [
        ("studies a line", f"{given.studies:,}"),
        ("took", f"{time.process_time() / 60:.1f} minutes of one core"),
    ]
    told, independent, covered = ([float(line[place]) for line in lines] for place in (3, 4, 5))
    error = 100 * (0.05 * 0.95 / given.studies) ** 0.5
    about = (
        "Two equally good models, each fine-tuned on four datasets of 200, 100, 60 and 300 test items from the same\n"
        "adapted checkpoints; the second one adapted too, or untouched. *Told apart* should be 4 to 6, *covered* 93.5\n"
        f"to 96.5; the standard error of a rate near 5 is {error:.1f}. *Independent*: told apart if the datasets'\n"
        "scores are taken for independent, as they were before. Spreads are standard deviations in points."
    )
    short = (
        f"Paired over datasets, equal models are told apart in {min(told):.1f} to {max(told):.1f}%, and intervals\n"
        f"cover in {min(covered):.1f} to {max(covered):.1f}%. Taken for independent, they are told apart in\n"
        f"{min(independent):.1f} to {max(independent):.1f}%."
    )
    names = ("design", "spread", "second model", "told apart", "independent", "covered")
    write(
        given.out,
        [
            head("Means over datasets of models that were adapted several times", facts=facts),
            f"## What is measured\n\n{about}\n",
            f"## In short\n\n{short}\n",
            f"## All lines\n\n{table(names, lines)}\n",
        ],
    )


if __name__ == "__main__":
    main()
