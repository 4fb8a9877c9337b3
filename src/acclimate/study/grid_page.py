"""What a grid came to: a table in plain text, and its scores as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import fill
from typing import Any

from acclimate.core.types import Score, Split
from acclimate.study import forgetting
from acclimate.study.forgetting import Losses
from acclimate.study.significance import LEVEL
from acclimate.study.tables import WIDTH, Row, aligned
from acclimate.study.verdict import remarks
from acclimate.study.wording import difference_text, interval_text, listed, metric_text, p_text, points, si

_LEGEND = (
    "Points on dev with 95% intervals over seeds and items; differences are from {first}. Epochs: over the task's\n"
    "rows in stage 1. FLOP: of stage 1, as computed; paper's: 6 x tokens x parameters, every row at full length."
)


def grid_text(table: Sequence[Row], facts: Mapping[str, Mapping[str, Any]], general: Losses) -> str:
    """facts: variant -> what its first stage left (methods/tlm.py::COST), empty where it has none. general: losses on
    general text, those of variants that go on from a model.
    """
    losses = forgetting.beside([row.contestant for row in table], general)
    costs = []
    for row in table:
        stage_1 = facts[row.contestant]
        epochs, flops = (f"{stage_1['internal_epochs']:.1f}", si(stage_1["paper_flops"])) if stage_1 else ("-", "-")
        costs.append([epochs, si(row.adapting.flops), flops, *([str(losses[row.contestant])] if losses else [])])
    head = ["epochs", "FLOP", "paper's", *([forgetting.HEADING] if losses else [])]
    legend = [_LEGEND.format(first=table[0].contestant)]
    legend += [fill(f"General loss: {forgetting.MEANING}", WIDTH)] if losses else []
    return "\n\n".join([compared(table, "dev", head, costs), "\n".join(legend), said(table, "dev")])


def compared(table: Sequence[Row], split: Split, head: Sequence[str], costs: Sequence[Sequence[str]]) -> str:
    """Each variant's score with the difference from the first, and what it cost, in columns of these names."""
    columns = ["", f"{split} {metric_text(table[0].metric)}", "each seed", "difference", "p (Holm)", *head]
    body = [
        [
            row.contestant,
            interval_text(row.score),
            " ".join(points(score) for score in row.scores),
            difference_text(row.comparison),
            p_text(row.p_holm),
            *own,
        ]
        for row, own in zip(table, costs, strict=True)
    ]
    return aligned(columns, body)


def said(table: Sequence[Row], split: Split) -> str:
    """Which differences the corrected test bears out, in a sentence, and what to mind of it."""
    return "\n".join(fill(line, WIDTH) for line in [_established(table, split), *remarks(table)])


def records(scores: Sequence[Score], split: Split, **more: str) -> list[dict[str, Any]]:
    """The scores for a file: `score` is that on the items of `split`; `dev` beside it where that is another one."""
    found = []
    for score in scores:
        own = asdict(score)
        value = own.pop("test")
        if split == "dev":
            own.pop("dev")
        found.append({"variant": own.pop("contestant"), **more, "split": split, "score": value, **own})
    return found


def _established(table: Sequence[Row], split: Split) -> str:
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
    return f"On {split}, {'; '.join(clauses)}." + ("" if len(clear) == len(others) else " The rest may be chance.")
