"""Fine-tune an encoder on a labelled task: choose on dev, test once.

Devlin et al. (2019), section 4; BLURB's settings (Gu et al., 2021, section 6.2): a linear classifier on the encoder,
all weights trained, slanted triangular rate with 10% warm-up, dropout .1, the best of several looks at dev. The loss
(methods/task_loss.py) is the mean over the rows of the cross entropy of the label; of the binary cross entropy of each
label where a row may have several; or of the squared error of a number.

Readings
  How often to look at dev is not stated: `looks` times, evenly spaced, the last one at the end; the earliest best wins.
  A number is learnt in standard deviations of the training examples, so that the same rates suit any unit. The unit is
  folded into the last layer of the checkpoint, and into every look at dev.
Deviations
  Dev and test are scored in float32 whatever the training precision, so that the checkpoint, loaded by anybody,
  predicts what was scored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import ranks
from acclimate.core.types import Batch, Checkpoint, Cost, Progress, Score, Watch, unwatched
from acclimate.methods.looks import Looks, dev_score, drop_best
from acclimate.methods.mlm import with_steps
from acclimate.methods.task_loss import TaskLoss, predict
from acclimate.models.classifier import (
    Scale,
    fold,
    folded,
    kind_of,
    labels_of,
    load_classifier,
    load_finetuned,
    scale_of,
)
from acclimate.models.encoder import dropout_known, load_tokenizer
from acclimate.models.loading import identity
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import encode, labelled
from acclimate.text.streams import rows_stream
from acclimate.training.checkpoint import finish, spent
from acclimate.training.loop import Step
from acclimate.training.plan import Plan, device
from acclimate.training.run import finished, run, write_checkpoint


@dataclass(frozen=True)
class Recipe:
    """Fine-tuning. Rate, batch and epochs within BLURB's search range (1e-5 to 5e-5, 16 or 32, 2 to 60)."""

    model: str = ""  # a local directory or a hub id
    task: Path = Path()  # a directory that tasks.prepared.prepare wrote
    choose: Literal["best", "last"] = "best"  # the best look at dev, or the last step
    looks: int = 10
    dropout: float = 0.1  # of hidden states and before the output layer
    attention_dropout: float | None = None
    epochs: float = 10.0  # 0: plan.steps counts
    plan: Plan = field(default_factory=lambda: Plan(batch=32, rate=3e-5, warmup=0.1))

    def __post_init__(self) -> None:
        for name, least in (("looks", 1), ("epochs", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least {least}")


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune and write `out/checkpoint`, the dev score of each look to `out/dev.json`, and what the checkpoint
    predicts for dev to `out/predicted_dev.json`. Never opens the test set.

    The seed of the new head, of the order of the rows and of dropout is `recipe.plan.seed`.
    """
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    task = open_prepared(recipe.task)
    sources = {name: task.hashes[name] for name in ("about", "train", "dev")} | {"model": identity(recipe.model)}
    if done := finished(out, recipe, sources):
        drop_best(out)
        return done
    tokenizer = load_tokenizer(recipe.model)
    tokenizer.model_max_length = task.max_tokens  # whoever truncates with the checkpoint's tokenizer cuts as we did
    model = _fresh(recipe, task, watch)
    rows, scale = _training_rows(task, tokenizer)
    dev = task.examples("dev")
    dev_rows, gold = encode(dev, tokenizer, task.max_tokens), [example.label for example in dev]
    plan = with_steps(recipe.plan, recipe.epochs, len(rows))
    looks = {round(plan.steps * (look + 1) / recipe.looks) for look in range(recipe.looks)} - {0}
    out.mkdir(parents=True, exist_ok=True)
    seen = Looks(out, keep_best=recipe.choose == "best")

    def look(step: Step) -> dict[str, float]:
        if step.number not in looks:
            return {}
        with folded(model, scale):
            predicted = predict(model, dev_rows, task.labels)
            score = task.score(gold, predicted)
            seen.add(step.number, score, predicted, model)
        return {"dev": score}

    stream = rows_stream(rows, batch=plan.batch, seed=plan.seed)
    run(TaskLoss(model), stream, plan, out, stage="fine-tune", watch=watch, after=look)
    if recipe.choose == "best":
        seen.load_best(model)
    elif scale is not None:
        fold(model, scale)
    seen.hand_over()
    done = write_checkpoint(out, model, tokenizer, recipe, sources)
    drop_best(out)  # not before: a run killed in between goes on from a state that may lie after the best look
    finish(out)
    return done


def _fresh(recipe: Recipe, task: Prepared, watch: Watch) -> PreTrainedModel:
    known = dropout_known(recipe.model)
    if not known:
        watch(Progress("fine-tune", 0, 0, "steps", {"note": "a family whose dropout cannot be set: left as it is"}))
    return load_classifier(
        recipe.model,
        task.labels,
        kind=task.kind,
        seed=recipe.plan.seed,
        dropout=recipe.dropout if known else None,
        hidden_dropout=recipe.dropout if known else None,
        attention_dropout=recipe.attention_dropout,
    )


def _training_rows(task: Prepared, tokenizer: PreTrainedTokenizerBase) -> tuple[Batch, Scale | None]:
    """The training rows with their labels; numbers standardised, and the scale that they had."""
    train = task.examples("train")
    rows = labelled(encode(train, tokenizer, task.max_tokens), train, task.kind, task.labels)
    if task.kind != "score":
        return rows, None
    scale = scale_of(rows.rows["label"])
    return replace(rows, rows={"label": scale.standardised(rows.rows["label"]).astype(np.float32)}), scale


def evaluate(recipe: Recipe, out: Path, *, by: str = "", watch: Watch = unwatched) -> Score:
    """Fine-tune with the plan's seed, choose on dev, test once; the checkpoint stays in `out/checkpoint`.

    by: what the look at the test set is written down as; "": the model and the seed.
    """
    checkpoint, task = adapt(recipe, out, watch=watch), open_prepared(recipe.task)
    look = by or f"evaluate {recipe.model}, seed {recipe.plan.seed}"
    tested = ranks.agree(test(checkpoint, task, by=look, watch=watch) if ranks.is_first() else {})
    return Score(
        contestant=recipe.model,
        task=task.name,
        metric=task.metric.name,
        seed=recipe.plan.seed,
        dev=dev_score(out, recipe.choose),
        adapting=Cost(),
        finetuning=spent(out),
        **tested,
    )


def test(checkpoint: Checkpoint, task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`: ids, gold and predicted labels, and the
    score as `test`.

    Raises ValueError where the checkpoint was fine-tuned for another kind of task or other labels.
    """
    tokenizer, model = load_tokenizer(checkpoint.path), load_finetuned(checkpoint.path)
    if (kind_of(model), labels_of(model)) != (task.kind, task.labels):
        raise ValueError(
            f"{checkpoint.path} was fine-tuned for kind '{kind_of(model)}' with labels ({', '.join(labels_of(model))}),"
            f" but {task.name} is of kind '{task.kind}' with ({', '.join(task.labels)}). Fine-tune it on this task"
        )
    examples = task.examples("test")
    rows = encode(examples, tokenizer, task.max_tokens)
    model.to(device())  # type: ignore[arg-type]  # transformers' own wrapper hides the signature
    predicted = predict(model, rows, task.labels, watch=watch)
    gold = task.unseal(by)
    return {
        "ids": tuple(example.id for example in examples),
        "gold": tuple(gold),
        "predicted": tuple(predicted),
        "test": task.score(gold, predicted),
    }
