"""The words, runs of words and runs of characters by which texts are compared."""

from __future__ import annotations

import re
from collections.abc import Hashable, Set

from acclimate.text.scripts import SIGN, ascii_words, plain, words_in

GRAM = 13  # consecutive words that two texts must share to count as copied
SHORT = 1000  # characters of a text in which signs may count
_IDEOGRAPHS = 42_000  # of CJK's extension B
_NO_WORD = re.compile(r"[^\w\s]")  # signs, marks and others: fast
_NO_SIGNS = bytes(point for point in range(128) if not _NO_WORD.match(chr(point)))  # of ASCII
_REPEATED = re.compile(r"(\W)\1+")
SHINGLE = 5  # characters of the n-grams whose sets are compared for near-duplicates


def normalised_words(text: str) -> str:
    """Return the words (`scripts.words_in`) in lower case, joined by single spaces, without layout and punctuation."""
    text = plain(text)
    return " ".join(ascii_words(text) if text.isascii() else words_in(text).findall(text))


def with_signs(text: str) -> str:
    """Return the text to compare: with a letter for each sign if words are a small part of it, else as it is.

    So `3 + 4` and `3 - 4` differ, and so do texts of emoji. Words are a small part if signs, repetitions apart, are
    more than a third of what is seen, in a text of at most SHORT characters, which spares documents the count. The
    letters are rare ideographs, 0x20000 + code point modulo _IDEOGRAPHS.
    """
    if len(text) > SHORT:
        return text
    seen = len(text) - text.count(" ")
    outside = len(text.encode().translate(None, _NO_SIGNS)) if text.isascii() else len(_NO_WORD.findall(text))
    if 3 * outside <= seen or 3 * len(signs := SIGN.findall(text)) <= seen:
        return text
    different = len(SIGN.findall(_REPEATED.sub(r"\1", text)))
    if 3 * different <= len("".join(text.split())) - len(signs) + different:
        return text
    return SIGN.sub(lambda sign: chr(0x20000 + ord(sign[0]) % _IDEOGRAPHS), text)


def compared_words(text: str) -> str:
    """Return `normalised_words` of `with_signs`, which is equal for texts that count as equal."""
    return normalised_words(with_signs(text))


def jaccard(one: Set[Hashable], other: Set[Hashable]) -> float:
    """Return the size of the intersection divided by that of the union; 0 if both are empty."""
    shared = len(one & other)
    return shared / max(len(one) + len(other) - shared, 1)
