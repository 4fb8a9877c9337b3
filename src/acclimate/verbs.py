"""Verbs that stand for themselves, outside a race; cli.py, which has the others, lists them all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acclimate import options
from acclimate.session import errors_told, say, started, stated_recipe, watched

if TYPE_CHECKING:
    from acclimate.tasks.own import Own


@options.of_files
def retrieve(
    own: Own,
    task: options.Asking = None,
    assignments: options.Assignments = None,
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="Raw text to retrieve from, a file or folder.")
    ] = None,
    separated: options.Separated = "line",
    k: options.K = None,
    how: options.How = None,
    queries: options.Queries = None,
    cut_from: options.From = None,
    shards: Annotated[int, typer.Option("--shards", help="Cut the index into so many.", min=1)] = 1,
    cluster: Annotated[
        str, typer.Option("--cluster", help="Ray cluster that works on the shards: auto, or HOST:PORT.")
    ] = "",
    out: options.Out = Path("runs/retrieve"),
    recipe: options.RecipeFile = None,
) -> None:
    """Retrieve the documents that training texts resemble (TLM): OUT/corpus, who brought which, and a report.

    Or cut a smaller K from what was retrieved before, with --from and --k.
    """
    from acclimate.core import ranks
    from acclimate.study import retrieving
    from acclimate.study.materials import corpus_at, note_on
    from acclimate.tasks.own import read_own

    with errors_told(), started(out) as console:
        stated = {"k": k, "how": how, "queries": queries}
        settings = [*(assignments or []), *(f"{name}={value}" for name, value in stated.items() if value is not None)]
        with watched(console, None, out) as watch:
            if cut_from is not None:
                if k is None or settings != [f"k={k}"] or task or corpus or recipe or own != type(own)(train=own.train):
                    raise ValueError(
                        f"--from {cut_from} cuts what was retrieved there: give --k and --out, nothing else"
                    )
                done = ranks.first_then_all(lambda: retrieving.cut(cut_from, k, out, watch=watch))
            else:
                if task is None or corpus is None:
                    what = (
                        "no FILE given whose texts ask"
                        if task is None
                        else "no corpus given. Add --corpus PATH, raw text"
                    )
                    raise ValueError(f"{what}; or cut a smaller K from a retrieval with --from RUN --k NUMBER")
                chosen = stated_recipe(retrieving.Recipe(), recipe, settings)
                labelled = read_own(own)
                searched = corpus_at(corpus, out, separated=separated, watch=watch)
                say(console, "\n".join(filter(None, [*labelled.notes, note_on(searched)])))
                splits = labelled.splits
                spread: dict[str, Any] = {"shards": shards, "cluster": cluster}
                done = ranks.first_then_all(
                    lambda: retrieving.retrieve(searched, splits, out, chosen, **spread, watch=watch)
                )
        say(console, done.as_text())
        say(console, f"Documents: {done.corpus.path}\nWho brought which: {done.selection.path}")
