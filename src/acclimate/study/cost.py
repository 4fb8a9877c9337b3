"""What a race is going to cost, before it starts: tokens, FLOPs, seconds, memory and disk of each stage.

Tokens are those of a sample of the texts; seconds come from a few real training steps on rows of those lengths, with
random weights, on this machine as it is now. Nothing is written into the run.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import ranks, settings
from acclimate.methods import finetune, mlm, tlm
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.classifier import load_classifier
from acclimate.models.encoder import load_masked_language_model, new_encoder
from acclimate.study import stages
from acclimate.study.budget import Costs
from acclimate.study.jobs import Job, with_needs
from acclimate.study.materials import Materials
from acclimate.study.race import foreseen, left
from acclimate.study.recipe import Recipe
from acclimate.study.trial import (
    SAMPLE,
    after_warming_up,
    random_rows,
    sample,
    sampled_characters,
    sampled_share,
    trial_model,
)
from acclimate.study.wording import duration, si
from acclimate.tasks.rows import encode
from acclimate.text.corpus import Corpus
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.plan import Plan

CHARACTERS_A_SECOND = 5e6  # of a corpus that is searched, its index built and leaks looked for; not measured here
TRIED = 6  # steps; the first two warm up
TOKENS = 6_144  # of a tried step, about: a few pieces of a CPU, after which the speed is that of a full step


@dataclass(frozen=True)
class Stage:
    """One job that is still to do, or a share of it. kind: what it counts as in a budget (budget.Costs)."""

    label: str
    kind: str
    tokens: float
    flops: float
    seconds: float
    share: float = 1.0


@dataclass(frozen=True)
class Estimate:
    """What is left of a race. memory and disk in bytes."""

    stages: tuple[Stage, ...]
    done: int
    memory: float
    disk: float

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def as_text(self) -> str:
        """A line a stage and the totals."""
        lines = [f"{'stage':<36}{'tokens':>10}{'FLOP':>10}{'time':>14}"]
        lines += [
            f"{stage.label:<36}{si(stage.tokens):>10}{si(stage.flops):>10}{duration(stage.seconds):>14}"
            for stage in self.stages
        ]
        tokens, flops = (sum(getattr(stage, unit) for stage in self.stages) for unit in ("tokens", "flops"))
        lines.append(f"{'together':<36}{si(tokens):>10}{si(flops):>10}{duration(self.seconds):>14}")
        lines.append(
            f"memory {self.memory / 1e9:.1f} GB, disk {self.disk / 1e9:.2f} GB; {self.done} jobs are done already."
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class _Speed:
    """Seconds and FLOPs a token of one kind of work."""

    seconds: float
    flops: float


def estimate(recipe: Recipe, materials: Materials, run: Path, *, budgeted: bool = False) -> Estimate:
    """What `race` would still do in `run`, and what that takes. Tries a few steps; writes nothing there."""
    jobs = left(recipe, materials, run, budgeted=budgeted)
    everything = with_needs(job for job, _ in foreseen(recipe, materials, budgeted=budgeted))
    with _shared_directory() as scratch:
        begun = time.perf_counter()
        base, tokenizer, preparing = trial_model(recipe, materials, scratch)
        loading = time.perf_counter() - begun - preparing
        stages_of = _Stages(recipe, materials, base, tokenizer, loading=loading, preparing=preparing)
        planned = tuple(stages_of.stage(job, share) for job, share in jobs)
        weights = sum(weight.numel() for weight in load_masked_language_model(base).parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    if torch.cuda.is_available():
        peak = float(torch.cuda.max_memory_allocated())
    checkpoints = sum(job.work is not stages.test for job, _ in jobs) + 1
    # a checkpoint holds the weights; the run at hand also two states of weights and both moments
    disk = 4.0 * weights * (checkpoints + 2 * 3)
    return Estimate(planned, len(everything) - len(jobs), peak, disk)


@contextmanager
def _shared_directory() -> Iterator[Path]:
    """A temporary directory of the first process, which all see."""
    with tempfile.TemporaryDirectory() if ranks.is_first() else nullcontext("") as own:
        yield Path(ranks.agree(own))
        ranks.wait()


def costs_of(unit: Literal["seconds", "flops"]) -> Callable[[Recipe, Materials, Path], Costs]:
    """What `race.run_race` asks for the costs of a budgeted race, in the budget's unit."""

    def costs(recipe: Recipe, materials: Materials, run: Path) -> Costs:
        found = estimate(recipe, materials, run, budgeted=True).stages
        kinds: dict[str, list[float]] = {"adapting": [], "fixed": [], "tuning": [], "test": []}
        for stage in found:
            trains = unit == "seconds" or stage.kind in ("adapting", "tuning")  # FLOPs are those of training alone
            kinds[stage.kind].append(getattr(stage, unit) / stage.share if trains else 0.0)
        tuning, test = (float(np.mean(kinds[kind] or [0.0])) for kind in ("tuning", "test"))
        return Costs(sum(kinds["adapting"]), sum(kinds["fixed"]), tuning, test)

    return costs


class _Stages:
    """Turns jobs into stages, each kind of work tried once."""

    def __init__(
        self,
        recipe: Recipe,
        materials: Materials,
        base: str | Path,
        tokenizer: PreTrainedTokenizerBase,
        *,
        loading: float,
        preparing: float,
    ) -> None:
        self.recipe, self.materials, self.base, self.tokenizer = recipe, materials, base, tokenizer
        self.loading, self.preparing = loading, preparing
        self.speeds: dict[str, _Speed] = {}
        self.labels = materials.task.labels or ("number",)  # the loss of any kind takes as long as that of one label

    def stage(self, job: Job, share: float) -> Stage:
        task = self.materials.task
        if job.work is stages.pretrain:
            assert self.materials.general is not None
            whole = self.preparing * self.materials.general.characters / sampled_characters(self.materials.general)
            return self._masked(job, self.materials.general, self.recipe.pretrain, before=whole)
        if job.work is stages.adapt:
            corpus = Corpus(job.places["corpus"])
            texts = self.materials.task_text
            own = self.recipe.tapt if texts is not None and corpus.path == texts.path else self.recipe.dapt
            return self._masked(job, corpus, own, before=0.0)
        if job.work is stages.retrieve:
            assert self.materials.general is not None
            return Stage(job.label, "fixed", 0, 0, self.materials.general.characters / CHARACTERS_A_SECOND)
        if job.work is stages.joint:
            assert self.materials.general is not None
            return self._masked(job, self.materials.general, self.recipe.tlm, before=0.0)
        if job.work is stages.heldout:
            rows = self._lengths(Corpus(job.places["corpus"]), self.recipe.dapt.max_tokens)
            count = min(2_000, len(rows) / sampled_share(Corpus(job.places["corpus"])))
            return self._forward(job, float(np.mean(rows)) * count)
        if job.work is stages.fine_tune:
            return self._tuning(job, share)
        if job.work is stages.test:
            return self._forward(job, self._task_tokens("test") * task.sizes["test"])
        if job.work is stages.test_terms:
            return Stage(job.label, "fixed", 0, 0, 1e-3 * task.sizes["train"])
        seconds = self.loading if job.work is stages.untrained else 5e-3 * task.sizes["train"]
        return Stage(job.label, "fixed", 0, 0, seconds)

    def _masked(self, job: Job, corpus: Corpus, recipe: Any, *, before: float) -> Stage:
        lengths = self._lengths(corpus, recipe.max_tokens)
        rows = len(lengths) / sampled_share(corpus)
        epochs = getattr(recipe, "epochs", 0.0)  # TLM counts steps only
        plan: Plan = mlm.with_steps(recipe.plan, epochs, round(rows))
        tokens = plan.steps * plan.batch * float(np.mean(lengths))
        speed = self._speed(
            settings.digest(settings.to_mapping(recipe)),
            lambda: MaskedLanguageLoss(self._encoder(recipe)),
            lengths,
            plan,
        )
        seconds = before + self.loading + tokens * speed.seconds
        return Stage(job.label, "adapting", tokens, tokens * speed.flops, seconds)

    def _tuning(self, job: Job, share: float) -> Stage:
        task = self.materials.task
        own = settings.from_mapping(finetune.Recipe, job.settings["recipe"])
        plan = mlm.with_steps(own.plan, own.epochs, task.sizes["train"])
        mean = self._task_tokens("train")
        tokens = share * plan.steps * plan.batch * mean
        lengths = encode(task.examples("train")[:SAMPLE], self.tokenizer, task.max_tokens).lengths
        speed = self._speed("task", lambda: TaskLoss(self._classifier()), lengths, plan)
        looks = share * min(own.looks, plan.steps) * task.sizes["dev"] * self._task_tokens("dev")
        seconds = self.loading + tokens * speed.seconds + looks * self._forward_speed().seconds
        label = job.label if share == 1 else f"{job.label}, {share:.0%} of the steps"
        return Stage(label, "tuning", tokens, tokens * speed.flops, seconds, share)

    def _forward(self, job: Job, tokens: float) -> Stage:
        speed = self._forward_speed()
        kind = "test" if job.work is stages.test else "fixed"
        return Stage(job.label, kind, tokens, tokens * speed.flops, self.loading + tokens * speed.seconds)

    def _forward_speed(self) -> _Speed:
        if "forward" not in self.speeds:
            task = self.materials.task
            rows = encode(task.examples("dev")[:64], self.tokenizer, task.max_tokens)
            model = self._classifier()
            predict(model, rows, self.labels)
            begun = time.perf_counter()
            predict(model, rows, self.labels)
            taken = time.perf_counter() - begun
            self.speeds["forward"] = _Speed(taken / len(rows.ids), TaskLoss(model).flops(rows) / 3 / len(rows.ids))
        return self.speeds["forward"]

    def _speed(self, kind: str, make: Callable[[], Objective], lengths: np.ndarray, plan: Plan) -> _Speed:
        if kind not in self.speeds:
            objective = make()
            rows = max(4, round(TOKENS / float(np.mean(lengths))))
            tried = replace(plan, steps=TRIED, batch=min(plan.batch, rows), compile=False)
            stream = random_rows(lengths, tried.batch, len(self.tokenizer), len(self.labels))
            done = after_warming_up(train(objective, stream, tried, adamw(objective, tried)))
            seconds = np.median([step.seconds / step.tokens for step in done])
            self.speeds[kind] = _Speed(float(seconds), float(np.mean([step.flops / step.tokens for step in done])))
        return self.speeds[kind]

    def _lengths(self, corpus: Corpus, longest: int) -> np.ndarray:
        """Tokens of each row of a sample of the corpus."""
        texts = [document.text for document in sample(corpus)]
        counts = [len(ids) for ids in self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]
        room = longest - 2
        cut = [np.full(max(1, -(-count // room)), count / max(1, -(-count // room))) for count in counts]
        lengths: np.ndarray = np.maximum(1, np.concatenate(cut) + 2).astype(np.int64)
        return lengths

    def _task_tokens(self, split: Any) -> float:
        """Mean tokens of an example."""
        task = self.materials.task
        examples = task.examples(split)[:SAMPLE]
        return float(np.mean(encode(examples, self.tokenizer, task.max_tokens).lengths))

    def _encoder(self, own: Any) -> PreTrainedModel:
        if isinstance(own, tlm.Recipe) and not own.model:
            return new_encoder(
                layers=own.layers,
                hidden=own.hidden,
                heads=own.heads,
                vocabulary_size=max(own.vocabulary, len(self.tokenizer)),
                longest=max(512, own.max_tokens),
                pad=self.tokenizer.pad_token_id,
                seed=0,
                hidden_dropout=own.dropout,
                attention_dropout=own.attention_dropout,
            )
        return load_masked_language_model(
            self.base, hidden_dropout=own.dropout, attention_dropout=own.attention_dropout
        )

    def _classifier(self) -> PreTrainedModel:
        own = self.recipe.finetune
        return load_classifier(
            self.base,
            self.labels,
            seed=0,
            dropout=own.dropout,
            hidden_dropout=own.dropout,
            attention_dropout=own.attention_dropout,
        )
