"""The verb adapt: one method on raw text or a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from acclimate.api.checks import check_method
from acclimate.api.method import NAMES, run_method
from acclimate.api.settings import schema
from acclimate.cli import options
from acclimate.cli.options import TRACKING
from acclimate.cli.verb import Session, verb
from acclimate.core.settings import did_you_mean


def _method(parameters: Mapping[str, Any]) -> str:
    """Return the name of the method. Raises ValueError where there is none of it."""
    method = str(parameters["method"])
    if method not in NAMES:
        raise ValueError(f"no method is named '{method}'{did_you_mean(method, NAMES, '')}")
    return method


@verb(_method, TRACKING, check=check_method)
def adapt(
    session: Session,
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD", help=f"{', '.join(NAMES)}.", autocompletion=options.begins_with(lambda: NAMES)
        ),
    ],
    out: options.OutOption = Path("runs/adapt"),
    separated: options.SeparatedOption = "line",
) -> None:
    """Run one method on raw text or a task; writes OUT/checkpoint, which transformers loads."""
    from dataclasses import replace

    from acclimate.methods import METHODS

    recipe = session.recipe(METHODS[method].recipe())
    if "model" in schema()["names"][method]["needs"]:
        recipe = session.note(replace(recipe, model=session.model_or_embedded(recipe.model)))
    with session.watched() as watch:
        checkpoint = run_method(method, recipe, out, separated=separated, watch=watch)
    session.say(f"Checkpoint: {checkpoint.path}")
