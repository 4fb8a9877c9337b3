"""Is one linear model on TF-IDF terms and the frozen encoder's states better than one on either alone?

    python benchmarks/terms_and_states.py OUT.md --tasks NAME=DIR ... --encoders NAME=PATH ...

DIR: a prepared task (`loop_tasks.py`). Each row of the report is one task and encoder: test scores of TF-IDF with all
its settings, of the frozen encoder with its probe's layer, of the linear model on both, and of what dev chooses among
the first two and among all three. The states (the probe's read-out) are standardised and divided by the root of their
number, times a weight that dev chooses with the settings of TF-IDF.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from acclimate.core.types import Label
from acclimate.methods import baselines, probe
from acclimate.models.encoder import load_tokenizer
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import encoded, places_of
from acclimate.tasks.thresholds import decide, has_threshold

WEIGHTS = (0.5, 1.0, 2.0, 4.0)  # of the states beside the terms, whose rows have length 1
STRENGTHS = {"score": (1.0, 0.1, 0.01), "sequence": (1.0, 10.0, 100.0), "multilabel": (1.0, 10.0, 100.0)}
COLUMNS = ["encoder", "task", "TF-IDF", "frozen", "both", "best on dev of two", "of three"]
Scores = tuple[float, float]  # on dev, on test


def predictions(linear: baselines.Linear, rows: dict[str, Any], task: Prepared) -> dict[str, list[Label]]:
    """Return the predictions for dev and test, with the threshold that dev chooses."""
    if has_threshold(task):
        gold = [example.label for example in task.examples("dev")]
        shift_C = decide(linear.outputs(rows["dev"]), gold, linear.labels, task).shift_C
        linear = baselines.Linear(linear.kind, linear.labels, linear.weights_CF, linear.bias_C - shift_C)
    return {split: linear.predict(rows[split]) for split in ("dev", "test")}


def of_both(task: Prepared, states: dict[str, np.ndarray]) -> tuple[float, list[Label]]:
    """Return the best score on dev of a linear model on terms and states, and its predictions for test."""
    examples = {split: task.examples(split) for split in ("train", "dev", "test")}
    train_gold, dev_gold = ([example.label for example in examples[split]] for split in ("train", "dev"))
    centre_D, scale_D = states["train"].mean(0), states["train"].std(0) + 1e-6
    units = {split: (states[split] - centre_D) / scale_D / np.sqrt(len(centre_D)) for split in states}
    best: tuple[float, list[Label]] = -1.0, []
    features, train_terms = baselines.features_of(examples["train"], 2)
    terms = {"train": train_terms, **{split: features(examples[split]) for split in ("dev", "test")}}
    classes: tuple[baselines.ClassWeights, ...] = ("equal",) if task.kind == "score" else ("balanced", "equal")
    for weight in WEIGHTS:
        rows = {
            split: sparse.csr_array(sparse.hstack([terms[split], sparse.csr_array(weight * units[split])]))
            for split in terms
        }
        for strength in STRENGTHS[task.kind]:
            for class_weights in classes:
                setting = baselines.TfidfSetting(strength, class_weights, 2)
                linear = baselines.FITS[task.kind](rows["train"], train_gold, task.labels, setting)
                predicted = predictions(linear, rows, task)
                score = task.score(dev_gold, predicted["dev"])
                if score > best[0]:
                    best = score, predicted["test"]
    return best


def measure(encoder: str, folder: Path) -> dict[str, Scores]:
    task, tokenizer = open_prepared(folder), load_tokenizer(encoder)
    recipe = baselines.TfidfRecipe(threshold="dev" if has_threshold(task) else "half")
    terms = baselines.fit_tfidf(recipe, task)
    frozen = probe.probe(encoder, task, threshold="dev" if has_threshold(task) else "half")
    network, _ = probe.load_encoder(encoder)
    read_out = frozen.layer.read_out
    states = {}
    for split in ("train", "dev", "test"):
        rows = encoded(task, split, task.examples(split), tokenizer, spans=places_of(task, tokenizer))
        states[split] = probe.states_of(network, rows, (read_out,))[read_out]
        if split == "test":
            of_frozen = probe.decoded(frozen.layer(states[split]), rows, task)
    dev, of_both_together = of_both(task, states)
    gold = task.unseal("benchmark: terms and states")
    return {
        "TF-IDF": (terms.dev, task.score(gold, terms.predict(task.examples("test")))),
        "frozen": (frozen.dev, task.score(gold, of_frozen)),
        "both": (dev, task.score(gold, of_both_together)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--encoders", nargs="+", required=True)
    options = parser.parse_args()
    lines, columns = [], []
    for encoder, model in (entry.split("=", 1) for entry in options.encoders):
        for name, folder in (entry.split("=", 1) for entry in options.tasks):
            scores = measure(model, Path(folder))
            two = max(("TF-IDF", "frozen"), key=lambda which: scores[which][0])
            three = max(scores, key=lambda which: scores[which][0])
            tests = [*(100 * scores[which][1] for which in scores), 100 * scores[two][1], 100 * scores[three][1]]
            columns.append(tests)
            lines.append(f"| {encoder} | {name} | {' | '.join(f'{test:.1f}' for test in tests)} |")
            print(lines[-1], flush=True)
    means = [statistics.mean(values) for values in zip(*columns, strict=True)]
    lines.append(f"| mean | | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    print(lines[-1])
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    options.out.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
