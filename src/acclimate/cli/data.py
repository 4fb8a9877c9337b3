"""The group `data`: labelled files and raw text made ready, retrieved, looked into and fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from acclimate.api.checks import LISTED, apart, check_files, check_raw_text, check_settings
from acclimate.cli import options
from acclimate.cli.once import Verbs
from acclimate.cli.verb import Session, verb

if TYPE_CHECKING:
    from acclimate.core.types import Watch
    from acclimate.reading.labelled_files import LabelledFiles

REPORT, TABLE = "report.md", "counts.csv"  # neither has the ending of raw text

data = Verbs(help="Prepare labelled files and raw text, retrieve from it, fetch benchmarks.", no_args_is_help=True)


@data.command()
@verb(check=check_files)
def prepare(
    session: Session,
    task: options.ToPrepareArgument,
    labelled: LabelledFiles,
    leaks: options.LeaksOption = "keep",
    rows: options.RowsOption = 0,
    data: options.DataOption = None,
    out: options.OutOption = Path("runs/task"),
) -> None:
    """Read, split and check labelled files, and seal the test labels: OUT/data, a task for `adapt`. Trains nothing."""
    from acclimate.core import ranks
    from acclimate.data.doctor import examine
    from acclimate.data.gather import Inputs, prepare_task
    from acclimate.reports.page import escaped

    with session.watched() as watch:
        inputs = Inputs(out, labelled, data=data, leaks=leaks, rows=rows, watch=watch)
        labelled_rows = inputs.labelled()
        examination = examine(labelled_rows, comparisons=4, watch=watch)
        prepared, ready, examination = prepare_task(inputs, labelled_rows, examination)
    session.tell_findings(examination)
    if ranks.is_first():
        sizes = ", ".join(f"{split} {size:,}" for split, size in prepared.sizes.items())
        sentences = (
            *ready.notes,
            f"{prepared.name}: {sizes}; scored by {prepared.metric.name}",
            f"Task: {prepared.path}",
        )
        session.say("\n".join(map(escaped, sentences)))


def _raw_texts(parameters: Mapping[str, Any]) -> None:
    from acclimate.text.language import check_language

    places, _ = apart(parameters[LISTED])
    if not places:
        raise ValueError("no raw text given. Name a file or folder of it before the settings")
    recipe = check_settings("data corpus", parameters)
    if recipe.language:
        check_language(recipe.language)
    for place in places:
        check_raw_text(Path(place), recipe.field)


@data.command(context_settings={"ignore_unknown_options": True})  # Session.listed refuses them
@verb("data corpus", check=_raw_texts)
def corpus(
    session: Session,
    words: Annotated[
        list[str], typer.Argument(metavar="RAW... [KEY=VALUE]...", help="Files or folders of raw text, then settings.")
    ],
    out: options.OutOption = Path("runs/corpus"),
    separated: options.SeparatedOption = "line",
    model: Annotated[
        str | None, typer.Option("--model", help="Also tokenise the corpus for this model: a directory or hub id.")
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", help="Number of processes; 0: one per processor.", min=0, max=1024)
    ] = 0,
    memory: Annotated[
        int, typer.Option("--memory", help="Memory for the search for repeated documents, in megabytes.", min=1)
    ] = 1024,
) -> None:
    """Read, filter and de-duplicate raw text, with counts of all that is left out: OUT/corpus and a report."""
    from acclimate.core import files
    from acclimate.core.machines import processors
    from acclimate.data.as_files import raw_text
    from acclimate.text.preparation import CorpusRecipe, as_csv, as_text, prepare_corpus

    raw, _ = session.listed()
    chosen = session.recipe(CorpusRecipe())
    at_once = processes or processors()
    with session.watched() as watch:
        preparation = prepare_corpus(
            [raw_text(path, column=chosen.field) for path in raw],
            out,
            chosen,
            separated=separated,
            processes=at_once,
            memory=memory << 20,
            watch=watch,
        )
        files.write_text(out / REPORT, as_text(preparation.facts) + "\n")
        files.write_text(out / TABLE, as_csv(preparation.facts))
        tokens = _tokens(preparation.path / "corpus", model, at_once, watch) if model else ""
    session.say(f"{as_text(preparation.facts)}\n{tokens}Corpus: {preparation.corpus.path}\nReport: {out / REPORT}")


def _tokens(path: Path, model: str, processes: int, watch: Watch) -> str:
    """Make the tokens of the corpus under the model, and return a line with their number."""
    from acclimate.models.loading import load_tokenizer, resolved
    from acclimate.text.corpus import Corpus

    tokens = Corpus(path).tokens(load_tokenizer(Path(resolved(model))), processes=processes, watch=watch)
    return f"Tokens under {model}: {len(tokens.ids):,}\n"


def _queries(parameters: Mapping[str, Any]) -> None:
    check_settings("data retrieve", parameters, *_options(parameters))
    if parameters["cut_from"] is None:
        if parameters["task"] is None or parameters["corpus"] is None:
            queries = (
                "no FILE given. Name the labelled file whose texts are the queries"
                if parameters["task"] is None
                else "no corpus given. Add --corpus PATH with raw text"
            )
            raise ValueError(
                f"{queries}; or select fewer documents from an earlier retrieval with --from RUN --k NUMBER"
            )
        check_files({**parameters, "data": None, "corpus": None})
        check_raw_text(parameters["corpus"])
    elif not parameters["cut_from"].is_dir():
        raise ValueError(f"--from {parameters['cut_from']}: there is no such directory. Name the --out of a retrieval")


def _options(parameters: Mapping[str, Any]) -> list[str]:
    """Return the options that are settings, as settings."""
    return [f"{name}={parameters[name]}" for name in ("k", "how", "queries") if parameters[name] is not None]


@data.command()
@verb("data retrieve", check=_queries)
def retrieve(
    session: Session,
    labelled: LabelledFiles,
    task: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A labelled file. Its training texts are the queries.")
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", help="Raw text to retrieve from, a file or folder; may be repeated."),
    ] = None,
    separated: options.SeparatedOption = "line",
    k: Annotated[int | None, typer.Option("--k", help="Documents per query, 1 to 10,000. Default 50.")] = None,
    how: Annotated[
        Literal["bm25", "random", "dsir"] | None,
        typer.Option("--how", help="bm25; random or dsir: sample as many documents as BM25 finds."),
    ] = None,
    queries: Annotated[
        Literal["text", "keywords"] | None,
        typer.Option("--queries", help="Queries: whole texts, or the keywords of long texts."),
    ] = None,
    cut_from: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="A finished retrieval from which to select a smaller K."),
    ] = None,
    shards: Annotated[int, typer.Option("--shards", help="Number of parts of the index.", min=1)] = 1,
    cluster: Annotated[
        str, typer.Option("--cluster", help="Ray cluster that processes the shards: auto, or HOST:PORT.")
    ] = "",
    out: options.OutOption = Path("runs/retrieve"),
) -> None:
    """Retrieve the documents that training texts resemble (TLM): OUT/corpus, which query found which, and a report.

    Or cut a smaller K from what was retrieved before, with --from and --k.
    """
    from acclimate.core import ranks
    from acclimate.data import retrieve
    from acclimate.data.retrieve import retrieve_for_files

    settings = _options(session.parameters)
    with session.watched() as watch:
        if cut_from is not None:
            assignments = [*(session.parameters["assignments"] or []), *settings]
            others = task or corpus or session.parameters["recipe"] or labelled != type(labelled)(train=labelled.train)
            if k is None or assignments != [f"k={k}"] or others:
                raise ValueError(
                    f"--from {cut_from} selects from an earlier retrieval. Give only --k and --out with it"
                )
            retrieval = ranks.first_then_all(lambda: retrieve.cut_retrieval(cut_from, k, out, watch=watch))
        else:
            joined = session.parameters["corpus"]  # one path; _queries checks it
            chosen = session.recipe(retrieve.RetrieveRecipe(), *settings)
            arguments: dict[str, Any] = {"separated": separated, "shards": shards, "cluster": cluster, "watch": watch}
            retrieval = retrieve_for_files(labelled, joined, out, chosen, **arguments)
    session.say(retrieval.as_text())
    session.say(f"Documents: {retrieval.corpus.path}\nWhich query found which: {retrieval.selection.path}")


def _vocabulary(parameters: Mapping[str, Any]) -> None:
    for path in (parameters["texts"], parameters["general"]):
        if path is not None:
            check_raw_text(path)
    if parameters["terms"] is not None and not parameters["terms"].is_file():
        raise ValueError(f"--terms {parameters['terms']}: there is no such file. Write a list of terms, one per line")


@data.command()
@verb("data vocabulary", check=_vocabulary)
def vocabulary(
    session: Session,
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help="Raw text, a file or folder, or a corpus.")],
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL", help="A model: a directory or hub id. May be repeated."),
    ] = None,
    general: Annotated[
        Path | None, typer.Option("--general", help="General raw text, used to find terms typical of TEXTS.")
    ] = None,
    terms: Annotated[
        Path | None, typer.Option("--terms", metavar="FILE", help="File of terms to look up instead, one per line.")
    ] = None,
    separated: options.SeparatedOption = "line",
    out: options.OutOption = Path("runs/vocabulary"),
) -> None:
    """Learn the vocabulary of texts into OUT/tokenizer, and compare it with models' (PubMedBERT, Table 1)."""
    from acclimate.analyses.vocabularies import TOKENIZER, VocabularyRecipe, compare_vocabularies, write_page
    from acclimate.data.materials import corpus_at

    recipe = session.recipe(VocabularyRecipe())
    with session.watched() as watch:
        read = corpus_at(texts, out, separated=separated, watch=watch)
        analysis = compare_vocabularies(
            recipe,
            read,
            out,
            models=models or [],
            general=None if general is None else corpus_at(general, out, separated=separated, watch=watch),
            terms=terms,
            name=texts.name,
            watch=watch,
        )
    page, *sheets = write_page(out, analysis)
    session.say(f"{analysis.as_text()}\nPage: {page}\nFigures: {', '.join(map(str, sheets))}")
    if recipe.size:
        session.say(f"The in-domain vocabulary: {out / TOKENIZER}")


@data.command()
@verb()
def fetch(
    session: Session,
    catalogue: Annotated[
        str,  # reading.published.CATALOGUES has them, but loads numpy; tests/data/test_fetch.py holds this help to it
        typer.Argument(metavar="CATALOGUE", help="blurb or questions; with --from also tlm, dga, glue."),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to fill. Repeat the command to continue.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Folder with a copy of the files, used instead of the web."),
    ] = None,
) -> None:
    """Fetch a benchmark's files from where they are published, checked by their hashes; or check and take a copy."""
    from acclimate.core import files
    from acclimate.data import fetch
    from acclimate.reading.published import datasets_of

    datasets = datasets_of(catalogue)
    with files.hold(to), session.watched() as watch:
        if source is None:
            outcome = fetch.fetch(datasets, to, watch=watch)
        else:
            outcome = fetch.copy(datasets, source, to, watch=watch)
    session.say(f"{outcome.as_text()}\nTo check the counts: acclimate doctor {catalogue} --data {to}")
