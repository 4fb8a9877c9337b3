"""What a grid came to, as a table in plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from acclimate.study.significance import LEVEL
from acclimate.study.tables import WIDTH, Row, aligned
from acclimate.study.verdict import remarks
from acclimate.study.wording import difference_text, interval_text, listed, metric_text, p_text, points, si

_LEGEND = (
    "Points on dev with 95% intervals over seeds and items; differences are from {first}. Epochs: over the task's\n"
    "rows in stage 1. FLOP: of stage 1, as computed; paper's: 6 x tokens x parameters, every row at full length."
)


def grid_text(table: Sequence[Row], facts: Mapping[str, Mapping[str, Any]]) -> str:
    """facts: variant -> what its first stage left (methods/tlm.py::COST), empty where it has none."""
    head = [
        "",
        f"dev {metric_text(table[0].metric)}",
        "each seed",
        "difference",
        "p (Holm)",
        "epochs",
        "FLOP",
        "paper's",
    ]
    body = []
    for row in table:
        stage_1 = facts[row.contestant]
        body.append(
            [
                row.contestant,
                interval_text(row.score),
                " ".join(points(score) for score in row.scores),
                difference_text(row.comparison),
                p_text(row.p_holm),
                f"{stage_1['internal_epochs']:.1f}" if stage_1 else "-",
                si(row.adapting.flops),
                si(stage_1["paper_flops"]) if stage_1 else "-",
            ]
        )
    said = [_established(table), *remarks(table)]
    told = "\n".join(fill(line, WIDTH) for line in said)
    return f"{aligned(head, body)}\n\n{_LEGEND.format(first=table[0].contestant)}\n\n{told}"


def _established(table: Sequence[Row]) -> str:
    """Which differences the corrected test bears out, in a sentence."""
    first, *others = table
    sides = {"better": 1, "worse": -1}
    clear = [row for row in others if row.p_holm is not None and row.p_holm < LEVEL and row.comparison is not None]
    clauses = []
    for word, sign in sides.items():
        names = [row.contestant for row in clear if row.comparison is not None and sign * row.comparison.difference > 0]
        if names:
            clauses.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} {word} than {first.contestant}")
    if not clauses:
        return "No difference is established: all of them may be chance."
    return f"On dev, {'; '.join(clauses)}." + ("" if len(clear) == len(others) else " The rest may be chance.")
