"""The group `analyse`: what models attend to, where their word embeddings moved, which heads matter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from acclimate.api.checks import check_texts
from acclimate.cli import options
from acclimate.cli.once import Verbs
from acclimate.cli.verb import Session, verb

analyse = Verbs(help="Look into models: attention heads, word embeddings, head importance.", no_args_is_help=True)


def _page_and_texts(name: str, parameters: Mapping[str, Any]) -> None:
    """Check --out and --texts. name: what the page is usually called."""
    if parameters["out"].is_dir():
        raise ValueError(
            f"--out {parameters['out']} is a folder. Name the page to write, such as {parameters['out'] / name}"
        )
    if parameters["texts"] is not None:
        check_texts(parameters["texts"], parameters["column"])


def _page_and_domains(parameters: Mapping[str, Any]) -> None:
    _page_and_texts("importance.html", {"out": parameters["out"], "texts": None})
    for texts in _named_sources(parameters["domains"]).values():
        check_texts(texts, parameters["column"])


def _without_model(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed of MODEL NAME=TEXTS... If MODEL is missing, the first domain was taken for it."""
    if "=" in parameters["model"] and not Path(parameters["model"]).is_dir():
        return {**parameters, "model": None, "domains": [parameters["model"], *parameters["domains"]]}
    return parameters


@analyse.command()
@verb(check=partial(_page_and_texts, "heads.html"))
def heads(
    session: Session,
    texts: Annotated[Path, typer.Option("--texts", help="Raw text, or a table with a column of texts.")],
    models: options.ModelNames = None,
    column: options.ColumnOption = "text",
    sample: options.SampleOption = 200,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens to read of each text.")] = 128,
    out: Annotated[Path, typer.Option("--out", help="Page to write.")] = Path("heads.html"),
) -> None:
    """Count and draw positional and vertical attention heads (TLM, 4.4.1), random weights beside each model."""
    from acclimate.analyses.attention import analyse_heads, write_page
    from acclimate.analyses.texts import sample_texts

    read = sample_texts(texts, column=column, size=sample)
    with session.watched() as watch:
        analysis = analyse_heads(
            models or [session.model_or_embedded(None)], read, source=texts.name, max_tokens=max_tokens, watch=watch
        )
    write_page(out, analysis)
    session.say(f"{analysis.as_text()}\nPage: {out}")


@analyse.command()
@verb(check=partial(_page_and_texts, "embeddings.html"))
def embeddings(
    session: Session,
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Local directories or hub ids. The first is the reference."),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option("--texts", help="Raw text of the domain, or a table. Its words are reported separately."),
    ] = None,
    column: options.ColumnOption = "text",
    words: Annotated[
        str, typer.Option("--words", help="Words, such as lead,cell, to list with their nearest words in each model.")
    ] = "",
    axes: Annotated[
        Literal["first", "all"],
        typer.Option("--axes", help="Principal axes of the first model's embeddings, or of all models'."),
    ] = "first",
    out: Annotated[
        Path, typer.Option("--out", help="Page to write. A CSV with the distances is written beside it.")
    ] = Path("embeddings.html"),
) -> None:
    """How far models moved the word embeddings of the first (TAPTER, Figure 1, Appendix B): a table and a page."""
    from acclimate.analyses.embeddings import analyse_embeddings, write_page
    from acclimate.analyses.texts import read_texts

    with session.watched() as watch:
        analysis = analyse_embeddings(
            models or [],
            texts=None if texts is None else read_texts(texts, column=column),
            source="" if texts is None else texts.name,
            words=[word for word in words.replace(",", " ").split() if word],
            axes_of=axes,
            watch=watch,
        )
    sheet = write_page(out, analysis)
    session.say(f"{analysis.as_text()}\nPage: {out}\nDistances: {sheet}")


@analyse.command()
@verb(check=_page_and_domains, arrange=_without_model)
def importance(
    session: Session,
    model: options.ModelName,
    domains: Annotated[
        list[str], typer.Argument(metavar="NAME=TEXTS...", help="At least two domains: raw text, a corpus or a table.")
    ],
    column: options.ColumnOption = "text",
    sample: Annotated[int, typer.Option("--sample", help="Number of texts to sample from each domain.", min=1)] = 300,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Tokens to read of each text.")] = 164,
    normalisation: Annotated[
        Literal["paper", "min-max", "rank"],
        typer.Option("--normalisation", help="How to normalise importance. paper: Eq. 10, |tanh z|."),
    ] = "paper",
    over: Annotated[
        Literal["layer", "model"],
        typer.Option("--over", help="Normalise importance over the heads of a layer or of the model."),
    ] = "layer",
    dropout: Annotated[
        float | None, typer.Option("--dropout", help="Dropout of hidden states; by default the model's.")
    ] = None,
    attention_dropout: Annotated[
        float | None, typer.Option("--attention-dropout", help="Dropout of attention; by default the model's.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Page to write. CSVs with figures and heads are written beside it.")
    ] = Path("importance.html"),
) -> None:
    """How alike head importance is in several domains (DGA, 4.3), and by chance: tables and a page."""
    from acclimate.analyses.head_importance import analyse_importance, write_page

    sources = _named_sources(domains)
    with session.watched() as watch:
        analysis = analyse_importance(
            session.model_or_embedded(model),
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
    session.say(f"{analysis.as_text()}\nPage: {out}\nFigures: {sheet}\nHeads: {heads}")


def _named_sources(sources: list[str]) -> dict[str, Path]:
    """Domain -> its texts. Raises ValueError for one without a name, and if two have the same."""
    by_name: dict[str, Path] = {}
    for source in sources:
        name, equals, place = source.partition("=")
        if not (name and equals and place):
            raise ValueError(f"'{source}': name the domain of the texts, as NAME=TEXTS")
        if name in by_name:
            raise ValueError(f"two domains are named '{name}': {by_name[name]} and {place}. Name each differently")
        by_name[name] = Path(place)
    return by_name
