"""What jobs are going to cost, before they start: tokens, FLOPs, seconds, memory and disk.

A few real steps of each kind are tried on this machine as it is now. Masked language modelling is tried on rows of
random ids that are as long as those of a sample of the texts. Fine-tuning is tried as it will be, with its head on rows
of the task; the trained weights are thrown away. races/estimates.py says which of these a job consists of
(`Work.estimate`). Nothing is written into the run.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import ranks, settings
from acclimate.core.figures import listed
from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, Batch, Document, Stream, unwatched
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import METHODS, Method, finetune, mlm
from acclimate.methods.domain import appended
from acclimate.methods.finetune import SPANS, Tuning
from acclimate.methods.scratch import positions
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.encoder import load_masked_language_model, load_tokenizer, new_encoder, save_model
from acclimate.races import estimates
from acclimate.races.contestants import Entries, enter
from acclimate.races.fit import Costs
from acclimate.races.recipe import RaceRecipe
from acclimate.races.search import left_of
from acclimate.tasks.rows import encode_rows
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.streams import rows_stream
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training.loop import Step, adamw, train
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.plan import Plan, device, piece_tokens

SAMPLE = 1_500  # documents
PATIENCE = 6.0  # seconds; slow models are tried for three steps at least
TRIED = 6  # steps; the first two warm up
TOKENS = 6_144  # of a tried step, about: a few pieces of a CPU, after which the speed is that of a full step
READ = 64  # examples that are read to see how long predicting takes
MOST_OF_IT = 0.5  # of the time


@dataclass(frozen=True)
class Stage:
    """One job that is still to do, or a share of it.

    kind     what it counts as in a budget (budget.Costs)
    reading  of the seconds, those in which dev or test is read and nothing is learnt
    """

    label: str
    kind: str
    tokens: float
    flops: float
    seconds: float
    share: float = 1.0
    reading: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """What jobs take. memory and disk in bytes."""

    stages: tuple[Stage, ...]
    memory: float
    disk: float


def estimate(recipe: RaceRecipe, materials: Materials, run: Path, *, budgeted: bool = False) -> Estimate:
    """Return what a race would still do in the directory `run`, and its cost. Tries a few steps, writes nothing."""
    return estimate_of(enter(recipe, materials), run, budgeted=budgeted)


def estimate_of(entries: Entries, run: Path, *, budgeted: bool = False) -> Estimate:
    """Return what these entries would still do in `run`, as `estimate`."""
    recipe, materials = entries.recipe, entries.materials
    return estimate_of_jobs(left_of(entries, run, budgeted=budgeted), recipe, materials)


def estimate_of_jobs(jobs: Sequence[tuple[Job, float]], recipe: RaceRecipe, materials: Materials) -> Estimate:
    """Return what these jobs take. jobs: each with the share of it that will be done."""
    with _shared_directory() as scratch:
        begun = time.perf_counter()
        base, tokenizer, preparing = trial_model(recipe, materials, scratch)
        loading = time.perf_counter() - begun - preparing
        trial = SpeedTest(recipe, materials, base, tokenizer, scratch, loading=loading, preparing=preparing)
        planned = tuple(trial.stage(job, share) for job, share in jobs)
        weights = sum(weight.numel() for weight in load_masked_language_model(base).parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    if device().type == "cuda":
        peak = float(torch.cuda.max_memory_allocated())
    checkpoints = sum(not job.work.opens_test for job, _ in jobs) + 1
    # a checkpoint holds the weights; the run at hand also two states of weights and both moments
    disk = 4.0 * weights * (checkpoints + 2 * 3)
    return Estimate(planned, peak, disk)


def costs_of(unit: Literal["seconds", "flops"]) -> Callable[[RaceRecipe, Materials, Path], Costs]:
    """Return the function that estimates the costs of a race with a budget, in the unit of the budget."""

    def costs(recipe: RaceRecipe, materials: Materials, run: Path) -> Costs:
        found = estimate(recipe, materials, run, budgeted=True).stages
        kinds: dict[str, list[float]] = {"adapting": [], "fixed": [], "tuning": [], "test": []}
        for stage in found:
            trains = unit == "seconds" or stage.kind in ("adapting", "tuning")  # FLOPs are those of training alone
            kinds[stage.kind].append(getattr(stage, unit) / stage.share if trains else 0.0)
        tuning, test = (float(np.mean(kinds[kind] or [0.0])) for kind in ("tuning", "test"))
        return Costs(sum(kinds["adapting"]), sum(kinds["fixed"]), tuning, test)

    return costs


def notes_on_reading(planned: Sequence[Stage]) -> list[str]:
    """Return a sentence if looks at dev and the test take more time than training; else an empty list."""
    share = sum(stage.reading for stage in planned) / max(sum(stage.seconds for stage in planned), 1e-9)
    if share < MOST_OF_IT:
        return []
    looks = listed(["finetune.looks", *(f"{method.name}.looks" for method in METHODS.values() if method.looked)])
    return [
        f"{share:.0%} of the time goes into looks at dev and the test, more than into training: fewer looks "
        f"({looks}) take less."
    ]


@contextmanager
def _shared_directory() -> Iterator[Path]:
    """Yield a temporary directory that the first process makes and all processes use."""
    with tempfile.TemporaryDirectory() if ranks.is_first() else nullcontext("") as made:
        yield Path(ranks.agree(made))
        ranks.wait()


def trial_model(
    recipe: RaceRecipe, materials: Materials, place: Path
) -> tuple[str | Path, PreTrainedTokenizerBase, float]:
    """Return a model to try (the given one, or one of the size to be pretrained), its tokenizer, and the seconds that
    making them took.

    place: a directory that all processes see; the first one makes the model there
    """
    if materials.model is not None:
        return materials.model, load_tokenizer(materials.model), 0.0
    preparing = _make(recipe, materials, place) if ranks.is_first() else 0.0
    ranks.wait()
    return place / "model", load_tokenizer(place / "model"), preparing


def _make(recipe: RaceRecipe, materials: Materials, place: Path) -> float:
    """Write a model of the size to be pretrained to `place/model`; return the seconds of corpus and tokenizer."""
    assert materials.general is not None
    begun = time.perf_counter()
    stated = recipe.pretrain
    texts = write_corpus(sample(materials.general), place / "sample")
    tokenizer = train_tokenizer(texts, kind=stated.kind, size=stated.vocabulary, lower=stated.lower)
    texts.tokens(tokenizer)
    preparing = time.perf_counter() - begun
    model = new_encoder(
        **vars(stated.shape),
        vocabulary_size=stated.vocabulary,
        longest=positions(stated),
        pad=tokenizer.pad_token_id,
        seed=0,
        architecture=stated.architecture,
    )
    save_model(model, tokenizer, place / "model")
    return preparing


@dataclass(frozen=True)
class _Speed:
    """Seconds and FLOPs a token, of training or of reading."""

    seconds: float
    flops: float


@dataclass(frozen=True)
class _TuningSpeed:
    """What some steps of fine-tuning showed.

    loading  seconds before the first step
    row      mean tokens of a training row; dev: tokens of the dev set
    """

    loading: float
    training: _Speed
    reading: _Speed
    row: float
    dev: int


class SpeedTest:
    """Turns jobs into stages, and tries each kind of work once. scratch: a directory that all processes see."""

    def __init__(
        self,
        recipe: RaceRecipe,
        materials: Materials,
        base: str | Path,
        tokenizer: PreTrainedTokenizerBase,
        scratch: Path,
        *,
        loading: float,
        preparing: float,
    ) -> None:
        self.recipe, self.materials, self.base, self.tokenizer = recipe, materials, base, tokenizer
        self.scratch, self.loading, self.preparing = scratch, loading, preparing
        self.speeds: dict[str, _Speed] = {}
        self.speeds_of_tuning: dict[str, _TuningSpeed] = {}

    def stage(self, job: Job, share: float) -> Stage:
        """Return what the first share of the job takes; 1: the whole job."""
        assert job.work.estimate is not None, job.work.name
        stage: Stage = job.work.estimate(self, job, share)
        return stage

    def fixed(self, job: Job, seconds: float) -> Stage:
        """Return the stage of a job that is done once and trains nothing."""
        return Stage(job.label, "fixed", 0, 0, seconds)

    def preparing_of(self, corpus: Corpus) -> float:
        """Return the seconds that corpus and tokenizer take before pretraining, extrapolated from a sample."""
        return self.preparing * corpus.characters / sampled_characters(corpus)

    def masked(self, job: Job, corpus: Corpus, recipe: Any, method: Method, *, before: float = 0.0) -> Stage:
        """Return the stage of a job that adapts: steps on rows of a corpus, each with `method.passes` passes of masked
        language modelling. before: seconds that the job takes before its first step
        """
        prompt = self.prompt(job)
        lengths = self._lengths(corpus, recipe.max_tokens) + prompt
        rows = len(lengths) / sampled_share(corpus)
        plan: Plan = mlm.with_steps(recipe.plan, getattr(recipe, "epochs", 0.0), round(rows))
        tokens = plan.steps * plan.batch * float(np.mean(lengths))
        cut = tokens / plan.steps > piece_tokens(plan, device())
        again = method.caching(recipe) if cut else 0.0
        rows_earlier, passes_earlier = method.earlier(recipe, rows)
        earlier = rows_earlier * float(np.mean(lengths))
        speed, reading = self._speed(recipe, method, lengths, plan, prompt), 0.0
        if method.looked and "dev" in job.places:
            looked = min(recipe.looks, plan.steps) * self.tokens(job.places["dev"], recipe.max_tokens, method.looked)
            reading = looked * self.tried(self.recipe.finetune).reading.seconds
        trained = tokens * method.passes(recipe) + earlier * passes_earlier
        seconds = before + self.loading + (trained + tokens * again) * speed.seconds + reading
        return Stage(job.label, "adapting", tokens + earlier, trained * speed.flops, seconds, reading=reading)

    def tuning(self, job: Job, share: float) -> Stage:
        """Return the stage of the first share of a fine-tuning; 1: the whole job."""
        task, stated = self.materials.task, estimates.tuning_of(job)
        tried = self.tried(stated, self.prompt(job))
        plan = finetune.plan_of(stated, task.sizes["train"], finetune.WIDTH)
        tokens = share * plan.steps * plan.batch * tried.row
        looks = share * min(stated.looks, plan.steps) + (share < 1)  # where it stops, it is looked at too
        reading = looks * tried.dev * tried.reading.seconds
        seconds = tried.loading + tokens * tried.training.seconds + reading
        label = job.label if share == 1 else f"{job.label}, {share:.0%} of the steps"
        return Stage(label, "tuning", tokens, tokens * tried.training.flops, seconds, share, reading)

    def reading(self, job: Job, stated: finetune.FinetuneRecipe, tokens: float, kind: str) -> Stage:
        """Return the stage of a job that reads that number of tokens and trains on none of them."""
        speed = self.tried(stated, self.prompt(job)).reading
        seconds, flops = tokens * speed.seconds, tokens * speed.flops
        return Stage(job.label, kind, tokens, flops, self.loading + seconds, reading=seconds)

    def prompt(self, job: Job) -> int:
        """Return the prompt tokens behind each row that the job's model has and the model that is tried has not."""
        added = job.work.prompt(job) if job.work.prompt else 0
        if prompt_length(self.tokenizer):  # the model has a prompt already, and no job adds another
            return 0
        return max(added, *(self.prompt(needed) for needed in job.needs.values()), 0)

    def tried(self, stated: finetune.FinetuneRecipe, prompt: int = 0) -> _TuningSpeed:
        """Try some steps of fine-tuning, once for all recipes that differ only in length, rate and seed.

        prompt: number of tokens behind each row; which ones they are does not matter
        """
        task, usual = self.materials.task, finetune.FinetuneRecipe()
        plan = replace(stated.plan, steps=TRIED, rate=usual.plan.rate, seed=0, compile=False)
        length: dict[str, Any] = {"epochs": 0.0, "least_steps": 0, "most_epochs": 0.0, "looks": 1}
        alike = replace(stated, model=str(self.base), task=task.path, choose="best", plan=plan, **length)
        alike = replace(alike, head="fresh")  # as large as one that is kept, which the base has not yet
        if stated.pooling == "auto":
            alike = replace(alike, pooling="pooler" if task.kind in ("tokens", "span") else "mean")
        key = settings.digest(settings.to_mapping(alike) | {"prompt": prompt})[:12]
        if key not in self.speeds_of_tuning:
            begun = time.perf_counter()
            tuning = Tuning(alike, task, self.scratch / key, unwatched)
            loading = time.perf_counter() - begun
            behind = [self.tokenizer.sep_token_id or 0] * prompt
            learnt = appended(tuning.rows, behind)
            stream = rows_stream(learnt, batch=self._rows_tried(plan, learnt.lengths), seed=0)
            training = _speed_of(tuning.objective(), stream, plan)
            dev = task.examples("dev")[:READ]
            rows = appended(
                encode_rows(dev, tuning.tokenizer, task.max_tokens, task.kind, spans=SPANS[stated.pooling]), behind
            )
            texts = [example.text for example in dev]
            predict(tuning.model, rows, tuning.labels, texts=texts)
            begun = time.perf_counter()
            predict(tuning.model, rows, tuning.labels, texts=texts)
            taken, tokens = time.perf_counter() - begun, len(rows.ids)
            reading = _Speed(taken / tokens, TaskLoss(tuning.model).flops(rows) / 3 / tokens)
            row, whole = float(np.mean(learnt.lengths)), len(tuning.dev_rows.ids) + prompt * len(tuning.dev_rows)
            self.speeds_of_tuning[key] = _TuningSpeed(loading, training, reading, row, whole)
        return self.speeds_of_tuning[key]

    def test_tokens(self, stated: finetune.FinetuneRecipe, prompt: int) -> float:
        """Return the tokens of the test set, extrapolated from a sample of it. prompt: tokens behind each row"""
        task = self.materials.task
        examples = task.examples("test")
        sampled = examples[:: max(1, len(examples) // SAMPLE)]
        rows = encode_rows(sampled, self.tokenizer, task.max_tokens, task.kind, spans=SPANS[stated.pooling])
        return (len(rows.ids) + prompt * len(rows)) * len(examples) / len(sampled)

    def _speed(self, recipe: Any, method: Method, lengths: np.ndarray, plan: Plan, prompt: int) -> _Speed:
        """Return the speed of masked language modelling. prompt: tokens behind each row, never predicted"""
        stated = settings.to_mapping(recipe)
        if method.new_model is None:  # other settings do not change the speed of these steps
            stated = {each.name: stated[each.name] for each in fields(mlm.MlmRecipe) if each.name in stated}
        key = settings.digest(stated | {"prompt": prompt})
        if key not in self.speeds:
            rows = self._rows_tried(plan, lengths)
            bare = random_rows(lengths - prompt, rows, len(self.tokenizer))
            behind = [self.tokenizer.sep_token_id or 0] * prompt
            stream: Stream = lambda step: appended(bare(step), behind)  # noqa: E731
            self.speeds[key] = _speed_of(MaskedLanguageLoss(self._encoder(recipe, method)), stream, plan)
        return self.speeds[key]

    def _rows_tried(self, plan: Plan, lengths: np.ndarray) -> int:
        """Return the rows of a tried step: enough for the speed of the plan's steps."""
        return min(plan.batch, max(4, round(TOKENS / float(np.mean(lengths)))))

    def tokens(self, corpus: Path, max_tokens: int, most: int, *, more: int = 0) -> float:
        """Return the tokens of at most `most` rows of a corpus, each with `more` tokens behind it."""
        lengths = self._lengths(Corpus(corpus), max_tokens) + more
        return float(np.mean(lengths)) * min(most, len(lengths) / sampled_share(Corpus(corpus)))

    def _lengths(self, corpus: Corpus, longest: int) -> np.ndarray:
        """Return the tokens of each row of a sample of the corpus, an array. longest: tokens that a row has at most"""
        texts = [document.text for document in sample(corpus)]
        counts = [len(ids) for ids in self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]
        room = longest - 2
        cut = [np.full(max(1, -(-count // room)), count / max(1, -(-count // room))) for count in counts]
        lengths: np.ndarray = np.maximum(1, np.concatenate(cut) + 2).astype(np.int64)
        return lengths + prompt_length(self.tokenizer)

    def _encoder(self, recipe: Any, method: Method) -> PreTrainedModel:
        if method.new_model is not None and not method.starts(recipe):
            return method.new_model(recipe, self.tokenizer)
        dropout = {name: getattr(recipe, name, None) for name in ("dropout", "attention_dropout")}
        return load_masked_language_model(
            self.base, hidden_dropout=dropout["dropout"], attention_dropout=dropout["attention_dropout"]
        )


def _speed_of(objective: Objective, stream: Stream, plan: Plan) -> _Speed:
    """Train some steps and return their speed; the model is thrown away."""
    tried = replace(plan, steps=TRIED, compile=False)
    done = after_warming_up(train(objective, stream, tried, adamw(objective, tried)))
    seconds = np.median([step.seconds / step.tokens for step in done])
    return _Speed(float(seconds), float(np.mean([step.flops / step.tokens for step in done])))


def after_warming_up(steps: Iterator[Step]) -> list[Step]:
    """Return the steps after those that warm up: all, or fewer where they take longer than PATIENCE."""
    begun, done = time.perf_counter(), []
    for step in steps:
        done.append(step)
        if len(done) >= 3 and time.perf_counter() - begun > PATIENCE:
            break
    return done[2:]


def random_rows(lengths: np.ndarray, batch: int, vocabulary: int) -> Stream:
    """Return a stream of rows of random ids, with lengths sampled from `lengths`; 15% of ids are predicted."""

    def stream(step: int) -> Batch:
        generator = np.random.default_rng(step)
        drawn = generator.choice(lengths, batch)
        ids = generator.integers(0, vocabulary, drawn.sum())
        masked = np.where(generator.random(len(ids)) < 0.15, ids, NOT_PREDICTED)
        offsets = np.concatenate([[0], np.cumsum(drawn)])
        return Batch(ids, offsets, {"labels": masked})

    return stream


def sample(corpus: Corpus) -> list[Document]:
    """Return about SAMPLE documents, evenly spaced."""
    return list(islice(corpus.documents(), 0, None, _every(corpus)))


def _every(corpus: Corpus) -> int:
    return max(1, len(corpus) // SAMPLE)


def sampled_share(corpus: Corpus) -> float:
    """Return the share of the corpus that the sample is."""
    return len(range(0, len(corpus), _every(corpus))) / len(corpus)


def sampled_characters(corpus: Corpus) -> int:
    return sum(len(document.text) for document in sample(corpus))
