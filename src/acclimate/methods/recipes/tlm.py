"""What a race is planned with of methods/tlm.py: its settings, and its value of `Method`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from acclimate.core.settings import AboveZero, Count, Dropout, Positive, Range, check_ranges
from acclimate.methods.method import Contestant, Method, deferred
from acclimate.methods.recipes import finetune
from acclimate.methods.recipes.mlm import Length, Share
from acclimate.training.plan import Plan

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


WITHOUT_CORPUS: Mapping[str, Any] = {"rho_1": 0, "external_only": False}  # settings with which no corpus is read


@dataclass(frozen=True)
class TlmRecipe:
    """TLM. The defaults are BERT-base and the steps of the small scale (Table B.1; the rest as released)."""

    # the data
    task: Path = Path()
    """The labelled data (the paper's internal data): a directory written by `acclimate data prepare`."""
    corpus: Path = Path()
    """The retrieved text (the paper's external data): raw text or a prepared corpus; not used where rho_1 is 0."""
    k: Count = 0
    """Documents that are retrieved for each training text, the paper's K. A race and `study tlm` retrieve as many;
    `adapt tlm` refuses a corpus that `data retrieve` wrote with another k, or did not write. 0: not set; a race and
    the study use retrieval.k."""

    # the encoder
    model: str = ""  # checkpoint to start from, a directory or a hub id (Table 8); "": random weights, as in the paper
    tokenizer: str = ""  # directory or hub id whose vocabulary is used; "": learn one from corpus and task
    vocabulary: Positive = 30_522  # largest number of word pieces if a vocabulary is learned; BERT: 30,522
    lower: bool = True  # lower-case and drop accents, where the vocabulary is learnt
    layers: Positive = 12  # layers of the new encoder; BERT-base: 12
    hidden: Positive = 768  # width of the new encoder, a multiple of `heads`; BERT-base: 768
    heads: Positive = 12  # attention heads of a layer; BERT-base: 12
    initializer_range: AboveZero = 0.02  # deviation of the random weights; BERT: .02; about 1/sqrt(`hidden`) if narrow
    dropout: Dropout = 0.1  # dropout of hidden states, 0 to 1
    attention_dropout: Dropout = 0.1  # dropout of attention, 0 to 1

    # stage 1
    rho_1: Count = 99
    """Batches of retrieved text for each batch of the task; 0: the task's rows only; the paper: 1 to 999 by task."""
    rho_2: Annotated[float, Range(least=0)] = 20.0
    """Weight of masked language modelling on the task's rows, at least 0; the paper: 20, 100 or 1000 by task."""
    external_only: bool = False  # train only on retrieved text: the paper's rho_1 = infinity (Table 5)
    normalise: bool = False  # divide the loss of a batch of the task by rho_2 + 1, as the released code does
    max_tokens: Length = 128
    """Longest row of retrieved text in tokens; longer documents are cut into several rows, nothing is dropped."""
    internal_tokens: Annotated[int | None, Range(least=3)] = None
    """Tokens at which a row of the task is cut off; None: the task's max_tokens."""
    masking: Share = 0.15  # share of the tokens that are predicted, above 0 and at most 1; the paper: .15
    whole_words: bool = False
    """True: a word is masked with all its tokens or not at all, unless its row has too few words that fit `masking`;
    false: tokens are masked one by one."""
    plan: Plan = field(default_factory=lambda: Plan(steps=150_000, batch=256, rate=1e-4, warmup=0.0667))
    """Steps, batch, rate, precision of stage 1: 150,000 steps of 256 at 1e-4 in the paper's small scale"""

    # stage 2
    stage_2: bool = True
    """Fine-tune after stage 1. False: the checkpoint is the model and classifier of stage 1 (Table 7)."""
    finetune: finetune.FinetuneRecipe = field(
        default_factory=lambda: replace(
            finetune.PAPERS,
            looks=30,
            epochs=0.0,
            plan=Plan(steps=30_000, batch=32, rate=2e-5, warmup=0.1, weight_decay=0.0),
        )
    )  # settings of stage 2; model and task are filled in

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.model and self.tokenizer:
            raise ValueError("the model has its own tokenizer. Remove tokenizer or model")
        if self.external_only and not self.stage_2:
            raise ValueError("external_only trains no classifier in stage 1, so it needs stage 2. Set stage_2=true")

    @property
    def reads_corpus(self) -> bool:
        return any(getattr(self, name) != value for name, value in WITHOUT_CORPUS.items())

    @property
    def batches(self) -> tuple[int, int]:
        """External and internal batches of stage 1."""
        internal = 0 if self.external_only else self.plan.steps // (self.rho_1 + 1)
        return self.plan.steps - internal, internal


def unsuited(kind: str, config: PreTrainedConfig | None) -> str:
    """Return why TLM cannot race on a task of this kind: the joint loss has no head for it. "" if it can."""
    return f"does not support tasks of kind '{kind}'" if kind in ("span", "search") else ""


def raced(recipe: TlmRecipe) -> TlmRecipe:
    """Return the recipe of stage 1 alone: in a race, stage 2 is the fine-tuning that every contestant gets, and what is
    retrieved is a job before it.
    """
    return replace(recipe, k=0, stage_2=True, finetune=TlmRecipe().finetune)


_SMALL = TlmRecipe(
    vocabulary=4_000,
    layers=2,
    hidden=128,
    heads=2,
    masking=0.3,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.08,
    rho_1=3,
    normalise=True,
    plan=Plan(steps=500, batch=24, rate=3e-3, warmup=0.1),
)
METHOD = Method(
    name="tlm",
    recipe=TlmRecipe,
    adapt=deferred("acclimate.methods.tlm", "adapt"),
    contestants=(
        Contestant(
            "TLM",
            "general",
            small=_SMALL,
            usual=_SMALL,  # TLM starts from random weights there too
        ),
    ),
    unsuited=unsuited,
    starts=lambda recipe: bool(recipe.model),
    new_model=deferred("acclimate.methods.tlm", "new_model"),
    encoder=deferred("acclimate.methods.tlm", "train_jointly"),
    raced=raced,
    modelling="external",
    without_corpus=WITHOUT_CORPUS,
)
