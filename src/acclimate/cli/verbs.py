"""Verbs that stand for themselves, outside a race; cli.py, which has the others, lists them all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from acclimate.cli import options
from acclimate.cli.session import (
    errors_told,
    models_and_settings,
    say,
    screen,
    started,
    stated_recipe,
    studying,
    watched,
)

if TYPE_CHECKING:
    from acclimate.jobs.workers import Where
    from acclimate.tasks.labelled import Own


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
    from acclimate.data import retrieve
    from acclimate.data.retrieve import for_files

    with errors_told(), started(out) as console:
        stated = {"k": k, "how": how, "queries": queries}
        settings = [*(assignments or []), *(f"{name}={value}" for name, value in stated.items() if value is not None)]
        with watched(console, None, out) as watch:
            if cut_from is not None:
                if k is None or settings != [f"k={k}"] or task or corpus or recipe or own != type(own)(train=own.train):
                    raise ValueError(
                        f"--from {cut_from} cuts what was retrieved there: give --k and --out, nothing else"
                    )
                done = ranks.first_then_all(lambda: retrieve.cut(cut_from, k, out, watch=watch))
            else:
                if task is None or corpus is None:
                    what = (
                        "no FILE given whose texts ask"
                        if task is None
                        else "no corpus given. Add --corpus PATH, raw text"
                    )
                    raise ValueError(f"{what}; or cut a smaller K from a retrieval with --from RUN --k NUMBER")
                chosen = stated_recipe(retrieve.RetrieveRecipe(), recipe, settings)
                given: dict[str, Any] = {"separated": separated, "shards": shards, "cluster": cluster, "watch": watch}
                done = for_files(own, corpus, out, chosen, **given)
        say(console, done.as_text())
        say(console, f"Documents: {done.corpus.path}\nWho brought which: {done.selection.path}")


def fetch(
    catalogue: Annotated[
        str, typer.Argument(metavar="CATALOGUE", help="blurb or questions; with --from also tlm, dga, glue.")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to fill; the same command goes on there.")],
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="A copy to take the files from, in place of the web.")
    ] = None,
) -> None:
    """Fetch a benchmark's files from where they are published, checked by their hashes; or check and take a copy."""
    from acclimate.core import files
    from acclimate.data import fetch
    from acclimate.data.published import datasets_of

    with errors_told(), screen() as console:
        datasets = datasets_of(catalogue)
        with files.hold(to), watched(console, None, to) as watch:
            if source is None:
                done = fetch.fetch(datasets, to, watch=watch)
            else:
                done = fetch.copy(datasets, source, to, watch=watch)
        say(console, f"{done.as_text()}\nTo count what is there: acclimate doctor {catalogue} --data {to}")


@options.of_files
def blurb(
    given: Annotated[
        list[str],
        typer.Argument(metavar="MODEL... [KEY=VALUE]...", help="Directories or hub ids; settings of the run."),
    ],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder that `acclimate fetch blurb` filled.")],
    where: Where,
    out: options.Out = Path("runs/blurb"),
    recipe: options.RecipeFile = None,
    track: options.Track = None,
    dry_run: options.DryRun = False,
) -> None:
    """Fine-tune and test models on all of BLURB: a row a dataset, a column a model, the BLURB score."""
    from acclimate.race.outcome import PAGE
    from acclimate.race.recipe import heeded
    from acclimate.studies.blurb import BlurbRecipe, as_text, plan, run_benchmark

    with errors_told(), started(out, held=not dry_run) as console, studying(out, where, plans=dry_run) as noted:
        models, assignments = models_and_settings(given)
        stated = noted(heeded(stated_recipe(BlurbRecipe(), recipe, assignments), BlurbRecipe()))
        if dry_run:
            say(console, plan(stated, models, data, out).as_text())
            return
        with watched(console, track, out) as watch:
            found = run_benchmark(stated, models, data, out, watch=watch)
        say(console, f"{as_text(found)}\nReport: {out / PAGE}")


def embeddings(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Local directories or hub ids; compared with the first.")
    ],
    texts: Annotated[
        Path | None, typer.Option("--texts", help="Raw text of the domain, or a table: its pieces by themselves.")
    ] = None,
    column: Annotated[str, typer.Option("--text", help="Column of the text, where there are columns.")] = "text",
    words: Annotated[str, typer.Option("--words", help="Such as lead,cell: their nearest words in each model.")] = "",
    axes: Annotated[
        Literal["first", "all"], typer.Option("--axes", help="Principal axes of the first model's rows, or of all.")
    ] = "first",
    out: Annotated[Path, typer.Option("--out", help="Page to write; distances as CSV beside it.")] = Path(
        "embeddings.html"
    ),
) -> None:
    """How far models moved the word embeddings of the first (TAPTER, Figure 1, Appendix B): a table and a page."""
    from acclimate.analyses.attention import texts_of
    from acclimate.analyses.embeddings import analyse_embeddings, write_page

    with errors_told(), screen() as console:
        if out.is_dir():
            raise ValueError(f"--out {out} is a folder; name the page to write, such as {out / 'embeddings.html'}")
        with watched(console, None, Path()) as watch:
            analysis = analyse_embeddings(
                models,
                texts=None if texts is None else texts_of(texts, column=column),
                source="" if texts is None else texts.name,
                words=[word for word in words.replace(",", " ").split() if word],
                axes_of=axes,
                watch=watch,
            )
        sheet = write_page(out, analysis)
        say(console, f"{analysis.as_text()}\nPage: {out}\nDistances: {sheet}")


def importance(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A local directory or a hub id.")],
    domains: Annotated[
        list[str], typer.Argument(metavar="NAME=TEXTS...", help="Two domains or more: raw text, a corpus or a table.")
    ],
    column: Annotated[str, typer.Option("--text", help="Column of the text, where there are columns.")] = "text",
    sample: Annotated[int, typer.Option("--sample", help="So many texts of each domain, drawn evenly.")] = 300,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Read of a text, at most.")] = 164,
    normalisation: Annotated[
        Literal["paper", "min-max", "rank"], typer.Option("--normalisation", help="paper: Eq. 10, |tanh z|.")
    ] = "paper",
    over: Annotated[
        Literal["layer", "model"], typer.Option("--over", help="Heads are normalised among those of a layer, or all.")
    ] = "layer",
    dropout: Annotated[
        float | None, typer.Option("--dropout", help="Of hidden states; else as the model has it.")
    ] = None,
    attention_dropout: Annotated[
        float | None, typer.Option("--attention-dropout", help="Likewise, of attention.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Page to write; figures and heads as CSV beside it.")] = Path(
        "importance.html"
    ),
) -> None:
    """How alike head importance is in several domains (DGA, 4.3), what chance gives beside it: tables and a page."""
    from acclimate.analyses.head_importance import analyse_importance, write_page

    with errors_told(), screen() as console:
        if out.is_dir():
            raise ValueError(f"--out {out} is a folder; name the page to write, such as {out / 'importance.html'}")
        sources = _named_sources(domains)
        with watched(console, None, Path()) as watch:
            analysis = analyse_importance(
                model,
                sources,
                column=column,
                sample=sample,
                max_tokens=max_tokens,
                how=normalisation,
                over=over,
                dropout=dropout,
                attention_dropout=attention_dropout,
                watch=watch,
            )
        sheet, heads = write_page(out, analysis)
        say(console, f"{analysis.as_text()}\nPage: {out}\nFigures: {sheet}\nHeads: {heads}")


def _named_sources(given: list[str]) -> dict[str, Path]:
    """Domain -> its texts. Raises ValueError for what does not say which domain it is, and where two have one name."""
    found: dict[str, Path] = {}
    for each in given:
        name, equals, place = each.partition("=")
        if not (name and equals and place):
            raise ValueError(f"'{each}': say which domain texts are of, as NAME=TEXTS")
        if name in found:
            raise ValueError(f"two domains are called '{name}': {found[name]} and {place}. Name each differently")
        found[name] = Path(place)
    return found


def count_splits(catalogue: str, folder: Path) -> None:
    """`doctor` of a benchmark's folder. Exit status 1 where a count differs for no known reason, or cannot be made."""
    from acclimate.data.published import count

    with errors_told(), screen() as console:
        with watched(console, None, folder) as watch:
            found = count(catalogue, folder, watch=watch)
        say(console, found.as_text())
    if not found.in_order:
        raise typer.Exit(1)
