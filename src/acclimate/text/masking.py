"""Mask rows for masked language models: choose the tokens of a ragged batch to predict, and replace them.

Devlin et al. 2019, section 3.1 and appendix A; whole words as in BERT's `create_pretraining_data.py`.
Legend: B rows, N tokens of all rows together, W words of all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from acclimate.core.types import NOT_PREDICTED

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIFTHS = 5  # stages of a rising rate


@dataclass(frozen=True)
class Replacement:
    """The replacement of a predicted token: the mask, a random ordinary token, or the token itself.

    mask        the mask's id
    vocabulary  1 + the largest id
    special     ids that are never predicted and never sampled
    masked, random  shares of the predicted tokens, in [0, 1]; the others stay as they are

    Raises ValueError if the shares are impossible, or if random tokens are wanted but all ids are special.
    """

    mask: int
    vocabulary: int
    special: Sequence[int]
    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1 + 1e-9:
            raise ValueError(
                f"masked={self.masked} and random={self.random} must be shares of the predicted tokens. Choose "
                "numbers of at least 0 that add up to at most 1"
            )
        if self.random and len(set(self.special)) >= self.vocabulary:
            raise ValueError(f"all {self.vocabulary} ids are special, so no random token can be drawn. Set random=0")

    def ordinary(self) -> np.ndarray:
        """Return (vocabulary,) bool, True for ids that are not special."""
        ordinary = np.ones(self.vocabulary, bool)
        ordinary[list(self.special)] = False
        return ordinary


def replacement_of(tokenizer: PreTrainedTokenizerBase) -> Replacement:
    """Return BERT's shares with a tokenizer's ids. Raises ValueError if it has no mask token."""
    if tokenizer.mask_token_id is None:
        raise ValueError(f"{type(tokenizer).__name__} has no mask_token. Set tokenizer.mask_token to one of its tokens")
    vocabulary = 1 + max(tokenizer.get_vocab().values())
    return Replacement(tokenizer.mask_token_id, vocabulary, sorted(set(tokenizer.all_special_ids)))


def rising_rate(rate: float, steps: int) -> Callable[[int], float]:
    """Return a function from the step (from 0) to the share of the tokens to predict, with `rate` as its mean.

    The share is a third of `rate` in the first fifth of the steps, and a third more in each further fifth (PubMedBERT,
    2.3: .05 to .25 for .15). Raises ValueError if the last fifth would predict more than all tokens.
    """
    if not 0 < rate <= 0.6:
        raise ValueError(
            f"a masking rate that rises from a third of {rate} to five thirds is outside (0, 1]. Choose at most 0.6"
        )
    return lambda step: round(rate * (1 + step * FIFTHS // steps) / 3, 12)  # without rounding .15 / 3 is not .05


def mask_words(
    ids: np.ndarray,
    offsets: np.ndarray,
    *,
    word_starts: np.ndarray,
    rate: float,
    replacement: Replacement,
    generator: np.random.Generator,
    whole_words: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (N,) int64 ids with predicted tokens replaced, and (N,) int64 labels: their old ids, else NOT_PREDICTED.

    ids, offsets  of a ragged batch, (N,) and (B + 1,)
    word_starts   (N,) bool, True if a token begins a word; a row's first token always does
    rate          in (0, 1]: a row of n tokens that are not special gets a budget of max(1, round(rate * n)) tokens
    whole_words   False: tokens are masked one by one

    Words are taken in random order as long as they fit into the rest of the row's budget; those that do not fit are
    skipped, as in BERT. If the words that fit the whole budget do not fill it together, each token of the row's longer
    words counts as a word, so a text without spaces between words gets its budget, too. Special tokens are not part of
    words, so a row without other tokens does not change. The replacement is sampled for each token separately.
    Raises ValueError if the rate is outside (0, 1].
    """
    if not 0 < rate <= 1:
        raise ValueError(f"masking rate {rate} is outside (0, 1]; choose for example 0.15, about every seventh token")
    ordinary = replacement.ordinary()
    places = np.flatnonzero(ordinary[ids])  # of the tokens that may be predicted
    # words are numbered over the whole batch with special tokens, then renumbered without words of special tokens only
    begins = np.ones(len(ids), bool) if not whole_words else np.array(word_starts, bool)
    begins[offsets[:-1][np.diff(offsets) > 0]] = True
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[places]
    budget = np.maximum(1, np.rint(rate * np.bincount(rows, minlength=len(offsets) - 1))).astype(np.int64)
    firsts, word_of_place, word_lengths = _numbered(np.cumsum(begins)[places])
    longer = word_lengths > budget[rows[firsts]]
    fitting = np.bincount(rows[firsts], weights=np.where(longer, 0, word_lengths), minlength=len(budget))
    divided = longer & (fitting < budget)[rows[firsts]]
    if divided.any():
        begins[places[divided[word_of_place]]] = True
        firsts, word_of_place, word_lengths = _numbered(np.cumsum(begins)[places])
    row_of_word = rows[firsts]
    chosen = _chosen(row_of_word, word_lengths, budget, generator)
    predicted = places[chosen[word_of_place]]
    return _replaced(ids, predicted, replacement, ordinary, generator)


def _numbered(words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first place of each different number (W,), the numbers without gaps (n,), and their counts (W,).

    words: (n,), ascending
    """
    fresh = np.ones(len(words), bool)
    fresh[1:] = words[1:] != words[:-1]
    first = np.flatnonzero(fresh)
    return first, np.cumsum(fresh) - 1, np.diff(np.append(first, len(words)))


def _chosen(rows: np.ndarray, lengths: np.ndarray, budget: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return (W,) bool, True for words that the greedy loop takes.

    rows     (W,) ascending: the row of each word
    lengths  (W,) its tokens
    budget   (B,) tokens that each row may spend

    The loop runs over all rows at once. It takes every row's words as far as they fit one after the other, then drops
    words longer than the rest of the budget, such as each row's first that did not fit, until no word remains.
    """
    chosen = np.zeros(len(rows), bool)
    order = _shuffled(rows, len(budget), generator)
    budget_left = budget.copy()
    waiting = order
    while len(waiting):
        row, length = rows[waiting], lengths[waiting]
        counts = np.bincount(row, minlength=len(budget_left))
        first = (np.cumsum(counts) - counts)[row]  # where the row's waiting words begin
        spent = np.cumsum(length)
        spent -= spent[first] - length[first]
        fits = spent <= budget_left[row]
        places = waiting[fits]
        chosen[places] = True
        budget_left -= np.bincount(rows[places], weights=lengths[places], minlength=len(budget_left)).astype(np.int64)
        waiting = waiting[~fits & (length <= budget_left[row])]
    return chosen


def _shuffled(rows: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return (W,), the words' numbers row by row, in random order within each of the `count` rows; rows ascend.

    Row, random bits and number share 64 bits: sorting these values takes a fifth of the time of a lexsort, and no two
    are equal, so the order does not depend on how a machine sorts.
    """
    number_bits, row_bits = np.uint64(len(rows).bit_length()), np.uint64(count.bit_length())
    chance = generator.integers(1 << 64, size=len(rows), dtype=np.uint64) >> (number_bits + row_bits)
    numbers = np.arange(len(rows), dtype=np.uint64)
    keys = (rows.astype(np.uint64) << (np.uint64(64) - row_bits)) | (chance << number_bits) | numbers
    keys.sort()
    return (keys & ((np.uint64(1) << number_bits) - np.uint64(1))).astype(np.int64)


def _replaced(
    ids: np.ndarray,
    predicted: np.ndarray,
    replacement: Replacement,
    ordinary: np.ndarray,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    masked = np.array(ids, np.int64)
    labels = np.full(len(ids), NOT_PREDICTED, np.int64)
    labels[predicted] = masked[predicted]
    chance = generator.random(len(predicted))
    masked[predicted[chance < replacement.masked]] = replacement.mask
    drawn = predicted[(chance >= replacement.masked) & (chance < replacement.masked + replacement.random)]
    if len(drawn):
        candidates = np.flatnonzero(ordinary)
        masked[drawn] = candidates[generator.integers(len(candidates), size=len(drawn))]
    return masked, labels
