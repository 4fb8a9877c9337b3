"""The main job: which way of adapting a model to this domain gives the best model, by how much, at what cost?

Every contestant is the same encoder, untouched or adapted, fine-tuned with the same settings, steps and seeds. Choices
look at dev only; the test set is opened once a contestant and seed, after everything else is done.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from acclimate.core import files, ranks, settings
from acclimate.core.types import Cost, Score, Watch, unwatched
from acclimate.methods import finetune, mlm, scratch, tfidf
from acclimate.models.encoder import longest_input
from acclimate.models.loading import identity
from acclimate.study import stages
from acclimate.study.facts import adapting_jobs, facts_of
from acclimate.study.jobs import Job, do, missing
from acclimate.study.outcome import WINNER, write_outcome
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus
from acclimate.training.checkpoint import CLOCK, spent
from acclimate.training.plan import Plan
from acclimate.training.run import CHECKPOINT

UNTOUCHED = "untouched"
BASELINE = "TF-IDF"
CONTROL = "random weights"

Contestant = Literal["TAPT", "DAPT", "DAPT+TAPT", "TF-IDF", "random weights"]


@dataclass(frozen=True)
class Recipe:
    """A race. The untouched model always runs; `contestants` run against it.

    The defaults are for a small encoder that is pretrained here, on text as small as the demo's: what two cores do
    within ten minutes. `for_model` has those for a pretrained one.
    """

    seeds: int = 3
    contestants: tuple[Contestant, ...] = ("TAPT", "DAPT", "TF-IDF", "random weights")
    pretrain: scratch.Recipe = field(
        default_factory=lambda: scratch.Recipe(
            vocabulary=8_000,
            layers=2,
            hidden=128,
            heads=2,
            dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.08,  # about 1 / sqrt(hidden); BERT's .02 keeps so narrow a model from learning for long
            plan=Plan(steps=2_700, batch=16, rate=1.5e-3, warmup=0.1),
        )
    )
    tapt: mlm.Recipe = field(
        default_factory=lambda: mlm.Recipe(
            whole_words=True, epochs=0.0, plan=Plan(steps=400, batch=16, rate=1e-3, warmup=0.06)
        )
    )
    dapt: mlm.Recipe = field(
        default_factory=lambda: mlm.Recipe(
            whole_words=True, epochs=0.0, plan=Plan(steps=800, batch=16, rate=1e-3, warmup=0.06)
        )
    )
    finetune: finetune.Recipe = field(
        default_factory=lambda: finetune.Recipe(epochs=9.0, looks=3, plan=Plan(batch=16, rate=1e-3, warmup=0.1))
    )
    tfidf: tfidf.Recipe = field(default_factory=tfidf.Recipe)

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(
                f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 3 or 5"
            )
        if len(set(self.contestants)) < len(self.contestants):
            raise ValueError(f"contestants = {list(self.contestants)}: each may stand once")


def for_model() -> Recipe:
    """The papers' own settings, for a pretrained model of the usual size.

    TAPT as TAPTER states it and fine-tuning as BLURB does (the defaults of methods/mlm.py and methods/finetune.py);
    DAPT as DGA states it: 2,500 steps of 256 sequences of 164 tokens, rate 1e-4, no decay.
    """
    dapt = mlm.Recipe(max_tokens=164, epochs=0.0, plan=Plan(2_500, 256, 1e-4, warmup=0.1, weight_decay=0.0))
    return Recipe(tapt=mlm.Recipe(), dapt=dapt, finetune=finetune.Recipe())


@dataclass(frozen=True)
class Materials:
    """What a race runs on. Either `model` (a directory or hub id) or `general`, to pretrain a small encoder on."""

    task: Prepared
    task_text: Corpus
    model: str | None = None
    general: Corpus | None = None
    domain: Corpus | None = None
    heldout: Corpus | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.model is None) == (self.general is None):
            raise ValueError("give either a model to start from or a general corpus to pretrain one on, not both")


@dataclass(frozen=True)
class Jobs:
    """The jobs of a race: models and fine-tunings by contestant, the latter a seed each."""

    base: Job | None
    models: Mapping[str, Job | None]  # None: the given model itself
    losses: Mapping[str, Job]
    tuned: Mapping[str, tuple[Job, ...]]
    tests: Mapping[str, tuple[Job, ...]]

    def all(self) -> list[Job]:
        """In the order in which they run: the test set comes last."""
        models = [job for job in self.models.values() if job]
        tuned = [job for jobs in zip(*self.tuned.values(), strict=True) for job in jobs]
        return [*models, *self.losses.values(), *tuned, *(job for jobs in self.tests.values() for job in jobs)]


def plan_race(recipe: Recipe, materials: Materials) -> Jobs:
    """The jobs that answer the race's question. Raises ValueError where a contestant lacks the text it needs."""
    if materials.domain is None and any("DAPT" in name for name in recipe.contestants):
        raise ValueError("DAPT needs raw text of the domain: give --domain, or leave DAPT out of contestants")
    longest = scratch.positions(recipe.pretrain) if materials.model is None else longest_input(materials.model)
    if longest is not None and materials.task.max_tokens > longest:
        raise ValueError(
            f"examples of up to {materials.task.max_tokens} tokens, but the model reads at most {longest}. "
            f"Set --max-tokens {longest}"
        )
    base = None
    if materials.general is not None:
        base = _job("pretrain", stages.pretrain, recipe.pretrain, {"corpus": materials.general})
    models: dict[str, Job | None] = {UNTOUCHED: base}
    for name in recipe.contestants:
        if name == BASELINE:
            continue
        if name == CONTROL:
            models[name] = _with_model(Job(CONTROL, stages.untrained, {"seed": 0}), base, materials)
        else:
            models |= _adaptations(name, recipe, materials, base)
    losses: dict[str, Job] = {}
    if materials.heldout is not None:
        length = {"max_tokens": recipe.dapt.max_tokens}
        for adapted, model in models.items():
            job = _job(f"held-out loss, {adapted}", stages.heldout, length, {"corpus": materials.heldout})
            losses[adapted] = _with_model(replace(job, alone=True), model, materials)
    models = {name: model for name, model in models.items() if name in (UNTOUCHED, *recipe.contestants)}
    tuned = {name: tuple(_tunings(name, model, recipe, materials)) for name, model in models.items()}
    tests = {name: tuple(_test(job, materials.task) for job in jobs) for name, jobs in tuned.items()}
    if BASELINE in recipe.contestants:
        job = _job(BASELINE, stages.terms, recipe.tfidf, {})
        task = materials.task
        tests[BASELINE] = (replace(job, places={"task": task.path}, contents=dict(task.hashes), alone=True),)
    return Jobs(base, models, losses, tuned, tests)


def race(recipe: Recipe, materials: Materials, run: Path, *, command: str, watch: Watch = unwatched) -> None:
    """Run what is missing of the race in the directory `run`, then write the winner's checkpoint, scores and facts
    (study/outcome.py makes tables and the page of them).

    Raises HeldError where another process works in `run`.
    """
    jobs = plan_race(recipe, materials)
    with files.hold(run) if ranks.is_first() else nullcontext():
        for job in jobs.all():
            do(job, run, watch=watch)
    scores = _scores(recipe, materials.task, jobs, run)
    winner = _winner(scores)
    facts = facts_of(recipe, materials, jobs, run, command) | {"winner": winner[0]}
    if ranks.is_first():
        _hand_over(winner, jobs, run)
        write_outcome(run, scores, facts)
    ranks.agree(None)


def left(recipe: Recipe, materials: Materials, run: Path) -> list[Job]:
    """The jobs that a race would still do."""
    return missing(plan_race(recipe, materials).all(), run)


def _job(label: str, work: Any, recipe: Any, corpora: Mapping[str, Corpus]) -> Job:
    stated = dict(recipe) if isinstance(recipe, Mapping) else {"recipe": settings.to_mapping(recipe)}
    for name in ("corpus", "model", "task"):  # places, told by their content and not by their path
        stated.get("recipe", {}).pop(name, None)
    contents = {name: corpus.hash for name, corpus in corpora.items()}
    return Job(label, work, stated, contents, {name: corpus.path for name, corpus in corpora.items()})


def _with_model(job: Job, model: Job | None, materials: Materials) -> Job:
    """The job on the checkpoint of another, or on the given model."""
    if model is not None:
        return replace(job, needs={**job.needs, "model": model})
    given = materials.model
    assert given is not None
    if not Path(given).is_dir():
        return replace(job, settings={**job.settings, "model": given})
    contents = {**job.contents, "model": identity(given)}
    return replace(job, contents=contents, places={**job.places, "model": Path(given).absolute()})


def _adaptations(name: str, recipe: Recipe, materials: Materials, base: Job | None) -> dict[str, Job | None]:
    """The chain of a name such as "DAPT+TAPT", each link by the name that it would have alone."""
    chain: dict[str, Job | None] = {}
    model, done = base, []
    for step in name.split("+"):
        done.append(step)
        corpus, stated = (materials.task_text, recipe.tapt) if step == "TAPT" else (materials.domain, recipe.dapt)
        assert corpus is not None
        job = _job("+".join(done), stages.adapt, stated, {"corpus": corpus})
        model = _with_model(job, model, materials)
        chain["+".join(done)] = model
    return chain


def _tunings(name: str, model: Job | None, recipe: Recipe, materials: Materials) -> list[Job]:
    task, jobs = materials.task, []
    for seed in range(recipe.seeds):
        stated = replace(recipe.finetune, plan=replace(recipe.finetune.plan, seed=seed))
        job = _job(f"fine-tune {name}, seed {seed}", stages.fine_tune, stated, {})
        contents = {name: task.hashes[name] for name in ("about", "train", "dev")}
        jobs.append(_with_model(replace(job, contents=contents, places={"task": task.path}), model, materials))
    return jobs


def _test(tuned: Job, task: Prepared) -> Job:
    contents = {name: task.hashes[name] for name in ("about", "test")}
    label = tuned.label.replace("fine-tune", "test")
    return Job(label, stages.test, {}, contents, {"task": task.path}, {"tuned": tuned}, alone=True)


def adapting_cost(name: str, jobs: Jobs, run: Path) -> Cost:
    """What lies between the untouched model and the contestant's."""
    return sum((spent(job.directory(run)) for job in adapting_jobs(name, jobs)), Cost())


def _scores(recipe: Recipe, task: Prepared, jobs: Jobs, run: Path) -> list[Score]:
    scores = []
    for name, tests in jobs.tests.items():
        if name == BASELINE:
            [job] = tests
            result = do(job, run)
            seconds = files.read_json(job.directory(run) / CLOCK)["seconds"]
            fitting = Cost(result.pop("tokens"), 0.0, seconds)
            # it has no seed: the same fit stands beside every seed of the others
            scores += [
                _score(name, seed, result, task, adapting=Cost(), finetuning=fitting) for seed in range(recipe.seeds)
            ]
            continue
        adapting = adapting_cost(name, jobs, run)
        for seed, (tuned, test) in enumerate(zip(jobs.tuned[name], tests, strict=True)):
            result = do(test, run) | {"dev": do(tuned, run)["dev"]}
            finetuning = spent(tuned.directory(run))
            scores.append(_score(name, seed, result, task, adapting=adapting, finetuning=finetuning))
    return scores


def _score(
    name: str, seed: int, result: Mapping[str, Any], task: Prepared, *, adapting: Cost, finetuning: Cost
) -> Score:
    lists = {key: tuple(result[key]) for key in ("ids", "gold", "predicted")}
    return Score(
        contestant=name,
        task=task.name,
        metric=task.metric.name,
        seed=seed,
        dev=result["dev"],
        test=result["test"],
        adapting=adapting,
        finetuning=finetuning,
        **lists,
    )


def _winner(scores: list[Score]) -> tuple[str, int]:
    """The encoder with the best mean on dev, and of its seeds the best on dev: the test set chooses nothing."""
    dev: dict[str, list[Score]] = {}
    for score in scores:
        if score.contestant != BASELINE:
            dev.setdefault(score.contestant, []).append(score)
    best = max(dev.values(), key=lambda own: sum(score.dev for score in own) / len(own))
    first = max(best, key=lambda score: score.dev)
    return first.contestant, first.seed


def _hand_over(winner: tuple[str, int], jobs: Jobs, run: Path) -> None:
    """The winner's checkpoint as `run/winner`, an ordinary directory that transformers loads."""
    name, seed = winner
    source = jobs.tuned[name][seed].directory(run) / CHECKPOINT
    with files.new_directory(run / WINNER) as temporary:
        for file in source.iterdir():
            if file.name != files.MANIFEST:
                shutil.copy(file, temporary / file.name)
        files.write_json(temporary / "race.json", {"contestant": name, "seed": seed})
