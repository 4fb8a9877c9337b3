"""Who runs in a race, as jobs: how each contestant's model comes about, its fine-tunings and its one test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from acclimate.core import settings
from acclimate.core.types import SPLITS
from acclimate.methods import finetune, mlm, scratch, tlm
from acclimate.models.encoder import configuration_of
from acclimate.models.loading import identity
from acclimate.models.parts import heads_known
from acclimate.study import retrieving, stages
from acclimate.study.adapting import adaptations, check_adaptations, job_of, with_model
from acclimate.study.contestants import BASELINE, CONTROL, DOMAIN, TLM, UNTOUCHED
from acclimate.study.jobs import Job
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe, Setting, baseline_of
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus

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

    recipe: Recipe
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


def fine_tuned(label: str, recipe: finetune.Recipe, model: Job | None, materials: Materials) -> Job:
    """Fine-tuning a job's model, or the given one."""
    task = materials.task
    contents = {name: task.hashes[name] for name in ("about", "train", "dev")}
    job = replace(job_of(label, stages.fine_tune, recipe, {}), contents=contents, places={"task": task.path})
    return with_model(job, model, materials)


def retrieved(recipe: retrieving.Recipe, materials: Materials) -> Job:
    """What the training texts bring up from the general text."""
    task, general = materials.task, materials.general
    assert general is not None
    job = job_of(RETRIEVE, stages.retrieve, recipe, {"corpus": general})
    contents = {**job.contents, **{str(split): task.hashes[split] for split in SPLITS}}
    return replace(job, contents=contents, places={**job.places, "task": task.path}, alone=True)


def cut(larger: Job, k: int) -> Job:
    """The beginning of a retrieval with a larger k."""
    return Job(f"cut to {k}", stages.cut, {"k": k}, needs={"larger": larger}, alone=True)


def first_stage(label: str, recipe: tlm.Recipe, corpus: Job | None, materials: Materials) -> Job:
    """TLM's first stage on what was retrieved, from the given model where the recipe names one. Its second is the
    fine-tuning that everybody gets.
    """
    task = materials.task
    stated = settings.to_mapping(replace(recipe, tokenizer=""))
    for later in ("stage_2", "finetune"):
        stated.pop(later)
    contents = {name: task.hashes[name] for name in ("about", "train")}
    places: dict[str, Path] = {"task": task.path}
    job = replace(job_of(label, stages.joint, {"recipe": stated}, {}), contents=contents, places=places)
    if recipe.tokenizer:
        own = {"tokenizer": identity(recipe.tokenizer)}
        job = replace(job, contents={**contents, **own}, places={**places, "tokenizer": Path(recipe.tokenizer)})
    if corpus is not None:
        job = replace(job, needs={"retrieved": corpus})
    return with_model(job, None, materials) if recipe.model else job


def heldout_loss(label: str, corpus: Corpus, model: Job | None, materials: Materials, *, max_tokens: int) -> Job:
    """A model's language modelling loss on held-out text, under the same masks for every model of one vocabulary."""
    job = job_of(label, stages.heldout, {"max_tokens": max_tokens}, {"corpus": corpus})
    return with_model(replace(job, alone=True), model, materials)


def tested(tuned: Job, task: Prepared) -> Job:
    """The one look at the test set that a fine-tuned checkpoint gets."""
    contents = {name: task.hashes[name] for name in ("about", "test")}
    label = tuned.label.replace("fine-tune", "test")
    return Job(label, stages.test, {"by": label}, contents, {"task": task.path}, {"tuned": tuned}, alone=True)


def tested_baseline(fitted: Job, task: Prepared) -> Job:
    """The one look at the test set that the baseline gets."""
    contents = {name: task.hashes[name] for name in ("about", "train", "test")}
    label = f"test {fitted.label}"
    stated = {"by": label, "recipe": fitted.settings["recipe"]}
    return Job(label, stages.test_terms, stated, contents, {"task": task.path}, {"fitted": fitted}, alone=True)


def enter(recipe: Recipe, materials: Materials) -> Entries:
    """The contestants' jobs. Raises ValueError where one lacks the text it needs or the model cannot read the task."""
    _check(recipe, materials)
    base = None
    if materials.model is None:
        assert materials.general is not None
        base = job_of("pretrain", stages.pretrain, recipe.pretrain, {"corpus": materials.general})
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
            models[name] = with_model(Job(CONTROL, stages.untrained, {"seed": 0}), base, materials)
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
        fitted = job_of(baseline_of(task.kind), stages.terms, recipe.tfidf, {})
        baseline = replace(fitted, contents=contents, places={"task": task.path}, alone=True)
    racing = {name: model for name, model in models.items() if name in (UNTOUCHED, *names)}
    moves = _moves(models, base, materials) if any("TAPTER" in name for name in names) else {}
    return Entries(recipe, materials, base, racing, losses, general_losses, moves, baseline)


def _moves(models: Mapping[str, Job | None], base: Job | None, materials: Materials) -> dict[str, Job]:
    """Of all that were adapted from the untouched model. TLM has another vocabulary, the control random weights."""
    assert materials.task_text is not None
    job = with_model(job_of("", stages.move, {}, {"corpus": materials.task_text}), base, materials, "untouched")
    adapted = {name: model for name, model in models.items() if model and name not in (UNTOUCHED, CONTROL, TLM)}
    return {
        name: with_model(replace(job, label=f"embedding distance, {name}", alone=True), model, materials)
        for name, model in adapted.items()
    }


def _check(recipe: Recipe, materials: Materials) -> None:
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


def _check_adaptations(recipe: Recipe, materials: Materials, names: Sequence[str]) -> None:
    """Raises ValueError for contestants that the model is not for, or their settings."""
    own = recipe.pretrain
    config = configuration_of(materials.model) if materials.model is not None else scratch.configuration(own)
    stated: dict[str, tuple[str, mlm.Recipe]] = {}
    for link in [link for name in names for link in name.split("+")]:
        if link in DOMAIN:
            stated[link] = DOMAIN[link][0], recipe.on_domain(link)
        elif link in ("TAPT", "TAPTER"):
            stated[link] = link.lower(), getattr(recipe, link.lower())
    heldout = materials.heldout is not None or materials.general_heldout is not None
    losses = ("dapt.max_tokens", recipe.dapt.max_tokens) if heldout else None
    check_adaptations(stated, config, max_tokens=materials.task.max_tokens, losses=losses)
