"""A task in folds: the materials of a repeated cross-validation.

The labelled rows are divided again for each repeat (reading/splitting.py::fold_rows). Each fold is an ordinary
prepared task: the fold itself is the test set, and train and dev come from the other folds, a tenth of them dev. So
whatever reads the task's texts or labels, such as adaptation on them, is done for each fold without its test rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from acclimate.core import ranks
from acclimate.core.door import option
from acclimate.core.figures import listed
from acclimate.core.types import Example, Split, Watch, unwatched
from acclimate.data.materials import Fold, Materials, corpus_of_split
from acclimate.reading.labelled import FEWEST_ARTICLES, split_of
from acclimate.reading.splitting import SHARES, STRATA, bonds_of, divide, fold_rows
from acclimate.reports.page import amount
from acclimate.tasks.prepared import prepare
from acclimate.tasks.spans import PASSAGE
from acclimate.tasks.task import Task, as_read, classes_in

FOLDER = "folds"  # in the directory of a race: a folder for each number of folds
NAMED = 5  # classes that a sentence lists


def with_folds(
    materials: Materials,
    task: Task,
    rows: Sequence[Example],
    run: Path,
    *,
    articles: Mapping[str, str],
    folds: int,
    repeats: int,
    seed: int,
    watch: Watch = unwatched,
) -> Materials:
    """Return the materials with those of each fold, prepared in `run/folds`, and with a note on the division.

    task, rows  that are divided; a test set that is not among the rows stays sealed
    articles    id of a question -> title of its article; all questions of one article are in one fold, if there are
                as many articles as folds
    seed        of the division; each repeat divides the rows anew

    Raises ValueError where the rows cannot be divided, or where a fold would leave no training row of a class.
    """
    if any(PASSAGE in row.text for row in rows):
        raise ValueError(
            f"{option('folds')}: questions with several contexts, such as those of BioASQ, cannot be divided into "
            "folds. Remove it"
        )
    if task.kind == "span" and (bare := [row.id for row in rows if not row.spans]):
        raise ValueError(
            f"{option('folds')}: {amount(len(bare), 'question')}, such as {bare[0]!r}, have no position of the "
            "answer in the context, so the other folds cannot learn from them. Add the positions, or remove "
            f"{option('folds')}"
        )
    same, on_copies = bonds_of(rows, kind=task.kind)
    titles = {title for row in rows if (title := articles.get(row.id, ""))}
    whole = folds <= len(titles)
    divided_rows = [replace(row, group=articles.get(row.id) or row.group) for row in rows] if whole else rows
    # a dev set of whole articles would be far too large if there are few
    source_rows = divided_rows if len(titles) >= FEWEST_ARTICLES else rows
    place, fold_materials = run / FOLDER / f"{folds}", list[Materials]()
    untaught: set[str] = set()
    for repeat in range(repeats):
        divided = fold_rows(divided_rows, folds, kind=task.kind, same=same, seed=f"{seed}, repeat {repeat}")
        for number, held_out in enumerate(divided):
            fold = Fold(repeat, number)
            splits = _splits(source_rows, held_out, same, task, seed=f"{seed}, {fold}")
            taught = {name for row in splits["train"] for name in classes_in(row.label)}
            lacking = tuple(name for name in task.labels if name not in taught)
            untaught |= {*lacking} - {*task.untaught}
            divided_task = replace(
                task,
                read=partial(split_of, splits),
                prepare=as_read,
                untaught=tuple(dict.fromkeys((*task.untaught, *lacking))),
            )
            path = place / f"{repeat + 1}-{number + 1}"
            prepared = ranks.first_then_all(partial(prepare, divided_task, run, path))
            text = corpus_of_split(prepared, "train", run / "corpora", watch)
            fold_materials.append(replace(materials, task=prepared, task_text=text, fold=fold))
    if task.kind == "sequence" and untaught:
        raise ValueError(
            f"{option('folds')}: all rows with the label {listed([repr(name) for name in sorted(untaught)])} are in "
            "one fold. While that fold is held out, no model can learn the label. Label more such rows, merge the "
            "label with another one, or remove its rows"
        )
    strata = "" if task.kind == "span" else f", stratified by {STRATA.get(task.kind, 'label')}"
    note = (
        f"The {len(rows):,} labelled rows were divided into {folds} folds, {amount(repeats, 'time')} "
        f"independently{strata}, seed {seed}. A tenth of the rows outside each fold is "
        f"dev.{on_copies.replace('split', 'fold')}"
    )
    if titles:
        articles_kept = f" All questions of one of the {len(titles):,} articles are in one fold."
        articles_torn = (
            f" There are fewer articles ({len(titles):,}) than folds, so an article may be in several folds."
        )
        note += articles_kept if whole else articles_torn
    if groups := {row.group for row in rows} - {""}:
        note += f" Each of the {len(groups):,} groups is in one fold."
    note += " The usual split serves only to train the checkpoint that you get."
    sizes = materials.task.sizes
    if len(rows) == sizes["train"] + sizes["dev"]:
        note += f" The test set that was given, {sizes['test']:,} rows, is not used in any fold and remains sealed."
    notes = (note, *_rare_notes(task, rows, folds, untaught))
    return replace(materials, folds=tuple(fold_materials), notes=(*materials.notes, *notes))


def _splits(
    rows: Sequence[Example], held_out: Sequence[int], same: Sequence[int], task: Task, *, seed: str
) -> dict[Split, tuple[Example, ...]]:
    """Return the held-out rows as test, and the others divided into train and dev."""
    held_out_places = {*held_out}
    others = [place for place in range(len(rows)) if place not in held_out_places]
    parts = divide(
        [rows[place] for place in others],
        SHARES[("dev",)],
        kind=task.kind,
        same=[same[place] for place in others],
        seed=seed,
        origin=f"{option('folds')}: the rows of the other folds",
    )
    return {**{split: tuple(part) for split, part in parts.items()}, "test": tuple(rows[place] for place in held_out)}


def _rare_notes(task: Task, rows: Sequence[Example], folds: int, untaught: set[str]) -> Iterator[str]:
    """Yield notes on classes with fewer rows than folds. untaught: those that some model could not learn"""
    counts = Counter(name for row in rows for name in {*classes_in(row.label)})
    rare = [f"{name!r} ({count})" for name, count in sorted(counts.items()) if count < folds and task.kind != "span"]
    if rare:
        named = listed(rare) if len(rare) <= NAMED else f"{', '.join(rare[:NAMED])} and {len(rare) - NAMED:,} more"
        yield f"{named}: fewer rows than folds, so some folds do not test them."
    if untaught:
        names = sorted(untaught)
        named = listed(names) if len(names) <= NAMED else f"{', '.join(names[:NAMED])} and {len(names) - NAMED:,} more"
        yield (
            f"{named}: all rows are in one fold of a repeat, so the model that is tested on them was not trained on "
            "any."
        )
