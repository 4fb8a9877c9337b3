"""What a race is planned with of methods/finetune.py: its settings, and its value of `Method`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from acclimate.core.figures import listed
from acclimate.core.settings import AboveZero, Count, Dropout, Positive, Range, check_ranges
from acclimate.core.steps import finetuning_steps
from acclimate.core.types import Example
from acclimate.methods.method import Method, deferred
from acclimate.methods.recipes.mlm import Epochs, check_length
from acclimate.models.families import LoraLayers
from acclimate.models.formats import CRF_LAYERS, OF_MENTIONS, OutputLayer, Pooling, SequenceLayer
from acclimate.tasks.constant import constant_on_dev
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import Scheme
from acclimate.tasks.thresholds import Threshold, reached_by_shares
from acclimate.training.plan import Plan

Tagging = Literal["given", Scheme]  # how entities are tagged in training: as the task has it, or in a scheme

OF_TAGS = ("tag_layer", "tag_transitions_rate", "tag_scheme")  # settings for tagged words alone
OF_SEARCH = ("model", "task", "preset", "choose", "plan", "epochs", "least_steps", "most_epochs", "rate_by_width")
OF_TEXTS = ("sequence_layer", "pooler")  # settings for labels of whole texts alone
WIDTH = 768  # dimensions of the encoder whose rate `rate_by_width` states
SPARED = 0.25  # of dev at least, or a look reads all of it


@dataclass(frozen=True)
class FinetuneRecipe:
    """Fine-tuning. The defaults of this class are the preset "robust". PAPERS, below, is the other preset: rate, batch
    and epochs within BLURB's search range (1e-5 to 5e-5, 16 or 32, 2 to 60).
    """

    # Mosbach et al. (2021, 2006.04884): small rates, a warm-up, many epochs. Zhang et al. (2021, 2006.05987): few rows
    # need more steps. Kumar et al. (2022, 2202.10054): a head that begins as a probe keeps what the encoder knows.

    presets: ClassVar[Mapping[str, FinetuneRecipe]] = {}  # filled below
    besides: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "epochs": {"least_steps": 0, "most_epochs": 0.0},
        "plan.rate": {"rate_by_width": False},
    }
    inputs: ClassVar[tuple[str, ...]] = ("model", "task")  # what no preset changes

    # what is fine-tuned, and on what
    model: str = ""  # checkpoint to start from: a local directory or a hub id
    task: Path = Path()  # the labelled data: a directory written by `acclimate data prepare`

    # how it is trained
    preset: Literal["papers", "robust"] = "robust"
    """Defaults of the settings below. "robust": chosen by measurements on train and dev, for encoders of any size and
    for few rows. "papers": as the five papers fine-tune. Your settings override them."""
    epochs: Epochs = 10.0
    """Passes over the training rows; 0: plan.steps sets the length. If you set it, least_steps and most_epochs become
    0 unless you set them too, in the same file or command. BLURB: 2 to 60."""
    plan: Plan = field(default_factory=lambda: Plan(batch=16, rate=3e-5, warmup=0.1))
    """Steps, batch, rate, precision; BLURB: batches of 16 or 32 at 1e-5, 3e-5 or 5e-5, 10% warm-up. A rate that you
    set is not scaled: it sets rate_by_width=false, unless you set that too."""
    rate_by_width: bool = True
    """Whether plan.rate is the rate of an encoder of 768 dimensions: an encoder of D dimensions then uses (768 / D)^2
    times that rate. search.rates are not scaled."""
    layer_decay: Annotated[float, Range(least=0, most=1)] = 0.0
    """Rate of each layer in multiples of the rate of the layer above it, above 0 and at most 1; the embeddings are the
    lowest layer. 0: 0.9 for an encoder of 12 layers or more, 1 for others."""
    least_steps: Count = 500  # number of steps at least, where `epochs` gives fewer
    most_epochs: Epochs = 60.0
    """Number of passes over the training rows at most, whatever `least_steps` says; 0: no limit."""
    patience: Count = 6
    """Number of looks in a row without a better dev score after which training stops; 0: it never stops early."""
    dropout: Dropout = 0.1  # dropout of hidden states and before the output layer, 0 to 1; BLURB: .1
    attention_dropout: Dropout | None = None  # dropout of attention, 0 to 1; None: as in the model's configuration

    # which weights become the checkpoint
    looks: Positive = 20  # number of times that dev is scored, at least 1, evenly spaced, the last one at the end
    dev_sample: Count = 1000
    """Number of examples in each evaluation on dev, if dev is larger by at least a third; if train has more rows,
    their number. 0: all of dev. The chosen weights are always scored on all of dev."""
    choose: Literal["best", "last"] = "best"
    """Which weights are kept: those of the best evaluation on dev, or of the last step."""
    retry: bool = True
    """Repeat a run that failed to learn, with twice the steps: at a third of the rate if its training loss rose or
    became infinite, else at three times the rate."""
    averaged: Positive = 3
    """Number of best evaluations whose weights are averaged."""

    # the head
    head: Literal["fresh", "probe", "kept"] = "probe"
    """"fresh": a new head with random weights. "probe": a new head that starts as the linear layer that a probe fits on
    the frozen encoder; where no probe exists (spans, CRFs, LSTMs, MLPs), random weights that learn ten times as fast.
    "kept": the head of the fine-tuned checkpoint that `model` names."""
    head_rate: AboveZero = 1.0  # learning rate of the head and pooler in multiples of plan.rate, above 0; not of a CRF
    special_tokens: tuple[str, ...] = ()  # strings that the tokenizer keeps whole, such as markers around mentions

    # LoRA (Hu et al., 2021)
    lora_rank: Count = 0
    """Rank of the low-rank adapters through which the encoder is trained, r; 0: all its weights are trained. The head
    is trained in full. It needs the package peft (`pip install acclimate[lora]`) and higher rates than full training.
    """
    lora_alpha: AboveZero = 16.0  # the adapters' product is multiplied by lora_alpha / lora_rank
    lora_dropout: Dropout = 0.0  # dropout before the adapters, 0 to 1
    lora_layers: LoraLayers = "attention"
    """Which linear layers have adapters: those of "attention", or "all", those of the feed-forward part included."""

    # the head of whole texts
    pooling: Literal[Pooling, "auto"] = "auto"
    """What the output layer reads of a text. "pooler": the first token through the family's layers, as transformers
    has it. "first": the state of the first token. "mean": the mean state of all tokens. "mentions" and "starts": the
    states of the two mentions of a relation (Table 12), of "mentions" the largest value of each dimension, of
    "mentions-mean" their mean. "pair": of a pair of texts the mean of each, u and v, with |u - v| and u v. "auto": what
    a probe reads best on the training rows."""
    pooler: Literal["fresh", "kept"] = "kept"
    """Whether a trained pooler of the checkpoint (as next sentence prediction leaves one) is kept or drawn anew."""
    sequence_layer: SequenceLayer = "linear"
    """Layer between the encoder and the labels of whole texts: linear, LSTM (Table 10), or MLP: a dense layer and
    tanh before the linear one. An LSTM or MLP replaces a pooler: pooling "pooler" then acts like "first"."""
    threshold: Threshold = "dev"
    """What is predicted from the outputs. "half": the most probable class; for several labels, each above 0.5. "dev":
    the rule that scores best on dev: one number for all rare classes (logit adjustment), or one threshold for all
    labels. It is stored in the biases of the checkpoint, so transformers predicts the same. It has no effect if the
    metric is accuracy."""

    # the head of texts with several labels each
    base_rates: bool = True
    """Whether the biases of a random head start at the label frequencies in the training rows instead of 0. A head
    that starts as a probe always has them."""

    # the head of tagged words
    tag_layer: OutputLayer = "linear"  # layer between the encoder and the tags of words: linear, LSTM or CRF (Table 10)
    tag_transitions_rate: AboveZero = 1.0  # learning rate of the CRF's weights in multiples of plan.rate, above 0
    tag_scheme: Tagging = "given"
    """How entities are tagged in training (Table 11); predictions are scored in the scheme of the data."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_length(self.epochs, self.plan)
        if 0 < self.most_epochs < self.epochs:
            raise ValueError(
                f"most_epochs = {self.most_epochs:g} is out of range. Set at least epochs = {self.epochs:g}, or "
                "0 for no limit"
            )
        if self.averaged > 1 and self.choose == "last":
            raise ValueError(
                f"averaged = {self.averaged} averages the best checkpoints, but choose is 'last'. Set "
                "averaged=1, or choose=best"
            )
        if self.tag_transitions_rate != 1.0 and self.tag_layer not in CRF_LAYERS:
            raise ValueError(
                f"tag_transitions_rate = {self.tag_transitions_rate} is for a CRF, but tag_layer is "
                f"'{self.tag_layer}'. Set tag_layer to {' or '.join(CRF_LAYERS)}, or remove tag_transitions_rate"
            )
        for name, without in (("lora_alpha", 16.0), ("lora_dropout", 0.0), ("lora_layers", "attention")):
            if getattr(self, name) != without and not self.lora_rank:
                raise ValueError(
                    f"{name} = {getattr(self, name)!r} is for LoRA, but lora_rank is 0. Set lora_rank to 8, or "
                    f"remove {name}"
                )
        if self.lora_rank and self.special_tokens:
            raise ValueError(
                f"special_tokens = {list(self.special_tokens)} adds rows to the embeddings, which LoRA does not "
                "train. Set lora_rank=0, or remove special_tokens"
            )


PAPERS = FinetuneRecipe(
    preset="papers",
    epochs=10.0,
    least_steps=0,
    most_epochs=0.0,
    plan=Plan(batch=32, rate=3e-5, warmup=0.1),
    rate_by_width=False,
    layer_decay=1.0,
    patience=0,
    looks=10,
    dev_sample=0,
    retry=False,
    averaged=1,
    head="fresh",
    pooling="pooler",
    pooler="fresh",
    base_rates=False,
    threshold="half",
)
FinetuneRecipe.presets = MappingProxyType({"robust": FinetuneRecipe(), "papers": PAPERS})


def looked_at(recipe: FinetuneRecipe, task: Prepared) -> int:
    """Return the number of dev examples that a look reads: all, unless a sample spares a share SPARED of them."""
    train, dev = task.sizes["train"], task.sizes["dev"]
    size = max(recipe.dev_sample, train) if recipe.dev_sample else dev
    return size if size <= (1 - SPARED) * dev else dev


def dev_sample_of(recipe: FinetuneRecipe, task: Prepared) -> list[Example]:
    """Return the dev examples that a look reads, the same ones for all contestants and seeds."""
    dev, size = [*task.examples("dev")], looked_at(recipe, task)
    if size == len(dev):
        return dev
    return [dev[int(place)] for place in np.sort(np.random.default_rng(0).choice(len(dev), size, replace=False))]


def without_reading(recipe: FinetuneRecipe, task: Prepared, examples: Sequence[Example]) -> float:
    """Return the score on examples of dev that a model reaches which has learnt nothing of the texts: that of the best
    constant answer, or of the classes' shares where dev decides what is predicted from them.
    """
    constant = constant_on_dev(task, examples)
    if recipe.threshold == "dev" and task.kind == "sequence" and task.has_threshold:
        return max(constant, reached_by_shares(task, examples))
    return constant


def plan_of(recipe: FinetuneRecipe, rows: int, width: int) -> Plan:
    """Return the plan with its steps and its rate. rows: for training; width: dimensions of the encoder."""
    return replace(recipe.plan, steps=finetuning_steps(recipe, rows), rate=rate_of(recipe, width))


def rate_of(recipe: FinetuneRecipe, width: int) -> float:
    """Return the peak learning rate of an encoder of `width` dimensions."""
    return recipe.plan.rate * (WIDTH / width) ** 2 if recipe.rate_by_width else recipe.plan.rate


def rates_text(recipes: Sequence[FinetuneRecipe], width: int) -> str:
    """Return the peak rates as text, with their scaling by width if there is any."""
    recipe_rates = [*dict.fromkeys(f"{recipe.plan.rate:g}" for recipe in recipes)]
    peak_rates = [*dict.fromkeys(f"{rate_of(recipe, width):.3g}" for recipe in recipes)]
    if not any(recipe.rate_by_width for recipe in recipes) or width == WIDTH:
        peak_rates = recipe_rates
    scaling = f", which is {listed(recipe_rates)} times ({WIDTH} / {width})\N{SUPERSCRIPT TWO}"
    return f"peak rate{'s' * (len(peak_rates) > 1)} {listed(peak_rates)}{scaling * (peak_rates != recipe_rates)}"


def without_idle_settings(recipe: FinetuneRecipe, task: Prepared) -> FinetuneRecipe:
    """Return the recipe, with settings that have no effect on the task as the preset has them; for tasks that share one
    recipe.
    """
    default = FinetuneRecipe.presets[recipe.preset]
    return replace(recipe, **{name: getattr(default, name) for name in _idle(recipe, task)})


def check_heeded(recipe: FinetuneRecipe, tasks: Sequence[Prepared]) -> None:
    """Raises ValueError for a setting that was changed but has no effect on any of the tasks."""
    default = FinetuneRecipe.presets[recipe.preset]
    for name in sorted(set.intersection(*(_idle(recipe, task) for task in tasks))):
        if (value := getattr(recipe, name)) != getattr(default, name):
            raise ValueError(
                f"finetune.{name} = {value!r} has no effect on {', '.join(task.name for task in tasks)}. Remove it"
            )


def _idle(recipe: FinetuneRecipe, task: Prepared) -> set[str]:
    """Return the names of the settings that have no effect on the task."""
    if task.kind == "search":
        return {setting.name for setting in fields(recipe)} - {*OF_SEARCH}
    of_words = task.kind in ("tokens", "span")
    idle = {"pooling"} if of_words else set()
    idle |= {"pooling"} if recipe.pooling in OF_MENTIONS and task.two_places != "mentions" else set()
    idle |= {"pooling"} if recipe.pooling == "pair" and task.two_places != "pair" else set()
    idle |= {*OF_TAGS} if task.kind != "tokens" else set()
    idle |= {"base_rates"} if task.kind != "multilabel" else set()
    idle |= {"threshold"} if not task.has_threshold else set()
    return idle | ({*OF_TEXTS} if of_words else set())


METHOD = Method("finetune", FinetuneRecipe, deferred("acclimate.methods.finetune", "adapt"))
