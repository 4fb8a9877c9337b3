"""What a race is planned with of methods/extend.py: its settings, and its value of `Method`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from acclimate.core.settings import Range, check_ranges
from acclimate.methods.method import Method, deferred
from acclimate.text.vectors.skipgram import Skipgram


@dataclass(frozen=True)
class ExtendRecipe:
    """More words for a model's vocabulary."""

    model: str = ""  # checkpoint to extend: a local directory or a hub id
    corpus: Path = Path()  # texts to find words in: raw text on the command line, or a prepared corpus
    words: Annotated[int, Range(least=1)] = 1000
    """Largest number of words to add, at least 1; ignored if word_list is set."""
    least: Annotated[int, Range(least=1)] = 10
    """A word of the corpus is added only if it occurs at least this number of times."""
    word_list: Path = Path()
    """Text file with one word or term per line, to be added instead of words of the corpus."""
    start: Literal["pieces", "vectors"] = "pieces"
    """How the embedding of a new word starts: as the mean of the embeddings of its pieces, or as its mapped fastText
    vector."""
    vectors: str = ""  # a fastText .bin or .vec for start=vectors; "": trained on corpus and vectors_corpus
    vectors_corpus: Path = Path()  # more text to train vectors on, in addition to `corpus`
    skipgram: Skipgram = field(default_factory=lambda: Skipgram(lower=True, threads=1))  # how vectors are trained

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.start == "pieces" and (self.vectors or self.vectors_corpus != Path()):
            raise ValueError(
                "vectors are given, but start = pieces does not use them. Set start=vectors, or remove them"
            )


METHOD = Method("extend", ExtendRecipe, deferred("acclimate.methods.extend", "adapt"))
