"""What a study came to, as text, CSV, JSON and a page: the same tables for every study.

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
from typing import Any

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.figures import cautioned, duration, listed, metric_text, p_text, points, si
from acclimate.core.types import Cost
from acclimate.races.compare import MAIN, Contrast, Outcome, Ran
from acclimate.races.design import Key
from acclimate.reports.page import Page, Section
from acclimate.reports.table import difference_text, interval_text
from acclimate.statistics.significance import interval

NAMED = 9  # names at most that a sentence lists
ACROSS = 5  # columns at most of a table of scores with intervals, in text
PARTS = ("difference", "low", "high", "p", "p_holm", "p_seeds", "p_seeds_holm", "p_permutation", "improvement")
UNITS = ("tokens", "flops", "seconds")


def write(outcome: Outcome, out: Path) -> str:
    """Write `out/STUDY.txt`, `.csv`, `.scores.json` and `.html`, and give the text."""
    name, page = outcome.design.name, page_of(outcome)
    text = page.as_text()
    if ranks.is_first():
        files.write_json(out / f"{name}.scores.json", records(outcome))
        if outcome.trials:
            tried = [{"task": key[2], **asdict(own)} for key, several in outcome.trials.items() for own in several]
            files.write_json(out / f"{name}.search.json", tried)
        files.write_text(out / f"{name}.txt", text)
        page.write(out / f"{name}.html")
    ranks.wait()
    return text


def page_of(outcome: Outcome) -> Page:
    """Text, page and CSV in one."""
    design = outcome.design
    sheets = {f"{design.name}.csv": as_csv(outcome)}
    return Page(design.title, verdict(outcome), sections(outcome), sheets=sheets, source=design.source)


def verdict(outcome: Outcome) -> str:
    """What is established, in a sentence or two."""
    names = dict.fromkeys(own.against.name for own in outcome.compared.contrasts)
    return " ".join(_established(outcome, name) for name in names) or "Nothing was compared."


def sections(outcome: Outcome) -> list[Section]:
    """Of text and page."""
    design = outcome.design
    made = [*design.sections(outcome)]
    for model in dict.fromkeys(own.cell.model for own in outcome.ran.values()):
        made.append(_scores(outcome, model))
    made += [_means(outcome, model) for model in dict.fromkeys(mean.key[0] for mean in design.means if mean.shown)]
    made += [_differences(outcome, name) for name in dict.fromkeys(own.name for own in design.against)]
    made += [_seeds(outcome), _costs(outcome), _facts(outcome), _tasks(outcome)]
    if outcome.chosen is not None:
        made.append(_chosen(outcome))
    return [own for own in made if own.rows or own.lines or own.parts]


# Tables


def _scores(outcome: Outcome, model: str) -> Section:
    """Every mean with its interval: of one task by all its metrics, else a table of rows and columns."""
    design = outcome.design
    ran = [own for own in outcome.ran.values() if own.cell.model == model and own.cell.shown]
    rows = list(dict.fromkeys(own.cell.row for own in ran))
    columns = list(dict.fromkeys(own.cell.column for own in ran))
    seeds = sorted({len(own.scores) for own in ran if not own.failed})
    lines = [
        f"Points on {design.split}, means over {listed([str(own) for own in seeds] or ['no'])} seeds with 95% "
        f"intervals over seeds and {design.split} items.{_ON_DEV if design.split == 'dev' else ''}"
    ]
    if len(columns) == 1:
        names = _metrics(outcome, ran[0])
        beside = {name: own for name, own in outcome.losses.items() if own}
        heads = [text for name in names.values() for text in (metric_text(name), "sd")]
        table = []
        for row in rows:
            key = (model, row, columns[0])
            told = [text for name in names for text in (_interval(outcome, key, name), _spread(outcome, key, name))]
            table.append((row, *told, *(str(own[row]) for own in beside.values())))
        lines.append("sd: standard deviation over seeds. All metrics are of the same predictions.")
        lines += [f"{own.name[0].upper()}{own.name[1:]}: {own.meaning}" for own in design.losses if own.name in beside]
        heads += beside
    else:
        metrics = {own.cell.column: metric_text(own.cell.task.metric.name) for own in ran}
        across = len(columns) > len(rows) or len(columns) > ACROSS
        body = []
        for one in columns if across else rows:
            keys = [(model, *((other, one) if across else (one, other))) for other in (rows if across else columns)]
            label = f"{one} ({metrics[one]})" if across else one
            body.append((label, *(_interval(outcome, key, MAIN, short=len(keys) > ACROSS) for key in keys)))
        heads = rows if across else [f"{own} ({metrics[own]})" for own in columns]
        table = body
    lines += _cautions(
        (_label(outcome, own.cell.key), found.caution)
        for own in ran
        if (found := outcome.interval(own.cell.key)) is not None
    )
    lines += [f"{_label(outcome, own.cell.key)} failed: {own.failed}." for own in ran if own.failed]
    return Section(
        f"{f'{model}: s' if model else 'S'}cores on {design.split}", ("", *heads), tuple(table), tuple(lines)
    )


_ON_DEV = " A score on dev is that of the best of several looks at dev, so a little high, for all alike."


def _means(outcome: Outcome, model: str) -> Section:
    means = {own.key: own for own in outcome.design.means if own.shown and own.key[0] == model}
    rows = list(dict.fromkeys(column for _, _, column in means))
    columns = list(dict.fromkeys(row for _, row, _ in means))
    table = [(row, *(_interval(outcome, (model, column, row), MAIN) for column in columns)) for row in rows]
    lines = [
        "Means over tasks with 95% intervals over seeds and test items; the tasks are taken for all there are.",
        *_cautions(
            (f"{column} ({row})", found.caution)
            for (_, row, column), own in means.items()
            if len(own.parts) > 1 and (found := outcome.interval(own.key)) is not None
        ),
    ]
    return Section(f"{model}: means" if model else "Means", ("", *columns), tuple(table), tuple(lines))


def _differences(outcome: Outcome, name: str) -> Section:
    """Every comparison of a name, what Holm's correction counts together, and what is established."""
    compared = outcome.compared
    contrasts = [own for own in compared.contrasts if own.against.name == name]
    varied = len({own.against.references for own in contrasts if len(own.against.references) > 1}) > 0
    rows, cautions, ids = [], [], []
    for own in contrasts:
        label = _label(outcome, own.against.key)
        if any(each.metric != MAIN for each in contrasts):
            label = f"{metric_text(_metrics(outcome, outcome.ran[own.against.key])[own.metric])}: {label}"
        cautions.append((label, own.comparison.caution))
        tests = (own.comparison.p, own.p_holm, own.comparison.p_seeds, own.p_seeds_holm)
        reference = [own.reference[1]] if varied else []
        ids.append(row_id(name, own.against.key, own.metric))
        rows.append((label, *reference, difference_text(own.comparison), *map(p_text, tests), own.said))
    families = dict.fromkeys(own.against.family for own in contrasts)
    counted = "; ".join(f"{family} ({compared.count(family)})" for family in families)
    lines = [
        "Points with 95% intervals, on the same items and seeds. p: that the expected scores over seeds and items are "
        "equal; p, t: the paired t test over seeds, which takes these items for all there are.",
        *([f"Holm's correction counts together: {counted}."] if contrasts else []),
        *([_established(outcome, name)] if contrasts else []),
        *_cautions(cautions),
    ]
    missing = [own for own in outcome.design.against if own.name == name and compared.of(own.key, name) is None]
    if missing:
        which = listed([_label(outcome, own.key) for own in missing[:NAMED]])
        lines.append(f"Not compared, for one of the two failed: {which}{' and others' * (len(missing) > NAMED)}.")
    heads = ("", *(["against"] if varied else []), "difference", "p", "p (Holm)", "p, t", "p, t (Holm)", "verdict")
    return Section(f"Against {name}", heads, tuple(rows), tuple(lines), ids=tuple(ids))


def row_id(name: str, key: Key, metric: str = MAIN) -> str:
    """Where a link to the comparison of this cell leads."""
    return f"cell-{settings.digest([name, *key, metric])[:12]}"


def _established(outcome: Outcome, name: str) -> str:
    """Which differences by the tasks' own metrics the corrected test over seeds and items bears out."""
    own = [each for each in outcome.compared.contrasts if each.against.name == name and each.metric == MAIN]
    if not own:
        return ""
    clauses = []
    for word in ("better", "worse"):
        found = [each for each in own if each.said == word]
        if found:
            which = f": {listed([_label(outcome, each.against.key) for each in found])}" if len(found) <= NAMED else ""
            clauses.append(f"{len(found)} of {len(own)} {word}{which}")
    if not clauses:
        return f"Against {name} no difference is established: all {len(own)} may be chance."
    clear = sum(each.established for each in own)
    return (
        f"Against {name}, established: {'; '.join(clauses)}.{'' if clear == len(own) else ' The rest may be chance.'}"
    )


def _seeds(outcome: Outcome) -> Section:
    """The scores of each seed, ascending."""
    rows, on_test = [], outcome.design.split == "test"
    for own in _shown(outcome):
        names = _metrics(outcome, own)
        for name in names:
            drawn = outcome.compared.draws.get((own.cell.key, name))
            label = _label(outcome, own.cell.key)
            label = f"{metric_text(names[name])}, {label}" if len(names) > 1 else label
            each = drawn.points_S if drawn is not None else [score.test for score in own.scores]
            row = (label, " ".join(points(float(value)) for value in each) or "-")
            dev = " ".join(points(score.dev) for score in own.scores) if name == MAIN else ""
            rows.append((*row, dev or "-") if on_test else row)
    heads = ("", "on test", "on dev") if on_test else ("", "on dev")
    return Section("Each seed", heads, tuple(rows), ("Seeds ascending.",))


def _costs(outcome: Outcome) -> Section:
    """What each stage took."""
    ran = _shown(outcome)
    stages = list(dict.fromkeys(stage for own in ran for stage in own.costs))
    rows = []
    for own in ran:
        told = [_cost(own.costs[stage]) if stage in own.costs else ("-", "-") for stage in stages]
        rows.append((_label(outcome, own.cell.key), *(text for pair in told for text in pair)))
    heads = ("", *(text for stage in stages for text in (stage, "time")))
    return Section("Costs", heads, tuple(rows), ("Of one seed, the mean over seeds.",))


def _cost(cost: Cost) -> tuple[str, str]:
    return si(cost.flops, "FLOP"), duration(cost.seconds)


def _facts(outcome: Outcome) -> Section:
    """What else is known of each cell; what all cells of a task share stands with the task."""
    ran = _shown(outcome)
    names = [name for name in _fact_names(ran) if name not in _of_tasks(outcome)]
    if not names:
        return Section("Facts")
    rows = [(_label(outcome, own.cell.key), *(_fact(own.facts.get(name)) for name in names)) for own in ran]
    return Section("Facts", ("", *names), tuple(rows), ("What else is known of each row.",))


def _fact_names(ran: Iterable[Ran]) -> list[str]:
    return list(dict.fromkeys(name for own in ran for name in own.facts))


def _of_tasks(outcome: Outcome) -> list[str]:
    """The facts that all cells of a task share."""
    ran = _shown(outcome)
    columns = {own.cell.column for own in ran}
    return [
        name
        for name in _fact_names(ran)
        if all(len({own.facts.get(name) for own in ran if own.cell.column == column}) == 1 for column in columns)
    ]


def _tasks(outcome: Outcome) -> Section:
    """The tasks, what was done to the data, and what is not there."""
    design, names = outcome.design, _of_tasks(outcome)
    rows: dict[str, tuple[str, ...]] = {}
    for own in outcome.ran.values():
        task = own.cell.task
        sizes = (f"{task.sizes[split]:,}" for split in ("train", "dev", "test"))
        about = (metric_text(task.metric.name), *sizes, *(_fact(own.facts.get(name)) for name in names))
        rows.setdefault(own.cell.column, (own.cell.column, *about))
    lines = [
        "Rows of each split.",
        *design.notes,
        *(f"{name} is left out: {why}" for name, why in design.absent.items()),
    ]
    return Section("Data", ("", "metric", "train", "dev", "test", *names), tuple(rows.values()), tuple(lines))


def _shown(outcome: Outcome) -> list[Ran]:
    return [own for own in outcome.ran.values() if own.cell.shown]


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


# CSV and JSON


def as_csv(outcome: Outcome) -> str:
    """A line a cell and metric, then a line a mean; lists are separated by spaces."""
    design = outcome.design
    row_is, column_is = design.axes
    facts = list(dict.fromkeys(name for own in outcome.ran.values() for name in own.facts))
    stages = list(dict.fromkeys(stage for own in outcome.ran.values() for stage in own.costs))
    kinds = list(dict.fromkeys(own.name for own in design.against))
    lines: list[dict[str, Any]] = []
    for own in outcome.ran.values():
        for metric, metric_name in _metrics(outcome, own).items():
            key = own.cell.key
            line: dict[str, Any] = {"model": own.cell.model, row_is: own.cell.row, column_is: own.cell.column}
            line |= {_slug(name): own.facts.get(name) for name in facts}
            line |= {"train_rows": own.cell.task.sizes["train"], "metric": metric_name}
            line |= _estimate(outcome, key, metric) | {"split": design.split, "failed": own.failed}
            drawn = outcome.compared.draws.get((key, metric))
            each = list(drawn.points_S) if drawn is not None else [score.test for score in own.scores]
            line |= {"seeds": " ".join(str(score.seed) for score in own.scores)}
            line |= {"scores": " ".join(str(float(value)) for value in each)}
            line |= {"dev": " ".join(str(score.dev) for score in own.scores)}
            for name in kinds:
                line |= _contrast(name, outcome.compared.of(key, name, metric), outcome)
            for stage in stages:
                line |= {f"{_slug(stage)}_{unit}": getattr(own.costs.get(stage, Cost()), unit) for unit in UNITS}
            for name, losses in outcome.losses.items():
                loss = losses.get(own.cell.row)
                line |= {_slug(name): loss.loss if loss else None}
                line |= {f"{_slug(name)}_difference": loss.difference if loss else None}
            lines.append(line)
    heads = list(lines[0])
    for mean in (own for own in design.means if own.shown):
        model, row, column = mean.key
        line = {"model": model, row_is: row, column_is: f"mean: {column}", "split": design.split}
        line |= _estimate(outcome, mean.key, MAIN)
        for name in kinds:
            line |= _contrast(name, outcome.compared.of(mean.key, name), outcome)
        lines.append({name: value for name, value in line.items() if name in heads})
    file = io.StringIO()
    writer = csv.DictWriter(file, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def records(outcome: Outcome) -> list[dict[str, Any]]:
    """A record for each cell and seed. job: whose directory has the predictions, as result.json."""
    row_is, column_is = outcome.design.axes
    found = []
    several = [*outcome.ran.values(), *([outcome.chosen.ran] if outcome.chosen else [])]
    for own in several:
        split = "test" if outcome.chosen and own is outcome.chosen.ran else outcome.design.split
        for score in own.scores:
            about = {"model": own.cell.model, row_is: own.cell.row, column_is: own.cell.column, "metric": score.metric}
            job = own.cell.jobs_by_seed[score.seed].name
            found.append(
                {**about, "split": split, "seed": score.seed, "score": score.test, "dev": score.dev, "job": job}
            )
    return found


def _estimate(outcome: Outcome, key: Key, metric: str) -> dict[str, Any]:
    found, spread = outcome.interval(key, metric), _deviation(outcome, key, metric)
    if found is None:
        return dict.fromkeys(("mean", "sd", "low", "high"))
    return {"mean": found.mean, "sd": spread, "low": found.low, "high": found.high}


def _contrast(name: str, contrast: Contrast | None, outcome: Outcome) -> dict[str, Any]:
    kind = f"against_{_slug(name)}"
    if contrast is None:
        return dict.fromkeys((f"{kind}_reference", *(f"{kind}_{part}" for part in PARTS)))
    holms = {"p_holm": contrast.p_holm, "p_seeds_holm": contrast.p_seeds_holm}
    values = {part: holms[part] if part in holms else getattr(contrast.comparison, part) for part in PARTS}
    return {f"{kind}_reference": contrast.reference[1], **{f"{kind}_{part}": own for part, own in values.items()}}


# Words


def _label(outcome: Outcome, key: Key) -> str:
    """A cell or mean in words: its row, and column and model where there are several."""
    model, row, column = key
    cells = [own.cell for own in outcome.ran.values()]
    if key not in outcome.ran:  # a mean
        return f"{row}, {column}"
    label = row if len({cell.column for cell in cells}) == 1 else f"{column}: {row}"
    return f"{label} ({model})" if len({cell.model for cell in cells}) > 1 else label


def _interval(outcome: Outcome, key: Key, metric: str, *, short: bool = False) -> str:
    found = outcome.interval(key, metric)
    if found is None:
        return "failed" if key in outcome.failed else "-"
    return points(found.mean) if short else interval_text(found)


def _deviation(outcome: Outcome, key: Key, metric: str) -> float | None:
    drawn = outcome.compared.draws.get((key, metric))
    return None if drawn is None else float(np.std(drawn.points_S, ddof=1))


def _spread(outcome: Outcome, key: Key, metric: str) -> str:
    value = _deviation(outcome, key, metric)
    return "-" if value is None else points(value)


def _metrics(outcome: Outcome, ran: Ran) -> dict[str, str]:
    """MAIN and the other metrics that are reported of the cell -> their names."""
    main = ran.cell.task.metric.name
    named = [metric.name for metric in outcome.design.metrics(ran.cell.task.metric)]
    return {MAIN if name == main else name: name for name in named}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _fact(value: Any) -> str:
    """An amount with its thousands marked, a share or rate in three digits, and words as they are."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else si(value) if abs(value) >= 1000 else f"{value:.1f}"


def _cautions(several: Iterable[tuple[str, str]]) -> list[str]:
    """Each caution of the statistics once, with what it is about."""
    about: dict[str, list[str]] = {}
    total = 0
    for label, cautions in several:
        total += 1
        for caution in cautions.splitlines():
            about.setdefault(caution, []).append(label)
    told = []
    for caution, labels in about.items():
        which = "these" if len(labels) == total > 1 else f"{len(labels)} of these"
        which = which if len(labels) > NAMED or len(labels) == total > 1 else listed(labels)
        told.append(cautioned(which, len(labels), caution))
    return told
