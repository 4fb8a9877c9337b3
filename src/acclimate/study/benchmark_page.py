"""What a benchmark came to, as tables in text, CSV and a page: a row a dataset, a column a model, as BLURB's Table 6.

Text and page give scores in points (the metric times 100); CSV gives them unrounded, in units of the metric.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from acclimate.core import files
from acclimate.core.types import Score
from acclimate.study.outcome import PAGE, SHEET, TABLE
from acclimate.study.report import VISIBLE, environment
from acclimate.study.sections import Trial
from acclimate.study.significance import Interval, interval
from acclimate.study.typeset import Section, page
from acclimate.study.wording import interval_text, listed, metric_text, points
from acclimate.tasks.catalogue import Dataset, Form
from acclimate.tasks.metrics import blurb_score

NO_ENCODER = "no encoder"
BLURB_SCORE = "BLURB score"


@dataclass(frozen=True)
class Result:
    """What the models did on a dataset.

    trained   training examples; max_tokens: where they were cut
    scores    model, or the baseline by its own name, -> a score a seed
    trials    model -> the record of its search
    settings  model -> the setting that dev chose
    """

    dataset: Dataset
    form: Form
    trained: int
    max_tokens: int
    scores: dict[str, list[Score]] = field(default_factory=dict)
    trials: dict[str, list[Trial]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Model -> its interval; the baseline's under NO_ENCODER."""
        return {self.column(name): interval(own, self.dataset.metric) for name, own in self.scores.items()}

    def column(self, name: str) -> str:
        return name if name in self.trials else NO_ENCODER

    def tunings(self, model: str) -> int:
        """Fine-tunings that its search and its seeds took, begun ones too."""
        seeds: dict[str, int] = {}
        for trial in self.trials[model]:
            seeds[trial.setting] = max(seeds.get(trial.setting, 0), trial.seeds)
        return sum(seeds.values())


@dataclass(frozen=True)
class Benchmark:
    """absent: dataset -> why it is not there."""

    models: tuple[str, ...]
    results: tuple[Result, ...]
    absent: Mapping[str, str]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The baseline, where there is one, and the models."""
        given = any(NO_ENCODER in result.intervals for result in self.results)
        return ((NO_ENCODER,) if given else ()) + self.models

    def means(self) -> dict[str, dict[str, float]]:
        """Type of task -> column -> the mean over its datasets that are here; last, under the name of what it is, the
        mean of the types: the BLURB score where all datasets are here.
        """
        types = dict.fromkeys(result.dataset.type for result in self.results)
        found = {
            kind: {
                column: float(np.mean([own.intervals[column].mean for own in self.results if own.dataset.type == kind]))
                for column in self.columns
            }
            for kind in types
        }
        if self.refused():
            name = f"{len(types)} types, no BLURB score" if len(types) > 1 else ""
            over = {column: float(np.mean([own[column] for own in found.values()])) for column in self.columns}
        else:
            name, over = BLURB_SCORE, {column: blurb_score(self._scores(column)) for column in self.columns}
        return {**found, name: over} if name else found

    def refused(self) -> str:
        """Why there is no BLURB score; "" where there is."""
        try:
            blurb_score(self._scores(self.models[0]))
        except ValueError as error:
            return str(error)
        return ""

    def sections(self) -> list[Section]:
        return [self._scores_section(), self._means_section(), self._search_section()]

    def as_text(self) -> str:
        """The tables for a terminal, at most 110 columns wide."""
        return page("acclimate blurb", self.sections())

    def as_csv(self) -> str:
        """A line for each dataset and model, then one for each mean and model; lists separated by spaces."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        head = [
            "dataset",
            "form",
            "type",
            "metric",
            "model",
            "mean",
            "low",
            "high",
            "seeds",
            "scores",
            "dev",
            "setting",
        ]
        writer.writerow([*head, "settings_tried", "fine_tunings", "train_rows", "max_tokens"])
        for result in self.results:
            facts = [result.dataset.name, result.form.name, result.dataset.type, result.dataset.metric.name]
            for name, own in result.scores.items():
                told = result.intervals[result.column(name)]
                lists = [
                    " ".join(map(str, values)) for values in zip(*((each.seed, each.test) for each in own), strict=True)
                ]
                row = [*facts, name, told.mean, told.low, told.high, *lists, float(np.mean([each.dev for each in own]))]
                search: list[str | int] = ["", "", ""]
                if name in result.trials:
                    tried = len({trial.setting for trial in result.trials[name]})
                    search = [result.settings[name], tried, result.tunings(name)]
                writer.writerow([*row, *search, result.trained, result.max_tokens])
        for name, means in self.means().items():
            for column, value in means.items():
                writer.writerow([f"mean: {name}", "", "", "", column, value])
        return file.getvalue()

    def _scores(self, column: str) -> dict[str, float]:
        return {result.dataset.name: result.intervals[column].mean for result in self.results}

    def _scores_section(self) -> Section:
        rows, cautions = [], dict[str, list[str]]()
        for result in self.results:
            cells = [interval_text(result.intervals[column]) for column in self.columns]
            seeds = len(result.scores[self.models[0]])
            about = f"{result.dataset.name} ({metric_text(result.dataset.metric.name)})"
            rows.append((about, f"{result.trained:,}", str(seeds), *cells))
            for column in self.columns:
                for caution in result.intervals[column].caution.splitlines():
                    cautions.setdefault(caution, []).append(f"{result.dataset.name} ({column})")
        lines = ["Points with 95% intervals over seeds and test items. Train: the examples that were trained on."]
        if NO_ENCODER in self.columns:
            lines.append("No encoder: TF-IDF and a linear model; of words with tags, each word's most frequent tag.")
        lines += [f"{result.dataset.name}: {note}" for result in self.results for note in result.notes]
        lines += [f"{listed(cells)}: {caution}" for caution, cells in cautions.items()]
        lines += [f"{name} is left out: {why}" for name, why in self.absent.items()]
        return Section("Test scores", ("", "train", "seeds", *self.columns), tuple(rows), tuple(lines))

    def _means_section(self) -> Section:
        rows = [(name, *(points(own[column]) for column in self.columns)) for name, own in self.means().items()]
        lines = ["Means over the datasets of a type, and over types; without intervals, for none was checked."]
        if why := self.refused():
            lines.append(f"There is no BLURB score: {why}.")
        return Section("Means", ("", *self.columns), tuple(rows), tuple(lines))

    def _search_section(self) -> Section:
        rows = []
        for result in self.results:
            for model in self.models:
                own = result.scores[model]
                tried = len({trial.setting for trial in result.trials[model]})
                dev = points(float(np.mean([score.dev for score in own])))
                each = " ".join(points(score.test) for score in own)
                about = f"{result.dataset.name}, {model}"
                rows.append((about, result.settings[model], dev, str(tried), str(result.tunings(model)), each))
        columns = ("", "chosen on dev", "dev", "tried", "tunings", "test score of each seed")
        lines = ("Tried: settings. Tunings: fine-tunings that the search and the seeds took, those given up too.",)
        return Section("Settings", columns, tuple(rows), lines)


def write_benchmark(out: Path, found: Benchmark) -> None:
    """The tables and the page."""
    out.mkdir(parents=True, exist_ok=True)
    files.write_text(out / TABLE, found.as_text())
    files.write_text(out / SHEET, found.as_csv())
    sections = [section.escaped() for section in found.sections()]
    template = environment().get_template("benchmark.html")
    files.write_text(out / PAGE, template.render(sections=sections, models=found.models).translate(VISIBLE))
