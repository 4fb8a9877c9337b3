"""The verb adapt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acclimate.cli import options
from acclimate.cli.options import TRACKING
from acclimate.cli.verb import Session, verb

METHODS_TOLD = (  # the names of acclimate.methods.METHODS, which loads torch
    "mlm, tapter, dga, light, distil, sequence_contrast, token_contrast, adversarial, scratch, extend, tlm, stilt "
    "or finetune."
)
CORPORA = ("corpus", "dev", "general", "vectors_corpus")  # settings of a method that name raw text


@verb("{method}", TRACKING)
def adapt(
    session: Session,
    method: Annotated[str, typer.Argument(metavar="METHOD", help=METHODS_TOLD)],
    out: options.Out = Path("runs/adapt"),
    separated: options.Separated = "line",
) -> None:
    """Run one method on raw text or a task; writes OUT/checkpoint, which transformers loads."""
    from dataclasses import fields, replace

    from acclimate.data.materials import corpus_at
    from acclimate.methods import METHODS
    from acclimate.models.loading import resolved

    if method not in METHODS:
        raise ValueError(f"no method is called '{method}'. Known: {', '.join(METHODS)}")
    stated = session.recipe(METHODS[method].recipe())
    names = {field.name for field in fields(stated)}
    with session.watched() as watch:
        if "corpus" in names and getattr(stated, "reads_corpus", True):
            for name in (name for name in CORPORA if name in names):
                if name == "corpus" or getattr(stated, name) != Path():
                    corpus = corpus_at(getattr(stated, name), out, separated=separated, watch=watch)
                    stated = replace(stated, **{name: corpus.path})
        for name in ("model", "tokenizer"):
            if getattr(stated, name, ""):
                stated = replace(stated, **{name: resolved(getattr(stated, name))})
        checkpoint = METHODS[method].adapt(stated, out, watch=watch)
    session.say(f"Checkpoint: {checkpoint.path}")
