"""What jobs cost, before they start: tokens and FLOPs by formula, seconds by the speed of this machine.

A job costs so many tokens, each token so many FLOPs (models/encoder.py::training_flops), and each FLOP the seconds that
a trial of a few steps showed (training/trials.py). Reading takes a third of the FLOPs of training. Looks at dev count,
and the probe that a head starts from. Loading, writing, and the texts before the first step count as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from acclimate.core import settings
from acclimate.core.types import Cost, Document, Example, Progress, Split, Watch, unwatched
from acclimate.data import lengths as text_lengths
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import Method, method_called
from acclimate.methods.baselines import CHOOSING, FITTED, TfidfRecipe, settings_with_states
from acclimate.methods.recipes import finetune, mlm
from acclimate.methods.recipes.scratch import ScratchRecipe, positions
from acclimate.models.formats import times_hidden
from acclimate.races.contestants import Entries
from acclimate.races.planning.lengths import CostOfJob, RoundCosts
from acclimate.races.recipe import RaceRecipe
from acclimate.races.work import COMBINE
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import encode_rows
from acclimate.tasks.task import PROBED, classes_in
from acclimate.text.corpus import Corpus
from acclimate.training import trials
from acclimate.training.plan import Plan

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SAMPLE = 1_500  # documents of a corpus, whose lengths stand for those of all
SAMPLED_ROWS = 400  # of train, dev and test
JOB_SECONDS = 1.0  # seconds of loading and writing; not measured here
CHARACTERS_PER_SECOND = 5e6  # of a corpus that is searched; not measured here
CHARACTERS_PER_TOKEN = 4.5  # where the vocabulary is still to be made
READING = 1 / 3  # of the FLOPs of training on a token
# Rows to which a probe's layer is fitted in a second, with all its settings, and seconds where words have tags
# (benchmarks/reports/2026-11-27-probe-speed.md)
PROBED_PER_SECOND = 900.0
TAGGED_PER_SECOND, TAGGED_SECONDS = 600.0, 7.0
# Rows times labels to which a linear model on terms and states is fitted in a second, with one setting; 384 dimensions
COMBINED_PER_SECOND = 8_000.0
PLACES = ("model", "code", "domain_heldout", "general_heldout")  # of an adapting job, that are no fields of its recipe


@dataclass(frozen=True)
class RowLengths:
    """Tokens of rows: how many rows, and the mean of tokens and of their squares."""

    rows: float
    mean: float
    square: float

    @staticmethod
    def measured(lengths: np.ndarray, rows: float) -> RowLengths:
        return RowLengths(rows, float(np.mean(lengths)), float(np.mean(np.square(lengths, dtype=np.float64))))


def costs_of(
    entries: Entries, jobs: Sequence[Job], *, forecasts: Forecasts | None = None, watch: Watch = unwatched
) -> list[Cost]:
    """Return what each job costs, on the model that it starts from. Tries a few steps, writes nothing but speeds."""
    forecasts = forecasts or Forecasts(watch)
    return [forecasts.forecast(entries, job).cost(job) for job in jobs]


def round_costs(
    entries: Entries, jobs: Sequence[Job], unit: Literal["seconds", "flops"], *, watch: Watch = unwatched
) -> RoundCosts:
    """Return what the jobs of the first round cost, in the unit of a budget."""
    forecasts = Forecasts(watch)
    adapting: list[CostOfJob] = []
    fixed: list[CostOfJob] = []
    tuning, test = (dict.fromkeys(entries.models, 0.0) for _ in range(2))
    for names, job in zip(entries.contestants_of(jobs), jobs, strict=True):
        trains = job.work.trains
        # FLOPs are those of training alone
        cost = forecasts.forecast(entries, job).cost(job) if trains or unit == "seconds" else Cost()
        amount = getattr(cost, unit)
        if trains == "task" or job.work.opens_test:
            for name in names:
                (tuning if trains else test)[name] += amount
        else:
            (adapting if trains else fixed).append(CostOfJob(amount, names))
    rows = {path: round(rows) for forecast in forecasts.by_task.values() for path, rows in forecast.corpus_rows.items()}
    return RoundCosts(tuple(adapting), tuple(fixed), tuning, test, rows)


class Forecasts:
    """The forecast of each model on each task, made once. Each speed is shown once."""

    def __init__(self, watch: Watch) -> None:
        self.by_task: dict[tuple[str | None, Path], Forecast] = {}
        self.load = trials.busy()
        self.notes_shown: set[str] = set()
        self.listener = watch

    def forecast(self, entries: Entries, job: Job) -> Forecast:
        """Return the forecast of the model that the job starts from, on the job's task."""
        name = (*entries.contestants_reading(job), "")[0]
        materials = entries.own_materials.get(name, entries.materials)
        task = job.places.get("task", materials.task.path)
        if (materials.model, task) not in self.by_task:
            if task != materials.task.path:
                materials = replace(materials, task=open_prepared(task))
            self.by_task[materials.model, task] = Forecast(entries.recipe, materials, self.load, self.watch)
        return self.by_task[materials.model, task]

    def watch(self, progress: Progress) -> None:
        """Pass the progress on, unless its note was shown before."""
        note = str(progress.values.get("note", ""))
        if note.partition(",")[0] not in self.notes_shown:
            self.notes_shown.add(note.partition(",")[0])
            self.listener(progress)


class Forecast:
    """Turns jobs of one model into what they cost.

    corpus_rows  corpus that is adapted on -> rows that its documents come to
    """

    def __init__(self, recipe: RaceRecipe, materials: Materials, load: float, watch: Watch) -> None:
        self.recipe, self.materials, self.load, self.watch = recipe, materials, load, watch
        self.reader = text_lengths.reader(materials.model) if materials.model is not None else None
        self.lengths: dict[tuple[Any, ...], RowLengths] = {}
        self.corpus_rows: dict[Path, float] = {}
        # models whose first fine-tuning was counted, with the probe that it starts from
        self.probed_models: set[str] = set()
        self.speed = self._speed(self._model, self._about())

    def _speed(self, make: Callable[[], PreTrainedModel], about: Mapping[str, Any]) -> trials.Speed:
        speed = trials.speed_of(make, about, self.rows("train").mean, self.recipe.finetune.plan, watch=self.watch)
        return replace(speed, busy=self.load)

    def _about(self) -> dict[str, Any]:
        """Return what decides the speed of the model."""
        if self.materials.model is not None:
            return {"model": trials.model_key(self.materials.model)}
        recipe = self.recipe.pretrain
        return {"shape": vars(recipe.shape), "vocabulary": recipe.vocabulary, "architecture": recipe.architecture}

    def _model(self) -> PreTrainedModel:
        """Return the given model, or one of the size to be pretrained."""
        from acclimate.models.encoder import load_masked_language_model, new_encoder

        if self.materials.model is not None:
            return load_masked_language_model(self.materials.model)
        recipe = self.recipe.pretrain
        return new_encoder(
            **vars(recipe.shape),
            vocabulary_size=recipe.vocabulary,
            longest=positions(recipe),
            pad=0,
            seed=0,
            architecture=recipe.architecture,
        )

    def cost(self, job: Job) -> Cost:
        """Return what the job costs."""
        if job.work.trains == "encoder":
            return self._adapting(job)
        if job.work.trains == "task" and "recipe" in job.settings:
            return self._tuning(job)
        if job.work.reads:
            return self._reading(job)
        return Cost(seconds=JOB_SECONDS + self._text(job))

    def _text(self, job: Job) -> float:
        """Return the seconds that a job takes which reads a corpus and trains no encoder."""
        characters = sum(Corpus(job.places[name]).characters for name in ("corpus", "raw") if name in job.places)
        if "stated" in job.settings and (first := method_called(job.settings["method"], job.places.get("code")).first):
            return first.seconds(job.settings["stated"], characters)
        return characters / CHARACTERS_PER_SECOND

    def _adapting(self, job: Job) -> Cost:
        """Return the cost of steps on rows of a corpus. Of text that is not retrieved yet, rows are as long as those of
        all general text.
        """
        method, recipe = adapting_of(job)
        corpus = Corpus(job.places["corpus"]) if "corpus" in job.places else self.materials.general
        assert corpus is not None
        speed, passes = self.speed, 1.0
        if method is not None:
            passes = method.passes(recipe)
            if method.new_model is not None and not method.starts(recipe):
                sizes = {name: str(value) for name, value in job.settings["recipe"].items() if name != "plan"}
                speed = self._speed(partial(method.new_model, recipe), {"recipe": sizes})
        lengths = self._segments(corpus, recipe.max_tokens, method.behind(recipe) if method is not None else 0)
        plan: Plan = mlm.with_steps(recipe.plan, getattr(recipe, "epochs", 0.0), round(lengths.rows))
        rows = float(plan.steps * plan.batch)
        masked = getattr(recipe, "masking", trials.PREDICTED) * (lengths.mean - 2) if speed.sparse else lengths.mean
        flops = passes * speed.flops(rows, lengths.mean, lengths.square, predicted=masked)
        return Cost(round(rows * lengths.mean), flops, JOB_SECONDS + speed.seconds(flops, plan.steps))

    def _tuning(self, job: Job) -> Cost:
        """Return the cost of a fine-tuning that does not stop early."""
        recipe = settings.from_mapping(finetune.FinetuneRecipe, job.settings["recipe"])
        task, lengths = self.materials.task, self.rows("train")
        if task.kind == "search":
            return self._searching(recipe)
        plan = finetune.plan_of(recipe, task.sizes["train"], finetune.WIDTH)
        rows = plan.steps * plan.batch
        flops = self.speed.flops(rows, lengths.mean, lengths.square)
        looked = finetune.looked_at(recipe, task) / task.sizes["dev"]
        looks = looked * min(recipe.looks, plan.steps) + 1
        seconds = JOB_SECONDS + self.speed.seconds(flops, plan.steps) + looks * self._seconds_to_read(("dev",))
        return Cost(round(rows * lengths.mean), flops, seconds + self._head_start(job, recipe))

    def _searching(self, recipe: finetune.FinetuneRecipe) -> Cost:
        """Return the cost of training on pairs of a query and a document, if there are any, and of two looks at dev."""
        lengths, documents = self.rows("train"), self.materials.task.examples("train")
        queries = {query for document in documents for query in classes_in(document.label)}
        seconds = JOB_SECONDS + (1 + bool(queries)) * self._seconds_to_read(("train", "dev"))
        if not queries:
            return Cost(seconds=seconds)
        plan = finetune.plan_of(recipe, len(queries), finetune.WIDTH)
        rows = 2 * plan.steps * plan.batch
        flops = self.speed.flops(rows, lengths.mean, lengths.square)
        return Cost(round(rows * lengths.mean), flops, seconds + self.speed.seconds(flops, plan.steps))

    def _head_start(self, job: Job, recipe: finetune.FinetuneRecipe) -> float:
        """Return the seconds of the probe that the head of a model's first fine-tuning starts from."""
        model = job.needs["model"].name if "model" in job.needs else ""
        probes = recipe.head == "probe" or (recipe.pooling == "auto" and recipe.head != "kept")
        if model in self.probed_models or not probes or self.materials.task.kind not in PROBED:
            return 0.0
        self.probed_models.add(model)
        return self._seconds_to_read(("train",)) + fitting_seconds(self.materials.task)

    def _reading(self, job: Job) -> Cost:
        """Return the cost of a job that reads splits; if it reads train, it fits a probe's layer too."""
        rows = [self.rows(split) for split in job.work.reads]
        tokens = sum(lengths.rows * lengths.mean for lengths in rows)
        flops = READING * sum(self.speed.flops(lengths.rows, lengths.mean, lengths.square) for lengths in rows)
        fitting = fitting_seconds(self.materials.task) if "train" in job.work.reads else 0.0
        if job.work.name == COMBINE.name:
            fitting = combined_seconds(self.materials.task, settings.from_mapping(TfidfRecipe, job.settings["recipe"]))
        return Cost(round(tokens), flops, JOB_SECONDS + fitting + self._seconds_to_read(job.work.reads))

    def _seconds_to_read(self, splits: Sequence[Split]) -> float:
        rows = map(self.rows, splits)
        flops = [READING * self.speed.flops(lengths.rows, lengths.mean, lengths.square) for lengths in rows]
        return sum(map(self.speed.seconds, flops))

    def rows(self, split: Split) -> RowLengths:
        """Return the lengths of a split's rows, by a sample of them."""
        if (split,) not in self.lengths:
            task = self.materials.task
            examples = task.examples(split)
            sampled = examples[:: max(1, len(examples) // SAMPLED_ROWS)]
            if self.reader is not None:
                lengths = self._row_lengths(sampled, self.reader)
            else:
                sizes = [2 + len(example.text + (example.pair or "")) / CHARACTERS_PER_TOKEN for example in sampled]
                lengths = np.minimum(np.round(sizes), task.max_tokens)
            self.lengths[split,] = RowLengths.measured(lengths, len(lengths) / len(sampled) * len(examples))
        return self.lengths[split,]

    def _row_lengths(self, examples: Sequence[Example], reader: text_lengths.Reader) -> np.ndarray:
        """Return the tokens of each row that the examples come to."""
        task = self.materials.task
        if task.kind != "span":
            return text_lengths.row_lengths(examples, task.kind, task.max_tokens, reader)
        from acclimate.models.loading import load_tokenizer

        assert self.materials.model is not None
        return encode_rows(examples, load_tokenizer(self.materials.model), task.max_tokens, task.kind).lengths

    def _segments(self, corpus: Corpus, longest: int, behind: int) -> RowLengths:
        """Return the lengths of the segments that documents are cut into, by a sample of the documents.

        longest: tokens that a segment has at most; behind: further tokens of each
        """
        key = (corpus.path, longest, behind)
        if key not in self.lengths:
            texts = [document.text for document in sample(corpus)]
            if self.reader is not None:
                encoded = self.reader.tokenizer.encode_batch(texts, add_special_tokens=False)
                counts = [len(encoding) for encoding in encoded]
            else:
                counts = [round(len(text) / CHARACTERS_PER_TOKEN) for text in texts]
            room = longest - 2
            parts = [max(1, -(-count // room)) for count in counts]
            lengths = np.repeat(np.divide(counts, parts), parts) + 2 + behind
            self.lengths[key] = RowLengths.measured(lengths, len(lengths) / len(texts) * len(corpus))
            self.corpus_rows[corpus.path] = self.lengths[key].rows
        return self.lengths[key]


def adapting_of(job: Job) -> tuple[Method | None, Any]:
    """Return the method of an adapting job, None of a pretraining, and its recipe as far as it is known before."""
    if "method" not in job.settings:
        return None, settings.from_mapping(ScratchRecipe, job.settings["recipe"])
    method = method_called(job.settings["method"], job.places.get("code"))
    inputs = {"model": str(job.settings.get("model", job.places.get("model", "")))}
    inputs |= {name: name for name in job.needs if name not in ("model", "retrieved")}
    inputs |= {name: str(place) for name, place in job.places.items() if name not in PLACES}
    return method, settings.from_mapping(method.recipe, {**job.settings["recipe"], **inputs})


def fitting_seconds(task: Prepared) -> float:
    """Return what fitting a probe's layers takes: it grows with the numbers that all of them read."""
    rows = task.sizes["train"]
    if task.kind == "tokens":
        return TAGGED_SECONDS + rows / TAGGED_PER_SECOND
    placed = task.two_places
    return rows / PROBED_PER_SECOND * (1 + (times_hidden(placed) / 2 if placed else 0))


def combined_seconds(task: Prepared, recipe: TfidfRecipe) -> float:
    """Return what fitting a linear model on terms and states takes, with all its settings."""
    rows, placed = task.sizes["train"], task.two_places
    chosen = len(settings_with_states(recipe, task.kind)) * min(rows, CHOOSING)
    fitted = chosen + (min(rows, FITTED) if rows > CHOOSING else 0)
    return fitted * max(1, len(task.labels)) * (times_hidden(placed) if placed else 1) / COMBINED_PER_SECOND


def sample(corpus: Corpus) -> list[Document]:
    """Return about SAMPLE documents, evenly spaced."""
    return list(islice(corpus.documents(), 0, None, max(1, len(corpus) // SAMPLE)))
