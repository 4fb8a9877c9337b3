"""Rows that a corpus has, made by their numbers: its segments, with tokens masked for a language model to fill in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from acclimate.core.types import Batch
from acclimate.text.masking import Replacement, mask_words
from acclimate.text.segments import segments
from acclimate.text.tokens import Tokens


class Rows(Protocol):
    """What a corpus has, one row of it a number."""

    @property
    def mean_tokens(self) -> float:
        """Of a row, special tokens included."""
        ...

    def __len__(self) -> int: ...

    def __call__(self, chosen: np.ndarray, *, rate: float, generator: np.random.Generator) -> Batch:
        """The rows with these numbers, in this order, masked: tokens["labels"], and names such as `document 17`."""
        ...


@dataclass(frozen=True, eq=False)
class Segments:
    """Rows of one segment each.

    boundaries   (S + 1,) of all segments of the corpus (text/segments.py)
    kept         (R,) ascending: which of them are rows
    whole_words  False: every token is a word of its own
    name         of a document, before its number
    """

    tokens: Tokens
    boundaries: np.ndarray
    kept: np.ndarray
    replacement: Replacement
    whole_words: bool
    name: str = "document"

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def mean_tokens(self) -> float:
        """Of a row, special tokens included."""
        return float(np.mean(np.diff(self.boundaries)[self.kept])) + self.tokens.frame

    def __call__(self, chosen: np.ndarray, *, rate: float, generator: np.random.Generator) -> Batch:
        tokens, numbers = self.tokens, self.kept[chosen]
        begins = self.boundaries[numbers]
        lengths = self.boundaries[numbers + 1] - begins
        offsets = np.concatenate([[0], np.cumsum(lengths + tokens.frame)])
        source, target = runs(begins, lengths), runs(offsets[:-1] + len(tokens.prefix), lengths)
        ids = np.empty(offsets[-1], np.int64)
        ids[target] = tokens.ids[source]
        ids[offsets[:-1, None] + np.arange(len(tokens.prefix))] = tokens.prefix
        ids[offsets[1:, None] - len(tokens.suffix) + np.arange(len(tokens.suffix))] = tokens.suffix
        starts = np.ones(len(ids), bool)
        starts[target] = tokens.word_starts[source]
        ids, labels = mask_words(
            ids,
            offsets,
            word_starts=starts,
            rate=rate,
            replacement=self.replacement,
            generator=generator,
            whole_words=self.whole_words,
        )
        documents = documents_of(tokens, begins)
        names = [f"{self.name} {document}" for document in documents.tolist()]
        return Batch(ids, offsets, tokens={"labels": labels}, names=names, pad=tokens.pad)


def masked_segments(
    tokens: Tokens,
    *,
    longest: int,
    whole_words: bool,
    masked: float = 0.8,
    random: float = 0.1,
    documents: np.ndarray | None = None,
    name: str = "document",
) -> Segments:
    """The segments of a corpus as rows.

    longest    tokens of a row at most, special tokens included
    masked, random  shares of the predicted tokens that become the mask and a random token
    documents  (D,) bool, which of them take part; None: all

    Raises ValueError where a setting is out of range.
    """
    boundaries = segments(tokens, longest)
    replacement = Replacement(tokens.mask, tokens.vocabulary, tokens.special, masked=masked, random=random)
    return Segments(tokens, boundaries, kept_of(tokens, boundaries, documents), replacement, whole_words, name)


def kept_of(tokens: Tokens, boundaries: np.ndarray, documents: np.ndarray | None) -> np.ndarray:
    """(R,) int64 ascending: the segments of the documents that take part, (D,) bool or None for all."""
    if documents is None:
        return np.arange(len(boundaries) - 1)
    return np.flatnonzero(documents[documents_of(tokens, boundaries[:-1])])


def documents_of(tokens: Tokens, begins: np.ndarray) -> np.ndarray:
    """(n,) the number of the document that each of these tokens stands in."""
    numbers: np.ndarray = np.searchsorted(tokens.documents, begins, side="right") - 1
    return numbers


def runs(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(sum of lengths,) the places of all runs one after the other, each from its begin on."""
    rank = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # of a place in its run
    places: np.ndarray = rank + np.repeat(begins, lengths)
    return places
