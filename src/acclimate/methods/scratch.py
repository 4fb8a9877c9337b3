"""Pretrain an encoder from random weights, with a vocabulary learned from the same text; or go on with given weights.

Gu et al. (2021), "Domain-Specific Language Model Pretraining for Biomedical NLP" (PubMedBERT), sections 2, 3, 6.1 and
6.4: the vocabulary first, then masked language modelling with whole words masked. The loss is that of
`training.objective.MaskedLanguageLoss`, or with next-sentence prediction that of methods/next_sentence.py, or with
adversarial pretraining (Table 9) that of methods/adversarial_loss.py.

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

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from acclimate.core import files, ranks
from acclimate.core.types import Checkpoint, Progress, Watch, unwatched
from acclimate.methods import next_sentence
from acclimate.methods.mlm import check_masked
from acclimate.methods.perturbation import Perturbation
from acclimate.methods.perturbation import Reading as Search
from acclimate.methods.pretraining_start import STAGE, curve_of, model_of, objective_of, positions
from acclimate.methods.pretraining_text import Reading, Text, Together, check_reading, open_text
from acclimate.models.encoder import load_tokenizer, new_configuration, random_twin
from acclimate.models.loading import identity
from acclimate.models.sizes import Architecture, Shape, Size, shape_of
from acclimate.text.corpus import Corpus
from acclimate.text.vocabulary import Documents, Kind, train_tokenizer
from acclimate.training.checkpoint import finish
from acclimate.training.plan import Plan
from acclimate.training.run import finished, run, write_checkpoint


@dataclass(frozen=True)
class Recipe:
    """A BERT from nothing. The defaults are PubMedBERT's (section 6.1): BERT-base, 62,500 steps of 8,192 sequences."""

    corpus: Path = Path()
    vocabulary: int = 30_522  # pieces at most
    lower: bool = True
    layers: int | None = None  # None: 12, or what `size` has
    hidden: int | None = None  # None: 768, likewise
    heads: int | None = None  # None: 12, likewise
    max_tokens: int = 128
    masking: float = 0.15
    whole_words: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.1
    initializer_range: float = 0.02  # standard deviation of the random weights
    epochs: float = 0.0  # passes over corpus; 0: tokens or plan.steps count
    plan: Plan = field(default_factory=lambda: Plan(steps=62_500, batch=8_192, rate=6e-4, warmup=0.1))
    tokens: int = 0  # so many in all, special ones included, on average over rows; 0: epochs or plan.steps count
    least_words: int = 0  # documents of fewer are left out (the paper: 128)
    kind: Kind = "wordpiece"  # of vocabulary
    tokenizer: str = ""  # take the vocabulary of this directory or hub id; "": learn one from the text
    model: str = ""  # go on with these weights and their vocabulary (the paper's mixed domain); "": random ones
    size: Size = ""  # layers, hidden and heads by a name (models/sizes.py)
    architecture: Architecture = "bert"
    general: Path = Path()  # a second text to mix in
    general_share: float | None = None  # of the rows; None: as many as it has, as if both texts were one
    masking_schedule: Literal["constant", "steps"] = "constant"  # "steps": rising by a third of `masking` each fifth
    next_sentence: bool = False  # pairs of stretches, half of which follow one another
    long_tokens: int = 512  # max_tokens of the second phase
    long_share: float = 0.0  # of the steps, the last ones, which are the second phase; 0: none
    dev: Path = Path()  # text that nobody trains on, for curve.json
    looks: int = 20  # at dev, evenly spaced, the last one at the end
    adversarial: float = 0.0  # weight of the adversarial term; 0: none
    adversarial_step: float = 1e-3  # as `step`, `radius` and `reading` of methods/adversarial.py
    adversarial_radius: float = 0.0
    adversarial_reading: Search = "paper"

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


def _check_start(recipe: Recipe) -> None:
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


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
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


def configuration(recipe: Recipe) -> PreTrainedConfig:
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


def _tokenizer(recipe: Recipe, texts: Sequence[Text], out: Path, watch: Watch) -> PreTrainedTokenizerBase:
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
