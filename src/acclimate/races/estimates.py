"""What each kind of job takes: from the speeds that were tried (races/cost.py::SpeedTest) to a line of the estimate.

Each function gets the speeds, a job and the share of it that will be done, and returns its `Stage`.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING, Any

from acclimate.core import settings
from acclimate.jobs.job import Job
from acclimate.methods import Method, finetune, method_called, scratch
from acclimate.models.task_layers import times_hidden
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus

if TYPE_CHECKING:
    from acclimate.races.cost import SpeedTest, Stage

CHARACTERS_A_SECOND = 5e6  # of a corpus that is searched, its index built and leaks looked for; not measured here
# Of 2,100 reviews and 560 sentences with tags, and of the sets in benchmarks/reports/2026-11-27-probe-speed.md:
FITTED_A_SECOND = 500.0  # training rows of a baseline, all its settings together
PROBED_A_SECOND = 900.0  # training rows to which a probe's layer is fitted, with all its settings
TAGGED_A_SECOND = 600.0  # the same where words have tags, in sentences
TAGGED_AT_LEAST = 7.0  # seconds that this takes beside, however few the sentences
LINES_AT_MOST = 2_000  # of held-out text that a loss is read on
# Share of its steps after which a fine-tuning got no better on dev before it stopped: eleven with default settings, of
# three encoders on six tasks (benchmarks/reports/2026-11-23-forecast.md)
LAST_GAINS = (0.3, 0.15, 0.2, 0.55, 0.3, 0.3, 0.2, 0.4, 0.5, 0.15, 0.45)


def pretraining(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what a pretraining takes, its vocabulary included."""
    stated = settings.from_mapping(scratch.ScratchRecipe, job.settings["recipe"])
    corpus = Corpus(job.places["corpus"])
    return speeds.masked(job, corpus, stated, scratch.METHOD, before=speeds.preparing_of(corpus))


# places of an adapting job that are no fields of its recipe
READ_BESIDE = ("model", "code", "domain_heldout", "general_heldout")


def adapting(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what an adaptation takes."""
    method, stated = adapting_of(job)
    if "corpus" not in job.places:  # what is retrieved is not known yet: rows of the whole general text are as long
        assert speeds.materials.general is not None
        return speeds.masked(job, speeds.materials.general, stated, method)
    return speeds.masked(job, Corpus(job.places["corpus"]), stated, method)


def adapting_of(job: Job) -> tuple[Method, Any]:
    """Return the method of an adapting job, and its recipe as far as it is known before."""
    method = method_called(job.settings["method"], job.places.get("code"))
    given = {"model": str(job.settings.get("model", job.places.get("model", "")))}
    given |= {name: name for name in job.needs if name not in ("model", "retrieved")}
    given |= {name: str(place) for name, place in job.places.items() if name not in READ_BESIDE}
    return method, settings.from_mapping(method.recipe, {**job.settings["recipe"], **given})


def prompt_tokens(job: Job) -> int:
    """Return the prompt tokens that an adaptation puts behind each row."""
    method, stated = adapting_of(job)
    return method.prompt(stated)


def first_work(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what a method does before it adapts takes."""
    work = method_called(job.settings["method"], job.places.get("code")).first
    assert work is not None
    characters = sum(Corpus(job.places[name]).characters for name in ("corpus", "raw") if name in job.places)
    return speeds.fixed(job, work.seconds(job.settings["stated"], characters))


def retrieving(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what a retrieval takes."""
    return speeds.fixed(job, Corpus(job.places["corpus"]).characters / CHARACTERS_A_SECOND)


def measuring(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what measuring a loss on held-out text takes."""
    tokens = speeds.tokens(job.places["corpus"], job.settings["max_tokens"], LINES_AT_MOST, more=speeds.prompt(job))
    return speeds.reading(job, speeds.recipe.finetune, tokens, "fixed")


def loading(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what a job takes that loads a model and writes it changed."""
    return speeds.fixed(job, speeds.loading)


def fitting(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what a job takes that reads the training rows and trains no encoder."""
    return speeds.fixed(job, speeds.materials.task.sizes["train"] / FITTED_A_SECOND)


def fine_tuning(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what the first share of a fine-tuning takes."""
    return speeds.tuning(job, share)


def shares_run(patience: int, looks: int, share: float = 1.0) -> tuple[float, float, float]:
    """Return which shares of its steps a fine-tuning takes if it stops as soon as it may, on average, and if it does
    not stop early.

    patience  looks at dev in a row without a better score after which it stops; 0: it does not stop early
    looks     number of looks at dev in the whole of it
    share     share of its steps after which it is cut off
    """
    if not patience:
        return share, share, share
    stops = [gain + patience / looks for gain in (1 / looks, *LAST_GAINS)]  # at best the first look is the best
    least, *measured = (min(share, stop) for stop in stops)
    return least, mean(measured), share


def testing(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what scoring a fine-tuned model on the test set takes."""
    stated = tuning_of(job.needs["tuned"])
    return speeds.reading(job, stated, speeds.test_tokens(stated, speeds.prompt(job)), "test")


def testing_together(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what scoring two models together on dev and test takes."""
    stated, prompt = tuning_of(job.needs["first"]), speeds.prompt(job)
    tokens = speeds.test_tokens(stated, prompt) + speeds.tried(stated, prompt).dev
    return speeds.reading(job, stated, len(job.needs) * tokens, "test")


def probing(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what fitting a probe takes: train and dev are read once, then the layer is fitted."""
    stated, rows = speeds.recipe.finetune, speeds.materials.task.sizes["train"]
    tried = speeds.tried(stated, speeds.prompt(job))
    tokens = rows * tried.row + tried.dev
    read = speeds.reading(job, stated, tokens, "fixed")
    reading = tokens * tried.looking.seconds  # in the precision of training
    seconds = speeds.loading + reading + fitting_seconds(speeds.materials.task, rows)
    return replace(read, seconds=seconds, reading=reading)


def fitting_seconds(task: Prepared, rows: int) -> float:
    """Return what fitting a probe's layers on so many rows takes: it grows with the numbers that all of them read."""
    if task.kind == "tokens":
        return TAGGED_AT_LEAST + rows / TAGGED_A_SECOND
    placed = task.two_places
    return rows / PROBED_A_SECOND * (1 + (times_hidden(placed) / 2 if placed else 0))


def testing_probe(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what scoring a probe on the test set takes."""
    stated = speeds.recipe.finetune
    return speeds.reading(job, stated, speeds.test_tokens(stated, speeds.prompt(job)), "fixed")


def testing_baseline(speeds: SpeedTest, job: Job, share: float) -> Stage:
    """Return what scoring the baseline takes."""
    return speeds.fixed(job, 1e-3 * speeds.materials.task.sizes["train"])


def tuning_of(job: Job) -> finetune.FinetuneRecipe:
    """Return the settings of a fine-tuning job."""
    return settings.from_mapping(finetune.FinetuneRecipe, job.settings["recipe"])
