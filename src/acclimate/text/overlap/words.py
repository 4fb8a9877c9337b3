"""The words, runs of words and runs of characters by which texts are compared."""

from __future__ import annotations

from collections.abc import Hashable, Set

from acclimate.text.scripts import plain, words_in

GRAM = 13  # consecutive words that two texts must share to count as copied
SHINGLE = 5  # characters of the n-grams whose sets are compared for near-duplicates


def normalised_words(text: str) -> str:
    """Return the words (`scripts.words_in`) in lower case, joined by single spaces, without layout and punctuation."""
    text = plain(text)
    return " ".join(words_in(text).findall(text))


def jaccard(one: Set[Hashable], other: Set[Hashable]) -> float:
    """Return the size of the intersection divided by that of the union; 0 if both are empty."""
    shared = len(one & other)
    return shared / max(len(one) + len(other) - shared, 1)
