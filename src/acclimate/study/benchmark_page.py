"""What a benchmark came to, as tables in text, CSV and a page: a row a dataset, a column a model, as BLURB's Table 6.

Text and page give scores and differences in points (the metric times 100); CSV gives them unrounded, in units of the
metric, tokens, FLOP and seconds.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from acclimate.core import files
from acclimate.study.benchmark_result import CONSTANT, NO_ENCODER, Benchmark, Compared, Result
from acclimate.study.outcome import PAGE, SHEET, TABLE
from acclimate.study.report import VISIBLE, environment
from acclimate.study.significance import Comparison
from acclimate.study.typeset import Section, page
from acclimate.study.wording import (
    cautioned,
    difference_text,
    duration,
    interval_text,
    listed,
    metric_text,
    p_text,
    points,
    si,
)

_DIFFERENCE = ("difference", "low", "high", "p")
_STAGES = ("tokens", "flops", "seconds")
CELLS = ("dataset", "form", "type", "metric", "model", "mean", "low", "high", "seeds", "scores", "dev", "setting")
COLUMNS = (
    *CELLS,
    *("settings_tried", "fine_tunings", "train_rows", "max_tokens"),
    *("baseline", *(f"baseline_{part}" for part in _DIFFERENCE), "baseline_p_holm"),
    *("first", *(f"first_{part}" for part in _DIFFERENCE), "first_p_holm"),
    *(f"{what}_{unit}" for what in ("finetuning", "all") for unit in _STAGES),
)
"""Of table.csv. finetuning: of a seed, the mean over seeds; all: of the search and all seeds."""


def sections(found: Benchmark) -> list[Section]:
    made = [_scores(found), _means(found)]
    if found.against_baseline:
        lead = "Of constant and no encoder, the one that scores higher on the test set. "
        made.append(_compared("Against the baseline", lead, found.against_baseline))
    if found.against_first:
        made.append(_compared(f"Against {found.models[0]}", "", found.against_first))
    return [*made, _settings(found), _costs(found)]


def as_text(found: Benchmark) -> str:
    """The tables for a terminal, at most 110 columns wide."""
    return page("acclimate blurb", sections(found))


def as_csv(found: Benchmark) -> str:
    """A line for each dataset and model, then one for each mean and model; lists separated by spaces."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    compared = {
        (reference, own.dataset, own.model): own
        for reference, several in (("baseline", found.against_baseline), ("first", found.against_first))
        for own in several
    }
    for result in found.results:
        for name in result.scores:
            row = _cell(result, name)
            for reference in ("baseline", "first"):
                own = compared.get((reference, result.dataset.name, name))
                if own is not None:
                    row |= {reference: own.reference, f"{reference}_p_holm": own.p_holm}
                    row |= _difference(reference, own.comparison)
            writer.writerow(row)
    for name, means in found.means.items():
        for column, told in means.items():
            row = {"dataset": f"mean: {name}", "model": column, "mean": told.mean, "low": told.low, "high": told.high}
            if column in found.models[1:]:
                row |= {"first": found.models[0], **_difference("first", found.mean_against_first(name, column))}
            writer.writerow(row)
    return file.getvalue()


def write_benchmark(out: Path, found: Benchmark) -> None:
    """The tables and the page."""
    out.mkdir(parents=True, exist_ok=True)
    files.write_text(out / TABLE, as_text(found))
    files.write_text(out / SHEET, as_csv(found))
    source = "The benchmark: Gu et al. (2021), Tables 3 and 6."
    write_sections(out / PAGE, sections(found), title="BLURB", heading=", ".join(found.models), source=source)


def write_sections(path: Path, made: Sequence[Section], *, title: str, heading: str, source: str) -> None:
    """A page of these sections, with nothing but tables and sentences. source: a sentence in its foot."""
    shown = [section.escaped() for section in made]
    template = environment().get_template("benchmark.html")
    page = template.render(sections=shown, title=title, heading=heading, source=source)
    files.write_text(path, page.translate(VISIBLE))


def _cell(result: Result, name: str) -> dict[str, object]:
    """Of table.csv, what a model did on a dataset."""
    own, told = result.scores[name], result.intervals[result.column(name)]
    row: dict[str, object] = {
        "dataset": result.dataset.name,
        "form": result.form.name,
        "type": result.dataset.type,
        "metric": result.dataset.metric.name,
        "model": name,
        **{"mean": told.mean, "low": told.low, "high": told.high},
        "seeds": " ".join(str(score.seed) for score in own),
        "scores": " ".join(str(score.test) for score in own),
        "dev": float(np.mean([score.dev for score in own])),
        "train_rows": result.trained,
        "max_tokens": result.max_tokens,
    }
    costs = {"finetuning": result.finetuning(name)}
    if name in result.trials:
        costs["all"] = result.taken[name]
        row |= {"setting": result.settings[name]}
        row |= {"settings_tried": result.tried(name), "fine_tunings": result.tunings(name)}
    return row | {f"{what}_{unit}": getattr(cost, unit) for what, cost in costs.items() for unit in _STAGES}


def _difference(reference: str, other: Comparison) -> dict[str, object]:
    return {f"{reference}_{part}": getattr(other, part) for part in _DIFFERENCE}


def _scores(found: Benchmark) -> Section:
    rows = []
    for result in found.results:
        told = [result.intervals[column] for column in found.columns]
        cells = [
            points(own.mean) if column == CONSTANT else interval_text(own)
            for column, own in zip(found.columns, told, strict=True)
        ]
        seeds = len(result.scores[found.models[0]])
        about = f"{result.dataset.name} ({metric_text(result.dataset.metric.name)})"
        rows.append((about, f"{result.trained:,}", str(seeds), *cells))
    lines = ["Points with 95% intervals over seeds and test items. Train: the examples that were trained on."]
    if CONSTANT in found.columns:
        lines.append("Constant: of all answers that are the same for every text, the best on train.")
    if NO_ENCODER in found.columns:
        lines.append("No encoder: TF-IDF and a linear model; of words with tags, each word's most frequent tag.")
    lines += [f"{result.dataset.name}: {note}" for result in found.results for note in result.notes]
    lines += _cautions(
        (f"{result.dataset.name} ({column})", result.intervals[column].caution)
        for result in found.results
        for column in found.columns
        if column != CONSTANT
    )
    lines += [f"{name} is left out: {why}" for name, why in found.absent.items()]
    return Section("Test scores", ("", "train", "seeds", *found.columns), tuple(rows), tuple(lines))


def _means(found: Benchmark) -> Section:
    rows = [(name, *(interval_text(own[column]) for column in found.columns)) for name, own in found.means.items()]
    lines = [
        "Means over the datasets of a type, and over types, with 95% intervals over seeds and test items; the datasets "
        "are taken for all there are."
    ]
    if why := found.refused():
        lines.append(f"There is no BLURB score: {why}.")
    last = [*found.means][-1]
    for model in found.models[1:]:
        other = found.mean_against_first(last, model)
        lines.append(f"{last}: {model} against {found.models[0]} {difference_text(other)}, p {p_text(other.p)}.")
    lines += _cautions(
        (f"{name} ({column})", told.caution)
        for name, own in found.means.items()
        for column, told in own.items()
        if column != CONSTANT and len(found.weights[name]) > 1
    )
    return Section("Means", ("", *found.columns), tuple(rows), tuple(lines))


def _compared(title: str, lead: str, several: Sequence[Compared]) -> Section:
    rows = [
        (
            f"{own.dataset}, {own.model}",
            own.reference,
            difference_text(own.comparison),
            p_text(own.comparison.p),
            p_text(own.p_holm),
            own.said,
        )
        for own in several
    ]
    lines = [
        f"{lead}Points with 95% intervals, on the same test items and seeds; p: that the expected scores are equal. "
        "Higher and lower: where p is below .05 with Holm's correction over the datasets of the model."
    ]
    for model in dict.fromkeys(own.model for own in several):
        own = [each for each in several if each.model == model]
        clear = sum(each.said == "higher" for each in own)
        others = [each.dataset for each in own if each.said != "higher"]
        rest = f"; not on {listed(others)}" if others else ""
        lines.append(f"{model} is higher on {clear} of {len(own)} datasets{rest}.")
    lines += _cautions((f"{own.dataset} ({own.model})", own.comparison.caution) for own in several)
    columns = ("", "against", "difference", "p", "p (Holm)", "expected score")
    return Section(title, columns, tuple(rows), tuple(lines))


def _settings(found: Benchmark) -> Section:
    rows = []
    for result in found.results:
        for model in found.models:
            own = result.scores[model]
            dev = points(float(np.mean([score.dev for score in own])))
            each = " ".join(points(score.test) for score in own)
            about = f"{result.dataset.name}, {model}"
            counts = str(result.tried(model)), str(result.tunings(model))
            rows.append((about, result.settings[model], dev, *counts, each))
    columns = ("", "chosen on dev", "dev", "tried", "tunings", "test score of each seed")
    lines = ("Tried: settings. Tunings: fine-tunings that the search and the seeds took, those given up too.",)
    return Section("Settings", columns, tuple(rows), lines)


def _costs(found: Benchmark) -> Section:
    rows = []
    for result in found.results:
        for model in found.models:
            costs = result.finetuning(model), result.taken[model]
            cells = [cell for cost in costs for cell in (si(cost.flops, "FLOP"), duration(cost.seconds))]
            score = points(result.intervals[model].mean)
            rows.append((f"{result.dataset.name}, {model}", score, *cells))
    columns = ("", "score", "FLOP, a seed", "time, a seed", "FLOP, in all", "time, in all")
    lines = ("What fine-tuning took; in all: the search and all seeds.",)
    return Section("Costs", columns, tuple(rows), lines)


def _cautions(cells: Iterable[tuple[str, str]]) -> list[str]:
    """Each caution of the statistics once, with the cells that it is about."""
    about: dict[str, list[str]] = {}
    for cell, cautions in cells:
        for caution in cautions.splitlines():
            about.setdefault(caution, []).append(cell)
    return [cautioned(listed(names), len(names), caution) for caution, names in about.items()]
