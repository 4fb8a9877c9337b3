"""How each contestant's model comes about, as jobs: links of a chain that starts from the untouched model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, PreTrainedConfig

from acclimate.core import files, settings
from acclimate.core.prompt import FIELD
from acclimate.methods import METHODS, dga, distil, light, mlm, sequence_contrast, tapter
from acclimate.methods.domain import has_dropout
from acclimate.models.dropout import DROPOUT_FIELDS, set_dropout
from acclimate.models.encoder import longest_of
from acclimate.models.light import ADAPTED, BOTTLENECK
from acclimate.models.loading import identity, quiet
from acclimate.study import stages
from acclimate.study.contestants import DOMAIN
from acclimate.study.jobs import Job
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe
from acclimate.text.corpus import Corpus
from acclimate.training.run import PLACES


def check_adaptations(
    stated: Mapping[str, tuple[str, mlm.Recipe]],
    config: PreTrainedConfig,
    *,
    max_tokens: int,
    losses: tuple[str, int] | None = None,
) -> None:
    """Raises ValueError, in terms of settings, where a contestant could not adapt a model of this config, or what comes
    of it could not be fine-tuned or read: what its job would find out hours later.

    stated      contestant -> the group of settings that has its max_tokens and dropout, and how it adapts
    max_tokens  of the task's rows
    losses      the setting that says at what length losses on held-out text are read, and that length
    """
    for name, (group, recipe) in stated.items():
        _check_dropout(name, group, recipe, config)
        _check_light(name, recipe, config)
    if (longest := longest_of(config)) is None:
        return
    if max_tokens > longest:
        raise ValueError(
            f"examples of up to {max_tokens} tokens, but the model reads at most {longest}. Set --max-tokens {longest}"
        )
    if losses is not None and losses[1] > longest:
        setting, tokens = losses
        raise ValueError(
            f"{setting} = {tokens}, at which losses on held-out text are read, but the model reads at most {longest}. "
            f"Set {setting}={longest}"
        )
    for name, (group, recipe) in stated.items():
        prompt = prompt_behind(recipe) if not getattr(config, FIELD, 0) else 0
        read = {f"{group}.max_tokens=": recipe.max_tokens}
        if prompt:
            read |= {"--max-tokens ": max_tokens} | ({f"{losses[0]}=": losses[1]} if losses is not None else {})
        behind = 1 if isinstance(recipe, distil.Recipe) and recipe.teacher == "deit" else prompt
        for setting, tokens in read.items():
            _check_room(name, setting, tokens, behind=behind, prompt=prompt, longest=longest)


def _check_room(name: str, setting: str, tokens: int, *, behind: int, prompt: int, longest: int) -> None:
    """setting: as it is given, up to its value; behind: tokens behind a row, of which so many are a prompt."""
    if tokens + behind <= longest:
        return
    what = f"a prompt of {prompt}" if prompt else "a distillation token"
    ways = [f"set {setting}{longest - behind}"] if longest - behind >= 3 else []
    ways += [*(["lower light.prompt_tokens"] if prompt else []), f"leave {name} out of contestants"]
    way_out = ", or ".join(ways)
    raise ValueError(
        f"{name}: {setting}{tokens}{f', and {what} behind them' if behind else ''}, but the model reads at most "
        f"{longest} tokens. {way_out[0].upper()}{way_out[1:]}"
    )


def _check_dropout(name: str, group: str, recipe: mlm.Recipe, config: PreTrainedConfig) -> None:
    """That it can be set as stated, and is there where two passes over a text have to differ."""
    dropouts = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    given = {f"{group}.{setting}": value for setting, value in dropouts.items() if value is not None}
    if given and config.model_type not in DROPOUT_FIELDS:
        setting, value = next(iter(given.items()))
        raise ValueError(
            f"{name}: {setting} = {value}, but which settings of a '{config.model_type}' are its dropout is not known. "
            f"Known: {', '.join(DROPOUT_FIELDS)}. Leave {name} out of contestants, or take a model of these"
        )
    differing = isinstance(recipe, sequence_contrast.Recipe) and recipe.contrast == "simcse"
    if isinstance(recipe, dga.Recipe):
        differing = bool(recipe.contrast) or recipe.importance == "proxy"
    if not differing:
        return
    own = copy.deepcopy(config)
    set_dropout(own, attention=recipe.attention_dropout, hidden=recipe.dropout)
    any_model: Any = AutoModel  # its class methods are untyped in transformers
    with torch.device("meta"), quiet():
        noisy = has_dropout(any_model.from_config(own))
    if not noisy:
        told = " and ".join(f"{setting} = {value:g}" for setting, value in given.items()) or "the model has no dropout"
        raise ValueError(
            f"{name} compares passes over a text that differ by dropout alone, but {told}. "
            f"Set {group}.dropout=0.1, or leave {name} out of contestants"
        )


def _check_light(name: str, recipe: mlm.Recipe, config: PreTrainedConfig) -> None:
    """That adapters or a prompt can be put into the model, or are those that it has."""
    if not isinstance(recipe, light.Recipe):
        return
    if recipe.kind == "adapter" and config.model_type not in ADAPTED:
        raise ValueError(
            f"{name}: where adapters belong in a '{config.model_type}' is not known. Known: {', '.join(ADAPTED)}. "
            f"Leave {name} out of contestants"
        )
    setting, what, field = {
        "adapter": ("bottleneck", "adapters", BOTTLENECK),
        "prompt": ("prompt_tokens", "a prompt", FIELD),
    }[recipe.kind]
    there, wanted = int(getattr(config, field, 0)), getattr(recipe, setting)
    if there not in (0, wanted):
        raise ValueError(
            f"{name}: light.{setting} = {wanted}, but the model has {what} of {there} already. "
            f"Set light.{setting}={there}, or leave {name} out of contestants"
        )


def prompt_behind(recipe: Any) -> int:
    """Tokens that a method learns as a prompt behind each row; 0 where it learns none."""
    return recipe.prompt_tokens if isinstance(recipe, light.Recipe) and recipe.kind == "prompt" else 0


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
    method, _ = DOMAIN[step]
    return on_domain(label, method if method in METHODS else "mlm", recipe.on_domain(step), materials)


def on_domain(label: str, method: str, stated: mlm.Recipe, materials: Materials) -> Job:
    """Adapting on raw text of the domain by a method of METHODS, without the model that it starts from."""
    assert materials.domain is not None
    job = job_of(label, stages.adapt, stated, {"corpus": materials.domain})
    return job if method == "mlm" else replace(job, settings={**job.settings, "method": method})


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
