"""STILT: fine-tune on a labelled task first, then on the one that counts.

Phang, Févry and Bowman (2018, arXiv 1811.01088), section 3; on BLURB: Jeong and Hwang, "Empirical Study on Intermediate
Fine-tuning for Biomedical Domain Tasks", section 2.2: "first fine-tunes the PTLM to the intermediate task, and
subsequently fine-tunes the resulting model to the target task". Each stage is fine-tuning (methods/finetune.py) with
its own loss; tasks of any kinds may follow each other, and more than two.

Readings
  The papers do not say what of the first model goes on, and the label sets differ: the encoder alone does, its word
  embeddings included, not the head, nor BERT's pooler, which is drawn with the head. A head of the same shape is drawn
  anew too: under one seed it is the very head that fine-tuning without an intermediate task starts from.
  Optimiser, schedule, warm-up and the order of the rows begin afresh; all stages have one seed.
  Which checkpoint of the intermediate task goes on is not stated: that of its best look at dev, or the last
  (`intermediate.choose`).
  "The hyperparameters of fine-tuning are the same as those of PubMedBERT": both stages have those of `finetune`, but
  for what `intermediate` states otherwise. What is for one kind of task (pooling, sequence_layer, tag_...) is for those
  stages whose task is of that kind; the others have the defaults (methods/finetune.py).
  Special tokens that an intermediate task put into the vocabulary stay there.
Deviations
  None. What of an intermediate task's training rows stands in the target's dev or test set stays there, as it must have
  in the papers; the matrix of all pairs counts such rows and leaves them out (studies/stilt.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from acclimate.core.types import Checkpoint, Progress, Watch, unwatched
from acclimate.methods import finetune
from acclimate.methods.finetune import check_heeded, fitting
from acclimate.methods.method import Method
from acclimate.models.classifier import load_finetuned
from acclimate.models.encoder import load_tokenizer
from acclimate.models.loading import identity
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.training.run import finished, write_checkpoint

STAGE = "stage-{}"  # directory of a stage, counted from 1


@dataclass(frozen=True)
class Intermediate:
    """What an intermediate task has otherwise than the target; none: as the target."""

    choose: Literal["best", "last"] | None = None  # which of its checkpoints goes on: the best look at dev, or the last
    looks: int | None = None  # looks at dev
    dropout: float | None = None  # of hidden states
    epochs: float | None = None  # passes over the training rows
    steps: int | None = None  # in place of epochs
    batch: int | None = None  # rows of a step
    rate: float | None = None  # peak learning rate
    warmup: float | None = None  # share of the steps over which the rate rises

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"intermediate.steps = {self.steps} and intermediate.epochs = {self.epochs:g} both say how long it is. "
                f"Leave one of them out"
            )

    def on(self, target: finetune.FinetuneRecipe) -> finetune.FinetuneRecipe:
        """The target's settings with these."""
        given = {own.name: value for own in fields(self) if (value := getattr(self, own.name)) is not None}
        planned = {name: given.pop(name) for name in ("steps", "batch", "rate", "warmup") if name in given}
        if "steps" in planned:
            given["epochs"] = 0.0
        return replace(target, **given, plan=replace(target.plan, **planned))


@dataclass(frozen=True)
class StiltRecipe:
    """A chain of fine-tunings. `finetune` is what all have; `intermediate`: what those before the last have instead."""

    model: str = ""  # a local directory or a hub id
    tasks: tuple[Path, ...] = ()  # directories that tasks.prepared.prepare wrote, in their order, the target last
    intermediate: Intermediate = field(default_factory=Intermediate)
    """What the tasks before the target have instead; none: as finetune has it."""
    finetune: finetune.FinetuneRecipe = field(default_factory=finetune.FinetuneRecipe)
    """Of all tasks; without model, task and head."""

    def __post_init__(self) -> None:
        check_chained(self.finetune)


def stage_of(recipe: StiltRecipe, task: Prepared, *, last: bool) -> finetune.FinetuneRecipe:
    """How a task is learnt: the target, which is the last, or one before it."""
    return fitting(recipe.finetune if last else recipe.intermediate.on(recipe.finetune), task)


def check_chained(recipe: finetune.FinetuneRecipe) -> None:
    """Raises ValueError for settings of fine-tuning that a chain decides by itself."""
    if recipe.head == "kept":
        raise ValueError(
            "finetune.head = 'kept': the tasks of a chain share the encoder, and each has a head of its own. Leave it "
            "out; acclimate adapt finetune head=kept goes on with a checkpoint's head"
        )
    if recipe.model or recipe.task != Path():
        name = "model" if recipe.model else "task"
        raise ValueError(f"finetune.{name} is decided by the chain. State model=MODEL and tasks=[...] by themselves")


def adapt(recipe: StiltRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune on each task in turn; `out/checkpoint` is the last stage's. Each stage lies in `out/stage-N`, as
    `finetune.adapt` leaves it. A stopped chain goes on where it stood. Never opens a test set.

    Raises ValueError for fewer than two tasks, and as `finetune.adapt` does.
    """
    tasks, sources = _inputs(recipe)
    stated = replace(recipe, tasks=())  # places, which `sources` tells by their content
    if done := finished(out, stated, sources):
        return done
    last: Checkpoint | None = None
    for number, task in enumerate(tasks, 1):
        own = stage_of(recipe, task, last=number == len(tasks))
        own = replace(own, model=str(last.path) if last else recipe.model, task=task.path)
        told = _told(watch, f"{task.name}, {number} of {len(tasks)}")
        last = finetune.adapt(own, out / STAGE.format(number), watch=told)
    assert last is not None
    return write_checkpoint(out, load_finetuned(last.path), load_tokenizer(last.path), stated, sources)


def _inputs(recipe: StiltRecipe) -> tuple[list[Prepared], dict[str, str]]:
    """The tasks, and hashes of all that the chain reads."""
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    if len(recipe.tasks) < 2:
        raise ValueError(
            f"tasks = {[str(place) for place in recipe.tasks]}: name two prepared tasks or more, the target last. To "
            f"fine-tune on one: acclimate adapt finetune task=DIR"
        )
    tasks = [open_prepared(place) for place in recipe.tasks]
    check_heeded(recipe.finetune, tasks)
    for number, task in enumerate(tasks, 1):
        own = stage_of(recipe, task, last=number == len(tasks))
        finetune.check_task(replace(own, model=recipe.model), task)
    sources = {"model": identity(recipe.model)}
    for number, task in enumerate(tasks, 1):
        sources |= {f"{number}.{name}": task.hashes[name] for name in ("about", "train", "dev")}
    return tasks, sources


def _told(watch: Watch, about: str) -> Watch:
    def told(progress: Progress) -> None:
        watch(replace(progress, stage=f"{progress.stage} on {about}"))

    return told


METHOD = Method("stilt", StiltRecipe, adapt)
