"""The page of a study: one HTML file that holds everything it shows, opens anywhere and loads nothing.

report.html is the page, report_*.html its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from acclimate.core.files import write_text
from acclimate.core.types import Cost
from acclimate.study import forgetting, wording
from acclimate.study.examination import Examination
from acclimate.study.forgetting import Losses
from acclimate.study.labels import Confusion, LabelScore
from acclimate.study.plots import (
    colours_of,
    differences,
    gold_against_predicted,
    heldout_losses,
    learning_curves,
    score_against_cost,
)
from acclimate.study.retrieved_examples import DOCUMENTS, QUERIES, examples
from acclimate.study.sections import Leakage, Looks, QueryShown, Trial
from acclimate.study.tables import Row
from acclimate.study.word_embeddings import Distances

Fact = str | int | float | bool | None | Sequence[str] | Mapping[str, str | int | float]
LARGEST = 2_000_000  # bytes: a page that a mail takes
ABSENT = "\N{EN DASH}"
ROWS = 300  # of a table whose length users decide; more say so
# What no page should hold: controls, marks that turn the direction of all text after them, halves of characters
CONTROLS = [*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
VISIBLE = {code: f"\\u{code:04x}" for code in CONTROLS} | dict.fromkeys(
    range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"
)


@dataclass(frozen=True)
class Curves:
    """Lines of one plot, name -> (x, y) points; x and y label the axes, units included."""

    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Study:
    """What the page shows, in its order. An empty part leaves its section out.

    verdict      the sentence on top, such as `verdict.verdict(rows)`
    remarks      what has to be known to read it rightly: cautions of the statistics, how the search was done
    alerts       what casts doubt on it, shown beside it as warnings
    task         name, source, sizes of the splits, labels, metric: whatever says what was measured
    curves       title -> lines, such as the loss of each adapting stage, the dev score during fine-tuning
    pretraining  contestant -> what the model took that it rests on and that was made here, once for all that do
    losses       contestant -> masked-token loss on held-out domain text before and after adapting, nats a token;
                 `general_losses` likewise on held-out general text: what adapting forgot
    moved        contestant -> over what -> how far its word embeddings lie from the untouched model's
    labels       per label, the untouched model against `winner`; `counted`: "items", "entities", "words"
    confusions   gold by predicted label, a table for each of the two
    predictions  contestant -> (gold, predicted) of each test item, where the task is to predict a number
    leakage      None: nobody looked; without leaks: none was found
    given        contestant -> what it was given: settings, steps, seeds; equal chances can be seen to be equal
    search       a line for each setting and rung, `search_note` how it was done, `chosen` contestant -> setting
    looks        how often the test set was opened
    retrieved    some texts of the task and the documents that they brought from the general corpus
    examination  what `acclimate doctor` says of the data
    commands     command lines that make this study again
    """

    title: str
    verdict: str
    rows: Sequence[Row]
    task: Mapping[str, Fact]
    remarks: Sequence[str] = ()
    alerts: Sequence[str] = ()
    curves: Mapping[str, Curves] = field(default_factory=dict)
    losses: Losses = field(default_factory=dict)
    general_losses: Losses = field(default_factory=dict)
    pretraining: Mapping[str, Cost] = field(default_factory=dict)
    moved: Mapping[str, Mapping[str, Distances]] = field(default_factory=dict)
    winner: str = ""
    labels: Sequence[LabelScore] = ()
    counted: str = "items"
    confusions: Sequence[Confusion] = ()
    predictions: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    leakage: Leakage | None = None
    given: Mapping[str, Mapping[str, Fact]] = field(default_factory=dict)
    search: Sequence[Trial] = ()
    search_note: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    looks: Looks | None = None
    retrieved: Sequence[QueryShown] = ()
    examination: Examination | None = None
    commands: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Fact] = field(default_factory=dict)
    notes: Sequence[str] = ()


def write_report(path: Path, study: Study) -> Path:
    """Write the page, whole or not at all, and return its path. Raises ValueError where it would pass 2 MB."""
    page = render(study)
    size = len(page.encode())
    if size > LARGEST:
        raise ValueError(f"the page of {study.title!r} would have {size:,} bytes, over {LARGEST:,}; thin its curves.")
    write_text(path, page)
    return path


def render(study: Study) -> str:
    """The page as text. Everything in it is escaped but the plots, whose text is escaped where they are drawn.

    What would turn or break the text around it is written as its escape, as in `\\u202e`.
    """
    template = environment().get_template("report.html")
    scatters = [(name, Markup(gold_against_predicted(pairs, name))) for name, pairs in study.predictions.items()]
    page = template.render(
        study=study,
        plots=_plots(study),
        scatters=scatters,
        settings=_settings(study),
        label_counts=_turned(study.examination.label_counts) if study.examination else {},
        general=forgetting.beside([row.contestant for row in study.rows], study.general_losses),
        forgetting=forgetting.MEANING,
        retrieved=examples(study.retrieved),
        retrieved_most=(QUERIES, DOCUMENTS),
        exp=exp,
        most=ROWS,
    )
    return page.translate(VISIBLE)


def environment() -> Environment:
    """What templates are read from and with; a page made so goes through `translate(VISIBLE)` at its end."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "chance": wording.chance_text,
        "cost": wording.cost_text,
        "difference": wording.difference_text,
        "duration": wording.duration,
        "fact": _fact,
        "figure": lambda text: ABSENT if text == "-" else text.replace("-", "\N{MINUS SIGN}"),
        "interval": wording.interval_text,
        "metric": wording.metric_text,
        "p": wording.p_text,
        "percent": wording.percent,
        "points": wording.points,
        "si": wording.si,
        "short": _short,
        "signed": lambda value: wording.points(value, sign="+"),
    }
    return made


def _plots(study: Study) -> list[tuple[str, Markup]]:
    """(title, drawing) in the order of the page. Markup, for they come from plots.py, not from a user."""
    drawn = [("Score against cost", score_against_cost(study.rows))]
    if any(row.comparison for row in study.rows):
        drawn.append(("Differences to the untouched model", differences(study.rows)))
    for kind, losses in (("domain", study.losses), ("general", study.general_losses)):
        if losses:
            drawn.append((f"Loss on held-out {kind} text, before and after adapting", heldout_losses(losses, kind)))
    for title, curves in study.curves.items():
        plot = learning_curves(curves.lines, curves.x, curves.y, title=title, colours=colours_of(study.rows))
        drawn.append((title, plot))
    return [(title, Markup(svg)) for title, svg in drawn]


def _settings(study: Study) -> dict[str, list[str]]:
    """Setting -> its value for each contestant, in the order in which the settings first occur."""
    names = dict.fromkeys(name for settings in study.given.values() for name in settings)
    return {
        name: [_fact(settings[name]) if name in settings else ABSENT for settings in study.given.values()]
        for name in names
    }


def _turned(table: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """A table of columns as a table of rows, by falling sum; 0 where a column lacks the row."""
    names = dict.fromkeys(name for column in table.values() for name in column)
    rows = {name: {key: column.get(name, 0) for key, column in table.items()} for name in names}
    return dict(sorted(rows.items(), key=lambda row: -sum(row[1].values())))


def _short(text: str, most: int = 200) -> str:
    """A text of users' making, cut where it would swamp the page."""
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _fact(value: Fact) -> str:
    """A setting as people read it: 12,000; 5e-05; yes; a, b; train 900, dev 100. None does not apply."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(amount)}" for name, amount in value.items())
    if isinstance(value, (str, float)):
        return str(value)
    return ", ".join(_fact(part) for part in value)
