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

from acclimate.core import figures
from acclimate.core.files import write_text
from acclimate.core.types import Cost
from acclimate.data.examination import Examination, Leak
from acclimate.data.retrieved import DOCUMENTS, QUERIES, QueryShown, examples
from acclimate.models.word_embeddings import Distances
from acclimate.race.labels import Confusion, LabelScore
from acclimate.report import table
from acclimate.report.plots import (
    colours_of,
    differences,
    gold_against_predicted,
    heldout_losses,
    learning_curves,
    score_against_cost,
)
from acclimate.report.table import Losses, Row, chance_text, difference_text, interval_text

# -------------------- sections
# What the page tells beside the scores, as values: leakage, the search, looks at the test set, retrieved documents.
#
# Each is made from an entry of a race's facts.json of the same keys (race/outcome.py). A key that is not a field here
# is
# an error (TypeError), so nothing that a race wrote down is left out of its page unnoticed.


@dataclass(frozen=True)
class Leakage:
    """All leaks that were found, and the scores without the `leaked` of `items` test items that train holds.

    rows, verdict   as on the rest of the page, on the other items; empty where no test item leaked, or too many did
    changed         in words, what is claimed on all items only or on the others only; empty where nothing is
    dropped         whether training rows that hold a test text were taken out before the race
    """

    leaks: Sequence[Leak]
    items: int
    leaked: int = 0
    rows: Sequence[Row] = ()
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
    """Whether every contestant had equally many settings tried, in a sentence; nothing where nothing was searched."""
    settings: dict[str, set[str]] = {}
    for trial in search:
        settings.setdefault(trial.contestant, set()).add(trial.setting)
    numbers = {name: len(own) for name, own in settings.items()}
    different = set(numbers.values())
    if different <= {1}:
        return ""
    if len(different) == 1:
        return f"Each contestant had {different.pop()} settings tried, with dev alone to choose among them."
    listed = ", ".join(f"{name} {number}" for name, number in numbers.items())
    return f"The contestants had unequal numbers of settings tried ({listed}): those with more had better chances."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


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
        general=table.beside([row.contestant for row in study.rows], study.general_losses),
        forgetting=table.MEANING,
        retrieved=examples(study.retrieved),
        retrieved_most=(QUERIES, DOCUMENTS),
        exp=exp,
        most=ROWS,
    )
    return page.translate(VISIBLE)


def environment() -> Environment:
    """What templates are read from and with; a page made so goes through `translate(VISIBLE)` at its end."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1] / "report" / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "chance": chance_text,
        "cost": figures.cost_text,
        "difference": difference_text,
        "duration": figures.duration,
        "fact": _fact,
        "figure": lambda text: ABSENT if text == "-" else text.replace("-", "\N{MINUS SIGN}"),
        "interval": interval_text,
        "metric": figures.metric_text,
        "p": figures.p_text,
        "percent": figures.percent,
        "points": figures.points,
        "si": figures.si,
        "short": _short,
        "signed": lambda value: figures.points(value, sign="+"),
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
