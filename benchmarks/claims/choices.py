"""P6, P7: what the variants of a model choice came to in `acclimate study choices`, each against the first one.

python benchmarks/claims/choices.py OUT NAME COMMAND... [--seconds S] [--commit C]

OUT is the directory of the study, NAME that of the outcome, COMMAND what made it (docs/claims.py has it). S: processor
seconds that the study took. C: the commit by which it ran.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from outcomes import commit, write

from acclimate.races.outcome import read_outcome
from acclimate.statistics.power import measured
from acclimate.statistics.significance import compare
from acclimate.tasks.metrics import metric_named

ORIGINAL = "original, first token"
# figure of docs/claims.py -> (variant, what it is compared with); {} is the dataset
DIFFERENCES = {
    "dummies against original text on {}": ("dummies, first token", ORIGINAL),
    "markers against original text on {}": ("markers, first token", ORIGINAL),
    "linear against LSTM on {}": ("linear", "BiLSTM"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("name")
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    [path] = given.out.glob("choices-*.outcome.json")
    outcome = read_outcome(path)
    cells = {(result.column, result.row): result for result in outcome.results}
    figures: dict[str, Any] = {}
    for dataset in dict.fromkeys(column for column, _ in cells):
        for words, (variant, other) in DIFFERENCES.items():
            if (dataset, variant) not in cells or (dataset, other) not in cells:
                continue
            ours, theirs = cells[dataset, variant], cells[dataset, other]
            # the same items in another encoding
            alike = [replace(score, task=ours.scores[0].task) for score in theirs.scores]
            found = compare(ours.scores, alike, metric_named(ours.task.metric))
            figures[words.format(dataset)] = {
                "difference": 100 * found.difference,
                "low": 100 * found.low,
                "high": 100 * found.high,
                "p": found.p,
                "smallest": 100 * measured(found).detectable(),
                "over": f"{found.seeds} fine-tunings, {found.items:,} {outcome.split} items",
                "learnt": ours.learnt and theirs.learnt,
            }
    scores = {
        f"{dataset}: {row}": [100 * score.test for score in cell.scores] for (dataset, row), cell in cells.items()
    }
    means = (f"{name} {sum(each) / len(each):.1f}" for name, each in scores.items())
    untaught = sum(cell.untaught for cell in cells.values())
    write(
        given.name,
        figures,
        commands=given.commands,
        seconds=given.seconds,
        made_by=given.commit or commit(),
        facts={"scores": scores},
        remark=f"Scores: {', '.join(means)}; {untaught} runs learnt nothing.",
    )


if __name__ == "__main__":
    main()
