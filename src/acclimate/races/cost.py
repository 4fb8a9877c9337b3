"""What jobs are going to cost, before they start: tokens, FLOPs, seconds, memory and disk.

Short trials (training/trials.py) say how fast this machine trains and reads. Masked language modelling is tried on rows
of random ids that are as long as those of a sample of the texts. Fine-tuning is tried with its head on rows of the
task; the trained weights are thrown away. A trial's result is stored under everything that decides
the speed, so contestants share it, and the next forecast reads it. races/estimates.py says which of these a job
consists of (`Work.estimate`). Nothing is written into the run.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from acclimate.core import ranks, settings
from acclimate.core.figures import listed
from acclimate.core.prompt import prompt_length
from acclimate.core.types import (
    HELDOUT_SEGMENTS,
    NOT_PREDICTED,
    Batch,
    Document,
    Progress,
    Split,
    Stream,
    Watch,
    unwatched,
)
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job
from acclimate.methods import METHODS, Method, finetune, mlm
from acclimate.methods.domain import appended
from acclimate.methods.finetune import Tuning
from acclimate.methods.probe import PROBED
from acclimate.methods.scratch import CONTROL, positions
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.encoder import (
    load_masked_language_model,
    load_tokenizer,
    new_encoder,
    save_model,
)
from acclimate.models.heads import cost_of_whole_pass
from acclimate.races import estimates
from acclimate.races.contestants import Entries, enter
from acclimate.races.lengths import CostOfJob, RoundCosts
from acclimate.races.recipe import RaceRecipe
from acclimate.races.search import left_of
from acclimate.tasks.prepared import open_prepared, with_fewer
from acclimate.tasks.rows import SPANS, encode_rows
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training import trials
from acclimate.training.kernels import arithmetic
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.plan import Plan, coupled_tokens, device, piece_tokens
from acclimate.training.trials import Speed

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SAMPLE = 1_500  # documents
SAMPLED_ROWS = 400  # of train and of dev, whose lengths stand for those of all
TRIED_ROWS: Mapping[Split, int] = {"train": 256, "dev": 64}  # of a task, on which fine-tuning and reading are tried
WRITTEN_A_SECOND = 2.5e8  # bytes of weights; not measured here
WRITTEN_LOOKS = 0.5  # share of the looks at dev whose weights are written, because they are among the best so far
MOST_OF_IT = 0.5  # of the time
PREDICTED = 0.15  # of the tokens, on which masked language modelling is tried


@dataclass(frozen=True)
class Stage:
    """One job that is still to do, or a share of it.

    kind     what it counts as in a budget (lengths.RoundCosts)
    reading  of the seconds, those in which dev or test is read and nothing is learnt
    start    of the seconds, those before the first step that only a model's first fine-tuning has
    apart    of the seconds, those that training takes however few its steps are: loading, corpus and tokenizer,
             what precedes the first step, and looks of which there are as many. apart_flops: the same of the FLOPs
    updates  of the seconds, those that the steps of adapting take however few rows they have. steps: their number;
             batch: rows of each
    dearer   share by which gradient caching makes a step dearer, where a batch is more than one piece; else 0
    least    the same of a fine-tuning that stops as soon as its patience allows; most: that runs in full. None: this
             job does not stop early
    """

    label: str
    kind: str
    tokens: float
    flops: float
    seconds: float
    share: float = 1.0
    reading: float = 0.0
    start: float = 0.0
    apart: float = 0.0
    apart_flops: float = 0.0
    updates: float = 0.0
    steps: int = 0
    batch: int = 1
    dearer: float = 0.0
    least: Stage | None = None
    most: Stage | None = None

    def slowed(self, busy: float) -> Stage:
        """Return the stage on a machine on which everything takes so many times as long."""
        least, most = (stage and stage.slowed(busy) for stage in (self.least, self.most))
        slower = {name: busy * getattr(self, name) for name in ("seconds", "reading", "start", "apart", "updates")}
        return replace(self, **slower, least=least, most=most)


@dataclass(frozen=True)
class Estimate:
    """What jobs take. memory and disk in bytes.

    busy  how many times as long everything takes as on the machine when idle, at least 1; the stages include it
    rows  corpus that is adapted on -> rows that its documents come to
    """

    stages: tuple[Stage, ...]
    memory: float
    disk: float
    busy: float = 1.0
    rows: Mapping[Path, int] = field(default_factory=dict)


def estimate(recipe: RaceRecipe, materials: Materials, run: Path) -> Estimate:
    """Return what a race would still do in the directory `run`, and its cost. Tries a few steps, writes nothing."""
    return estimate_of(enter(recipe, materials), run)


def estimate_of(entries: Entries, run: Path) -> Estimate:
    """Return what these entries would still do in `run`, as `estimate`."""
    return _estimate_by_model(entries, left_of(entries, run))


def _estimate_by_model(
    entries: Entries, jobs: Sequence[tuple[Job, float]], *, repeats: bool = True, watch: Watch = unwatched
) -> Estimate:
    """Return the estimate of the jobs. Each job is measured on the model that it starts from."""
    groups: dict[str, list[int]] = {"": []}
    for place, (job, _) in enumerate(jobs):
        groups.setdefault((*entries.contestants_reading(job), "")[0], []).append(place)
    stages: dict[int, Stage] = {}
    estimates = []
    for name, places in groups.items():
        materials = entries.given.get(name, entries.materials)
        group = [jobs[place] for place in places]
        estimates.append(estimate_of_jobs(group, entries.recipe, materials, repeats=repeats, watch=watch))
        stages |= dict(zip(places, estimates[-1].stages, strict=True))
    ordered = tuple(stages[place] for place in range(len(jobs)))
    peak, busy = (max(getattr(estimate, name) for estimate in estimates) for name in ("memory", "busy"))
    disk = sum(estimate.disk for estimate in estimates)
    return Estimate(
        ordered, peak, disk, busy, {path: rows for estimate in estimates for path, rows in estimate.rows.items()}
    )


def estimate_of_jobs(
    jobs: Sequence[tuple[Job, float]],
    recipe: RaceRecipe,
    materials: Materials,
    *,
    repeats: bool = True,
    watch: Watch = unwatched,
) -> Estimate:
    """Return what these jobs take. jobs: each with the share of it that will be done. repeats: as of `SpeedTest`.
    watch: gets what trials show
    """
    with _shared_directory() as scratch:
        base, tokenizer, preparing = trial_model(recipe, materials, scratch)
        trial = SpeedTest(
            recipe, materials, base, tokenizer, scratch, preparing=preparing, repeats=repeats, watch=watch
        )
        planned = tuple(trial.stage(job, share) for job, share in jobs)
        weights = trial.weights
        busy = max(1.0, float(ranks.agree(trials.busy_of_late()))) if jobs else 1.0
        peak = max(found["memory"] for found in trial.trials.values())
    checkpoints = sum(not job.work.opens_test for job, _ in jobs) + 1
    # a checkpoint holds the weights; the run at hand also two states of weights and both moments
    disk = 4.0 * weights * (checkpoints + 2 * 3)
    return Estimate(tuple(stage.slowed(busy) for stage in planned), peak, disk, busy, trial.rows)


def round_costs(
    entries: Entries, jobs: Sequence[Job], unit: Literal["seconds", "flops"], *, watch: Watch = unwatched
) -> RoundCosts:
    """Return what the jobs of the first round cost, in the unit of a budget. Tries a few steps, writes nothing."""
    estimate = _estimate_by_model(entries, [(job, 1.0) for job in jobs], repeats=False, watch=watch)
    once: dict[str, list[CostOfJob]] = {"adapting": [], "fixed": []}
    totals: dict[str, dict[str, float]] = {
        kind: dict.fromkeys(entries.models, 0.0) for kind in ("tuning", "apart", "test")
    }
    for names, stage in zip(entries.contestants_of(jobs), estimate.stages, strict=True):
        trains = unit == "seconds" or stage.kind in ("adapting", "tuning")  # FLOPs are those of training alone
        whole = stage.most or stage  # a fine-tuning that stops early leaves time to later rounds
        amount = getattr(whole, unit) if trains else 0.0
        if stage.kind in once:
            apart, updates = (stage.apart, stage.updates) if unit == "seconds" else (stage.apart_flops, 0.0)
            if stage.kind == "adapting":
                once["fixed"].append(CostOfJob(apart, names))
                amount -= apart
            once[stage.kind].append(CostOfJob(amount, names, updates, stage.steps, stage.batch))
            continue
        for name in names:
            totals[stage.kind][name] += amount
            if stage.kind == "tuning" and unit == "seconds":
                totals["apart"][name] += whole.start + whole.apart
    adapting, fixed = (tuple(several) for several in once.values())
    return RoundCosts(adapting, fixed, totals["tuning"], totals["apart"], totals["test"], estimate.rows)


def notes_on(planned: Sequence[Stage]) -> list[str]:
    """Return what makes these jobs dear: looks that take more time than training, and batches of several pieces where
    all their rows are compared.
    """
    found = notes_on_reading(planned)
    if dearer := {stage.label: stage.dearer for stage in planned if stage.dearer}:
        found.append(
            f"{listed([*dearer])}: all rows of a batch are compared with each other, and a batch is more than one "
            f"piece. So all pieces but one go through the model twice, and a step costs {max(dearer.values()):.0%} "
            f"more. A larger plan.piece_tokens, where memory allows it, or a smaller plan.batch costs less."
        )
    return found


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
class _TuningSpeed:
    """What some steps of fine-tuning showed.

    loading  seconds before the first step
    looking  of the looks at dev, in the precision of training; reading: in float32, as dev and test are scored
    row      mean tokens of a training row; dev: tokens of the dev set
    """

    loading: float
    training: Speed
    looking: Speed
    reading: Speed
    row: float
    dev: float


class SpeedTest:
    """Turns jobs into stages, and tries each kind of work once. scratch: a directory that all processes see.

    repeats  whether a fine-tuning of random weights is counted with its second attempt, which all of them needed where
             we looked (benchmarks/reports/2026-11-27-forecast.md); a budget does not

    Seconds are those of this machine when idle: training/trials.py.
    """

    def __init__(
        self,
        recipe: RaceRecipe,
        materials: Materials,
        base: str | Path,
        tokenizer: PreTrainedTokenizerBase,
        scratch: Path,
        *,
        preparing: float,
        repeats: bool = True,
        watch: Watch = unwatched,
    ) -> None:
        self.recipe, self.materials, self.base, self.tokenizer = recipe, materials, base, tokenizer
        self.scratch, self.preparing, self.repeats, self.watch = scratch, preparing, repeats, watch
        self.model = trials.model_key(base)
        self.started: set[str] = (
            set()
        )  # what models' fine-tunings were counted with the probe that their head begins as
        self.lengths: dict[tuple[Any, ...], np.ndarray] = {}
        self.rows: dict[Path, int] = {}  # as of `Estimate`
        self.trials: dict[str, Mapping[str, Any]] = {}

    @property
    def loading(self) -> float:
        """Seconds that loading the model takes."""
        return float(self._loaded()["seconds"])

    @property
    def weights(self) -> int:
        """Number of the model's weights."""
        return int(self._loaded()["weights"])

    def _loaded(self) -> Mapping[str, Any]:
        def load() -> dict[str, Any]:
            with trials.clock() as taken:
                model = load_masked_language_model(self.base)
            return {"seconds": taken(), "weights": sum(weight.numel() for weight in model.parameters())}

        return self._kept({"kind": "loading"}, load, lambda found: f"{found['weights'] / 1e6:,.1f} M weights")

    def _kept(
        self, about: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]], words: Callable[[Any], str]
    ) -> Mapping[str, Any]:
        """Return what the trial shows, which is made once for the same model and `about`, and tell the watch of it."""
        key = settings.digest(dict(about))
        if key not in self.trials:
            found, earlier = trials.kept({"model": self.model, **about}, measure)
            self.trials[key] = ranks.agree(found)
            source = "as kept from an earlier trial" if earlier else "tried"
            self.watch(Progress(f"speed of {about['kind']}", 0, 0, "steps", {"note": f"{words(found)}, {source}"}))
        return self.trials[key]

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
        """Return the stage of a job that adapts: steps on rows of a corpus, each with `method.passes` passes, of which
        `method.whole_passes` take longer than those of masked language modelling. before: seconds before the first step
        """
        prompt = self.prompt(job)
        lengths = self._lengths(corpus, recipe.max_tokens) + prompt
        rows = len(lengths) / sampled_share(corpus)
        self.rows[corpus.path] = round(rows)
        plan: Plan = mlm.with_steps(recipe.plan, getattr(recipe, "epochs", 0.0), round(rows))
        tokens = plan.steps * plan.batch * float(np.mean(lengths))
        rows_earlier, passes_earlier = method.earlier(recipe, rows)
        earlier = rows_earlier * float(np.mean(lengths))
        found = self._speed(recipe, method, lengths, plan, prompt)
        speed, longer = Speed(**found["training"]), found["whole"]
        pieces = _coupled_pieces(plan, lengths, shares_lines=found["shares_lines"])
        kept = 1 / pieces if ranks.world() == 1 else 0.0  # goes through the model once
        again = method.caching(recipe) * (1 - kept) if pieces > 1 else 0.0
        reading, further = 0.0, 0.0  # further: by looks of which more steps have more
        if method.looked and "dev" in job.places:
            looked = min(recipe.looks, plan.steps) * self.tokens(job.places["dev"], recipe.max_tokens, method.looked)
            reading = looked * self.tried(self.recipe.finetune).reading.seconds
        if looks := job.settings.get("looks"):
            read = [
                self.tokens(place, looks["max_tokens"], HELDOUT_SEGMENTS, more=prompt)
                for name, place in job.places.items()
                if name.endswith("_heldout")
            ]
            times = 2 if looks.get("sub_words") else 1
            look = times * sum(read) * self.tried(self.recipe.finetune).reading.seconds
            reading, further = reading + 2 * look, (plan.steps - 1) // looks["every"] * look
        trained = tokens * method.passes(recipe) + earlier * passes_earlier
        updates = plan.steps * speed.step + further
        # in passes of masked language modelling, which are shorter than whole ones
        passes = method.passes(recipe) + (longer - 1) * method.whole_passes(recipe)
        apart = before + self.loading + self._writing(1) + reading
        apart += longer * earlier * passes_earlier * speed.seconds
        seconds = apart + tokens * (passes + longer * again) * speed.seconds + updates
        dearer = longer * again / passes
        amounts = (tokens + earlier, trained * speed.flops, seconds)
        return Stage(
            job.label,
            "adapting",
            *amounts,
            reading=reading + further,
            apart=apart,
            apart_flops=earlier * passes_earlier * speed.flops,
            updates=updates,
            steps=plan.steps,
            batch=plan.batch,
            dearer=dearer,
        )

    def tuning(self, job: Job, share: float) -> Stage:
        """Return the stage of the first share of a fine-tuning; 1: the whole job. It may stop early."""
        stated = estimates.tuning_of(job)
        tried = self.tried(stated, self.prompt(job))
        plan = finetune.plan_of(stated, self.materials.task.sizes["train"], finetune.WIDTH)
        least, mean, most = estimates.shares_run(stated.patience, min(stated.looks, plan.steps), share)
        start = self._start(job, stated, tried)
        looked = finetune.looked_at(stated, self.materials.task) / self.materials.task.sizes["dev"]
        repeated = self.repeats and stated.retry and "model" in job.needs and job.needs["model"].work.name == CONTROL
        attempts = 1 + finetune.RETRY_STEPS if repeated else 1
        look = tried.dev * (looked * tried.looking.seconds + (share == 1) * tried.reading.seconds)
        apart = tried.loading + look + self._writing(1)

        def stage(run: float) -> Stage:
            tokens = run * plan.steps * plan.batch * tried.row
            looks = run * min(stated.looks, plan.steps) + (share < 1)  # where it is cut off, it is looked at too
            reading = tried.dev * (looks * looked * tried.looking.seconds + (share == 1) * tried.reading.seconds)
            written = WRITTEN_LOOKS * looks if stated.choose == "best" else 0.0
            trained = tokens * tried.training.seconds + run * plan.steps * tried.training.step
            seconds = tried.loading + trained + reading + self._writing(written + 1) + start
            label = job.label if share == 1 else f"{job.label}, {share:.0%} of the steps"
            flops = tokens * tried.training.flops
            return Stage(label, "tuning", tokens, flops, seconds, share, reading, start, min(apart, seconds - start))

        if least == most and attempts == 1:
            return stage(mean)
        return replace(stage(attempts * mean), least=stage(least), most=stage(attempts * most))

    def _writing(self, times: float) -> float:
        """Return the seconds that writing the weights takes, so many times."""
        return times * 4.0 * self.weights / WRITTEN_A_SECOND

    def _start(self, job: Job, stated: finetune.FinetuneRecipe, tried: _TuningSpeed) -> float:
        """Return the seconds of the probe that a head begins as; 0 for all but a model's first fine-tuning, and where
        there is none.
        """
        task = self.materials.task
        model = job.needs["model"].name if "model" in job.needs else ""
        probed = stated.head == "probe" or (stated.pooling == "auto" and stated.head != "kept")
        if model in self.started or not probed or task.kind not in PROBED:
            return 0.0
        self.started.add(model)
        rows = task.sizes["train"]
        return rows * tried.row * tried.reading.seconds + estimates.fitting_seconds(task, rows)

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
        """Try a step of fine-tuning, once for all recipes that differ only in length, batch, rate and seed.

        prompt: number of tokens behind each row; which ones they are does not matter
        """
        task, usual = self.materials.task, finetune.FinetuneRecipe()
        plan = replace(usual.plan, precision=stated.plan.precision, piece_tokens=stated.plan.piece_tokens)
        plan = replace(plan, recompute=stated.plan.recompute, steps=1)
        length: dict[str, Any] = {"epochs": 0.0, "least_steps": 0, "most_epochs": 0.0, "looks": 1, "patience": 0}
        alike = replace(stated, model="", task=Path(), choose="best", averaged=1, retry=False, plan=plan, **length)
        alike = replace(alike, head="fresh")  # as large as one that is kept, which the base has not yet
        if stated.pooling == "auto":
            alike = replace(alike, pooling="pooler" if task.kind in ("tokens", "span") else "mean")
        spans = SPANS[stated.pooling]
        train_rows, dev_rows = (self._rows(split, spans) + prompt for split in ("train", "dev"))
        row = float(np.mean(train_rows))

        def measure() -> dict[str, Any]:
            places = {split: _spread(task.sizes[split], most) for split, most in TRIED_ROWS.items()}
            path = self.scratch / f"some-{task.kind}"
            if ranks.is_first():
                with_fewer(task, places["train"], path, dev=places["dev"])
            ranks.wait()
            some = open_prepared(path)
            with trials.clock() as taken:
                tuning = Tuning(replace(alike, model=str(self.base), task=some.path), some, self.scratch, unwatched)
            behind = [self.tokenizer.sep_token_id or 0] * prompt
            learnt = appended(tuning.rows, behind)

            def rows(number: int) -> Batch:
                return learnt.take(np.array(_cycled(len(learnt), number)))

            training = trials.trained_speed(tuning.objective(), rows, plan)
            dev = some.examples("dev")
            read = appended(encode_rows(dev, tuning.tokenizer, task.max_tokens, task.kind, spans=spans), behind)
            texts = [example.text for example in dev]

            def predicts(batch: Batch) -> None:
                predict(tuning.model, batch, tuning.labels, texts=texts)

            whole = task.kind in ("tokens", "span")  # an example may have several rows, which belong together
            flops = TaskLoss(tuning.model).flops(read) / len(read.ids)
            reading = trials.read_speed(predicts, read, flops, whole=whole)
            with arithmetic(plan, tuning.model.device):
                looking = trials.read_speed(predicts, read, flops, whole=whole)
            speeds = {"training": training, "looking": looking, "reading": reading}
            return {"loading": taken()} | {name: vars(speed) for name, speed in speeds.items()}

        # a spread of lengths costs more than rows of one length, because attention grows with their square
        spread = trials.in_steps(float(np.mean(train_rows**2)) / row)
        about: dict[str, Any] = {"kind": "fine-tuning", "task": task.kind, "labels": len(task.labels), "prompt": prompt}
        about |= {
            "recipe": settings.to_mapping(alike),
            "tokens": [trials.in_steps(row), spread],
            "looks": plan.precision,
        }
        found = self._kept(about, measure, _training_words)
        training, looking, reading = (Speed(**found[name]) for name in ("training", "looking", "reading"))
        dev_tokens = float(np.sum(dev_rows)) * task.sizes["dev"] / min(task.sizes["dev"], SAMPLED_ROWS)
        return _TuningSpeed(found["loading"], training, looking, reading, row, dev_tokens)

    def test_tokens(self, stated: finetune.FinetuneRecipe, prompt: int) -> float:
        """Return the tokens of the test set, extrapolated from a sample of it. prompt: tokens behind each row"""
        rows = self._rows("test", SPANS[stated.pooling]) + prompt
        size = self.materials.task.sizes["test"]
        return float(np.sum(rows)) * size / min(size, SAMPLED_ROWS)

    def _rows(self, split: Split, spans: Any) -> np.ndarray:
        """Return the tokens of each row of SAMPLED_ROWS examples of the split."""
        key = (split, spans)
        if key not in self.lengths:
            task = self.materials.task
            examples = task.examples(split)
            sampled = [examples[place] for place in _spread(len(examples), SAMPLED_ROWS)]
            self.lengths[key] = encode_rows(sampled, self.tokenizer, task.max_tokens, task.kind, spans=spans).lengths
        return self.lengths[key]

    def _speed(self, recipe: Any, method: Method, lengths: np.ndarray, plan: Plan, prompt: int) -> Mapping[str, Any]:
        """Return "training", the speed of masked language modelling; "whole", how many times as long a pass takes that
        needs all last states; and "shares_lines" of its objective. prompt: tokens behind each row, never predicted
        """
        drawn = method.new_model is not None and not method.starts(recipe)
        row = float(np.mean(lengths))
        about: dict[str, Any] = {"kind": "masked language modelling", "prompt": prompt, "precision": plan.precision}
        about |= {"pieces": plan.piece_tokens, "recompute": plan.recompute, "tokens": trials.in_steps(row)}
        about |= {"dropout": [getattr(recipe, name, None) for name in ("dropout", "attention_dropout")]}
        if drawn:  # of the size that the recipe states
            stated = {each.name: getattr(recipe, each.name) for each in fields(recipe)}
            sizes = {name: value for name, value in stated.items() if name != "plan" and not isinstance(value, Path)}
            about["recipe"] = {name: str(value) for name, value in sizes.items()}

        def measure() -> dict[str, Any]:
            behind = [self.tokenizer.sep_token_id or 0] * prompt

            def rows(number: int) -> Batch:
                return appended(random_rows(lengths - prompt, number, len(self.tokenizer))(0), behind)

            objective = MaskedLanguageLoss(self._encoder(recipe, method))
            whole, shares = cost_of_whole_pass(objective.model, PREDICTED), objective.shares_lines
            training = vars(trials.trained_speed(objective, rows, plan))
            return {"training": training, "whole": whole, "shares_lines": shares}

        def words(found: Mapping[str, Any]) -> str:
            return f"{_training_words(found)} in rows of about {about['tokens']:.0f}"

        return self._kept(about, measure, words)

    def tokens(self, corpus: Path, max_tokens: int, most: int, *, more: int = 0) -> float:
        """Return the tokens of at most `most` rows of a corpus, each with `more` tokens behind it."""
        lengths = self._lengths(Corpus(corpus), max_tokens) + more
        return float(np.mean(lengths)) * min(most, len(lengths) / sampled_share(Corpus(corpus)))

    def _lengths(self, corpus: Corpus, longest: int) -> np.ndarray:
        """Return the tokens of each row of a sample of the corpus, an array. longest: tokens that a row has at most"""
        key = (corpus.path, longest)
        if key not in self.lengths:
            texts = [document.text for document in sample(corpus)]
            counts = [len(ids) for ids in self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]
            room = longest - 2
            cut = [np.full(max(1, -(-count // room)), count / max(1, -(-count // room))) for count in counts]
            lengths = np.maximum(1, np.concatenate(cut) + 2).astype(np.int64)
            self.lengths[key] = lengths + prompt_length(self.tokenizer)
        return self.lengths[key]

    def _encoder(self, recipe: Any, method: Method) -> PreTrainedModel:
        if method.new_model is not None and not method.starts(recipe):
            return method.new_model(recipe, self.tokenizer)
        dropout = {name: getattr(recipe, name, None) for name in ("dropout", "attention_dropout")}
        return load_masked_language_model(
            self.base, hidden_dropout=dropout["dropout"], attention_dropout=dropout["attention_dropout"]
        )


def _coupled_pieces(plan: Plan, lengths: np.ndarray, *, shares_lines: bool) -> int:
    """Return how many pieces a step has whose rows are compared with each other, as `gradients.layouts_of` cuts it."""
    tokens, most = plan.batch * float(np.mean(lengths)), coupled_tokens(plan, device())
    if shares_lines:
        return max(1, math.ceil(tokens / most))
    if plan.batch * float(np.max(lengths)) <= most:  # a line for each row, with padding
        return 1
    return max(2, math.ceil(tokens / piece_tokens(plan, device())))


def _training_words(found: Mapping[str, Any]) -> str:
    return f"{1 / found['training']['seconds']:,.0f} tokens a second"


def _spread(number: int, most: int) -> list[int]:
    """Return at most `most` places among a number of rows, evenly spaced, ascending."""
    return [*range(number)] if number <= most else [place * number // most for place in range(most)]


def _cycled(rows: int, number: int) -> list[int]:
    """Return so many places among the rows, evenly spaced, and all of them again where there are too few."""
    return (
        [place * rows // number for place in range(number)]
        if number <= rows
        else [place % rows for place in range(number)]
    )


def random_rows(lengths: np.ndarray, batch: int, vocabulary: int) -> Stream:
    """Return a stream of rows of random ids, with lengths sampled from `lengths`; PREDICTED of them are predicted."""

    def stream(step: int) -> Batch:
        generator = np.random.default_rng(step)
        drawn = generator.choice(lengths, batch)
        ids = generator.integers(0, vocabulary, drawn.sum())
        masked = np.where(generator.random(len(ids)) < PREDICTED, ids, NOT_PREDICTED)
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
