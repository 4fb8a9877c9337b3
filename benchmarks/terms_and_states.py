"""Is one linear model on TF-IDF terms and the frozen encoder's states better than one on either alone?

    python benchmarks/terms_and_states.py OUT.md --tasks NAME=DIR ... --encoders NAME=PATH ...

DIR: a prepared task (`loop_tasks.py`). Each row of the report is one task and encoder: test scores of TF-IDF with all
its settings, of the frozen encoder with its probe's layer, of the linear model on both that races as TF-IDF + encoder,
and of what dev chooses among the first two and among all three.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from acclimate.methods import baselines, probe
from acclimate.races import terms_and_states
from acclimate.tasks.prepared import open_prepared
from acclimate.tasks.rows import encoded, places_of
from acclimate.tasks.thresholds import Threshold

COLUMNS = ["encoder", "task", "TF-IDF", "frozen", "both", "best on dev of two", "of three"]
Scores = tuple[float, float]  # on dev, on test


def measure(encoder: str, folder: Path) -> dict[str, Scores]:
    task = open_prepared(folder)
    threshold: Threshold = "dev" if task.has_threshold else "half"
    recipe = baselines.TfidfRecipe(threshold=threshold)
    terms = baselines.fit_tfidf(recipe, task)
    frozen = probe.probe(encoder, task, threshold=threshold)
    both = terms_and_states.fit(recipe, task, encoder, frozen.layer)
    network, tokenizer = terms_and_states.load_encoder(encoder)
    test = task.examples("test")
    rows = encoded(task, "test", test, tokenizer, spans=places_of(task, tokenizer))
    states_RD = probe.states_of(network, rows, (frozen.layer.read_out,))[frozen.layer.read_out]
    of_frozen = probe.decoded(frozen.layer(states_RD), rows, task)
    of_both = both.model.linear.decoded(both.model.outputs(test, states_RD))
    gold = task.unseal("benchmark: terms and states")
    return {
        "TF-IDF": (terms.dev, task.score(gold, terms.predict(test))),
        "frozen": (frozen.dev, task.score(gold, of_frozen)),
        "both": (both.dev, task.score(gold, of_both)),
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
