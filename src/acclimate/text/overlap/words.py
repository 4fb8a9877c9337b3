"""The words, runs of words and runs of characters by which texts are compared."""

from __future__ import annotations

import re
from collections.abc import Hashable, Set

GRAM = 13  # consecutive words that two texts must share to count as copied
SHINGLE = 5  # characters of the n-grams whose sets are compared for near-duplicates
WORD = re.compile(r"\w+")


def normalised_words(text: str) -> str:
    """Return the words in lower case, joined by single spaces, without layout and punctuation."""
    return " ".join(WORD.findall(text.lower()))


def jaccard(one: Set[Hashable], other: Set[Hashable]) -> float:
    """Return the size of the intersection divided by that of the union; 0 if both are empty."""
    shared = len(one & other)
    return shared / max(len(one) + len(other) - shared, 1)
