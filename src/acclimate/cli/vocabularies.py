"""The verb `vocabulary`: how texts break under vocabularies. cli.py lists it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acclimate.cli import options
from acclimate.cli.session import errors_told, say, started, stated_recipe, watched


def vocabulary(
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help="Raw text, a file or folder, or a corpus.")],
    assignments: options.Assignments = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", metavar="MODEL", help="A directory or hub id; may be given again.")
    ] = None,
    general: Annotated[
        Path | None, typer.Option("--general", help="Raw text that the terms of TEXTS stand out against.")
    ] = None,
    terms: Annotated[
        Path | None, typer.Option("--terms", metavar="FILE", help="Terms to look up, one a line, in place of those.")
    ] = None,
    separated: options.Separated = "line",
    out: options.Out = Path("runs/vocabulary"),
    recipe: options.RecipeFile = None,
) -> None:
    """Learn the texts' own vocabulary into OUT/tokenizer, and compare it with models' (PubMedBERT, Table 1)."""
    from acclimate.analyses.vocabularies import TOKENIZER, VocabularyRecipe, compare_vocabularies, write_page
    from acclimate.data.materials import corpus_at

    with errors_told(), started(out) as console:
        stated = stated_recipe(VocabularyRecipe(), recipe, assignments)
        if terms is not None and not terms.is_file():
            raise ValueError(f"--terms {terms}: there is no such file. Write a list of terms, one a line")
        with watched(console, None, out) as watch:
            corpus = corpus_at(texts, out, separated=separated, watch=watch)
            analysis = compare_vocabularies(
                stated,
                corpus,
                out,
                models=models or [],
                general=None if general is None else corpus_at(general, out, separated=separated, watch=watch),
                terms=terms,
                name=texts.name,
                watch=watch,
            )
        page, *sheets = write_page(out, analysis)
        say(console, f"{analysis.as_text()}\nPage: {page}\nFigures: {', '.join(map(str, sheets))}")
        if stated.size:
            say(console, f"Their own vocabulary: {out / TOKENIZER}")
