"""Who runs in a race, as jobs: how each contestant's model comes about, its fine-tunings and its one test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from acclimate.core import files, settings
from acclimate.core.types import SPLITS
from acclimate.methods import finetune, scratch, tapter, tlm
from acclimate.models.encoder import longest_input
from acclimate.models.loading import identity
from acclimate.study import retrieving, stages
from acclimate.study.jobs import Job
from acclimate.study.materials import Materials
from acclimate.study.recipe import BASELINE, CONTROL, TLM, UNTOUCHED, Recipe, Setting, baseline_of
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus

RETRIEVE = "retrieve"
PLACES = ("corpus", "model", "task", "dev", "vectors", "vectors_corpus")  # settings that say where something lies


@dataclass(frozen=True)
class Entries:
    """The jobs that come before any fine-tuning.

    base      the encoder that is pretrained here; None where a model was given
    models    contestant -> the job of its model, None for the given model itself; all but the baseline
    losses    model -> the job of its loss on held-out text of the domain; links of a chain too
    moves     model -> the job of its word embeddings' distance from the untouched model's; empty without TAPTER
    baseline  the one without an encoder
    """

    recipe: Recipe
    materials: Materials
    base: Job | None
    models: Mapping[str, Job | None]
    losses: Mapping[str, Job]
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
        return [*baseline, *(job for job in self.models.values() if job), *self.losses.values(), *self.moves.values()]


def fine_tuned(label: str, recipe: finetune.Recipe, model: Job | None, materials: Materials) -> Job:
    """Fine-tuning a job's model, or the given one."""
    task = materials.task
    contents = {name: task.hashes[name] for name in ("about", "train", "dev")}
    job = replace(_job(label, stages.fine_tune, recipe, {}), contents=contents, places={"task": task.path})
    return _with_model(job, model, materials)


def retrieved(recipe: retrieving.Recipe, materials: Materials) -> Job:
    """What the training texts bring up from the general text."""
    task, general = materials.task, materials.general
    assert general is not None
    job = _job(RETRIEVE, stages.retrieve, recipe, {"corpus": general})
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
    job = replace(_job(label, stages.joint, {"recipe": stated}, {}), contents=contents, places=places)
    if recipe.tokenizer:
        own = {"tokenizer": identity(recipe.tokenizer)}
        job = replace(job, contents={**contents, **own}, places={**places, "tokenizer": Path(recipe.tokenizer)})
    if corpus is not None:
        job = replace(job, needs={"retrieved": corpus})
    return _with_model(job, None, materials) if recipe.model else job


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
        base = _job("pretrain", stages.pretrain, recipe.pretrain, {"corpus": materials.general})
    models: dict[str, Job | None] = {UNTOUCHED: base}
    raw = {"domain": materials.domain is not None, "general": materials.general is not None}
    names = recipe.names(**raw, kind=materials.task.kind)
    if recipe.finetune.head == "kept" and (others := [name for name in names if name != BASELINE]):
        raise ValueError(
            f"finetune.head = 'kept' goes on with the model's own head, which {others[0]} has not. Leave it out, or "
            f"set contestants=[] (as acclimate evaluate does)"
        )
    for name in names:
        if name == CONTROL:
            models[name] = _with_model(Job(CONTROL, stages.untrained, {"seed": 0}), base, materials)
        elif name == TLM:
            models[name] = first_stage(TLM, recipe.tlm, retrieved(recipe.retrieval, materials), materials)
        elif name != BASELINE:
            models |= _adaptations(name, recipe, materials, base)
    losses: dict[str, Job] = {}
    if materials.heldout is not None:
        length = {"max_tokens": recipe.dapt.max_tokens}
        for adapted, model in models.items():
            if adapted == TLM:  # a loss a sub-word of another vocabulary is no smaller or larger
                continue
            job = _job(f"held-out loss, {adapted}", stages.heldout, length, {"corpus": materials.heldout})
            losses[adapted] = _with_model(replace(job, alone=True), model, materials)
    baseline = None
    if BASELINE in names:
        task = materials.task
        contents = {name: task.hashes[name] for name in ("about", "train", "dev")}
        fitted = _job(baseline_of(task.kind), stages.terms, recipe.tfidf, {})
        baseline = replace(fitted, contents=contents, places={"task": task.path}, alone=True)
    racing = {name: model for name, model in models.items() if name in (UNTOUCHED, *names)}
    moves = _moves(models, base, materials) if any("TAPTER" in name for name in names) else {}
    return Entries(recipe, materials, base, racing, losses, moves, baseline)


def _moves(models: Mapping[str, Job | None], base: Job | None, materials: Materials) -> dict[str, Job]:
    """Of all that were adapted from the untouched model. TLM has another vocabulary, the control random weights."""
    assert materials.task_text is not None
    job = _with_model(_job("", stages.move, {}, {"corpus": materials.task_text}), base, materials, "untouched")
    adapted = {name: model for name, model in models.items() if model and name not in (UNTOUCHED, CONTROL, TLM)}
    return {
        name: _with_model(replace(job, label=f"embedding distance, {name}", alone=True), model, materials)
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
    if materials.domain is None and any("DAPT" in name for name in recipe.contestants or ()):
        raise ValueError("DAPT needs raw text of the domain: give --corpus, or leave DAPT out of contestants")
    longest = scratch.positions(recipe.pretrain) if materials.model is None else longest_input(materials.model)
    if longest is not None and materials.task.max_tokens > longest:
        raise ValueError(
            f"examples of up to {materials.task.max_tokens} tokens, but the model reads at most {longest}. "
            f"Set --max-tokens {longest}"
        )


def _job(label: str, work: Any, recipe: Any, corpora: Mapping[str, Corpus]) -> Job:
    stated = dict(recipe) if isinstance(recipe, Mapping) else {"recipe": settings.to_mapping(recipe)}
    for name in PLACES:  # told by their content and not by their path
        stated.get("recipe", {}).pop(name, None)
    contents = {name: corpus.hash for name, corpus in corpora.items()}
    return Job(label, work, stated, contents, {name: corpus.path for name, corpus in corpora.items()})


def _with_model(job: Job, model: Job | None, materials: Materials, argument: str = "model") -> Job:
    """The job on the checkpoint of another, or on the given model."""
    if model is not None:
        return replace(job, needs={**job.needs, argument: model})
    given = materials.model
    assert given is not None
    if not Path(given).is_dir():
        return replace(job, settings={**job.settings, argument: given})
    contents = {**job.contents, argument: identity(given)}
    return replace(job, contents=contents, places={**job.places, argument: Path(given).absolute()})


def _adaptations(name: str, recipe: Recipe, materials: Materials, base: Job | None) -> dict[str, Job | None]:
    """The chain of a name such as "DAPT+TAPT", each link by the name that it would have alone."""
    chain: dict[str, Job | None] = {}
    model, done = base, []
    for step in name.split("+"):
        done.append(step)
        model = _with_model(_adaptation(step, "+".join(done), recipe, materials), model, materials)
        chain["+".join(done)] = model
    return chain


def _adaptation(step: str, label: str, recipe: Recipe, materials: Materials) -> Job:
    """One link, without the model that it starts from."""
    if step == "TAPTER":
        return _regularised(label, recipe.tapter, materials)
    corpus, stated = (materials.task_text, recipe.tapt) if step == "TAPT" else (materials.domain, recipe.dapt)
    assert corpus is not None
    return _job(label, stages.adapt, stated, {"corpus": corpus})


def _regularised(label: str, stated: tapter.Recipe, materials: Materials) -> Job:
    """TAPTER on the task's texts, watched on text that was held out. Its vectors are a job of their own, which several
    contestants share; those that are to be taken as they are, are a file.
    """
    assert materials.task_text is not None
    heldout = {"dev": materials.heldout} if materials.heldout is not None else {}
    job = _job(label, stages.regularise, stated, {"corpus": materials.task_text, **heldout})
    given = Path(stated.vectors).absolute() if stated.vectors else None
    if given is not None and not given.is_file():
        raise ValueError(f"tapter.vectors = {stated.vectors}: there is no such file. Give a fastText .bin or .vec")
    if given is not None and not stated.train_vectors:
        contents = {**job.contents, "vectors": files.sha256_of_input(given)}
        return replace(job, contents=contents, places={**job.places, "vectors": given})
    raw = materials.domain or materials.general
    corpora = {"corpus": materials.task_text, **({"raw": raw} if raw is not None else {})}
    skipgram = {"skipgram": settings.to_mapping(stated.skipgram)}
    vectors = _job("word vectors", stages.word_vectors, skipgram, corpora)
    if given is not None:
        contents = {**vectors.contents, "start": files.sha256_of_input(given)}
        vectors = replace(vectors, contents=contents, places={**vectors.places, "start": given})
    return replace(job, needs={"vectors": vectors})
