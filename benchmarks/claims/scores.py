"""Differences of scores: what the rows of a study came to, each against another row on the same items.

python benchmarks/claims/scores.py OUT NAME

OUT is the directory of the study, NAME that of the outcome. FIGURES says which study and rows a NAME is of.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from outcomes import adapted, adapted_once, exact, of_cell_means, of_cells, pretrained, pretrainings, write

from acclimate.core.files import read_json
from acclimate.models.loading import embedded
from acclimate.races.outcome import CellResult, path_of, read_outcome
from acclimate.studies.pubmedbert import DOMAIN_PIECES, DOMAIN_WORDS, FULL, GOES_ON, LONGER
from acclimate.studies.tlm import PAPERS_FLOP

ORIGINAL = "original, first token"
# NAME -> study, and figure of docs/claims.py -> row, the row that it is compared with; {} is the column, and without it
# the figure is the mean over all columns
FIGURES: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "choices-relations": (
        "choices-relations",
        {
            "dummies against original text on {}": ("dummies, first token", ORIGINAL),
            "markers against original text on {}": ("markers, first token", ORIGINAL),
        },
    ),
    "choices-layers": ("choices-layers", {"linear against LSTM on {}": ("linear", "BiLSTM")}),
    "choices-schemes": (
        "choices-schemes",
        {"BIO against BIOUL on {}": ("BIO", "BIOUL"), "BIO against IO on {}": ("BIO", "IO")},
    ),
    "tapter-general": ("tapter", {"untouched against TAPTER": ("untouched", "TAPTER")}),
    "dga-tasks": ("dga", {"MLM against untouched": ("MLM", "untouched"), "DGA against MLM": ("DGA", "MLM")}),
    "dga-ablations": (
        "dga",
        {
            "DGA against DGA (w/o contrast)": ("DGA", "DGA (w/o contrast)"),
            "DGA against DGA (random mask)": ("DGA", "DGA (random mask)"),
        },
    ),
    "tlm-tasks": ("tlm-scale", {"TLM against the embedded encoder": ("TLM", "model")}),
    "tlm-retrieval": ("tlm-retrieval", {"BM25 against random": ("BM25", "random")}),
    "tlm-stages": ("tlm-stages", {"two stages against the first alone": ("two stages", "without stage 2")}),
    "tlm-k": ("tlm-k", {"retrieved text against task text alone": ("K = 50", "task data only")}),
    "tlm-rho": ("tlm-rho_1", {"rho_1 of 99 against 1": ("rho_1 = 99", "rho_1 = 1")}),
    "blurb": ("blurb", {"biomedical encoder against general encoder": ("dapt", "embedded")}),
    "scratch-adversarial": ("blurb", {"without the adversarial term against with it": ("without", "with")}),
    "scratch-square": (
        "pubmedbert",
        {
            "own vocabulary from scratch against continuing from a general encoder": (DOMAIN_WORDS, GOES_ON),
            "whole words against word pieces": (DOMAIN_WORDS, DOMAIN_PIECES),
        },
    ),
    "scratch-full-text": (
        "pubmedbert",
        {
            "abstracts against abstracts and full text": (DOMAIN_WORDS, FULL),
            "longer training against not": (LONGER, FULL),
        },
    ),
}
# NAME -> a run of masked language modelling outside the study, from OUT
ADAPTATIONS = {"blurb": "../dapt", "scratch-adversarial": "without"}


def main(out: Path, name: str) -> None:
    study, compared = FIGURES[name]
    outcome = read_outcome(path_of(out, study))
    by_place = {(result.column, result.row): result for result in outcome.results}
    columns = list(dict.fromkeys(result.column for result in outcome.results))
    figures: dict[str, Any] = {}
    cells: list[CellResult] = []
    for words, rows in compared.items():
        pairs = {column: (by_place[column, rows[0]], by_place[column, rows[1]]) for column in columns}
        cells += [cell for pair in pairs.values() for cell in pair]
        if "{}" in words:
            figures |= {words.format(column): of_cells(*pair, outcome.split) for column, pair in pairs.items()}
        else:
            figures[words] = of_cell_means(list(pairs.values()), outcome.split)
    if name == "tlm-tasks":
        about = read_json(embedded() / "embedded.json")
        flop = 6 * about["tokens"] * about["parameters"]  # as the paper counts, like PAPERS_FLOP
        [ours] = [result.facts[PAPERS_FLOP] for result in outcome.results if result.row == "TLM"]
        figures["FLOP of pretraining that encoder against TLM"] = exact(math.log(flop / ours), "one first stage")
    results = {f"{result.column}: {result.row}": result for result in outcome.results if result.shown}
    scores = {row: [100 * score.test for score in cell.scores] for row, cell in results.items()}
    means = (f"{row} {sum(points) / len(points):.1f}" for row, points in scores.items())
    untaught = sum(cell.untaught for cell in results.values())
    losses = adapted_once(out / ADAPTATIONS[name]) if name in ADAPTATIONS else adapted(outcome)
    write(
        name,
        figures,
        out=out,
        losses={"adapted": losses, "pretrained": pretrained(pretrainings(out, cells))},
        facts={"scores": scores},
        remark=f"Scores: {', '.join(means)}; {untaught} runs no better than a constant answer.",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
