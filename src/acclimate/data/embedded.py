"""The dataset that comes with acclimate: titles of arXiv papers with their fields, and abstracts of other papers.

`data/arxiv/README.md` has its origin and licence; recipes/arxiv.py builds it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from acclimate.core.door import option

if TYPE_CHECKING:
    from acclimate.reading.labelled_files import LabelledFiles

NAME = "arxiv"  # by which a user names it as a task
FOLDER = Path(__file__).with_name(NAME)
ABSTRACTS = FOLDER / "abstracts.parquet"  # its raw text, where a user states none


def is_embedded(task: object) -> bool:
    """Return True for the name of the dataset; a file or folder of this name is the user's own."""
    return isinstance(task, str) and task == NAME and not Path(NAME).exists()


def embedded_files(labelled: LabelledFiles) -> LabelledFiles:
    """Return the files of the dataset, with the longest example, the metric and the seed of folds as stated.

    Raises ValueError for other options of labelled files.
    """
    options = {name: getattr(labelled, name) for name in ("max_tokens", "metric", "seed")}
    usual = type(labelled)(train=labelled.train, **options)
    if labelled != usual:
        raise ValueError(
            f"the dataset '{NAME}' already defines its splits, columns and kind. Remove the options for labelled "
            f"files, except {option('max_tokens')}, {option('metric')} and {option('split_seed')}"
        )
    dev, test = FOLDER / "dev.csv", FOLDER / "test.csv"
    return replace(usual, train=FOLDER / "arxiv.csv", dev=dev, test=test, text="title", label="field", id="id")
