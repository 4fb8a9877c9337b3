"""T1, T4, T5, T6: what TAPT, TAPTER and TAPTER with permuted vectors came to in `acclimate study tapter`.

python benchmarks/claims/tapter.py OUT NAME COMMAND... [--seconds S] [--commit C]

OUT is the directory of the study, NAME that of the outcome, COMMAND what made it (docs/claims.py has it). S: processor
seconds that the study and its word vectors took. C: the commit by which the study ran. A study that has not ended
yields T4 and T5, as far as adaptations are there.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from outcomes import arguments, commit, of_cells, of_values, write

from acclimate.core import files
from acclimate.models.loading import EMBEDDED, resolved
from acclimate.models.word_embeddings import OVER, embedding_distances
from acclimate.races.outcome import path_of, read_outcome
from acclimate.text.corpus import Corpus

TAPT, TAPTER, PERMUTED, UNTOUCHED = "TAPT", "TAPTER", "TAPTER permuted", "untouched"
DIFFERENCES = ((TAPT, UNTOUCHED), (TAPTER, TAPT), (TAPTER, PERMUTED), (TAPTER, UNTOUCHED))
SETS = ("all pieces", "pieces of the texts")  # OVER, as docs/claims.py calls them


def adapted(out: Path) -> dict[str, list[Path]]:
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


def scored(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the differences of scores as figures, in points, and what the contestants scored."""
    outcome = read_outcome(path_of(out, "tapter"))
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


def main() -> None:
    given = arguments()
    runs = adapted(given.out)
    figures: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    if path_of(given.out, "tapter").is_file():
        figures, facts["scores"] = scored(given.out)

    falls = [(fell(run, "embedding"), fell(run, "mlm")) for run in runs[TAPTER]]
    over = f"{len(falls)} adaptations"
    figures["relative fall of the word-vector term minus that of the language modelling term"] = of_values(
        [a - b for a, b in falls], over
    )
    facts["relative fall of the second term and of the first"] = falls
    facts["the same of permuted vectors"] = [
        (fell(run, "embedding"), fell(run, "mlm")) for run in runs.get(PERMUTED, [])
    ]

    read = files.read_json(runs[TAPT][0] / "job.json")["contents"]["corpus"]
    [texts] = [each for each in map(Corpus, (given.out / "corpora").iterdir()) if each.hash == read]
    untouched = resolved(EMBEDDED)
    moved = {
        name: [
            embedding_distances(untouched, str(run / "checkpoint"), (each.text for each in texts.documents()))
            for run in directories
        ]
        for name, directories in runs.items()
    }
    pairs = list(zip(moved[TAPTER], moved[TAPT], strict=False))
    for which, name in zip(OVER, SETS, strict=True):
        ratios = [math.log(ours[which].mean / theirs[which].mean) for ours, theirs in pairs]
        figures[f"ratio of distances, {name}"] = of_values(ratios, f"{len(ratios)} adaptations")
        facts[f"mean distance, {name}"] = {
            contestant: [each[which].mean for each in distances] for contestant, distances in moved.items()
        }
    remarks = []
    if "scores" in facts:
        means = (f"{name} {sum(each['test']) / len(each['test']):.1f}" for name, each in facts["scores"].items())
        untaught = sum(each["learnt nothing"] for each in facts["scores"].values())
        remarks.append(f"Scores on test: {', '.join(means)}; {untaught} runs no better than a constant answer.")
    further = (math.exp(figures[f"ratio of distances, {name}"]["difference"]) for name in SETS)
    remarks.append(
        "Embeddings moved {:.2f} times as far as under TAPT over all pieces, {:.2f} over the texts'.".format(*further)
    )
    if moved.get(PERMUTED):
        means = {
            name: sum(each[OVER[1]].mean for each in distances) / len(distances) for name, distances in moved.items()
        }
        remarks.append(f"Permuted vectors moved them {means[PERMUTED] / means[TAPT]:.2f} times as far over the texts'.")
    write(
        given.name,
        figures,
        commands=given.commands,
        seconds=given.seconds,
        made_by=given.commit or commit(),
        losses=given.losses,
        facts=facts,
        remark=" ".join([*remarks, given.remark]),
    )


if __name__ == "__main__":
    main()
