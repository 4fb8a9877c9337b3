"""The front door of retrieval: a user's files in, the documents that resemble them out, in one call."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from acclimate.core import files, ranks
from acclimate.core.types import Progress, Watch, unwatched
from acclimate.study import retrieving
from acclimate.study.materials import corpus_at, note_on
from acclimate.study.retrieving import Recipe, Retrieved
from acclimate.tasks.own import Own, read_own


def retrieve(
    train: str | Path,
    *,
    corpus: str | Path,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    text: str = "text",
    label: str = "label",
    pair: str | None = None,
    group: str | None = None,
    id: str | None = None,
    kind: Literal["auto", "sequence", "multilabel", "score", "tokens", "span"] = "auto",
    separator: str = "",
    fold_labels: bool = False,
    split_seed: int = 0,
    separated: Literal["line", "blank"] = "line",
    recipe: Recipe | None = None,
    shards: int = 1,
    cluster: str = "",
    out: str | Path = "runs/retrieve",
    watch: Watch = unwatched,
) -> Retrieved:
    """The documents of a large corpus that the training texts resemble: what TLM trains on beside the task.

    train, dev, test   labelled files as `race` takes them, with the same columns and kinds; the texts of train ask,
                       and no document with a text of dev or test, given or split off, is among the result
    corpus             raw text, a file or folder, or a folder made by write_corpus
    recipe             study.retrieving.Recipe: K, random control, keywords, duplicates
    shards, cluster    as in study.retrieving.retrieve; the result depends on neither
    out                directory of the run; the same call again goes on there, or opens what is there

    `.corpus` is an ordinary corpus, best documents first, `.selection` says which text brought which, `.facts` counts,
    `.as_text()` is the report. Raises ValueError for whatever is wrong with the files and settings.
    """
    dev, test = (Path(path) if path else None for path in (dev, test))
    own = Own(
        train=Path(train),
        dev=dev,
        test=test,
        text=text,
        label=label,
        pair=pair,
        group=group,
        id=id,
        kind=kind,
        separator=separator,
        fold_labels=fold_labels,
        seed=split_seed,
    )
    with files.hold(Path(out)) if ranks.is_first() else nullcontext():
        return for_files(
            own,
            Path(corpus),
            Path(out),
            recipe or Recipe(),
            separated=separated,
            shards=shards,
            cluster=cluster,
            watch=watch,
        )


def for_files(
    own: Own,
    corpus: Path,
    out: Path,
    recipe: Recipe,
    *,
    separated: Literal["line", "blank"],
    shards: int,
    cluster: str,
    watch: Watch,
) -> Retrieved:
    """As `retrieve`, in a directory that the caller holds. What was left out of the files is told to `watch`."""
    labelled = read_own(own)
    searched = corpus_at(corpus, out, separated=separated, watch=watch)
    for note in filter(None, [*labelled.notes, note_on(searched)]):
        watch(Progress("files", 0, 0, "rows", {"note": note}))
    return ranks.first_then_all(
        lambda: retrieving.retrieve(searched, labelled.splits, out, recipe, shards=shards, cluster=cluster, watch=watch)
    )
