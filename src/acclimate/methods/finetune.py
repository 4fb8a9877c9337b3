"""Fine-tune an encoder on a labelled task: choose on dev, test once.

Devlin et al. (2019), "BERT", section 4, with BLURB's settings (Gu et al., 2021, section 6.2): a linear classifier on
the encoder, all weights trained, a rate that rises over 10% of the steps and then falls, dropout .1, the best of
several looks at dev. The loss (methods/task_loss.py) is by kind of task a mean over

    rows                of the cross entropy of the label, or of the squared error of a number
    rows times labels   of the binary cross entropy of each label, where a row may have several
    tagged words        of the cross entropy of the tag at a word's first piece (Devlin et al., section 5.3)
    ends of answers     of the cross entropy of the token at which the answer begins or ends (section 4.2)

and, with `smart`, the smoothness of Jiang et al. (2020) beside it (methods/adversarial.py).

Readings
  How often to look at dev is not stated: `looks` times, evenly spaced, the last one at the end; the earliest best wins.
  The head is drawn anew, BERT's pooler included, also if the model is a fine-tuned checkpoint: masked language models
  are saved without a pooler, and an untouched model with a trained one would have a head start. head = "kept" goes on
  with the checkpoint's head and pooler (models/classifier.py), as Nishida et al. (2021) train on SQuAD and then on
  BioASQ; labels, pooling and layers must then agree.
  A number is learnt in standard deviations of the training examples, so that the same rates suit any unit. The unit is
  folded into the last layer of the checkpoint, and into every look at dev.
  Each of several labels is judged at a probability of .5, so a row may get none.
  A sentence of tagged words that is longer than max_tokens is split into windows that overlap (tasks/rows.py), in
  training and after it: every word is learnt and predicted once. So is a context of a question (tasks/spans.py), whose
  answers are the best of all its windows; a window that does not hold the whole answer has the first token for both
  ends, as in BERT's released code. An epoch has as many rows as there are sentences or questions.
  For relations (tasks/relations.py), "mentions" and "starts" are the encodings of Gu et al., Table 12; "mentions" takes
  the largest value in every dimension. The first token stands in for a mention that max_tokens cut off, and `watch`
  gets the number of such training rows. Special tokens are new rows of the embeddings, drawn with the seed.
  A word of which the tokenizer leaves no piece (a zero-width space) is predicted to be O, and is not trained on.
  tag_layer, sequence_layer and tag_scheme are the choices of Gu et al., Tables 10 and 11, who say of the LSTM only that
  it is bidirectional: ours sees all tokens of the row, is as wide as the encoder, both directions together, and has the
  linear layer's dropout behind it. If the first token represents a text, the LSTM replaces it by the state of each
  direction after the whole row (models/task_layers.py).
  head_rate is not in the papers: a small encoder with few rows needs it (docs/methods/finetune.md).
  A CRF (models/task_layers.py) starts with transitions of 0 and learns them at tag_transitions_rate times the plan's
  rate: Adam moves a weight by about the rate in a step, too little for transitions. It is trained on rows, and predicts
  whole sentences: a window has no score for a start or end that is not the sentence's. tag_transitions = "scheme" bars
  transitions when a CRF predicts, not when it learns.
  With tag_scheme, training tags are written in that scheme, and predictions are converted to the task's scheme before
  they are scored. In IO, entities of one type that touch become one, and stay one.
Deviations
  Dev and test are scored in float32 whatever the training precision, so that the checkpoint predicts what was scored.
  In a span, padding has no part in the softmax over a row's tokens; in BERT's released code it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files, ranks
from acclimate.core.prompt import prompt_length
from acclimate.core.replay import check_may_work
from acclimate.core.types import (
    Batch,
    Checkpoint,
    Cost,
    Example,
    Label,
    Progress,
    Score,
    Split,
    Stream,
    Watch,
    label_of,
    unwatched,
)
from acclimate.methods.adversarial import SmartLoss, check_smart
from acclimate.methods.method import Method
from acclimate.methods.mlm import check_length, with_steps
from acclimate.methods.perturbation import with_noise
from acclimate.methods.task_loss import (
    Tagging,
    TaskLoss,
    allowed_transitions,
    as_given,
    as_trained,
    learnable,
    merged,
    predict,
    probabilities,
    trained_labels,
)
from acclimate.models.classifier import kind_of, labels_of, load_classifier, load_finetuned, load_with_head, register
from acclimate.models.encoder import dropout_known, load_tokenizer, longest_input
from acclimate.models.loading import identity
from acclimate.models.scale import Scale, fold, folded, scale_of
from acclimate.models.task_layers import CRF_LAYERS, Layer, Pooling, SequenceLayer, Transitions, pooling_of
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.relations import marked_spans, mention_spans
from acclimate.tasks.rows import cut_off, encoded, labelled
from acclimate.text.streams import rows_stream
from acclimate.training.checkpoint import finish, spent
from acclimate.training.loop import Step
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, device
from acclimate.training.run import finished, run, write_checkpoint

BEST = "best.safetensors"  # the best weights so far, with their predictions for dev; removed when the run ends
DEV = "dev.json"  # [[step, score], ...] of the looks at dev
PREDICTED_DEV = "predicted_dev.json"  # the predictions of the checkpoint for dev, in its order
BEGUN = "begun.json"  # {steps: the best dev score by then} of a run that a search stopped early

OF_TAGS = ("tag_layer", "tag_transitions", "tag_transitions_rate", "tag_scheme")  # settings for tagged words alone
OF_TEXTS = ("sequence_layer",)  # settings for labels of whole texts alone

# pooling -> a function that gives the places of the pooled mentions in a text
SPANS: dict[Pooling, Callable[[Example], Sequence[tuple[int, int]]] | None] = {
    "first": None,
    "mentions": mention_spans,
    "starts": marked_spans,
}


@dataclass(frozen=True)
class FinetuneRecipe:
    """Fine-tuning. Rate, batch and epochs within BLURB's search range (1e-5 to 5e-5, 16 or 32, 2 to 60)."""

    # what is fine-tuned, and on what
    model: str = ""  # checkpoint to start from: a local directory or a hub id
    task: Path = Path()  # the labelled data: a directory that tasks.prepared.prepare wrote

    # how it is trained
    epochs: float = 10.0  # passes over the training rows; 0: plan.steps sets the length; BLURB: 2 to 60
    plan: Plan = field(default_factory=lambda: Plan(batch=32, rate=3e-5, warmup=0.1))
    """Steps, batch, rate, precision; BLURB: batches of 16 or 32 at 1e-5, 3e-5 or 5e-5, 10% warm-up"""
    dropout: float = 0.1  # dropout of hidden states and before the output layer, 0 to 1; BLURB: .1
    attention_dropout: float | None = None  # dropout of attention, 0 to 1; None: as the model's configuration has it

    # which weights become the checkpoint
    looks: int = 10  # number of times that dev is scored, at least 1, evenly spaced, the last one at the end
    choose: Literal["best", "last"] = "best"
    """Which weights are kept: those of the best look at dev, or of the last step."""

    # the head
    head: Literal["fresh", "kept"] = "fresh"
    """"fresh": a new head. "kept": the head of the fine-tuned checkpoint that `model` names."""
    head_rate: float = 1.0  # learning rate of the head and pooler in multiples of plan.rate, above 0; not of a CRF
    special_tokens: tuple[str, ...] = ()  # strings that the tokenizer keeps whole, such as markers around mentions

    # the head of whole texts
    pooling: Pooling = "first"  # what represents a relation's text: its first token, or its two mentions (Table 12)
    sequence_layer: SequenceLayer = "linear"
    """Layer between the encoder and the labels of whole texts: linear or LSTM (Table 10)."""

    # the head of tagged words
    tag_layer: Layer = "linear"  # layer between the encoder and the tags of words: linear, LSTM or CRF (Table 10)
    tag_transitions: Transitions = "any"
    """Which tags a CRF may predict after each other: any, or those that the tag "scheme" allows."""
    tag_transitions_rate: float = 1.0  # learning rate of the CRF's weights in multiples of plan.rate, above 0
    tag_scheme: Tagging = "given"  # how entities are tagged in training (Table 11); predictions are scored as given

    # SMART (Jiang et al., 2020)
    smart: float = 0.0  # weight of SMART's smoothness term, lambda_s, at least 0; 0: none; the paper tries 1, 3 and 5
    smart_step: float = 1e-3  # length of a step of the search for the perturbation, eta, above 0; the paper: 1e-3
    smart_noise: float = 1e-5  # standard deviation of the noise that the search starts from, sigma; the paper: 1e-5
    smart_radius: float = 1e-5  # the most by which a number of a word's embedding is changed, epsilon; the paper: 1e-5
    smart_ascents: int = 1  # number of steps of the search, at least 1; the paper: 1

    def __post_init__(self) -> None:
        for name, least in (("looks", 1), ("epochs", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least {least}")
        check_length(self.epochs, self.plan)
        for name in ("head_rate", "tag_transitions_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: above 0")
        for name, without in (("tag_transitions", "any"), ("tag_transitions_rate", 1.0)):
            if getattr(self, name) != without and self.tag_layer not in CRF_LAYERS:
                raise ValueError(
                    f"{name} = {getattr(self, name)!r} is for a CRF, but tag_layer is '{self.tag_layer}'. Set "
                    f"tag_layer to {' or '.join(CRF_LAYERS)}, or leave {name} out"
                )
        check_smart(self)


def adapt(recipe: FinetuneRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune and write `out/checkpoint`, the dev score of each look to `out/dev.json`, and the checkpoint's
    predictions for dev to `out/predicted_dev.json`. Never opens the test set.

    The seed of a fresh head, of the order of the rows and of dropout is `recipe.plan.seed`.
    """
    task, sources = _inputs(recipe)
    if done := finished(out, recipe, sources):
        drop_best(out)
        return done
    tuning = Tuning(recipe, task, out, watch)
    tuning.train()
    tuning.choose()
    done = write_checkpoint(out, tuning.model, tuning.tokenizer, recipe, sources)
    drop_best(out)  # not before: a run killed in between goes on from a state that may lie after the best look
    finish(out)
    return done


def evaluate(recipe: FinetuneRecipe, out: Path, *, by: str = "", watch: Watch = unwatched) -> Score:
    """Fine-tune with the plan's seed, choose on dev, test once; the checkpoint stays in `out/checkpoint`.

    by  the name under which the look at the test set is recorded; "": the model and the seed
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
    model, tokenizer, labels = load_tested(checkpoint, task)
    examples = task.examples("test")
    rows = encoded(task, "test", examples, tokenizer, spans=SPANS[pooling_of(model.config)])
    texts = [example.text for example in examples]
    predicted = as_given(predict(model, rows, labels, texts=texts, watch=watch), labels, task)
    gold = task.unseal(by)
    return {
        "ids": tuple(example.id for example in examples),
        "gold": tuple(gold),
        "predicted": tuple(predicted),
        "test": task.score(gold, predicted),
    }


def load_tested(
    checkpoint: Checkpoint, task: Prepared
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, tuple[str, ...]]:
    """A fine-tuned model on this process's device, its tokenizer and its labels.

    Raises ValueError where it was fine-tuned for another kind of task or other labels.
    """
    tokenizer, model = load_tokenizer(checkpoint.path), load_finetuned(checkpoint.path)
    labels = labels_of(model)
    if kind_of(model) != task.kind or labels not in learnable(task):
        raise ValueError(
            f"{checkpoint.path} was fine-tuned for kind '{kind_of(model)}' with labels ({', '.join(labels)}),"
            f" but {task.name} is of kind '{task.kind}' with ({', '.join(task.labels)}). Fine-tune it on this task"
        )
    model.to(device())  # type: ignore[arg-type]  # transformers' own wrapper hides the signature
    return model, tokenizer, labels


class Tuning:
    """A fine-tuning under way in its directory: the model, its rows, and its looks at dev."""

    def __init__(self, recipe: FinetuneRecipe, task: Prepared, out: Path, watch: Watch) -> None:
        self.recipe, self.task, self.out, self.watch = recipe, task, out, watch
        self.tokenizer = load_tokenizer(recipe.model)
        # so that truncation with the checkpoint's tokenizer cuts where training did
        self.tokenizer.model_max_length = task.max_tokens + prompt_length(self.tokenizer)
        self.labels = trained_labels(task, recipe.tag_scheme)
        self.model = _loaded(recipe, task, self.labels, watch)
        register(self.model, self.tokenizer, recipe.special_tokens, seed=recipe.plan.seed)
        self.rows, self.scale = training_rows(task, self.tokenizer, recipe.pooling, recipe.tag_scheme)
        if self.scale is not None and recipe.head == "kept":
            fold(self.model, self.scale.back)  # the kept head's outputs are in the unit of the numbers
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
        self.looks = Looks(out, keep_best=recipe.choose == "best")

    def train(self, *, until: int | None = None) -> None:
        """Train to the end, or until that number of steps is done."""
        looks = {round(self.plan.steps * (look + 1) / self.recipe.looks) for look in range(self.recipe.looks)} - {0}

        def after(step: Step) -> dict[str, float]:
            with folded(self.model, self.scale):
                score, predicted = self.look()
                self.looks.add(step.number, score, predicted, self.model)
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
        """The loss that is minimised: L_task, with SMART L_task + lambda_s l_s."""
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
        """The batch of each step."""
        seed = self.plan.seed
        rows = rows_stream(self.rows, batch=self.plan.batch, seed=seed)
        return (lambda step: with_noise(rows(step), seed=seed, step=step)) if self.recipe.smart else rows

    def look(self) -> tuple[float, list[Label]]:
        """The dev score of the weights as they are, and their predictions."""
        learnt = predict(self.model, self.dev_rows, self.labels, texts=self.dev_texts)
        predicted = as_given(learnt, self.labels, self.task)
        return self.task.score(self.gold, predicted), predicted

    def choose(self) -> None:
        """Put the chosen weights into the model, and write their predictions for dev."""
        if self.recipe.choose == "best":
            self.looks.load_best(self.model)
        elif self.scale is not None:
            fold(self.model, self.scale)
        self.looks.write_predicted()


def _loaded(recipe: FinetuneRecipe, task: Prepared, labels: Sequence[str], watch: Watch) -> PreTrainedModel:
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
    """The training rows with their labels, tags in the scheme, numbers standardised; and the scale of the numbers."""
    train = task.examples("train")
    inputs = encoded(task, "train", train, tokenizer, spans=SPANS[pooling])
    rows = labelled(inputs, as_trained(train, scheme), task.kind, trained_labels(task, scheme))
    if task.kind != "score":
        return rows, None
    scale = scale_of(rows.rows["label"])
    numbers = scale.standardised(rows.rows["label"]).astype(np.float32)
    return replace(rows, rows={**rows.rows, "label": numbers}), scale


class Looks:
    """The looks at dev so far, and the best weights with their predictions, in files beside the run's states.

    A run that goes on from an earlier state looks again and finds the same scores; so a best that the killed run left
    from a later step is still the best of the whole run, and is kept.

    keep_best  keep the best weights; False: the last ones are chosen
    """

    def __init__(self, out: Path, *, keep_best: bool) -> None:
        self.scores_path, self.best_path, self.predicted_path = out / DEV, out / BEST, out / PREDICTED_DEV
        self.keep_best = keep_best
        self.scores: dict[int, float] = {}
        if self.scores_path.exists():
            self.scores = dict(files.read_json(self.scores_path))
        self.best: float | None = None
        self.predicted: list[Any] = []  # the predictions of the weights that would be chosen now
        if self.best_path.exists():
            with safe_open(self.best_path, framework="pt") as file:
                # one file, so that a kill never leaves weights with the predictions of others
                self.best = float(file.metadata()["score"])
                self.predicted = json.loads(file.metadata()["predicted"])

    def add(self, step: int, score: float, predicted: list[Label], model: PreTrainedModel) -> None:
        if not ranks.is_first():
            return
        if not self.keep_best:
            self.predicted = predicted
        elif self.best is None or score > self.best:
            self.best, self.predicted = score, predicted
            tensors = {name: value.detach().cpu().contiguous() for name, value in model.named_parameters()}
            about = {"score": repr(score), "step": str(step), "predicted": json.dumps(predicted, allow_nan=False)}
            files.write_bytes(self.best_path, save(tensors, metadata=about))
        self.scores[step] = score
        files.write_json(self.scores_path, sorted(self.scores.items()))

    @torch.no_grad()
    def load_best(self, model: PreTrainedModel) -> None:
        ranks.agree(None)
        with safe_open(self.best_path, framework="pt") as file:
            for name, parameter in model.named_parameters():
                parameter.copy_(file.get_tensor(name))

    def write_predicted(self) -> None:
        """Write the chosen weights' predictions for dev."""
        if ranks.is_first():
            files.write_json(self.predicted_path, self.predicted)


def drop_best(out: Path) -> None:
    if ranks.is_first():
        (out / BEST).unlink(missing_ok=True)


def dev_score(out: Path, choose: str) -> float:
    """The dev score of the checkpoint that was chosen."""
    scores: list[float] = [score for _, score in files.read_json(out / DEV)]
    return max(scores) if choose == "best" else scores[-1]


def predicted_dev(out: Path) -> list[Label]:
    """The predictions of the checkpoint for dev, in its order."""
    return [label_of(label) for label in files.read_json(out / PREDICTED_DEV)]


def begin(recipe: FinetuneRecipe, out: Path, share: float, *, watch: Watch = unwatched) -> float:
    """Train the first `share` of the steps in `out`, stop there and return the best dev score so far.

    `adapt` goes on in the same directory and ends as if it had never stopped, so no step is done twice; `give_up`
    deletes what it needs for that. Where the run has gone past the share already, the score is that of the looks up to
    there.
    """
    task, sources = _inputs(recipe)
    scores: dict[str, float] = ranks.agree(files.read_json(out / BEGUN) if (out / BEGUN).exists() else {})
    steps = steps_of(recipe, task, share)
    if str(steps) in scores:
        return scores[str(steps)]
    if finished(out, recipe, sources):
        looks: list[tuple[int, float]] = files.read_json(out / DEV)
        return max([score for step, score in looks if step <= steps] or [looks[0][1]])
    check_may_work(f"{out.name}, its first {steps:,} steps")
    tuning = Tuning(recipe, task, out, watch)
    tuning.train(until=steps)
    with folded(tuning.model, tuning.scale):
        now, _ = tuning.look()
    before = [*tuning.looks.scores.items(), *((int(step), score) for step, score in scores.items())]
    best = ranks.agree(max([now, *(score for step, score in before if step <= steps)]))
    if ranks.is_first():
        files.write_json(out / BEGUN, {**scores, str(steps): best})
    ranks.wait()
    return best


def give_up(out: Path) -> None:
    """Delete the states that a run begun by `begin` would go on from; its log and its scores stay."""
    drop_best(out)
    finish(out)


def steps_of(recipe: FinetuneRecipe, task: Prepared, share: float = 1.0) -> int:
    """The number of steps in a share of the run. Raises ValueError for a share that is not above 0 and at most 1."""
    if not 0 < share <= 1:
        raise ValueError(f"share = {share} is out of range: above 0, and at most 1")
    return max(1, round(share * with_steps(recipe.plan, recipe.epochs, task.sizes["train"]).steps))


def _inputs(recipe: FinetuneRecipe) -> tuple[Prepared, dict[str, str]]:
    """The task, and hashes of all that the run reads."""
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    task = open_prepared(recipe.task)
    check_task(recipe, task)
    return task, {name: task.hashes[name] for name in ("about", "train", "dev")} | {"model": identity(recipe.model)}


def check_task(recipe: FinetuneRecipe, task: Prepared) -> None:
    """Raises ValueError where the task's texts are longer than the model can take, or its tags are of no scheme that a
    CRF's transitions could follow; the model's config and the task's labels suffice to say so.
    """
    longest = longest_input(recipe.model)
    if longest is not None and task.max_tokens > longest:
        raise ValueError(
            f"{task.name} has examples of up to {task.max_tokens} tokens, but {recipe.model} reads at most {longest}. "
            f"Prepare it with max_tokens={longest}"
        )
    if recipe.tag_transitions == "scheme":
        allowed_transitions(trained_labels(task, recipe.tag_scheme))


def test_ensemble(checkpoints: Sequence[Checkpoint], task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """As `test`, and the score on dev as `dev`, for the mean label probabilities of several fine-tuned models.

    Ke et al. (2022), DGA, Table 3, the row "Ensemble (LM+MLM)": end-task fine-tuning of the model as it is and of the
    one that MLM adapted, "concatenating their outputs and taking the average". We fine-tune the models separately, and
    average the probabilities of the labels.

    Raises ValueError where a checkpoint was fine-tuned for another task, and for a task that has not one label a row.
    """
    if task.kind != "sequence":
        raise ValueError(f"an ensemble is for tasks of one label a row, but {task.name} is of kind '{task.kind}'")
    splits: tuple[Split, ...] = ("dev", "test")
    means: dict[Split, np.ndarray] = {}
    for checkpoint in checkpoints:
        model, tokenizer, labels = load_tested(checkpoint, task)
        for split in splits:
            spans = SPANS[pooling_of(model.config)]
            rows = encoded(task, split, task.examples(split), tokenizer, spans=spans)
            found_BC = probabilities(model, rows, labels, watch=watch)[:, [labels.index(name) for name in task.labels]]
            means[split] = means.get(split, 0.0) + found_BC / len(checkpoints)
    predicted: dict[Split, list[Label]] = {
        split: [task.labels[int(code)] for code in means[split].argmax(-1)] for split in splits
    }
    dev = task.score([example.label for example in task.examples("dev")], predicted["dev"])
    gold = task.unseal(by)
    return {
        "ids": tuple(example.id for example in task.examples("test")),
        "gold": tuple(gold),
        "predicted": tuple(predicted["test"]),
        "test": task.score(gold, predicted["test"]),
        "dev": dev,
    }


def fitting(recipe: FinetuneRecipe, task: Prepared) -> FinetuneRecipe:
    """The recipe with the settings that have no effect on the task at their defaults; for tasks that share a recipe."""
    default = FinetuneRecipe()
    return replace(recipe, **{name: getattr(default, name) for name in _idle(task)})


def check_heeded(recipe: FinetuneRecipe, tasks: Sequence[Prepared]) -> None:
    """Raises ValueError for a setting that was changed but has no effect on any of the tasks."""
    default = FinetuneRecipe()
    for name in sorted(set.intersection(*(_idle(task) for task in tasks))):
        if (value := getattr(recipe, name)) != getattr(default, name):
            raise ValueError(
                f"finetune.{name} = {value!r} means nothing on {', '.join(task.name for task in tasks)}. Leave it out"
            )


def mentions_stand(task: Prepared) -> bool:
    """True if the texts are of relations and have the places of their two mentions."""
    return task.kind == "sequence" and all(len(example.spans) == 2 for example in task.examples("train"))


def _idle(task: Prepared) -> set[str]:
    """The names of the settings that have no effect on the task."""
    idle = set() if mentions_stand(task) else {"pooling"}
    idle |= {*OF_TAGS} if task.kind != "tokens" else set()
    return idle | ({*OF_TEXTS} if task.kind in ("tokens", "span") else set())


METHOD = Method("finetune", FinetuneRecipe, adapt)
