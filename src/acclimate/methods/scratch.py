"""Pretrain an encoder from random weights, with a vocabulary learned from the same text; or go on with given weights.

Gu et al. (2021), "Domain-Specific Language Model Pretraining for Biomedical NLP" (PubMedBERT), sections 2, 3, 6.1 and
6.4: the vocabulary first, then masked language modelling with whole words masked. The loss is that of
`training.objective.MaskedLanguageLoss`, or with next-sentence prediction that of methods/next_sentence.py, or with
adversarial pretraining (Table 9) that of methods/adversarial.py.

Readings
  Sequence length is not stated in the paper; its cited code trains 90% of the steps on 128 tokens and the rest on 512.
  Here: all of them on 128, unless `long_share` says otherwise; both phases have batches of as many rows and one plan.
  A masking rate that rises has `masking` as its mean: .05 to .25 for .15 (section 2.3).
  Two texts make up every batch together, in the same shares; a vocabulary is learned from both.
  A word of `least_words` is what white space parts.
Deviations
  No next-sentence prediction unless `next_sentence` is set; the paper keeps it only to compare with earlier models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files, ranks
from acclimate.core.types import Checkpoint, Document, Progress, Stream, Watch, unwatched
from acclimate.methods import next_sentence
from acclimate.methods.adversarial import AdversarialLoss
from acclimate.methods.method import Method
from acclimate.methods.mlm import NO_HEAD, check_masked, with_steps
from acclimate.methods.perturbation import Perturbation
from acclimate.methods.perturbation import Reading as Search
from acclimate.models.encoder import (
    Architecture,
    Shape,
    Size,
    dropout_known,
    load_masked_language_model,
    load_tokenizer,
    new_configuration,
    new_encoder,
    random_twin,
    require_room,
    shape_of,
)
from acclimate.models.loading import head_drawn, identity
from acclimate.text.corpus import Corpus
from acclimate.text.masking import rising_rate
from acclimate.text.rows import Rows, masked_pairs, masked_segments
from acclimate.text.segments import long_documents
from acclimate.text.streams import evaluation_batches, even, in_turn, sampled, shares, side_by_side
from acclimate.text.vocabulary import Documents, Kind, train_tokenizer
from acclimate.training.checkpoint import finish
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.plan import Plan
from acclimate.training.run import LossCurve, finished, run, write_checkpoint

# -------------------- pretraining start
# What a run of `scratch` starts from and minimises: the model, the objective, the looks at held-out text.


STAGE = "pretrain"
DEV_SEGMENTS = 512  # of dev, drawn by a seed where there are more


def positions(recipe: ScratchRecipe) -> int:
    """How many tokens the encoder can read at once."""
    return max(512, recipe.max_tokens, recipe.long_tokens if recipe.long_share else 0)


def encoder_for(recipe: ScratchRecipe, tokenizer: PreTrainedTokenizerBase, *, vocabulary_size: int) -> PreTrainedModel:
    """With random weights, drawn under the plan's seed."""
    return new_encoder(
        **vars(recipe.shape),
        vocabulary_size=vocabulary_size,
        longest=positions(recipe),
        pad=tokenizer.pad_token_id,
        seed=recipe.plan.seed,
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        initializer_range=recipe.initializer_range,
        architecture=recipe.architecture,
        ends=(tokenizer.cls_token_id, tokenizer.sep_token_id),
    )


def model_of(recipe: ScratchRecipe, tokenizer: PreTrainedTokenizerBase, *, watch: Watch) -> PreTrainedModel:
    """What is trained, in place.

    Raises ValueError where a given one cannot be loaded, or reads fewer tokens than a row has.
    """
    if not recipe.model:
        return encoder_for(recipe, tokenizer, vocabulary_size=len(tokenizer))
    dropouts = {"hidden_dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    if not dropout_known(recipe.model):
        watch(Progress(STAGE, 0, 0, "steps", {"note": "a family whose dropout cannot be set: left as it is"}))
        dropouts = {}
    model = load_masked_language_model(recipe.model, **dropouts, seed=recipe.plan.seed)
    if head_drawn(model):
        watch(Progress(STAGE, 0, 0, "steps", {"note": f"{recipe.model} has {NO_HEAD}"}))
    rows = {"max_tokens": recipe.max_tokens} | ({"long_tokens": recipe.long_tokens} if recipe.long_share else {})
    for name, tokens in rows.items():
        require_room(model, tokens, name)
    return model


def objective_of(recipe: ScratchRecipe, model: PreTrainedModel, *, watch: Watch) -> Objective:
    """What is minimised. Raises ValueError where the model cannot be trained on pairs of texts."""
    if recipe.adversarial:
        return AdversarialLoss(
            model,
            weight=recipe.adversarial,
            step=recipe.adversarial_step,
            radius=recipe.adversarial_radius,
            reading=recipe.adversarial_reading,
        )
    if not recipe.next_sentence:
        return MaskedLanguageLoss(model)
    next_sentence.require_pairs(model)
    if not recipe.model:
        return next_sentence.NextSentenceLoss(model, next_sentence.new_head(model, seed=recipe.plan.seed))
    head, known = next_sentence.head_of(recipe.model, seed=recipe.plan.seed)
    if not known:
        told = f"{recipe.model} has no head for next sentences: one was drawn"
        watch(Progress(STAGE, 0, 0, "steps", {"note": told}))
    return next_sentence.NextSentenceLoss(model, head)


def curve_of(
    recipe: ScratchRecipe,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    plan: Plan,
    out: Path,
    *,
    watch: Watch,
) -> LossCurve | None:
    """Masked language modelling of dev, with whole words masked at 15% whatever the recipe masks, so that recipes of
    one vocabulary can be compared; None without dev.
    """
    if recipe.dev == Path():
        return None
    tokens = ranks.first_then_all(lambda: Corpus(recipe.dev).tokens(tokenizer, watch=watch))
    batches = evaluation_batches(tokens, batch=64, longest=recipe.max_tokens, seed=0, segments_at_most=DEV_SEGMENTS)
    return LossCurve(MaskedLanguageLoss(model), batches, plan, recipe.looks, out)


# -------------------- pretraining text
# What a run of `scratch` reads: one text or two, of which documents may be left out, in one phase or two.
#
# Nothing is written but `out/documents/`: a file for each text of which documents are left out, a byte a document.


DOCUMENTS = "documents"
MOST_MASKED = 0.6  # of a rate that rises


class Settings(Protocol):
    """What a recipe says of what is read, and how long."""

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


@dataclass(frozen=True, eq=False)
class Text:
    """A corpus, of which some documents take part: (D,) bool, None for all. name: of a document, before its number."""

    corpus: Corpus
    kept: np.ndarray | None = None
    name: str = "document"

    def documents(self) -> Iterator[Document]:
        """Those that take part."""
        own = self.corpus.documents()
        return own if self.kept is None else compress(own, self.kept)

    def __len__(self) -> int:
        return len(self.corpus) if self.kept is None else int(self.kept.sum())


@dataclass(frozen=True, eq=False)
class Together:
    """Several texts as one, for a vocabulary of all."""

    texts: Sequence[Text]

    def documents(self) -> Iterator[Document]:
        for text in self.texts:
            yield from text.documents()

    def __len__(self) -> int:
        return sum(map(len, self.texts))


def open_text(corpus: Corpus, out: Path, least_words: int, *, name: str, watch: Watch) -> Text:
    """The documents of at least so many words; somebody is told how many are left out. name: "corpus" or "general".

    Raises ValueError where none is left.
    """
    called = "document" if name == "corpus" else f"{name} document"
    if not least_words:
        return Text(corpus, name=called)
    path = out / DOCUMENTS / f"{name}-{least_words}-{corpus.hash[:12]}.bin"

    def find() -> np.ndarray:
        if not path.exists():
            kept = long_documents(corpus, least_words, watch=watch)
            path.parent.mkdir(exist_ok=True)
            files.write_bytes(path, kept.tobytes())
        return np.frombuffer(path.read_bytes(), bool)

    text = Text(corpus, ranks.first_then_all(find), called)
    told = f"{name}: {len(text):,} of {len(corpus):,} documents have at least {least_words} words; the rest is left out"
    watch(Progress("pretrain", 0, 0, "steps", {"note": told}))
    return text


@dataclass(frozen=True, eq=False)
class Phase:
    """Part of a run. rows: of the domain, and of general text where there is some, which makes `share` of all rows."""

    rows: Sequence[Rows]
    share: float

    @property
    def epoch_rows(self) -> float:
        """Rows, general ones too, until each of the domain was seen once."""
        return len(self.rows[0]) / (1 - self.share) if self.share else len(self.rows[0])

    @property
    def mean_tokens(self) -> float:
        """Of a row."""
        own = self.rows[0].mean_tokens
        return (1 - self.share) * own + self.share * self.rows[1].mean_tokens if self.share else own


class Reading:
    """The batches of a run, and its plan with the steps that its epochs or tokens take."""

    def __init__(
        self, recipe: Settings, texts: Sequence[Text], tokenizer: PreTrainedTokenizerBase, *, watch: Watch
    ) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.texts = texts
        corpora = [text.corpus for text in texts]
        self.tokens = [ranks.first_then_all(partial(each.tokens, tokenizer, watch=watch)) for each in corpora]
        lengths = [recipe.max_tokens, *([recipe.long_tokens] if recipe.long_share else [])]
        self.phases = [self._phase(longest) for longest in lengths]
        self.parts = [1 - recipe.long_share, recipe.long_share] if recipe.long_share else [1.0]

    @cached_property
    def plan(self) -> Plan:
        plan, parts = self.recipe.plan, list(zip(self.parts, self.phases, strict=True))
        if self.recipe.tokens:
            of_step = plan.batch * sum(part * phase.mean_tokens for part, phase in parts)
            if self.recipe.tokens < of_step:
                raise ValueError(
                    f"tokens = {self.recipe.tokens:,} is less than one step reads, about {of_step:,.0f} with "
                    f"plan.batch = {plan.batch}. Give more, or lower plan.batch"
                )
            return replace(plan, steps=math.ceil(self.recipe.tokens / of_step))
        if len(parts) == 1:
            return with_steps(plan, self.recipe.epochs, self.phases[0].epoch_rows)
        return with_steps(plan, self.recipe.epochs, 1 / sum(part / phase.epoch_rows for part, phase in parts))

    @cached_property
    def stream(self) -> Stream:
        steps = self.plan.steps
        turn = round(steps * self.parts[0])
        streams = [self._stream(phase, number, first_step=number * turn) for number, phase in enumerate(self.phases)]
        return streams[0] if len(streams) == 1 else in_turn(streams[0], streams[1], at=turn)

    def _phase(self, longest: int) -> Phase:
        rows = [self._rows(number, longest) for number in range(len(self.texts))]
        if len(rows) == 1:
            return Phase(rows, 0.0)
        stated = self.recipe.general_share
        return Phase(rows, len(rows[1]) / sum(map(len, rows)) if stated is None else stated)

    def _rows(self, number: int, longest: int) -> Rows:
        tokens, text = self.tokens[number], self.texts[number]
        whole_words = self.recipe.whole_words
        if self.recipe.next_sentence:
            return masked_pairs(
                tokens, self.tokenizer, longest=longest, whole_words=whole_words, documents=text.kept, name=text.name
            )
        return masked_segments(tokens, longest=longest, whole_words=whole_words, documents=text.kept, name=text.name)

    def _stream(self, phase: Phase, number: int, *, first_step: int) -> Stream:
        plan = self.plan
        rising = self.recipe.masking_schedule == "steps"
        rate = rising_rate(self.recipe.masking, plan.steps) if rising else self.recipe.masking
        if len(phase.rows) == 1:
            return sampled(phase.rows[0], even(plan.batch, first_step), seed=plan.seed, rate=rate, beside=2 * number)
        windows = shares(plan.batch, phase.share, first_step)
        return side_by_side(
            [
                sampled(rows, window, seed=plan.seed, rate=rate, beside=2 * number + place)
                for place, (rows, window) in enumerate(zip(phase.rows, windows, strict=True))
            ]
        )


def check_reading(recipe: Settings, *, general: bool) -> None:
    """Raises ValueError for settings out of range, or against each other. general: whether general text is given."""
    share = recipe.general_share
    rules = {
        "tokens": (recipe.tokens >= 0, "at least 0"),
        "general_share": (share is None or 0 < share < 1, "above 0 and below 1"),
        "long_share": (0 <= recipe.long_share < 1, "at least 0, and below 1"),
    }
    for name, (holds, wanted) in rules.items():
        if not holds:
            raise ValueError(f"{name} = {getattr(recipe, name)} is out of range: {wanted}")
    if recipe.tokens and recipe.epochs:
        raise ValueError(
            f"epochs = {recipe.epochs} and tokens = {recipe.tokens} both say how long the run is. Leave one of them 0"
        )
    if share is not None and not general:
        raise ValueError(f"general_share = {share}, but there is no general text. Add general=TEXTS, or leave it out")
    if recipe.long_share and recipe.long_tokens <= recipe.max_tokens:
        raise ValueError(
            f"long_tokens = {recipe.long_tokens} of the second phase are no more than max_tokens = {recipe.max_tokens} "
            "of the first. Raise long_tokens, or set long_share=0"
        )
    if recipe.masking_schedule == "steps" and recipe.masking > MOST_MASKED:
        raise ValueError(
            f"masking = {recipe.masking} rises to five thirds of it, more than all tokens. Set at most {MOST_MASKED}, "
            'or masking_schedule="constant"'
        )
    by_share = {"long_share": recipe.long_share, "masking_schedule": recipe.masking_schedule}
    shared = [name for name, none in (("long_share", 0), ("masking_schedule", "constant")) if by_share[name] != none]
    if shared and recipe.plan.schedule != "linear":
        name = shared[0]
        raise ValueError(
            f"plan.schedule = '{recipe.plan.schedule}' is for runs that may get longer, but {name} = "
            f"{by_share[name]!r} goes by "
            f'shares of the steps. Leave {name} out, or set plan.schedule="linear"'
        )


@dataclass(frozen=True)
class ScratchRecipe:
    """A BERT from nothing. The defaults are PubMedBERT's (section 6.1): BERT-base, 62,500 steps of 8,192 sequences."""

    corpus: Path = Path()  # as for mlm
    vocabulary: int = 30_522  # pieces at most
    lower: bool = True  # lower-case and drop accents
    layers: int | None = None  # None: 12, or what `size` has
    hidden: int | None = None  # width, a multiple of `heads`; none: 768, likewise
    heads: int | None = None  # attention heads; none: 12, likewise
    max_tokens: int = 128  # of a sequence
    masking: float = 0.15  # share of the tokens that are predicted
    whole_words: bool = True  # predict all tokens of a word or none
    dropout: float = 0.1  # of hidden states
    attention_dropout: float = 0.1  # of attention weights
    initializer_range: float = 0.02
    """Standard deviation of the random weights; about 1/sqrt(`hidden`) for narrow models."""
    epochs: float = 0.0  # passes over corpus; 0: tokens or plan.steps count
    plan: Plan = field(default_factory=lambda: Plan(steps=62_500, batch=8_192, rate=6e-4, warmup=0.1))
    tokens: int = 0  # so many in all, special ones included, on average over rows; 0: epochs or plan.steps count
    least_words: int = 0  # documents of fewer words, as white space parts them, are left out; the paper has 128
    kind: Kind = "wordpiece"  # of the vocabulary that is learned (vocabulary)
    tokenizer: str = ""  # take the vocabulary of this directory or hub id; "": learn one from the text
    model: str = ""  # go on with these weights and their vocabulary (the paper's mixed domain); "": random ones
    size: Size = ""  # layers, hidden and heads by a name (models/encoder.py)
    architecture: Architecture = "bert"  # of the encoder
    general: Path = Path()  # a second text to mix in, as for mlm
    general_share: float | None = None  # of the rows; None: as many as it has, as if both texts were one
    masking_schedule: Literal["constant", "steps"] = "constant"
    """`"steps"`: a third of `masking` in the first fifth of the steps, and as much more in each further one."""
    next_sentence: bool = False  # rows are pairs of stretches, of which half follow one another; term `nsp`
    long_tokens: int = 512  # max_tokens of the second phase
    long_share: float = 0.0  # of the steps, the last ones, which are the second phase; 0: none
    dev: Path = Path()  # text that nobody trains on, as for mlm: its loss goes into `curve.json`
    looks: int = 20  # at dev, evenly spaced, the last one at the end
    adversarial: float = 0.0  # weight of the adversarial term; 0: none
    adversarial_step: float = 1e-3  # as `step`, `radius` and `reading` of methods/adversarial.py
    adversarial_radius: float = 0.0  # as `radius` there; the paper's changes next to nothing
    adversarial_reading: Search = "paper"  # as `reading` there

    def __post_init__(self) -> None:
        check_masked(self)
        check_reading(self, general=self.general != Path())
        for name, least in (("least_words", 0), ("adversarial", 0), ("looks", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)} is out of range: at least {least}")
        _check_start(self)
        if self.next_sentence and (self.architecture != "bert" or self.kind == "bpe"):
            raise ValueError(
                "next_sentence = true tells two texts apart by token types, which neither a modernbert nor a "
                "vocabulary of kind bpe has. Set next_sentence=false"
            )
        if self.next_sentence and self.adversarial:
            raise ValueError(
                "next_sentence and adversarial cannot go together. Set next_sentence=false, or adversarial=0"
            )

    @property
    def shape(self) -> Shape:
        return shape_of(self.size, self.architecture, layers=self.layers, hidden=self.hidden, heads=self.heads)


def _check_start(recipe: ScratchRecipe) -> None:
    """Raises ValueError where what is stated of vocabulary or shape goes against what else is."""
    _ = recipe.shape
    learning, shape = ("vocabulary", "lower", "kind"), ("size", "layers", "hidden", "heads", "architecture")
    idle = {
        f"model = {recipe.model!r} comes with its own weights and vocabulary": (
            *("tokenizer", *shape, "initializer_range", *learning) * bool(recipe.model),
        ),
        f"tokenizer = {recipe.tokenizer!r} is a vocabulary, so none is learned": learning * bool(recipe.tokenizer),
        "adversarial = 0": tuple(f"adversarial_{name}" for name in ("step", "radius", "reading"))
        * (not recipe.adversarial),
    }
    usual = {field.name: field.default for field in fields(recipe)}
    for why, names in idle.items():
        for name in names:
            if (value := getattr(recipe, name)) != usual[name]:
                raise ValueError(f"{name} = {value!r} does nothing: {why}. Leave {name} out, or the other")
    if recipe.adversarial:
        Perturbation(recipe.adversarial_step, 1e-5, recipe.adversarial_radius, 1, recipe.adversarial_reading)


def adapt(recipe: ScratchRecipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Learn the vocabulary, pretrain, write `out/checkpoint` and with `dev` `out/curve.json`; a stopped run goes on, an
    ended one is returned.
    """
    corpora = {name: Corpus(at) for name in ("corpus", "general", "dev") if (at := getattr(recipe, name)) != Path()}
    corpora["corpus"] = Corpus(recipe.corpus)
    sources = {name: corpus.hash for name, corpus in corpora.items()}
    sources |= {name: identity(at) for name in ("model", "tokenizer") if (at := getattr(recipe, name))}
    # with any of these something hangs on how long the run is: which step is of which phase, or looked after
    longer = not (recipe.epochs or recipe.tokens or recipe.long_share or "dev" in corpora)
    if done := finished(out, recipe, sources, extends=longer and recipe.masking_schedule == "constant"):
        return done
    texts = [
        open_text(corpora[name], out, recipe.least_words, name=name, watch=watch)
        for name in ("corpus", "general")
        if name in corpora
    ]
    tokenizer = _tokenizer(recipe, texts, out, watch)
    model = model_of(recipe, tokenizer, watch=watch)
    objective = objective_of(recipe, model, watch=watch)
    reading = Reading(recipe, texts, tokenizer, watch=watch)
    _tell(reading, watch)
    curve = curve_of(recipe, model, tokenizer, reading.plan, out, watch=watch)
    if curve:
        curve.begin()
    run(
        objective,
        reading.stream,
        reading.plan,
        out,
        stage=STAGE,
        watch=watch,
        after=curve,
        looks=curve.steps if curve else (),
    )
    if curve:
        curve.write()
    if isinstance(objective, next_sentence.NextSentenceLoss):
        model = next_sentence.with_head(model, objective.head)
    done = write_checkpoint(out, model, tokenizer, recipe, sources)
    finish(out)
    return done


def configuration(recipe: ScratchRecipe) -> PreTrainedConfig:
    """What is known of the encoder before its vocabulary is."""
    return new_configuration(
        recipe.shape,
        recipe.architecture,
        longest=positions(recipe),
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
    )


def learned_tokenizer(
    texts: Documents, path: Path, *, size: int, lower: bool, longest: int, watch: Watch, kind: Kind = "wordpiece"
) -> PreTrainedTokenizerBase:
    """The tokenizer in `path`, learned from the texts by the first process that asks."""

    def learn() -> None:
        if not (path / files.MANIFEST).exists():
            tokenizer = train_tokenizer(texts, kind=kind, size=size, lower=lower, longest=longest, watch=watch)
            with files.new_directory(path) as temporary:
                tokenizer.save_pretrained(temporary)

    ranks.first_then_all(learn)
    return load_tokenizer(path)


def untrained(model: str, out: Path, *, seed: int) -> Checkpoint:
    """A checkpoint of the same architecture and vocabulary with random weights: what is pretraining worth?"""
    recipe = Untrained(model=model, seed=seed)
    sources = {"model": identity(model)}
    if done := finished(out, recipe, sources):
        return done
    return write_checkpoint(out, random_twin(model, seed=seed), load_tokenizer(model), recipe, sources)


@dataclass(frozen=True)
class Untrained:
    """Random weights in the shape of `model`."""

    model: str
    seed: int


def _tokenizer(recipe: ScratchRecipe, texts: Sequence[Text], out: Path, watch: Watch) -> PreTrainedTokenizerBase:
    """Given, or learned from all that is read."""
    if given := recipe.model or recipe.tokenizer:
        return load_tokenizer(given)
    return learned_tokenizer(
        Together(texts),
        out / "vocabulary",
        kind=recipe.kind,
        size=recipe.vocabulary,
        lower=recipe.lower,
        longest=positions(recipe),
        watch=watch,
    )


def _tell(reading: Reading, watch: Watch) -> None:
    """What is read, where that is more than the recipe says."""
    plan, phases = reading.plan, reading.phases
    if len(reading.texts) > 1 or len(phases) > 1 or reading.recipe.tokens:
        rows = "; ".join(
            f"{part:.0%} of {plan.steps:,} steps on rows of {phase.mean_tokens:.0f} tokens"
            + (f", {phase.share:.0%} of them general" if phase.share else "")
            for part, phase in zip(reading.parts, phases, strict=True)
        )
        watch(Progress(STAGE, 0, plan.steps, "steps", {"note": rows}))


CONTROL = "random weights"  # what a race calls `untrained`
_DECIDED = (  # by a race: what it pretrains on, and for how long
    "corpus", "general", "general_share", "dev", "tokenizer", "model", "tokens", "long_share", "least_words",
    "adversarial",
)  # fmt: skip


def check_raced(pretrain: ScratchRecipe) -> None:
    """Raises ValueError for settings that go against what a race gives it, or that no budget can cut."""
    for each in [each for each in fields(pretrain) if each.name in _DECIDED]:
        if (value := getattr(pretrain, each.name)) != each.default:
            raise ValueError(
                f"pretrain.{each.name} = {str(value)!r} is nothing for a race, which pretrains on --general alone, "
                "for pretrain.plan.steps or pretrain.epochs. Leave it out; or pretrain with `acclimate adapt scratch "
                f"{each.name}=...` and race with --model"
            )


# a small encoder on text as small as the demo's
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


METHOD = Method("scratch", ScratchRecipe, adapt)
