"""What a race is planned with of methods/scratch.py: its settings, and its value of `Method`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal, Protocol

from acclimate.core.door import option
from acclimate.core.settings import AboveZero, Count, Dropout, Positive, Range, check_ranges
from acclimate.methods.method import Method, deferred
from acclimate.methods.recipes.adversarial import Radius, SearchReading, StepSize
from acclimate.methods.recipes.mlm import Epochs, Length, Share
from acclimate.models.configuration import Architecture, Shape, Size, shape_of
from acclimate.text.vocabulary import VocabularyKind
from acclimate.training.plan import Plan

MOST_MASKED = 0.6  # mean of a rising masking rate, which ends at five thirds of it
OF_VOCABULARY = ("vocabulary", "lower", "kind")  # settings of a vocabulary that is learnt
OF_SHAPE = ("size", "layers", "hidden", "heads", "architecture")  # settings of an encoder with random weights
OF_ADVERSARY = ("adversarial_step", "adversarial_radius", "adversarial_reading")
OF_RACE = (  # settings that a race decides: what it pretrains on, and for how long
    "corpus", "general", "general_share", "dev", "tokenizer", "model", "tokens", "long_share", "least_words",
    "adversarial",
)  # fmt: skip
CONTROL = "random weights"  # the name of `untrained` in a race
Layers = Annotated[int, Range(least=1, most=1000)]
Heads = Annotated[int, Range(least=1, most=1024)]
Hidden = Annotated[int, Range(least=1, most=1 << 16)]


@dataclass(frozen=True)
class ScratchRecipe:
    """A BERT from nothing. The defaults are those of PubMedBERT (section 6.1): BERT-base, 62,500 steps of 8,192
    sequences; but for `least_words` and `next_sentence`, which are 128 and true in the paper.
    """

    # the text
    corpus: Path = Path()  # texts to pretrain on: raw text on the command line, or a prepared corpus; needed
    general: Path = Path()  # a second text to mix in, given as for `corpus`
    general_share: Annotated[float | None, Range(above=0, below=1)] = None
    """Share of rows from `general`, between 0 and 1; None: in proportion to the texts."""
    least_words: Count = 0  # documents with fewer words are not used; the paper: 128
    dev: Path = Path()  # held-out text in the form of `corpus`; its loss is written to `curve.json`
    looks: Annotated[int, Range(least=1)] = 20
    """Number of times that the loss on dev is measured, at least 1, evenly spaced, the last one at the end."""

    # the vocabulary
    tokenizer: str = ""  # directory or hub id whose vocabulary is used; "": learn one from the text
    vocabulary: Positive = 30_522  # largest number of pieces if a vocabulary is learned; BERT: 30,522
    lower: bool = True  # lower-case and drop accents, where the vocabulary is learnt; the paper: true
    kind: VocabularyKind = "wordpiece"  # kind of vocabulary that is learnt; the paper: wordpiece

    # the encoder
    model: str = ""
    """Checkpoint to continue from, including its vocabulary (the paper's mixed domain); "": random weights."""
    architecture: Architecture = "bert"  # family of the new encoder
    size: Size = ""  # a name for layers, hidden and heads together
    layers: Layers | None = None  # layers of the new encoder; None: 12, or those of `size`
    hidden: Hidden | None = None  # width of the new encoder, a multiple of `heads`; None: 768, or that of `size`
    heads: Heads | None = None  # attention heads of a layer; None: 12, or those of `size`
    initializer_range: AboveZero = 0.02  # deviation of the random weights; BERT: .02; about 1/sqrt(`hidden`) if narrow
    dropout: Dropout = 0.1  # dropout of hidden states, 0 to 1; BERT: .1
    attention_dropout: Dropout = 0.1  # dropout of attention, 0 to 1; BERT: .1

    # the rows
    max_tokens: Length = 128  # longest sequence in tokens, special ones included, in the first phase of training
    long_tokens: Length = 512  # longest sequence in tokens, special ones included, in the second phase
    long_share: Annotated[float, Range(least=0, below=1)] = 0.0
    """Share of the steps in the second phase, at the end, below 1; 0: no second phase."""
    masking: Share = 0.15  # share of the tokens that are predicted, above 0 and at most 1; the paper: .15
    masking_schedule: Literal["constant", "steps"] = "constant"
    """`"steps"`: a third of `masking` in the first fifth of the steps, and as much more in each further one."""
    whole_words: bool = True
    """True: a word is masked with all its tokens or not at all, as in the paper, unless its row has too few words that
    fit `masking`; false: tokens one by one."""
    next_sentence: bool = False  # add next-sentence prediction, on pairs of passages half of which follow one another

    # the length of the run: one of epochs, tokens and plan.steps
    epochs: Epochs = 0.0  # passes over the corpus; 0: tokens or plan.steps set the length
    tokens: Count = 0  # number of tokens in all, special ones included; 0: epochs or plan.steps set the length
    plan: Plan = field(default_factory=lambda: Plan(steps=62_500, batch=8_192, rate=6e-4, warmup=0.1))
    """Steps, batch, rate, precision; the paper: 62,500 steps of 8,192 sequences at 6e-4, 10% warm-up"""

    # adversarial pretraining (Table 9)
    adversarial: Annotated[float, Range(least=0)] = 0.0  # weight of the adversarial loss, at least 0; 0: none; ALUM: 10
    adversarial_step: StepSize = 1e-3  # length of a step of the search for the perturbation, above 0; ALUM: 1e-3
    adversarial_radius: Radius = 0.0
    """Largest change of a number of the input; 0: 1e-5 (hardly any change), or 1 for the released reading."""
    adversarial_reading: SearchReading = "paper"
    """What is perturbed and how: as the "paper" describes it, or as the "released" code does it."""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_reading(self, general=self.general != Path())
        _ = self.shape
        if self.model:
            why = f"model = {self.model!r} already has weights and a vocabulary"
            _require_default(self, ("tokenizer", *OF_SHAPE, "initializer_range", *OF_VOCABULARY), why)
        if self.tokenizer:
            _require_default(self, OF_VOCABULARY, f"tokenizer = {self.tokenizer!r} is a finished vocabulary")
        if not self.adversarial:
            _require_default(self, OF_ADVERSARY, "adversarial = 0")
        if self.next_sentence and (self.architecture != "bert" or self.kind == "bpe"):
            raise ValueError(
                "next_sentence = true needs token types, which modernbert and vocabularies of kind bpe lack. Set "
                "next_sentence=false"
            )
        if self.next_sentence and self.adversarial:
            raise ValueError(
                "next_sentence and adversarial cannot be combined. Set next_sentence=false, or adversarial=0"
            )

    @property
    def shape(self) -> Shape:
        return shape_of(self.size, self.architecture, layers=self.layers, hidden=self.hidden, heads=self.heads)


def _require_default(recipe: ScratchRecipe, names: Sequence[str], why: str) -> None:
    """Raises ValueError if one of these settings was changed, because it would have no effect."""
    defaults = {field.name: field.default for field in fields(recipe)}
    for name in names:
        if (value := getattr(recipe, name)) != defaults[name]:
            raise ValueError(f"{name} = {value!r} does nothing: {why}. Remove {name} or the other setting")


class Settings(Protocol):
    """A recipe with settings of the rows and of the length of the run."""

    @property
    def max_tokens(self) -> int: ...
    @property
    def masking(self) -> float: ...
    @property
    def masking_schedule(self) -> str: ...
    @property
    def whole_words(self) -> bool: ...
    @property
    def epochs(self) -> float: ...
    @property
    def tokens(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def general_share(self) -> float | None: ...
    @property
    def next_sentence(self) -> bool: ...
    @property
    def long_tokens(self) -> int: ...
    @property
    def long_share(self) -> float: ...


def check_reading(recipe: Settings, *, general: bool) -> None:
    """Raises ValueError for settings that contradict each other. general: True if it is given."""
    share = recipe.general_share
    if recipe.tokens and recipe.epochs:
        raise ValueError(
            f"epochs = {recipe.epochs} and tokens = {recipe.tokens} both set the length of the run. Set one of "
            "them to 0"
        )
    if share is not None and not general:
        raise ValueError(f"general_share = {share}, but there is no general text. Add general=TEXTS, or remove it")
    if recipe.long_share and recipe.long_tokens <= recipe.max_tokens:
        raise ValueError(
            f"long_tokens = {recipe.long_tokens} of the second phase must exceed max_tokens = {recipe.max_tokens} "
            "of the first. Raise long_tokens, or set long_share=0"
        )
    if recipe.masking_schedule == "steps" and recipe.masking > MOST_MASKED:
        raise ValueError(
            f"masking = {recipe.masking} rises to five thirds of this value, which exceeds all tokens. Set at most "
            f'{MOST_MASKED}, or masking_schedule="constant"'
        )
    for name, default in (("long_share", 0), ("masking_schedule", "constant")):
        if (value := getattr(recipe, name)) != default and recipe.plan.schedule != "linear":
            raise ValueError(
                f"plan.schedule = '{recipe.plan.schedule}' allows runs to be extended, but {name} = {value!r} "
                f'depends on the number of steps. Remove {name}, or set plan.schedule="linear"'
            )


def positions(recipe: ScratchRecipe) -> int:
    """Return the number of positions of the encoder: the longest row that it can take, in tokens."""
    return max(512, recipe.max_tokens, recipe.long_tokens if recipe.long_share else 0)


def check_raced(pretrain: ScratchRecipe) -> None:
    """Raises ValueError for settings that a race decides, or that a budget cannot cut."""
    for setting in [setting for setting in fields(pretrain) if setting.name in OF_RACE]:
        if (value := getattr(pretrain, setting.name)) != setting.default:
            raise ValueError(
                f"pretrain.{setting.name} = {str(value)!r} is not available in a race, which pretrains only on "
                f"{option('general')}, for pretrain.plan.steps or pretrain.epochs. Remove it, or pretrain with "
                f"`acclimate adapt scratch {setting.name}=...` and race with {option('model')}"
            )


# a small encoder on a few million characters of text
SMALL = ScratchRecipe(
    vocabulary=4_000,
    layers=2,
    hidden=128,
    heads=2,
    masking=0.3,  # more to learn from a token: with .15 so few tokens teach little more than words' frequencies
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.08,  # about 1 / sqrt(hidden); BERT's .02 keeps so narrow a model from learning for long
    plan=Plan(steps=900, batch=24, rate=3e-3, warmup=0.1),
)
METHOD = Method(
    "scratch", ScratchRecipe, deferred("acclimate.methods.scratch", "adapt"), starts=lambda recipe: bool(recipe.model)
)
