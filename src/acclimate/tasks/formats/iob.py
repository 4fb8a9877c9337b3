"""Sentences of BLURB's tagged datasets: a word and its tag a line, as MTL-Bioinformatics-2016 and EBM-NLP have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from acclimate.core.types import Example, Rejected, Split
from acclimate.tasks.readers import Columns
from acclimate.tasks.tagged import tagged_rows
from acclimate.text.packed import LIMITS, Limits


def iob_examples(
    path: Path, split: Split, *, merged: bool = False, limits: Limits = LIMITS
) -> Iterator[Example | Rejected]:
    """An Example or a Rejected for each sentence; its group is its document, where `-DOCSTART-` lines part documents.

    merged  whether entities of all types are one: B-DNA and B-protein become B
    """
    for row in tagged_rows(path, Columns(), limits=limits):
        if isinstance(row, Rejected):
            yield row
            continue
        tags = tuple(tag.partition("-")[0] for tag in row.label) if merged else row.label
        yield Example(f"{split}:{row.number}", row.text, tags, None, f"{split}, {row.group}" if row.group else "")
