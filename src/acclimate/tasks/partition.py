"""Which modules go to which split, and which documents must go because another side holds nearly the same text."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from acclimate.core.types import SPLITS, Split
from acclimate.text.overlap import GRAM, WORD

SHARES: dict[Split, float] = {"train": 0.60, "dev": 0.15, "test": 0.25}


def shuffled(names: Sequence[str]) -> list[str]:
    """The names in an order that looks random and depends on nothing but the names."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())


def split_modules(sizes: Mapping[str, int]) -> dict[str, Split]:
    """A split for each module, so that the splits' documents come near SHARES; each gets a module if there are three.

    sizes: module -> number of its documents. Large modules are placed first, each where most is lacking; among modules
    of about a size (the same power of two) a hash of the name decides the order.
    """
    lacking = {split: SHARES[split] * sum(sizes.values()) for split in SPLITS}
    order = sorted(shuffled(list(sizes)), key=lambda module: -sizes[module].bit_length())
    where: dict[str, Split] = {}
    for module in order:
        empty = set(SPLITS) - set(where.values())
        allowed = empty if len(order) - len(where) <= len(empty) else SPLITS
        split = max((split for split in SPLITS if split in allowed), key=lambda split: lacking[split])
        where[module] = split
        lacking[split] -= sizes[module]
    return where


def hold_out(sizes: Mapping[str, int], share: float, *, keep: Set[str]) -> set[str]:
    """Modules that together hold a share of all or a little less, chosen by a hash of their names, none of `keep`."""
    left = share * sum(sizes.values())
    chosen = set()
    for module in shuffled([module for module in sizes if module not in keep]):
        if sizes[module] <= left:
            chosen.add(module)
            left -= sizes[module]
    return chosen


def near_duplicates(candidates: Sequence[str], references: Sequence[str]) -> list[bool]:
    """For each candidate, whether a reference has the same words, or shares most of the shorter one's text.

    Most: more than half of the distinct runs of GRAM words in the shorter of the two occur in the other. A text of
    fewer than GRAM words is only compared as a whole.
    """
    ids: dict[str, int] = {}
    reference_words = [_words(text, ids) for text in references]
    candidate_words = [_words(text, ids) for text in candidates]
    reference_grams = [_grams(words) for words in reference_words]
    candidate_grams = [_grams(words) for words in candidate_words]
    # an array operation finds the few grams that both sides have; only their texts are looked at one by one
    shared = np.intersect1d(_joined(reference_grams), _joined(candidate_grams))
    of_reference = _texts_with(shared, reference_grams)
    holders: dict[int, list[int]] = {}
    for number, grams in of_reference.items():
        for gram in grams:
            holders.setdefault(gram, []).append(number)
    whole = {words.tobytes() for words in reference_words}
    copied = [words.tobytes() in whole for words in candidate_words]
    for number, grams in _texts_with(shared, candidate_grams).items():
        common = Counter(reference for gram in grams for reference in holders[gram])
        size = len(np.unique(candidate_grams[number]))
        copied[number] |= any(
            2 * count > min(size, len(np.unique(reference_grams[reference]))) for reference, count in common.items()
        )
    return copied


def _words(text: str, ids: dict[str, int]) -> npt.NDArray[np.uint64]:
    """The text's words as numbers; `ids` numbers the words met so far."""
    return np.array([ids.setdefault(word, len(ids) + 1) for word in WORD.findall(text.lower())], dtype=np.uint64)


def _grams(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each run of GRAM words."""
    count = max(len(words) - GRAM + 1, 0)
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(GRAM):
        # a polynomial modulo 2**64 in an odd multiplier (that of the splitmix generator)
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + words[place : place + count]
    return hashes


def _texts_with(shared: npt.NDArray[np.uint64], grams: Sequence[npt.NDArray[np.uint64]]) -> dict[int, set[int]]:
    """The texts that have any of the shared grams, by number, and which of them."""
    owners = np.repeat(np.arange(len(grams)), [len(each) for each in grams])
    joined = _joined(grams)
    kept = np.isin(joined, shared)
    texts: dict[int, set[int]] = {}
    for owner, gram in zip(owners[kept].tolist(), joined[kept].tolist(), strict=True):
        texts.setdefault(owner, set()).add(gram)
    return texts


def _joined(arrays: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    return np.concatenate([np.zeros(0, dtype=np.uint64), *arrays])
