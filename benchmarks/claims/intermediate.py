"""S1, S2: what an intermediate task gains before another, and whether two encoders gain from the same pairs.

python benchmarks/claims/intermediate.py OUT

OUT is the directory of `acclimate study stilt` from two encoders, of which the first is the one of S1 and the second
the same after DAPT, and dapt beside it that of DAPT.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from outcomes import adapted_once, of_cell_means, of_cells, of_values, write

from acclimate.races.outcome import path_of, read_outcome
from acclimate.statistics.significance import compare
from acclimate.studies.stilt import BASELINE
from acclimate.tasks.metrics import metric_named


def main(out: Path) -> None:
    outcome = read_outcome(path_of(out, "stilt"))
    cells = outcome.cells
    one, other = dict.fromkeys(result.model for result in outcome.results)
    pairs = [(cell.row, cell.column) for cell in outcome.results if cell.model == one and cell.row != BASELINE]
    of_entities = {cell.column for cell in outcome.results if cell.task.kind == "tokens"}
    figures = {
        "entity tasks after another entity task against directly": of_cell_means(
            [
                (cells[one, first, target], cells[one, BASELINE, target])
                for first, target in pairs
                if {first, target} <= of_entities
            ],
            outcome.split,
        )
    }
    gains: dict[str, dict[str, float]] = {one: {}, other: {}}
    excess = []
    for first, target in pairs:
        errors = []
        for model in (one, other):
            ours, theirs = cells[model, first, target], cells[model, BASELINE, target]
            figure = of_cells(ours, theirs, outcome.split)
            figures[f"{first} before {target}, {model}"] = figure
            gains[model][f"{first} before {target}"] = figure["difference"]
            found = compare(ours.scores, theirs.scores, metric_named(ours.task.metric))
            chance = max(found.variance_seeds, found.variance_residual) + found.variance_items
            errors.append(100 * chance**0.5)
        apart = gains[one][f"{first} before {target}"] - gains[other][f"{first} before {target}"]
        if all(cells[model, row, target].learnt for model in (one, other) for row in (first, BASELINE)):
            excess.append(apart**2 - sum(error**2 for error in errors))
    learnt_by_all = of_values(excess, f"{len(excess)} pairs")
    figures["spread of a pair's gains between encoders, above chance"] = learnt_by_all
    agree = float(np.corrcoef([list(by_pair.values()) for by_pair in gains.values()])[0, 1])
    said = "; ".join(f"{pair} {gains[one][pair]:+.1f} and {gains[other][pair]:+.1f}" for pair in gains[one])
    untaught = sum(cell.untaught for cell in outcome.results)
    write(
        "stilt",
        figures,
        out=out,
        losses={"adapted": adapted_once(out.parent / "dapt")},
        facts={"gains": gains},
        remark=f"Gains from {one} and from {other}, in points: {said}. Their correlation is {agree:+.2f}. {untaught} "
        "runs no better than a constant answer.",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
