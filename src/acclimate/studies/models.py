"""The models of a study: names that tell them apart, and whether they can read the datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from acclimate.core import files
from acclimate.methods import scratch
from acclimate.methods.baselines import BASELINE, DICTIONARY
from acclimate.methods.ranking.bm25 import BM25
from acclimate.methods.recipes import finetune
from acclimate.models.configuration import longest_input
from acclimate.models.loading import identity, short_names
from acclimate.races.outcome import NEAR
from acclimate.training.plan import Plan

CONSTANT, NO_ENCODER = "constant", "no encoder"  # rows of the baselines, which no model may be called

# of an encoder of two layers and 128 dimensions that a study pretrains
FINETUNING_OF_SMALL = replace(finetune.PAPERS, epochs=6.0, looks=3, plan=Plan(batch=16, rate=1e-3, warmup=0.1))


@dataclass(frozen=True)
class Model:
    """A model of a study.

    name   stands in tables
    key    stands in the labels of jobs; it is the same wherever the model lies
    where  a directory or hub id
    """

    name: str
    key: str
    where: str


def models_of(models: Sequence[str]) -> tuple[Model, ...]:
    """Return the models, which `Inputs` has resolved, with different names.

    Raises ValueError for none, and for the same model twice.
    """
    if not models:
        raise ValueError("no model given. Name one or more models: directories or hub ids")
    keys = [identity(model)[:12] if Path(model).is_dir() else model for model in models]
    for at, key in enumerate(keys):
        if key in keys[:at]:
            raise ValueError(f"{models[keys.index(key)]} and {models[at]} are the same model. Give it once")
    # a directory of such a name would share a baseline's row
    reserved_names = (CONSTANT, NO_ENCODER, BASELINE, DICTIONARY, BM25)
    names = [f"{name} (model)" if name in reserved_names else name for name in short_names(models)]
    return tuple(Model(name, key, where) for name, key, where in zip(names, keys, models, strict=True))


def called(models: Iterable[Model]) -> dict[str, str]:
    """Return each model's name by its key, with which `Design.called` rewrites the labels of jobs."""
    return {model.key: model.name for model in models}


def check_lengths(models: Iterable[Model], lengths: Mapping[str, int]) -> None:
    """Raises ValueError where a model cannot read texts as long as a dataset's. lengths: dataset -> tokens."""
    for model in models:
        longest = longest_input(model.where)
        for name, tokens in lengths.items():
            if longest is not None and tokens > longest:
                raise ValueError(
                    f"{name} has examples of up to {tokens} tokens, but {model.name} reads at most {longest}. "
                    f"Add max_tokens={longest}"
                )


def little_learnt(places: Sequence[Path]) -> dict[str, Any]:
    """Return facts on pretrainings from random weights: what knowing the frequencies of pieces alone would lose, and
    how many of them end little below it. places: their directories
    """
    records = [files.read_json(at) for place in places if (at := place / scratch.FREQUENCIES).exists()]
    near = sum(record["little"] for record in records)
    facts = {"frequencies alone": f"{fmean(record['frequencies'] for record in records):.3f}"} if records else {}
    return facts | ({NEAR: f"{near} of {len(records)}"} if near else {})
