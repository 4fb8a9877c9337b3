"""A fine-tuning at work: its model, its rows, its looks at dev. methods/finetune.py says what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core.prompt import prompt_length
from acclimate.core.types import Batch, Example, Label, Progress, Stream, Watch
from acclimate.methods.looks import Looks
from acclimate.methods.mlm import with_steps
from acclimate.methods.perturbation import with_noise
from acclimate.methods.smart_loss import SmartLoss
from acclimate.methods.tag_schemes import Tagging, as_given, as_trained, merged, trained_labels
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.classifier import load_classifier, register
from acclimate.models.encoder import dropout_known, load_tokenizer
from acclimate.models.kept_head import load_with_head
from acclimate.models.pooling import Pooling
from acclimate.models.scale import Scale, fold, folded, scale_of
from acclimate.tasks.encoded import encoded
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.relation_rows import cut_off
from acclimate.tasks.relations import marked_spans, mention_spans
from acclimate.tasks.rows import labelled
from acclimate.text.streams import rows_stream
from acclimate.training.loop import Step
from acclimate.training.objective import Objective
from acclimate.training.run import run

if TYPE_CHECKING:
    from acclimate.methods.finetune import Recipe

# where the mentions that are read stand in a text
SPANS: dict[Pooling, Callable[[Example], Sequence[tuple[int, int]]] | None] = {
    "first": None,
    "mentions": mention_spans,
    "starts": marked_spans,
}


class Tuning:
    """A fine-tuning in its directory: the model in training, and its looks at dev."""

    def __init__(self, recipe: Recipe, task: Prepared, out: Path, watch: Watch) -> None:
        self.recipe, self.task, self.out, self.watch = recipe, task, out, watch
        self.tokenizer = load_tokenizer(recipe.model)
        # whoever truncates with the checkpoint's tokenizer cuts as we did
        self.tokenizer.model_max_length = task.max_tokens + prompt_length(self.tokenizer)
        self.labels = trained_labels(task, recipe.tag_scheme)
        self.model = _loaded(recipe, task, self.labels, watch)
        register(self.model, self.tokenizer, recipe.special_tokens, seed=recipe.plan.seed)
        self.rows, self.scale = training_rows(task, self.tokenizer, recipe.pooling, recipe.tag_scheme)
        if self.scale is not None and recipe.head == "kept":
            fold(self.model, self.scale.back)  # its outputs were in own units
        if recipe.pooling != "first" and (lost := cut_off(self.rows)):
            note = f"of {lost:,} of {len(self.rows):,} training texts a mention stands beyond {task.max_tokens} tokens"
            watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        if lost := merged(task, recipe.tag_scheme):
            note = f"in the scheme {recipe.tag_scheme}, {lost:,} training entities become one with the entity before"
            watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        dev = task.examples("dev")
        self.dev_rows = encoded(task, "dev", dev, self.tokenizer, spans=SPANS[recipe.pooling])
        self.gold, self.dev_texts = [example.label for example in dev], [example.text for example in dev]
        self.plan = with_steps(recipe.plan, recipe.epochs, task.sizes["train"])
        out.mkdir(parents=True, exist_ok=True)
        self.seen = Looks(out, keep_best=recipe.choose == "best")

    def train(self, *, until: int | None = None) -> None:
        """To the end, or until so many steps are done."""
        looks = {round(self.plan.steps * (look + 1) / self.recipe.looks) for look in range(self.recipe.looks)} - {0}

        def after(step: Step) -> dict[str, float]:
            with folded(self.model, self.scale):
                score, predicted = self.look()
                self.seen.add(step.number, score, predicted, self.model)
            return {"dev": score}

        run(
            self.objective(),
            self.stream(),
            self.plan,
            self.out,
            stage="fine-tune",
            watch=self.watch,
            after=after,
            looks=looks,
            until=until,
        )

    def objective(self) -> Objective:
        """What is minimised."""
        recipe = self.recipe
        if not recipe.smart:
            return TaskLoss(self.model, head_rate=recipe.head_rate)
        return SmartLoss(
            self.model,
            weight=recipe.smart,
            step=recipe.smart_step,
            noise=recipe.smart_noise,
            radius=recipe.smart_radius,
            ascents=recipe.smart_ascents,
            head_rate=recipe.head_rate,
        )

    def stream(self) -> Stream:
        """The rows of each step."""
        seed = self.plan.seed
        rows = rows_stream(self.rows, batch=self.plan.batch, seed=seed)
        return (lambda step: with_noise(rows(step), seed=seed, step=step)) if self.recipe.smart else rows

    def look(self) -> tuple[float, list[Label]]:
        """The dev score of the weights as they are, and what they predict."""
        said = predict(self.model, self.dev_rows, self.labels, texts=self.dev_texts)
        predicted = as_given(said, self.labels, self.task)
        return self.task.score(self.gold, predicted), predicted

    def choose(self) -> None:
        """Put the weights that are to be handed over into the model, and write what they predict for dev."""
        if self.recipe.choose == "best":
            self.seen.load_best(self.model)
        elif self.scale is not None:
            fold(self.model, self.scale)
        self.seen.hand_over()


def _loaded(recipe: Recipe, task: Prepared, labels: Sequence[str], watch: Watch) -> PreTrainedModel:
    known = dropout_known(recipe.model)
    if not known:
        watch(Progress("fine-tune", 0, 0, "steps", {"note": "a family whose dropout cannot be set: left as it is"}))
    load = partial(load_classifier, seed=recipe.plan.seed) if recipe.head == "fresh" else load_with_head
    return load(
        recipe.model,
        labels,
        kind=task.kind,
        dropout=recipe.dropout if known else None,
        hidden_dropout=recipe.dropout if known else None,
        attention_dropout=recipe.attention_dropout,
        pooling=recipe.pooling,
        sequence_layer=recipe.sequence_layer,
        layer=recipe.tag_layer,
        transitions=recipe.tag_transitions,
        transitions_rate=recipe.tag_transitions_rate,
    )


def training_rows(
    task: Prepared,
    tokenizer: PreTrainedTokenizerBase,
    pooling: Pooling = "first",
    scheme: Tagging = "given",
) -> tuple[Batch, Scale | None]:
    """The training rows with their labels; numbers standardised, and the scale that they had; tags in a scheme."""
    train = task.examples("train")
    read = encoded(task, "train", train, tokenizer, spans=SPANS[pooling])
    rows = labelled(read, as_trained(train, scheme), task.kind, trained_labels(task, scheme))
    if task.kind != "score":
        return rows, None
    scale = scale_of(rows.rows["label"])
    numbers = scale.standardised(rows.rows["label"]).astype(np.float32)
    return replace(rows, rows={**rows.rows, "label": numbers}), scale
