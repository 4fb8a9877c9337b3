"""Who runs in a race, as jobs: how each contestant's model comes about, its fine-tunings and its one test."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, PreTrainedConfig

from acclimate.core import files, settings
from acclimate.core.prompt import FIELD
from acclimate.core.types import SPLITS
from acclimate.data import retrieve
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import METHODS, dga, distil, finetune, light, mlm, scratch, sequence_contrast, tapter, tlm
from acclimate.methods.contestants import BASELINE, CONTROL, DOMAIN, TLM, UNTOUCHED
from acclimate.methods.domain import has_dropout
from acclimate.models.dropout import DROPOUT_FIELDS, set_dropout
from acclimate.models.encoder import configuration_of, longest_of
from acclimate.models.gates import heads_known
from acclimate.models.light import ADAPTED, BOTTLENECK
from acclimate.models.loading import identity, quiet
from acclimate.race import work
from acclimate.race.recipe import RaceRecipe, Setting, baseline_of
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus
from acclimate.training.run import PLACES

# -------------------- adapting
# How each contestant's model comes about, as jobs: links of a chain that starts from the untouched model.


def check_adaptations(
    stated: Mapping[str, tuple[str, mlm.MlmRecipe]],
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
        behind = 1 if isinstance(recipe, distil.DistilRecipe) and recipe.teacher == "deit" else prompt
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


def _check_dropout(name: str, group: str, recipe: mlm.MlmRecipe, config: PreTrainedConfig) -> None:
    """That it can be set as stated, and is there where two passes over a text have to differ."""
    dropouts = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    given = {f"{group}.{setting}": value for setting, value in dropouts.items() if value is not None}
    if given and config.model_type not in DROPOUT_FIELDS:
        setting, value = next(iter(given.items()))
        raise ValueError(
            f"{name}: {setting} = {value}, but which settings of a '{config.model_type}' are its dropout is not known. "
            f"Known: {', '.join(DROPOUT_FIELDS)}. Leave {name} out of contestants, or take a model of these"
        )
    differing = isinstance(recipe, sequence_contrast.SequenceContrastRecipe) and recipe.contrast == "simcse"
    if isinstance(recipe, dga.DgaRecipe):
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


def _check_light(name: str, recipe: mlm.MlmRecipe, config: PreTrainedConfig) -> None:
    """That adapters or a prompt can be put into the model, or are those that it has."""
    if not isinstance(recipe, light.LightRecipe):
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
    return recipe.prompt_tokens if isinstance(recipe, light.LightRecipe) and recipe.kind == "prompt" else 0


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


def adaptations(name: str, recipe: RaceRecipe, materials: Materials, base: Job | None) -> dict[str, Job | None]:
    """The chain of a name such as "DAPT+TAPT", each link by the name that it would have alone."""
    chain: dict[str, Job | None] = {}
    model, done = base, []
    for step in name.split("+"):
        done.append(step)
        model = with_model(_adaptation(step, "+".join(done), recipe, materials), model, materials)
        chain["+".join(done)] = model
    return chain


def _adaptation(step: str, label: str, recipe: RaceRecipe, materials: Materials) -> Job:
    """One link, without the model that it starts from."""
    if step == "TAPTER":
        return _regularised(label, recipe.tapter, materials)
    if step == "TAPT":
        assert materials.task_text is not None
        return job_of(label, work.ADAPT, recipe.tapt, {"corpus": materials.task_text})
    method, _ = DOMAIN[step]
    return on_domain(label, method if method in METHODS else "mlm", recipe.on_domain(step), materials)


def on_domain(label: str, method: str, stated: mlm.MlmRecipe, materials: Materials) -> Job:
    """Adapting on raw text of the domain by a method of METHODS, without the model that it starts from."""
    assert materials.domain is not None
    job = job_of(label, work.ADAPT, stated, {"corpus": materials.domain})
    return job if method == "mlm" else replace(job, settings={**job.settings, "method": method})


def _regularised(label: str, stated: tapter.TapterRecipe, materials: Materials) -> Job:
    """TAPTER on the task's texts, watched on text that was held out. Its vectors are a job of their own, which several
    contestants share; those that are to be taken as they are, are a file.
    """
    assert materials.task_text is not None
    heldout = {"dev": materials.heldout} if materials.heldout is not None else {}
    stated = replace(stated, scale=tapter.scale_of(stated))  # the job gets vectors, and cannot tell from where
    job = job_of(label, work.REGULARISE, stated, {"corpus": materials.task_text, **heldout})
    given = Path(stated.vectors).absolute() if stated.vectors else None
    if given is not None and not given.is_file():
        raise ValueError(f"tapter.vectors = {stated.vectors}: there is no such file. Give a fastText .bin or .vec")
    if given is not None and not stated.train_vectors:
        contents = {**job.contents, "vectors": files.sha256_of_input(given)}
        return replace(job, contents=contents, places={**job.places, "vectors": given})
    raw = materials.domain or materials.general
    corpora = {"corpus": materials.task_text, **({"raw": raw} if raw is not None else {})}
    skipgram = {"skipgram": settings.to_mapping(stated.skipgram)}
    vectors = job_of("word vectors", work.WORD_VECTORS, skipgram, corpora)
    if given is not None:
        contents = {**vectors.contents, "start": files.sha256_of_input(given)}
        vectors = replace(vectors, contents=contents, places={**vectors.places, "start": given})
    return replace(job, needs={"vectors": vectors})


RETRIEVE = "retrieve"


@dataclass(frozen=True)
class Entries:
    """The jobs that come before any fine-tuning.

    base            the encoder that is pretrained here; None where a model was given
    models          contestant -> the job of its model, None for the given model itself; all but the baseline
    losses          model -> the job of its loss on held-out text of the domain; links of a chain too
    general_losses  likewise on held-out general text
    moves           model -> the job of its word embeddings' distance from the untouched model's; empty without TAPTER
    baseline        the one without an encoder
    """

    recipe: RaceRecipe
    materials: Materials
    base: Job | None
    models: Mapping[str, Job | None]
    losses: Mapping[str, Job]
    general_losses: Mapping[str, Job]
    moves: Mapping[str, Job]
    baseline: Job | None

    def tuning(self, contestant: str, setting: Setting, seed: int) -> Job:
        """Fine-tuning a contestant's model with one setting and seed."""
        own = setting.recipe
        several = len(self.recipe.settings()) > 1
        words = [f"fine-tune {contestant}", *([setting.name] if several else []), f"seed {seed}"]
        stated = replace(own, plan=replace(own.plan, seed=seed))
        return fine_tuned(", ".join(words), stated, self.models[contestant], self.materials)

    def prepared(self) -> list[Job]:
        """Models and what is measured of them, in the order in which they are made; the baseline first."""
        baseline = [self.baseline] if self.baseline else []
        measured = [job for jobs in (self.losses, self.general_losses, self.moves) for job in jobs.values()]
        return [*baseline, *(job for job in self.models.values() if job), *measured]


def fine_tuned(label: str, recipe: finetune.FinetuneRecipe, model: Job | None, materials: Materials) -> Job:
    """Fine-tuning a job's model, or the given one."""
    task = materials.task
    contents = {name: task.hashes[name] for name in ("about", "train", "dev")}
    job = replace(job_of(label, work.FINE_TUNE, recipe, {}), contents=contents, places={"task": task.path})
    return with_model(job, model, materials)


def retrieved(recipe: retrieve.RetrieveRecipe, materials: Materials) -> Job:
    """What the training texts bring up from the general text."""
    task, general = materials.task, materials.general
    assert general is not None
    job = job_of(RETRIEVE, work.RETRIEVE, recipe, {"corpus": general})
    contents = {**job.contents, **{str(split): task.hashes[split] for split in SPLITS}}
    return replace(job, contents=contents, places={**job.places, "task": task.path}, alone=True)


def cut(larger: Job, k: int) -> Job:
    """The beginning of a retrieval with a larger k."""
    return Job(f"cut to {k}", work.CUT, {"k": k}, needs={"larger": larger}, alone=True)


def first_stage(label: str, recipe: tlm.TlmRecipe, corpus: Job | None, materials: Materials) -> Job:
    """TLM's first stage on what was retrieved, from the given model where the recipe names one. Its second is the
    fine-tuning that everybody gets.
    """
    task = materials.task
    stated = settings.to_mapping(replace(recipe, tokenizer=""))
    for later in ("stage_2", "finetune"):
        stated.pop(later)
    contents = {name: task.hashes[name] for name in ("about", "train")}
    places: dict[str, Path] = {"task": task.path}
    job = replace(job_of(label, work.JOINT, {"recipe": stated}, {}), contents=contents, places=places)
    if recipe.tokenizer:
        own = {"tokenizer": identity(recipe.tokenizer)}
        job = replace(job, contents={**contents, **own}, places={**places, "tokenizer": Path(recipe.tokenizer)})
    if corpus is not None:
        job = replace(job, needs={"retrieved": corpus})
    return with_model(job, None, materials) if recipe.model else job


def heldout_loss(label: str, corpus: Corpus, model: Job | None, materials: Materials, *, max_tokens: int) -> Job:
    """A model's language modelling loss on held-out text, under the same masks for every model of one vocabulary."""
    job = job_of(label, work.HELDOUT, {"max_tokens": max_tokens}, {"corpus": corpus})
    return with_model(replace(job, alone=True), model, materials)


def tested(tuned: Job, task: Prepared) -> Job:
    """The one look at the test set that a fine-tuned checkpoint gets."""
    contents = {name: task.hashes[name] for name in ("about", "test")}
    label = tuned.label.replace("fine-tune", "test")
    return Job(label, work.TEST, {"by": label}, contents, {"task": task.path}, {"tuned": tuned}, alone=True)


def tested_baseline(fitted: Job, task: Prepared) -> Job:
    """The one look at the test set that the baseline gets."""
    contents = {name: task.hashes[name] for name in ("about", "train", "test")}
    label = f"test {fitted.label}"
    stated = {"by": label, "recipe": fitted.settings["recipe"]}
    return Job(label, work.TEST_TERMS, stated, contents, {"task": task.path}, {"fitted": fitted}, alone=True)


def enter(recipe: RaceRecipe, materials: Materials) -> Entries:
    """The contestants' jobs. Raises ValueError where one lacks the text it needs or the model cannot read the task."""
    _check(recipe, materials)
    base = None
    if materials.model is None:
        assert materials.general is not None
        base = job_of("pretrain", work.PRETRAIN, recipe.pretrain, {"corpus": materials.general})
    models: dict[str, Job | None] = {UNTOUCHED: base}
    raw = {"domain": materials.domain is not None, "general": materials.general is not None}
    heads = materials.model is None or heads_known(materials.model)
    names = recipe.names(**raw, kind=materials.task.kind, heads=heads)
    if recipe.finetune.head == "kept" and (others := [name for name in names if name != BASELINE]):
        raise ValueError(
            f"finetune.head = 'kept' goes on with the model's own head, which {others[0]} has not. Leave it out, or "
            f"set contestants=[] (as acclimate evaluate does)"
        )
    _check_adaptations(recipe, materials, names)
    for name in names:
        if name == CONTROL:
            models[name] = with_model(Job(CONTROL, work.UNTRAINED, {"seed": 0}), base, materials)
        elif name == TLM:
            models[name] = first_stage(TLM, recipe.tlm, retrieved(recipe.retrieval, materials), materials)
        elif name != BASELINE:
            models |= adaptations(name, recipe, materials, base)
    # a loss a sub-word of another vocabulary is no smaller or larger
    read = {name: model for name, model in models.items() if name != TLM or recipe.tlm.model}
    longest = recipe.dapt.max_tokens
    losses = {
        name: heldout_loss(f"held-out loss, {name}", materials.heldout, model, materials, max_tokens=longest)
        for name, model in read.items()
        if materials.heldout is not None
    }
    general_losses = {
        name: heldout_loss(f"general loss, {name}", materials.general_heldout, model, materials, max_tokens=longest)
        for name, model in read.items()
        if materials.general_heldout is not None
    }
    baseline = None
    if BASELINE in names:
        task = materials.task
        contents = {name: task.hashes[name] for name in ("about", "train", "dev")}
        fitted = job_of(baseline_of(task.kind), work.TERMS, recipe.tfidf, {})
        baseline = replace(fitted, contents=contents, places={"task": task.path}, alone=True)
    racing = {name: model for name, model in models.items() if name in (UNTOUCHED, *names)}
    moves = _moves(models, base, materials) if any("TAPTER" in name for name in names) else {}
    return Entries(recipe, materials, base, racing, losses, general_losses, moves, baseline)


def _moves(models: Mapping[str, Job | None], base: Job | None, materials: Materials) -> dict[str, Job]:
    """Of all that were adapted from the untouched model. TLM has another vocabulary, the control random weights."""
    assert materials.task_text is not None
    job = with_model(job_of("", work.MOVE, {}, {"corpus": materials.task_text}), base, materials, "untouched")
    adapted = {name: model for name, model in models.items() if model and name not in (UNTOUCHED, CONTROL, TLM)}
    return {
        name: with_model(replace(job, label=f"embedding distance, {name}", alone=True), model, materials)
        for name, model in adapted.items()
    }


def _check(recipe: RaceRecipe, materials: Materials) -> None:
    if recipe.search.draws and find_spec("optuna") is None:
        raise ValueError(
            f"search.how = '{recipe.search.how}' needs Optuna, which is not installed: pip install 'acclimate[optuna]'"
        )
    if materials.general is None and TLM in (recipe.contestants or ()):
        raise ValueError("TLM retrieves from general text: give --general, or leave TLM out of contestants")
    if recipe.tlm.model and not materials.model:
        raise ValueError(f"tlm.model = {recipe.tlm.model!r}, but no model is given. Add --model {recipe.tlm.model}")
    links = [link for name in recipe.contestants or () for link in name.split("+") if link in DOMAIN]
    if materials.domain is None and links:
        raise ValueError(
            f"{links[0]} needs raw text of the domain: give --corpus, or leave {links[0]} out of contestants"
        )


def _check_adaptations(recipe: RaceRecipe, materials: Materials, names: Sequence[str]) -> None:
    """Raises ValueError for contestants that the model is not for, or their settings."""
    own = recipe.pretrain
    config = configuration_of(materials.model) if materials.model is not None else scratch.configuration(own)
    stated: dict[str, tuple[str, mlm.MlmRecipe]] = {}
    for link in [link for name in names for link in name.split("+")]:
        if link in DOMAIN:
            stated[link] = DOMAIN[link][0], recipe.on_domain(link)
        elif link in ("TAPT", "TAPTER"):
            stated[link] = link.lower(), getattr(recipe, link.lower())
    heldout = materials.heldout is not None or materials.general_heldout is not None
    losses = ("dapt.max_tokens", recipe.dapt.max_tokens) if heldout else None
    check_adaptations(stated, config, max_tokens=materials.task.max_tokens, losses=losses)
