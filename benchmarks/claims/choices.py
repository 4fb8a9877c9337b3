"""P6, P7: what the variants of a model choice came to in `acclimate study choices`, each against the first one.

python benchmarks/claims/choices.py OUT NAME COMMAND... [--seconds S] [--commit C]

OUT is the directory of the study, NAME that of the outcome, COMMAND what made it (docs/claims.py has it). S: processor
seconds that the study took. C: the commit by which it ran.
"""

from __future__ import annotations

from typing import Any

from outcomes import arguments, commit, of_cells, write

from acclimate.races.outcome import read_outcome

ORIGINAL = "original, first token"
# figure of docs/claims.py -> (variant, what it is compared with); {} is the dataset
DIFFERENCES = {
    "dummies against original text on {}": ("dummies, first token", ORIGINAL),
    "markers against original text on {}": ("markers, first token", ORIGINAL),
    "linear against LSTM on {}": ("linear", "BiLSTM"),
}


def main() -> None:
    given = arguments()
    [path] = given.out.glob("choices-*.outcome.json")
    outcome = read_outcome(path)
    cells = {(result.column, result.row): result for result in outcome.results}
    figures: dict[str, Any] = {}
    for dataset in dict.fromkeys(column for column, _ in cells):
        for words, (variant, other) in DIFFERENCES.items():
            if (dataset, variant) not in cells or (dataset, other) not in cells:
                continue
            figures[words.format(dataset)] = of_cells(cells[dataset, variant], cells[dataset, other], outcome.split)
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
