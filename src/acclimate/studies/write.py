"""What was judged (studies/compare.py) as sections of a page, as CSV and in the files of a study.

Text and page give scores and differences in points (the metric times 100); CSV gives them unrounded, in units of the
metric, tokens, FLOP and seconds.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks
from acclimate.core.figures import cautioned, duration, listed, metric_text, p_text, points, si
from acclimate.core.types import Cost
from acclimate.report.page import Page, Section, page
from acclimate.report.table import difference_text, interval_text
from acclimate.statistics.significance import LEVEL
from acclimate.studies.compare import Cell, Judged, Pair

NAMED = 9  # differences at most that a caution names
_TOLD = ("difference", "low", "high", "p", "p_holm", "p_seeds", "p_seeds_holm", "p_permutation")


def scores_section(
    several: Sequence[Judged],
    split: str,
    *,
    trained: str,
    beside: Mapping[str, Mapping[str, str]] | None = None,
    lines: Sequence[str] = (),
) -> Section:
    """Every contestant's mean and standard deviation by every metric.

    trained: what was fine-tuned on, such as "100 rows"; beside: more columns, heading -> contestant -> cell
    """
    more = beside or {}
    rows = []
    for cells in zip(*(each.cells for each in several), strict=True):
        told = [text for cell in cells for text in (interval_text(cell.score), points(cell.spread))]
        name = cells[0].contestant
        rows.append((name, *told, *(own[name] for own in more.values())))
    columns = [text for each in several for text in (metric_text(each.metric), "sd")]
    seeds = len(several[0].cells[0].seeds)
    first = (
        f"Points on {split}, means over {seeds} seeds with 95% intervals over seeds and test items; sd: standard "
        f"deviation over seeds. Trained on {trained}. All metrics are of the same predictions."
    )
    return Section(f"Scores on {split}", ("", *columns, *more), tuple(rows), (first, *lines))


def pairs_section(several: Sequence[Judged], metric: str, *, t_test: str) -> Section:
    """Every comparison, and what those by the task's own metric come to. t_test: what the one over seeds is called."""
    rows = []
    cautions: dict[str, list[str]] = {}
    for each in several:
        for pair in each.pairs:
            own = pair.comparison
            about = f"{metric_text(each.metric)}: {own.contestant} against {own.reference}"
            tests = (own.p, pair.p_holm, own.p_seeds, pair.seeds_holm)
            rows.append((about, difference_text(own), *map(p_text, tests)))
            for caution in own.caution.splitlines():
                cautions.setdefault(caution, []).append(about)
    lines = [
        f"p: that the expected scores over seeds and test items are equal; p, t: {t_test}, which takes these test "
        "items for all there are. Holm: over the pairs of a metric.",
        _verdict(several, metric),
        *(cautioned(_figures(names, len(rows)), len(names), caution) for caution, names in cautions.items()),
    ]
    columns = ("", "difference", "p", "p (Holm)", "p, t", "p, t (Holm)")
    return Section("Differences", columns, tuple(rows), tuple(lines))


def _figures(names: Sequence[str], differences: int) -> str:
    """What a caution is about: by name, or how many of the differences where that would be a page."""
    if len(names) <= NAMED:
        return listed(names)
    return "these differences" if len(names) == differences else f"{len(names)} of these differences"


def _verdict(several: Sequence[Judged], metric: str) -> str:
    """Which differences of the task's own metric the corrected test over seeds and items bears out."""
    [own] = [each for each in several if each.metric == metric]
    clear = [pair for pair in own.pairs if pair.p_holm < LEVEL]
    told = [
        f"{pair.comparison.contestant} is {'better' if pair.comparison.difference > 0 else 'worse'} than "
        f"{pair.comparison.reference}"
        for pair in clear
    ]
    rest = "" if len(clear) == len(own.pairs) else " The rest may be chance." if clear else " All may be chance."
    return f"By {metric_text(own.metric)}, {listed(told) if told else 'no difference is established'}.{rest}"


def seeds_section(several: Sequence[Judged]) -> Section:
    rows = [
        (f"{metric_text(each.metric)}, {cell.contestant}", " ".join(points(value) for value in cell.points))
        for each in several
        for cell in each.cells
    ]
    return Section("Each seed", ("", "seeds, ascending"), tuple(rows))


def costs_section(cells: Sequence[Cell], costs: Callable[[Cell], Mapping[str, Cost]], line: str) -> Section:
    """costs: of a contestant's stages, by the headings of their columns."""
    rows = []
    for cell in cells:
        told = [text for cost in costs(cell).values() for text in (si(cost.flops, "FLOP"), duration(cost.seconds))]
        rows.append((cell.contestant, *told))
    columns = ("", *(text for stage in costs(cells[0]) for text in (stage, "time")))
    return Section("Costs", columns, tuple(rows), (line,))


def judged_csv(
    several: Sequence[Judged],
    about: Mapping[str, object],
    against: Sequence[str],
    more: Callable[[Cell], Mapping[str, object]],
) -> str:
    """A line for each metric and contestant: `about` in every one, then scores, differences from each of `against` in
    columns of its name, and `more`. Lists are separated by spaces.
    """
    lines = []
    for each in several:
        pairs = {(own.comparison.contestant, own.comparison.reference): own for own in each.pairs}
        for cell in each.cells:
            line = {**about, "metric": each.metric, "contestant": cell.contestant, "mean": cell.score.mean}
            line |= {"sd": cell.spread, "low": cell.score.low, "high": cell.score.high}
            line |= {"seeds": " ".join(map(str, cell.seeds)), "scores": " ".join(map(str, cell.points))}
            for name in against:
                told = _differences(pairs.get((cell.contestant, name)))
                line |= {f"against_{name}_{part}": value for part, value in zip(_TOLD, told, strict=True)}
            lines.append({**line, **more(cell)})
    file = io.StringIO()
    writer = csv.DictWriter(file, [*lines[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def cost_columns(costs: Mapping[str, Cost]) -> dict[str, object]:
    return {
        f"{stage}_{unit}": getattr(cost, unit)
        for stage, cost in costs.items()
        for unit in ("tokens", "flops", "seconds")
    }


def write_study(
    run: Path,
    study: str,
    *,
    title: str,
    heading: str,
    sections: Sequence[Section],
    sheet: str,
    records: Sequence[Mapping[str, Any]],
    source: str,
) -> None:
    """`run/STUDY.txt`, `.html`, `.csv` (the sheet) and `.scores.json` (the records)."""
    if ranks.is_first():
        files.write_json(run / f"{study}.scores.json", [*records])
        files.write_text(run / f"{study}.csv", sheet)
        files.write_text(run / f"{study}.txt", page(heading, sections))
        Page(title, heading, sections, source=source).write(run / f"{study}.html")
    ranks.wait()


def _differences(pair: Pair | None) -> list[float | None]:
    if pair is None:
        return [None] * len(_TOLD)
    own = pair.comparison
    return [own.difference, own.low, own.high, own.p, pair.p_holm, own.p_seeds, pair.seeds_holm, own.p_permutation]
