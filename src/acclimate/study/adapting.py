"""How each contestant's model comes about, as jobs: links of a chain that starts from the untouched model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclimate.core import files, settings
from acclimate.methods import METHODS, tapter
from acclimate.models.loading import identity
from acclimate.study import stages
from acclimate.study.contestants import DOMAIN
from acclimate.study.jobs import Job
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe
from acclimate.text.corpus import Corpus

PLACES = ("corpus", "model", "task", "dev", "vectors", "vectors_corpus")  # settings that say where something lies


def job_of(label: str, work: Any, recipe: Any, corpora: Mapping[str, Corpus]) -> Job:
    """A job on corpora, whose settings are a recipe, or a mapping as it is."""
    stated = dict(recipe) if isinstance(recipe, Mapping) else {"recipe": settings.to_mapping(recipe)}
    for name in PLACES:  # told by their content and not by their path
        stated.get("recipe", {}).pop(name, None)
    contents = {name: corpus.hash for name, corpus in corpora.items()}
    return Job(label, work, stated, contents, {name: corpus.path for name, corpus in corpora.items()})


def with_model(job: Job, model: Job | None, materials: Materials, argument: str = "model") -> Job:
    """The job on the checkpoint of another, or on the given model."""
    if model is not None:
        return replace(job, needs={**job.needs, argument: model})
    given = materials.model
    assert given is not None
    if not Path(given).is_dir():
        return replace(job, settings={**job.settings, argument: given})
    contents = {**job.contents, argument: identity(given)}
    return replace(job, contents=contents, places={**job.places, argument: Path(given).absolute()})


def adaptations(name: str, recipe: Recipe, materials: Materials, base: Job | None) -> dict[str, Job | None]:
    """The chain of a name such as "DAPT+TAPT", each link by the name that it would have alone."""
    chain: dict[str, Job | None] = {}
    model, done = base, []
    for step in name.split("+"):
        done.append(step)
        model = with_model(_adaptation(step, "+".join(done), recipe, materials), model, materials)
        chain["+".join(done)] = model
    return chain


def _adaptation(step: str, label: str, recipe: Recipe, materials: Materials) -> Job:
    """One link, without the model that it starts from."""
    if step == "TAPTER":
        return _regularised(label, recipe.tapter, materials)
    if step == "TAPT":
        assert materials.task_text is not None
        return job_of(label, stages.adapt, recipe.tapt, {"corpus": materials.task_text})
    assert materials.domain is not None
    job = job_of(label, stages.adapt, recipe.on_domain(step), {"corpus": materials.domain})
    method, _ = DOMAIN[step]
    return replace(job, settings={**job.settings, "method": method}) if method in METHODS else job


def _regularised(label: str, stated: tapter.Recipe, materials: Materials) -> Job:
    """TAPTER on the task's texts, watched on text that was held out. Its vectors are a job of their own, which several
    contestants share; those that are to be taken as they are, are a file.
    """
    assert materials.task_text is not None
    heldout = {"dev": materials.heldout} if materials.heldout is not None else {}
    stated = replace(stated, scale=tapter.scale_of(stated))  # the job gets vectors, and cannot tell from where
    job = job_of(label, stages.regularise, stated, {"corpus": materials.task_text, **heldout})
    given = Path(stated.vectors).absolute() if stated.vectors else None
    if given is not None and not given.is_file():
        raise ValueError(f"tapter.vectors = {stated.vectors}: there is no such file. Give a fastText .bin or .vec")
    if given is not None and not stated.train_vectors:
        contents = {**job.contents, "vectors": files.sha256_of_input(given)}
        return replace(job, contents=contents, places={**job.places, "vectors": given})
    raw = materials.domain or materials.general
    corpora = {"corpus": materials.task_text, **({"raw": raw} if raw is not None else {})}
    skipgram = {"skipgram": settings.to_mapping(stated.skipgram)}
    vectors = job_of("word vectors", stages.word_vectors, skipgram, corpora)
    if given is not None:
        contents = {**vectors.contents, "start": files.sha256_of_input(given)}
        vectors = replace(vectors, contents=contents, places={**vectors.places, "start": given})
    return replace(job, needs={"vectors": vectors})
