"""Fine-tune an encoder on a labelled task: choose on dev, test once.

Devlin et al. (2019), "BERT", section 4: a linear classifier on the encoder, and a rate that rises over 10% of the steps
and then falls. The preset "papers" has BLURB's settings (Gu et al., 2021, section 6.2): all weights trained, dropout
.1, the best of several looks at dev. The default is the preset "robust" (`FinetuneRecipe`). The loss
(methods/task_loss.py) is by kind of task a mean over

    rows                of the cross entropy of the label, or of the squared error of a number
    rows times labels   of the binary cross entropy of each label, where a row may have several
    tagged words        of the cross entropy of the tag at a word's first piece (Devlin et al., section 5.3)
    ends of answers     of the cross entropy of the token at which the answer begins or ends (section 4.2)

and, with `smart`, the smoothness of Jiang et al. (2020) beside it (methods/adversarial.py).

Readings
  How often to look at dev is not stated: `looks` times, evenly spaced, the last one at the end; the earliest best wins.
  Where dev is larger than train by a third, "robust" looks at a sample of it (`dev_sample`), so that looks cost less.
  With "papers" the head is drawn anew, BERT's pooler included, also if the model is a fine-tuned checkpoint ("robust"
  begins with a probe and keeps a trained pooler): masked language models are saved without a pooler, and an untouched
  model with a trained one would have a head start. head = "kept" goes on
  with the checkpoint's head and pooler (models/classifier.py), as Nishida et al. (2021) train on SQuAD and then on
  BioASQ; labels, pooling and layers must then agree.
  A number is learnt in standard deviations of the training examples, so that the same rates suit any unit. The unit is
  folded into the last layer of the checkpoint, and into every look at dev.
  The most probable class is predicted, and each of several labels above a probability of .5, so a row may get none.
  With threshold = "dev" one number moves this for all classes to where dev scores best (tasks/thresholds.py): every
  look is scored so, and patience and the best look go by these scores: the score on dev is then the best over looks and
  thresholds. The checkpoint has the shift in its biases (models/scale.py), so that transformers predicts the same.
  A sentence of tagged words that is longer than max_tokens is split into windows that overlap (tasks/rows.py), in
  training and after it: every word is learnt and predicted once. So is a context of a question (tasks/spans.py), whose
  answers are the best of all its windows; a window that does not hold the whole answer has the first token for both
  ends, as in BERT's released code. An epoch has as many rows as there are sentences or questions.
  For relations (tasks/relations.py), "mentions" and "starts" are the encodings of Gu et al., Table 12; "mentions" takes
  the largest value in every dimension. Section 5.2 also names the average over a mention's tokens, "mentions-mean"; the
  choice of pooling="auto" leaves it out. The first token stands in for a mention that max_tokens cut off, and `watch`
  gets the number of such training rows. Special tokens are new rows of the embeddings, drawn with the seed.
  A word of which the tokenizer leaves no piece (a zero-width space) is predicted to be O, and is not trained on.
  sequence_layer = "mlp" is the "more sophisticated classifier (e.g., MLP)" of Gu et al., section 5.2, whose layers,
  width and activation they do not state: ours has one dense layer as wide as the encoder, with tanh, before dropout and
  the linear layer, as BERT's pooler has.
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
  The chosen weights are scored on dev and test in float32 whatever the training precision, so that the checkpoint
  predicts what was scored. The looks at dev, which only choose, are in the precision of training: half the time of a
  fine-tuning on few rows went to looks in float32.
  In a span, padding has no part in the softmax over a row's tokens; in BERT's released code it has.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from scipy.special import entr

from acclimate.core import files, ranks, settings
from acclimate.core.figures import points
from acclimate.core.prompt import prompt_length
from acclimate.core.types import (
    DEV_SCORES,
    NOT_PREDICTED,
    TAGS,
    Batch,
    Checkpoint,
    Cost,
    Example,
    Label,
    NotFiniteError,
    Progress,
    Score,
    Split,
    Stream,
    Watch,
    label_of,
    unwatched,
)
from acclimate.methods import probe
from acclimate.methods.adversarial import SmartLoss
from acclimate.methods.baselines import constant_on_dev
from acclimate.methods.perturbation import with_noise
from acclimate.methods.recipes.finetune import (
    PAPERS,  # noqa: F401  users find it here
    FinetuneRecipe,
    Tagging,
    dev_sample_of,
    plan_of,
    without_reading,
)
from acclimate.methods.task_loss import (
    TaskLoss,
    allowed_transitions,
    convert_tags,
    learnable,
    merged,
    outputs_and_loss,
    outputs_of,
    predict,
    predictions_of,
    probabilities,
    restore_labels,
    trained_labels,
)
from acclimate.models.classifier import (
    classifier_kind,
    labels_of,
    load_classifier,
    load_finetuned,
    load_with_head,
    register,
)
from acclimate.models.configuration import configuration_of, dropout_known, longest_input
from acclimate.models.formats import OF_MENTIONS, Pooling
from acclimate.models.loading import identity, load_tokenizer
from acclimate.models.lora import LoraAdapters, require_peft
from acclimate.models.scale import Scale, fold, folded, output_layer, scale_of, shift
from acclimate.models.task_layers import pooling_of
from acclimate.tasks.chance import exceeds_chance, guesses
from acclimate.tasks.prepared import Prepared, open_prepared, with_dev_rows
from acclimate.tasks.rows import SPANS, WORD, cut_off, emptied, encode_rows, encoded, read_at_places, with_labels
from acclimate.tasks.task import PROBED
from acclimate.tasks.thresholds import Decision, decide, has_threshold
from acclimate.text.streams import rows_stream
from acclimate.training.checkpoint import AGAIN, finish, read_log, spent
from acclimate.training.kernels import arithmetic
from acclimate.training.loop import Step
from acclimate.training.objective import Objective
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan, Precision, device
from acclimate.training.run import finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# the weights of a look, by its step and 16 digits of the file's hash; while it runs
BEST = "best-{}-{}.safetensors"
# steps of the looks that were chosen, what their weights score on dev in float32, and the shift of the outputs by which
# dev moved rare classes; null if it moved none
CHOSEN = "chosen.json"
DEV = DEV_SCORES  # [[step, score], ...] of the looks at dev
LOOKED = "tried-{}.json"  # all predictions among which a look chose, by its step; while it runs
DEV_LOSS = "dev_loss.json"  # [[step, loss], ...] of the same looks
PREDICTED_DEV = "predicted_dev.json"  # the predictions of the checkpoint for dev, in its order
LEARNT = "learnt.json"  # {learnt: whether the run learnt anything, why: if not, the reason, again: whether it had a
# second attempt, and if so, attempt_rate: its rate in multiples of the first one's, and counts: "" if that first
# attempt counts all the same}
LAST = 10  # steps at least whose loss says whether anything was learnt
RETRY_RATE, RETRY_STEPS = 3.0, 2  # of a second attempt: multiple, or divisor, of the rate, and multiple of the steps
RISE = 0.1  # of the loss at the start, by which a tenth of the steps lies above it where the rate was too high
ERRORS = 3.0  # standard errors that such a rise takes at least
STARTING = 256  # training rows whose loss is the loss at the start


# what is done with texts and words of which the tokenizer leaves nothing
EMPTIED = {"texts": "a model reads them as empty", "words": "they are not trained on, and predicted as O"}
NO_PROBE_RATE = 10.0  # multiples of the rate at which a drawn head learns where head = "probe" finds no probe
DEEP = 12  # layers from which on layer_decay = 0 decays
DECAY = 0.9
PROBE_ROUNDING = 1e-3  # of the largest output
STARTS_KEPT = 16
RARE_SHOWN = 5


def adapt(recipe: FinetuneRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune and write `out/checkpoint`, the dev score of each look to `out/dev.json`, and the checkpoint's
    predictions for dev to `out/predicted_dev.json`. Never opens the test set.

    The seed of a fresh head, of the order of the rows and of dropout is `recipe.plan.seed`. `out/learnt.json` says
    whether the run learnt anything (`Tuning.nothing_learnt`). With `retry`, a run that learnt nothing is repeated in
    `out/again` with RETRY_STEPS times the steps: at the rate divided by RETRY_RATE if its loss was not finite or rose
    (`Tuning.rose`), else at RETRY_RATE times the rate. The second attempt counts, unless its loss is not finite.

    Raises NotFiniteError where no attempt has a finite loss, and without `retry` where the first one has none.
    """
    task, sources = _inputs(recipe)
    if checkpoint := finished(out, recipe, sources):
        _clear(out)
        return checkpoint
    tuning = Tuning(recipe, task, out, watch)
    learnt = _finished(tuning, raises=not recipe.retry)
    about: dict[str, Any] = {"learnt": bool(learnt), "again": False}
    if not learnt and recipe.retry:
        rate = RETRY_RATE
        second = Tuning(once_more(recipe, rate), task, out / AGAIN, unwatched)  # what it would say was said before
        if learnt is None or second.rose([line["loss.task"] for line in read_log(out)]):
            rate = 1 / RETRY_RATE
            second = Tuning(once_more(recipe, rate), task, out / AGAIN, unwatched)
        second.watch = watch
        how = "a third of the rate, as its loss rose" if rate < 1 else "three times the rate"
        why = f" ({tuning.why})" if learnt is not None else ""
        note = f"it has learnt nothing{why}: once more with twice the steps, at {how}"
        watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        learnt_again = _finished(second, raises=learnt is None)
        tuning = tuning if learnt_again is None else second
        counts = "" if learnt_again is None else AGAIN
        about = {"learnt": bool(learnt_again), "again": True, "attempt_rate": rate, "counts": counts}
    if not about["learnt"]:
        about["why"] = tuning.why
    if ranks.is_first():
        files.write_record(out / LEARNT, about)
    checkpoint = write_checkpoint(out, tuning.model, tuning.tokenizer, recipe, sources)
    _clear(out)  # not before: a run killed in between goes on from a state that may lie after the best look
    return checkpoint


def retrain(recipe: FinetuneRecipe, tuned: Path, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Repeat the fine-tuning in `tuned` on the rows of train and dev together, and write `out/checkpoint`.

    The weights are the mean of those at the same shares of the steps as the looks that dev chose in `tuned`, and the
    threshold is the one that dev chose there. So no row decides anything here, and the model has no score of its own.
    An epoch has more rows, and the run so many more steps. Raises ValueError where an earlier release wrote `tuned`.
    """
    task = ranks.first_then_all(lambda: with_dev_rows(open_prepared(recipe.task), out / "data"))
    repeated = replace(recipe, task=task.path)
    _, sources = _inputs(repeated)
    if checkpoint := finished(out, recipe, sources):
        _clear(out)
        return checkpoint
    chosen = _left_by(tuned, CHOSEN)
    if "shift" not in chosen:
        raise ValueError(f"{tuned / CHOSEN}: 'shift' is missing: another release wrote this")
    if (learnt := files.read_record(tuned / LEARNT))["again"] and learnt["counts"]:
        repeated = once_more(repeated, learnt["attempt_rate"])
    width, rows = configuration_of(recipe.model).hidden_size, open_prepared(recipe.task).sizes["train"]
    steps = plan_of(repeated, rows, width).steps
    run = Retraining(repeated, task, out, watch, [step / steps for step in chosen["averaged"]])
    run.train()
    run.choose()
    if chosen["shift"] is not None:
        shift(run.model, -np.asarray(chosen["shift"], dtype=np.float32))
    checkpoint = write_checkpoint(out, run.model, run.tokenizer, recipe, sources)
    _clear(out)
    return checkpoint


def _clear(out: Path) -> None:
    """Remove from an ended run, and from its second attempt, the states and the weights of looks."""
    for place in (out, out / AGAIN):
        if place.is_dir():
            drop_best(place)
            finish(place)


def _finished(tuning: Tuning, *, raises: bool) -> bool | None:
    """Train to the end, choose, and return whether anything was learnt; None if the loss was not finite.

    Raises NotFiniteError in that case if `raises`.
    """
    try:
        return tuning.finish()
    except NotFiniteError:
        if raises:
            raise
        return None


def once_more(recipe: FinetuneRecipe, rate: float) -> FinetuneRecipe:
    """Return the settings of a second attempt. rate: in multiples of the first one's"""
    steps = recipe.plan.steps * (RETRY_STEPS if not recipe.epochs else 1)
    plan = replace(recipe.plan, rate=rate * recipe.plan.rate, steps=steps)
    longer = {name: RETRY_STEPS * getattr(recipe, name) for name in ("epochs", "least_steps", "most_epochs")}
    return replace(recipe, plan=plan, **longer)


def last_attempt(out: Path) -> Path:
    """Return where the looks at dev lie that count: in `out`, or in `out/again`.

    Raises ValueError where `out/learnt.json` does not say which of two attempts counts.
    """
    if not (out / LEARNT).exists():
        return out
    about = files.read_record(out / LEARNT)
    if about["again"] and "counts" not in about:
        raise ValueError(f"{out / LEARNT}: 'counts' is missing: another release wrote this")
    return out / about["counts"] if about["again"] else out


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
        dev=dev_score(out),
        adapting=Cost(),
        finetuning=spent(out),
        **tested,
    )


def test(checkpoint: Checkpoint, task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """Predict the sealed texts, then open their labels in the name of `by`: ids, gold and predicted labels, and the
    score as `test`.

    Raises ValueError where the checkpoint was fine-tuned for another kind of task or other labels.
    """
    examples = task.examples("test")
    return task.open_and_score(examples, predict_test(checkpoint, task, examples, watch=watch), by=by)


def predict_test(
    checkpoint: Checkpoint, task: Prepared, examples: Sequence[Example], *, watch: Watch = unwatched
) -> list[Label]:
    """Return the predictions for the test texts, whose labels stay sealed. Raises ValueError as `test` does."""
    model, tokenizer, labels = load_tested(checkpoint, task)
    rows = encoded(task, "test", examples, tokenizer, spans=SPANS[pooling_of(model.config)])
    texts = [example.text for example in examples]
    return restore_labels(predict(model, rows, labels, texts=texts, watch=watch), labels, task)


def load_tested(
    checkpoint: Checkpoint, task: Prepared
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, tuple[str, ...]]:
    """Return a fine-tuned model on this process's device, its tokenizer and its labels.

    Raises ValueError where it was fine-tuned for another kind of task or other labels.
    """
    tokenizer, model = load_tokenizer(checkpoint.path), load_finetuned(checkpoint.path)
    labels = labels_of(model)
    if classifier_kind(model) != task.kind or labels not in learnable(task):
        raise ValueError(
            f"{checkpoint.path} was fine-tuned for kind '{classifier_kind(model)}' with labels ({', '.join(labels)}),"
            f" but {task.name} is of kind '{task.kind}' with ({', '.join(task.labels)}). Fine-tune it on this task"
        )
    model.to(device())  # type: ignore[arg-type]  # transformers' wrapper hides the signature
    return model, tokenizer, labels


class Look(NamedTuple):
    """A look at dev: score, mean task loss (of a number in the task's unit), and predictions in the order of dev.

    decision  how dev decided what is predicted from the outputs; None where it did not
    """

    score: float
    loss: float
    predicted: list[Label]
    decision: Decision | None = None

    @property
    def tried(self) -> list[list[Label]]:
        """All predictions among which dev chose."""
        return self.decision.tried if self.decision else [self.predicted]


class LabelledRows(NamedTuple):
    """Examples of dev, and their rows with labels."""

    examples: Sequence[Example]
    rows: Batch


def constant_loss(rows: Batch, kind: str) -> float:
    """Return the least mean loss over labelled rows of outputs that are the same for all rows: the entropy of the
    labels (of each of several labels), or the variance of standardised numbers. Infinite for spans, whose places are of
    each text.
    """
    if kind == "span":
        return math.inf
    if kind == "score":
        return 1.0
    if kind == "multilabel":
        rates_C = rows.rows["label"].mean(0, dtype=np.float64)
        return float(np.mean(entr(rates_C) + entr(1 - rates_C)))
    codes = rows.tokens[TAGS][rows.tokens[TAGS] != NOT_PREDICTED] if kind == "tokens" else rows.rows["label"]
    shares = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(np.sum(entr(shares)))


class Tuning:
    """A fine-tuning under way in its directory: the model, its rows, and its looks at dev."""

    def __init__(self, recipe: FinetuneRecipe, task: Prepared, out: Path, watch: Watch) -> None:
        self.recipe, self.task, self.out, self.watch = recipe, task, out, watch
        self.why = ""  # why it learnt nothing, once it has ended
        self.tokenizer = load_tokenizer(recipe.model)
        # so that truncation with the checkpoint's tokenizer cuts where training did
        self.tokenizer.model_max_length = task.max_tokens + prompt_length(self.tokenizer)
        self.labels = trained_labels(task, recipe.tag_scheme)
        self.start = start_of(recipe, task, self.tokenizer, self.labels, watch)
        self.pooling = self.start.pooling
        self.model = _loaded(recipe, self.pooling, task, self.labels, watch)
        register(self.model, self.tokenizer, recipe.special_tokens, seed=recipe.plan.seed)
        self.rows, self.scale = training_rows(task, self.tokenizer, self.pooling, recipe.tag_scheme)
        if self.scale is not None and recipe.head == "kept":
            fold(self.model, self.scale.back)  # the kept head's outputs are in the unit of the numbers
        self.head_rate = recipe.head_rate
        begins_as_probe = recipe.head == "probe" and self.start.put_into(self.model, self.rows)
        if recipe.head == "probe" and not begins_as_probe:
            self.head_rate *= NO_PROBE_RATE
        if recipe.base_rates and task.kind == "multilabel" and recipe.head != "kept" and not begins_as_probe:
            start_at_base_rates(self.model, self.rows)
        self.adapters: LoraAdapters | None = None
        if recipe.lora_rank:
            self.adapters = LoraAdapters(
                self.model,
                rank=recipe.lora_rank,
                alpha=recipe.lora_alpha,
                dropout=recipe.lora_dropout,
                layers=recipe.lora_layers,
                seed=recipe.plan.seed,
            )
        if task.kind != "span":
            lost, what = emptied(self.rows, task.examples("train"), self.tokenizer)
            if lost:
                note = f"the tokenizer leaves nothing of {lost:,} training {what}: {EMPTIED[what]}"
                watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        if self.pooling in OF_MENTIONS and (lost := cut_off(self.rows)):
            note = f"of {lost:,} of {len(self.rows):,} training texts a mention stands beyond {task.max_tokens} tokens"
            watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        if lost := merged(task, recipe.tag_scheme):
            note = f"in the scheme {recipe.tag_scheme}, {lost:,} training entities become one with the entity before"
            watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        dev = task.examples("dev")
        self.dev = self._labelled(dev, encoded(task, "dev", dev, self.tokenizer, spans=SPANS[self.pooling]))
        self.looked_at = self.dev
        some = dev_sample_of(recipe, task)
        if (size := len(some)) < len(dev):
            rows = encode_rows(some, self.tokenizer, task.max_tokens, task.kind, spans=SPANS[self.pooling])
            self.looked_at = self._labelled(some, rows)
            note = f"a look at dev reads {size:,} of its {len(dev):,} examples; the chosen weights are scored on all"
            watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        if recipe.threshold == "dev" and has_threshold(task):
            output_layer(self.model)  # whose biases take what dev chooses, so refused before training
        self.measured = TaskLoss(self.model)
        self.plan = plan_of(recipe, task.sizes["train"], self.model.config.hidden_size)
        out.mkdir(parents=True, exist_ok=True)
        keep = recipe.averaged if recipe.choose == "best" else 0
        self.looks = DevLooks(out, keep=keep, constant=without_reading(recipe, task, some))

    def _labelled(self, examples: Sequence[Example], rows: Batch) -> LabelledRows:
        learnt = convert_tags(examples, self.recipe.tag_scheme)
        return LabelledRows(examples, with_labels(rows, learnt, self.task.kind, self.labels))

    def train(self) -> None:
        """Train to the end."""
        looks = {round(self.plan.steps * (look + 1) / self.recipe.looks) for look in range(self.recipe.looks)} - {0}

        def measure(step: Step) -> dict[str, float]:
            with folded(self.model, self.scale):
                look = self.look(self.looked_at, self.plan.precision)
                if not np.isfinite(look.loss):
                    raise NotFiniteError(
                        f"step {step.number}: the loss on dev is {look.loss}. Lower the rate, or lengthen the warm-up"
                    )
                self.looks.add(step.number, look, self.model)
            best = max(self.looks.scores.values(), default=look.score)
            return {"dev": look.score, "dev best": best, "dev loss": look.loss}

        run(
            self.objective(),
            self.stream(),
            self.plan,
            self.out,
            stage="fine-tune",
            watch=self.watch,
            after=measure,
            looks=looks,
            ended=lambda: self.looks.idle() >= self.recipe.patience > 0,
        )

    def objective(self) -> Objective:
        """Return the loss that is minimised: L_task, with SMART L_task + lambda_s l_s."""
        recipe, layers = self.recipe, self.model.config.num_hidden_layers
        decay = recipe.layer_decay or (DECAY if layers >= DEEP else 1.0)
        if not recipe.smart:
            return TaskLoss(self.model, head_rate=self.head_rate, layer_decay=decay)
        return SmartLoss(
            self.model,
            weight=recipe.smart,
            step=recipe.smart_step,
            noise=recipe.smart_noise,
            radius=recipe.smart_radius,
            ascents=recipe.smart_ascents,
            head_rate=self.head_rate,
            layer_decay=decay,
        )

    def stream(self) -> Stream:
        """Return the batch of each step."""
        seed = self.plan.seed
        rows = rows_stream(self.rows, batch=self.plan.batch, seed=seed)
        return (lambda step: with_noise(rows(step), seed=seed, step=step)) if self.recipe.smart else rows

    def look(self, dev: LabelledRows, precision: Precision = "float32") -> Look:
        """Return the look at dev, or at a part of it, of the present weights, with adapters as they are once they are
        merged.
        """
        gold, texts = [example.label for example in dev.examples], [example.text for example in dev.examples]
        merged = self.adapters.merged() if self.adapters else nullcontext()
        with merged, arithmetic(Plan(precision=precision), self.model.device):
            outputs, loss = outputs_and_loss(self.measured, dev.rows, self.labels)
        if self.recipe.threshold == "dev" and has_threshold(self.task):
            decision = decide(outputs, gold, self.labels, self.task)
            return Look(decision.score, loss, decision.predicted, decision)
        learnt = predictions_of(self.model, outputs, dev.rows, self.labels, texts=texts)
        predicted = restore_labels(learnt, self.labels, self.task)
        return Look(self.task.score(gold, predicted), loss, predicted)

    def choose(self) -> None:
        """Put the chosen weights into the model, adapters and the chosen threshold among them, and write their look at
        dev.
        """
        steps = [self.looks.now]
        if self.recipe.choose == "best":
            steps = self.looks.load(self.model)
        elif self.scale is not None:
            fold(self.model, self.scale)
        final = self.look(self.dev)
        if self.adapters:
            self.adapters.merge()
        if final.decision is not None and final.decision.note:
            shift(self.model, -final.decision.shift_C)
            note = f"{final.decision.note}, which scores best on dev"
            self.watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
        self.looks.write_chosen(steps, final)

    def finish(self) -> bool:
        """Train to the end, choose, and return whether anything was learnt."""
        self.train()
        self.choose()
        self.why = ranks.agree(self.nothing_learnt() if ranks.is_first() else "")
        return not self.why

    def nothing_learnt(self) -> str:
        """Return why the run has learnt nothing; "" if it has learnt something.

        It has where the chosen weights score above the best constant answer on dev, the best look stands out from what
        its answers reach when they are dealt out at random (tasks/chance.py), and the loss of the last tenth of the
        steps lies below that of the best constant outputs. Where the best look stands out by far, the loss does not
        count: over few steps of few rare rows it says little. A dev set on which a constant answer is perfect decides
        nothing, nor does the loss of a kind of task without constant outputs.
        """
        score, constant = dev_score(self.out), constant_on_dev(self.task)
        looks = self.looks.chosen_from(self.recipe.choose)
        if constant < 1.0:
            if score <= constant:
                return f"on dev it has {points(score)} points, the same answer to every text {points(constant)}"
            if why := guesses(self.task, self.looked_at.examples, looks):
                return why
        log = read_log(self.out)
        last = float(np.mean([line["loss.task"] for line in log[-max(LAST, len(log) // 10) :]]))
        if last < (constant := constant_loss(self.rows, self.task.kind)):
            return ""
        if exceeds_chance(self.task, self.looked_at.examples, looks):
            return ""
        return f"its loss on train ends at {last:.4g}, and that of constant outputs is {constant:.4g}"

    def rose(self, losses: Sequence[float]) -> bool:
        """Return True if the rate was too high of a run that began with these weights, by the losses of its steps: over
        some tenth of the steps the mean lies clearly above the loss at the start and above that of the best constant
        outputs, by RISE times the higher of the two and by ERRORS standard errors.

        At a rate that is too low the loss stays level or falls. The weights have to be those of the start.
        """
        some = self.rows.take(np.unique(np.linspace(0, len(self.rows) - 1, STARTING).astype(np.int64)))
        _, start = outputs_and_loss(self.measured, some, self.labels)
        constant = constant_loss(self.rows, self.task.kind)
        level = max(start, constant) if math.isfinite(constant) else start
        size = min(max(LAST, len(losses) // 10), len(losses))
        if size < 2:
            return False  # in all processes, which read the same log
        parts = [np.array(losses[at : at + size]) for at in range(0, len(losses) - size + 1, size)]
        rises = [part.mean() - level > max(RISE * level, ERRORS * part.std(ddof=1) / math.sqrt(size)) for part in parts]
        return bool(ranks.agree(any(rises)))


class Retraining(Tuning):
    """A fine-tuning whose weights are the mean of those at fixed shares of its steps, whatever they score on dev."""

    def __init__(
        self, recipe: FinetuneRecipe, task: Prepared, out: Path, watch: Watch, shares: Sequence[float]
    ) -> None:
        super().__init__(replace(recipe, choose="best", averaged=len(shares)), task, out, watch)
        self.averaged = {max(1, round(share * self.plan.steps)) for share in shares}
        self.looks.keep = len(self.averaged)

    def train(self) -> None:
        """Train up to the last of these shares."""

        def measure(step: Step) -> dict[str, float]:
            with folded(self.model, self.scale):
                self.looks.add(step.number, Look(0.0, 0.0, []), self.model)
            return {}

        run(
            self.objective(),
            self.stream(),
            self.plan,
            self.out,
            stage="train on all rows",
            watch=self.watch,
            after=measure,
            looks=self.averaged,
            until=max(self.averaged),
        )

    def choose(self) -> None:
        """Put the mean weights into the model, adapters among them."""
        self.looks.load(self.model)
        if self.adapters:
            self.adapters.merge()


@torch.no_grad()
def start_at_base_rates(model: PreTrainedModel, rows: Batch) -> None:
    """Set the biases of the output layer to the log odds of the labels' frequencies in the rows: log r / (1 - r).

    A label that no row has, or every row, counts as in half a row more, or less.
    """
    label_RC = rows.rows["label"]
    half = 1 / (2 * len(label_RC))
    rates_C = np.clip(label_RC.mean(0, dtype=np.float64), half, 1 - half)
    output_layer(model).bias.copy_(torch.from_numpy(np.log(rates_C / (1 - rates_C))))


@dataclass(frozen=True, eq=False)
class HeadStart:
    """How the head begins.

    layer      that of a probe; None where the head is drawn or kept
    states_RD  what the layer reads of the first training rows, or of their words
    """

    pooling: Pooling
    layer: probe.ProbeLayer | None = None
    states_RD: np.ndarray | None = None

    @torch.no_grad()
    def put_into(self, model: PreTrainedModel, rows: Batch) -> bool:
        """Set the model's head to the layer, and return True. Return False, and leave the head as it was drawn, if
        there is no layer, or if the family's head has more between the encoder's states and its outputs.
        """
        if self.layer is None or self.states_RD is None:
            return False
        head = output_layer(model)
        drawn = head.weight.detach().clone(), head.bias.detach().clone()
        if head.weight.shape != self.layer.weight_CD.shape:
            return False
        head.weight.copy_(torch.from_numpy(self.layer.weight_CD))
        head.bias.copy_(torch.from_numpy(self.layer.bias_C))
        first = rows.take(np.arange(min(probe.CHECKED, len(rows))))
        model.train(False)
        outputs = outputs_of(model, pad(first, together(first.lengths), model.device)).cpu().numpy()
        if WORD in first.tokens:
            begins_N = first.tokens[WORD] != NOT_PREDICTED
            of_row = np.split(begins_N, first.offsets[1:-1])
            words = [output[: len(begins)][begins] for output, begins in zip(outputs, of_row, strict=True)]
            outputs = np.concatenate(words)
        expected_RC = self.layer(self.states_RD[: len(outputs)])
        if np.allclose(outputs, expected_RC, atol=PROBE_ROUNDING * max(1.0, float(np.abs(expected_RC).max()))):
            return True
        head.weight.copy_(drawn[0])
        head.bias.copy_(drawn[1])
        return False


def write_frozen(layer: probe.ProbeLayer, model: str, task: Path, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Write the encoder as it is, with a probe's layer as its head, to `out/checkpoint`.

    Raises ValueError if the family's head has more between the encoder's states and its outputs.
    """
    pooling: Pooling = "pooler" if layer.read_out == "pieces" else layer.read_out
    recipe = FinetuneRecipe(model=model, task=task, pooling=pooling, dropout=0.0)
    prepared, sources = _inputs(recipe)
    tokenizer = load_tokenizer(model)
    tokenizer.model_max_length = prepared.max_tokens + prompt_length(tokenizer)
    classifier = _loaded(recipe, pooling, prepared, prepared.labels, watch)
    rows, _ = training_rows(prepared, tokenizer, pooling)
    first = rows.take(np.arange(min(probe.CHECKED, len(rows))))
    encoder, _ = probe.load_encoder(model)
    states_RD = probe.states_of(encoder, first, (layer.read_out,), watch=watch)[layer.read_out]
    if not HeadStart(pooling, layer, states_RD).put_into(classifier, rows):
        raise ValueError(
            f"the head of a '{classifier.config.model_type}' has more than one layer, so a linear layer on the frozen "
            f"encoder cannot take its place. Leave it out of contestants"
        )
    return write_checkpoint(out, classifier, tokenizer, recipe, sources)


_starts: OrderedDict[str, HeadStart] = OrderedDict()  # those made last, for the seeds and settings that begin alike


def start_of(
    recipe: FinetuneRecipe, task: Prepared, tokenizer: PreTrainedTokenizerBase, labels: Sequence[str], watch: Watch
) -> HeadStart:
    """Return the head's pooling and the layer that it begins as: those of a probe where the recipe asks for either.

    Under sequence_layer = "mlp" a probe may choose the pooling, the pooler excepted, but no head begins as one.
    """
    recipe_pooling: Pooling = "pooler" if recipe.pooling == "auto" else recipe.pooling
    if recipe.head == "kept" and recipe.pooling == "auto":
        return HeadStart(pooling_of(configuration_of(recipe.model)))
    linear = recipe.tag_layer == "linear" and recipe.sequence_layer == "linear"
    begins_as_probe = recipe.head == "probe" and linear
    chosen = recipe.pooling == "auto" and (linear or (recipe.sequence_layer == "mlp" and task.kind != "tokens"))
    if not (begins_as_probe or chosen) or task.kind not in PROBED:
        return HeadStart(recipe_pooling)
    special = [*recipe.special_tokens, recipe.plan.seed] if recipe.special_tokens else []
    about = [identity(recipe.model), task.hashes["train"], task.max_tokens, list(labels), recipe.pooling, special]
    key = settings.digest([*about, recipe.pooler, recipe.head, recipe.sequence_layer])
    if key in _starts:
        _starts.move_to_end(key)
        return _starts[key]

    def watch_head(progress: Progress) -> None:
        watch(replace(progress, unit=f"{progress.unit} (initial head)"))

    encoder, trained_pooler = probe.load_encoder(recipe.model)
    register(encoder, tokenizer, recipe.special_tokens, seed=recipe.plan.seed)
    has_pooler = trained_pooler and recipe.pooler == "kept" and encoder.config.model_type in probe.POOLED_FAMILIES
    has_pooler &= linear  # an MLP stands in its place
    read_outs = probe.read_outs_of(task, tokenizer, has_pooler=has_pooler)
    read: Pooling = read_at_places(task, tokenizer) or recipe_pooling
    if recipe.pooling != "auto" and task.kind != "tokens":
        if recipe.pooling == "pooler" and not has_pooler:
            return HeadStart(recipe_pooling)
        read_outs, read = (recipe.pooling,), recipe.pooling
    encoder.to(device())  # type: ignore[arg-type]  # transformers' wrapper hides the signature
    rows, _ = training_rows(task, tokenizer, read, recipe.tag_scheme)
    target_R = probe.probe_targets(rows)
    layer, losses, first_states_RD = probe.fit_encoder(
        encoder, rows, read_outs, task, max(1, len(labels)), model=recipe.model, watch=watch_head, registered=special
    )
    if few := probe.rows_of_rare_labels(target_R, task.kind, labels):
        label_list = ", ".join(f"{label} ({count})" for label, count in list(few.items())[:RARE_SHOWN])
        note = (
            f"of {len(few)} labels there are fewer training rows than the probe's {probe.FOLDS} folds, so not every "
            f"fold judges them: {label_list}{', ...' if len(few) > RARE_SHOWN else ''}"
        )
        watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
    if len(losses) > 1:
        loss_list = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
        note = f"read-out {layer.read_out}: its probe has the least loss on training rows left out ({loss_list})"
        watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
    pooling: Pooling = "pooler" if layer.read_out == "pieces" else layer.read_out
    start = HeadStart(pooling)
    if begins_as_probe:
        start = HeadStart(pooling, layer, first_states_RD)
    _starts[key] = start
    while len(_starts) > STARTS_KEPT:
        _starts.popitem(last=False)
    return start


def _loaded(
    recipe: FinetuneRecipe, pooling: Pooling, task: Prepared, labels: Sequence[str], watch: Watch
) -> PreTrainedModel:
    has_dropout = dropout_known(recipe.model)
    if not has_dropout:
        watch(Progress("fine-tune", 0, 0, "steps", {"note": "a family whose dropout cannot be set: left as it is"}))
    fresh = partial(load_classifier, seed=recipe.plan.seed, pooler=recipe.pooler)
    load = load_with_head if recipe.head == "kept" else fresh
    return load(
        recipe.model,
        labels,
        kind=task.kind,
        dropout=recipe.dropout if has_dropout else None,
        hidden_dropout=recipe.dropout if has_dropout else None,
        attention_dropout=recipe.attention_dropout,
        pooling=pooling,
        sequence_layer=recipe.sequence_layer,
        layer=recipe.tag_layer,
        transitions=recipe.tag_transitions,
        transitions_rate=recipe.tag_transitions_rate,
    )


def training_rows(
    task: Prepared,
    tokenizer: PreTrainedTokenizerBase,
    pooling: Pooling = "pooler",
    scheme: Tagging = "given",
) -> tuple[Batch, Scale | None]:
    """Return the training rows with labels (tags in the scheme, numbers standardised), and the scale of the numbers.

    Raises ValueError if all numbers are equal, or the tokenizer leaves nothing of any text.
    """
    train = task.examples("train")
    inputs = encoded(task, "train", train, tokenizer, spans=SPANS[pooling])
    if task.kind != "span":
        emptied(inputs, train, tokenizer)
    rows = with_labels(inputs, convert_tags(train, scheme), task.kind, trained_labels(task, scheme))
    if task.kind != "score":
        return rows, None
    scale = scale_of(rows.rows["label"])
    numbers = scale.standardised(rows.rows["label"]).astype(np.float32)
    return replace(rows, rows={**rows.rows, "label": numbers}), scale


class DevLooks:
    """The looks at dev so far, and the best weights, in files beside the run's states.

    A run that resumes from an earlier state looks again. If the killed run left its best weights at a later step, they
    are kept until the look at that step is made again, and replaces them. Its score may differ, on a GPU or with
    another number of threads, so the best of the looks whose weights are kept need not be the best of all scores.

    keep      number of best looks whose weights are kept; 0: the last weights are chosen
    constant  score on what a look reads without reading a text (`without_reading`)
    """

    def __init__(self, out: Path, *, keep: int, constant: float = -math.inf) -> None:
        self.out, self.keep, self.constant = out, keep, constant
        self.scores: dict[int, float] = dict(files.read_record(out / DEV)) if (out / DEV).exists() else {}
        self.losses: dict[int, float] = dict(files.read_record(out / DEV_LOSS)) if (out / DEV_LOSS).exists() else {}
        self.now = 0  # the step of the last look
        self.predicted = {  # step -> all predictions for what a look reads, among which dev chose
            int(file.stem.partition("-")[2]): [[*map(label_of, tried)] for tried in files.read_record(file)]
            for file in out.glob(LOOKED.format("*"))
        }
        self.kept: dict[int, float] = {}  # step -> score of the looks whose weights are there
        for file in self._places("*")[::-1]:
            if files.sha256_of(file)[:16] != file.stem.rpartition("-")[2]:
                raise files.DamagedError(f"{file} is damaged: its hash is not that of its name. {self._way_out()}")
            with safe_open(file, framework="pt") as opened:
                self.kept[int(opened.metadata()["step"])] = float(opened.metadata()["score"])

    def add(self, step: int, look: Look, model: PreTrainedModel) -> None:
        if not ranks.is_first():
            return
        score, self.now = look.score, step
        self.losses[step] = look.loss
        files.write_record(self.out / DEV_LOSS, sorted(self.losses.items()))
        self.scores[step], self.predicted[step] = score, look.tried
        files.write_record(self.out / LOOKED.format(step), look.tried)
        if self.keep:
            ranked = self._ranked({**self.kept, step: score})[: self.keep]
            if step in ranked:
                tensors = {name: value.detach().cpu().contiguous() for name, value in trained(model)}
                content = save(tensors, metadata={"score": repr(score), "step": str(step)})
                path = self.out / BEST.format(step, files.sha256_of_bytes(content)[:16])
                files.write_bytes(path, content)
                self.kept[step] = score
                for file in set(self._places(step)) - {path}:  # the killed run's look at this step
                    file.unlink()
            for beaten in set(self.kept) - set(ranked):
                for file in self._places(beaten):
                    file.unlink()
                del self.kept[beaten]
        files.write_record(self.out / DEV, sorted(self.scores.items()))

    def idle(self) -> int:
        """Looks in a row, up to the last one, without a better score than before them. Where none has beaten the
        constant answer yet, a lower loss is better: it falls before any answer changes.
        """
        steps = [step for step in sorted(self.scores) if step <= self.now]

        def standing(step: int) -> tuple[float, float]:
            score = self.scores[step]
            return (score, 0.0) if score > self.constant else (self.constant, -self.losses[step])

        best = max(steps, key=standing) if steps else 0  # the first of equals
        return int(ranks.agree(sum(step > best for step in steps)))

    def chosen_from(self, choose: Literal["best", "last"]) -> list[list[Label]]:
        """Return the predictions that were chosen from: of all looks, or of the last one."""
        if not self.predicted:
            raise files.DamagedError(f"{self.out} has no predictions of its looks at dev. {self._way_out()}")
        steps = sorted(self.predicted)
        return [tried for step in (steps if choose == "best" else steps[-1:]) for tried in self.predicted[step]]

    @torch.no_grad()
    def load(self, model: PreTrainedModel) -> list[int]:
        """Put the mean weights of the best looks into the model. Return the steps of these looks, the best first.

        The mean counts even if it scores lower on dev than the best look: the largest of many scores is too high.
        """
        looks = min(self.keep, len(self.scores))
        if ranks.is_first() and len(self.kept) < looks:
            raise files.DamagedError(
                f"{self.out} has the weights of {len(self.kept)} looks at dev, but {looks} were kept. {self._way_out()}"
            )
        steps: list[int] = ranks.agree(self._ranked(self.kept)[: self.keep])
        for _, parameter in trained(model):
            parameter.zero_()
        for step in steps:
            with safe_open(self._places(step)[0], framework="pt") as file:
                for name, parameter in trained(model):
                    parameter.add_(file.get_tensor(name).to(parameter.device), alpha=1 / len(steps))
        return steps

    def _places(self, step: int | str) -> list[Path]:
        """Return the files of the look's weights, the newest first; more than one if a run was killed between them."""
        files_of_step = self.out.glob(BEST.format(step, "*"))
        return sorted(files_of_step, key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True)

    def _way_out(self) -> str:
        return f"Remove {self.out}: the same command does this run again"

    def _ranked(self, scores: dict[int, float]) -> list[int]:
        """Steps, the best first; of equals the earliest."""
        return sorted(scores, key=lambda step: (-scores[step], step))

    def write_chosen(self, steps: Sequence[int], look: Look) -> None:
        """Write the look at dev of the chosen weights. steps: those of the looks that they are the mean of"""
        if ranks.is_first():
            files.write_record(self.out / PREDICTED_DEV, look.predicted)
            shift_C = look.decision.shift_C.tolist() if look.decision and look.decision.note else None
            record = {"averaged": steps, "dev": look.score, "loss": look.loss, "shift": shift_C}
            files.write_record(self.out / CHOSEN, record)


def trained(model: PreTrainedModel) -> list[tuple[str, torch.nn.Parameter]]:
    """Return the weights that are trained, by name: all of them but those that adapters stand beside."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def drop_best(out: Path) -> None:
    """Remove the weights and the predictions of looks."""
    if ranks.is_first():
        for file in [*out.glob(BEST.format("*", "*")), *out.glob(LOOKED.format("*"))]:
            file.unlink()


def dev_score(out: Path) -> float:
    """Return the dev score of the checkpoint that was chosen."""
    return float(_left_by(out, CHOSEN)["dev"])


def predicted_dev(out: Path) -> list[Label]:
    """Return the predictions of the checkpoint for dev, in its order."""
    return [label_of(label) for label in _left_by(out, PREDICTED_DEV)]


def _left_by(out: Path, name: str) -> Any:
    """Return the record that the fine-tuning in `out` left at its end."""
    path = last_attempt(out) / name
    if not path.exists():
        raise files.DamagedError(f"{path} is missing. Remove {out}: the same command does this run again")
    return files.read_record(path)


def least_dev_loss(out: Path) -> float:
    """Return the least loss among the looks at dev of the attempt that counts."""
    losses: list[tuple[int, float]] = _left_by(out, DEV_LOSS)
    return min(loss for _, loss in losses)


def _inputs(recipe: FinetuneRecipe) -> tuple[Prepared, dict[str, str]]:
    """Return the task, and hashes of all that the run reads."""
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
    if recipe.lora_rank:
        require_peft()
    if recipe.tag_transitions == "scheme":
        allowed_transitions(trained_labels(task, recipe.tag_scheme))


def test_ensemble(checkpoints: Sequence[Checkpoint], task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """As `test`, and the score on dev as `dev`, for the mean label probabilities of several fine-tuned models.

    Ke et al. (2022), DGA, Table 3, the row "Ensemble (LM+MLM)": end-task fine-tuning of the untouched model and of the
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
    return {**task.open_and_score(task.examples("test"), predicted["test"], by=by), "dev": dev}
