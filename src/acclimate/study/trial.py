"""Something to try a race's steps on before it starts: a model of the size, a sample of the texts, random rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from acclimate.core import ranks
from acclimate.core.types import NOT_PREDICTED, Batch, Document, Stream
from acclimate.methods.pretraining_start import positions
from acclimate.models.encoder import load_tokenizer, new_encoder, save_model
from acclimate.study.materials import Materials
from acclimate.study.recipe import Recipe
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training.loop import Step

SAMPLE = 1_500  # documents
PATIENCE = 6.0  # seconds; slow models are tried for three steps at least


def after_warming_up(steps: Iterator[Step]) -> list[Step]:
    """The steps after those that warm up: all there are, or fewer where they take long."""
    begun, done = time.perf_counter(), []
    for step in steps:
        done.append(step)
        if len(done) >= 3 and time.perf_counter() - begun > PATIENCE:
            break
    return done[2:]


def trial_model(recipe: Recipe, materials: Materials, place: Path) -> tuple[str | Path, PreTrainedTokenizerBase, float]:
    """A model to try (the given one, or one of the size to be pretrained), its tokenizer, seconds it took to make.

    place: a directory that all processes see; the first one makes the model there.
    """
    if materials.model is not None:
        return materials.model, load_tokenizer(materials.model), 0.0
    preparing = _make(recipe, materials, place) if ranks.is_first() else 0.0
    ranks.wait()
    return place / "model", load_tokenizer(place / "model"), preparing


def _make(recipe: Recipe, materials: Materials, place: Path) -> float:
    """The model of the size to be pretrained, in `place/model`; seconds that corpus and tokenizer took."""
    assert materials.general is not None
    begun = time.perf_counter()
    own = recipe.pretrain
    texts = write_corpus(sample(materials.general), place / "sample")
    tokenizer = train_tokenizer(texts, kind=own.kind, size=own.vocabulary, lower=own.lower)
    texts.tokens(tokenizer)
    preparing = time.perf_counter() - begun
    model = new_encoder(
        **vars(own.shape),
        vocabulary_size=own.vocabulary,
        longest=positions(own),
        pad=tokenizer.pad_token_id,
        seed=0,
        architecture=own.architecture,
    )
    save_model(model, tokenizer, place / "model")
    return preparing


def sample(corpus: Corpus) -> list[Document]:
    """Up to SAMPLE documents, evenly spaced."""
    return list(islice(corpus.documents(), 0, None, _every(corpus)))


def _every(corpus: Corpus) -> int:
    return max(1, len(corpus) // SAMPLE)


def sampled_share(corpus: Corpus) -> float:
    """The part of the corpus that the sample is."""
    return len(range(0, len(corpus), _every(corpus))) / len(corpus)


def sampled_characters(corpus: Corpus) -> int:
    return sum(len(document.text) for document in sample(corpus))


def random_rows(lengths: np.ndarray, batch: int, vocabulary: int) -> Stream:
    """Rows of random ids with lengths drawn from `lengths`, some of them to be predicted."""

    def stream(step: int) -> Batch:
        generator = np.random.default_rng(step)
        drawn = generator.choice(lengths, batch)
        ids = generator.integers(0, vocabulary, drawn.sum())
        masked = np.where(generator.random(len(ids)) < 0.15, ids, NOT_PREDICTED)
        offsets = np.concatenate([[0], np.cumsum(drawn)])
        return Batch(ids, offsets, {"labels": masked})

    return stream
