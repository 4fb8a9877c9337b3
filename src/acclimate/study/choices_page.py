"""What a study of model choices came to, as text and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from textwrap import fill

from acclimate.core.types import Split
from acclimate.study.grid_page import compared, said
from acclimate.study.tables import WIDTH, Row, aligned, as_csv
from acclimate.study.wording import duration, metric_text, points


@dataclass(frozen=True)
class Compared:
    """The variants on one dataset with one model.

    trained   training examples
    variants  in the order of the study, the standard first
    rows      a row a variant, the standard's first, then by falling score
    """

    dataset: str
    model: str
    trained: int
    variants: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Choices:
    """A study. table: of the paper; absent: dataset -> why it is not there."""

    study: str
    table: str
    split: Split
    found: tuple[Compared, ...]
    absent: Mapping[str, str]

    @cached_property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for own in self.found for name in own.variants))

    @cached_property
    def several(self) -> bool:
        """Whether there is more than one model."""
        return len({own.model for own in self.found}) > 1

    @property
    def text(self) -> str:
        """As STUDY.txt has it."""
        return choices_text(self)


def choices_text(result: Choices) -> str:
    """All means where there are several, then a table of each dataset and model with what chance may do to them."""
    parts = [_means(result)] if len(result.found) > 1 else []
    for own in result.found:
        title = f"{own.dataset}, {own.trained:,} training examples" + (f", {own.model}" if result.several else "")
        costs = [[duration(row.finetuning.seconds)] for row in own.rows]
        parts.append(
            f"{title}\n\n{compared(own.rows, result.split, ['tuning'], costs)}\n\n{said(own.rows, result.split)}"
        )
    seen = "the best of a run's looks at dev, so a little high for all alike" if result.split == "dev" else "test"
    legend = (
        f"As {result.table} of Gu et al. (2021). Points on {result.split} ({seen}) with 95% intervals over seeds and "
        f"items; differences are from the first row, p counts all of one table. Every variant has the same settings "
        f"and seeds. Tuning: one run."
    )
    parts.append("\n".join(fill(line, WIDTH) for line in [legend, *_left_out(result)]))
    return "\n\n".join(parts) + "\n"


def choices_csv(result: Choices) -> str:
    """Unrounded figures, a line for each dataset, model and variant: `tables.as_csv` with model and training rows."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, own in enumerate(result.found):
        head, *lines = csv.reader(io.StringIO(as_csv(own.rows)))
        if not number:
            writer.writerow(["model", "train_rows", "split", *head])
        writer.writerows([own.model, own.trained, result.split, *line] for line in lines)
    return file.getvalue()


def _means(result: Choices) -> str:
    """A row a dataset and model, a column a variant; a dash where the variant means nothing there."""
    body = []
    for own in result.found:
        means = {row.contestant: points(row.score.mean) for row in own.rows}
        title = f"{own.dataset} ({metric_text(own.rows[0].metric)})" + (f", {own.model}" if result.several else "")
        body.append([title, *(means.get(name, "-") for name in result.variants)])
    across = [list(line) for line in zip(["", *result.variants], *body, strict=True)]
    head, *lines = across if len(result.variants) > len(body) else [["", *result.variants], *body]
    return aligned(head, lines)


def _left_out(result: Choices) -> list[str]:
    return [f"{name} is left out: {why}" for name, why in result.absent.items()]
