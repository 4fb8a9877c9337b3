"""STILT: fine-tune on an intermediate labelled task first, then on the target task.

Phang, Févry and Bowman (2018, arXiv 1811.01088), section 3; on BLURB: Jeong and Hwang, "Empirical Study on Intermediate
Fine-tuning for Biomedical Domain Tasks", section 2.2: "first fine-tunes the PTLM to the intermediate task, and
subsequently fine-tunes the resulting model to the target task". Each stage is fine-tuning (methods/finetune.py) with
the loss of its task; tasks of any kinds may follow each other, and more than two.

Readings
  The papers do not say which weights of the first model go on. The label sets differ, so the encoder's go on, word
  embeddings included; the head and BERT's pooler are drawn anew, also where the shapes agree: with one seed the head is
  the one that fine-tuning without an intermediate task starts from.
  Optimiser, schedule, warm-up and the order of the rows begin anew; all stages have one seed.
  The papers do not say which checkpoint of the intermediate task goes on: that of its best look at dev, or the last
  (`intermediate.choose`).
  "The hyperparameters of fine-tuning are the same as those of PubMedBERT": both stages have the settings of `finetune`,
  but for those that `intermediate` states. Settings for one kind of task (pooling, sequence_layer, tag_...) are for
  stages with a task of that kind; the others have the defaults (methods/finetune.py).
  Special tokens that an intermediate task put into the vocabulary stay there.
Deviations
  None. Training rows of an intermediate task that are also in the target's dev or test set are kept, as they must have
  been in the papers; the matrix of all pairs counts such rows and leaves them out (studies/stilt.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from acclimate.core.settings import AboveZero, BatchSize, Dropout, Positive, Range, check_ranges
from acclimate.core.types import Checkpoint, Progress, Watch, unwatched
from acclimate.methods import finetune
from acclimate.methods.finetune import check_heeded, without_idle_settings
from acclimate.methods.method import Method
from acclimate.methods.mlm import Epochs
from acclimate.models.classifier import load_finetuned
from acclimate.models.encoder import load_tokenizer
from acclimate.models.loading import identity
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.training.plan import Plan
from acclimate.training.run import finished, write_checkpoint

STAGE = "stage-{}"  # directory of a stage, counted from 1


@dataclass(frozen=True)
class Intermediate:
    """Settings of the intermediate tasks that differ from the target's; None: the target's."""

    choose: Literal["best", "last"] | None = None
    """Which weights go on to the next task: those of the best look at dev, or of the last step."""
    looks: Positive | None = None  # number of times that dev is scored
    dropout: Dropout | None = None  # dropout of hidden states and before the output layer, 0 to 1
    epochs: Epochs | None = None  # passes over the training rows
    steps: Positive | None = None  # number of steps, instead of epochs
    batch: BatchSize | None = None  # rows of one optimiser step
    rate: AboveZero | None = None  # peak learning rate
    warmup: Annotated[float | None, Range(least=0, most=1)] = None
    """Share of the steps over which the rate rises from 0."""

    def __post_init__(self) -> None:
        check_ranges(self, "intermediate.")
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"intermediate.steps = {self.steps} and intermediate.epochs = {self.epochs:g} both set the length "
                f"of the run. Leave one of them out"
            )

    def on(self, target: finetune.FinetuneRecipe) -> finetune.FinetuneRecipe:
        """Return the target's settings, changed by these."""
        stated = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}
        planned = {name: stated.pop(name) for name in ("steps", "batch", "rate", "warmup") if name in stated}
        if "steps" in planned:
            stated["epochs"] = 0.0
        elif stated.get("epochs"):
            planned["steps"] = Plan().steps
            stated |= target.besides["epochs"]
        if stated.get("choose") == "last":
            stated["averaged"] = 1
        return replace(target, **stated, plan=replace(target.plan, **planned))


@dataclass(frozen=True)
class StiltRecipe:
    """A chain of fine-tunings, one after the other."""

    model: str = ""  # checkpoint to start from: a local directory or a hub id
    tasks: tuple[Path, ...] = ()
    """Two or more directories that tasks.prepared.prepare wrote, in the order of training; the target comes last."""
    intermediate: Intermediate = field(default_factory=Intermediate)
    """Settings that differ on the tasks before the target; none: the same as in `finetune`."""
    finetune: finetune.FinetuneRecipe = finetune.PAPERS
    """Settings of all fine-tunings; model, task and head are left out."""

    def __post_init__(self) -> None:
        check_chained(self.finetune)


def stage_of(recipe: StiltRecipe, task: Prepared, *, last: bool) -> finetune.FinetuneRecipe:
    """Return the settings with which a task is fine-tuned on. last: True for the target."""
    return without_idle_settings(recipe.finetune if last else recipe.intermediate.on(recipe.finetune), task)


def check_chained(recipe: finetune.FinetuneRecipe) -> None:
    """Raises ValueError for settings of fine-tuning that the chain itself fills in."""
    if recipe.head == "kept":
        raise ValueError(
            "finetune.head = 'kept': the tasks of a chain share the encoder, but each has a new head. Leave it "
            "out; acclimate adapt finetune head=kept goes on with a checkpoint's head"
        )
    if recipe.model or recipe.task != Path():
        name = "model" if recipe.model else "task"
        raise ValueError(f"finetune.{name} is decided by the chain. State model=MODEL and tasks=[...] by themselves")


def adapt(recipe: StiltRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune on each task in turn; `out/checkpoint` is that of the last stage. Each stage lies in `out/stage-N`, as
    `finetune.adapt` leaves it. A stopped chain goes on where it stopped. Never opens a test set.

    Raises ValueError for fewer than two tasks, and as `finetune.adapt` does.
    """
    tasks, sources = _inputs(recipe)
    stated = replace(recipe, tasks=())  # without the tasks' paths: `sources` has the hashes of their content
    if done := finished(out, stated, sources):
        return done
    last: Checkpoint | None = None
    for number, task in enumerate(tasks, 1):
        stage = stage_of(recipe, task, last=number == len(tasks))
        stage = replace(stage, model=str(last.path) if last else recipe.model, task=task.path)
        followed = _named(watch, f"{task.name}, {number} of {len(tasks)}")
        last = finetune.adapt(stage, out / STAGE.format(number), watch=followed)
    assert last is not None
    return write_checkpoint(out, load_finetuned(last.path), load_tokenizer(last.path), stated, sources)


def _inputs(recipe: StiltRecipe) -> tuple[list[Prepared], dict[str, str]]:
    """Return the tasks, and hashes of all that the chain reads."""
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
        stage = stage_of(recipe, task, last=number == len(tasks))
        finetune.check_task(replace(stage, model=recipe.model), task)
    sources = {"model": identity(recipe.model)}
    for number, task in enumerate(tasks, 1):
        sources |= {f"{number}.{name}": task.hashes[name] for name in ("about", "train", "dev")}
    return tasks, sources


def _named(watch: Watch, task: str) -> Watch:
    """Return the watch, with the task in the name of each stage."""

    def named(progress: Progress) -> None:
        watch(replace(progress, stage=f"{progress.stage} on {task}"))

    return named


METHOD = Method("stilt", StiltRecipe, adapt)
