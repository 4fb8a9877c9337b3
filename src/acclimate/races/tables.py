"""Tables of the outcome of a study or race: sections of its text and page, and CSV.

Text and page give scores and differences in points (the metric times 100) and costs in readable units; CSV gives
everything unrounded, in units of the metric, tokens, FLOP and seconds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.figures import cautioned, duration, listed, metric_text, p_text, percent, points, si
from acclimate.core.types import Cost
from acclimate.races.answer import NAMED
from acclimate.races.compare import MAIN, Against, Contrast, Key
from acclimate.races.outcome import CellResult, HeldOutColumn, Outcome, probe_row
from acclimate.races.verdict import established, verdict, warnings
from acclimate.reports.page import WIDTH, Drawing, Page, Section, TableCell
from acclimate.reports.table import UNTOUCHED, GeneralLoss, chance_text, difference_text, interval_text
from acclimate.statistics.significance import Comparison, Interval, interval
from acclimate.tasks.metrics import metric_named

ACROSS = 5  # columns at most of a table of scores with intervals, in text
PARTS = (
    *("difference", "low", "high", "p", "p_adjusted", "p_seeds", "p_seeds_holm", "p_permutation"),
    *("improvement", "improvement_low", "improvement_high"),
)
PROBES = "Frozen probes"  # title of their table
UNTAUGHT = "*"  # behind the score of a run that learnt nothing
UNITS = ("tokens", "flops", "seconds")
ON_DEV = " A score on dev is the best of several evaluations, so it is slightly too high for all contestants."

TableLine = tuple[str | TableCell, ...]  # of a table


def no_sections(outcome: Outcome) -> Sequence[Section]:
    """Return nothing: most studies have the tables that all have, and no others."""
    return ()


def no_figures(outcome: Outcome) -> Mapping[str, Sequence[Drawing]]:
    """Return nothing: most studies have no figure of their own."""
    return {}


def write(
    outcome: Outcome,
    out: Path,
    special: Callable[[Outcome], Sequence[Section]] = no_sections,
    figures: Callable[[Outcome], Mapping[str, Sequence[Drawing]]] = no_figures,
) -> str:
    """Write `out/NAME.txt`, `.csv` and `.html`, and return the text.

    special, figures: sections and drawings that only this study has
    """
    page = replace(page_of(outcome, special), figures=figures(outcome))
    return write_page(page, outcome.name, out)


def write_page(page: Page, name: str, out: Path) -> str:
    """Write a study's page as `out/NAME.txt` and `.html`, with its sheets, and return the text."""
    if ranks.is_first():
        files.write_text(out / f"{name}.txt", page.as_text(WIDTH))
        page.write(out / f"{name}.html")
    ranks.wait()
    return page.as_text()


def page_of(outcome: Outcome, special: Callable[[Outcome], Sequence[Section]] = no_sections) -> Page:
    """Return the page of a study, of which the text is printed. special: as of `write`; these sections come first"""
    page_sections = [*special(outcome), *sections(outcome)]
    sheets = {f"{outcome.name}.csv": as_csv(outcome)}
    return Page(
        outcome.title, verdict(outcome), page_sections, sheets=sheets, alerts=warnings(outcome), source=outcome.source
    )


def sections(outcome: Outcome) -> list[Section]:
    """Return the tables that every study and race has: scores, comparisons, seeds, costs, facts, data."""
    models = dict.fromkeys(result.model for result in outcome.results)
    tables = [] if outcome.only_probed else [_scores(outcome, model) for model in models]
    tables += [] if outcome.only_probed else [table for model in models for table in _deviations(outcome, model)]
    tables.append(_losses(outcome))
    tables.append(_probes(outcome))
    tables += [_means(outcome, model) for model in dict.fromkeys(mean.key[0] for mean in outcome.means if mean.shown)]
    references = dict.fromkeys(pairing.name for pairing in outcome.against)
    names = sorted(references, key=lambda name: name in outcome.baselines)
    tables += [_differences(outcome, name) for name in names if name != probe_row(UNTOUCHED)]
    tables += [*([] if outcome.only_probed else [_seeds(outcome)]), _costs(outcome), _facts(outcome), _tasks(outcome)]
    if outcome.chosen is not None:
        tables.append(_chosen(outcome))
    return [section for section in tables if section.rows or section.lines or section.parts]


# headings, lines, their looks, sentences below
ScoreTable = tuple[list[str], list[TableLine], tuple[str, ...], list[str]]


def _scores(outcome: Outcome, model: str) -> Section:
    """Return every mean with its interval: of one task by all its metrics, else a table of rows and columns."""
    results = [result for result in _shown(outcome) if result.model == model]
    seeds = sorted({len(result.scores) for result in results if not result.failed})
    several = len({result.column for result in results}) > 1
    heads, body, looks, more = _several_tasks_table(outcome, results) if several else _one_task_table(outcome, results)
    counts = listed([str(count) for count in seeds] or ["no"])
    runs = f"{_runs(outcome)}{'' if seeds == [1] else 's'}"
    fold_text = (
        f"Points by {outcome.folds}-fold cross-validation, means over {counts} {runs} with 95% intervals over rows."
    )
    split_text = (
        f"Points on {outcome.split}, means over {counts} {runs} with 95% "
        f"intervals over seeds and {outcome.split} items.{ON_DEV if outcome.split == 'dev' else ''}"
    )
    if outcome.first_impression:
        split_text = (
            f"Points on {outcome.split}, means over {counts} {runs}: fewer than three rounds give no intervals."
        )
    lines = [
        fold_text if outcome.folds else split_text,
        *more,
        *_cautions(
            (outcome.label(result.key), estimate.caution)
            for result in results
            if (estimate := outcome.interval(result.key)) is not None
        ),
        *(f"{outcome.label(result.key)} failed: {result.failed}." for result in results if result.failed),
    ]
    where = "by cross-validation" if outcome.folds else f"on {outcome.split}"
    title = f"{f'{model}: s' if model else 'S'}cores {where}"
    return Section(title, ("", *heads), tuple(body), tuple(lines), looks=looks)


def _deviations(outcome: Outcome, model: str) -> list[Section]:
    """Return mean ± standard deviation over seeds of a study of several tasks, by each metric of each task, as papers
    print them, ACROSS rows of the study to a table. With one task deviations stand beside its scores.
    """
    results = {result.key: result for result in _shown(outcome) if result.model == model}
    if not _several(outcome):
        return []
    metrics = {
        (result.column, metric): name for result in results.values() for metric, name in _metrics(result).items()
    }
    rows = list(dict.fromkeys(row for _, row, _ in results))
    seed = _runs(outcome)
    line = f"Points: the mean over {seed}s ± the standard deviation over {seed}s, by each metric."
    sections = []
    for at in range(0, len(rows), ACROSS):
        part = rows[at : at + ACROSS]
        lines: tuple[TableLine, ...] = tuple(
            (
                f"{column} ({metric_text(name)})",
                *(_mean_and_deviation(outcome, (model, row, column), metric) for row in part),
            )
            for (column, metric), name in metrics.items()
        )
        title = f"{model}: m" if model else "M"
        title += "eans and deviations" + (f", {at + 1} to {at + len(part)}" if len(rows) > ACROSS else "")
        sections.append(Section(title, ("", *part), lines, () if at else (line,)))
    return sections


def _mean_and_deviation(outcome: Outcome, key: Key, metric: str) -> TableCell:
    estimate, spread = outcome.interval(key, metric), _deviation(outcome, key, metric)
    if estimate is None:
        return TableCell("failed" if key in outcome.failed else "-")
    return TableCell(points(estimate.mean) + ("" if spread is None else f" ± {points(spread)}"), estimate.mean)


def _losses(outcome: Outcome) -> Section:
    """Return the losses on held-out text of a study of several tasks; with one task they stand beside its scores."""
    names = list(dict.fromkeys(result.row for result in _shown(outcome)))
    columns = [column for column in outcome.losses if column.by_row] if _several(outcome) else []
    rows: list[TableLine] = [
        (row, *_loss_cells(columns, row))
        for row in (*names, *_unscored_rows(outcome))
        if any(column.by_row[row].loss is not None for column in columns if row in column.by_row)
    ]
    return Section(
        "Losses on held-out text", ("", *(column.name for column in columns)), tuple(rows), _meanings(columns)
    )


def _loss_cells(columns: Sequence[HeldOutColumn], row: str) -> list[TableCell]:
    return [TableCell(str(loss := column.by_row.get(row, GeneralLoss())), loss.loss) for column in columns]


def _unscored_rows(outcome: Outcome) -> list[str]:
    """Return the rows that have losses on held-out text but no scores: the untouched model where all are adapted."""
    score_rows = {result.row for result in outcome.results}
    loss_rows = (row for column in outcome.losses for row, loss in column.by_row.items() if loss.loss is not None)
    return [row for row in dict.fromkeys(loss_rows) if row not in score_rows]


def _meanings(columns: Sequence[HeldOutColumn]) -> tuple[str, ...]:
    return tuple(f"{column.name[0].upper()}{column.name[1:]}: {column.meaning}" for column in columns)


def _several(outcome: Outcome) -> bool:
    return len({result.column for result in _shown(outcome)}) > 1


def _one_task_table(outcome: Outcome, results: Sequence[CellResult]) -> ScoreTable:
    """Return a line for each cell: by each metric its mean and deviation, its difference where all are compared with
    the same, comparisons with the baseline aside, and its loss on held-out text.
    """
    names = _metrics(results[0])
    losses = [column for column in outcome.losses if column.by_row]
    kinds = {against.name for against in outcome.against if against.key in {result.key for result in results}}
    kinds -= {*outcome.baselines}
    [against] = kinds if len(kinds) == 1 and len(names) == 1 else [""]
    heads = [text for name in names.values() for text in (metric_text(name), "sd")]
    heads += [f"against {against}", "p (adjusted)"] if against else []
    intervals = {result.key: outcome.interval(result.key) for result in results}
    best = max((estimate.mean for estimate in intervals.values() if estimate is not None), default=None)
    references = {key for contrast in outcome.against if contrast.name == against for key in contrast.references}
    body: list[TableLine] = []
    looks = []
    for result in results:
        key = result.key
        cells: list[str | TableCell] = []
        for name in names:
            cells += [_interval(outcome, key, name), _spread(outcome, key, name)]
        contrast = outcome.compared.contrast(key, against) if against else None
        cells += [difference_cell(contrast), p_cell(contrast.p_adjusted if contrast else None)] if against else []
        cells += _loss_cells(losses, result.row)
        body.append((result.row, *cells))
        mean = intervals[key]
        looks.append(
            "reference" * bool(against and key in references and mean is not None)
            + " best" * (mean is not None and mean.mean == best)
        )
    body += [(row, *("-" for _ in heads), *_loss_cells(losses, row)) for row in _unscored_rows(outcome)]
    looks += ["" for _ in _unscored_rows(outcome)]
    spreads = any(_deviation(outcome, result.key, name) is not None for result in results for name in names)
    meaning = f"sd: standard deviation over {_runs(outcome)}s. " if spreads else ""
    lines = [f"{meaning}All metrics use the same predictions.", *_meanings(losses)]
    return [*heads, *(column.name for column in losses)], body, tuple(looks), lines


def _several_tasks_table(outcome: Outcome, results: Sequence[CellResult]) -> ScoreTable:
    """Return the rows and columns of the study, exchanged if there are more columns than a line holds."""
    model = results[0].model
    rows = list(dict.fromkeys(result.row for result in results))
    columns = list(dict.fromkeys(result.column for result in results))
    metrics = {result.column: metric_text(result.task.metric) for result in results}
    turned = len(columns) > len(rows) or len(columns) > ACROSS
    body: list[TableLine] = []
    for first in columns if turned else rows:
        keys = [(model, *((second, first) if turned else (first, second))) for second in (rows if turned else columns)]
        label = f"{first} ({metrics[first]})" if turned else first
        body.append((label, *(_interval(outcome, key, MAIN, short=len(keys) > ACROSS) for key in keys)))
    heads = rows if turned else [f"{column} ({metrics[column]})" for column in columns]
    return heads, body, (), []


def _probes(outcome: Outcome) -> Section:
    """Return the table of the probes: what the encoders represent before fine-tuning, by the main metric."""
    untouched = probe_row(UNTOUCHED)
    probes = [result for result in outcome.results if result.probe]
    if not probes:
        return Section(PROBES, lines=(outcome.race.unprobed,) if outcome.race and outcome.race.unprobed else ())
    others = [result for result in outcome.results if not result.probe and outcome.only_probed]
    several, run_kind = any(len(result.scores) > 1 for result in probes), "repeat" if outcome.folds else "adaptation"
    compared = any(pairing.name == untouched for pairing in outcome.against)
    apart = "" if outcome.only_probed else ", independently of fine-tuning"
    body: list[TableLine] = []
    ids, looks = [], []
    for result in [*probes, *others]:
        key = result.key
        spent = result.costs.get("probe", Cost()).seconds
        each_score = " ".join(points(score.test) for score in result.scores) if result.probe and several else "-"
        cells = [_interval(outcome, key, MAIN), *([TableCell(each_score or "-", look="seeds")] if several else [])]
        if compared:
            contrast = outcome.compared.contrast(key, untouched)
            p, p_adjusted = (contrast.comparison.p, contrast.p_adjusted) if contrast else (None, None)
            cells += [difference_cell(contrast), p_cell(p), p_cell(p_adjusted)]
        cells += [_fact(result.facts.get("read-out")), TableCell(duration(spent) if spent else "-", spent)]
        body.append((result.row, *cells))
        ids.append(row_id(untouched, key))
        looks.append("reference" * (result.row == untouched))
    contrasts = outcome.compared.main_contrasts(untouched)
    counted = f"{outcome.split} items{' and adaptations' if several else ' alone'}"
    lines = [
        f"A probe is a linear layer on the frozen encoder: it shows what the encoder represents{apart}. "
        + ("Intervals and p are over rows" if outcome.folds else f"It has no seed, so intervals and p count {counted}")
        + ". Read-out: what the layer reads of a text, chosen on the training rows.",
        *_one_vector(probes),
    ]
    if contrasts:
        lines.append(f"Holm's correction counts together: {contrasts[0].against.family} ({len(contrasts)}).")
    lines += [
        *_cautions((outcome.label(contrast.against.key), contrast.comparison.caution) for contrast in contrasts),
        *(f"{outcome.label(result.key)} failed: {result.failed}." for result in probes if result.failed),
    ]
    heads: tuple[str, ...] = ("", metric_text(probes[0].task.metric), *([f"each {run_kind}"] if several else []))
    heads += (*((f"against {untouched}", "p", "p (adjusted)") if compared else ()), "read-out", "time")
    return Section(PROBES, heads, tuple(body), tuple(lines), ids=tuple(ids), looks=tuple(looks))


def _one_vector(probes: Sequence[CellResult]) -> list[str]:
    """Return a sentence on what a probe of pairs or relations cannot see, and none for other tasks."""
    meant = {"pairs": "which words belong to which of the two texts", "mentions": "which mentions are meant"}
    kinds = dict.fromkeys(str(result.facts["asked of"]) for result in probes if "asked of" in result.facts)
    so = "so its score may be low even if fine-tuning reaches a high one"
    return [f"A probe reads one vector of the whole text and does not know {meant[kind]}, {so}." for kind in kinds]


def _means(outcome: Outcome, model: str) -> Section:
    means = {mean.key: mean for mean in outcome.means if mean.shown and mean.key[0] == model}
    rows = list(dict.fromkeys(column for _, _, column in means))
    columns = list(dict.fromkeys(row for _, row, _ in means))
    table = [(row, *(_interval(outcome, (model, column, row), MAIN) for column in columns)) for row in rows]
    lines = [
        "Means over tasks with 95% intervals over seeds and test items; the tasks are treated as the whole population.",
        *_cautions(
            (f"{column} ({row})", estimate.caution)
            for (_, row, column), mean in means.items()
            if len(mean.parts) > 1 and (estimate := outcome.interval(mean.key)) is not None
        ),
    ]
    return Section(f"{model}: means" if model else "Means", ("", *columns), tuple(table), tuple(lines))


def _differences(outcome: Outcome, name: str) -> Section:
    """Return the table of the comparisons of this name: how p is corrected, and what is established."""
    compared = outcome.compared
    contrasts = [contrast for contrast in compared.contrasts if contrast.against.name == name]
    varied = any(len(contrast.against.references) > 1 for contrast in contrasts)
    by_metrics = any(contrast.metric != MAIN for contrast in contrasts)
    rows: list[TableLine] = []
    improvements: list[TableLine] = []
    cautions, ids = [], []
    for contrast in contrasts:
        key, comparison = contrast.against.key, contrast.comparison
        label = outcome.label(key)
        if by_metrics:
            label = f"{metric_text(_metrics(outcome.cells[key])[contrast.metric])}: {label}"
        cautions.append((label, comparison.caution))
        seed_tests = () if outcome.folds else (comparison.p_seeds, contrast.p_seeds_holm)
        tests = (comparison.p, contrast.p_adjusted, *seed_tests)
        reference = [contrast.reference[1]] if varied else []
        ids.append(row_id(name, key, contrast.metric))
        rows.append((label, *reference, difference_cell(contrast), *map(p_cell, tests), contrast.said))
        if comparison.improvement is not None:
            flips = p_cell(comparison.p_permutation)
            improvements.append((label, *reference, _improvement(comparison), flips))
    gains = outcome.answer.gains if outcome.answer is not None and name == UNTOUCHED else ()
    adapted = {gain.contestant for gain in gains}
    by_holm = [one for one in contrasts if one.metric != MAIN or one.against.key[1] not in adapted]
    families = dict.fromkeys(contrast.against.family for contrast in by_holm)
    counted = "; ".join(f"{family} ({compared.count(family)})" for family in families)
    lines = [
        "Points with 95% intervals, on the same items and seeds. p: that the expected scores over seeds and items "
        "are equal; p, t: the paired t test over seeds, which treats these items as the whole population."
    ]
    if outcome.folds:
        lines = [
            "Points with 95% intervals, on the same rows, folds and repeats. p: that the expected scores of models "
            "trained on this number of rows are equal."
        ]
    if len(gains) > 1:
        lines.append(
            f"Intervals are of one difference alone. p (adjusted) is corrected for {len(gains)} adapted contestants "
            "together, as the interval of the answer is."
        )
    lines += [f"Holm's correction counts together: {counted}."] if by_holm else []
    lines += [*([established(outcome, name)] if contrasts else []), *_cautions(cautions)]
    missing = [pairing.key for pairing in _not_compared(outcome, name)]
    if missing:
        which = listed([outcome.label(key) for key in missing[:NAMED]])
        more = " and others" * (len(missing) > NAMED)
        lines.append(f"Not compared, because one of the two failed, or failed to learn: {which}{more}.")
    against = ["against"] if varied else []
    seed_heads = () if outcome.folds else ("p, t", "p, t (Holm)")
    heads = ("", *against, "difference", "p", "p (adjusted)", *seed_heads, "verdict")
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
    """Return the comparisons that could not be made because one of the two failed, or failed to learn."""
    # a contestant that a stopped race did not reach has no cell
    keys = {*outcome.cells, *(mean.key for mean in outcome.means)}
    named = [pairing for pairing in outcome.against if pairing.name == name and pairing.key in keys]
    return [pairing for pairing in named if outcome.compared.contrast(pairing.key, name) is None]


def row_id(name: str, key: Key, metric: str = MAIN) -> str:
    """Return the id of the table row that compares this cell, to which links lead."""
    return f"cell-{settings.digest([name, *key, metric])[:12]}"


def _seeds(outcome: Outcome) -> Section:
    """Return the table of each seed's score."""
    rows: list[TableLine] = []
    on_test = outcome.split == "test"
    for result in _shown(outcome):
        names = _metrics(result)
        for name in names:
            label = outcome.label(result.key)
            label = f"{metric_text(names[name])}, {label}" if len(names) > 1 else label
            values = zip(_each_seed(outcome, result, name), result.scores, strict=True)
            scores = " ".join(points(value) + UNTAUGHT * (not score.learnt) for value, score in values)
            dev = " ".join(points(score.dev) for score in result.scores) if name == MAIN else ""
            cells = [scores, dev] if on_test else [scores]
            rows.append((label, *(TableCell(text or "-", look="seeds") for text in cells)))
    heads = ("", "on test", "on dev") if on_test else ("", "on dev")
    one, lines = _runs(outcome), ["Seeds ascending."]
    if outcome.folds:
        lines = [
            "On test: of all rows, each predicted by the model that was not trained on its fold. On dev: the mean."
        ]
    if any(UNTAUGHT in str(cell) for _, *cells in rows for cell in cells):
        lines.append(f"{UNTAUGHT} This run failed to learn: it is no better on dev than a constant answer or guesses.")
    return Section(f"Each {one}", heads, tuple(rows), tuple(lines))


def _runs(outcome: Outcome) -> str:
    """Return the word for what the scores of a cell differ by: the seed, or the repeat of a cross-validation."""
    return "repeat" if outcome.folds else "seed"


def _costs(outcome: Outcome) -> Section:
    """Return the table of what each stage took, of the probes where nothing was fine-tuned."""
    results = [result for result in outcome.results if result.shown] if outcome.only_probed else _shown(outcome)
    stages = list(dict.fromkeys(stage for result in results for stage in result.costs))
    rows: list[TableLine] = []
    for result in results:
        cells: list[str | TableCell] = []
        for stage in stages:
            cost = result.costs.get(stage)
            cells.append(TableCell(si(cost.flops, "FLOP"), cost.flops) if cost else "-")
            cells.append(TableCell(duration(cost.seconds), cost.seconds) if cost else "-")
        rows.append((outcome.label(result.key), *cells))
    heads = ("", *(text for stage in stages for text in (stage, "time")))
    what = "adaptation" if outcome.only_probed else "seed"
    line = (
        "For the model of one fold, mean over all folds." if outcome.folds else f"Of one {what}, the mean over {what}s."
    )
    return Section("Costs", heads, tuple(rows), (line,))


def _facts(outcome: Outcome) -> Section:
    """Return the table of the cells' facts; facts that all cells of a task share stand in the table of the tasks."""
    results = _shown(outcome)
    names = [name for name in _fact_names(results) if name not in _task_fact_names(outcome)]
    if not names:
        return Section("Facts")
    rows = [(outcome.label(result.key), *(_fact(result.facts.get(name)) for name in names)) for result in results]
    return Section("Facts", ("", *names), tuple(rows), ("What else is known of each row.",))


def _fact_names(several: Iterable[CellResult]) -> list[str]:
    return list(dict.fromkeys(name for result in several for name in result.facts))


def _task_fact_names(outcome: Outcome) -> list[str]:
    """Return the names of the facts that all cells of a task share."""
    results = _shown(outcome)
    columns = {result.column for result in results}
    of_tasks = [[result.facts for result in results if result.column == column] for column in columns]
    return [
        name for name in _fact_names(results) if all(len({one.get(name) for one in facts}) == 1 for facts in of_tasks)
    ]


def _tasks(outcome: Outcome) -> Section:
    """Return the table of the tasks, what was done to the data, and which data are not there."""
    names = _task_fact_names(outcome)
    rows: dict[str, TableLine] = {}
    for result in outcome.results:
        task = result.task
        sizes = (f"{task.sizes[split]:,}" if split in task.sizes else "-" for split in ("train", "dev", "test"))
        about = (metric_text(task.metric), *sizes, *(_fact(result.facts.get(name)) for name in names))
        rows.setdefault(result.column, (result.column, *about))
    lines = [
        "Train and dev are those of the first fold; test is every row, once per repeat."
        if outcome.folds
        else "Rows of each split.",
        *outcome.notes,
        *(f"{name} is skipped: {why}" for name, why in outcome.absent.items()),
    ]
    return Section("Data", ("", "metric", "train", "dev", "test", *names), tuple(rows.values()), tuple(lines))


def _shown(outcome: Outcome) -> list[CellResult]:
    """Return the results that tables show; probes have a table of their own."""
    return [result for result in outcome.results if result.shown and not result.probe]


def _chosen(outcome: Outcome) -> Section:
    """Return in a sentence what the cell that dev chose scored on test, and what the choice cost."""
    chosen = outcome.chosen
    assert chosen is not None
    row, metric = chosen.result.row, chosen.result.task.metric
    if chosen.result.failed:
        return Section("The choice, tested", lines=(f"Chosen on dev: {row}. Its test failed: {chosen.result.failed}.",))
    score = interval_text(interval(chosen.result.scores, metric_named(metric)))
    line = (
        f"Chosen on dev: {row}. On test, opened only for this setting: {score} {metric_text(metric)}. The search "
        f"over {chosen.tried} settings took {si(chosen.whole, 'FLOP')}, {chosen.whole / chosen.alone:.1f} times as "
        "much as the chosen setting."
    )
    return Section("The choice, tested", lines=(line,))


def as_csv(outcome: Outcome) -> str:
    """Return a line for each cell and metric, then one for each mean; lists are separated by spaces."""
    lines = _lines(outcome)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in line.items()}
        for line in lines
    )
    return file.getvalue()


def as_document(outcome: Outcome) -> dict[str, Any]:
    """Return what `--json` prints of a study or race: its name and title, why cells have no score, and the rows of the
    CSV, where lists are lists.
    """
    failed = {", ".join(filter(None, key)): why for key, why in outcome.failed.items()}
    return {"study": outcome.name, "title": outcome.title, "failed": failed, "rows": _lines(outcome)}


def _lines(outcome: Outcome) -> list[dict[str, Any]]:
    facts = _fact_names(outcome.results)
    stages = list(dict.fromkeys(stage for result in outcome.results for stage in result.costs))
    kinds = list(dict.fromkeys(pairing.name for pairing in outcome.against))
    probed = any(result.probe for result in outcome.results)
    lines = []
    for result in outcome.results:
        for metric, metric_name in _metrics(result).items():
            key = result.key
            line = _place(outcome, key) | {_slug(name): result.facts.get(name) for name in facts}
            line |= {"train_rows": result.task.sizes.get("train"), "metric": metric_name}
            split = "cross-validation" if result.task.folds else outcome.split
            line |= _estimate(outcome, key, metric) | {"split": split, "failed": result.failed}
            line |= {"folds": result.task.folds, "repeats": len(result.scores)} if outcome.folds else {}
            line |= {"runs_that_learnt_nothing": result.untaught}
            line |= {"probe": result.probe} if probed else {}
            line |= {"seeds": [score.seed for score in result.scores]}
            line |= {"scores": list(_each_seed(outcome, result, metric))}
            line |= {"dev": [score.dev for score in result.scores]}
            for name in kinds:
                line |= _contrast(name, outcome.compared.contrast(key, name, metric))
            for stage in stages:
                line |= {f"{_slug(stage)}_{unit}": getattr(result.costs.get(stage, Cost()), unit) for unit in UNITS}
            for losses in outcome.losses:
                loss = losses.by_row.get(result.row)
                line |= {_slug(losses.name): loss.loss if loss else None}
                line |= {f"{_slug(losses.name)}_difference": loss.difference if loss else None}
            lines.append(line)
    heads = list(lines[0])
    for mean in (mean for mean in outcome.means if mean.shown):
        model, row, column = mean.key
        line = _place(outcome, (model, row, f"mean: {column}")) | {"split": outcome.split}
        line |= _estimate(outcome, mean.key, MAIN)
        for name in kinds:
            line |= _contrast(name, outcome.compared.contrast(mean.key, name))
        lines.append({name: value for name, value in line.items() if name in heads})
    return lines


def _place(outcome: Outcome, key: Key) -> dict[str, Any]:
    row_is, column_is = outcome.axes
    return dict(zip(("model", row_is, column_is), key, strict=True))


def _estimate(outcome: Outcome, key: Key, metric: str) -> dict[str, Any]:
    estimate, spread = outcome.interval(key, metric), _deviation(outcome, key, metric)
    if estimate is None:
        return dict.fromkeys(("mean", "sd", "low", "high"))
    low, high = (None, None) if estimate.range_of_runs else (estimate.low, estimate.high)
    return {"mean": estimate.mean, "sd": spread, "low": low, "high": high}


def _contrast(name: str, contrast: Contrast | None) -> dict[str, Any]:
    kind = f"against_{_slug(name)}"
    if contrast is None:
        return dict.fromkeys((f"{kind}_reference", *(f"{kind}_{part}" for part in PARTS)))
    holms = {"p_adjusted": contrast.p_adjusted, "p_seeds_holm": contrast.p_seeds_holm}
    values: dict[str, Any] = {f"{kind}_reference": contrast.reference[1]}
    for part in PARTS:
        values[f"{kind}_{part}"] = holms[part] if part in holms else getattr(contrast.comparison, part)
    return values


def interval_cell(estimate: Interval) -> TableCell:
    """Return a score with its interval."""
    range_text = "" if estimate.range_of_runs else f"{points(estimate.low)} to {points(estimate.high)}"
    return TableCell(points(estimate.mean), estimate.mean, range_text, look="main", plain=interval_text(estimate))


def difference_cell(contrast: Contrast | None) -> TableCell:
    """Return a difference with its interval; in colour if the corrected p is below .05."""
    if contrast is None:
        return TableCell("-", 0.0)
    comparison = contrast.comparison
    figure = points(comparison.difference, sign="+")
    range_text = " to ".join(points(value, sign="+") for value in (comparison.low, comparison.high))
    look = {"better": "gain", "worse": "loss"}.get(contrast.said, "")
    return TableCell(figure, comparison.difference, range_text, look, plain=difference_text(comparison))


def p_cell(p: float | None) -> TableCell:
    return TableCell(p_text(p), p)


def _improvement(comparison: Comparison) -> TableCell:
    value = comparison.improvement or 0.0
    range_text = f"{percent(comparison.improvement_low)} to {percent(comparison.improvement_high)}"
    return TableCell(percent(value), value, range_text, plain=chance_text(comparison))


def _interval(outcome: Outcome, key: Key, metric: str, *, short: bool = False) -> str | TableCell:
    estimate = outcome.interval(key, metric)
    if estimate is None:
        return "failed" if key in outcome.failed else "-"
    return TableCell(points(estimate.mean), estimate.mean) if short else interval_cell(estimate)


def _deviation(outcome: Outcome, key: Key, metric: str) -> float | None:
    drawn = outcome.compared.draws.get((key, metric))
    return None if drawn is None else float(np.std(drawn.points_S, ddof=1))


def _spread(outcome: Outcome, key: Key, metric: str) -> TableCell:
    value = _deviation(outcome, key, metric)
    return TableCell("-" if value is None else points(value), value)


def _each_seed(outcome: Outcome, result: CellResult, metric: str) -> list[float]:
    """Return the score of each seed by this metric."""
    drawn = outcome.compared.draws.get((result.key, metric))
    return [float(value) for value in drawn.points_S] if drawn is not None else [score.test for score in result.scores]


def _metrics(result: CellResult) -> dict[str, str]:
    """Return MAIN and the other metrics that are reported of the cell -> their names."""
    return {MAIN if name == result.task.metric else name: name for name in result.task.metrics}


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
        (f"the score of {outcome.label(key)}", estimate.caution)
        for (key, metric), estimate in outcome.compared.intervals.items()
        if metric == MAIN
    ]
    several += [
        (f"the difference of {outcome.label(contrast.against.key)}", contrast.comparison.caution)
        for contrast in outcome.compared.contrasts
        if contrast.metric == MAIN
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
    sentences = []
    for caution, labels in about.items():
        if len(labels) == total > 1:
            sentences.append(caution)
        else:
            some = listed(labels) if len(labels) <= NAMED else f"{len(labels)} of {all_of_them}"
            sentences.append(cautioned(some, caution))
    return sentences
