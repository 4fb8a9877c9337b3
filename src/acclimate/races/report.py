"""The page of a race: the tables of every study, then plots and what only a race knows, such as leaks and looks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp
from pathlib import Path
from typing import Any, Literal

from acclimate.core import ranks
from acclimate.core.door import option
from acclimate.core.figures import duration, listed, metric_text, percent, points, span_text
from acclimate.core.files import write_text
from acclimate.data.examination import Leak, Sighting, sections_of_data
from acclimate.data.retrieved import DOCUMENTS, QUERIES, page_examples
from acclimate.jobs.lock import USE
from acclimate.races.answer import RaceAnswer, answer_in_words, represented, run_folder
from acclimate.races.calibration import read_calibration
from acclimate.races.compare import MAIN
from acclimate.races.outcome import (
    ON_USUAL_SPLIT,
    Facts,
    LooksAtTest,
    Outcome,
    SearchRecord,
    path_of,
    probe_row,
    read_outcome,
    rows,
)
from acclimate.races.tables import PROBES, as_csv, difference_cell, interval_cell, p_cell, sections
from acclimate.races.verdict import (
    Leakage,
    cross_validation_sentence,
    further,
    leakage_of,
    one_sided,
    partner_leakage,
    spread,
    warnings,
    without_encoder,
)
from acclimate.reading.labelled import Labelled
from acclimate.reports.differences import CONTESTANTS, Difference, difference_plot
from acclimate.reports.labels import Confusion, LabelScore, confusion, label_scores, mean_predictions, type_scores
from acclimate.reports.page import (
    ABSENT,
    MOST,
    VISIBLE,
    WIDTH,
    Drawing,
    Item,
    Page,
    Passage,
    Section,
    TableCell,
    beginning,
    fact_text,
    page,
    templates,
)
from acclimate.reports.table import ALONE, UNTOUCHED, ContestantRow, adaptations_note
from acclimate.statistics.calibration import Calibration
from acclimate.statistics.power import PowerDesign

RACE = "race"  # name of its design
SUMMARY = ("model", "score", "difference", "cost", "note")  # columns of the table of a race
# titles of the sections of the page that have drawings, and of those that take the tables of every study
PREDICTIONS, OVERLAP = "How far off are the predictions?", "Do test texts occur in the training data?"
RUNS, DIFFERENCES, PROBED = (
    *("What does each run score?", "How certain is each difference?"),
    "What do the encoders represent before fine-tuning?",
)
PROBABILITIES = "Are its probabilities right?"
COSTS, TRAINING, MEASURED = "What did it cost?", "How did training go?", "How was it measured?"
QUESTIONS = {"Against": DIFFERENCES, PROBES: PROBED, "Costs": COSTS, "Data": MEASURED, "Facts": MEASURED}
PAGE, TEXT, SHEET = "report.html", "table.txt", "table.csv"
LARGEST = 2_000_000  # bytes, so that a page can be mailed


@dataclass(frozen=True, kw_only=True)
class RaceReport:
    """What the page of a race shows: its outcome, and what is computed from it.

    answer       on top
    remarks      what has to be known to read it rightly: how the search was done, what such a race detects
    alerts       what casts doubt on it, shown beside it as warnings
    labels       per label, the untouched model against the best encoder on dev; `counted`: "items", "entities", "words"
    confusions   gold by predicted label, a table for each of the two, or for the untouched model alone
    predictions  contestant -> (gold, predicted) of each test item, where the task is to predict a number
    leakage      None: the data were not searched for leaks; without leaks: none was found
    partners     scores without the test items that have a partner in train; None: there are none but leaks
    calibration  of the model to use; None: it is not calibrated
    followed     tables of what followed the race in the same call, such as learning curves; "" if nothing did
    """

    outcome: Outcome
    answer: RaceAnswer
    remarks: Sequence[str] = ()
    alerts: Sequence[str] = ()
    labels: Sequence[LabelScore] = ()
    counted: Literal["items", "entities", "words"] = "items"
    confusions: Sequence[Confusion] = ()
    predictions: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    leakage: Leakage | None = None
    partners: Leakage | None = None
    calibration: Calibration | None = None
    followed: str = ""

    @property
    def verdict(self) -> str:
        """The headline and the evidence in one text."""
        return " ".join([self.answer.headline, *self.answer.evidence])

    @property
    def facts(self) -> Facts:
        """What the outcome says of this race alone."""
        assert self.outcome.race is not None
        return self.outcome.race

    @property
    def failed(self) -> dict[str, str]:
        """Contestant -> why it has no score."""
        return {row: why for (_, row, _), why in self.outcome.failed.items()}

    @cached_property
    def rows(self) -> list[ContestantRow]:
        """A row for each contestant that has a score."""
        return rows(self.outcome)


def write_race_pages(run: Path) -> RaceReport:
    """Write page, text and CSV of the finished race in `run` from its outcome, and return what they show."""
    report = read_report(run)
    result = race_page(report)
    if ranks.is_first():
        write_page(run / PAGE, result)
        write_text(run / TEXT, text_of(report, WIDTH))
        write_text(run / SHEET, as_csv(report.outcome))
    ranks.wait()
    return report


def read_report(run: Path) -> RaceReport:
    """Return what the page of the finished race in `run` shows."""
    return replace(report_of(read_outcome(path_of(run, RACE))), calibration=read_calibration(run / USE))


def report_of(outcome: Outcome) -> RaceReport:
    """Return what the page of a race shows."""
    facts = outcome.race
    assert facts is not None
    answer, leakage, partners = answer_in_words(outcome), None, None
    if facts.examination is not None:
        test_leakage = leakage_of(facts.examination.leaks, outcome, facts.leaked_test_ids)
        leakage = replace(test_leakage, dropped=facts.examination.dropped)
        if leakage.changed:
            depends = (
                f"But this depends on leaked test items ({leakage.leaked:,} of {leakage.items:,} are in the training "
                f"data too): {listed(leakage.changed)}."
            )
            answer = replace(answer, evidence=(*answer.evidence, depends))
        partners = partner_leakage(facts.examination, outcome)
        if partners is not None:
            answer = replace(answer, evidence=(*answer.evidence, *_without_partners(partners, outcome, answer.model)))
    warning = facts.looks.warning() if facts.looks else ""
    remarks = [
        "" if outcome.only_probed else represented(outcome),
        cross_validation_sentence(outcome),
        facts.handed_over,
        search_remark(outcome.searches, facts.given),
        further(outcome),
        without_encoder(outcome),
    ]
    return RaceReport(
        outcome=outcome,
        answer=answer,
        remarks=[*filter(None, remarks)],
        alerts=[*filter(None, [warning]), *warnings(_as_printed(outcome)), *one_sided(_as_printed(outcome))],
        leakage=leakage,
        partners=partners,
        **_label_parts(outcome, facts.encoder),
    )


def _without_partners(partners: Leakage, outcome: Outcome, model: str) -> Iterator[str]:
    """Yield the scores of the model that the answer names, and of the untouched one, with and without the test items
    that have a partner in train.
    """
    shared = f"{partners.leaked:,} of the {partners.items:,} test items have a partner in the training data"
    if partners.outcome is None:
        yield f"{shared}: too few others remain for a score without them."
        return
    scores = []
    for key, result in outcome.cells.items():
        if result.contestant in (model, UNTOUCHED) and not (result.probe or result.failed):
            with_them, without = (side.compared.intervals[key, MAIN].mean for side in (outcome, partners.outcome))
            untouched = ALONE if outcome.alone else "the untouched model"
            name = untouched if result.contestant == UNTOUCHED else result.contestant
            scores.append(f"{name} {points(with_them)} with them and {points(without)} without")
    if scores:
        changed = f" This changes the answer: {listed(partners.changed)}." if partners.changed else ""
        yield f"{shared}, such as one text or one template: {listed(scores)}.{changed}"


def _label_parts(outcome: Outcome, encoder: str) -> dict[str, Any]:
    """Return the fields of `RaceReport` that compare the untouched model and the best encoder by label or by item."""
    kind, metric = outcome.results[0].task.kind, outcome.results[0].task.metric
    if outcome.only_probed or not any(score.contestant == UNTOUCHED for score in outcome.scores):
        return {}
    names = dict.fromkeys(name for name in (UNTOUCHED, encoder) if name)
    by_contestant = {name: [score for score in outcome.scores if score.contestant == name] for name in names}
    if kind == "score":
        return {"predictions": {name: mean_predictions(side) for name, side in by_contestant.items()}}
    if not encoder:  # its confusions may show why
        return {"confusions": [confusion(by_contestant[UNTOUCHED])]} if kind == "sequence" else {}
    if kind == "tokens":
        counted = "entities" if metric == "entity_f1" else "words"
        return {"labels": type_scores(by_contestant[UNTOUCHED], by_contestant[encoder]), "counted": counted}
    if kind not in ("sequence", "multilabel"):
        return {}
    parts: dict[str, Any] = {"labels": label_scores(by_contestant[UNTOUCHED], by_contestant[encoder])}
    if kind == "sequence":
        parts["confusions"] = [confusion(side) for side in by_contestant.values()]
    return parts


def search_remark(searches: Sequence[SearchRecord], chances_by_name: Mapping[str, Mapping[str, Any]]) -> str:
    """Return in a sentence if every contestant had equally many settings tried; "" where nothing was searched.

    searches         of a cross-validation one for each fold
    chances_by_name  contestant -> what it was given, which says how many settings a baseline tried
    """
    counts: dict[str, list[int]] = {}
    for search in searches:
        tried = {(trial.contestant, trial.setting) for trial in search.trials}
        for name, number in Counter(name for name, _ in tried).items():
            counts.setdefault(name, []).append(number)
    if not counts:
        return ""
    texts = {name: str(about["settings tried"]) for name, about in chances_by_name.items() if "settings tried" in about}
    numbers = texts | {name: span_text(several) for name, several in counts.items()}
    different = set(numbers.values())
    if different <= {"1"}:
        return ""
    # a baseline of numbers or of tagged words has no class weights
    weighing = [name for name, about in chances_by_name.items() if "classes" in about.get("fine-tuning", "")]
    weights = f" {listed(weighing)} may weigh classes (tfidf.class_weights), encoders never do." if weighing else ""
    if len(different) == 1:
        where = " on each fold" if len(searches) > 1 else ""
        equal = f"{different.pop()} settings of each contestant were tried{where}"
        return f"{equal}, and only dev was used to choose among them.{weights}"
    named = ", ".join(f"{name} {number}" for name, number in numbers.items())
    unequal = f"The contestants had unequal numbers of settings tried ({named})"
    return f"{unequal}: those with more settings had better chances.{weights}"


def write_page(path: Path, page: Page) -> Path:
    """Write the page, whole or not at all, and return its path. Raises ValueError where it would pass 2 MB."""
    text = page.as_html()
    size = len(text.encode())
    if size > LARGEST:
        raise ValueError(
            f"the page of {page.title!r} would have {size:,} bytes, over {LARGEST:,}. Reduce the points of its curves."
        )
    write_text(path, text)
    return path


def race_page(report: RaceReport) -> Page:
    """Return the page of a race: answer, plot and table of five columns; the rest is folded away under questions."""
    drawings = _drawings(report)
    folded = [
        section
        for section in _questions(report)
        if section.title in drawings or section.rows or section.items or section.parts or section.lead or section.facts
    ]
    top = _page(report, summary(report))
    sections = [*top.sections, *(replace(section, fold="closed") for section in folded)]
    return replace(top, sections=sections, figures={**drawings, CONTESTANTS: difference_drawings(report)})


def _page(report: RaceReport, *sections: Section) -> Page:
    """Return a page that begins with the answer."""
    answer = report.answer
    return Page(
        report.outcome.title,
        answer.headline,
        sections,
        lead=[*answer.evidence, f"Use: {use_text(report.outcome)}", *filter(None, [answer.limits])],
        command=answer.next,
        look=answer.kind.replace(" ", "-"),
        alerts=report.alerts,
    )


def difference_drawings(report: RaceReport) -> list[Drawing]:
    """Return the plot on top of the page; none if no contestant is compared with the untouched model."""
    compared = differences(report)
    if not compared:
        return []
    answer, metric = report.outcome.answer, metric_text(report.rows[0].metric)
    together = len(answer.gains) if answer is not None else 0
    lead = "The untouched model is at 0."
    if any(difference.interval for difference in compared.values()):
        lead += " Bars are 95% intervals. A filled mark means that the interval excludes 0."
    if together > 1:
        lead += f" Those of the {together} adapted contestants are simultaneous."
    if answer is not None and answer.margin:
        lead += f" The broken line is the margin: {100 * answer.margin:g} point{'s' * (100 * answer.margin != 1)}."
    plot = difference_plot([*compared.values()], margin=answer.margin if answer is not None else 0.0)
    return [Drawing(f"Difference to the untouched model, points of {metric}", plot, wide=True, lead=lead)]


def differences(report: RaceReport) -> dict[str, Difference]:
    """Return contestant -> its difference to the untouched model, the largest first: with the simultaneous interval if
    the answer counts it, else with its own; without one after too few rounds. What is not compared has none.
    """
    answer, rows_by_name = report.outcome.answer, {row.contestant: row for row in report.rows}
    compared: dict[str, Difference] = {}
    for name, row in rows_by_name.items():
        if row.comparison is not None:
            other = row.comparison
            compared[name] = Difference(name, other.difference, (other.low, other.high))
        elif report.outcome.first_impression and UNTOUCHED in rows_by_name and name != UNTOUCHED:
            compared[name] = Difference(name, row.score.mean - rows_by_name[UNTOUCHED].score.mean)
    for gain in answer.gains if answer is not None else ():
        compared[gain.contestant] = Difference(gain.contestant, gain.difference, gain.interval)
    return dict(sorted(compared.items(), key=lambda item: -item[1].value))


def summary(report: RaceReport) -> Section:
    """Return the table of five columns, by SUMMARY: contestants with a score first, then those that failed."""
    compared = differences(report)
    untaught = {result.row for result in report.outcome.results if not result.probe and not result.learnt}
    lines: list[tuple[str | TableCell, ...]] = []
    for row in report.rows:
        name, seconds = row.contestant, row.adapting.seconds + row.finetuning.seconds
        notes = ["use this"] * (name == report.facts.use) + ["failed to learn"] * (name in untaught)
        change = TableCell("-")
        if difference := compared.get(name):
            figure = points(difference.value, sign="+")
            between = " to ".join(points(end, sign="+") for end in difference.interval or ())
            change = TableCell(figure, difference.value, between, difference.look, plain=str(difference))
        cost = TableCell(duration(seconds), seconds)
        label = ALONE if report.outcome.alone else name
        lines.append((label, interval_cell(row.score), change, cost, ", ".join(notes)))
    lines += [(name, "-", "-", "-", f"failed: {why}") for name, why in report.failed.items()]
    where = "by cross-validation" if report.outcome.folds else "on test"
    caption = f"Points of {metric_text(report.outcome.results[0].task.metric)} {where}; cost: time of one run."
    return Section(CONTESTANTS, SUMMARY, tuple(lines), (caption,), look="summary", id="contestants")


def _questions(report: RaceReport) -> list[Section]:
    """Return what is folded away on the page, each section under a question, in their order; some may be empty."""
    facts = report.facts
    by_question: dict[str, list[Section]] = {}
    for table in tables_of(report):
        start = next((start for start in QUESTIONS if table.title.startswith(start)), "")
        by_question.setdefault(QUESTIONS.get(start, RUNS), []).append(table)
    by_question[TRAINING] = [*_losses(report), *_moved(report), *by_question.get(TRAINING, [])]
    tables = {name: Section(name, parts=tuple(parts)) for name, parts in by_question.items()}
    first = [tables[name] for name in (RUNS, DIFFERENCES, PROBED, COSTS, TRAINING) if name in tables]
    sections = [Section("What else did the race find?", items=tuple(report.remarks)), *first, *_label_by_label(report)]
    if report.calibration is not None:
        sections.append(_calibration(report, report.calibration))
    if report.predictions:
        lead = "A dot is a test item, its prediction the mean over seeds; on the broken line both are equal."
        sections.append(Section(PREDICTIONS, lead=lead, id="predictions"))
    if report.leakage is not None:
        sections.append(_leakage(report, report.leakage))
    if report.partners is not None and report.partners.outcome is not None:
        words = ("Test items with a partner in train", "have a partner in the training data")
        sections.append(_scored_both_ways(report, report.partners, report.partners.outcome, *words))
    if facts.given:
        sections.append(_given(report))
    if report.outcome.trials:
        sections.append(_search(report))
    if facts.retrieved:
        sections.append(_retrieved(report))
    if facts.looks is not None:
        sections.append(_looks(facts.looks))
    if facts.examination is not None:
        examined = facts.examination
        parts, title = tuple(sections_of_data(examined, most_labels=MOST)), "What is in the data?"
        sections.append(Section(title, lead=examined.reach, facts=examined.task, parts=parts, id="examination"))
    sections.append(replace(tables.get(MEASURED, Section(MEASURED)), facts=facts.task))
    if facts.commands or facts.environment or facts.versions or facts.hashes:
        sections.append(_again(report))
    return [*sections, _all_figures(report.outcome)]


def notebook_view(report: RaceReport, *, place: Path) -> str:
    """Return the answer, the plot and the table as HTML for a notebook, and the other tables folded away as text.

    place: of the page
    """
    top = replace(_page(report, summary(report)), figures={CONTESTANTS: difference_drawings(report)})
    others = page("Other tables", tables_of(report), WIDTH)
    view = templates().get_template("notebook.html").render(page=top, others=others, place=place)
    return view.translate(VISIBLE)


def use_text(outcome: Outcome) -> str:
    """Return which contestant of a race to use, in which directory it is, and why; "none: ..." if there is none."""
    assert outcome.race is not None
    if outcome.unused:
        return f"none: {outcome.unused}"
    name = ALONE if outcome.alone and outcome.race.use == UNTOUCHED else outcome.race.use
    place = f", in {run_folder(outcome.race.commands[0])}/{USE}" if outcome.race.commands and outcome.race.use else ""
    return f"{name}{place}. {outcome.race.use_reason}" if outcome.race.use_reason else f"{name}{place}"


def text_of(report: RaceReport, width: int = 0) -> str:
    """Return the answer and the tables of a race for a terminal. width: as of `reports.page.page`"""
    return replace(_page(report, *tables_of(report)), remarks=report.remarks).as_text(width)


def answer_lines(report: RaceReport) -> list[str]:
    """Return the evidence, the model to use, what limits the answer, and what to do next, a sentence each."""
    top = _page(report)
    return [*top.lead, *([f"Next: {top.command}"] if top.command else [])]


def tables_of(report: RaceReport) -> list[Section]:
    """Return the tables that every study has."""
    return sections(_as_printed(report.outcome))


def _as_printed(outcome: Outcome) -> Outcome:
    """Return the outcome, in which a model that ran alone is not called untouched."""
    if not outcome.alone:
        return outcome
    rows = {result.row: probe_row(ALONE) if result.probe else ALONE for result in outcome.results}
    losses = (
        replace(column, by_row={rows[row]: loss for row, loss in column.by_row.items()}) for column in outcome.losses
    )
    results = (replace(result, row=rows[result.row]) for result in outcome.results)
    return replace(outcome, results=tuple(results), losses=tuple(losses))


def _drawings(report: RaceReport) -> dict[str, list[Drawing]]:
    """Return the drawings below the first one, by the title of their section."""
    # these import matplotlib, which a dry run does without
    from acclimate.reports.plots import (
        colours_of,
        gold_against_predicted,
        heldout_losses,
        learning_curves,
        reliability_diagram,
        score_against_cost,
    )

    costs = [Drawing("Score against cost", score_against_cost(report.rows), wide=True)]
    training = []
    for kind, losses in (("domain", report.facts.losses), ("general", report.facts.general_losses)):
        if losses:
            title = f"Loss on held-out {kind} text, before and after adapting{_title_ending(report)}"
            training.append(Drawing(title, heldout_losses(losses, kind)))
    for title, curves in report.facts.curves.items():
        plot = learning_curves(curves.lines, curves.x, curves.y, title=title, colours=colours_of(report.rows))
        training.append(Drawing(title, plot))
    scatters = [
        Drawing("The untouched model" if name == UNTOUCHED else name, gold_against_predicted(pairs, name))
        for name, pairs in report.predictions.items()
    ]
    bins = report.calibration
    reliability = [Drawing("Reliability", reliability_diagram(bins.bins_before, bins.bins_after))] if bins else []
    named = {COSTS: costs, TRAINING: training, PREDICTIONS: scatters, PROBABILITIES: reliability}
    return {title: drawings for title, drawings in named.items() if drawings}


def _calibration(report: RaceReport, calibration: Calibration) -> Section:
    """Return the table of the probabilities of the model to use and the frequencies with which they come true."""
    several = report.outcome.results[0].task.kind == "multilabel"
    lead = (
        f"The probabilities of {report.facts.use} are {calibration.sentence}. The predicted labels stay the same. "
        "A point on the broken line has the right probability."
    )
    rows = tuple(
        (f"{one.predictions:,}", f"{100 * one.confidence:.1f}%", f"{100 * one.right:.1f}%")
        for one in calibration.bins_after
    )
    columns = ("Labels of texts" if several else "Texts", "Mean probability", "Share that is right")
    return Section(PROBABILITIES, columns, rows, ("Calibrated probabilities, in 15 bins.",), lead=lead)


def _losses(report: RaceReport) -> list[Section]:
    """Return the tables of loss and perplexity before and after adapting, on each kind of held-out text."""
    columns = ("Contestant", "Loss before", "Loss after", "Perplexity before", "Perplexity after")
    tables = []
    for kind, losses in (("domain", report.facts.losses), ("general", report.facts.general_losses)):
        line = (
            f"Masked-token loss on held-out {kind} text, in nats per masked token, and its exponential, the "
            f"perplexity.{adaptations_note(report.outcome.adaptations)}"
        )
        rows = tuple(
            (name, f"{before:.3f}", f"{after:.3f}", f"{exp(before):,.1f}", f"{exp(after):,.1f}")
            for name, (before, after) in losses.items()
        )
        title = f"Loss on held-out {kind} text{_title_ending(report)}"
        tables += [Section(title, columns, rows, (line,))] if rows else []
    return tables


def _moved(report: RaceReport) -> list[Section]:
    """Return the table of how far word embeddings lie from the untouched model's."""
    columns = ("Contestant", "Over", "Pieces", "Mean distance", "Median", "90th percentile", "Mean cosine")
    rows = [
        (
            name,
            where,
            f"{distances.pieces:,}",
            *(f"{value:#.3g}" for value in (distances.mean, distances.median, distances.nine_tenths)),
            f"{distances.cosine:.4f}",
        )
        for name, by_place in report.facts.moved.items()
        for where, distances in by_place.items()
    ]
    line = (
        "Distance of word embeddings from the untouched model's: Euclidean distance between raw rows, and their mean "
        "cosine; over all pieces of the vocabulary, and over those that occur in the task's texts."
        f"{adaptations_note(report.outcome.adaptations)}"
    )
    return [Section(f"Word embeddings{_title_ending(report)}", columns, tuple(rows), (line,))] if rows else []


def _title_ending(report: RaceReport) -> str:
    """Return the end of the title of what is measured once, not on each fold of a cross-validation; else ""."""
    return ON_USUAL_SPLIT if report.outcome.folds else ""


def _label_by_label(report: RaceReport) -> list[Section]:
    """Return the tables of the F1 of each label and of the confusions between labels."""
    sections = []
    if report.labels:
        what = {"items": "label", "entities": "type of entity", "words": "tag"}[report.counted]
        alone = report.facts.encoder == UNTOUCHED
        rows: list[tuple[str | TableCell, ...]] = [
            (
                label.label,
                f"{label.support:,}",
                TableCell(points(label.untouched), label.untouched),
                *([] if alone else [TableCell(points(label.contestant), label.contestant), _change(label)]),
            )
            for label in report.labels
        ]
        encoder = report.facts.encoder
        columns = ("Label", f"Test {report.counted}", "Untouched", *([] if alone else [encoder, "Difference"]))
        both = f"{encoder}, the best encoder on dev, and the untouched model"
        lines = (f"{'The untouched model, the best encoder on dev' if alone else both}, points of F1.",)
        lead = f"Per-label F1: for each {what}, mean over seeds. Values of labels with few test items are uncertain."
        title = "How well is each label predicted?"
        sections.append(Section(title, columns, tuple(rows), lines, lead=lead, id="labels"))
    if report.confusions:
        lead = (
            "Confusion matrix: rows are gold labels, columns are predicted labels. Cells are numbers of test "
            "items, mean over seeds. Their shade is their share of the row; framed cells are correct."
        )
        if report.confusions[0].pooled:
            most = len(report.confusions[0].labels) - 1
            lead += (
                f" The last row and column hold all labels beyond the {most} most frequent; their framed cell also "
                "includes confusions among them."
            )
        parts = tuple(map(_confusion, report.confusions))
        sections.append(Section("Which labels are confused?", lead=lead, parts=parts, id="confusions"))
    return sections


def _change(label: LabelScore) -> TableCell:
    change = label.contestant - label.untouched
    return TableCell(points(change, sign="+"), change)


def _confusion(confusion: Confusion) -> Section:
    rows: list[tuple[str | TableCell, ...]] = []
    for right, (label, counts) in enumerate(zip(confusion.labels, confusion.counts, strict=True)):
        total = sum(counts)
        cells = [
            TableCell(
                f"{count:.0f}" if round(count, 1) == round(count) else f"{count:.1f}",
                count,
                look=" ".join(["right"] * (guess == right) + ["zero"] * (count == 0)),
                shade=count / total if total else 0.0,
            )
            for guess, count in enumerate(counts)
        ]
        rows.append((label, *cells, TableCell(f"{total:,.0f}", total, look="zero", shade=0.0)))
    return Section(
        "The untouched model" if confusion.contestant == UNTOUCHED else confusion.contestant,
        ("gold \N{DOWNWARDS ARROW} predicted \N{RIGHTWARDS ARROW}", *confusion.labels, "items"),
        tuple(rows),
        (f"Gold label by predicted label, {confusion.contestant}.",),
        look="confusion",
    )


def _leakage(report: RaceReport, leakage: Leakage) -> Section:
    if not leakage.leaks:
        lead = "No scored text, exact or nearly the same, occurs in the training material."
        return Section(OVERLAP, lead=lead, id="leakage")
    lead = (
        "Train/test overlap: these scored texts, exact or nearly the same, occur in the training material. A model "
        "may have memorised them. Corpus documents that contain one were not used for adaptation."
    )
    if leakage.dropped:
        lead += " Training rows that contain a test text were removed before training."
    where = ("Found in", "Scored split", "Match", "Texts there")
    columns = (*where, "Scored items", "Share of the split", "Of these, same label")
    rows = tuple(
        (
            *(leak.found, leak.within, leak.kind, f"{leak.scanned:,}", f"{leak.references:,}"),
            TableCell(percent(leak.share), leak.share),
            "-" if leak.same_label is None else f"{leak.same_label:,}",
        )
        for leak in leakage.leaks
    )
    lines = (
        "exact: equal after normalisation; near: nearly; 13-gram: at least half of the item's runs of 13 words; "
        "passage: fewer of them, which does not count as a leak.",
    )
    parts = [
        Section(
            f"Examples: {leak.found} in {leak.within}, {leak.kind}",
            passages=tuple(passage for twin in leak.examples for passage in _twin(leak, twin)),
            fold="closed",
        )
        for leak in leakage.leaks
        if leak.examples
    ]
    if leakage.leaked and leakage.outcome is None:
        warning = (
            f"{leakage.leaked:,} of the {leakage.items:,} test items also occur in the training data, so too few "
            "remain for a score without them."
        )
        parts.append(Section("", items=(Item(warning, "warning"),)))
    elif leakage.outcome is not None:
        words = ("Scored both ways", "occur in the training data")
        parts.append(_scored_both_ways(report, leakage, leakage.outcome, *words))
    return Section(OVERLAP, columns, rows, lines, lead=lead, parts=tuple(parts), id="leakage")


def _twin(leak: Leak, twin: Sighting) -> Iterator[Passage]:
    label = f", label {twin.within_label}" if twin.within_label else ""
    yield Passage(f"{leak.within}, {twin.within_id}{label}", twin.within_text)
    label = f", label {twin.found_label}" if twin.found_label else ""
    yield Passage(f"{leak.found}, {twin.found_id}{label}; similarity {twin.similarity:.2f}", twin.found_text)


def _scored_both_ways(report: RaceReport, leakage: Leakage, without: Outcome, title: str, why: str) -> Section:
    """Return the scores with and without the items of `leakage`. why: what is wrong with these, after "that"."""
    columns = ("All items", "Against untouched", "p (adjusted)")
    lacking = ("Without them", "Against untouched, without", "p (adjusted), without")
    lines: list[tuple[str | TableCell, ...]] = []
    looks = []
    for key, result in report.outcome.cells.items():
        if result.failed:
            continue
        cells: list[TableCell] = []
        for outcome in (report.outcome, without):
            contrast = outcome.compared.contrast(key, probe_row(UNTOUCHED) if result.probe else UNTOUCHED)
            cells += [interval_cell(outcome.compared.intervals[key, MAIN]), difference_cell(contrast)]
            cells.append(p_cell(contrast.p_adjusted if contrast else None))
        lines.append((key[1], *cells))
        looks.append("reference" * (result.contestant == UNTOUCHED))
    return Section(
        title,
        ("Contestant", *columns, *lacking),
        tuple(lines),
        (
            f"Points of {metric_text(report.rows[0].metric)}: on all {leakage.items:,} test items, and without the "
            f"{leakage.leaked:,} that {why}.",
        ),
        lead=f"Without the {leakage.leaked:,} test items that {why} the answer "
        f"{'changes' if leakage.changed else 'is the same'}: {leakage.verdict}",
        looks=tuple(looks),
    )


def _given(report: RaceReport) -> Section:
    """Return a table with a row for each setting and a column for each contestant; equal settings are grey."""
    names = dict.fromkeys(name for settings in report.facts.given.values() for name in settings)
    rows = {
        name: [fact_text(settings[name]) if name in settings else ABSENT for settings in report.facts.given.values()]
        for name in names
    }
    return Section(
        "Did the contestants have equal conditions?",
        ("Setting", *report.facts.given),
        tuple((name, *values) for name, values in rows.items()),
        ("Settings by contestant; \N{EN DASH} where a setting does not apply.",),
        lead="Settings that are the same for all contestants are grey. The others are the compared settings, or "
        "unequal conditions.",
        looks=tuple("same" * (len({*values} - {ABSENT}) == 1) for values in rows.values()),
        id="given",
    )


def _search(report: RaceReport) -> Section:
    tried = Section(
        "Everything that was tried",
        ("Contestant", "Setting", "Rung", "Steps", "Seeds", "Dev", "Kept", "Why"),
        tuple(
            (
                *(trial.contestant, trial.setting, f"{trial.rung}", f"{trial.steps:,}", f"{trial.seeds}"),
                *(TableCell(points(trial.dev), trial.dev), fact_text(trial.kept), trial.why or "-"),
            )
            for trial in report.outcome.trials
        ),
        (
            "A line for each setting in each rung; dev is the mean over seeds, in points of "
            f"{metric_text(report.rows[0].metric)}.",
        ),
        fold="open" if len(report.outcome.trials) <= 12 else "closed",
        most=3 * MOST,
    )
    chosen = [Section("Chosen on dev", facts=report.facts.chosen)] if report.facts.chosen else []
    lead = report.facts.search_note or "Settings were tried on dev alone."
    return Section("Which settings were tried?", lead=lead, parts=(*chosen, tried), id="search")


def _retrieved(report: RaceReport) -> Section:
    parts = []
    for number, example in enumerate(page_examples(report.facts.retrieved)):
        documents = [Passage(document.about, document.parts, document.words) for document in example.documents]
        documents = documents or [Passage("Documents", "It retrieved none.")]
        parts.append(
            Section(
                beginning(f"Query {example.query.about}", 200),
                lead=_first_of(report.facts.retrieved[number].documents, DOCUMENTS),
                passages=(Passage("Text of the task", example.query.parts), *documents),
                fold="closed" if number else "open",
            )
        )
    lead = (
        "Texts of the task as queries, with the documents retrieved from the general corpus. Marked: the words "
        "that make up nine tenths of a document's score, listed below it with their shares. Long texts are cut to "
        f"the part with most of these words. {_first_of(report.facts.retrieved, QUERIES)}"
    )
    return Section("What did retrieval find?", lead=lead.rstrip(), parts=tuple(parts), id="retrieved")


def _first_of(entries: Sequence[object], most: int) -> str:
    return f"The first {most:,} of {len(entries):,}." if len(entries) > most else ""


def _looks(looks: LooksAtTest) -> Section:
    earlier = f"Earlier races on this machine that opened them: {looks.earlier_runs:,}."
    first = "No earlier race on this machine had opened them."
    lead = f"Test-set access: {looks.sentence()} {earlier if looks.earlier_runs else first}"
    every = [Section("Every access", items=tuple(looks.lines), fold="closed")] if looks.lines else []
    return Section("How often was the test set used?", lead=lead, parts=tuple(every), id="looks")


def _again(report: RaceReport) -> Section:
    facts = report.facts
    parts = [Section("Commands", code="\n".join(facts.commands), fold="open")] if facts.commands else []
    named = {"Environment": facts.environment, "Versions": facts.versions, "Hashes": facts.hashes}
    parts += [Section(name, facts=values, fold="closed") for name, values in named.items() if values]
    return Section("How do I repeat this race?", parts=tuple(parts), id="again")


def _all_figures(outcome: Outcome) -> Section:
    """Return the sheet of the race with a row for each of its columns, and a column for each of its rows."""
    names, *lines = csv.reader(io.StringIO(as_csv(outcome)))
    row = outcome.axes[0]
    figures = tuple((name, *values) for name, *values in zip(names, *lines, strict=True) if name != row and any(values))
    caption = f"Unrounded, in units of the metric, as in {SHEET}."
    heads = [line[names.index(row)] for line in lines]
    return Section("Where are all figures?", ("figure", *heads), figures, (caption,), look="figures", id="all-figures")


def spread_of(run: Path, labelled: Labelled) -> PowerDesign:
    """Return the spread of a race's scores. Raises ValueError if the race is on another task or shows no spread."""
    outcome = read_outcome(path_of(run, RACE))
    raced, task = outcome.results[0].task, labelled.task()
    if (raced.name, raced.kind, raced.metric) != (task.name, task.kind, task.metric.name):
        raise ValueError(
            f"{option('run', str(run))} is a race on {raced.name} ({raced.kind}, {raced.metric}), but the task is "
            f"{task.name} ({task.kind}, {task.metric.name}). Give a race on this task, or remove {option('run')}"
        )
    design = spread(outcome)
    if design is None:
        place = option("run", str(run))
        raise ValueError(f"{place}: no contestants and no probes differ there. Remove {option('run')}")
    return design
