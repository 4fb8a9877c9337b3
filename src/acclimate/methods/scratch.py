"""Pretrain an encoder from random weights, with a WordPiece vocabulary learned from the same text.

Gu et al. (2021), "Domain-Specific Language Model Pretraining for Biomedical NLP" (PubMedBERT), section 3.2:
the vocabulary first, then masked language modelling with whole words masked. The loss is that of
`training.objective.MaskedLanguageLoss`.

Readings
  Sequence length is not stated in the paper; its cited code trains 90% of the steps on 128 tokens. Here: all of them.
Deviations
  No next-sentence prediction, which the paper keeps only to compare with earlier models (its section 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transformers import BertConfig, PreTrainedTokenizerBase

from acclimate.core import files, ranks
from acclimate.core.types import Checkpoint, Watch, unwatched
from acclimate.methods.mlm import check_masked, train_masked
from acclimate.models.encoder import load_tokenizer, new_encoder, random_twin
from acclimate.models.loading import identity
from acclimate.text.corpus import Corpus
from acclimate.text.vocabulary import Documents, train_wordpiece
from acclimate.training.checkpoint import finish
from acclimate.training.plan import Plan
from acclimate.training.run import finished, write_checkpoint


@dataclass(frozen=True)
class Recipe:
    """A BERT from nothing. The defaults are PubMedBERT's (section 6.1): BERT-base, 62,500 steps of 8,192 sequences."""

    corpus: Path = Path()
    vocabulary: int = 30_522  # word pieces at most
    lower: bool = True
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    max_tokens: int = 128
    masking: float = 0.15
    whole_words: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.1
    initializer_range: float = 0.02  # standard deviation of the random weights
    epochs: float = 0.0  # 0: plan.steps counts
    plan: Plan = field(default_factory=lambda: Plan(steps=62_500, batch=8_192, rate=6e-4, warmup=0.1))

    def __post_init__(self) -> None:
        check_masked(self)


def adapt(recipe: Recipe, out: Path, *, watch: Watch = unwatched) -> Checkpoint:
    """Learn the vocabulary, pretrain, write `out/checkpoint`; a stopped run goes on, an ended one is returned."""
    corpus = Corpus(recipe.corpus)
    sources = {"corpus": corpus.hash}
    if done := finished(out, recipe, sources):
        return done
    tokenizer = learned_tokenizer(
        corpus, out / "vocabulary", size=recipe.vocabulary, lower=recipe.lower, longest=positions(recipe), watch=watch
    )
    tokens = ranks.first_then_all(lambda: corpus.tokens(tokenizer, watch=watch))
    model = new_encoder(
        layers=recipe.layers,
        hidden=recipe.hidden,
        heads=recipe.heads,
        vocabulary_size=len(tokenizer),
        longest=positions(recipe),
        pad=tokenizer.pad_token_id,
        seed=recipe.plan.seed,
        hidden_dropout=recipe.dropout,
        attention_dropout=recipe.attention_dropout,
        initializer_range=recipe.initializer_range,
    )
    train_masked(model, tokens, recipe, out, stage="pretrain", watch=watch)
    done = write_checkpoint(out, model, tokenizer, recipe, sources)
    finish(out)
    return done


def configuration(recipe: Recipe) -> BertConfig:
    """What is known of the encoder before its vocabulary is."""
    return BertConfig(
        max_position_embeddings=positions(recipe),
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.attention_dropout,
    )


def positions(recipe: Recipe) -> int:
    """How many tokens the encoder can read at once."""
    return max(512, recipe.max_tokens)


def learned_tokenizer(
    texts: Documents, path: Path, *, size: int, lower: bool, longest: int, watch: Watch
) -> PreTrainedTokenizerBase:
    """The tokenizer in `path`, learned from the texts by the first process that asks."""

    def learn() -> None:
        if not (path / files.MANIFEST).exists():
            tokenizer = train_wordpiece(texts, size=size, lower=lower, longest=longest, watch=watch)
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
