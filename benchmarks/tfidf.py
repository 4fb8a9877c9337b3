"""Which settings serve TF-IDF on published datasets: scores of all of them on dev and test.

    python benchmarks/tfidf.py --data DIR --datasets ACL-ARC SciERC HoC --out benchmarks/reports/DATE-tfidf.md

DIR is the folder of the datasets' catalogues, as `acclimate data fetch` fills it. The order in which a race tries the
settings (`TfidfRecipe.tried`) may be judged on the columns of dev only.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

from page import head, table, tell, write

from acclimate.core.types import Example
from acclimate.methods.baselines import FITS, TfidfRecipe, TfidfSetting, features_of
from acclimate.reading.published import published
from acclimate.tasks.metrics import metric_named

MOST = {"train": 3000, "dev": 1500, "test": 1500}  # rows that are drawn, under a fixed seed
BEFORE = tuple(TfidfSetting(strength, "equal", 2) for strength in (10.0, 100.0, 1.0))  # what a race tried until now
TRIED = (1, 3, 6)

Scores = dict[TfidfSetting, tuple[float, float]]  # of dev and test, in percent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", required=True)
    parser.add_argument("--metrics", nargs="+", default=["macro_f1", "micro_f1"])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found: dict[tuple[str, str], Scores] = {}
    for name in given.datasets:
        found |= scores(name, given.data, given.metrics)
        tell(name)
    write(given.out, [head("Settings of TF-IDF"), *report(found)])


def scores(name: str, data: Path, metrics: list[str]) -> dict[tuple[str, str], Scores]:
    """(dataset, metric) -> the scores of each setting; numbers have the dataset's metric."""
    roots = [root for root in (data, *sorted(data.iterdir())) if root.is_dir()]
    labelled = next(filter(None, (_read(name, root) for root in roots)))
    rows: dict[str, list[Example]] = {}
    for split, most in MOST.items():
        examples = list(labelled.splits[split])
        rows[split] = random.Random(0).sample(examples, most) if len(examples) > most else examples
    gold = {split: [example.label for example in examples] for split, examples in rows.items()}
    judged = [labelled.metric] if labelled.kind == "score" else [metric_named(metric) for metric in metrics]
    found: dict[tuple[str, str], Scores] = {(name, metric.name): {} for metric in judged}
    settings = TfidfRecipe().tried(labelled.kind)
    for longest in sorted({setting.longest for setting in settings}):
        features, of_train = features_of(rows["train"], longest)
        others = {split: features(rows[split]) for split in ("dev", "test")}
        for setting in settings:
            if setting.longest != longest:
                continue
            predict = FITS[labelled.kind](of_train, gold["train"], labelled.labels, setting).predict
            predicted = {split: predict(of_split) for split, of_split in others.items()}
            for metric in judged:
                dev, test = (100 * metric.compute(gold[split], predicted[split]) for split in ("dev", "test"))
                found[name, metric.name][setting] = dev, test
    return found


def _read(name: str, root: Path):
    try:
        return published(name, root)
    except ValueError:  # another catalogue's folder
        return None


def report(found: dict[tuple[str, str], Scores]) -> Iterator[str]:
    metrics = list(dict.fromkeys(metric for _, metric in found))
    for metric in metrics:
        of_metric = {name: scores for (name, each), scores in found.items() if each == metric}
        kind = "score" if "pearson" in metric else "sequence"
        order = TfidfRecipe().tried(kind)
        chosen = {f"the first {number}": order[:number] for number in TRIED} | {"all": order}
        if kind != "score":
            chosen = {"C 10, 100, 1, equal classes, terms of 1 to 2 words (as before)": BEFORE} | chosen
        yield f"## {metric}\n"
        yield "Score on test of the setting that is best on dev, of those that are tried; mean in front.\n"
        rows = []
        for what, settings in chosen.items():
            tests = [scores[max(settings, key=lambda each: scores[each][0])][1] for scores in of_metric.values()]
            rows.append([what, f"{statistics.mean(tests):.1f}", *(f"{test:.1f}" for test in tests)])
        yield table(["tried", "mean", *of_metric], rows)
        judged = "Mean over the datasets on dev, by which the order was judged, of each setting"
        yield f"\n{judged}; in the order of a race:\n"
        yield table(
            ["setting", "dev"],
            [
                [setting.text(kind), f"{statistics.mean(scores[setting][0] for scores in of_metric.values()):.1f}"]
                for setting in order
            ],
        )


if __name__ == "__main__":
    main()
