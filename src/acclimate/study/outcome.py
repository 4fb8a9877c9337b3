"""What a race leaves in its directory besides the jobs, and the page made of it: rows are read, nothing is trained.

scores.json    a `Score` for each contestant and seed
facts.json     what the page tells around them
report.html, table.txt, table.csv    made of these two, again whenever asked
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.types import Cost, Score
from acclimate.study import tables
from acclimate.study.report import Curves, Study, write_report
from acclimate.study.verdict import verdict
from acclimate.tasks.metrics import METRICS

SCORES, FACTS, PAGE, TABLE, SHEET = "scores.json", "facts.json", "report.html", "table.txt", "table.csv"
WINNER = "winner"


def write_outcome(run: Path, scores: list[Score], facts: dict[str, Any]) -> None:
    files.write_json(run / SCORES, [asdict(score) for score in scores])
    files.write_json(run / FACTS, facts)


def read_scores(run: Path) -> list[Score]:
    """Raises FileNotFoundError where no race in `run` has come to its end."""
    if not (run / SCORES).exists():
        raise FileNotFoundError(f"{run} holds no {SCORES}: no race there has come to its end. Run it again to go on")
    return [
        Score(
            **{
                **row,
                **{key: tuple(row[key]) for key in ("ids", "gold", "predicted")},
                **{key: Cost(**row[key]) for key in ("adapting", "finetuning")},
            }
        )
        for row in files.read_json(run / SCORES)
    ]


def study_of(run: Path) -> Study:
    """All that the page shows, from the files of a finished race."""
    scores, facts = read_scores(run), files.read_json(run / FACTS)
    metric = METRICS[scores[0].metric]
    rows = tables.rows(scores, metric)
    winner = facts.pop("winner")
    own = {name: [score for score in scores if score.contestant == name] for name in (tables.UNTOUCHED, winner)}
    facts["curves"] = {title: Curves(**curve) for title, curve in facts["curves"].items()}
    facts["losses"] = {name: (before, after) for name, (before, after) in facts["losses"].items()}
    return Study(
        verdict=verdict(rows, baselines=facts.pop("baselines")),
        rows=rows,
        winner=winner,
        labels=tables.per_label(own[tables.UNTOUCHED], own[winner]),
        **facts,
    )


def write_pages(run: Path) -> Study:
    """Write the page and the tables of a finished race; what they show."""
    study = study_of(run)
    write_report(run / PAGE, study)
    files.write_text(run / TABLE, f"{tables.as_text(study.rows)}\n{study.verdict}\n")
    files.write_text(run / SHEET, tables.as_csv(study.rows))
    return study
