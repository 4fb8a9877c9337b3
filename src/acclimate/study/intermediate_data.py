"""The datasets of a matrix of pairs: read, prepared, and each without what would show it another one's dev or test set.

A training row of the first task holds an item of the second's dev or test set where one of its texts is the same as one
of the item's, nearly the same, or has at least half of its runs of 13 words (study/sealed.py, as of raw documents).
Items of fewer than 5 words ("Results:") are nobody's. Such rows are left out of the first task for that pair alone:
what every other pair, and its own row of the matrix, trains on stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from acclimate.core import ranks, settings
from acclimate.core.types import SPLITS, Example, Progress, Split, Watch, counted, unwatched
from acclimate.study.counting import CATALOGUES
from acclimate.study.intermediate_recipe import BASELINE, MORE, PAPER, Recipe
from acclimate.study.launch import dataset_of
from acclimate.study.sealed import Sealed, kind_of, whole
from acclimate.tasks import blurb
from acclimate.tasks.catalogue import dataset_named
from acclimate.tasks.labelled import Labelled, Own, fewer
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Kind, classes_in
from acclimate.text.overlap import normalised

# of a file, whose dataset belongs to no type of a benchmark
TYPES: Mapping[Kind, str] = {
    "sequence": "classification",
    "multilabel": "several labels",
    "score": "a number",
    "tokens": "tags",
    "span": "answers",
}
LEAKING: tuple[Split, ...] = ("dev", "test")
FEWEST_WORDS = 5  # of an item that can be held: headings stand in every abstract


@dataclass(frozen=True)
class Member:
    """A dataset of the matrix.

    name     as it is called in rows and columns; type: of task, as its benchmark groups them
    task     all of it, to train on by itself and to be scored on
    leaking  other dataset -> how many training rows here hold a text of its dev or test set; those with none left out
    parts    other dataset -> what is trained on before it: the task without those rows, where they are dropped
    notes    what a reader of the scores should know
    """

    name: str
    type: str
    task: Prepared
    leaking: Mapping[str, int]
    parts: Mapping[str, Prepared]
    notes: tuple[str, ...] = ()

    def before(self, target: str) -> Prepared:
        """What is trained on before the target."""
        return self.parts.get(target, self.task)


@dataclass(frozen=True)
class Given:
    """members: in the order of rows and columns; absent: dataset -> why it is not there."""

    members: tuple[Member, ...]
    absent: Mapping[str, str]


def given(recipe: Recipe, data: Path | None, out: Path, *, watch: Watch = unwatched) -> Given:
    """The datasets, prepared in folders of their names in `out`.

    data: the folder of a catalogue; None where all are files

    Raises ValueError for a dataset that is named and not there, for fewer than two, for two of one name, and as
    `read_own` and `published` do.
    """
    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data}: there is no such folder")
    if data is None and not recipe.datasets:
        raise ValueError("no datasets given: add --data DIR, a folder of datasets, or datasets=[...] that names files")
    read, absent = _read_all(recipe, data)
    for name, why in absent.items():
        watch(Progress("reading datasets", 0, 0, "datasets", {"note": f"{name} is left out: {why}"}))
    sealed = [
        Sealed({split: own.splits[split] for split in LEAKING})
        for own, _ in counted(read, watch, "reading datasets", total=len(read), unit="datasets", every=1)
    ]
    members = []
    for place, (own, kind) in enumerate(
        counted(read, watch, "looking for leaks", total=len(read), unit="datasets", every=1)
    ):
        held = {
            other.name: _leaking(own.splits["train"], sealed[at]) for at, (other, _) in enumerate(read) if at != place
        }
        held = {name: rows for name, rows in held.items() if rows}
        where = out / folder_of(own.name)
        task = _prepared(own, where / "data")
        dropped = held if recipe.leaks == "drop" else {}
        parts = {name: _prepared(_without(own, rows, name), where / _part(rows)) for name, rows in dropped.items()}
        leaking = {name: len(rows) for name, rows in held.items()}
        members.append(Member(own.name, kind, task, leaking, parts, (*own.cautions, *own.notes)))
    return Given(tuple(members), absent)


def folder_of(name: str) -> str:
    """Of a dataset's data in the directory of the study."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "dataset"


def _read_all(recipe: Recipe, data: Path | None) -> tuple[list[tuple[Labelled, str]], dict[str, str]]:
    read: list[tuple[Labelled, str]] = []
    absent: dict[str, str] = {}
    for given in recipe.datasets or PAPER:
        if not recipe.datasets and data is not None:  # of the paper's those whose files are there
            try:
                dataset_named(str(given), blurb.DATASETS).form_in(data)
            except ValueError as error:
                absent[str(given)] = str(error)
                continue
        read.append(_read(given, recipe, data))
    folders = [folder_of(own.name) for own, _ in read]
    if twice := [own.name for (own, _), folder in zip(read, folders, strict=True) if folders.count(folder) > 1]:
        raise ValueError(
            f"datasets: two of them are called '{twice[0]}'. Name each once, and rename a file of that name"
        )
    if taken := [own.name for own, _ in read if own.name in (BASELINE, MORE)]:
        raise ValueError(f"datasets: '{taken[0]}' is what a column of the table is called. Rename the file")
    if len(read) < 2:
        raise ValueError(f"fewer than two of the datasets are there, and a pair takes two. {' '.join(absent.values())}")
    return read, absent


def _read(given: str | Own, recipe: Recipe, data: Path | None) -> tuple[Labelled, str]:
    """A labelled file, or a dataset of those in the folder `data`; and of what type it is."""
    found = dataset_of(given, data)
    usual = not found.source and found.max_tokens == Own(train=Path()).max_tokens  # no limit of its own
    longest = recipe.max_tokens or found.max_tokens
    found = replace(found, max_tokens=longest if usual else min(found.max_tokens, longest))
    named = found.name.partition(",")[0].lower()
    datasets = [each for _, own_sets in CATALOGUES.values() for each in own_sets]
    types = [each.type for each in datasets if each.name.lower() == named and found.source]
    return fewer(found, recipe.rows, recipe.rows_seed), (types or [TYPES[found.kind]])[0]


def _leaking(rows: Sequence[Example], sealed: Sealed) -> frozenset[str]:
    """Ids of the rows that hold a sealed item."""
    telling = [len(normalised(whole(item)).split()) >= FEWEST_WORDS for _, item in sealed.items]
    texts = ((row.id, text) for row in rows for text in (row.text, row.pair) if text)
    return frozenset(
        name
        for name, _, matches in sealed.in_documents(texts)
        if any(kind_of(match) != "passage" and telling[int(match.reference)] for match in matches)
    )


def _without(own: Labelled, ids: frozenset[str], target: str) -> Labelled:
    """The dataset without these training rows; a class that only they had is one that nothing teaches."""
    train = tuple(row for row in own.splits["train"] if row.id not in ids)
    if not train:
        raise ValueError(
            f"{own.name}: every training row holds a text of the dev or test set of {target}, so nothing is left to "
            f"train on before it. Leave one of them out of datasets, or set leaks=keep"
        )
    borne = {label for row in train for label in classes_in(row.label)}
    untaught = tuple(label for label in own.labels if label not in borne and own.kind != "span")
    return replace(own, splits={**own.splits, "train": train}, untaught=(*own.untaught, *untaught))


def _part(ids: frozenset[str]) -> str:
    """A folder's name, the same for the same rows."""
    return f"without-{settings.digest(sorted(ids))[:12]}"


def _prepared(own: Labelled, place: Path) -> Prepared:
    assert set(own.splits) == set(SPLITS)
    return ranks.first_then_all(partial(prepare, own.task(), own.files[0].path, place))
