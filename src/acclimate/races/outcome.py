"""What a race leaves in its directory besides the jobs, and the page that is made of it; nothing is trained here.

scores.json    a `Score` for each contestant and seed
facts.json     what the page says around them (races/report.py: Facts)
report.html, table.txt, table.csv    made of these two by the writer of all studies, and again by `acclimate report`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.figures import listed, points
from acclimate.core.types import Cost, Label, Score, label_of
from acclimate.data.examination import Leak
from acclimate.data.materials import Materials
from acclimate.races.compare import Outcome, Ran, mean_cost, rows
from acclimate.races.design import Against, Cell, Design, Losses
from acclimate.races.labels import confusion, mean_predictions, per_label, per_type
from acclimate.races.report import Facts, Leakage, Study, page_of, search_remark, tables_of, title_of, write_report
from acclimate.races.verdict import claims, verdict
from acclimate.races.write import as_csv
from acclimate.reports.table import HEADING, MEANING, UNTOUCHED, Row, beside
from acclimate.tasks.metrics import metric_named, reported_with
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Kind, Metric

SCORES, FACTS, PAGE, TABLE, SHEET = "scores.json", "facts.json", "report.html", "table.txt", "table.csv"
WINNER = "winner"
UNTAUGHT = 0.02  # above a constant answer, and still no more than that
FAMILY = "all contestants, each with the untouched model"


def write_outcome(run: Path, scores: list[Score], facts: Facts) -> None:
    # an adaptation that is not recorded is left out, so that the file is as it was before adaptations were recorded
    written = [
        {key: value for key, value in asdict(score).items() if (key, value) != ("adaptation", None)} for score in scores
    ]
    files.write_json(run / SCORES, written)
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
    outcome = outcome_of(scores, facts)
    raced = rows(outcome)
    gone = {cell.row for cell in outcome.design.cells}
    given_up = dict.fromkeys(trial.contestant for trial in facts.search if trial.contestant not in gone)
    said = verdict(outcome, baselines=facts.baselines, cut=[*given_up], stopped=facts.stopped)
    leakage = None
    if facts.examination is not None:
        found = leakage_of(facts.examination.leaks, outcome, facts.leaked_test_ids, baselines=facts.baselines)
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
        outcome=outcome,
        remarks=[*filter(None, [search_remark(facts.search)])],
        alerts=[*filter(None, [warning]), *untaught(raced, scores, facts.kind, baselines=facts.baselines)],
        leakage=leakage,
        **_label_parts(facts.kind, scores, facts.winner),
    )


def outcome_of(scores: Sequence[Score], facts: Facts) -> Outcome:
    """Return a race as a study that has run: a row a contestant, the untouched model first, then by falling mean."""
    by_contestant: dict[str, list[Score]] = {}
    for score in sorted(scores, key=lambda score: score.seed):
        by_contestant.setdefault(score.contestant, []).append(score)
    means = {name: sum(score.test for score in several) / len(several) for name, several in by_contestant.items()}
    names = [*sorted(by_contestant, key=lambda name: (name != UNTOUCHED, -means[name], name)), *facts.failed]

    task, metric = scores[0].task, metric_named(scores[0].metric)
    read = Prepared(Path(), task, facts.kind, (), metric, 0, "", facts.sizes, {})  # all that tables say of a task
    materials = Materials(read, model="")
    cells = [Cell(name, task, {}, {}, materials) for name in names]
    losses = beside(names, facts.general_losses)
    design = Design(
        name="race",
        title=facts.title or title_of(task),
        source="",
        cells=tuple(cells),
        against=against_untouched(names, task),
        metrics=reported_with,
        losses=(Losses(HEADING, MEANING),) if losses else (),
        notes=tuple(facts.notes),
    )
    ran = {cell.key: _ran(cell, by_contestant.get(cell.row, ()), facts) for cell in cells}
    return Outcome(design, ran, {HEADING: losses} if losses else {})


def _ran(cell: Cell, scores: Sequence[Score], facts: Facts) -> Ran:
    costs = {
        "adapting": mean_cost(score.adapting for score in scores),
        "tuning": mean_cost(score.finetuning for score in scores),
    }
    if facts.pretraining:
        costs["pretraining"] = facts.pretraining.get(cell.row, Cost())
    return Ran(cell, tuple(scores), facts.failed.get(cell.row, ""), costs if scores else {}, {})


def against_untouched(names: Iterable[str], task: str) -> tuple[Against, ...]:
    """Return a comparison of each contestant with the untouched model."""
    reference = ("", UNTOUCHED, task)
    return tuple(Against(("", name, task), (reference,), UNTOUCHED, FAMILY) for name in names if name != UNTOUCHED)


def without(outcome: Outcome, ids: Collection[str]) -> Outcome:
    """Return the outcome on the test items that are not among `ids`, scored anew; dev and costs stay.

    Raises ValueError where fewer than two items are left: a score of one says nothing.
    """
    ran = {key: replace(each, scores=tuple(_without(each.scores, ids))) for key, each in outcome.ran.items()}
    return replace(outcome, ran=ran)


def _without(scores: Sequence[Score], ids: Collection[str]) -> Iterable[Score]:
    for score in scores:
        kept = [i for i, id in enumerate(score.ids) if id not in ids]
        if len(kept) < 2:
            raise ValueError(
                f"{len(kept)} of {len(score.ids)} test items are left without the {len(ids)} to leave out; a score "
                "needs two at least. Take them out of the training data instead."
            )
        gold, predicted = (tuple(labels[i] for i in kept) for labels in (score.gold, score.predicted))
        value = metric_named(score.metric).compute(gold, predicted)
        yield replace(score, ids=tuple(score.ids[i] for i in kept), gold=gold, predicted=predicted, test=value)


def leakage_of(
    leaks: Sequence[Leak], outcome: Outcome, leaked: Collection[str], *, baselines: Collection[str] = ()
) -> Leakage:
    """Return the leaks, and the race scored again without the leaked test items if at least two others are left."""
    scored = next(ran.scores[0].ids for ran in outcome.ran.values() if ran.scores)
    ids, items = frozenset(leaked).intersection(scored), len(scored)
    if not ids or items - len(ids) < 2:
        return Leakage(leaks, items, len(ids))
    others = without(outcome, ids)
    before, after = (claims(each, baselines=baselines) for each in (outcome, others))
    changed = [f"only with the leaked items, {claim}" for claim in before if claim not in after]
    changed += [f"only without them, {claim}" for claim in after if claim not in before]
    return Leakage(leaks, items, len(ids), others, verdict(others, baselines=baselines), changed)


def untaught(rows: Sequence[Row], scores: Sequence[Score], kind: Kind, *, baselines: Collection[str]) -> list[str]:
    """Return a warning if no encoder scores above a constant answer: then none has learnt the task. The constant is the
    best that the test labels allow: their commonest, or any one number.
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
    """Return the score of one answer to every text: the commonest of these labels, or any one number."""
    return 0.0 if kind == "score" else metric.compute(gold, _constant(gold, kind))


def _constant(gold: Sequence[Label], kind: Kind) -> list[Label]:
    """Return the same answer for every text: the commonest label, or the commonest tag for every word."""
    if kind == "tokens":
        tags = [label for label in gold if isinstance(label, tuple)]
        tag = Counter(tag for label in tags for tag in label).most_common(1)[0][0]
        return [(tag,) * len(label) for label in tags]
    return [Counter(gold).most_common(1)[0][0]] * len(gold)


def write_pages(run: Path) -> Study:
    """Write the page and the tables of a finished race, and return what they show."""
    study = study_of(run)
    page = page_of(study)
    write_report(run / PAGE, page)
    files.write_text(run / TABLE, replace(page, sections=tables_of(study)).as_text())
    files.write_text(run / SHEET, as_csv(study.outcome))
    return study


def _label_parts(kind: Kind, scores: Sequence[Score], winner: str) -> dict[str, Any]:
    """Return the fields of `Study` that compare the untouched model and the winner by label or by item."""
    names = dict.fromkeys((UNTOUCHED, winner))
    by_contestant = {name: [score for score in scores if score.contestant == name] for name in names}
    if kind == "score":
        return {"predictions": {name: mean_predictions(side) for name, side in by_contestant.items()}}
    if kind == "tokens":
        counted = "entities" if scores[0].metric == "entity_f1" else "words"
        return {"labels": per_type(by_contestant[UNTOUCHED], by_contestant[winner]), "counted": counted}
    if kind not in ("sequence", "multilabel"):
        return {}
    parts: dict[str, Any] = {"labels": per_label(by_contestant[UNTOUCHED], by_contestant[winner])}
    if kind == "sequence":
        parts["confusions"] = [confusion(side) for side in by_contestant.values()]
    return parts
