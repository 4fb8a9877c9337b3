"""T1, T4, T5, T6: what TAPT, TAPTER and TAPTER with permuted vectors came to in `acclimate study tapter`.

python benchmarks/claims/tapter.py OUT

OUT is the directory of the study.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from outcomes import adapted, of_cells, of_values, write

from acclimate.core import files
from acclimate.models.loading import EMBEDDED, resolved
from acclimate.models.word_embeddings import OVER, embedding_distances
from acclimate.races.outcome import Outcome, path_of, read_outcome
from acclimate.text.corpus import Corpus

TAPT, TAPTER, PERMUTED, UNTOUCHED = "TAPT", "TAPTER", "TAPTER permuted", "untouched"
DIFFERENCES = ((TAPT, UNTOUCHED), (TAPTER, TAPT), (TAPTER, PERMUTED), (TAPTER, UNTOUCHED))
SETS = ("all pieces", "pieces of the texts")  # OVER, as docs/claims.py calls them


def adaptations(out: Path) -> dict[str, list[Path]]:
    """Return contestant -> the directories of its finished adaptations, in the order of their seeds."""
    found: dict[str, list[Path]] = {}
    for line in (out / "plan.jsonl").read_text("utf-8").splitlines():
        job = json.loads(line)
        directory = out / "jobs" / job["name"]
        if job["work"] == "adapt" and (directory / "result.json").is_file():
            found.setdefault(job["label"].partition(",")[0], []).append(directory)
    return found


def fell(run: Path, term: str) -> float:
    """Return the share of its first value that a term of the loss lost on dev."""
    curve = files.read_json(run / "curve.json")
    return float(1 - curve[-1]["dev"][term] / curve[0]["dev"][term])


def scored(outcome: Outcome) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the differences of scores as figures, in points, and what the contestants scored."""
    cells = {result.row: result for result in outcome.results}
    figures: dict[str, Any] = {}
    for contestant, reference in DIFFERENCES:
        figures[f"{contestant} against {reference}"] = of_cells(cells[contestant], cells[reference], outcome.split)
    facts = {
        row: {
            "test": [100 * score.test for score in cell.scores],
            "dev": [100 * score.dev for score in cell.scores],
            "learnt nothing": cell.untaught,
        }
        for row, cell in cells.items()
    }
    return figures, facts


def main(out: Path) -> None:
    outcome = read_outcome(path_of(out, "tapter"))
    runs = adaptations(out)
    figures, scores = scored(outcome)
    facts: dict[str, Any] = {"scores": scores}

    falls = [(fell(run, "embedding"), fell(run, "mlm")) for run in runs[TAPTER]]
    over = f"{len(falls)} adaptations"
    figures["relative fall of the word-vector term minus that of the language modelling term"] = of_values(
        [a - b for a, b in falls], over
    )
    facts["relative fall of the second term and of the first"] = falls
    facts["the same of permuted vectors"] = [(fell(run, "embedding"), fell(run, "mlm")) for run in runs[PERMUTED]]

    read = files.read_json(runs[TAPT][0] / "job.json")["contents"]["corpus"]
    [texts] = [corpus for corpus in map(Corpus, (out / "corpora").iterdir()) if corpus.hash == read]
    untouched = resolved(EMBEDDED)
    moved = {
        name: [
            embedding_distances(untouched, str(run / "checkpoint"), (document.text for document in texts.documents()))
            for run in directories
        ]
        for name, directories in runs.items()
    }
    pairs = list(zip(moved[TAPTER], moved[TAPT], strict=False))
    for which, name in zip(OVER, SETS, strict=True):
        ratios = [math.log(ours[which].mean / theirs[which].mean) for ours, theirs in pairs]
        figures[f"ratio of distances, {name}"] = of_values(ratios, f"{len(ratios)} adaptations")
        facts[f"mean distance, {name}"] = {
            contestant: [run[which].mean for run in distances] for contestant, distances in moved.items()
        }
    means = ", ".join(f"{name} {sum(row['test']) / len(row['test']):.1f}" for name, row in scores.items())
    untaught = sum(row["learnt nothing"] for row in scores.values())
    further = [math.exp(figures[f"ratio of distances, {name}"]["difference"]) for name in SETS]
    permuted, tapt = (sum(run[OVER[1]].mean for run in moved[name]) / len(moved[name]) for name in (PERMUTED, TAPT))
    write(
        "tapter-ncbi",
        figures,
        out=out,
        losses={"adapted": adapted(outcome)},
        facts=facts,
        remark=f"Scores on test: {means}; {untaught} runs no better than a constant answer. Under TAPTER, embeddings "
        f"moved {further[0]:.2f} times as far as under TAPT over all pieces, {further[1]:.2f} over the texts'. "
        f"Permuted vectors moved the texts' {permuted / tapt:.2f} times as far.",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
