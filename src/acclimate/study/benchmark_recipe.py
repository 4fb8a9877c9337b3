"""How a benchmark is run, as settings: how each of its datasets is read, and what every model does on it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from acclimate.core.types import Example, Split
from acclimate.methods import finetune, tfidf
from acclimate.methods.fitting import fitting
from acclimate.study.recipe import Recipe as Race
from acclimate.study.recipe import Search
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import Dataset, Form
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Task, drawn

MIDDLE = 10.0  # epochs


def blurb_search() -> Search:
    least, most = blurb.SEARCH.epochs
    return Search(blurb.SEARCH.rates, (float(least), MIDDLE, float(most)), blurb.SEARCH.batches)


@dataclass(frozen=True)
class Recipe:
    """A run of the benchmark. The defaults are the paper's.

    Of `finetune`, `pooling` is for relations whose texts say where the two mentions stand, the `tag_` settings are for
    tags of words and `sequence_layer` for labels of texts; other datasets have the defaults of these (`fitting`).
    """

    datasets: tuple[str, ...] = ()  # (): all whose files are there
    seeds: int = 0  # 0: as many as the paper averages over, 5 or 10
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's
    encoding: Literal["", "dummies", "markers", "original", "dummified"] = ""  # of ChemProt and DDI; "": what is there
    special: bool = False  # the tokenizer keeps whole what the encoding writes into texts
    baseline: bool = True  # beside the models, TF-IDF or a word list
    search: Search = field(default_factory=blurb_search)
    finetune: finetune.Recipe = field(default_factory=finetune.Recipe)
    tfidf: tfidf.Recipe = field(default_factory=tfidf.Recipe)

    def __post_init__(self) -> None:
        if self.seeds < 0 or self.seeds == 1:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give 2 or more, or 0: 5 or 10")
        for name in ("rows", "max_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least 0")

    def form(self, dataset: Dataset, data: Path) -> Form:
        """How the dataset is read. Raises ValueError where its files are not there."""
        asked = [form for form in dataset.forms if form.name == self.encoding]
        if len(dataset.forms) == 1 or not asked:
            return dataset.form_in(data)
        return replace(dataset, forms=tuple(asked)).form_in(data)

    def task(self, dataset: Dataset, form: Form) -> Task:
        """The dataset with no more training rows and tokens than the recipe allows."""
        task = dataset.task(form.name if len(dataset.forms) > 1 else "")
        limit = min(task.max_tokens, self.max_tokens or task.max_tokens)
        return replace(task, max_tokens=limit, read=partial(_read, task, self.rows, self.rows_seed))

    def race(self, dataset: Dataset, form: Form, task: Prepared) -> Race:
        """What each model does on the dataset, and the baseline."""
        own = fitting(self.finetune, task)
        if self.special:
            own = replace(own, special_tokens=tuple(dict.fromkeys((*own.special_tokens, *form.special))))
        return Race(
            seeds=self.seeds or dataset.runs,
            contestants=("TF-IDF",) if self.baseline else (),
            search=self.search,
            finetune=own,
            tfidf=self.tfidf,
        )


def _read(task: Task, rows: int, seed: int, root: Path, split: Split) -> list[Example]:
    examples = task.read(root, split)
    return drawn(examples, rows, seed) if split == "train" and rows else examples
