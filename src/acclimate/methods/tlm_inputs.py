"""What TLM's first stage trains on and starts from: vocabulary, encoder, and the two kinds of batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import ranks
from acclimate.core.types import Batch, Document, Progress, Stream, Watch
from acclimate.methods.scratch import learned_tokenizer
from acclimate.methods.tuning import training_rows
from acclimate.models.classifier import TOKENS
from acclimate.models.encoder import (
    dropout_known,
    load_masked_language_model,
    load_tokenizer,
    longest_input,
    new_encoder,
)
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus
from acclimate.text.masking import replacement_of
from acclimate.text.streams import interleaved, masked_rows_stream, masked_stream
from acclimate.text.words import word_starts_in_rows

if TYPE_CHECKING:
    from acclimate.methods.tlm import Recipe


def internal_tokens(recipe: Recipe, task: Prepared) -> int:
    """The longest row of the task in stage 1."""
    return recipe.internal_tokens or task.max_tokens


class Inputs:
    """Of one run in `out`; the vocabulary is learned there where none is given."""

    def __init__(self, recipe: Recipe, task: Prepared, out: Path, watch: Watch) -> None:
        self.recipe, self.task, self.watch = recipe, task, watch
        self.corpus = Corpus(recipe.corpus) if recipe.reads_corpus else None
        # stage 2 reads rows as long as the task's
        longest = max(recipe.max_tokens, internal_tokens(recipe, task), task.max_tokens)
        self.positions = max(512, longest)  # of an encoder with random weights
        if recipe.model and (most := longest_input(recipe.model)) and longest > most:
            raise ValueError(
                f"{recipe.model} reads {most} tokens at once, but rows may have {longest}. Lower max_tokens or "
                "internal_tokens, or prepare the task with shorter texts"
            )
        if recipe.whole_words and task.kind == TOKENS:
            raise ValueError("whole words cannot be masked in sentences of tagged words. Set whole_words=false")
        given = recipe.model or recipe.tokenizer
        self.tokenizer = load_tokenizer(given) if given else self._learned(out / "vocabulary")

    def encoder(self) -> PreTrainedModel:
        """The masked language model to start from."""
        recipe = self.recipe
        if recipe.model and not dropout_known(recipe.model):
            told = {"note": "a family whose dropout cannot be set: left as it is"}
            self.watch(Progress("joint", 0, recipe.plan.steps, "steps", told))
            return load_masked_language_model(recipe.model)
        if recipe.model:
            return load_masked_language_model(
                recipe.model, hidden_dropout=recipe.dropout, attention_dropout=recipe.attention_dropout
            )
        return new_encoder(
            layers=recipe.layers,
            hidden=recipe.hidden,
            heads=recipe.heads,
            vocabulary_size=len(self.tokenizer),
            longest=self.positions,
            pad=self.tokenizer.pad_token_id,
            seed=recipe.plan.seed,
            hidden_dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
            initializer_range=recipe.initializer_range,
        )

    def stream(self) -> Stream:
        """rho_1 external batches, then one internal; or only one kind."""
        recipe, corpus = self.recipe, self.corpus
        shared: dict[str, Any] = {"batch": recipe.plan.batch, "seed": recipe.plan.seed, "rate": recipe.masking}
        if corpus is None:
            return self._internal(shared)
        tokens = ranks.first_then_all(lambda: corpus.tokens(self.tokenizer, watch=self.watch))
        external = masked_stream(tokens, longest=recipe.max_tokens, whole_words=recipe.whole_words, **shared)
        return external if recipe.external_only else interleaved(external, self._internal(shared), rho_1=recipe.rho_1)

    def _internal(self, shared: dict[str, Any]) -> Stream:
        longest = internal_tokens(self.recipe, self.task)
        rows, _ = training_rows(replace(self.task, max_tokens=longest), self.tokenizer)
        starts = self._word_starts(rows, longest) if self.recipe.whole_words else None
        return masked_rows_stream(rows, replacement=replacement_of(self.tokenizer), word_starts=starts, **shared)

    def _word_starts(self, rows: Batch, longest: int) -> np.ndarray:
        train = self.task.examples("train")
        texts, pairs = [one.text for one in train], [one.pair or "" for one in train]
        encoded = self.tokenizer(texts, pairs if any(pairs) else None, truncation=True, max_length=longest)
        starts = word_starts_in_rows(encoded.encodings, list(zip(texts, pairs, strict=True)))
        assert len(starts) == len(rows.ids)
        return starts

    def _learned(self, path: Path) -> PreTrainedTokenizerBase:
        return learned_tokenizer(
            _Texts(self.corpus, self.task),
            path,
            size=self.recipe.vocabulary,
            lower=self.recipe.lower,
            longest=self.positions,
            watch=self.watch,
        )


@dataclass(frozen=True)
class _Texts:
    """What a vocabulary is learned from: the corpus, then the training examples' texts."""

    corpus: Corpus | None
    task: Prepared

    def documents(self) -> Iterator[Document]:
        train = self.task.examples("train")
        texts = (Document(one.id, f"{one.text} {one.pair or ''}") for one in train)
        return chain(self.corpus.documents() if self.corpus else (), texts)

    def __len__(self) -> int:
        return (len(self.corpus) if self.corpus else 0) + self.task.sizes["train"]
