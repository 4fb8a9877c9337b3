"""The verb `recommend`: what to try before paying for all of it. cli.py lists it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acclimate import options
from acclimate.session import errors_told, say, started, stated_recipe, studying, watched

if TYPE_CHECKING:
    from acclimate.study.workers import Where
    from acclimate.tasks.own import Own

recommend = typer.Typer(no_args_is_help=True, add_completion=False)


@recommend.callback()
def about() -> None:
    """Say what should help a task most, without training."""


@recommend.command()
@options.of_files
def intermediate(  # noqa: PLR0917  # typer turns parameters into options
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A local directory or a hub id.")],
    task: Annotated[
        str, typer.Argument(metavar="TARGET", help="A labelled file, or with --data a dataset of that folder.")
    ],
    own: Own,
    where: Where,
    assignments: options.Assignments = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder of a benchmark; TARGET and candidates name what is in it."),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", metavar="FILE", help="Measured differences (stilt.csv) to test predictors on."),
    ] = None,
    out: options.Out = Path("runs/recommend"),
    recipe: options.RecipeFile = None,
) -> None:
    """Rank candidates=[...] as intermediate tasks for a target, by LogME, texts, words and sizes; no training."""
    from acclimate.study.published import check_order
    from acclimate.study.transfer import Recipe
    from acclimate.study.transfer import recommend as rank
    from acclimate.study.transfer_page import as_text, write_pages

    with errors_told(), started(out) as console, studying(out, where, plans=False) as noted:
        check_order(model, task)
        stated = noted(stated_recipe(Recipe(), recipe, assignments))
        with watched(console, None, out) as watch:
            found = rank(stated, model, own, out, data=data, matrix=matrix, watch=watch)
        text, *sheets = write_pages(out, found)
        say(console, f"Table: {text}\nFigures: {', '.join(map(str, sheets))}\n\n{as_text(found).rstrip()}")
