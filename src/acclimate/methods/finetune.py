"""Fine-tune an encoder on a labelled task: choose on dev, test once.

Devlin et al. (2019), section 4; BLURB's settings (Gu et al., 2021, section 6.2): a linear classifier on the encoder,
all weights trained, slanted triangular rate with 10% warm-up, dropout .1, the best of several looks at dev. The loss is
the mean cross entropy of the rows.

Readings
  How often to look at dev is not stated: `looks` times, evenly spaced, the last one at the end; the earliest best wins.
Deviations
  Dev and test are scored in float32 whatever the training precision, so that the checkpoint, loaded by anybody,
  predicts what was scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from transformers import PreTrainedModel

from acclimate.core import files, ranks
from acclimate.core.types import Batch, Checkpoint, Cost, Progress, Score, Watch, counted, unwatched
from acclimate.methods.mlm import with_steps
from acclimate.models.encoder import dropout_known, load_classifier, load_finetuned, load_tokenizer
from acclimate.models.flops import training_flops
from acclimate.models.heads import inputs_of
from acclimate.models.loading import identity
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import encode
from acclimate.text.streams import rows_stream
from acclimate.training.checkpoint import finish, spent
from acclimate.training.loop import Step
from acclimate.training.objective import Objective
from acclimate.training.pieces import Piece, cut, pad
from acclimate.training.plan import Plan, device, piece_tokens
from acclimate.training.run import finished, run, write_checkpoint

BEST = "best.safetensors"
DEV = "dev.json"


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


class TaskLoss(Objective):
    """Cross entropy of the label, averaged over the rows of the step."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.weights = {"task": 1.0}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"task": len(batch)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        logits_BC = self.model(**inputs_of(self.model, piece)).logits
        return {"task": nn.functional.cross_entropy(logits_BC.float(), piece["label"], reduction="sum")}

    def flops(self, batch: Batch) -> float:
        return training_flops(self.model, batch.lengths, predicted=len(batch))


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune and write `out/checkpoint`, and the dev score of each look to `out/dev.json`. Never opens the test set.

    The seed of the new head, of the order of the rows and of dropout is `recipe.plan.seed`.
    """
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    task = open_prepared(recipe.task)
    sources = {name: task.hashes[name] for name in ("about", "train", "dev")} | {"model": identity(recipe.model)}
    if done := finished(out, recipe, sources):
        _drop_best(out)
        return done
    tokenizer = load_tokenizer(recipe.model)
    tokenizer.model_max_length = task.max_tokens  # whoever truncates with the checkpoint's tokenizer cuts as we did
    known = dropout_known(recipe.model)
    if not known:
        watch(Progress("fine-tune", 0, 0, "steps", {"note": "a family whose dropout cannot be set: left as it is"}))
    model = load_classifier(
        recipe.model,
        task.labels,
        seed=recipe.plan.seed,
        dropout=recipe.dropout if known else None,
        hidden_dropout=recipe.dropout if known else None,
        attention_dropout=recipe.attention_dropout,
    )
    rows = encode(task.examples("train"), tokenizer, task.labels, task.max_tokens)
    dev = encode(task.examples("dev"), tokenizer, task.labels, task.max_tokens)
    gold = [task.labels[code] for code in dev.rows["label"]]
    plan = with_steps(recipe.plan, recipe.epochs, len(rows))
    looks = {round(plan.steps * (look + 1) / recipe.looks) for look in range(recipe.looks)} - {0}
    out.mkdir(parents=True, exist_ok=True)
    seen = _Looks(out, keep_best=recipe.choose == "best")

    def look(step: Step) -> dict[str, float]:
        if step.number not in looks:
            return {}
        score = task.score(gold, predict(model, dev, task.labels))
        seen.add(step.number, score, model)
        return {"dev": score}

    objective = TaskLoss(model)
    stream = rows_stream(rows, batch=plan.batch, seed=plan.seed)
    run(objective, stream, plan, out, stage="fine-tune", watch=watch, after=look)
    seen.load_best(model)
    done = write_checkpoint(out, model, tokenizer, recipe, sources)
    _drop_best(out)  # not before: a run killed in between goes on from a state that may lie after the best look
    finish(out)
    return done


def evaluate(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Score:
    """Fine-tune with the plan's seed, choose on dev, test once; the checkpoint stays in `out/checkpoint`."""
    checkpoint, task = adapt(recipe, out, watch=watch), open_prepared(recipe.task)
    tested = test(checkpoint, task, watch=watch)
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


def test(checkpoint: Checkpoint, task: Prepared, *, watch: Watch) -> dict[str, Any]:
    """Open the test set: its ids, gold and predicted labels, and the score as `test`."""
    tokenizer, model = load_tokenizer(checkpoint.path), load_finetuned(checkpoint.path)
    examples = task.examples("test")
    rows = encode(examples, tokenizer, task.labels, task.max_tokens)
    model.to(device())  # type: ignore[arg-type]  # transformers' own wrapper hides the signature
    predicted = predict(model, rows, task.labels, watch=watch)
    gold = [example.label for example in examples]
    return {
        "ids": tuple(example.id for example in examples),
        "gold": tuple(gold),
        "predicted": tuple(predicted),
        "test": task.score(gold, predicted),
    }


@torch.no_grad()
def predict(model: PreTrainedModel, rows: Batch, labels: Sequence[str], *, watch: Watch = unwatched) -> list[str]:
    """The most probable label of each row, in float32."""
    where = model.device
    codes = np.zeros(len(rows), dtype=np.int64)
    training = model.training
    model.train(False)
    pieces = cut(rows.lengths, piece_tokens(Plan(), where))
    for piece in counted(pieces, watch, "test", total=len(pieces), unit="pieces", every=1):
        logits_BC = model(**inputs_of(model, pad(rows, piece, where))).logits
        codes[piece.rows_R] = logits_BC.argmax(-1).cpu().numpy()
    model.train(training)
    return [labels[int(code)] for code in codes]


def dev_score(out: Path, choose: str) -> float:
    """The dev score of the checkpoint that was handed over."""
    scores: list[float] = [score for _, score in files.read_json(out / DEV)]
    return max(scores) if choose == "best" else scores[-1]


class _Looks:
    """The looks at dev and the best weights so far, in files of their own.

    A run that goes on from an earlier state looks again and finds the same scores; so a best that the killed run left
    from a later step is still the best of the whole run, and is kept.
    """

    def __init__(self, out: Path, *, keep_best: bool) -> None:
        self.scores_path, self.best_path, self.keep_best = out / DEV, out / BEST, keep_best
        self.scores: dict[int, float] = {}
        if self.scores_path.exists():
            self.scores = dict(files.read_json(self.scores_path))
        self.best = -1.0
        if self.best_path.exists():
            with safe_open(self.best_path, framework="pt") as file:
                self.best = float(file.metadata()["score"])

    def add(self, step: int, score: float, model: PreTrainedModel) -> None:
        if not ranks.is_first():
            return
        if self.keep_best and score > self.best:
            self.best = score
            tensors = {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}
            files.write_bytes(self.best_path, save(tensors, metadata={"score": repr(score), "step": str(step)}))
        self.scores[step] = score
        files.write_json(self.scores_path, sorted(self.scores.items()))

    @torch.no_grad()
    def load_best(self, model: PreTrainedModel) -> None:
        ranks.agree(None)
        if self.keep_best:
            with safe_open(self.best_path, framework="pt") as file:
                for name, parameter in model.named_parameters():
                    parameter.copy_(file.get_tensor(name))


def _drop_best(out: Path) -> None:
    if ranks.is_first():
        (out / BEST).unlink(missing_ok=True)
