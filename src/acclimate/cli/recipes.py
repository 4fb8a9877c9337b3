"""The verb `recipes`: the settings of published tables' rows that come with acclimate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acclimate.cli.options import begins_with
from acclimate.cli.verb import Session, verb
from acclimate.core.settings import did_you_mean, recipe_file, recipe_names

MOST = 80  # characters of a title


@verb()
def recipes(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A recipe, such as tapter/bioasq, or a method.",
            autocompletion=begins_with(recipe_names),
        ),
    ] = None,
) -> None:
    """List the recipes of published tables for --recipe, all or those of a method; with a recipe's name, print it."""
    names = recipe_names()
    if name in names:
        session.say(recipe_file(Path(name)).read_text(encoding="utf-8").rstrip())
        return
    listed = [recipe_name for recipe_name in names if name is None or recipe_name.startswith(f"{name}/")]
    if not listed:
        raise ValueError(f"no recipe is named '{name}'{did_you_mean(name or '', names, '')}")
    width = max(map(len, listed))
    session.say("\n".join(f"{recipe_name.ljust(width)}  {_title(recipe_name)}" for recipe_name in listed))


def _title(name: str) -> str:
    """Return what the recipe's comment begins with, up to its first colon or full stop."""
    from acclimate.reports.page import beginning  # loads what writes pages

    first = recipe_file(Path(name)).read_text(encoding="utf-8").partition("\n")[0]
    return beginning(first.lstrip("# ").partition(":")[0].partition(". ")[0].rstrip("."), MOST)
