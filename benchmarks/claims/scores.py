"""Differences of scores: what the rows of a study came to, each against another row on the same items.

python benchmarks/claims/scores.py OUT NAME COMMAND... [--seconds S] [--commit C] [--remark WORDS]
    [--adapted BEFORE AFTER] [--pretrained LOSS FREQUENCIES]

OUT is the directory of the studies, NAME that of the outcome, COMMAND what made it (docs/claims.py has it). S:
processor seconds that the studies took. C: the commit by which they ran. WORDS: what a further look showed. The
losses are those of `outcomes.write`; a claim that needs them has no other verdict than "not visible" without them.
FIGURES says which studies and rows a NAME is of.
"""

from __future__ import annotations

from typing import Any

from outcomes import arguments, commit, of_cell_means, of_cells, write

from acclimate.races.outcome import CellResult, path_of, read_outcome

ORIGINAL = "original, first token"
# NAME -> figure of docs/claims.py -> (study, row, the row that it is compared with); {} is the column, and without it
# the figure is the mean over all columns
FIGURES = {
    "choices-relations": {
        "dummies against original text on {}": ("choices-relations", "dummies, first token", ORIGINAL),
        "markers against original text on {}": ("choices-relations", "markers, first token", ORIGINAL),
    },
    "choices-layers": {"linear against LSTM on {}": ("choices-layers", "linear", "BiLSTM")},
    "choices-schemes": {
        "BIO against BIOUL on {}": ("choices-schemes", "BIO", "BIOUL"),
        "BIO against IO on {}": ("choices-schemes", "BIO", "IO"),
    },
    "tapter-general": {"untouched against TAPTER": ("tapter", "untouched", "TAPTER")},
    "dga-tasks": {"MLM against untouched": ("dga", "MLM", "untouched"), "DGA against MLM": ("dga", "DGA", "MLM")},
    "dga-ablations": {
        "DGA against DGA (w/o contrast)": ("dga", "DGA", "DGA (w/o contrast)"),
        "DGA against DGA (random mask)": ("dga", "DGA", "DGA (random mask)"),
    },
    "tlm-tasks": {"TLM against the embedded encoder": ("tlm-scale", "TLM", "model")},
    "tlm-retrieval": {"BM25 against random": ("tlm-retrieval", "BM25", "random")},
    "tlm-stages": {"two stages against the first alone": ("tlm-stages", "two stages", "without stage 2")},
    "tlm-k": {"K = 5 against task text alone": ("tlm-k", "K = 5", "task data only")},
    "blurb": {"biomedical encoder against general encoder": ("blurb", "dapt", "embedded")},
    "scratch-adversarial": {"without the adversarial term against with it": ("blurb", "without", "with")},
    "scratch-square": {
        "own vocabulary against general": (
            "pubmedbert",
            "in-domain vocabulary, whole words",
            "general vocabulary, whole words",
        ),
        "whole words against word pieces": (
            "pubmedbert",
            "in-domain vocabulary, whole words",
            "in-domain vocabulary, word pieces",
        ),
    },
    "scratch-full-text": {
        "abstracts against abstracts and full text": (
            "pubmedbert",
            "in-domain vocabulary, whole words",
            "with full texts",
        ),
        "longer training against not": ("pubmedbert", "with full texts, longer", "with full texts"),
    },
    "tlm-rho": {
        "rho_1 of 99 against 1": ("tlm-rho_1", "rho_1 = 99", "rho_1 = 1"),
        "rho_2 of 20 against 0": ("tlm-rho_2", "rho_2 = 20", "rho_2 = 0"),
    },
}


def main() -> None:
    given = arguments()
    asked = FIGURES[given.name]
    studies = {study: read_outcome(path_of(given.out, study)) for study, _, _ in asked.values()}
    figures: dict[str, Any] = {}
    shown: dict[str, CellResult] = {}
    for words, (study, row, other) in asked.items():
        results = studies[study].results
        columns = list(dict.fromkeys(result.column for result in results))
        by_place = {(result.column, result.row): result for result in results}
        pairs = {column: (by_place[column, row], by_place[column, other]) for column in columns}
        if "{}" in words:
            figures |= {words.format(column): of_cells(*pair, studies[study].split) for column, pair in pairs.items()}
        else:
            figures[words] = of_cell_means(list(pairs.values()), studies[study].split)
        shown |= {f"{result.column}: {result.row}": result for result in results if result.shown}
    scores = {name: [100 * score.test for score in cell.scores] for name, cell in shown.items()}
    means = (f"{name} {sum(each) / len(each):.1f}" for name, each in scores.items())
    untaught = sum(cell.untaught for cell in shown.values())
    write(
        given.name,
        figures,
        commands=given.commands,
        seconds=given.seconds,
        made_by=given.commit or commit(),
        losses=given.losses,
        facts={"scores": scores},
        remark=f"Scores: {', '.join(means)}; {untaught} runs no better than a constant answer. {given.remark}",
    )


if __name__ == "__main__":
    main()
