"""The verb adapt: one method on raw text or a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from acclimate.cli import options
from acclimate.cli.checks import RAW_TEXT, check_method
from acclimate.cli.options import TRACKING
from acclimate.cli.settings import schema
from acclimate.cli.verb import Session, verb
from acclimate.core.settings import did_you_mean

if TYPE_CHECKING:
    from acclimate.core.types import Checkpoint, Watch

NAMES = [name for name, about in schema()["names"].items() if about.get("kind") == "method"]  # METHODS loads torch


def _method(parameters: Mapping[str, Any]) -> str:
    """Return the name of the method. Raises ValueError where there is none of it."""
    method = str(parameters["method"])
    if method not in NAMES:
        raise ValueError(f"no method is called '{method}'{did_you_mean(method, NAMES, '')}")
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
        checkpoint = adapted(method, recipe, out, separated=separated, watch=watch)
    session.say(f"Checkpoint: {checkpoint.path}")


def adapted(method: str, recipe: Any, out: Path, *, separated: Literal["line", "blank"], watch: Watch) -> Checkpoint:
    """Return the checkpoint that the method makes in `out`, after raw text has become corpora and hub ids folders.

    The model is checked first. A run that is refused before training begins leaves nothing in `out`.
    """
    from dataclasses import fields, replace

    from acclimate.core.types import Progress
    from acclimate.data.materials import corpus_at
    from acclimate.jobs.refused import removed_if_refused
    from acclimate.methods import METHODS
    from acclimate.models.configuration import require_model
    from acclimate.models.loading import load_tokenizer, resolved
    from acclimate.models.sentence_modules import omission
    from acclimate.training.run import UNBEGUN

    names = {field.name for field in fields(recipe)}
    for name, require in (("model", require_model), ("tokenizer", load_tokenizer)):
        if source := getattr(recipe, name, ""):
            recipe = replace(recipe, **{name: resolved(source)})
            require(getattr(recipe, name))
    with removed_if_refused(out, UNBEGUN):
        if "corpus" in names and METHODS[method].reads_corpus(recipe):
            for name in (name for name in RAW_TEXT if name in names):
                if name == "corpus" or getattr(recipe, name) != Path():
                    corpus = corpus_at(getattr(recipe, name), out, separated=separated, watch=watch)
                    recipe = replace(recipe, **{name: corpus.path})
        checkpoint = METHODS[method].adapt(recipe, out, watch=watch)
    if note := omission(getattr(recipe, "model", ""), checkpoint.path):
        watch(Progress("checkpoint", 0, 0, "steps", {"note": note}))
    return checkpoint
