"""What a race is going to cost, before it starts: tokens, FLOPs, seconds, memory and disk of each stage.

A few real steps of each kind are tried on this machine as it is now. Masked language modelling is tried on rows of
random ids, as long as those of a sample of the texts. Fine-tuning is tried as it will be: the same head, on the
task's own rows; what is learnt there is thrown away. races/work.py says which of these a job consists of
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
from acclimate.core.prompt import prompt_length
from acclimate.core.types import NOT_PREDICTED, Batch, Document, Stream, unwatched
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import Method, finetune, mlm
from acclimate.methods.domain import appended
from acclimate.methods.finetune import SPANS, Tuning
from acclimate.methods.scratch import positions
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.encoder import load_masked_language_model, load_tokenizer, new_encoder, save_model
from acclimate.races import work
from acclimate.races.contestants import Entries, enter
from acclimate.races.fit import Costs
from acclimate.races.recipe import RaceRecipe
from acclimate.races.search import left_of
from acclimate.tasks.rows import encode
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


def after_warming_up(steps: Iterator[Step]) -> list[Step]:
    """The steps after those that warm up: all there are, or fewer where they take long."""
    begun, done = time.perf_counter(), []
    for step in steps:
        done.append(step)
        if len(done) >= 3 and time.perf_counter() - begun > PATIENCE:
            break
    return done[2:]


def trial_model(
    recipe: RaceRecipe, materials: Materials, place: Path
) -> tuple[str | Path, PreTrainedTokenizerBase, float]:
    """A model to try (the given one, or one of the size to be pretrained), its tokenizer, seconds it took to make.

    place: a directory that all processes see; the first one makes the model there.
    """
    if materials.model is not None:
        return materials.model, load_tokenizer(materials.model), 0.0
    preparing = _make(recipe, materials, place) if ranks.is_first() else 0.0
    ranks.wait()
    return place / "model", load_tokenizer(place / "model"), preparing


def _make(recipe: RaceRecipe, materials: Materials, place: Path) -> float:
    """The model of the size to be pretrained, in `place/model`; seconds that corpus and tokenizer took."""
    assert materials.general is not None
    begun = time.perf_counter()
    own = recipe.pretrain
    texts = write_corpus(sample(materials.general), place / "sample")
    tokenizer = train_tokenizer(texts, kind=own.kind, size=own.vocabulary, lower=own.lower)
    texts.tokens(tokenizer)
    preparing = time.perf_counter() - begun
    model = new_encoder(
        **vars(own.shape),
        vocabulary_size=own.vocabulary,
        longest=positions(own),
        pad=tokenizer.pad_token_id,
        seed=0,
        architecture=own.architecture,
    )
    save_model(model, tokenizer, place / "model")
    return preparing


def sample(corpus: Corpus) -> list[Document]:
    """Up to SAMPLE documents, evenly spaced."""
    return list(islice(corpus.documents(), 0, None, _every(corpus)))


def _every(corpus: Corpus) -> int:
    return max(1, len(corpus) // SAMPLE)


def sampled_share(corpus: Corpus) -> float:
    """The part of the corpus that the sample is."""
    return len(range(0, len(corpus), _every(corpus))) / len(corpus)


def sampled_characters(corpus: Corpus) -> int:
    return sum(len(document.text) for document in sample(corpus))


def random_rows(lengths: np.ndarray, batch: int, vocabulary: int) -> Stream:
    """Rows of random ids with lengths drawn from `lengths`, some of them to be predicted."""

    def stream(step: int) -> Batch:
        generator = np.random.default_rng(step)
        drawn = generator.choice(lengths, batch)
        ids = generator.integers(0, vocabulary, drawn.sum())
        masked = np.where(generator.random(len(ids)) < 0.15, ids, NOT_PREDICTED)
        offsets = np.concatenate([[0], np.cumsum(drawn)])
        return Batch(ids, offsets, {"labels": masked})

    return stream


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
class _Speed:
    """Seconds and FLOPs a token of one kind of work."""

    seconds: float
    flops: float


@dataclass(frozen=True)
class _Tried:
    """One way to fine-tune, tried. loading: seconds before the first step; row: mean tokens of a training row; dev:
    tokens of dev.
    """

    loading: float
    training: _Speed
    reading: _Speed
    row: float
    dev: int


class Trial:
    """Turns jobs into stages, each kind of work tried once. scratch: a directory that all processes see."""

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
        self.speeds_of_tuning: dict[str, _Tried] = {}

    def stage(self, job: Job, share: float) -> Stage:
        """What the job takes, or the first share of it."""
        assert job.work.estimate is not None, job.work.name
        stage: Stage = job.work.estimate(self, job, share)
        return stage

    def fixed(self, job: Job, seconds: float) -> Stage:
        """Something that is done once and trains nothing."""
        return Stage(job.label, "fixed", 0, 0, seconds)

    def preparing_of(self, corpus: Corpus) -> float:
        """Seconds that corpus and tokenizer take before pretraining, by those of a sample."""
        return self.preparing * corpus.characters / sampled_characters(corpus)

    def masked(self, job: Job, corpus: Corpus, recipe: Any, method: Method, *, before: float = 0.0) -> Stage:
        """Steps on rows of a corpus, each so many passes of masked language modelling as the method has. before:
        seconds that go before them.
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
        task, own = self.materials.task, work.tuning_of(job)
        tried = self.tried(own, self.prompt(job))
        plan = mlm.with_steps(own.plan, own.epochs, task.sizes["train"])
        tokens = share * plan.steps * plan.batch * tried.row
        looks = share * min(own.looks, plan.steps) + (share < 1)  # where it stops, it is looked at too
        reading = looks * tried.dev * tried.reading.seconds
        seconds = tried.loading + tokens * tried.training.seconds + reading
        label = job.label if share == 1 else f"{job.label}, {share:.0%} of the steps"
        return Stage(label, "tuning", tokens, tokens * tried.training.flops, seconds, share, reading)

    def reading(self, job: Job, own: finetune.FinetuneRecipe, tokens: float, kind: str) -> Stage:
        """Reading so many tokens without training on them."""
        speed = self.tried(own, self.prompt(job)).reading
        seconds, flops = tokens * speed.seconds, tokens * speed.flops
        return Stage(job.label, kind, tokens, flops, self.loading + seconds, reading=seconds)

    def prompt(self, job: Job) -> int:
        """Tokens behind each row that the job's model has beside those of the model that is tried."""
        added = job.work.prompt(job) if job.work.prompt else 0
        if prompt_length(self.tokenizer):  # it goes on with its own
            return 0
        return max(added, *(self.prompt(needed) for needed in job.needs.values()), 0)

    def tried(self, own: finetune.FinetuneRecipe, prompt: int = 0) -> _Tried:
        """Some steps of fine-tuning, the same for whatever differs only in how long it runs, at what rate and seed.

        prompt: tokens behind each row, of whatever id
        """
        task, usual = self.materials.task, finetune.FinetuneRecipe()
        plan = replace(own.plan, steps=TRIED, rate=usual.plan.rate, seed=0, compile=False)
        alike = replace(own, model=str(self.base), task=task.path, epochs=0.0, looks=1, choose="best", plan=plan)
        alike = replace(alike, head="fresh")  # as large as one that is kept, which the base has not yet
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
            rows = appended(encode(dev, tuning.tokenizer, task.max_tokens, task.kind, spans=SPANS[own.pooling]), behind)
            texts = [example.text for example in dev]
            predict(tuning.model, rows, tuning.labels, texts=texts)
            begun = time.perf_counter()
            predict(tuning.model, rows, tuning.labels, texts=texts)
            taken, tokens = time.perf_counter() - begun, len(rows.ids)
            reading = _Speed(taken / tokens, TaskLoss(tuning.model).flops(rows) / 3 / tokens)
            row, whole = float(np.mean(learnt.lengths)), len(tuning.dev_rows.ids) + prompt * len(tuning.dev_rows)
            self.speeds_of_tuning[key] = _Tried(loading, training, reading, row, whole)
        return self.speeds_of_tuning[key]

    def test_tokens(self, own: finetune.FinetuneRecipe, prompt: int) -> float:
        """Tokens of the test set, by a sample of it."""
        task = self.materials.task
        examples = task.examples("test")
        sampled = examples[:: max(1, len(examples) // SAMPLE)]
        rows = encode(sampled, self.tokenizer, task.max_tokens, task.kind, spans=SPANS[own.pooling])
        return (len(rows.ids) + prompt * len(rows)) * len(examples) / len(sampled)

    def _speed(self, recipe: Any, method: Method, lengths: np.ndarray, plan: Plan, prompt: int) -> _Speed:
        """Of masked language modelling, with so many tokens of the rows at which nothing is predicted."""
        stated = settings.to_mapping(recipe)
        if method.new_model is None:  # what else a method is told makes a step no faster here
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
        """Rows of a step, so many that its speed is that of the plan's."""
        return min(plan.batch, max(4, round(TOKENS / float(np.mean(lengths)))))

    def tokens(self, corpus: Path, max_tokens: int, most: int, *, more: int = 0) -> float:
        """Tokens of a corpus's rows, or of so many of them, each with so many more."""
        lengths = self._lengths(Corpus(corpus), max_tokens) + more
        return float(np.mean(lengths)) * min(most, len(lengths) / sampled_share(Corpus(corpus)))

    def _lengths(self, corpus: Corpus, longest: int) -> np.ndarray:
        """Tokens of each row of a sample of the corpus."""
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
    """Of some steps, the model thrown away."""
    tried = replace(plan, steps=TRIED, compile=False)
    done = after_warming_up(train(objective, stream, tried, adamw(objective, tried)))
    seconds = np.median([step.seconds / step.tokens for step in done])
    return _Speed(float(seconds), float(np.mean([step.flops / step.tokens for step in done])))


@dataclass(frozen=True)
class Estimate:
    """What jobs take. memory and disk in bytes."""

    stages: tuple[Stage, ...]
    memory: float
    disk: float


def told_of_reading(planned: Sequence[Stage]) -> list[str]:
    """What to say where the looks at dev, and the test, take more of the time than the training."""
    share = sum(stage.reading for stage in planned) / max(sum(stage.seconds for stage in planned), 1e-9)
    if share < MOST_OF_IT:
        return []
    return [
        f"{share:.0%} of the time goes into looks at dev and the test, more than into training: fewer looks "
        f"(finetune.looks, and tapter.looks) take less."
    ]


def estimate(recipe: RaceRecipe, materials: Materials, run: Path, *, budgeted: bool = False) -> Estimate:
    """What `race` would still do in `run`, and what that takes. Tries a few steps; writes nothing there."""
    return estimate_of(enter(recipe, materials), run, budgeted=budgeted)


def estimate_of(entries: Entries, run: Path, *, budgeted: bool = False) -> Estimate:
    """What these entries would still do in `run`, as `estimate`."""
    recipe, materials = entries.recipe, entries.materials
    return estimate_of_jobs(left_of(entries, run, budgeted=budgeted), recipe, materials)


def estimate_of_jobs(jobs: Sequence[tuple[Job, float]], recipe: RaceRecipe, materials: Materials) -> Estimate:
    """What these jobs take, each with the share of it that is left."""
    with _shared_directory() as scratch:
        begun = time.perf_counter()
        base, tokenizer, preparing = trial_model(recipe, materials, scratch)
        loading = time.perf_counter() - begun - preparing
        trial = Trial(recipe, materials, base, tokenizer, scratch, loading=loading, preparing=preparing)
        planned = tuple(trial.stage(job, share) for job, share in jobs)
        weights = sum(weight.numel() for weight in load_masked_language_model(base).parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    if torch.cuda.is_available():
        peak = float(torch.cuda.max_memory_allocated())
    checkpoints = sum(not job.work.opens_test for job, _ in jobs) + 1
    # a checkpoint holds the weights; the run at hand also two states of weights and both moments
    disk = 4.0 * weights * (checkpoints + 2 * 3)
    return Estimate(planned, peak, disk)


@contextmanager
def _shared_directory() -> Iterator[Path]:
    """A temporary directory of the first process, which all see."""
    with tempfile.TemporaryDirectory() if ranks.is_first() else nullcontext("") as own:
        yield Path(ranks.agree(own))
        ranks.wait()


def costs_of(unit: Literal["seconds", "flops"]) -> Callable[[RaceRecipe, Materials, Path], Costs]:
    """What `race.run_race` asks for the costs of a budgeted race, in the budget's unit."""

    def costs(recipe: RaceRecipe, materials: Materials, run: Path) -> Costs:
        found = estimate(recipe, materials, run, budgeted=True).stages
        kinds: dict[str, list[float]] = {"adapting": [], "fixed": [], "tuning": [], "test": []}
        for stage in found:
            trains = unit == "seconds" or stage.kind in ("adapting", "tuning")  # FLOPs are those of training alone
            kinds[stage.kind].append(getattr(stage, unit) / stage.share if trains else 0.0)
        tuning, test = (float(np.mean(kinds[kind] or [0.0])) for kind in ("tuning", "test"))
        return Costs(sum(kinds["adapting"]), sum(kinds["fixed"]), tuning, test)

    return costs
