"""Writes the outcome of a study or race as text, CSV, JSON and a page: the same tables for all.

Text and page give scores and differences in points (the metric times 100) and costs in readable units; CSV and JSON
give everything unrounded, in units of the metric, tokens, FLOP and seconds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.figures import cautioned, duration, listed, metric_text, p_text, percent, points, si
from acclimate.core.types import Cost
from acclimate.races.compare import MAIN, Contrast, Outcome, Ran
from acclimate.reports.page import Cell, Page, Section
from acclimate.reports.table import chance_text, difference_text, interval_text
from acclimate.statistics.significance import Comparison, Interval, interval

if TYPE_CHECKING:
    from acclimate.races.design import Against, Key

NAMED = 9  # names at most that a sentence lists
ACROSS = 5  # columns at most of a table of scores with intervals, in text
PARTS = (
    *("difference", "low", "high", "p", "p_holm", "p_seeds", "p_seeds_holm", "p_permutation"),
    *("improvement", "improvement_low", "improvement_high"),
)
UNITS = ("tokens", "flops", "seconds")
ON_DEV = " A score on dev is that of the best of several looks at dev, so a little high, for all alike."

Row = tuple[str | Cell, ...]


def write(outcome: Outcome, out: Path) -> str:
    """Write `out/STUDY.txt`, `.csv`, `.scores.json` and `.html`, and return the text."""
    name, page = outcome.design.name, page_of(outcome)
    text = page.as_text()
    if ranks.is_first():
        files.write_json(out / f"{name}.scores.json", records(outcome))
        if outcome.trials:
            tried = [{"task": key[2], **asdict(trial)} for key, trials in outcome.trials.items() for trial in trials]
            files.write_json(out / f"{name}.search.json", tried)
        files.write_text(out / f"{name}.txt", text)
        page.write(out / f"{name}.html")
    ranks.wait()
    return text


def page_of(outcome: Outcome) -> Page:
    """Return the page, from which text and CSV are written too."""
    design = outcome.design
    sheets = {f"{design.name}.csv": as_csv(outcome)}
    return Page(design.title, verdict(outcome), sections(outcome), sheets=sheets, source=design.source)


def verdict(outcome: Outcome) -> str:
    """Return what is established, in a sentence or two."""
    names = dict.fromkeys(contrast.against.name for contrast in outcome.compared.contrasts)
    return " ".join(_established(outcome, name) for name in names) or "Nothing was compared."


def sections(outcome: Outcome) -> list[Section]:
    """Return the tables of text and page: those of this study alone, scores, comparisons, seeds, costs, facts, data."""
    design = outcome.design
    made = [*design.sections(outcome)]
    for model in dict.fromkeys(ran.cell.model for ran in outcome.ran.values()):
        made.append(_scores(outcome, model))
    made += [_means(outcome, model) for model in dict.fromkeys(mean.key[0] for mean in design.means if mean.shown)]
    made += [_differences(outcome, name) for name in dict.fromkeys(each.name for each in design.against)]
    made += [_seeds(outcome), _costs(outcome), _facts(outcome), _tasks(outcome)]
    if outcome.chosen is not None:
        made.append(_chosen(outcome))
    return [section for section in made if section.rows or section.lines or section.parts]


def _scores(outcome: Outcome, model: str) -> Section:
    """Every mean with its interval: of one task by all its metrics, else a table of rows and columns."""
    design = outcome.design
    ran = [each for each in outcome.ran.values() if each.cell.model == model and each.cell.shown]
    seeds = sorted({len(each.scores) for each in ran if not each.failed})
    lines = [
        f"Points on {design.split}, means over {listed([str(count) for count in seeds] or ['no'])} seeds with 95% "
        f"intervals over seeds and {design.split} items.{ON_DEV if design.split == 'dev' else ''}"
    ]
    several = len({each.cell.column for each in ran}) > 1
    heads, body, looks, more = _of_tasks_scores(outcome, ran) if several else _of_one_task(outcome, ran)
    lines += more
    lines += _cautions(
        (_label(outcome, each.cell.key), found.caution)
        for each in ran
        if (found := outcome.interval(each.cell.key)) is not None
    )
    lines += [f"{_label(outcome, each.cell.key)} failed: {each.failed}." for each in ran if each.failed]
    title = f"{f'{model}: s' if model else 'S'}cores on {design.split}"
    return Section(title, ("", *heads), tuple(body), tuple(lines), looks=looks)


_Table = tuple[list[str], list[Row], tuple[str, ...], list[str]]  # headings, rows, their looks, lines below


def _of_one_task(outcome: Outcome, ran: list[Ran]) -> _Table:
    """A row for each cell: by each metric its mean and deviation, its difference where all are compared with the same,
    and its loss on held-out text.
    """
    names = _metrics(outcome, ran[0])
    losses = {name: of_rows for name, of_rows in outcome.losses.items() if of_rows}
    kinds = {against.name for against in outcome.design.against}
    [against] = kinds if len(kinds) == 1 and len(names) == 1 else [""]
    heads = [text for name in names.values() for text in (metric_text(name), "sd")]
    heads += [f"against {against}", "p (Holm)"] if against else []
    found = {each.cell.key: outcome.interval(each.cell.key) for each in ran}
    best = max((each.mean for each in found.values() if each is not None), default=None)
    body: list[Row] = []
    looks = []
    for each in ran:
        key = each.cell.key
        cells: list[str | Cell] = []
        for name in names:
            cells += [_interval(outcome, key, name), _spread(outcome, key, name)]
        contrast = outcome.compared.of(key, against) if against else None
        cells += [difference_cell(contrast), p_cell(contrast.p_holm if contrast else None)] if against else []
        for of_rows in losses.values():
            cells.append(Cell(str(of_rows[each.cell.row]), of_rows[each.cell.row].loss))
        body.append((each.cell.row, *cells))
        mean = found[key]
        looks.append(
            "reference" * bool(against and contrast is None and mean is not None)
            + " best" * (mean is not None and mean.mean == best)
        )
    lines = ["sd: standard deviation over seeds. All metrics are of the same predictions."]
    for each_loss in outcome.design.losses:
        if each_loss.name in losses:
            lines.append(f"{each_loss.name[0].upper()}{each_loss.name[1:]}: {each_loss.meaning}")
    return [*heads, *losses], body, tuple(looks), lines


def _of_tasks_scores(outcome: Outcome, ran: list[Ran]) -> _Table:
    """Rows and columns of the design; turned if there are more columns than a line holds."""
    model = ran[0].cell.model
    rows = list(dict.fromkeys(each.cell.row for each in ran))
    columns = list(dict.fromkeys(each.cell.column for each in ran))
    metrics = {each.cell.column: metric_text(each.cell.task.metric.name) for each in ran}
    turned = len(columns) > len(rows) or len(columns) > ACROSS
    body: list[Row] = []
    for one in columns if turned else rows:
        keys = [(model, *((other, one) if turned else (one, other))) for other in (rows if turned else columns)]
        label = f"{one} ({metrics[one]})" if turned else one
        body.append((label, *(_interval(outcome, key, MAIN, short=len(keys) > ACROSS) for key in keys)))
    heads = rows if turned else [f"{column} ({metrics[column]})" for column in columns]
    return heads, body, (), []


def _means(outcome: Outcome, model: str) -> Section:
    means = {mean.key: mean for mean in outcome.design.means if mean.shown and mean.key[0] == model}
    rows = list(dict.fromkeys(column for _, _, column in means))
    columns = list(dict.fromkeys(row for _, row, _ in means))
    table = [(row, *(_interval(outcome, (model, column, row), MAIN) for column in columns)) for row in rows]
    lines = [
        "Means over tasks with 95% intervals over seeds and test items; the tasks are taken for all there are.",
        *_cautions(
            (f"{column} ({row})", found.caution)
            for (_, row, column), mean in means.items()
            if len(mean.parts) > 1 and (found := outcome.interval(mean.key)) is not None
        ),
    ]
    return Section(f"{model}: means" if model else "Means", ("", *columns), tuple(table), tuple(lines))


def _differences(outcome: Outcome, name: str) -> Section:
    """Return the table of the comparisons of this name: what Holm's correction counts together, what is established."""
    compared = outcome.compared
    contrasts = [each for each in compared.contrasts if each.against.name == name]
    varied = any(len(each.against.references) > 1 for each in contrasts)
    by_metrics = any(each.metric != MAIN for each in contrasts)
    rows: list[Row] = []
    improvements: list[Row] = []
    cautions, ids = [], []
    for contrast in contrasts:
        key, comparison = contrast.against.key, contrast.comparison
        label = _label(outcome, key)
        if by_metrics:
            label = f"{metric_text(_metrics(outcome, outcome.ran[key])[contrast.metric])}: {label}"
        cautions.append((label, comparison.caution))
        tests = (comparison.p, contrast.p_holm, comparison.p_seeds, contrast.p_seeds_holm)
        reference = [contrast.reference[1]] if varied else []
        ids.append(row_id(name, key, contrast.metric))
        rows.append((label, *reference, difference_cell(contrast), *map(p_cell, tests), contrast.said))
        if comparison.improvement is not None:
            flips = p_cell(comparison.p_permutation)
            improvements.append((label, *reference, _improvement(comparison), flips))
    families = dict.fromkeys(contrast.against.family for contrast in contrasts)
    counted = "; ".join(f"{family} ({compared.count(family)})" for family in families)
    lines = [
        "Points with 95% intervals, on the same items and seeds. p: that the expected scores over seeds and items are "
        "equal; p, t: the paired t test over seeds, which takes these items for all there are.",
        *([f"Holm's correction counts together: {counted}."] if contrasts else []),
        *([_established(outcome, name)] if contrasts else []),
        *_cautions(cautions),
    ]
    missing = [asked.key for asked in _not_compared(outcome, name)]
    if missing:
        which = listed([_label(outcome, key) for key in missing[:NAMED]])
        lines.append(f"Not compared, for one of the two failed: {which}{' and others' * (len(missing) > NAMED)}.")
    against = ["against"] if varied else []
    heads = ("", *against, "difference", "p", "p (Holm)", "p, t", "p, t (Holm)", "verdict")
    part = Section(
        f"One new run each, against {name}",
        ("", *against, "improves", "p, flipped signs"),
        tuple(improvements),
        (
            "Improves: the probability that it scores higher for one new seed on one new test set of this size, with "
            "its 95% interval. p, flipped signs: the share of all ways to flip the signs of the seeds' differences "
            "that give a mean as large; with S seeds it cannot fall below 2 / 2^S.",
        ),
        fold="closed",
    )
    title = f"Against {name}"
    return Section(title, heads, tuple(rows), tuple(lines), ids=tuple(ids), parts=(part,) if improvements else ())


def _not_compared(outcome: Outcome, name: str) -> list[Against]:
    """Return the comparisons that could not be made because one of the two failed."""
    # a contestant that was given up on dev was never to be scored
    there = {*outcome.ran, *(mean.key for mean in outcome.design.means)}
    return [
        asked
        for asked in outcome.design.against
        if asked.name == name and asked.key in there and outcome.compared.of(asked.key, name) is None
    ]


def row_id(name: str, key: Key, metric: str = MAIN) -> str:
    """Return the id of the table row that compares this cell, to which links lead."""
    return f"cell-{settings.digest([name, *key, metric])[:12]}"


def _established(outcome: Outcome, name: str) -> str:
    """Return which differences by the main metrics are established: Holm's p over seeds and items is below .05."""
    contrasts = [each for each in outcome.compared.contrasts if each.against.name == name and each.metric == MAIN]
    if not contrasts:
        return ""
    clauses = []
    for word in ("better", "worse"):
        labels = [_label(outcome, each.against.key) for each in contrasts if each.said == word]
        if labels:
            which = f": {listed(labels)}" if len(labels) <= NAMED else ""
            clauses.append(f"{len(labels)} of {len(contrasts)} {word}{which}")
    if not clauses:
        return f"Against {name} no difference is established: all {len(contrasts)} may be chance."
    clear = sum(each.established for each in contrasts)
    rest = "" if clear == len(contrasts) else " The rest may be chance."
    return f"Against {name}, established: {'; '.join(clauses)}.{rest}"


def _seeds(outcome: Outcome) -> Section:
    """Return the table of each seed's score."""
    rows: list[Row] = []
    on_test = outcome.design.split == "test"
    for ran in _shown(outcome):
        names = _metrics(outcome, ran)
        for name in names:
            label = _label(outcome, ran.cell.key)
            label = f"{metric_text(names[name])}, {label}" if len(names) > 1 else label
            scores = " ".join(points(value) for value in _each_seed(outcome, ran, name))
            dev = " ".join(points(score.dev) for score in ran.scores) if name == MAIN else ""
            cells = [scores, dev] if on_test else [scores]
            rows.append((label, *(Cell(text or "-", look="seeds") for text in cells)))
    heads = ("", "on test", "on dev") if on_test else ("", "on dev")
    return Section("Each seed", heads, tuple(rows), ("Seeds ascending.",))


def _costs(outcome: Outcome) -> Section:
    """Return the table of what each stage took."""
    shown = _shown(outcome)
    stages = list(dict.fromkeys(stage for ran in shown for stage in ran.costs))
    rows: list[Row] = []
    for ran in shown:
        cells: list[str | Cell] = []
        for stage in stages:
            cost = ran.costs.get(stage)
            cells.append(Cell(si(cost.flops, "FLOP"), cost.flops) if cost else "-")
            cells.append(Cell(duration(cost.seconds), cost.seconds) if cost else "-")
        rows.append((_label(outcome, ran.cell.key), *cells))
    heads = ("", *(text for stage in stages for text in (stage, "time")))
    return Section("Costs", heads, tuple(rows), ("Of one seed, the mean over seeds.",))


def _facts(outcome: Outcome) -> Section:
    """Return the table of the cells' facts; facts that all cells of a task share stand in the table of the tasks."""
    shown = _shown(outcome)
    names = [name for name in _fact_names(shown) if name not in _of_tasks(outcome)]
    if not names:
        return Section("Facts")
    rows = [(_label(outcome, ran.cell.key), *(_fact(ran.facts.get(name)) for name in names)) for ran in shown]
    return Section("Facts", ("", *names), tuple(rows), ("What else is known of each row.",))


def _fact_names(several: Iterable[Ran]) -> list[str]:
    return list(dict.fromkeys(name for ran in several for name in ran.facts))


def _of_tasks(outcome: Outcome) -> list[str]:
    """Return the names of the facts that all cells of a task share."""
    shown = _shown(outcome)
    columns = {ran.cell.column for ran in shown}
    return [
        name
        for name in _fact_names(shown)
        if all(len({ran.facts.get(name) for ran in shown if ran.cell.column == column}) == 1 for column in columns)
    ]


def _tasks(outcome: Outcome) -> Section:
    """Return the table of the tasks, what was done to the data, and which data are not there."""
    design, names = outcome.design, _of_tasks(outcome)
    rows: dict[str, Row] = {}
    for ran in outcome.ran.values():
        task = ran.cell.task
        sizes = (f"{task.sizes[split]:,}" if split in task.sizes else "-" for split in ("train", "dev", "test"))
        about = (metric_text(task.metric.name), *sizes, *(_fact(ran.facts.get(name)) for name in names))
        rows.setdefault(ran.cell.column, (ran.cell.column, *about))
    lines = [
        "Rows of each split.",
        *design.notes,
        *(f"{name} is left out: {why}" for name, why in design.absent.items()),
    ]
    return Section("Data", ("", "metric", "train", "dev", "test", *names), tuple(rows.values()), tuple(lines))


def _shown(outcome: Outcome) -> list[Ran]:
    return [ran for ran in outcome.ran.values() if ran.cell.shown]


def _chosen(outcome: Outcome) -> Section:
    chosen = outcome.chosen
    assert chosen is not None
    row, task = chosen.ran.cell.row, chosen.ran.cell.task
    if chosen.ran.failed:
        told = f"Chosen on dev: {row}. Its test failed: {chosen.ran.failed}."
    else:
        scored = interval_text(interval(chosen.ran.scores, task.metric))
        told = (
            f"Chosen on dev: {row}. On test, opened for it alone: {scored} {metric_text(task.metric.name)}. The search "
            f"over {chosen.tried} settings took {si(chosen.whole, 'FLOP')}, {chosen.whole / chosen.alone:.1f} times "
            f"what the chosen one did."
        )
    return Section("The choice, tested", lines=(told,))


def as_csv(outcome: Outcome) -> str:
    """Return a line for each cell and metric, then one for each mean; lists are separated by spaces."""
    design = outcome.design
    facts = _fact_names(outcome.ran.values())
    stages = list(dict.fromkeys(stage for ran in outcome.ran.values() for stage in ran.costs))
    kinds = list(dict.fromkeys(each.name for each in design.against))
    lines = []
    for ran in outcome.ran.values():
        for metric, metric_name in _metrics(outcome, ran).items():
            key = ran.cell.key
            line = _place(outcome, key) | {_slug(name): ran.facts.get(name) for name in facts}
            line |= {"train_rows": ran.cell.task.sizes.get("train"), "metric": metric_name}
            line |= _estimate(outcome, key, metric) | {"split": design.split, "failed": ran.failed}
            line |= {"seeds": " ".join(str(score.seed) for score in ran.scores)}
            line |= {"scores": " ".join(map(str, _each_seed(outcome, ran, metric)))}
            line |= {"dev": " ".join(str(score.dev) for score in ran.scores)}
            for name in kinds:
                line |= _contrast(name, outcome.compared.of(key, name, metric))
            for stage in stages:
                line |= {f"{_slug(stage)}_{unit}": getattr(ran.costs.get(stage, Cost()), unit) for unit in UNITS}
            for name, losses in outcome.losses.items():
                loss = losses.get(ran.cell.row)
                line |= {_slug(name): loss.loss if loss else None}
                line |= {f"{_slug(name)}_difference": loss.difference if loss else None}
            lines.append(line)
    heads = list(lines[0])
    for mean in (each for each in design.means if each.shown):
        model, row, column = mean.key
        line = _place(outcome, (model, row, f"mean: {column}")) | {"split": design.split}
        line |= _estimate(outcome, mean.key, MAIN)
        for name in kinds:
            line |= _contrast(name, outcome.compared.of(mean.key, name))
        lines.append({name: value for name, value in line.items() if name in heads})
    file = io.StringIO()
    writer = csv.DictWriter(file, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def records(outcome: Outcome) -> list[dict[str, Any]]:
    """Return a record for each cell and seed. `job` in it names the job whose result.json has the predictions."""
    found = []
    for ran in [*outcome.ran.values(), *([outcome.chosen.ran] if outcome.chosen else [])]:
        split = "test" if outcome.chosen and ran is outcome.chosen.ran else outcome.design.split
        for score in ran.scores:
            about = _place(outcome, ran.cell.key) | {"metric": score.metric}
            job = ran.cell.jobs_by_seed[score.seed].name
            found.append(
                {**about, "split": split, "seed": score.seed, "score": score.test, "dev": score.dev, "job": job}
            )
    return found


def _place(outcome: Outcome, key: Key) -> dict[str, Any]:
    row_is, column_is = outcome.design.axes
    return dict(zip(("model", row_is, column_is), key, strict=True))


def _estimate(outcome: Outcome, key: Key, metric: str) -> dict[str, Any]:
    found, spread = outcome.interval(key, metric), _deviation(outcome, key, metric)
    if found is None:
        return dict.fromkeys(("mean", "sd", "low", "high"))
    return {"mean": found.mean, "sd": spread, "low": found.low, "high": found.high}


def _contrast(name: str, contrast: Contrast | None) -> dict[str, Any]:
    kind = f"against_{_slug(name)}"
    if contrast is None:
        return dict.fromkeys((f"{kind}_reference", *(f"{kind}_{part}" for part in PARTS)))
    holms = {"p_holm": contrast.p_holm, "p_seeds_holm": contrast.p_seeds_holm}
    values: dict[str, Any] = {f"{kind}_reference": contrast.reference[1]}
    for part in PARTS:
        values[f"{kind}_{part}"] = holms[part] if part in holms else getattr(contrast.comparison, part)
    return values


def interval_cell(found: Interval) -> Cell:
    """Return a score with its interval."""
    beside = f"{points(found.low)} to {points(found.high)}"
    return Cell(points(found.mean), found.mean, beside, look="main", plain=interval_text(found))


def difference_cell(contrast: Contrast | None) -> Cell:
    """Return a difference with its interval; in colour if Holm's p is below .05."""
    if contrast is None:
        return Cell("-", 0.0)
    found = contrast.comparison
    beside = " to ".join(points(value, sign="+") for value in (found.low, found.high))
    look = {"better": "gain", "worse": "loss"}.get(contrast.said, "")
    return Cell(points(found.difference, sign="+"), found.difference, beside, look, plain=difference_text(found))


def p_cell(p: float | None) -> Cell:
    return Cell(p_text(p), p)


def _improvement(found: Comparison) -> Cell:
    beside = f"{percent(found.improvement_low)} to {percent(found.improvement_high)}"
    return Cell(percent(found.improvement or 0.0), found.improvement, beside, plain=chance_text(found))


def _label(outcome: Outcome, key: Key) -> str:
    """Return the name of a cell or mean: its row, and column and model if there are several."""
    model, row, column = key
    cells = [ran.cell for ran in outcome.ran.values()]
    if key not in outcome.ran:  # a mean
        return f"{row}, {column}"
    label = row if len({cell.column for cell in cells}) == 1 else f"{column}: {row}"
    return f"{label} ({model})" if len({cell.model for cell in cells}) > 1 else label


def _interval(outcome: Outcome, key: Key, metric: str, *, short: bool = False) -> str | Cell:
    found = outcome.interval(key, metric)
    if found is None:
        return "failed" if key in outcome.failed else "-"
    return Cell(points(found.mean), found.mean) if short else interval_cell(found)


def _deviation(outcome: Outcome, key: Key, metric: str) -> float | None:
    drawn = outcome.compared.draws.get((key, metric))
    return None if drawn is None else float(np.std(drawn.points_S, ddof=1))


def _spread(outcome: Outcome, key: Key, metric: str) -> Cell:
    value = _deviation(outcome, key, metric)
    return Cell("-" if value is None else points(value), value)


def _each_seed(outcome: Outcome, ran: Ran, metric: str) -> list[float]:
    """Return the score of each seed by this metric."""
    drawn = outcome.compared.draws.get((ran.cell.key, metric))
    return [float(value) for value in drawn.points_S] if drawn is not None else [score.test for score in ran.scores]


def _metrics(outcome: Outcome, ran: Ran) -> dict[str, str]:
    """Return MAIN and the other metrics that are reported of the cell -> their names."""
    main = ran.cell.task.metric.name
    named = [metric.name for metric in outcome.design.metrics(ran.cell.task.metric)]
    return {MAIN if name == main else name: name for name in named}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _fact(value: Any) -> str:
    """Return a fact as text: an amount with its thousands marked, another number rounded, words as they are."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else si(value) if abs(value) >= 1000 else f"{value:.1f}"


def cautions(outcome: Outcome) -> list[str]:
    """Return each caution of the statistics once, for a text without the tables, such as a model card."""
    several = [
        (f"the score of {_label(outcome, key)}", found.caution)
        for (key, metric), found in outcome.compared.intervals.items()
        if metric == MAIN
    ]
    several += [
        (f"the difference of {_label(outcome, each.against.key)}", each.comparison.caution)
        for each in outcome.compared.contrasts
        if each.metric == MAIN
    ]
    return _cautions(several, "the scores and differences")


def _cautions(several: Iterable[tuple[str, str]], all_of_them: str = "these") -> list[str]:
    """Return each caution of the statistics once, with the labels that it is about. several: (label, its cautions)"""
    about: dict[str, list[str]] = {}
    total = 0
    for label, cautions in several:
        total += 1
        for caution in cautions.splitlines():
            about.setdefault(caution, []).append(label)
    told = []
    for caution, labels in about.items():
        if len(labels) == total > 1:
            told.append(caution)
        else:
            some = listed(labels) if len(labels) <= NAMED else f"{len(labels)} of {all_of_them}"
            told.append(cautioned(some, caution))
    return told
