"""Several models on several datasets: what the studies of BLURB's and STILT's papers take in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from acclimate.core import ranks
from acclimate.core.types import Example, Split
from acclimate.data.published import CATALOGUES
from acclimate.methods.baselines import BASELINE, DICTIONARY
from acclimate.methods.finetune import FinetuneRecipe, fitting
from acclimate.models.encoder import longest_input
from acclimate.models.loading import identity, resolved, short_names
from acclimate.races.race import dataset_of
from acclimate.tasks.datasets.catalogue import Dataset, Form, dataset_named
from acclimate.tasks.labelled import Labelled, LabelledFiles, fewer
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, Task, drawn

CONSTANT, NO_ENCODER = "constant", "no encoder"  # rows of the baselines
# of a file, whose dataset belongs to no type of a benchmark
TYPES: Mapping[Kind, str] = {
    "sequence": "classification",
    "multilabel": "several labels",
    "score": "a number",
    "tokens": "tags",
    "span": "answers",
}
Found = TypeVar("Found")


@dataclass(frozen=True)
class Model:
    """name: as tables have it; key: what its jobs are called by, the same wherever it lies; where: directory or id."""

    name: str
    key: str
    where: str


def models_of(models: Sequence[str]) -> tuple[Model, ...]:
    """The models with names that tell them apart. Raises ValueError for none, and for two that are the same."""
    if not models:
        raise ValueError("no model given: name one or more, directories or hub ids")
    places = [resolved(model) for model in models]
    keys = [identity(place)[:12] if Path(place).is_dir() else place for place in places]
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise ValueError(f"{models[keys.index(key)]} and {models[at]} are the same model. Give it once")
    taken = (CONSTANT, NO_ENCODER, BASELINE, DICTIONARY)  # a directory of such a name would share a baseline's row
    names = [f"{name} (model)" if name in taken else name for name in short_names(places)]
    return tuple(Model(*own) for own in zip(names, keys, places, strict=True))


def called(models: Iterable[Model]) -> dict[str, str]:
    """What stands for each model in labels of jobs -> its name."""
    return {model.key: model.name for model in models}


def check_lengths(models: Iterable[Model], lengths: Mapping[str, int]) -> None:
    """Raises ValueError where a model cannot read texts as long as a dataset's. lengths: dataset -> tokens."""
    for model in models:
        longest = longest_input(model.where)
        for name, tokens in lengths.items():
            if longest is not None and tokens > longest:
                raise ValueError(
                    f"{name} has examples of up to {tokens} tokens, but {model.name} reads at most {longest}. "
                    f"Add max_tokens={longest}"
                )


def there(
    names: Sequence[str], usual: Sequence[Dataset], known: Sequence[Dataset], find: Callable[[Dataset], Found]
) -> tuple[list[tuple[Dataset, Found]], dict[str, str]]:
    """The datasets that are there, each with what `find` found; and dataset -> why it is not.

    names, usual, known  those that are stated, by name; those taken where none are; those that names are looked up in

    Raises ValueError where one that is stated is not there.
    """
    found: list[tuple[Dataset, Found]] = []
    absent: dict[str, str] = {}
    for dataset in [dataset_named(name, known) for name in names] or usual:
        try:
            found.append((dataset, find(dataset)))
        except ValueError as error:
            if names:
                raise
            absent[dataset.name] = str(error)
    return found, absent


def form_of(dataset: Dataset, data: Path, encoding: str = "") -> Form:
    """How the dataset is read: in this encoding, or as its files are. Raises ValueError where they are not there."""
    asked = [form for form in dataset.forms if form.name == encoding]
    if len(dataset.forms) == 1 or not asked:
        return dataset.form_in(data)
    return replace(dataset, forms=tuple(asked)).form_in(data)


def task_of(dataset: Dataset, form: Form, *, rows: int, rows_seed: int, max_tokens: int) -> Task:
    """The dataset with no more training rows and tokens than stated; 0: all."""
    task = dataset.task(form.name if len(dataset.forms) > 1 else "")
    limit = min(task.max_tokens, max_tokens or task.max_tokens)
    return replace(task, max_tokens=limit, read=partial(_read, task, rows, rows_seed))


def _read(task: Task, rows: int, seed: int, root: Path, split: Split) -> list[Example]:
    examples = task.read(root, split)
    return drawn(examples, rows, seed) if split == "train" and rows else examples


def prepared(task: Task, data: Path, place: Path) -> Prepared:
    return ranks.first_then_all(lambda: prepare(task, data, place))


def prepared_file(found: Labelled, out: Path) -> Prepared:
    """A dataset as it was read, prepared in a folder of its name."""
    task, source = found.task(), found.files[0].path
    return ranks.first_then_all(lambda: prepare(task, source, out / folder_of(found.name) / "data"))


def folder_of(name: str) -> str:
    """Of a dataset's data in the directory of a study."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "dataset"


def fitted(stated: FinetuneRecipe, task: Prepared, form: Form | None, *, special: bool) -> FinetuneRecipe:
    """What of the settings means something on the task. special: the tokenizer keeps whole what the form writes."""
    found = fitting(stated, task)
    if form is None or not special:
        return found
    return replace(found, special_tokens=tuple(dict.fromkeys((*found.special_tokens, *form.special))))


def labelled(
    named: str | LabelledFiles, data: Path | None, *, rows: int, rows_seed: int, max_tokens: int
) -> tuple[Labelled, str]:
    """A labelled file, or a dataset of those in the folder `data`; and of what type it is."""
    found = dataset_of(named, data)
    usual = not found.source and found.max_tokens == LabelledFiles(train=Path()).max_tokens  # no limit of its own
    longest = max_tokens or found.max_tokens
    found = replace(found, max_tokens=longest if usual else min(found.max_tokens, longest))
    name = found.name.partition(",")[0].lower()
    datasets = [each for _, several in CATALOGUES.values() for each in several]
    types = [each.type for each in datasets if each.name.lower() == name and found.source]
    return fewer(found, rows, rows_seed), (types or [TYPES[found.kind]])[0]
