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

from dataclasses import replace
from pathlib import Path

from acclimate.core.types import Checkpoint, Progress, Watch, unwatched
from acclimate.methods import finetune
from acclimate.methods.recipes.finetune import FinetuneRecipe, check_heeded, without_idle_settings
from acclimate.methods.recipes.stilt import Intermediate, StiltRecipe  # noqa: F401  users find both here
from acclimate.models.classifier import load_finetuned
from acclimate.models.loading import identity, load_tokenizer
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.training.run import finished, write_checkpoint

STAGE = "stage-{}"  # directory of a stage, counted from 1


def stage_of(recipe: StiltRecipe, task: Prepared, *, last: bool) -> FinetuneRecipe:
    """Return the settings with which a task is fine-tuned on. last: True for the target."""
    return without_idle_settings(recipe.finetune if last else recipe.intermediate.change(recipe.finetune), task)


def adapt(recipe: StiltRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune on each task in turn; `out/checkpoint` is that of the last stage. Each stage lies in `out/stage-N`, as
    `finetune.adapt` leaves it. A stopped chain goes on where it stopped. Never opens a test set.

    Raises ValueError for fewer than two tasks, and as `finetune.adapt` does.
    """
    tasks, sources = _inputs(recipe)
    record = replace(recipe, tasks=())  # without the tasks' paths: `sources` has the hashes of their content
    if checkpoint := finished(out, record, sources):
        return checkpoint
    last: Checkpoint | None = None
    for number, task in enumerate(tasks, 1):
        stage = stage_of(recipe, task, last=number == len(tasks))
        stage = replace(stage, model=str(last.path) if last else recipe.model, task=task.path)
        followed = _named(watch, f"{task.name}, {number} of {len(tasks)}")
        last = finetune.adapt(stage, out / STAGE.format(number), watch=followed)
    assert last is not None
    return write_checkpoint(out, load_finetuned(last.path), load_tokenizer(last.path), record, sources)


def _inputs(recipe: StiltRecipe) -> tuple[list[Prepared], dict[str, str]]:
    """Return the tasks, and hashes of all that the chain reads."""
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    if len(recipe.tasks) < 2:
        raise ValueError(
            f"tasks = {[str(place) for place in recipe.tasks]}: name at least two prepared tasks, the target last. "
            "To fine-tune on one task: acclimate adapt finetune task=DIR"
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
