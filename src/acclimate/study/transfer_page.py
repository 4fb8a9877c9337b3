"""The pages of ranked intermediate tasks: text, CSV, JSON."""

from __future__ import annotations

import math
from pathlib import Path

from acclimate.core import files, ranks
from acclimate.study.transfer_check import FIRST
from acclimate.study.transfer_predictors import MEAN, PREDICTORS
from acclimate.study.transfer_result import Recommendation, points
from acclimate.study.typeset import Section, amount, page

NAME = "recommended"
MEASURED = "measured"


def as_text(found: Recommendation) -> str:
    """Tables of candidates, predictors, agreement with a matrix, costs; the last line says which to take."""
    rows = amount(found.target_rows, "training row")
    sections = [_ranking(found), _predictors(found)]
    if found.checked is not None:
        sections += [_agreement(found), _targets(found)]
    sections += [_costs(found), Section("What to take", lines=(*found.notes, found.verdict))]
    return page(f"Intermediate tasks for {found.target} ({found.kind}, {rows}) with {found.model}", sections)


def write_pages(out: Path, found: Recommendation) -> list[Path]:
    """`out/recommended.txt`, `.csv` and `.json`."""
    places = [out / f"{NAME}.{ending}" for ending in ("txt", "csv", "json")]
    if ranks.is_first():
        files.write_text(places[0], as_text(found))
        files.write_text(places[1], found.csv())
        files.write_json(places[2], found.record())
    ranks.wait()
    return places


def _ranking(found: Recommendation) -> Section:
    names = [name for name in found.candidates[0].values if name != "same kind"]  # which the kinds say
    shown = (*names, MEASURED) if found.measured else names
    rows = []
    for row in found.ranked:
        cells = [_number(row.values[name], name) for name in names]
        cells += [points(found.measured[row.name]) if row.name in found.measured else "-"] if found.measured else []
        rows.append((row.name, row.kind, *cells, f"{row.leaks:,}"))
    lines = ["Best mean rank first. The larger a number, the more should the candidate help; mean rank: 1 is best."]
    if any(row.leaks for row in found.candidates):
        lines.append(
            f"Leaks: training rows whose text stands in dev or test of {found.target}. Leave them out to train."
        )
    return Section("Candidates", ("", "kind", *shown, "leaks"), tuple(rows), tuple(lines))


def _predictors(found: Recommendation) -> Section:
    names = [name for name in found.candidates[0].values if name in PREDICTORS]
    lines = [f"{name}: {PREDICTORS[name].told}." for name in names]
    alone = [name for name in names if not PREDICTORS[name].aims]
    lines.append(f"{' and '.join(alone)} do not look at the target; mean rank is that by the others.")
    if "fine-tuned on A" not in names:
        lines.append('None needs a model that was fine-tuned on a candidate; LogME by such does: tuned=["NAME=DIR"].')
    return Section("Predictors", lines=tuple(lines))


def _agreement(found: Recommendation) -> Section:
    rows = [
        (
            each.predictor,
            f"{len(each.targets)}",
            f"{each.rho:.2f}",
            "-" if each.interval is None else _range(each.interval),
            _range(each.chance),
            f"{each.tau:.2f}",
            f"{each.p_holm:.3f}",
            *(f"{100 * each.regret[k]:.2f} ({100 * each.random[k]:.2f})" for k in FIRST),
        )
        for each in found.checked or ()
    ]
    columns = ("", "targets", "rho", "interval", "chance", "tau", "p (Holm)", *(f"regret@{k}" for k in FIRST))
    lines = (
        "rho, tau: Spearman's and Kendall's rank correlation with the measured differences, means over targets. "
        "Interval: over targets drawn anew, at 95%; they share candidates, so it is too narrow.",
        "Chance: between what 95% of rho lies where the candidates' names change places, the same for all targets; "
        "p: how often it is as large, corrected for all predictors. Of one target with 5 candidates a rho of .7 is "
        "chance: one order in nine has it.",
        "Regret: points lost by the best of the first k against the best of all; in brackets, of k at random.",
    )
    return Section("Predicted and measured", columns, tuple(rows), lines)


def _targets(found: Recommendation) -> Section:
    rows = [
        (
            own.target,
            each.predictor,
            str(own.candidates),
            f"{own.rho:.2f}",
            _range((own.low, own.high)),
            *(f"{100 * own.regret[k]:.2f}" for k in FIRST),
        )
        for each in found.checked or ()
        for own in each.targets
    ]
    rows.sort(key=lambda row: row[0])
    columns = ("target", "", "candidates", "rho", "chance", *(f"regret@{k}" for k in FIRST))
    return Section("For each target", columns, tuple(rows))


def _costs(found: Recommendation) -> Section:
    rows = [
        (own.name, f"{own.rows:,}", f"{own.tokens:,}", f"{own.flops:.2e}", f"{own.seconds:.1f} s")
        for own in found.passes
    ]
    total = sum(own.seconds for own in found.passes)
    line = f"{total:.1f} s in all, loading left out. What a pass gave is kept, and no pass is made again."
    return Section("Costs", ("", "rows", "tokens", "FLOP", "time"), tuple(rows), (line,))


def _number(value: float, name: str) -> str:
    if math.isnan(value):
        return "-"
    if name == MEAN:
        return f"{-value:.1f}"
    if name == "rows":
        return f"{value:,.0f}"
    return f"{value:.4f}" if name == "TextEmb" else f"{value:.3f}"  # of mean states all cosines are near 1


def _range(limits: tuple[float, float]) -> str:
    return f"{limits[0]:.2f} to {limits[1]:.2f}"
