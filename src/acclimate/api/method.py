"""The one way in which a method is run on its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from acclimate.api.checks import RAW_TEXT
from acclimate.api.settings import schema

if TYPE_CHECKING:
    from acclimate.core.types import Checkpoint, Watch

NAMES = [name for name, about in schema()["names"].items() if about.get("kind") == "method"]  # METHODS loads torch


def run_method(method: str, recipe: Any, out: Path, *, separated: Literal["line", "blank"], watch: Watch) -> Checkpoint:
    """Return the checkpoint that the method makes in `out`, after raw text has become corpora and hub ids folders.

    The model is checked first. A run that is refused before training begins leaves nothing in `out`.
    """
    from dataclasses import fields, replace

    from acclimate.core import files
    from acclimate.core.types import Progress
    from acclimate.data.materials import corpus_at
    from acclimate.jobs.refused import removed_if_refused
    from acclimate.methods import METHODS
    from acclimate.models.configuration import require_model
    from acclimate.models.formats import PROVENANCE
    from acclimate.models.loading import load_tokenizer, resolved
    from acclimate.models.sentence_modules import OMITTED
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
    if reason := files.read_json(checkpoint.path / PROVENANCE).get(OMITTED, ""):
        note = f"{checkpoint.path} lacks the sentence-transformers modules of {recipe.model}: {reason}"
        watch(Progress("checkpoint", 0, 0, "steps", {"note": note}))
    return checkpoint
