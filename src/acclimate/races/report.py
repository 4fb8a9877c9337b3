"""The page of a race: what it shows, as values, and how they become the sections and drawings of a Page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp
from pathlib import Path
from typing import Any, Literal

from acclimate.core.figures import metric_text, percent, points
from acclimate.core.files import write_text
from acclimate.core.records import from_plain, to_plain
from acclimate.core.types import Cost, Split
from acclimate.data.examination import Examination, Leak, Sighting, sections_of_data
from acclimate.data.retrieved import DOCUMENTS, QUERIES, QueryShown, page_examples
from acclimate.models.word_embeddings import Distances
from acclimate.races.compare import MAIN, Outcome, rows
from acclimate.races.labels import Confusion, LabelScore
from acclimate.races.write import difference_cell, interval_cell, p_cell, sections
from acclimate.reports.page import (
    ABSENT,
    MOST,
    Cell,
    Drawing,
    Fact,
    Item,
    Page,
    Passage,
    Section,
    beginning,
    fact_text,
)
from acclimate.reports.plots import (
    colours_of,
    differences,
    gold_against_predicted,
    heldout_losses,
    learning_curves,
    score_against_cost,
)
from acclimate.reports.table import ALONE, UNTOUCHED, Losses, Row
from acclimate.tasks.task import Kind

LARGEST = 2_000_000  # bytes, so that a page can be mailed


@dataclass(frozen=True)
class Leakage:
    """All leaks that were found, and the scores without the `leaked` of `items` test items that train holds.

    outcome, verdict   as on the rest of the page, on the other items; empty where no test item leaked, or too many did
    changed         in words, what is claimed on all items only or on the others only; empty where nothing is
    dropped         whether training rows that hold a test text were taken out before the race
    """

    leaks: Sequence[Leak]
    items: int
    leaked: int = 0
    outcome: Outcome | None = None
    verdict: str = ""
    changed: Sequence[str] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A setting of a contestant in one rung of the search: what it got, its mean dev score, and its fate."""

    contestant: str
    setting: str
    rung: int
    steps: int
    seeds: int
    dev: float
    kept: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Looks:
    """How often the labels of the test set were opened; `lines` say when and by whom, a line a look or a race."""

    in_this_run: int = 0
    earlier_runs: int = 0
    earlier_looks: int = 0
    lines: Sequence[str] = ()

    def warning(self) -> str:
        """A sentence where races before this one opened the same labels, else nothing."""
        if not self.earlier_runs:
            return ""
        times = f" {_times(self.earlier_looks)}" if self.earlier_looks else ""
        races = f"{self.earlier_runs:,} earlier race{'s' * (self.earlier_runs > 1)}"
        return (
            f"These test labels were opened{times} by {races} on this machine. A test set wears out: the more often it "
            "is looked at, the more the best score on it owes to luck."
        )

    def sentence(self) -> str:
        """What this race did."""
        return f"This race opened the labels of the test set {_times(self.in_this_run)}, after all choices were made."


def search_remark(search: Sequence[Trial]) -> str:
    """Say in a sentence if every contestant had equally many settings tried; "" where nothing was searched."""
    settings: dict[str, set[str]] = {}
    for trial in search:
        settings.setdefault(trial.contestant, set()).add(trial.setting)
    numbers = {name: len(tried) for name, tried in settings.items()}
    different = set(numbers.values())
    if different <= {1}:
        return ""
    if len(different) == 1:
        return f"Each contestant had {different.pop()} settings tried, with dev alone to choose among them."
    listed = ", ".join(f"{name} {number}" for name, number in numbers.items())
    return f"The contestants had unequal numbers of settings tried ({listed}): those with more had better chances."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


@dataclass(frozen=True)
class Curves:
    """Lines of one plot, name -> (x, y) points; x and y label the axes, units included."""

    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a race leaves in facts.json beside its scores. An empty part leaves its section of the page out.

    task         name, source, sizes of the splits, labels, metric: whatever says what was measured
    sizes        split -> number of examples; kind: of the task's labels
    winner       the contestant chosen on dev; baselines: contestants without an encoder
    failed       contestant -> why it has no score
    given        contestant -> what it was given: settings, steps, seeds; equal chances can be seen to be equal
    curves       title -> lines, such as the loss of each adapting stage, the dev score during fine-tuning
    losses       contestant -> masked-token loss on held-out domain text before and after adapting, nats a token;
                 `general_losses` likewise on held-out general text: what adapting forgot
    moved        contestant -> over what -> how far its word embeddings lie from the untouched model's
    pretraining  contestant -> what the model took that it rests on and that was made here, once for all that do
    search       a line for each setting and rung, `search_note` how it was done, `chosen` contestant -> setting
    stopped      why the race ended before its budget, as a clause
    looks        how often the test set was opened; None: not counted
    retrieved    some texts of the task and the documents that they brought from the general corpus
    examination  what `acclimate doctor` says of the data; None: the files were not examined
    leaked_test_ids  test items that the training data holds, which the second score leaves out
    commands     command lines that make this race again
    """

    title: str
    task: Mapping[str, Fact]
    sizes: Mapping[Split, int] = field(default_factory=dict)
    kind: Kind = "sequence"
    winner: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    baselines: Sequence[str] = ()
    given: Mapping[str, Mapping[str, Fact]] = field(default_factory=dict)
    curves: Mapping[str, Curves] = field(default_factory=dict)
    losses: Losses = field(default_factory=dict)
    general_losses: Losses = field(default_factory=dict)
    moved: Mapping[str, Mapping[str, Distances]] = field(default_factory=dict)
    pretraining: Mapping[str, Cost] = field(default_factory=dict)
    search: Sequence[Trial] = ()
    search_note: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    stopped: str = ""
    looks: Looks | None = None
    retrieved: Sequence[QueryShown] = ()
    examination: Examination | None = None
    leaked_test_ids: Sequence[str] = ()
    commands: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Fact] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values: dict[str, Any] = to_plain(self)
        return values

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Facts:
        """Return the facts that `to_json` wrote. Raises ValueError for an entry that is unknown or missing."""
        return from_plain(Facts, values)


@dataclass(frozen=True, kw_only=True)
class Study(Facts):
    """What the page shows: the facts, and what is computed from the scores.

    verdict      the sentence on top, of races/verdict.py
    outcome      the contestants' scores and comparisons
    remarks      what has to be known to read it rightly: how the search was done
    alerts       what casts doubt on it, shown beside it as warnings
    labels       per label, the untouched model against `winner`; `counted`: "items", "entities", "words"
    confusions   gold by predicted label, a table for each of the two
    predictions  contestant -> (gold, predicted) of each test item, where the task is to predict a number
    leakage      None: the data were not searched for leaks; without leaks: none was found
    """

    verdict: str
    outcome: Outcome
    remarks: Sequence[str] = ()
    alerts: Sequence[str] = ()
    labels: Sequence[LabelScore] = ()
    counted: Literal["items", "entities", "words"] = "items"
    confusions: Sequence[Confusion] = ()
    predictions: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    leakage: Leakage | None = None

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each contestant that has a score."""
        return rows(self.outcome)


def title_of(task: str) -> str:
    return f"Race on {task}"


def write_report(path: Path, page: Page) -> Path:
    """Write the page, whole or not at all, and return its path. Raises ValueError where it would pass 2 MB."""
    text = page.as_html()
    size = len(text.encode())
    if size > LARGEST:
        raise ValueError(f"the page of {page.title!r} would have {size:,} bytes, over {LARGEST:,}; thin its curves.")
    write_text(path, text)
    return path


def page_of(study: Study) -> Page:
    """Return the page of a race: the tables of every study, then what only a race has. What is empty has no section."""
    sections = [*tables_of(study), Section("Plots", parts=(*_losses(study), *_moved(study)))]
    sections += _label_by_label(study)
    if study.predictions:
        lead = "A dot is a test item, its prediction the mean over seeds; on the broken line both are equal."
        sections.append(Section("Gold against predicted", lead=lead, id="predictions"))
    if study.leakage is not None:
        sections.append(_leakage(study, study.leakage))
    if study.given:
        sections.append(_given(study))
    if study.search:
        sections.append(_search(study))
    if study.retrieved:
        sections.append(_retrieved(study))
    if study.looks is not None:
        sections.append(_looks(study.looks))
    if study.examination is not None:
        sections.append(_examination(study.examination))
    if study.commands or study.environment or study.versions or study.hashes:
        sections.append(_again(study))
    scatters = [
        Drawing("The untouched model" if name == UNTOUCHED else name, gold_against_predicted(pairs, name))
        for name, pairs in study.predictions.items()
    ]
    return Page(
        study.title,
        study.verdict,
        sections,
        figures={"Plots": _plots(study), "Gold against predicted": scatters},
        alerts=study.alerts,
        remarks=study.remarks,
        facts=study.task,
    )


def tables_of(study: Study) -> list[Section]:
    """The tables that a race has as every study. A model that runs alone is not called untouched."""
    outcome = study.outcome
    if len(outcome.ran) == 1:
        [ran] = outcome.ran.values()
        named = replace(ran.cell, row=ALONE)
        losses = {name: {ALONE: of_rows[ran.cell.row]} for name, of_rows in outcome.losses.items()}
        outcome = replace(outcome, ran={named.key: replace(ran, cell=named)}, losses=losses)
    return sections(outcome)


def _plots(study: Study) -> list[Drawing]:
    drawn = [("Score against cost", score_against_cost(study.rows))]
    if any(row.comparison for row in study.rows):
        drawn.append(("Differences to the untouched model", differences(study.rows)))
    for kind, losses in (("domain", study.losses), ("general", study.general_losses)):
        if losses:
            drawn.append((f"Loss on held-out {kind} text, before and after adapting", heldout_losses(losses, kind)))
    for title, curves in study.curves.items():
        plot = learning_curves(curves.lines, curves.x, curves.y, title=title, colours=colours_of(study.rows))
        drawn.append((title, plot))
    last = len(drawn) - 1
    return [
        Drawing(title, svg, wide=number < 2 or (number == last and last % 2 == 0))
        for number, (title, svg) in enumerate(drawn)
    ]


def _losses(study: Study) -> list[Section]:
    """Loss and perplexity before and after adapting, on each kind of held-out text."""
    columns = ("Contestant", "Loss before", "Loss after", "Perplexity before", "Perplexity after")
    return [
        Section(
            f"Loss on held-out {kind} text",
            columns,
            tuple(
                (name, f"{before:.3f}", f"{after:.3f}", f"{exp(before):,.1f}", f"{exp(after):,.1f}")
                for name, (before, after) in losses.items()
            ),
            (
                f"Masked-token loss on held-out {kind} text, in nats a masked token, and its exponential, the "
                "perplexity.",
            ),
        )
        for kind, losses in (("domain", study.losses), ("general", study.general_losses))
        if losses
    ]


def _moved(study: Study) -> list[Section]:
    """How far word embeddings lie from the untouched model's."""
    columns = ("Contestant", "Over", "Pieces", "Mean distance", "Median", "90th percentile", "Mean cosine")
    rows = [
        (
            name,
            where,
            f"{found.pieces:,}",
            *(f"{value:#.3g}" for value in (found.mean, found.median, found.nine_tenths)),
            f"{found.cosine:.4f}",
        )
        for name, by_place in study.moved.items()
        for where, found in by_place.items()
    ]
    line = (
        "How far word embeddings lie from the untouched model's: Euclidean distance between raw rows, and their mean "
        "cosine; over all pieces of the vocabulary, and over those that occur in the task's texts."
    )
    return [Section("Word embeddings", columns, tuple(rows), (line,))] if rows else []


def _label_by_label(study: Study) -> list[Section]:
    """F1 of each label, and what is taken for what."""
    sections = []
    if study.labels:
        what = {"items": "label", "entities": "type of entity", "words": "tag"}[study.counted]
        alone = study.winner == UNTOUCHED
        rows: list[tuple[str | Cell, ...]] = [
            (
                label.label,
                f"{label.support:,}",
                Cell(points(label.untouched), label.untouched),
                *([] if alone else [Cell(points(label.contestant), label.contestant), _change(label)]),
            )
            for label in study.labels
        ]
        columns = ("Label", f"Test {study.counted}", "Untouched", *([] if alone else [study.winner, "Difference"]))
        compared = (
            "The untouched model, which is the winner on dev" if alone else f"{study.winner} and the untouched model"
        )
        lead = f"F1 of each {what}, mean over seeds. With few test items a label's figure says little."
        lines = (f"{compared}, points of F1.",)
        sections.append(Section("Label by label", columns, tuple(rows), lines, lead=lead, id="labels"))
    if study.confusions:
        lead = (
            "Each row holds the test items of one label, each column what was predicted for them: numbers of items, "
            "mean over seeds. The darker or brighter a cell, the larger its share of the row; framed cells are right."
        )
        if study.confusions[0].pooled:
            most = len(study.confusions[0].labels) - 1
            lead += (
                f" Labels beyond the {most} most frequent stand together in the last row and column, where a framed "
                "cell also holds confusions among them."
            )
        parts = tuple(map(_confusion, study.confusions))
        sections.append(Section("What is taken for what", lead=lead, parts=parts, id="confusions"))
    return sections


def _change(label: LabelScore) -> Cell:
    change = label.contestant - label.untouched
    return Cell(points(change, sign="+"), change)


def _confusion(confusion: Confusion) -> Section:
    rows: list[tuple[str | Cell, ...]] = []
    for right, (label, counts) in enumerate(zip(confusion.labels, confusion.counts, strict=True)):
        total = sum(counts)
        cells = [
            Cell(
                f"{count:.0f}" if round(count, 1) == round(count) else f"{count:.1f}",
                count,
                look=" ".join(["right"] * (guess == right) + ["zero"] * (count == 0)),
                shade=count / total if total else 0.0,
            )
            for guess, count in enumerate(counts)
        ]
        rows.append((label, *cells, Cell(f"{total:,.0f}", total, look="zero", shade=0.0)))
    return Section(
        "The untouched model" if confusion.contestant == UNTOUCHED else confusion.contestant,
        ("gold \N{DOWNWARDS ARROW} predicted \N{RIGHTWARDS ARROW}", *confusion.labels, "items"),
        tuple(rows),
        (f"Gold label by predicted label, {confusion.contestant}.",),
        look="confusion",
    )


def _leakage(study: Study, leakage: Leakage) -> Section:
    if not leakage.leaks:
        lead = (
            "Looked for: the same or nearly the same text in what is scored and in what models learn from. None was "
            "found."
        )
        return Section("Leakage", lead=lead)
    lead = (
        "Texts that are scored and stand, the same or nearly, where models learn from. A model may know such an item "
        "by heart. Documents of corpora that hold one were left out of adapting."
    )
    if leakage.dropped:
        lead += " Rows of the training data that hold a test text were taken out before anything was trained."
    columns = (
        *("Found in", "Scored split", "Match", "Texts there", "Scored items", "Share of the split"),
        "Of these, same label",
    )
    rows = tuple(
        (
            *(leak.found, leak.within, leak.kind, f"{leak.scanned:,}", f"{leak.references:,}"),
            Cell(percent(leak.share), leak.share),
            "-" if leak.same_label is None else f"{leak.same_label:,}",
        )
        for leak in leakage.leaks
    )
    lines = (
        "exact: equal after normalisation; near: nearly; 13-gram: at least half of the item's runs of 13 words; "
        "passage: fewer of them, which is no leak of the item.",
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
            f"{leakage.leaked:,} of the {leakage.items:,} test items stand in the training data too, which leaves too "
            "few to score without them."
        )
        parts.append(Section("", items=(Item(warning, "warning"),)))
    elif leakage.outcome is not None:
        parts.append(_scored_both_ways(study, leakage, leakage.outcome))
    return Section("Leakage", columns, rows, lines, lead=lead, parts=tuple(parts))


def _twin(leak: Leak, twin: Sighting) -> Iterator[Passage]:
    label = f", label {twin.within_label}" if twin.within_label else ""
    yield Passage(f"{leak.within}, {twin.within_id}{label}", twin.within_text)
    label = f", label {twin.found_label}" if twin.found_label else ""
    yield Passage(f"{leak.found}, {twin.found_id}{label}; similarity {twin.similarity:.2f}", twin.found_text)


def _scored_both_ways(study: Study, leakage: Leakage, without: Outcome) -> Section:
    columns = ("All items", "Against untouched", "p (Holm)")
    lacking = ("Without leaked", "Against untouched, without", "p (Holm), without")
    lines: list[tuple[str | Cell, ...]] = []
    looks = []
    for key in (key for key, ran in study.outcome.ran.items() if not ran.failed):
        cells: list[Cell] = []
        for outcome in (study.outcome, without):
            contrast = outcome.compared.of(key, UNTOUCHED)
            scored = outcome.compared.intervals[key, MAIN]
            cells += [interval_cell(scored), difference_cell(contrast), p_cell(contrast.p_holm if contrast else None)]
        lines.append((key[1], *cells))
        looks.append("reference" * (key[1] == UNTOUCHED))
    return Section(
        "Scored both ways",
        ("Contestant", *columns, *lacking),
        tuple(lines),
        (
            f"Points of {metric_text(study.rows[0].metric)}: on all {leakage.items:,} test items, and without the "
            f"{leakage.leaked:,} that stand in the training data.",
        ),
        lead=f"Without the {leakage.leaked:,} leaked test items the verdict "
        f"{'changes' if leakage.changed else 'stands'}: {leakage.verdict}",
        looks=tuple(looks),
    )


def _given(study: Study) -> Section:
    """A row for each setting, a column for each contestant; settings that are the same for all are grey."""
    names = dict.fromkeys(name for settings in study.given.values() for name in settings)
    rows = {
        name: [fact_text(settings[name]) if name in settings else ABSENT for settings in study.given.values()]
        for name in names
    }
    return Section(
        "What each contestant was given",
        ("Setting", *study.given),
        tuple((name, *values) for name, values in rows.items()),
        ("Settings by contestant; \N{EN DASH} where a setting does not apply.",),
        lead="Settings that are the same for all contestants are grey; those that differ are what the race is about, "
        "or a reason to doubt it.",
        looks=tuple("same" * (len({*values} - {ABSENT}) == 1) for values in rows.values()),
        id="given",
    )


def _search(study: Study) -> Section:
    tried = Section(
        "Everything that was tried",
        ("Contestant", "Setting", "Rung", "Steps", "Seeds", "Dev", "Kept", "Why"),
        tuple(
            (
                *(trial.contestant, trial.setting, f"{trial.rung}", f"{trial.steps:,}", f"{trial.seeds}"),
                *(Cell(points(trial.dev), trial.dev), fact_text(trial.kept), trial.why or "-"),
            )
            for trial in study.search
        ),
        (
            "A line for each setting in each rung; dev is the mean over seeds, in points of "
            f"{metric_text(study.rows[0].metric)}.",
        ),
        fold="open" if len(study.search) <= 12 else "closed",
        most=3 * MOST,
    )
    chosen = [Section("Chosen on dev", facts=study.chosen)] if study.chosen else []
    lead = study.search_note or "Settings were tried on dev alone."
    return Section("The search", lead=lead, parts=(*chosen, tried), id="search")


def _retrieved(study: Study) -> Section:
    parts = []
    for number, example in enumerate(page_examples(study.retrieved)):
        brought = study.retrieved[number].documents
        documents = [Passage(each.about, each.parts, each.words) for each in example.documents]
        parts.append(
            Section(
                beginning(f"Query {example.query.about}", 200),
                lead=_first_of(brought, DOCUMENTS),
                passages=(
                    Passage("Text of the task", example.query.parts),
                    *(documents or [Passage("Documents", "It brought none.")]),
                ),
                fold="closed" if number else "open",
            )
        )
    lead = (
        "Texts of the task as queries, and what they brought from the general corpus. Marked: the words that make up "
        "nine tenths of a document's score; they are listed below it with their parts of it. Long texts are cut to "
        f"where most of these words stand. {_first_of(study.retrieved, QUERIES)}"
    )
    return Section("Retrieved examples", lead=lead.rstrip(), parts=tuple(parts), id="retrieved")


def _first_of(entries: Sequence[object], most: int) -> str:
    return f"The first {most:,} of {len(entries):,}." if len(entries) > most else ""


def _looks(looks: Looks) -> Section:
    earlier = (
        f"Earlier races on this machine that opened them: {looks.earlier_runs:,}."
        if looks.earlier_runs
        else "No earlier race on this machine had opened them."
    )
    every = [Section("Every look", items=tuple(looks.lines), fold="closed")] if looks.lines else []
    return Section("Looks at the test set", lead=f"{looks.sentence()} {earlier}", parts=tuple(every), id="looks")


def _examination(examined: Examination) -> Section:
    parts = tuple(sections_of_data(examined, most_labels=MOST))
    return Section("The data, examined", lead=examined.reach, facts=examined.task, parts=parts, id="examination")


def _again(study: Study) -> Section:
    parts = [Section("Commands", code="\n".join(study.commands), fold="open")] if study.commands else []
    named = (("Environment", study.environment), ("Versions", study.versions), ("Hashes", study.hashes))
    parts += [Section(name, facts=facts, fold="closed") for name, facts in named if facts]
    return Section("To do it again", parts=tuple(parts), id="again")
