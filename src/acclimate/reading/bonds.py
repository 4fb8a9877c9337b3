"""What ties rows together that a random split would separate: one template, one text, or a pair in the other order.

A template is a text whose numbers and names are masked: `Anna Bell bought 3 pens.` and `Tom bought 12 pens.` share
`# bought # pens`. A name is a word in capitals, or one that the rows have more often with a capital letter than
without. So the languages without capitals have no names, and their numbers alone are masked.

Keys are strings that are compared exactly, so the work grows with the number of words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from acclimate.core.types import Example
from acclimate.text.overlap.words import normalised_words
from acclimate.text.scripts import divided_words, plain

Bond = Literal["template", "text"]
BONDS: tuple[Bond, ...] = get_args(Bond)  # values of `--group` that name no column
FEWEST_WORDS = 4  # unmasked words of a template, and words of a text that rows share
FEWEST_BYTES = 16  # of the unmasked words in UTF-8: `the # of # in # and #`, of titles, is no template
_MASK, _BETWEEN = "#", "|"  # no word has these characters
_DIGITS, _RUN = re.compile(r"\d+"), re.compile(f"{_MASK}(?: {_MASK})+")


def template_keys(examples: Sequence[Example]) -> list[str]:
    """Return the template of each row, of both its texts; "" if nothing is masked, if fewer words than masks or
    than FEWEST_WORDS are left, or if they are too short. A mask is for a run of numbers and names.
    """
    counts = Counter(word for example in examples for word in _words(example))
    masked = {word: _masked(word, counts) for word in counts}
    keys = []
    for example in examples:
        key = _RUN.sub(_MASK, " ".join(masked[word] for word in _words(example)))
        words = [word for word in key.split() if word != _BETWEEN]
        unmasked = [word for word in words if word != _MASK]
        masks = len(words) - len(unmasked)
        is_masked = masks > 0 or any("0" in word for word in words)
        is_long = len("".join(unmasked).encode()) >= FEWEST_BYTES and len(unmasked) >= max(FEWEST_WORDS, masks)
        keys.append(key if is_masked and is_long else "")
    return keys


def text_keys(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Return the words of the text and of the pair of each row, "" for those of fewer than FEWEST_WORDS words."""
    return [(_shareable(example.text), _shareable(example.pair or "")) for example in examples]


def grouped(examples: Sequence[Example], bond: Bond) -> list[Example]:
    """Return the examples with a group for those that the bond or their own group, such as a document, ties to others,
    directly or through a chain of rows.
    """
    bonds = [(key,) for key in template_keys(examples)] if bond == "template" else text_keys(examples)
    groups = [f"\n{example.group}" if example.group else "" for example in examples]
    keys = [(*row_keys, group) for row_keys, group in zip(bonds, groups, strict=True)]
    counts = Counter(key for row_keys in keys for key in {*row_keys} if key)
    parents = {key: key for key, count in counts.items() if count > 1}

    def root(key: str) -> str:
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    shared = [[key for key in row_keys if key in parents] for row_keys in keys]
    for first, *others in filter(None, shared):
        for other in others:
            parents[root(other)] = root(first)
    numbers: dict[str, int] = {}
    names = [f"{bond} {numbers.setdefault(root(own[0]), len(numbers) + 1)}" if own else "" for own in shared]
    return [replace(example, group=name) for example, name in zip(examples, names, strict=True)]


def _words(example: Example) -> list[str]:
    """Return the words of both texts, with capitals, and _BETWEEN between them."""
    first = divided_words(plain(example.text, lower=False))
    return [*first, _BETWEEN, *divided_words(plain(example.pair, lower=False))] if example.pair else first


def _masked(word: str, counts: Counter[str]) -> str:
    """Return the word in lower case, or the mask for a number or a name."""
    if _DIGITS.search(word):
        return _MASK if word.isascii() or word.isdecimal() else _DIGITS.sub("0", word.lower())
    lower = word.lower()
    if word == lower:
        return word
    in_capitals = len(word) > 1 and word.isupper()
    return _MASK if in_capitals or counts[word] > counts[lower] else lower


def _shareable(text: str) -> str:
    words = normalised_words(text)
    return words if len(divided_words(words)) >= FEWEST_WORDS else ""
