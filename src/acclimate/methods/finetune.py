"""Fine-tune an encoder on a labelled task: choose on dev, test once.

Devlin et al. (2019), "BERT", section 4: a linear classifier on the encoder, and a rate that rises over 10% of the steps
and then falls. The preset "papers" has BLURB's settings (Gu et al., 2021, section 6.2): all weights trained, dropout
.1, the best of several looks at dev. The default is the preset "robust" (`FinetuneRecipe`). The loss
(methods/task_loss.py) is by kind of task a mean over

    rows                of the cross entropy of the label, or of the squared error of a number
    rows times labels   of the binary cross entropy of each label, where a row may have several
    tagged words        of the cross entropy of the tag at a word's first piece (Devlin et al., section 5.3)
    ends of answers     of the cross entropy of the token at which the answer begins or ends (section 4.2)

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
  For relations, "mentions" and "starts" are the encodings of Gu et al., Table 12; "mentions" takes
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
  whole sentences: a window has no score for a start or end that is not the sentence's.
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
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import entr

from acclimate.core import files, ranks
from acclimate.core.prompt import prompt_length
from acclimate.core.types import (
    NOT_PREDICTED,
    TAGS,
    Batch,
    Checkpoint,
    Cost,
    Example,
    NotFiniteError,
    Progress,
    Score,
    Split,
    Stream,
    Watch,
    unwatched,
)
from acclimate.methods import probe, task_loss
from acclimate.methods.recipes.finetune import (
    PAPERS,  # noqa: F401  users find it here
    FinetuneRecipe,
    dev_sample_of,
    plan_of,
    without_reading,
)
from acclimate.methods.tuning.head import HeadStart, start_at_base_rates, start_of, training_rows
from acclimate.methods.tuning.looks import CHOSEN, LEARNT, DevLooks, Look, dev_score, drop_best
from acclimate.models.classifier import (
    classifier_kind,
    labels_of,
    load_classifier,
    load_finetuned,
    load_with_head,
    register,
)
from acclimate.models.configuration import dropout_known, longest_input
from acclimate.models.formats import OF_MENTIONS, Pooling
from acclimate.models.loading import identity, load_tokenizer
from acclimate.models.lora import LoraAdapters, require_peft
from acclimate.models.scale import fold, folded, output_layer, shift
from acclimate.models.task_layers import pooling_of
from acclimate.tasks.chance import nothing_learnt
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.tasks.rows import SPANS, cut_off, emptied, encode_rows, encoded, with_labels
from acclimate.tasks.thresholds import decide
from acclimate.text.streams import rows_stream
from acclimate.training.checkpoint import AGAIN, finish, read_log, spent
from acclimate.training.kernels import arithmetic
from acclimate.training.loop import Step
from acclimate.training.objective import Objective
from acclimate.training.plan import Plan, Precision, move_to_device
from acclimate.training.run import finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LAST = 10  # steps at least whose loss says whether anything was learnt
RETRY_RATE, RETRY_STEPS = 3.0, 2  # of a second attempt: multiple, or divisor, of the rate, and multiple of the steps
RISE = 0.1  # of the loss at the start, by which a tenth of the steps lies above it where the rate was too high
ERRORS = 3.0  # standard errors that such a rise takes at least
STARTING = 256  # training rows whose loss is the loss at the start


# what is done with texts and words of which the tokenizer leaves nothing
EMPTIED = {"texts": "a model reads them as empty", "words": "they are not used in training and are predicted as O"}
NO_PROBE_RATE = 10.0  # multiples of the rate at which a drawn head learns where head = "probe" finds no probe
DEEP = 12  # layers from which on layer_decay = 0 decays
DECAY = 0.9


def adapt(recipe: FinetuneRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune and write `out/checkpoint`, the dev score of each look to `out/dev.json`, and the checkpoint's
    predictions for dev to `out/predicted_dev.json`. Never opens the test set.

    The seed of a fresh head, of the order of the rows and of dropout is `recipe.plan.seed`. `out/learnt.json` says
    whether the run learnt anything (tasks/chance.py). With `retry`, a run that learnt nothing is repeated in
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
        how = "a third of the rate, because its loss rose" if rate < 1 else "three times the rate"
        why = f" ({tuning.why})" if learnt is not None else ""
        note = f"it failed to learn{why}; repeating it with twice the steps, at {how}"
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
    model, tokenizer, labels = load_tested(checkpoint, task)
    rows = encoded(task, "test", examples, tokenizer, spans=SPANS[pooling_of(model.config)])
    texts = [example.text for example in examples]
    predicted = task_loss.predict(model, rows, labels, texts=texts, watch=watch)
    return task.open_and_score(examples, task_loss.restore_labels(predicted, labels, task), by=by)


def load_tested(
    checkpoint: Checkpoint, task: Prepared
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, tuple[str, ...]]:
    """Return a fine-tuned model on this process's device, its tokenizer and its labels.

    Raises ValueError where it was fine-tuned for another kind of task or other labels.
    """
    tokenizer, model = load_tokenizer(checkpoint.path), load_finetuned(checkpoint.path)
    labels = labels_of(model)
    if classifier_kind(model) != task.kind or labels not in task_loss.learnable(task):
        raise ValueError(
            f"{checkpoint.path} was fine-tuned for kind '{classifier_kind(model)}' with labels "
            f"({', '.join(labels)}), but {task.name} is of kind '{task.kind}' with labels "
            f"({', '.join(task.labels)}). Fine-tune it on this task"
        )
    move_to_device(model)
    return model, tokenizer, labels


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
        self.labels = task_loss.trained_labels(task, recipe.tag_scheme)
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
                self._note(f"the tokenizer makes no token of {lost:,} training {what}: {EMPTIED[what]}")
        if self.pooling in OF_MENTIONS and (lost := cut_off(self.rows)):
            texts = f"{lost:,} of {len(self.rows):,} training texts"
            self._note(f"in {texts} a mention comes after the first {task.max_tokens} tokens")
        if lost := task_loss.merged(task, recipe.tag_scheme):
            scheme = recipe.tag_scheme
            self._note(f"in the scheme {scheme}, {lost:,} training entities merge with the preceding entity")
        dev = task.examples("dev")
        self.dev = self._labelled(dev, encoded(task, "dev", dev, self.tokenizer, spans=SPANS[self.pooling]))
        self.looked_at = self.dev
        some = dev_sample_of(recipe, task)
        if (size := len(some)) < len(dev):
            rows = encode_rows(some, self.tokenizer, task.max_tokens, task.kind, spans=SPANS[self.pooling])
            self.looked_at = self._labelled(some, rows)
            part = f"{size:,} of {len(dev):,} examples"
            self._note(f"evaluations on dev during fine-tuning use {part}; the chosen weights are scored on all")
        if recipe.threshold == "dev" and task.has_threshold:
            output_layer(self.model)  # whose biases take what dev chooses, so refused before training
        self.measured = task_loss.TaskLoss(self.model)
        self.plan = plan_of(recipe, task.sizes["train"], self.model.config.hidden_size)
        out.mkdir(parents=True, exist_ok=True)
        keep = recipe.averaged if recipe.choose == "best" else 0
        self.looks = DevLooks(out, keep=keep, constant=without_reading(recipe, task, some))

    def _note(self, note: str) -> None:
        self.watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))

    def _labelled(self, examples: Sequence[Example], rows: Batch) -> LabelledRows:
        learnt = task_loss.convert_tags(examples, self.recipe.tag_scheme)
        return LabelledRows(examples, with_labels(rows, learnt, self.task.kind, self.labels))

    def train(self) -> None:
        """Train to the end."""
        looks = {round(self.plan.steps * (look + 1) / self.recipe.looks) for look in range(self.recipe.looks)} - {0}

        def measure(step: Step) -> dict[str, float]:
            with folded(self.model, self.scale):
                look = self.look(self.looked_at, self.plan.precision)
                if not np.isfinite(look.loss):
                    what = f"step {step.number}: the loss on dev is {look.loss}"
                    raise NotFiniteError(f"{what}. Lower the rate, or lengthen the warm-up")
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
        """Return the loss that is minimised."""
        decay = self.recipe.layer_decay or (DECAY if self.model.config.num_hidden_layers >= DEEP else 1.0)
        return task_loss.TaskLoss(self.model, head_rate=self.head_rate, layer_decay=decay)

    def stream(self) -> Stream:
        """Return the batch of each step."""
        return rows_stream(self.rows, batch=self.plan.batch, seed=self.plan.seed)

    def look(self, dev: LabelledRows, precision: Precision = "float32") -> Look:
        """Return the look at dev, or at a part of it, of the present weights, with adapters as they are once they are
        merged.
        """
        gold, texts = [example.label for example in dev.examples], [example.text for example in dev.examples]
        merged_adapters = self.adapters.merged() if self.adapters else nullcontext()
        with merged_adapters, arithmetic(Plan(precision=precision), self.model.device):
            outputs, loss = task_loss.outputs_and_loss(self.measured, dev.rows, self.labels)
        if self.recipe.threshold == "dev" and self.task.has_threshold:
            decision = decide(outputs, gold, self.labels, self.task)
            return Look(decision.score, loss, decision.predicted, decision)
        learnt = task_loss.predictions_of(self.model, outputs, dev.rows, self.labels, texts=texts)
        predicted = task_loss.restore_labels(learnt, self.labels, self.task)
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
            self._note(f"{final.decision.note}, which scores best on dev")
        self.looks.write_chosen(steps, final)

    def finish(self) -> bool:
        """Train to the end, choose, and return whether anything was learnt."""
        self.train()
        self.choose()
        why = ""
        if ranks.is_first():
            log = read_log(self.out)
            why = nothing_learnt(
                self.task,
                self.looked_at.examples,
                self.looks.chosen_from(self.recipe.choose),
                score=files.read_record(self.out / CHOSEN)["dev"],  # `dev_score` may follow a killed run to `again`
                loss=float(np.mean([line["loss.task"] for line in log[-max(LAST, len(log) // 10) :]])),
                constant_loss=constant_loss(self.rows, self.task.kind),
            )
        self.why = ranks.agree(why)
        return not self.why

    def rose(self, losses: Sequence[float]) -> bool:
        """Return True if the rate was too high of a run that began with these weights, by the losses of its steps: over
        some tenth of the steps the mean lies clearly above the loss at the start and above that of the best constant
        outputs, by RISE times the higher of the two and by ERRORS standard errors.

        At a rate that is too low the loss stays level or falls. The weights have to be those of the start.
        """
        some = self.rows.take(np.unique(np.linspace(0, len(self.rows) - 1, STARTING).astype(np.int64)))
        _, start = task_loss.outputs_and_loss(self.measured, some, self.labels)
        constant = constant_loss(self.rows, self.task.kind)
        level = max(start, constant) if math.isfinite(constant) else start
        size = min(max(LAST, len(losses) // 10), len(losses))
        if size < 2:
            return False  # in all processes, which read the same log
        parts = [np.array(losses[at : at + size]) for at in range(0, len(losses) - size + 1, size)]
        rises = [part.mean() - level > max(RISE * level, ERRORS * part.std(ddof=1) / math.sqrt(size)) for part in parts]
        return bool(ranks.agree(any(rises)))


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
            f"the head of a '{classifier.config.model_type}' has more than one layer, so a linear layer on the "
            "frozen encoder cannot replace it. Remove this contestant from contestants"
        )
    return write_checkpoint(out, classifier, tokenizer, recipe, sources)


def _loaded(
    recipe: FinetuneRecipe, pooling: Pooling, task: Prepared, labels: Sequence[str], watch: Watch
) -> PreTrainedModel:
    has_dropout = dropout_known(recipe.model)
    if not has_dropout:
        note = "dropout of this family cannot be set, so it is unchanged"
        watch(Progress("fine-tune", 0, 0, "steps", {"note": note}))
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
        transitions_rate=recipe.tag_transitions_rate,
    )


def _inputs(recipe: FinetuneRecipe) -> tuple[Prepared, dict[str, str]]:
    """Return the task, and hashes of all that the run reads."""
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    task = open_prepared(recipe.task)
    check_task(recipe, task)
    return task, {name: task.hashes[name] for name in ("about", "train", "dev")} | {"model": identity(recipe.model)}


def check_task(recipe: FinetuneRecipe, task: Prepared) -> None:
    """Raises ValueError where the task's texts are longer than the model can take, by the model's config, and for a
    search task, which a race fine-tunes otherwise (methods/ranking/search.py).
    """
    if task.kind == "search":
        raise ValueError(f"{task.name} is a search task. Race its folder: acclimate race FOLDER")
    longest = longest_input(recipe.model)
    if longest is not None and task.max_tokens > longest:
        raise ValueError(
            f"{task.name} has examples of up to {task.max_tokens} tokens, but {recipe.model} reads at most {longest}. "
            f"Prepare it with max_tokens={longest}"
        )
    if recipe.lora_rank:
        require_peft()


def test_ensemble(checkpoints: Sequence[Checkpoint], task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """As `test`, and the score on dev as `dev`, for the mean label probabilities of several fine-tuned models.

    Ke et al. (2022), DGA, Table 3, the row "Ensemble (LM+MLM)": end-task fine-tuning of the untouched model and of the
    one that MLM adapted, "concatenating their outputs and taking the average". We fine-tune the models separately, and
    average the probabilities of the labels.

    Raises ValueError where a checkpoint was fine-tuned for another task, and for a task that has not one label a row.
    """
    if task.kind != "sequence":
        raise ValueError(f"an ensemble needs one label per row, but {task.name} is of kind '{task.kind}'")
    splits: tuple[Split, ...] = ("dev", "test")
    means: dict[Split, np.ndarray] = {}
    for checkpoint in checkpoints:
        model, tokenizer, labels = load_tested(checkpoint, task)
        for split in splits:
            spans = SPANS[pooling_of(model.config)]
            rows = encoded(task, split, task.examples(split), tokenizer, spans=spans)
            places = [labels.index(name) for name in task.labels]
            found_BC = task_loss.probabilities(model, rows, labels, watch=watch)[:, places]
            means[split] = means.get(split, 0.0) + found_BC / len(checkpoints)
    on_dev, on_test = ([task.labels[int(code)] for code in means[split].argmax(-1)] for split in splits)
    dev = task.score([example.label for example in task.examples("dev")], on_dev)
    return {**task.open_and_score(task.examples("test"), on_test, by=by), "dev": dev}
