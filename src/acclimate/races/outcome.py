"""What a race leaves in its directory besides the jobs, and the page made of it: rows are read, nothing is trained.

scores.json    a `Score` for each contestant and seed
facts.json     what the page says around them (races/report.py: Facts)
report.html, table.txt, table.csv    made of these two, again whenever asked
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.figures import listed, metric_text, points
from acclimate.core.types import Cost, Label, Score, label_of
from acclimate.data.examination import Leak
from acclimate.races.labels import confusion, mean_predictions, per_label, per_type
from acclimate.races.report import Facts, Leakage, Study, search_remark, write_report
from acclimate.races.verdict import claims, remarks, verdict
from acclimate.reports import table
from acclimate.reports.table import Row
from acclimate.tasks.metrics import metric_named, reported_with
from acclimate.tasks.task import Kind, Metric

SCORES, FACTS, PAGE, TABLE, SHEET = "scores.json", "facts.json", "report.html", "table.txt", "table.csv"
WINNER = "winner"
UNTAUGHT = 0.02  # above a constant answer, and still no more than that


def write_outcome(run: Path, scores: list[Score], facts: Facts) -> None:
    files.write_json(run / SCORES, [asdict(score) for score in scores])
    files.write_json(run / FACTS, facts.to_json())


def read_scores(run: Path) -> list[Score]:
    """Raises FileNotFoundError where no race in `run` has come to its end."""
    if not (run / SCORES).exists():
        raise FileNotFoundError(f"{run} holds no {SCORES}: no race there has come to its end. Run it again to go on")
    return [
        Score(
            **{
                **row,
                "ids": tuple(row["ids"]),
                **{key: tuple(label_of(label) for label in row[key]) for key in ("gold", "predicted")},
                **{key: Cost(**row[key]) for key in ("adapting", "finetuning")},
            }
        )
        for row in files.read_json(run / SCORES)
    ]


def study_of(run: Path) -> Study:
    """Return all that the page shows, from the files of a finished race. Raises ValueError for unknown facts."""
    scores = read_scores(run)
    try:
        facts = Facts.from_json(files.read_json(run / FACTS))
    except ValueError as error:
        raise ValueError(f"{run / FACTS}: {error}") from None
    rows = table.rows(scores, metric_named(scores[0].metric))
    tested = {row.contestant for row in rows}
    given_up = dict.fromkeys(trial.contestant for trial in facts.search if trial.contestant not in tested)
    said = verdict(rows, baselines=facts.baselines, cut=[*given_up], stopped=facts.stopped)
    leakage = None
    if facts.examination is not None:
        found = leakage_of(facts.examination.leaks, scores, rows, facts.leaked_test_ids, baselines=facts.baselines)
        leakage = replace(found, dropped=facts.examination.dropped)
        if leakage.changed:
            said += (
                f" But this depends on leaked test items ({leakage.leaked:,} of {leakage.items:,} stand in the "
                f"training data too): {listed(leakage.changed)}."
            )
    warning = facts.looks.warning() if facts.looks else ""
    return Study(
        **{field.name: getattr(facts, field.name) for field in fields(Facts)},
        verdict=said,
        rows=rows,
        remarks=[*remarks(rows), *filter(None, [beside(scores, rows), search_remark(facts.search)])],
        alerts=[*filter(None, [warning]), *untaught(rows, scores, facts.kind, baselines=facts.baselines)],
        leakage=leakage,
        **_label_parts(facts.kind, scores, facts.winner),
    )


def beside(scores: Sequence[Score], rows: Sequence[Row]) -> str:
    """The other metrics that are reported of the same predictions, means over seeds; "" where there are none."""
    sentences = []
    for metric in reported_with(metric_named(scores[0].metric)):
        if metric.name != scores[0].metric:
            values: dict[str, list[float]] = {row.contestant: [] for row in rows}
            for score in scores:
                values[score.contestant].append(metric.compute(score.gold, score.predicted))
            means = [f"{name} {points(sum(each) / len(each))}" for name, each in values.items()]
            sentences.append(f"{metric_text(metric.name)}: {', '.join(means)}")
    return f"Of the same predictions, means over seeds: {'; '.join(sentences)}." if sentences else ""


def leakage_of(
    leaks: Sequence[Leak],
    scores: Sequence[Score],
    rows: Sequence[Row],
    leaked: Collection[str],
    *,
    baselines: Collection[str] = (),
) -> Leakage:
    """The leaks, and the race scored again without the leaked test items, where at least two others are left."""
    ids = frozenset(leaked).intersection(scores[0].ids)
    items = len(scores[0].ids)
    if not ids or items - len(ids) < 2:
        return Leakage(leaks, items, len(ids))
    others = table.rows(table.without(scores, ids), metric_named(scores[0].metric))
    before, after = (claims(table, baselines=baselines) for table in (rows, others))
    changed = [f"only with the leaked items, {claim}" for claim in before if claim not in after]
    changed += [f"only without them, {claim}" for claim in after if claim not in before]
    return Leakage(leaks, items, len(ids), others, verdict(others, baselines=baselines), changed)


def untaught(rows: Sequence[Row], scores: Sequence[Score], kind: Kind, *, baselines: Collection[str]) -> list[str]:
    """A warning where no encoder scores above one constant answer: it has not learnt the task, whatever it is compared
    with. The constant is the best that the test labels allow: their commonest, or any one number.
    """
    least = constant_score(scores[0].gold, kind, metric_named(scores[0].metric))
    best = max((row.score.mean for row in rows if row.contestant not in baselines), default=1.0)
    if best > least + UNTAUGHT:
        return []
    return [
        f"No encoder here has learnt the task: the highest has {points(best)} points, the same answer to every text "
        f"{points(least)}. Train longer (finetune.epochs) or at a higher rate (search.rates) before believing anything."
    ]


def constant_score(gold: Sequence[Label], kind: Kind, metric: Metric) -> float:
    """Of one answer to every text: the commonest of these labels, or any one number."""
    return 0.0 if kind == "score" else metric.compute(gold, _constant(gold, kind))


def _constant(gold: Sequence[Label], kind: Kind) -> list[Label]:
    """The same answer to everything: the commonest label, or the commonest tag for every word."""
    if kind == "tokens":
        tags = [label for label in gold if isinstance(label, tuple)]
        tag = Counter(tag for label in tags for tag in label).most_common(1)[0][0]
        return [(tag,) * len(label) for label in tags]
    return [Counter(gold).most_common(1)[0][0]] * len(gold)


def write_pages(run: Path) -> Study:
    """Write the page and the tables of a finished race; what they show."""
    study = study_of(run)
    write_report(run / PAGE, study)
    said = "\n".join([study.verdict, *study.alerts, *study.remarks])
    files.write_text(run / TABLE, f"{table.as_text(study.rows, general=study.general_losses)}\n{said}\n")
    sheet = table.as_csv(study.rows, pretraining=study.pretraining, general=study.general_losses)
    files.write_text(run / SHEET, sheet)
    return study


def _label_parts(kind: Kind, scores: Sequence[Score], winner: str) -> dict[str, Any]:
    """Of a Study, what is shown label by label or item by item: for the untouched model and the winner."""
    names = dict.fromkeys((table.UNTOUCHED, winner))
    by_contestant = {name: [score for score in scores if score.contestant == name] for name in names}
    if kind == "score":
        return {"predictions": {name: mean_predictions(side) for name, side in by_contestant.items()}}
    if kind == "tokens":
        counted = "entities" if scores[0].metric == "entity_f1" else "words"
        return {"labels": per_type(by_contestant[table.UNTOUCHED], by_contestant[winner]), "counted": counted}
    if kind not in ("sequence", "multilabel"):
        return {}
    parts: dict[str, Any] = {"labels": per_label(by_contestant[table.UNTOUCHED], by_contestant[winner])}
    if kind == "sequence":
        parts["confusions"] = [confusion(side) for side in by_contestant.values()]
    return parts
