"""How many test rows have a partner in train under published, random and grouped splits, and what that is worth.

    python benchmarks/random_splits.py --data DIR --out benchmarks/reports/DATE-random-splits.md

DIR has the folders `blurb` and `glue`. Scores are those of TF-IDF with a linear model: a cheap stand-in for an encoder.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from page import head, spread, table, tell, write

from acclimate.core.types import Example
from acclimate.data.leaks import Sealed, find_partners, found_in_rows
from acclimate.methods.baselines import FITS, TfidfRecipe, features_of
from acclimate.reading.labelled import Labelled
from acclimate.reading.published import published
from acclimate.reading.splitting import BONDS, SHARES, bonds_of, divide, grouped
from acclimate.tasks.metrics import metric_named

DATASETS = {"RTE": "", "STS-B": "", "GAD": "blurb", "ChemProt": "blurb", "BC5-chem": "blurb", "BC5-disease": "blurb"}
KINDS = ("copies", "swapped", "text", "template", "any")
MOST = 6_000  # rows of the pooled splits, train first: rows of one document follow each other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=[*DATASETS], choices=[*DATASETS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    published_rows, random_rows, scores = [], [], []
    for name in options.datasets:
        labelled = published(name, options.data / DATASETS[name])
        published_rows.append((name, *counts(labelled)[0]))
        tell(name)
        pool = [row for rows in labelled.splits.values() for row in rows][:MOST]
        bonds, _ = bonds_of(pool, kind=labelled.kind)
        ways = {
            "random": ([dataclasses.replace(row, group="") for row in pool], range(len(pool))),
            "acclimate": (pool, bonds),
        } | {f"--group {bond}": (grouped(pool, bond), bonds) for bond in BONDS}
        for way, (rows, same) in ways.items():
            if way == "--group text" and not pool[0].pair:
                continue
            values, without, shares = [], [], []
            for seed in range(options.seeds):
                parts = divide(rows, SHARES[("dev", "test")], kind=labelled.kind, same=same, seed=seed)
                divided = dataclasses.replace(labelled, splits={split: tuple(part) for split, part in parts.items()})
                cells, partners = counts(divided)
                shares.append(cells)
                if labelled.kind != "tokens":
                    one, other = score(divided, partners)
                    values.append(one)
                    without.append(other)
            columns = zip(*(cells[1:] for cells in shares), strict=True)
            means = [f"{mean(float(cell.partition('%')[0]) for cell in column):.1f}%" for column in columns]
            random_rows.append((name, way, f"{len(pool):,}", *means))
            if values:
                scores.append((name, way, spread(values, ".1f"), spread(without, ".1f")))
            tell(f"{name}: {way}")
    text = f"""## Published splits

Test rows with a partner in train, by the kind of partner. Copies are the leaks of the doctor: the same words, nearly
the same, or half of the runs of 13 words. A row may be in several columns.

{table(("dataset", "test rows", *KINDS), published_rows)}

## Splits of the pooled rows

The first {MOST:,} rows of the published splits, train first, are pooled and divided into
70% train, 10% dev and 20% test, with {options.seeds} seeds. `random` keeps nothing together. `acclimate` is a race
without `--group`: copies stay together, and so do rows
of one document if the files name it (ChemProt). Shares of the test rows, means over seeds.

{table(("dataset", "split", "rows", *KINDS), random_rows)}

## What a grouped split costs

Test score of TF-IDF with a linear model, in points of the dataset's metric: median, and range over seeds. The second
column omits the test rows with a partner. No encoder was trained: one that remembers more may lose more.

{table(("dataset", "split", "all test rows", "rows without a partner"), scores)}

## Time

{linear()}
"""
    write(options.out, [head("What a random split hides"), text])


def counts(labelled: Labelled) -> tuple[list[str], frozenset[str]]:
    """Return the number of test rows and the share of each kind of partner, and the ids of rows with any partner."""
    test = labelled.splits["test"]
    sealed = Sealed({"dev": (), "test": test})
    ids = {"copies": found_in_rows("train", labelled.splits["train"], sealed).leaked_ids("test")}
    ids |= {partners.kind: partners.ids for partners in find_partners(labelled)}
    ids["any"] = frozenset().union(*ids.values())
    shares = [f"{len(ids.get(kind, ())) / len(test):.1%} ({len(ids.get(kind, ())):,})" for kind in KINDS]
    return [f"{len(test):,}", *shares], ids["any"]


def score(labelled: Labelled, partners: frozenset[str]) -> tuple[float, float]:
    """Return the points of TF-IDF on all test rows and on those that are not among `partners`."""
    setting = TfidfRecipe().tried(labelled.kind)[0]
    train, test = labelled.splits["train"], labelled.splits["test"]
    features, of_train = features_of(train, setting.longest)
    fitted = FITS[labelled.kind](of_train, [row.label for row in train], labelled.labels, setting)
    predicted = fitted.predict(features(test))

    def points(places: Sequence[int]) -> float:
        gold, answers = [test[place].label for place in places], [predicted[place] for place in places]
        return 100 * labelled.metric.compute(gold, answers)

    return points(range(len(test))), points([place for place, row in enumerate(test) if row.id not in partners])


def linear() -> str:
    """Return a table of how long `find_partners` takes on rows of 20 templates."""
    rows = []
    words = ["".join("abcdefghij"[int(digit)] for digit in f"{number * 7919:06}") for number in range(600)]
    for size in (30_000, 300_000):
        examples = [
            Example(f"{number}", f"{' '.join(words[30 * (number % 20) :][:30])} Anna {number}", "ab"[number % 2])
            for number in range(size)
        ]
        labelled = Labelled(
            "templates",
            "sequence",
            ("a", "b"),
            metric_named("accuracy"),
            64,
            {"train": tuple(examples[: size * 7 // 10]), "dev": (), "test": tuple(examples[size * 7 // 10 :])},
            (),
            (),
        )
        begin = time.process_time()
        [template] = find_partners(labelled)
        rows.append((f"{size:,}", f"{len(template.ids):,}", f"{time.process_time() - begin:.1f}"))
    return table(("rows of 32 words, from 20 templates", "test rows with a partner", "processor seconds"), rows)


if __name__ == "__main__":
    main()
