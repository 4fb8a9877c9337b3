"""Settings of word vectors by skip-gram. They are read without numba, which trains the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from acclimate.core.settings import AboveZero, Count, Positive, Range, check_ranges

LARGEST = (1 << 31) - 1  # of a number that the compiled loops take


@dataclass(frozen=True)
class Skipgram:
    """Skip-gram with negative sampling and n-grams; the defaults are the official tool's, but for `dim` (there 100)."""

    dim: Positive = 300  # length of a vector
    epochs: Positive = 5  # passes over the text
    min_count: Positive = 5
    """A word that occurs less often in the text gets no vector; if the given file has one for it, that stays."""
    rate: AboveZero | None = None
    """Learning rate at the start; it falls to 0 in proportion to the words read. None: .05, or .025 if vectors
    continue from a .bin file."""
    window: Positive = 5
    """Most words to either side that a word is trained to predict; the number is drawn for each word, from 1 to
    this."""
    negatives: Positive = 5  # wrong words for each right one, drawn in proportion to the square root of their counts
    shortest: Positive = 3  # fewest characters of an n-gram, "<" and ">" included
    longest: Count = 6  # most characters of an n-gram; 0: no n-grams
    buckets: Annotated[int, Range(least=1, most=LARGEST)] = 2_000_000
    """Number of rows shared by n-grams; each has `dim` numbers of 4 bytes."""
    sample: AboveZero = 1e-4  # words above this share of the text are skipped at random
    lower: bool = False  # lower-case the text first
    seed: Annotated[int, Range(least=0, most=LARGEST)] = 0  # seed of the first vectors and of the sampled words
    threads: Count = 0
    """Number of threads; 0: one per processor. With 1, equal runs give equal bytes."""

    def __post_init__(self) -> None:
        check_ranges(self, "skipgram.")
        if self.longest and self.shortest > self.longest:
            raise ValueError(
                f"n-grams of {self.shortest} to {self.longest} characters: shortest must be at most longest. "
                "Set longest=0 for none"
            )
