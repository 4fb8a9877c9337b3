"""A model opened for the doctor: its tokenizer, and what its config and the headers of its weights show. No torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from acclimate.core.door import option
from acclimate.core.files import read_json
from acclimate.core.hub import failures
from acclimate.core.steps import finetuning_steps
from acclimate.data.examination import Finding, ModelFacts
from acclimate.data.lengths import Reader, reader
from acclimate.models.directory import weight_headers
from acclimate.models.formats import PROVENANCE, family_in
from acclimate.models.loading import hub_answers
from acclimate.reports.page import amount
from acclimate.tasks.task import Kind

HEADS = {  # family -> the matrix that only its language modelling head has, by the end of its name in a checkpoint
    "albert": "predictions.dense.weight",
    "distilbert": "vocab_transform.weight",
    "electra": "generator_predictions.dense.weight",
    "modernbert": "head.dense.weight",
    **dict.fromkeys(("bert", "deberta", "deberta-v2", "ernie"), "cls.predictions.transform.dense.weight"),
    **dict.fromkeys(("camembert", "mpnet", "roberta", "xlm-roberta"), "lm_head.dense.weight"),
}
NOT_LEGACY = "lm_predictions.lm_head.dense.weight"  # of a DeBERTa whose config states "legacy": false
POOLERS = {"albert": "pooler.weight", "bert": "pooler.dense.weight", "ernie": "pooler.dense.weight"}
FEW_ROWS = 1_000  # training rows below which seeds differ widely
MANY_STEPS = 5_000  # of one fine-tuning
SAMPLE = 5_000  # rows that are advised where there are many
POOLED: tuple[Kind, ...] = ("sequence", "multilabel", "score")  # kinds of tasks whose classifier may read a pooler


@dataclass(frozen=True)
class OpenedModel:
    """What the doctor needs of a model.

    name     of its directory, or its hub id
    reader, facts  None where it cannot be read
    fault    why it cannot be read
    """

    name: str
    reader: Reader | None = None
    facts: ModelFacts | None = None
    fault: str = ""


def open_model(model: str | None) -> OpenedModel | None:
    """Return the model of a directory or hub id; None for none. A model that cannot be read has a `fault`."""
    if model is None:
        return None
    name = Path(model).name if Path(os.path.expanduser(model)).is_dir() else model
    try:
        return OpenedModel(name, reader(model), model_facts(model))
    except ValueError as error:
        return OpenedModel(name, fault=str(error))


def model_facts(model: str) -> ModelFacts:
    """Return what the checkpoint in a directory, or of a hub id whose config is in the hub's cache, consists of.

    What cannot be known without the weights is None where they are on the hub and it does not answer, and where the
    family is none of HEADS. Raises ValueError for a config or weights that cannot be read.
    """
    directory = _directory(model)
    config: Any = read_json(directory / "config.json")
    if not isinstance(config, dict):
        raise ValueError(
            f"{directory / 'config.json'}: not the config of a model, which must be a JSON object. Restore the file"
        )
    family, shapes = family_in(config), _shapes(directory, model)
    head, pooler = HEADS.get(family), POOLERS.get(family)
    if head is not None and config.get("legacy", True) is False:
        head = NOT_LEGACY
    return ModelFacts(
        family=family,
        parameters=None if shapes is None else sum(map(prod, shapes.values())),
        layers=config.get("num_hidden_layers", config.get("n_layers")),
        hidden=config.get("hidden_size", config.get("dim")),
        vocabulary=config.get("vocab_size"),
        head=None if shapes is None or head is None else any(name.endswith(head) for name in shapes),
        pooler=None if shapes is None or pooler is None else any(name.endswith(pooler) for name in shapes),
    )


def _directory(model: str) -> Path:
    """Return the directory of a checkpoint; for a hub id, that in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    path = Path(os.path.expanduser(model))
    if path.is_dir():
        return path
    cached = try_to_load_from_cache(model, "config.json")
    assert isinstance(cached, str), model  # `lengths.reader` has downloaded the config
    return Path(cached).parent


def _shapes(directory: Path, model: str) -> dict[str, tuple[int, ...]] | None:
    """Return name -> shape of the weights; None if no headers can be read: the weights are pickled, or on the hub."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    headers = weight_headers(directory).items()
    shapes = {name: shape for name, (kind, shape) in headers if kind.startswith(("F", "BF"))}  # not position ids
    if shapes or Path(os.path.expanduser(model)).is_dir():
        return shapes or None
    if not hub_answers():
        return None
    refusals: tuple[type[Exception], ...] = (*failures(), errors.NotASafetensorsRepoError)
    try:
        metadata = hub.get_safetensors_metadata(model)
    except refusals:
        return None  # the run, which downloads the model, says whether it can be loaded
    files = metadata.files_metadata.values()
    return {name: tuple(part.shape) for file in files for name, part in file.tensors.items()}


def check_sources(model: str | None, hashes: Mapping[str, str]) -> list[Finding]:
    """Return a warning if the model may have learnt this task before, from other rows. hashes: of the prepared task.

    A checkpoint made by acclimate records the hash of all its training rows together, so it is unknown which of the
    present rows were among them.
    """
    path = Path(model or "") / PROVENANCE
    provenance: Any = read_json(path) if model is not None and path.is_file() else None
    sources = provenance.get("sources") if isinstance(provenance, dict) else None
    if not isinstance(sources, dict):  # no provenance, or not written by acclimate
        return []
    if sources.get("about") != hashes["about"] or sources.get("train") in (None, hashes["train"]):
        return []
    text = (
        "The model was trained before on a task of this name, kind, metric, length and labels, with other rows "
        "(provenance.json). If it is the same task, those rows may include today's test texts, which the model may "
        "have memorised."
    )
    split = f"{option('split_seed')}, or {option('dev')} and {option('test')}"
    return [Finding("warning", text, f"Give the split that it was trained with ({split}), or another model.")]


def check_checkpoint(facts: ModelFacts, kind: Kind) -> list[Finding]:
    """Return findings on a head or pooler that the checkpoint lacks. kind: of the task"""
    findings = []
    if facts.head is False:
        text = (
            "The model has no language modelling head, which predicts masked words. Every adaptation on raw text "
            "therefore begins with a random head. Its first steps mostly train that head, and forgetting of "
            "general text cannot be measured."
        )
        way_out = (
            "Adapt for more steps, or use a checkpoint with its head, such as the pretrained model that this one "
            "was made from. Fine-tuning does not need the head."
        )
        findings.append(Finding("warning", text, way_out))
    if facts.pooler is False and kind in POOLED:
        text = (
            "The model has no trained pooler, the layer on the first token that next sentence prediction leaves. "
            "No action is needed: fine-tuning uses the first token or the mean of all tokens, whichever a probe "
            "prefers. Only finetune.preset=papers trains a pooler, from random weights."
        )
        findings.append(Finding("note", text))
    return findings


def check_rows(rows: int, recipe: Any) -> list[Finding]:
    """Return a finding on training rows that are few, or many, for the steps of a fine-tuning.

    recipe: a FinetuneRecipe or its stand-in (core/schema.py)
    """
    steps, batch = finetuning_steps(recipe, rows), recipe.plan.batch
    if rows < FEW_ROWS:
        passes = steps * batch / rows
        text = (
            f"{amount(rows, 'training row')} {'is' if rows == 1 else 'are'} few: a fine-tuning of {steps:,} steps "
            f"of {batch} rows reads each of them {amount(round(passes), 'time')}, and its score depends strongly on "
            "the seed."
        )
        way_out = (
            "Use at least five seeds. Compare with the probes and with the baseline without an encoder, which suit "
            "few rows better. Label more rows if you can."
        )
        return [Finding("note", text, way_out)]
    if steps < MANY_STEPS:
        return []
    text = f"With {rows:,} training rows a fine-tuning takes {steps:,} steps of {batch} rows, for each setting and"
    sample = f"race {option('rows', str(SAMPLE))}"
    way_out = f"If that takes too long, try a sample first ({sample}), or set finetune.epochs=3."
    return [Finding("note", f"{text} seed.", way_out)]
