"""Fine-tune an encoder on a labelled task: choose on dev, test once.

Devlin et al. (2019), section 4; BLURB's settings (Gu et al., 2021, section 6.2): a linear classifier on the encoder,
all weights trained, slanted triangular rate with 10% warm-up, dropout .1, the best of several looks at dev. The loss
(methods/task_loss.py) is the mean over the rows of the cross entropy of the label; of the binary cross entropy of each
label where a row may have several; of the squared error of a number; over words, of the cross entropy of the tag
at a word's first piece (Devlin et al., section 5.3); or, over both ends of an answer, of the cross entropy of the token
at which it stands (section 4.2).

Readings
  How often to look at dev is not stated: `looks` times, evenly spaced, the last one at the end; the earliest best wins.
  The head is drawn anew, also where the model is a fine-tuned checkpoint: of that the encoder is taken, the pooler
  not. head = "kept" goes on with the checkpoint's own head and pooler (models/kept_head.py): of another dataset of the
  same kind, as Nishida et al. (2021) train on SQuAD and then on BioASQ.
  A number is learnt in standard deviations of the training examples, so that the same rates suit any unit. The unit is
  folded into the last layer of the checkpoint, and into every look at dev.
  A sentence of tagged words that is longer than max_tokens is read in windows that overlap (tasks/rows.py), in training
  and after it: every word is learnt and predicted once. So is a context of a question (tasks/spans.py), whose answers
  are the best of all its windows. An epoch has as many rows as there are sentences or questions.
  Of a relation (tasks/relations.py) "mentions" and "starts" are the encodings of Gu et al., Table 12; a mention that
  max_tokens cut off is read as the first token, and the number of such training rows is told. Special tokens are new
  rows of the embeddings, drawn with the seed.
  A word of which the tokenizer leaves no piece (a zero-width space) is predicted to be O, and learnt by nobody.
  tag_layer, sequence_layer and tag_scheme are the choices of Gu et al., Tables 10 and 11, who state no more of the LSTM
  than that it is one in both directions: ours reads all tokens of the row, is as wide as the encoder, both directions
  together, and has the linear layer's dropout behind it. Of a text that is read at its first token it stands in that
  token's place with the state of each direction once it has read the whole row (models/pooling.py).
  head_rate is no setting of the papers: a small encoder with few rows needs it (docs/methods/finetune.md).
  A CRF (models/crf.py) starts with transitions of 0 and learns them at tag_transitions_rate times the plan's rate. It
  is trained on rows, and predicts whole sentences: a window scores no start or end that is not the sentence's.
  With tag_scheme, training tags are written in that scheme, and predictions in the task's own again, before anything is
  scored. In IO, entities of one type that touch become one, and stay one.
  smart adds the smoothness of Jiang et al. (2020) to the loss (methods/smart_loss.py).
Deviations
  Dev and test are scored in float32 whatever the training precision, so that the checkpoint, loaded by anybody,
  predicts what was scored.
  Of a span, padding has no part in the softmax over a row's tokens, as it has in BERT's released code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files, ranks
from acclimate.core.recorded import check_may_work
from acclimate.core.types import Checkpoint, Cost, Score, Watch, unwatched
from acclimate.methods.looks import DEV, dev_score, drop_best
from acclimate.methods.mlm import check_length, with_steps
from acclimate.methods.smart_loss import check_smart
from acclimate.methods.tag_schemes import Tagging, as_given, learnable, trained_labels
from acclimate.methods.task_loss import allowed_transitions, predict
from acclimate.methods.tuning import SPANS, Tuning
from acclimate.models.classifier import kind_of, labels_of, load_finetuned
from acclimate.models.encoder import load_tokenizer, longest_input
from acclimate.models.loading import identity
from acclimate.models.pooling import Pooling, SequenceLayer, pooling_of
from acclimate.models.scale import folded
from acclimate.models.taggers import CRF_LAYERS, Layer, Transitions
from acclimate.tasks.encoded import encoded
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.training.checkpoint import finish, spent
from acclimate.training.plan import Plan, device
from acclimate.training.run import finished, write_checkpoint

BEGUN = "begun.json"  # {steps: the best dev score by then} of a run that was stopped to be compared


@dataclass(frozen=True)
class Recipe:
    """Fine-tuning. Rate, batch and epochs within BLURB's search range (1e-5 to 5e-5, 16 or 32, 2 to 60)."""

    model: str = ""  # a local directory or a hub id
    task: Path = Path()  # a directory that tasks.prepared.prepare wrote
    choose: Literal["best", "last"] = "best"  # the best look at dev, or the last step
    looks: int = 10
    dropout: float = 0.1  # of hidden states and before the output layer
    attention_dropout: float | None = None
    head: Literal["fresh", "kept"] = "fresh"  # kept: that of the fine-tuned checkpoint which the model then must be
    head_rate: float = 1.0  # of the head's weights, a pooler included but no CRF, in multiples of the plan's rate
    pooling: Pooling = "first"  # what the classifier reads of a relation's text: its first token, or its two mentions
    sequence_layer: SequenceLayer = "linear"  # of labels of whole texts: what stands between encoder and classifier
    special_tokens: tuple[str, ...] = ()  # strings that the tokenizer keeps whole, such as markers around mentions
    tag_layer: Layer = "linear"  # of a task of tagged words: what stands between the encoder and the tags
    tag_transitions: Transitions = "any"  # which tags a CRF may predict after which: any, or those of the scheme
    tag_transitions_rate: float = 1.0  # of a CRF's own weights, in multiples of the plan's rate
    tag_scheme: Tagging = "given"  # how entities are tagged in training
    smart: float = 0.0  # lambda_s, the weight of SMART's regulariser (1, 3 and 5 are tried there); 0: none
    smart_step: float = 1e-3  # eta, of the ascent
    smart_noise: float = 1e-5  # sigma, where the ascent starts
    smart_radius: float = 1e-5  # epsilon, the most that a number of a word's embedding is changed by
    smart_ascents: int = 1
    epochs: float = 10.0  # 0: plan.steps counts
    plan: Plan = field(default_factory=lambda: Plan(batch=32, rate=3e-5, warmup=0.1))

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


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Fine-tune and write `out/checkpoint`, the dev score of each look to `out/dev.json`, and what the checkpoint
    predicts for dev to `out/predicted_dev.json`. Never opens the test set.

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


def begin(recipe: Recipe, out: Path, share: float, *, watch: Watch = unwatched) -> float:
    """Train the first `share` of the steps in `out` and stop there: the best dev score so far.

    `adapt` goes on in the same directory and ends as if it had never stopped, so nothing is paid for twice;
    `give_up` drops what it needs for that. Where the run went past the share before, the score is that of its looks up
    to there.
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
    before = [*tuning.seen.scores.items(), *((int(step), score) for step, score in scores.items())]
    best = ranks.agree(max([now, *(score for step, score in before if step <= steps)]))
    if ranks.is_first():
        files.write_json(out / BEGUN, {**scores, str(steps): best})
    ranks.wait()
    return best


def give_up(out: Path) -> None:
    """Drop what a run that began would have gone on from: its log and its scores stay."""
    drop_best(out)
    finish(out)


def steps_of(recipe: Recipe, task: Prepared, share: float = 1.0) -> int:
    """How many steps a share of the run takes. Raises ValueError for a share that is not above 0 and at most 1."""
    if not 0 < share <= 1:
        raise ValueError(f"share = {share} is out of range: above 0, and at most 1")
    return max(1, round(share * with_steps(recipe.plan, recipe.epochs, task.sizes["train"]).steps))


def _inputs(recipe: Recipe) -> tuple[Prepared, dict[str, str]]:
    """The task, and hashes of all that a run reads."""
    if not recipe.model:
        raise ValueError("no model given. Add model=PATH or model=HUB_ID")
    task = open_prepared(recipe.task)
    check_task(recipe, task)
    return task, {name: task.hashes[name] for name in ("about", "train", "dev")} | {"model": identity(recipe.model)}


def check_task(recipe: Recipe, task: Prepared) -> None:
    """Raises ValueError for what the model's config and the task's labels already tell: that the model reads no texts
    as long as the task's, or that a CRF's transitions follow a scheme which the tags have not."""
    longest = longest_input(recipe.model)
    if longest is not None and task.max_tokens > longest:
        raise ValueError(
            f"{task.name} has examples of up to {task.max_tokens} tokens, but {recipe.model} reads at most {longest}. "
            f"Prepare it with max_tokens={longest}"
        )
    if recipe.tag_transitions == "scheme":
        allowed_transitions(trained_labels(task, recipe.tag_scheme))


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
    """A fine-tuned model where it is to predict, its tokenizer and labels.

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
